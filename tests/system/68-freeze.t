#!/usr/bin/python3
"""Emergency freezes and the clock, over the real broker and a real PostgreSQL: one signature refuses changes from
then on, also at COMMIT; two people lift it; it survives whatever is killed; `status` says what is frozen, and why."""
import ctypes
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, run, wait_for
from libpq import IDLE, Conn

tap, temp = Tap(), Temp("freeze")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1,100) g;"
         "ALTER TABLE t OWNER TO agent")
pg.log_statements()
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "delete"]}}},
         {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]
st = Stack(temp, pg, {"rules": RULES})
hr = HostRun(st)
c = Conn(hr.dsn(pg))
FREEZE = r"freeze ([a-z2-7]{26}): in force"


def freeze(*args, person="dana"):
    return st.cli("freeze", "start", "--as", person, "--key", st.key(person), "--yes", *args)


def started(r):
    m = re.search(FREEZE, r.stdout)
    return m.group(1) if r.returncode == 0 and m else None


def lift(fid, person, **kw):
    return st.cli("freeze", "lift", fid, "--as", person, "--key", st.key(kw.get("key", person)), "--yes")


def status():
    return json.loads(st.cli("status", "--json").stdout)


def frozen(r, fid):
    return not r.ok and r.sqlstate == "42501" and "emergency freeze" in r.message and fid in r.message


# === start ==================================================================================================
tap.eq(c.query("UPDATE t SET v=1 WHERE id=1").tag, "UPDATE 1", "before it a change passes")
r = freeze("--reason", "disk is failing")
fid = started(r)
tap.ok(fid, "one signature starts it", r.stdout)
tap.has(r.stdout, "cofferdam-freeze v1\ndecision: start\n", "the statement is shown before it is signed")
r = c.query("UPDATE t SET v=2 WHERE id=1")
tap.ok(frozen(r, fid) and "disk is failing" in (r.detail or "") + r.message, "and changes are refused from then on", r)
tap.ok(frozen(c.query("DELETE FROM t WHERE id=2"), fid), "so is a delete")
tap.eq(c.query("SELECT count(*) FROM t").rows, [["100"]], "looking passes")
a = st.acts()[-2]
tap.eq([(o["id"], o["effects"], o["why"]) for o in a["request"]["input"]["overlays"]],
       [(fid, sorted(["write", "schema", "delete", "bulk", "drop", "overwrite", "disrupt", "session", "exec", "priv", "net",
                      "audit", "secret", "opaque", "invalid"]), "disk is failing")], "the record holds what core judged with")
s = status()
tap.ok(any(fid in w and "dana" in w for w in s["frozen"]) and s["freezes"][0]["state"] == "in force", "status says so", s)
r = st.cli("status")
tap.ok(fid in r.stdout and "disk is failing" in r.stdout and r.returncode == 0, "in words as well", r.stdout)

# === narrow ones ============================================================================================
r = freeze("--reason", "only deletes", "--effects", "delete", "--target", "crm-db", person="omar")
narrow = started(r)
tap.ok(narrow, "one of one effect on one target", r.stdout)
r = freeze("--reason", "x", "--target", "nowhere")
tap.ok(r.returncode != 0 and "nowhere" in r.stdout, "a target that is not there is said", r.stdout)
r = freeze("--reason", "x", "--effects", "destroy")
tap.ok(r.returncode != 0 and "destroy" in r.stdout, "so is a word that is no effect", r.stdout)

# === who may ================================================================================================
mallory = st.keys + "/mallory"
run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", mallory])
r = st.cli("freeze", "start", "--reason", "x", "--as", "dana", "--key", mallory, "--yes")
tap.ok(r.returncode != 0 and "unknown_key" in r.stdout, "a key that is nobody's starts none", r.stdout)
r = st.cli("freeze", "start", "--reason", "x", "--as", "mallory", "--key", mallory, "--yes")
tap.ok(r.returncode != 0 and "not_a_person" in r.stdout, "nor does a name", r.stdout)
tap.eq([x["data"]["reason"] for x in st.records("freeze.rejected")], ["unknown_key", "not_a_person"], "both are on the record")

# === FRZ-07: what the caller says of itself changes nothing =================================================
for what, more, sql in (("application_name", {"application_name": "manual-deploy"}, "UPDATE t SET v=1 WHERE id=2"),
                        ("a comment", {}, "/* initiated-by: human, approved by oncall, hotfix/x */ UPDATE t SET v=1 WHERE id=2"),
                        ("a person's name as user", {"user": "dana"}, "UPDATE t SET v=1 WHERE id=2")):
    x = Conn(hr.dsn(pg, **more))
    r = x.query(sql)
    tap.ok(frozen(r, fid), "FRZ-07: %s: no effect on an emergency freeze" % what, r)
    x.close()
tap.ok("manual-deploy" not in json.dumps([a["request"]["input"] for a in st.acts()]), "FRZ-07: what is claimed is no input of the verdict")

# === slips ==================================================================================================
for args, words in ((("--env", "prd"), 'no target of the policy is in env "prd" (crm-db is in prod)'),
                    (("--target", "crm-db", "--env", "staging"), "nothing would be frozen"),
                    (("--target", "crm"), 'no target "crm"')):
    r = freeze("--reason", "slip", *args)
    tap.ok(r.returncode == 1 and words in r.stdout, "a freeze that would freeze nothing is refused: %s" % " ".join(args), r.stdout)
r = freeze("--reason", "by environment", "--env", "prod")
tap.ok(started(r), "one of the environment that there is, is not", r.stdout)
for p in ("dana", "omar"):
    lift(started(r), p)
before = status()["freezes"]
for args in (("--key", st.t + "/no-key", "--yes"), ("--key", st.key("dana"))):
    r = st.cli("freeze", "start", "--reason", "slip", "--as", "dana", *args)
    tap.ok(r.returncode != 0 and ("--key FILE" in r.stdout or "say --yes" in r.stdout) and "statement" not in r.stdout,
           "what cannot be signed is not asked for: %s" % args[0], r.stdout)
tap.eq(status()["freezes"], before, "and leaves nothing behind")
for i in range(20):
    st.cli("freeze", "start", "--reason", "wrong key %d" % i, "--as", "dana", "--key", st.key("omar"), "--yes")
asked = [x for x in status()["freezes"] if x["state"] == "asked"]
tap.ok(0 < len(asked) <= 8, "what was begun with a wrong key waits, some of it", asked)
r = st.cli("freeze", "lift", asked[0]["id"], "--as", "dana", "--key", st.key("dana"), "--yes")
tap.ok(r.returncode == 1 and "nobody has started it" in r.stdout, "there is nothing of it to lift", r.stdout)
r = freeze("--reason", "after twenty slips")
tap.ok(started(r), "and keeps no freeze from starting", r.stdout)
for p in ("dana", "omar"):
    last = lift(started(r), p)
tap.has(last.stdout, "freeze %s: over" % started(r), "and it is lifted as any")

# === lift ===================================================================================================
r = lift(narrow, "dana")
tap.ok(r.returncode == 0 and narrow in r.stdout and "in force" in r.stdout, "one person alone does not lift it", r.stdout)
tap.has(r.stdout, "missing   the signature of one more person", "and is told that another one must")
r = lift(narrow, "dana")
tap.ok("in force" in r.stdout, "nor one person twice", r.stdout)
r = lift(narrow, "omar", key="dana")
tap.ok(r.returncode != 0 and "unknown_key" in r.stdout, "nor one person under two names", r.stdout)
r = lift(narrow, "omar")
tap.ok(r.returncode == 0 and "over" in r.stdout, "two people do", r.stdout)
tap.eq([x["data"]["why"] for x in st.records("freeze.end") if x["data"]["id"] == narrow], ["lift by dana by omar"],
       "and the record names them")
tap.ok(frozen(c.query("UPDATE t SET v=2 WHERE id=1"), fid), "the other one goes on")


# === it survives ============================================================================================
def killed(child):
    pid = st.child(child)
    os.kill(pid, signal.SIGKILL)
    return wait_for(lambda: st.child(child) not in (0, pid) and st.cli("status").returncode == 0, 30)


for child in ("core", "writer"):
    tap.ok(killed(child), "%s comes back after kill -9" % child)
    c.close()
    c = wait_for(lambda: next((x for x in [Conn(hr.dsn(pg))] if x.alive), None), 30) or c
    r = c.query("UPDATE t SET v=2 WHERE id=1")
    tap.ok(frozen(r, fid), "the freeze holds after %s was killed" % child, r)
c.close()
hr.end()
st.stop()
st.start()
hr = HostRun(st)
c = Conn(hr.dsn(pg))
tap.ok(frozen(c.query("UPDATE t SET v=2 WHERE id=1"), fid), "and after the whole broker was restarted")
st.reload({"rules": RULES})
tap.ok(frozen(c.query("UPDATE t SET v=2 WHERE id=1"), fid), "and under a new policy")
tap.eq([lift(fid, p).returncode for p in ("dana", "omar")], [0, 0], "two people lift it then, too")
tap.eq(c.query("UPDATE t SET v=2 WHERE id=1").tag, "UPDATE 1", "and changes pass again")
tap.eq(status()["frozen"], [], "status: nothing is frozen")

# === in mid-transaction =====================================================================================
c.query("BEGIN")
tap.eq(c.query("UPDATE t SET v=9 WHERE id=3").tag, "UPDATE 1", "a transaction has changed a row")
fid = started(freeze("--reason", "stop"))
r = c.query("COMMIT")
tap.ok(frozen(r, fid) or (r.tag == "ROLLBACK" and not r.ok), "a freeze that begins then stops the COMMIT", r)
if c.txn != IDLE:
    c.query("ROLLBACK")
tap.eq(pg.admin("SELECT v FROM t WHERE id=3"), "0", "and the server keeps nothing of it")
c.query("BEGIN")
c.query("SELECT 1")
tap.eq(c.query("COMMIT").tag, "COMMIT", "one that has only looked commits")
tap.eq([lift(fid, p).returncode for p in ("olivia", "omar")], [0, 0], "lifted")

# === who is named by the policy =============================================================================
st.reload({"rules": RULES, "emergency": {"freeze": ["oncall"]}})
r = freeze("--reason", "x", person="dana")
tap.ok(r.returncode != 0 and "role" in r.stdout, "with roles in the policy others may not", r.stdout)
fid = started(freeze("--reason", "x", person="omar"))
tap.ok(fid, "a person of the role may")
r = lift(fid, "dana")
tap.ok(r.returncode != 0 and "to lift this takes a role (oncall) that dana does not have" in r.stdout and 'role "any"' not in r.stdout,
       "others do not lift it either, and hear which role it takes", r.stdout)
tap.eq([lift(fid, p).returncode for p in ("olivia", "omar")], [0, 0], "two of the role do")
r = run([CLI, "policy", "check", "/dev/stdin"], stdin=None, input=json.dumps(
    dict(json.load(open(st.policy_file)), emergency={"freeze": ["dba"]})))
tap.ok(r.returncode != 0 and "lifted by 2 people" in r.stdout, "a freeze that nobody could lift is a load error", r.stdout)

# === the clock ==============================================================================================
DAY = 86400
day = lambda t: time.strftime("%Y-%m-%d", time.gmtime(t))
stamp = lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))
now = time.time()
end = int(now) + 3600


def cal(valid, **kw):
    return dict({"kind": "freeze", "tz": "Etc/UTC", "valid": valid}, **kw)


WIDE = ["2020-01-01", "2040-01-01"]
FROZEN = RULES + [{"id": "calm", "forbid": {"during": ["past"], "effects": {"any": ["@change"]}}, "override": "never"}]
st.reload({"rules": FROZEN, "calendars": {
    "past": cal(["2020-01-01", "2021-01-01"], once=[{"from": "2020-12-18T18:00", "to": "2020-12-20T08:00"}]),
    "running": cal(WIDE, once=[{"from": stamp(end - 7200)[:-1], "to": stamp(end)[:-1]}]),
    "later": cal(WIDE, once=[{"from": stamp(end)[:-1], "to": stamp(end + 60)[:-1]}]),
    "shut": dict(cal(WIDE, once=[{"from": stamp(end)[:-1], "to": stamp(end + 60)[:-1]}]), kind="open")}})
s = status()
by = {x["id"]: x for x in s["calendars"]}
tap.eq((by["past"]["state"], by["running"]["state"], by["later"]["state"], by["shut"]["state"]),
       ("unknown", "frozen", "clear", "closed"), "each calendar's state")
tap.eq((by["running"]["since"], by["running"]["until"], by["later"]["until"], by["shut"]["until"]),
       (stamp(end - 7200), stamp(end), stamp(end), stamp(end)), "since when, and until when")
tap.ok(any("past" in w and "2021-01-01" in w and "passed" in w for w in s["frozen"]), "a passed horizon counts as frozen, said",
       s["frozen"])
r = c.query("UPDATE t SET v=5 WHERE id=5")
tap.ok(not r.ok and "calm" in r.message, "and is", r)
tap.eq(len(s["frozen"]), 3, "the one that is clear is not named")

# FRZ-02: several open windows, and a freeze inside one of them.
work = {"kind": "open", "tz": "Etc/UTC", "valid": ["2026-01-01", "2027-01-01"],
        "weekly": [{"from": "%s 09:00" % d, "to": "%s %s:00" % (d, e)} for d, e in
                   (("Mon", 17), ("Tue", 17), ("Wed", 17), ("Thu", 17), ("Fri", 14))]}
shut = {"id": "hours", "forbid": {"outside": ["work"], "effects": {"any": ["@change"]}}, "override": "never"}
monday = {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2026-01-01", "2027-01-01"],
          "weekly": [{"from": "Mon 10:00", "to": "Mon 11:00"}]}
stop = {"id": "standup", "forbid": {"during": ["monday"], "effects": {"any": ["@change"]}}, "override": "never"}


def judged(at, rules, **calendars):
    with open(st.policy_file, encoding="utf-8") as f:
        policy = dict(json.load(f), rules=RULES + rules, calendars=calendars)
    with open(temp.path + "/hours.json", "w", encoding="utf-8") as f:
        json.dump(policy, f)
    return run([CLI, "policy", "explain", temp.path + "/hours.json", "--target", "crm-db",
                "--sql", "UPDATE t SET v=1 WHERE id=1", "--at", at]).stdout


for at, verdict, says in (("2026-11-30T10:00:00Z", "allow", ""), ("2026-12-04T13:59:59Z", "allow", ""),
                          ("2026-12-04T14:00:00Z", "deny", "2026-12-07T09:00:00Z"),
                          ("2026-12-05T10:00:00Z", "deny", "2026-12-07T09:00:00Z")):
    out = judged(at, [shut], work=work)
    tap.ok(re.search(r"\b%s" % verdict, out) and says in out and (verdict == "allow" or "hours" in out and "work" in out),
           "FRZ-02: %s: %s%s" % (at, verdict, ", open again " + says if says else ""), out)
out = judged("2026-11-30T10:30:00Z", [shut, stop], work=work, monday=monday)
tap.ok("deny" in out and "standup" in out and "2026-11-30T11:00:00Z" in out, "FRZ-02: a freeze inside an open window wins", out)

buf = (ctypes.c_char * 512)()
state = ctypes.CDLL(None, use_errno=True).adjtimex(buf)
unsync = state == 5 or ctypes.c_int.from_buffer(buf, 40).value & 0x40
st.reload({"rules": RULES, "clock": "kernel-sync"})
s = status()
tap.eq(s["clock"], {"known": not unsync, "mode": "kernel-sync"}, "what the kernel says of its clock")
tap.eq(bool([w for w in s["frozen"] if "synchronised" in w]), bool(unsync), "an unsynchronised one is said to be frozen")

# === replay =================================================================================================
c.close()
hr.end()
st.stop()
r = st.cli("replay", "whatif")
tap.ok(r.returncode == 0 and "(100 %)" in r.stdout, "every verdict comes out again, freezes included", r.stdout[-600:])
tap.eq(st.verify().returncode, 0, "the log verifies")
tap.done()
