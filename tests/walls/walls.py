"""What the tests of the walls share: the host with its canaries, and one command in a sandbox.

Everything stands in an outer mount, uts, pid, net and ipc namespace of the test's own. Its loopback
has the addresses of the whole world that code inside might call: whatever leaves a sandbox arrives
here and is noted.
"""
import ctypes
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from harness import BUILD, wait_for

OUTER = ["unshare", "--mount", "--uts", "--pid", "--net", "--ipc", "--fork", "--mount-proc", "--kill-child"]
ROOT = os.geteuid() == 0
SPARE = 61234
PROBE = os.path.join(BUILD, "walls_probe")
WORLD = ("1.1.1.1", "8.8.8.8", "169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "172.17.0.1",
         "192.168.1.1", "198.51.100.7", "255.255.255.255")
WORLD6 = ("2606:4700:4700::1111", "fd00:ec2::254")
GROUPS = []
libc = ctypes.CDLL(None, use_errno=True)


def outer():
    """Starts this program again inside the outer namespaces; as another user than root there are none to be had."""
    if not ROOT:
        print("1..0 # SKIP the outer namespaces that attacks run in need root")
        sys.exit(0)
    if "COFFERDAM_OUTER" not in os.environ:
        os.environ["COFFERDAM_OUTER"] = "1"
        os.execvp(OUTER[0], OUTER + [sys.executable] + sys.argv)
    own_groups()
    serve_as_first()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "link", "add", "canary0", "type", "veth", "peer", "name", "canary1"], check=True)


def own_groups():
    """Control groups of the test's own, so that what is left beneath them is its own as well."""
    with open("/proc/self/cgroup", encoding="ascii") as f:
        for line in f:
            _, names, path = line.rstrip("\n").split(":", 2)
            for base in ["/sys/fs/cgroup/" + n for n in (names or "unified").split(",")] + ["/sys/fs/cgroup"]:
                d = base + path.rstrip("/")
                if os.path.exists(d + "/cgroup.procs"):
                    GROUPS.append("%s/walls-%d-%d" % (d, os.getppid(), time.monotonic_ns()))
                    break


def serve_as_first():
    """What is pid 1 takes the dead; the test itself goes on in a child, in groups of its own."""
    made = []
    for d in GROUPS:
        try:
            os.mkdir(d)
            made.append(d)
        except OSError:
            pass
    GROUPS[:] = made
    child = os.fork()
    if child == 0:
        for d in GROUPS:
            try:
                with open(d + "/cgroup.procs", "w", encoding="ascii") as f:
                    f.write(str(os.getpid()))
            except OSError:
                pass
        return
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    for _ in range(100):
        left = [d for d in GROUPS if not rmdir(d)]
        if not left:
            break
        time.sleep(0.05)
    os._exit(os.waitstatus_to_exitcode(status) & 0xff)


def rmdir(d):
    for base, _, _ in os.walk(d, topdown=False):
        try:
            os.rmdir(base)
        except OSError:
            return False
    return True


def processes():
    """(pid, comm, command line) of everything that lives in the outer pid namespace."""
    out = []
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                # The test is pid 1 here: what loses its parent and ends waits for it, and is no process.
                with open("/proc/%s/stat" % d, "rb") as f:
                    if f.read().rsplit(b")", 1)[1].split()[0] == b"Z":
                        continue
                with open("/proc/%s/cmdline" % d, "rb") as f:
                    line = f.read().replace(b"\0", b" ").decode("latin1").strip()
                with open("/proc/%s/comm" % d, "rb") as f:
                    out.append((int(d), f.read().decode("latin1").strip(), line))
            except OSError:
                pass
    return out


def marked(mark):
    return [p for p in processes() if p[1] == mark]


def ours():
    """Processes of any sandbox."""
    return [p for p in processes() if p[1] in ("cofferdam-sandb", "cofferdam-init", "init", "cofferdam")]


def kill(pid):
    """SIGKILL to one that may just have gone, with the one that was killed before it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def groups():
    """Directories that sandboxes made beneath the test's own groups."""
    return [os.path.join(base, d) for top in GROUPS for base, dirs, _ in os.walk(top) for d in dirs]


def empty(group):
    """Ends what is in a group, and removes it."""
    def once():
        try:
            with open(group + "/cgroup.procs", encoding="ascii") as f:
                for pid in f.read().split():
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
        return rmdir(group)
    return wait_for(once, 10)


def namespaces(kind):
    """How many namespaces of a kind the processes of the outer one are in."""
    seen = set()
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                seen.add(os.readlink("/proc/%s/ns/%s" % (d, kind)))
            except OSError:
                pass
    return len(seen)


# A host whose /work, /tmp and /opt may be written to, for what runs with the layer of mounts off: then the
# sandbox sees this in place of the machine that the test runs on.
BARE_HOST = """
T=$1; R=$T/bare; shift
mkdir -p "$R" && mount -t tmpfs none "$R" && cd "$R" && mkdir -p usr etc proc dev sys tmp work opt/probe opt/bound run root old ".$T"
for l in bin sbin lib lib64; do ln -s usr/$l $l; done
for d in usr etc proc dev sys; do mount --rbind /$d $d; done
chmod 1777 work tmp; chmod 700 root
mount --bind "$T" ".$T"; mount --bind "$T/probe" opt/probe; mount --bind "$T/bound" opt/bound
pivot_root . old && umount -l old && cd / && exec "$@"
"""


class Host:
    """Canaries of every kind, and who has touched them."""

    def __init__(self, path):
        self.t, self.secret, self.touched, self.args = path, "canary-" + os.urandom(12).hex(), [], []
        self.keep = []
        self.files()
        self.world()
        self.listeners()
        self.ipc()
        self.others()

    def say(self, **kw):
        self.args += ["%s=%s" % kv for kv in kw.items()]

    def watch(self, sock, name):
        """Notes everything that arrives at a socket of either kind."""
        self.keep.append(sock)

        def go():
            try:
                while True:
                    if sock.type & socket.SOCK_DGRAM:
                        sock.recv(100)
                    else:
                        sock.accept()[0].close()
                    self.touched.append(name)
            except OSError:
                pass
        threading.Thread(target=go, daemon=True).start()

    def write(self, name, text, mode=0o644):
        path = self.t + "/" + name
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def files(self):
        t = self.t
        os.mkdir(t + "/probe", 0o755)
        shutil.copy(PROBE, t + "/probe/probe")
        shutil.copy(PROBE, t + "/probe/suid")
        shutil.copy(PROBE, t + "/probe/fcap")
        os.chmod(t + "/probe/suid", 0o6755)
        # every capability, effective, for whoever runs it
        os.setxattr(t + "/probe/fcap", "security.capability", struct.pack("<IIIII", 0x02000001, 0xffffffff, 0, 0x1ff, 0))
        self.say(suid="/opt/probe/suid", fcap="/opt/probe/fcap")
        for f in (".ssh/id_ed25519", ".aws/credentials", ".kube/config", ".config/gcloud/credentials.db", ".netrc",
                  ".pgpass", ".docker/config.json", ".npmrc", ".git-credentials"):
            self.say(path=self.write("home/" + f, self.secret))
        self.say(state=self.write("state/keys/log.key", self.secret))
        self.bound()
        self.say(bind="/opt/bound", bindfile="/opt/bound/file", hostdir=os.path.basename(t), secret=self.secret,
                 hostname=socket.gethostname())
        if os.path.exists("/etc/machine-id"):
            with open("/etc/machine-id", encoding="ascii") as f:
                self.say(machine=f.read().strip() or "none-at-all")
        self.binds = ["--ro-bind", t + "/probe:/opt/probe", "--ro-bind", t + "/bound:/opt/bound"]

    def world(self):
        for a in WORLD[:-1]:
            subprocess.run(["ip", "addr", "add", a + "/32", "dev", "lo"], check=True)
        for a in WORLD6:
            subprocess.run(["ip", "-6", "addr", "add", a + "/128", "dev", "lo", "nodad"], check=False)
        for port in (53, 80, 443, 853, 2375):
            s = socket.create_server(("", port))
            self.watch(s, "tcp %d of the world" % port)
        for port in (53, 67, 443, 1900, 5353):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind(("", port))
            self.watch(s, "udp %d of the world" % port)
        s = socket.create_server(("", 0))
        self.watch(s, "tcp of the host's address")
        self.say(address="198.51.100.7", tcpall=s.getsockname()[1])

    def listeners(self):
        s = socket.create_server(("127.0.0.1", 0))
        self.watch(s, "tcp")
        self.say(tcp=s.getsockname()[1])
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 0))
        self.watch(s, "udp")
        self.say(udp=s.getsockname()[1])
        s = socket.create_server(("::", 0), family=socket.AF_INET6)
        self.watch(s, "tcp6")
        self.say(tcp6=s.getsockname()[1])
        for name, kind in (("abstract", socket.SOCK_STREAM), ("abstractdgram", socket.SOCK_DGRAM)):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind("\0cofferdam-%s-%d" % (name, os.getpid()))
            if kind == socket.SOCK_STREAM:
                s.listen()
            self.watch(s, name)
            self.say(**{name: "cofferdam-%s-%d" % (name, os.getpid())})
        for name, kind in (("unix", socket.SOCK_STREAM), ("sshagent", socket.SOCK_STREAM), ("docker", socket.SOCK_STREAM),
                           ("dbus", socket.SOCK_STREAM), ("journal", socket.SOCK_DGRAM)):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind("%s/%s.sock" % (self.t, name))
            os.chmod("%s/%s.sock" % (self.t, name), 0o777)
            if kind == socket.SOCK_STREAM:
                s.listen()
            self.watch(s, name)
            self.say(**{name: "%s/%s.sock" % (self.t, name)})

    def ipc(self):
        key = 0x43460000 | (os.getpid() & 0xffff)
        self.shm, self.sem, self.msg = (libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666),
                                        libc.msgget(key, 0o1666))
        self.say(shm=key, sem=key, msg=key, shmid=self.shm)
        rt = ctypes.CDLL("librt.so.1", use_errno=True)
        old = os.umask(0)
        self.mq = rt.mq_open(b"/cofferdam-canary", os.O_CREAT | os.O_RDWR, 0o666, None)
        os.umask(old)
        self.say(mq="cofferdam-canary")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
        with open("/dev/shm/cofferdam-canary", "w", encoding="ascii") as f:
            f.write(self.secret)
        self.say(devshm="cofferdam-canary")

    def others(self):
        """Processes beside the sandbox: of root, and of the user that it runs as. Their numbers are high, so
        that no process inside has the same."""
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as f:
            f.write("20000")
        self.bystander = subprocess.Popen(["sleep", "9000"], env={"CANARY": self.secret})
        self.same = subprocess.Popen(["setpriv", "--reuid", "2000000000", "--regid", "2000000000", "--clear-groups", "sleep", "9000"],
                                     env={"CANARY": self.secret})
        self.say(pid=self.bystander.pid, samepid=self.same.pid, comm="sleep")
        self.leaks = [os.open(self.t + "/home/.netrc", os.O_RDONLY), os.open("/", os.O_RDONLY | os.O_DIRECTORY),
                      os.open("/proc/self/ns/net", os.O_RDONLY)]
        # add_key for the session keyring; whoever starts the sandbox has it
        libc.syscall(250, 1, None)
        if libc.syscall(248, b"user", b"cofferdam-canary", self.secret.encode(), len(self.secret), -3) >= 0:
            self.say(key="cofferdam-canary")

    def hostile(self):
        """Whoever starts the sandbox leaves it as much as possible (runs in the child before exec)."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGHUP})
        os.umask(0)
        os.nice(3)
        libc.prctl(29, 1000000, 0, 0, 0)  # timer slack
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        for fd, at in zip(self.leaks, (300, 701, 1023)):
            os.dup2(fd, at)

    def environment(self):
        return dict(os.environ, HTTP_PROXY="http://u:%s@h" % self.secret, https_proxy="http://u:%s@h" % self.secret,
                    AWS_SECRET_ACCESS_KEY=self.secret, PGPASSWORD=self.secret, GITHUB_TOKEN=self.secret,
                    SSH_AUTH_SOCK=self.t + "/sshagent.sock", DBUS_SESSION_BUS_ADDRESS="unix:path=%s/dbus.sock" % self.t,
                    DOCKER_HOST="unix://%s/docker.sock" % self.t, BASH_ENV=self.t + "/home/.netrc")

    def untouched(self):
        """What was reached since the last call, in words; also whether what stands beside lives."""
        time.sleep(0.02)
        out, self.touched[:] = sorted(set(self.touched)), []
        for p in (self.bystander, self.same):
            if p.poll() is not None:
                out.append("a process beside the sandbox was ended")
        if socket.gethostname() != [a[9:] for a in self.args if a.startswith("hostname=")][0]:
            out.append("the host's name was changed")
        with open(self.t + "/bound/file", encoding="ascii") as f:
            if f.read() != "x" * 8192 or os.stat(self.t + "/bound/file").st_mode != 0o100666:
                out.append("a file of the host's was changed")
        if sorted(os.listdir(self.t + "/bound")) != ["file"]:
            out.append("a file of the host's was made")
        self.bound()
        return out

    def bound(self):
        """A file and a directory that are writable by anybody on the host: only the wall's own layers make them
        read-only inside."""
        shutil.rmtree(self.t + "/bound", ignore_errors=True)
        self.write("bound/file", "x" * 8192, 0o666)
        os.chmod(self.t + "/bound", 0o777)

    def end(self):
        for p in (self.bystander, self.same):
            p.kill()
            p.wait()
        if self.shm >= 0:
            libc.shmctl(self.shm, 0, None)


class Boxes:
    """Commands in sandboxes of one build, back end and user."""

    def __init__(self, host, build, options=(), user=None, env=None, bare=False):
        self.bare = ["unshare", "--mount", "sh", "-c", BARE_HOST, "sh", host.t] if bare else []
        self.host, self.options, self.user, self.env = host, list(options), user, env or {}
        self.bin = os.path.join(host.t, "bin-" + os.path.basename(build))
        if not os.path.isdir(self.bin):
            os.mkdir(self.bin, 0o755)
            # A spare user cannot look into every build directory: it gets a copy of the programs.
            for p in os.listdir(build):
                if p.startswith("cofferdam") and os.path.isfile(os.path.join(build, p)):
                    shutil.copy(os.path.join(build, p), self.bin)
        self.cli = [self.bin + "/cofferdam", "sandbox"]

    def command(self, *argv, opts=()):
        who = [] if self.user is None else ["setpriv", "--reuid", str(self.user), "--regid", str(self.user),
                                            "--clear-groups"]
        return self.bare + who + self.cli + ["exec"] + self.options + list(opts) + ["--"] + list(argv)

    def run(self, *argv, opts=(), **kw):
        kw.setdefault("timeout", 120)
        kw.setdefault("encoding", "utf-8")
        kw.setdefault("errors", "replace")
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        kw["env"] = dict(kw.get("env") or os.environ, **self.env)
        r = subprocess.run(self.command(*argv, opts=opts), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        r.all = "exit %d\n%s%s" % (r.returncode, r.stdout[-3000:], r.stderr[-3000:])
        return r

    def sh(self, script, **kw):
        return self.run("bash", "-c", script, **kw)

    def start(self, *argv, opts=(), **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stderr", subprocess.DEVNULL)
        return subprocess.Popen(self.command(*argv, opts=opts), stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, **self.env), **kw)

    def call(self, *argv, **kw):
        """Another command of `cofferdam sandbox`."""
        kw.setdefault("timeout", 60)
        r = subprocess.run(self.cli + list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                           env=dict(os.environ, **self.env), **kw)
        r.all = "exit %d\n%s%s" % (r.returncode, r.stdout[-3000:], r.stderr[-3000:])
        return r

    def probe(self, *args, opts=(), **kw):
        """Words of the probe by check: "refused", "REACHED", "works", "BROKEN", "skipped"; and its notes."""
        h = self.host
        args += ("unmounted=1",) if self.bare else ()
        r = self.run("/opt/probe/probe", *args, *h.args, opts=list(h.binds) + list(opts), env=h.environment(),
                     cwd=h.t + "/home", close_fds=False, preexec_fn=h.hostile, **kw)
        said, notes = {}, {}
        for line in r.stdout.splitlines():
            if line.startswith("# "):
                notes[line[2:].split(":")[0]] = line[2:]
                continue
            word, _, name = line.partition(" ")
            if word in ("refused", "REACHED", "works", "BROKEN", "skipped"):
                said[name] = word
        return r, said, notes


def table():
    """The probe's checks: (id, kind, layers, options, sentence)."""
    out = subprocess.run([PROBE, "list"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    return [line.split("\t") for line in out.splitlines()]


def gone(mark):
    return wait_for(lambda: not marked(mark), 10)
