#!/usr/bin/python3
"""Spares: sandboxes that `sandbox exec --spare` finds built. Each is given once, to who would build the very same; none
is waited for; and nothing is left of them. As root, and as an ordinary user."""
import json
import os
import pty
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import boxes
from harness import Tap, Temp, wait_for

boxes.outer()
boxes.groups_own()

ROOT = os.geteuid() == 0
ALICE, BOB = 61234, 61235
SPARES = 4
tap, temp = Tap(), Temp("spare")
os.chmod(temp.path, 0o755)
T = temp.path
BIN = boxes.programs(T + "/bin")
if ROOT:
    boxes.sockets()


class Caller:
    def __init__(self, who, user=None, base=()):
        self.who, self.base = who, list(base)
        self.pre = [] if user is None else ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        self.dir = T + "/" + who
        os.makedirs(self.dir + "/runtime", 0o700)
        os.chmod(self.dir, 0o755)
        self.env = dict(os.environ)
        self.sockets = boxes.SOCKETS
        if user is not None or not ROOT:
            self.env.update(XDG_RUNTIME_DIR=self.dir + "/runtime", HOME=self.dir)
            self.sockets = self.dir + "/runtime/cofferdam-sandbox"
        if user is not None:
            for d in (self.dir, self.dir + "/runtime"):
                os.chown(d, user, user)

    def argv(self, words, pre=()):
        return self.pre + list(pre) + [BIN + "/cofferdam", "sandbox"] + list(words)

    def __call__(self, *words, pre=(), **kw):
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        r = subprocess.run(self.argv(words, pre), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, text=True, timeout=60, **kw)
        r.all = "%d: %s%s" % (r.returncode, r.stdout, r.stderr)
        return r

    def exec(self, *words, s=20, opts=(), **kw):
        return self("exec", *self.base, "--spare", str(s), *opts, "--", *words, **kw)

    def start(self, *words, s=20, opts=()):
        return subprocess.Popen(self.argv(["exec", *self.base, "--spare", str(s), *opts, "--", *words]), env=self.env, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def list(self):
        return json.loads(self("list", "--json").stdout)

    def ready(self, n=1):
        """So many wait, and no more are coming: first processes by name."""
        wait_for(lambda: len(self.list()) == n and all(b["state"] == "spare" for b in self.list()), 20)
        return [b["name"] for b in self.list()]

    def clear(self):
        def gone():
            for name in {b["name"] for b in self.list()}:
                self("kill", name)
            return not processes("cofferdam-sandb") and not self.left()
        return wait_for(gone, 20)

    def left(self):
        return [f for f in os.listdir(self.sockets) if f != "ids"] if os.path.isdir(self.sockets) else []


def comm(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="latin1") as f:
            text = f.read()
        name, rest = text[text.index("(") + 1:].rsplit(")", 1)
        return "" if rest.split()[0] in "ZX" else name
    except OSError:
        return ""


def processes(name):
    return sorted(int(d) for d in os.listdir("/proc") if d.isdigit() and comm(d) == name)


def inits():
    """First processes, as SAY calls them inside; what is made for a moment is not the first of a namespace."""
    out = {}
    for pid in processes("cofferdam-init"):
        try:
            with open("/proc/%d/status" % pid, encoding="latin1") as f:
                last = [l for l in f if l.startswith("NSpid:")][0].split()[-1]
            if last == "1":
                ns = os.readlink("/proc/%d/ns/pid" % pid)
                at = os.stat("/proc/%d/root/run" % pid).st_ctime_ns if ROOT else 0
                out[ns + (" %d.%09d" % divmod(at, 10 ** 9) if ROOT else "")] = pid
        except (OSError, IndexError):
            pass
    return out


def state():
    return {"mounts": boxes.mounts(), "groups": boxes.groups(), "inits": inits(),
            "programs": [p for n in ("cofferdam", "cofferdam-sandb", "cofferdam-tidy") for p in processes(n)]}


# The kernel gives the number of a namespace again: so with the time that its root was filled, which root can see outside, too.
SAY = "echo $(readlink /proc/self/ns/pid)" + (" $(stat -c %.9Z /run)" if ROOT else "")
WHERE = ["sh", "-c", SAY]
CLEAN = {}


def settled(c, what):
    ok = wait_for(lambda: state() == CLEAN and not c.left(), 20)
    tap.ok(ok, "%s: %s" % (c.who, what), "%r\n%r" % (state(), c.left()))


def one(c, *opts, s=20):
    """The one spare of such commands, as SAY calls it."""
    for _ in range(5):
        c.exec("true", s=s, opts=opts)
        c.ready()
        there = list(inits())
        if len(there) == 1:
            return there[0]
        c.clear()
    raise RuntimeError("not one spare: %r" % there)


def takes(c, words, *opts, change=lambda: None):
    """A command that is to find its spare. On a busy machine one may not answer in time: then another one is tried."""
    for _ in range(6):
        box = one(c, *opts)
        change()
        r = c.exec(*words, opts=opts)
        if box in r.stdout:
            break
        c.clear()
    return box, r


def taken(c, what, *opts):
    box, r = takes(c, WHERE, *opts)
    tap.has(r.stdout, box, "%s: %s" % (c.who, what))
    c.clear()


def not_taken(c, what, change, undo=lambda: None, opts=(), pre=(), **kw):
    """It works, but in another sandbox."""
    box = one(c, *opts)
    change()
    r = c.exec(*WHERE, opts=opts, pre=pre, **kw)
    tap.ok(r.returncode == 0 and r.stdout.startswith("pid:[") and r.stdout.strip() != box, "%s: %s" % (c.who, what), "%s\n%s" % (box, r.all))
    undo()
    c.clear()


# --- what it is ------------------------------------------------------------------------------------------------
def life(c):
    r = c.exec("echo", "first")
    tap.eq(r.all, "0: first\n", c.who + ": the first command finds none and runs as without")
    names = c.ready()
    tap.eq(names, ["spare-1"], c.who + ": and leaves one that is built for the next")
    row = c.list()[0]
    tap.ok(row["state"] == "spare" and 0 < row["left_ms"] <= 20000 and row["procs"] == 0, c.who + ": the list has it as a spare, with its time", row)
    tap.has(c("list").stdout, "spare-1  spare", c.who + ": for people, too")
    for words in (["exec", "--in", "spare-1", "--", "true"], ["pause", "spare-1"], ["extend", "spare-1", "100"],
                  ["spawn", "spare-1", "--", "true"], ["files", "list", "spare-1"], ["network", "spare-1", "--add", "x=127.0.0.9:80"]):
        tap.has(c(*words).all, "spare-1 waits for", "%s: `%s` has no hold of it" % (c.who, words[0]))
    tap.eq(json.loads(c("inspect", "spare-1", "--json").stdout)["state"], "spare", c.who + ": but it can be looked at")
    box, r = takes(c, WHERE)
    tap.eq(r.stdout.strip(), box, c.who + ": the second command runs in what waited")
    c.ready()
    tap.ok(box not in inits(), c.who + ": which is gone then, and another one waits", inits())
    tap.eq(c("kill", "spare-1").returncode, 0, c.who + ": kill ends it")
    settled(c, "and nothing is left of it")
    c.exec("true", s=1)
    settled(c, "nor of one that ended by itself")
    c("exec", *c.base, "--", "true")
    tap.eq((state(), c.left()), (CLEAN, []), c.who + ": without --spare nothing is there when the command has returned")


def same(c):
    """What the command has is what it has without."""
    ws = c.dir + "/ws"
    os.mkdir(ws)
    os.chown(ws, os.stat(c.dir).st_uid, os.stat(c.dir).st_gid)
    script = "env | sort; pwd; id; ulimit -a; cat; echo err >&2; grep -h . /proc/self/oom_score_adj /etc/hosts; ls / /dev /etc; exit 7"
    opts = ["--workspace", ws, "--env", "A=b c", "--cwd", "/tmp", "--timeout", "30"]
    plain = c("exec", *c.base, *opts, "--", "sh", "-c", script, input="in\n")
    one(c, "--workspace", ws)
    for what, r in (("of a spare", c.exec("sh", "-c", script, opts=opts, input="in\n")),):
        tap.eq(r.all, plain.all, "%s: streams, status, environment, directory and limits %s are those of a fresh one" % (c.who, what))
    tap.has(plain.all, "A=b c", c.who + ": with what was asked for")
    c.ready()
    levels = [json.loads(r.stdout.splitlines()[0]) for r in (c.exec("true", opts=["--workspace", ws, "--level"]), c("exec", *c.base, "--workspace", ws, "--level"))]
    for level in levels:
        level["user"].pop("outside" if ROOT and c.pre == [] else "none", None)  # each has another
    tap.eq(*levels, c.who + ": and so is its level")
    c.ready()
    tap.eq(c.exec("no-such-program", opts=["--workspace", ws]).returncode, 127, c.who + ": a program that is not there is told")
    c.clear()


def terminal(c):
    def run(argv):
        pid, fd = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], argv, c.env)
        out = b""
        while True:
            try:
                part = os.read(fd, 4096)
            except OSError:
                break
            if not part:
                break
            out += part
        os.close(fd)
        return out, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    words = ["-t", "--", "sh", "-c", "tty; stty size; test -t 0 && echo yes; exit 3"]
    want = run(c.argv(["exec", *c.base, *words]))
    box = one(c)
    got = run(c.argv(["exec", *c.base, "--spare", "20", *words]))
    tap.ok(got == want and b"yes" in got[0] and wait_for(lambda: box not in inits(), 10), c.who + ": its terminal is one of its own as without", "%r\n%r" % (got, want))
    c.clear()


# --- used once ---------------------------------------------------------------------------------------------------
def once(c):
    c.exec("true")
    seen = []
    for _ in range(4):
        c.ready()
        r = c.exec("sh", "-c", "find /work /tmp /dev/shm | wc -l; set -- /proc/[0-9]*; echo $#; touch /work/f /tmp/f /dev/shm/f; "
                   "setsid sh -c 'sleep 1000 & sleep 1001' >/dev/null 2>&1 &")
        seen.append(r.all)
    tap.eq(set(seen), {"0: 3\n%s\n" % seen[0].split()[-1]}, c.who + ": no file and no process of one is in the next")
    tap.ok(wait_for(lambda: not processes("sleep"), 10), c.who + ": what a command leaves running ends with its sandbox", processes("sleep"))
    c.clear()


def crowd(c):
    """As many at once as there are spares, and as many again."""
    for _ in range(3):
        many = [c.start("sh", "-c", SAY + "; read x") for _ in range(2 * SPARES)]
        where = [p.stdout.readline() for p in many]
        for p in many:
            p.communicate("x\n")
        tap.ok(len(set(where)) == 2 * SPARES and all(p.returncode == 0 for p in many), c.who + ": of many at once each has one of its own", where)
        names = c.ready(SPARES)
        tap.eq(names, ["spare-%d" % i for i in range(1, SPARES + 1)], c.who + ": and no more than %d wait" % SPARES)
    for _ in range(6):
        wait = set(inits())
        some = [c.start("sh", "-c", SAY + "; read x") for _ in range(SPARES)]
        where = {p.stdout.readline().strip() for p in some}
        for p in some:
            p.communicate("x\n")
        c.ready(SPARES)
        if where & wait:
            break
    tap.ok(len(where & wait) >= 1 and len(where) == SPARES, c.who + ": those that waited were taken, each by one", "%r %r" % (where, wait))
    c.clear()


def specs(c):
    """Options that make another sandbox never get this one."""
    for n in ("64", "128", "64", "256", "128"):
        r = c.exec("sh", "-c", "ulimit -n", opts=["--limit", "open-files=" + n])
        tap.eq(r.all, "0: %s\n" % n, "%s: limits are those of the command (%s)" % (c.who, n))
        wait_for(lambda: any(b["limits"]["open_files"] == int(n) for b in c.list()), 20)
    r = c.exec("sh", "-c", "ulimit -n", opts=["--limit", "open-files=512"])
    rows = c.list()
    tap.ok(r.all == "0: 512\n" and len(rows) <= SPARES, c.who + ": also where others have all places", "%s %r" % (r.all, rows))
    c.clear()
    taken(c, "what is of the command alone makes no difference", "--env", "X=1", "--timeout", "20")
    box = one(c, "--label", "a=b")
    tap.ok(c.exec(*WHERE, opts=["--label", "a=c"]).stdout.strip() != box, c.who + ": another label is another sandbox")
    c.clear()


# --- as it would be built now ------------------------------------------------------------------------------------
def binds(c):
    d = c.dir + "/bound"
    os.makedirs(d + "/sub")
    opts = ["--ro-bind", d + ":/opt/bound"]
    see = ["sh", "-c", "ls /opt/bound /opt/bound/sub; " + SAY]

    def write(name):
        open(d + "/" + name, "w", encoding="ascii").close()

    box, r = takes(c, see, *opts, change=lambda: write("inside"))
    r = r.stdout
    tap.ok("inside" in r and box in r, c.who + ": a spare sees what changes in a directory", r)
    c.ready()
    os.rename(d, d + ".old")
    os.makedirs(d + "/sub")
    write("another")
    r = c.exec(*see, opts=opts).stdout
    tap.ok("another" in r and "inside" not in r, c.who + ": a directory that was replaced is the new one", r)
    c.clear()
    if not ROOT:
        return
    mount = lambda at: subprocess.run(["mount", "-t", "tmpfs", "tmpfs", at], check=True)
    umount = lambda at: subprocess.run(["umount", at], check=True)
    os.mkdir(c.dir + "/elsewhere")
    not_taken(c, "nor where something was mounted below it", lambda: mount(d + "/sub"), lambda: umount(d + "/sub"), opts=opts)
    box, r = takes(c, WHERE, *opts, change=lambda: os.path.ismount(c.dir + "/elsewhere") and umount(c.dir + "/elsewhere") or mount(c.dir + "/elsewhere"))
    tap.eq(r.stdout.strip(), box, c.who + ": a mount that it does not show makes no difference")
    subprocess.run(["umount", c.dir + "/elsewhere"], check=False, stderr=subprocess.DEVNULL)
    c.clear()


def callers(c):
    """A sandbox takes more from who builds it than options."""
    not_taken(c, "a caller with another limit of its own has another sandbox", lambda: None, pre=["prlimit", "--fsize=1000000"])
    not_taken(c, "one that has given up new privileges, too", lambda: None, pre=["setpriv", "--no-new-privs"])
    filtered = ["/usr/bin/python3", "-c", "import ctypes,os,sys\nclass F(ctypes.Structure): _fields_=[('n',ctypes.c_ushort),('p',ctypes.c_char_p)]\n"
                "p=ctypes.CDLL(None).prctl\np(38,1,0,0,0)\nassert p(22,2,ctypes.byref(F(1,b'\\x06\\0\\0\\0\\0\\0\\xff\\x7f')),0,0)==0\n"
                "os.execvp(sys.argv[1],sys.argv[1:])"]
    not_taken(c, "one behind a filter of system calls, too", lambda: None, pre=filtered)
    not_taken(c, "one of another mount namespace, too", lambda: None, pre=["unshare", "--mount"] if c.pre == [] else ["unshare", "--user", "--map-current-user", "--mount"])
    old = os.stat(BIN + "/cofferdam-inside").st_mtime_ns
    not_taken(c, "programs that were replaced make a new one", lambda: os.utime(BIN + "/cofferdam-inside"),
              lambda: os.utime(BIN + "/cofferdam-inside", ns=(old, old)))
    if boxes.OWN and c.pre == []:
        sub = boxes.OWN[-1] + "/other"
        os.mkdir(sub)
        not_taken(c, "one of another control group, too", lambda: None, pre=["sh", "-c", 'echo $$ > %s/cgroup.procs; exec "$@"' % sub, "sh"])
        wait_for(lambda: not os.path.exists(sub) or os.rmdir(sub) is None if not [d for d in os.listdir(sub) if os.path.isdir(sub + "/" + d)] else False, 10)
    taken(c, "the same caller has it")


def clocks(c):
    opts = ["--limit", "wall=1"]
    one(c, *opts, s=600)
    wait_for(lambda: c.list()[0]["left_ms"] < 598500, 20, 0.2)
    tap.eq(c.exec("echo", "ok", opts=opts, s=600).all, "0: ok\n", c.who + ": its time begins when it is taken")
    c.ready()
    tap.eq(c.exec("sleep", "100", opts=opts).returncode, 124, c.who + ": and ends, then")
    c.ready()
    with_long = c.start("sh", "-c", "echo up; read x")
    with_long.stdout.readline()
    tap.ok(wait_for(lambda: any(b["state"] == "spare" and b["limits"]["wall_s"] == 3600 for b in c.list()), 20),
           c.who + ": a command that runs long has the next one built meanwhile", c.list())
    with_long.communicate("x\n")
    c.clear()


# --- ends ---------------------------------------------------------------------------------------------------------
def parent(pid):
    with open("/proc/%d/stat" % pid, encoding="latin1") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def kills(c):
    for what, victims in (("supervisor", ["sandb"]), ("first process", ["init"]), ("supervisor and first process", ["sandb", "init"])):
        one(c)
        for v in victims:
            for pid in [p for p in processes("cofferdam-" + v) if v != "init" or p in inits().values()]:
                os.kill(pid, signal.SIGKILL)
        settled(c, "nothing is left of a spare whose %s is killed" % what)
        tap.eq(c.exec("echo", "on", s=1).all, "0: on\n", c.who + ": and the next command runs")
        settled(c, "as ever")
    one(c, s=20)
    p = c.start("sh", "-c", "echo up; sleep 1000", s=1)
    p.stdout.readline()
    p.kill()
    p.communicate()
    settled(c, "nor of one whose taker is killed, when the last spare's time is over")
    box = one(c)
    p = c.start("sh", "-c", "echo up; sleep 1000")
    p.stdout.readline()
    os.kill(parent(inits()[box]), signal.SIGKILL)
    p.communicate()
    tap.eq(p.returncode, 126, c.who + ": a command whose supervisor is killed says that its sandbox is gone")
    c.clear()
    settled(c, "and leaves nothing")
    box = one(c)
    os.kill(parent(inits()[box]), signal.SIGSTOP)
    tap.eq(c.exec("echo", "at once").all, "0: at once\n", c.who + ": one that does not answer is not waited for")
    os.kill(parent(inits()[box]), signal.SIGCONT)
    c.clear()


def strangers(c):
    """Only who built it can take it."""
    one(c)
    d, sock, lock = c.sockets, c.sockets + "/spare-1.sock", c.sockets + "/spare-1.lock"
    tap.eq((os.stat(d).st_mode & 0o777, os.stat(sock).st_mode & 0o777, os.stat(lock).st_mode & 0o777), (0o700, 0o600, 0o600),
           c.who + ": nobody else comes to its socket")
    for p in (c.dir, c.dir + "/runtime", d):
        os.chmod(p, 0o755)
    os.chmod(sock, 0o666)
    pid = os.fork()
    if pid == 0:
        os.setresgid(BOB, BOB, BOB)
        os.setresuid(BOB, BOB, BOB)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        try:
            s.connect(sock)
            s.sendall(b"\0\0\0\5\x22\0" + b"\0\0\0\1\1")
            os._exit(0 if s.recv(1) == b"" else 1)
        except ConnectionError:
            os._exit(0)
    tap.eq(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, c.who + ": and who would come, is not heard")
    for p in (c.dir + "/runtime", d):
        os.chmod(p, 0o700)
    tap.eq(c.ready(), ["spare-1"], c.who + ": it waits on")
    # An impostor in its place.
    with open(lock, encoding="ascii") as f:
        hint = f.read()
    c.clear()
    os.makedirs(d, 0o700, exist_ok=True)
    owner = os.stat(c.dir).st_uid
    os.chown(d, owner, owner)
    s = socket.socket(socket.AF_UNIX)
    pid = os.fork()
    if pid == 0:
        s.bind(sock)
        os.chmod(sock, 0o666)
        os.setresuid(BOB, BOB, BOB)
        s.listen(5)  # whose it is is who listens
        while True:
            conn = s.accept()[0]
            conn.recv(100000)
    s.close()
    wait_for(lambda: os.path.exists(sock), 10)
    with open(lock, "w", encoding="ascii") as f:
        f.write(hint)
    r = c.exec("echo", "mine")
    tap.eq(r.all, "0: mine\n", c.who + ": a stranger who listens in its place is not believed")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for p in (sock, lock):
        if os.path.exists(p):
            os.unlink(p)
    c.clear()


def words(c):
    for opts, part in ((["--spare", "0"], "--spare must be a number from 1 to 3600"), (["--spare", "3601"], "from 1 to 3600"),
                       (["--spare", "5", "--in", "x"], "--in x: options of a sandbox"), (["--spare", "5", "--backend", "crun"], "native")):
        r = c("exec", *opts, "--", "true")
        tap.ok(r.returncode == 2 and part in r.stderr, "%s: `%s` is refused" % (c.who, " ".join(opts)), r.all)


users = [Caller("root")] if ROOT else [Caller("user", base=["--limits-optional"])]
if ROOT:
    users.append(Caller("alice", ALICE, ["--limits-optional"]))
for user in users:
    CLEAN.clear()
    user("list")
    CLEAN.update(state())
    for part in (life, same, terminal, once, crowd, specs, binds, callers, clocks, kills):
        part(user)
    settled(user, "nothing is left at the end")
    words(user)
if ROOT:
    strangers(users[1])
tap.done()
