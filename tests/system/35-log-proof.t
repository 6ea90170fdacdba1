#!/usr/bin/python3
"""Proofs of single records: each stands alone, is checked by the command and by the independent
verifier, and no byte of it can be changed."""
import base64
import contextlib
import io
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log  # noqa: E402
from harness import BUILD, CLI, Tap, Temp, run  # noqa: E402

tap, temp = Tap(), Temp("log-proof")
T = temp.path


def build(name, count, *opts):
    subprocess.run([BUILD + "/tool_append-log", T + "/" + name, str(count), *opts], check=True, stdout=subprocess.DEVNULL)
    return T + "/" + name


def c_check(path, keys):
    return run([CLI, "log", "verify-proof", path, "--keys", keys]).returncode


def py_check(path, keys):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        return verify_log.main(["verify_log.py", "--proof", path, keys])


def prove(seq, where, *more):
    r = subprocess.run([CLI, "log", "prove", str(seq), where, *more], capture_output=True)
    return r.returncode, r.stdout, r.stderr.decode()


def check(data, keys):
    with open(T + "/proof", "wb") as f:
        f.write(data)
    return c_check(T + "/proof", keys), py_check(T + "/proof", keys)


BASE = build("base", 40, "batch=3", "cp=10", "seg=6000")
KEYS = BASE + "/keys/log/vkey"
size = int(sorted(os.listdir(BASE + "/log/cp"))[-1])
bad, proofs = [], {}
for seq in range(size):
    rc, data, err = prove(seq, BASE)
    proofs[seq] = data
    if rc != 0 or check(data, KEYS) != (0, 0):
        bad.append((seq, rc, err))
tap.eq((bad[:3], size > 40), ([], True), "each of %d records is proved, by both verifiers" % size)
bad, n = [], 0
for cp in sorted(os.listdir(BASE + "/log/cp")):
    for seq in {0, 17, int(cp) // 2, int(cp) - 1} & set(range(int(cp))):
        rc, data, err = prove(seq, BASE, "--checkpoint", BASE + "/log/cp/" + cp)
        n += 1
        if rc != 0 or check(data, KEYS) != (0, 0):
            bad.append((cp, seq, rc, err))
tap.eq(bad[:3], [], "against every checkpoint that covers it (%d proofs)" % n)
rc, data, err = prove(size, BASE)
tap.ok(rc == 1 and "not covered" in err, "one past the signed size is not", err)
tap.eq(prove("x", BASE)[0], 2, "a word is no number")
r = run([CLI, "log", "verify-proof", T + "/proof", "--keys", KEYS])
tap.ok(r.stdout.startswith("VERIFIED record ") and '"seq":' in r.stdout and "\x1b" not in r.stdout, "the record is printed", r.stdout)
tap.eq(c_check("/dev/zero", KEYS), 2, "what has no end is no proof, and is not read to it")
shutil.move(BASE + "/log", T + "/away")
tap.eq(check(proofs[17], KEYS), (0, 0), "the log is not needed")
shutil.move(T + "/away", BASE + "/log")

# --- each byte and bit ---------------------------------------------------------------------
# All bits: tests/unit/t_proof.c for the command's, here for the other verifier; some for both.
data, quiet, n = proofs[17], [], 0
for at in range(len(data)):
    for bit in range(8):
        with open(T + "/proof", "wb") as f:
            f.write(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:])
        v = py_check(T + "/proof", KEYS)
        n += 1
        if v == 0 or (bit == at % 8 and at % 5 == 0 and c_check(T + "/proof", KEYS) != v):
            quiet.append((at, bit, v))
tap.eq(quiet[:5], [], "no flipped bit passes, and both say the same (%d)" % n)
quiet = [at for at in range(0, len(data), 11) if 0 in check(data[:at], KEYS) or 0 in check(data[:at] + data[at + 1:], KEYS)]
tap.eq(quiet[:5], [], "no cut and no byte taken out passes")

lines = data.split(b"\n")
body = base64.b64decode(lines[1][6:])


def with_body(b, index=b"index 17"):
    return b"\n".join([lines[0], b"extra " + base64.b64encode(b), index] + lines[3:])


path = [i for i, x in enumerate(lines) if i > 2 and x and i < lines.index(b"")]
bare = lines[:3] + lines[lines.index(b""):]
for what, bad in [
        ("another record's body", with_body(base64.b64decode(proofs[18].split(b"\n")[1][6:]))),
        ("another record's index", with_body(body, b"index 18")),
        ("an index with a leading zero", with_body(body, b"index 017")),
        ("a body that is no record", with_body(b"{}")),
        ("spaces in the body", with_body(body.replace(b":", b": ", 1))),
        ("no extra data", b"\n".join(lines[:1] + lines[2:])),
        ("no path", b"\n".join(bare)),
        ("a hash more", b"\n".join(lines[:path[0]] + [lines[path[0]]] + lines[path[0]:])),
        ("two hashes exchanged", b"\n".join(lines[:path[0]] + [lines[path[1]], lines[path[0]]] + lines[path[1] + 1:])),
        ("a carriage return", data.replace(b"\n", b"\r\n", 1)),
        ("another version", data.replace(b"@v1", b"@v2")),
        ("an older checkpoint", b"\n".join(lines[:lines.index(b"") + 1]) + b"\n" + open(BASE + "/log/cp/%020d" % 21, "rb").read()
         if os.path.exists(BASE + "/log/cp/%020d" % 21) else with_body(b"")),
        ("something behind it", data + b"x\n")]:
    tap.eq(check(bad, KEYS), (1, 1), "a proof with %s: refused" % what)
STRANGER = build("stranger", 3, "seed=9")
tap.eq(check(data, STRANGER + "/keys/log/vkey"), (2, 2), "a key that did not sign it is a matter of configuration")

# --- what lies beside it may lie -------------------------------------------------------------------
copy = T + "/copy"


def damaged(change):
    shutil.rmtree(copy, True)
    shutil.copytree(BASE, copy)
    for d, _, names in os.walk(copy):
        for x in names:
            os.chmod(os.path.join(d, x), 0o600)
    change(copy + "/log")
    return prove(17, copy)


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        b = f.read(1)
        f.seek(at)
        f.write(bytes([b[0] ^ 1]))


segs = sorted(n for n in os.listdir(BASE + "/log/seg") if n.endswith(".jsonl"))
home = [s for s in segs if int(s[:20]) <= 17][-1]
leaves = sorted(n for n in os.listdir(BASE + "/log/seg") if n.endswith(".leaves"))
rc, out, err = damaged(lambda d: flip(d + "/seg/" + leaves[0], 40))
tap.ok(rc == 1 and out == b"" and "not the one that was signed" in err, "wrong leaves give no proof", err)
rc, out, err = damaged(lambda d: [os.unlink(d + "/seg/" + x) for x in leaves])
tap.ok(rc == 0 and out == proofs[17], "without leaves files it is the same proof", err)
gone = [s for s in segs if s != home and s.replace("jsonl", "leaves") in leaves][0]
rc, out, err = damaged(lambda d: os.unlink(d + "/seg/" + gone))
tap.ok(rc == 0 and out == proofs[17], "so without another segment whose leaves are there", err)
rc, out, err = damaged(lambda d: flip(d + "/seg/" + home, os.path.getsize(d + "/seg/" + home) // 2))
tap.ok(out == b"" if rc else out == proofs[17], "a damaged segment never gives another proof", err)
rc, out, err = damaged(lambda d: os.unlink(d + "/seg/" + home))
tap.ok(rc == 1 and out == b"", "its own segment taken away: no proof", err)
tap.done()
