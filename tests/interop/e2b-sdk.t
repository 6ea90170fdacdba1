#!/usr/bin/python3
"""E2B's own SDKs from npm (e2b, @e2b/code-interpreter), unmodified, against cofferdam sandboxd with the broker and a
real PostgreSQL behind it: tests/interop/e2b/rows.mjs has a row for each of docs/e2b.md. Needs the npm registry
(tests/npm has the lock file); without it this test fails rather than be passed over."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2b import KEYS, Server
from harness import TOP, Pg, Stack, Tap, Temp
from npm import NPM, install

tap, temp = Tap(), Temp("e2b-sdk")
r = install()
if not tap.ok(r.returncode == 0, "E2B's SDKs are installed from the lock file", r.stdout):
    tap.done()
pg = Pg(temp)
pg.admin("CREATE TABLE spare(id int); ALTER TABLE spare OWNER TO agent")
st = Stack(temp, pg)
s = Server(st, "--max", "4")
rows = os.path.join(NPM, "e2b-rows.mjs")
shutil.copy(TOP + "/tests/interop/e2b/rows.mjs", rows)
env = dict(os.environ, E2B_API_URL=s.url, E2B_SANDBOX_URL=s.url, E2B_API_KEY=KEYS["alice"], OTHER_KEY=KEYS["bob"], TARGET_HOST=pg.host)
for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "E2B_DEBUG", "E2B_DOMAIN"):
    env.pop(name, None)
r = subprocess.run(["node", rows], env=env, cwd=NPM, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                   encoding="utf-8", timeout=300, check=False)
for line in r.stdout.splitlines():
    try:
        row = json.loads(line)
    except ValueError:
        print("# " + line)
        continue
    tap.ok(row["ok"], "SDK: " + row["name"], row["note"])
with open(TOP + "/tests/interop/e2b/rows.mjs", encoding="utf-8") as f:
    want = f.read().count("\nawait row(")
tap.eq((r.returncode, tap.n - 1), (0, want), "the program comes to its end")
tap.done()
