#!/usr/bin/python3
"""Approvals over the real broker and a real PostgreSQL: what the target says beforehand, what is near to what was
signed, tries after a refusal, quorums that cannot be met, keys that verify their person, keys of our own.

What the field cases say of approvals (APR-01 to APR-04, INC-03) stands in 65-field-cases.t; here the records that
came with them later.
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from authenticator import UP, UV, SecurityKey
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, must, run, wait_for
from libpq import Conn, request_of

tap = Tap()
temp = Temp("approval")
pg = Pg(temp)
TABLES = ("orders", "big", "slow", "alarm", "over", "alone", "careful")
pg.admin("".join("CREATE TABLE %s(id int PRIMARY KEY, v int); INSERT INTO %s SELECT g, g FROM generate_series(1,%d) g;"
                 "ALTER TABLE %s OWNER TO agent;" % (t, t, 20000 if t == "big" else 50, t) for t in TABLES))
pg.log_statements()
st = Stack(temp, pg, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    BASE = json.load(f)
TARGET = BASE["targets"]["crm-db"]
PEOPLE = json.loads(json.dumps(BASE["people"]))
sk = SecurityKey("p256")
sk2 = SecurityKey("ed25519")
PEOPLE["dana"]["keys"].append(sk.line())
PEOPLE["omar"]["keys"].append(sk2.line())
native = temp.path + "/omar.key"
r = subprocess.run([CLI, "key", "new", native, "--fd", "0"], input="correct horse", capture_output=True, text=True, check=False)
tap.ok(r.returncode == 0 and r.stdout.startswith("cofferdam-ed25519 "), "key new prints the line for the policy", r.stderr)
tap.eq((os.stat(native).st_mode & 0o777, open(native + ".pub", encoding="ascii").read()), (0o600, r.stdout),
       "the secret half is for its owner alone")
tap.has(run([CLI, "key", "show", native]).stdout, r.stdout.strip(), "key show prints the line again")
tap.ok(run([CLI, "key", "new", native, "--no-passphrase"]).returncode != 0, "a key that is there is not written over")
PEOPLE["omar"]["keys"].append(r.stdout.strip())
PEOPLE["ada"] = {"roles": ["only"], "login": ["unix:ada"], "keys": []}
ASK = {"approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "10m"}
RULES = BASE["rules"] + [
    dict(ASK, id="careful", require={"relation": ["public.careful"]}, verify=True, approve=[{"role": "dba", "count": 1}]),
    {"id": "no-alarm", "forbid": {"relation": ["public.alarm", "public.over"], "effects": {"any": ["drop"]}}, "override": "never"},
    dict(ASK, id="vault", require={"target": "vault-db", "effects": {"any": ["@destructive"]}}, verify=True),
    dict(ASK, id="short", require={"relation": ["public.slow"], "effects": {"any": ["@destructive"]}}, within="1s")]
st.build_policy({"serial": 2, "people": PEOPLE, "rules": RULES, "attempts": {"alarm": 2, "end": 6},
                 "targets": {"vault-db": TARGET, "crm-db": dict(TARGET, preview="count"), "plan-db": dict(TARGET, preview="plan"),
                             "mute-db": TARGET}})
st.start()
hr = HostRun(st)


def connect(target="crm-db"):
    return Conn(hr.dsn(pg, target=target))


def shown(rid):
    return json.loads(st.cli("show", rid, "--json").stdout)


def preview(r):
    return shown(request_of(r)).get("preview")


def approve(rid, *people):
    return [st.sign("approve", rid, p).returncode for p in people]


c = connect()

# --- preview --------------------------------------------------------------------------------------------
r = c.query("DELETE FROM orders WHERE id <= 3")
rid = request_of(r)
tap.ok(re.fullmatch(r"plan-rows=\d+ count=3", preview(r) or ""), "the plan's estimate and the exact count stand in the request",
       shown(rid))
tap.has(st.cli("show", rid).stdout, "count=3", "a person is shown them")
out = st.sign("approve", rid, "dana").stdout
tap.ok(re.search(r"^preview: plan-rows=\d+ count=3$", out, re.M), "and they stand in what is signed", out)
tap.eq(approve(rid, "omar"), [0], "a second person signs")
before = len(st.records("outcome"))
tap.eq(c.query("DELETE FROM orders WHERE id <= 3").tag, "DELETE 3", "it runs")
done = [x["data"] for x in st.records("outcome")][-1]
tap.eq((done.get("preview"), done["rows"]), (shown(rid)["preview"], 3), "the outcome has the truth beside the preview")
asked = [x["data"] for x in st.records("preview")]
tap.eq((len(asked), asked[0]["origin"], asked[0]["id"], asked[0]["count"]), (1, "broker", rid, True),
       "PG-13: what the broker asked is on the record, as its own")
seq = {x["type"]: i for i, x in enumerate(st.records()) if x["data"].get("id") == rid}
tap.ok(seq["preview"] < seq["approval.request"], "before people are asked")
log = pg.server_log()
tap.ok("SELECT count(*) FROM (SELECT 1 FROM orders WHERE id <= 3 LIMIT 10001) AS counted" in log, "the count was built from the tree",
       log[-1500:])
tap.ok(log.index("BEGIN READ ONLY") < log.index("EXPLAIN (FORMAT JSON) DELETE FROM orders") < log.index("DELETE FROM orders WHERE id <= 3\n"
       if "DELETE FROM orders WHERE id <= 3\n" in log else "ROLLBACK"), "inside a transaction that cannot write")
r = c.execute_params("DELETE FROM orders WHERE id > $1 AND v < $2", [10, 13]) if hasattr(c, "execute_params") else None
if r is None:
    c.prepare("d", "DELETE FROM orders WHERE id > $1 AND v < 13")
    r = c.execute("d", 10)
tap.ok(re.fullmatch(r"plan-rows=\d+ count=2", preview(r) or ""), "parameters are counted with their values", shown(request_of(r)))
r = c.query("UPDATE big SET v = 0 WHERE id = 5 OR id > 0")
tap.ok((preview(r) or "").endswith("count=over-10000"), "a large count ends at its limit", preview(r))
r = c.query("DELETE FROM orders USING big WHERE orders.id = big.id")
tap.ok(re.fullmatch(r"plan-rows=\d+", preview(r) or ""), "two tables have a plan, and no count", preview(r))
r = c.query("DELETE FROM orders WHERE v = ANY (SELECT v FROM big WHERE v < 5)")
tap.ok((preview(r) or "").endswith("count=1"), "a sub-query in the condition is counted", preview(r))
r = c.query("DELETE FROM orders WHERE nothing = 1")
tap.eq(preview(r), "plan-failed=42703", "what has no plan says so, and goes before people")
tap.eq(c.query("SELECT count(*) FROM orders").rows[0][0], "47", "the session goes on after it")
r = c.query("TRUNCATE big")
tap.eq(preview(r), None, "what has no plan at all is not asked about")
c.query("BEGIN")
r = c.query("DELETE FROM orders WHERE id = 30")
tap.eq(preview(r), None, "nothing is asked inside the client's transaction")
c.query("ROLLBACK")
for target, want in (("plan-db", r"plan-rows=1"), ("mute-db", None)):
    other = connect(target)
    got = preview(other.query("DELETE FROM orders WHERE id = 31"))
    tap.ok(got is None if want is None else re.fullmatch(want, got or ""), "target %s: as its policy says" % target, got)

# --- what is near to what was signed ------------------------------------------------------------------------
c = connect("mute-db")


def mismatches():
    return [x["data"] for x in st.records("approval.mismatch")]


r = c.query("DELETE FROM orders WHERE id = 40")
armed = request_of(r)
tap.eq(approve(armed, "dana", "omar"), [0, 0], "a delete is armed")
for what, sql, field in (("another id", "DELETE FROM orders WHERE id = 41", "operation"),
                         ("the same with a comment", "DELETE FROM orders WHERE id = 40 --", "operation")):
    n = len(mismatches())
    r = c.query(sql)
    got = mismatches()[n:]
    tap.eq([(x["field"], x["id"]) for x in got], [(field, armed)], "%s is not it, and the record says in what" % what)
    tap.ok(request_of(r) not in (None, armed), "it is a request of its own", r)
n = len(mismatches())
connect("plan-db").query("DELETE FROM orders WHERE id = 40")
tap.eq([x["field"] for x in mismatches()[n:]], ["target"], "the same text elsewhere differs in its target")
n = len(mismatches())
c.query("DROP TABLE careful")
tap.eq(mismatches()[n:], [], "something else altogether is no near miss")
c.query("BEGIN")
c.query("DELETE FROM orders WHERE id = 40")
tap.eq([x["field"] for x in mismatches()[n:]], ["session"], "inside a transaction it differs in its session")
c.query("ROLLBACK")
tap.eq(c.query("DELETE FROM orders WHERE id = 40").tag, "DELETE 1", "the exact statement runs")

# --- tries after a refusal ------------------------------------------------------------------------------------
def alarms():
    return [x["data"] for x in st.records("run.alarm")]


def attempts():
    return [a["decision"].get("attempt") for a in st.acts()]


c = connect("mute-db")
for i in range(4):
    c.query("DROP TABLE alarm -- %d" % i)
tap.eq(attempts()[-4:], [None, 1, 2, 3], "tries at what was refused are counted")
tap.eq([(x["attempts"], x["target"]) for x in alarms()], [(2, "mute-db")], "after two of them an alarm is on the record")
c.query("SELECT count(*) FROM alarm")
tap.eq(attempts()[-1], None, "what is let through is no try")
c.query("DROP TABLE over")
tap.eq(attempts()[-1], None, "nor is another object")
r = c.query("DELETE FROM slow WHERE id = 1")
rid = request_of(r)
again = c.query("DELETE FROM slow WHERE id = 1")
tap.eq((request_of(again), attempts()[-1]), (rid, None), "sending again what is pending is no try")
wait_for(lambda: shown(rid)["state"] == "expired", 10)
tap.has(st.cli("show", rid).stdout, "expired", "which expires")
c.query("TRUNCATE slow")
tap.eq(attempts()[-1], 1, "another way to what nobody answered is one")

rid = request_of(c.query("DELETE FROM alarm WHERE id = 1"))
c.query("DROP TABLE alarm")
n = attempts()[-1]
again = c.query("DELETE FROM alarm WHERE id = 1")
tap.eq((n is not None, request_of(again), attempts()[-1]), (True, rid, None), "nor is what is pending a try after another one was refused")

# --- a quorum that cannot be met -----------------------------------------------------------------------------
st.reload({"people": PEOPLE, "attempts": {"alarm": 2, "end": 6},
           "targets": {"crm-db": dict(TARGET, preview="count"), "mute-db": TARGET, "plan-db": TARGET, "vault-db": TARGET},
           "rules": RULES + [dict(ASK, id="alone", require={"relation": ["public.alone"]}, approve=[{"role": "oncall", "count": 2}])]})
c = connect("mute-db")
r = c.query("DELETE FROM alone WHERE id = 1")
tap.has(r.hint or "", "nobody can give this approval", "the client is told at once that nobody can approve")
listed = json.loads(st.cli("pending", "--json").stdout)
tap.eq([(u["target"], u["needs"]) for u in listed["unmet"]], [("mute-db", "dba:1, oncall:2")], "pending says so, too")
tap.ok(not [p for p in listed["pending"] if "alone" in p["show"]], "and there is no request to sign")

# --- verified signatures -----------------------------------------------------------------------------------------
r = c.query("DELETE FROM careful WHERE id = 1")
rid = request_of(r)
out = st.sign("approve", rid, "dana")
tap.ok(out.returncode != 0 and "user verification" in out.stdout, "a key of software is not enough where the rule says verify", out.stdout)


def statement(rid, person, role):
    """What `approve` prints before it signs."""
    out = run([CLI, "approve", rid, "--as", person, "--role", role, "--state", st.state], stdin=subprocess.DEVNULL).stdout
    return re.search(r"^the statement that is signed:\n(.*?^end\n)", out, re.S | re.M).group(1).encode()


def send(rid, person, role, signature):
    import struct
    import socket
    from harness import ipc_version
    args = json.dumps({"id": rid, "person": person, "role": role, "signature": signature}).encode()
    body = struct.pack(">I", ipc_version()) + b"".join(struct.pack(">I", len(x)) + x for x in (b"approve", args))
    s = socket.socket(socket.AF_UNIX)
    s.connect(st.state + "/run/control.sock")
    s.sendall(struct.pack(">IHH", len(body), 95, 0) + body)
    data = b""
    while len(data) < 8 or len(data) < 8 + struct.unpack(">I", data[:4])[0]:
        data += s.recv(65536)
    code, n = struct.unpack(">II", data[8:16])
    return code, data[16:16 + n].decode()


text = statement(rid, "dana", "dba")
code, says = send(rid, "dana", "dba", sk.sshsig(text))
tap.ok(code != 0 and "user verification" in says, "a touched key that did not verify its person neither", says)
code, says = send(rid, "dana", "dba", sk.sshsig(text, flags=0))
tap.ok(code != 0 and "not touched" in says, "one without touch neither", says)
code, says = send(rid, "dana", "dba", sk.sshsig(text, flags=UP | UV))
tap.ok(code == 0, "one that verified its person is", says)
g = [x["data"] for x in st.records("approval.grant")][-1]
tap.eq((g["flags"], g["counter"]), (5, 3), "flags and counter are on the record")
tap.eq([x["data"]["reason"] for x in st.records("approval.rejected")][-3:], ["verification", "verification", "signature"],
       "so is what did not count")
tap.ok(st.sign("approve", rid, "omar").returncode != 0 and shown(rid)["state"] == "pending", "the other role needs a verified key as well")
code, says = send(rid, "omar", "oncall", sk2.sshsig(statement(rid, "omar", "oncall"), flags=UP | UV))
tap.ok(code == 0 and json.loads(says)["state"] == "armed", "with that it is armed", says)
tap.eq(c.query("DELETE FROM careful WHERE id = 1").tag, "DELETE 1", "and runs")
tap.eq([g["verified"] for g in st.acts(verdict="allow")[-1]["decision"]["grants"]], [True, True], "the decision says that they were verified")

v = connect("vault-db")
v.query("BEGIN")
rid = request_of(v.query("DELETE FROM orders WHERE id = 20"))
v.query("ROLLBACK")
send(rid, "dana", "dba", sk.sshsig(statement(rid, "dana", "dba"), flags=UP | UV))
send(rid, "omar", "oncall", sk2.sshsig(statement(rid, "omar", "oncall"), flags=UP | UV))
v.query("BEGIN")
tap.eq(v.query("DELETE FROM orders WHERE id = 20").tag, "DELETE 1", "inside a transaction, too")
tap.eq(v.query("COMMIT").tag, "COMMIT", "and its COMMIT stands on the same verified signatures")

# --- keys of our own ------------------------------------------------------------------------------------------------
r = c.query("DELETE FROM orders WHERE id = 45")
rid = request_of(r)


def typed(argv, *lines):
    """The command under a terminal of its own, which is given these lines when it asks."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    out = b""
    for line in lines:
        while b"secret: " not in out.split(b"\n")[-1]:
            out += os.read(fd, 4096)
        os.write(fd, line.encode() + b"\n")
        out += b"\n"
    try:
        while True:
            part = os.read(fd, 4096)
            if not part:
                break
            out += part
    except OSError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode(errors="replace")


SIGN = [CLI, "approve", rid, "--as", "omar", "--key", native, "--yes", "--state", st.state]
status, out = typed(SIGN, "wrong")
tap.ok(status != 0 and "passphrase is wrong" in out, "a wrong passphrase signs nothing", out)
status, out = typed(SIGN, "correct horse")
tap.ok(status == 0 and "missing dba:1" in out, "a key of `cofferdam key new` signs, its passphrase typed on the terminal", out)
r2 = run([CLI, *SIGN[1:]], stdin=subprocess.DEVNULL, start_new_session=True)
tap.ok(r2.returncode != 0 and "there is none" in r2.stdout, "without a terminal it says so", r2.stdout)
tap.eq(approve(rid, "dana"), [0], "an SSH key signs beside it")
tap.eq(c.query("DELETE FROM orders WHERE id = 45").tag, "DELETE 1", "and it runs")
with open(native, encoding="ascii") as f:
    damaged = f.read().replace("argon2id 3", "argon2id 4", 1)
with open(native + ".bad", "w", encoding="ascii") as f:
    f.write(damaged)
status, out = typed([x if x != native else native + ".bad" for x in SIGN], "correct horse")
tap.ok(status != 0 and "was changed" in out, "what stands open in the file is under its seal", out)

# --- what a terminal is shown ------------------------------------------------------------------------------------------
EVIL = "DELETE FROM orders WHERE id = 46 -- \x1b[2J\u202e" + " " * 200 + "signed by dana as dba \u200b" + "x" * 300
r = c.query(EVIL)
evil = request_of(r)
for what, argv in (("show", ("show", evil)), ("pending", ("pending",)), ("approve", ("approve", evil, "--as", "dana"))):
    out = st.cli(*argv, stdin=subprocess.DEVNULL).stdout
    tap.ok("\x1b" not in out and "\u202e" not in out and "\u200b" not in out, "%s: no control and no hidden character reaches the terminal" % what, repr(out[-600:]))
    body = out.split("the statement that is signed")[0]
    tap.ok(all(not line.startswith("signed by dana") for line in body.splitlines()) and max(map(len, body.splitlines())) <= 180,
           "%s: nor does a long line begin anew at the left" % what, max(map(len, body.splitlines())))
text = st.cli("show", evil).stdout
tap.ok(re.search(r"^now +.*two-people", text, re.M), "show says what the policy says of it now", text)
table = st.cli("pending").stdout
tap.ok(re.search(r"^REQUEST +STATE +AGE +LEFT +TARGET +EFFECTS +MISSING$", table, re.M) and re.search(r"^%s +pending +\d+s +\d+m +mute-db +delete +dba:1, oncall:1$" % evil, table, re.M),
       "pending is a table with age and who is missing", table)
tap.has(table, "NOBODY CAN APPROVE", "and what nobody can approve stands in it")
r = st.cli("deny", evil, "--as", "dana", "--key", st.key("dana"), "--yes", "--reason", "Not during the audit.")
tap.ok(r.returncode == 0 and re.search(r"^note: Not during the audit\.$", r.stdout, re.M), "a reason to deny is part of what is signed", r.stdout)
tap.has(st.cli("show", evil).stdout, "denied by dana: Not during the audit.", "and is shown")
tap.eq([x["data"]["note"] for x in st.records("approval.deny")], ["Not during the audit."], "and recorded")
tap.ok(st.cli("approve", evil, "--as", "omar", "--reason", "x").returncode == 2, "to approve there is no reason to give")

pid, fd = pty.fork()
if pid == 0:
    os.execv(CLI, [CLI, "pending", "--watch", "--state", st.state])
seen = b""
while seen.count(b"\x1b[H\x1b[2J") < 2:
    seen += os.read(fd, 65536)
os.write(fd, b"\x03")
try:
    while os.read(fd, 65536):
        pass
except OSError:
    pass
tap.eq(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "pending --watch draws it again, until it is interrupted")

# --- at the same moment ------------------------------------------------------------------------------------------------
r = c.query("DELETE FROM orders WHERE id = 46")
rid = request_of(r)
both = [subprocess.Popen([CLI, "approve", rid, "--state", st.state, "--as", p, "--key", st.key(p), "--yes"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") for p in ("dana", "omar") * 4]
out = [(b.communicate(timeout=60)[0], b.returncode) for b in both]
tap.ok(all(rc == 0 for _, rc in out), "two people who sign at the same moment, again and again, both count", out)
tap.eq(c.query("DELETE FROM orders WHERE id = 46").tag, "DELETE 1", "and the action passes")
r = st.cli("revoke", "r1")
tap.ok(r.returncode == 2 and "RUN [--reason TEXT]" in r.stdout, "revoke says how a run is named, too", r.stdout)

# --- from the person's own machine, by ssh --------------------------------------------------------------------------------
from harness import free_port  # noqa: E402

home, sshd_dir = temp.path + "/home", temp.path + "/sshd"
for d in (home, sshd_dir, home + "/bin"):
    os.makedirs(d, mode=0o700, exist_ok=True)
for name in ("host", "door"):
    must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", sshd_dir + "/" + name])
port = free_port()
door = open(sshd_dir + "/door.pub", encoding="ascii").read().strip()
with open(sshd_dir + "/authorized_keys", "w", encoding="ascii") as f:
    f.write('restrict,command="%s control-pipe --state %s" %s\n' % (CLI, st.state, door))
with open(sshd_dir + "/config", "w", encoding="ascii") as f:
    f.write("ListenAddress 127.0.0.1\nPort %d\nHostKey %s/host\nAuthorizedKeysFile %s/authorized_keys\nStrictModes no\nUsePAM no\n"
            "PidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n" % (port, sshd_dir, sshd_dir))
with open(home + "/known_hosts", "w", encoding="ascii") as f:
    f.write("[127.0.0.1]:%d %s\n" % (port, " ".join(open(sshd_dir + "/host.pub", encoding="ascii").read().split()[:2])))
with open(home + "/config", "w", encoding="ascii") as f:
    f.write("Host *\nIdentityFile %s/door\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile %s/known_hosts\nStrictHostKeyChecking yes\n" % (sshd_dir, home))
# The person's ssh, with a configuration of the test's own.
with open(home + "/bin/ssh", "w", encoding="ascii") as f:
    f.write("#!/bin/sh\nexec /usr/bin/ssh -F %s/config \"$@\"\n" % home)
os.chmod(home + "/bin/ssh", 0o755)
if os.getuid() == 0:
    os.makedirs("/run/sshd", exist_ok=True)
sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", sshd_dir + "/config"], stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL, stderr=open(sshd_dir + "/log", "wb"))
agent_out = must(["ssh-agent", "-s"])
agent = dict(re.findall(r"(SSH_\w+)=([^;]+);", agent_out))
try:
    import socket
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 20)
    import getpass
    VIA = "ssh://%s@127.0.0.1:%d%s" % (getpass.getuser(), port, st.state)
    env = dict(os.environ, PATH=home + "/bin:" + os.environ["PATH"], **agent)
    must(["ssh-add", "-q", st.key("dana")], env=env)
    os.makedirs(home + "/keys", exist_ok=True)
    with open(home + "/keys/dana.pub", "w", encoding="ascii") as f:
        f.write(st.pub("dana") + "\n")

    def via(*argv):
        return run([CLI, *argv, "--via", VIA], env=env, stdin=subprocess.DEVNULL)

    r = c.query("DELETE FROM orders WHERE id = 47")
    rid = request_of(r)
    out = via("pending")
    tap.ok(out.returncode == 0 and rid in out.stdout, "pending over ssh", out.stdout + open(sshd_dir + "/log", encoding="utf-8").read())
    out = via("show", rid)
    tap.ok(out.returncode == 0 and "DELETE FROM orders WHERE id = 47" in out.stdout, "show over ssh", out.stdout)
    out = via("approve", rid, "--as", "dana", "--key", home + "/keys/dana.pub", "--yes")
    tap.ok(out.returncode == 0 and "missing oncall:1" in out.stdout, "approve over ssh, by a key that only the ssh-agent has", out.stdout)
    out = via("approve", rid, "--as", "omar", "--key", st.key("omar"), "--yes")
    tap.ok(out.returncode == 0 and "armed" in out.stdout, "and by a key file on this side", out.stdout)
    tap.eq(c.query("DELETE FROM orders WHERE id = 47").tag, "DELETE 1", "then it runs")
    out = via("freeze", "start", "--reason", "from afar", "--as", "dana", "--key", home + "/keys/dana.pub", "--yes")
    fid = re.search(r"freeze ([a-z2-7]{26}): in force", out.stdout)
    tap.ok(out.returncode == 0 and fid, "the stop button works over ssh, too", out.stdout)
    tap.has(via("freeze", "status").stdout, "from afar", "and says what is frozen")
    out = [via("freeze", "lift", fid.group(1), "--as", p, "--key", st.key(p), "--yes") for p in ("dana", "omar")]
    tap.has(out[1].stdout, "freeze %s: over" % fid.group(1), "two people lift it from there")
    r2 = run([CLI, "pending", "--via", "http://127.0.0.1"], env=env)
    tap.ok(r2.returncode == 2 and "--via must be ssh://" in r2.stdout, "what is no ssh:// is no place, nor a directory", r2.stdout)
    r2 = run([CLI, "freeze", "status", "--state", st.state, "--via", VIA], env=env)
    tap.ok(r2.returncode == 2 and "give one of them" in r2.stdout, "one broker is asked, not one of two", r2.stdout)
    for bad in ("ssh://-oProxyCommand=id/x", "ssh://a@-x", "ssh://host:0", "ssh://host/$(id)", "ssh://user name@host", "ssh://"):
        r2 = run([CLI, "pending", "--via", bad], env=env, stdin=subprocess.DEVNULL)
        tap.ok(r2.returncode == 2 and ("--via must be" in r2.stdout or "not a plain one" in r2.stdout), "%s is no place" % bad, r2.stdout)
    r2 = run(["/usr/bin/ssh", "-F", home + "/config", "-p", str(port), "127.0.0.1", "id"], stdin=subprocess.DEVNULL)
    tap.ok("uid=" not in r2.stdout, "the login's key opens this door and no other", r2.stdout)
finally:
    os.kill(int(agent["SSH_AGENT_PID"]), 15)
    sshd.terminate()
    sshd.wait()

# --- the run ends after too many tries; who counts them may die ------------------------------------------------------------
def killed(who):
    """A connection after that process of the broker was killed and another has taken its place."""
    pid = st.child(who)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: st.child(who) not in (0, pid) and st.cli("status").returncode == 0, 30)

    def attempt():
        again = connect("mute-db")
        return again if again.up and again.query("SELECT 1").ok else None
    return wait_for(attempt, 30, 0.2)


c = connect("mute-db")
for i in range(3):
    c.query("DROP TABLE over -- %d" % i)
tap.eq(attempts()[-3:], [1, 2, 3], "tries are counted")
for i, who in ((4, "core"), (5, "writer")):
    c = killed(who)
    c.query("DROP TABLE over -- %d" % i)
    tap.eq(attempts()[-1], i, "APR-01: and on, though %s is killed" % who)
c = killed("core")
c.query("DROP TABLE orders")
tap.eq(attempts()[-1], None, "another object is none after it either")
tap.eq(st.records("run.end"), [], "and the run goes on")
try:
    c.query("DROP TABLE over -- 6")
except Exception:  # pylint: disable=broad-except
    pass
ended = wait_for(lambda: [x["data"] for x in st.records("run.end")], 15)
tap.eq([(x["status"], x["text"]) for x in ended or []], [("attempts", "6 tries at what was refused, the policy's limit")],
       "APR-01: after as many tries as the policy says the run ends")
hr = HostRun(st)
c = connect("mute-db")

# --- all of it survives a restart --------------------------------------------------------------------------------------
r = c.query("DELETE FROM careful WHERE id = 2")
kept = request_of(r)
was = shown(kept)
hr.end()
st.stop()
st.start()
tap.eq(st.verify().returncode, 0, "the log verifies")

# --- requests whose run is over ----------------------------------------------------------------------------------------
def told(rid):
    out = st.cli("show", rid)
    data = json.loads(st.cli("show", rid, "--json").stdout)
    return data, " ".join(out.stdout.split())


def last(type_, **want):
    return next(x["data"] for x in reversed(st.records(type_)) if all(x["data"].get(k) == v for k, v in want.items()))


data, text = told(kept)
tap.eq((data["state"], data["ended"]["reason"], data["run_end"]["status"], data["rule"]), ("void", "run_ended", last("run.end")["status"], was["rule"]),
       "show tells of a request whose run is over from the log: how it ended, and its run")
tap.ok("state void" in text and "run_ended" in text and "which ended 20" in text and "replay timeline " + was["run"] in text, "in words, too", text)
used = last("approval.consumed")
data, text = told(used["id"])
done = last("outcome", action=used["action"])
tap.eq((data["state"], data["ended"]["action"], data["outcome"]["status"], data["outcome"]["rows"], [g["person"] for g in data["grants"]]),
       ("consumed", used["action"], done["status"], done["rows"],
        [x["data"]["person"] for x in st.records("approval.grant") if x["data"]["id"] == used["id"]]), "one that was used: by which action, who signed, what came of it")
tap.ok("signed by " + data["grants"][0]["person"] in text and "outcome " + done["status"] in text, "in words, too", text)
data, text = told(last("approval.expired")["id"])
tap.ok(data["state"] == "expired" and "ended" in data and data["grants"] == [] and "state expired" in text, "one that nobody answered", text)
no = last("approval.deny")
data, text = told(no["id"])
tap.ok(data["state"] == "denied" and data["ended"]["person"] == no["person"] and " by " + no["person"] in text, "one that somebody denied: by whom", text)
r = st.cli("show", "a" * 26)
tap.ok(r.returncode == 1 and "nor has the log one" in r.stdout, "of one that never was it says so", r.stdout)
r = st.cli("approve", used["id"], "--as", "dana", "--key", st.key("dana"), "--yes")
tap.ok(r.returncode == 1 and "no request" in r.stdout, "what the log tells of cannot be signed for", r.stdout)
replay = st.cli("replay", "whatif")
tap.ok(replay.returncode == 0, "and replays to the same verdicts", replay.stdout[-800:])
st.stop()
tap.done()
