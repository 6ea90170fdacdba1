#!/usr/bin/python3
"""COPY FROM STDIN and cancel requests through the whole broker: who is let, what is on record, what it costs."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import PGBIN, HostRun, Pg, Stack, Tap, Temp, login, run, wait_for  # noqa: E402
from pgraw import SYNC, Raw, cancel, msg, pbe, query  # noqa: E402

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # freed memory is kept for a while there

tap = Tap()
temp = Temp("copybroker")
pg = Pg(temp)
pg.admin("CREATE TABLE t(i int, s text); CREATE TABLE pay(i int); CREATE TABLE never(i int); CREATE TABLE big(s text);"
         "ALTER TABLE t OWNER TO agent; ALTER TABLE pay OWNER TO agent; ALTER TABLE never OWNER TO agent; ALTER TABLE big OWNER TO agent")
pg.log_statements()
RULES = [
    {"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
    {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
    {"id": "never", "forbid": {"relation": ["public.never"], "effects": {"any": ["write"]}}, "override": "never"},
    {"id": "pay", "require": {"relation": ["public.pay"], "effects": {"any": ["write"]}},
     "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m", "limits": {"max_rows": 5}}]
st = Stack(temp, pg, {"rules": RULES})
hr = HostRun(st)


def psql(script, *args, **kw):
    return run([PGBIN + "/psql", "-XqAt", "-v", "VERBOSITY=verbose", *args, hr.dsn(pg)], stdin=None, input=script, **kw).stdout


def raw(of=hr):
    r = Raw(of.port["crm-db"], of.address["crm-db"])
    assert r.login(user="x", database=pg.database).endswith("Z")
    return r


def count(table="t"):
    return int(pg.admin("SELECT count(*) FROM " + table))


def actions(**want):
    return [x["data"] for x in st.records("action") if all(x["data"]["request"].get(k) == v for k, v in want.items())]


def outcome(action):
    return wait_for(lambda: ([x["data"] for x in st.records("outcome") if x["data"]["action"] == action["action"]] or [None])[0])


def last_statement():
    return [a for a in actions() if a["request"]["operation"] in ("query", "execute")][-1]


# --- who is let, and what is on record --------------------------------------------------------
DATA = b"1\ta\n2\tb\n3\tc\n\\.\n"  # psql sends the mark of its end, too
out = psql("copy public.t from stdin;\n%sselect 'then';\n" % DATA.decode())
tap.eq((out.strip(), count()), ("then", 3), "a COPY that the policy lets pass")
a = [x for x in actions(operation="query") if x["dispatch"].get("copy_in")][-1]
o = outcome(a)
tap.eq((a["request"]["effects"], a["decision"]["verdict"], a["request"]["input"]["relations"]), (["write"], "allow", ["public.t"]), "is a write to its table")
tap.eq((o["copy"], o["rows"], o["tag"], o["status"]), ({"bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}, 3, "COPY 3", "ok"),
       "the outcome tells bytes, digest and rows")
# Without data: what psql makes of the lines behind a COPY that is refused depends on its version.
out = psql("copy public.never from stdin;\nselect 'then';\n")
tap.ok("42501" in out and "rule never" in out and out.rstrip().endswith("then"), "a COPY into a forbidden table is refused, the session goes on", out)
tap.eq(last_statement()["request"]["operation"], "query", "and recorded")
out = psql("copy public.pay from stdin;\nselect 'then';\n")
tap.ok("0A000" in out and "the data cannot be shown before it is sent" in out and out.rstrip().endswith("then"), "where people would have to sign it is refused", out)
a = [x for x in actions(operation="query") if x["request"]["input"]["relations"] == ["public.pay"]][-1]
tap.eq((a["decision"]["verdict"], a["request"]["effects"], a["dispatch"]["sent"]), ("deny", ["opaque", "write"], False), "and recorded as that")
tap.eq((st.pending(), count("pay"), count("never")), ([], 0, 0), "nobody is asked, nothing is there")
out = psql("insert into public.pay values (1);\n")
tap.has(out, "needs approval", "the same by INSERT is asked for")
r = raw()
tap.eq(r.ask(query("copy public.never from stdin") + msg("d", b"1\n") + msg("c") + query("select 1")) + r.until(), "EZTDCZ",
       "PG-11: refused with its data on the way already")
tap.eq(r.ask(query("begin")) + r.ask(query("copy public.t from stdin"), "G") + r.ask(msg("d", b"4\td\n") + msg("c")) +
       r.ask(query("copy public.never from stdin")), "CZGCZEZ", "in a transaction, then one that is refused")
tap.eq((r.z, r.ask(query("commit")), count()), ("E", "CZ", 3), "undoes both")
tap.eq(r.ask(pbe("copy public.t from stdin") + SYNC, "G") + r.ask(msg("d", b"4\td\n") + msg("c") + SYNC), "12GCZ", "extended")
tap.eq(r.ask(pbe("copy public.t from stdin") + pbe("select 1") + SYNC), "EZ", "another statement where its data should be")
tap.eq((r.err["C"], r.ask(query("select 2"))), ("08P01", "TDCZ"), "is refused, and the session goes on")
tap.eq(r.ask(query("copy public.t from stdin"), "G") + r.ask(msg("d", b"x\n") + msg("c")), "GEZ", "an error in the data")
o = outcome(last_statement())
tap.eq((o["status"], o["sqlstate"], o["copy"]["bytes"]), ("error", "22P02", 2), "is in the outcome, beside what was sent")
r.ask(query("copy public.t from stdin") + msg("d", b"5\te\n"), "G")
time.sleep(0.3)  # the data and the end of the connection come to upstream by different ways
r.close()
o = outcome(last_statement())
tap.eq((o["status"], o["copy"]["bytes"]), ("lost", 4), "PG-11: a client that leaves in the middle leaves an outcome")
tap.ok(wait_for(lambda: pg.admin("select count(*) from pg_stat_activity where query like 'copy public.t from%'") == "0"), "PG-11: and no session")
tap.eq(count(), 4, "PG-11: and no row")
for victim in ("upstream", "front"):
    r = raw()
    r.ask(query("copy public.t from stdin") + msg("d", b"6\tf\n"), "G")
    pid = st.child(victim)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: st.child(victim) not in (0, pid))
    o = outcome(last_statement())
    tap.ok(o["status"] in ("lost", "unknown"), "%s killed in the middle: the outcome says that it is not known" % victim, o)
    tap.ok(wait_for(lambda: pg.admin("select count(*) from pg_stat_activity where query like 'copy public.t from%'") == "0"), "the server's session ends")
    tap.eq(count(), 4, "without a row")
    r.close()
    tap.ok(wait_for(lambda: psql("select 'again'") == "again\n", 30), "and the broker serves again")

# --- cancel -------------------------------------------------------------------------------------
p = subprocess.Popen([PGBIN + "/psql", "-XqAt", "-v", "VERBOSITY=verbose", hr.dsn(pg)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT)
p.stdin.write(b"select pg_sleep(30);\nselect 'after';\n")
p.stdin.flush()
wait_for(lambda: pg.admin("select count(*) from pg_stat_activity where query='select pg_sleep(30);' and state='active'") == "1")
t0 = time.monotonic()
p.send_signal(signal.SIGINT)
p.stdin.close()
out = p.stdout.read().decode()
p.wait()
tap.ok("57014" in out and time.monotonic() - t0 < 2, "PG-03: Ctrl-C in psql cancels within two seconds", (out, time.monotonic() - t0))
c = actions(operation="cancel")[-1]
slept = [x for x in actions(operation="query") if x["action"] == c["request"]["cancels"]]
tap.eq((c["request"]["effects"], c["request"]["kind"], c["decision"]["verdict"], len(slept)), (["txn"], "cancel", "allow", 1),
       "the cancel is an action of its own, that names the one it is for")
tap.eq((outcome(slept[0])["sqlstate"], outcome(c)["status"]), ("57014", "ok"), "PG-03: both have their outcome")
n = len(actions(operation="cancel"))
r = raw()
other = HostRun(st)
ro = raw(other)


def ask_cancel(key, of=hr):
    return Raw(of.port["crm-db"], of.address["crm-db"]).send(cancel(key)).rest()


r.send(query("select pg_sleep(1.5)"))
time.sleep(0.3)
for key, where in ((ro.key, hr), (r.key, other), (ro.key, other), (os.urandom(8), hr), (r.key[:7] + bytes([r.key[7] ^ 1]), hr)):
    assert ask_cancel(key, where) == b""
tap.eq((r.until(), len(actions(operation="cancel")) - n), ("TDCZ", 0), "PG-03: keys of others, of another run, made up, of an idle session: nothing happens")
tap.has(open(st.broker_log).read(), "a cancel request with the key of no session", "PG-03: but is logged")
r.send(query("select pg_sleep(30)"))
time.sleep(0.3)
ask_cancel(r.key)
tap.eq((r.until(), r.err["C"]), ("TEZ", "57014"), "PG-03: its own key")
tap.eq(r.ask(query("select 1")), "TDCZ", "and the session goes on")
other.end()
tap.ok(not any(r.key.hex() in json.dumps(x) for x in st.records()), "PG-03: no key is in the log")

# --- what the log is good for -------------------------------------------------------------------
out = st.cli("replay", "timeline", hr.id)
tap.ok(out.returncode == 0 and "cancel" in out.stdout, "the timeline shows the cancel", out.stdout)
tap.has(out.stdout, "copy_bytes 15", "and how much was sent by COPY")
out = st.cli("replay", "whatif", "--policy", st.policy_file)
tap.ok(out.returncode == 0, "every verdict is found again under the same policy", out.stdout)

# --- much data in little memory -------------------------------------------------------------------
PARTS = ("front", "core", "upstream", "writer", "parser")


def status(pid, field):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))


pids = {p: st.child(p) for p in PARTS}
before = {p: status(i, "VmRSS") for p, i in pids.items()}
row = b"x" * 99999 + b"\n"
sha = hashlib.sha256()
t0 = time.monotonic()
p = subprocess.Popen([PGBIN + "/psql", "-XqAt", "-c", "copy public.big from stdin", hr.dsn(pg)], stdin=subprocess.PIPE)
for _ in range(2098):
    p.stdin.write(row)
    sha.update(row)
p.stdin.close()
tap.eq((p.wait(), count("big")), (0, 2098), "PG-11: 200 MB by COPY arrive whole")
print("# in %.1f s" % (time.monotonic() - t0))
grown = {p: status(i, "VmHWM") - before[p] for p, i in pids.items()}
print("# grown by %s kB" % grown)
tap.ok(SANITIZED or all(v < 16384 for v in grown.values()), "PG-11: no process of the broker grows by 16 MB", grown)
o = outcome(last_statement())
tap.eq(o["copy"], {"bytes": 2098 * 100000, "sha256": sha.hexdigest()}, "and the digest in the log is that of all of it")

hr.end()
out = st.verify()
tap.ok("VERIFIED" in out.stdout, "the log verifies", out.stdout)
tap.done()
