#!/usr/bin/python3
"""The tasks by which the loop is measured (tests/tasks), with their recorded conversations: each is solved, and each checker
calls the conversation with one thing wrong unsolved."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import tasks  # noqa: E402
from fakemodel import Model  # noqa: E402
from harness import Tap, Temp, run  # noqa: E402

tap, temp = Tap(), Temp("tasks")
names = sys.argv[1:] or tasks.names()
tap.ok(len(names) >= 20 or sys.argv[1:], "there are twenty tasks and more", len(names))
field = tasks.Field(temp, names)
for name, (right, wrong) in tasks.play_all(field, counter=True).items():
    tap.ok(right.why == "", "%s is solved by its recorded conversation" % name, right.why + "\n" + right.said)
    tap.ok(wrong.why != "" and wrong.turns > 0, "and not with one thing wrong: %s" % (wrong.why or "nothing was said"), wrong.said)
r = field.stack.verify()
tap.ok(r.returncode in (0, 3) and "VERIFIED" in r.stdout, "the log of all of them verifies", r.stdout)
field.stop()

# --- a model by its name: here one that does the right thing in one of three repeats -----------------------------------
if not sys.argv[1:]:
    key = "key-of-the-model"
    with open(temp.path + "/key", "w", encoding="ascii") as f:
        f.write(key + "\n")
    model = Model(temp, "fake")
    TOTAL = json.dumps({"paid_cents": 26880})
    model.play({"key": key, "sequence": True, "steps": [{"text": "I guess."},
                {"text": "I write.", "tools": [{"tool": "write_file", "input": {"path": "/work/total.json", "content": TOTAL}}]}, {"text": "Written."},
                {"text": "I give up."}]})
    r = run([tasks.DIR + "/run", "--model", "anthropic:fake", "--base-url", model.origin, "--key-file", temp.path + "/key", "--repeat", "3",
             "--json", temp.path + "/out.json", "paginate-sum"], timeout=120)
    tap.ok(r.returncode == 0 and "1/3" in r.stdout and "flaky" in r.stdout, "a model by its name is measured, and that it is flaky", r.stdout)
    with open(temp.path + "/out.json", encoding="utf-8") as f:
        doc = json.load(f)
    tap.eq([(p["solved"], p["turns"], p["tokens"] > 0, p["status"]) for p in doc["playings"]],
           [(False, 1, True, "done"), (True, 2, True, "done"), (False, 1, True, "done")], "each repeat is in the JSON, with turns and tokens")
    r = run([tasks.DIR + "/run", "--repeat", "1", "no-such-task"])
    tap.ok(r.returncode == 2 and "no task no-such-task" in r.stdout, "a task that is not there is an error", r.stdout)
tap.done()
