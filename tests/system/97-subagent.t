#!/usr/bin/python3
"""A model that has a part of its task done by a run of its own: what that may have, what comes back, what it costs, and
that it ends with its parent. Over the real broker, sandbox and a real PostgreSQL; the model is a scripted server."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from fakemodel import Model
from harness import CLI, Http, Pg, Stack, Tap, Temp, run, wait_for

tap, temp = Tap(), Temp("subagent")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY, v int); INSERT INTO orders SELECT g, g FROM generate_series(1,50) g;"
         "ALTER TABLE orders OWNER TO agent;")
ant = Model(temp, "ant")
st = Stack(temp, pg, http={"claude": Http(ant, kind="header", field="x-api-key", model="anthropic", address=None)}, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    POLICY = json.load(f)
TARGETS = dict(POLICY["targets"], **{"other-db": dict(POLICY["targets"]["crm-db"])})
st.build_policy({"serial": 2, "targets": TARGETS, "people": POLICY["people"], "rules": POLICY["rules"]})
st.start()


def begin(steps, tasks, *opts):
    ant.play({"steps": steps, "tasks": tasks})
    return subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake-1", "--base-url", ant.origin, "--task",
                             "look at it", *opts], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def loop(steps, tasks, *opts):
    p = begin(steps, tasks, *opts)
    out, err = p.communicate(timeout=120)
    return p.returncode, out, err


def started(n):
    """The last n runs that began, once there are more than before."""
    return [r for r in st.records("run.start")][-n:]


def ended(run_id):
    return wait_for(lambda: next((r["data"] for r in st.records("run.end") if r["run"] == run_id), None), 30)


def code(text):
    return {"tool": "run_command", "input": {"language": "bash", "command": text}}


def sql(text):
    return code("psql -h %s -U x -d crm -X -c \"%s\" 2>&1" % (pg.host, text))


def subagent(task, **more):
    return {"tool": "subagent", "input": dict(task=task, **more)}


def last_heard():
    return json.dumps(ant.heard()[-1]["body"]["messages"])


# --- a part of the task -------------------------------------------------------------------------------------
rc, out, err = loop([{"text": "I have it counted.", "tools": [subagent("count the orders", targets="crm-db", effects="@data", turns=5)]},
                     {"text": "It was counted."}],
                    {"count the orders": [{"text": "I count.", "tools": [sql("SELECT count(*) FROM orders"), sql("UPDATE orders SET v = 1")]},
                                          {"text": "There are 50, and I changed none."}]}, "--target", "crm-db")
top, kid = started(2)
tap.ok(rc == 0 and "It was counted." in out, "a run with a subagent ends", out + err)
tap.eq((kid["data"]["parent"], kid["data"]["effects"], [t["target"] for t in kid["data"]["targets"] if t["kind"] == "postgres"],
        kid["data"]["budget"]["turns"]), (top["run"], ["read", "txn"], ["crm-db"], 5), "which is a run of its own, by its parent")
tap.ok(kid["data"]["budget"]["seconds"] <= top["data"]["budget"]["seconds"], "with no more time than that has")
tap.has(last_heard(), "There are 50, and I changed none.", "its closing words come back to the model")
tap.has(out, "%s ! deny: bulk,opaque,write on crm-db: UPDATE" % kid["run"][:10], "the stream shows what it does, marked as its own")
tap.has(out, "%s | I count." % kid["run"][:10], "and says")
tap.eq([ended(r["run"])["status"] for r in (top, kid)], ["done", "done"], "both are done")
first = [h["body"] for h in ant.heard() if "count the orders" in json.dumps([m for m in h["body"]["messages"] if m["role"] == "user"][:1])][0]
tap.ok("I have it counted" not in json.dumps(first["messages"]), "it knows nothing but its task")
order = [r["type"] for r in st.records() if r.get("run") in (top["run"], kid["run"]) and r["type"] in ("run.start", "run.end", "agent.exec", "agent.result")]
tap.eq(order, ["run.start", "agent.exec", "run.start", "agent.exec", "agent.result", "agent.exec", "agent.result", "run.end", "agent.result", "run.end"],
       "the call is on the record before it, its answer behind it")

# --- what it cannot have ---------------------------------------------------------------------------------------
rc, out, err = loop([{"text": "Try.", "tools": [subagent("steal", targets="other-db")]}, {"text": "No."}], {}, "--target", "crm-db")
tap.ok(rc == 0 and "has no target other-db itself" in last_heard(), "a target that the parent lacks is an answer to the model", last_heard()[-600:])
rc, out, err = loop([{"text": "Try.", "tools": [subagent("steal", effects="drop")]}, {"text": "No."}], {}, "--effect", "@data")
tap.ok(rc == 0 and "has no effect drop itself" in last_heard(), "so is an effect", last_heard()[-600:])
deep = {"level %d" % i: [{"text": "Down.", "tools": [subagent("level %d" % (i + 1))]}, {"text": "Level %d heard." % i}] for i in range(1, 5)}
rc, out, err = loop([{"text": "Down.", "tools": [subagent("level 1")]}, {"text": "Up."}], deep)
tap.ok(rc == 0 and "3 below the run that a person started, the limit" in json.dumps(ant.heard()), "and a depth beyond three", out[-2000:])
tap.eq([r["data"].get("parent") is not None for r in started(4)], [False, True, True, True], "three there are")
rc, out, err = loop([{"text": "Spend.", "tools": [subagent("spend")]}, {"text": "More.", "tools": [code("true")]}, {"text": "No."}],
                    {"spend": [{"text": "x", "tools": [code("true")]}] * 6 + [{"text": "spent"}]}, "--max-tokens", "250")
top, kid = started(2)
tap.eq([ended(r["run"])["status"] for r in (top, kid)], ["budget:tokens"] * 2, "what it spends is its parent's")
with open(temp.path + "/s.txt", "w", encoding="ascii") as f:
    f.write('title\n\n## call subagent\n{"task": "x"}\n\n## done\nno\n')
r = run([CLI, "run", "--state", st.state, *BASE, "--task", "t", "--script", temp.path + "/s.txt"])
tap.ok(r.returncode == 0 and "no model that a subagent could have" in r.stdout, "a script has none", r.stdout)

# --- it ends with its parent ---------------------------------------------------------------------------------------
WAIT = {"wait here": [{"text": "I wait.", "tools": [code("while :; do sleep 0.1; done")]}, {"text": "never"}]}


def both():
    n = len(st.records("run.start"))
    p = begin([{"text": "Wait.", "tools": [subagent("wait here")]}, {"text": "Done."}], WAIT)
    wait_for(lambda: len(st.records("run.start")) == n + 2, 60)
    top, kid = [r["run"] for r in started(2)]
    wait_for(lambda: [r for r in st.records("agent.exec") if r["run"] == kid], 60)
    return p, top, kid


p, top, kid = both()
tap.eq(st.cli("stop", "--reason", "late", top).returncode, 0, "a run is stopped while it waits for its subagent")
out, err = p.communicate(timeout=90)
tap.eq([ended(r)["status"] for r in (top, kid)], ["stopped"] * 2, "both stop in order")
p, top, kid = both()
tap.eq(st.cli("revoke", top).returncode, 0, "one is revoked")
p.communicate(timeout=90)
tap.eq([ended(r)["status"] for r in (top, kid)], ["revoked", "parent"], "the subagent ends with it")
p, top, kid = both()
p.kill()
p.communicate()
tap.ok({ended(top)["status"], ended(kid)["status"]} <= {"lost", "parent"}, "an agent that is killed takes both along")
p, top, kid = both()
st.cli("stop", kid)
out, err = p.communicate(timeout=90)
tap.eq([ended(r)["status"] for r in (kid, top)], ["stopped", "done"], "a subagent can be stopped alone")
tap.has(last_heard(), "subagent: stopped", "and the model is told")
pg.stop()
tap.done()
