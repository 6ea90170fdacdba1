#!/usr/bin/python3
"""The built-in loop on a model's API, by way of the broker: the key is the broker's, words and answers are on the
record. The model is tests/tools/fakemodel.mjs, which plays a script."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from fakemodel import Model, code
from harness import CLI, Http, Stack, Tap, Temp, run, wait_for

tap, temp = Tap(), Temp("model")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]


ant, oai = Model(temp, "ant"), Model(temp, "oai")
http = {"claude": Http(ant, kind="header", field="x-api-key", model="anthropic", address=None),
        "gpt": Http(oai, kind="bearer", model="openai", address=None)}
st = Stack(temp, None, http=http)
KEYS = {"claude": http["claude"].secret, "gpt": http["gpt"].secret}


def loop(model, *opts, task="count to three", **kw):
    base = {"anthropic": ant.origin, "openai": oai.origin + "/v1", "openai-responses": oai.origin + "/v1"}[model.split(":")[0]]
    return subprocess.run([CLI, "run", "--state", st.state, *BASE, "--model", model, "--base-url", base, "--task", task, *opts],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=120, **kw)


SCRIPT = {"steps": [{"thinking": "two at once", "text": "I look.",
                     "tools": [code("bash", "echo one-$((40+2)); env > /work/env"), code("python", "print('tw' + 'o')")]},
                    {"tools": [code("bash", "cat /work/env; exit 3")]},
                    {"text": "Three it is."}]}

# --- a conversation with each provider ------------------------------------------------------
for model, server, name in (("anthropic:fake-1", ant, "claude"), ("openai:fake-2", oai, "gpt"),
                            ("openai-responses:fake-3", oai, "gpt")):
    server.play({**SCRIPT, "key": KEYS[name], "errors": [{"at": 1, "status": 529, "headers": {"retry-after-ms": "20"}},
                                                         {"at": 2, "cut": True}]})
    r = loop(model)
    heard = server.heard()
    tap.ok(r.returncode == 0 and "Three it is." in r.stdout, "%s: a conversation runs to its end" % model, r.stdout + r.stderr)
    tap.eq(len(heard), 5, "%s: three turns, and one of them three times: an error, then an answer that breaks off" % model)
    if len(heard) != 5:
        continue
    sent = [h["headers"].get("x-api-key") or h["headers"].get("authorization", "")[7:] for h in heard]
    tap.eq(sent, [KEYS[name]] * 5, "%s: the key of the vault comes with each request" % model)
    tap.ok(all(h["body"]["model"] == model.split(":")[1] and h["body"]["stream"] is True for h in heard),
           "%s: each asks for the model's stream" % model, heard[0])
    tap.eq(heard[1]["body"], heard[3]["body"], "%s: what is tried again is the same" % model)
    last = json.dumps(heard[4]["body"].get("messages") or heard[4]["body"]["input"])
    tap.ok("one-42" in last and "two" in last and "exit 3" in last, "%s: the output of every call came back to it" % model, last)
    tap.ok("count to three" in last and "I look." in last, "%s: with the task and its own words" % model)
    tap.ok(model.startswith("openai:") or '"signature"' in last or '"encrypted_content": "sealed"' in last, "%s: and its thinking, sealed" % model)
    run_id = r.stdout.split()[1]
    mine = {x["data"]["action"] for x in st.records("action") if x["run"] == run_id}
    acts = [a for a in st.acts(verdict="allow") if a["request"]["target"] == name and a["action"] in mine]
    ends = [st.outcome(a["action"]) for a in acts]
    tap.ok(len(acts) == 5 and all(a["request"]["head"]["len"] > len("count to three") for a in acts),
           "%s: each request is an action on the record, its prompt sealed beside it" % model, json.dumps(acts)[:2000])
    tap.eq([e.get("answer", {}).get("media") for e in ends if e["http_status"] == 200 and e["status"] == "ok"],
           ["text/event-stream"] * 3, "%s: and so is each whole answer" % model)
    tap.ok(KEYS[name] not in r.stdout + r.stderr, "%s: the transcript does not show the key" % model)
    types = [x["type"] for x in st.records() if x.get("run") == run_id and x["type"].startswith("agent.")]
    tap.eq([t[6:] for t in types], ["model", "exec", "result", "exec", "result", "model", "exec", "result", "model"],
           "%s: the loop's own account: two calls of one turn in their order" % model)
    timeline = st.cli("replay", "timeline", "--full", run_id).stdout
    tap.ok("I look." in timeline and "Three it is." in timeline and "one-42" in timeline, "%s: and can be read again" % model, timeline)
    tap.ok("CONTRADICTION" not in timeline and "NOT KNOWN" not in timeline,
           "%s: what the loop tells is what the broker sealed of the model's answers" % model, timeline)
r = st.verify()
tap.eq(r.returncode, 0, "the log verifies")

# --- the key is nowhere on the agent's side --------------------------------------------------
ant.play({"steps": [{"tools": [code("bash", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls -la /proc/self/fd /tmp; sleep 4")]},
                    {"text": "Bye."}], "key": KEYS["claude"]})
p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake", "--base-url", ant.origin, "--task", "wait"],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
wait_for(lambda: len(ant.heard()) == 1, 20)
time.sleep(1)
found = []
for f in ("environ", "cmdline"):
    with open("/proc/%d/%s" % (p.pid, f), "rb") as g:
        if KEYS["claude"].encode() in g.read():
            found.append(f)
with open("/proc/%d/maps" % p.pid, encoding="ascii") as maps, open("/proc/%d/mem" % p.pid, "rb", 0) as mem:
    for line in maps:
        w = line.split()
        if "r" not in w[1] or "[v" in line:
            continue
        a, b = (int(x, 16) for x in w[0].split("-"))
        try:
            mem.seek(a)
            if KEYS["claude"].encode() in mem.read(min(b - a, 1 << 26)):
                found.append(line)
        except (OSError, ValueError, OverflowError):
            pass
tap.eq(found, [], "the agent's memory, environment and arguments do not hold the key")
left = [n for n in os.listdir("/tmp") if n.startswith("cofferdam-loop.")]
left = [n for n in left if not os.path.exists("/tmp/" + n + "/agent") and os.path.exists("/tmp/" + n + "/s")]
tap.eq(left, [], "the loop's socket has no name in the file system")
out = p.communicate(timeout=60)[0]
tap.ok(KEYS["claude"] not in out and "Bye." in out, "nor do environment and output of the code", out)

# --- ended, and restarted, from outside --------------------------------------------------------
def begin(script):
    ant.play(script)
    q = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake", "--base-url", ant.origin,
                          "--task", "t"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    wait_for(lambda: len(ant.heard()) == 1, 20)
    return q, q.stdout.readline().split()[1]


p, run_id = begin({"steps": [{"text": "x"}], "errors": [{"at": 0, "hang": True}]})
time.sleep(0.5)
tap.ok(p.poll() is None, "a model that is silent in the middle of its answer is waited for")
at = time.monotonic()
st.cli("run-end", run_id)
out = p.communicate(timeout=60)[0]
tap.ok(p.returncode == 1 and time.monotonic() - at < 5 and "ended" in out, "a run that is ended from outside does not wait for it", out)
ant.play({"steps": [{"text": "x"}], "errors": [{"at": 0, "hang": True}]})
at = time.monotonic()
r = loop("anthropic:fake", "--max-time", "2")
tap.ok(r.returncode == 1 and "budget of 2 seconds" in r.stderr and time.monotonic() - at < 10, "nor is it waited for beyond the budget of time",
       r.stderr)
p, run_id = begin({"steps": [{"tools": [code("bash", "sleep 3; echo slept")]}, {"text": "Good morning."}], "key": KEYS["claude"]})
time.sleep(0.5)
os.kill(st.child("core"), 9)
out = p.communicate(timeout=60)[0]
tap.ok(p.returncode == 0 and "Good morning." in out and len(ant.heard()) == 2, "core is restarted under a run: the loop reaches the model again", out)

# --- what the sandbox reaches ---------------------------------------------------------------
r = st.sandbox("bash", "-c", "curl -sS -m 10 %s/v1/messages; curl -sS -m 10 -x http://127.77.0.1:3128 %s/v1/messages -d '{}'; env" %
               (ant.origin, ant.origin), opts=BASE)
tap.ok(len(ant.heard()) == 2, "the sandbox's own requests never reach a model", r.stdout + r.stderr)

# --- budgets and refusals ---------------------------------------------------------------------
ant.play({"steps": [{"tools": [code("bash", "true")]}] * 50})
r = loop("anthropic:fake", "--max-tokens", "300")
tap.ok(r.returncode == 1 and "budget of 300 tokens" in r.stderr and len(ant.heard()) == 3, "the budget of tokens ends the run",
       r.stderr + str(len(ant.heard())))
r = loop("anthropic:fake", "--max-turns", "2")
tap.ok(r.returncode == 1 and "budget of 2 turns" in r.stderr, "and that of turns", r.stderr)
ant.play({"steps": [{"text": "x"}], "errors": [{"at": 0, "status": 429, "body": {"type": "error", "error": {
    "type": "rate_limit_error", "message": "the month is spent", "details": {"error_code": "enforced_spend_limit_reached"}}}}]})
r = loop("anthropic:fake")
tap.ok(r.returncode == 1 and "the month is spent" in r.stderr and len(ant.heard()) == 1, "a spend limit is final", r.stderr)
ant.play({"steps": [{"text": "x"}], "key": "another"})
r = loop("anthropic:fake")
tap.ok(r.returncode == 1 and "401" in r.stderr and "authentication_error" in r.stderr and len(ant.heard()) == 1,
       "a key that the provider refuses ends the run with its words", r.stderr)
ant.play({"steps": [{"text": "x"}], "errors": [{"at": 0, "sse": "overloaded_error"}]})
r = loop("anthropic:fake")
tap.ok(r.returncode == 0 and len(ant.heard()) == 2, "an error inside a stream is tried again", r.stderr)
ant.stop()
r = loop("anthropic:fake", "--max-retries", "1")
tap.ok(r.returncode == 1 and "HTTP 502" in r.stderr and r.stderr.count("again in") == 1, "a model that is gone: the broker says so, after the tries",
       r.stderr)
r = run([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:x", "--base-url", "https://nowhere.test", "--task", "t"])
tap.ok(r.returncode == 1 and "the broker says" in r.stdout, "another host is no model of the policy", r.stdout)
tap.done()
