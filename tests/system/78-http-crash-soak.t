#!/usr/bin/python3
"""Hundreds of HTTPS exchanges while every process is killed -9 at random: what arrived was judged and recorded,
byte for byte, and nothing arrives twice."""
import atexit
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Http, HostRun, Stack, Tap, Temp, wait_for
from origin import Ca, GraphQl, Origin
from rawhttp import Closed, chunks, request

ACTIONS, KILLS = int(os.environ.get("SOAK_ACTIONS", "400")), int(os.environ.get("SOAK_KILLS", "15"))
SEED = int(os.environ.get("SOAK_SEED", str(int(time.time()))))
tap = Tap()
print("# seed %d" % SEED)
temp = Temp("http-soak")
o = Origin(temp.path, "api.test")
o.after = lambda q: setattr(q, "raw_body", b"") or setattr(q, "body", b"")  # its digest stays
api = Http(o, env="lab")
g = GraphQl(o, [api.secret])
st = Stack(temp, None, http={"api": api}, policy={"rules": [
    {"id": "work", "permit": {"effects": {"only": ["@data", "@change"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]})
st.classified = False  # its parser is killed
hr = HostRun(st)
lock, stop = threading.Lock(), threading.Event()
acked, answered, tried = [], [0], {}
sha = lambda b: hashlib.sha256(b).hexdigest()


def one(x, rnd, key):
    """One exchange; (answered in order, acknowledged as done)."""
    kind = rnd.randrange(6)
    q = request
    if kind == 0:
        data = q("GET", "/r/" + key, o.authority)
    elif kind == 1:
        data = q("DELETE", "/d/" + key, o.authority)  # no rule permits it
    elif kind == 2:
        body = json.dumps({"query": "query($s:String){x(s:$s)}", "variables": {"s": key}}).encode()
        data = q("POST", "/graphql", o.authority, [("Content-Type", "application/json"), ("X-Key", key)], body)
        tried[key] = sha(body)
    elif kind == 3:
        body = os.urandom(rnd.randrange(1, 200000)).hex().encode()
        data = q("POST", "/w/" + key, o.authority, body=body)
        tried[key] = sha(body)
    else:
        parts = [os.urandom(rnd.randrange(1, 3000)).hex() for _ in range(rnd.randrange(1, 40))]
        data = q("POST", "/w/" + key, o.authority, [("Content-Type", "application/octet-stream"), ("Transfer-Encoding", "chunked")]) + chunks(parts)
        tried[key] = sha("".join(parts).encode())
    x.send(data)
    r = x.answer()
    with lock:
        if r.status in (200, 403):
            answered[0] += 1
        if r.status == 200 and kind != 1:
            acked.append((key, kind))
        if r.status == 200 and kind == 1:
            acked.append(("DELETED", 1))


def worker(w):
    rnd, x, i = random.Random(SEED * 100 + w), None, 0
    while not stop.is_set():
        i += 1
        try:
            if x is None:
                x = hr.direct("api") if w % 2 else hr.tunnel("api")
                x.s.settimeout(25)
            one(x, rnd, "k%d_%d" % (w, i))
        except (Closed, OSError, RuntimeError, ValueError):
            if x is not None:
                x.close()
            x = None
            time.sleep(0.02)


threads = [threading.Thread(target=worker, args=(w,), daemon=True) for w in range(6)]
atexit.register(stop.set)  # told to end: before the broker is
for t in threads:
    t.start()
rnd, kills = random.Random(SEED), {}
end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "120"))
while (answered[0] < ACTIONS or len(kills) < 5 or sum(kills.values()) < KILLS) and time.monotonic() < end:
    time.sleep(rnd.uniform(0.2, 0.8))
    name = rnd.choice(["front", "core", "upstream", "writer", "parser"])
    pid = st.child(name)
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills[name] = kills.get(name, 0) + 1
stop.set()
for t in threads:
    t.join(60)
tap.ok(answered[0] >= ACTIONS, "%d exchanges answered (%d wanted) over %s kills" % (answered[0], ACTIONS, kills))
tap.eq(sorted(kills), ["core", "front", "parser", "upstream", "writer"], "every process was killed at least once")
tap.ok(wait_for(lambda: st.cli("status").returncode == 0, 30), "the broker is up after all of it", open(st.broker_log).read()[-2000:])
time.sleep(1)
hr.end()
st.stop()

recs = st.records()
acts = [r["data"] for r in recs if r["type"] == "action"]
outs = {}
for r in recs:
    if r["type"] == "outcome":
        outs.setdefault(r["data"]["action"], []).append(r["data"])
tap.eq([r["seq"] for r in recs], list(range(len(recs))), "the log has no gap")
r = st.cli("log", "verify", timeout=600)
tap.ok(r.returncode == 0, "and verifies to its end", r.stdout)
key_of = lambda q: q.get("X-Key") or q.path.rsplit("/", 1)[-1]
arrived = {}
for q in o.arrivals:
    arrived.setdefault(key_of(q), []).append(q)
tap.ok(len(arrived) > 100, "%d distinct requests arrived" % len(arrived))
tap.eq([k for k, qs in arrived.items() if len(qs) > 1 and qs[0].method != "GET"], [], "no change arrived twice")
tap.eq([q.path for q in o.arrivals if q.method == "DELETE"], [], "no refused one arrived")
tap.ok(("DELETED", 1) not in acked, "nor was one acknowledged")
tap.eq([k for k, _ in acked if k not in arrived], [], "every acknowledged one arrived (%d)" % len(acked))
sent = [a for a in acts if a["dispatch"]["sent"]]
by_path = {}
for a in sent:
    by_path.setdefault(a["request"]["http"]["path"], []).append(a)
tap.eq([q.path for q in o.arrivals if q.path.startswith(("/r/", "/w/")) and q.path not in by_path], [], "each that arrived has its dispatch record")
wrong = [q.path for q in o.arrivals if q.whole and q.method == "POST" and q.body_sha256 != tried.get(key_of(q))]
tap.eq(wrong, [], "each whole body is the one that was sent, byte for byte")


def body_hash(a):
    """The body's digest, as judged or as counted when it had passed."""
    return [a["request"].get("http", {}).get("body_sha256")] + [json.dumps(x) for x in outs.get(a["action"], [])]


lost = [q.path for q in o.arrivals if q.whole and q.path.startswith("/w/") and
        not any(q.body_sha256 in str(body_hash(a)) or outs.get(a["action"], [{}])[0].get("status") != "ok" for a in by_path.get(q.path, []))]
tap.eq(lost, [], "and its digest is on the record")
wrong = [a["action"] for a in sent for x in outs.get(a["action"], []) if x["status"] == "ok" and x["sent"] != a["request"]["sent"]]
tap.eq(wrong, [], "for every finished action the digest judged equals the digest sent")
tap.eq([a["action"] for a in sent if len(outs.get(a["action"], [])) != 1], [], "every dispatch has one outcome, if only 'unknown'")
ok_keys = {a["request"]["http"]["path"].rsplit("/", 1)[-1] for a in sent if outs[a["action"]][0]["status"] == "ok"}
tap.eq([k for k, kind in acked if kind in (3, 4, 5) and k not in ok_keys], [], "no acknowledged change lost its outcome")
tap.eq([e for e in g.executed if e[0] != "query"], [], "GraphQL executed queries only")
r = st.cli("replay", "whatif", timeout=600)
tap.ok("100 %" in r.stdout, "and all of it re-judges unchanged", r.stdout[-800:])
tap.done()
