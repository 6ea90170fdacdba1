#!/usr/bin/python3
"""An export is killed at each of its system calls, and while the log grows: every record is in the file, whole, in order; what
stands there twice has one id and one hash. Cursors that do not fit the log are refused."""
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from forge import edited, rewrite, segments
from harness import BUILD, CLI, Tap, Temp, run, wait_for

tap, temp = Tap(), Temp("export-kill")
TOOL, KILL = BUILD + "/tool_append-log", BUILD + "/tool_kill_at"
rnd = random.Random(5)
EVERY = 3 if os.environ.get("MODE", "opt") == "opt" else 21  # a sanitized program takes seconds to each


def make(name, n, *opts):
    d = temp.path + "/" + name
    subprocess.run([TOOL, d, str(n), "batch=50", "cp=50", "seg=60000", *opts], check=True, stdout=subprocess.DEVNULL)
    return d


def log_of(state):
    out = {}
    for name in sorted(n for n in os.listdir(state + "/log/seg") if n.endswith(".jsonl")):
        with open(state + "/log/seg/" + name, "rb") as f:
            out.update((json.loads(x)["body"]["seq"], json.loads(x)["hash"]) for x in f.read().splitlines(True) if x.endswith(b"\n"))
    return out


def export(state, out, *opts):
    return ["log", "export", "--state", state, "--format", "json", "--output", out, "--cursor", "k", *opts]


def whole(state, out):
    """What is wrong with the file: every line a record, all there, in order but for what came again."""
    with open(out, "rb") as f:
        text = f.read()
    if not text.endswith(b"\n"):
        return "it does not end with a line"
    seen = [json.loads(x) for x in text.splitlines()]
    log, first = log_of(state), list(dict.fromkeys(e["seq"] for e in seen))
    if first != sorted(log):
        return "records %r" % sorted(set(log) ^ set(first))[:5]
    return "".join("record %d has another hash\n" % e["seq"] for e in seen if log[e["seq"]] != e["hash"])


state = make("a", 5500)
kills, worst, n = 0, "", 80  # before it the program is only being loaded
while True:
    n += EVERY
    for p in (temp.path + "/a.json", state + "/export"):
        shutil.rmtree(p) if os.path.isdir(p) else os.path.exists(p) and os.unlink(p)
    done = False
    ways = (0, 1, 2) if n % 5 == 0 else (0, 2)
    for again in ways:  # once or twice at the same place, then to the end
        r = run([KILL, "caller", str(n), "caller", "--", BUILD + "/cofferdam-cmd", *export(state, temp.path + "/a.json")] if again < 2
                else [CLI, *export(state, temp.path + "/a.json")])
        done = done or (again == 0 and r.returncode == 3)
        kills += again < 2 and not done
    worst = worst or (r.stdout if r.returncode else "") or whole(state, temp.path + "/a.json")
    if done or worst or n > 800:
        break
tap.eq(worst, "", "killed at one system call in %d from the %dth to the %dth: all is there (%d kills)" % (EVERY, 80 + EVERY, n - EVERY, kills))
tap.ok(kills > 30, "and these were many")

state = temp.path + "/b"
with open(temp.path + "/b.from", "w", encoding="ascii") as f:
    f.writelines('agent.note\tagent\tr-1\t{"n":%d}\t\n' % i for i in range(6000))
w = subprocess.Popen([TOOL, state, "1", "batch=20", "cp=20", "seg=200000", "pace=300", "from=" + temp.path + "/b.from"], stdout=subprocess.DEVNULL)
tap.ok(wait_for(lambda: os.path.exists(state + "/log/checkpoint"), 20), "a log grows")
kills = 0
while w.poll() is None:
    p = subprocess.Popen([CLI, *export(state, temp.path + "/b.json", "--follow")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        w.wait(rnd.uniform(0.05, 0.4))
    except subprocess.TimeoutExpired:
        pass
    p.kill()
    p.wait()
    kills += 1
r = run([CLI, *export(state, temp.path + "/b.json")])
tap.eq((r.returncode, whole(state, temp.path + "/b.json")), (0, ""), "followed and killed %d times meanwhile: all is there" % kills)

# === a cursor that does not fit ====================================================================================
shutil.rmtree(state + "/log/seg")
shutil.copytree(temp.path + "/a/log/seg", state + "/log/seg")
other = make("c", 200, "origin=other.example/log")
os.makedirs(other + "/export")
shutil.copy(temp.path + "/a/export/k", other + "/export/k")
r = run([CLI, *export(other, temp.path + "/c.json")])
tap.ok(r.returncode and "cursor k is of the log broker.example/test, this is other.example/log" in r.stdout, "of another log: refused", r.stdout)
less = make("d", 100)
os.makedirs(less + "/export")
shutil.copy(temp.path + "/a/export/k", less + "/export/k")
r = run([CLI, *export(less, temp.path + "/d.json")])
tap.ok(r.returncode and "older state" in r.stdout, "ahead of the log: refused", r.stdout)
same = make("e", 5600)
os.makedirs(same + "/export")
shutil.copy(temp.path + "/a/export/k", same + "/export/k")
r = run([CLI, *export(same, temp.path + "/e.json")])
tap.ok(r.returncode and "another one than the cursor saw" in r.stdout, "of a history that was rewritten: refused", r.stdout)
r = run([CLI, "log", "export", "--state", temp.path + "/a", "--format", "ocsf", "--cursor", "k"])
tap.ok(r.returncode == 2 and "cursor k is of an export of format json, this is one of ocsf" in r.stdout, "of another format: refused, with both", r.stdout)
r = run([CLI, "log", "export", "--state", temp.path + "/a", "--format", "json", "--cursor", "k"])
tap.ok(r.returncode == 0 and ": 0 records exported" in r.stdout, "and of its own taken", r.stdout)
r = run([CLI, "log", "export", "--state", temp.path + "/a", "--cursor", "x/y/z"])
tap.ok(r.returncode and "x/y" in r.stdout, "a place that is not there is named", r.stdout)
r = run([CLI, "log", "export", "--state", temp.path + "/a", "--cursor", ".hidden"])
tap.has(r.stdout, "a name has 1 to 64", "and a name that is none")

# === what was not signed ===========================================================================================
WHOLE = make("w", 1500)
signed = len(log_of(WHOLE))
done = run([CLI, *export(WHOLE, temp.path + "/w.json")])
tap.eq((done.returncode, whole(WHOLE, temp.path + "/w.json")), (0, ""), "a log of many segments is exported")


def lines_of(path):
    with open(path, "rb") as f:
        return f.read().splitlines(True)


def write(path, lines):
    os.chmod(path, 0o600)
    with open(path, "wb") as f:
        f.write(b"".join(lines))


FORGE = edited(700, b'"n":', b'"n":1')
CASES = {
    "changed, and chained anew": lambda log: rewrite(log, FORGE),
    "changed, its leaves as well": lambda log: rewrite(log, FORGE, leaves=True),
    "changed behind the last segment's beginning": lambda log: rewrite(log, edited(signed - 2, b'"n":', b'"n":1')),
    "cut": lambda log: write(segments(log)[-1], lines_of(segments(log)[-1])[:-1]),
    "emptied": lambda log: write(segments(log)[-1], []),
    "cut in a segment whose leaves are whole": lambda log: write(segments(log)[2], lines_of(segments(log)[2])[:-1]),
    "without its last segment": lambda log: os.unlink(segments(log)[-1]),
    "without any": lambda log: [os.unlink(p) for p in segments(log)],
    "cut, and without its newest checkpoint in cp/": lambda log: (write(segments(log)[-1], []), os.unlink(log + "/cp/" + max(os.listdir(log + "/cp")))),
}
for what, damage in CASES.items():
    bad, text = temp.path + "/bad", temp.path + "/bad.json"
    shutil.rmtree(bad, ignore_errors=True)
    shutil.copytree(WHOLE, bad)
    shutil.rmtree(bad + "/export")
    damage(bad + "/log")
    os.path.exists(text) and os.unlink(text)
    genuine, seen = log_of(WHOLE), []
    for opts in ((), ("--follow",)):
        r = run([CLI, *export(bad, text, *opts)], timeout=30)
        seen += [json.loads(x) for x in lines_of(text)]
        tap.ok(r.returncode == 1 and ("signed" in r.stdout or "must" in r.stdout), "%s: it ends with 1 and says so%s" % (what, ", followed, too" if opts else ""), r.stdout)
    forged = [e["seq"] for e in seen if genuine.get(e["seq"]) != e["hash"]]
    tap.eq(forged, [], "and nothing has left that was not signed")
    at = json.load(open(bad + "/export/k"))["next"] if os.path.exists(bad + "/export/k") else 0
    tap.ok(at <= len({e["seq"] for e in seen}), "nor has the cursor gone on", at)
    r = run([CLI, "log", "export", "--state", bad, "--from", str(signed - 1), "--output", temp.path + "/from.json"])
    tap.ok(r.returncode == 1 or "behind" in what or "cut in" in what, "also from behind it", r.stdout)
    shutil.copytree(WHOLE + "/export", bad + "/export", dirs_exist_ok=True)
    r = run([CLI, *export(bad, text)])
    tap.ok(r.returncode == 1 or "cut in" in what, "also with a cursor that stands at the end", r.stdout)

# Leaves that are as signed, over lines of a segment that are not, chained up to its end: no chunk of it may leave.
big = make("big", 12000, "seg=3000000")
seg = lines_of(segments(big + "/log")[0])
tap.ok(len(seg) > 6000 and len(segments(big + "/log")) > 1, "a sealed segment of more than one chunk", len(seg))
edited(40, b'"n":', b'"n":1')(seg)
write(segments(big + "/log")[0], seg)
r = run([CLI, *export(big, temp.path + "/big.json")])
tap.ok(r.returncode == 1 and "record 255 or one before it is not the one that was signed" in r.stdout, "lines that their leaves are not of: said", r.stdout)
tap.eq((lines_of(temp.path + "/big.json"), os.path.exists(big + "/export/k")), ([], False), "and none has left")

# The nearest that is allowed: what nobody signed stays behind, and is no fault; neither are leaves that are not there.
tail = temp.path + "/tail"
subprocess.run([TOOL, tail, "300", "batch=50", "cp=0", "close=0"], check=True, stdout=subprocess.DEVNULL)
r = run([CLI, *export(tail, temp.path + "/tail.json")])
tap.eq((r.returncode, [json.loads(x)["seq"] for x in lines_of(temp.path + "/tail.json")]), (0, [0]), "records behind the newest checkpoint stay where they are")
none = temp.path + "/none"
shutil.copytree(WHOLE, none)
shutil.rmtree(none + "/export")
for p in segments(none + "/log"):
    os.path.exists(p[:-6] + ".leaves") and os.unlink(p[:-6] + ".leaves")
r = run([CLI, *export(none, temp.path + "/none.json")])
tap.eq((r.returncode, whole(none, temp.path + "/none.json")), (0, ""), "leaves that are not there are computed")
for begin in (1, 255, 256, 257, 700, signed - 1, signed):
    r = subprocess.run([CLI, "log", "export", "--state", WHOLE, "--from", str(begin)], capture_output=True, check=False, timeout=60)
    tap.eq((r.returncode, [json.loads(x)["seq"] for x in r.stdout.splitlines()]), (0, list(range(begin, signed))), "from record %d on" % begin)
full = subprocess.run([CLI, "log", "export", "--state", temp.path + "/a", "--output", "/dev/full", "--cursor", "full"], capture_output=True, check=False, timeout=60)
tap.ok(full.returncode and b"No space left" in full.stderr and not os.path.exists(temp.path + "/a/export/full"),
       "a disk that is full ends it, and no cursor moves", full.stderr)
tap.done()
