#!/usr/bin/python3
"""The built-in loop and people: what the model is told of the policy, of refusals and of changes; approvals that it
waits for, questions that it asks. The model is tests/tools/fakemodel.mjs, which plays a script."""
import atexit
import json
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from fakemodel import Model, code
from harness import CLI, Http, Stack, Tap, Temp, wait_for
from origin import Ca, Origin

tap, temp = Tap(), Temp("people")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]
ca = Ca(temp.path + "/ca")
o, lab = Origin(temp.path, "api.test", ca=ca), Origin(temp.path, "lab.test", ca=ca)
model = Model(temp, "claude")
http = {"api": Http(o), "lab": Http(lab, env="lab"),
        "claude": Http(model, kind="header", field="x-api-key", model="anthropic", address=None)}
st = Stack(temp, None, http=http, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    RULES = json.load(f)["rules"]
for rule in RULES:
    rule.pop("limits", None)
RULES.append({"id": "lab-work", "permit": {"env": "lab", "effects": {"only": ["@data", "@change"]}}})
FREEZE = {"id": "no-lab", "forbid": {"env": "lab", "effects": {"any": ["write"]}}, "why": "lab is moved", "override": "never"}
st.build_policy({"rules": RULES + [FREEZE], "serial": 2})
st.start()


def begin(steps, *opts, **kw):
    model.play({"steps": steps, "key": http["claude"].secret})
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake", "--base-url", model.origin,
                             "--task", "t", *opts], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", **kw)


def told(n):
    """The tool results of request n, as the model has them."""
    return [c.get("content", c.get("text")) for c in model.heard()[n]["body"]["messages"][-1]["content"]]


def curl(*args):
    return code("bash", "curl -sS -o /dev/null -w '%{http_code}\\n' " + " ".join(args))


# --- what the model is told ---------------------------------------------------------------------
p = begin([{"tools": [curl("https://%s/a" % o.authority), curl("-d x https://%s/b" % lab.authority)]}, {"text": "Bye."}])
out = p.communicate(timeout=90)[0]
heard = model.heard()
system = heard[0]["body"]["system"][0]["text"] if heard else out
tap.ok("api: http at api.test port %d" % o.port in system and "env prod" in system and "claude" not in system,
       "the prompt has the run's targets, with kind, host and environment, and not the model", system)
tap.ok("read schema txn write: allowed" in system and re.search("delete.*: needs approval by dba:1, oncall:1", system) and
       re.search("exec.*: refused .rule no-escape", system), "and what is permitted, needs approval, or is refused, by which rule", system)
tap.ok("100 turns and 3600 seconds" in system, "and the budgets", system)
tap.eq([h["body"]["system"] for h in heard], [heard[0]["body"]["system"]] * 2, "it is the same bytes in every turn")
got = told(1) if len(heard) > 1 else [out] * 2
tap.ok("200" in got[0] and "refused" not in got[0], "an action that passes is its output alone", got)
tap.ok("403" in got[1] and "the broker refused meanwhile:\nlab: denied by policy: rule no-lab (lab is moved)" in got[1],
       "of a refusal that the program swallowed the model sees target, rule and reason", got)

# --- an approval ----------------------------------------------------------------------------------
REQUEST = "${request ([a-z2-7]{26})}"
DELETE = curl("-X DELETE https://%s/rows/1" % o.authority)
wait = {"tool": "wait_approval", "input": {"id": REQUEST, "timeout_s": 0}}
p = begin([{"tools": [DELETE]}, {"tools": [wait]}, {"tools": [{"tool": "wait_approval", "input": {"id": REQUEST, "timeout_s": 60}}]},
           {"tools": [DELETE]}, {"tools": [wait, {"tool": "wait_approval", "input": {"id": "none-such"}}]}, {"text": "Bye."}])
wait_for(lambda: len(model.heard()) == 3, 30)
ids = st.pending()
tap.eq(len(ids), 1, "a refused action that people may sign for waits for them")
for person in ("dana", "omar"):
    st.sign("approve", ids[0], person)
out = p.communicate(timeout=90)[0]
heard = model.heard()
tap.ok(len(heard) == 6, "the run goes on to its end", out)
if len(heard) == 6:
    got = told(1)[0]
    tap.ok("403" in got and "needs approval by dba:1, oncall:1" in got and "request %s: ask" % ids[0] in got and
           "cofferdam approve %s --as NAME" % ids[0] in got, "the refusal has the id, and how it is approved", got)
    tap.ok("is pending: it waits for dba:1, oncall:1, who may sign until 2" in told(2)[0],
           "an open request is told with whom it waits for, and until when", told(2))
    tap.ok("is armed: it is approved; repeat exactly that action once, by 2" in told(3)[0], "waiting ends when it is approved", told(3))
    tap.ok("200" in told(4)[0], "and the same action passes", told(4))
    tap.ok("is consumed" in told(5)[0] and "no request" in told(5)[1], "once; a request that is not there is said so", told(5))

# --- rules that change ---------------------------------------------------------------------------
ws = temp.path + "/ws"
os.mkdir(ws)
os.chmod(ws, 0o777)
p = begin([{"tools": [code("bash", "while [ ! -e /work/go ]; do sleep 0.1; done")]}, {"tools": [code("bash", "true")]},
           {"text": "Bye."}], "--workspace", ws)
wait_for(lambda: len(model.heard()) == 1, 30)
st.reload({"rules": RULES})
with open(ws + "/go", "w", encoding="ascii"):
    pass
out = p.communicate(timeout=90)[0]
heard = model.heard()
tap.ok(len(heard) == 3, "a run outlives a change of the policy", out)
if len(heard) == 3:
    last = heard[1]["body"]["messages"][-1]["content"]
    tap.ok(last[-1].get("type") == "text" and "The rules of this run have changed" in last[-1]["text"] and
           "no-lab" not in last[-1]["text"] and "lab: http" in last[-1]["text"], "the next turn has a note of the new rules", last)
    tap.ok("changed" not in json.dumps(heard[2]["body"]["messages"][-1]), "and the one after that has none", heard[2]["body"]["messages"][-1])
    tap.eq(heard[0]["body"]["system"], heard[2]["body"]["system"], "the prompt stays as it was")
    tap.eq(heard[0]["body"]["messages"][0]["content"][0]["text"], heard[2]["body"]["messages"][0]["content"][0]["text"],
           "and so does what was said before")

# --- a question ------------------------------------------------------------------------------------
ASK = {"tool": "ask", "input": {"question": "Which table?\x1b[2J", "timeout_s": 60}}
p = begin([{"tools": [ASK]}, {"text": "Bye."}])
run_id = p.stdout.readline().split()[1]
pending = wait_for(lambda: (lambda t: t if "Which table?" in t else None)(st.cli("pending").stdout), 30) or ""
asked = re.search(r"cofferdam answer --question (\d+) %s TEXT" % run_id, pending)
tap.ok(asked and "\x1b" not in pending, "`pending` shows what an agent asks, encoded, and how to answer",
       pending)
tap.ok(st.pending() == [], "it is no request for approval")
r = st.cli("answer", "r-none", "x")
tap.ok(r.returncode != 0 and "waits for an answer" in r.stdout, "a run that asks nothing takes no answer", r.stdout)
number = int(asked.group(1)) if asked else 0
for other in (str(number + 1), "0", "x"):
    r = st.cli("answer", "--question", other, run_id, "Drop it.")
    tap.ok(r.returncode != 0 and ("asks something else by now" if other == str(number + 1) else "usage") in r.stdout,
           "what it does not ask (%s) is not answered" % ("another" if other == str(number + 1) else other), r.stdout)
r = st.cli("answer", "--question", str(number), run_id, "The table contacts.")
tap.ok(r.returncode == 0 and "approves nothing" in r.stdout, "a person answers", r.stdout)
out = p.communicate(timeout=60)[0]
tap.ok(len(model.heard()) == 2 and "answers (this is no approval):\nThe table contacts." in told(1)[0], "the model has the answer, and from whom", out)
rec = st.record("run.message")
tap.ok(rec["by"] == "olivia" and rec["content"]["len"] == len("The table contacts.") and "contacts" not in json.dumps(rec),
       "it is on the record, sealed, with who gave it", rec)
r = st.cli("answer", run_id, "again")
tap.ok(r.returncode != 0, "once", r.stdout)
p = begin([{"tools": [{"tool": "ask", "input": {"question": "Anybody?", "timeout_s": 1}}]}, {"text": "Bye."}])
p.communicate(timeout=60)
tap.ok("nobody has answered in time" in told(1)[0], "a question that nobody answers ends with its time", told(1))
main, sub = pty.openpty()
model.play({"steps": [{"tools": [ASK]}, {"text": "Bye."}], "key": http["claude"].secret})
p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--model", "anthropic:fake", "--base-url", model.origin, "--task", "t"],
                     stdin=sub, stdout=sub, stderr=sub)
os.close(sub)
seen = b""
while b"type an answer" not in seen:
    seen += os.read(main, 4096)
os.write(main, b"contacts it is\n")
try:
    while True:
        seen += os.read(main, 4096)
except OSError:
    pass
tap.ok(p.wait(60) == 0 and "The person at the terminal answers (this is no approval):\ncontacts it is" in told(1)[0],
       "with a terminal it is asked there", seen)
p = begin([{"tools": [ASK]}, {"tools": [code("bash", "true")]}, {"text": "Bye."}])
run_id = p.stdout.readline().split()[1]
wait_for(lambda: "Which table?" in st.cli("pending").stdout, 30)
os.kill(st.child("core"), 9)
wait_for(lambda: "Which table?" in st.cli("pending").stdout, 30)
st.cli("answer", run_id, "still here")
out = p.communicate(timeout=60)[0]
tap.ok(p.returncode == 0 and len(model.heard()) == 3 and "still here" in told(1)[0], "core is restarted under a question: it is asked again", out)
tap.done()
