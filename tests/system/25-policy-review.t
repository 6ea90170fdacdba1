#!/usr/bin/python3
"""What a reviewer is told: `policy check`, `diff`, `explain` and `calendar`, for people and for programs."""
import copy
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Tap, Temp, TOP, run  # noqa: E402

t = Tap()
temp = Temp("review")
AT = "2026-03-11T12:00:00Z"
with open(os.path.join(TOP, "docs/examples/policy.json"), encoding="ascii") as example:
    BASE = json.load(example)
BASE["serial"] = 1


def write(policy, name="p.json"):
    path = os.path.join(temp.path, name)
    with open(path, "w", encoding="ascii") as f:
        json.dump(policy, f, indent=1)
    return path


def changed(change):
    p = copy.deepcopy(BASE)
    change(p)
    return p


def rule(p, rule_id):
    return next(r for r in p["rules"] if r["id"] == rule_id)


def add(p, *rules):
    p["rules"] += rules


# --- check -------------------------------------------------------------------------------
def check(p, *args, at=AT):
    r = run([CLI, "policy", "check", write(p), "--json", "--at", at, *args])
    try:
        return json.loads(r.stdout), r.returncode
    except ValueError:
        return {"warnings": [], "said": r.stdout}, r.returncode


def warned(p, code, name, at=AT):
    """Exactly one warning, of this code, at the line where the rule or calendar stands."""
    out, rc = check(p, at=at)
    w = [x for x in out["warnings"]]
    here = [x for x in w if x["code"] == code and name in x["text"]]
    with open(os.path.join(temp.path, "p.json"), encoding="ascii") as f:
        lines = f.read().split("\n")
    ok = rc == 0 and len(here) == 1 and here[0]["file"].endswith("p.json")
    near = " ".join(lines[here[0]["line"] - 1:here[0]["line"] + 2]) if here else ""
    t.ok(ok and name in near and here[0]["column"] > 0, "check warns: %s %s" % (name, code), out)
    return w


def silent(p, code, sentence, at=AT):
    out, rc = check(p, at=at)
    t.ok(rc == 0 and not [x for x in out["warnings"] if x["code"] == code], sentence, out)


t.eq(check(BASE)[0]["warnings"], [], "the policy that docs show has no warning")
FORBID = {"id": "again", "forbid": {"env": "prod", "during": ["yearend"], "effects": {"any": ["drop"]}},
          "override": "breakglass"}
warned(changed(lambda p: add(p, FORBID)), "shadowed", "again")
silent(changed(lambda p: add(p, dict(FORBID, belt=True))), "shadowed", "\"belt\": true says that it is meant")
silent(changed(lambda p: add(p, dict(FORBID, override="never"))), "shadowed",
       "a narrower forbid that nothing lifts is not shadowed by one that break-glass lifts")
silent(changed(lambda p: add(p, {"id": "nights", "forbid": {"effects": {"any": ["write"]}}, "override": "never"})),
       "shadowed", "a forbid that nothing else covers is not shadowed")
REQUIRE = {"id": "again", "require": {"env": "prod", "effects": {"any": ["drop"]}},
           "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"}
warned(changed(lambda p: add(p, REQUIRE)), "shadowed", "again")
silent(changed(lambda p: add(p, dict(REQUIRE, within="10m"))), "shadowed", "one that leaves less time is not")
silent(changed(lambda p: add(p, dict(REQUIRE, limits={"max_rows": 5}))), "shadowed", "nor one with a smaller limit")
silent(changed(lambda p: add(p, dict(REQUIRE, require={"effects": {"any": ["write"]}}))), "shadowed",
       "nor one that asks where nobody else does")
warned(changed(lambda p: add(p, {"id": "again", "permit": {"env": "prod", "effects": {"only": ["read"]}}})),
       "redundant", "again")
silent(changed(lambda p: add(p, {"id": "more", "permit": {"env": "test*", "effects": {"only": ["write"]}}})),
       "redundant", "a permit for what is to come is not redundant")
warned(changed(lambda p: add(p, {"id": "gone", "forbid": {"target": "infra", "effects": {"any": ["@change"]}},
                                 "override": "never"},
                             {"id": "lost", "permit": {"target": "infra", "effects": {"only": ["write"]}, "agent": "x",
                                                       "statements": {"gt": 3}}},
                             {"id": "few", "forbid": {"statements": {"gt": 3}}, "override": "never"})),
       "unreachable", "lost")
silent(changed(lambda p: add(p, {"id": "gone", "forbid": {"target": "infra", "effects": {"any": ["@change"]}},
                                 "override": "exception"},
                             {"id": "kept", "permit": {"target": "infra", "effects": {"only": ["write"]}}})),
       "unreachable", "what an exception can open is not unreachable")
warned(changed(lambda p: add(p, {"id": "nowhere", "permit": {"env": "test", "effects": {"only": ["write"]}}})),
       "unreachable", "nowhere")
# A rule of two targets, and what covers it at one or at each.
PAIR = {"id": "pair", "forbid": {"target": ["crm-db", "infra"], "effects": {"any": ["write"]}}, "override": "never"}
ONE = {"id": "one", "forbid": {"target": "crm-db", "effects": {"any": ["@change"]}}, "override": "never"}
OTHER = {"id": "other", "forbid": {"target": "infra", "effects": {"any": ["@change"]}}, "override": "never"}
silent(changed(lambda p: add(p, PAIR, ONE)), "shadowed", "a forbid of two targets that another covers at one of them is not shadowed")
warned(changed(lambda p: add(p, PAIR, ONE, OTHER)), "shadowed", "pair")


def crowd(n, targets=200):
    """Of five rules one changes nothing: "twin" forbids less than "all" of its target does."""
    p = {"schema": "cofferdam-policy/1", "policy": "crowd", "serial": 1, "clock": "trusted", "people": BASE["people"], "calendars": {}, "rules": [],
         "targets": {"t%d" % i: {"kind": "http", "env": "prod", "origin": "https://t%d.test" % i} for i in range(targets)}}
    for i in range(n // 5):
        at, agent = "t%d" % (i % targets), "a%d" % (i // targets)
        p["rules"] += [{"id": "see-%d" % i, "permit": {"target": at, "agent": agent, "effects": {"only": ["@data"]}}},
                       {"id": "do-%d" % i, "permit": {"target": at, "agent": agent, "effects": {"only": ["@change"]}}},
                       {"id": "ask-%d" % i, "require": {"target": at, "agent": agent, "effects": {"any": ["schema"]}},
                        "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"},
                       {"id": "all-%d" % i, "forbid": {"target": at, "agent": agent, "statements": {"gt": 3}}, "override": "never"},
                       {"id": "twin-%d" % i, "forbid": {"target": at, "agent": agent, "statements": {"gt": 5}}, "override": "never"}]
    return p


out, rc = check(crowd(10000))
t.eq((rc, sorted({x["code"] for x in out["warnings"]}), sorted(x["text"].split()[1] for x in out["warnings"])),
     (0, ["shadowed"], sorted("twin-%d" % i for i in range(2000))), "of 10,000 rules it finds each that changes nothing, and no other")
t.ok(check(changed(lambda p: rule(p, "two-people")["approve"][0].update(count=3)))[1] == 1,
     "a quorum that people cannot fill is refused")


def cal(p, name, **kw):
    p["calendars"][name] = dict({"kind": "freeze", "tz": "Europe/London", "valid": ["2026-01-01", "2036-01-01"]}, **kw)
    rule(p, "freeze")["forbid"]["during"].append(name)


ONCE = [{"from": "2026-02-01T00:00", "to": "2026-02-02T00:00"}]
warned(changed(lambda p: cal(p, "old", once=ONCE)), "past", "old")
silent(changed(lambda p: cal(p, "old", once=ONCE)), "past", "before its end it is not past", at="2026-01-20T00:00:00Z")
warned(changed(lambda p: cal(p, "zsame", once=BASE["calendars"]["yearend"]["once"])), "duplicate", "zsame")
warned(changed(lambda p: cal(p, "part", once=[{"from": "2026-12-24T00:00", "to": "2026-12-26T00:00"}])),
       "overlap", "part")
warned(changed(lambda p: cal(p, "soon", once=[{"from": "2026-03-12T00:00", "to": "2026-03-13T00:00"}],
                             valid=["2026-01-01", "2026-03-20"])), "horizon", "soon")
warned(changed(lambda p: cal(p, "all", weekly=[{"from": "00:00", "to": "24:00", "days": "daily"}])), "constant", "all")
warned(changed(lambda p: p["calendars"].update(idle=p["calendars"]["yearend"])), "unused", "idle")
r = run([CLI, "policy", "check", write(changed(lambda p: add(p, FORBID))), "--at", AT])
t.has(r.stdout, ": warning: forbid again changes nothing", "for people it is a line with file, line and column")
t.ok("p.json:" in r.stdout and "delete it, or say \"belt\": true" in r.stdout and "[shadowed]" in r.stdout,
     "and with what to write instead", r.stdout)
t.eq(check(changed(lambda p: add(p, FORBID)), "--strict")[1], 1, "with --strict a warning is exit status 1")
t.eq(check(BASE, "--strict")[1], 0, "and without one 0")
BAD = changed(lambda p: p.update(prove=[{"id": "T", "never": {"env": "prod", "effects": {"any": ["write"]}}}]))
out, rc = check(BAD)
t.eq(rc, 1, "a theorem that does not hold fails the check")
r = run([CLI, "policy", "build", write(BAD), "-o", temp.path + "/out"])
t.ok(r.returncode == 1 and "theorems do not hold" in r.stdout and not os.path.exists(temp.path + "/out/active"),
     "and such a policy is not built", r.stdout)

# --- diff --------------------------------------------------------------------------------
OLD = write(BASE, "old.json")


def diff(p, *args, old=OLD):
    p = copy.deepcopy(p)
    p["serial"] = 2
    r = run([CLI, "policy", "diff", old, write(p, "new.json"), "--at", AT, *args])
    return (json.loads(r.stdout) if "--json" in args and r.returncode != 2 else r.stdout), r.returncode


def accesses(p, kind="access", **kw):
    out, rc = diff(p, "--json", **kw)
    return [c for c in out["changes"] if c["kind"] == kind], rc


t.eq(diff(BASE)[1], 0, "no change is no new access")
got, rc = accesses(changed(lambda p: p["rules"].remove(rule(p, "freeze"))))
t.ok(rc == 1 and any(c["before"]["rules"] == ["freeze"] for c in got), "a freeze that is gone is new access", got)
t.ok(all("2026-12-18T18:00:00Z" <= c["request"]["at"] < "2027-01-04T08:00:00Z" for c in got
         if c["before"]["verdict"] == "deny" and "at" in c["request"]), "with an example inside the freeze", got)
for c in got:
    r = run([CLI, "policy", "explain", OLD, "--json", "--request", json.dumps(c["request"])])
    n = run([CLI, "policy", "explain", temp.path + "/new.json", "--json", "--request", json.dumps(c["request"])])
    t.eq([json.loads(x.stdout)["decision"]["verdict"] for x in (r, n)], [c["before"]["verdict"], c["after"]["verdict"]],
         "explain says the same of the example under both policies")
got, rc = accesses(changed(lambda p: add(p, {"id": "no-night", "forbid": {"effects": {"any": ["write"]}, "env": "prod"},
                                             "override": "never"})))
t.eq((got, rc), ([], 0), "a forbid more is no new access")
t.ok(accesses(changed(lambda p: add(p, {"id": "no-night", "forbid": {"effects": {"any": ["write"]}, "env": "prod"},
                                        "override": "never"})), "tightened")[0], "but tightens, with an example")
got, rc = accesses(changed(lambda p: rule(p, "two-people").update(approve=[{"role": "dba", "count": 1}])))
t.ok(rc == 1 and got and got[0]["before"]["slots"] == ["dba:1", "oncall:1"] and got[0]["after"]["slots"] == ["dba:1"],
     "one person fewer is new access", got)
t.eq(accesses(changed(lambda p: rule(p, "two-people").update(limits={"max_rows": 101})))[1], 1,
     "so is a row more")
t.eq(accesses(changed(lambda p: rule(p, "two-people").update(limits={"max_rows": 99})))[1], 0, "and a row less is not")
t.eq(accesses(changed(lambda p: rule(p, "two-people").update(within="31m")))[1], 1, "so is a minute more to sign")
got, rc = accesses(changed(lambda p: rule(p, "freeze").update(override="exception")))
t.eq(rc, 1, "what an exception can lift now is new access")
t.ok(got and any(c["request"].get("lifts") == ["freeze"] for c in got), "and the example has the exception", got)
got, rc = accesses(changed(lambda p: p["targets"]["crm-db"].update(env="staging")))
t.ok(rc == 1, "a target that is moved out of prod is told", got)
got, rc = accesses(changed(lambda p: p["calendars"]["yearend"]["once"][0].update(to="2027-01-03T08:00")))
t.ok(rc == 1 and all(c["request"]["at"] >= "2027-01-03T08:00:00Z" for c in got if c["before"]["verdict"] == "deny"),
     "a freeze that ends a day earlier is new access on that day", got)
text, rc = diff(changed(lambda p: p["calendars"]["yearend"]["once"][0].update(to="2027-01-05T08:00")))
t.ok(rc == 0 and "calendar yearend: now frozen from 2027-01-04T08:00:00Z to 2027-01-05T08:00:00Z" in text,
     "one that ends a day later is not, and the day is named", text)
text, rc = diff(changed(lambda p: p["calendars"]["yearend"]["once"].insert(
    0, {"from": "2026-02-01T00:00", "to": "2026-02-02T00:00"})))
t.eq(rc, 0, "a window in the past changes nothing")
for sentence, change, words in (
        ("a role more", lambda p: p["people"]["olivia"]["roles"].append("dba"), "olivia has role dba now"),
        ("a key more", lambda p: p["people"]["olivia"]["keys"].append(p["people"].pop("omar")["keys"][0]),
         "olivia has key ssh-ed25519"),
        ("a person more", lambda p: p["people"].update(eve={"roles": ["dba"], "login": ["unix:eve"]}), "eve is new"),
        ("another host", lambda p: p["targets"]["crm-db"].update(host="db2.crm.internal"), "db2.crm.internal"),
        ("a path that only reads", lambda p: p["targets"]["infra"]["read_posts"].append("/v1/x"), "/v1/x"),
        ("a clock that is trusted", lambda p: p.update(clock="trusted"), "trusted")):
    text, rc = diff(changed(change))
    t.ok(rc == 1 and words in text and "may be new access" in text, sentence + " may be new access", text)
text, rc = diff(changed(lambda p: p["people"].pop("olivia")))
t.ok(rc == 0 and "olivia is removed" in text, "a person fewer is not", text)
text, rc = diff(changed(lambda p: rule(p, "freeze").update(why="`**x**` <b>|</b>")), "--markdown")
t.ok(rc == 0 and "## Policy ops-example" in text and "`` " not in text and "'**x**'" in text,
     "Markdown keeps what a policy says in code", text)
text, rc = diff(changed(lambda p: p["prove"].pop()))
t.ok(rc == 1 and "! theorem no-drop-in-the-freeze is removed" in text, "a theorem that is gone may be new access", text)
text, rc = diff(changed(lambda p: p["prove"][0].update(unless={"people": 1})))
t.ok(rc == 1 and '! theorem nothing-destroyed-by-fewer-than-two: unless: {"people":2} -> {"people":1}' in text, "so may a weaker one", text)
text, rc = diff(changed(lambda p: p["prove"][0].update(why="Two people.")))
t.ok(rc == 0 and "- theorem nothing-destroyed-by-fewer-than-two: why" in text, "why it is there may be said otherwise", text)
text, rc = diff(changed(lambda p: p["prove"].append({"id": "fresh", "never": {"effects": {"any": ["exec"]}}})))
t.ok(rc == 0 and "- theorem fresh is new" in text, "a theorem more is none", text)
text, rc = diff(changed(lambda p: (p["cases"].pop(), p["cases"][0].update(note="x"), p["cases"].append(dict(p["cases"][0], id="fresh")))))
t.ok(rc == 0 and "cases: 1 removed, 1 changed, 1 new" in text, "cases that are gone are told", text)
same = write(changed(lambda p: p.update(clock="trusted")), "same-serial.json")
t.has(run([CLI, "policy", "diff", OLD, same, "--at", AT]).stdout, "The serial must rise", "a serial that does not rise is told")
t.eq(diff({"schema": "cofferdam-policy/1"})[1], 2, "a policy that cannot be read is exit status 2")
RATE = {"id": "many", "forbid": {"effects": {"any": ["write"]}, "rate": {"over": 5, "in": "10m", "per": "run"}},
        "override": "never"}
RATED = write(changed(lambda p: add(p, RATE)), "rated.json")


def rated(**kw):
    return changed(lambda p: add(p, dict(RATE, forbid=dict(RATE["forbid"], rate=dict(RATE["forbid"]["rate"], **kw)))))


t.eq([accesses(rated(**kw), old=RATED)[1] for kw in ({}, {"over": 4}, {"over": 6}, {"in": "5m"})], [0, 0, 1, 1],
     "a rate that lets more through is new access, a smaller one is not")

# --- what holds of nothing, what nobody could do ------------------------------------------
def check(p, verb="check", *args):
    r = run([CLI, "policy", verb, write(p, "doubt.json"), *args])
    return r.stdout, r.returncode


for what, never in (("target", {"target": "crm-dbx*"}), ("kind", {"kind": "redis"}), ("env", {"env": "prd"}),
                    ("target and env together", {"target": "crm-db", "env": "staging"})):
    p = changed(lambda p: p.update(prove=[{"id": "vain", "never": dict(never, effects={"any": ["drop"]})}]))
    text, rc = check(p)
    t.ok(rc == 0 and "theorem vain speaks of no target that the policy has" in text and "[idle]" in text,
         "a theorem of no %s is told" % what, text)
    t.has(check(p, "prove")[0], "vain holds, but of nothing", "and prove says so, too")
t.eq(json.loads(check(p, "prove", "--json")[0])["theorems"], [{"holds": True, "id": "vain", "idle": True}], "to programs as well")
text, rc = check(changed(lambda p: None), "prove")
t.ok(rc == 0 and "of nothing" not in text, "a theorem that speaks of a target is not", text)
text, rc = check(changed(lambda p: None), "prove", "no-drop-in-the-freez")
t.ok(rc == 2 and 'no theorem is named "no-drop-in-the-freez"' in text, "a theorem that is not there is named", text)
text, rc = check(changed(lambda p: [q.update(roles=[x for x in q["roles"] if x != "breakglass"]) for q in p["people"].values()]))
t.ok(rc == 0 and "rule freeze says that break-glass lifts it, and nobody with a key has role breakglass" in text,
     "break-glass that nobody could use is told before the night it is needed", text)
text, rc = check(changed(lambda p: p.update(emergency={"breakglass": {"key": "verified"}})))
t.has(text, "nobody with a hardware key has role breakglass", "so is one that asks for a key that nobody has")
text, rc = check(changed(lambda p: rule(p, "freeze").update(override="exception")))
t.has(text, "nobody with a key has role change-manager", "and an exception that nobody could grant")
text, rc = check(changed(lambda p: None), "check", "--strict")
t.ok(rc == 0, "the example has none of that", text)

# --- explain -----------------------------------------------------------------------------
r = run([CLI, "policy", "explain", OLD, "--target", "crm-db", "--sql", "DELETE FROM crm.contacts WHERE id = 17",
         "--owner", "dana", "--at", "2026-12-24T12:00:00Z"])
lines = r.stdout.split("\n")
t.ok(lines[0].startswith("says       needs approval"), "explain begins with the answer", r.stdout)
t.has(r.stdout, "can sign   dba: omar\n           oncall: olivia, omar", "it names who can sign, without the owner")
t.has(r.stdout, "calendars  inside yearend until 2027-01-04T08:00:00Z", "and when each calendar changes")
r = run([CLI, "policy", "explain", OLD, "--request", '{"at":"2026-12-24T12:00:00Z","effects":["drop"],"target":"crm-db"}'])
t.has(r.stdout, "denied by policy: rule freeze", "effects can be given as JSON")
REQUEST = {"at": "2026-12-24T12:00:00Z", "effects": ["drop"], "target": "crm-db", "owner": "dana", "lifts": ["breakglass"],
           "grants": [{"person": "omar", "role": "dba"}, {"person": "olivia", "role": "oncall"}]}


def explain(**kw):
    r = run([CLI, "policy", "explain", OLD, "--json", "--request", json.dumps(dict(REQUEST, **kw))])
    return json.loads(r.stdout) if r.returncode == 0 else r.stdout


t.eq(explain()["decision"]["verdict"], "allow", "with lifts and signatures")
t.eq(explain(grants=[])["decision"]["verdict"], "needs_approval", "fewer signatures do not do")
t.eq(explain(lifts=[])["decision"]["verdict"], "deny", "nor does it pass without its lift")
t.eq(explain(owner="omar")["decision"]["verdict"], "needs_approval", "the owner's signature does not count")
t.eq(len(explain()["rules"]), 5, "JSON has every rule with its conditions")
for bad, words in (({"effects": ["nonsense"]}, "no effect"), ({"target": "x"}, "no target"), ({"clock": "unknown"}, "at"),
                   ({"extra": 1}, "unknown key")):
    t.has(str(explain(**bad)), words, "a request that is not understood is refused: %s" % list(bad))

# --- calendar ----------------------------------------------------------------------------
r = run([CLI, "policy", "calendar", OLD, "--at", "2026-12-20T00:00:00Z", "--month", "2026-12"])
t.has(r.stdout, "yearend (freeze, Europe/London): FROZEN until Mon 2027-01-04 08:00:00 +00:00", "calendar says what holds now")
t.has(r.stdout, " 14  15  16  17  18+ 19# 20#", "the month marks days that are frozen in part and as a whole")
t.ok("\033" not in r.stdout, "a pipe gets no colour")
t.has(r.stdout, "2027-01-04T08:00:00Z  Mon 2027-01-04 08:00:00 +00:00  yearend: not frozen", "next changes are listed")
t.has(run([CLI, "policy", "calendar", OLD, "--colour", "always"]).stdout + "\033", "\033", "colour can be asked for")
narrow = run([CLI, "policy", "calendar", OLD, "--year", "2026"], env=dict(os.environ, COLUMNS="40")).stdout
wide = run([CLI, "policy", "calendar", OLD, "--year", "2026"], env=dict(os.environ, COLUMNS="130")).stdout
t.ok(max(len(x) for x in narrow.split("\n")[1:90]) <= 40 and len(wide.split("\n")) < len(narrow.split("\n")) / 2,
     "a year takes the width that there is")
r = run([CLI, "policy", "calendar", OLD, "--month", "2026-13"])
t.eq(r.returncode, 2, "there is no thirteenth month")
ics = run([CLI, "policy", "calendar", OLD, "--ics", "--at", AT], encoding="ascii").stdout
raw = os.path.join(temp.path, "x.ics")
with open(raw, "wb") as f:
    f.write(subprocess.run([CLI, "policy", "calendar", OLD, "--ics", "--at", AT], check=True,
                                         stdout=-1).stdout)
with open(raw, "rb") as f:
    data = f.read()
t.ok(data.startswith(b"BEGIN:VCALENDAR\r\n") and data.endswith(b"END:VCALENDAR\r\n") and b"\n" not in data.replace(b"\r\n", b""),
     "an iCalendar file has CRLF line ends")
t.ok(all(len(x) <= 75 for x in data.split(b"\r\n")), "and folded lines")
t.ok(b"DTSTART:20261218T180000Z" in data and b"DTEND:20270104T080000Z" in data and b"UID:" in data and b"DTSTAMP:" in data,
     "with the window in UTC")
t.eq(json.loads(run([CLI, "policy", "calendar", OLD, "--json", "--at", AT]).stdout)["calendars"][0]["intervals"],
     [["2026-12-18T18:00:00Z", "2027-01-04T08:00:00Z"]], "JSON has the intervals")
r = run([CLI, "policy", "explain", OLD, "--target", "infra", "--sql", "SELECT 1"])
t.ok(r.returncode == 1 and "of kind http and takes no SQL" in r.stdout, "SQL is not judged on a target that takes none", r.stdout)
REQUEST = {"target": "crm-db", "effects": ["delete"], "at": "2026-06-24T00:00:00Z"}
for more, words in (({"grants": [{"person": "nobody", "role": "dba"}]}, 'no person is named "nobody"'),
                    ({"grants": [{"person": "omar", "role": "king"}]}, 'omar does not have role "king"'),
                    ({"owner": "dana", "grants": [{"person": "dana", "role": "dba"}]}, "dana owns the run"),
                    ({"lifts": ["two-people"]}, 'no exception lifts a rule "two-people"'),
                    ({"rates": {"two-people": 4}}, 'no rule "two-people" counts anything')):
    r = run([CLI, "policy", "explain", OLD, "--request", json.dumps(dict(REQUEST, **more))])
    t.ok(r.returncode == 0 and words in r.stdout and "needs approval" in r.stdout, "what a request names in vain is told: " + words, r.stdout)
r = run([CLI, "policy", "explain", OLD, "--request", json.dumps(dict(REQUEST, owner="olivia", lifts=["breakglass"], grants=[
    {"person": "omar", "role": "oncall"}, {"person": "dana", "role": "dba"}]))])
t.ok(r.returncode == 0 and "request:" not in r.stdout and "allow" in r.stdout, "what it names rightly is not", r.stdout)
temp.remove()
t.done()
