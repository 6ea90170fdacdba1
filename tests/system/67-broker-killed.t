#!/usr/bin/python3
"""The broker is killed as a whole; somebody appends to its log; its policy is taken away or changed on disk."""
import hashlib
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, HostRun, Pg, Stack, Tap, Temp, must, wait_for
from libpq import Conn

tap = Tap()
temp = Temp("killed")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int); INSERT INTO t SELECT generate_series(1,50); ALTER TABLE t OWNER TO agent")
pg.log_statements()
st = Stack(temp, pg)
hr = HostRun(st)


def connect():
    def attempt():
        c = Conn(hr.dsn(pg))
        return c if c.up else None
    c = wait_for(attempt, 30, 0.2)
    if not c:
        raise RuntimeError("no connection: " + open(st.broker_log).read()[-3000:])
    return c


def asked(sql):
    """The id of the request that this statement makes."""
    c = connect()
    r = c.query(sql)
    c.close()
    return [i for i in st.pending() if i in r.hint][0]


def seg():
    d = st.state + "/log/seg"
    return d + "/" + sorted(n for n in os.listdir(d) if n.endswith(".jsonl"))[-1]


def append(type_, data):
    """A record as the writer would write it, chained to the last one."""
    with open(seg(), "rb") as f:
        lines = f.read().split(b"\n")
    assert lines[-1] == b"", "a line is being written"
    line = json.loads(lines[-2])
    body = dict(line["body"], type=type_, data=data, run=hr.id, src="human", prev=line["hash"])
    body["seq"] += 1
    body["batch"] = body["seq"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    with open(seg(), "ab") as f:
        f.write(b'{"body":' + text + b',"hash":"' + hashlib.sha256(b"\0" + text).hexdigest().encode() + b'"}\n')


def writer_dies(meanwhile=lambda: None):
    pid = st.child("writer")
    os.kill(pid, signal.SIGSTOP)
    meanwhile()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: st.child("writer") not in (0, pid), 20)


def fingerprint(person):
    return must(["ssh-keygen", "-lf", st.key(person) + ".pub"]).split()[1]


# --- approvals appended to the log ----------------------------------------------------
forged, true = asked("DELETE FROM t WHERE id = 1"), asked("DELETE FROM t WHERE id = 2")
tap.eq([st.sign("approve", true, p).returncode for p in ("dana", "omar")], [0, 0], "two people sign one request")
grant = [x["data"] for x in st.records("approval.grant")][-1]


def forge():
    for person, role in (("dana", "dba"), ("omar", "oncall")):
        append("approval.grant", dict(grant, id=forged, person=person, role=role, key=fingerprint(person)))


writer_dies(forge)
tap.ok(wait_for(lambda: any(x["data"]["id"] == forged and x["data"]["reason"] == "signature does not verify"
                            for x in st.records("approval.void")), 10),
       "grants that somebody appended to the log void their request", st.records("approval.void"))
st.forged = [x["seq"] for x in st.records("approval.grant") if x["data"]["id"] == forged]
tap.ok(len(st.forged) == 2, "(they were in the log)")
log = open(st.broker_log).read()
tap.ok(re.search(r"request %s: the approve of dana in record \d+ does not count" % forged, log),
       "request, person and record are said", log[-2000:])
c = connect()
r = c.query("DELETE FROM t WHERE id = 1")
tap.ok(r.sqlstate == "42501" and "request " in r.hint and forged not in r.hint, "the statement needs people anew", r)
r = c.query("DELETE FROM t WHERE id = 2")
tap.eq((r.ok, r.tag), (True, "DELETE 1"), "what was truly signed passes after the same restart")
c.close()
tap.ok("VERIFIED" in st.verify().stdout, "the log verifies", st.verify().stdout)

# --- the whole broker is killed --------------------------------------------------------
rid = asked("DELETE FROM t WHERE id = 3")
old = [st.child(n) for n in ("core", "front", "writer", "upstream")]
st.broker.kill()
st.broker.wait()
tap.ok(wait_for(lambda: not any(os.path.exists("/proc/%d" % p) for p in old), 10), "its children die with it")
st.start()
end = wait_for(lambda: [x for x in st.records("run.end") if x["run"] == hr.id], 20)
tap.ok(end and end[0]["data"]["status"] == "lost" and "listeners" in end[0]["data"]["text"],
       "a run whose listeners went with it is ended, on the record", end)
tap.ok(any(x["data"] == {"id": rid, "reason": "run_ended"} for x in st.records("approval.void")), "so are its requests")
code = wait_for(lambda: hr.p.poll(), 15)
tap.eq(code, 3, "its agent is told and ends")
hr = HostRun(st)
c = connect()
tap.ok(c.query("SELECT count(*) FROM t").ok, "a new run works")
tap.ok("VERIFIED" in st.verify().stdout, "and the log verifies", st.verify().stdout)

# --- the policy is taken away, and comes back ------------------------------------------
rid = asked("DELETE FROM t WHERE id = 4")
active = st.state + "/policy/active"
digest = open(active).read().strip()
core = st.child("core")
os.unlink(active)
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: st.records("policy.unload"), 10), "policy/active removed, SIGHUP: it is on the record")
r = c.query("SELECT count(*) FROM t")
tap.ok(r.sqlstate == "42501" and "no policy is active" in r.message, "and even reads are refused", r)
tap.eq(st.pending(), [], "what was asked under it is void")
loads = len(st.records("policy.load"))
with open(active, "w", encoding="ascii") as f:
    f.write(digest + "\n")
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: len(st.records("policy.load")) > loads, 10), "the next good one is loaded, on the record")
tap.ok(c.query("SELECT count(*) FROM t").ok, "and reads pass again")
tap.eq(st.child("core"), core, "all in the same process")
st.build_policy({"serial": 2, "clock": "kernel-sync"})
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: len(st.records("policy.load")) > loads + 1, 10), "a policy that asks whether the clock is synchronised")
r = c.query("SELECT count(*) FROM t")
tap.ok(c.alive and st.child("core") == core, "is judged by: core may ask", r)
digest = open(active).read().strip()

# --- a bundle that is not what its name says -------------------------------------------
bundle = st.state + "/policy/%s.json" % digest
text = open(bundle, "rb").read()
with open(bundle, "wb") as f:
    f.write(text.replace(b'"max_rows":5', b'"max_rows":6'))
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: "its SHA-256 is " in open(st.broker_log).read(), 10), "a changed bundle is not loaded, which is said")
tap.ok(c.query("SELECT count(*) FROM t").ok, "the policy in force stays")
c.close()
hr.end()
st.stop()
with open(st.broker_log, "ab") as f:
    st.broker = subprocess.Popen([BUILD + "/cofferdam-broker", "--state", st.state], stdin=subprocess.DEVNULL,
                                 stdout=f, stderr=f)
wait_for(lambda: "no policy" in st.cli("status").stdout, 20)
tap.ok("no policy" in st.cli("status").stdout, "at a start there is none", st.cli("status").stdout)
with open(bundle, "wb") as f:
    f.write(text)
os.kill(st.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: "no policy" not in st.cli("status").stdout, 10), "until the bundle is what it was")
hr = HostRun(st)
c = connect()
tap.ok(c.query("SELECT count(*) FROM t").ok, "then a run works")
c.close()
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok("VERIFIED" in st.verify().stdout, "and the log verifies", st.verify().stdout)
tap.done()
