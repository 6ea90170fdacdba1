#!/usr/bin/python3
"""Attacks on a log directory: both verifiers must see each, name it alike, and agree on the rest.

Builds real logs with the writer's store, damages copies, and asks `cofferdam log verify` and
tests/verify_log.py. An attack that no directory can show (roll back, the key's holder) is shown by
a pin.
"""
import atexit
import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log  # noqa: E402
from harness import BUILD, Tap  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
T = tempfile.mkdtemp(prefix="log-attacks.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
rnd = random.Random(7)


def build(name, count, **opts):
    d = "%s/%s" % (T, name)
    subprocess.run([TOOL, d, str(count)] + ["%s=%s" % o for o in opts.items()], check=True, stdout=subprocess.DEVNULL)
    return d


def c_verdict(log, vkey, pins=()):
    r = subprocess.run([CLI, "log", "verify", log, "--vkey", vkey] + [x for p in pins for x in ("--pin", p)],
                       capture_output=True, text=True)
    return r.returncode, sorted(re.findall(r"^TAMPER at seq (\d+).*?: ([\w-]+):", r.stdout, re.M)), r.stdout + r.stderr


def py_verdict(log, vkey, pins=()):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        rc = verify_log.main(["verify_log.py", log, vkey, *pins])
    return rc, sorted(re.findall(r"^TAMPER at seq (\d+): ([\w-]+):", out.getvalue(), re.M)), out.getvalue()


disagree = []


def both(log, vkey=None, pins=()):
    """(exit status, [(seq, word)]) that both give; remembers where they differ."""
    c, p = c_verdict(log, vkey or KEY, pins), py_verdict(log, vkey or KEY, pins)
    if c[:2] != p[:2]:
        disagree.append((log, c, p))
    return c[0], [(int(s), w) for s, w in c[1]]


def copy(src=None):
    d = T + "/x"
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree((src or BASE) + "/log", d, symlinks=True)
    for dirpath, _, names in os.walk(d):
        for n in names:
            os.chmod(os.path.join(dirpath, n), 0o600)
    return d


def segs(log):
    return sorted(log + "/seg/" + n for n in os.listdir(log + "/seg") if n.endswith(".jsonl"))


def read_lines(log):
    return [s for f in segs(log) for s in open(f, "rb").read().splitlines(True)]


def put_lines(log, lines):
    """All lines into one segment."""
    for n in os.listdir(log + "/seg"):
        os.unlink(log + "/seg/" + n)
    with open(log + "/seg/%020d.jsonl" % 0, "wb") as f:
        f.write(b"".join(lines))


def line_of(body):
    return b'{"body":' + body + b',"hash":"' + hashlib.sha256(b"\0" + body).hexdigest().encode() + b'"}\n'


def body_of(line):
    return line[8:-76]


def emit(record):
    return json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def rechain(lines, start=0):
    """Recompute numbers, prev and hashes from `start` on, as someone without the key would."""
    out, prev = lines[:start], lines[start - 1][-67:-3].decode() if start else "0" * 64
    for seq in range(start, len(lines)):
        r = json.loads(body_of(lines[seq]))
        r.update(seq=seq, prev=prev, batch=min(r["batch"], seq))
        out.append(line_of(emit(r)))
        prev = out[-1][-67:-3].decode()
    return out


def damaged(change, src=None, **kw):
    """Verdict over a copy (of ONE) whose list of lines was changed."""
    d = copy(src or ONE)
    lines = read_lines(d)
    r = change(lines)
    put_lines(d, lines if r is None else r)
    return both(d, **kw)


BASE = build("base", 40, batch=3, cp=10, seg=6000)
ONE = build("one", 40, batch=3, cp=10)
KEY = BASE + "/keys/log/vkey"
OPEN = build("open", 20, batch=4, cp=0, close=0)
OTHER = build("other", 40, batch=3, cp=10, seg=6000, size=5)
NAMES = sorted(os.path.relpath(os.path.join(p, n), BASE + "/log") for p, _, ns in os.walk(BASE + "/log") for n in ns)
TOTAL = len(read_lines(ONE + "/log"))

# --- what is whole ---------------------------------------------------------------------
tap.eq(both(BASE + "/log"), (0, []), "a log that was closed is verified to its end")
tap.eq(both(OPEN + "/log"), (3, []), "records behind the last checkpoint are called unsigned, not OK")
d = copy()
os.unlink(d + "/checkpoint")
tap.eq(both(d), (0, []), "the copy of the newest checkpoint may be missing")

# --- bytes ----------------------------------------------------------------------------
ok = []
for name in NAMES:
    if name in ("LOCK", "ballast") or name.startswith("live/"):
        continue  # no record, and nothing that a reader looks at
    d = copy()
    data = open(d + "/" + name, "rb").read()
    step = max(1, len(data) // (60 if name.startswith("seg") else 25))
    for at in range(rnd.randrange(step), len(data), step):
        bit = 1 << rnd.randrange(8)
        with open(d + "/" + name, "wb") as f:
            f.write(data[:at] + bytes([data[at] ^ bit]) + data[at + 1:])
        rc, words = both(d)
        want = {"seg": {"changed", "leaves"}, "cp/": {"checkpoint"}, "che": {"checkpoint"}, "blo": {"blob", "junk"}}[name[:3]]
        if rc == 0 or (rc == 2 and name[:1] != "c") or (rc == 1 and not set(w for _, w in words) <= want):
            ok.append((name, at, bit, rc, words))
tap.eq(ok, [], "a flipped bit anywhere is named by its kind, or is a key nobody gave")
d = copy(ONE)
last = segs(d)[-1]
data = open(last, "rb").read()
seq = json.loads(body_of(read_lines(d)[-1]))["seq"]
for at in range(len(data) - len(read_lines(d)[-1]) + 1, len(data), 17):
    open(last, "wb").write(data[:at])
    if both(d) != (1, [(seq, "cut")]):
        tap.ok(False, "cut within the last record at byte %d" % at, both(d))
        break
else:
    tap.ok(True, "a signed record cut at any byte is a cut at its seq")
tap.eq(damaged(lambda x: x.__setitem__(9, x[9].replace(b"\n", b"\r\n"))), (1, [(9, "changed")]), "CR LF is a change")
tap.eq(damaged(lambda x: x.__setitem__(0, b"\xef\xbb\xbf" + x[0])), (1, [(0, "changed")]), "so is a byte order mark")
tap.eq(damaged(lambda x: x.insert(9, b"\n")), (1, [(9, "inserted")]), "an empty line is an insertion")
tap.eq(damaged(lambda x: x.insert(9, b"x" * 200000 + b"\n")), (1, [(9, "inserted")]), "so is a line longer than any record")
tap.eq(damaged(lambda x: x.__setitem__(9, x[9][:-1])), (1, [(9, "changed")]), "two lines run together are a change")

# --- records ----------------------------------------------------------------------------
miss = {"deleted": [], "duplicated": [], "swapped": [], "moved": [], "inserted": []}
for k in range(0, TOTAL - 1):
    if damaged(lambda x: x.__delitem__(k)) != (1, [(k, "missing")]):
        miss["deleted"].append(k)
    if damaged(lambda x: x.insert(k + 1, x[k])) != (1, [(k, "duplicated")]):
        miss["duplicated"].append(k)
    if damaged(lambda x: x.__setitem__(slice(k, k + 2), [x[k + 1], x[k]])) != (1, [(k, "reordered")]):
        miss["swapped"].append(k)
    if k % 5 == 0 and damaged(lambda x: x.insert(TOTAL - 1, x.pop(k))) != (1, [(k, "reordered")]):
        miss["moved"].append(k)
    if k and k % 5 == 0:
        r = json.loads(body_of(read_lines(OTHER + "/log")[k - 1]))
        if damaged(lambda x: x.insert(k, line_of(emit(r)))) != (1, [(k, "inserted")]):
            miss["inserted"].append((k, damaged(lambda x: x.insert(k, line_of(emit(r))))))
for what, bad in miss.items():
    tap.eq(bad, [], "each record %s is named with its seq" % what)
tap.eq(damaged(lambda x: x.__delitem__(-1)), (1, [(TOTAL - 1, "cut")]), "the last record deleted is a cut")
tap.eq(damaged(lambda x: x.__delitem__(slice(20, None))), (1, [(20, "cut")]), "so is the tail from the middle on")


def rehashed(x):
    r = json.loads(body_of(x[12]))
    r["data"] = {"n": 99}
    x[12] = line_of(emit(r))


tap.eq(damaged(rehashed), (1, [(12, "changed")]), "a record changed with its own hash is given away by the next")
tap.eq([damaged(lambda x: rechain(x[:k] + x[k + 1:], k))[1][0][1] for k in range(1, 30, 4)], ["rewritten"] * 8,
       "a chain recomputed without the key is rewritten history")
rc, words = damaged(lambda x: (rehashed(x), rechain(x, 13))[1])
tap.ok(rc == 1 and (11, "rewritten") in words or words[0][1] == "rewritten", "named from the last size that held", words)

# --- canonical form, with the right hash ----------------------------------------------------
forms = [(b'"data":{', b'"data": {'), (b'"n":2', b'"n":2.0'), (b'"n":2', b'"n":1e1'), (b'"n":2', b'"n":012'),
         (b'"n":2', b'"n":-0'), (b'"n":2', b'"n":9007199254740992'), (b'"n":2', b'"n":null'),
         (b'"n":2', b'"n":"\\/"'), (b'"n":2', b'"n":"\\u0041"'), (b'"n":2', b'"n":"\\u0000"'),
         (b'"n":2', b'"n":"\\ud800"'), (b'"n":2', b'"n":"\xc3"'), (b'"n":2', b'"n":12,"n":12'),
         (b'"n":2', b'"n":' + b"[" * 17 + b"]" * 17), (b'"n":2', b'"n":NaN'), (b'"v":1', b'"v":2'),
         (b'"v":1', b'"v":1,"w":1'), (b'"src":"agent"', b'"src":"root"'), (b'"n":2', b'"b":1,"a":1,"n":12')]
bad = []


def rewritten_tail(old, new):
    """One body of the unsigned log changed and all behind it chained anew: the form alone tells."""
    x = copy(OPEN)
    lines = read_lines(x)
    j = next(i for i, y in enumerate(lines) if old in y)
    lines[j] = line_of(body_of(lines[j]).replace(old, new, 1))
    out, prev = lines[:j + 1], lines[j][-67:-3]
    for y in lines[j + 1:]:
        out.append(line_of(re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"' + prev + b'"', body_of(y))))
        prev = out[-1][-67:-3]
    put_lines(x, out)
    return j, both(x)


for old, new in forms:
    j, v = rewritten_tail(old, new)
    if v != (1, [(j, "changed")]):
        bad.append((new, v))
tap.eq(bad, [], "a body that is not canonical is a change though its hash is right")
same = [(b'"n":2', b'"n":"e\xcc\x81"'), (b'"n":2', b'"n":"\\u001f\x7f"'), (b'"n":2', b'"n":9007199254740991'),
        (b'"n":2', b'"n":' + b"[" * 14 + b"]" * 14), (b'"n":2', b'"n":-1'), (b'"n":2', b'"n":{"":true}')]
bad = []
for old, new in same:
    j, v = rewritten_tail(old, new)
    if v != (3, []) and v != (1, [(j, "blob")]):
        bad.append((new, v))
tap.eq(bad, [], "and the nearest canonical ones are not, where nothing was signed yet")

d = copy(OPEN)
lines = read_lines(d)
j = next(i for i, x in enumerate(lines) if i > 8 and json.loads(body_of(x))["batch"] == i)
r = json.loads(body_of(lines[j]))
r["batch"] = j - 2
put_lines(d, rechain(lines[:j] + [line_of(emit(r))] + lines[j + 1:], j + 1))
tap.eq(both(d), (1, [(j, "changed")]), "a batch that cannot be is a change, where nothing was signed yet")

# --- segments and foreign logs -------------------------------------------------------------------
n = len(segs(BASE + "/log"))
tap.ok(n >= 3, "the log has several segments", n)
firsts = [int(os.path.basename(s)[:20]) for s in segs(BASE + "/log")]
d = copy()
os.unlink(segs(d)[1])
os.unlink(d + "/seg/%020d.leaves" % firsts[1])
tap.eq(both(d), (1, [(firsts[1], "missing")]), "a segment deleted: its records are missing")
d = copy()
os.unlink(segs(d)[-1])
tap.eq(both(d), (1, [(firsts[-1], "cut")]), "the last segment deleted: cut")
d = copy()
os.rename(segs(d)[1], d + "/seg/%020d.jsonl" % (firsts[1] + 1))
tap.eq(both(d), (1, [(firsts[1], "misplaced")]), "a segment renamed: misplaced")
d = copy()
shutil.copy(segs(d)[1], d + "/seg/%020d.jsonl" % (firsts[2] + 1))
rc, words = both(d)
tap.ok(rc == 1 and words[0][1] in ("missing", "inserted"), "a segment doubled under another number is seen", words)
d = copy()
a, b = segs(d)[0:2]
os.rename(a, a + "x"), os.rename(b, a), os.rename(a + "x", b)
tap.eq(both(d), (1, [(0, "reordered")]), "two segments exchanged: reordered")
d = copy()
os.rename(segs(d)[1], T + "/elsewhere")
os.symlink(T + "/elsewhere", d + "/seg/%020d.jsonl" % firsts[1])
rc, words = both(d)
tap.ok(rc == 1 and (0, "foreign") in words, "a segment that is a link is foreign", words)
d = copy()
open(d + "/cp/notes.txt", "w").close()
tap.eq(both(d), (1, [(0, "foreign")]), "a file that does not belong is named")
d = copy()
open(d + "/cp/.tmp-00000000000000000099", "w").close()
tap.eq(both(d), (0, []), "an unfinished one is skipped")
other = read_lines(OTHER + "/log")
tap.eq(damaged(lambda x: x[:15] + other[15:]), (1, [(14, "changed")]), "a tail of another log with the same key: seen")
tap.eq(damaged(lambda x: rechain(x[:15] + other[15:], 15))[1][0][1], "rewritten", "chained on to ours: rewritten")
d = copy()
shutil.rmtree(d + "/cp")
shutil.copytree(OTHER + "/log/cp", d + "/cp")
tap.eq(both(d)[1][0], (0, "rewritten"), "checkpoints of another log planted: rewritten from the start")

# --- checkpoints --------------------------------------------------------------------------------------
newest = sorted(os.listdir(BASE + "/log/cp"))[-1]
note = open(BASE + "/log/cp/" + newest, "rb").read()


def with_note(text, name=newest):
    x = copy()
    os.unlink(x + "/checkpoint")
    open(x + "/cp/" + name, "wb").write(text)
    return both(x)


cut = note.rindex(b"\n\n")
sig = note[cut + 2:]
spare = re.sub(rb"(.)=\n", lambda m: bytes([m[1][0] + 1]) + b"=\n", sig)
BAD = (1, [(int(newest), "checkpoint")])
for what, text, want in [
        ("spare bits in the signature's base64", note[:cut + 2] + spare, BAD),
        ("spare bits in the root's base64", re.sub(rb"(.)=\n\n", lambda m: bytes([m[1][0] + 1]) + b"=\n\n", note), BAD),
        ("a carriage return", note.replace(b"\n", b"\r\n", 1), BAD),
        ("no signature line", note[:cut + 2], BAD),
        ("a line without a dash", note + b"x\n", BAD),
        ("a leading zero", note.replace(b"\n%d\n" % int(newest), b"\n0%d\n" % int(newest)), BAD),
        ("another size, signature kept", note.replace(b"\n%d\n" % int(newest), b"\n%d\n" % (int(newest) - 1)), BAD),
        ("an empty file", b"", BAD),
        ("a stranger's signature beside ours", note + "— w.example AAAAAAAAAAAA\n".encode(), (0, [])),
        ("the same signature twice", note + sig, (0, []))]:
    tap.eq(with_note(text), want, "a checkpoint with %s: %s" % (what, "refused" if want[0] else "holds"))
tap.eq(with_note(note, "%020d" % 7)[1], [(7, "checkpoint")], "one under another size's name is no checkpoint of it")
d = copy()
for name in os.listdir(d + "/cp"):
    os.unlink(d + "/cp/" + name)
os.unlink(d + "/checkpoint")
starts = [json.loads(body_of(x))["seq"] for x in read_lines(d) if b'"type":"log.segment"' in x]
tap.eq(both(d), (1, [(k, "checkpoint") for k in [1] + starts]), "without any checkpoint nothing is verified: those that were there are missed")
put_lines(d, read_lines(d)[:1])
tap.eq(both(d), (3, []), "but for the first record, which had none yet: unsigned")
vkey = open(KEY).read().strip()
open(T + "/range", "w").write("%s 5 %d\n" % (vkey, int(newest) - 1))
rc, words = both(BASE + "/log", T + "/range")
tap.eq((rc, sorted(words)), (1, [(0, "checkpoint"), (1, "checkpoint"), (int(newest), "checkpoint")]),
       "a key outside its sizes does not sign")
STRANGER = build("stranger", 1, seed=9) + "/keys/log/vkey"
tap.eq(both(BASE + "/log", STRANGER), (2, []), "a key nobody knows is a matter of configuration")
open(T + "/two", "w").write("# ours\n\n%s 0 -\n%s" % (vkey, open(STRANGER).read()))
tap.eq(both(BASE + "/log", T + "/two"), (0, []), "more keys than needed do no harm")

# --- history ----------------------------------------------------------------------------------------------
bad = []
for k in range(1, TOTAL):
    d = copy(ONE)
    put_lines(d, read_lines(d)[:k])
    if both(d) != (1, [(k, "cut")]):
        bad.append(("kept", k))
    if k % 3:
        continue
    os.unlink(d + "/checkpoint")
    for name in os.listdir(d + "/cp"):
        if int(name) > k:
            os.unlink(d + "/cp/" + name)
    rc, words = both(d)
    top = max([int(x) for x in os.listdir(d + "/cp")], default=0)
    if (rc, words) != (0 if top == k else 3, []):
        bad.append(("removed", k, rc, words))
    if both(d, pins=[ONE + "/log/checkpoint"]) != (1, [(k, "cut")]):
        bad.append(("pinned", k))
tap.eq(bad, [], "a tail cut at each record: seen by checkpoints, and without them by a pin alone")
d = copy(OTHER)
tap.eq(both(d, pins=[BASE + "/log/checkpoint"])[1][-1][1], "rewritten", "a key holder's other history: seen by a pin")
tap.eq(both(BASE + "/log", pins=[BASE + "/log/cp/" + x for x in sorted(os.listdir(BASE + "/log/cp"))[:3]]), (0, []),
       "pins of earlier sizes hold")
tap.eq(both(BASE + "/log", pins=[segs(BASE + "/log")[0]])[0], 2, "a pin that is no checkpoint says nothing about the log")

# --- torn -----------------------------------------------------------------------------------------------------
d = copy()
with open(segs(d)[-1], "ab") as f:
    f.write(b'{"body":{"batch":')
tap.eq(both(d), (3, []), "an unfinished write behind what was signed is torn, not tampering")
d = copy(OPEN)
lines = read_lines(d)
put_lines(d, lines[:-2] + [lines[-2][:100], b"\0" * 300])
tap.eq(both(d), (3, []), "so are zeros in the last batch")
lines[5] = lines[5][:50] + b"\0" * 20 + lines[5][70:]
put_lines(d, lines)
tap.eq(both(d), (1, [(5, "changed")]), "but not in an earlier one")
d = copy()
with open(segs(d)[-1], "ab") as f:
    f.write(b"x" * (1 << 20) + b"y")
tap.eq(both(d), (1, [(len(read_lines(BASE + "/log")), "changed")]), "nor more bytes than one write can leave")

# --- behind the close ---------------------------------------------------------------------------------------------
def starts_with(kind, log, data=None, prev_lines=None):
    """A line of this type chained to the end of the log: no key is needed for it."""
    lines = prev_lines or read_lines(log)
    r = json.loads(body_of(lines[-1]))
    r.update(seq=r["seq"] + 1, batch=r["seq"] + 1, prev=lines[-1][-67:-3].decode(), type=kind, data=data or {})
    return line_of(emit(r))


def behind(src, *kinds):
    """Verdict over a copy with records of these types chained on, and what a start says."""
    d = T + "/start"
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(src, d)
    for kind in kinds:
        line = starts_with(kind, d + "/log")
        os.chmod(segs(d + "/log")[-1], 0o600)
        with open(segs(d + "/log")[-1], "ab") as f:
            f.write(line)
    v = both(d + "/log")
    r = subprocess.run([TOOL, d, "1"], capture_output=True, text=True)
    return v, r.returncode, r.stderr, d


N = TOTAL
v, rc, why, d = behind(ONE, "agent.note")
tap.eq(v, (1, [(N, "after-close")]), "a record chained behind log.close is tampering, not an unsigned end")
tap.ok(rc != 0 and "refused: record %d stands behind the close of the log (record %d)" % (N, N - 1) in why, "and no start signs it", why)
v, rc, why, d = behind(ONE, "log.segment")
tap.ok(v == (1, [(N, "resplit")]) and rc != 0 and "refused: resplit at seq %d" % N in why, "nor one that begins a segment where none begins", (v, rc, why))
v, rc, why, d = behind(ONE, "log.heartbeat")
tap.ok(v == (1, [(N, "after-close")]) and rc != 0, "nor one that only the writer makes", (v, rc, why))
v, rc, why, d = behind(ONE, "log.open", "agent.note")
tap.eq(v, (1, [(N + 1, "checkpoint")]), "behind a log.open of their own it is as well: its checkpoint is not there")
tap.ok(rc != 0 and "refused: record %d stands behind the opening of the log (record %d), which no checkpoint covers" % (N + 1, N) in why,
       "and no start signs that", why)
v, rc, why, d = behind(ONE, "log.open")
tap.eq((v, rc), ((3, []), 0), "a start that was killed before it signed is taken up")
text = "1 records from seq %d on were adopted unsigned at seq %d after a crash" % (N, N + 1)
tap.ok(both(d + "/log") == (0, []) and all(text in x(d + "/log", KEY)[2] for x in (c_verdict, py_verdict)), "and both verifiers say that it was", c_verdict(d + "/log", KEY))
v, rc, why, d = behind(ONE)
tap.ok(v == (0, []) and rc == 0 and both(d + "/log") == (0, []) and "adopted" not in c_verdict(d + "/log", KEY)[2], "a start behind a clean stop adopts nothing")
v, rc, why, d = behind(OPEN)
tap.ok(v == (3, []) and rc == 0 and all("20 records from seq 1 on were adopted unsigned at seq 21 after" in x(d + "/log", KEY)[2] for x in (c_verdict, py_verdict)),
       "behind a crash it adopts what no checkpoint covers, and says how much", (v, rc, why))
d = copy(ONE)
forged = [starts_with("agent.note", d)]
forged.append(starts_with("log.open", d, {"unsigned": 1}, read_lines(d) + forged))
forged.append(starts_with("agent.note", d, None, read_lines(d) + forged))
put_lines(d, read_lines(d) + forged)
tap.eq(both(d), (1, [(N, "after-close"), (N + 2, "checkpoint")]), "a start behind it does not make it good")

# --- what the writer's records say of the files ------------------------------------------------------------------
d = copy()
put_lines(d, read_lines(d))
tap.eq(both(d), (1, [(k, "resplit") for k in firsts[1:]]), "the same records in one segment: resplit")
d = copy()
data = open(segs(d)[0], "rb").read().splitlines(True)
open(d + "/seg/%020d.jsonl" % 7, "wb").write(b"".join(data[7:]))
open(segs(d)[0], "wb").write(b"".join(data[:7]))
os.unlink(d + "/seg/%020d.leaves" % 0)
tap.eq(both(d), (1, [(7, "resplit")]), "a segment divided where none begins: resplit")
bad = []
for k in sorted(int(x) for x in os.listdir(BASE + "/log/cp"))[:-1]:
    d = copy()
    os.unlink(d + "/cp/%020d" % k)
    want = (1, [(k, "checkpoint")]) if k == 1 or k in firsts else (0, [])
    if both(d) != want:
        bad.append((k, both(d)))
tap.eq(bad, [], "a checkpoint taken away is missed where a start or a segment says that it was; elsewhere nobody can tell")
d = copy()
open(d + "/notes.txt", "w").close()
tap.eq(both(d), (1, [(0, "foreign")]), "a file that does not belong in the log directory itself is named")
d = copy()
os.rename(d + "/LOCK", T + "/elsewhere.lock")
os.symlink(T + "/elsewhere.lock", d + "/LOCK")
tap.eq(both(d), (1, [(0, "foreign")]), "so is a link where a file should be")
d = copy()
open(d + "/.tmp-checkpoint", "w").close()
os.mkdir(d + "/lost+found")
tap.eq(both(d), (0, []), "an unfinished file and lost+found are not")
bad = []
for name, how in [(a, b) for a in ("seg", "cp", "blob") for b in ("link", "file", "gone")]:
    d = copy()
    shutil.rmtree(d + "/" + name)
    if how == "link":
        os.symlink(BASE + "/log/" + name, d + "/" + name)
    elif how == "file":
        open(d + "/" + name, "w").close()
    rc, words = both(d)
    r = subprocess.run([CLI, "log", "verify", d, "--vkey", KEY, "--json"], capture_output=True, text=True)
    said = json.loads(r.stdout or "{}")
    kind, text = ("missing", "the directory %s is not there" % name) if how == "gone" else ("foreign", "the log directory holds %s" % name)
    deep = subprocess.run([CLI, "log", "verify", d, "--vkey", KEY, "--json", "--deep"], capture_output=True, text=True)
    if (rc, r.returncode, said.get("verdict"), deep.returncode, deep.stdout[:1]) != (1, 1, "tamper", 1, "{") or (0, kind) not in words or \
            not any(f["kind"] == kind and f["text"].startswith(text) for f in said["findings"]):
        bad.append((name, how, rc, words, r, deep))
tap.eq(bad, [], "a directory of the log that is a link, a file or gone is a finding, with status 1, in text and in JSON")
d = T + "/young"
os.makedirs(d)
tap.eq(both(d), (2, []), "where none of them is there is no log, and nothing to find")
young = []
for name in ("seg", "cp", "blob"):
    os.mkdir(d + "/" + name)
    young.append(both(d))
tap.eq(young, [(3, [])] * 3, "a start that was killed before it had made them all leaves a log without records")
tap.eq(both(d, pins=[BASE + "/log/checkpoint"]), (1, [(0, "cut")]), "which it is not to who has a pin")
packs = sorted(os.listdir(BASE + "/log/blob"))


def with_pack(i, change, src=None):
    d = copy(src)
    name = d + "/blob/" + packs[i]
    data = open(name, "rb").read()
    at = struct.unpack(">I", data[4:8])[0]
    open(name, "wb").write(change(data[:at], data[at:]))
    return both(d)


tap.eq([with_pack(0, lambda a, b: a + b"junk" + b, src) for src in (BASE, ONE)], [(1, [(0, "junk")])] * 2,
       "bytes between two frames of a pack are junk")
tap.eq([with_pack(i, lambda a, b: b"CFB1" + a + b) for i in (0, -1)], [(1, [(int(packs[i][:20]), "junk")]) for i in (0, -1)], "so are those before the first")
tap.eq([with_pack(i, lambda a, b: a + b + b"CFB1") for i in (0, -1)], [(1, [(0, "junk")]), (0, [])],
       "and those behind the last, but where a write may be unfinished")
tap.eq([with_pack(i, lambda a, b: a + a + b) for i in (0, -1)], [(0, []), (0, [])], "a frame twice is not")

# --- show and head ----------------------------------------------------------------------------------------------
def cli(*args):
    r = subprocess.run([CLI, "log", *args], capture_output=True, text=True)
    return r.returncode, r.stdout


rc, out = cli("show", BASE + "/log", "--json")
tap.eq((rc, out.encode()), (0, b"".join(body_of(x) + b"\n" for x in read_lines(BASE + "/log"))), "show --json gives each BODY as stored")
tap.eq(cli("show", BASE + "/log", "--run", "r-2"), (0, ""), "show --run nothing of another run")
rc, out = cli("show", "--state", BASE, "--type", "log.segment")
tap.eq((rc, len(out.splitlines())), (0, len(segs(BASE + "/log")) - 1), "show --type those of one type")
tap.eq(cli("head", "--state", BASE), (0, note.decode()), "head gives the newest checkpoint, as it is")
d = copy()
put_lines(d, [x for i, x in enumerate(read_lines(d)) if i != 9])
tap.eq((cli("show", d)[0], len(cli("show", d)[1].splitlines())), (1, 9), "show stops where the log does not hold")
tap.eq([cli(*x)[0] for x in ([], ["verify", "--nope"], ["dance"], ["verify", T + "/none"], ["verify", BASE + "/log"])], [2] * 5,
       "a wrong word, option or place is a usage error")

# --- the published vectors ---------------------------------------------------------------------------------------
text = open(os.path.join(HERE, "../../docs/format-log.md")).read()
fence = re.findall(r"```\n(.*?)```", text, re.S)
body = next(x for x in fence if x.startswith('{"batch"')).strip().encode()
leaf = re.search(r"Leaf hash `([0-9a-f]{64})`", text)[1]
tap.ok(verify_log.self_valid(line_of(body)) and hashlib.sha256(b"\0" + body).hexdigest() == leaf, "the vector of a line holds")
open(T + "/vkey", "w").write(next(x for x in fence if x.startswith("broker.example/test+")))
cp = next(x for x in fence if x.startswith("broker.example/test\n")).encode()
tap.eq(verify_log.open_checkpoint(cp, verify_log.read_keys(T + "/vkey"))[1], 3, "the vector of a checkpoint holds")
frames = [bytes.fromhex(x) for x in fence if x.startswith("434642")]
note = next(x for x in fence if x.startswith("cofferdam-log-key/1\nbroker")).encode()
tap.eq(verify_log.open_handover(note)[0][0], 3, "the vector of a handover holds")
tap.eq([verify_log.Log.frame(x, 0)[0] in text for x in frames], [True, True], "the vectors of frames hold")

bodies = [x.strip().encode().split(b"\n") for x in fence if x.startswith('{"batch"')][1:]
open(T + "/vkey", "w").write(next(x for x in fence if x.startswith("broker.example/test+")))
d = T + "/vector"
for sub in ("seg", "cp", "blob", "torn", "live"):
    os.makedirs(d + "/" + sub)
receipts = next(x for x in fence if x.startswith("broker.example/test#")).split()


def held(receipt):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        return cli("verify-receipt", receipt, d, "--keys", T + "/vkey")[0], verify_log.main(["", "--receipt", receipt, d, T + "/vkey"])


put_lines(d, [line_of(x) for x in bodies[0]])
tap.eq(both(d, T + "/vkey"), (1, [(1, "checkpoint"), (2, "after-close")]), "the vector of a record behind the close holds")
of_close = verify_log.self_valid(line_of(bodies[0][1]))[1].hex()
tap.eq([held(x) for x in (receipts[0], "broker.example/test#1:%s:2" % of_close)], [(0, 0), (1, 1)], "a receipt is held up to the finding, not behind it")
put_lines(d, [line_of(bodies[0][0]), line_of(bodies[1][0])])
tap.ok(both(d, T + "/vkey") == (3, []) and "1 records from seq 0 on were adopted unsigned at seq 1 after a crash\n" in c_verdict(d, T + "/vkey")[2]
       and hashlib.sha256(b"\0" + bodies[1][0]).hexdigest() in text, "the vector of a start after a crash holds")
tap.eq([held(x) for x in (*receipts[:2], receipts[1][:-1] + "3", receipts[0].replace("f417", "f418"), "other" + receipts[0], receipts[0].replace(":1", ":01"))],
       [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (2, 2)], "the vectors of receipts hold, and no other ones")
tap.eq(verify_log.receipt_origin('log"5%#é'.encode()), receipts[2].split("#")[0], "so does the one of an origin")

for log, c, p in disagree[:5]:
    print("# %s\n# C: %r\n# Python: %r" % (log, c, p))
tap.eq(len(disagree), 0, "the two verifiers agree on every one of these")
tap.done()
