#!/usr/bin/python3
"""Public incidents of this field, each stopped by a rule, and happening without it. `make incidents` prints the table."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import incident  # noqa: E402
from harness import Tap  # noqa: E402

tap = Tap()
rows = [incident.play(tap, n) for n in sys.argv[1:] or incident.names()]
tap.ok(len(rows) >= 10 or sys.argv[1:], "ten public incidents and more were played")
for r in rows:
    print("# %-20s %s  %-60s stopped by %s (%d attempts); without it: %s" % (r["name"], r["when"], r["title"][:60], r["by"], r["attempts"], r["harm"]))
tap.done()
