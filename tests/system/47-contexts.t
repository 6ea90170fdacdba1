#!/usr/bin/python3
"""Stateful contexts in a real sandbox: state, results, errors, output, interrupts, limits, and interpreters
that lie, flood, hang and die, in each language. By the library, through tests/tools/sandbox_cells.c.
"""
import base64
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Tap, wait_for

tap = Tap()
LIMITS = os.geteuid() == 0


class Box:
    def __init__(self, language, memory=512, output=8):
        self.p = subprocess.Popen([BUILD + "/tool_sandbox_cells", language, str(memory), str(output)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.language = language

    def ask(self, **q):
        self.p.stdin.write(json.dumps(q).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        return json.loads(line) if line else {"end": "(the tool has gone)", "output": "", "display": []}

    def cell(self, code, **kw):
        return self.ask(code=code, **kw)

    def close(self):
        self.p.stdin.close()
        return self.p.wait(60)


def is_(r, sentence, **want):
    got = {k: r.get(k) for k in want}
    return tap.ok(got == want, sentence, "wanted %r of\n%s" % (want, json.dumps(r)[:2000]))


def stops(box, code, sentence, setup="0", **want):
    """A cell that is interrupted. On a machine that gives it no processor for the two seconds of grace the
    interpreter is lost: then once more."""
    how = {k: want.pop(k) for k in ("timeout_ms", "watch_ms") if k in want}
    for _ in range(5):
        box.cell(setup)
        r = box.cell(code, **how)
        if r["end"] != "lost":
            break
    return is_(r, sentence, end="interrupted", **want)


def late(box, slow, quick):
    """Signals that come just when a cell ends: what the next ones ended with that were not ok."""
    bad = []
    for _ in range(20):
        box.cell(slow, timeout_ms=20)
        r = box.cell(quick)
        if r["end"] != "ok":
            bad.append(r)
    return bad


def plain(r):
    return [d["bundle"].get("text/plain") for d in r["display"] if d["result"]]


# --- Python --------------------------------------------------------------------------------
py = Box("python")
is_(py.cell("x = 40"), "a cell runs", end="ok", cause="none", output="")
tap.eq(plain(py.cell("x + 2")), ["42"], "variables live on, and the last expression is the result")
r = py.cell("def f():\n    raise ValueError('no ' + str(x))\nf()")
is_(r, "an exception is a result", end="error", error_name="ValueError", error_value="no 40")
tap.ok("raise ValueError('no ' + str(x))" in r["traceback"] and "driver" not in r["traceback"] and
       "<string>" not in r["traceback"], "its traceback shows the cell's lines and none of the driver's", r["traceback"])
tap.eq(plain(py.cell("x")), ["40"], "variables are still there after it")
is_(py.cell("import sys; sys.exit(3)"), "SystemExit is an error, not the end", end="error", error_name="SystemExit",
    error_value="3")
is_(py.cell("input()"), "input() is at its end at once", end="error", error_name="EOFError")
tap.eq(plain(py.cell("import asyncio\nawait asyncio.sleep(0.01)\nx")), ["40"], "await works at the top")
is_(py.cell("import os, sys, subprocess\nprint('1'); os.system('echo 2'); os.write(1, b'3\\n'); "
            "subprocess.run(['echo', '4']); print('5')"), "output of the cell and its children is in order",
    output="1\n2\n3\n4\n5\n")
is_(py.cell("print('E0000000042\\n0000000002ok' * 3)"), "output that looks like the protocol is output", end="ok")
r = py.cell("class H:\n  def _repr_html_(s): return '<b>'\n  def _repr_png_(s): return b'\\x89PNG'\ndisplay(H()); H()")
tap.ok(len(r["display"]) == 2 and all(base64.b64decode(d["bundle"]["image/png"]) == b"\x89PNG" and
       d["bundle"]["text/html"] == "<b>" for d in r["display"]), "displays and results come as MIME bundles", r)
tap.eq([d["result"] for d in r["display"]], [False, True], "and each says which it is")
if os.path.isdir("/usr/lib/python3/dist-packages/numpy"):
    tap.eq(plain(py.cell("import numpy as np\nnp.arange(6).reshape(2, 3).sum(axis=0)")), ["array([3, 5, 7])"],
           "numpy works in a cell")
else:
    tap.ok(True, "numpy works in a cell # SKIP python3-numpy is not installed")
if os.path.isdir("/usr/lib/python3/dist-packages/matplotlib"):
    r = py.cell("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()")
    tap.ok(any(base64.b64decode(d["bundle"].get("image/png", "")).startswith(b"\x89PNG") for d in r["display"]),
           "an open figure becomes a picture", r)
    tap.eq(py.cell("1")["display"][0]["result"], True, "and only once")
else:
    tap.ok(True, "an open figure becomes a picture # SKIP python3-matplotlib is not installed")

# Interrupts.
SETUP = "import asyncio, os, subprocess, time; y = 40"
stops(py, "while True: pass", "a cell is interrupted at its time limit", SETUP, timeout_ms=300, cause="timeout",
      error_name="KeyboardInterrupt")
stops(py, "while True: time.sleep(9)", "and when the caller's watch says so", SETUP, watch_ms=300, cause="killed")
stops(py, "await asyncio.sleep(99)", "also in await", SETUP, timeout_ms=300, cause="timeout")
stops(py, "os.system('sleep 99')\nwhile True: pass", "and when a child swallows the first interrupt", SETUP,
      timeout_ms=300, cause="timeout")
stops(py, "subprocess.run(['sleep', '99'])", "and in a child of its own", SETUP, timeout_ms=300)
stops(py, "print('y' * (9 << 20))", "more output than the limit interrupts it, too", SETUP, cause="output",
      total=8 << 20)
tap.eq(plain(py.cell("y")), ["40"], "variables are still there after an interrupt")
bad = late(py, "time.sleep(0.02)", "0")
tap.ok(not bad, "a late interrupt does not hit the next cell", bad)

# What ends the interpreter.
LOST = [("os._exit(7)", {}, "exited", 7, "a cell that ends the interpreter"),
        ("os.kill(os.getpid(), 9)", {}, "signalled", 9, "one that kills it"),
        ("import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass", {"timeout_ms": 200}, "timeout", 9,
         "one that ignores interrupts"),
        ("os.write(10, b'garbage, and more of it')", {}, "killed", 9, "one that writes garbage to the wire"),
        ("os.write(10, b'E0000000042\\n0000000002ok' + b'0' * 30 + b'B0000000000\\n'); 1", {}, "killed", 9,
         "one that lies about its end and goes on"),
        ("os.write(10, b'B8000000000\\n' + b'x' * 100)", {}, "killed", 9, "one that announces too much"),
        ("os.close(10); time.sleep(99)", {}, "killed", 9, "one that closes the wire")]
if LIMITS:
    LOST.append(("b = []\nwhile True: b.append(bytearray(8 << 20))", {}, "memory", 9, "one that takes all memory"))
for code, more, cause, value, what in LOST:
    py.cell("import os, time; kept = 1")
    is_(py.cell(code, **more), "%s loses it, and says why" % what, end="lost", cause=cause, value=value, error_name="lost")
    is_(py.cell("kept"), "and then a fresh one is there, without the variables", end="error", error_name="NameError")
tap.ok("sleep" not in py.ask(exec="ps -eo comm")["output"], "no child of a lost interpreter goes on",
       py.ask(exec="ps -ef")["output"])
py.cell("x = 1")
py.ask(restart=1)
is_(py.cell("x"), "a restart forgets all", end="error", error_name="NameError")
is_(py.cell("import os; os.fork()"), "a child that comes back from its cell is not the interpreter", end="ok")
is_(py.cell("'still one'"), "and the next cell is answered once", end="ok")
tap.has(py.ask(code="\0").get("failed", ""), "", "code with a NUL is refused")
tap.has(py.ask(open="cobol").get("failed", ""), 'no context for language "cobol" (python bash javascript)',
        "a language that is not known is named with those that are")
is_(py.cell("open('/work/made', 'w').write('x')"), "a context sees /work", end="ok")
tap.eq(py.ask(exec="cat made")["output"], "x", "which is that of all others")
r = py.ask(bench=200, code="pass")
tap.ok("median_us" in r, "a cell of nothing is quick", r)
print("# python cell `pass`: %s" % r)

# --- bash ----------------------------------------------------------------------------------
py.ask(open="bash")
sh = py
is_(sh.cell("x=5; declare -A m=([k]=v); cd /tmp; f() { echo \"f $1\"; }; set -f"), "bash: a cell runs", end="ok")
is_(sh.cell("f \"$x ${m[k]} $PWD\" *; set +f"), "bash: variables, arrays, functions, directory and options live on",
    end="ok", output="f 5 v /tmp\n")
is_(sh.cell("false"), "bash: a status that is not 0 is an error", end="error", error_name="exit", error_value="1")
is_(sh.cell("nothing-here"), "bash: its messages have the cell's lines", end="error", error_value="127",
    output="cell: line 1: nothing-here: command not found\n")
is_(sh.cell("printf '/dev/fd' >&2; printf '/dev/f\\n/dev/fd/211/x\\n' >&2; exec 9</dev/fd"),
    "bash: what only looks like it is left alone", end="ok", output="/dev/fd/dev/f\n/dev/fd/211/x\n")
is_(sh.cell("echo /dev/fd/211:"), "bash: and standard output", end="ok", output="/dev/fd/211:\n")
stops(sh, "sleep 99; echo never", "bash: a command is interrupted, and with it the cell", timeout_ms=300,
      cause="timeout", output="")
stops(sh, "while :; do :; done", "bash: a loop is interrupted", timeout_ms=300)
bad = late(sh, "sleep 0.02", "sleep 0.01")
tap.ok(not bad, "bash: a late interrupt does not hit the next cell", bad)
is_(sh.cell("trap '' INT; while :; do :; done", timeout_ms=300), "bash: who ignores it loses the interpreter",
    end="lost", cause="timeout")
is_(sh.cell("echo ${x-gone}; exit 3"), "bash: exit ends the interpreter", end="lost", cause="exited", value=3,
    output="gone\n")
is_(sh.cell("echo alive"), "bash: and a new one is there", end="ok", output="alive\n")
print("# bash cell `:`: %s" % sh.ask(bench=200, code=":"))

# --- JavaScript ------------------------------------------------------------------------------
if shutil.which("node", path="/usr/bin"):
    sh.ask(open="javascript")
    js = sh
    is_(js.cell("let x = 5; const k = 1; class A {}"), "javascript: a cell runs", end="ok")
    tap.eq(plain(js.cell("x + k")), ["6"], "javascript: let, const and class live on")
    tap.eq(plain(js.cell("await new Promise((r) => setTimeout(() => r(x), 5))")), ["5"], "javascript: await at the top")
    r = js.cell("function f() { throw new TypeError('no') }\nf()")
    is_(r, "javascript: an exception is a result", end="error", error_name="TypeError", error_value="no")
    tap.ok("cell4:1" in r["traceback"] and "node:" not in r["traceback"], "javascript: with the cell's own frames", r)
    is_(js.cell("console.log(require('fs').readFileSync('/work/made', 'utf8'))"), "javascript: require works", end="ok",
        output="x\n")
    stops(js, "while (true) {}", "javascript: a loop is interrupted", "var y = 5", timeout_ms=300, cause="timeout")
    stops(js, "await new Promise(() => {})", "javascript: so is a wait", "var y = 5", timeout_ms=300)
    tap.eq(plain(js.cell("y")), ["5"], "javascript: variables are still there")
    wait = "await new Promise((r) => setTimeout(r, %d))"
    bad = late(js, wait % 20, wait % 10)
    tap.ok(not bad, "javascript: a late interrupt does not hit the next cell", bad)
    is_(js.cell("process.exit(3)"), "javascript: exit ends the interpreter", end="lost", cause="exited", value=3)
    is_(js.cell("typeof x"), "javascript: and a new one is there", end="ok")
    print("# javascript cell `;`: %s" % js.ask(bench=200, code=";"))
else:
    tap.ok(True, "javascript # SKIP no /usr/bin/node")
tap.eq(py.close(), 0, "the sandbox ends")

# --- by the command ------------------------------------------------------------------------
name = "cells-%d" % os.getpid()
r = subprocess.run([CLI, "sandbox", "create", name] + ([] if LIMITS else ["--limits-optional"]), timeout=60,
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
tap.eq(r.returncode, 0, "a named sandbox is created")
r = subprocess.run([CLI, "sandbox", "code", name], input=b"x = 6\n---\nx * 7\n---\n1 / 0\n", timeout=60,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
tap.ok(r.returncode == 1 and b"42" in r.stdout and b"ZeroDivisionError" in r.stdout + r.stderr,
       "cofferdam sandbox code runs cells, and ends with 1 when the last failed", r)
r = subprocess.run([CLI, "sandbox", "code", name, "--language", "bash"], input=b"(exit 2)\n", timeout=60,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
tap.eq((r.returncode, r.stderr), (1, b"exit status 2\n"), "a status is told as one")


def comms():
    return subprocess.run([CLI, "sandbox", "exec", "--in", name, "--", "ps", "-eo", "args"], timeout=60,
                          stdout=subprocess.PIPE, check=False).stdout


def goes(argv, data, mark):
    """Killed while it runs: does what it runs inside stay?"""
    p = subprocess.Popen([CLI, "sandbox"] + argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    p.stdin.write(data)
    p.stdin.flush()
    begun = wait_for(lambda: mark in comms(), 60)
    p.kill()
    p.wait()
    return begun


LOOPS = {"python": b"import subprocess\nsubprocess.Popen(['sleep', '971'])\nwhile True: pass\n---\n",
         "bash": b"sleep 971 & while :; do :; done\n---\n",
         "javascript": b"require('child_process').spawn('sleep', ['971']); while (true) {}\n---\n"}
for language, data in LOOPS.items():
    if language == "javascript" and not shutil.which("node", path="/usr/bin"):
        continue
    tap.ok(goes(["code", name, "--language", language], data, b"sleep 971"), "%s: a cell runs without end" % language)
    tap.ok(wait_for(lambda: b"sleep 971" not in comms() and b"cofferdam" not in comms(), 60),
           "%s: its interpreter and all of it end when the caller is killed" % language, comms()[-300:])
tap.ok(goes(["exec", "--in", name, "--", "sleep", "972"], b"", b"sleep 972"), "an ordinary program runs")
tap.ok(b"sleep 972" in comms(), "and goes on when its caller is killed")
subprocess.run([CLI, "sandbox", "kill", name], timeout=60, check=False)
if LIMITS and shutil.which("node", path="/usr/bin"):
    subprocess.run([CLI, "sandbox", "create", name, "--pids", "4"], timeout=60, check=True)
    r = subprocess.run([CLI, "sandbox", "code", name, "--language", "javascript", "--timeout", "3"], input=b"1\n",
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    tap.ok(r.returncode == 1 and b"limit pids is 4" in r.stderr, "an interpreter that cannot make its threads ends in time", r)
    tap.ok(b"node" not in comms() and b"ps" in comms(), "and nothing of it stays", comms())
    subprocess.run([CLI, "sandbox", "kill", name], timeout=60, check=False)
tap.done()
