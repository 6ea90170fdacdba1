#!/usr/bin/python3
"""Budgets of the built-in loop, each with an end of its own name, and conversations that are longer than a model's
context. The model is tests/tools/fakemodel.mjs, which plays a script."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from fakemodel import Model, code
from harness import CLI, Http, Stack, Tap, Temp, wait_for
from origin import Ca, Origin

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, memory says nothing
tap, temp = Tap(), Temp("budget")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]
o = Origin(temp.path, "api.test", ca=Ca(temp.path + "/ca"))
ant, oai = Model(temp, "ant"), Model(temp, "oai")
st = Stack(temp, None, http={"api": Http(o), "claude": Http(ant, kind="header", field="x-api-key", model="anthropic", address=None),
                             "gpt": Http(oai, kind="bearer", model="openai", address=None)})
PRICES = temp.path + "/prices.json"


def prices(text):
    with open(PRICES, "w", encoding="utf-8") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))


def loop(*opts, model="anthropic:fake-1", **kw):
    base = oai.origin + "/v1" if model.startswith("openai") else ant.origin
    return subprocess.run([CLI, "run", "--state", st.state, *BASE, "--model", model, "--base-url", base, "--task", "t",
                           *opts], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=120, **kw)


def end(r):
    """Status, text and what was spent, as the record of that run has them."""
    run_id = r.stdout.split()[1]
    d = next(x["data"] for x in st.records("run.end") if x["run"] == run_id)
    return d["status"], d["text"], d.get("spent", {})


STEPS = [{"text": "turn", "tools": [code("bash", "echo some output")]}] * 60
TABLE = {"schema": "cofferdam-agent/1", "currency": "EUR", "models": [
    {"model": "anthropic:fake-*", "input": "3", "output": "15.5", "cache_read": "0.3", "cache_write": "3.75"},
    {"model": "*", "input": "1000", "output": "1000"}]}
prices(TABLE)
ant.play({"steps": STEPS})
r = loop("--max-turns", "2")
status, text, spent = end(r)
tap.ok(r.returncode == 1 and status == "budget:turns" and "used: 2 turns, 2 calls, 240 tokens (200 read, 40 written)" in text,
       "the budget of turns: its name, and what was used", (status, text))
tap.ok(spent.pop("seconds") < 60 and spent == {"calls": 2, "tokens_in": 200, "tokens_out": 40, "turns": 2}, "all of it is on the record", spent)
tap.ok("-- budget:turns" in r.stdout and "used: 2 turns" in r.stdout, "and is shown at the end", r.stdout[-300:])
r = loop("--max-tokens", "300")
tap.eq((end(r)[0], end(r)[2]["turns"]), ("budget:tokens", 3), "the budget of tokens")
# 100 read at 3 and 20 written at 15.5 are 610 millionths a turn.
r = loop("--config", PRICES, "--max-cost", "0.00123")
status, text, spent = end(r)
tap.ok(status == "budget:cost" and spent["cost"] == 1830 and spent["turns"] == 3 and "budget of 0.00123 EUR" in text and "0.00183 EUR" in text,
       "the budget of money, by the price table", (status, text, spent))
ant.play({"steps": STEPS, "usage": {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}})
r = loop("--config", PRICES, "--max-turns", "1")
tap.eq(end(r)[2]["cost"], (10 * 3000 + 60 * 300 + 30 * 3750 + 20 * 15500 + 999) // 1000, "what a cache gave or took has a price of its own")
ant.play({"steps": STEPS})
r = loop("--config", PRICES, "--max-turns", "1", model="anthropic:other")
tap.eq(end(r)[2]["cost"], 120000, "the first line of the table that fits is the model's")
r = loop("--max-cost", "1")
tap.ok(r.returncode == 2 and "no price for anthropic:fake-1" in r.stderr, "a budget of money without a price is refused", r.stderr)
for change, why in (({"schema": "x"}, "schema"), ({"models": {}}, "array"), ({"other": 1}, "other"),
                    ({"models": [{"model": "*", "input": 3, "output": "1"}]}, '"input" must be an amount'),
                    ({"models": [{"model": "*", "input": "3.1234567", "output": "1"}]}, '"input" must be an amount'),
                    ({"models": [{"model": "*", "input": "3"}]}, '"output" must be an amount'),
                    ({"models": [{"input": "3", "output": "1"}]}, "PROVIDER:NAME"),
                    ({"models": [{"model": "*", "input": "3", "output": "1", "context": 1}]}, "context"),
                    ({"models": [{"model": "*", "input": "3", "output": "1", "price": "1"}]}, "price")):
    prices({**TABLE, **change})
    r = loop("--config", PRICES)
    tap.ok(r.returncode == 2 and why in r.stderr and "prices.json:" in r.stderr, "a price table with a mistake is refused with its place: %s" % why,
           r.stderr)
prices(TABLE)
for opt in (["--max-cost", "0"], ["--max-cost", "-1"], ["--max-cost", "1.0000001"], ["--max-calls", "api"], ["--max-calls", "api=0"],
            ["--max-calls", "=3"]):
    r = loop(*opt)
    tap.ok(r.returncode == 2 and opt[0] in r.stderr, "%s: refused by name" % " ".join(opt), r.stderr)
ant.play({"steps": [{"tools": [code("bash", "sleep 60")]}, {"text": "Bye."}]})
tap.eq(end(loop("--max-time", "2"))[0], "budget:time", "the budget of time")
ant.play({"steps": [{"tools": [code("bash", "head -c 5000 /dev/zero | tr '\\0' a")]}, {"text": "Bye."}]})
status, text, spent = end(loop("--max-call-output", "4999"))
tap.ok(status == "budget:output" and "wrote 5000 bytes, its budget is 4999" in text, "the budget of one call's output", (status, text))
tap.eq(end(loop("--max-call-output", "5000"))[0], "done", "which may be used up")
CURL = "for i in $(seq 20); do curl -sS -o /dev/null https://%s/$i || break; done; sleep 30" % o.authority
ant.play({"steps": [{"tools": [code("bash", CURL)]}, {"text": "Bye."}]})
r = loop("--max-calls", "api=5")
status, text, spent = end(r)
n = len([a for a in st.acts(verdict="allow") if a["request"]["target"] == "api"])
tap.ok(status == "budget:calls" and "5 calls of api" in text and 5 <= n <= 20 and spent["seconds"] < 25,
       "the budget of calls on a target ends the program in its middle", (status, text, n))
n = len(st.acts())
r = loop("--max-calls", "apy=5")
tap.ok(r.returncode == 1 and 'no target "apy", it has: ' in r.stderr and " api" in r.stderr and len(st.acts()) == n,
       "one on a target that the run does not have is no budget: refused", (r.returncode, r.stderr))
ant.play({"steps": [{"tools": [code("bash", CURL.replace("seq 20", "seq 4").replace("; sleep 30", ""))]}, {"text": "Bye."}]})
tap.eq(end(loop("--max-calls", "api=5"))[0], "done", "fewer are no end")
ant.play({"steps": STEPS})
r = loop("--config", PRICES, "--max-turns", "1", "--max-cost", "2", "--max-tokens", "5000", "--max-calls", "api=7")
system = ant.heard()[0]["body"]["system"][0]["text"]
tap.ok("1 turns and 3600 seconds, 5000 tokens, 2 EUR, 7 calls of api; then it is over" in system, "the model is told of its budgets", system)

# --- longer than the context ------------------------------------------------------------------------
LONG = [{"text": "turn %d" % i, "tools": [code("bash", "head -c 1500 /dev/zero | tr '\\0' %s; echo" % "abcdefghij"[i % 10])]} for i in range(14)]
for model, server in (("anthropic:fake-1", ant), ("openai:fake-2", oai), ("openai-responses:fake-3", oai)):
    server.play({"steps": LONG + [{"text": "All of it."}], "sequence": True, "count": True})
    r = loop("--context-tokens", "4000", model=model)
    heard = [h["body"] for h in server.heard()]
    run_id = r.stdout.split()[1]
    said = [x["data"] for x in st.records("agent.model") if x["run"] == run_id]
    made = [d for d in said if d.get("left_out")]
    tap.ok(r.returncode == 0 and "All of it." in r.stdout and len(made) >= 2 and len(said) - len(made) == 15,
           "%s: a conversation that outgrows the context goes on to its end" % model, r.stdout[-600:] + r.stderr)
    tap.ok(max(len(json.dumps(h.get("messages") or h["input"])) for h in heard) < 4 * 4000 + 3000,
           "%s: no request is longer than the model takes" % model)
    last = heard[-1].get("messages") or heard[-1]["input"]
    text = json.dumps(last)
    tap.ok(json.dumps(last[0]) == json.dumps((heard[0].get("messages") or heard[0]["input"])[0]).replace(
        '"cache_control": {"type": "ephemeral"}, ', "") or '"content": "t"' in json.dumps(last[:2]), "%s: the task stays" % model, last[:2])
    tap.ok(re.search("In short: %d" % len(made), text) and "turn 13" in text and '"turn 1"' not in text,
           "%s: what was left out is told in the model's words, the last turns stay" % model, text[:600])
    key = "system" if model.startswith("anthropic") else "instructions"
    tap.eq([h.get(key) for h in heard], [heard[0].get(key)] * len(heard), "%s: the prompt is the same bytes throughout" % model)
    tap.ok("-- room is made: " in r.stdout and "In short: 1" in r.stdout, "%s: it is shown" % model)
    timeline = st.cli("replay", "timeline", "--full", run_id).stdout
    tap.ok("In short: 1" in timeline and "left_out" in timeline and "CONTRADICTION" not in timeline,
           "%s: and on the record, with what was left out" % model, timeline[-1500:])
FULL = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}
ant.play({"steps": LONG[:4] + [{"text": "All of it."}], "sequence": True, "errors": [{"at": 4, "status": 400, "body": FULL}]})
r = loop()
run_id = r.stdout.split()[1]
notes = [x["data"] for x in st.records("agent.note") if x["run"] == run_id]
tap.ok(r.returncode == 0 and len(notes) == 1 and notes[0]["left_out"] == 3 and "was left out to make room" in r.stdout,
       "a request that the provider finds too long makes room by itself, and goes on", r.stdout[-500:] + r.stderr)
ant.play({"steps": [{"text": "x"}], "errors": [{"at": 0, "status": 400, "body": FULL}]})
r = loop()
tap.ok(r.returncode == 1 and end(r)[0] == "error" and "prompt is too long" in end(r)[1], "where there is nothing to leave out it is the end", r.stderr)

# --- memory --------------------------------------------------------------------------------------
def memory_at(n):
    if not wait_for(lambda: len(ant.heard()) >= n, 100):
        return 0
    with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1])


ant.play({"steps": (LONG * 20)[:220] + [{"text": "Bye."}], "sequence": True, "count": True})
p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake-1", "--base-url", ant.origin, "--task", "t",
                      "--max-turns", "210", "--context-tokens", "8000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
first, then = memory_at(60), memory_at(215)
p.wait(60)
tap.ok(0 < then and (then < first + 1024 or SANITIZED), "the agent's memory is flat over 200 turns: %d kB, then %d kB" % (first, then))

# --- killed --------------------------------------------------------------------------------------
def inside():
    out = []
    for d in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % d, "rb") as f:
                if d.isdigit() and b"sleep\x0077%d" % os.getpid() in f.read():
                    out.append(d)
        except OSError:
            pass
    return out


ant.play({"steps": [{"tools": [code("python", "import subprocess\nsubprocess.Popen(['sleep', '77%d'])\nprint(1)" % os.getpid())]},
                    {"tools": [code("bash", "sleep 77%d" % os.getpid())]}, {"text": "Bye."}]})
p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake-1", "--base-url", ant.origin, "--task", "t"],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
run_id = p.stdout.readline().split()[1]
tap.ok(wait_for(lambda: len(inside()) == 2, 40), "programs of two interpreters run", inside())
p.kill()
p.wait()
p.stdout.close()
tap.ok(wait_for(lambda: inside() == [], 20), "an agent that is killed takes its sandbox, its interpreters and all they began with it", inside())
tap.ok(wait_for(lambda: [x["data"]["status"] for x in st.records("run.end") if x["run"] == run_id], 60) == ["lost"],
       "and its run ends as lost")
tap.done()
