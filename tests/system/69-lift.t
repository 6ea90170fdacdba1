#!/usr/bin/python3
"""Exceptions, break-glass and the revoke of a run, over the real broker and a real PostgreSQL: what is signed lifts
exactly what it names, as often and as long as it says; break-glass is reviewed by another person; a revoked run stops."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Http, Pg, Stack, Tap, Temp, wait_for
from libpq import IDLE, Conn
from origin import Origin

tap, temp = Tap(), Temp("lift")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1,400) g;"
         "CREATE INDEX i ON t(v); ALTER TABLE t OWNER TO agent")
PEOPLE = {"olivia": ["oncall", "breakglass"], "dana": ["dba"], "omar": ["oncall", "breakglass"], "carol": ["change-manager"]}
ISO = "%Y-%m-%dT%H:%M:%SZ"
iso = lambda t: time.strftime(ISO, time.gmtime(t))
ASK = {"within": "30m", "use_within": "10m"}
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         dict(ASK, id="drops", require={"effects": {"any": ["drop"]}},
              approve=[{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}]),
         {"id": "soft", "forbid": {"effects": {"any": ["delete"]}}, "override": "exception"},
         {"id": "hard", "forbid": {"effects": {"any": ["schema"]}}, "override": "breakglass", "why": "No schema changes."}]
o = Origin(temp.path, "infra.test")
st = Stack(temp, pg, {"rules": RULES}, people=PEOPLE, http={"infra": Http(o)})
hr = HostRun(st)
c = Conn(hr.dsn(pg))


def sign(what, verb, oid, person, *extra):
    return st.cli(what, verb, oid, "--as", person, "--key", st.key(person), "--yes", *extra)


def request(rule="soft", effects="delete", uses="2", *extra, target="crm-db", length=("--for", "1h")):
    r = st.cli("exception", "request", "--rule", rule, "--target", target, "--effects", effects, "--uses", uses, *length,
               "--ticket", "CHG-1", "--reason", "the vendor's fix", *extra)
    return r.stdout.strip() if r.returncode == 0 else r


def status(key):
    return json.loads(st.cli("status", "--json").stdout)[key]


def refused(r, word):
    return not r.ok and r.sqlstate == "42501" and word in r.message


def last():
    return st.acts()[-1]


def data(type_, oid):
    return [x["data"] for x in st.records(type_) if x["data"]["id"] == oid]


def again():
    global c
    c.close()
    c = wait_for(lambda: next((x for x in [Conn(hr.dsn(pg))] if x.alive), None), 30)


# === an exception: asked for, granted ========================================================================
tap.ok(refused(c.query("DELETE FROM t WHERE id = 1"), "soft"), "a rule refuses")
for words, args in (("override", ("no-escape", "exec")), ("no forbid rule", ("drops", "drop")), ("no effect", ("soft", "wipe")),
                    ("uses", ("soft", "delete", "0")), ("soft forbids none of these effects on crm-db", ("soft", "drop schema")),
                    ("no run r-another", ("soft", "delete", "1", "--run", "r-another"))):
    r = request(*args)
    tap.ok(not isinstance(r, str) and words in r.stdout, "not asked for: %s" % words, r)
r = request(length=("--for", "25h"))
tap.ok(not isinstance(r, str) and "86400" in r.stdout, "nor for longer than a day", r)
eid = request()
tap.ok(isinstance(eid, str) and len(eid) == 26, "an exception is asked for", eid)
tap.ok(refused(c.query("DELETE FROM t WHERE id = 1"), "soft"), "asking lifts nothing")
tap.eq([x["missing"] for x in status("exceptions")], [["change-manager:1"]], "status says whom it waits for")
r = sign("exception", "sign", eid, "dana")
tap.ok(r.returncode != 0 and "role" in r.stdout, "whom the policy does not ask cannot grant it", r.stdout)
r = sign("exception", "sign", eid, "carol")
tap.ok(r.returncode == 0 and "in force" in r.stdout and "cofferdam-exception v1\ndecision: grant\n" in r.stdout,
       "the change manager grants it: of a delete nobody else is asked", r.stdout)

# === used ====================================================================================================
tap.eq(c.query("DELETE FROM t WHERE id = 1").tag, "DELETE 1", "then the action passes")
a = last()
tap.eq((a["decision"]["verdict"], a["decision"]["lifted"], a["request"]["input"]["lifts"][0]["id"]), ("allow", [eid], eid),
       "and its record says by what")
tap.eq([u["used"] for u in data("exception.use", eid)], [1], "the use is on the record")
use = [x["seq"] for x in st.records("exception.use")][0]
tap.ok(use < [x["seq"] for x in st.records("action") if x["data"]["action"] == a["action"]][0], "before the action")
c.query("BEGIN")
tap.eq(c.query("DELETE FROM t WHERE id = 2").tag, "DELETE 1", "the last use, inside a transaction")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 3"), "soft"), "there is none left for another statement")
c.query("ROLLBACK")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 2"), "soft"), "nor outside: a use is a use")
tap.eq([u["used"] for u in data("exception.use", eid)], [1, 2], "two of two")
eid = request("soft", "delete", "1")
sign("exception", "sign", eid, "carol")
c.query("BEGIN")
tap.eq(c.query("DELETE FROM t WHERE id = 4").tag, "DELETE 1", "one use of one, inside a transaction")
tap.eq(c.query("COMMIT").tag, "COMMIT", "whose COMMIT needs no further use")
tap.eq(pg.admin("SELECT count(*) FROM t WHERE id IN (1, 4)"), "0", "the server has done both")

# === the same over HTTP ======================================================================================
def by_http():
    x = hr.direct("infra")
    a = x.ask("DELETE", "/volumes/1", o.authority)
    x.close()
    return a.status, a.body.decode()


status_, body = by_http()
tap.ok(status_ == 403 and "soft" in body, "HTTP: the rule refuses", body)
eid = request("soft", "delete", "1", target="infra")
sign("exception", "sign", eid, "carol")
tap.eq(by_http()[0], 200, "HTTP: an exception lets it pass")
tap.eq(([u["used"] for u in data("exception.use", eid)], last()["decision"]["lifted"]), ([1], [eid]), "HTTP: one use, on the record")
tap.eq((by_http()[0], len([r for r in o.arrivals if r.method == "DELETE"])), (403, 1), "HTTP: and no second")

# === narrow ==================================================================================================
eid = request("soft", "delete", "5", target="infra")
sign("exception", "sign", eid, "carol")
tap.eq([x["state"] for x in status("exceptions") if x["id"] == eid], ["in force"], "an exception for another target")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 5"), "soft"), "does not help this one")
eid = request("soft", "delete drop", "5", target="infra")
sign("exception", "sign", eid, "carol")
tap.ok([x["missing"] for x in status("exceptions") if x["id"] == eid] == [["dba:1", "oncall:1"]],
       "one that covers more asks for the people of the more", status("exceptions"))
other = HostRun(st)
eid = request("soft", "delete", "5", "--run", other.id)
sign("exception", "sign", eid, "carol")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 5"), "soft"), "nor does one of another run")
other.end()
eid = request("soft", "delete", "5", "--from", iso(time.time() + 600), length=("--to", iso(time.time() + 900)))
sign("exception", "sign", eid, "carol")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 5"), "soft"), "nor one whose window has not begun")
tap.eq([x["state"] for x in status("exceptions") if x["id"] == eid], ["granted, not begun"], "which nobody is told to be in force")
r = request("soft", "delete", "1", "--to", iso(time.time() + 900))
tap.ok(not isinstance(r, str) and "not both" in r.stdout, "a window has one end", r)

# === ended ===================================================================================================
eid = request("soft", "delete", "5", "--run", hr.id)
sign("exception", "sign", eid, "carol")
tap.eq(c.query("DELETE FROM t WHERE id = 5").tag, "DELETE 1", "one of this run does")
r = sign("exception", "revoke", eid, "dana", "--note", "enough")
tap.ok(r.returncode == 0 and "over" in r.stdout, "any one person ends it", r.stdout)
tap.ok(refused(c.query("DELETE FROM t WHERE id = 6"), "soft"), "and then it lifts nothing")
tap.eq([d["why"] for d in data("exception.end", eid)], ["revoke by dana"], "the record says who")
eid = request("soft", "delete", "3")
sign("exception", "sign", eid, "carol")
tap.eq(c.query("DELETE FROM t WHERE id = 7").tag, "DELETE 1", "another")
pid = st.child("core")
os.kill(pid, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, pid) and st.cli("status").returncode == 0, 30)
again()
tap.eq(c.query("DELETE FROM t WHERE id = 8").tag, "DELETE 1", "it holds when core was killed: its signature verifies again")
tap.eq(c.query("DELETE FROM t WHERE id = 9").tag, "DELETE 1", "the third use")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 10"), "soft"), "and no fourth: what was used before counts")
eid = request("soft", "delete", "3")
sign("exception", "sign", eid, "carol")
st.reload({"rules": RULES})
tap.eq([d["why"] for d in wait_for(lambda: data("exception.end", eid), 10) or []], ["policy_changed"], "another policy voids it")
again()
tap.ok(refused(c.query("DELETE FROM t WHERE id = 11"), "soft"), "and it lifts nothing")

# === FRZ-01: a freeze between approval and execution, with an exception ======================================
start = int(time.time()) + 6
st.reload({"rules": RULES + [{"id": "freeze", "forbid": {"during": ["release"], "effects": {"any": ["drop"]}}, "override": "exception"}],
           "calendars": {"release": {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2020-01-01", "2040-01-01"],
                                     "once": [{"from": iso(start)[:-1], "to": iso(start + 3600)[:-1]}]}}})
again()
r = c.query("DROP INDEX i")
rid = next(x for x in st.pending() if x in r.hint)
tap.eq([st.sign("approve", rid, p).returncode for p in ("dana", "omar")], [0, 0], "FRZ-01: signed before the freeze")
eid = request("freeze", "drop", "1")
r = [sign("exception", "sign", eid, p, "--role", role) for p, role in
     (("dana", "dba"), ("omar", "oncall"), ("carol", "change-manager"))]
tap.ok([x.returncode for x in r] == [0, 0, 0] and "in force" in r[2].stdout, "FRZ-01: and an exception by the rule's people", r[2].stdout)
time.sleep(max(0, start + 0.2 - time.time()))
r = c.query("DROP INDEX i")
tap.eq(r.tag, "DROP INDEX", "FRZ-01: inside the freeze it is allowed by both")
a = last()["decision"]
tap.eq((a["lifted"], sorted(g["person"] for g in a["grants"]), a["approval"]), ([eid], ["dana", "omar"], rid),
       "FRZ-01: the record shows both")
pg.admin("CREATE INDEX i ON t(v)")
r = c.query("DROP INDEX i")
tap.ok(refused(r, "freeze"), "FRZ-01: without one it is refused", r)

# === break-glass =============================================================================================
st.reload({"rules": RULES, "calendars": {}, "emergency": {"breakglass": {"max": "30m", "answer_within": "30m"}}})
again()
ALTER = "ALTER TABLE t ADD COLUMN c%d int"


def glass(person, *extra, effects="schema", length="10m"):
    r = st.cli("breakglass", "start", "--target", "crm-db", "--effects", effects, "--for", length, "--reason", "outage",
               "--as", person, "--key", st.key(person), "--yes", *extra)
    m = re.search(r"breakglass ([a-z2-7]{26}): in force", r.stdout)
    return m.group(1) if r.returncode == 0 and m else r


tap.ok(refused(c.query(ALTER % 1), "hard"), "a rule that only break-glass lifts")
r = glass("dana")
tap.ok(not isinstance(r, str) and "role" in r.stdout, "a person without the role cannot break the glass", r)
r = glass("omar", length="31m")
tap.ok(not isinstance(r, str) and "1800" in r.stdout, "nor for longer than the policy says", r)
gid = glass("omar")
tap.ok(isinstance(gid, str), "a person with the role does", gid)
tap.eq(c.query(ALTER % 1).tag, "ALTER TABLE", "and it acts, for another person's run at once")
tap.eq(last()["decision"]["lifted"], [gid], "on the record")
tap.ok(refused(c.query("COPY t TO PROGRAM 'id'"), "no-escape"), "what is never lifted is not lifted")
tap.ok(refused(c.query("DELETE FROM t WHERE id = 20"), "soft"), "nor what has another override")
tap.ok(any(gid == x["id"] and x["state"] == "in force" for x in status("breakglass")) and gid in st.cli("status").stdout,
       "status tells everybody")
r = glass("olivia")
tap.ok(not isinstance(r, str) and "in force for the same target" in r.stdout, "one at a time", r)
c.query("BEGIN")
tap.eq(c.query(ALTER % 2).tag, "ALTER TABLE", "a transaction under it")
r = sign("breakglass", "end", gid, "dana")
tap.ok(r.returncode == 0 and "to be reviewed" in r.stdout, "anybody ends it", r.stdout)
r = c.query("COMMIT")
tap.ok(refused(r, "hard") or r.tag == "ROLLBACK", "its end stops the COMMIT", r)
if c.txn != IDLE:
    c.query("ROLLBACK")
tap.ok(refused(c.query(ALTER % 3), "hard"), "and it lifts nothing any more")
tap.eq(pg.admin("SELECT count(*) FROM information_schema.columns WHERE table_name = 't' AND column_name = 'c2'"), "0",
       "the server kept nothing of it")
r = glass("olivia")
tap.ok(not isinstance(r, str) and "must be reviewed" in r.stdout, "until it is reviewed nobody breaks the glass again", r)
r = sign("breakglass", "review", gid, "omar", "--note", "all fine")
tap.ok(r.returncode != 0 and "another person" in r.stdout, "who broke it does not review it", r.stdout)
st.stop()
st.start()
tap.eq(status("reviews"), 1, "the review is open after a restart")
r = sign("breakglass", "review", gid, "dana", "--note", "INC-77: one column, looked at")
tap.ok(r.returncode == 0 and "over" in r.stdout, "another person does", r.stdout)
tap.eq([s["note"] for s in data("breakglass.sign", gid) if s["decision"] == "close"], ["INC-77: one column, looked at"],
       "what they found is signed and on the record")
c.close()
hr.kill()
hr = HostRun(st)
c = Conn(hr.dsn(pg))
gid = glass("olivia")
tap.ok(isinstance(gid, str), "and then it can be broken again", gid)
tap.ok(refused(c.query(ALTER % 3), "hard"), "in their own run it does not act alone while a second person may answer")
r = sign("breakglass", "confirm", gid, "olivia")
tap.ok(r.returncode != 0 and "another person" in r.stdout, "they do not confirm themselves", r.stdout)
r = sign("breakglass", "confirm", gid, "carol")
tap.ok(r.returncode == 0, "a second person agrees", r.stdout)
tap.eq(c.query(ALTER % 3).tag, "ALTER TABLE", "and then it acts there, too")
pid = st.child("core")
os.kill(pid, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, pid) and st.cli("status").returncode == 0, 30)
again()
tap.eq(c.query(ALTER % 4).tag, "ALTER TABLE", "also after core was killed: both signatures verify again")
# INC-03: roles never lower a count, and break-glass is a verb of its own with records of its own.
r = c.query("DROP INDEX i")
tap.ok(not r.ok and "needs approval" in r.message, "INC-03: break-glass lowers no count: a drop still needs its two people", r)
sign("breakglass", "end", gid, "dana")
sign("breakglass", "review", gid, "dana", "--note", "looked at")
tap.eq(sorted({x["type"] for x in st.records() if x["type"].startswith("breakglass.")}),
       ["breakglass." + x for x in ("begin", "end", "rejected", "request", "review", "sign")], "INC-03: and all of it is on the record")
st.reload({"rules": RULES, "emergency": {"breakglass": {"key": "verified"}}})
again()
r = glass("omar")
tap.ok(not isinstance(r, str) and "user_verification" in r.stdout, "a policy may ask for a hardware key with user verification", r)

# === INC-07: revoke ==========================================================================================
st.reload({"rules": RULES[:3], "emergency": {}})
lr = HostRun(st)
done, errors = [], []


def looper():
    x = Conn(lr.dsn(pg))
    for i in range(100, 300):
        r = x.query("DELETE FROM t WHERE id = %d" % i)
        if not r.ok:
            errors.append((r, x.alive))
            return
        done.append(time.monotonic())
        time.sleep(0.05)


t = threading.Thread(target=looper, daemon=True)
t.start()
wait_for(lambda: len(done) >= 30, 60, 0.01)
r = st.cli("revoke", lr.id, "--reason", "it deletes in a loop")
said = time.monotonic()
tap.ok(r.returncode == 0 and "revoked" in r.stdout, "INC-07: one command revokes the run", r.stdout)
t.join(20)
tap.ok(errors and not errors[0][1], "INC-07: the next request is refused and the connection ended", (errors, len(done)))
tap.ok(not [x for x in done if x > said], "INC-07: none passes after the command has returned")
gone = 200 - int(pg.admin("SELECT count(*) FROM t WHERE id >= 100 AND id < 300"))
tap.ok(len(done) <= gone <= len(done) + 1, "INC-07: the server has at most the one in flight besides", (gone, len(done)))
tap.ok(not Conn(lr.dsn(pg, connect_timeout=2)).alive, "INC-07: no new connection either")
tap.eq(lr.p.wait(20), 3, "INC-07: its loop is told to kill the sandbox")
box = subprocess.Popen([CLI, "run", "--state", st.state, "--", "/bin/sh", "-c", "echo up; sleep 50; echo survived"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
line = box.stdout.readline()
while line and line.strip() != "up":
    line = box.stdout.readline()
box_run = next(x.split()[0] for x in st.cli("status").stdout.splitlines() if x.strip().startswith("r-") and hr.id not in x)
r = st.cli("revoke", box_run)
try:
    out = box.communicate(timeout=30)[0]
except subprocess.TimeoutExpired:
    box.kill()
    out = "survived " + box.communicate()[0]
tap.ok(r.returncode == 0 and "survived" not in out, "INC-07: a sandbox is ended with its run", (r.stdout, out))
wait_for(lambda: len(st.records("run.revoke")) == 2, 20)
tap.eq([(x["data"]["by"][:5], x["data"].get("reason")) for x in st.records("run.revoke")],
       [("unix:", "it deletes in a loop"), ("unix:", None)], "INC-07: who pressed it, and why, is on the record")
tap.eq([x["data"]["status"] for x in st.records("run.end")][-2:], ["revoked", "revoked"], "INC-07: and that it was so")
r = st.cli("revoke", "r-nothing")
tap.ok(r.returncode != 0 and "there is no run" in r.stdout, "a run that is not there is said", r.stdout)

# === replay ==================================================================================================
c.close()
hr.end()
st.stop()
r = st.cli("replay", "whatif")
tap.ok(r.returncode == 0 and "(100 %)" in r.stdout, "every verdict comes out again, with what was lifted", r.stdout[-600:])
tap.eq(st.verify().returncode, 0, "the log verifies")
tap.done()
