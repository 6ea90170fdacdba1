#!/usr/bin/python3
"""docs/policy.schema.json against the reader: what one refuses by form, the other does, too, key by key."""
import copy
import json
import os
import re
import sys

import jsonschema

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Tap, Temp, run

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
tap = Tap()
temp = Temp("schema")


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


schema = json.loads(read("docs/policy.schema.json"))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
valid = lambda p: next(validator.iter_errors(p), None) is None
# Names of these objects' members are the writer's own.
FREE = {("targets",), ("people",), ("calendars",), ("graphql", "effects"), ("graphql", "persisted"), ("tools",)}


def check(policy):
    """None: the reader takes it; else what it says."""
    path = temp.path + "/p.json"
    with open(path, "w", encoding="utf-8") as f:
        json.dump(policy, f)
    r = run([CLI, "policy", "check", path])
    return r.stdout if "p.json:" in r.stdout and r.stdout.startswith("cofferdam: ") else None


def vector(name):
    return json.loads(re.search(r"<!-- vector %s -->\n```\n(.*?)\n```\n" % name, read("docs/format-policy.md"), re.S).group(1))


def objects(v, path=()):
    """Every object in v: its path, and itself."""
    if isinstance(v, dict):
        yield path, v
        for k, x in v.items():
            yield from objects(x, path + (k,))
    elif isinstance(v, list):
        for i, x in enumerate(v):
            yield from objects(x, path + (i,))


def at(v, path):
    for k in path:
        v = v[k]
    return v


example = vector("example")
tap.ok(valid(example), "the example of docs/format-policy.md is of the schema",
       [str(e.message)[:200] for e in validator.iter_errors(example)])
said = check(example)
tap.ok(said is None, "and the reader takes it", said)
r = run([CLI, "policy", "test", temp.path + "/p.json"])
tap.ok(r.returncode == 0 and "2 run, 0 failed" in r.stdout, "its cases hold", r.stdout)
tap.ok(valid(vector("source")), "so is the vector of the bundle")
tap.ok(valid(json.loads(read("docs/examples/policy.json"))), "so is docs/examples/policy.json")
tap.ok(valid(json.loads(read("tests/cases/policy-cases.json"))["policy"]), "so is the policy of the cases")
man = re.search(r"^```\n(\{.*?\n\})\n```", read("docs/man/cofferdam-policy.5.scd"), re.S | re.M).group(1)
tap.ok(valid(json.loads(man)), "so is the one of cofferdam-policy(5)")

# --- a key that nobody knows, in every object ------------------------------------------
places, both = 0, []
for path, o in objects(example):
    if path[-1:] in FREE or path[-2:] in FREE:
        continue
    p = copy.deepcopy(example)
    at(p, path)["zzz"] = 1
    places += 1
    said = check(p)
    if valid(p) or said is None or "zzz" not in said:
        both.append((path, valid(p), said))
tap.ok(places > 70, "the example has many objects", places)
tap.eq(both, [], "an unknown key in any of them is refused by both")

# --- every key that must be there ---------------------------------------------------------
wrong = []
for path, o in objects(example):
    for k in o:
        p = copy.deepcopy(example)
        del at(p, path)[k]
        ok, said = valid(p), check(p)
        # What only the whole policy shows is not of the schema's form: it may be laxer, never stricter.
        if not ok and said is None:
            wrong.append((path, k, said))
tap.eq(wrong, [], "the schema asks for no key that the reader does without")
needed = [(), "schema"], [(), "policy"], [(), "serial"], [("owners",), "count"], [("targets", "orders"), "env"], \
    [("calendars", "yearend"), "tz"], [("calendars", "yearend"), "valid"], [("rules", 0), "id"], [("rules", 0, "permit"), "effects"], \
    [("rules", 3), "override"], [("rules", 8), "approve"], [("rules", 8), "within"], [("rules", 8), "use_within"], \
    [("rules", 9, "require", "rate"), "per"], [("prove", 0), "never"], [("cases", 0), "expect"], [("attempts",), "alarm"]
wrong = []
for path, k in needed:
    p = copy.deepcopy(example)
    del at(p, path)[k]
    # Without "schema" it is an included file, which may hold no serial.
    if valid(p) or check(p) is None:
        wrong.append((path, k, valid(p), check(p)))
tap.eq(wrong, [], "and both ask for those that must be there")

# --- keys of another kind, values out of their bounds -----------------------------------
DONORS = {"database": "d", "max_connections": 5, "accounts": ["123456789012"], "namespaces": ["a"], "protected": ["refs/heads/x"],
          "push_options": ["x"], "quarantine": True, "refs": ["refs/heads/*"], "regions": ["eu-west-1"], "repositories": ["/a/b"],
          "services": ["s3"], "tools": {"t": ["read"]}, "unsafe_gets": ["/x"], "model": "openai", "graphql": {}, "cookies": "pass", "preview": "look", "files": "x", "upgrade": {"websocket": ["read"]}}
wrong = []
for target in ("orders", "api", "code", "cluster"):
    for k, v in DONORS.items():
        p = copy.deepcopy(example)
        p["targets"][target].setdefault(k, v)
        ok, said = valid(p), check(p)
        if ok != (said is None):
            wrong.append((target, k, ok, said))
tap.eq(wrong, [], "a key of another kind of target is refused by both")
CHANGES = [
    (("serial",), 0), (("serial",), "1"), (("policy",), "a b"), (("clock",), "ntp"), (("schema",), "cofferdam-policy/2"),
    (("effect_requires", "drop"), "durable"), (("effect_requires", "fly"), "checkpoint"), (("effect_requires", "drop"), "witness(9)"), (("effect_requires", "within"), "ever"),
    (("attempts", "alarm"), 0), (("owners", "count"), 10), (("owners", "people"), []), (("include",), []), (("include",), "../x.json"),
    (("targets", "orders", "kind"), "mysql"), (("targets", "orders", "port"), 65536), (("targets", "orders", "tls"), "on"),
    (("targets", "orders", "max_connections"), 0), (("targets", "orders", "seal"), "all"), (("targets", "orders", "preview"), "look"), (("targets", "api", "preview"), "plan"), (("targets", "api", "model"), "other"), (("targets", "api", "graphql", "effects"), {"x": ["read"]}),
    (("people", "alice", "login"), "alice"), (("people", "alice", "roles"), ["dba", "dba"]),
    (("calendars", "yearend", "kind"), "closed"), (("calendars", "yearend", "valid"), ["2026-01-01"]),
    (("calendars", "yearend", "once", 0), {"from": "2026-12-18T18:00"}), (("calendars", "yearend", "once", 0, "from"), "2026-12-18 18:00"),
    (("calendars", "nights", "weekly", 0, "days"), ["Monday"]), (("calendars", "nights", "weekly", 1, "from"), "Friday 16:00"),
    (("calendars", "nights", "weekly", 0), {"from": "22:00", "to": "06:00"}), (("calendars", "upkeep", "weekly", 0, "for"), "4"),
    (("rules", 0, "permit", "effects"), {"any": ["read"]}), (("rules", 0, "permit", "effects", "only"), ["exec"]),
    (("rules", 0, "permit", "effects", "only"), ["fly"]), (("rules", 0, "permit", "rate"), {"over": 1, "in": "1m", "per": "run"}),
    (("rules", 0, "id"), "default"), (("rules", 0, "override"), "never"), (("rules", 0, "approve"), [{"role": "dba", "count": 1}]),
    (("rules", 3, "override"), "sometimes"), (("rules", 3, "within"), "1m"), (("rules", 3, "forbid", "effects", "any"), []),
    (("rules", 4, "forbid", "statements"), {}), (("rules", 4, "forbid", "statements"), {"gt": -1}), (("rules", 4, "forbid", "kind"), "mysql"),
    (("rules", 7, "overrun"), "always"), (("rules", 8, "approve"), []), (("rules", 8, "approve", 0, "count"), 0), (("rules", 8, "within"), "30"),
    (("rules", 8, "preview"), "count"), (("rules", 8, "preview"), True), (("rules", 0, "preview"), "required"), (("rules", 3, "preview"), "required"),
    (("rules", 8, "verify"), False), (("rules", 8, "limits"), {}), (("rules", 8, "limits", "max_rows"), -1), (("rules", 9, "require", "rate", "over"), 0),
    (("rules", 9, "require", "rate", "per"), "none"), (("rules", 9, "require", "rate", "in"), "ten"), (("rules", 0, "belt"), 1),
    (("rules", 0, "why"), ""), (("rules", 0, "why"), "caf\u00e9"), (("prove", 0, "unless"), {"people": 0}),
    (("prove", 0, "never", "rate"), {"over": 1, "in": "1m", "per": "run"}), (("cases", 0, "expect", "verdict"), "maybe"),
    (("cases", 0, "expect", "effects"), ["@data"]), (("cases", 0, "at"), "yesterday"),
]
wrong = []
for path, v in CHANGES:
    p = copy.deepcopy(example)
    at(p, path[:-1])[path[-1]] = v
    if valid(p) or check(p) is None:
        wrong.append((path, v, valid(p), check(p)))
tap.eq(wrong, [], "%d values out of their bounds are refused by both" % len(CHANGES))

# --- what a require may have besides ---------------------------------------------------------
for k, v in (("preview", "required"), ("verify", True)):
    p = copy.deepcopy(example)
    p["rules"][8][k] = v
    tap.ok(valid(p), "a require may have \"%s\"" % k)

# --- included files ----------------------------------------------------------------------
tap.ok(valid({"rules": example["rules"], "include": "more/people.json"}), "an included file needs no serial")
tap.ok(not valid({"rules": [], "serial": 2}), "and may not have one")
tap.done()
