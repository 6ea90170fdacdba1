#!/usr/bin/python3
"""The run's targets follow the policy while it lives: what is revoked is closed at once, on both sides and in the sandbox,
what is added appears there, the others stay; also when processes are killed in between."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, PROXY, HostRun, Http, Pg, Stack, Tap, Temp, run, wait_for
from libpq import INTRANS, Conn
from origin import Ca, Origin

tap = Tap()
temp = Temp("targets")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int, v text); INSERT INTO t SELECT g, 'x' FROM generate_series(1,50) g; ALTER TABLE t OWNER TO agent;"
         "CREATE TABLE u(id int); ALTER TABLE u OWNER TO agent")
ca = Ca(temp.path + "/ca")
one, two = Origin(temp.path, "one.test", ca=ca), Origin(temp.path, "two.test", ca=ca)
st = Stack(temp, pg, http={"one": Http(one, placeholder="ONE_TOKEN"), "two": Http(two, kind=None)})
with open(st.policy_file, encoding="utf-8") as f:
    BASE = json.load(f)
DB = "crm-db"
one.on("/never", lambda req, c: c.more())


def targets(*names, **change):
    """A policy with the targets of these names, each changed as `change` says, comes into force."""
    st.reload({"targets": chosen(*names, **change)})


def chosen(*names, **change):
    return {n: dict(BASE["targets"][n], **change.get(n.replace("-", "_"), {})) for n in names}


def get(c, target="one"):
    """Status of an answer over that connection."""
    return c.ask("GET", "/ok", st.http[target].origin.authority).status


def connect(hr, **kw):
    def attempt():
        c = Conn(hr.dsn(pg, **kw))
        return c if c.up else None
    c = wait_for(attempt, 30, 0.2)
    if not c:
        raise RuntimeError("no connection: " + Conn(hr.dsn(pg, **kw)).error)
    return c


def refused(hr, target):
    """What connect(2) says."""
    s = socket.socket()
    s.settimeout(20)
    try:
        s.connect((hr.address[target], hr.port[target]))
        return "connected"
    except OSError as e:
        return type(e).__name__
    finally:
        s.close()


def sessions():
    return int(pg.admin("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent'", "postgres"))


def last(type_="run.targets"):
    return st.records(type_)[-1]["data"]


def names(record):
    return sorted(t["target"] or t["kind"] for t in record["targets"])


# --- a database is revoked: both leases die, the other targets stay ------------------------------------------------
hr = HostRun(st).follow()
a, b = connect(hr), connect(hr)
tap.ok(a.query("SELECT count(*) FROM t").ok and b.query("BEGIN").ok and b.query("INSERT INTO u VALUES (1)").ok,
       "two sessions, one of them in a transaction with a change")
tap.eq(b.txn, INTRANS, "which is open")
kept = hr.direct("two")
tap.eq(get(kept, "two"), 200, "a connection to another target")
lock = Conn("host='%s' port='%d' user='postgres' dbname='%s'" % (pg.sock, pg.port, pg.database))
tap.ok(lock.query("BEGIN").ok and lock.query("LOCK TABLE t").ok, "a table is locked by another")
box = []
th = threading.Thread(target=lambda: box.append(a.query("SELECT count(*), 'waits' FROM t")), daemon=True)
th.start()
tap.ok(wait_for(lambda: pg.admin("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%waits%'", "postgres") == "1", 20),
       "a statement waits for it at the server")
targets("one", "two")
th.join(30)
r = box[0] if box else None
tap.ok(r is not None and not r.ok and not a.alive, "revoked: the statement in flight ends", r)
tap.has(a.said, "policy does not give this target", "and its client reads why")
r = b.query("SELECT 1")
tap.ok(r.sqlstate == "57P01" or not b.alive, "so does the session with the open transaction", r)
tap.eq(refused(hr, DB), "ConnectionRefusedError", "the next connect is refused, as where nothing listens")
tap.ok(wait_for(lambda: sessions() == 0, 20), "the server has no session of it left: what waited was cancelled there, too")
tap.ok(lock.query("ROLLBACK").ok, "though the lock was held until now")
tap.eq(pg.admin("SELECT count(*) FROM u"), "0", "the transaction is rolled back")
tap.eq(get(kept, "two"), 200, "the connection to the other target goes on")
tap.eq(hr.changed(), ([DB], []), "the agent is told")
rec = wait_for(lambda: st.records("run.targets"), 10)
tap.eq((rec[0]["run"], rec[0]["data"]["gone"], rec[0]["data"]["added"], names(rec[0]["data"])),
       (hr.id, [DB], [], ["one", "proxy", "two"]), "it is on the record, with what is left")
ends = {}


def all_ended():
    ends.update({x["data"]["action"]: x["data"]["status"] for x in st.records("outcome")})
    return not [x for x in st.acts(verdict="allow") if x["action"] not in ends]


tap.ok(wait_for(all_ended, 10), "every action that was sent has an outcome")
tap.eq(sorted(s for s in ends.values() if s != "ok"), ["lost"], "that of the statement in flight is that it may have been done")

# --- it comes back, and is another place: that closes, too ---------------------------------------------------------
targets(DB, "one", "two")
tap.eq(hr.changed(), ([], [DB]), "the policy has it again: the run gets a listener for it")
c = connect(hr)
tap.eq((last()["added"], names(last())), ([DB], [DB, "one", "proxy", "two"]), "recorded before it serves")
tap.ok(c.query("SELECT count(*) FROM t").ok, "and it works")
n = len(st.records("run.targets"))
st.reload({"rules": [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}}]})
tap.ok(c.query("SELECT count(*) FROM t").ok and len(st.records("run.targets")) == n, "other rules with the same targets close nothing")
targets(DB, "one", "two", crm_db={"database": "postgres"})
r = c.query("SELECT 1")
tap.ok(r.sqlstate == "57P01" or not c.alive, "another database under the same name is another target: the session ends", r)
hr.changed()
tap.eq(connect(hr, dbname="postgres").query("SELECT current_database()").rows, [["postgres"]], "and the next one is there")
targets(DB, "one", "two")
hr.changed()

# --- HTTP: direct, through the proxy, kept by upstream -------------------------------------------------------------
direct, tunnel, other = hr.direct("one"), hr.tunnel("one"), hr.tunnel("two")
tap.eq([get(direct), get(tunnel), get(other, "two")], [200, 200, 200], "three connections, two of them to one target")
waits = hr.tunnel("one")
box = []
th = threading.Thread(target=lambda: (waits.send("GET /never HTTP/1.1\r\nHost: %s\r\n\r\n" % one.authority), waits.rest(30)), daemon=True)
th.start()
wait_for(lambda: one.paths("/never"), 20)
tap.ok(len(one.conns) > 0, "upstream has connections to it")
targets(DB, "two")
tap.ok(direct.closed(20), "revoked: its direct connection ends, idle as it is")
tap.ok(tunnel.closed(20), "and its tunnel through the proxy")
th.join(20)
tap.ok(not th.is_alive(), "and the request in flight")
tap.ok(wait_for(lambda: not one.conns, 20), "upstream keeps no connection to it", one.conns)
tap.eq(get(other, "two"), 200, "another target's tunnel goes on, through the same proxy")
tap.eq(refused(hr, "one"), "ConnectionRefusedError", "nothing listens for it any more")
x = hr.tcp(PROXY)
tap.eq(x.connect(one.authority).status, 403, "the proxy does not lead there")
tap.eq(hr.changed(), (["one"], []), "the agent is told")
targets(DB)
hr.changed()
tap.eq(refused(hr, PROXY), "ConnectionRefusedError", "with the last http target the proxy goes")
targets(DB, "one", "two")
gone, came = hr.changed()
tap.eq(sorted(came), ["one", "proxy", "two"], "and comes with the next")
tap.eq((hr.curl("one", "/ok", "-o", "/dev/null", "-w", "%{http_code}").stdout, hr.curl("two", "/ok", "-o", "/dev/null", "-w", "%{http_code}", proxy=True).stdout),
       ("200", "200"), "both serve, directly and by the proxy")
hr.end()

# --- a run that named its targets; an owner who goes ---------------------------------------------------------------
p = subprocess.Popen([BUILD + "/tool_hostrun", st.state + "/run/agent.sock", DB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
while not p.stdout.readline().startswith("started"):
    continue
n = len(st.records("run.targets"))
targets("one")
tap.ok(wait_for(lambda: len(st.records("run.targets")) == n + 1, 10) and last()["targets"] == [], "a run that named one target has none left when that goes")
targets(DB, "one", "two")
tap.ok(wait_for(lambda: len(st.records("run.targets")) == n + 2, 10) and names(last()) == [DB], "and gets that one back, no other", last())
people = BASE["people"]
st.reload({"people": {k: dict(v, login=["unix:nobody-here"] if k == "olivia" else v["login"]) for k, v in people.items()}})
tap.ok(wait_for(lambda: len(st.records("run.targets")) == n + 3, 10) and (last()["gone"], last()["targets"]) == ([DB], []),
       "without its owner in the policy a run has nothing", last())
p.stdin.close()
p.wait(20)
targets(DB, "one", "two")

# --- a credential that is taken away -------------------------------------------------------------------------------
hr = HostRun(st).follow()
c = connect(hr)
d = hr.direct("two")
tap.ok(c.query("SELECT 1").ok and get(d, "two") == 200, "a session by a credential, and one that needs none")
os.kill(st.broker.pid, signal.SIGHUP)
time.sleep(0.5)
tap.ok(c.query("SELECT 1").ok, "the same vault again ends nothing")
run([CLI, "credential", "remove", "crm-agent", "--state", st.state])
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: sessions() == 0, 20), "the credential is taken out of the vault: its session ends at the server")
r = c.query("SELECT 1")
tap.ok(not r.ok and not c.alive, "so it does for the client", r)
tap.has(c.said, "credential of this target was changed or taken away", "which reads why")
tap.eq(get(d, "two"), 200, "the other goes on")
must_add = run([CLI, "credential", "add", "crm-agent", "--state", st.state, "--kind", "postgresql-password", "--target-host", pg.host,
                "--port", str(pg.port), "--user", pg.user], stdin=None, input=pg.password)
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(connect(hr).query("SELECT 1").ok, "given again, the listener is still there", must_add.stdout)

# --- killed in the middle ------------------------------------------------------------------------------------------
for name in ("core", "front", "upstream", "writer"):
    c = connect(hr)
    old = st.child(name)
    os.kill(old, signal.SIGSTOP)
    with open(st.policy_file, encoding="utf-8") as f:
        st.build_policy({"targets": chosen("one", "two"), "serial": json.load(f)["serial"] + 1})
    os.kill(st.broker.pid, signal.SIGHUP)
    time.sleep(0.3)
    os.kill(old, signal.SIGKILL)
    tap.ok(wait_for(lambda: refused(hr, DB) == "ConnectionRefusedError", 30), "%s is killed while a target is revoked: it is closed" % name)
    tap.ok(wait_for(lambda: sessions() == 0, 30), "%s: the server has no session left" % name)
    tap.ok(wait_for(lambda: st.child(name) not in (0, old) and run([CLI, "status", "--state", st.state]).returncode == 0, 30), "%s is back" % name)
    tap.ok(wait_for(lambda: hr.curl("two", "/ok", "-o", "/dev/null", "-w", "%{http_code}").stdout == "200", 30), "%s: the run's other targets serve" % name)
    targets(DB, "one", "two")
    tap.ok(wait_for(lambda: DB in hr.changed()[1], 30), "%s: the target comes back" % name)
    tap.ok(connect(hr).query("SELECT 1").ok, "%s: to the same run, and works" % name)
# and at whatever moment
rng, held = random.Random(7), True
for i in range(8):
    held = not held
    with open(st.policy_file, encoding="utf-8") as f:
        n = json.load(f)["serial"] + 1
    st.build_policy({"targets": chosen(*(["one", "two"] + [DB] * held)), "serial": n})
    name = rng.choice(("core", "core", "writer", "front"))
    pid = wait_for(lambda: st.child(name), 20)
    os.kill(st.broker.pid, signal.SIGHUP)
    time.sleep(rng.random() * rng.choice((0.02, 0.1, 0.3)))
    os.kill(pid, signal.SIGKILL)

    def settled():
        if "serial %d," % n not in st.cli("status").stdout:
            return False
        c = Conn(hr.dsn(pg))
        return (c.up and c.query("SELECT 1").ok) == held
    tap.ok(wait_for(settled, 60, 0.2), "%s is killed at some moment: the database is %s" % (name, "there" if held else "closed"))
tap.ok(wait_for(lambda: hr.curl("two", "/ok", "-o", "/dev/null", "-w", "%{http_code}").stdout == "200", 30), "and what was never changed serves")
tap.eq([r for r in st.records("run.end") if r["run"] == hr.id], [], "the run lived through all of it")
targets(DB, "one", "two")

# an agent that does not move holds up nothing but what is new
c = connect(hr)
os.kill(hr.p.pid, signal.SIGSTOP)
targets("one", "two")
tap.ok(wait_for(lambda: sessions() == 0, 20) and refused(hr, DB) == "ConnectionRefusedError", "the agent is stopped: what is revoked is closed all the same")
tap.eq(hr.curl("two", "/ok", "-o", "/dev/null", "-w", "%{http_code}").stdout, "200", "and the others serve")
os.kill(hr.p.pid, signal.SIGCONT)
targets(DB, "one", "two")
tap.ok(wait_for(lambda: connect(hr).query("SELECT 1").ok, 30), "when it goes on it makes what is new")
hr.end()

# --- in the real sandbox -------------------------------------------------------------------------------------------
targets("one")
steps = temp.path + "/steps"
os.mkdir(steps)
os.chmod(steps, 0o777)
SCRIPT = r"""
say() { echo "$@"; }
wait_file() { for i in $(seq 600); do [ -e /work/$1 ] && return; sleep 0.1; done; say "no $1"; exit 9; }
try() { curl -sS -o /dev/null -w '%%{http_code}' --noproxy '*' --max-time 20 "$1" 2>/dev/null; }
db="psql -wXAtq -h %s -p %d -U anybody %s"
say one $(try %s/ok)
grep -c %s /etc/hosts
touch /work/begun
wait_file added
for i in $(seq 200); do grep -q %s /etc/hosts && break; sleep 0.1; done
for i in $(seq 300); do n=$($db -c 'SELECT count(*) FROM t' 2>&1); [ "$n" = 50 ] && break; sleep 0.1; done
say added $n
( echo "BEGIN;"; echo "INSERT INTO u VALUES (7);"; echo "SELECT 'open';"; for i in $(seq 600); do [ -e /work/over ] && break; echo "SELECT 1;"; sleep 0.1; done ) | $db >/work/psql.out 2>&1 &
for i in $(seq 200); do grep -q open /work/psql.out && break; sleep 0.1; done
touch /work/open
wait_file revoked
wait $!
say psql $? $(grep -ci 'terminat\|policy does not\|connection' /work/psql.out)
say again $($db -c 'SELECT 1' 2>&1 | tr '\n' ' ')
grep -c %s /etc/hosts
say one $(try %s/ok)
touch /work/seen
""" % (pg.host, pg.port, pg.database, one.origin, pg.host, pg.host, pg.host, one.origin)
box = []
th = threading.Thread(target=lambda: box.append(st.sandbox("/bin/bash", "-c", SCRIPT, opts=["--workspace", steps])), daemon=True)
th.start()


def step(name, seconds=60):
    return wait_for(lambda: os.path.exists(steps + "/" + name) or not th.is_alive(), seconds)


def mark(name):
    open(steps + "/" + name, "w").close()


step("begun")
core = st.child("core")
with open(st.policy_file, encoding="utf-8") as f:
    last_serial = json.load(f)["serial"] + 1
st.build_policy({"targets": chosen("one", DB), "serial": last_serial})
os.kill(st.broker.pid, signal.SIGHUP)
time.sleep(0.05)
os.kill(core, signal.SIGKILL)
mark("added")
step("open")
targets("one")
wait_for(lambda: sessions() == 0, 20)
mark("revoked")
step("seen")
th.join(60)
r = box[0]
out = [l for l in r.stdout.splitlines() if l]
note = r.stdout + r.stderr
get = lambda i: out[i] if i < len(out) else ""
tap.eq(get(0), "one 200", "in the sandbox curl reaches its target")
tap.eq(get(1), "0", "and the database is no name there")
tap.ok(get(2) == "added 50", "the policy gives it to the run, and core is killed meanwhile: the name is there, and psql works, without a restart", note)
tap.ok(re.match(r"psql [1-9]\d* [1-9]", get(3)), "revoked: psql ends in the middle of its transaction", note)
tap.ok("again" in get(4) and ("could not translate host name" in get(4) or "Connection refused" in get(4)), "the next one does not get through", note)
tap.eq(get(5), "0", "the name is gone")
tap.eq(get(6), "one 200", "the other target stays")
tap.eq(pg.admin("SELECT count(*) FROM u"), "0", "the transaction was rolled back")

r = st.cli("replay", "timeline")
tap.ok("the run's targets change" in r.stdout, "the timeline tells it", r.stdout[-2000:])
tap.ok("VERIFIED" in st.verify().stdout, "and the log verifies", st.verify().stdout)
tap.done()
