#!/usr/bin/python3
"""The tasks by which the loop is measured (tests/tasks), with their recorded conversations: each is solved, and each checker
calls the conversation with one thing wrong unsolved."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import tasks  # noqa: E402
from harness import Tap, Temp  # noqa: E402

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
tap.done()
