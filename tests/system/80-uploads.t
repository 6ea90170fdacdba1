#!/usr/bin/python3
"""NET-12 of the field cases at its real size: 100 uploads of 50 MB at once through one run, in which neither front nor
upstream grows by 32 MiB over what it had at its start. UPLOAD_MB and UPLOADS change the size."""
import atexit
import hashlib
import json
import os
import resource
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Http, HostRun, Stack, Tap, Temp, wait_for
from origin import Ca, Origin
from rawhttp import Closed, request

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, memory says nothing
EACH, MANY = int(os.environ.get("UPLOAD_MB", "1" if SANITIZED else "50")) * 1000000, int(os.environ.get("UPLOADS", "100"))
PIECE = 1 << 16
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
tap = Tap()
temp = Temp("uploads")
o = Origin(temp.path, "up.test", ca=Ca(temp.path + "/ca"))
st = Stack(temp, None, http={"up": Http(o, env="lab", max_body=EACH)}, policy={"rules": [
    {"id": "lab-work", "permit": {"env": "lab", "effects": {"only": ["@data", "@change", "@destructive"]}}}]})
hr = HostRun(st)
PARTS = ("front", "upstream", "core", "writer")
pids = {n: st.child(n) for n in PARTS}


def rss(name):
    with open("/proc/%d/status" % pids[name]) as f:
        return next(int(l.split()[1]) for l in f if l.startswith("VmRSS")) / 1024


before = {n: rss(n) for n in PARTS}
peak, most, stop = dict(before), [0], threading.Event()


def watch():
    while not stop.wait(0.1):
        for n in PARTS:
            peak[n] = max(peak[n], rss(n))
        most[0] = max(most[0], len(o.conns))


done, lock, together = [], threading.Lock(), threading.Barrier(MANY)


def upload(i):
    sha, left, x = hashlib.sha256(), EACH, None
    piece = os.urandom(PIECE)
    try:
        x = hr.direct("up")
        x.s.settimeout(300)
        x.send(request("POST", "/count?i=%d" % i, o.authority,
                       [("Content-Type", "application/octet-stream"), ("Content-Length", str(EACH))]))
        together.wait(120)  # all of them are open before the first byte of a body
        while left:
            b = piece[:min(left, PIECE)]
            x.send(b)
            sha.update(b)
            left -= len(b)
        r = x.answer()
        got = (r.status, json.loads(r.body).get("bytes") if r.status == 200 else r.body[:200])
    except (OSError, Closed, ValueError, threading.BrokenBarrierError) as e:
        got = (0, repr(e))
    if x:
        x.close()
    with lock:
        done.append((i, got, sha.hexdigest()))


w = threading.Thread(target=watch, daemon=True)
atexit.register(stop.set)  # told to end: before the broker is
w.start()
began = time.monotonic()
ts = [threading.Thread(target=upload, args=(i,), daemon=True) for i in range(MANY)]
for t in ts:
    t.start()
for t in ts:
    t.join(900)
took = time.monotonic() - began
stop.set()
w.join()
tap.eq([d[:2] for d in done if d[1] != (200, EACH)], [], "%d uploads of %d MB at once all pass, whole (%.0f s, %.0f MB/s)" % (
    MANY, EACH // 1000000, took, EACH * MANY / took / 1e6))
tap.ok(len(done) == MANY and most[0] >= MANY, "all of them were open at once (%d)" % most[0])
want = {"/count?i=%d" % i: sha for i, _, sha in done}
tap.eq({q.target: q.body_sha256 for q in o.arrivals if q.whole}, want, "what arrived is what was sent")
for n in PARTS:
    tap.ok(peak[n] - before[n] < 32 or SANITIZED, "%s grows by %.1f MiB over its start (%.1f), under 32" % (n, peak[n] - before[n], before[n]))
tap.eq({n: st.child(n) for n in PARTS}, pids, "every process is the one that started")
hr.end()
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 20), "and the log verifies", st.verify().stdout)
tap.done()
