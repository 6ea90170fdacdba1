#!/usr/bin/python3
"""Looks for secrets wherever code in a sandbox can look: environments, arguments and memory of processes, every file that
can be read. usage: canary_scan.py FILE, which holds them as hexadecimal of their bytes reversed, so that neither the file
nor the arguments are a find. Prints how much was looked through, and each find."""
import glob
import os
import stat
import sys

SKIP = ("/proc", "/sys", "/dev", "/usr", "/bin", "/lib", "/lib64", "/sbin")
with open(sys.argv[1], encoding="ascii") as f:
    needles = [bytes.fromhex(line.strip())[::-1] for line in f]
looked = {"files": 0, "processes": 0, "bytes": 0}
found = []


def look(place, data):
    looked["bytes"] += len(data)
    for i, n in enumerate(needles):
        if n in data:
            found.append("%s: secret %d" % (place, i))


def read(path, limit=64 << 20):
    try:
        with open(path, "rb") as g:
            return g.read(limit)
    except OSError:
        return b""


def memory(pid):
    """Of another process: what ptrace's rules give to its own user."""
    try:
        with open("/proc/%s/maps" % pid, encoding="utf-8", errors="replace") as maps, open("/proc/%s/mem" % pid, "rb", 0) as mem:
            for line in maps:
                w = line.split()
                if "rw" not in w[1] or "[v" in line:
                    continue
                a, b = (int(x, 16) for x in w[0].split("-"))
                try:
                    mem.seek(a)
                    look("/proc/%s/mem %s" % (pid, w[0]), mem.read(min(b - a, 1 << 26)))
                except (OSError, ValueError, OverflowError):
                    pass
    except OSError:
        pass


for p in glob.glob("/proc/[0-9]*"):
    pid = p.rsplit("/", 1)[1]
    looked["processes"] += 1
    for what in ("environ", "cmdline"):
        look(p + "/" + what, read(p + "/" + what))
    if pid != str(os.getpid()):
        memory(pid)
for top, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if os.path.join(top, d) not in SKIP]
    for name in files:
        path = os.path.join(top, name)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode) and path != sys.argv[1]:
                looked["files"] += 1
                look(path, path.encode("utf-8", "surrogateescape") + read(path))
        except OSError:
            pass
print("SCANNED %(files)d files, %(processes)d processes, %(bytes)d bytes" % looked)
print("\n".join("FOUND " + x for x in found) if found else "FOUND NOTHING")
