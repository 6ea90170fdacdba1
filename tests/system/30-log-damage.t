#!/usr/bin/python3
"""Every bit and byte of a whole log, damaged one at a time, each time verified; tails cut at every byte; every older state of the
whole directory put back. Nothing of it is called verified but what docs/format-log.md says that nobody can see."""
import base64
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Tap, Temp, run
from notes import Key, handover

tap, temp = Tap(), Temp("log-damage")
T = temp.path
RECORDS = int(os.environ.get("DAMAGE_RECORDS", "3" if os.environ.get("MODE") == "asan" else "6"))
NAME = b"broker.example/test"


def append(d, count, *opts):
    run([BUILD + "/tool_append-log", d, str(count), *opts], check=True)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def segs(d):
    return sorted(n for n in os.listdir(d + "/seg") if n.endswith(".jsonl"))


def cps(d):
    return sorted(os.listdir(d + "/cp"))


def verify(log, keys, *pins):
    r = run([CLI, "log", "verify", log, "--keys", keys] + [w for p in pins for w in ("--pin", p)])
    return r.returncode, r.stdout


# --- bits and bytes ---------------------------------------------------------------------------------------
base = T + "/base"
append(base, RECORDS, "batch=3", "cp=0", "seg=%d" % (1300 if RECORDS < 20 else 8000))
KEYS = base + "/keys/log/vkey"
newest = cps(base + "/log")[-1]
root = base64.b64decode(read(base + "/log/cp/" + newest).split(b"\n")[2])
old, new = Key(bytes([7]) * 32, NAME), Key(bytes([8]) * 32, NAME)
os.mkdir(base + "/log/key")
with open(base + "/log/key/" + newest, "wb") as f:
    f.write(old.note(handover(old, new, int(newest), root), new))
tap.eq(verify(base + "/log", KEYS)[0], 0, "a log of %d segments, %d checkpoints and a handover verifies" % (len(segs(base + "/log")), len(cps(base + "/log"))))


class Damage:
    """One operation on each place of each file, in a copy and a process of its own."""

    def __init__(self, op):
        self.op, self.d = op, T + "/" + op
        shutil.copytree(base, self.d)
        self.p = subprocess.Popen([BUILD + "/tool_damage_log", self.d + "/log", KEYS, op], stdout=subprocess.PIPE, text=True)

    def end(self):
        """(exit status, {file: [tried, verified, tampered, keys, unsigned]}, [(file, place, status)])"""
        out = self.p.communicate()[0]
        files, quiet = {}, []
        for w in (x.split(" ") for x in out.splitlines()):
            if len(w) == 3:
                quiet.append((w[0], int(w[1]), int(w[2])))
            else:
                files[w[0]] = [int(x) for x in w[1:]]
        shutil.rmtree(self.d)
        return self.p.returncode, files, quiet


flips = Damage("flip")
LAST_SEG, LAST_PACK = "seg/" + segs(base + "/log")[-1], "blob/" + sorted(os.listdir(base + "/log/blob"))[-1]
END = {LAST_SEG: os.path.getsize(base + "/log/" + LAST_SEG), LAST_PACK: os.path.getsize(base + "/log/" + LAST_PACK)}
SAID = {"zero": "byte set to zero", "remove": "byte taken out", "insert": "byte put in", "cut": "place to cut at", "sector": "sector of zeros"}
for op, words in SAID.items():
    rc, files, quiet = Damage(op).end()
    want = [(LAST_PACK, END[LAST_PACK], 0), (LAST_SEG, END[LAST_SEG], 3)] if op == "insert" else []
    said = sum(f[0] for f in files.values())
    tap.eq((rc, sorted(quiet), sum(f[3] for n, f in files.items() if n[:2] not in ("cp", "ch"))), (0, want, 0),
           "%s: of %d in %d files none passes%s" % (words, said, len(files), ", but where a write may be unfinished" if want else ""))
rc, files, quiet = flips.end()
bits = sum(8 * os.path.getsize(base + "/log/" + n) for n in files)
tap.eq((rc, quiet, sum(f[0] for f in files.values())), (0, [], bits), "each of %d bits of %d files, flipped: none is called verified or unsigned" % (bits, len(files)))
tap.eq([n for n, f in files.items() if f[3] and n[:2] not in ("cp", "ch")], [], "and only of checkpoints it may be a matter of keys")
tap.ok({n[:2] for n, f in files.items() if f[0]} == {"se", "bl", "cp", "ch", "ke"}, "segments, leaves, packs, checkpoints and handovers were all among them", sorted(files))

trusted, bad = read(KEYS), []
for i in range(8 * len(trusted)):
    with open(T + "/trust", "wb") as f:
        f.write(trusted[:i // 8] + bytes([trusted[i // 8] ^ 1 << i % 8]) + trusted[i // 8 + 1:])
    rc, out = verify(base + "/log", T + "/trust")
    if rc != 2:
        bad.append((i, rc, out))
tap.eq(bad, [], "each of %d bits of the key file: a matter of configuration, never verified" % (8 * len(trusted)))

# --- tails ------------------------------------------------------------------------------------------------
# Cut at each byte above, all checkpoints kept: tampering. Now by whoever takes those of the lost part with it.
log, bad, n = T + "/cut/log", [], 0
shutil.copytree(base, T + "/cut")
shutil.rmtree(log + "/key")
os.unlink(log + "/checkpoint")
lines = {s: read(log + "/seg/" + s) for s in segs(log)}
for s in reversed(segs(base + "/log")):
    ends = [i + 1 for i, c in enumerate(lines[s]) if c == 10]
    first = int(s[:20])
    for at in range(len(lines[s]) - 1, -1, -1):
        os.truncate(log + "/seg/" + s, at)
        whole = first + sum(e <= at for e in ends)
        for c in cps(log):
            if int(c) > whole:
                os.unlink(log + "/cp/" + c)
        if s[:20] + ".leaves" in os.listdir(log + "/seg"):
            os.unlink(log + "/seg/" + s[:20] + ".leaves")
        if at % 7:
            continue
        rc, out = verify(log, KEYS)
        pinned, why = verify(log, KEYS, base + "/log/checkpoint")
        n += 1
        torn = at not in (0, *ends)
        signed = cps(log) and int(cps(log)[-1]) == whole and not torn
        if rc != (0 if signed else 3) or pinned != 1 or "TAMPER at seq %d" % whole not in why or ": cut: " not in why:
            bad.append((s, at, rc, pinned, out, why))
    os.unlink(log + "/seg/" + s)
    for d, name in (("blob", s[:20] + ".pack"), ("live", s[:20])):
        if os.path.exists("%s/%s/%s" % (log, d, name)):
            os.unlink("%s/%s/%s" % (log, d, name))
tap.eq(bad[:3], [], "the tail cut at %d bytes with its checkpoints: unsigned or torn at most, and a pin sees each" % n)

# --- older states ----------------------------------------------------------------------------------------
state, kept = T + "/state", []
for i in range(12):
    append(state, 1 + i % 4, "batch=2", "cp=%d" % (2 * (i % 2)), "seg=2500", "close=%d" % (i % 3 != 0))
    shutil.copytree(state + "/log", T + "/kept-%d" % i)
    kept.append(T + "/kept-%d" % i)
without = [verify(k, KEYS)[0] for k in kept]
tap.eq([rc in (0, 3) for rc in without], [True] * 12, "each of 12 older states is whole in itself: without a pin nobody can tell")
bad, n = [], 0
for i, k in enumerate(kept):
    for j, pin in enumerate(kept):
        size, have = int(cps(pin)[-1]), sum(read(k + "/seg/" + s).count(b"\n") for s in segs(k))
        rc, out = verify(k, KEYS, pin + "/cp/" + cps(pin)[-1])
        n += 1
        want = without[i] if size <= have and j <= i else 1 if size > have else 0
        if rc != want or (rc == 1 and ("TAMPER at seq %d" % have not in out or ": cut: " not in out)):
            bad.append((i, j, size, have, rc, want, out))
tap.eq(bad[:3], [], "%d states held against the heads of all others: each newer one shows the rollback at its seq, each older one holds" % n)
tap.done()
