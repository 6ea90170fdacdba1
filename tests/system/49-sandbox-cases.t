#!/usr/bin/python3
"""Cases of the sandbox taken from public bug reports. Each part is named after its case (SBX-01 ...).

What of them is a wall of its own is tried call by call in 40-sandbox.t and 43-walls.t; here each case is told as it was reported.
"""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Pg, Stack, Tap, Temp, wait_for
from oldkernel import EPERM, absent

tap = Tap()
temp = Temp("sandbox-cases")
OPTIONAL = [] if os.geteuid() == 0 else ["--limits-optional"]


def box(*argv, opts=(), **kw):
    kw.setdefault("timeout", 120)
    return subprocess.run([CLI, "sandbox", "exec", *OPTIONAL, *opts, "--", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace", **kw)


# --- SBX-01: a sandbox that cannot be had -------------------------------------------------------------------
work = temp.path + "/work"
os.mkdir(work, 0o777)
marker = work + "/marker"
WRITE = ("sh", "-c", "id > /work/marker; echo ran")
MOUNT = ["--workspace", work]
r = box(*WRITE, opts=MOUNT)
tap.ok(r.returncode == 0 and os.path.exists(marker), "SBX-01: where every layer is there the command runs", r.stdout + r.stderr)
os.unlink(marker)
if os.uname().machine == "x86_64":
    for what, calls, word in (("unshare is refused", (272,), "namespace"), ("clone3 and unshare are refused", (435, 272), "janitor"), ("there is no Landlock", (444, 445, 446), "Landlock")):
        r = box(*WRITE, opts=MOUNT, preexec_fn=absent(*calls, error=EPERM))
        tap.ok(r.returncode == 126 and not os.path.exists(marker) and word in r.stderr and "ran" not in r.stdout,
               "SBX-01: %s: nothing is executed, a status of its own, and the reason names what is missing" % what, (r.returncode, r.stdout, r.stderr))
broken = temp.path + "/broken"
shutil.copytree(os.path.dirname(CLI), broken, ignore=lambda d, names: [n for n in names if not n.startswith("cofferdam") or os.path.isdir(d + "/" + n)])
with open(broken + "/cofferdam-init", "w", encoding="ascii") as f:
    f.write("#!/bin/sh\nexit 1\n")
os.chmod(broken + "/cofferdam-init", 0o755)
r = subprocess.run([broken + "/cofferdam", "sandbox", "exec", *OPTIONAL, *MOUNT, "--", *WRITE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT, encoding="utf-8", timeout=60)
tap.ok(r.returncode == 126 and not os.path.exists(marker) and "ran" not in r.stdout.split(), "SBX-01: a helper that is there and ends with 1: nothing is executed either",
       (r.returncode, r.stdout))
d = subprocess.run([CLI, "doctor"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=60)
tap.ok("seccomp" in d.stdout and "Landlock" in d.stdout, "SBX-01: doctor says what the host has, by trying it", d.stdout)

# --- SBX-02: other ways into the kernel ------------------------------------------------------------------------
TRY = r"""
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {"socket": (41, 2, 1, 0), "socket6": (41, 10, 1, 0), "packet": (41, 17, 3, 0), "netlink": (41, 16, 3, 0), "io_uring_setup": (425, 8, 0), "io_uring_enter": (426, 3, 1, 0, 0, 0, 0),
         "io_uring_register": (427, 3, 0, 0, 0), "unshare_user": (272, 0x10000000), "clone_user": (56, 0x10000000 | 17, 0, 0, 0, 0), "ptrace": (101, 0, 0, 0, 0),
         "process_vm_readv": (310, os.getpid(), 0, 0, 0, 0, 0), "bpf": (321, 0, 0, 0), "keyctl": (250, 0, -3, 1), "userfaultfd": (323, 0), "perf": (298, 0, 0, -1, -1, 0)}
for name, (nr, *args) in CALLS.items():
    pid = os.fork()
    if pid == 0:
        r = libc.syscall(nr, *[ctypes.c_long(a) for a in args])
        if r == 0 and name == "clone_user":
            os._exit(0)
        os._exit(99 if r >= 0 else ctypes.get_errno())
    st = os.waitpid(pid, 0)[1]
    print(name, "killed" if os.WIFSIGNALED(st) else "REACHED" if os.WEXITSTATUS(st) == 99 else errno.errorcode.get(os.WEXITSTATUS(st), os.WEXITSTATUS(st)))
for name, nr in (("x32", 0x40000000 | 39), ("x32_socket", 0x40000000 | 41)):
    pid = os.fork()
    if pid == 0:
        r = libc.syscall(nr, 2, 1, 0)
        os._exit(99 if r >= 0 else ctypes.get_errno())
    st = os.waitpid(pid, 0)[1]
    print(name, "killed" if os.WIFSIGNALED(st) else "REACHED" if os.WEXITSTATUS(st) == 99 else errno.errorcode.get(os.WEXITSTATUS(st), os.WEXITSTATUS(st)))
import fcntl
try:
    fcntl.ioctl(0, 0x5412, b"x"); print("tiocsti REACHED")
except OSError as e:
    print("tiocsti", errno.errorcode[e.errno])
print("fds", *sorted(f for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)))
"""
if os.uname().machine == "x86_64":
    r = box("python3", "-c", TRY)
    got = dict(line.split(None, 1) for line in r.stdout.splitlines() if " " in line)
    LOCAL = ("socket", "socket6", "process_vm_readv")  # a socket that reaches nothing; a process reads itself
    bad = {k: v for k, v in got.items() if v == "REACHED" and k not in LOCAL}
    tap.ok(len(got) >= 18 and not bad and r.returncode == 0, "SBX-02: none of %d ways that a list of forbidden calls forgets is open" % len(got), r.stdout + r.stderr)
    tap.ok(got.get("x32") in ("ENOSYS", "killed", "EPERM") and got.get("io_uring_setup") in ("EPERM", "ENOSYS"), "SBX-02: nor the kernel's other table of calls", got)
for argv, want in ((("python3", "-c", "import ssl, threading; print('py')"), "py"), (("git", "--version"), "git version"), (("sh", "-c", "echo 'int main(void){return 7;}' > /tmp/a.c && gcc -o /tmp/a /tmp/a.c && /tmp/a; echo $?"), "7"),
                   (("node", "-e", "console.log('js')"), "js")):
    r = box(*argv)
    tap.ok(r.returncode == 0 and want in r.stdout, "SBX-02: %s works beside it" % argv[0], r.stdout + r.stderr)

# --- SBX-06: the same floor everywhere ---------------------------------------------------------------------------
pg = Pg(temp)
st = Stack(temp, pg)
SHOW = ("grep", "-E", "^(Seccomp|NoNewPrivs|CapEff|CapBnd):", "/proc/self/status")
FLOOR = {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000", "CapBnd": "0000000000000000"}


def floor(text):
    return dict(line.split() for line in text.replace(":", " ").splitlines() if line.split())


tap.eq(floor(box(*SHOW).stdout), FLOOR, "SBX-06: without a network: no privilege, a filter, no capability")
tap.eq(floor(st.sandbox(*SHOW).stdout), FLOOR, "SBX-06: with the broker's listeners: the same")
for backend in ("crun", "runc"):
    if shutil.which(backend) and os.geteuid() == 0:
        r = box(*SHOW, opts=["--backend", backend])
        tap.eq(floor(r.stdout), FLOOR, "SBX-06: by %s: the same" % backend) or print("# " + r.stderr)

# --- SBX-04: a deadline is of everything --------------------------------------------------------------------------
MARK = "33" + str(os.getpid())


def alive(what):
    return subprocess.run(["pgrep", "-f", what], stdout=subprocess.PIPE).stdout != b""


for what, script in (("a shell that leaves a sleeper and ends", "sleep %s & sleep %s" % (MARK, MARK)), ("a session of its own", "setsid sh -c 'sleep %s; touch /work/late' & wait" % MARK),
                     ("a daemon", "(setsid sleep %s </dev/null >/dev/null 2>&1 &); sleep %s" % (MARK, MARK)), ("one that ignores SIGTERM", "trap '' TERM; echo kept; sleep %s; sleep %s" % (MARK, MARK)),
                     ("a fork bomb", ":() { : | : & }; :; sleep %s" % MARK)):
    begin = time.monotonic()
    r = box("bash", "-c", script, opts=["--timeout", "1", *(["--pids", "64"] if os.geteuid() == 0 else []), *MOUNT])
    tap.ok(r.returncode == 124 and wait_for(lambda: not alive("sleep " + MARK), 10), "SBX-04: %s: ended with all it started, and said to be over time" % what, (r.returncode, r.stderr))
    tap.ok(what != "one that ignores SIGTERM" or r.stdout == "kept\n", "SBX-04: what it had written is there", r.stdout)
tap.ok(not os.path.exists(work + "/late"), "SBX-04: nothing of it happens later")
r = st.sandbox("bash", "-c", "while :; do psql -Atc 'SELECT 1' >/dev/null 2>&1; done", opts=["--timeout", "3"])
run_id = st.records("run.start")[-1]["run"]
wait_for(lambda: [x for x in st.records("run.end") if x["run"] == run_id])
at_end = [x["seq"] for x in st.records("run.end") if x["run"] == run_id]
acts = [x["seq"] for x in st.records("action") if x["run"] == run_id]
tap.ok(acts and at_end and max(acts) < at_end[0], "SBX-04: one that keeps asking the broker: nothing of its run is judged behind its end", (len(acts), at_end))
results = [x["data"].get("cause") for x in st.records("agent.result") if x["run"] == run_id]
tap.eq(results, ["timeout"], "SBX-04: and the record says that it was the time limit")

# --- CRD-06: nothing inside unlocks the broker ---------------------------------------------------------------------
LOOK = r"""
import glob, os, socket
for p in sorted(glob.glob("/proc/[0-9]*")):
    for n in ("environ", "cmdline"):
        try:
            t = open(p + "/" + n, "rb").read().decode("latin1")
        except OSError as e:
            t = "refused"
        print("PROC", p, n, t.replace("\0", " ")[:4000])
print("FDS", *sorted(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)))
home = os.environ.get("HOME", "/")
print("HOME", [x for d, _, f in os.walk(home) for x in f][:20])
print("ABSTRACT", [l.split()[-1] for l in open("/proc/net/unix").read().splitlines()[1:] if l.split()[-1].startswith(("@", "/"))])
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    local, state = line.split()[1], line.split()[3]
    if state != "0A":
        continue
    host, port = local.split(":")
    addr = socket.inet_ntoa(bytes.fromhex(host)[::-1])
    for verb in (b"LIST\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /credentials HTTP/1.1\r\nHost: broker\r\nAuthorization: Bearer x\r\n\r\n", b"POST /approve HTTP/1.1\r\nHost: broker\r\nContent-Length: 0\r\n\r\n"):
        s = socket.create_connection((addr, int(port, 16)), 5)
        s.settimeout(5)
        try:
            s.sendall(verb)
            s.shutdown(socket.SHUT_WR)
            a = b""
            while True:
                d = s.recv(4096)
                if not d:
                    break
                a += d
        except OSError as e:
            a += b"[%s]" % type(e).__name__.encode()
        print("SAID", addr, int(port, 16), verb.split()[0].decode(), repr(a[:300]))
"""
r = st.sandbox("python3", "-c", LOOK)
out = r.stdout
tap.ok(r.returncode == 0 and "PROC" in out, "CRD-06: what can be looked at inside is looked at", out + r.stderr)
programs = [line for line in out.splitlines() if line.startswith("PROC") and " cmdline " in line]
tap.ok(programs and all("cofferdam-broker" not in p and "cofferdam-core" not in p and "cofferdam-agent" not in p for p in programs), "CRD-06: no process but the sandbox's own is seen", programs)
fds = next(line for line in out.splitlines() if line.startswith("FDS")).split()[1:]
tap.ok(set(fds) <= {"0", "1", "2", "3"}, "CRD-06: no descriptor but its own three (and the one that reads the list)", fds)
secrets = [pg.password, open(st.state + "/run/token").read() if os.path.exists(st.state + "/run/token") else "no such file"]
tap.ok(not any(s in out for s in secrets if s), "CRD-06: no password anywhere in it")
said = [line for line in out.splitlines() if line.startswith("SAID")]
tap.ok(len(said) >= 4 and not any(" 200 " in s or "OK" in s for s in said), "CRD-06: no listener has a verb to list, get or approve (%d asked)" % len(said), "\n".join(said))
tap.eq(st.pending(), [], "CRD-06: and nothing came of asking")
r = st.sandbox("psql", "-Atc", "SELECT 6")
tap.eq(r.stdout.strip(), "6", "CRD-06: while what the run may do works")
tap.done()
