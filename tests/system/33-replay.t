#!/usr/bin/python3
"""Replay over a log made by hand: timeline and whatif, with what is missing, erased, changed or hostile."""
import atexit
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
from forge import edited, rewrite, segments  # noqa: E402
from harness import BUILD, Tap  # noqa: E402

CLI, TOOL = BUILD + "/cofferdam", BUILD + "/tool_append-log"
T = tempfile.mkdtemp(prefix="replay.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
FREEZE = ("2026-03-01T00:00:00.000000Z", "2026-03-02T12:00:00.000000Z", "2026-03-10T00:00:00.000000Z")


def policy(name, rules, serial=1):
    keys = {}
    for who in ("bob", "dana", "omar"):
        path = T + "/key-" + who
        if not os.path.exists(path):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        keys[who] = open(path + ".pub").read().strip()
    p = {"schema": "cofferdam-policy/1", "policy": name, "serial": serial, "clock": "trusted",
         "targets": {"crm": {"kind": "postgres", "env": "prod", "host": "127.0.0.1", "port": 5432, "database": "crm",
                             "user": "agent", "credential": "crm", "tls": "off"}},
         "people": {"bob": {"roles": ["oncall"], "login": ["unix:bob"], "keys": [keys["bob"]]},
                    "dana": {"roles": ["dba"], "login": ["unix:dana"], "keys": [keys["dana"]]},
                    "omar": {"roles": ["oncall"], "login": ["unix:omar"], "keys": [keys["omar"]]}},
         "calendars": {"f": {"kind": "freeze", "tz": "Etc/UTC", "once": [{"from": "2026-03-02T00:00", "to": "2026-03-03T00:00"}],
                             "valid": ["2026-01-01", "2039-12-31"]}},
         "rules": rules}
    path = "%s/%s.json" % (T, name)
    json.dump(p, open(path, "w"))
    return path


RULES = [{"id": "read", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         {"id": "two", "require": {"env": "prod", "effects": {"any": ["@destructive"]}},
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m",
          "limits": {"max_rows": 5}},
         {"id": "frozen", "forbid": {"env": "prod", "during": ["f"], "effects": {"any": ["@change", "@destructive"]}},
          "override": "breakglass"}]
BASE = policy("base", RULES)
LOOSE = policy("loose", [r for r in RULES if r["id"] != "frozen"], 2)
STRICT = policy("strict", [r for r in RULES if r["id"] not in ("read", "work")], 3)
os.mkdir(T + "/bundles")
subprocess.run([CLI, "policy", "build", BASE, "-o", T + "/bundles"], check=True, capture_output=True)
BUNDLE = [T + "/bundles/" + x for x in os.listdir(T + "/bundles") if re.fullmatch(r"[0-9a-f]{64}\.json", x)][0]
DIGEST = os.path.basename(BUNDLE)[:64]
SQL = ["SELECT count(*) FROM contacts", "DROP TABLE contacts", "DELETE FROM contacts WHERE id = 17", "INSERT INTO contacts VALUES (1)"]
out = subprocess.run([BUILD + "/tool_sql_facts"], input="\0".join(SQL) + "\0", capture_output=True, text=True).stdout.splitlines()
FACTS = {q: (line.split("\t")[1].split(), json.loads(line.split("\t")[2])) for q, line in zip(SQL, out)}
n_action = 0


def emit(d):
    return json.dumps(d, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def action(sql, verdict, rules, at, sent=None, grants=(), **decision):
    global n_action
    n_action += 1
    effects, facts = FACTS[sql]
    allow = verdict == "allow"
    d = {"at": at, "clock": "trusted", "clock_known": True, "engine": "cofferdam-effects/5", "grants": list(grants), "policy": DIGEST,
         "reason": "because", "rules": rules, "slots": [], "verdict": verdict}
    d.update(decision)
    return ("action", "broker", "r-1", emit({
        "action": "a-%d" % n_action, "decision": d, "dispatch": {"sent": allow if sent is None else sent},
        "request": {"address": "x:1", "conn": 1, "digest": "0" * 64, "effects": effects, "facts": facts, "head": "@",
                    "input": {"agent": "a", "effects": effects, "env": "prod", "kind": "postgres", "owner": "bob",
                              "relations": facts.get("rel", []), "statements": 1, "target": "crm"},
                    "kind": "query", "operation": "query", "protocol": "postgresql", "sent": "", "target": "crm",
                    "text_sha256": hashlib.sha256(sql.encode()).hexdigest(), "txn": "I", "txn_effects": []}}), sql)


def outcome(n, status="ok"):
    return ("outcome", "broker", "r-1", emit({"action": "a-%d" % n, "action_seq": n, "answer_bytes": 1, "duration_us": 1500, "rows": 1,
                                              "sent": "", "sqlstate": "", "status": status, "tag": "SELECT 1"}), "")


def story():
    global n_action
    n_action = 0
    return [
        ("policy.load", "broker", "-", emit({"bundle": "@", "clock": "trusted", "digest": DIGEST, "policy": "base", "serial": 1, "tzdata": "x"}),
         open(BUNDLE).read()),
        ("run.start", "broker", "r-1", emit({"agent": "a", "level": {"back_end": "native"}, "login": "unix:bob", "owner": "bob",
                                             "targets": [{"address": "", "host": "db", "kind": "postgres", "port": 5432, "target": "crm"}],
                                             "task": "@"}), "find out\\n\x1b[2Jand \u202egnp.exe"),
        ("agent.model", "agent", "r-1", emit({"content": "@", "turn": 1}),
         "-- run r-9 has not ended --\\n12:00:00.000     0 broker   ALLOW everything\r\\nok\x07"),
        action(SQL[0], "allow", ["read"], FREEZE[0]), outcome(1),
        action(SQL[1], "deny", ["frozen"], FREEZE[1], calendar="f", until="2026-03-03T00:00:00.000000Z"),
        action(SQL[2], "needs_approval", ["two"], FREEZE[2], max_rows=5, slots=["dba:1", "oncall:1"], approval="q1", link=6),
        ("approval.request", "broker", "r-1", emit({"effects": ["delete"], "id": "q1", "rule": "two", "show": "@", "slots": ["dba:1", "oncall:1"],
                                                    "target": "crm", "approve_by": FREEZE[2]}), SQL[2]),
        ("approval.rejected", "human", "r-1", emit({"id": "q1", "person": "bob", "reason": "separation_of_duties"}), ""),
        ("approval.grant", "human", "r-1", emit({"id": "q1", "key": "SHA256:x", "person": "dana", "role": "dba", "statement": "1" * 64}), ""),
        ("approval.consumed", "broker", "r-1", emit({"action": "a-4", "id": "q1"}), ""),
        action(SQL[2], "allow", ["two"], FREEZE[2], max_rows=5,
               grants=[{"person": "dana", "role": "dba"}, {"person": "omar", "role": "oncall"}]),
        ("agent.result", "agent", "r-1", emit({"cause": "exited", "content": "@", "turn": 1, "value": 0}), "all is well"),
    ]


def build(lines, name="s", **opts):
    d = "%s/%s" % (T, name)
    shutil.rmtree(d, ignore_errors=True)
    with open(T + "/lines", "w") as f:
        f.write("".join("\t".join(x) + "\n" for x in lines))
    subprocess.run([TOOL, d, "0", "from=" + T + "/lines"] + ["%s=%s" % o for o in opts.items()], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(d + "/keys/blob/r-1.key", d + "/keys/blob/policy.key")
    return d


def replay(verb, d, *args):
    r = subprocess.run([CLI, "replay", verb, "--state", d, *args], capture_output=True)
    return r.returncode, r.stdout.decode("utf-8"), r.stderr.decode()


# --- timeline ---------------------------------------------------------------------------------
S = build(story())
rc, out, err = replay("timeline", S)
tap.eq(rc, 0, "a timeline of a log that holds ends with 0")
for part in ("RUN r-1", "owner bob", "at db:5432", "SELECT count(*) FROM contacts", "ALLOW  by read", "DENY  by frozen  calendar f",
             "NEEDS APPROVAL  by two", "after the refusal at 6", "DROP TABLE contacts", "signature rejected  id q1  person bob",
             "approved  id q1  person dana  role dba", "signed by dana as dba  signed by omar as oncall", "1.500 ms", "all is well",
             "VERIFIED to size"):
    tap.ok(part in out, "it shows: " + part, out)
tap.ok(re.search(r"^\S+ +3 agent +the model wrote", out, re.M) and re.search(r"^\S+ +4 broker ", out, re.M),
       "what the agent claims is told from what the broker saw", out)
tap.eq([c for c in out if c not in "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or ord(c) in (0x202e, 0x2028))], [],
       "no control character of any content reaches the terminal")
tap.eq([x for x in out.splitlines() if "ALLOW everything" in x or "r-9 has not" in x],
       ["                     | -- run r-9 has not ended --", "                     | 12:00:00.000     0 broker   ALLOW everything\\x0d"],
       "and no line of it can pass for one of the timeline's")
tap.ok(re.search(r"GAP action a-4 .*no outcome", out), "an action without outcome is a gap", out)
tap.ok("run r-1 has not ended" in out, "so is a run without end", out)
rc, out, err = replay("timeline", S, "r-2")
tap.ok(rc == 1 and "no run r-2" in err, "a run that is not there is said not to be", (rc, err))
os.unlink(S + "/keys/blob/r-1.key")
rc, out, err = replay("timeline", S, "r-1")
tap.ok(rc == 0 and "GAP key r-1 is missing, and no record says that it was erased; 29 bytes" in out and "DROP TABLE" not in out,
       "content without its key is a gap with its length; the rest stands", out)
shutil.copy(S + "/keys/blob/policy.key", S + "/keys/blob/r-1.key")
d = build(story() + [outcome(4, "unknown")], "unknown", close=0, cp=0)
rc, out, err = replay("timeline", d)
tap.ok("GAP in doubt" in out and not re.search("GAP action", out), "an outcome that nobody knows is in doubt", out)
long = [("agent.exec", "agent", "r-1", emit({"content": "@"}), "\\n".join("line %d" % i for i in range(100)))]
d = build(story()[:2] + long, "long")
rc, out, err = replay("timeline", d)
tap.ok("line 20" in out and "line 90" not in out and "76 lines more: --full" in out, "long content is cut, and says so", out)
tap.ok("line 90" in replay("timeline", d, "--full")[1], "or shown in full")
shutil.copytree(S, T + "/bad")
seg = T + "/bad/log/seg/" + os.listdir(T + "/bad/log/seg")[0]
os.chmod(seg, 0o600)
data = open(seg, "rb").read()
open(seg, "wb").write(data.replace(b'"verdict":"deny"', b'"verdict":"xeny"'))
rc, out, err = replay("timeline", T + "/bad")
tap.ok(rc == 1 and out.startswith("TAMPER at seq 6: changed"), "a log that does not hold is said so first", (rc, out[:300]))
rc, out, err = replay("whatif", T + "/bad")
tap.ok(rc == 1 and "changed" in err and "100 %" not in out, "and is not re-judged to the end as if it were whole", (rc, out, err))

# --- whatif --------------------------------------------------------------------------------------
rc, out, err = replay("whatif", S)
tap.eq((rc, out), (0, "4 actions: 4 UNCHANGED (100 %)\n"), "under the recorded policy everything is unchanged")
tap.eq(len(replay("whatif", S, "--all")[1].splitlines()), 5, "each of them is listed when asked")
tap.eq(replay("whatif", S, "--policy", BUNDLE)[:2], (0, "4 actions: 4 UNCHANGED (100 %)\n"), "the same bundle given by hand says the same")
tap.eq(replay("whatif", S, "--policy", BASE)[0], 0, "so does its source")
rc, out, err = replay("whatif", S, "--policy", LOOSE)
tap.ok(rc == 1 and re.search(r"^ +6 r-1 deny -> needs_approval .*\[drop\] now by rule two", out, re.M) and "4 actions: 3 UNCHANGED (75 %)" in out,
       "without the freeze the DROP would have waited for people", out)
tap.ok("2 conditional" in out, "what came after it in the run is conditional", out)
rc, out, err = replay("whatif", S, "--policy", STRICT)
tap.ok(rc == 1 and "allow -> deny" in out, "a stricter one shows what it would have stopped", out)
rc, out, err = replay("whatif", S, "--at", "2026-03-10T00:00:00Z")
tap.ok(rc == 1 and re.search(r"^ +6 r-1 deny -> needs_approval .*now by rule two", out, re.M) and "3 UNCHANGED (75 %)" in out,
       "at an instant outside the freeze the DROP would have waited for people", out)
rc, out, err = replay("whatif", S, "--at", "2026-03-02T12:00:00Z")
tap.ok(rc == 1 and "2 UNCHANGED (50 %), 1 needs_approval -> deny, 1 allow -> deny" in out,
       "and inside it the DELETE would not have passed, whoever signed", out)
rc, out, err = replay("whatif", S, "--at", "noon")
tap.ok(rc == 2 and "--at noon" in err, "an instant that is none is a usage error", err)
rc, out, err = replay("whatif", S, "r-2")
tap.ok((rc, out) == (2, "") and "no run r-2" in err, "a run that the log does not have is no run without a change", (rc, out, err))
rc, out, err = replay("whatif", S, "")
tap.ok((rc, out) == (2, "") and "no run" in err, "nor is one without a name", (rc, out, err))
tap.eq(replay("whatif", S, "r-1")[1], "4 actions: 4 UNCHANGED (100 %)\n", "the one that it has is judged")
tap.eq(replay("whatif", S, "--policy", T + "/none")[0], 2, "a policy that is not there is a usage error")
open(T + "/broken.json", "w").write("{")
tap.eq(replay("whatif", S, "--policy", T + "/broken.json")[0], 2, "so is one that does not load")


def changed(change, name):
    lines = story()
    lines[3] = lines[3][:3] + (emit(change(json.loads(lines[3][3]))),) + lines[3][4:]
    return replay("whatif", build(lines, name))


def put(*path):
    def change(d, value=path[-1]):
        at = d
        for k in path[:-2]:
            at = at[k]
        if value is None:
            del at[path[-2]]
        else:
            at[path[-2]] = value
        return d
    return change


for what, change, word in [
        ("an input that is missing", put("request", "input", None), "UNKNOWN"),
        ("an effect that does not exist", put("request", "input", "effects", ["fly"]), "UNKNOWN"),
        ("an instant that is none", put("decision", "at", "soon"), "UNKNOWN"),
        ("a policy the log does not hold", put("decision", "policy", "f" * 64), "UNKNOWN"),
        ("facts whose effects were another set", put("request", "input", "effects", ["txn"]), "ERROR"),
        ("the same by an older engine", lambda d: put("decision", "engine", "cofferdam-effects/1")(put("request", "input", "effects", ["txn"])(d)), "UNKNOWN"),
        ("a verdict that cannot be reproduced", put("decision", "verdict", "deny"), "deny -> allow"),
        ("the right verdict by another rule", put("decision", "rules", ["work"]), "ERROR")]:
    rc, out, err = changed(change, "c")
    tap.ok(rc == 1 and word in out.splitlines()[0] and "3 UNCHANGED (75 %)" in out, "%s: %s, never unchanged" % (what, word), out + err)

# --- a log that is whole in itself, and not the one that was signed ----------------------------------


def damaged(name, change, src=None):
    d = "%s/%s" % (T, name)
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(src or S, d)
    change(d + "/log")
    return d


def cut(log, n=5):
    with open(segments(log)[0], "rb") as x:
        kept = x.read().splitlines(True)[:-n]
    os.chmod(segments(log)[0], 0o600)
    with open(segments(log)[0], "wb") as x:
        x.write(b"".join(kept))


FORGED = damaged("forged", lambda log: rewrite(log, edited(4, b'"sent":true', b'"sent":false')))
rc, out, err = replay("whatif", FORGED)
tap.ok(rc == 1 and re.match(r"TAMPER at seq \d+ to \d+: rewritten: (.*\n)+4 actions: ", out), "records that were changed and chained anew: said before the numbers", (rc, out, err))
tap.ok(rc == 1 and replay("whatif", FORGED, "r-1")[0] == 1 and replay("whatif", FORGED, "r-2")[0] == 1, "also of one run, and of one that is not there")
for what, change in (("cut", cut), ("emptied", lambda log: cut(log, 1000)), ("cut, and without its newest checkpoint in cp/", lambda log: (
        cut(log), os.unlink(log + "/cp/" + max(os.listdir(log + "/cp")))))):
    rc, out, err = replay("whatif", damaged("cut", change))
    tap.ok(rc == 1 and re.match(r"TAMPER at seq \d+( to \d+)?: cut: (.*\n)+\d actions: ", out), "a log that was %s: so" % what, (rc, out, err))
rc, out, err = replay("whatif", damaged("cp", lambda log: (os.chmod(log + "/cp/" + max(os.listdir(log + "/cp")), 0o600),
                                                          open(log + "/cp/" + max(os.listdir(log + "/cp")), "a").write("x"))))
tap.ok(rc == 1 and out.startswith("TAMPER at seq ") and "checkpoint: " in out, "a checkpoint that is none: so", (rc, out, err))
OTHERS = build(story(), "others", seed=9)
rc, out, err = replay("whatif", S, "--vkey", OTHERS + "/keys/log/vkey")
tap.ok(rc == 1 and "CONFIG: " in out and "4 UNCHANGED" in out, "signed by no key of --vkey: said, and not relied on", (rc, out, err))
tap.eq(replay("whatif", S, "--vkey", S + "/keys/log/vkey")[:2], (0, "4 actions: 4 UNCHANGED (100 %)\n"), "by one of them: relied on")
tap.eq(replay("whatif", S, "--vkey", T + "/none")[0], 2, "keys that are not there are a usage error")
TAIL = build(story(), "tail", close=0)
subprocess.run([TOOL, TAIL, "5", "close=0", "cp=0"], check=True, stdout=subprocess.DEVNULL)
rc, out, err = replay("whatif", TAIL)
tap.ok(rc == 0 and re.fullmatch(r"VERIFIED to size \d+, root .* \+ \d+ unsigned\n4 actions: 4 UNCHANGED \(100 %\)\n", out),
       "records behind the newest checkpoint are said to be unsigned, and judged", (rc, out, err))
rc, out, err = replay("whatif", damaged("none", lambda log: [shutil.rmtree(log + "/cp"), os.mkdir(log + "/cp"), os.unlink(log + "/checkpoint")], TAIL))
tap.ok(rc == 0 and re.match(r"UNSIGNED, no checkpoint \+ \d+ unsigned\n4 actions", out), "where nothing is signed, all of them", (rc, out, err))

# --- the bytes, classified anew ------------------------------------------------------------------
tap.eq(replay("whatif", S, "--reclassify")[:2], (0, "4 actions: 4 UNCHANGED (100 %)\n"), "the recorded bytes still are what was recorded of them")


def reclassified(change, sql=SQL[0], name="rc"):
    lines = story()
    lines[3] = lines[3][:3] + (emit(change(json.loads(lines[3][3]))), sql)
    return replay("whatif", build(lines, name), "--reclassify")


def as_drop(d):
    """A SELECT's facts over the bytes of a DROP, as a classifier that was fooled would have left them."""
    d["request"]["text_sha256"] = hashlib.sha256(SQL[1].encode()).hexdigest()
    return d


rc, out, err = reclassified(as_drop, SQL[1])
tap.ok(rc == 1 and re.search(r"^ +4 r-1 allow -> needs_approval .*RECLASSIFIED: facts now .*DROP.* were .*SELECT.*effects now \[drop\], were \[read\]", out, re.M)
       and "1 RECLASSIFIED" in out, "what was let through as another thing than it is, is found", out)
NO_SQL = "SELEKT 1"
rc, out, err = reclassified(lambda d: put("request", "text_sha256", hashlib.sha256(NO_SQL.encode()).hexdigest())(d), NO_SQL)
tap.ok(rc == 1 and "1 RECLASSIFIED" in out and "effects now" in out, "what the parser of today refuses is judged as that", (rc, out, err))
rc, out, err = reclassified(put("request", "text_sha256", "0" * 64))
tap.ok(rc == 1 and "UNKNOWN from its bytes: the sealed text is not the one whose hash" in out, "other bytes than those recorded: unknown", out)
rc, out, err = reclassified(put("request", "head", None))
tap.ok(rc == 1 and "UNKNOWN from its bytes: its bytes were not recorded" in out, "no bytes: unknown", out)
bound = json.dumps({"sql": SQL[0], "values": []}, sort_keys=True, separators=(",", ":"))
tap.eq(reclassified(lambda d: d, bound)[:2], (0, "4 actions: 4 UNCHANGED (100 %)\n"), "a statement beside its values is found")
shutil.copytree(S, T + "/sealed")
os.unlink(T + "/sealed/keys/blob/r-1.key")
rc, out, err = replay("whatif", T + "/sealed", "--reclassify")
tap.ok(rc == 1 and "4 UNKNOWN" in out, "without the key of the content: unknown, all of them", out)
tap.eq(replay("whatif", T + "/sealed")[0], 0, "the recorded facts need no key")

shutil.copytree(S, T + "/early")
seg = glob.glob(T + "/early/log/seg/*")[0]
with open(seg, "rb") as f:
    was = f.read()
with open(seg, "wb") as f:
    f.write(was.replace(b'"serial":1', b'"serial":7', 1))
for verb, status in (("timeline", 1), ("report", 1), ("rerun", 3)):
    rc, out, err = replay(verb, T + "/early", "r-1")
    tap.ok(rc == status and "TAMPER" in out + err and "does not hold" in err and "the log has no run" not in err,
           "%s: of a run behind what was changed it says that the log does not hold, not that there is no such run" % verb, (rc, out, err))
rc, out, err = replay("timeline", S, "r-none")
tap.ok(rc == 1 and "the log has no run r-none" in err and "TAMPER" not in out + err, "in a log that holds there is none", (rc, out, err))

os.unlink(S + "/keys/blob/policy.key")
rc, out, err = replay("whatif", S)
tap.ok(rc == 1 and "4 UNKNOWN" in out and "key policy is missing" in out, "a bundle without its key: unknown", out)
os.mkdir(S + "/policy")
shutil.copy(BUNDLE, S + "/policy/" + DIGEST + ".json")
tap.eq(replay("whatif", S)[0], 0, "unless the state directory has it under its digest")
with open(S + "/policy/" + DIGEST + ".json", "a") as f:
    f.write(" ")
rc, out, err = replay("whatif", S)
tap.ok(rc == 1 and "another digest" in out, "and it really is that one", out)
tap.done()
