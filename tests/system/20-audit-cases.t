#!/usr/bin/python3
"""Every attack of tests/cases/audit-cases.json names tests that are there, and sentences that they hold: one that is taken out or
renamed fails here."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import TOP, Tap

t = Tap()
with open(TOP + "/tests/cases/audit-cases.json", encoding="utf-8") as f:
    CASES = json.load(f)["cases"]
OPEN = {40}  # shown by no test


def missing(path, sentence):
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            return None if sentence in f.read() else sentence
    except FileNotFoundError:
        return path


t.eq([c["n"] for c in CASES], list(range(1, 48)), "all attacks of the list are there, once")
for c in CASES:
    t.eq(([m for m in (missing(*x) for x in c["tests"]) if m], bool(c["tests"]) or c["n"] in OPEN), ([], True), "%s %d, %s: shown by its tests" % (c["area"], c["n"], c["attack"]))
t.done()
