#!/usr/bin/python3
"""`cofferdam policy prove`: theorems proved, or refuted by an action that anybody can judge again; z3 beside it."""
import copy
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Tap, Temp, TOP, run  # noqa: E402
from policy_smt import z3_holds  # noqa: E402

t = Tap()
temp = Temp("prove")
AT = "2026-03-11T12:00:00Z"


def write(name, policy):
    path = os.path.join(temp.path, name)
    with open(path, "w", encoding="ascii") as f:
        json.dump({"policy": policy, "cases": []}, f)
    return path


def prove(policy, *ids):
    path = write("p.json", policy)
    r = run([CLI, "policy", "prove", path, "--cases-policy", "--json", "--at", AT, *ids])
    if r.returncode not in (0, 1):
        raise RuntimeError(r.stdout)
    out = json.loads(r.stdout)
    return {x["id"]: x for x in out["theorems"]}, r.returncode


def second_opinion(policy):
    """What z3 says of each theorem, of the windows that the command prints."""
    path = write("z.json", policy)
    r = run([CLI, "policy", "calendar", path, "--cases-policy", "--json"])
    calendars = json.loads(r.stdout)["calendars"]
    return {x["id"]: z3_holds(policy, calendars, x) for x in policy["prove"]}


def agree(policy, name):
    got, _ = prove(policy)
    ours = {k: v["holds"] for k, v in got.items()}
    t.eq(ours, second_opinion(policy), "z3 says the same of " + name)
    for x in got.values():
        if not x["holds"]:
            confirm(policy, x, name)
    return got


def confirm(policy, theorem, name):
    """The counterexample, judged by `policy explain`: it passes."""
    path = write("c.json", policy)
    r = run([CLI, "policy", "explain", path, "--cases-policy", "--json", "--request",
             json.dumps(theorem["counterexample"]["request"])])
    verdict = json.loads(r.stdout)["decision"]["verdict"] if r.returncode == 0 else r.stdout
    t.eq(verdict, "allow", "the counterexample to %s of %s passes when it is judged" % (theorem["id"], name))


with open(os.path.join(TOP, "tests/cases/policy-cases.json"), encoding="utf-8") as cases:
    EXAMPLE = json.load(cases)["policy"]


def rule(policy, rule_id):
    return next(r for r in policy["rules"] if r["id"] == rule_id)


def without(rule_id):
    p = copy.deepcopy(EXAMPLE)
    p["rules"] = [r for r in p["rules"] if r["id"] != rule_id]
    return p


got = agree(EXAMPLE, "the example policy")
t.eq([k for k, v in sorted(got.items()) if v["holds"]], ["P1", "P2", "P3", "P4", "P5"],
     "the five theorems of the example policy are proved")
t.eq(prove(EXAMPLE)[1], 0, "the exit status says so")

# The mutations of the design, each with the theorem that it breaks.
single = without("freeze-changes")
rule(single, "prod-destructive")["approve"] = [{"role": "dba", "count": 1}]
got = agree(single, "the policy without the freeze rule and with one approver")
t.ok(not got["P1"]["holds"], "without the freeze rule and with one approver, P1 does not hold")
req = got["P1"]["counterexample"]["request"] if not got["P1"]["holds"] else {}
t.eq(len(req.get("grants", [])), 1, "its counterexample is signed by one person")
t.ok(set(req.get("effects", [])) & {"delete", "bulk", "drop", "overwrite", "disrupt"}, "and destroys", req)

got = agree(without("freeze-hard"), "the policy without freeze-hard")
t.ok(not got["P3"]["holds"], "without freeze-hard, P3 does not hold")
t.ok(got["P1"]["holds"] and got["P5"]["holds"], "and the others do")

got = agree(without("one-statement"), "the policy without one-statement")
t.ok(not got["P5"]["holds"], "without one-statement, P5 does not hold")
if not got["P5"]["holds"]:
    t.eq(got["P5"]["counterexample"]["request"]["statements"], 2, "its counterexample has two statements")

free = copy.deepcopy(EXAMPLE)
free["rules"] = [r for r in free["rules"] if r["id"] not in ("prod-change", "freeze-changes")]
got = agree(free, "the policy without prod-change")
t.ok(not got["P4"]["holds"], "without what asks for one person, P4 does not hold")

shorter = copy.deepcopy(EXAMPLE)
rule(shorter, "freeze-hard")["forbid"]["effects"]["any"] = ["schema", "bulk"]
got = agree(shorter, "the policy whose freeze forgot drop")
t.ok(not got["P3"]["holds"], "a freeze that forgot drop does not keep P3")

# Exceptions count as given; break-glass where the theorem does not say "unless".
lifted = copy.deepcopy(EXAMPLE)
rule(lifted, "freeze-hard")["override"] = "exception"
got = agree(lifted, "the policy whose freeze can be lifted by an exception")
t.ok(not got["P3"]["holds"], "what an exception can lift is not \"unless breakglass\"")
if not got["P3"]["holds"]:
    t.eq(got["P3"]["counterexample"]["request"]["lifts"], ["freeze-hard"], "the counterexample names the exception")
never = copy.deepcopy(EXAMPLE)
del next(x for x in never["prove"] if x["id"] == "P3")["unless"]
got = agree(never, "the policy whose P3 has no unless")
t.ok(not got["P3"]["holds"], "without \"unless\", break-glass is a way past P3")

# What is refused, and what is said.
r = run([CLI, "policy", "prove", write("p.json", without("freeze-hard")), "--cases-policy", "--at", AT])
t.eq(r.returncode, 1, "a theorem that does not hold is exit status 1")
for part in ("P3 DOES NOT HOLD", "an action with effects", "inside yearend until 2027-01-04T08:00:00Z",
             "signed by", "permitted by prod-work", "policy explain", "5 theorems, 4 hold"):
    t.has(r.stdout, part, "the counterexample in words says: " + part)
r = run([CLI, "policy", "prove", write("p.json", EXAMPLE), "--cases-policy", "P1", "P9"])
t.eq(r.returncode, 2, "a theorem that is not there is exit status 2, never proved")
r = run([CLI, "policy", "prove", write("p.json", EXAMPLE), "--cases-policy", "P2"])
t.has(r.stdout, "1 theorems, 1 hold", "one theorem can be asked for")

# Random policies: every key of a condition, z3 beside each. The seed is in the name of a failure.
rng = random.Random(int(os.environ.get("PROVE_SEED", "7")))
EFFECT_LISTS = [["@data"], ["@change"], ["@destructive"], ["drop", "bulk"], ["write"], ["@escape"], ["delete", "write"]]


def random_cond(permit):
    c = {}
    if permit or rng.random() < 0.7:
        lists = [x for x in EFFECT_LISTS if not permit or x != ["@escape"]]
        chosen = rng.sample(lists, rng.randint(1, 3))
        names = sorted({n for x in chosen for n in x})
        c["effects"] = {"only" if permit or rng.random() < 0.2 else "any": names}
    choices = {"env": ["prod", "staging", "pro*"], "kind": ["postgres", "http", "*s"],
               "target": ["prod-db", "crm-api", "*-db"], "agent": ["ci", "ci-*", "*bot*"], "run": ["r1*"],
               "owner": ["alice", "bob", "*a*"], "during": ["yearend", "weekend"], "outside": ["dbmaint", "weekend"],
               "relation": ["public.users", "users", "audit.*"], "resource": ["a*", "public.users"]}
    for key in rng.sample(sorted(choices), rng.choice([0, 1, 1, 2, 3])):
        c[key] = rng.sample(choices[key], rng.choice([1, 1, 2]) if len(choices[key]) > 1 else 1)
    if rng.random() < 0.15:
        c["statements"] = {rng.choice(["gt", "lt", "eq"]): rng.randint(1, 3)}
    return c


def random_policy(n):
    p = copy.deepcopy(EXAMPLE)
    p["rules"], p["prove"] = [], []
    for i in range(n):
        kind = rng.choice(["permit", "permit", "require", "forbid"])
        r = {"id": "r%d" % i, kind: random_cond(kind == "permit")}
        if kind == "forbid":
            r["override"] = rng.choice(["never", "exception", "breakglass"])
        if kind == "require":
            roles = rng.sample(["dba", "oncall", "change-manager"], rng.choice([1, 2]))
            r.update(approve=[{"role": x, "count": 1} for x in roles], within="30m", use_within="5m")
        if kind != "permit" and rng.random() < 0.15:
            r[kind]["rate"] = {"over": rng.randint(1, 3), "in": "10m", "per": "run"}
        p["rules"].append(r)
    for i in range(3):
        x = {"id": "T%d" % i, "never": random_cond(False)}
        x["unless"] = rng.choice([{"people": 1}, {"people": 2}, {"breakglass": True}, None])
        if x["unless"] is None:
            del x["unless"]
        p["prove"].append(x)
    return p


rounds, same, held, first = int(os.environ.get("PROVE_ROUNDS", "25")), 0, 0, None
for k in range(rounds):
    p = random_policy(rng.randint(3, 9))
    got, _ = prove(p)
    opinion = second_opinion(p)
    ours = {k: v["holds"] for k, v in got.items()}
    held += sum(ours.values())
    refuted_ok = True
    for x in got.values():
        if x["holds"]:
            continue
        r = run([CLI, "policy", "explain", write("c.json", p), "--cases-policy", "--json", "--request",
                 json.dumps(x["counterexample"]["request"])])
        refuted_ok &= r.returncode == 0 and json.loads(r.stdout)["decision"]["verdict"] == "allow"
    if ours == opinion and refuted_ok:
        same += 1
    elif first is None:
        first = "ours %s, z3 %s, confirmed %s\n%s" % (ours, opinion, refuted_ok, json.dumps(p))
t.eq((same, first), (rounds, None), "of %d random policies z3 says the same, and every counterexample passes" % rounds)
t.ok(0 < held < 3 * rounds, "some of their theorems hold and some do not", held)

# Large: seconds, or a word of what is too large.
big = copy.deepcopy(EXAMPLE)
for i in range(1000 - len(big["rules"])):
    big["rules"].append({"id": "x%d" % i, "forbid": {"target": "prod-db", "agent": "agent-%d" % i,
                                                    "effects": {"any": ["write"]}}, "override": "never"})
got, rc = prove(big)
t.eq((rc, len(big["rules"])), (0, 1000), "a policy of 1,000 rules is proved")
wide = copy.deepcopy(EXAMPLE)
for i in range(14):
    wide["rules"].append({"id": "w%d" % i, "permit": {"relation": ["t%d" % k for k in range(14) if k != i],
                                                     "effects": {"only": ["write"]}}})
r = run([CLI, "policy", "prove", write("p.json", wide), "--cases-policy"])
t.ok(r.returncode == 2 and "sets of the tables and other names" in r.stdout, "what is too large is said, with exit status 2", r.stdout)
temp.remove()
t.done()
