#!/usr/bin/python3
"""The broker and its witnesses: what needs k of them is sent when k have cosigned a head that covers its record, and
refused with names where not; a fork and a rollback are refused by them, kept, told and stop what needs them; whoever is
killed in between, nothing is lost and no fork is cosigned. Both verifiers say who witnessed what."""
import atexit
import glob
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import sanitizers
from harness import BUILD, CLI, Http, HostRun, Pg, Stack, Tap, Temp, free_port, must, run, wait_for
from origin import Ca, Origin

HERE = os.path.dirname(os.path.abspath(__file__))
tap, temp = Tap(), Temp("witness-broker")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1,50) g; ALTER TABLE t OWNER TO agent")
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "two-people", "require": {"effects": {"any": ["@destructive"]}}, "within": "30m", "use_within": "30m",
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}]}]
NEEDS = {"@change": "witness(2)", "delete": "witness(2)", "within": "5s"}
ca = Ca(temp.path + "/ca")
cert, cert_key = ca.issue("127.0.0.1")
api = Origin(temp.path, "api.test", ca=ca)
# Under asan the witness ends with a status of its own: who may not be traced cannot look for leaks.
ENV = dict(os.environ, ASAN_OPTIONS=sanitizers.no_leaks())


class Witness:
    def __init__(self, n):
        self.dir, self.name, self.port, self.p = "%s/w%d" % (temp.path, n), "witness.test/w%d" % n, free_port(), None
        self.key = must([CLI, "witness", "init", self.dir, self.name]).strip()

    def start(self):
        self.p = subprocess.Popen([CLI, "witness", "serve", self.dir, "--listen", "127.0.0.1:%d" % self.port, "--cert", cert, "--key", cert_key],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(temp.path + "/witness.log", "ab"), env=ENV)
        wait_for(lambda: self.p.poll() is not None or self.up())

    def up(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
            return True
        except OSError:
            return False

    def kill(self):
        if self.p is not None and self.p.poll() is None:
            self.p.kill()
            self.p.wait()

    def conf(self, **more):
        c = {"key": self.key, "url": "https://127.0.0.1:%d" % self.port, "ca_file": "keys/witness-ca.pem", "networks": ["127.0.0.0/8"], "timeout": 5}
        c.update(more)
        return {k: v for k, v in c.items() if v is not None}

    def head(self):
        with open(glob.glob(self.dir + "/log/*/head")[0], encoding="utf-8") as f:
            text = f.read()
        return int(text.split("\n")[1]) if text else 0

    def evidence(self):
        return glob.glob(self.dir + "/log/*/evidence-*")


W = [Witness(n) for n in (1, 2, 3)]
atexit.register(lambda: [w.kill() for w in W])
st = Stack(temp, pg, {"rules": RULES, "effect_requires": NEEDS}, start=False, http={"api": Http(api)})
LOG = st.state + "/log"
shutil.copy(ca.pem, st.state + "/keys/witness-ca.pem")
os.chmod(st.state + "/keys/witness-ca.pem", 0o644)
with open(st.state + "/keys/log/vkey", encoding="ascii") as f:
    VKEY = f.read().strip()
KEYS = temp.path + "/keys.txt"
with open(KEYS, "w", encoding="ascii") as f:
    f.write("\n".join([VKEY] + [w.key for w in W]) + "\n")


def configure(witnesses):
    with open(st.state + "/broker.json", encoding="utf-8") as f:
        b = json.load(f)
    b["witnesses"] = witnesses
    with open(st.state + "/broker.json", "w", encoding="utf-8") as f:
        json.dump(b, f)


def start_says(*witnesses):
    configure(list(witnesses))
    try:
        st.start()
    except RuntimeError as e:
        return str(e)
    finally:
        st.stop()
    return "started"


def status():
    return json.loads(run([CLI, "status", "--json", "--state", st.state]).stdout or "{}")


def seen(w):
    return next((x for x in status().get("witnesses", []) if x["name"] == w.name), {})


def well(*ws):
    return all("since" not in seen(w) and seen(w).get("size", 0) > 0 for w in ws)


def last_action():
    return [r for r in st.records("action") if r["data"]["dispatch"]["sent"]][-1]


def verify(*args):
    return run([CLI, "log", "verify", "--keys", KEYS, *args, LOG])


def verify_py(*args):
    return run([sys.executable, HERE + "/../verify_log.py", LOG, KEYS, *args])


# === what is not right stops the start, and is named =============================================================
for words, bad in (("unknown key", dict(W[0].conf(), events=["alarm"])), ("https://", W[0].conf(url="http://127.0.0.1/")),
                   ("NAME+ID+BASE64", W[0].conf(key="w1")), ("ID is not", W[0].conf(key=W[0].key.replace("w1", "w9"))),
                   ("type 4", W[0].conf(key=VKEY)), ("needs", W[0].conf(url=None)), ("No such file", W[0].conf(ca_file="keys/none"))):
    tap.has(start_says(bad), words, "refused at start: %s" % words)
tap.has(start_says(W[0].conf(), W[0].conf()), "two of them", "refused at start: one witness twice")

# === two of three ==================================================================================================
for w in W:
    must([CLI, "witness", "add", w.dir, VKEY])
    w.start()
configure([w.conf() for w in W])
st.start()
tap.ok(wait_for(lambda: well(*W)), "at start each of them cosigns the newest head", status().get("witnesses"))
r = HostRun(st)
out = r.psql(pg, "UPDATE t SET v = 1 WHERE id = 1")
a = last_action()
tap.ok("UPDATE 1" in out.stdout and a["data"]["dispatch"]["witnesses"] == 2, "a change is sent", (out.stdout, out.stdout))
tap.ok(sum(w.head() > a["seq"] for w in W) >= 2, "and two of them had cosigned a head that covers its record")
tap.ok("1" in r.psql(pg, "SELECT count(*) FROM t WHERE v = 1").stdout, "a read waits for nobody")
out = r.curl("api", "/", "-i", "-d", "x=1").stdout
tap.ok(" 200 " in out and last_action()["data"]["dispatch"]["witnesses"] == 2 and sum(w.head() > last_action()["seq"] for w in W) >= 2,
       "so is a change by HTTP, once two have cosigned its record", out[:300])
DELETE = "DELETE FROM t WHERE id = 50"
asked = re.search(r"request ([a-z2-7]{26})", r.psql(pg, DELETE).stdout)
signed = [st.sign("approve", asked.group(1), who).returncode for who in ("dana", "omar")] if asked else None
tap.eq(signed, [0, 0], "two people sign for a DELETE")
W[2].kill()
out = r.psql(pg, "UPDATE t SET v = 2 WHERE id = 1")
tap.ok("UPDATE 1" in out.stdout, "one that is down is not missed: two of three are there", out.stdout)
W[1].kill()
out = r.psql(pg, "UPDATE t SET v = 3 WHERE id = 1")
tap.ok("UPDATE" not in out.stdout and W[1].name in out.stdout and W[0].name not in out.stdout,
       "with two down it is refused, and says who is missing", out.stdout)
a = last_action()
o = st.outcome(a["data"]["action"])
tap.ok(o and o["status"] == "not_sent" and W[1].name in o.get("why", ""), "the log says that it was not sent, and why", o)
tap.ok(wait_for(lambda: "since" in seen(W[1])), "status tells since when", status().get("witnesses"))
out = r.psql(pg, "UPDATE t SET v = 4 WHERE id = 1")
tap.ok("UPDATE" not in out.stdout and " since 2" in out.stdout, "then it is refused at once, and says since when", out.stdout)
tap.ok("2" in r.psql(pg, "SELECT v FROM t WHERE id = 1").stdout, "and nothing of it was done; reads pass")
came = len(api.arrivals)
out = r.curl("api", "/", "-i", "-d", "x=2").stdout
tap.ok(" 503 " in out and '"title":"unwitnessed"' in out and W[1].name in out and len(api.arrivals) == came, "by HTTP it is 503 unwitnessed, and says who is missing", out)
tap.ok(" 200 " in r.curl("api", "/", "-i").stdout, "and a read passes")
text = run([CLI, "status", "--state", st.state]).stdout
tap.ok(W[1].name in text and "behind" in text, "status shows each of them to people", text)
n = len(st.records("approval.consumed"))
out = r.psql(pg, DELETE)
tap.ok("cosigned" in out.stdout and "DELETE" not in out.stdout.split("\n"), "a signed action is refused, too, while it is known that too few would see it", out.stdout)
tap.eq(len(st.records("approval.consumed")), n, "and its approval is not used up for nothing")
W[1].start()
tap.ok(wait_for(lambda: well(W[1]), 40), "one that comes back is asked again", status().get("witnesses"))
out = r.psql(pg, "UPDATE t SET v = 5 WHERE id = 1")
tap.ok("UPDATE 1" in out.stdout, "and the change passes", out.stdout)
tap.ok("DELETE 1" in r.psql(pg, DELETE).stdout and len(st.records("approval.consumed")) == n + 1, "and what was signed, by the approval that was kept")

# === kill -9 ==========================================================================================================
W[2].start()
for who in ("courier", "writer", "core", "witness", "broker"):
    if who == "witness":
        W[0].kill()
        W[0].start()
    elif who == "broker":
        r.end()
        st.broker.kill()
        st.broker.wait()
        st.start()
        r = HostRun(st)
    else:
        pid = st.child(who)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: st.child(who) not in (None, pid))
    ok = wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = v + 1 WHERE id = 2").stdout, 40, 0.3)
    tap.ok(ok and not any(w.evidence() for w in W), "after kill -9 of the %s changes pass again, and nobody saw a fork" % who, status().get("witnesses"))

# === a witness that was away for long and comes back standing elsewhere ===================================================
r.end()
wait_for(lambda: well(*W))
W[1].kill()
shutil.copytree(W[1].dir, temp.path + "/w2-older")
W[1].start()
r = HostRun(st)
tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 3 WHERE id = 2").stdout) and wait_for(lambda: well(*W)), "all have seen more")
W[1].kill()
shutil.rmtree(W[1].dir)
os.rename(temp.path + "/w2-older", W[1].dir)
with socket.create_server(("127.0.0.1", W[1].port)) as away:
    for _ in range(6):
        away.settimeout(60)
        away.accept()[0].close()
W[1].start()
tap.ok(wait_for(lambda: well(*W), 90), "one that failed more often than it may name other sizes, and was set back, is followed to where it stands",
       status().get("witnesses"))
tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 4 WHERE id = 2").stdout), "and changes pass")

# === both verifiers =====================================================================================================
r.end()
wait_for(lambda: well(*W))
st.stop()
c, py = verify(), verify_py()
tap.ok(c.returncode == 0 and py.returncode == 0, "both verifiers find the log whole", (c.stdout, py.stdout))
says = [x for x in c.stdout.splitlines() if x.startswith("witnessed at ")]
tap.ok(len(says) == 3 and all(any(w.name in x for x in says) for w in W), "and the C one says at which size by whom", c.stdout)
tap.eq([x for x in py.stdout.splitlines() if x.startswith("witnessed at ")], says, "the independent one the same")
own = run([CLI, "log", "verify", "--vkey", st.state + "/keys/log/vkey", LOG])
tap.ok("witnessed at" in own.stdout and "by the log's own word" in own.stdout, "without their keys the log's own word is taken for them, and that is said", own.stdout)
newest = sorted(glob.glob(LOG + "/wit/*"))[-1]
with open(newest, encoding="utf-8") as f:
    good = f.read()
os.chmod(newest, 0o600)
lines = good.split("\n")
flip = lines[-2][:-6] + ("A" if lines[-2][-6] != "A" else "B") + lines[-2][-5:]
with open(newest, "w", encoding="utf-8") as f:
    f.write("\n".join(lines[:-2] + [flip, ""]))
c, py = verify(), verify_py()
tap.ok(c.returncode == 1 and py.returncode == 1 and "checkpoint" in c.stdout and "checkpoint" in py.stdout, "a cosignature that was changed is found by both",
       (c.stdout, py.stdout))
with open(newest, "w", encoding="utf-8") as f:
    f.write(good)
tap.eq((verify().returncode, verify_py().returncode), (0, 0), "as it was it is whole again")

# === a rollback: an older state of the broker is put back =================================================================
old = temp.path + "/older"
shutil.copytree(LOG, old, symlinks=True)
st.start()
r = HostRun(st)
tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 6 WHERE id = 3").stdout), "the log goes on")
r.end()
wait_for(lambda: well(*W))
st.stop()
newer = temp.path + "/newer"
os.rename(LOG, newer)
shutil.copytree(old, LOG, symlinks=True)
ids = os.stat(newer)
for d, _, files in os.walk(LOG):
    for x in [d] + [d + "/" + f for f in files]:
        os.chown(x, ids.st_uid, ids.st_gid)
st.start()
tap.ok(wait_for(lambda: seen(W[0]).get("conflict") == "rollback"), "a broker that was set back is told so by its witnesses", status().get("witnesses"))
r = HostRun(st)
out = r.psql(pg, "UPDATE t SET v = 7 WHERE id = 3")
tap.ok("UPDATE" not in out.stdout and "refuses this log" in out.stdout, "and sends nothing that needs them", out.stdout)
tap.ok("6" in r.psql(pg, "SELECT v FROM t WHERE id = 3").stdout, "reads pass")
conflict = st.record("log.conflict")
conflict = conflict.get("data", conflict)
tap.ok(conflict["kind"] == "rollback" and conflict["theirs"] > conflict["size"], "it is on the record", conflict)
ev = sorted(glob.glob(LOG + "/evidence/*"))
tap.ok(ev and "old " in open(ev[0], encoding="utf-8").read(), "with what was asked and answered, kept")
text = run([CLI, "status", "--state", st.state]).stdout
tap.ok("rollback" in text, "and shown in status", text)

# === a fork: it goes on until it is longer ===================================================================================
want = max(w.head() for w in W) + 1
for _ in range(200):
    if status().get("log_size", 0) > want:
        break
    r.psql(pg, "SELECT 1; SELECT 2; SELECT 3; SELECT 4")
tap.ok(wait_for(lambda: seen(W[0]).get("conflict") == "fork", 90), "once it is longer than what they saw, it is a fork to them", status().get("witnesses"))
tap.ok(any(w.evidence() for w in W), "which they keep as evidence, too")
out = r.psql(pg, "UPDATE t SET v = 8 WHERE id = 3")
tap.ok("UPDATE" not in out.stdout and "fork" in out.stdout, "nothing that needs them is sent", out.stdout)
pid = st.child("writer")
os.kill(pid, signal.SIGKILL)
wait_for(lambda: st.child("writer") not in (None, pid))
tap.ok(wait_for(lambda: seen(W[0]).get("conflict", "") != ""), "a writer that is started again knows it")
out = r.psql(pg, "UPDATE t SET v = 9 WHERE id = 3")
tap.ok("UPDATE" not in out.stdout, "and sends nothing", out.stdout)
r.end()
st.stop()
tap.eq((verify().returncode, verify_py().returncode), (0, 0), "in itself the fork is whole: without witnesses nobody would know")
shutil.rmtree(LOG)
os.rename(newer, LOG)
st.start()
tap.ok(wait_for(lambda: well(*W), 40), "with the true log they cosign again", status().get("witnesses"))
r = HostRun(st)
tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 10 WHERE id = 3").stdout), "and changes pass")

# === one that only says so ===================================================================================================
class Liar(http.server.BaseHTTPRequestHandler):
    answer = (409, b"99999999\n")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.answer[0])
        self.send_header("Content-Type", "text/x.tlog.size")
        self.send_header("Content-Length", str(len(self.answer[1])))
        self.end_headers()
        self.wfile.write(self.answer[1])

    def log_message(self, *_):
        pass


W[2].kill()
liar = http.server.ThreadingHTTPServer(("127.0.0.1", W[2].port), Liar)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(cert, cert_key)
liar.socket = tls.wrap_socket(liar.socket, server_side=True)
threading.Thread(target=liar.serve_forever, daemon=True).start()
had = len(st.records("log.conflict"))
for kind, Liar.answer in (("rollback", (409, b"99999999\n")), ("fork", (422, b""))):
    ok = wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = v + 1 WHERE id = 4").stdout and seen(W[2]).get("conflict") == kind, 60, 0.5)
    tap.ok(ok and seen(W[2])["proven"] is False, "one that claims a %s is shown" % kind, status().get("witnesses"))
    tap.ok("UPDATE 1" in r.psql(pg, "UPDATE t SET v = v + 1 WHERE id = 4").stdout, "and cannot stop what the two others cosign")
told = [x["data"] for x in st.records("log.conflict")[had:]]
tap.eq([(x["kind"], "proven" in x, x["witness"]) for x in told], [("rollback", False, W[2].name), ("fork", False, W[2].name)], "each claim is on the record, once, as a claim")
text = run([CLI, "status", "--state", st.state]).stdout
tap.ok("IT REFUSES THIS LOG (fork): by its own word" in text, "status says what it is", text)
W[1].kill()
out = r.psql(pg, "UPDATE t SET v = v + 1 WHERE id = 4")
tap.ok("UPDATE" not in out.stdout and W[2].name + " refuses this log" in out.stdout, "it counts for nothing: with one more missing there are too few", out.stdout)
W[1].start()
liar.shutdown()
liar.server_close()
W[2].start()
tap.ok(wait_for(lambda: well(*W), 90) and "conflict" not in seen(W[2]), "once it cosigns again it counts", status().get("witnesses"))
r.end()
wait_for(lambda: well(*W))
st.stop()

# === one that has proof ======================================================================================================
shutil.rmtree(old)
shutil.copytree(LOG, old, symlinks=True)
st.start()
r = HostRun(st)
tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 11 WHERE id = 3").stdout), "the log goes on")
r.end()
wait_for(lambda: well(*W))
st.stop()
os.rename(LOG, newer)
for proof in (True, False):
    fresh = [Witness(n) for n in ((4, 5) if proof else (6, 7))]
    atexit.register(lambda ws: [w.kill() for w in ws], fresh)
    for w in fresh:
        must([CLI, "witness", "add", w.dir, VKEY])
        w.start()
    configure([w.conf() for w in [W[0]] + fresh])
    shutil.rmtree(LOG, ignore_errors=True)
    shutil.copytree(old, LOG, symlinks=True)
    if proof:
        shutil.rmtree(LOG + "/wit")
        shutil.copytree(newer + "/wit", LOG + "/wit")
    for d, _, files in os.walk(LOG):
        for x in [d] + [d + "/" + f for f in files]:
            os.chown(x, ids.st_uid, ids.st_gid)
    st.start()
    r = HostRun(st)
    tap.ok(wait_for(lambda: well(*fresh) and seen(W[0]).get("conflict"), 40) and seen(W[0])["proven"] is proof,
           "two that know nothing cosign a log that was set back; the third refuses, %s proof" % ("with" if proof else "without"), status().get("witnesses"))
    if proof:
        out = r.psql(pg, "UPDATE t SET v = 12 WHERE id = 3")
        tap.ok("UPDATE" not in out.stdout and "refuses this log, with proof" in out.stdout, "then nothing that needs witnesses is sent", out.stdout)
        tap.ok(st.records("log.conflict")[-1]["data"].get("proven") is True, "and the record says that it is proven")
    else:
        tap.ok(wait_for(lambda: "UPDATE 1" in r.psql(pg, "UPDATE t SET v = 12 WHERE id = 3").stdout), "it is the proof that stopped it")
    r.end()
    st.stop()
shutil.rmtree(LOG)
os.rename(newer, LOG)
configure([w.conf() for w in W])
tap.eq((verify().returncode, verify_py().returncode), (0, 0), "the true log verifies")
tap.done()
