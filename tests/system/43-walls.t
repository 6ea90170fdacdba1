#!/usr/bin/python3
"""The walls: what code inside a sandbox tries (tests/walls), by name, on the native back end as root and as
an ordinary user, and on crun; who stops it, shown by turning the layers off one by one (tests/walls/layers.tbl).

All of it runs inside outer namespaces of this test's own; the host's side holds the canaries.
"""
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [TOP + "/tests/lib", TOP + "/tests/walls"]
import walls
from harness import BUILD, Tap, Temp, wait_for
from walls import SPARE, gone, marked, ours

walls.outer()
# Where the programs are whose layers can be turned off; nothing else is different about them.
LAYERED = os.path.join(os.path.dirname(os.path.abspath(BUILD)), "gcc-layers")
# Turned off alone, and in pairs, where one stands behind the other.
SINGLES = ("mounts", "landlock", "seccomp", "caps", "userns", "netns", "ipcns", "utsns", "pidns", "cgroupns", "limits",
           "reset")
PAIRS = ("seccomp+caps", "seccomp+landlock", "mounts+landlock", "landlock+netns", "seccomp+ipcns", "mounts+pidns")
RAW = bool(os.environ.get("WALLS_MATRIX"))  # print the table as it is now, for whoever changes it

# Not /tmp, which Landlock lets be written to.
tempfile.tempdir = "/var/tmp"
tap, temp = Tap(), Temp("walls")
os.chmod(temp.path, 0o755)
T = temp.path
host = walls.Host(T)
TABLE = walls.table()
LAYERS_OF = {row[0]: row[2] for row in TABLE}
ALONE = [row for row in TABLE if row[1] == "alone"]
COUNTER = itertools.count()


def workspace(name):
    """A fresh directory that anybody may write, with a few files in it."""
    d = "%s/ws-%s-%d" % (T, name, next(COUNTER))
    os.makedirs(d + "/dir")
    for f in ("kept", "gone", "moved"):
        with open(d + "/" + f, "w", encoding="ascii") as fh:
            fh.write("as it was")
    return d


def tree(d):
    out = {}
    for base, dirs, files in os.walk(d):
        for f in dirs + files:
            p = os.path.join(base, f)
            st = os.lstat(p)
            out[os.path.relpath(p, d)] = (st.st_mode, st.st_size, sorted(os.listxattr(p, follow_symlinks=False)))
    return out


# --- what is judged outside, beside the probe's own word ------------------------------------------
def said_refused(r, w):
    return r.returncode == 0 and "refused " + w.id in r.stdout


def memory(r, w):
    if "REACHED" in r.stdout:
        return False
    return said_refused(r, w) or (r.returncode == 125 and "memory limit" in r.stderr)


def output(r, w):
    return r.returncode == 125 and "output limit" in r.stderr and len(r.stdout) + len(r.stderr) < (4 << 20) + 4096


def timed(r, w):
    return r.returncode == 124 and "REACHED" not in r.stdout and gone(w.mark)


def left(r, w):
    return said_refused(r, w) and gone(w.mark)


def ended(r, w):
    return r.returncode not in (0, 126) and "REACHED" not in r.stdout


def overlay(r, w):
    return said_refused(r, w) and tree(w.ws) == w.before


def no_core(r, w):
    return said_refused(r, w) and not [f for f in os.listdir(w.ws) + os.listdir(T + "/home") if f.startswith("core")]


def quiet(r, w):
    return said_refused(r, w) and len(r.stderr) < 16384


JUDGES = (("L2-", memory), ("L4-output", output), ("L4-error", output), ("L5-late", left), ("L5-", timed), ("L13-", timed),
          ("P9-signal-all", ended), ("F12-", overlay), ("P10-", no_core), ("L4-refused", quiet))


class Alone:
    """One check with a sandbox of its own."""

    def __init__(self, row, boxes):
        self.id, _, _, options, _ = row
        self.mark = "w%d%s" % (os.getpid() % 1000, "".join(c for c in self.id if c.isalnum())[-9:])
        opts = options.split()
        if "@ws" in opts:
            self.ws = workspace(self.id)
            if boxes.user is not None:
                subprocess.run(["chown", "-R", "%d:%d" % (boxes.user, boxes.user), self.ws], check=True)
            opts[opts.index("@ws")] = self.ws
            self.before = tree(self.ws)
        judge = next((j for prefix, j in JUDGES if self.id.startswith(prefix)), said_refused)
        r, _, notes = boxes.probe("only=" + self.id, "mark=" + self.mark, opts=opts)
        self.held, self.note = judge(r, self), "%s\n%s" % (notes.get(self.id, ""), r.all)
        for pid, _, _ in marked(self.mark):
            os.kill(pid, signal.SIGKILL)


def attack(who, boxes, args=(), skip=()):
    """Every check of the table, by name. Returns what failed."""
    failed = set()
    r, said, notes = boxes.probe("run", *args)
    touched = host.untouched()
    for id_, kind, layers, _, what in TABLE:
        if kind == "alone" or id_ in skip:
            continue
        word = said.get(id_, "not run")
        good = word in ("refused", "works", "skipped")
        if not tap.ok(good, "%s: %s: %s%s%s" % (who, id_, what, " [%s]" % layers if layers else "",
                                                 " # SKIP" if word == "skipped" else ""), notes.get(id_, word)):
            failed.add(id_)
    tap.eq(touched, [], "%s: nothing outside was touched" % who)
    tap.ok(r.returncode in (0, len(failed)), "%s: the probe ran to its end" % who, r.all)
    for row in ALONE:
        if row[0] in skip:
            continue
        w = Alone(row, boxes)
        host_says = host.untouched()
        if not tap.ok(w.held and not host_says, "%s: %s: %s [%s]" % (who, row[0], row[4], row[2]), "%s\n%s" % (host_says, w.note)):
            failed.add(row[0])
    return failed


boxes = walls.Boxes(host, BUILD)
own_filters = int([x.split()[1] for x in open("/proc/self/status") if x.startswith("Seccomp_filters:")][0])
level = json.loads(boxes.run("true", opts=["--level"]).stdout.splitlines()[0])
FILTERS = own_filters + level.get("seccomp_filters", 1)

# --- a second sandbox, which the first must not find -----------------------------------------------
PEER = """
import socket, time, ctypes
for d in ("/tmp", "/work", "/dev/shm"):
    open(d + "/peer-file", "w").write("peer")
s = socket.create_server(("127.0.0.1", 7777))
a = socket.socket(socket.AF_UNIX); a.bind("\\0peer-abstract"); a.listen()
ctypes.CDLL(None).shmget(0x43470001, 4096, 0o1666)
print("up", flush=True)
time.sleep(1000)
"""


def neighbour(b):
    p = b.start("python3", "-c", PEER)
    p.stdout.readline()
    return p


def leave(p):
    p.terminate()
    p.wait()


peer = neighbour(boxes)
host.say(peerabstract="peer-abstract", peertcp=7777, peerfile="peer-file", peershm=0x43470001)

bad = attack("native", boxes, ["root=1", "filters=%d" % FILTERS])
r = subprocess.run([walls.PROBE, "run"], stdout=subprocess.PIPE, text=True)
tap.eq(r.returncode, 99, "the probe tries nothing outside a sandbox")
n_attacks = len([row for row in TABLE if row[1] != "near"])
tap.ok(n_attacks >= 140, "the table has %d attacks" % n_attacks)

# --- no layer can be turned off in what is shipped --------------------------------------------------
for name in sorted(os.listdir(BUILD)):
    if name.startswith("cofferdam") and os.path.isfile(BUILD + "/" + name):
        with open(BUILD + "/" + name, "rb") as f:
            tap.ok(b"COFFERDAM_LAYERS_OFF" not in f.read(), "X5: %s has no switch for layers" % name)
off = dict(os.environ, COFFERDAM_LAYERS_OFF=",".join(SINGLES))
r = boxes.run("/opt/probe/probe", "run", opts=list(host.binds) + ["--level"], env=off)
lv = json.loads(r.stdout.splitlines()[0])
lv.pop("cgroup", None)
tap.ok("REACHED" not in r.stdout and lv.get("seccomp") == "filter" and lv.get("capabilities") == "none",
       "X5: and the variable that a test build reads changes nothing", r.all)

# --- the layers, off one by one ---------------------------------------------------------------------
LAYERS_TBL = TOP + "/tests/walls/layers.tbl"


def table_read():
    """id -> (set of what breaks it, reason), and the reasons' texts."""
    rows, reasons = {}, {}
    with open(LAYERS_TBL, encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if line.startswith("= "):
                name, _, text = line[2:].partition(" ")
                reasons[name] = text.strip()
            elif line and not line.startswith("#"):
                w = line.split()
                rows[w[0]] = (set() if w[1] == "-" else set(w[1].split(",")), w[2] if len(w) > 2 else None)
    return rows, reasons


def off_run(layers):
    """Ids that are reached with these layers off; None when such a sandbox does not start."""
    b = walls.Boxes(host, LAYERED, env={"COFFERDAM_LAYERS_OFF": layers.replace("+", ",")}, bare="mounts" in layers)
    old = set(walls.groups())
    beside = neighbour(b)
    r, said, notes = b.probe("run", "root=1", "filters=%d" % FILTERS)
    touched = host.untouched()
    leave(beside)
    if "pidns" in layers:  # then nothing inside ends with its first process
        for d in set(walls.groups()) - old:
            walls.empty(d)
    if not said:
        tap.ok(False, "with %s off a sandbox starts" % layers, r.all)
        return None
    print("# with %s off: %d reached; outside: %s" % (layers, list(said.values()).count("REACHED"), touched or "nothing"))
    reached = {i for i, w in said.items() if w == "REACHED"}
    for row in ALONE:
        if set(layers.split("+")) & set(row[2].split()):
            w = Alone(row, b)
            if not w.held or host.untouched():
                reached.add(row[0])
    return reached


def matrix():
    broken = {row[0]: set() for row in TABLE if row[1] != "near"}
    for layers in SINGLES + PAIRS:
        for id_ in off_run(layers) or ():
            if not set(layers.split("+")) & broken.setdefault(id_, set()):
                broken[id_].add(layers)
    return broken


if os.path.exists(LAYERED + "/cofferdam"):
    b = walls.Boxes(host, LAYERED)
    r, said, _ = b.probe("run", "root=1", "filters=%d" % FILTERS)
    host.untouched()
    tap.eq([i for i, w in said.items() if w == "REACHED" and i not in bad], [], "the build for tests has the same walls, with all layers on")
    broken = matrix()
    want, reasons = table_read()
    print("# %-24s %s" % ("check", "layers that, off alone (or as a pair), let it through"))
    for id_ in broken:
        now = broken[id_]
        old, why = want.get(id_, (None, None))
        text = ",".join(sorted(now)) or "-"
        print("# %-24s %s%s" % (id_, text, "  (%s)" % why if why else ""))
        if RAW:
            continue
        if why == "machine":
            continue
        tap.ok(old == now, "layers: %s is let through without: %s" % (id_, text), "layers.tbl says %s" % (old,))
        if not now:
            tap.ok(why in reasons, "layers: %s: never, and layers.tbl says why: %s" % (id_, reasons.get(why)))
    tap.eq(sorted(set(want) - set(broken)), [], "layers.tbl names no check that is not there")
    files = [i for i in broken if i.startswith(("F1-", "F2-"))]
    tap.eq([i for i in files if "landlock" in broken[i]], [], "F15: without Landlock every check of F1 and F2 still holds")
else:
    tap.ok(False, "there is a build whose layers can be turned off: " + LAYERED)

# --- as an ordinary user ----------------------------------------------------------------------------
user = walls.Boxes(host, BUILD, options=["--limits-optional"], user=SPARE)
LIMITED = {row[0] for row in ALONE if "limits" in row[2].split() and "--disk 8" not in row[3]}
attack("user", user, ["filters=%d" % FILTERS], skip=LIMITED)

# --- crun -------------------------------------------------------------------------------------------
crun = walls.Boxes(host, BUILD, options=["--backend", "crun"])
r = crun.run("true")
if r.returncode == 0:
    attack("crun", crun, ["root=1"], skip={"I3-count"})
else:
    tap.ok("crun" in r.stderr, "crun is not to be had here, and that is said # SKIP", r.all)

leave(peer)
host.end()
tap.ok(wait_for(lambda: not ours(), 10), "at the end no process of a sandbox lives", ours())
tap.ok(wait_for(lambda: not walls.groups(), 10), "and no group is left", walls.groups())
tap.done()
