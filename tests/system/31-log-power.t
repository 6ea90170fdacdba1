#!/usr/bin/python3
"""Power cuts in a model of a disk: all system calls of a writer's store are recorded; at any of them the power goes, and of what was
not synced by then any sectors, and any beginning of each directory's changes, are on the disk. Whatever is left opens again, is
whole, and holds all that was acknowledged."""
import codecs
import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import sanitizers
from harness import BUILD, CLI, Tap, Temp, run

tap, temp = Tap(), Temp("log-power")
T = temp.path
TOOL = BUILD + "/tool_append-log"
SEED = int(os.environ.get("POWER_SEED", "0")) or random.randrange(1 << 30)
TRACES, CUTS = int(os.environ.get("POWER_TRACES", "3")), int(os.environ.get("POWER_CUTS", "30"))
rnd = random.Random(SEED)
print("# POWER_SEED=%d" % SEED)
os.environ["ASAN_OPTIONS"] = sanitizers.no_leaks()  # which does not work under strace
if run(["strace", "-qq", "-e", "trace=none", "true"]).returncode != 0:
    print("1..0 # SKIP strace cannot trace here")
    sys.exit(0)
CALLS = "openat,mkdirat,pwrite64,fdatasync,fsync,renameat,unlinkat,ftruncate,fallocate,write"
STR = r'"((?:[^"\\]|\\.)*)"'


def text(s):
    return codecs.escape_decode(s.encode("latin-1"))[0]


def traced(d, *args):
    """[(call, path or None, more)] of one life of a writer, in order."""
    out = T + "/trace"
    subprocess.run(["strace", "-f", "-qq", "-y", "-s", "2000000", "-o", out, "-e", "trace=" + CALLS, TOOL, d, *args], check=True, stdout=subprocess.DEVNULL)
    ops, log = [], d + "/log"
    for line in open(out, encoding="latin-1"):
        m = re.match(r"\d+ +(\w+)\((.*)\) = (-?\d+)", line)
        if not m or int(m[3]) < 0:
            continue
        call, a = m[1], m[2]
        at = re.match(r"-?\w+<([^>]*)>", a)
        path = at[1] if at else None
        if call == "write":
            ack = re.match(r"1<[^>]*>, " + '"ack (\\d+)', a)
            if ack:
                ops.append(("ack", None, int(ack[1])))
            continue
        if path is None or not (path == log or path.startswith(log + "/")):
            continue
        names = [text(x).decode() for x in re.findall(STR, a)] if call in ("openat", "renameat", "unlinkat", "mkdirat") else []
        if call == "openat" and "O_CREAT" in a:
            ops.append(("create", path + "/" + names[0], None))
        elif call == "mkdirat":
            ops.append(("mkdir", path + "/" + names[0], None))
        elif call == "pwrite64":
            data, off = text(re.search(STR, a)[1]), int(a.rsplit(", ", 1)[1])
            ops.append(("write", path, (off, data[:int(m[3])])))
        elif call == "ftruncate":
            ops.append(("truncate", path, int(a.rsplit(", ", 1)[1])))
        elif call == "fallocate":
            ops.append(("truncate", path, int(a.rsplit(", ", 1)[1])))
        elif call in ("fsync", "fdatasync"):
            ops.append(("sync", path, None))
        elif call == "renameat":
            ops.append(("rename", path + "/" + names[0], path + "/" + names[1]))
        elif call == "unlinkat":
            ops.append(("unlink", path + "/" + names[0], None))
    return ops


class Inode:
    def __init__(self):
        self.disk, self.waiting = bytearray(), []

    def write(self, off, data):
        self.disk.extend(bytes(max(0, off + len(data) - len(self.disk))))
        self.disk[off:off + len(data)] = data

    def apply(self, what):
        if isinstance(what, int):
            self.disk = self.disk[:what] + bytes(max(0, what - len(self.disk)))
        else:
            self.write(*what)

    def sync(self):
        for x in self.waiting:
            self.apply(x)
        self.waiting = []

    def cut(self):
        """Sectors at random; the size may have come without them."""
        for x in self.waiting:
            if isinstance(x, int):
                if rnd.random() < 0.5:
                    self.apply(x)
                continue
            off, data = x
            if rnd.random() < 0.3:
                self.disk.extend(bytes(max(0, off + len(data) - len(self.disk))))
            keep = rnd.choice((0.1, 0.5, 0.9))
            for a in range(off - off % 512, off + len(data), 512):
                b, e = max(a, off), min(a + 512, off + len(data))
                if rnd.random() < keep:
                    self.write(b, data[b - off:e - off])


class Disk:
    """Names and inodes as processes see them, and as they are on the disk."""

    def __init__(self, top):
        self.seen, self.names, self.waiting, self.dirs, self.acked = {}, {}, [], set(), 0
        for at, dirs, files in os.walk(top):
            self.dirs.update([at] + [os.path.join(at, x) for x in dirs])
            for x in files:
                i = self.seen[os.path.join(at, x)] = self.names[os.path.join(at, x)] = Inode()
                with open(os.path.join(at, x), "rb") as f:
                    i.disk = bytearray(f.read())

    def rename(self, names, op):
        kind, a, b = op
        if kind == "link":
            names[a] = b
        elif kind == "unlink":
            names.pop(a, None)
        elif a in names:
            names[b] = names.pop(a)

    def change(self, op):
        self.rename(self.seen, op)
        self.waiting.append(op)

    def step(self, op):
        kind, path, more = op
        if kind == "ack":
            self.acked = more
        elif kind == "mkdir":
            self.dirs.add(path)
        elif kind == "create" and path not in self.seen:
            self.change(("link", path, Inode()))
        elif kind in ("rename", "unlink"):
            self.change((kind, path, more))
        elif kind == "sync" and path in self.dirs:
            for x in [x for x in self.waiting if os.path.dirname(x[1]) == path]:
                self.rename(self.names, x)
                self.waiting.remove(x)
        elif kind == "sync" and path in self.seen:
            self.seen[path].sync()
        elif kind in ("write", "truncate") and path in self.seen:
            self.seen[path].waiting.append(more)

    def cut(self, top, to):
        for d in {os.path.dirname(x[1]) for x in self.waiting}:
            mine = [x for x in self.waiting if os.path.dirname(x[1]) == d]
            for x in mine[:rnd.randrange(len(mine) + 1)]:
                self.rename(self.names, x)
        for d in sorted(self.dirs | {top}):
            os.makedirs(to + d[len(top):], 0o700, exist_ok=True)
        for path, i in self.names.items():
            i.cut()
            with open(to + path[len(top):], "wb") as f:
                f.write(i.disk)


def left(d, acked):
    """None when what the power left opens, is whole and holds what was acknowledged; else what is wrong."""
    r = run([TOOL, d, "2"])
    if r.returncode != 0:
        return "does not open: " + r.stdout
    v = run([CLI, "log", "verify", d + "/log", "--keys", d + "/keys/log/vkey"])
    n = 0
    for name in sorted(x for x in os.listdir(d + "/log/seg") if x.endswith(".jsonl")):
        with open(d + "/log/seg/" + name, "rb") as f:
            for line in f:
                if json.loads(line)["body"]["seq"] != n:
                    return "record %d is not in its place" % n
                n += 1
    return None if v.returncode == 0 and n >= acked else "%d records, %d were acknowledged: %s" % (n, acked, v.stdout)


bad, cuts, places, waited = [], 0, set(), 0
for t in range(TRACES):
    base, d = T + "/base", T + "/d"
    for x in (base, d):
        shutil.rmtree(x, True)
    options = ["batch=%d" % rnd.choice((1, 3, 8)), "cp=%d" % rnd.choice((0, 8, 24)), "seg=%d" % rnd.choice((2500, 9000, 100000)), "size=%d" % rnd.choice((0, 700, 3000))]
    run([TOOL, d, "6", "batch=2"], check=True)
    shutil.copytree(d, base)
    ops = traced(d, "24", *options)
    for _ in range(CUTS):
        disk, at = Disk(base + "/log"), rnd.randrange(len(ops))
        for op in ops[:at]:
            kind, path, more = op
            fixed = [base + x[len(d):] if isinstance(x, str) else x for x in (path, more)]
            disk.step((kind, *fixed))
        waited += sum(bool(i.waiting) for i in disk.seen.values()) + bool(disk.waiting)
        to = T + "/cut"
        shutil.rmtree(to, True)
        shutil.copytree(base + "/keys", to + "/keys")
        disk.cut(base + "/log", to + "/log")
        w = left(to, disk.acked)
        cuts, places = cuts + 1, places | {(t, at)}
        if w:
            bad.append((t, at, ops[at - 1][:2], options, w))
tap.eq(bad[:3], [], "%d power cuts at %d places of %d lives: it opens, is whole, and holds all that was acknowledged" % (cuts, len(places), TRACES))
tap.ok(waited > cuts // 4, "much of the time something was not synced yet", (waited, cuts))
tap.done()
