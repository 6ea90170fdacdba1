#!/usr/bin/python3
"""The contract on the back ends crun, runc and runsc, each that is installed: programs, streams, causes of an end,
files, contexts, snapshots, targets, pause, names, and nothing that is left behind. What one of them cannot is a
clear refusal. As root."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import boxes
from boxes import groups, groups_leave, mounts, processes
from harness import Tap, Temp, wait_for

if os.geteuid() != 0:
    print("1..0 # SKIP the run times need root here")
    sys.exit(0)
# Processes, mounts, groups and the directory of sockets of this test alone.
boxes.outer()
boxes.groups_own()
ROUNDS = int(os.environ.get("ROUNDS", "20"))
tap, temp = Tap(), Temp("oci")
os.chmod(temp.path, 0o755)
T = temp.path
BIN = boxes.programs(T + "/bin")
boxes.sockets()


def ours():
    """All but this test and what it is run by: it has a pid namespace of its own."""
    me = {1, os.getpid()}
    return [p for p in processes() if p[0] not in me and p[1]]


def state():
    places = ["/tmp", "/run", "/dev/shm", "/var/lib", "/run/cofferdam-sandbox", "/run/crun", "/run/runc", "/run/runsc"]
    own = lambda p, f: p.startswith("/run/") or re.search("runs?c|crun|gvisor|bundle", f)
    return {"processes": ours(), "groups": groups(), "mounts": mounts(),
            "files": {p: sorted(f for f in os.listdir(p) if f != "ids" and own(p, f)) for p in places if os.path.isdir(p)}}


class Back:
    def __init__(self, name):
        self.name = name

    def __call__(self, *words, text=True, **kw):
        kw.setdefault("timeout", 120)
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        r = subprocess.run([BIN + "/cofferdam", "sandbox"] + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=text, **kw)
        r.all = "%d: %s%s" % (r.returncode, r.stdout, r.stderr)
        return r

    def start(self, *words, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([BIN + "/cofferdam", "sandbox"] + list(words), stdout=subprocess.PIPE, text=True, **kw)

    def exec(self, *words, **kw):
        return self("exec", "--backend", self.name, *words, **kw)

    def create(self, name, *words):
        r = self("create", name, "--backend", self.name, *words)
        if r.returncode != 0:
            raise RuntimeError(r.all)

    def run(self, name, *words, **kw):
        return self("exec", "--in", name, *words, **kw)

    def ok(self, cond, name, note=None):
        return tap.ok(cond, "%s: %s" % (self.name, name), note)

    def eq(self, got, want, name):
        return tap.eq(got, want, "%s: %s" % (self.name, name))


# --- one command ---------------------------------------------------------------------------------
def streams(b):
    r = b.exec("--env", "A=b", "--", "sh", "-c", "cat; echo $A; pwd; id -u; hostname; echo err >&2; exit 7", input="in\n")
    b.eq((r.returncode, r.stdout, r.stderr), (7, "in\nb\n/work\n1000\nsandbox\n", "err\n"),
         "streams apart, environment, directory, id, host name, status")
    b.eq(b.exec("--", "sh", "-c", "kill -9 $$").returncode, 137, "ended by a signal")
    b.eq(b.exec("--", "no-such-program").returncode, 127, "no such program: 127")
    blob = os.urandom(2 << 20)
    b.ok(b.exec("--", "cat", input=blob, text=False).stdout == blob, "2 MiB through its standard input and output")
    r = b.exec("--", "sh", "-c", "echo x > /etc/hosts; echo x > /usr/x; echo x > /x; test -e %s || echo none; "
               "touch /work/a /tmp/a /dev/shm/a && echo ok" % T)
    b.eq(r.stdout, "none\nok\n", "of the host nothing but programs is seen, and /work, /tmp and /dev/shm alone are writable")
    r = b.exec("--", "sh", "-c", "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ls /proc | grep -c '^[0-9]'")
    b.ok("CapEff:\t0000000000000000" in r.stdout and "CapBnd:\t0000000000000000" in r.stdout and "Seccomp:\t2" in r.stdout,
         "no capability, and a filter", r.all)
    r = b.exec("--", "python3", "-c", "import ctypes,os\nl=ctypes.CDLL(None,use_errno=True)\n"
               "for n in (272, 165, 101, 321, 298):\n  print(l.syscall(n,0x10000000,0,0,0,0))")
    b.eq(r.stdout.split(), ["-1"] * 5, "unshare, mount, ptrace, bpf and perf_event_open are refused")
    r = b.exec("--", "python3", "-c", "import threading as t\nx=t.Thread(target=print,args=('thread',)); x.start(); x.join()")
    b.eq(r.stdout, "thread\n", "threads start")
    os.mkdir(T + "/" + b.name)
    with open(T + "/" + b.name + "/f", "w", encoding="ascii") as f:
        f.write("data\n")
    r = b.exec("--ro-bind", T + "/%s:/opt/data" % b.name, "--", "sh", "-c", "cat /opt/data/f; echo x > /opt/data/f || echo no")
    b.eq(r.stdout, "data\nno\n", "a bind is seen, and read-only")
    os.chown(T + "/" + b.name, 61234, 61234)
    os.chown(T + "/%s/f" % b.name, 61234, 61234)
    r = b.exec("--workspace", T + "/" + b.name, "--", "sh", "-c", "cat f; echo new > g; id -u")
    st = os.stat(T + "/%s/g" % b.name)
    b.ok((r.stdout, st.st_uid, open(T + "/%s/g" % b.name).read()) == ("data\n1000\n", 61234, "new\n"),
         "a workspace is written to, as its owner", (st.st_uid, r.all))
    r = b.exec("--overlay", T + "/" + b.name, "--", "sh", "-c", "cat g; rm f; echo over > g; cat g")
    b.eq((r.stdout, open(T + "/%s/g" % b.name).read(), os.path.exists(T + "/%s/f" % b.name)), ("new\nover\n", "new\n", True),
         "an overlaid one is not changed")


def causes(b):
    t = time.monotonic()
    r = b.exec("--timeout", "1", "--", "sh", "-c", "trap '' TERM INT; setsid sleep 500 & sleep 501")
    b.ok(r.returncode == 124 and time.monotonic() - t < 30, "its time is over: 124", r.all)
    r = b.exec("--limit", "memory=64", "--", "python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))")
    b.ok(r.returncode == 125 and "memory" in r.stderr, "over its memory: 125, and it is said", r.all)
    r = b.exec("--limit", "memory=64", "--", "python3", "-c", "x = bytearray(30 << 20); print(len(x))")
    b.eq(r.stdout, "31457280\n", "half of it is had")
    r = b.exec("--limit", "output=1", "--", "sh", "-c", "head -c 3000000 /dev/zero", text=False)
    b.ok(r.returncode == 125 and b"output" in r.stderr, "over its output: 125", r.stderr)
    r = b.exec("--limit", "disk=4", "--", "sh", "-c", "dd if=/dev/zero of=/work/x bs=1M count=9 2>/dev/null")
    b.ok(r.returncode == 125 and "disk" in r.stderr, "over its disk: 125", r.all)
    r = b.exec("--limit", "disk=4", "--", "sh", "-c", "dd if=/dev/zero of=/work/x bs=1M count=3 2>/dev/null && echo ok")
    b.eq(r.stdout, "ok\n", "and below that it is had")
    # gVisor has its own processes: the host's limit ends the whole of it.
    r = b.exec("--limit", "pids=32", "--", "python3", "-c", """
import os, time
n = 0
try:
    while n < 2000:
        if os.fork() == 0:
            time.sleep(60); os._exit(0)
        n += 1
except OSError as e:
    print("refused", e.errno)
print(8 < n <= 70)
""")
    if b.name == "runsc":
        b.ok(r.returncode in (1, 125, 126, 137, 0) and "True" not in r.stdout.replace("refused", ""),
             "2000 processes: refused, or the end of it all", r.all)
    else:
        b.eq(r.stdout, "refused 11\nTrue\n", "over its processes: fork is refused")
    r = b.exec("--limit", "open-files=40", "--", "python3", "-c",
               "import os\ntry:\n  while 1: os.dup(0)\nexcept OSError as e: print(e.errno)")
    b.eq(r.stdout, "24\n", "over its open files: EMFILE")
    t = time.monotonic()
    r = b.exec("--", "sh", "-c", "(setsid sleep 300 &) ; (setsid sh -c 'sleep 301; :' >/dev/null 2>&1 &); echo done")
    b.ok(r.stdout == "done\n" and time.monotonic() - t < 60, "a program's end is the end of what it left", r.all)
    r = b.exec("--timeout", "2", "--", "sh", "-c", "kill -STOP $$")
    b.eq(r.returncode, 124, "a stopped program's time runs")


# --- one that stays ------------------------------------------------------------------------------
SERVE = ("import os,socket\ns=socket.socket(fileno=3)\nprint('serving',flush=True)\n"
         "try:\n  while 1:\n    c,_=s.accept(); c.recv(999); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nhello'); c.close()\n"
         "except OSError: print('refused',flush=True)")


def named(b):
    b.create("s")
    v = json.loads(b("inspect", "s", "--json").stdout)
    b.eq((v["backend"], v["level"]["back_end"], v["level"]["level"], v["level"]["landlock_abi"], v["level"]["no_new_privs"]),
         (b.name, b.name, b.name, 0, True), "the level has the back end's name, and what holds")
    b.run("s", "--", "sh", "-c", "echo kept > f")
    b.eq(b.run("s", "--", "cat", "f").stdout, "kept\n", "a second caller sees the first one's files")
    n = b("spawn", "s", "--env", "A=b", "--", "sh", "-c", "for i in 1 2 3; do echo $A$i; sleep 0.2; done; echo err >&2; exit 5").stdout.strip()
    p = b.start("logs", "s", n, "-f")
    b.eq(p.communicate(timeout=60)[0], "b1\nb2\nb3\nerr\n", "spawn, and logs -f to its end")
    b.eq(b("wait", "s", n).returncode, 5, "wait has its status")
    n = b("spawn", "s", "--", "sleep", "600").stdout.strip()
    b.eq(b("wait", "s", n, "--timeout", "1").returncode, 124, "wait gives up")
    b("signal", "s", n, "term")
    b.eq(b("wait", "s", n).returncode, 143, "a signal ends it")
    n = b("spawn", "s", "--input", "--", "sh", "-c", "cat; echo end").stdout.strip()
    b("input", "s", n, input="a" * 100000 + "\n")
    b("input", "s", n, "--close", input="b\n")
    b("wait", "s", n)
    b.eq(b("logs", "s", n).stdout, "a" * 100000 + "\nb\nend\n", "input goes to its standard input, whole")
    n = b("spawn", "s", "--", "sh", "-c", "sleep 601 & sleep 602").stdout.strip()
    time.sleep(0.5)
    b("kill", "s", n)
    b.eq(b.run("s", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 60[12]'").stdout, "0\n",
         "kill ends it and its children")
    r = b("exec", "--in", "s", "--tty", "--", "sh", "-c", "test -t 0 && test -t 1 && tty && stty size", stdin=subprocess.DEVNULL)
    if b.name == "runsc":
        b.ok(r.returncode != 0 and "runsc has no terminals" in r.stderr, "a terminal is refused, and that is said", r.all)
    else:
        b.ok("/dev/pts/0" in r.stdout and "24 80" in r.stdout, "a terminal", r.all)
    b("kill", "s")


def pause(b):
    b.create("p")
    n = b("spawn", "p", "--", "sh", "-c", "while sleep 0.05; do echo x; done").stdout.strip()
    size = lambda: len(b("logs", "p", n).stdout)
    b.ok(wait_for(lambda: size() > 0), "a program that goes on")
    r = b("pause", "p")
    b.eq((r.returncode, json.loads(b("inspect", "p", "--json").stdout)["state"]), (0, "paused"), "pause")
    time.sleep(0.3)
    at = size()
    time.sleep(0.5)
    b.eq(size(), at, "nothing runs meanwhile")
    b("resume", "p")
    b.ok(wait_for(lambda: size() > at, 10), "resume, and it goes on")
    b("pause", "p")
    b.eq(b("kill", "p").returncode, 0, "a paused one is ended, too")


def files(b):
    b.create("f")
    f = lambda *w, **kw: b("files", *w, **kw)
    blob = os.urandom(3 << 20)
    f("write", "f", "d/e/blob", "--mode", "600", input=blob, text=False)
    b.ok(f("read", "f", "/work/d/e/blob", text=False).stdout == blob, "3 MiB written and read")
    names = lambda *w: sorted(x["name"] for x in json.loads(f("list", "f", *w).stdout))
    b.eq(names(".", "--depth", "3"), ["blob", "d", "e"], "listed")
    st = json.loads(f("stat", "f", "d/e/blob").stdout)
    b.eq((st["size"], st["mode"] & 0o777), (3 << 20, 0o600), "stat")
    f("rename", "f", "d/e/blob", "d/b")
    f("remove", "f", "d/e")
    b.eq(names("d"), ["b"], "renamed, removed")
    b.run("f", "--", "ln", "-s", "/etc/shadow", "/work/link")
    b.ok("root:" not in f("read", "f", "link").stdout, "a link does not lead out")
    f("remove", "f", "link")
    p = b.start("files", "watch", "f", ".", "--tree")
    time.sleep(2)
    f("write", "f", "w", input="x")
    seen = json.loads(p.stdout.readline())
    b.ok("op" in seen and "path" in seen, "watch tells of a change", seen)
    p.send_signal(signal.SIGINT)
    p.wait(20)
    snap = T + "/%s.tar" % b.name
    b.run("f", "--", "sh", "-c", "rm -rf /work/*; mkdir d; echo text > d/f; ln -s f d/l; chmod 700 d")
    r = b("snapshot", "f", snap)
    b.ok(r.returncode == 0, "snapshot", r.all)
    b.run("f", "--", "sh", "-c", "rm -r d; echo other > o")
    r = b("restore", "f", snap)
    b.ok(r.returncode == 0, "restore", r.all)
    r = b.run("f", "--", "python3", "-c", "import os; print(open('d/l').read(), oct(os.stat('d').st_mode), os.listdir('.'))")
    b.eq(r.stdout, "text\n 0o40700 ['d']\n", "files, links and rights are back, and nothing else")
    b("kill", "f")


def code(b):
    b.create("c")
    r = b("code", "c", input='x = 6\nprint("out")\n---\nx * 7\n---\n1/0\n---\nx + 1\n')
    b.ok(r.stdout.split() == ["out", "42", "7"] and "ZeroDivisionError" in r.stderr, "variables live on, an error is a result", r.all)
    r = b("code", "c", "--language", "bash", input="a=5\n---\necho $((a * 2))\n")
    b.eq(r.stdout, "10\n", "bash, too")
    r = b("code", "c", "--timeout", "2", input="y=3\n---\nimport time; time.sleep(99)\n---\ny\n")
    b.ok(r.stdout.strip() == "3" and "interrupted" in r.stderr, "a cell's time is over: interrupted, and variables are there", r.all)
    b("kill", "c")


def targets(b):
    b.create("n")
    say = lambda: b.run("n", "--", "python3", "-c", "import socket\ntry: s=socket.create_connection(('db.example',80),5); "
                        "s.send(b'x'); print(s.recv(99)[-5:])\nexcept OSError as e: print(type(e).__name__)").stdout.strip()
    b.eq(say(), "gaierror", "a target that is not there has no name")
    p = b.start("network", "n", "--add", "db.example=127.70.0.1:80", "--", "python3", "-c", SERVE)
    p.stdout.readline()
    b.eq(say(), "b'hello'", "its listener is reached by name")
    r = b.run("n", "--", "curl", "-s", "-m", "20", "http://db.example/")
    b.eq(r.stdout, "hello", "by curl")
    r = b.run("n", "--", "python3", "-c", """
import socket
for a in (("127.70.0.1", 81), ("127.0.0.1", 80), ("127.70.0.2", 80), ("10.0.0.1", 80), ("169.254.169.254", 80), ("8.8.8.8", 53)):
    try: socket.create_connection(a, 3); print("reached", a)
    except OSError: pass
try: socket.getaddrinfo("example.com", 80); print("resolved")
except OSError: pass
for f in (socket.AF_PACKET, 16):
    try: socket.socket(f, socket.SOCK_RAW); print("socket", f)
    except OSError: pass
print("end")
""")
    b.eq(r.stdout, "end\n", "and nothing else is: no other port or address, no name, no packet or netlink socket")
    b.eq(b("network", "n", "--drop", "db.example=127.70.0.1:80").returncode, 0, "drop")
    b.eq(p.stdout.readline(), "refused\n", "its listener accepts no more")
    b.eq(say(), "gaierror", "and its name is gone")
    p.wait(20)
    b("kill", "n")


# --- nothing is left -----------------------------------------------------------------------------
def tops():
    both = [pid for pid, cmd in processes() if cmd == "cofferdam-sandbox"]
    parent = lambda p: int(open("/proc/%d/stat" % p).read().rsplit(") ", 1)[1].split()[1])
    return [p for p in both if parent(p) not in both]


def left(b, before):
    b.ok(wait_for(lambda: state() == before, 20, 0.2), "of all this nothing is left", (before, state()))
    r = b.exec("--memory", "16", "--ro-bind", "/etc/hostname:/opt/a/b", "--", "true")
    for i in range(ROUNDS):
        b.create("k")
        b("spawn", "k", "--", "sh", "-c", "(setsid sleep 700 &) ; sleep 701")
        if i % 4 == 3:
            b("pause", "k")
        for pid in tops():
            os.kill(pid, signal.SIGKILL)
        if not wait_for(lambda: not ours(), 20, 0.05):
            break
        for f in set(os.listdir("/run/cofferdam-sandbox")) - {"ids"}:
            os.unlink("/run/cofferdam-sandbox/" + f)
    b.ok(wait_for(lambda: state() == before, 20, 0.2), "its supervisor killed with SIGKILL, %d times: nothing is left" % ROUNDS,
         (before, state()))
    bad = 0
    for i in range(ROUNDS):
        bad += b.exec("--", "true").returncode != 0
    b.ok(bad == 0 and wait_for(lambda: state() == before, 20, 0.2), "nor after %d in a row" % ROUNDS, (bad, before, state()))


def missing(b):
    """Its program hidden, in a mount namespace of its own."""
    path = shutil.which(b.name, path="/usr/sbin:/usr/bin")
    r = subprocess.run(["unshare", "--mount", "sh", "-c", "mount --bind /dev/null %s; exec %s/cofferdam sandbox exec --backend %s -- true"
                        % (path, BIN, b.name)], capture_output=True, text=True, timeout=60)
    b.ok(r.returncode == 126 and "install the package " + b.name in r.stderr, "without the program: which package to install", r.stderr)
    r = subprocess.run(["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", BIN + "/cofferdam", "sandbox", "exec", "--backend",
                        b.name, "--limits-optional", "--", "true"], capture_output=True, text=True, timeout=60)
    b.ok(r.returncode == 126 and "needs root" in r.stderr, "an ordinary user is told to take native", r.stderr)


for name in os.environ.get("BACKENDS", "crun runc runsc").split():
    if not shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin"):
        print("# %s is not installed" % name)
        continue
    back, was = Back(name), state()
    for part in (streams, causes, named, pause, files, code, targets, left, missing):
        try:
            part(back, was) if part is left else part(back)
        except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as e:
            back.ok(False, part.__name__, repr(e))
            for k in ("s", "p", "f", "c", "n"):
                back("kill", k)
groups_leave()
tap.done()
