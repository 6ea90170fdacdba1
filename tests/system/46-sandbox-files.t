#!/usr/bin/python3
"""Files, watch and snapshots of a sandbox, by its commands: what code inside leaves in the way (links,
FIFOs, races, odd names) neither reaches the host nor holds or fools who asks.

In an outer mount, uts and pid namespace of its own, as all that makes attacks.
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Tap, Temp, wait_for

if os.geteuid() == 0 and "COFFERDAM_OUTER" not in os.environ:
    os.environ["COFFERDAM_OUTER"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc",
                          "--kill-child", sys.executable] + sys.argv)

tap, temp = Tap(), Temp("files")
os.chmod(temp.path, 0o755)
T = temp.path
WEAK = [] if os.geteuid() == 0 else ["--limits-optional"]
boxes = []


def sandbox(*argv, data=b"", timeout=180):
    return subprocess.run([CLI, "sandbox"] + list(argv), input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout)


def create(*opts):
    name = "files-%d-%d" % (os.getpid(), len(boxes)) + os.urandom(3).hex()
    r = sandbox("create", name, *WEAK, *opts)
    if r.returncode != 0:
        tap.ok(False, "a sandbox is created", r.stderr.decode())
        tap.done()
    boxes.append(name)
    return name


def end(name):
    boxes.remove(name)
    return sandbox("kill", name)


def sh(name, script):
    r = sandbox("exec", "--in", name, "--", "bash", "-c", script)
    return r.stdout.decode("utf-8", "backslashreplace")


def files(verb, name, *argv, **kw):
    return sandbox("files", verb, name, *argv, **kw)


def refused(r, words, sentence):
    tap.ok(r.returncode in (1, 2) and words in r.stderr.decode(), sentence,
           "%d %r %r" % (r.returncode, r.stdout[:200], r.stderr))


A = create()

# --- up and down ---------------------------------------------------------------------------
blob = os.urandom(3 << 20)
r = files("write", A, "deep/er/blob", data=blob)
tap.eq(r.returncode, 0, "a file is written, with the directories above it")
tap.eq(files("read", A, "deep/er/blob").stdout, blob, "and comes back byte for byte")
files("write", A, "empty", data=b"")
r = files("read", A, "/work/empty")
tap.eq((r.returncode, r.stdout), (0, b""), "an empty file is written and read")
files("write", A, "tool", "--mode", "755", data=b"#!/bin/sh\necho ran\n")
tap.eq(sh(A, "./tool"), "ran\n", "a file gets the rights that were asked for")
refused(files("read", A, "deep/er/blob", "--max", str((3 << 20) - 1)), "larger than the limit",
        "a file of one byte more than the limit is not read")
tap.eq(files("read", A, "deep/er/blob", "--max", str(3 << 20)).returncode, 0, "one of just the limit is")
refused(files("write", A, "empty", "--max", "9", data=b"0123456789"), "larger than the limit of 9 bytes",
        "an upload of one byte more than the limit is refused")
tap.eq(sh(A, "stat -c %s empty; ls -A"), "0\ndeep\nempty\ntool\n",
       "and changed nothing, and left nothing half written")
tap.eq(files("write", A, "empty", "--max", "10", data=b"0123456789").returncode, 0, "one of just the limit is not")
refused(files("read", A, "no/such"), "No such file", "what is not there is said to be not there")

# --- what code inside puts in the way -------------------------------------------------------
sh(A, r"""mkfifo fifo; ln -s /dev/zero zero; ln -s loop loop; truncate -s 1E huge; mkdir -m 0 shut
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
touch -d @9999999999999 far; touch $'new\nline' $'bad\xff' '[{"name":"lie"}]'""")
refused(files("read", A, "fifo"), "it is a FIFO", "a FIFO is named, and holds nobody")
refused(files("read", A, "zero"), "it is a device", "a device is named, and not read")
refused(files("read", A, "sock"), "it is a socket", "a socket is named")
refused(files("read", A, "shut"), "it is a directory", "a directory is named")
refused(files("read", A, "loop"), "ymbolic link", "a link to itself ends, in the words of any C library")
refused(files("read", A, "huge", "--max", "1000000000"), "larger than the limit",
        "a sparse file of an exbibyte is refused at once")
entries = {e["name"]: e for e in json.loads(files("list", A, ".").stdout)}
tap.eq(sorted(entries), sorted(["deep", "empty", "tool", "fifo", "zero", "loop", "huge", "shut", "sock", "far",
                                "new\nline", "bad\ufffd", '[{"name":"lie"}]']),
       "each name is one string of the list, whatever it holds")
tap.eq(bytes.fromhex(entries["bad\ufffd"].get("bytes", "")), b"bad\xff", "a name that is no UTF-8 has its bytes beside it")
tap.eq([entries[n]["type"] for n in ("deep", "empty", "zero", "fifo", "sock")], ["dir", "file", "link", "other", "other"],
       "kinds are told apart, links are not followed")
tap.eq(entries["zero"]["target"], "/dev/zero", "a link says where it points")
tap.ok(entries["huge"]["size"] == 2**53 - 1 and entries["far"]["mtime_ms"] <= 2**53 - 1,
       "no size or time is larger than a number of JSON", entries)
sh(A, "mkdir many; cd many; for ((i = 0; i < 10000; i++)); do : > $i; done")
tap.eq(len(json.loads(files("list", A, "many").stdout)), 10000, "a list may have 10000 entries")
sh(A, ": > many/x")
refused(files("list", A, "many"), "more than 10000 entries", "one more is refused")
refused(files("list", A, ".", "--depth", "129"), "--depth must be a number", "depth has a limit")
tap.eq([e["path"] for e in json.loads(files("list", A, "deep", "--depth", "2").stdout)], ["deep/er", "deep/er/blob"],
       "a list of two levels has both, in order")
st = json.loads(files("stat", A, "zero").stdout)
tap.eq((st["type"], st["path"]), ("link", "zero"), "stat tells of the link itself")
files("write", A, "zero", data=b"mine")
tap.eq(sh(A, "cat zero; stat -c %F zero"), "mineregular file\n", "a write takes the place of a link, not of what it points to")
files("write", A, "fifo", data=b"mine")
tap.eq(files("read", A, "fifo").stdout, b"mine", "and of a FIFO")
refused(files("write", A, "deep", data=b"x"), "it is a directory", "but not of a directory")

# --- rename, mkdir, remove -------------------------------------------------------------------
tap.eq(files("mkdir", A, "m/k").returncode, 0, "directories are made with those above")
tap.eq(files("mkdir", A, "m/k").returncode, 0, "one that is there is fine")
refused(files("mkdir", A, "empty"), "something else has this name", "a file of that name is not")
tap.eq(files("rename", A, "m", "new/m").returncode, 0, "a directory is renamed")
refused(files("remove", A, "new"), "not empty", "a directory that is not empty is not removed by itself")
tap.eq(files("remove", A, "new", "--tree").returncode, 0, "with its tree it is")
sh(A, """mkdir pit; cd pit; python3 -c '
import os
fd = os.open(".", os.O_DIRECTORY)
for i in range(3000):
    os.mkdir("d", dir_fd=fd); n = os.open("d", os.O_DIRECTORY, dir_fd=fd); os.close(os.open("f", os.O_CREAT, 0, dir_fd=fd))
    os.fchmod(fd, 0o000 if i % 2 and i else 0o700); os.close(fd); fd = n'""")
r = files("remove", A, "pit", "--tree")
tap.eq((r.returncode, r.stderr), (0, b""), "a tree of 3000 levels without rights is removed")
refused(files("remove", A, "pit", "--tree"), "No such file", "and is gone")

# --- the host ----------------------------------------------------------------------------------
# /work is a directory of the host here: links in it must lead nowhere out there.
os.mkdir(T + "/out")
os.chmod(T + "/out", 0o777)
with open(T + "/out/secret", "w", encoding="ascii") as f:
    f.write("canary")
os.mkdir(T + "/work")
os.chmod(T + "/work", 0o777)
W = create("--workspace", T + "/work")
sh(W, "ln -s %s/out out; ln -s %s/out/secret secret; ln -s /proc/1/root/etc/shadow shadow" % (T, T))
refused(files("read", W, "secret"), "No such file", "a link in /work to a file of the host leads nowhere")
refused(files("read", W, "out/secret"), "No such file", "nor does one to a directory")
tap.ok(files("read", W, "shadow").returncode == 1, "nor one by /proc/1/root")
tap.ok(files("write", W, "out/new", data=b"x").returncode == 1, "nothing is written by such a link")
files("write", W, "secret", data=b"mine")
with open(T + "/out/secret", encoding="ascii") as f:
    tap.eq(f.read(), "canary", "a write to a link's name leaves the host's file alone")
files("remove", W, "out", "--tree")
tap.eq(os.listdir(T + "/out"), ["secret"], "a tree is not removed through a link")
# A directory that code inside swaps with a link to the host, again and again.
sandbox("spawn", W, "--", "bash", "-c",
        "mkdir -p a; while :; do mv a b; ln -s %s/out a; rm a; mv b a; done" % T)
racing = [files("write", W, "a/x%d" % i, data=b"x").returncode for i in range(60)]
racing += [files("remove", W, "a/secret", "--tree").returncode for i in range(20)]
tap.ok(0 in racing, "files are written while code inside swaps their directory with a link", racing)
tap.eq(os.listdir(T + "/out"), ["secret"], "and never one behind the link")
tap.eq(end(W).returncode, 0, "its sandbox ends")

# --- watch ----------------------------------------------------------------------------------
sh(A, "mkdir -p w/sub")
p = subprocess.Popen([CLI, "sandbox", "files", "watch", A, "w", "--tree"], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE)
seen = []
reader = threading.Thread(target=lambda: [seen.append(json.loads(x)) for x in p.stdout], daemon=True)
reader.start()


def begun():
    sh(A, "date > w/probe")
    return any(c["path"] == "w/probe" for c in seen)


tap.ok(wait_for(begun, 60, 0.2), "a watch tells of a change")
sh(A, "cd w; echo 1 > sub/f; chmod 700 sub/f; mv sub $'s\\nb'; echo 2 > $'s\\nb/g'; rm $'s\\nb/f'; mkdir -p x/y; echo > x/y/z")
want = [("write", "w/sub/f"), ("chmod", "w/sub/f"), ("rename", "w/sub"), ("create", "w/s\nb/g"),
        ("remove", "w/s\nb/f"), ("create", "w/x"), ("create", "w/x/y/z")]
tap.ok(wait_for(lambda: set(want) <= {(c["op"], c["path"]) for c in seen}, 60),
       "each kind of change is told, also below a directory that was renamed or is new", seen)
tap.ok(any(c.get("to") == "w/s\nb" for c in seen), "a rename says where to", seen)
sh(A, "cd w; for ((i = 0; i < 2000; i++)); do echo > f$i; rm f$i; done; echo > last")
tap.ok(wait_for(lambda: any(c["path"] == "w/last" or c["op"] == "overflow" for c in seen), 60),
       "a flood of changes is told, or said to be too much")
p.send_signal(signal.SIGTERM)
tap.ok(p.wait(60) is not None, "a watch ends when its caller does")
tap.ok(wait_for(lambda: "watch" not in sh(A, "cat /proc/[0-9]*/cmdline 2>&1 | tr '\\0' ' '").replace("/cmdline", ""), 30),
       "and nothing of it stays inside")
refused(files("watch", A, "empty"), "not a directory", "a file is not watched")

# --- snapshots -----------------------------------------------------------------------------
FIND = r"find . -mindepth 1 ! -type s -printf '%p %y %m %s %T@ %l\n' | LC_ALL=C sort; find . -type f -size -9M -perm -400 -exec sha256sum {} + | LC_ALL=C sort"
sh(A, r"""rm -rf w many; chmod 700 shut; echo s > shut/in; chmod 4000 shut/in; chmod 0 shut
mkdir -m 1777 sticky; mkdir -m 300 noread; ln tool hard; ln -s ../../../etc/passwd up; echo old > old; touch -d @1 old""")
before = sh(A, FIND)
r = sandbox("snapshot", A, T + "/snap")
tap.eq((r.returncode, r.stderr), (0, b""), "a snapshot is taken")
size = os.path.getsize(T + "/snap")
tap.ok(3 << 20 < size < 8 << 20, "sparse files cost nothing in it", size)
tap.eq(sh(A, FIND), before, "taking it changes nothing inside")
refused(sandbox("snapshot", A, T + "/small", "--max", str(1 << 20)), "larger than the limit", "its size has a limit")
tap.eq(sh(A, FIND), before, "and one that is cut there changes nothing either")
sh(A, "rm -rf deep; echo more > more; mkdir -m 0 odd; echo changed > tool")
r = sandbox("restore", A, T + "/snap")
tap.eq((r.returncode, r.stderr), (0, b""), "it is restored")
tap.eq(sh(A, FIND), before, "names, kinds, modes, times, links and contents are as before, and nothing else is there")
tap.eq(sh(A, "stat -c %h tool"), "2\n", "hard links are links again")
B = create()
tap.eq(sandbox("restore", B, T + "/snap").returncode, 0, "it is restored in another sandbox")
tap.eq(sh(B, FIND), before, "with the same in it")

with open(T + "/snap", "rb") as f:
    snap = f.read()
tap.ok(snap.startswith(b"cofferdam-snapshot 1\n"), "a snapshot says what it is")


def restore(data, name=None):
    return sandbox("restore", name or B, "-", data=data)


for data, what in ((b"", "an empty file"), (b"cofferdam-snapshot 2\n" + snap[21:], "another version"),
                   (b"ustar" * 400, "another file"), (snap[:20], "a cut name")):
    refused(restore(data), "not a snapshot", "%s is refused" % what)
tap.eq(sh(B, FIND), before, "and what is no snapshot changes nothing")
flipped = bytearray(snap)
flipped[len(snap) // 2] ^= 1
for data, what in ((snap[:-1], "one that lacks a byte"), (snap[:len(snap) // 2], "half of one"),
                   (snap[:-30], "one that lacks its end"), (bytes(flipped), "one with one other bit"),
                   (snap[:22] + b"\xff" + snap[23:], "one with a changed length"), (snap + b"x", "one with a byte more")):
    r = restore(data)
    tap.ok(r.returncode == 2 and b"nothing was changed" in r.stderr and sh(B, FIND) == before,
           "%s is refused, and changes nothing" % what, "%r\n%s" % (r.stderr, sh(B, "ls -lA")))
    with open(T + "/bad", "wb") as f:
        f.write(data)
    r = sandbox("restore", B, T + "/bad")
    tap.ok(r.returncode == 2 and b"nothing was changed" in r.stderr and sh(B, FIND) == before,
           "%s is refused as a file, too" % what, r.stderr)


def summed(data):
    h = 0xcbf29ce484222325
    for byte in data[:-8]:
        h = (h ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return data[:-8] + h.to_bytes(8, "big")


tap.eq(summed(snap), snap, "the end of a snapshot is the sum of what is before it")
r = restore(summed(snap.replace(b"./deep/er/blob", b"../../../tmp/b", 1)))
tap.ok(r.returncode == 2 and b"tar: exit 2; nothing was changed" in r.stderr,
       "one with a path that leads out of /work is refused by tar, inside", r.stderr)
tap.eq(sh(B, "ls /tmp; " + FIND), before, "and the path is not followed even there, and nothing is changed")

# Who sends stalls, and who calls is killed.
stalled = subprocess.Popen([CLI, "sandbox", "restore", B, "-"], stdin=subprocess.PIPE)
stalled.stdin.write(snap[:len(snap) - 100])
stalled.stdin.flush()
tap.ok(wait_for(lambda: "cofferdam-restore-new" in sh(B, "ls -A"), 60), "a restore unpacks beside what is there")
refused(sandbox("restore", B, T + "/snap"), "another snapshot or restore is at work", "another one is refused meanwhile")
stalled.kill()
stalled.wait()
stalled.stdin.close()
tap.ok(wait_for(lambda: "cofferdam" not in sh(B, "ls -A"), 60), "what it had unpacked is removed when its caller is killed")
tap.eq(sh(B, FIND), before, "and nothing was changed")

# The part itself is killed: what it left says how far it came.
LEFT = "mkdir .cofferdam-restore-old .cofferdam-restore-%s; echo new > .cofferdam-restore-%s/n; "
for state, script, what in (
        ("new", "mv tool deep sticky .cofferdam-restore-old/", "some of the old aside"),
        ("in", 'for f in *; do m=$(stat -c %a "$f"); [ -L "$f" ] || chmod u+rwx "$f"; '
               'mv "$f" .cofferdam-restore-old/; [ -L ".cofferdam-restore-old/$f" ] || '
               'chmod "$m" ".cofferdam-restore-old/$f"; done; echo new > tool',
         "some of the new in its place")):
    sh(B, LEFT % (state, state) + script)
    tap.ok(sh(B, FIND) != before, "a restore was cut off with %s" % what)
    tap.eq(sandbox("snapshot", B, "-").returncode, 0, "a snapshot is taken then")
    tap.eq(sh(B, FIND), before, "and before it the old was put back")
sh(B, "mkdir .cofferdam-restore-old; mv tool .cofferdam-restore-old")
tap.eq(restore(snap).returncode, 0, "the whole one is restored after all that")
tap.eq(sh(B, FIND), before, "with the same in it again")

# In an overlay directories from below cannot be renamed.
os.makedirs(T + "/lower/shut/a")
for name in ("/lower/top", "/lower/shut/a/f"):
    with open(T + name, "w", encoding="ascii") as f:
        f.write("below")
os.chmod(T + "/lower/shut", 0o500)
if os.geteuid() == 0:
    for top, _, names in os.walk(T + "/lower"):
        for name in [top] + [top + "/" + n for n in names]:
            os.chown(name, 1000, 1000)
O = create("--overlay", T + "/lower")
below = sh(O, "find . | sort; stat -c %a shut; cat shut/a/f")
tap.ok(below.endswith("500\nbelow"), "an overlay shows what is below", below)
tap.eq(sandbox("snapshot", O, T + "/osnap").returncode, 0, "of an overlay a snapshot is taken")
r = restore(snap, O)
tap.eq((r.returncode, sh(O, FIND)), (0, before), "another is restored in its place")
tap.eq(restore(snap[:-9], O).returncode, 2, "a cut one is not")
r = sandbox("restore", O, T + "/osnap")
tap.eq((r.returncode, r.stderr, sh(O, "find . | sort; stat -c %a shut; cat shut/a/f")), (0, b"", below), "and its own again")
tap.eq(sorted(os.listdir(T + "/lower")), ["shut", "top"], "below nothing changed")

# Others wait meanwhile, and go on.
sandbox("spawn", B, "--", "bash", "-c", "while :; do date +%N > /tmp/tick; sleep 0.01; done")
tap.ok(wait_for(lambda: sh(B, "cat /tmp/tick"), 30), "a program runs")
sandbox("snapshot", B, "-")
ticks = [sh(B, "cat /tmp/tick; sleep 0.2") for _ in range(2)]
tap.ok(ticks[0] != ticks[1], "it goes on after a snapshot", ticks)
restore(snap)
ticks = [sh(B, "cat /tmp/tick; sleep 0.2") for _ in range(2)]
tap.ok(ticks[0] != ticks[1], "and after a restore", ticks)
restore(snap[:1000])
ticks = [sh(B, "cat /tmp/tick; sleep 0.2") for _ in range(2)]
tap.ok(ticks[0] != ticks[1], "and after one that failed", ticks)
# Nobody reads it, so it holds the programs; and longer than pid 1 may take to begin one.
tick = lambda wait=0: (time.sleep(wait), sandbox("files", "read", B, "/tmp/tick").stdout)[1]
killed = subprocess.Popen([CLI, "sandbox", "snapshot", B, "-"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
tap.ok(wait_for(lambda: tick() == tick(0.3), 20), "a snapshot that nobody reads holds the programs")
waits = subprocess.Popen([CLI, "sandbox", "exec", "--in", B, "--", "echo", "on"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
time.sleep(31)
tap.ok(waits.poll() is None, "what is to begin meanwhile waits for its end")
killed.send_signal(signal.SIGKILL)
killed.wait()
tap.eq((waits.communicate(timeout=30)[0], waits.returncode), (b"on\n", 0), "and begins then")
tap.ok(wait_for(lambda: sh(B, "cat /tmp/tick; sleep 0.2") != sh(B, "cat /tmp/tick"), 30),
       "and after the caller of a snapshot was killed")

# --- what is refused with its reason -----------------------------------------------------------
refused(files("remove", B, "/work", "--tree"), "remove what is in it by name", "/work itself is not removed")
refused(files("remove", B, "sticky/..", "--tree"), "remove what is in it by name", "nor by another name")
refused(files("remove", B, "/tmp/"), "remove what is in it by name", "nor /tmp")
tap.eq(sh(B, FIND), before, "and nothing in it either")
sh(B, "ln -s /work here")
tap.eq(files("remove", B, "here", "--tree").returncode, 0, "a link to it is removed")
tap.eq(sh(B, FIND), before, "and not what it points to")
refused(files("rename", B, "old", "/tmp/old"), "copy it by read and write", "a rename to another file system says what to do")
tap.eq(files("rename", B, "old", "/work/older").returncode, 0, "one in the same is done")
with open("/dev/full", "w", encoding="ascii") as full:
    r = subprocess.run([CLI, "sandbox", "files", "read", B, "deep/er/blob"], stdout=full, stderr=subprocess.PIPE, timeout=60)
r.stdout = b""
refused(r, "standard output: No space left on device", "a read says what is wrong with its output")
r = sandbox("snapshot", B, "-", "--max", "10")
tap.eq((r.returncode, r.stdout), (1, b""), "a snapshot that is refused has written nothing")
if os.geteuid() == 0:
    P = create("--pids", "4")
    while sandbox("spawn", P, "--", "sleep", "99").returncode == 0:
        pass
    for verb in (["snapshot", P, "-"], ["files", "list", P, "."]):
        r = sandbox(*verb)
        refused(r, "limit pids (4 processes", "with no process left %s says which limit that is" % verb[0])
        tap.eq(r.stdout, b"", "and writes nothing")

# --- memory and disk ------------------------------------------------------------------------
C = create("--disk", "16")
r = files("write", C, "big", data=b"x" * (20 << 20))
refused(r, "No space left", "a file that does not fit is refused")
tap.eq(sh(C, "ls -A"), "", "and nothing of it is left")
sh(C, "head -c 9000000 /dev/urandom > big; mkdir d; echo x > d/f")
with_big = sh(C, FIND)
tap.eq(sandbox("snapshot", C, T + "/big").returncode, 0, "a snapshot of more than half of the disk is taken")
r = sandbox("restore", C, T + "/big")
refused(r, "/work has no room for the snapshot beside what is in it (limit 16 MiB", "it does not fit beside, and that is said")
tap.ok(b"nothing was changed" in r.stderr and sh(C, FIND) == with_big, "and nothing was changed", r.stderr)
files("remove", C, "big")
tap.eq((sandbox("restore", C, T + "/big").returncode, sh(C, FIND)), (0, with_big), "with room it is restored")
if os.geteuid() == 0:
    M = create("--memory", "64", "--disk", "512")
    sh(M, "head -c 40000000 /dev/urandom > big")
    with_big = sh(M, FIND)
    tap.eq(sandbox("snapshot", M, T + "/mem").returncode, 0, "a snapshot of more than half of the memory is taken")
    refused(sandbox("restore", M, T + "/mem"), "memory limit", "it does not fit beside, and the memory limit is named")
    tap.eq(sandbox("snapshot", M, "-").returncode, 0, "a snapshot is taken after it")
    tap.eq(sh(M, FIND), with_big, "and nothing was changed")
for name in list(boxes):
    tap.eq(end(name).returncode, 0, "a sandbox ends")
tap.done()
