#!/usr/bin/python3
"""Crashes and failing disks: at each system call of the writer's store, killed or failed.

After each, what was acknowledged is in the log, the log opens again, and both verifiers find it
whole. Further: torn ends byte by byte, lost sectors of an unsynced batch, two writers, a foreign
hand, a full disk.
"""
import atexit
import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log  # noqa: E402
import sanitizers  # noqa: E402
from harness import BUILD, Tap  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
ARGS = ["12", "batch=3", "cp=4", "seg=2000"]
T = tempfile.mkdtemp(prefix="log-crash.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
rnd = random.Random(11)
os.environ["ASAN_OPTIONS"] = sanitizers.no_leaks()  # which does not work under strace


def tool(d, *args, inject=None):
    """(exit status, records acknowledged, standard error)."""
    argv = [TOOL, d] + list(args)
    if inject:
        argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + inject.split(":")[0], "-e", "inject=" + inject] + argv
    r = subprocess.run(argv, capture_output=True, text=True)
    acked = [int(x) for x in re.findall(r"^ack (\d+)$", r.stdout, re.M)]
    return r.returncode, max(acked, default=0), r.stderr


def fresh(name="x"):
    d = T + "/" + name
    shutil.rmtree(d, ignore_errors=True)
    return d


def segs(d):
    return sorted(d + "/log/seg/" + n for n in os.listdir(d + "/log/seg") if n.endswith(".jsonl"))


def records(d):
    return [json.loads(x)["body"] for f in segs(d) for x in open(f, "rb").read().splitlines(True) if x.endswith(b"\n")]


def verdicts(d, python=True):
    log, key = d + "/log", d + "/keys/log/vkey"
    c = subprocess.run([CLI, "log", "verify", log, "--vkey", key], capture_output=True, text=True)
    if not python:
        return [c.returncode], c.stdout
    with contextlib.redirect_stdout(io.StringIO()) as out:
        p = verify_log.main(["", log, key])
    return [c.returncode, p], c.stdout + out.getvalue()


def reopened(d, acked, python=True):
    """None when the log opens, is whole and holds what was acknowledged; else what is wrong."""
    rc, again, why = tool(d, "2")
    if rc != 0:
        return "does not open: " + why
    rcs, out = verdicts(d, python)
    if set(rcs) != {0}:
        return "does not verify: " + out
    numbers = [r["seq"] for r in records(d)]
    if numbers != list(range(len(numbers))) or len(numbers) < acked:
        return "%d records, %d were acknowledged" % (len(numbers), acked)
    return None


def count_calls():
    """How often a clean run makes each call once its own directory is there."""
    d, out = fresh(), T + "/trace"
    calls = "openat,mkdirat,fallocate,fsync,fdatasync,pwrite64,pread64,renameat,unlinkat,ftruncate,flock,fchmod"
    subprocess.run(["strace", "-f", "-qq", "-o", out, "-e", "trace=" + calls, TOOL, d] + ARGS, check=True, stdout=subprocess.DEVNULL)
    n = {}
    for line in open(out):
        m = re.match(r"\d+ +(\w+)\(", line)
        if m:
            n[m[1]] = n.get(m[1], 0) + 1
    return n


if subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True).returncode != 0:
    print("1..0 # SKIP strace cannot trace here")
    sys.exit(0)

calls = count_calls()
tap.ok(calls.get("pwrite64", 0) >= 8 and calls.get("fdatasync", 0) >= 8 and calls.get("renameat", 0) >= 4,
       "a clean run writes, syncs, renames and rotates", calls)

# --- killed and failed at each call --------------------------------------------------------
n, bad, alive, full = 0, [], [], 0
for call, times in sorted(calls.items()):
    for when in range(1, times + 1):
        for how in ("signal=SIGKILL", "error=EIO", "error=ENOSPC"):
            if call in ("openat", "pread64", "flock") and how != "error=EIO" and when % 3:
                continue
            d = fresh()
            rc, acked, why = tool(d, *ARGS, inject="%s:%s:when=%d" % (call, how, when))
            n += 1
            if not os.path.isdir(d + "/log/seg"):
                continue  # ended before there was a log
            if rc == 0 and call in ("pwrite64", "fdatasync", "fsync", "renameat"):
                alive.append((call, how, when))
            if how == "error=ENOSPC" and call == "pwrite64" and rc != 0:
                full += any(r["type"] == "log.full" for r in records(d))
            w = reopened(d, acked, python=n % 4 == 0)
            if w:
                bad.append((call, how, when, w))
tap.eq(bad, [], "killed or failed at each of %d places: all acknowledged is there, the log opens and is whole" % n)
tap.eq(alive, [], "no failed write, sync or rename is lived through")
tap.ok(full >= 4, "a full disk leaves its own record (%d times)" % full)

# --- a sync that fails once and then would lie ------------------------------------------------
d = fresh()
rc, acked, why = tool(d, *ARGS, inject="fdatasync:error=EIO:when=4")
tap.ok(rc != 0 and "sync" in why, "after one failed sync the process ends, it does not try again", (rc, why))
tap.eq(reopened(d, acked), None, "and the next one reads the disk")
d = fresh()
rc, acked, why = tool(d, *ARGS, inject="pwrite64:error=ENOSPC:when=5+")
tap.ok(rc != 0 and "log.full could not be written" in why, "a disk that stays full is said to be", why)
tap.eq(reopened(d, acked), None, "and the log is whole when there is room again")

# --- killed in recovery, again and again ---------------------------------------------------------
bad = []
for call, times in (("openat", 30), ("ftruncate", 1), ("renameat", 3), ("fsync", 8), ("fdatasync", 3), ("pwrite64", 2)):
    for when in range(1, times + 1):
        d = fresh()
        rc, acked, _ = tool(d, *ARGS, "close=0")
        with open(segs(d)[-1], "ab") as f:
            f.write(b'{"body":{"batch":')
        tool(d, "0", inject="%s:signal=SIGKILL:when=%d" % (call, when))
        tool(d, "0", inject="%s:signal=SIGKILL:when=%d" % (call, max(1, when - 1)))
        w = reopened(d, acked, python=False)
        rec = [r for r in records(d) if r["type"] == "log.recovered"]
        if w or len(rec) < 1 or rec[0]["data"]["bytes"] != 17:
            bad.append((call, when, w, rec))
tap.eq(bad, [], "recovery killed at any point comes to the same end, and its record is not lost")

# --- torn ends -------------------------------------------------------------------------------------
base = fresh("base")
rc, acked, _ = tool(base, "6", "batch=2", "cp=2", "close=0")
rc, more, _ = tool(base, "3", "batch=3", "cp=0", "close=0")
data = open(segs(base)[-1], "rb").read()
lines = data.splitlines(True)
tail = len(b"".join(lines[-3:]))  # the last batch, not signed
bad = []
for cut in range(1, tail, 23):
    d = fresh()
    shutil.copytree(base, d)
    with open(segs(d)[-1], "wb") as f:
        f.write(data[:-cut])
    rcs, out = verdicts(d, False)
    w = reopened(d, len(lines) - 3, python=False)
    if rcs != [3] or w:
        bad.append((cut, rcs, w))
tap.eq(bad, [], "an unsigned batch cut at any byte: unsigned or torn, and it opens")
bad = []
for _ in range(60):
    d = fresh()
    shutil.copytree(base, d)
    lost = bytearray(data)
    at = len(data) - tail
    for sector in range(at // 512, len(data) // 512 + 1):
        if rnd.random() < 0.5:
            a, b = max(at, sector * 512), min(len(data), (sector + 1) * 512)
            lost[a:b] = bytes(b - a)
    with open(segs(d)[-1], "wb") as f:
        f.write(lost)
    w = reopened(d, len(lines) - 3, python=False)
    if w:
        bad.append(w)
tap.eq(bad, [], "sectors of an unsynced batch lost at random: it opens, all acknowledged is there")
pack = sorted(os.listdir(base + "/log/blob"))[-1]
bad = []
blob = open(base + "/log/blob/" + pack, "rb").read()
for extra in (b"CFB1", b"CFB2", b"CFB2\0\0\0\xa1" + bytes(90), b"CFB1\0\0\0\x59" + bytes(20), b"\0" * 700, blob[:50]):
    d = fresh()
    shutil.copytree(base, d)
    with open(d + "/log/blob/" + pack, "ab") as f:
        f.write(extra)
    w = reopened(d, len(lines), python=False)
    if w or os.path.getsize(d + "/log/blob/" + pack) % len(blob) == len(extra):
        bad.append((extra, w))
tap.eq(bad, [], "an unfinished frame at the end of a pack is set aside")


# --- refused ------------------------------------------------------------------------------------------
def refused(change, words, name):
    d = fresh()
    shutil.copytree(base, d)
    for top, _, names in os.walk(d):
        for x in names:
            os.chmod(os.path.join(top, x), 0o600)
    change(d)
    before = {f: open(f, "rb").read() for f in segs(d)}
    rc, _, why = tool(d, "1")
    same = before == {f: open(f, "rb").read() for f in segs(d)}
    tap.ok(rc != 0 and re.search(words, why) and same, name, why)


def edit(f, k, change):
    x = open(f, "rb").read().splitlines(True)
    x[k:k + 1] = change(x[k])
    open(f, "wb").write(b"".join(x))


def newest(d):
    return d + "/log/cp/" + sorted(os.listdir(d + "/log/cp"))[-1]


refused(lambda d: edit(segs(d)[0], 2, lambda x: [x.replace(b'"n":', b'"m":')]), "refused: changed at seq 2", "a changed record is refused at start, and nothing is touched")
refused(lambda d: edit(segs(d)[0], 2, lambda x: []), "refused: missing at seq 2", "a missing one too")
refused(lambda d: edit(segs(d)[0], -2, lambda x: []), "refused: missing", "also where nothing was signed yet: no crash loses a whole line in the middle")
refused(lambda d: open(segs(d)[-1], "r+b").truncate(len(data) // 2), "refused: cut", "a log shorter than its checkpoint is refused")
refused(lambda d: os.unlink(newest(d)), "refused: .checkpoint. is of size", "a checkpoint removed behind the published one is refused")
refused(lambda d: [os.unlink(newest(d)) for _ in os.listdir(d + "/log/cp")] + [os.unlink(d + "/log/checkpoint")],
        "refused: the log has .* and no checkpoint", "so is a log without any")
refused(lambda d: open(newest(d), "ab").write(b"x"), "refused: cp/", "so is a broken checkpoint")
refused(lambda d: open(d + "/log/blob/" + sorted(os.listdir(d + "/log/blob"))[0], "r+b").write(b"X"), "refused: pack", "so is a pack damaged before content that a record names")
d = fresh()
shutil.copytree(base, d)
rc, _, why = tool(d, "1", "seed=8")
tap.ok(rc != 0 and "refused" in why, "another key does not go on with this log", why)

# --- two writers, a foreign hand -----------------------------------------------------------------------
d = fresh()
p = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=200000:when=3+", TOOL, d, "60", "cp=0"],
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
while not p.stdout.readline().startswith("ack"):
    pass
rc, _, why = tool(d, "1")
tap.ok(rc != 0 and "another writer" in why, "a second writer is refused while the first one lives", why)
os.unlink(d + "/log/LOCK")
rc, _, why = tool(d, "1")
tap.ok(rc != 0 and "another writer" in why, "also when the lock file was deleted meanwhile", why)
with open(segs(d)[-1], "ab") as f:
    f.write(b"x")
p.stdout.read()
tap.ok(p.wait() != 0, "a foreign byte in the open segment ends the writer at its next batch")
tap.done()
