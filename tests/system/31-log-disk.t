#!/usr/bin/python3
"""Disks that fill up, cannot be written or lose what was not synced; limits; many writers at once.

After each case what was acknowledged is in the log, the log opens again by itself and is whole.
"""
import atexit
import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
import sanitizers  # noqa: E402
from harness import BUILD, Tap  # noqa: E402

# Small file systems of its own: a private mount namespace.
if os.getuid() == 0 and not os.environ.get("IN_UNSHARE"):
    os.environ["IN_UNSHARE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, os.path.abspath(__file__)])

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
ARGS = ["12", "batch=3", "cp=4", "seg=2000"]
T = tempfile.mkdtemp(prefix="log-disk.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
os.environ["ASAN_OPTIONS"] = sanitizers.no_leaks()  # which does not work under strace


def tool(d, *args, inject=None, limit=None):
    """(exit status, records acknowledged, standard error)."""
    argv = [TOOL, d] + list(args)
    if inject:
        argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + inject.split(":")[0], "-e", "inject=" + inject] + argv

    def child():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(limit[0], (limit[1], limit[1]))

    r = subprocess.run(argv, capture_output=True, text=True, preexec_fn=child if limit else None)
    return r.returncode, max([int(x) for x in re.findall(r"^ack (\d+)$", r.stdout, re.M)], default=0), r.stderr


def fresh(name="x", base=None):
    d = T + "/" + name
    shutil.rmtree(d, ignore_errors=True)
    if base:
        shutil.copytree(base, d)
    return d


def segs(d):
    return sorted(d + "/log/seg/" + n for n in os.listdir(d + "/log/seg") if n.endswith(".jsonl"))


def records(d):
    return [json.loads(x)["body"] for f in segs(d) for x in open(f, "rb").read().splitlines(True) if x.endswith(b"\n")]


def whole(d, acked):
    """None when the log verifies and holds what was acknowledged; else what is wrong."""
    r = subprocess.run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"], capture_output=True, text=True)
    if r.returncode != 0:
        return "does not verify: " + r.stdout
    numbers = [x["seq"] for x in records(d)]
    if numbers != list(range(len(numbers))) or len(numbers) < acked:
        return "%d records, %d were acknowledged" % (len(numbers), acked)
    return None


def reopened(d, acked):
    rc, _, why = tool(d, "2")
    return whole(d, acked) if rc == 0 else "does not open: " + why


# --- interrupted, over quota, at each call ---------------------------------------------------
if subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True).returncode == 0:
    n, bad, went_on = 0, [], 0
    for call, times in (("pwrite64", 26), ("fdatasync", 12), ("fsync", 24), ("renameat", 12), ("unlinkat", 6)):
        for when in range(1, times + 1):
            for how in ("EINTR", "EDQUOT"):
                d = fresh()
                rc, acked, _ = tool(d, *ARGS, inject="%s:error=%s:when=%d" % (call, how, when))
                n += 1
                went_on += rc == 0 and how == "EINTR" and call == "pwrite64"
                w = reopened(d, acked) if os.path.isdir(d + "/log/seg") else None
                if w:
                    bad.append((call, how, when, w))
    tap.eq(bad, [], "interrupted or over quota at each of %d places: all acknowledged is there, the log opens and is whole" % n)
    tap.ok(went_on > 0, "an interrupted write is written again (%d times)" % went_on)

# --- limits ------------------------------------------------------------------------------------
bad, short = [], 0
for size in range(300, 3000, 150):
    d = fresh()
    rc, acked, why = tool(d, "20", "batch=4", "ballast=100", limit=(resource.RLIMIT_FSIZE, size))
    short += rc != 0 and acked > 0
    w = reopened(d, acked) if os.path.isdir(d + "/log/seg") else None
    if rc == 0 or w:
        bad.append((size, rc, w))
tap.eq(bad, [], "a file may grow no further: writes come out short, then fail, and the process ends; nothing acknowledged is lost")
tap.ok(short > 3, "with records acknowledged before (%d times)" % short)
bad = []
for files in range(4, 20):
    d = fresh()
    rc, acked, why = tool(d, *ARGS, limit=(resource.RLIMIT_NOFILE, files))
    w = reopened(d, acked) if os.path.isdir(d + "/log/seg") else None
    if w:
        bad.append((files, rc, w))
tap.eq(bad, [], "with too few descriptors it does not begin, or ends; nothing acknowledged is lost")

# --- a small disk --------------------------------------------------------------------------------
if os.getuid() == 0:
    d = fresh("disk")
    os.mkdir(d)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k,mode=700", "tmpfs", d], check=True)
    atexit.register(subprocess.run, ["umount", "-l", d], capture_output=True)
    rc, acked, why = tool(d, "5000", "batch=4", "cp=64", "size=500", "blob=0")
    kinds = [r["type"] for r in records(d)]
    tap.ok(rc != 0 and acked > 100 and kinds[-1] == "log.full", "a full disk: the ballast makes room for the record that says so, signed", (rc, acked, why, kinds[-3:]))
    tap.eq(whole(d, acked), None, "the log is whole, nothing acknowledged is lost")
    rc, _, why = tool(d, "1")
    tap.ok(rc != 0 and ("No space" in why or "ballast" in why), "it does not begin without room for a new ballast", why)
    tap.eq(whole(d, acked), None, "and changes nothing")
    subprocess.run(["mount", "-o", "remount,size=2m", d], check=True)
    tap.eq(reopened(d, acked), None, "with room it begins again by itself")
    files = int(subprocess.run(["df", "--output=iused", d], capture_output=True, text=True).stdout.split()[-1])
    subprocess.run(["mount", "-o", "remount,nr_inodes=%d" % (files + 8), d], check=True)
    rc, acked, why = tool(d, "500", "cp=2")
    tap.ok(rc != 0 and acked > 0, "no more inodes: it ends at the checkpoint that has none", (rc, acked, why))
    subprocess.run(["mount", "-o", "remount,nr_inodes=0", d], check=True)
    tap.eq(reopened(d, acked), None, "and goes on when there are some")
    acked = len(records(d))
    subprocess.run(["mount", "-o", "remount,ro", d], check=True)
    rc, _, why = tool(d, "1")
    tap.ok(rc != 0 and os.strerror(errno.EROFS) in why, "on a disk that can only be read it does not begin, and says why", why)
    subprocess.run(["mount", "-o", "remount,rw", d], check=True)
    tap.eq(reopened(d, acked), None, "and does once it can be written")

# --- power cut -------------------------------------------------------------------------------------
# What was not synced may have reached the disk or not, sector by sector, in any order.
base = fresh("base")
tool(base, "6", "batch=2", "cp=2", "close=0")
# The rest of that last sector is synced already and stays.
tool(base, "3", "batch=3", "cp=0", "close=0", "size=300")
data = open(segs(base)[-1], "rb").read()
opened = len(b"".join(data.splitlines(True)[:-3]))  # the start's own batch is signed
acked = len(data.splitlines()) - 3
first, last = opened // 512, (len(data) - 1) // 512
sectors = list(range(first, last + 1))
bad, n = [], 0
for mask in range(1 << len(sectors)):
    for grown in (True, False):
        image = bytearray(data)
        for i, s in enumerate(sectors):
            if not mask >> i & 1:
                a, b = max(opened, s * 512), min(len(data), (s + 1) * 512)
                image[a:b] = bytes(b - a)
        if not grown:  # the size is that of the last sector that came through
            top = max([s for i, s in enumerate(sectors) if mask >> i & 1], default=-1)
            image = image[:max(opened, min(len(data), (top + 1) * 512))]
        d = fresh("x", base)
        with open(segs(d)[-1], "wb") as f:
            f.write(image)
        n += 1
        w = reopened(d, acked)
        if w:
            bad.append((mask, grown, w))
tap.ok(not bad and len(sectors) >= 3, "power cut: all %d subsets of %d sectors not synced, with and without the new size: it opens, all acknowledged is there" % (n, len(sectors)), bad[:3])

# A rename that was not synced may be undone, a new file may not be there.
NAMING = re.compile(r'(?:openat\(\d+<([^>]*)>, "([^"/]+)", [^,)]*O_CREAT|(?:renameat2?|linkat)\([^)]*?\d+<([^>]*)>, "([^"/]+)"(?:, \w+)?)[^=]*\) = \d')


def not_synced(trace):
    """The last name that was given in the directory (or to the file) that was about to be synced, if its directory has not been since."""
    names, last = {}, None
    for line in trace.splitlines():
        m = NAMING.search(line)
        if m:
            names[m[1] or m[3]] = m[2] or m[4]
        m = re.search(r"fsync\(\d+<([^>]*)>", line)
        if m:
            last = m[1]
            if line.endswith("= 0"):
                names.pop(last, None)
    where = last if os.path.isdir(last) else os.path.dirname(last)
    return where + "/" + names[where] if where in names else None


bad, n, undone = [], 0, 0
if shutil.which("strace"):
    for when in range(1, 60):
        d = fresh()
        trace = T + "/trace"
        r = subprocess.run(["strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=fsync,openat,renameat,renameat2,linkat", "-e", "inject=fsync:signal=SIGKILL:when=%d" % when, TOOL, d] + ARGS,
                           capture_output=True, text=True)
        acked = max([int(x) for x in re.findall(r"^ack (\d+)$", r.stdout, re.M)], default=0)
        if r.returncode == 0:
            break
        path = not_synced(open(trace).read())
        n += 1
        if path and os.path.isfile(path) and not os.path.basename(path).startswith((".tmp", "LOCK", "ballast")):
            os.unlink(path)
            undone += 1
        w = reopened(d, acked)
        if w:
            bad.append((when, path, w))
tap.eq(bad, [], "power cut at each of %d syncs: with the newest name undone (%d times) it opens, all acknowledged is there" % (n, undone))

# --- many writers ------------------------------------------------------------------------------------
for many in (2, 8, 64):
    d = fresh()
    tool(d, "1")
    ps = [subprocess.Popen([TOOL, d, "40", "seg=3000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(many)]
    outs = [p.communicate() for p in ps]
    won = sum(p.returncode == 0 for p in ps)
    others = [o[1] for p, o in zip(ps, outs) if p.returncode != 0 and "another writer" not in o[1]]
    tap.ok(won >= 1 and not others and whole(d, 2 + 40 * won) is None,
           "%d writers on one directory: one at a time writes, the others are refused, the log is whole" % many, (won, others[:2], whole(d, 0)))
tap.done()
