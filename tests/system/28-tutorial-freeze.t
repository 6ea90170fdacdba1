#!/usr/bin/python3
"""docs/tutorial-freeze.md: every command of it, in its order, against a real broker and a real PostgreSQL."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Pg, Tap, Temp, TOP  # noqa: E402

t = Tap()
temp = Temp("tutorial")
pg = Pg(temp)
pg.admin("CREATE TABLE contacts (id int PRIMARY KEY, name text)")
pg.admin("INSERT INTO contacts SELECT g, 'contact ' || g FROM generate_series(1, 12) g")
pg.admin("ALTER TABLE contacts OWNER TO agent")

with open(os.path.join(TOP, "docs/tutorial-freeze.md"), encoding="utf-8") as f:
    text = f.read()
blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
t.ok(all(kind in ("sh", "output") for kind, _ in blocks) and len(blocks) > 20, "every block is commands or what they print",
     [k for k, _ in blocks])

env = dict(os.environ, PATH=BUILD + ":/usr/lib/postgresql/15/bin:" + os.environ["PATH"], DB_PORT=str(pg.port), DB_CA=pg.ca,
           DB_PASSWORD=pg.password, HOME=temp.path, LC_ALL="C.UTF-8")
shell = subprocess.Popen(["bash", "-u"], cwd=temp.path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, encoding="utf-8", start_new_session=True)
MARK = "--- end of the block, status "


def command(script):
    """In the one shell, from a file: a command that reads its standard input must not read the next block."""
    with open(temp.path + "/block", "w", encoding="utf-8") as b:
        b.write(script)
    shell.stdin.write(". " + temp.path + "/block </dev/null\necho \"\n%s$?\"\n" % MARK)
    shell.stdin.flush()
    out = []
    for line in shell.stdout:
        if line.startswith(MARK):
            return "".join(out), line[len(MARK):].strip()
        out.append(line)
    return "".join(out), "the shell is gone"


def missing(want, out):
    """The first line of `want` that is not in `out`, each behind the one before."""
    at = 0
    for line in want.strip("\n").split("\n"):
        found = out.find(line, at)
        if found < 0:
            return line
        at = found + len(line)
    return None


bad = 0
for i, (kind, body) in enumerate(blocks):
    if kind != "sh":
        continue
    out, status = command(body)
    title = body.strip().split("\n")[0]
    want = blocks[i + 1][1] if i + 1 < len(blocks) and blocks[i + 1][0] == "output" else None
    ok = t.ok(status == "0", "done: " + title, out)
    if want is not None:
        lost = missing(want, out)
        ok = t.ok(lost is None, "prints what stands under it: " + title, "no line %r in:\n%s" % (lost, out)) and ok
    if not ok:
        bad += 1
        if bad == 2:
            break
shell.stdin.write("kill $broker 2>/dev/null; wait\n")
shell.stdin.close()
shell.wait(60)
t.done()
