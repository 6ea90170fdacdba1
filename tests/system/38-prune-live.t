#!/usr/bin/python3
"""Pruning while the log is written: records are answered all the while, readers call nothing tampered that is pruned, killed or
failed at each of its calls it is finished by the next writer, and an order that is none leaves the log as it is."""
import atexit
import glob
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
from harness import BUILD, CLI, Tap, run, wait_for  # noqa: E402
from writer import C_LOG, Writer  # noqa: E402

# A small file system of its own: a private mount namespace.
if os.getuid() == 0 and not os.environ.get("IN_UNSHARE"):
    os.environ["IN_UNSHARE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, os.path.abspath(__file__)])

tap = Tap()
T = tempfile.mkdtemp(prefix="prune-live.")
SHM = tempfile.mkdtemp(prefix="prune-live.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # many syncs, and no power is cut
atexit.register(shutil.rmtree, T, True)
atexit.register(shutil.rmtree, SHM, True)
os.chmod(T, 0o711), os.chmod(SHM, 0o711)
TOOL = BUILD + "/tool_append-log"
PYTHON = HERE + "/../verify_log.py"
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # which does not work under strace
START = '{"agent":"a","budget":{},"level":"host","login":"root","owner":"olivia","targets":[],"task":"@"}'


def tool(d, *args, inject=None):
    argv = [TOOL, d] + list(args)
    if inject:
        argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + inject.split(":")[0], "-e", "inject=" + inject] + argv
    return run(argv)


def segs(d):
    return sorted(int(os.path.basename(p)[:20]) for p in glob.glob(d + "/log/seg/*.jsonl"))


def lines(d):
    return [x for p in sorted(glob.glob(d + "/log/seg/*.jsonl")) for x in open(p, "rb").read().splitlines(True)]


def verify(d):
    return run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"])


def whole(d, *codes):
    """None, or why a log that stands still is not what it must be: by both verifiers."""
    for r in (verify(d), run([sys.executable, PYTHON, d + "/log", d + "/keys/log/vkey"])):
        if r.returncode not in (codes or (0,)) or "TAMPER" in r.stdout:
            return r.stdout
    return None


def copy(src, name, where=None):
    d = (where or SHM) + "/" + name
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(src, d)
    os.chmod(d, 0o711)
    if os.geteuid() == 0:
        for path, dirs, files in os.walk(d + "/log"):
            for p in [path] + [path + "/" + f for f in files]:
                os.chown(p, 63101, 63101)
    return d


def base(name, runs, notes, *args):
    """A log of many small segments: runs that are over, and one that has records everywhere."""
    d, rows = T + "/" + name, []
    for i in range(runs):
        r = "r-%d" % i
        rows += [("run.start", "broker", r, START, "task")]
        rows += [("agent.note", "agent", r, '{"content":"@","n":%d}' % k, "said by %s, %d" % (r, k)) for k in range(notes)]
        rows += [("run.end", "broker", r, '{"status":"done","text":""}', "")]
        if i % 3 == 0:
            rows += [("agent.note", "agent", "r-all", '{"content":"@","n":%d}' % i, "said by r-all, %d" % i)]
    with open(T + "/recs", "w") as f:
        f.writelines("\t".join(r) + "\n" for r in rows)
    r = tool(d, "1", "seg=4000", "lines=4", "from=" + T + "/recs", *args)
    assert r.returncode == 0, r.stdout
    for i in list(range(runs)) + ["all"]:
        with open(d + "/keys/blob/r-%s.key" % i, "wb") as f:
            f.write(bytes(32))
    return d


def order(d, seq):
    r = run([CLI, "log", "prune", "--state", d, "--before-seq", str(seq), "--yes", "--reason", "older than we keep"])
    m = re.search(r"records 0 to (\d+)", r.stdout)
    assert r.returncode == 0 and m, r.stdout
    return int(m[1]) + 1


def waits(d):
    return os.path.exists(d + "/log/prune")


class Flood:
    """Appends through the wire, 32 at a time, until told to end; how long each answer took."""

    def __init__(self, w):
        self.w, self.took, self.sent, self.acked, self.ticket = w, [], {}, 0, 0

    def some(self):
        while len(self.sent) < 32:
            self.ticket += 1
            self.sent[self.ticket] = time.monotonic()
            self.w.append(self.ticket, "agent.note", {"n": self.ticket}, run="r-all", src="agent")
        a = self.w.ack(20)
        if a is None:
            return False
        self.took.append(time.monotonic() - self.sent.pop(a["ticket"]))
        self.acked = a["seq"]
        return True

    def rest(self):
        while self.sent:
            a = self.w.ack(20)
            if a is None:
                return False
            self.sent.pop(a["ticket"])
        return True

    def p99(self):
        return sorted(self.took)[len(self.took) * 99 // 100] * 1000


def said(w):
    """What the writer has logged."""
    while (m := w.parent.recv(0)) is not None:
        if m[0] == C_LOG:
            w.logs.append(m[1][5:].decode())
    return "\n".join(w.logs)


# --- a reader stopped in the middle, pruned, and let go -----------------------------------------------------------------------------
BASE = base("base", 9, 8)
ORDERED = copy(BASE, "ordered")
TO = order(ORDERED, 60)
before = lines(ORDERED)
ORIGIN = open(ORDERED + "/keys/log/vkey").read().split("+")[0]


def receipt(seq):
    return "%s#%d:%s:%d" % (ORIGIN, seq, json.loads(before[seq])["hash"], len(before))


READERS = {
    "log prove of a record whose line goes elsewhere": [CLI, "log", "prove", "0", "--state", "D"],
    "log prove of one that stays": [CLI, "log", "prove", str(TO + 1), "--state", "D"],
    "log verify-receipt of a record that goes": [CLI, "log", "verify-receipt", receipt(1), "--state", "D"],
    "log verify-receipt of one that stays": [CLI, "log", "verify-receipt", receipt(TO + 1), "--state", "D"],
    "log verify": [CLI, "log", "verify", "D/log", "--vkey", "D/keys/log/vkey"],
    "log verify --deep": [CLI, "log", "verify", "--deep", "--state", "D"],
    "the verifier of the document": [sys.executable, PYTHON, "D/log", "D/keys/log/vkey"],
    "log show": [CLI, "log", "show", "--state", "D"],
    "log query": [CLI, "log", "query", "--state", "D", "--run", "r-all", "--limit", "0"],
    "log query --scan": [CLI, "log", "query", "--state", "D", "--scan", "--oldest", "--limit", "0"],
    "log export": [CLI, "log", "export", "--state", "D", "--format", "lines"],
    "replay whatif": [CLI, "replay", "whatif", "--state", "D"],
    "replay timeline": [CLI, "replay", "timeline", "--state", "D", "--no-pager", "r-all"],
}
WRONG = re.compile(r"TAMPER|not whole|stopped at seq|[Nn]o such file|cannot be read for|not there|in no pack")


def opened(argv):
    """Its calls that open a file of the log or end a list of them, where it is stopped: four of the way, and the last ones."""
    r = run(["strace", "-f", "-qq", "-e", "trace=openat,getdents64", "-o", T + "/trace", *argv])
    trace = open(T + "/trace").read()
    at = [i for i, x in enumerate(re.findall(r'openat\([^"]*"([^"]*)"', trace), 1) if re.search(r"[0-9]{20}|seg$|blob$|cp$", x)]
    listed = len(re.findall(r"getdents64\(", trace))
    return r, ([("openat", k) for k in sorted({at[i * (len(at) - 1) // 3] for i in range(4)} | set(at[-4:-1]))] +
               [("getdents64", k) for k in range(max(1, listed - 3), listed + 1)])


if run(["strace", "-qq", "-e", "trace=none", "true"]).returncode != 0:
    tap.ok(True, "readers stopped on the way # SKIP strace cannot trace here")
else:
    for name, argv in READERS.items():
        d = copy(ORDERED, "x")
        run([CLI, "log", "index", d])
        argv = [x.replace("D", d, 1) if x.startswith("D") else x for x in argv]
        r, at = opened(argv)
        bad = [] if r.returncode == 0 else [("undisturbed", r.stdout)]
        for call, k in at:
            d = copy(ORDERED, "x")
            run([CLI, "log", "index", d])
            into = open(T + "/out", "w+")
            p = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=%s:signal=SIGSTOP:when=%d" % (call, k), *argv],
                                 stdout=into, stderr=subprocess.STDOUT, start_new_session=True)
            pid = None

            def stopped():
                global pid
                kids = open("/proc/%d/task/%d/children" % (p.pid, p.pid)).read().split() if p.poll() is None else []
                for kid in kids:
                    try:
                        if open("/proc/%s/stat" % kid).read().rsplit(")", 1)[1].split()[0] in "Tt" and open("/proc/%s/cmdline" % kid).read().split("\0")[0] != "strace":
                            pid = int(kid)
                    except OSError:
                        pass
                return pid is not None or p.poll() is not None

            was_stopped = wait_for(stopped, 20) and pid is not None
            t = tool(d, "0", "seg=4000")
            if was_stopped:
                while p.poll() is None:
                    try:
                        os.kill(pid, signal.SIGCONT)
                    except OSError:
                        break
                    time.sleep(0.02)
            into.seek(0)
            out = into.read()
            if not was_stopped or t.returncode or segs(d)[0] != TO or p.wait(20) != 0 or WRONG.search(out):
                bad.append((call, k, was_stopped, p.returncode, out[-1500:]))
        tap.eq(bad[:2], [], "pruned under its eyes, %s finds nothing wrong" % name)

# --- killed and failed at each call, between appends ---------------------------------------------------------------------------------
    d = copy(ORDERED, "x")
    CALLS = "unlinkat,renameat,fsync,fdatasync,pwrite64"
    ARGS = ["110", "seg=4000", "live=1", "cp=7"]
    run(["strace", "-f", "-qq", "-o", T + "/trace", "-e", "trace=" + CALLS, TOOL, d, *ARGS])
    n = {c: len(re.findall(r" %s\(" % c, open(T + "/trace").read())) for c in CALLS.split(",")}
    tap.ok(segs(d)[0] == TO and not waits(d) and whole(d) is None and n["renameat"] > 3, "between appends it is done", (n, segs(d)[:3], whole(d)))
    bad, at = [], 0
    for call, times in sorted(n.items()):
        for when in range(1, times + 1):
            for how in ("signal=SIGKILL", "error=ENOSPC" if call == "pwrite64" else "error=EIO"):
                if when % {"unlinkat": 9, "renameat": 11, "fsync": 17}.get(call, 41) or (how != "signal=SIGKILL" and when % 2):
                    continue
                d, at = copy(ORDERED, "x"), at + 1
                r = tool(d, *ARGS, inject="%s:%s:when=%d" % (call, how, when))
                acks = [int(x) for x in re.findall(r"^ack (\d+)$", r.stdout, re.M)]
                why = whole(d, 0, 3) if at % 4 == 0 else None
                again = tool(d, "0", "seg=4000", "ballast=0")
                now = lines(d)
                if why is None and (again.returncode or segs(d)[0] != TO or waits(d) or glob.glob(d + "/log/kept/*.pack")):
                    why = "not finished: " + r.stdout + again.stdout
                if why is None and (now[:len(before) - TO] != before[TO:] or TO + len(now) < max(acks, default=0)):
                    why = "records are gone: " + r.stdout
                if why is None and at % 4 == 0:
                    why = whole(d)
                if why:
                    bad.append((call, how, when, why[-1500:]))
    tap.eq(bad[:3], [], "killed or failed at each of %d calls: nothing acknowledged is gone, and the next writer finishes it" % at)

# --- the writer itself, under a flood, with readers at work ---------------------------------------------------------------------------
BIG = base("big", 60, 10)
d = copy(BIG, "flood", T)
w = Writer(d)
f = Flood(w)
while len(f.took) < 2000:
    if not f.some():
        break
f.rest()
alone = f.p99()
run([CLI, "log", "index", d])


def read(name, argv):
    """Again and again, in a process of its own, until told to end."""
    with open(T + "/results-" + name.replace(" ", "-"), "w") as into:
        while not os.path.exists(T + "/over"):
            r = run(argv)
            m = WRONG.search(r.stdout)
            bad = r.stdout[max(0, m.start() - 300):m.end() + 300] if m else "" if r.returncode in (0, 3) else r.stdout[-1500:]
            into.write(json.dumps([name, r.returncode, bad]) + "\n")


readers = []
for name in ("log verify", "log query", "log export", "replay timeline", "replay whatif"):
    argv = [x.replace("D", d, 1) if x.startswith("D") else x for x in READERS[name]]
    readers.append(multiprocessing.Process(target=read, args=(name, argv)))
    readers[-1].start()
f.took = []
while len(f.took) < 1500 and f.some():
    pass
f.rest()
reading = f.p99()
TO = order(d, 1000000)  # which reads all of it, and is not answered for until it is done
f.took = []
order_seen = waits(d) or segs(d)[0] > 0
ok = True
while ok and waits(d) and "is pruned:" not in said(w):
    ok = f.some()
    if f.ticket % 32 == 0:
        time.sleep(0.01)  # so that the log does not outgrow its readers
during, n = f.p99(), len(f.took)
ok = ok and f.rest()
open(T + "/over", "w").close()
for x in readers:
    x.join()
results = [json.loads(x) for p in glob.glob(T + "/results-*") for x in open(p)]
tap.ok(ok and order_seen and segs(d)[0] == TO and w.p.poll() is None, "an order is carried out by the writer that runs, which answers all the while", (said(w), segs(d)[:2], TO))
print("# p99 of an append, 32 at a time: %.1f ms alone, %.1f ms beside five readers, %.1f ms beside them while %d segments went (%d appends)" %
      (alone, reading, during, sum(s < TO for s in segs(BIG)), n))
tap.eq([r for r in results if r[2]][:2], [], "and no reader calls tampering what is pruned, of %d that read meanwhile" % len(results))
tap.ok("log.prune" in lines(d)[-1].decode() or any(b'"log.prune"' in x for x in lines(d)), "it is on the record")
tap.ok("on disk is not what was written" not in said(w), "nor does the writer that reads its log again", said(w))
tap.eq((w.end(), verify(d).returncode), (0, 0), "and the log verifies")

# --- what goes that was not ordered --------------------------------------------------------------------------------------------------
w = Writer(d)
f = Flood(w)
f.some(), f.rest()
gone = segs(d)[0]
os.unlink(d + "/log/seg/%020d.jsonl" % gone)
tap.ok(wait_for(lambda: "on disk is not what was written: missing at record %d" % gone in said(w), 40), "a segment that nobody ordered away is missing to the writer", said(w))
w.end()

# --- killed while it prunes -----------------------------------------------------------------------------------------------------------
d = copy(BIG, "kill", T)
TO = order(d, 1000000)
total, kills, acked = len(segs(d)), 0, 0
while waits(d) and kills < 40:
    w = Writer(d)
    f = Flood(w)
    start = len(segs(d))
    while waits(d) and len(segs(d)) > start - 20 and f.some():
        if f.ticket % 32 == 0:
            time.sleep(0.01)
    acked = max(acked, f.acked)
    if not waits(d):
        f.rest()
        w.end()
        break
    w.end(signal.SIGKILL)
    kills += 1
tap.ok(kills > 2 and segs(d)[0] == TO and not waits(d) and verify(d).returncode == 0 and TO + len(lines(d)) > acked,
       "killed %d times on the way it is finished, and nothing acknowledged is gone" % kills, (kills, segs(d)[:2], TO, verify(d).stdout))

# --- orders that are none, and one that is taken away --------------------------------------------------------------------------------
OTHER = base("other", 12, 10, "seed=9")
order(OTHER, 100)
d = copy(ORDERED, "none", T)
good = open(d + "/log/prune", "rb").read()
os.unlink(d + "/log/prune")
w = Writer(d)
f = Flood(w)


def lay(what):
    with open(d + "/log/.tmp-x", "wb") as x:
        x.write(what)
    os.rename(d + "/log/.tmp-x", d + "/log/prune")


def refused(what, why, how=lay):
    had = said(w).count("nothing is pruned")
    how(what)
    tap.ok(wait_for(lambda: said(w).count("nothing is pruned") > had, 10) and why in said(w) and f.some() and segs(d)[0] == 0,
           "%s: nothing goes, and records are answered" % why, said(w))


refused(good.replace(b"older than we keep", b"older than we kept"), "signature")
refused(open(OTHER + "/log/prune", "rb").read(), "by a key")
refused(good[:100], "not a signed note")
os.unlink(d + "/log/prune")
refused("/etc/passwd", "prune: ", lambda x: os.symlink(x, d + "/log/prune"))
os.unlink(d + "/log/prune")
refused(None, "not a regular file", lambda x: os.mkfifo(d + "/log/prune"))
had = said(w).count("nothing is pruned")
f.took = []
while len(f.took) < 500:
    f.some()
os.unlink(d + "/log/prune")
kept = sorted(glob.glob(d + "/log/kept/*.jsonl"))[0]
saved = open(kept, "rb").read()
os.unlink(kept)
refused(good, "what was kept is not what the order says")
tap.eq(said(w).count("nothing is pruned"), had + 1, "each is told of once")
with open(kept, "wb") as x:
    x.write(saved)
os.chown(kept, os.stat(d + "/log").st_uid, -1)
lay(good)
tap.ok(wait_for(lambda: segs(d)[0] > 0 and not waits(d), 20) and f.rest(), "the one that is right is carried out", said(w))
first = segs(d)[0]
told = sum(b'"log.prune"' in x for x in lines(d))
lay(good)
tap.ok(wait_for(lambda: not waits(d), 10) and segs(d)[0] == first and sum(b'"log.prune"' in x for x in lines(d)) == told, "and not once more", said(w))
tap.eq((w.end(), whole(d)), (0, None), "the log verifies")

# --- what cannot be removed; a disk that is full --------------------------------------------------------------------------------------
if os.geteuid() != 0:
    tap.ok(True, "a full disk # SKIP needs root")
else:
    M = T + "/full"
    os.mkdir(M)
    run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=711", "tmpfs", M])
    d = copy(ORDERED, "x", M)
    os.rename(d + "/log/prune", d + "/log/.tmp-order")
    w = Writer(d)
    f = Flood(w)
    f.some(), f.rest()
    with open(M + "/filler", "wb") as x:
        try:
            while True:
                x.write(bytes(65536))
                x.flush()
        except OSError:
            pass
    os.rename(d + "/log/.tmp-order", d + "/log/prune")
    ended = wait_for(lambda: w.p.poll() is not None, 20)
    text = said(w)
    tap.ok(ended and segs(d)[0] == 0 and waits(d) and b'"log.full"' in lines(d)[-1] and whole(d) is None,
           "on a full disk the record of it cannot be written: the log ends with its last words, and nothing is gone", (text, whole(d)))
    os.unlink(M + "/filler")
    w = Writer(d)
    tap.ok(wait_for(lambda: not waits(d), 20) and segs(d)[0] > 0, "with room the next writer carries it out", said(w))
    tap.eq((w.end(), whole(d)), (0, None), "and the log verifies")
    run(["umount", M])
tap.done()
