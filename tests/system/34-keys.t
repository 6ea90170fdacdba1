#!/usr/bin/python3
"""The log's signing key changes: each key signs its own sizes and no other, whoever is killed in between; a thief gains nothing."""
import base64
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import verify_log
from notes import Key, handover
from harness import BUILD, CLI, HostRun, Pg, Stack, TOP, Tap, Temp, must, run, wait_for

tap = Tap()
temp = Temp("keys")
T = temp.path
pg = Pg(temp)
st = Stack(temp, pg)
OWN, LOG = st.state + "/keys/log", st.state + "/log"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.chmod(path, 0o600)
    with open(path, "wb") as f:
        f.write(data)
    return path


def keyfile(name, *lines):
    return put(T + "/" + name, b"".join(x + b"\n" for x in lines))


def rotate(*more, state=None):
    return run([CLI, "log", "rotate-key", "--state", state or st.state, *more])


disagree = []


def both(log, keys, pins=()):
    """(status, [(seq, word)]) as both verifiers have it."""
    c = run([CLI, "log", "verify", log, "--keys", keys] + [x for p in pins for x in ("--pin", p)])
    p = run([sys.executable, TOP + "/tests/verify_log.py", log, keys, *pins])
    out = [(r.returncode, sorted(re.findall(r"^TAMPER at seq (\d+).*?: ([\w-]+):", r.stdout, re.M))) for r in (c, p)]
    if out[0] != out[1]:
        disagree.append((log, keys, c.stdout, p.stdout))
    return out[0]


def size():
    return max(int(x) for x in os.listdir(LOG + "/cp"))


def copy(name="copy"):
    d = T + "/" + name
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(st.state, d, ignore=shutil.ignore_patterns("*.sock"))
    for top, _, names in os.walk(d):
        for n in names:
            os.chmod(os.path.join(top, n), 0o600)
    return d


def work(sql):
    hr = HostRun(st)
    hr.psql(pg, sql)
    hr.end()
    wait_for(lambda: any(x["run"] == hr.id for x in st.records("run.end")))


# --- it changes ------------------------------------------------------------------------------------------------
K1 = Key(read(OWN + "/seed"))
first = put(T + "/given", read(OWN + "/vkey"))  # what whoever verifies was given on the first day
tap.eq(K1.vkey + b"\n", read(first), "the test holds the log's key")
work("SELECT 1")
r = rotate()
tap.ok(r.returncode == 1 and "the broker runs" in r.stdout and read(OWN + "/vkey") == read(first), "while the broker runs the key stays", r.stdout)
st.stop()
N = size()
pin1 = put(T + "/pin1", read(LOG + "/checkpoint"))
tap.eq([rotate(*x).returncode for x in (["--last", "5"], ["--revoke", "a\nb"], ["--revoke", "x", "--last", str(N + 1)], ["--revoke", ""])], [2, 1, 1, 1],
       "a last size without a reason, a reason of two lines or none, and a size beyond the log are refused")
tap.eq((read(OWN + "/seed"), os.path.exists(OWN + ".next")), (K1.sk.raw[:32], False), "and change nothing")
r = rotate()
K2 = Key(read(OWN + "/seed"))
tap.ok(r.returncode == 0 and K2.vkey.decode() in r.stdout and "up to %d," % N in r.stdout, "stopped, it changes and says the new one", r.stdout)
tap.eq((K2.vkey == K1.vkey, read(OWN + "/vkey"), read(OWN + "/first"), os.path.exists(OWN + ".next")), (False, K2.vkey + b"\n", K1.vkey + b"\n", False),
       "seed, verifier key and the first key stand in place; the old seed is nowhere")
tap.eq([oct(os.stat(OWN + "/" + n).st_mode & 0o777) for n in sorted(os.listdir(OWN))], ["0o600"] * 4, "none of it is readable to others")
r = rotate()
tap.ok(r.returncode == 1 and "has not taken over yet" in r.stdout and read(OWN + "/vkey") == K2.vkey + b"\n", "before it has signed it does not change again", r.stdout)
tap.eq(both(LOG, first), (0, []), "the log as it was still verifies")

st.start()
work("SELECT 2")
recs = st.records("log.key")
tap.ok(len(recs) == 1 and recs[0]["seq"] == N and recs[0]["data"]["size"] == N and recs[0]["src"] == "operator"
       and recs[0]["data"]["note"].encode() == read("%s/key/%020d" % (LOG, N)) and recs[0]["data"]["vkey"].encode() == K2.vkey,
       "the first record of the next start says so, with the note", recs)
r = run([CLI, "log", "keys", "--state", st.state])
tap.eq(r.stdout.encode(), b"%s 0 %d\n%s %d -\n" % (K1.vkey, N, K2.vkey, N), "log keys says which signs which sizes")
st.stop()
E = size()
pin2 = put(T + "/pin2", read(LOG + "/checkpoint"))
tap.eq([both(LOG, first, p) for p in ((), (pin1,), (pin2,), (pin1, pin2))], [(0, [])] * 4, "who has the first key alone verifies all of it, and every pin")
both_keys = keyfile("both", K1.vkey + b" 0 %d" % N, K2.vkey + b" %d -" % N)
tap.eq(both(LOG, both_keys), (0, []), "so does who has both with their sizes")
tap.eq(both(LOG, keyfile("listed", *r.stdout.encode().split(b"\n")[:-1])), (0, []), "and who has what log keys prints")
tap.eq(both(LOG, keyfile("second", K2.vkey))[0], 2, "of the second key alone the first heads are by no given key: never verified")
seqs = sorted(int(x) for x in os.listdir(LOG + "/cp"))
tap.eq(both(LOG, keyfile("late", K1.vkey + b" 0 %d" % (N - 1), K2.vkey)), (1, sorted([(str(N), "checkpoint"), (str(N), "key")])),
       "a first key that was to end earlier: its last head and the handover are refused")
tap.eq(both(LOG, keyfile("later", K1.vkey, K2.vkey + b" %d -" % E)), (1, sorted((str(s), "checkpoint") for s in seqs if N < s < E)),
       "a second key that was to begin later: its heads before that are refused")
w = b"\4" + bytes(32)
WITNESS = b"witness.example+" + hashlib.sha256(b"witness.example\n" + w).hexdigest()[:8].encode() + b"+" + base64.b64encode(w)
tap.eq(both(LOG, keyfile("witness", WITNESS, K1.vkey + b" 0 %d" % N, K2.vkey + b" %d -" % N)), both(LOG, both_keys),
       "the key of a witness in the same file is passed over")
tap.eq(both(LOG, keyfile("alone", WITNESS))[0], 2, "but is no key of a log")
tap.eq([both(LOG, keyfile("bad", *x))[0] for x in ((K1.vkey, K1.vkey), (K1.vkey + b" 0 9", K1.vkey + b" 10 -"), (K1.vkey + b" 0 - revoked",),
                                                   (K1.vkey + b" 0 9 stolen",), (K1.vkey + b" 9 0",))], [2] * 5,
       "the same key twice, and ranges not of the form, are errors of the key file")

# --- who else could sign ---------------------------------------------------------------------------------------------
cps = {s: read(LOG + "/cp/%020d" % s) for s in seqs}


def text_of(s):
    return cps[s][: cps[s].rfind(b"\n\n") + 1]


after, before = next(s for s in seqs if s > N), seqs[0]
for what, s, key, word in (("a head by the old key behind its end", after, K1, "checkpoint"), ("a head by the new key before its beginning", before, K2, "checkpoint")):
    d = copy() + "/log"
    put(d + "/cp/%020d" % s, key.note(text_of(s)))
    tap.eq(both(d, first), (1, [(str(s), word)]), what + " is refused, though it is over the right records")
d = copy() + "/log"
put(d + "/cp/%020d" % N, K1.note(text_of(N), K2))
tap.eq(both(d, first), (0, []), "at the size itself both may sign")
d = copy() + "/log"
shutil.rmtree(d + "/key")
tap.eq(both(d, first)[0], 2, "without the handover the new heads are by no given key")
tap.eq(both(d, both_keys), (0, []), "though who has both keys needs none")
d = copy() + "/log"
os.rename(d + "/key/%020d" % N, d + "/key/%020d" % (N + 1))
tap.eq(both(d, first), (1, [(str(N + 1), "key")]), "under another number it is a finding")
d = copy() + "/log"
put(d + "/key/extra", b"x")
tap.eq(both(d, first), (1, [("0", "foreign")]), "so is what does not belong in key/")
note, worst = read(LOG + "/key/%020d" % N), []
d = copy() + "/log"
for i in range(0, len(note)):
    put(d + "/key/%020d" % N, note[:i] + bytes([note[i] ^ (1 << (i % 7))]) + note[i + 1:])
    r = run([sys.executable, "-c", "import sys; sys.path.insert(0, %r); import verify_log; verify_log.open_handover(open(sys.argv[1], 'rb').read())"
             % (TOP + "/tests"), d + "/key/%020d" % N]) if i % 16 == 0 else None
    c = run([CLI, "log", "keys", d, "--keys", first]).stdout.count("\n")
    if c != 1 or (r is not None and "Bad" not in r.stdout):
        worst.append((i, c, r and r.stdout[-200:]))
tap.eq(worst, [], "none of %d changed bytes of a handover leaves it believed" % len(note))
thief = Key(b"\7" * 32)
root = verify_log.checkpoint_text(text_of(after))[2]
for what, n, s in (("the old key hands over again, behind its end", K1.note(handover(K1, thief, after, root), thief), after),
                   ("a key hands itself the log", thief.note(handover(K1, thief, after, root)), after),
                   ("a handover that the new key has not signed", K2.note(handover(K2, thief, after, root)), after),
                   ("a handover with another root", K2.note(handover(K2, thief, after, b"\1" * 32), thief), after),
                   ("one that ends the old key beyond its size", K2.note(handover(K2, thief, after, root, after + 1), thief), after),
                   ("one with another first line", K2.note(handover(K2, thief, after, root, first=b"cofferdam-log-key/2"), thief), after)):
    d = copy() + "/log"
    put(d + "/key/%020d" % s, n)
    v = both(d, first)
    tap.ok(v[0] == 1 and v[1][0][1] in ("key", "rewritten", "checkpoint"), what + ": tampering", v)
d = copy() + "/log"
other = Key(b"\10" * 32)
put(d + "/key/%020d" % after, thief.note(handover(thief, other, after, root), other))
tap.eq(both(d, first), (0, []), "one between keys that nobody trusts changes nothing")

# The writer believes no more than a verifier.
d = copy("refused")
put(d + "/log/cp/%020d" % (E + 1), K1.note(text_of(E).replace(b"\n%d\n" % E, b"\n%d\n" % (E + 1))))
out = T + "/refused.log"
with open(out, "wb") as f:
    b = subprocess.Popen([BUILD + "/cofferdam-broker", "--state", d], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
tap.ok(wait_for(lambda: b"refused: cp/" in read(out), 30), "a start refuses a newest head by the old key", read(out)[-600:])
b.terminate()
b.wait(30)

# --- killed at every step of the change -----------------------------------------------------------------------------------
left = {}
for call in ("mkdirat", "write", "fsync", "renameat2", "pwrite64", "unlinkat", "openat"):
    for nth in range(1, 60):
        d = copy("crash")
        t = subprocess.run(["strace", "-qq", "-f", "-o", T + "/strace", "-e", "trace=" + call, "-e", "inject=%s:signal=KILL:when=%d" % (call, nth),
                            CLI, "log", "rotate-key", "--state", d], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if t.returncode == 0:
            break
        k = Key(read(d + "/keys/log/seed"))
        new = k.vkey != K2.vkey
        sound = read(d + "/keys/log/vkey") == k.vkey + b"\n" and new == (len(verify_log.open_handover(read(d + "/keys/log/handover"))) == 4 and
                                                                         read(d + "/keys/log/handover") != read(OWN + "/handover"))
        again = rotate(state=d)
        sound = sound and (again.returncode == 0 if not new else "has not taken over yet" in again.stdout) and not os.path.exists(d + "/keys/log.next")
        left.setdefault((new, sound), []).append((call, nth))
tap.eq((sorted(left), sum(map(len, left.values())) > 20), ([(False, True), (True, True)], True),
       "killed at any of %d calls of it, the old key or the new one is whole, and asked again no old seed is left" % sum(map(len, left.values())))

# --- again, and revoked ------------------------------------------------------------------------------------------------------
r = rotate("--revoke", "seed was on a stolen laptop", "--last", str(after))
K3 = Key(read(OWN + "/seed"))
tap.ok(r.returncode == 0 and "revoked" in r.stdout, "the second key is revoked for what lies behind a size", r.stdout)
st.start()
work("SELECT 3")
st.stop()
gone = sorted((str(s), "checkpoint") for s in seqs if s > after)
v = run([CLI, "log", "verify", LOG, "--keys", first])
tap.eq(both(LOG, first), (1, gone), "from there on its heads are tampering")
tap.has(v.stdout, "by a key that was revoked", "and it says why")
r = run([CLI, "log", "keys", "--state", st.state])
tap.eq(both(LOG, keyfile("listed", *r.stdout.encode().split(b"\n")[:-1])), (1, gone), "so they are for who has what log keys prints")
tap.eq(r.stdout.encode(),
       b"%s 0 %d\n%s %d %d revoked\n%s %d -\n" % (K1.vkey, N, K2.vkey, N, after, K3.vkey, E), "three keys, each with its sizes")
d = copy() + "/log"
forged = text_of(after).replace(b"\n%d\n" % after, b"\n%d\n" % size())
put(d + "/cp/%020d" % size(), K2.note(forged))
v = both(d, first)
tap.ok(v[0] == 1 and (str(size()), "checkpoint") in v[1], "a forged newest head by the revoked key is refused", v)
r = rotate()
tap.eq(r.returncode, 0, "and the third key hands over in its turn")
st.start()
tap.eq(run([CLI, "log", "keys", "--state", st.state]).stdout.count("\n"), 4, "four keys, followed from the first")

# A seed that cannot be read is never replaced.
st.stop()
d = copy("broken")
put(d + "/keys/log/seed", b"short")
r = rotate(state=d)
tap.ok(r.returncode != 0 and read(d + "/keys/log/seed") == b"short", "a seed that is none is refused, not replaced", r.stdout)
put(d + "/keys/log/seed", b"\1" * 32)
r = rotate(state=d)
tap.ok(r.returncode != 0 and "not the key of" in r.stdout, "so is one of another key", r.stdout)

for x in disagree[:3]:
    print("# %s %s\n# C: %s\n# Python: %s" % tuple(y.replace("\n", "\n#   ") for y in x))
tap.eq(len(disagree), 0, "the two verifiers agree on every one of these")
tap.done()
