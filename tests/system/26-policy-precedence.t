#!/usr/bin/python3
"""Which rule wins, what is an error and not silence, and what a caller says of itself: field cases of policies and freezes that
need no broker. The commands link what the broker judges with."""
import copy
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Tap, Temp, run

t, temp = Tap(), Temp("precedence")
READ, ALL = {"effects": {"only": ["@data"]}}, {"effects": {"only": ["@data", "@change", "@destructive"]}}
BASE = {"schema": "cofferdam-policy/1", "policy": "field", "serial": 1, "clock": "trusted",
        "targets": {"a": {"kind": "http", "env": "prod", "origin": "https://a.field.test"},
                    "b": {"kind": "http", "env": "prod", "origin": "https://b.field.test"}},
        "rules": []}


def policy(*rules, **more):
    return dict(copy.deepcopy(BASE), rules=list(rules), **more)


def ask(verb, p, *args):
    path = temp.path + "/p.json"
    with open(path, "w", encoding="ascii") as f:
        json.dump(p, f, indent=1)
    return run([CLI, "policy", verb, path, *args])


def judged(p, target, *args):
    r = ask("explain", p, "--target", target, "--method", "GET", "--path", "/public/x", "--json", *args)
    return json.loads(r.stdout) if r.returncode == 0 else r.stdout


def verdict(p, target):
    d = judged(p, target)["decision"]
    return d["verdict"], d["rules"]


# === POL-01: which rule wins =================================================================================
ALLOW_A = {"id": "allow-a", "permit": dict(READ, target="a")}
DENY_ALL = {"id": "deny-all", "forbid": {"target": "*"}, "override": "never"}
t.eq([verdict(policy(ALLOW_A), x) for x in "ab"], [("allow", ["allow-a"]), ("deny", ["default"])],
     "POL-01: what one permit names is allowed, all else is denied without a word of it")
p = policy(ALLOW_A, DENY_ALL)
t.eq([verdict(p, x) for x in "ab"], [("deny", ["deny-all"])] * 2, "POL-01: a forbid of everything wins over a permit")
t.has(ask("check", p).stdout, "permit allow-a never opens anything", "POL-01: and check says that the permit then does nothing")
p = policy({"id": "allow-all", "permit": dict(READ, target="*")}, {"id": "deny-a", "forbid": {"target": "a"}, "override": "never"})
t.eq([verdict(p, x) for x in "ab"], [("deny", ["deny-a"]), ("allow", ["allow-all"])], "POL-01: a forbid of one among all that are permitted")
SAME = [{"id": "yes", "permit": dict(READ, target="a")}, {"id": "no", "forbid": {"target": "a"}, "override": "never"}]
t.eq([verdict(policy(*r), "a") for r in (SAME, SAME[::-1])], [("deny", ["no"])] * 2,
     "POL-01: of two rules of the same reach the forbid wins, in whatever order they stand")
rules = {r["id"]: (r["kind"], r["applies"]) for r in judged(policy(*SAME), "a")["rules"]}
t.eq(rules, {"yes": ("permit", True), "no": ("forbid", True)}, "POL-01: explain shows both")
p = policy({"id": "nothing", "permit": {"effects": {"only": []}}})
t.eq(verdict(p, "a"), ("deny", ["default"]), "POL-01: a permit of an empty list permits nothing")
t.has(ask("check", p).stdout, "nothing", "POL-01: and check says so")
for what, rule, words in (
        ("an empty list of targets", {"id": "x", "permit": dict(READ, target=[])}, "from 1 to"),
        ("an unknown protocol", {"id": "x", "forbid": {"kind": "smtp"}, "override": "never"}, 'no kind of target is named "smtp"'),
        ("an unknown key", {"id": "x", "permit": dict(READ, methods=["GET"])}, 'unknown key "methods"'),
        ("an unknown effect", {"id": "x", "permit": {"effects": {"only": ["reed"]}}}, '"reed" is no effect'),
        ("a target that is not there", {"id": "x", "permit": dict(READ, target="c")}, 'no target is named "c"')):
    r = ask("check", policy(rule))
    t.ok(r.returncode == 1 and words in r.stdout and "p.json:" in r.stdout, "POL-01: %s is an error, with its place" % what, r.stdout)

# === FRZ-04: the zone ========================================================================================
CALENDAR = {"kind": "freeze", "tz": "Pacific/Auckland", "valid": ["2026-01-01", "2027-01-01"],
            "weekly": [{"from": "Fri 22:00", "to": "Sat 06:00"}]}
STOP = {"id": "stop", "forbid": {"during": ["week"], "effects": {"any": ["@change"]}}, "override": "never"}
r = ask("check", policy(STOP, calendars={"week": {k: v for k, v in CALENDAR.items() if k != "tz"}}))
t.ok(r.returncode == 1 and '"tz"' in r.stdout, "FRZ-04: a calendar without a zone is an error", r.stdout)
for zone in ("Pacific/Aukland", "pacific/auckland", "NZ time", "../Etc/UTC"):
    r = ask("check", policy(STOP, calendars={"week": dict(CALENDAR, tz=zone)}))
    t.ok(r.returncode == 1 and "time zone" in r.stdout, "FRZ-04: the zone %s is an error, not UTC" % zone, r.stdout)
t.eq(ask("check", policy({"id": "all", "permit": ALL}, STOP, calendars={"week": CALENDAR})).returncode, 0, "FRZ-04: a zone that there is, is none")

# === FRZ-03: the intervals are instants, fixed when it is built ==============================================
NIGHT = {"kind": "freeze", "tz": "Europe/Berlin", "valid": ["2026-03-28", "2026-10-27"], "weekly": [{"from": "02:30", "for": "1h", "days": "daily"}]}
p = policy(dict(STOP, forbid=dict(STOP["forbid"], during=["night"])), calendars={"night": NIGHT})
out = ask("calendar", p, "--list").stdout
t.ok("  2026-03-29T00:30:00Z  2026-03-29T02:30:00Z  " in out and "  2026-10-25T00:30:00Z  2026-10-25T02:30:00Z  " in out,
     "FRZ-03: a skipped and a repeated hour as the command line prints them", out)
out = ask("explain", p, "--target", "a", "--method", "POST", "--path", "/x", "--at", "2026-03-29T02:29:59Z").stdout
t.has(out, "inside night until 2026-03-29T02:30:00Z", "FRZ-03: and explain, one second before the end")

# === FRZ-07: what a caller says of itself ====================================================================
TARGETS = {"api": {"kind": "http", "env": "prod", "origin": "https://api.field.test"},
           "code": {"kind": "git", "env": "prod", "origin": "https://git.field.test"},
           "tools": {"kind": "mcp", "env": "prod", "origin": "https://mcp.field.test", "tools": {"deploy": ["write"]}}}
FROZEN = {"week": {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2026-01-01", "2027-01-01"],
                   "once": [{"from": "2026-12-01T00:00", "to": "2026-12-31T00:00"}]}}
PUSH = {"old": "0" * 40, "new": "1" * 40}
INPUTS = {"plain": {"target": "api", "method": "POST", "path": "/deploy"},
          "header": {"target": "api", "method": "POST", "path": "/deploy",
                     "headers": [["X-Initiated-By", "human"], ["X-Approved-By", "oncall"]]},
          "query": {"target": "api", "method": "POST", "path": "/deploy?manual=true&approved=1"},
          "body": {"target": "api", "method": "POST", "path": "/deploy", "content_type": "application/json", "body": {"manual": True}},
          "agent": {"target": "api", "method": "POST", "path": "/deploy", "agent": "human"},
          "tool": {"target": "tools", "tool": "deploy", "arguments": {"manual": True}},
          "branch": {"target": "code", "updates": [dict(PUSH, ref="refs/heads/hotfix/x")]}}


def cases(at, want, rule):
    return [{"id": k, "at": at, "input": v, "expect": {"verdict": want, "rules": [rule]}} for k, v in INPUTS.items()]


for when, at, want, rule in (("in the freeze", "2026-12-24T12:00:00Z", "deny", "stop"),
                             ("outside it, the same", "2026-06-24T12:00:00Z", "allow", "all")):
    r = ask("test", policy({"id": "all", "permit": ALL}, STOP, targets=TARGETS, calendars=FROZEN, cases=cases(at, want, rule)))
    t.ok(r.returncode == 0 and "# %d run, 0 failed" % len(INPUTS) in r.stdout,
         "FRZ-07: %s: %s, whatever a header, a body, an argument or a branch says" % (when, want), r.stdout)
t.done()
