#!/usr/bin/python3
"""A policy while the broker runs: rates, reload under open sessions, bad reloads, and owners who must sign."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, must, run, wait_for
from libpq import IDLE, INTRANS, Conn

tap = Tap()
temp = Temp("reload")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, a int); INSERT INTO t SELECT g, 0 FROM generate_series(1,1000) g;"
         "ALTER TABLE t OWNER TO agent")
READ = {"id": "read", "permit": {"effects": {"only": ["@data"]}}}
WORK = {"id": "work", "permit": {"effects": {"only": ["@data", "@change", "delete"]}}}
MANY = {"id": "many", "require": {"effects": {"any": ["delete"]}, "rate": {"over": 25, "in": "10m", "per": "run"}},
        "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"}
PEOPLE = {"id": "people", "require": {"effects": {"any": ["delete"]}},
          "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"}
st = Stack(temp, pg, policy={"rules": [WORK, MANY]})
hr = HostRun(st)
dsn = hr.dsn(pg)
delete = lambda c, i: c.query("DELETE FROM t WHERE id = %d" % i)
count = lambda: int(pg.admin("SELECT count(*) FROM t"))
status = lambda: st.cli("status").stdout
log = lambda: open(st.broker_log, encoding="utf-8", errors="replace").read()


def refused(n):
    return wait_for(lambda: len(st.records("policy.refused")) >= n and st.records("policy.refused")[-1]["data"], 10)


def hup():
    os.kill(st.broker.pid, signal.SIGHUP)


def reload(rules, **more):
    st.reload(dict({"rules": rules}, **more))


# --- a rate: the 26th delete within ten minutes waits for a person --------------------
c = Conn(dsn)
tap.ok(all(delete(c, i).ok for i in range(1, 26)), "25 deletes within ten minutes go through")
r = delete(c, 26)
tap.ok(r.sqlstate == "42501" and "needs approval by dba:1" in r.message, "the 26th needs a person's signature", r)
tap.eq(count(), 975, "and was not done")
a = st.acts(verdict="needs_approval")[-1]
tap.eq(a["request"]["input"]["rates"], [{"n": 25, "rule": "many"}], "its record says what was counted")
tap.ok(c.query("SELECT count(*) FROM t").ok and c.query("UPDATE t SET a = 1 WHERE id = 30").ok,
       "what the rule does not ask for goes on")
must([CLI, "approve", st.pending()[0], "--state", st.state, "--as", "dana", "--key", st.key("dana"), "--yes"])
tap.ok(delete(c, 26).ok, "signed for, the 26th passes")
tap.eq(delete(c, 27).sqlstate, "42501", "and the 27th waits again")
os.kill(st.child("core"), signal.SIGKILL)
wait_for(lambda: st.child("core") and st.cli("status").returncode == 0, 20)
c = wait_for(lambda: (lambda x: x if x.up else None)(Conn(dsn)), 20)
r = delete(c, 28)
tap.ok(r.sqlstate == "42501" and "rule many" in r.message, "after core was killed the count goes on from the log", r)
tap.eq(st.acts(verdict="needs_approval")[-1]["request"]["input"]["rates"][0]["n"], 26, "with all 26 of them")

# --- reload: sessions live, what waits is void -----------------------------------------
idle, busy = Conn(dsn), Conn(dsn)
busy.query("BEGIN")
busy.query("UPDATE t SET a = 2 WHERE id = 40")
old = st.pending()
tap.ok(len(old) >= 1, "a request is waiting")
reload([WORK, PEOPLE])
tap.eq(st.pending(), [], "a reload leaves no request of the old policy open")
tap.eq({r["data"]["reason"] for r in st.records("approval.void") if r["data"]["id"] in old}, {"policy_changed"},
       "and the log says why")
tap.ok(idle.query("SELECT 1").ok, "an idle session goes on")
tap.eq(busy.txn, INTRANS, "so does an open transaction")
tap.ok(busy.query("COMMIT").ok and pg.admin("SELECT a FROM t WHERE id = 40").strip() == "2", "which commits")
r = delete(idle, 41)
tap.ok("rule people" in r.message, "the next statement is judged by the new policy", r)

# Under load, with reloads meanwhile: no session ends, and every answer is one of the two policies'.
ended, answers, stop = [], [0, 0], threading.Event()


def load():
    s = Conn(dsn)
    while not stop.is_set() and s.up:
        q = s.query("UPDATE t SET a = a + 1 WHERE id = %d" % 50)
        if s.up and (q.ok or q.sqlstate == "42501"):
            answers[0 if q.ok else 1] += 1
        elif not stop.is_set():
            ended.append(str(q))
            return


threads = [threading.Thread(target=load) for _ in range(4)]
for t in threads:
    t.start()
for i in range(6):
    reload([READ] if i % 2 == 0 else [WORK, PEOPLE])
stop.set()
for t in threads:
    t.join(30)
tap.eq(ended, [], "six reloads under load end no session")
tap.ok(answers[0] > 0 and answers[1] > 0, "both policies were asked meanwhile", answers)
sent = {r["data"]["action"]: r["data"]["status"] for r in st.records("outcome")}
loaded = [(r["seq"], r["data"]["digest"]) for r in st.records("policy.load")]
wrong = [x["seq"] for x in st.records("action") if x["data"]["dispatch"]["sent"] and sent.get(x["data"]["action"]) == "ok" and
         x["data"]["decision"]["policy"] not in [d for s, d in loaded if s < x["seq"]][-1:]]
tap.eq(wrong, [], "whatever was sent had been judged by the policy last loaded before its record")

# --- bad reloads -----------------------------------------------------------------------
serial = json.load(open(st.policy_file, encoding="utf-8"))["serial"]
now = open(st.state + "/policy/active", encoding="ascii").read()
with open(st.policy_file, encoding="utf-8") as f:
    text = f.read()
broken = temp.path + "/broken.json"
with open(broken, "w", encoding="utf-8") as f:
    f.write(text.replace('"rules"', '"rulez"', 1))
r = run([CLI, "policy", "build", broken, "--state", st.state])
tap.ok(r.returncode == 1 and "unknown key \"rulez\"" in r.stdout, "POL-01: a policy with an unknown key is not built", r.stdout)
tap.eq(open(st.state + "/policy/active", encoding="ascii").read(), now, "and nothing became active")
first = [d for s, d in loaded][0]
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write(first + "\n")
hup()
tap.has(refused(1)["reason"], "serial must be over %d" % serial, "an older bundle put in place by hand is refused, on the record")
tap.ok("serial %d," % serial in status() and Conn(dsn).query("SELECT 1").ok, "and the one in force stays")
tap.has(log(), "the one in force stays", "the broker's own log says so")
with open(st.state + "/policy/" + "0" * 64 + ".json", "w", encoding="ascii") as f:
    f.write("{}")
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write("0" * 64 + "\n")
hup()
tap.ok(wait_for(lambda: "not its name" in log(), 10), "so is a bundle that is not what its name says")
tap.ok("serial %d," % serial in status(), "and the one in force stays")
torn = text[:len(text) // 2]
name = hashlib.sha256(torn.encode()).hexdigest()
with open(st.state + "/policy/%s.json" % name, "w", encoding="utf-8") as f:
    f.write(torn)
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write(name + "\n")
before = len(log())
hup()
tap.ok(wait_for(lambda: "the one in force stays" in log()[before:], 10), "POL-01: one with a syntax error is refused when it is loaded, and logged",
       log()[before:])
tap.ok("serial %d," % serial in status() and Conn(dsn).query("SELECT 1").ok, "POL-01: and the old policy stays in force")
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write(now)

# --- owners ----------------------------------------------------------------------------
OWNERS = {"people": ["dana", "omar", "olivia"], "count": 2, "not_author": True}
reload([WORK, PEOPLE], owners=OWNERS, author="olivia")
tap.eq(wait_for(lambda: st.record("policy.load").get("owners"), 10), 2, "a policy with owners is loaded; the record says how many must sign")
owned = open(st.state + "/policy/active", encoding="ascii").read()


def build(rules, serial, **more):
    st.write_policy(dict({"rules": rules, "serial": serial, "owners": OWNERS}, **more))
    return run([CLI, "policy", "build", st.policy_file, "--state", st.state])


r = build([READ], serial + 2, author="olivia")
digest = r.stdout.split("digest sha256:")[1].split()[0]
tap.has(r.stdout, "not active yet: 2 of the active policy's owners must sign it", "build says that owners must sign")
tap.eq(open(st.state + "/policy/active", encoding="ascii").read(), owned, "and makes nothing active")
r = st.cli("policy", "activate", digest)
tap.ok(r.returncode == 1 and "(dana, omar, olivia), 0 count" in r.stdout, "activate without signatures is refused", r.stdout)
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write(digest + "\n")
hup()
WANT = "signatures of 2 of its owners are needed"
tap.ok(wait_for(lambda: WANT in st.records("policy.refused")[-1]["data"]["reason"], 20), "put in place by hand, the broker refuses it", st.records("policy.refused")[-1])
tap.ok("serial %d," % (serial + 1) in status(), "and the one in force stays")
with open(st.state + "/policy/active", "w", encoding="ascii") as f:
    f.write(owned)
hup()
wait_for(lambda: "serial %d," % (serial + 1) in status(), 15)
sign = lambda who, key=None: st.cli("policy", "sign", digest, "--as", who, "--key", st.key(key or who), "--yes")
r = sign("dana", "omar")
tap.ok(r.returncode != 0 and "the key is not theirs" in r.stdout, "nobody signs with another's key", r.stdout)
r = sign("dana")
tap.ok(r.returncode == 0 and "1 count" in r.stdout, "the first owner signs", r.stdout)
r = st.cli("policy", "activate", digest)
tap.ok(r.returncode == 1, "one is not enough", r.stdout)
with open(st.state + "/policy/%s.json" % owned.strip(), "rb") as f, open(temp.path + "/before.json", "wb") as g:
    g.write(f.read())
with open(st.state + "/policy/%s.json" % digest, "rb") as f, open(temp.path + "/next.json", "wb") as g:
    g.write(f.read())
r = subprocess.run([CLI, "policy", "sign", temp.path + "/next.json", "--before", temp.path + "/before.json", "--as", "omar",
                    "--key", st.key("omar"), "--yes"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8", timeout=60)
tap.ok(r.returncode == 0 and r.stdout.startswith("-----BEGIN SSH SIGNATURE-----"),
       "another signs on a machine of their own, by the two bundles alone", r.stdout)
with open(temp.path + "/omar.sig", "w", encoding="ascii") as f:
    f.write(r.stdout)
r = st.cli("policy", "activate", digest, "--signature", "omar=" + temp.path + "/omar.sig")
tap.ok(r.returncode == 0 and "active: policy test serial %d" % (serial + 2) in r.stdout, "two owners signed: it becomes active", r.stdout)
hup()
tap.ok(wait_for(lambda: "serial %d," % (serial + 2) in status(), 15), "and the broker takes it")
st.stop()
st.start()
tap.ok("serial %d," % (serial + 2) in status(), "also after a restart")
n = len(st.records("policy.refused"))
r = build([WORK], serial + 3, author="olivia")
digest = r.stdout.split("digest sha256:")[1].split()[0]
sign("dana")
sign("olivia")
st.stop()
r = st.cli("policy", "activate", digest)
tap.ok(r.returncode == 0, "a policy is activated while the broker is down", r.stdout)
st.start()
tap.ok("serial %d," % (serial + 3) in status() and len(st.records("policy.refused")) == n,
       "and taken at its start, by the log's word and the bundle before", log()[-500:])
r = build([WORK], serial + 4, author="dana")
digest = r.stdout.split("digest sha256:")[1].split()[0]
sign("dana")
r = st.cli("policy", "activate", digest)
tap.ok(r.returncode == 1 and "of 2 of its owners" in r.stdout, "the author alone is too few", r.stdout)

# --- the log ---------------------------------------------------------------------------
hr.end()
st.stop()
r = st.verify()
tap.eq(r.returncode, 0, "the log verifies")
r = run([CLI, "replay", "whatif", "--state", st.state])
tap.ok(r.returncode == 0, "and judging every action again gives the recorded verdicts, rates and all", r.stdout[-600:])
tap.done()
