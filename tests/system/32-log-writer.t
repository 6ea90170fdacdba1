#!/usr/bin/python3
"""The writer process, with this test as its parent, core and upstream.

Answers come after the sync, in the order and with what was asked for; a new core is told what is
live; what is no record ends the process; what was acknowledged survives any kill.
"""
import atexit
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
from harness import BUILD, Tap  # noqa: E402
from writer import CHECKPOINT, CORE, ROOT, UPSTREAM, W_ACK, W_FRAME, Writer, lstr  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
T = tempfile.mkdtemp(prefix="log-writer.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()


def state():
    d = tempfile.mkdtemp(dir=T)
    subprocess.run([BUILD + "/tool_append-log", d, "0", "seed=7"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(d + "/log")
    os.mkdir(d + "/log", 0o700)
    os.chmod(T, 0o711), os.chmod(d, 0o711)
    if os.geteuid() == 0:
        os.chown(d + "/log", 63101, 63101)
    return d


def records(d):
    segs = sorted(x for x in os.listdir(d + "/log/seg") if x.endswith(".jsonl"))
    return [json.loads(x)["body"] for s in segs for x in open(d + "/log/seg/" + s, "rb")]


def verify(d):
    r = subprocess.run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"], capture_output=True, text=True)
    return r.returncode, r.stdout


def frame(n, size=60):
    ct = bytes([n]) * size
    return b"CFB1" + struct.pack(">I", 36 + len(ct)) + bytes(24) + struct.pack(">I", len(ct)) + ct


def ref(f):
    return {"c": "0" * 64, "ct": hashlib.sha256(f[8:32] + f[36:]).hexdigest(), "kid": "r-1", "len": 1, "media": "t"}


def packs(d):
    return b"".join(open(d + "/log/blob/" + x, "rb").read() for x in sorted(os.listdir(d + "/log/blob")))


def cps(d):
    return sorted(int(x) for x in os.listdir(d + "/log/cp") if x.isdigit())


# --- answers ------------------------------------------------------------------------------
d = state()
w = Writer(d)
tap.ok(w.ready and w.size == 1 and w.live == [], "an empty log is opened, signed and told of", (w.size, w.live, w.logs))
tap.eq((cps(d), os.path.exists(d + "/log/checkpoint")), ([1], True), "its first record has a checkpoint before anything is served")
w.append(7, "run.start", {"agent": "a"}, run="r-1")
a = w.ack()
tap.eq((a["ticket"], a["seq"], a["size"], a["root"]), (7, 1, 2, bytes(32)), "an answer names ticket, seq and size")
tap.eq(records(d)[1]["type"], "run.start", "and the record is on disk by then")
w.append(8, "approval.request", {"id": "q"}, run="r-1", flags=CHECKPOINT | ROOT)
a = w.ack()
tap.ok(a["size"] in cps(d), "with a checkpoint asked for, it is there before the answer", (a, cps(d)))
root8 = a["root"]
tap.ok(root8 != bytes(32), "a root is given when asked for")
f = frame(1)
w.append(9, "agent.exec", {"content": ref(f)}, run="r-1", src="agent", frames=[f])
tap.ok(w.ack() is not None, "a record with its sealed content is taken")
f2 = frame(2)
w.upstream.send(W_FRAME, lstr(f2))
w.append(10, "agent.result", {"content": ref(f2)}, run="r-1", src="agent")
tap.ok(w.ack() is not None, "a frame of upstream is written before the record that names it")
f4 = frame(4, (2 << 20) + 48)
w.upstream.send(W_FRAME, lstr(f4))
w.append(11, "outcome", {"action": "a-0", "answer": ref(f4)}, run="r-1")
w.ack()
tap.ok(f4 in packs(d), "the largest one too is on disk by the time of the answer")
w.p.send_signal(signal.SIGSTOP)
f5, f6 = frame(5, 150000), frame(6)  # more than one read takes
w.upstream.send(W_FRAME, lstr(f5))
w.upstream.sock.close()
w.upstream = w.wire(UPSTREAM)
w.upstream.send(W_FRAME, lstr(f6))
w.append(12, "agent.result", {"content": ref(f5)}, run="r-1", src="agent")
w.p.send_signal(signal.SIGCONT)
w.ack()
tap.ok(f5 in packs(d), "what an upstream sent before it ended is written, though its successor is there")
w.append(13, "agent.result", {"content": ref(f6)}, run="r-1", src="agent")
w.ack()
tap.ok(f6 in packs(d), "and what that one sends")
for i in range(200):
    w.append(100 + i, "action", {"action": "a-%d" % i, "dispatch": {"sent": True}}, run="r-1", flags=CHECKPOINT if i % 50 == 0 else 0)
acks = sorted((w.ack() for _ in range(200)), key=lambda x: x["seq"])
tap.eq([x["ticket"] for x in acks], list(range(100, 300)), "many at once are each answered, in the order they came")
rc, out = verify(d)
tap.ok(rc in (0, 3) and "TAMPER" not in out, "the log verifies while it is written", out)
batches = len({r["batch"] for r in records(d)})
tap.ok(batches < 150, "and they were written in groups", batches)
for i in range(0, 200, 2):
    w.append(1000 + i, "outcome", {"action": "a-%d" % i}, run="r-1")
for i in range(0, 200, 2):
    w.ack()
time.sleep(1.3)
tap.eq(verify(d)[0], 0, "a second after it rests everything is signed")

# --- a new core ------------------------------------------------------------------------------
before = [(r["type"], r["seq"]) for r in records(d) if r["type"] in ("run.start", "approval.request")]
before += [("action", r["seq"]) for r in records(d) if r["type"] == "action" and int(r["data"]["action"][2:]) % 2]
w.append(5000, "agent.note", {}, run="r-1", src="agent")
w.core = w.wire(CORE)
live, size = w.greeting()
tap.eq([(b["type"], b["seq"]) for b, _ in live], before, "a new core is told of what is live, oldest first")
tap.eq(next(r for b, r in live if b["type"] == "approval.request"), root8, "with the root at each record")
tap.eq(size, len(records(d)), "and of the size, all of which is durable")
w.append(1, "approval.grant", {"id": "q"}, run="r-1")
tap.ok(w.ack(), "and is served")
tap.eq(w.end(), 0, "told to stop, it closes the log and ends with 0")
tap.eq((verify(d)[0], records(d)[-1]["type"]), (0, "log.close"), "signed to its last record")
w = Writer(d)
tap.eq([(b["type"], b["seq"]) for b, _ in w.live][:2], before[:2], "after a restart the same is live, read from the disk")
w.append(2, "run.end", {"status": "done", "text": ""}, run="r-1")
w.ack()
w.core = w.wire(CORE)
tap.eq({b["type"] for b, _ in w.greeting()[0]}, {"action"}, "an ended run is not, its actions without outcome are")

# --- what is no record --------------------------------------------------------------------------
good = len(records(d))
for what, args in [
        ("data that is not canonical", ("t", '{"b":1,"a":1}')), ("a number with a fraction", ("t", '{"a":1.5}')),
        ("a source it does not know", ("t", "{}", "", 0, "root")), ("a type of its own", ("log.close", "{}")), ("the clock's", ("clock.step", "{}")),
        ("a run with a space", ("t", "{}", "r 1")), ("a flag nobody defined", ("t", "{}", "", 8)),
        ("a broken frame", ("t", "{}", "", 0, "broker", [frame(3)[:-1]])), ("a BODY over its limit", ("t", '{"a":"%s"}' % ("x" * 65536)))]:
    w.append(3, *args)
    rc = w.gone()
    tap.ok(rc == 1, "%s ends it" % what, (rc, w.p.stderr.read()))
    w = Writer(d)
    if not w.ready:
        break
kinds = [r["type"] for r in records(d)[good:]]
tap.eq(set(kinds), {"log.open"}, "and leaves nothing in the log but the next start")
w.core.send(W_ACK, bytes(88))
m = w.parent.recv(1)
w.core = w.wire(CORE)
tap.ok(w.greeting()[1] is not None, "a frame that core may not send ends that wire; a new one is served")
w.upstream.send(W_FRAME, lstr(b"CFB1"))
w.append(4, "t", {})
tap.ok(w.ack() is not None, "a broken frame of upstream ends upstream's wire alone")

# --- a log of many segments ---------------------------------------------------------------------------
long_one = tempfile.mkdtemp(dir=T)
subprocess.run([BUILD + "/tool_append-log", long_one, "60", "seed=7", "seg=2000", "batch=3"], check=True, stdout=subprocess.DEVNULL)
os.chmod(long_one, 0o711)
if os.geteuid() == 0:
    for top, dirs, files in os.walk(long_one + "/log"):
        for x in [top] + [top + "/" + f for f in files]:
            os.chown(x, 63101, 63101)
segments = len([x for x in os.listdir(long_one + "/log/seg") if x.endswith(".jsonl")])
w2 = Writer(long_one)
tap.ok(w2.ready and segments > 3 and w2.size == len(records(long_one)), "a log of %d segments is opened at its end" % segments, (w2.logs, w2.size))
w2.append(1, "t", {})
tap.ok(w2.ack() is not None, "and goes on")
tap.eq((w2.end(), verify(long_one)[0]), (0, 0), "whole to its end")

# --- killed ----------------------------------------------------------------------------------------
acked, n = 0, 0
for round_ in range(6):
    for i in range(300):
        w.append(i, "action", {"action": "b-%d-%d" % (round_, i), "dispatch": {"sent": True}}, run="r-2", flags=CHECKPOINT if i % 40 == 0 else 0)
        if i == 50 + 40 * round_:
            break
    time.sleep(0.001 * round_)
    if round_ % 2:
        first = w.ack()  # so that something was acknowledged, however slow all is
        acked, n = max(acked, first["seq"]), n + 1
    w.end(signal.SIGKILL)
    while True:
        a = w.ack(0.2)
        if a is None:
            break
        acked, n = max(acked, a["seq"]), n + 1
    w = Writer(d)
    if not w.ready or len(records(d)) <= acked:
        break
tap.ok(w.ready and len(records(d)) > acked and n > 0, "killed in the middle %d times: nothing acknowledged is lost" % (round_ + 1), (acked, n, w.logs))
w.append(1, "t", {})
w.ack()
w.end(signal.SIGKILL)
w = Writer(d)
opened = next(r for r in reversed(records(d)) if r["type"] == "log.open")
tap.ok(opened["data"].get("unsigned", 0) >= 1 and any("%d records behind the newest checkpoint were adopted" % opened["data"]["unsigned"] in x for x in w.logs),
       "what a crash left unsigned is counted in the log, and a warning says so", (opened, w.logs))
w.end()
w = Writer(d)
opened = next(r for r in reversed(records(d)) if r["type"] == "log.open")
tap.ok("unsigned" not in opened["data"] and not any("adopted" in x for x in w.logs), "after a clean stop neither does", (opened, w.logs))
second = Writer(d)
tap.ok(not second.ready and any("another writer" in x for x in second.logs) or b"another writer" in second.p.stderr.read(),
       "a second writer is refused", second.logs)
second.gone()
w.end()
tap.eq(verify(d)[0], 0, "and the whole log verifies")
with open(d + "/log/seg/" + sorted(os.listdir(d + "/log/seg"))[-1], "r+b") as fh:
    fh.seek(100)
    fh.write(b"#")
w = Writer(d)
tap.ok(not w.ready and w.gone() != 0, "a log that was changed is not opened")
text = " ".join(w.logs) + w.p.stderr.read().decode()
tap.ok(re.search("refused: changed at seq 0", text), "and the reason is said", text)

# --- many producers ----------------------------------------------------------------------------------
COUNT, PRODUCERS = int(os.environ.get("LOG_RECORDS", "20000")), 64
d = state()
w = Writer(d)
sent, answered, lost, seqs = [0] * PRODUCERS, 0, 0, []
for i in range(COUNT + PRODUCERS):
    if i < COUNT:
        k = i % PRODUCERS
        w.append(i, "t", {"k": k, "n": sent[k]}, run="r-%d" % k)
        sent[k] += 1
    if i >= PRODUCERS:
        a = w.ack(60)
        lost += a is None or a["ticket"] != i - PRODUCERS or a["seq"] >= a["size"]
        if a is None:
            break
        seqs.append(a["seq"])
tap.eq((lost, seqs == list(range(1, COUNT + 1))), (0, True), "%d records of %d producers are each answered, numbered without a gap" % (COUNT, PRODUCERS))
at, wrong = [0] * PRODUCERS, 0
for r in records(d):
    if r["type"] == "t":
        wrong += r["data"]["n"] != at[r["data"]["k"]]
        at[r["data"]["k"]] += 1
tap.eq((wrong, at), (0, sent), "and each producer's are in its order")
# What one run floods the writer with stands before another's record, and that is answered all the same.
for i in range(3000):
    w.append(i, "agent.note", {"n": i}, run="r-flood", src="agent")
w.append(9999, "action", {"action": "a-other"}, run="r-other", flags=CHECKPOINT)
last = None
for _ in range(3001):
    last = w.ack(60)
    if last is None or last["ticket"] == 9999:
        break
tap.ok(last is not None and last["ticket"] == 9999, "one run's flood does not keep another's record from its answer", last)
tap.eq((w.end(), verify(d)[0]), (0, 0), "the log verifies")
tap.done()
