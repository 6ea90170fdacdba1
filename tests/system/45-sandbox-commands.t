#!/usr/bin/python3
"""Every subcommand of `cofferdam sandbox`, and doctor, from end to end: callers that come and go, programs that
go on, terminals, files; and nothing that is left behind. As root, and as an ordinary user."""
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import boxes
from boxes import groups, mounts, processes
from harness import Tap, Temp, wait_for

# Processes, mounts, groups and the directory of sockets of this test alone.
boxes.outer()
boxes.groups_own()

ROOT = os.geteuid() == 0
SPARE = 61234
tap, temp = Tap(), Temp("box")
os.chmod(temp.path, 0o755)
T = temp.path
BIN = boxes.programs(T + "/bin")
if ROOT:
    boxes.sockets()


class Caller:
    """Who calls: a word for the tests' names, a user, options that this user needs."""

    def __init__(self, who, user=None, base=()):
        self.who, self.base = who, list(base)
        self.pre = [] if user is None else ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        self.dir = T + "/" + who
        os.mkdir(self.dir)
        os.mkdir(self.dir + "/runtime", 0o700)
        self.env = dict(os.environ)
        self.sockets = "/run/cofferdam-sandbox"
        if user is not None or not ROOT:
            self.env.update(XDG_RUNTIME_DIR=self.dir + "/runtime", HOME=self.dir)
            self.sockets = self.dir + "/runtime/cofferdam-sandbox"
        if user is not None:
            for d in (self.dir, self.dir + "/runtime"):
                os.chown(d, user, user)

    def argv(self, words):
        return self.pre + [BIN + "/cofferdam", "sandbox"] + list(words)

    def __call__(self, *words, text=True, **kw):
        kw.setdefault("timeout", 60)
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        r = subprocess.run(self.argv(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, text=text,
                           **kw)
        r.all = "%d: %s%s" % (r.returncode, r.stdout, r.stderr)
        return r

    def start(self, *words, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(self.argv(words), stdout=subprocess.PIPE, env=self.env, text=True, **kw)

    def create(self, name, *words):
        r = self("create", name, *self.base, *words)
        if r.returncode != 0:
            raise RuntimeError(r.all)

    def list(self):
        return json.loads(self("list", "--json").stdout)

    def left(self):
        """What stands for named ones; beside it is the file of root's locks."""
        return [f for f in os.listdir(self.sockets) if f != "ids"]

    def inspect(self, name):
        return json.loads(self("inspect", name, "--json").stdout)

    def ok(self, cond, name, note=None):
        return tap.ok(cond, "%s: %s" % (self.who, name), note)

    def eq(self, got, want, name):
        return tap.eq(got, want, "%s: %s" % (self.who, name))


def ours():
    return [p for p in processes() if p[1].startswith(("cofferdam-sandbox", "cofferdam-init", BIN))]


def supervisors_kill(janitors=False):
    """Janitors have the same name and are their children: not they, or they first."""
    both = [pid for pid, cmd in processes() if cmd == "cofferdam-sandbox"]
    tops = [p for p in both if int(open("/proc/%d/stat" % p).read().rsplit(") ", 1)[1].split()[1]) not in both]
    for pid in [p for p in both if janitors and p not in tops] + tops:
        os.kill(pid, signal.SIGKILL)


def removed(group):
    try:
        os.rmdir(group)
    except OSError:
        return not os.path.exists(group)
    return True


MOUNTS, FILES = mounts(), set(os.listdir("/tmp"))


# --- its life ------------------------------------------------------------------------------------
def life(c):
    c.create("one", "--label", "owner=ola", "--label", "a.b=\u00e5 c", "--env", "GREETING=hei", "--limit", "pids=99")
    r = c("list")
    c.ok(re.search(r"^one +running +native .*owner=ola a\.b=\u00e5 c", r.stdout, re.M), "list has a row for it", r.all)
    v = c.inspect("one")
    c.eq((v["name"], v["state"], v["limits"]["pids"], v["labels"]), ("one", "running", 99, ["owner=ola", "a.b=\u00e5 c"]),
         "inspect knows name, state, limits and labels")
    c.ok(v["level"]["seccomp"] == "filter" and "net" in v["level"]["namespaces"], "and what really holds", v)
    r = c("inspect", "one")
    c.ok("state: running" in r.stdout and "  seccomp: filter" in r.stdout, "for people as lines", r.all)
    r = c("create", "one", *c.base)
    c.ok(r.returncode == 2 and "one" in r.stderr, "a name that is taken is refused", r.all)
    for bad in ("One", "a/b", "-", "a" * 41, ""):
        r = c("create", bad, *c.base)
        c.ok(r.returncode == 2 and ("name" in r.stderr or "option" in r.stderr), "name %.9r is refused" % bad, r.all)
    r = c("inspect", "none")
    c.ok(r.returncode == 1 and 'there is no "none"' in r.stderr and c.sockets in r.stderr,
         "one that is not there is said to be that, and where it was looked for", r.all)
    r = c("exec", "--in", "one", "--env", "MORE=x=y", "--cwd", "/tmp", "--", "sh", "-c",
          "echo $GREETING $MORE; pwd; cat; echo e >&2; exit 7", input="in")
    c.eq((r.returncode, r.stdout, r.stderr), (7, "hei x=y\n/tmp\nin", "e\n"),
         "exec --in has the sandbox's environment and its own, directory, streams and status")
    c("exec", "--in", "one", "--", "sh", "-c", "echo kept > /work/f")
    c.eq(c("exec", "--in", "one", "--", "cat", "/work/f").stdout, "kept\n", "the next one sees its files")
    r = c("exec", "--in", "one", "--memory", "64", "--", "true")
    c.ok(r.returncode == 2 and "create" in r.stderr, "options of a sandbox are refused for one that is there", r.all)
    c.eq(c("exec", "--in", "one", "--", "kill-me-not").returncode, 127, "no such command: 127")
    c.eq(c("kill", "one").returncode, 0, "kill ends it")
    c.eq(c.list(), [], "and list does not have it any more")


def callers(c):
    c.create("two", "--limit", "linger=2")
    p = c.start("exec", "--in", "two", "--", "sh", "-c", "echo up; for i in 1 2 3 4 5 6 7 8; do sleep 0.25; done; echo done > /work/d")
    p.stdout.readline()
    p.kill()
    p.wait()
    r = c("exec", "--in", "two", "--", "echo", "second")
    c.eq(r.stdout, "second\n", "the first caller killed with SIGKILL: a second one is served")
    ps = json.loads(c("ps", "two", "--json").stdout)
    c.ok(any(x["state"] == "running" and "echo up" in x["argv"][2] for x in ps), "and the first's program goes on", ps)
    c.ok(wait_for(lambda: c("files", "read", "two", "d").stdout == "done\n", 10), "to its end")
    c.ok(wait_for(lambda: not c.left(), 12), "nobody there for its linger time: it ends by itself",
         c.left())
    c.eq(c.list(), [], "and is not listed")
    c.create("three")
    supervisors_kill()
    c.ok(wait_for(lambda: not ours() and not c.left(), 10), "its supervisor killed with SIGKILL: neither socket nor lock is left",
         (ours(), c.left()))
    c.create("three")
    c.eq(c("exec", "--in", "three", "--", "echo", "new").stdout, "new\n", "the name may be used again")
    supervisors_kill(janitors=True)
    c.ok(wait_for(lambda: not ours(), 10) and sorted(c.left()) == ["three.lock", "three.sock"],
         "its janitor killed with it: these two are left", (ours(), c.left()))
    for d in reversed(groups()):
        wait_for(lambda: removed(d))  # a process that is ending has no command line any more, but is in its group
    c.ok(wait_for(lambda: c("list", "--json").stdout == "[]\n" and not c.left(), 10, 0.5),
         "and list clears away what a dead one left", c.left())
    c.create("three")
    c.eq(c("exec", "--in", "three", "--", "echo", "new").stdout, "new\n", "and then it may, too")
    c("kill", "three")


def programs(c):
    c.create("four")
    n = c("spawn", "four", "--env", "A=b", "--", "sh", "-c", "for i in 1 2 3; do echo $A$i; sleep 0.2; done; echo err >&2; exit 5").stdout.strip()
    p = c.start("logs", "four", n, "-f")
    c.eq(p.communicate(timeout=20)[0], "b1\nb2\nb3\nerr\n", "logs -f follows a program to its end, both streams")
    c.eq(c("logs", "four", n, "--from", "6").stdout, "b3\nerr\n", "logs --from begins there")
    c.eq(c("wait", "four", n).returncode, 5, "wait has its status")
    row = [x for x in json.loads(c("ps", "four", "--json").stdout) if str(x["proc"]) == n][0]
    c.eq((row["state"], row["cause"], row["value"]), ("ended", "exited", 5), "ps knows how it ended")
    c.ok(re.search(r"^%s +ended +exited +5 " % n, c("ps", "four").stdout, re.M), "and prints it")
    n = c("spawn", "four", "--", "sleep", "600").stdout.strip()
    c.eq(c("wait", "four", n, "--timeout", "1").returncode, 124, "wait --timeout gives up")
    c.eq(c("signal", "four", n, "term").returncode, 0, "signal by name")
    c.eq(c("wait", "four", n).returncode, 143, "ends it, and wait says by which")
    r = c("signal", "four", n, "TERM")
    c.ok(r.returncode == 1 and "has ended" in r.stderr, "a signal to what has ended is an error", r.all)
    r = c("signal", "four", "1", "NOSIG")
    c.ok(r.returncode == 2 and "NOSIG" in r.stderr, "so is a signal that there is not", r.all)
    n = c("spawn", "four", "--", "sh", "-c", "setsid sleep 601 & sleep 602").stdout.strip()
    wait_for(lambda: any("sleep 601" in x for _, x in processes()))
    c.eq(c("kill", "four", n).returncode, 0, "kill PROC")
    c.eq([x for _, x in processes() if "sleep 60" in x], [], "ends all that came from it, too")
    for verb in ("logs", "wait", "kill"):
        r = c(verb, "four", "9999")
        c.ok(r.returncode == 1 and "9999" in r.stderr or "no such" in r.stderr, "%s of no program is refused" % verb, r.all)
        c.eq(c(verb, "four", "x").returncode, 2, "%s of no number is usage" % verb)
    n = c("spawn", "four", "--input", "--", "sh", "-c", "cat; echo end").stdout.strip()
    c("input", "four", n, input="a" * 300000 + "\n")
    c.eq(c("input", "four", n, "--close", input="b\n").returncode, 0, "input goes to its standard input, and its end")
    c.eq(c("wait", "four", n).returncode, 0, "which it sees")
    c.eq(c("logs", "four", n).stdout, "a" * 300000 + "\nb\nend\n", "whole and in order")
    n = c("spawn", "four", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last").stdout.strip()
    c("wait", "four", n)
    r = c("logs", "four", n)
    c.ok(r.stdout.endswith("x\nlast\n") and len(r.stdout) <= 1 << 20 and "no longer kept" in r.stderr,
         "of much output the last MiB is kept, and that is said", (len(r.stdout), r.stderr))
    c("kill", "four")


def control(c):
    c.create("five")
    n = c("spawn", "five", "--", "sh", "-c", "while sleep 0.05; do echo x; done").stdout.strip()
    size = lambda: len(c("logs", "five", n).stdout)
    wait_for(lambda: size() > 0)
    r = c("pause", "five")
    if r.returncode == 1 and "freezer" in r.stderr:
        c.ok("no-freezer" in c.inspect("five")["level"]["level"], "no freezer: pause is refused, and the level says so", r.all)
    else:
        c.eq((r.returncode, c.inspect("five")["state"]), (0, "paused"), "pause, and inspect says so")
        at = size()
        time.sleep(0.4)
        c.eq(size(), at, "nothing runs meanwhile")
        v = c.inspect("five")
        c.ok(re.match(r"20..-..-..T..:..:..Z$", v["paused_since"]) and "stands still" in v["paused_time"],
             "inspect has since when, and that its time stands still", v)
        r = c("list")
        c.ok(re.search(r"^five +paused since 20\S+Z .*\(stands still\)", r.stdout, re.M), "so has list", r.all)
        r = c("extend", "five", "90")
        c.ok(r.returncode == 0 and "90 s count from resume" in r.stderr, "extend says that it counts from resume", r.all)
        c.eq((c("resume", "five").returncode, c.inspect("five")["state"]), (0, "running"), "resume")
        c.ok(wait_for(lambda: size() > at, 5), "and it goes on")
    c.eq(c("extend", "five", "100").returncode, 0, "extend")
    c.ok(80000 < c.inspect("five")["left_ms"] <= 100000, "sets the time that is left")
    for bad in ("0", "86401", "x", "-5"):
        r = c("extend", "five", bad)
        c.ok(r.returncode == 2 and "from 1 to 86400" in r.stderr and bad in r.stderr, "extend by %s is refused" % bad, r.all)
    for verb in ("extend", "pause"):
        c.ok("stands still" in c(verb, "--help").stdout, "%s --help says that its time stands still" % verb)
    c("extend", "five", "1")
    c.ok(wait_for(lambda: not c.left(), 8), "and then it ends")
    c.create("six", "--limit", "wall=1")
    c.ok(wait_for(lambda: not c.left(), 8), "so does one whose wall limit is over")


FILL = ("import os,time\nwhile 1:\n  try:\n    if os.fork()==0:\n      time.sleep(607)\n      os._exit(0)\n"
        "  except OSError: time.sleep(0.01)")


# --- what is left, and who may still call ----------------------------------------------------------
def full(c):
    c.create("full", "--pids", "40")
    r = c("exec", "--in", "full", "--background", "--", "sh", "-c", "for i in 1 2 3; do sleep 605 >/dev/null 2>&1 & done; exit 4")
    c.eq(r.returncode, 4, "--background ends with its own status")
    rows = lambda: json.loads(c("ps", "full", "--json").stdout)
    c.ok(wait_for(lambda: [x for x in rows() if x.get("left") and x["state"] == "ended"], 5), "ps has what it left", rows())
    n = str(rows()[0]["proc"])
    c.ok(re.search(r"^%s +ended, left programs +exited +4 .* sh -c for" % n, c("ps", "full").stdout, re.M), "and prints that")
    c.eq(c("kill", "full", n).returncode, 0, "kill NAME PROC takes it")
    c.ok(wait_for(lambda: not rows() and not [x for _, x in processes() if "sleep 605" in x], 5), "and it is gone", rows())
    r = c("exec", "--in", "full", "--background", "--", "true")
    c.ok(wait_for(lambda: not rows(), 5), "one that left nothing is not listed", rows())
    if "no-limits" not in c.inspect("full")["level"]["level"]:
        n = c("spawn", "full", "--", "python3", "-c", FILL).stdout.strip()
        wait_for(lambda: c("exec", "--in", "full", "--", "true").returncode != 0, 10, 0.2)
        for verb in (["exec", "--in", "full"], ["spawn", "full"]):
            r = c(*verb, "--", "true")
            c.ok(r.returncode != 0 and "limit pids (40 " in r.stderr and "kill full PROC" in r.stderr,
                 "%s: a full limit on processes is named, with the way out" % verb[0], r.all)
        c.eq(c("kill", "full", n).returncode, 0, "which is one")
        c.eq(c("exec", "--in", "full", "--", "true").returncode, 0, "and there is room again")
    c("kill", "full")


def many(c):
    c.create("many")
    held = []
    for _ in range(255 + 3):
        s = socket.socket(socket.AF_UNIX)
        s.connect(c.sockets + "/many.sock")
        s.sendall(struct.pack(">IBBIB", 5, 34, 0, 1, 1))
        s.recv(1)
        held.append(s)
    try:
        callers = c.inspect("many")["callers"]
        c.ok(callers >= 258, "more callers than the limit on them", callers)
        c.eq([x["state"] for x in c.list()], ["running"], "list still has its state")
        n = c("spawn", "many", "--", "true")
        c.ok(n.returncode == 1 and "limit 256" in n.stderr, "what is not control is refused, with the limit", n.all)
        r = c("exec", "--in", "many", "--", "true")
        c.ok(r.returncode == 126 and "limit 256" in r.stderr, "so is exec", r.all)
        c.eq([c(*w).returncode for w in (["extend", "many", "60"], ["ps", "many"], ["kill", "many"])], [0, 0, 0],
             "extend, ps and kill are done")
        c.ok(wait_for(lambda: not c.left(), 8), "and it has ended", c.left())
    finally:
        for s in held:
            s.close()


def unreachable(c):
    c.create("stuck")
    pid = [p for p, cmd in processes() if cmd == "cofferdam-sandbox"]
    for p in pid:
        os.kill(p, signal.SIGSTOP)
    r = c("list")
    for p in pid:
        os.kill(p, signal.SIGCONT)
    row = [x for x in r.stdout.splitlines() if x.startswith("stuck")]
    c.ok(row and re.match(r"stuck +unreachable *$", row[0]) and "stuck: " in r.stderr,
         "list calls one that does not answer unreachable, and says why beside the table", r.all)
    c("kill", "stuck")


def contexts(c):
    c.create("ctx")
    t = Terminal(c, "code", "ctx")
    t.type("print('u' + 'p')\n---\n")
    c.ok(t.sees("up\r\n", 20), "a context", t.text)
    c("spawn", "ctx", "--", "sh", "-c", "sleep 608 # " + "x" * 300)
    r = c("ps", "ctx")
    c.ok(re.search(r"running +0 +\(context python\)$", r.stdout, re.M), "ps names a context, not its driver", r.all)
    c.ok("x" * 300 in r.stdout, "and has commands whole where there is no terminal", r.all)
    p = Terminal(c, "ps", "ctx", cols=70)
    p.p.wait(20)
    c.ok(p.sees("...") and max(len(x) for x in p.text.split("\r\n")) == 70, "cut to the width of one", p.text)
    p.end()
    c.ok(any("import" in x["argv"][-1] for x in json.loads(c("ps", "ctx", "--json").stdout)), "--json has what it is")
    t.type("\x04")
    t.end()
    c("kill", "ctx")


# --- a terminal ------------------------------------------------------------------------------------
class Terminal:
    def __init__(self, c, *words, rows=33, cols=101):
        self.main, self.sub = pty.openpty()
        self.size(rows, cols)
        self.before = termios.tcgetattr(self.sub)
        self.text = ""
        self.p = subprocess.Popen(c.argv(words), stdin=self.sub, stdout=self.sub, stderr=self.sub,
                                  env=dict(c.env, TERM="xterm-test"), start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, cols):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.main, text.encode())

    def sees(self, want, seconds=10):
        def look():
            import select
            while select.select([self.main], [], [], 0)[0]:
                self.text += os.read(self.main, 4096).decode("utf-8", "replace")
            return want in self.text
        return wait_for(look, seconds)

    def end(self):
        status = self.p.wait(15)
        self.sees("\0never", 0.2)
        same = termios.tcgetattr(self.sub) == self.before
        os.close(self.main)
        os.close(self.sub)
        return status, same


def terminal(c):
    c.create("tty")
    t = Terminal(c, "attach", "tty")
    c.ok(t.sees("$ ") or t.sees("# "), "attach: a shell prompts", t.text)
    t.type("tty; stty size; echo $TERM\n")
    c.ok(t.sees("/dev/pts/0") and t.sees("33 101") and t.sees("xterm-test"), "with a terminal of our size and kind", t.text)
    t.size(50, 120)
    time.sleep(0.3)
    t.type("stty size\n")
    c.ok(t.sees("50 120"), "that follows ours", t.text)
    t.type("sleep 600\n")
    time.sleep(0.5)
    t.type("\x03")
    t.type("echo after=$?\n")
    c.ok(t.sees("after=130"), "^C goes to the program in it", t.text)
    t.type("exit 9\n")
    c.eq(t.end(), (9, True), "its status comes back, and our terminal is as before")
    for sig in (signal.SIGTERM, signal.SIGHUP):
        t = Terminal(c, "exec", "--in", "tty", "-t", "--", "sh", "-c", "echo up; sleep 600")
        t.sees("up")
        t.p.send_signal(sig)
        c.eq(t.end(), (128 + sig, True), "%s: ended, and our terminal is as before" % sig.name)
    c.ok(wait_for(lambda: not [x for _, x in processes() if "sleep 600" in x], 5), "and so is the program")
    t = Terminal(c, "exec", *c.base, "-t", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all-tty; cat")
    c.ok(t.sees("all-tty"), "a terminal in a fresh sandbox", t.text)
    t.type("line\n\x04")
    c.eq(t.end(), (0, True), "^D is its end of file")
    r = c("exec", *c.base, "--tty", "--", "sh", "-c", "stty size; cat", input="typed\n")
    c.ok(r.returncode == 0 and "24 80" in r.stdout and "typed" in r.stdout, "--tty without one here: 24 by 80", r.all)
    c("kill", "tty")


# --- targets ---------------------------------------------------------------------------------------
SERVE = ("import os,socket\nassert os.environ['LISTEN_FDS']=='1' and int(os.environ['LISTEN_PID'])==os.getpid()\n"
         "s=socket.socket(fileno=3)\nprint('serving',flush=True)\n"
         "try:\n  while 1:\n    c,_=s.accept(); c.sendall(b'hello'); c.close()\nexcept OSError: print('refused',flush=True)")
CONNECT = "import socket\ntry: print(socket.create_connection(('db.example',5432),5).recv(9))\nexcept OSError as e: print(type(e).__name__)"


def targets(c):
    c.create("net")
    say = lambda: c("exec", "--in", "net", "--", "python3", "-c", CONNECT).stdout.strip()
    c.eq(say(), "gaierror", "a target that is not there has no name")
    t = "db.example=127.70.0.1:5432"
    p = c.start("network", "net", "--add", t, "--", "python3", "-c", SERVE)
    p.stdout.readline()
    c.eq(say(), "b'hello'", "network --add: its listener is served by the command")
    r = c("network", "net", "--add", t)
    c.ok(r.returncode == 1 and "127.70.0.1" in r.stderr, "the same once more is refused", r.all)
    c.eq(c("network", "net", "--drop", t).returncode, 0, "network --drop")
    c.eq(p.stdout.readline(), "refused\n", "its listener accepts no more, in whoever holds it")
    c.eq(say(), "gaierror", "and its name is gone")
    p.wait(10)
    r = c("network", "net", "--drop", t)
    c.ok(r.returncode == 1, "one that is not there cannot be dropped", r.all)
    for bad in ("x", "a=10.0.0.1:5", "a=127.0.0.1:5", "a=127.70.0.1:0", "a b=127.70.0.1:5"):
        c.eq(c("network", "net", "--add", bad).returncode, 2, "target %s is refused" % bad)
    c("kill", "net")


# --- files -----------------------------------------------------------------------------------------
def files(c):
    c.create("files")
    f = lambda *w, **kw: c("files", *w, **kw)
    c.eq(f("write", "files", "d/e/f.txt", input="text\n").returncode, 0, "files write makes its parents")
    c.eq(f("read", "files", "/work/d/e/f.txt").stdout, "text\n", "files read")
    blob = os.urandom(3 << 20)
    f("write", "files", "blob", "--mode", "600", input=blob, text=False)
    c.ok(f("read", "files", "blob", text=False).stdout == blob, "3 MiB of any bytes come back the same")
    st = json.loads(f("stat", "files", "blob").stdout)
    c.eq((st["type"], st["size"], st["mode"] & 0o777), ("file", 3 << 20, 0o600), "files stat knows size and rights")
    r = f("read", "files", "blob", "--max", "1000")
    c.ok(r.returncode == 1 and "1000" in r.stderr, "more than --max is refused", r.all)
    r = f("write", "files", "blob2", "--max", "3", input="four")
    c.ok(r.returncode == 1 and f("stat", "files", "blob2").returncode == 1, "and then nothing is written", r.all)
    names = lambda *w: sorted(x["name"] for x in json.loads(f("list", "files", *w).stdout))
    c.eq((names("."), names(".", "--depth", "3")), (["blob", "d"], ["blob", "d", "e", "f.txt"]), "files list, and deeper")
    c.eq(names(), names("."), "files list without a path is /work")
    for words, missing in ((["read", "files"], "PATH is missing"), (["stat", "files"], "PATH is missing"), (["list"], "NAME is missing"),
                           (["rename", "files", "blob"], "TO is missing"), (["read", "files", "a", "b"], "a word too many"),
                           ([], "VERB is missing"), (["frob", "files", "x"], "no VERB")):
        r = f(*words)
        c.ok(r.returncode == 2 and missing in r.stderr, "files %s: %s" % (" ".join(words), missing), r.all)
    f("mkdir", "files", "new")
    c.eq(f("rename", "files", "blob", "new/b").returncode, 0, "files mkdir, rename")
    c.eq(names("new"), ["b"], "it is there")
    c.ok(f("remove", "files", "new").returncode == 1 and names("new") == ["b"], "a directory with something in it is not removed")
    c.eq((f("remove", "files", "new", "--tree").returncode, names(".")), (0, ["d"]), "but with --tree")
    for verb, words in (("read", ["none"]), ("list", ["none"]), ("remove", ["none"]), ("read", ["d"])):
        c.ok(f(verb, "files", *words).returncode in (1, 2), "files %s %s is refused" % (verb, words[0]))
    c.eq(f("frob", "files", "x").returncode, 2, "a verb that there is not is usage")
    c("exec", "--in", "files", "--", "ln", "-s", "/etc/shadow", "/work/link")
    c.ok("root:" not in f("read", "files", "link").stdout, "a link does not lead out")
    p = c.start("files", "watch", "files", ".", "--tree")
    seen = []

    def sees(op, path):
        f("write", "files", "d/w", input="x")
        c("exec", "--in", "files", "--", "rm", "-f", "/work/d/w")
        return None
    time.sleep(0.7)
    sees("create", "w")
    for _ in range(2):
        seen.append(json.loads(p.stdout.readline()))
    c.ok(all("op" in x and "path" in x for x in seen), "files watch prints each change", seen)
    p.send_signal(signal.SIGINT)
    c.eq(p.wait(10), 0, "until SIGINT")
    # snapshots
    c("exec", "--in", "files", "--", "sh", "-c", "chmod 700 /work/d/e; ln -s f.txt /work/d/e/l")
    snap = c.dir + "/snap.tar"
    c.eq(c("snapshot", "files", snap).returncode, 0, "snapshot")
    with open(snap, "rb") as fh:
        good = fh.read()
    r = c("snapshot", "files", snap)
    c.ok(r.returncode == 1 and open(snap, "rb").read() == good, "never over a file that is there", r.all)
    c("exec", "--in", "files", "--", "sh", "-c", "rm -r /work/d; echo other > /work/o")
    c.eq(c("restore", "files", snap).returncode, 0, "restore")
    r = c("exec", "--in", "files", "--", "sh", "-c", "cd /work; cat d/e/l; stat -c %a d/e; ls o 2>&1 | tail -c 4")
    c.ok(r.stdout.startswith("text\n700\n") and not r.stdout.endswith("o\n"), "files, links and rights are back, and what came later is gone", r.all)
    with open(snap, "wb") as fh:
        fh.write(b"x" * 4096)
    c.eq(c("restore", "files", snap).returncode, 2, "what is no snapshot is refused")
    c.eq(c("snapshot", "nosuch", c.dir + "/s2").returncode, 1, "of no sandbox there is none")
    c.ok(not os.path.exists(c.dir + "/s2"), "nor a file")
    c("kill", "files")


def code(c):
    c.create("code")
    r = c("code", "code", input='x = 6\nprint("out")\n---\nx * 7\n---\n1/0\n---\nx + 1\n')
    c.ok(r.stdout.split() == ["out", "42", "7"] and "ZeroDivisionError" in r.stderr and r.returncode == 0,
         "code: variables live on, an error is a result", r.all)
    r = c("code", "code", input="x")
    c.ok(r.returncode == 1 and "NameError" in r.stderr, "the interpreter ended with its caller; a failed last cell: 1", r.all)
    r = c("code", "code", "--language", "bash", "--cwd", "/tmp", input="a=5; pwd\n---\necho $((a * 2))\n")
    c.eq(r.stdout, "/tmp\n10\n", "code --language bash --cwd")
    r = c("code", "code", "--timeout", "1", input="y=3\n---\nimport time; time.sleep(99)\n---\ny\n")
    c.ok(r.returncode == 0 and r.stdout.strip() == "3" and "interrupted" in r.stderr,
         "--timeout interrupts a cell, and variables are still there", r.all)
    r = c("code", "code", "--language", "cobol", input="x")
    c.ok(r.returncode != 0 and "cobol" in r.stderr, "a language that there is not is refused", r.all)
    c("kill", "code")


# --- one command ------------------------------------------------------------------------------------
def one_shot(c):
    x = lambda *w, **kw: c("exec", *c.base, *w, **kw)
    ws = c.dir + "/ws"
    os.mkdir(ws)
    if c.pre:
        os.chown(ws, SPARE, SPARE)
    with open(ws + "/f", "w", encoding="ascii") as fh:
        fh.write("was\n")
    if c.pre:
        os.chown(ws + "/f", SPARE, SPARE)
    r = x("--overlay", ws, "--", "sh", "-c", "cat f; echo is > f; echo new > g; cat f")
    if r.returncode == 126 and "overlay" in r.stderr:
        c.ok(True, "no overlay for this user here: refused by name")
    else:
        c.eq(r.stdout, "was\nis\n", "--overlay: its files are there and can be changed")
    c.eq((sorted(os.listdir(ws)), open(ws + "/f").read()), (["f"], "was\n"), "but only inside")
    r = x("--overlay", ws, "--workspace", ws, "--", "true")
    c.ok(r.returncode == 2 and "give one" in r.stderr, "--overlay and --workspace at once are refused", r.all)
    c.eq(x("--env", "A=b c", "--cwd", "/tmp", "--", "sh", "-c", "echo $A; pwd").stdout, "b c\n/tmp\n", "--env, --cwd")
    c.eq(x("--limit", "open-files=77", "--limit", "disk=9", "--", "sh", "-c", "ulimit -n").stdout, "77\n", "--limit")
    level = json.loads(x("--level").stdout)
    c.ok("seccomp" in level, "--level needs no command")
    r = x("--language", "python", input="import sys; print(6*7); sys.exit(3)")
    c.eq((r.returncode, r.stdout), (3, "42\n"), "--language runs standard input as code")
    p = subprocess.run("%s | head -1; echo ${PIPESTATUS[0]}" % " ".join(c.argv(["exec", *c.base, "--", "yes"])),
                       shell=True, executable="/bin/bash", stdout=subprocess.PIPE, env=c.env, text=True, timeout=30)
    c.eq(p.stdout, "y\n141\n", "nobody reads: ended, as by SIGPIPE")
    for closed, code in (("<&-", "cat"), (">&-", "echo x"), ("2>&-", "echo x >&2"), ("<&- >&- 2>&-", "cat; echo x; echo x >&2")):
        p = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh", *c.argv(["exec", *c.base, "--", "sh", "-c", code + "; exit 3"])], env=c.env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        c.eq(p.returncode, 3, "%s: a stream that is closed is /dev/null, and no file of ours" % closed)
    r = x("--explain", "--", "python3", "-c", "import ctypes\nl=ctypes.CDLL(None)\nfor i in range(3): l.syscall(321,0,0,0)")
    c.ok("refused: system call bpf (321) by python3, 3 times" in r.stderr, "--explain names what was refused", r.all)
    r = x("--explain", "--", "true")
    c.ok("no system call was refused" in r.stderr, "or that nothing was", r.all)
    for words, why in ((["--may-lack", "walls", "--", "true"], "landlock"), (["--backend", "docker", "--", "true"], "docker"),
                       (["--limit", "memory=1", "--", "true"], "memory"), (["--limit", "fun=1", "--", "true"], "fun"),
                       (["--env", "A", "--", "true"], "--env"), (["--nosuch", "--", "true"], "--nosuch"),
                       (["true"], "behind --"), ([], "no command"), (["--"], "no command"), (["--memory"], "value"),
                       (["--image", "relative", "--", "true"], "image"), (["--label", "A=b", "--", "true"], "label"),
                       (["--background", "--", "true"], "background")):
        r = x(*words)
        c.ok(r.returncode == 2 and why in r.stderr, "exec %s: usage, and said why" % " ".join(words), r.all)
    img = c.dir + "/img"
    os.makedirs(img + "/bin")
    with open(c.dir + "/hello.c", "w", encoding="ascii") as fh:
        fh.write('#include <stdio.h>\n#include <unistd.h>\nint main(void){printf("image %d\\n", access("/usr/bin/env",F_OK)); return 0;}')
    subprocess.run(["cc", "-static", "-o", img + "/bin/hello", c.dir + "/hello.c"], check=True)
    r = x("--image", img, "--", "/bin/hello")
    c.eq(r.stdout, "image -1\n", "--image: its programs, and none of the host's")
    os.symlink(img, c.dir + "/current")
    c.eq(x("--image", c.dir + "/current", "--", "/bin/hello").stdout, "image -1\n", "a link that the caller names is followed once, before it is judged")
    os.symlink("/etc", img + "/etc")
    r = x("--image", img, "--", "/bin/hello")
    c.ok(r.returncode == 2 and "img/etc has a link in it" in r.stderr, "an image whose /etc leads out of it is refused by name", r.all)


# Fills the count of descriptors that this user has in flight, and stays.
FLIGHT = '''
import array, os, socket, sys, time
keep, what = [], array.array("i", [0] * 200).tobytes()
try:
    while True:
        keep.append(socket.socketpair())
        for i in range(100):
            keep[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, what)], socket.MSG_DONTWAIT)
except OSError as e:
    print(e.errno, flush=True)
time.sleep(600)
'''


def in_flight(c):
    def full(name, n):
        return wait_for(lambda: c("logs", name, n).stdout == "109\n", 30)

    run = lambda name, *w: c("exec", "--in", name, "--", *w)
    c.create("flight")
    n = c("spawn", "flight", "--", "python3", "-c", FLIGHT).stdout.strip()
    c.ok(full("flight", n), "a program leaves as many descriptors in flight as it can")
    r = run("flight", "echo", "on")
    c.eq((r.returncode, r.stdout), (0, "on\n"), "others start beside it")
    r = c("files", "list", "flight", "/")
    c.ok("work" in r.stdout, "and files are served", r.all)
    c("kill", "flight")
    # Where pid 1 itself may have few, a start fails, is said to, and nothing waits.
    c.pre, pre = ["prlimit", "--nofile=100:100"] + c.pre, c.pre
    c.create("flight")
    c.pre = pre
    c.eq(run("flight", "sh", "-c", "ulimit -n").stdout, "50\n", "a program has half of what pid 1 has at most")
    c.eq(c.inspect("flight")["level"]["open_files"], 50, "and the level says so")
    n = c("spawn", "flight", "--", "python3", "-c", FLIGHT).stdout.strip()
    c.ok(full("flight", n), "it leaves more in flight than pid 1 may have open")
    for w in (("exec", "--in", "flight", "--", "echo", "on"), ("spawn", "flight", "--", "echo", "on")):
        r = c(*w, timeout=12)
        c.ok(r.returncode not in (0, 124) and "in flight" in r.stderr, "%s is refused, and said why" % w[0], r.all)
    c("kill", "flight", n)
    r = run("flight", "echo", "on")
    c.eq((r.returncode, r.stdout), (0, "on\n"), "with its end all goes on")
    c("kill", "flight")


def few_files(c):
    x = lambda *w: c("exec", *c.base, *w)
    r = x("--limit", "open-files=16", "--", "sh", "-c", "ulimit -n; echo few | cat")
    c.eq((r.returncode, r.stdout), (0, "16\nfew\n"), "--limit open-files=16 is enough for a program that needs few", )
    c.pre, pre = ["prlimit", "--nofile=10:10"] + c.pre, c.pre
    r = x("--", "true")
    c.pre = pre
    c.ok(r.returncode == 126 and "ulimit -n" in r.stderr and "CONFIG" not in r.stderr,
         "a caller with too few is told that", r.all)
    c.eq(x("--", "sh", "-c", "cat /proc/partitions /proc/diskstats /proc/swaps | wc -c").stdout, "0\n",
         "the host's disks are not in /proc")


def doctor(c, want):
    d = lambda *w: subprocess.run(c.pre + [BIN + "/cofferdam", "doctor", *w], stdout=subprocess.PIPE, env=c.env, text=True,
                                  stdin=subprocess.DEVNULL, timeout=60)
    r = d()
    c.eq(r.returncode, want, "doctor ends with %d" % want)
    j = json.loads(d("--json").stdout)
    c.eq(j["full"], want == 0, "as its JSON says")
    c.ok(all({"name", "ok", "needed", "found", "do"} <= set(x) for x in j["checks"]) and j["checks"], "each row has all", j)
    c.ok(all(x["ok"] or x["do"] for x in j["checks"] if x["needed"]), "and what is missing has what to do", j)
    c.eq(d("--frob").returncode, 2, "doctor --frob is usage")
    todo = [x["do"] for x in j["checks"] if x["do"]]
    c.ok(all(len(x) <= 160 for x in todo), "what to do is short", todo)
    c.ok(max(map(len, r.stdout.splitlines())) < 400, "and so are its lines", r.stdout)


def everything(c):
    for part in (life, callers, programs, control, full, many, unreachable, contexts, terminal, targets, files, code, one_shot,
                 few_files, in_flight):
        part(c)
    c.ok(wait_for(lambda: not ours(), 5), "no process of ours is left", ours())
    c.ok(wait_for(lambda: not groups(), 5), "no group", groups())
    c.eq((mounts(), sorted(c.left())), (MOUNTS, []), "no mount, no socket")


if ROOT:
    me = Caller("root")
    everything(me)
    doctor(me, 0)
    user = Caller("user", SPARE, ["--limits-optional"])
    everything(user)
    full = subprocess.run(user.argv(["exec", "--", "true"]), env=user.env, stderr=subprocess.DEVNULL).returncode == 0
    doctor(user, 0 if full else 1)
    r = user("list")
    r2 = subprocess.run(me.argv(["list", "--json"]), env=dict(me.env, XDG_RUNTIME_DIR=user.dir + "/runtime"),
                        stdout=subprocess.PIPE, text=True)
    tap.eq((r.returncode, r2.stdout), (0, "[]\n"), "root does not look into a user's directory")
    os.chmod(user.sockets, 0o777)
    r = user("create", "x", "--limits-optional")
    tap.ok(r.returncode != 0 and "0700" in r.stderr, "a directory of sockets that others can enter is refused", r.all)
else:
    me = Caller("user", None, ["--limits-optional"])
    everything(me)
tap.done()
