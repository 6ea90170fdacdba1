#!/usr/bin/python3
"""Over 500 mixed actions while every process is killed -9 at random: the judged digest equals what
the server received, no acknowledged record is lost, nothing reaches the server unrecorded."""
import atexit
import hashlib
import os
import random
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import HostRun, Pg, Stack, Tap, Temp, wait_for
from libpq import Conn

ACTIONS, KILLS = int(os.environ.get("SOAK_ACTIONS", "520")), int(os.environ.get("SOAK_KILLS", "15"))
SEED = int(os.environ.get("SOAK_SEED", str(int(time.time()))))
tap = Tap()
print("# seed %d" % SEED)
temp = Temp("soak")
pg = Pg(temp)
pg.admin("CREATE TABLE t(k text PRIMARY KEY); ALTER TABLE t OWNER TO agent")
pg.log_statements()
st = Stack(temp, pg)
st.classified = False  # its parser is killed
hr = HostRun(st)
dsn = hr.dsn(pg)
lock = threading.Lock()
acked, answered, stop = [], [0], threading.Event()


def worker(w):
    rnd = random.Random(SEED * 100 + w)
    c, i = None, 0
    while not stop.is_set():
        if c is None or not c.alive:
            if c is not None:
                c.close()
            c = Conn(dsn)
            if not c.up:
                c.close()
                c = None
                time.sleep(0.05)
                continue
        i += 1
        key, kind = "k%d_%d" % (w, i), rnd.randrange(6)
        if kind == 0:
            r = c.query("SELECT '%s' FROM t LIMIT 1" % key)
        elif kind == 1:
            r = c.params("SELECT count(*) FROM t WHERE k = $1 OR k = '%s'" % key, "x")
        elif kind == 2:
            r = c.query("DROP TABLE t /* %s */" % key)
            if r.ok:
                acked.append("DROPPED")
        elif kind == 3:
            r = c.params("INSERT INTO t VALUES ($1)", key)
        else:
            r = c.query("INSERT INTO t VALUES ('%s')" % key)
        with lock:
            if r.ok or r.sqlstate == "42501":
                answered[0] += 1
            if r.ok and kind >= 3:
                acked.append(key)
    if c is not None:
        c.close()


threads = [threading.Thread(target=worker, args=(w,), daemon=True) for w in range(4)]
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
tap.ok(answered[0] >= ACTIONS, "%d actions answered (%d wanted) over %s kills" % (answered[0], ACTIONS, kills))
tap.eq(sorted(kills), ["core", "front", "parser", "upstream", "writer"], "every process was killed at least once")
tap.ok(wait_for(lambda: st.cli("status").returncode == 0, 30), "the broker is up after all of it", open(st.broker_log).read()[-2000:])
time.sleep(1)
hr.end()
st.stop()

recs = st.records()
acts = [r["data"] for r in recs if r["type"] == "action"]
outs = {r["data"]["action"]: r["data"] for r in recs if r["type"] == "outcome"}
tap.eq([r["seq"] for r in recs], list(range(len(recs))), "the log has no gap")
r = st.cli("log", "verify", timeout=600)
tap.ok(r.returncode == 0, "and verifies to its end", r.stdout)

# What the server executed for the agent, from its own statement log.
rows = set(pg.admin("SELECT k FROM t").split())
tap.ok("DROPPED" not in acked, "no refused statement was ever acknowledged")
tap.eq([k for k in acked if k not in rows], [], "every acknowledged insert is in the table (%d)" % len(acked))
# One record for each statement of a key; the parameterised insert is found by its parameter.
sha = lambda s: hashlib.sha256(s.encode()).hexdigest()
sent = [a for a in acts if a["dispatch"]["sent"]]
by_text = {}
for a in sent:
    by_text.setdefault(a["request"]["text_sha256"], []).append(a)
server, params = [], []
for m in re.finditer(r"agent@crm LOG:  (?:statement|execute [^:]*): (.*)\n(?:.*DETAIL:  parameters: (.*)\n)?", pg.server_log()):
    (params if m.group(2) else server).append((m.group(1), m.group(2)))
agent_stmts = [s for s, _ in server if re.search(r"k\d_\d+", s)]
tap.ok(len(agent_stmts) > 50, "the server saw %d distinct statements" % len(agent_stmts))
tap.eq([s for s in agent_stmts if sha(s) not in by_text], [], "each has a dispatch record with the digest of exactly its text")
tap.eq([s for s in agent_stmts if "DROP" in s], [], "none of them a refused one")
n_ins = len([1 for s, _ in params if s == "INSERT INTO t VALUES ($1)"])
tap.ok(0 < n_ins <= len(by_text.get(sha("INSERT INTO t VALUES ($1)"), [])), "no parameterised insert ran without its record", n_ins)
wrong = [a["action"] for a in sent if outs.get(a["action"], {}).get("status") == "ok" and outs[a["action"]]["sent"] != a["request"]["sent"]]
tap.eq(wrong, [], "for every finished action the digest judged equals the digest sent")
tap.eq([a["action"] for a in sent if a["action"] not in outs], [], "every dispatch has an outcome, if only 'unknown'")
ok_rows = len([1 for a in sent if outs[a["action"]]["status"] == "ok" and "write" in a["request"]["effects"]])
tap.ok(ok_rows >= len([k for k in acked if k != "DROPPED"]), "no acknowledged write lost its record", (ok_rows, len(acked)))
r = st.cli("replay", "whatif", timeout=600)
tap.ok("100 %" in r.stdout, "and all of it re-judges unchanged", r.stdout[-800:])
tap.done()
