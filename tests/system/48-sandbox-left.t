#!/usr/bin/python3
"""Nothing is left, and nothing grows: many sandboxes in a row, many alive at once, all sorts of ends. ROUNDS (200 here;
`make soak` has 1000)."""
import os
import signal
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [TOP + "/tests/lib", TOP + "/tests/walls"]
import walls
from harness import BUILD, Tap, Temp, wait_for
from walls import gone, kill, marked, ours

walls.outer()
tempfile.tempdir = "/var/tmp"
tap, temp = Tap(), Temp("left")
os.chmod(temp.path, 0o755)
T = temp.path
ROUNDS = int(os.environ.get("ROUNDS", "200"))
host = walls.Host(T)
box = walls.Boxes(host, BUILD)
NAME = "left%d" % (os.getpid() % 1000)
MARK = "leftover%d" % (os.getpid() % 100)


def names():
    """What stands in the directory of named sandboxes."""
    d = "/run/cofferdam-sandbox"
    return sorted({f.split(".")[0] for f in os.listdir(d) if f.startswith(NAME)}) if os.path.isdir(d) else []


def state():
    """Everything that a sandbox could leave."""
    with open("/proc/self/mountinfo", encoding="ascii") as f:
        mounts = len(f.readlines())
    return {"mounts": mounts, "processes": len(walls.processes()), "descriptors": len(os.listdir("/proc/self/fd")),
            "groups": walls.groups(), "names": names(), "ipc": len(open("/proc/sysvipc/shm").readlines()),
            **{kind: walls.namespaces(kind) for kind in ("net", "mnt", "pid", "user", "ipc", "uts")}}


def settled(before, what):
    tap.ok(wait_for(lambda: state() == before, 15), what, "before %r\nafter  %r\n%r" % (before, state(), ours()))


box.run("true")
before = state()
bad = [i for i in range(ROUNDS) if box.run("true").returncode != 0]
tap.eq(bad, [], "%d sandboxes in a row run their command" % ROUNDS)
settled(before, "and leave no mount, process, descriptor, group, namespace or name")

ws = T + "/ws"
os.mkdir(ws)
for opts in (["--overlay", ws], ["--workspace", ws], ["--ro-bind", T + "/bound:/opt/bound"], ["--tty"], ["--backend", "crun"]):
    for _ in range(10):
        box.run("sh", "-c", "echo x > /work/f; sleep 100 &", opts=opts)
    settled(before, "nor do ten with %s" % " ".join(opts).replace(T, "T"))

for i in range(20):
    box.call("create", "%s-%d" % (NAME, i))
tap.eq(len(names()), 20, "twenty that have names are there")
for i in range(20):
    box.call("exec", "--in", "%s-%d" % (NAME, i), "--", "true")
for i in range(20):
    box.call("kill", "%s-%d" % (NAME, i))
settled(before, "and are gone when they are killed, with their names")

# --- many alive ---------------------------------------------------------------------------------------------
HOLD = "import ctypes,time\nctypes.CDLL(None).prctl(15,b'%s')\nprint('up',flush=True)\ntime.sleep(1000)" % MARK
alive = [box.start("sh", "-c", "echo up; exec sleep 1000", stdin=subprocess.PIPE) for _ in range(100)]
tap.eq([p.stdout.readline() for p in alive], ["up\n"] * 100, "a hundred are alive at once")
inits = [p for p in ours() if p[1] == "cofferdam-init"]
tap.ok(len(inits) >= 100, "each with a first process of its own")
kib = {}
for pid, comm, _ in ours():
    try:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as f:
            kib[comm] = kib.get(comm, 0) + int([x for x in f if x.startswith("Pss:")][0].split()[1])
    except OSError:
        pass
print("# proportional memory of a hundred, in KiB each: %s" % {k: round(v / 100) for k, v in kib.items()})
for p in alive:
    p.send_signal(signal.SIGTERM)
for p in alive:
    p.wait()
    p.stdout.close()
    p.stdin.close()
settled(before, "and nothing of them is left when they are told to end")

# --- ends ----------------------------------------------------------------------------------------------------
p = box.start("sh", "-c", "for i in $(seq 100); do sleep 1000 & done; wait", opts=["--pids", "250"])
p.kill()
p.wait()
p.stdout.close()
settled(before, "nor of one that is killed with SIGKILL while it starts a hundred children")
for after in (0, 0.002, 0.004, 0.006, 0.01, 0.02):
    for _ in range(8):
        p = box.start("sh", "-c", "sleep 1000")
        wait_for(lambda: False, after, 0.001)
        p.kill()
        p.wait()
        p.stdout.close()
settled(before, "nor of those that are killed with SIGKILL at all moments of their start")


def nameless(of):
    """But for names: who asks for the list forgets those whose supervisor was killed, once they are not young."""
    return {k: v for k, v in of.items() if k != "names"}


def killed_at(who, victims, command):
    """SIGKILL behind each STEP-th system call of the start, the run and the end. What was left, and how many kills."""
    bad, n = [], 1
    while True:
        r = subprocess.run([BUILD + "/tool_kill_at", who, str(n), *victims, "--", *command], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        if r.returncode != 0:
            bad += [] if r.returncode == 3 else ["kill_at: exit %d" % r.returncode]
            break
        if not wait_for(lambda: nameless(state()) == nameless(before), 15, 0.005):
            bad.append("%d: %r" % (n, {k: v for k, v in nameless(state()).items() if v != before[k]}))
            break
        n += STEP
    box.call("kill", NAME)
    return bad, n // STEP


STEP = 1 if ROUNDS >= 1000 else 4
for who, victims, command, least in (("caller", ["caller"], box.command("true"), 250), ("child", ["caller"], box.command("true"), 120),
                                     ("supervisor", ["supervisor"], box.cli + ["create", NAME], 120),
                                     ("supervisor", ["caller", "supervisor"], box.cli + ["create", NAME], 120)):
    bad, n = killed_at(who, victims, command)
    tap.eq(bad, [], "nor of one whose %s is killed behind any system call of its %s (%s)" % (" and ".join(victims), who, command[2]))
    tap.ok(n * STEP >= least, "which were tried one by one (%d times)" % n)
for _ in range(6):
    box.call("create", NAME)
    box.call("spawn", NAME, "--", "python3", "-c", HOLD)
    wait_for(lambda: marked(MARK), 10)
    for pid, comm, _ in ours():
        if comm in ("cofferdam-sandb", "cofferdam-init"):
            kill(pid)
    gone(MARK)
tap.ok(wait_for(lambda: NAME not in box.call("list").stdout and not names(), 10), "the list forgets names of dead ones", names())
settled(before, "nor of named ones whose supervisor and first process are killed together")
host.end()
tap.done()
