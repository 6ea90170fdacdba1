#!/usr/bin/python3
"""Runs that start runs, over the real broker and a real PostgreSQL: with no more than their parent has, counted with
it, ended with it; and who may not sign for them.
"""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import HostRun, Pg, Stack, Tap, Temp, wait_for
from libpq import Conn

tap = Tap()
temp = Temp("children")
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY, v int); INSERT INTO orders SELECT g, g FROM generate_series(1,50) g;"
         "ALTER TABLE orders OWNER TO agent;")
st = Stack(temp, pg, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    BASE = json.load(f)
TARGET = BASE["targets"]["crm-db"]
TARGETS = {"crm-db": TARGET, "other-db": TARGET, "third-db": TARGET}
RULES = BASE["rules"] + [
    {"id": "never-drop", "forbid": {"effects": {"any": ["drop"]}}, "override": "never"},
    {"id": "slowly", "forbid": {"target": "crm-db", "effects": {"any": ["write"]}, "rate": {"over": 3, "in": "1h", "per": "run"}},
     "override": "never"}]
st.build_policy({"serial": 2, "targets": TARGETS, "rules": RULES, "attempts": {"alarm": 2, "end": 5}})
st.start()


def ends(run, status, text=None):
    """Its run.end is on the record with that status."""
    def there():
        return [r["data"] for r in st.records("run.end") if r["run"] == run.id]
    return wait_for(there, 20) and there()[0]["status"] == status and (text is None or text in there()[0]["text"])


def child(parent, targets=(), **env):
    return HostRun(st, targets, PARENT=parent.id, **env)


def refused(parent_id, targets=(), **env):
    """Why the broker does not take it."""
    try:
        h = HostRun(st, targets, PARENT=parent_id, **env)
    except RuntimeError as e:
        return str(e)
    h.end()
    return "it was taken"


def conn(run, target="crm-db"):
    return Conn(run.dsn(pg, target=target))


# --- registration ---------------------------------------------------------------------------------------
top = HostRun(st, ["crm-db", "other-db"], BUDGET='{"seconds":3000,"tokens":1000}')
kid = child(top, ["crm-db"], EFFECTS="@data", BUDGET='{"seconds":600,"tokens":1000}')
start = [r["data"] for r in st.records("run.start") if r["run"] == kid.id][0]
tap.eq((start["parent"], start["effects"], start["budget"], [t["target"] for t in start["targets"] if t.get("target")]),
       (top.id, ["read", "txn"], {"seconds": 600, "tokens": 1000}, ["crm-db"]), "the record ties a child to its parent")
tap.has(st.cli("status").stdout + json.dumps([r for r in st.records("run.start")]), top.id, "which is on the record itself")
tap.eq(conn(kid).query("SELECT count(*) FROM orders").rows, [["50"]], "a child works")
rest = child(top, BUDGET='{"seconds":600,"tokens":10}')
tap.eq(sorted(rest.port), ["crm-db", "other-db"], "one that names no target has its parent's, not the policy's")
rest.end()
tap.has(refused(top.id, ["third-db"], BUDGET='{"seconds":1,"tokens":1}'), "has no target third-db itself", "a target that the parent lacks is refused")
tap.has(refused(kid.id, ["crm-db"], EFFECTS="write", BUDGET='{"seconds":1,"tokens":1}'), "has no effect write itself",
        "an effect that the parent lacks is refused")
tap.has(refused(top.id, BUDGET='{"seconds":3001,"tokens":1}'), "seconds may be from 1 to the parent's 3000", "a larger budget is refused")
tap.has(refused(top.id, BUDGET='{"seconds":3000}'), "tokens may be from 1 to the parent's 1000", "and one that leaves out what bounds the parent")
tap.has(refused(top.id, AGENT="stronger", BUDGET='{"seconds":1,"tokens":1}'), "has its parent's agent name", "and another agent name")
tap.has(refused("r-nosuchrun"), "no run \"r-nosuchrun\"", "and a parent that there is not")
tap.has(refused(top.id, EFFECTS="fly", BUDGET='{"seconds":1,"tokens":1}'), 'no effect "fly"', "and an effect that there is not")
below = ("--agent", "hostrun", "--parent", top.id, "--target", "crm-db", "--max-tokens", "10")
r = st.sandbox("psql", "-Atc", "SELECT count(*) FROM orders", opts=(*below, "--max-time", "600"))
tap.eq((r.returncode, r.stdout), (0, "50\n"), "a command below a run with budgets says them with its options")
r = st.sandbox("true", opts=below)
tap.has(r.stderr, "seconds may be from 1 to the parent's 3000, is 3600", "and is refused where they are larger")

# --- effects ----------------------------------------------------------------------------------------------
c = conn(kid)
r = c.query("UPDATE orders SET v = 0 WHERE id = 1")
tap.eq((r.sqlstate, "started without such effects" in r.message), ("42501", True), "what a child may not do at all is refused")
tap.eq(conn(top).query("UPDATE orders SET v = 1 WHERE id = 1").sqlstate, "", "which its parent may")

# --- rates and tries count for the parent ------------------------------------------------------------------
workers = [child(top, ["crm-db"], BUDGET='{"seconds":600,"tokens":1}') for _ in range(3)]
told = [conn(w).query("UPDATE orders SET v = 2 WHERE id = 2").sqlstate for w in workers]
tap.eq(told, ["", "", "42501"], "a rate counts what all children and the parent do together")
tap.eq(conn(top).query("UPDATE orders SET v = 3 WHERE id = 3").sqlstate, "42501", "for the parent, too")
for w in workers:
    w.end()
busy = HostRun(st, ["other-db"])
arms = [child(busy, ["other-db"]) for _ in range(3)]
for i, run in enumerate([busy, arms[0], arms[1]]):
    conn(run, "other-db").query("DROP TABLE orders -- %d" % i)
tap.eq([a["decision"].get("attempt") for a in st.acts(verdict="deny") if "drop" in a["request"]["input"]["effects"]], [None, 1, 2],
       "tries at what was refused are counted whoever of the kin makes them")
alarm = wait_for(lambda: [r for r in st.records("run.alarm") if r["data"]["target"] == "other-db"], 10)
tap.eq([(r["run"], r["data"]["attempts"]) for r in alarm], [(arms[1].id, 2)], "the alarm names who made the last")
tap.has(st.cli("status").stdout, "ALARM: it goes on trying at what was refused (1 times told)", "status shows it")
tap.has(st.cli("status").stdout, "child of %s" % busy.id, "and whose child a run is")
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core), 20)
tap.ok(wait_for(lambda: "(1 times told)" in st.cli("status").stdout, 20), "also when core was killed")
for i in range(3):
    conn(arms[2], "other-db").query("TRUNCATE orders; DROP TABLE orders -- again %d" % i)
    if i < 2:
        conn(arms[2], "other-db").query("DROP TABLE orders")
tap.ok(ends(busy, "attempts"), "and the parent ends with the limit", st.records("run.end"))
tap.ok(all(ends(a, "parent", busy.id) for a in arms), "its children with it")

# --- the end --------------------------------------------------------------------------------------------------
a = HostRun(st, ["crm-db"])
b = child(a)
deep = child(b)
deepest = child(deep)
tap.has(refused(deepest.id), "3 below the run that a person started, the limit", "children of children go three deep")
idle = conn(deepest)
began = time.monotonic()
r = st.cli("revoke", "--reason", "enough", a.id)
took = time.monotonic() - began
tap.eq(r.returncode, 0, "a parent is revoked")
tap.ok(ends(a, "revoked") and all(ends(x, "parent") for x in (b, deep, deepest)), "all below it end with it")
order = [r["run"] for r in st.records("run.end") if r["run"] in (a.id, b.id, deep.id, deepest.id)]
tap.eq(order, [deepest.id, deep.id, b.id, a.id], "the deepest first")
times = {r["run"]: r["time"] for r in st.records() if r["type"] in ("run.revoke", "run.end")}
tap.ok(all(times[x.id][:19] >= times[a.id][:17] for x in (b, deep, deepest)), "each on the record")
try:
    alive = idle.query("SELECT 1").rows == [["1"]]
except Exception:  # the connection is gone
    alive = False
tap.ok(not alive, "no connection of theirs goes on")
print("# revoked with three below it in %.0f ms" % (took * 1000))

many = HostRun(st, ["crm-db"])
kids = [child(many) for _ in range(8)]
tap.has(refused(many.id), "has 8 children, the limit", "eight children live at once")
kids[0].end()
tap.ok(ends(kids[0], "done"), "a child that ends by itself is done")
another = child(many)
tap.ok(another.id, "and makes room for another")
many.end()
tap.ok(ends(many, "done") and all(ends(k, "parent") for k in kids[1:] + [another]), "a parent that is done takes them along")

# --- restarts --------------------------------------------------------------------------------------------------
p = HostRun(st, ["crm-db"])
k1, k2 = child(p, EFFECTS="@data"), child(p)
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core), 20)


def works(run, sql="SELECT 1"):
    try:
        return conn(run).query(sql)
    except Exception:
        return None


tap.ok(wait_for(lambda: works(k1) and works(k1).rows == [["1"]], 30), "a child outlives a core that was killed")
tap.eq(works(k1, "UPDATE orders SET v = 9 WHERE id = 9").sqlstate, "42501", "with no more effects than before")
os.kill(core := st.child("core"), signal.SIGKILL)
k1.kill()
wait_for(lambda: st.child("core") not in (0, core), 20)
tap.ok(wait_for(lambda: works(k2) and works(k2).rows == [["1"]], 30), "another, too")
p.kill()
tap.ok(ends(p, "lost") and ends(k2, "parent"), "a parent whose agent is killed takes its children along")
# The parent's agent dies while core is down: after 60 s it is lost; here the parent is ended first.
q = HostRun(st, ["crm-db"])
k3 = child(q)
core = st.child("core")
os.kill(core, signal.SIGSTOP)
q.kill()
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core), 20)
wait_for(lambda: st.cli("run-end", q.id).returncode == 0, 20)
tap.ok(ends(k3, "parent"), "a parent that is ended while its agent is away does, too")

# --- the tie in what is told of them -------------------------------------------------------------------------
out = st.cli("replay", "timeline", a.id).stdout
tap.ok("child run %s begins" % b.id in out and deep.id not in out, "a run's timeline shows where its children begin", out)
tap.has(st.cli("replay", "timeline", b.id).stdout, "parent %s" % a.id, "a child's, whose it is")
tap.has(st.cli("replay", "report", a.id).stdout.replace("\n", " "), "%s (parent)" % b.id, "a report names them and how they ended")
found = [json.loads(x).get("body", json.loads(x))["run"] for x in st.cli("log", "query", "--run", a.id, "--type", "run.start", "--json").stdout.splitlines() if x.startswith("{")]
tap.eq(sorted(set(found)), sorted([a.id, b.id]), "log query finds them by their parent")

# --- budgets ------------------------------------------------------------------------------------------------------
short = HostRun(st, ["crm-db"], BUDGET='{"seconds":1}')
tap.ok(ends(short, "budget", "1 seconds is spent"), "core ends a run whose seconds are over, if its agent does not")
pg.stop()
tap.done()
