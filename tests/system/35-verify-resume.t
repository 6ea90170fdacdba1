#!/usr/bin/python3
"""`cofferdam log verify --resume`: a verification that was ended goes on at a head that was reached, and says what one from the
beginning says, of whole logs and under every attack on the log, before, at and behind that head; of its own file it takes nothing but
what the log signed, and it never goes past a finding."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import attacks as a  # noqa: E402
from harness import BUILD, CLI, Tap, must, run, wait_for  # noqa: E402
from resume import CMD, GOOD, LEAVES, SCENES, SLOW, T, TOOL, Stepped, expected, heads, kept, leaves, put, signed, verify  # noqa: E402
from writer import Writer  # noqa: E402

tap = Tap()
SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, time and memory say nothing
LONG = int(os.environ.get("RESUME_RECORDS", "200000"))


# --- under attack -----------------------------------------------------------------------------------------------------
def attacked(name):
    """For heads that the log had before, at what was attacked and elsewhere: (what is wrong or None, did it go on there?)."""
    src, _, _, words, keys, pins = a.ATTACKS[name]
    before = leaves(src + "/log")
    sizes = {int(n) for n in heads(src + "/log")} | {k + i for k, _ in words for i in (0, 1)} | {2, len(before) // 2}
    log, keys = a.scene(name), T + "/" + keys if keys else a.KEY
    pins = [w for p in pins for w in ("--pin", T + "/" + p)]
    said = []
    for n in sorted(sizes - {0}):
        if n > len(before):
            continue
        cp = src + "/log/cp/%020d" % n
        note = a.get(cp) if os.path.exists(cp) else signed(before, n)
        file = put("%s/file-%s" % (T, name), note)
        want = expected(log, keys, file, *pins)
        rc, verdict, on, err = verify(log, keys, *pins, "--resume", file)
        if verdict is None:  # the keys do not let that head be signed: a pin is refused as well
            said.append((None if (rc, want[0]) == (2, 2) and file in err and a.get(file) == note else (n, rc, want, err), None))
            continue
        clean = rc in (0, 3)
        wrong = [x for x, bad in (("verdict", (rc, verdict) != want[:2]), ("where", on is None or on[0] != n or (clean and not on[1])),
                                  ("file", a.get(file) != note if not clean else kept(file) != max([n] + [int(x) for x in heads(log)])),
                                  ("error", err)) if bad]
        said.append(((n, wrong, rc, verdict, on, want, err) if wrong else None, on[1]))
    return said


with ThreadPoolExecutor(2) as pool:
    done = dict(zip(a.ATTACKS, pool.map(attacked, a.ATTACKS)))
for name, said in done.items():
    tap.eq([w for w, _ in said if w], [], "%s: from each of %d heads it says what a run from the beginning says, and its file is not moved past a finding" % (
        name, len(said)))
on = [on for said in done.values() for _, on in said]
tap.ok(min(on.count(True), on.count(False)) >= 50 and on.count(None) >= 4, "many of them went on, and as many saw that they could not", [
    on.count(x) for x in (True, False, None)])


# --- a long log, ended in the midst ----------------------------------------------------------------------------------------
# A small parent: where a process is made from a large one, that one's memory counts.
MEASURE = """import resource, subprocess, sys, time
began = time.monotonic()
rc = subprocess.call(sys.argv[1:], stderr=subprocess.DEVNULL)
print(rc, time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"""


def measured(argv):
    """(exit status, standard output, seconds, peak memory in KiB)"""
    r = subprocess.run([sys.executable, "-c", MEASURE, *argv], capture_output=True, encoding="utf-8", check=True)
    rc, seconds, kib = r.stderr.split()
    return int(rc), r.stdout, float(seconds), int(kib)


must([TOOL, T + "/long", str(LONG), "batch=1000", "cp=1000", "blob=0"])
log, keys = T + "/long/log", T + "/long/keys/log/vkey"
N, NEWEST = sum(a.get(log + "/seg/" + n).count(b"\n") for n in os.listdir(log + "/seg") if n.endswith(".jsonl")), heads(log)[-1]
ARGV = [CMD, "log", "verify", log, "--keys", keys, "--json"]
rc, out, whole_s, whole_kib = measured(ARGV)
WHOLE = json.loads(out)
tap.eq((rc, WHOLE["verified"], WHOLE["checkpoints"] > 100), (0, N, True), "AUD-11: %d records verify" % N)
file = T + "/kept"
p = Stepped(log, keys, file)
time.sleep(2.1)
tap.eq(kept(file), None, "a head is kept when it was reached, not before")
p.step()
tap.ok(wait_for(lambda: kept(file)), "AUD-11: a run keeps the head that it has reached")
first = kept(file)
p.end(signal.SIGKILL)
tap.ok(50000 <= first < 100000 and a.get(file) == a.get(log + "/cp/%020d" % first) and os.stat(file).st_mode & 0o7777 == 0o600,
       "AUD-11: killed behind 100,000 records, its file has a head of the log as it was signed, of size %d, and is its owner's alone" % first)
tap.eq(run([CLI, "log", "verify", log, "--keys", keys, "--pin", file]).returncode, 0, "and is a pin as well")
p = Stepped(log, keys, file)
p.step()
rc, _, _, err = p.end(signal.SIGTERM)
second = kept(file)
tap.ok(rc == -signal.SIGTERM and first < second <= 100001 and re.search("stopped by SIGTERM behind 10000[01] records; %d are signed, 0 findings so far; %s has "
       "the head of size %d: the same again goes on there\n" % (N, file, second), err), "AUD-11: ended by SIGTERM it says how far it is, of how many, and keeps it", (rc, first, second, err))
shutil.copy(file, file + "-2")
rc, out, resumed_s, resumed_kib = measured(ARGV + ["--resume", file])
said = json.loads(out)
tap.eq((rc, said.pop("resume"), said), (0, {"at": second, "resumed": True}, WHOLE), "AUD-11: and then goes on there, and says what a run from the beginning says")
tap.eq(a.get(file), a.get(log + "/cp/" + NEWEST), "the newest head is kept at the end")
rc, out, last_s, last_kib = measured(ARGV + ["--resume", file])
said = json.loads(out)
tap.eq((rc, said.pop("resume"), said), (0, {"at": N, "resumed": True}, WHOLE), "and from there once more")
tap.ok(SANITIZED or max(resumed_kib, last_kib) <= whole_kib + 1024, "AUD-11: in memory that is not more", (whole_kib, resumed_kib, last_kib))
print("# whole %.2f s %d KiB, on from %d of %d %.2f s %d KiB, from the end %.2f s %d KiB" % (whole_s, whole_kib, second, N, resumed_s, resumed_kib, last_s, last_kib))
r = run([CLI, "log", "verify", log, "--keys", keys, "--resume", file])
tap.ok(r.returncode == 0 and "resumed at %d: the form of records 0 to %d was judged by the run that kept that head; their bytes are as signed\n" % (N, N - 1) in r.stdout and
       "VERIFIED to size %d, " % N in r.stdout, "in words it says from where, and what that rests on", r.stdout)

p = Stepped(log, keys, T + "/by-int")
rc, _, _, err = p.end(signal.SIGINT)
tap.ok(rc == -signal.SIGINT and 1 < kept(T + "/by-int") <= 50001 and "stopped by SIGINT" in err, "by SIGINT as well, in the first run", (rc, err))


# --- a long log, tampered with --------------------------------------------------------------------------------------------------
def byte(path, off, flip=1):
    with open(path, "r+b") as f:
        f.seek(off)
        b = f.read(1)
        f.seek(off)
        f.write(bytes([b[0] ^ flip]))


def places(log, *seqs):
    """Where the lines of these records stand, and how long they are."""
    found = {}
    for n in sorted(n for n in os.listdir(log + "/seg") if n.endswith(".jsonl")):
        with open(log + "/seg/" + n, "rb") as f:
            off, seq = 0, int(n[:20])
            for line in f:
                if seq in seqs:
                    found[seq] = (log + "/seg/" + n, off, len(line))
                off, seq = off + len(line), seq + 1
    return [found[s] for s in seqs]


MID = [int(n) for n in heads(log) if int(n) > LONG // 2][0]
note = a.get(log + "/cp/%020d" % MID)
for seq, (path, off, n), back in zip((1000, MID - 1, MID, N - 2), places(log, 1000, MID - 1, MID, N - 2), (True, True, False, False)):
    for what, at in (("BODY", n // 3), ("hash", n - 10)):
        byte(path, off + at)
        put(file, note)
        want = expected(log, keys, file)
        got = verify(log, keys, "--resume", file)
        byte(path, off + at)
        tap.eq((got[:3], a.get(file) == note, want[0]), ((*want[:2], (MID, not back)), True, 1),
               "AUD-11: a byte of the %s of record %d changed, on from %d: the same finding, %s" % (what, seq, MID, "from record 0" if back else "from there"))
tap.eq(verify(log, keys, "--resume", file)[:3], (0, WHOLE, (MID, True)), "and without it the log verifies, and it goes on there")


# --- scenes: its file, and what a writer with the log's key could sign ------------------------------------------------------------
with ThreadPoolExecutor(4) as pool:  # most of the slow ones' time nothing runs
    for name, got in [(n, pool.submit(f, CMD)) for n, (f, _) in sorted(SCENES.items(), key=lambda x: x[0] not in SLOW)]:
        tap.eq(got.result(), SCENES[name][1], name.replace("_", " "))


# --- beside the checks of its file, what is allowed ------------------------------------------------------------------------------
for what, note, mode in (("that others may read", GOOD, 0o644), ("that its owner may not write", GOOD, 0o400), ("with lines of witnesses", GOOD + "— w.example AAAAAAAAAAAA\n".encode(), 0o600)):
    put(file, note, mode)
    got = verify(a.ONE + "/log", a.KEY, "--resume", file)
    tap.eq((got[0], got[2], kept(file), os.stat(file).st_mode & 0o777), (0, (int(heads(a.ONE + "/log")[1]), True), len(LEAVES), 0o600), "a file %s is taken, and kept" % what)
os.chdir(T)
for name in ("by-its-name", "./with-a-dot"):
    tap.eq((verify(a.ONE + "/log", a.KEY, "--resume", name)[0], kept(name)), (0, len(LEAVES)), "%s is a name for it" % name)
tap.eq((verify(a.ONE + "/log", a.KEY, "--resume=by-its-name")[0:3:2], verify(a.ONE + "/log", a.KEY, "--deep")[0]), ((0, (len(LEAVES), True)), 3),
       "so is one behind =, and --deep alone looks deep")
if os.geteuid() == 0:
    readable = shutil.copytree(a.ONE + "/log", T + "/readable")
    must(["chmod", "-R", "a+rX", readable])
    os.mkdir(T + "/of-nobody")
    keys_ = put(T + "/readable-keys", a.get(a.KEY), 0o644)
    nobody, who = T + "/of-nobody/file", {"user": 65534, "group": 65534, "extra_groups": []}
    for mode, d, words in ((0o000, 0o700, ": Permission denied"), (0o600, 0o500, ": its directory: Permission denied")):
        put(nobody, GOOD, mode)
        os.chown(nobody, 65534, 65534), os.chown(T + "/of-nobody", 65534, 65534), os.chmod(T + "/of-nobody", d)
        got = verify(readable, keys_, "--resume", nobody, **who)
        tap.eq((got, a.get(nobody) == GOOD), ((2, None, None, "cofferdam: %s%s\n" % (nobody, words)), True), "a file of mode %03o in a directory of mode %03o: said, with its name" % (mode, d))
    os.chmod(nobody, 0o600), os.chmod(T + "/of-nobody", 0o700)
    got = verify(readable, keys_, "--resume", nobody, **who)
    tap.eq((got[0], got[2], kept(nobody)), (0, (int(heads(a.ONE + "/log")[1]), True), len(LEAVES)), "by whoever may read the log and write their own file it is done")
    os.mkdir(T + "/full")
    r = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t tmpfs -o size=8k none "$1" && cp "$2" "$1/kept" && chmod 600 "$1/kept" && cat /dev/zero >"$1/fill" 2>&-; shift 2; '
                        '"$@"; echo "rc=$?"; ls -A "$0"; cat "$0/kept"', T + "/full", T + "/full", put(T + "/note", GOOD), CMD, "log", "verify", a.ONE + "/log", "--keys", a.KEY, "--resume", T + "/full/kept"],
                       capture_output=True, encoding="utf-8")
    tap.ok("VERIFIED to size %d, " % len(LEAVES) in r.stdout and "rc=2\nfill\nkept\n" + GOOD.decode() in r.stdout and re.search("kept is not kept up: .*No space left on device\n", r.stderr),
           "on a full disk the verdict is told, and that the file is not kept up; what was there stays", r.stdout + r.stderr)

# --- a log that lives: written, pruned ------------------------------------------------------------------------------------------
live, file = T + "/live", T + "/live-kept"
must([TOOL, live, "50", "batch=5", "cp=10"])
if os.geteuid() == 0:
    must(["chown", "-R", "63101:63101", live + "/log"])
w = Writer(live)
over = threading.Event()


def write():
    for i in range(1, 6001):
        w.append(i, "agent.note", {"n": i}, run="r-1", src="agent")
        while i % 32 == 0 and w.ack(20)["ticket"] != i:
            pass
    over.set()


writing = threading.Thread(target=write)
writing.start()
said, sizes = [], []
while not over.is_set() or not sizes:
    two = [subprocess.Popen([CMD, "log", "verify", live + "/log", "--keys", live + "/keys/log/vkey", "--resume", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
           for _ in range(2)]
    for p in two:
        out, err = p.communicate()
        said.append((p.returncode in (0, 3), "TAMPER" in out, "not resumed" in out, "kept up" in err))
    sizes.append(kept(file))
writing.join()
tap.ok(len(set(sizes)) >= 2 and set(said) == {(True, False, False, False)}, "while it is written %d runs, two at a time, go on where the last ones came to" % len(said), (set(said), sizes))
tap.eq(w.end(), 0, "its writer ends")
whole = verify(live + "/log", live + "/keys/log/vkey")
got = verify(live + "/log", live + "/keys/log/vkey", "--resume", file)
tap.eq((got[:2], got[2][1], kept(file)), (whole[:2], True, whole[1]["verified"]), "and at its end one more says what a run from the beginning says")
tap.eq([n for n in os.listdir(T) if n.startswith(".")], [], "none of all these leaves an unfinished file")

d = T + "/prune"
must([TOOL, d, "0", "seg=6000", "from=" + T + "/lines"])
must([TOOL, d, "30", "seg=6000"])
file, keys_, firsts = T + "/prune-kept", d + "/keys/log/vkey", []
for _ in range(3):
    firsts.append(int(sorted(n for n in os.listdir(d + "/log/seg") if n.endswith(".jsonl"))[0][:20]))
    whole, got = verify(d + "/log", keys_), verify(d + "/log", keys_, "--resume", file)
    tap.eq((got[0], got[1], got[2] is None or got[2][1], kept(file)), (0, whole[1], True, whole[1]["verified"]), "of a log that was pruned up to %d it says the same" % firsts[-1])
    must([CMD, "log", "prune", "--state", d, "--before-seq", str(whole[1]["verified"]), "--yes", "--reason", "old"])
    must([TOOL, d, "30", "seg=6000"])
tap.ok(firsts[0] == 0 < firsts[1] < firsts[2], "which it was, twice", firsts)

d, file = T + "/under", T + "/under-kept"
must([TOOL, d, "110000", "batch=1000", "cp=1000", "blob=0", "seg=%d" % (4 << 20)])
keys_ = d + "/keys/log/vkey"
put(file, a.get(d + "/log/cp/" + heads(d + "/log")[-2]))
at = kept(file)
p = Stepped(d + "/log", keys_, file)
segments = sorted(int(n[:20]) for n in os.listdir(d + "/log/seg") if n.endswith(".jsonl"))
must([CMD, "log", "prune", "--state", d, "--before-seq", str([x for x in segments if x > 60000][0] + 1), "--yes", "--reason", "old"])
must([TOOL, d, "10"])
got, whole = p.end(), verify(d + "/log", keys_)
tap.eq((got[:2], got[2], whole[1]["pruned"]["to"] > 60000), (whole[:2], (at, False), True), "pruned under its eyes it begins anew, and says so")

# --- every byte ------------------------------------------------------------------------------------------------------------------
d = T + "/bytes"
must([TOOL, d, "4", "batch=3", "cp=2", "seg=1300"])
ops = os.environ.get("RESUME_DAMAGE", "sector" if SANITIZED else "sector zero").split()
with ThreadPoolExecutor(2) as pool:
    def damage(op):
        mine = shutil.copytree(d, d + "-" + op)
        r = run([BUILD + "/tool_damage_log", mine + "/log", keys_of_bytes, op, "%s/log/cp/%020d" % (d, 4)], timeout=600)
        return r.returncode, r.stdout
    keys_of_bytes = d + "/keys/log/vkey"
    for op, (rc, out) in zip(ops, pool.map(damage, ops)):
        went, anew = map(int, out.splitlines()[-1].split()) if rc == 0 else (0, 0)
        tap.ok(rc == 0 and min(went, anew) > 2, "%s, at each place of a log: on from a head in its midst (%d) or from the beginning (%d) the verdict is the same" % (op, went, anew), out[-2000:])
tap.done()
