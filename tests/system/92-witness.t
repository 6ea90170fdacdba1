#!/usr/bin/python3
"""The witness: what a C2SP client asks is answered as tlog-witness says; nothing that does not extend what was cosigned is
cosigned, whoever races, however it is killed; what contradicts is kept."""
import atexit
import glob
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import sanitizers
from harness import BUILD, CLI, Tap, Temp, free_port, must, run, wait_for
from origin import Ca
from tlog import Log, b64, cosigned, root, sha, submit

tap, temp = Tap(), Temp("witness")
DIR = temp.path + "/w"
# A process that nobody may trace cannot look for leaks at its end, and would say so by its status.
ENV = dict(os.environ, ASAN_OPTIONS=sanitizers.no_leaks())


started = []


def end_all():
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()


atexit.register(end_all)


class Witness:
    def __init__(self, path, *args):
        self.port, self.path, self.args = free_port(), path, args
        self.start()

    def start(self):
        self.p = subprocess.Popen([CLI, "witness", "serve", self.path, "--listen", "127.0.0.1:%d" % self.port, *self.args],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(temp.path + "/witness.log", "ab"), env=ENV)
        started.append(self.p)
        wait_for(lambda: self.p.poll() is not None or self.up())

    def up(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
            return True
        except OSError:
            return False

    def kill(self, signo=signal.SIGTERM):
        self.p.send_signal(signo)
        return self.p.wait(20)


def evidence(path=None):
    return sorted(glob.glob((path or DIR) + "/log/*/evidence-*"))


vkey = must([CLI, "witness", "init", DIR, "witness.test/w1"]).strip()
tap.ok(vkey.startswith("witness.test/w1+") and os.stat(DIR + "/key").st_mode & 0o777 == 0o600,
       "init makes a key that nobody else reads, and prints its public half")
tap.ok(run([CLI, "witness", "init", DIR, "witness.test/w1"]).returncode == 2, "a witness is not made over one that exists")
for words in (["init", "--frob=1", "w2"], ["init", temp.path + "/w2", "--frob"], ["add", "--frob", vkey]):
    r = run([CLI, "witness", *words], cwd=temp.path)
    tap.ok(r.returncode == 2 and "is not an option here" in r.stdout and not os.path.exists(temp.path + "/--frob=1"),
           "what looks like an option is no name of a directory: witness %s" % " ".join(words).replace(temp.path, "DIR"), r.stdout)
log, other = Log("log.test/a", 1, 40), Log("log.test/b", 2, 10)
for l in log, other:
    must([CLI, "witness", "add", DIR, l.signer.vkey])
tap.ok(run([CLI, "witness", "add", DIR, log.signer.vkey]).returncode != 0, "the same key is not added twice")
tap.ok(run([CLI, "witness", "add", DIR, vkey]).returncode == 2, "a witness' key is not taken for a log's")
w = Witness(DIR)
r = subprocess.run([BUILD + "/cofferdam-witness", DIR, "--listen", "127.0.0.1:%d" % free_port()], capture_output=True, text=True)
tap.ok(r.returncode == 2 and "another process" in r.stderr, "a second process cannot serve the same directory")
r = subprocess.run([BUILD + "/cofferdam-witness", DIR, "--listen", "0.0.0.0:%d" % free_port()], capture_output=True, text=True)
tap.ok(r.returncode == 2, "cleartext is for loopback alone")

# --- tlog-witness ------------------------------------------------------------------------
now = time.time()
s, t, body = submit(w.port, log.request(0, 7))
at = cosigned(vkey, body.rstrip("\n"), log.text(7))
tap.ok(s == 200 and at is not None and abs(at - now) < 3600, "a first checkpoint is cosigned, and verifies", (s, body))
s, t, body = submit(w.port, log.request(7, 19))
tap.ok(s == 200 and cosigned(vkey, body.rstrip("\n"), log.text(19)) is not None, "one that extends it is cosigned", (s, body))
tap.ok(cosigned(vkey, body.rstrip("\n"), log.text(18)) is None, "and of another size the same line does not verify")
s, t, body = submit(w.port, log.request(19, 19))
tap.ok(s == 200 and cosigned(vkey, body.rstrip("\n"), log.text(19)) is not None, "the same once more is cosigned again")
s, t, body = submit(w.port, log.request(0, 21))
tap.ok((s, t, body) == (409, "text/x.tlog.size", "19\n"), "an old size that is not the latest is told the latest", (s, t, body))
s, t, body = submit(w.port, log.request(7, 12))
tap.ok((s, body) == (409, "19\n"), "a rollback is refused", (s, body))
tap.ok(submit(w.port, log.request(30, 20))[0] == 400, "an old size over the checkpoint's is malformed")
tap.ok(submit(w.port, Log("log.test/c", 3, 5).request(0, 5))[0] == 404, "an unknown origin is not found")
forger = Log("log.test/a", 9, 40)
tap.ok(submit(w.port, log.request(19, 21, signer=forger.signer))[0] == 403, "a signature by another key is forbidden")
note = log.note(21)
junk = note + "\u2014 somebody.else %s\n" % b64(b"x" * 80)
req = log.request(19, 21)
s, t, body = submit(w.port, req.replace(note, junk))
tap.ok(s == 200, "signatures by keys that are not known are passed over", (s, body))
ext = log.text(22) + "extension\n"
s, t, body = submit(w.port, log.request(21, 22).split("\n\n")[0] + "\n\n" + ext + "\n" + log.signer.line(ext))
tap.ok(s == 200 and cosigned(vkey, body.rstrip("\n"), ext) is not None, "extension lines are signed with the rest", (s, body))
tap.ok(submit(w.port, other.request(0, 10))[0] == 200, "another log has a memory of its own")
for name, bad in {"no old line": log.request(22, 23)[7:], "old without size": "old \n\n" + note, "old 07": "old 07\n\n" + note,
                  "a hash that is none": "old 22\nAAAA\n\n" + note, "nothing": "", "no note": "old 22\n\n",
                  "64 hashes": "old 22\n" + (b64(sha(b"")) + "\n") * 64 + "\n" + log.note(23),
                  "CR": log.request(22, 23).replace("\n", "\r\n")}.items():
    s = submit(w.port, bad)[0]
    tap.ok(s == 400, "malformed: " + name, s)
tap.ok(submit(w.port, "x" * 100000)[0] == 413, "a request that is too long is not read")
tap.ok(submit(w.port, req, path="/")[0] == 404 and submit(w.port, req, method="PUT")[0] == 405, "there is one thing to ask for")
good = log.request(22, 30)
s = submit(w.port, good.replace(b64(root(log.leaves[22:23])), b64(sha(b"x"))) if b64(root(log.leaves[22:23])) in good
           else good.replace("\n\n", "\n" + b64(sha(b"x")) + "\n\n", 1))[0]
tap.ok(s == 422, "a proof that does not hold is refused", s)

# --- forks ---------------------------------------------------------------------------------
had = len(evidence())
fork = Log("log.test/a", 1, 15)
fork.grow(25, b"other")
s, t, body = submit(w.port, fork.request(22, 33))
tap.ok(s == 422, "a fork is refused though the log's key signed it", (s, body))
tap.ok(len(evidence()) == had + 1 and fork.note(33) in open(evidence()[-1], encoding="utf-8").read(), "and kept as evidence")
s, t, body = submit(w.port, fork.request(22, 22))
tap.ok(s == 409 and len(evidence()) == had + 2, "so is another root for the size that was cosigned", (s, body))
submit(w.port, fork.request(22, 22))
tap.ok(len(evidence()) == had + 2, "the same evidence is kept once")
tap.ok(submit(w.port, log.request(22, 33))[0] == 200, "the true log goes on")

# --- what anybody can send ----------------------------------------------------------------
victim = Log("log.test/victim", 6, 60)
must([CLI, "witness", "add", DIR, victim.signer.vkey])
tap.ok(submit(w.port, victim.request(0, 20))[0] == 200, "another log is witnessed")


def kept():
    """Names and texts of what is kept of it."""
    names = glob.glob(DIR + "/log/%s/evidence-*" % sha(b"log.test/victim").hex())
    return {os.path.basename(n): open(n, encoding="utf-8").read() for n in names}


def junk(size, old=20):
    """An honest head with a proof that anybody can make."""
    return submit(w.port, "old %d\n%s\n\n" % (old, b64(os.urandom(32))) + victim.note(size))[0]


def forked(salt, at=20):
    f = Log("log.test/victim", 6, 10)
    f.grow(50, salt)
    return f.note(at), submit(w.port, f.request(20, at))[0]


def told():
    with open(temp.path + "/witness.log", errors="replace") as f:
        return [x for x in f if "log.test/victim" in x]


tap.ok({junk(21) for _ in range(70)} == {422} and list(kept()) == ["evidence-unproven-00"], "one honest head with seventy proofs of junk is kept once, as not proven", list(kept()))
tap.ok({junk(20) for _ in range(3)} == {422} and len(kept()) == 1, "the head that was cosigned, with a proof of junk, says nothing", list(kept()))
note, s = forked(b"f", 30)
tap.ok(s == 422 and note in kept().get("evidence-unproven-01", ""), "behind them a head of a fork has its place", (s, list(kept())))
note, s = forked(b"g")
tap.ok(s == 409 and note in kept().get("evidence-00", ""), "and another root for the size that was cosigned is kept as proven", (s, list(kept())))
tap.ok({submit(w.port, "old 0\n%s\n\n" % b64(os.urandom(32)) + note)[0] for _ in range(3)} == {409} and len(kept()) == 3,
       "once, whatever is sent along with it", list(kept()))
for size in range(22, 60):
    junk(size)
have = kept()
tap.ok(sorted(have) == ["evidence-00"] + ["evidence-unproven-%02d" % i for i in range(8)] and note in have["evidence-00"],
       "what is not proven has eight places, and never that of what is", sorted(have))
tap.ok(all(any(victim.note(size) in x for x in have.values()) for size in range(52, 60)), "and the last eight have them")
lines = told()
tap.ok(sum("not proven" in x for x in lines) in (1, 2) and sum("kept as evidence-00" in x for x in lines) == 1,
       "the witness says so about once a minute, and what is proven at once", lines)
many = [forked(b"h%d" % i)[0] for i in range(70)]
have = kept()
tap.ok(len(have) == 64 + 8 and many[62] in have["evidence-63"] and not any(many[63] in x for x in have.values()), "of what is proven sixty-four are kept", len(have))
tap.ok(sum("NOT KEPT" in x for x in told()) in (1, 2), "and that more is not is said, not at each request", told()[-3:])
tap.ok(submit(w.port, victim.request(20, 60))[0] == 200, "the log itself goes on")

# --- kill -9, and what is on disk -------------------------------------------------------------
w.kill(signal.SIGKILL)
w.start()
s, t, body = submit(w.port, log.request(0, 40))
tap.ok((s, body) == (409, "33\n"), "after kill -9 it knows what it cosigned last", (s, body))
head = glob.glob(DIR + "/log/%s/head" % sha(b"log.test/a").hex())[0]
saved = open(head, "rb").read()
for what, content in (("cut", saved[:20]), ("of another log", saved.replace(b"log.test/a", b"log.test/b"))):
    with open(head, "wb") as f:
        f.write(content)
    s = submit(w.port, log.request(0, 40))[0]
    tap.ok(s == 500, "a head that is %s is no permission to begin anew" % what, s)
os.unlink(head)
tap.ok(submit(w.port, log.request(0, 40))[0] == 500, "nor is one that is gone")
with open(head, "wb") as f:
    f.write(saved)
tap.ok(submit(w.port, log.request(33, 34))[0] == 200, "once it is back, it goes on")
w.kill()

# The race of tlog-witness: N and N + K from the same old size, many at once, and kill -9 among them.
race = Log("log.test/race", 5, 400)
must([CLI, "witness", "add", DIR, race.signer.vkey])
w.start()
cosigned_sizes, lock, size = [], threading.Lock(), 0


def client(step):
    try:
        s, _, body = submit(w.port, race.request(size, size + step))
    except (OSError, http.client.HTTPException):
        return
    if s == 200 and cosigned(vkey, body.rstrip("\n"), race.text(size + step)):
        with lock:
            cosigned_sizes.append((size, size + step))


rounds = 0
while size < 340:
    rounds += 1
    before = len(cosigned_sizes)
    threads = [threading.Thread(target=client, args=(k,)) for k in (1, 9, 4, 1, 7, 3)]
    for th in threads:
        th.start()
    if rounds % 5 == 0:
        w.kill(signal.SIGKILL)
    for th in threads:
        th.join()
    if rounds % 5 == 0:
        w.start()
    s, _, body = submit(w.port, race.request(0, 400) if size else race.request(399, 400))
    latest = int(body)
    said = {new for old, new in cosigned_sizes[before:] if new != old}
    if len(said) > 1 or any(n > latest for n in said) or latest < size:
        tap.ok(False, "a race is lost by all but one", (size, said, latest))
        break
    size = latest
else:
    tap.ok(rounds > 30, "of %d races with kill -9 among them each has one winner, and nothing cosigned is forgotten" % rounds)

# --- limits --------------------------------------------------------------------------------------
idle = [socket.create_connection(("127.0.0.1", w.port), 20) for _ in range(90)]
tap.ok(submit(w.port, race.request(size, size + 1))[0] == 200, "ninety idle connections keep nobody out")
for c in idle:
    c.close()
w.kill()
tap.ok(w.p.returncode == 0, "it ends when asked to", w.p.returncode)

# --- TLS --------------------------------------------------------------------------------------------
ca = Ca(temp.path + "/ca")
cert, key = ca.issue("127.0.0.1")
w2 = Witness(DIR, "--cert", cert, "--key", key)
s, t, body = submit(w2.port, log.request(34, 35), ca=ca.pem)
tap.ok(s == 200, "over TLS the same", (s, body))
w2.kill()
tap.done()
