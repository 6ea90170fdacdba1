#!/usr/bin/python3
"""Outcomes in doubt: told until a person settles them, by name and on the record; and a log that cannot be written."""
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import HostRun, Pg, Stack, Tap, Temp, wait_for
from libpq import Conn

tap = Tap()
temp = Temp("doubt")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int, v text); INSERT INTO t SELECT g, 'x' FROM generate_series(1,50) g; ALTER TABLE t OWNER TO agent")
pg.log_statements()
st = Stack(temp, pg)
hr = HostRun(st)
dsn = hr.dsn(pg)


def connect():
    def attempt():
        c = Conn(dsn)
        return c if c.up else None
    return wait_for(attempt, 30, 0.2)


def status():
    r = st.cli("status", "--json")
    try:
        return json.loads(r.stdout)
    except ValueError:
        return {}


def doubts():
    return {d["action"]: d for d in status().get("doubts", [])}


def serving():
    return wait_for(lambda: status().get("state") == "serving", 30, 0.2)


CHANGE = "INSERT INTO t VALUES (99, '%s')"


def interrupt(victim, sql=CHANGE):
    """Kill a part while the server works on a statement: the action's id."""
    lock, c = Conn("host='%s' port='%d' user='postgres' dbname='%s'" % (pg.sock, pg.port, pg.database)), connect()
    tap.ok(lock.query("BEGIN").ok and lock.query("LOCK TABLE t").ok, "a table is locked by another, for %s" % victim)
    t = threading.Thread(target=lambda: c.query(sql % victim))
    t.start()
    wait_for(lambda: pg.admin("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = $q$%s$q$" % (sql % victim), "postgres") == "1", 30, 0.1)
    action = [a for a in st.records("action") if a["data"]["dispatch"]["sent"]][-1]["data"]["action"]
    os.kill(st.child(victim), signal.SIGKILL)
    t.join(60)
    c.close()
    lock.query("ROLLBACK")
    lock.close()
    serving()
    return action


tap.ok(serving() and status()["doubt_count"] == 0, "at first nothing is in doubt", status())
r = st.cli("log", "reconcile")
tap.ok(r.returncode == 0 and "no outcome is in doubt" in r.stdout, "and the command says so", r.stdout)

a, b = interrupt("upstream"), interrupt("core")
tap.ok(wait_for(lambda: {a, b} <= set(doubts()), 30, 0.2), "upstream or core killed with a statement at the server: both are told to be in doubt", (a, b, doubts()))
out = st.cli("status").stdout
tap.ok("in doubt 2" in out and a in out and b in out, "status says which", out)

for args, words, name in (
        ([a, "--done"], "usage", "without a note it is not settled"),
        ([a, "--done", "--not-done", "--note", "x"], "usage", "nor as both"),
        (["a-nosuch", "--done", "--note", "x"], "no outcome in doubt", "nor one that is not in doubt"),
        ([a, "--done", "--note", "x" * 300], "a note must have 1 to 256 bytes, has 300", "nor with a note over its limit"),
        ([a, "--done", "--note", "gr\u00fcn"], "a note must be printable ASCII, byte 3 is 0xc3", "nor with one that is not ASCII: the byte is told")):
    r = st.cli("log", "reconcile", *args)
    tap.ok(r.returncode != 0 and words in r.stdout + (r.stderr or ""), name, r.stdout)
tap.eq(st.records("outcome.settled"), [], "none of these is on the record")

for victim in ("upstream", "core"):
    look = interrupt(victim, "SELECT count(*), '%s' FROM t")
    o = wait_for(lambda look=look: [o["data"] for o in st.records("outcome") if o["data"]["action"] == look], 30, 0.2)
    tap.ok(o and (o[0]["status"], o[0].get("reads")) == ({"upstream": "lost", "core": "unknown"}[victim], True) and set(doubts()) == {a, b},
           "of one that only reads nothing is in doubt when %s is killed: it changes nothing" % victim, (o, doubts()))

r = st.cli("log", "reconcile", a, "--not-done", "--note", "looked in pg_stat_activity: it was cancelled")
tap.ok(r.returncode == 0, "with a note it is settled", r.stdout)
rec = st.records("outcome.settled")
tap.ok(len(rec) == 1 and rec[0]["data"]["action"] == a and rec[0]["data"]["status"] == "not_done" and rec[0]["src"] == "human"
       and rec[0]["data"]["by"] and rec[0]["data"]["outcome_seq"] == next(o["seq"] for o in st.records("outcome") if o["data"]["action"] == a),
       "the record says who, what and of which outcome", rec)
tap.ok(set(doubts()) == {b}, "only the other is left", doubts())
r = st.cli("log", "reconcile", a, "--done", "--note", "again")
tap.ok(r.returncode != 0 and "no outcome in doubt" in r.stdout + (r.stderr or ""), "it is not settled twice", r.stdout)
os.kill(st.child("writer"), signal.SIGKILL)
tap.ok(wait_for(lambda: status().get("state") == "serving" and set(doubts()) == {b}, 30, 0.2), "a new writer tells the same, from the log", doubts())
out = st.cli("replay", "timeline").stdout
tap.has(out, "a person settles what was in doubt", "the timeline shows it")
tap.eq((out.count("GAP in doubt"), out.count("it only reads: nothing is changed")), (2, 2), "and tells the same two as in doubt that the status told")

# --- the log cannot be written ---------------------------------------------------------------
c = connect()
pid = st.child("writer")
os.kill(pid, signal.SIGSTOP)
t0 = time.monotonic()
r = c.query("SELECT 'writer-stopped'")
took = time.monotonic() - t0
tap.ok(not r.ok and "writer-stopped" not in pg.server_log(), "a log that does not answer: refused, and the server saw nothing (%.1f s)" % took, r)
tap.ok(took < 9, "and the client did not wait for it long", took)
os.kill(pid, signal.SIGCONT)
c.close()
c = connect()
tap.ok(c is not None and c.query("SELECT count(*) FROM t").ok, "it goes on by itself when the log does")
hr.end()
rc = st.verify()
tap.ok(rc.returncode in (0, 3) and "TAMPER" not in rc.stdout, "the log verifies", rc.stdout)
st.stop()
tap.done()
