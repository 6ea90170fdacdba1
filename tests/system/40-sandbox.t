#!/usr/bin/python3
"""The sandbox from end to end: what code inside tries, what must work, limits, ends, what is left.

Attacks run only inside the sandbox, and that inside an outer mount, uts and pid namespace of
this test's own; the host side holds the canaries and verifies that none was touched.
"""
import array
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import boxes
from boxes import groups, mounts, processes
from harness import TOP, Tap, Temp, wait_for
from oldkernel import ENOSYS, absent

boxes.outer()
boxes.groups_own()

ROOT = os.geteuid() == 0
SPARE = 61234
SAN = os.environ.get("MODE", "opt") != "opt"
tap, temp = Tap(), Temp("sandbox")
os.chmod(temp.path, 0o755)
T = temp.path

BIN = boxes.programs(T + "/bin")
EXEC = [BIN + "/cofferdam", "sandbox", "exec"]
os.mkdir(T + "/probe")
os.chmod(T + "/probe", 0o755)
subprocess.run(["cc", "-O1", "-std=gnu17", "-D_GNU_SOURCE", "-static", "-pthread", "-o",
                T + "/probe/probe", TOP + "/tests/tools/probe.c"], check=True)
BASE = [] if ROOT else ["--limits-optional"]


def box(*argv, opts=(), user=None, base=None, **kw):
    """One command in a sandbox; argv after "--". Returns CompletedProcess with .took."""
    cmd = EXEC + (BASE if base is None else base) + list(opts) + ["--"] + list(argv)
    if user is not None:
        cmd = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] + cmd
    kw.setdefault("timeout", 120)
    if "input" not in kw:
        kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("text", True)
    begin = time.monotonic()
    r = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    r.took = time.monotonic() - begin
    r.all = "%s%s" % (r.stdout, r.stderr)
    return r


def sh(script, **kw):
    return box("bash", "-c", script, **kw)


def left_over(mark):
    return [p for p in processes() if mark in p[1] and p[0] != os.getpid()]


MOUNTS_BEFORE = mounts()

# --- the level that is reported ------------------------------------------------------------
r = box("true", opts=["--level"])
level = json.loads(r.stdout.splitlines()[0]) if r.stdout else {}
tap.eq(r.returncode, 0, "a command runs and its status comes back")
tap.ok(set(level.get("namespaces", [])) >= {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"},
       "the level names every namespace", r.all)
tap.eq(level.get("seccomp"), "filter", "the level says that the filter is on")
tap.ok(level.get("landlock_abi", 0) >= 1, "the level says which Landlock holds")
tap.eq(level.get("capabilities"), "none", "the level says that no capability is left")
if ROOT:
    tap.ok(2000000000 <= level["user"]["outside"] < 2000065536, "as root the code is a spare host id, never root")
    tap.eq(level["cgroup"]["controllers"], ["memory", "pids", "cpu"], "the level names the limits' controllers")

# --- canaries ------------------------------------------------------------------------------
SECRET = "canary-" + os.urandom(12).hex()
touched = []


def watch(s, name):
    def go():
        try:
            c, _ = s.accept()
            touched.append(name)
            c.close()
        except OSError:
            pass
    threading.Thread(target=go, daemon=True).start()


tcp = socket.create_server(("127.0.0.1", 0))
watch(tcp, "tcp")
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0cofferdam-canary-%d" % os.getpid())
abstract.listen()
watch(abstract, "abstract")
unix = socket.socket(socket.AF_UNIX)
unix.bind(T + "/canary.sock")
os.chmod(T + "/canary.sock", 0o777)
unix.listen()
watch(unix, "unix")
for d in (".ssh", ".aws", ".kube"):
    os.makedirs(T + "/home/" + d)
paths = []
for f in (".ssh/id_ed25519", ".aws/credentials", ".kube/config", ".netrc", ".pgpass"):
    paths.append(T + "/home/" + f)
    with open(paths[-1], "w") as fh:
        fh.write(SECRET)
    os.chmod(paths[-1], 0o644)
os.chmod(T + "/home", 0o755)
libc = ctypes.CDLL(None, use_errno=True)
KEY = 0x43460000 | (os.getpid() & 0xffff)
shm = libc.shmget(KEY, 4096, 0o1666)
devshm = "cofferdam-%d" % os.getpid()
with open("/dev/shm/" + devshm, "w") as f:
    f.write(SECRET)
bystander = subprocess.Popen(["sleep", "600", ], env={"CANARY": SECRET})
leak_file = os.open(paths[0], os.O_RDONLY)
leak_dir = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
own_filters = int([x.split()[1] for x in open("/proc/self/status") if x.startswith("Seccomp_filters:")][0])
ARGS = ["secret=" + SECRET, "filters=%d" % (own_filters + 1), "pid=%d" % bystander.pid, "tcp=%d" % tcp.getsockname()[1],
        "abstract=cofferdam-canary-%d" % os.getpid(), "unix=" + T + "/canary.sock", "shm=%d" % KEY,
        "devshm=" + devshm, "hostname=" + socket.gethostname()] + ["path=" + p for p in paths]


def hostile_parent():
    """Whoever starts the sandbox leaves it as much as possible."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGHUP})
    os.umask(0)


def probe(who, user=None, base=None, args=()):
    env = dict(os.environ, HTTP_PROXY="http://u:%s@h" % SECRET, AWS_SECRET_ACCESS_KEY=SECRET,
               PGPASSWORD=SECRET, LD_PRELOAD="", SSH_AUTH_SOCK=T + "/canary.sock")
    r = box("/opt/probe/probe", *ARGS, *args, opts=["--ro-bind", T + "/probe:/opt/probe", "--disk", "64"],
            user=user, base=base, env=env, cwd=T + "/home", pass_fds=(leak_file, leak_dir),
            preexec_fn=hostile_parent)
    lines, notes = r.stdout.splitlines(), {}
    for line in lines:
        if line.startswith("# "):
            notes[line[2:].split(":")[0]] = line
    n = 0
    for line in lines:
        word, _, name = line.partition(" ")
        if word in ("refused", "REACHED"):
            n += 1
            tap.ok(word == "refused", "%s: attack %s is refused" % (who, name), notes.get(name))
        elif word in ("works", "BROKEN"):
            n += 1
            tap.ok(word == "works", "%s: %s works beside it" % (who, name[2:]), notes.get(name))
    tap.ok(n >= 170, "%s: the probe ran to its end (%d checks)" % (who, n), r.all[-2000:])
    tap.eq(r.returncode, 0, "%s: the probe's own count of what was reached is none" % who)


probe("root" if ROOT else "user", args=["root=1"] if ROOT else [])
tap.eq(touched, [], "no canary socket of the host saw a connection")
tap.eq(bystander.poll(), None, "a process beside the sandbox lives on")
probe_direct = subprocess.run([T + "/probe/probe"], stdout=subprocess.PIPE, text=True)
tap.eq(probe_direct.returncode, 99, "the probe tries nothing outside a sandbox")

# --- tools and files -----------------------------------------------------------------------
for argv, want in ((["psql", "--version"], "psql (PostgreSQL)"), (["python3", "-c", "print(6*7)"], "42"),
                   (["bash", "-c", "echo $BASH_VERSION"], "."), (["git", "--version"], "git version"),
                   (["perl", "-e", "print 42"], "42"), (["curl", "--version"], "curl "),
                   (["node", "-e", "console.log(6*7)"], "42"), (["awk", "BEGIN{print 42}"], "42")):
    if shutil.which(argv[0]) and os.path.realpath(shutil.which(argv[0])).startswith("/usr") or \
            os.path.exists("/usr/bin/" + argv[0]):
        r = box(*argv)
        tap.ok(r.returncode == 0 and want in r.stdout, "%s works inside" % argv[0], r.all)
r = sh("id -un; pwd; hostname; echo $HOME; getent hosts localhost; touch /work/a /tmp/b && echo wrote")
tap.ok(r.stdout.split()[:4] == ["agent", "/work", "sandbox", "/work"] and "wrote" in r.stdout,
       "user, directory and host name are the sandbox's own; /work and /tmp are writable", r.all)
r = box("cat", input="in" * 200000)
tap.eq(r.stdout, "in" * 200000, "standard input goes in whole and output comes out whole")
r = sh("cat; echo err >&2; exit 3", input="x")
tap.eq((r.stdout, r.stderr.splitlines()[0], r.returncode), ("x", "err", 3),
       "standard output, standard error and the status are told apart")
r = sh("echo again > /dev/stdout && echo also > /dev/stderr")
tap.ok("again" in r.stdout and "also" in r.stderr, "/dev/stdout and /dev/stderr can be opened again", r.all)
r = sh("python3 -c 'import threading,subprocess,tempfile,sqlite3,ssl; t=threading.Thread(target=print,args=(1,));"
       "t.start();t.join();print(subprocess.check_output([\"echo\",\"2\"]))'")
tap.eq(r.returncode, 0, "python's threads, processes, temporary files and ssl work")

os.mkdir(T + "/ws")
r = sh("echo made > made; mkdir d; chmod u+s made; ln -s %s link; mkfifo fifo; stat -c %%U made" % paths[0],
       opts=["--workspace", T + "/ws"])
st = os.lstat(T + "/ws/made")
tap.ok(st.st_uid == os.geteuid() and "agent" in r.stdout,
       "a file made in a workspace belongs to the workspace's owner", r.all)
tap.eq(st.st_mode & 0o6000, 0, "no setuid bit can be set on a file that the host sees")
r = sh("cat made; cat link; ls /work", opts=["--workspace", T + "/ws"])
tap.ok("made" in r.stdout and SECRET not in r.all, "a second sandbox sees the workspace, and no link out of it", r.all)
r = sh("ls -A /work /tmp /dev/shm | grep -v :")
tap.eq(r.stdout.strip().replace(".code", ""), "", "without a workspace nothing of an earlier sandbox is there")
for ws in ("/etc", "/", "/usr", "relative", T + "/ws/../ws", "/tmp", T + "/ws/made", T + "/ws/link", T + "/none"):
    r = sh("echo in", opts=["--workspace", ws])
    tap.ok(r.returncode != 0 and "workspace" in r.stderr and "in" not in r.stdout.split(),
           "workspace %s is refused by name" % ws.replace(T, "T"), r.all)

# Directories with keys: a state directory never, the caller's own only when that is said.
STATE, MINE = T + "/state", T + "/mine"
for d in (STATE + "/keys", STATE + "/run", STATE + "/policy", MINE + "/work", MINE + "/.ssh", MINE + "/.aws", T + "/aside"):
    os.makedirs(d)
with open(MINE + "/.pgpass", "w", encoding="ascii") as f:
    f.write(SECRET)
os.symlink(STATE, T + "/alias")
sock = socket.socket(socket.AF_UNIX)
sock.bind(STATE + "/run/agent.sock")
for how in (["--state", STATE], ["--state", T + "/alias"], ["--socket", STATE + "/run/agent.sock"]):
    for opts in (["--workspace", STATE], ["--workspace", STATE + "/policy"], ["--workspace", T], ["--ro-bind", STATE + ":/opt/s"]):
        for unsafe in ([], ["--workspace-unsafe"]):
            r = sh("echo in", opts=how + opts + unsafe)
            tap.ok(r.returncode == 2 and "the state directory " + STATE in r.stderr and "in" not in r.stdout.split(),
                   "%s is refused" % " ".join(how + opts + unsafe).replace(T, "T"), r.all)
    r = sh("echo in", opts=how + ["--workspace", T + "/aside"])
    tap.eq(r.stdout, "in\n", "a directory beside it is not, with " + how[0])
if ROOT:
    subprocess.run(["mount", "--bind", STATE, T + "/aside"], check=True)
    r = sh("echo in", opts=["--state", STATE, "--workspace", T + "/aside"])
    tap.ok(r.returncode == 2 and "state directory" in r.stderr, "a bind mount of it is it", r.all)
    subprocess.run(["umount", T + "/aside"], check=True)
mine = dict(os.environ, HOME=MINE)
r = sh("cat .pgpass", opts=["--workspace", MINE], env=mine)
tap.ok(r.returncode == 2 and all(MINE + x in r.stderr for x in ("/.ssh", "/.aws", "/.pgpass")) and SECRET not in r.all,
       "a workspace with the caller's own secrets is refused, and they are named", r.all)
r = sh("echo in", opts=["--workspace", MINE + "/.ssh"], env=mine)
tap.ok(r.returncode == 2 and MINE + "/.ssh" in r.stderr, "so is one of them itself", r.all)
r = sh("cat .pgpass", opts=["--workspace", MINE, "--workspace-unsafe", "--level"], env=mine)
tap.ok(SECRET in r.stdout and "--workspace-unsafe: code in the sandbox can read" in r.stderr,
       "--workspace-unsafe allows it, with a warning", r.all)
tap.eq(json.loads(r.stdout.splitlines()[0])["workspace_unsafe"], [MINE + x for x in ("/.ssh", "/.aws", "/.pgpass")],
       "and the level says so")
r = sh("echo in", opts=["--workspace", MINE + "/work", "--level"], env=mine)
tap.ok("in" in r.stdout.split() and "workspace_unsafe" not in r.stdout and r.stderr == "",
       "a plain directory of the same home is a workspace", r.all)
for b in ("%s:/usr/x" % T, "%s:/etc" % T, "%s:/work/x" % T, "%s:/opt/../etc" % T, "x:/opt/x",
          "%s/none:/opt/x" % T, "%s:/proc/x" % T):
    r = sh("echo in", opts=["--ro-bind", b])
    tap.ok(r.returncode != 0 and "bind" in r.stderr and "in" not in r.stdout.split(),
           "bind %s is refused by name" % b.replace(T, "T"), r.all)
r = sh("cat /opt/x/y/.netrc; echo no > /opt/x/y/.netrc || echo refused", opts=["--ro-bind", T + "/home:/opt/x/y"])
tap.ok(SECRET in r.stdout and "refused" in r.stdout, "a bind that was asked for is there, and read-only", r.all)

# Each wall alone: the host's own file rights and Landlock would hide a mount that is not read-only.
r = sh("cat /proc/self/mountinfo")
rw = [x.split()[4] for x in r.stdout.splitlines() if "ro" not in x.split()[5].split(",")]
tap.eq(sorted(m for m in rw if not m.startswith(("/dev/", "/proc/")) or m == "/dev/shm"), ["/dev/shm", "/proc", "/tmp", "/work"],
       "every mount is read-only but /work, /tmp, /dev/shm and /proc, which has what is the processes' own")
# /dev itself holds the nodes, and cannot be written; its null also covers files of /proc.
loose = [x for x in r.stdout.splitlines() if "nosuid" not in x.split()[5].split(",") or
         ("nodev" not in x.split()[5] and " - devtmpfs " not in x and " - devpts " not in x and
          not ({"ro", "noexec"} <= set(x.split()[5].split(",")) and x.split()[3].split("/")[1] == "dev"))]
tap.eq(loose, [], "every mount is nosuid, and nodev but for the device nodes themselves")

# --- two at a time -------------------------------------------------------------------------
other = subprocess.Popen(EXEC + BASE + ["--", "python3", "-c",
    "import socket,time\nopen('/tmp/mine','w')\nopen('/dev/shm/mine','w')\n"
    "s=socket.create_server(('127.0.0.1',7777))\na=socket.socket(socket.AF_UNIX)\n"
    "a.bind('\\0peer')\na.listen()\nprint('up',flush=True)\ntime.sleep(60)"],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
other.stdout.readline()
r = box("python3", "-c",
        "import socket,os\ns=socket.socket()\nprint(s.connect_ex(('127.0.0.1',7777)))\n"
        "a=socket.socket(socket.AF_UNIX)\nprint(a.connect_ex('\\0peer'))\n"
        "print(os.path.exists('/tmp/mine'),os.path.exists('/dev/shm/mine'))\n"
        "print(len([p for p in os.listdir('/proc') if p.isdigit()]))")
tap.eq(r.stdout.split(), ["111", "111", "False", "False", "1"],
       "two sandboxes reach neither each other's ports, abstract sockets, files nor processes")
other.terminate()
other.wait()

# --- limits --------------------------------------------------------------------------------
if ROOT:
    r = box("python3", "-c", "import os,time\nn=0\ntry:\n  while n<500:\n    if os.fork()==0: time.sleep(30); os._exit(0)\n    n+=1\n"
            "except OSError as e: print('EAGAIN', n, e.errno)", opts=["--pids", "40"])
    got = r.stdout.split()
    tap.ok(got[:1] == ["EAGAIN"] and 30 <= int(got[1]) < 40, "a fork bomb ends at the limit on processes", r.all)
    r = sh("for i in $(seq 20); do sleep 0.1 & done; wait; echo all", opts=["--pids", "40"])
    tap.has(r.stdout, "all", "and twenty processes under that limit run")
    for name, code in (("anonymous", "b=bytearray(400<<20)\nfor i in range(0,len(b),4096): b[i]=1"),
                       ("tmpfs", "f=open('/tmp/x','wb')\nfor i in range(400): f.write(b'x'*(1<<20))"),
                       ("memfd", "import os\nf=os.memfd_create('x')\nfor i in range(400): os.write(f,b'x'*(1<<20))")):
        r = box("python3", "-c", code + "\nprint('survived')", opts=["--memory", "128"])
        tap.ok(r.returncode == 125 and "memory limit" in r.stderr and "survived" not in r.stdout,
               "%s memory over the limit is ended, and said to be that" % name, r.all)
    r = box("python3", "-c", "b=bytearray(80<<20)\nfor i in range(0,len(b),4096): b[i]=1\nprint('survived')",
            opts=["--memory", "128"])
    tap.has(r.stdout, "survived", "memory under the limit is given")
    r = box("python3", "-c", "import os,time\nif os.fork(): pass\ne=time.time()+1.5\nwhile time.time()<e: pass\n"
            "print(time.process_time())", opts=["--cpu", "40"])
    spent = sum(float(x) for x in r.stdout.split())
    tap.ok(0.2 < spent < 1.0, "two busy processes share four tenths of a processor (%.2f s of 1.5)" % spent, r.all)
r = box("sh", "-c", "yes", opts=["--output", "4"])
tap.ok(r.returncode == 125 and len(r.stdout) == 4 << 20 and "output limit" in r.stderr,
       "endless output is cut at its limit, and said to be that", (r.returncode, len(r.stdout), r.stderr))
r = box("head", "-c", str(3 << 20), "/dev/zero", opts=["--output", "4"])
tap.eq((r.returncode, len(r.stdout)), (0, 3 << 20), "output under the limit comes whole")
r = box("dd", "if=/dev/zero", "of=/work/x", "bs=1M", "count=20", opts=["--disk", "8"])
tap.has(r.stderr, "No space left", "the private workspace has a size")
r = sh("ulimit -c; ulimit -n")
tap.eq(r.stdout.split()[0], "0", "no core files")

# --- time and ends -------------------------------------------------------------------------
MARK = "31" + str(os.getpid())
for name, script in (
        ("a sleeper", "sleep %s" % MARK),
        ("a double-forked daemon", "(setsid sleep %s </dev/null >/dev/null 2>&1 &) ; sleep %s" % (MARK, MARK)),
        ("one that ignores SIGTERM", "trap '' TERM HUP INT; sleep %s; sleep %s" % (MARK, MARK)),
        ("a stopped one", "sleep %s & kill -STOP $!; kill -STOP $$" % MARK),
        ("one that signals pid 1", "kill -STOP 1; kill -9 1; kill -SEGV 1; sleep %s" % MARK),
        ("a hundred children", "for i in $(seq 100); do sleep %s & done; wait" % MARK)):
    r = sh(script, opts=["--timeout", "1"])
    tap.ok(r.returncode == 124 and r.took < 3 and not left_over("sleep " + MARK),
           "the time limit ends %s and all it started (%.1f s)" % (name, r.took), r.all)
r = sh("sleep %s & echo hi" % MARK)
tap.ok(r.stdout == "hi\n" and r.took < 5 and not left_over("sleep " + MARK),
       "a survivor that holds the output open does not hang the collector, and is ended", r.all)
for script, want in (("exit 0", 0), ("exit 200", 200), ("kill -9 $$", 137), ("exit 137", 137), ("kill -11 $$", 139)):
    tap.eq(sh(script).returncode, want, "status of %s is faithful" % script)
tap.ok("signal 9" in sh("kill -9 $$").stderr and "signal" not in sh("exit 137").stderr,
       "a signal and a status of the same number are told apart")
r = box("/nonexistent")
tap.ok(r.returncode == 127 and "/nonexistent" in r.stderr, "a program that is not there is named", r.all)


def start_sleeper():
    p = subprocess.Popen(EXEC + BASE + ["--", "sh", "-c", "echo up; sleep %s & sleep %s" % (MARK, MARK)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    p.stdout.readline()
    return p


def ours():
    return [c for _, c in processes() if c.startswith(("cofferdam-sandbox", "cofferdam-init", BIN))]


def of_name(want):
    return [pid for pid, cmd in processes() if cmd.split(" ")[0] == want]


p = start_sleeper()
p.kill()
p.wait()
tap.ok(wait_for(lambda: not left_over("sleep " + MARK) and not ours(), 5),
       "the caller killed with SIGKILL: nothing of the sandbox lives", ours())
tap.ok(wait_for(lambda: not groups(), 5), "and no limits group is left", groups())
p = start_sleeper()
init = of_name("cofferdam-init")
for pid in init:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # a minder, gone with it
p.wait(20)
tap.ok(init and p.returncode == 126 and not left_over("sleep " + MARK), "pid 1 killed from outside: the same, and 126",
       (init, p.returncode))

# One that has a supervisor of its own.
BOX = "t%d" % os.getpid()
OPTS = BASE + ["--limit", "linger=2"]


def start_in():
    subprocess.run(EXEC[:2] + ["create", BOX] + OPTS, check=True, stdin=subprocess.DEVNULL)
    q = subprocess.Popen(EXEC + ["--in", BOX, "--", "sh", "-c", "echo up; sleep %s & sleep %s" % (MARK, MARK)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    q.stdout.readline()
    return q


p = start_in()
both = of_name("cofferdam-sandbox")  # its janitor has the same name
launcher = [pid for pid in both if int(open("/proc/%d/stat" % pid).read().split(") ")[1].split()[1]) not in both]
for pid in launcher:
    os.kill(pid, signal.SIGKILL)
p.wait(20)
tap.ok(launcher and wait_for(lambda: not left_over("sleep " + MARK), 5),
       "the supervisor killed with SIGKILL: nothing of the sandbox lives", left_over(""))
tap.eq(p.returncode, 126, "and the caller says that the sandbox went away")
tap.ok(wait_for(lambda: not groups(), 5), "and no limits group is left then either", groups())
p = start_in()
p.kill()
p.wait()
tap.ok(left_over("sleep " + MARK) and of_name("cofferdam-sandbox"), "its caller killed with SIGKILL: it goes on")
tap.ok(wait_for(lambda: not left_over("sleep " + MARK) and not ours() and not groups(), 15),
       "for its time without a caller, and then nothing of it is left", (ours(), groups()))

# --- a missing layer -----------------------------------------------------------------------
X86 = os.uname().machine == "x86_64"
if X86:
    for nr, arg, words in ((444, None, "Landlock"), (317, 1, "system call filter"), (435, None, "sandbox: janitor"),
                           (155, None, "pivot_root"), (428, None, "sandbox:"), (442, None, "sandbox:"),
                           (126, None, "capability"), (250, 1, "keyring"), (166, None, "pivot_root"),
                           (322, None, "cofferdam-init"), (272, 0x4C020000, "net, ipc and uts namespaces"),
                           (272, 0x02000000, "cgroup namespace")):
        # keyctl absent is no missing layer (a kernel without keys), so it fails here as if over quota
        r = sh("echo ran", preexec_fn=absent(nr, arg0=arg, error=122 if nr == 250 else ENOSYS))
        tap.ok(r.returncode == 126 and words in r.stderr and "ran" not in r.stdout,
               "without system call %d: refused, naming %s" % (nr, words.strip(":")), r.all)
    r = sh("echo ran", preexec_fn=absent(5000))
    tap.has(r.stdout, "ran", "and with a call missing that nobody needs it runs")
r = subprocess.run(["unshare", "-U", "-r", "sh", "-c",
                    "echo 0 > /proc/sys/user/max_user_namespaces && exec %s --limits-optional -- echo ran" % " ".join(EXEC)],
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
tap.ok(r.returncode == 126 and "max_user_namespaces" in r.stdout and "ran\n" not in r.stdout,
       "without user namespaces: refused, naming the switch", r.stdout)

# --- as an ordinary user -------------------------------------------------------------------
if ROOT:
    r = sh("echo ran", user=SPARE)
    if r.returncode == 126:
        tap.ok("limits on memory, processes and processor time cannot be had" in r.stderr and
               "systemd-run --user --scope" in r.stderr and "ran" not in r.stdout,
               "a user without a cgroup is refused in words, with what to do", r.all)
    r = box("id", "-u", user=SPARE, base=["--limits-optional"], opts=["--level"])
    lv = json.loads(r.stdout.splitlines()[0])
    tap.eq((lv["user"]["outside"], lv["cgroup"], r.stdout.split()[-1]), (SPARE, "none", "1000"),
           "with limits made optional it runs as the user, and the level says that limits are none")
    # canary files readable by that user, so that only the sandbox stands between
    probe("user", user=SPARE, base=["--limits-optional"])
    tap.eq(touched, [], "no canary socket saw a connection from the user's sandbox either")
    os.mkdir(T + "/uws")
    os.chown(T + "/uws", SPARE, SPARE)
    r = sh("echo mine > f; id -un", user=SPARE, base=["--limits-optional"], opts=["--workspace", T + "/uws"])
    tap.eq(os.stat(T + "/uws/f").st_uid, SPARE, "an ordinary user's workspace keeps its owner")

# --- nothing grows -------------------------------------------------------------------------
before = (mounts(), len(processes()), len(os.listdir("/proc/self/fd")), groups())
bad = [i for i in range(100) if box("true").returncode != 0]
tap.eq(bad, [], "a hundred runs in a row succeed")
tap.ok(wait_for(lambda: (mounts(), len(processes()), len(os.listdir("/proc/self/fd")), groups()) == before, 3),
       "and leave no mount, process, descriptor or group",
       "%r\n%r" % (before, (mounts(), len(processes()), len(os.listdir("/proc/self/fd")), groups())))
many = [subprocess.Popen(EXEC + BASE + ["--", "sh", "-c", "echo %d > /tmp/n; sleep 0.3; cat /tmp/n" % i],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) for i in range(12)]
tap.eq([p.communicate()[0].strip() for p in many], [str(i) for i in range(12)],
       "twelve at once each see their own files")
tap.ok(wait_for(lambda: mounts() == MOUNTS_BEFORE and not groups(), 5),
       "at the end there are the mounts and groups of the begin", (mounts(), MOUNTS_BEFORE, groups()))
tap.ok(wait_for(lambda: not ours(), 5), "and no process of ours", ours())

bystander.kill()
bystander.wait()
os.unlink("/dev/shm/" + devshm)
if shm >= 0:
    libc.shmctl(shm, 0, None)
tap.done()
