#!/usr/bin/python3
"""The walls as the host sees them: races against the start, what comes out of a sandbox and who follows it, missing
layers, ends, and what is told to people. Beside each refusal the nearest thing that is allowed.

Runs inside outer namespaces of its own, as 43-walls.t does.
"""
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [TOP + "/tests/lib", TOP + "/tests/walls"]
import walls
from harness import BUILD, Tap, Temp, wait_for
from oldkernel import absent
from walls import gone, kill, marked, ours

walls.outer()
tempfile.tempdir = "/var/tmp"
tap, temp = Tap(), Temp("walls")
os.chmod(temp.path, 0o755)
T = temp.path
ROUNDS = int(os.environ.get("ROUNDS", "60"))
host = walls.Host(T)
box = walls.Boxes(host, BUILD)
SECRET = host.secret
HOME = T + "/home"


def directory(name):
    os.makedirs(T + "/" + name)
    return T + "/" + name


# --- F4: a component of a path is exchanged while the sandbox is made -----------------------------------
def race(name, option, inside, prepare=""):
    """A link to the home with secrets and a plain directory change places all the while."""
    base = directory(name)
    subprocess.run(["sh", "-ec", prepare], cwd=base, check=True)
    os.mkdir(base + "/real")
    os.symlink(HOME, base + "/link")
    stop = threading.Event()
    rename2 = ctypes.CDLL(None, use_errno=True).renameat2
    os.mkdir(base + "/sub")

    def swap():
        while not stop.is_set():
            rename2(-100, (base + "/real").encode(), -100, (base + "/link").encode(), 2)  # RENAME_EXCHANGE
    t = threading.Thread(target=swap)
    t.start()
    leaked, ran = [], 0
    for _ in range(ROUNDS):
        r = box.sh("cat %s/.netrc; ls -A %s; touch %s/made 2>/dev/null; echo ran" % (inside, inside, inside), opts=option(base + "/real"))
        ran += "ran" in r.stdout
        if SECRET in r.all or ".ssh" in r.stdout:
            leaked.append(r.all)
    stop.set()
    t.join()
    tap.eq(leaked, [], "F4: %s: a link put in its place while it starts leads nowhere (%d of %d started)" % (name, ran, ROUNDS))
    tap.ok(not os.path.exists(HOME + "/made"), "F4: %s: and nothing is made there" % name)


race("workspace", lambda p: ["--workspace", p], "/work")
race("overlay", lambda p: ["--overlay", p], "/work")
race("image", lambda p: ["--image", os.path.dirname(p)], "/real",
     "for p in bash cat ls touch; do cp --parents -L /bin/$p $(ldd /bin/$p | grep -o '/[^ ]*') .; done")

# --- F5, F6: what comes out is taken inside, where no link leads to the host ------------------------------
NAME = "walls%d" % os.getpid()
ws = directory("out")
r = box.call("create", "--workspace", ws, "--label", "a=b", NAME)
tap.eq(r.returncode, 0, "a named sandbox is made")
NETRC = HOME + "/.netrc"
box.call("exec", "--in", NAME, "--", "sh", "-c",
         "ln -s %s link; ln -s /etc/shadow shadow; ln -s %s dirlink; mkfifo fifo; truncate -s 1T sparse; echo fine > plain; "
         "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"sock\")'; ln plain hard; mkdir d; ln -s .. d/up" % (NETRC, HOME))
r = box.call("files", "read", NAME, "/work/plain")
tap.eq((r.returncode, r.stdout), (0, "fine\n"), "F5: a plain file comes out")
for path, why in (("/work/link", "a link to a file of the host's"), ("/work/dirlink/.netrc", "a path through a link to a directory of the host's"),
                  ("/work/../../../" + NETRC, "a path with .."), (NETRC, "a path of the host's"), ("/work/shadow", "a link to /etc/shadow"),
                  ("/proc/1/root/" + NETRC, "a path through /proc"), ("/proc/self/root/" + NETRC, "a path through a root in /proc")):
    r = box.call("files", "read", NAME, path)
    tap.ok(r.returncode != 0 and SECRET not in r.all, "F5: %s gives nothing of it" % why, r.all)
for path, why in (("/work/fifo", "a FIFO"), ("/work/sock", "a socket"), ("/dev/zero", "an endless device")):
    r = box.call("files", "read", NAME, path, timeout=30)
    tap.ok(r.returncode != 0, "F6: %s is refused and holds up nobody" % why, r.all[:300])
r = box.call("files", "read", "--max", "1000000", NAME, "/work/sparse", timeout=30)
tap.ok(r.returncode != 0 and len(r.stdout) <= 1000000, "F6: a file with a hole of a tebibyte ends at the limit", r.all[:300])
r = box.call("snapshot", NAME, T + "/snap.tar", timeout=60)
tar = subprocess.run(["tar", "tvf", T + "/snap.tar"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
tap.ok(SECRET not in open(T + "/snap.tar", "rb").read(1 << 22).decode("latin1") if os.path.exists(T + "/snap.tar") else r.returncode != 0,
       "F5: a snapshot holds links and nothing of what they name", tar + r.all)
before = os.stat(NETRC).st_mtime_ns
w = subprocess.run(box.cli + ["files", "write", NAME, "/work/link"], input="overwritten", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
tap.ok(os.stat(NETRC).st_mtime_ns == before and open(NETRC).read() == SECRET, "F5: a write to a link does not reach the host's file", w.stdout)

# --- F8, F9: what host programs would run or read ---------------------------------------------------------
ws2 = directory("project")
subprocess.run(["git", "init", "-q", ws2], check=True)
mark = T + "/executed"
r = box.sh("git config core.fsmonitor 'touch %s'; git config core.hooksPath /work/h; mkdir h; printf '#!/bin/sh\\ntouch %s\\n' > h/post-checkout; chmod +x h/*;"
           "printf '#!/bin/sh\\ntouch %s\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo '*.x filter=f' > .gitattributes; "
           "git config filter.f.smudge 'touch %s'; echo ran" % (mark, mark, mark, mark), opts=["--workspace", ws2])
for opts in (["--workspace", ws2], ["--overlay", ws2]):
    box.sh("true", opts=opts)
tap.ok("ran" in r.stdout and not os.path.exists(mark), "F9: hooks, filters and monitors left in a workspace are run by nothing of ours on the host", r.all)
ws3 = directory("empty")
r = box.sh("mkdir -p .git/hooks .vscode .claude; touch .git/hooks/pre-commit .mcp.json AGENTS.md policy.yaml .env .envrc; echo made", opts=["--overlay", ws3])
tap.ok("made" in r.stdout and os.listdir(ws3) == [], "F8: in an overlay files that other tools obey can be made, and none is there outside", os.listdir(ws3))

# --- F10: what may not be a root or a directory of the host ------------------------------------------------
os.symlink(HOME, T + "/alias")
for p in ("/", "/etc", "/usr", "/proc", "/sys/fs/cgroup", "/dev", "/root", "relative", ws + "/../home", T + "/none", NETRC, T + "/alias", "/proc/self/cwd",
          "/proc/1/root", ""):
    for option in ("--workspace", "--overlay"):
        r = box.sh("echo in", opts=[option, p])
        tap.ok(r.returncode != 0 and "in" not in r.stdout.split(), "F10: %s %s is refused" % (option, p.replace(T, "T") or "''"), r.all)
r = box.sh("pwd -P", opts=["--workspace", ws3, "--cwd", "/work/../../.." + HOME])
tap.ok(r.returncode != 0 or not r.stdout.startswith(T), "F10: a working directory is one inside", r.all)
r = box.sh("pwd -P", opts=["--workspace", ws3, "--cwd", "/tmp"])
tap.eq(r.stdout, "/tmp\n", "F10: and one that is there is taken")

# --- T6, X2 to X4: what is told to people ------------------------------------------------------------------
EVIL = "\x1b]52;c;cGF3bmVk\x07\x1b[2J\x1b]0;title\x07\x9b31m"
box.call("spawn", NAME, "--", "sh", "-c", "exec -a '%s' sleep 600" % EVIL, EVIL)
box.call("exec", "--in", NAME, "--", "sh", "-c", "cp /usr/bin/true \"/work/$(printf '\\033]0;x\\007evil')\"")
for words in (["ps", NAME], ["inspect", NAME], ["list"], ["ps", "--json", NAME], ["list", "--json"], ["inspect", "--json", NAME], ["files", "list", NAME, "/work"]):
    r = box.call(*words)
    # JSON is for programs, and has what stands above ASCII as it is
    tap.ok(not any(c in r.stdout + r.stderr for c in ("\x1b", "\x07", "" if "--json" in words else "\x9b") if c), "T6: %s shows no control character" % " ".join(words).replace(NAME, "NAME"), repr(r.all))
r = box.run("/work/" + EVIL + "x" * 9000)
tap.ok(r.returncode != 0 and "\x1b" not in r.stderr and len(r.stderr) < 8192, "X4: an error that names what came from inside is printable and short", repr(r.stderr[:400]))
r = box.sh("cp /usr/bin/true /work/x; python3 -c \"import ctypes; c=ctypes.CDLL(None); c.prctl(15,b'\\x1b]0;t\\x07'); c.ptrace(0,0,0,0)\"", opts=["--explain"])
tap.ok("ptrace" in r.stderr and "\x1b" not in r.stderr, "T6: nor does --explain, of a program that names itself so", repr(r.all))
with open(TOP + "/docs/sandbox.md", encoding="utf-8") as f:
    text = f.read().lower()
tap.ok("side channel" in text or "covert" in text, "X1: docs/sandbox.md says that time and load can be read across sandboxes")
tap.ok("shared kernel" in text or "share" in text and "kernel" in text, "X1: and that the kernel is shared")

# --- L12: stopped, and ended while stopped -----------------------------------------------------------------
box.call("spawn", NAME, "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /work/count; sleep 0.01; done")
wait_for(lambda: os.path.exists(ws + "/count"), 10)
tap.eq(box.call("pause", NAME).returncode, 0, "L12: a sandbox is paused")
time.sleep(0.2)
one = open(ws + "/count").read()
time.sleep(0.3)
tap.eq(open(ws + "/count").read(), one, "L12: nothing runs in it")
tap.eq(box.call("resume", NAME).returncode, 0, "L12: it goes on")
tap.ok(wait_for(lambda: open(ws + "/count").read() not in (one, ""), 10), "L12: and runs again")
box.call("pause", NAME)
r = box.call("kill", NAME)
tap.ok(r.returncode == 0 and wait_for(lambda: not ours(), 10), "L12: one that is paused is killed, and nothing is left", "%s %s" % (r.all, ours()))

# --- L6: whoever holds it dies -----------------------------------------------------------------------------
MARK = "w%dend" % (os.getpid() % 1000)
RENAME = "import ctypes,os,time\nfor i in range(3):\n  if os.fork()==0: os.setsid()\nctypes.CDLL(None).prctl(15,b'%s')\nprint('up',flush=True)\ntime.sleep(1000)" % MARK
for who, victim in (("the command", "cofferdam"), ("its first process", "cofferdam-init")):
    p = box.start("python3", "-c", RENAME)
    p.stdout.readline()
    n = len(marked(MARK))
    for pid, comm, _ in ours():
        if comm == victim:
            kill(pid)
    p.wait()
    tap.ok(n >= 1 and gone(MARK) and wait_for(lambda: not ours(), 10), "L6: %s killed with SIGKILL: nothing of the sandbox lives" % who, ours())
    tap.ok(wait_for(lambda: not walls.groups(), 10), "L6: nor is a group of it left", walls.groups())
r = box.call("create", NAME)
box.call("spawn", NAME, "--", "python3", "-c", RENAME)
wait_for(lambda: marked(MARK), 10)
for pid, comm, _ in ours():
    if comm == "cofferdam-sandb":
        kill(pid)
tap.ok(gone(MARK) and wait_for(lambda: not ours(), 10), "L6: a named sandbox's supervisor killed: nothing lives", ours())
tap.ok(wait_for(lambda: not walls.groups(), 10), "L6: nor is a group left", walls.groups())
r = box.call("list", "--json")
tap.ok(NAME not in r.stdout, "L6: and its name is free again", r.all)
r = box.call("create", NAME)
tap.eq(r.returncode, 0, "L6: for the next")
r = box.call("create", NAME)
tap.ok(r.returncode != 0 and NAME in r.stderr, "L9: a name that is taken is not given twice", r.all)
r = subprocess.run(["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups"] + box.cli + ["exec", "--in", NAME, "--", "id"],
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
tap.ok(r.returncode != 0 and "uid=" not in r.stdout, "L9: another user does not get into it", r.stdout)
r = box.call("exec", "--in", NAME, "--", "id")
tap.ok("uid=1000" in r.stdout, "L9: its own user does", r.all)
box.call("exec", "--in", NAME, "--", "sh", "-c", "echo first > /tmp/of-first; echo first > /dev/shm/of-first")
box.call("kill", NAME)
box.call("create", NAME)
r = box.call("exec", "--in", NAME, "--", "sh", "-c", "ls -A /tmp /dev/shm /work; ps -e | wc -l")
tap.ok("of-first" not in r.stdout, "L9: a second sandbox of the same name has nothing of the first", r.all)
box.call("kill", NAME)
for bad in ("../x", "a/b", "", ".", "..", "A", "x" * 41, "-x", "a b", "x\n"):
    r = box.call("create", bad) if bad != "-x" else box.call("create", "--", bad)
    tap.ok(r.returncode != 0, "L9: %r is no name" % bad, r.all)

# --- L7: a layer is missing ---------------------------------------------------------------------------------
if os.uname().machine == "x86_64":
    for nr, arg, words in ((444, None, "Landlock"), (317, 1, "system call filter"), (435, None, "janitor"), (155, None, "pivot_root"), (126, None, "capability"),
                           (322, None, "cofferdam-init")):
        r = box.sh("echo ran", preexec_fn=absent(nr, arg0=arg))
        tap.ok(r.returncode == 126 and words in r.stderr and "ran" not in r.stdout, "L7: without system call %d: refused, naming %s" % (nr, words), r.all)
    r = box.sh("echo ran", preexec_fn=absent(5000))
    tap.has(r.stdout, "ran", "L7: and with a call missing that nobody needs it runs")

# --- L8: what a command looks like decides nothing -----------------------------------------------------------
for words in (["sh", "-c", "exec ls /root/.ssh"], ["/proc/self/root/usr/bin/ls", "/root"], ["sh", "-c", "cp /usr/bin/ls /work/git; /work/git /root"],
              ["python3", "-c", "import os; os.listdir('/root')"], ["/lib64/ld-linux-x86-64.so.2", "/usr/bin/ls", "/root"]):
    r = box.run(*words)
    tap.ok(r.returncode != 0 and "No such file" in r.all, "L8: %s finds no more than ls does" % " ".join(words), r.all)

# --- L10, L11: the collector and the status --------------------------------------------------------------------
r = box.sh("(setsid sleep 1000 &) ; sleep 1000 & echo hi", timeout=60)
tap.eq((r.returncode, r.stdout), (0, "hi\n"), "L10: a survivor that holds the output open does not hang the collector")
for script, want in (("exit 0", 0), ("exit 200", 200), ("kill -9 $$", 137), ("exit 137", 137), ("kill -11 $$", 139), ("kill -ABRT $$", 134)):
    tap.eq(box.sh(script).returncode, want, "L11: the status of %s is faithful" % script)
r = box.run("python3", "-c", "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)", opts=["--explain"])
tap.ok(r.returncode == 159 or "SIGSYS" in r.all or "system call" in r.stderr or "policy" in r.stderr, "L11: an end by the filter is said to be that", r.all)
p = box.start("sh", "-c", "sleep 1000", opts=["--timeout", "2"])
try:
    status = p.wait(30)
except subprocess.TimeoutExpired:
    status = None
tap.eq(status, 124, "L10: and the deadline stands when nobody reads the output")

# --- P6: our own programs are what they were -------------------------------------------------------------------
for name in sorted(os.listdir(box.bin)):
    with open(os.path.join(box.bin, name), "rb") as a, open(os.path.join(BUILD, name), "rb") as b:
        tap.ok(a.read() == b.read(), "P6: %s is what it was" % name)
tap.eq(host.untouched(), [], "nothing outside was touched")

# --- L15: many at once -------------------------------------------------------------------------------------------
many = [box.start("sh", "-c", "echo %d > /tmp/n; echo %d > /dev/shm/n; sleep 0.5; cat /tmp/n /dev/shm/n; ls /proc | grep -c '^[0-9]'" % (i, i)) for i in range(50)]
out = [p.communicate(timeout=120)[0].split() for p in many]
tap.eq([o for i, o in enumerate(out) if o[:2] != [str(i)] * 2 or int(o[2]) > 5], [], "L15: fifty at once see their own files and processes only")
host.end()
tap.ok(wait_for(lambda: not ours(), 10), "at the end no process of a sandbox lives", ours())
tap.ok(wait_for(lambda: not walls.groups(), 10), "and no group is left", walls.groups())
tap.done()
