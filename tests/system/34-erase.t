#!/usr/bin/python3
"""Erasure: the keys of a subject's runs are destroyed, whoever is killed in between; the log stays whole and says so."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Http, Pg, Stack, TOP, Tap, Temp, run, wait_for
from origin import Ca, Origin

tap = Tap()
temp = Temp("erase")
pg = Pg(temp)
o = Origin(temp.path, "api.test", ca=Ca(temp.path + "/ca"))
st = Stack(temp, pg, http={"api": Http(o)})
KEYS, LOG = st.state + "/keys/blob", st.state + "/log"


def key(r):
    return "%s/%s.key" % (KEYS, r)


def erase(subject, *more, state=None):
    return run([CLI, "log", "erase", "--state", state or st.state, "--subject", subject, "--reason", "asked to", *more])


def timeline(r, state=None):
    return run([CLI, "replay", "timeline", "--state", state or st.state, r]).stdout


def over(r):
    return any(x["run"] == r for x in st.records("run.end"))


def ended(hr):
    hr.end()
    if not wait_for(lambda: over(hr.id)):
        raise RuntimeError("run %s does not end" % hr.id)
    return hr.id


def verified(log=LOG, pins=()):
    """What both verifiers say of it; the broker may have records that are not signed yet."""
    c = run([CLI, "log", "verify", log, "--vkey", st.state + "/keys/log/vkey"] + [x for p in pins for x in ("--pin", p)])
    p = run([sys.executable, TOP + "/tests/verify_log.py", log, st.state + "/keys/log/vkey", *pins])
    return [(r.returncode in (0, 3) and "TAMPER" not in r.stdout) or r.stdout for r in (c, p)]


def erasures():
    return st.records("erasure")


# --- a run, an owner, a target -------------------------------------------------------------------------------
a, b, c = HostRun(st), HostRun(st), HostRun(st)
PIN = "4711471147"  # too long to stand in a hash
tap.has(a.psql(pg, "SELECT 'pin %s'" % PIN).stdout, "pin", "one run asks the database")
tap.eq(b.curl("api", "/x").returncode, 0, "another one the API")
c.psql(pg, "SELECT 'third'")
r = erase("run:" + a.id, "--yes")
tap.ok(r.returncode == 1 and "is not over: revoke it first" in r.stdout and os.path.exists(key(a.id)), "a run that is not over is refused", r.stdout)
A, B = ended(a), ended(b)
head = temp.path + "/pin"
with open(head, "w") as f:
    f.write(run([CLI, "log", "head", "--state", st.state]).stdout)
kept = open(key(A), "rb").read()
tap.ok("is erased" not in st.verify().stdout, "before, verify says nothing of erasure")
tap.has(timeline(A), "pin " + PIN, "before, the timeline shows what was asked")

r = erase("run:" + A)
tap.ok(r.returncode == 0 and "nothing is erased yet" in r.stdout and A in r.stdout and os.path.exists(key(A)) and not erasures(),
       "without --yes it says what would go, and nothing goes", r.stdout)
tap.eq([run([CLI, "log", "erase", "--state", st.state, *x]).returncode for x in
        (["--subject", "run:" + A], ["--reason", "x"], ["--subject", A, "--reason", "x"], ["--subject", "person:x", "--reason", "x"],
         ["--subject", "run:", "--reason", "x"])], [2] * 5, "without reason, subject or one of the three kinds it is a usage error")
tap.eq([erase(s, "--yes").returncode for s in ("run:r-none", "run:../log/seed", "run:policy", "owner:nobody", "target:other")], [1] * 5,
       "what has no run in the log is refused")
tap.eq(run([CLI, "log", "erase", "--state", st.state, "--subject", "run:" + A, "--reason", "a\nb", "--yes"]).returncode, 1,
       "a reason is one line")
packs = {n: open(LOG + "/blob/" + n, "rb").read() for n in os.listdir(LOG + "/blob")}
r = erase("run:" + A, "--yes")
tap.ok(r.returncode == 0 and "1 keys destroyed, 0 were gone already" in r.stdout, "with it the key is destroyed", r.stdout)
tap.eq([os.path.exists(key(x)) for x in (A, B, c.id, "policy")], [False, True, True, True], "its key is gone, and no other")
e = erasures()
tap.ok(len(e) == 1 and e[0]["src"] == "operator" and e[0]["data"]["runs"] == [A] and e[0]["data"]["subject"] == "run:" + A
       and e[0]["data"]["reason"] == "asked to" and e[0]["data"]["by"], "one record says who, why, what and which", e)
tap.ok(all(open(LOG + "/blob/" + n, "rb").read().startswith(x) for n, x in packs.items()), "the packs stand as they were")
tap.eq(verified(pins=[head]), [True, True], "both verifiers find the log whole, and the head from before in it")
for said in (st.verify().stdout, run([sys.executable, TOP + "/tests/verify_log.py", LOG, st.state + "/keys/log/vkey"]).stdout):
    tap.has(said, "content of 1 runs is erased, by 1 records", "and say that something is erased")
out = timeline(A)
tap.ok("GAP erased: record %d, " % e[0]["seq"] in out and PIN not in out, "the timeline says that it is erased, and by which record", out)
tap.ok("SELECT 'third'" not in out and "third" in timeline(c.id), "what other runs asked is still shown")
r = run([CLI, "replay", "whatif", "--state", st.state])
tap.ok(r.returncode == 0 and "UNKNOWN" not in r.stdout, "the same policy still gives the recorded verdicts: facts stand in the records", r.stdout)
r = erase("run:" + A, "--yes")
tap.ok(r.returncode == 0 and "0 runs, 0 sealed contents, 1 runs erased before" in r.stdout and len(erasures()) == 1,
       "once more: nothing left to erase, and no second record", r.stdout)

# The commitment hides: none of 10^6 guesses gives it, not without the salt nor with what is left in the frames.
act = next(x for x in st.records("action") if x["run"] == A and x["data"]["request"]["operation"] == "query")
ref = act["data"]["request"]["head"]
salts = [b"", bytes(32)] + [p[i:i + 32] for p in packs.values() for i in range(8, 200, 24)]
guess = [b"SELECT 'pin %d'" % i for i in range(100000)]
hits = sum(hashlib.sha256(b"cofferdam-blob/v1\0" + s + g).hexdigest() == ref["c"] for s in salts for g in guess)
tap.ok(hits == 0 and len(salts) * len(guess) >= 10**6, "no guess of %d confirms the commitment" % (len(salts) * len(guess)))
d = temp.path + "/with-key"
shutil.copytree(st.state, d, ignore=shutil.ignore_patterns("*.sock"))
with open("%s/keys/blob/%s.key" % (d, A), "wb") as f:
    f.write(kept)
tap.has(timeline(A, d), "pin " + PIN, "it was the key alone: with a copy of it the content opens (so copies must go as well)")

r = erase("target:api", "--yes")
tap.ok(r.returncode == 0 and not os.path.exists(key(B)) and os.path.exists(key(c.id)),
       "of a target: the runs that asked for something there, and not the one that did not", r.stdout)

# --- killed at every step --------------------------------------------------------------------------------------
CALLS = [("openat", 1), ("openat", 2), ("openat", 3), ("fsync", 1), ("fsync", 2), ("fsync", 3), ("fsync", 4), ("pwrite64", 1), ("unlinkat", 1),
         ("unlinkat", 2), ("write", 1)]
done, kills = 0, 0
for call, nth in CALLS:
    hr = HostRun(st)
    hr.psql(pg, "SELECT 'kill %s %d'" % (call, nth))
    R, core = ended(hr), st.child("core")
    log = temp.path + "/strace"
    tracer = subprocess.Popen(["strace", "-qq", "-o", log, "-p", str(core), "-e", "trace=openat,fsync,pwrite64,unlinkat,write",
                               "-e", "inject=%s:signal=KILL:when=%d" % (call, nth)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: re.search(r"TracerPid:\s*[1-9]", open("/proc/%d/status" % core).read()) or tracer.poll() is not None)
    said = erase("run:" + R, "--yes")
    killed = wait_for(lambda: st.child("core") not in (0, core), 5 if said.returncode == 0 else 20)
    kills += bool(killed)
    if tracer.poll() is None:
        tracer.terminate()
    tracer.wait(20)
    wait_for(lambda: st.cli("status").returncode == 0 and st.child("core") != 0, 30)
    # Begun or not: asked again it ends the same way.
    if not any(R in x["data"]["runs"] for x in erasures()):
        wait_for(lambda: erase("run:" + R, "--yes").returncode == 0, 30)
    gone = wait_for(lambda: not os.path.exists(key(R)) and not os.path.exists(KEYS + "/erasing"), 30)
    recs = [x for x in erasures() if R in x["data"]["runs"]]
    if gone and recs and "GAP erased: record" in timeline(R):
        done += 1
    else:
        print("# %s %d: killed %r gone %r records %d" % (call, nth, killed, gone, len(recs)), said.stdout, timeline(R)[-500:])
tap.eq((done, kills), (len(CALLS),) * 2, "core killed at each of these calls of an erasure: recorded, destroyed and said in the end")
tap.eq(verified(pins=[head]), [True, True], "and the log is whole")

# The log takes nothing: not done, and done by itself when it does.
hr = HostRun(st)
hr.psql(pg, "SELECT 'no log'")
R, writer = ended(hr), st.child("writer")
os.kill(writer, signal.SIGSTOP)
p = subprocess.Popen([CLI, "log", "erase", "--state", st.state, "--subject", "run:" + R, "--reason", "x", "--yes"],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
wait_for(lambda: os.path.exists(KEYS + "/erasing"))
tap.ok(os.path.exists(key(R)), "while the writer takes no record the key stays")
os.kill(writer, signal.SIGKILL)
p.communicate(timeout=90)
tap.ok(wait_for(lambda: not os.path.exists(key(R)) and any(R in x["data"]["runs"] for x in erasures()), 60),
       "with the next writer it is recorded and done, though nobody asks again")
tap.ok(wait_for(lambda: not os.path.exists(KEYS + "/erasing")), "and the journal is gone")

# --- all of an owner -----------------------------------------------------------------------------------------------
C = ended(c)
r = erase("owner:olivia", "--yes")
left = sorted(os.listdir(KEYS))
tap.ok(r.returncode == 0 and left == ["policy.key"], "of an owner: every run", (r.stdout, left))
tap.ok("GAP erased: record" in timeline(C) and "third" not in timeline(C), "and the timeline says so")

# --- what is not as it should be, is said ---------------------------------------------------------------------------
x, y = HostRun(st), HostRun(st)
x.psql(pg, "SELECT 'of x'")
y.psql(pg, "SELECT 'of y'")
X, Y = ended(x), ended(y)
# --- a command ---------------------------------------------------------------------------------------------
WORD = "said-to-echo-only"
tap.has(st.sandbox("sh", "-c", "echo '%s'; exit 3" % WORD).stdout, WORD, "a command has words of its own")
told = st.records("agent.exec")[-1]["run"]
tap.has(timeline(told), "sh -c 'echo '\\''%s'\\''; exit 3'" % WORD, "the timeline shows it as a shell takes it")
seg = b"".join(open(LOG + "/seg/" + n, "rb").read() for n in os.listdir(LOG + "/seg"))
tap.ok(told.encode() in seg and WORD.encode() not in seg, "and it stands in no record")
tap.ok(erase("run:" + told, "--yes").returncode == 0 and WORD not in timeline(told), "so with its key it is gone")
st.stop()
tap.eq(verified(), [True, True], "the closed log is whole")


def copy():
    d = temp.path + "/copy"
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(st.state, d)
    for top, _, names in os.walk(d):
        for n in names:
            os.chmod(os.path.join(top, n), 0o600)
    return d


d = copy()
shutil.copy(key(X), "%s/keys/blob/%s.key" % (d, Y))
tap.has(timeline(Y, d), "GAP blob does not open with key " + Y, "another run's key in its place does not open it")
with open("%s/keys/blob/%s.key" % (d, Y), "wb") as f:
    f.write(bytes(32))
tap.has(timeline(Y, d), "GAP blob does not open with key " + Y, "nor does one of zeros")
with open("%s/keys/blob/%s.key" % (d, Y), "wb") as f:
    f.write(b"short")
tap.ok("of y" not in timeline(Y, d) and "GAP" in timeline(Y, d), "nor a short one")
os.unlink("%s/keys/blob/%s.key" % (d, Y))
tap.has(timeline(Y, d), "GAP key %s is missing, and no record says that it was erased" % Y, "a key that is missing is not called erased")
tap.has(timeline(X, d), "of x", "the other run's content is shown all the while")


def ref_of(r):
    return next(z for z in st.records("action") if z["run"] == r and z["data"]["request"]["operation"] == "query")["data"]["request"]["head"]["ct"]


def frames(path):
    sys.path.insert(0, TOP + "/tests")
    import verify_log
    data, at, out = open(path, "rb").read(), 0, []
    while at < len(data):
        h, n = verify_log.Log.frame(data, at)
        out.append((h, data[at:at + n]))
        at += n
    return out


pack = "/log/blob/" + sorted(os.listdir(LOG + "/blob"))[-1]
cts = [ref_of(X), ref_of(Y)]
for what in ("two blobs that change places", "one blob in the place of another", "a blob that is missing"):
    d = copy()
    fs = frames(d + pack)
    at = [i for i, (h, _) in enumerate(fs) if h in cts]
    blobs = [z for _, z in fs]
    if what.startswith("two"):
        blobs[at[0]], blobs[at[1]] = blobs[at[1]], blobs[at[0]]
    elif what.startswith("one"):
        blobs[at[1]] = blobs[at[0]]
    else:
        del blobs[at[1]]
    with open(d + pack, "wb") as f:
        f.write(b"".join(blobs))
    v = verified(d + "/log")
    if what.startswith("two"):
        tap.ok(v == [True, True] and "of x" in timeline(X, d) and "of y" in timeline(Y, d), what + " are found by their hash: nothing is lost", v)
    else:
        tap.ok(all(z is not True and ": blob: " in z for z in v) and "GAP content is in no pack" in timeline(Y, d) and "of x" in timeline(X, d),
               what + " is a finding, and a gap in the timeline", v)
tap.done()
