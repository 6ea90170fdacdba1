#!/usr/bin/python3
"""Several statements of one transaction that need people, over the real broker and a real PostgreSQL: they are one
request, shown in their order, signed once and used once, all of them or none.

SENDS: how often a client sends its transaction until it is through. One that goes on after a refusal (psql) needs two,
however many statements there are; one that stops at the first error needs one more for each.
"""
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import PGBIN, HostRun, Pg, Stack, Tap, Temp, run, wait_for
from libpq import INERROR, INTRANS, Conn, request_of

tap, temp = Tap(), Temp("transaction")
pg = Pg(temp)
TABLES = "abcde"
pg.admin("".join("CREATE TABLE %s(id int PRIMARY KEY, v int); INSERT INTO %s SELECT g, 0 FROM generate_series(1,200) g;"
                 "ALTER TABLE %s OWNER TO agent;" % (t, t, t) for t in TABLES) +
         "CREATE TABLE old(id int); ALTER TABLE old OWNER TO agent; CREATE TABLE older(id int); ALTER TABLE older OWNER TO agent")
st = Stack(temp, pg, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    BASE = json.load(f)
TWO = [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}]
ASK = {"within": "30m", "use_within": "10m"}
RULES = BASE["rules"][:3] + [
    dict(ASK, id="two-people", require={"target": "crm-db", "effects": {"any": ["@destructive"]}}, approve=TWO, limits={"max_rows": 5}),
    dict(ASK, id="whole", require={"target": "pipe-db", "effects": {"any": ["@destructive"]}}, approve=TWO),
    dict(ASK, id="one", require={"target": "one-db", "relation": ["public.a"], "effects": {"any": ["delete"]}},
         approve=[{"role": "dba", "count": 1}], limits={"max_rows": 2}),
    dict(ASK, id="other", require={"target": "one-db", "relation": ["public.b"], "effects": {"any": ["delete"]}},
         approve=[{"role": "oncall", "count": 1}]),
    dict(ASK, id="both", require={"target": "one-db", "relation": ["public.c"], "effects": {"any": ["delete"]}},
         approve=[{"role": "oncall", "count": 2}])]
TARGET = BASE["targets"]["crm-db"]
TARGETS = {"crm-db": TARGET, "pipe-db": TARGET, "one-db": TARGET}
st.build_policy({"serial": 2, "rules": RULES, "targets": TARGETS})
st.start()
hr = HostRun(st)
last = [0]


def ids(n=1):
    """Rows that no test has touched yet."""
    last[0] += n
    return list(range(last[0] - n + 1, last[0] + 1))


def delete(table, i):
    return "DELETE FROM %s WHERE id = %d" % (table, i)


def there(table, i):
    return pg.admin("SELECT count(*) FROM %s WHERE id = %d" % (table, i)) == "1"


def connect(target="crm-db"):
    return Conn(hr.dsn(pg, target=target))


def shown(rid):
    return json.loads(st.cli("show", rid, "--json").stdout)


def text(rid):
    import base64
    return base64.b64decode(shown(rid)["show_base64"]).decode()


def sign(*rids, people=("dana", "omar")):
    for rid in rids:
        for p in people:
            r = st.sign("approve", rid, p)
            if r.returncode != 0:
                raise RuntimeError(r.stdout)


def waiting():
    return [r["id"] for r in json.loads(st.cli("pending", "--json").stdout)["pending"] if r["state"] == "pending"]


def refuse_all():
    for w in waiting():
        st.sign("deny", w, "dana")


def stops(c, *statements, end="COMMIT"):
    """As a program does it: the first error ends it. The last answer."""
    c.query("BEGIN")
    for s in statements:
        r = c.query(s)
        if not r.ok:
            c.query("ROLLBACK")
            return r
    return c.query(end)


def goes_on(c, *statements, end="COMMIT"):
    """As psql does it: all are sent, whatever the answers."""
    return [c.query(s) for s in ("BEGIN", *statements, end)]


def until_through(send):
    """(sends, requests that people signed)."""
    signed = 0
    for n in range(1, 12):
        r = send()
        r = r[-1] if isinstance(r, list) else r
        if r.tag == "COMMIT":
            return n, signed
        w = waiting()
        signed += len(w)
        sign(*w)
    return None


# === how often it is sent =====================================================================================
c = connect()
i, = ids()
A, B = delete("a", i), delete("b", i)
tap.eq(until_through(lambda: stops(c, A, B)), (3, 2), "two statements, a client that stops: three sends, two signings")
tap.ok(not there("a", i) and not there("b", i), "and both have run")
i, = ids()
A, B = delete("a", i), delete("b", i)
tap.eq(until_through(lambda: goes_on(c, A, B)), (2, 1), "a client that goes on: two sends, one signing")
tap.ok(not there("a", i) and not there("b", i), "and both have run")
i, = ids()
five = [delete(t, i) for t in TABLES]
tap.eq(until_through(lambda: stops(c, *five)), (6, 5), "five statements, a client that stops: six sends")
i, = ids()
five = [delete(t, i) for t in TABLES]
tap.eq(until_through(lambda: goes_on(c, *five)), (2, 1), "a client that goes on: two sends and one signing")
tap.eq([there(t, i) for t in TABLES], [False] * 5, "and all five have run")
i, = ids()
A, B = delete("a", i), delete("b", i)
with open(temp.path + "/two.sql", "w", encoding="ascii") as f:
    f.write("BEGIN;\nSELECT count(*) FROM a;\n%s;\nUPDATE c SET v = v WHERE id = 1;\n%s;\nCOMMIT;\n" % (A, B))


def psql(*args):
    return run([PGBIN + "/psql", "-X", "-At", *args, hr.dsn(pg)])


r = psql("-f", temp.path + "/two.sql")
tap.eq(len(waiting()), 1, "psql -f: one request after the first time")
rid = waiting()[0]
tap.eq(text(rid), "[2 statements of one transaction]\n[1 of 2, at most 5 rows] %s;\n[2 of 2, at most 5 rows] %s;" % (A, B),
       "it shows both, in their order, each with its limit")
tap.has(st.cli("show", rid).stdout, "statements   2, of one transaction", "show says that it is for two")
sign(rid)
r = psql("-f", temp.path + "/two.sql")
tap.has(r.stdout, "DELETE 1\nUPDATE 1\nDELETE 1\nCOMMIT", "the second time both run; what needs nobody may stand between")
used = [x["data"] for x in st.records("approval.consumed") if x["data"]["id"] == rid]
by = [a["action"] for a in st.acts(verdict="allow", approval=rid)]
tap.eq((len(used), len(by), used[0]["action"]), (1, 2, by[0]), "the request was used once, and both actions name it")
i, = ids()
for args in (("-1", "-c", delete("a", i), "-c", delete("b", i)),):
    psql(*args)
    sign(*waiting())
    tap.has(psql(*args).stdout, "DELETE 1\nDELETE 1", "psql -1 is through the second time")
i, = ids()
A, B = delete("a", i), delete("b", i)
with open(temp.path + "/points.sql", "w", encoding="ascii") as f:
    f.write("\\set ON_ERROR_ROLLBACK on\nBEGIN;\n%s;\nSELECT nothing;\n%s;\nCOMMIT;\n" % (A, B))
psql("-f", temp.path + "/points.sql")
rid, = waiting()
sign(rid)
psql("-f", temp.path + "/points.sql")
tap.ok(not there("a", i) and not there("b", i), "psql with ON_ERROR_ROLLBACK, too: an error behind a savepoint undoes none of them")

# === what stands in the request ================================================================================
i, j = ids(2)
A, B, C = delete("a", i), delete("b", i), delete("c", i)
c = connect()
c.query("BEGIN")
r1 = c.query(A)
tap.ok("ROLLBACK and send exactly the same transaction again" in r1.hint and "for 1 of its statements" in r1.hint,
       "the hint says how to have all of it in one request", r1.hint)
r2 = c.query(B)
tap.eq((c.txn, request_of(r1) != request_of(r2)), (INERROR, True), "in the failed transaction the second is asked for, too")
tap.eq((shown(request_of(r1))["state"], shown(request_of(r1))["reason"]), ("void", "covered by " + request_of(r2)),
       "the request for the first alone is void: the second is for both")
c.query("ROLLBACK")
r = stops(c, A, B)
tap.eq((request_of(r), len(waiting())), (request_of(r2), 1), "sent again while it waits, it is the same request")
tap.eq([a["decision"].get("attempt") for a in st.acts()][-4:], [None] * 4, "and none of that counts as a try at what was refused")
sign(request_of(r2), people=("dana",))
r = stops(c, A, B)
tap.ok(not r.ok and there("a", i), "one of two signatures lets nothing run", r)
out = st.sign("approve", request_of(r2), "omar").stdout
tap.ok(re.search(r"^action: sha256:[0-9a-f]{64}$", out, re.M) and "uses: 1" in out and
       "show: [2 statements of one transaction]%%0A[1 of 2, at most 5 rows] %s%%0A[2 of 2" % A in out, "people sign all of it", out)
tap.eq(stops(c, A, B).tag, "COMMIT", "then it runs")
r = stops(c, A, B)
tap.ok(request_of(r) not in (None, request_of(r2)), "once: sent again it is asked for anew", r)
st.sign("deny", request_of(r), "dana")
o = connect("one-db")
i, = ids()
r = goes_on(o, delete("a", i), delete("b", i))[2]
s = shown(request_of(r))
tap.eq((s["slots"], s["rule"], s["max_rows"]), (["dba:1", "oncall:1"], "one,other", -1), "rules and people of all its statements are joined")
tap.has(text(request_of(r)), "[1 of 2, at most 2 rows] DELETE FROM a", "and a limit stands with its statement alone")
sign(request_of(r))
tap.eq(stops(o, delete("a", i), delete("b", i)).tag, "COMMIT", "and it runs")
i, = ids()
r = goes_on(o, delete("b", i), delete("a", i) + " /*\n[2 of 2] SELECT 1 */")
tap.has(text(request_of(r[2])), "\n    [2 of 2] SELECT 1", "no line of a statement passes for another statement")
st.sign("deny", request_of(r[2]), "dana")

# === what else is sent than was signed =========================================================================


def armed(client, *statements):
    """A request of the client's for all of them, approved."""
    r = goes_on(client, *statements)
    rid = request_of(r[len(statements)])
    sign(rid)
    return rid


i, j = ids(2)
A, B = delete("a", i), delete("b", i)
rid = armed(c, A, B)
r = stops(c, A, delete("b", j))
tap.ok(request_of(r) not in (None, rid), "another second statement is refused, and is a request of its own", r)
tap.ok(there("a", i) and there("b", j), "nothing of it has run")
tap.eq(shown(rid)["state"], "consumed", "what was begun is used up")
st.sign("deny", request_of(r), "dana")
rid = armed(c, A, B)
r = stops(c, B)
tap.ok(not r.ok and there("b", i), "the second alone is not what was signed", r)
r = stops(c, B, A)
tap.ok(not r.ok and there("a", i), "nor is another order", r)
tap.eq(shown(rid)["state"], "armed", "neither uses it")
r = stops(c, A)
tap.ok(not r.ok and "as one" in r.message and there("a", i), "the first alone is not committed", r)
rid = armed(c, A, B)
r = stops(c, A, B, A)
tap.ok(not r.ok and there("a", i), "nor does a signature serve the same statement twice", r)
refuse_all()

# === twice, lost, killed ========================================================================================
rid = armed(c, A, B)
one, two = connect(), connect()
for x in (one, two):
    x.query("BEGIN")
tap.eq(one.query(A).tag, "DELETE 1", "two connections: the one that comes first has it")
r = two.query(A)
tap.ok(not r.ok and two.txn == INERROR, "the other one is refused", r)
r = two.query(B)
tap.ok(not r.ok, "and cannot go on with what the first has begun", r)
two.query("ROLLBACK")
tap.eq((one.query(B).tag, one.query("COMMIT").tag), ("DELETE 1", "COMMIT"), "the first is through")
refuse_all()
i, = ids()
A, B = delete("a", i), delete("b", i)
rid = armed(c, A, B)
one = connect()
one.query("BEGIN")
one.query(A)
one.close()
r = stops(c, A, B)
tap.ok(not r.ok and request_of(r) != rid, "a connection that is lost behind the first has used it up", r)
refuse_all()
rid = armed(c, A, B)
one = connect()
one.query("BEGIN")
one.query(A)
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core) and st.cli("status").returncode == 0, 30)
wait_for(lambda: shown(rid)["state"] == "consumed", 20)
c = connect()
r = stops(c, A, B)
tap.ok(not r.ok and request_of(r) not in (None, rid) and there("a", i), "core killed in between: it stays used up", r)
rid = armed(c, A, B)
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core) and st.cli("status").returncode == 0, 30)
c = connect()
tap.eq(stops(c, A, B).tag, "COMMIT", "core killed before it was used: what people signed holds")
i, = ids()
A, B = delete("a", i), delete("b", i)
rid = armed(c, A, B)
c.query("BEGIN")
c.query(A)
c.query(B)
pid = pg.admin("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND usename = 'agent'")
pg.admin("SELECT pg_terminate_backend(%s)" % pid)
r = c.query("COMMIT")
tap.ok(not r.ok, "the server is lost at the COMMIT", r)
c = connect()
r = stops(c, A, B)
tap.ok(not r.ok and request_of(r) not in (None, rid), "nobody knows what became of it: it stays used up", r)

# === what ends it in between =====================================================================================
refuse_all()
r = goes_on(c, A, B)[2]
rid = request_of(r)
sign(rid, people=("dana",))
tap.eq(st.sign("deny", rid, "omar").returncode, 0, "a no ends all of it")
r = goes_on(c, A, B)
tap.ok(not r[1].ok and there("a", i), "nothing of it runs", r)
rid = request_of(r[2])
sign(rid)
tap.eq(st.sign("revoke", rid, "dana").returncode, 0, "so does a signature that is taken back")
r = goes_on(c, A, B)
tap.ok(not r[1].ok and there("a", i), "nothing of it runs", r)
sign(request_of(r[2]))
c.query("BEGIN")
tap.eq(c.query(A).tag, "DELETE 1", "the first runs")
out = st.cli("freeze", "start", "--as", "dana", "--key", st.key("dana"), "--yes", "--reason", "stop")
fid = re.search(r"freeze ([a-z2-7]{26}): in force", out.stdout).group(1)
r = c.query(B)
tap.ok(not r.ok and fid in r.message, "a freeze begins: the second is denied", r)
tap.eq((c.query("COMMIT").tag, there("a", i)), ("ROLLBACK", True), "and the first is undone")
for p in ("dana", "omar"):
    st.cli("freeze", "lift", fid, "--as", p, "--key", st.key(p), "--yes")
armed(c, A, B)
pg.admin("INSERT INTO e VALUES (%d, 0) ON CONFLICT DO NOTHING" % i)
r = stops(c, A, "INSERT INTO e VALUES (%d, 0)" % i, B)
tap.ok(r.sqlstate == "23505" and there("a", i), "an error of the server's in the middle: nothing has happened", r)
r = stops(c, A, B)
tap.ok(not r.ok and request_of(r), "and people are asked again", r)
refuse_all()

# === savepoints ===================================================================================================
armed(c, A, B)
for s in ("BEGIN", A, "SAVEPOINT s"):
    c.query(s)
c.query("SELECT nothing")
tap.eq((c.query("ROLLBACK TO s").ok, c.query(B).tag, c.query("COMMIT").tag), (True, "DELETE 1", "COMMIT"),
       "back to a savepoint behind the first, and on: it is through")
i, = ids()
A, B = delete("a", i), delete("b", i)
armed(c, A, B)
for s in ("BEGIN", A, "SAVEPOINT s", B, "ROLLBACK TO s"):
    tap.ok(c.query(s).ok, "a part is undone: %s passes" % s.split()[0])
r = c.query("COMMIT")
tap.ok(not r.ok and "was undone" in r.message and there("a", i), "the rest is not committed", r)
c.query("ROLLBACK")
armed(c, A, B)
for s in ("BEGIN", "SAVEPOINT s", A, "RELEASE s", "SAVEPOINT s", B, "RELEASE s"):
    c.query(s)
tap.eq(c.query("COMMIT").tag, "COMMIT", "savepoints that are released are in nobody's way")
i, = ids()
A, B = delete("a", i), delete("b", i)
armed(c, A, B)
for s in ("BEGIN", "SAVEPOINT s", A, "RELEASE nothing"):
    c.query(s)
tap.eq((c.txn, c.query("ROLLBACK TO s").ok), (INERROR, True), "a RELEASE that fails releases nothing")
r = c.query(B)
tap.ok(not c.query("COMMIT").tag == "COMMIT" and there("b", i), "so what was undone counts as undone", r)
refuse_all()

# === DDL, values, pipelines =======================================================================================
rid = armed(c, "DROP TABLE old", A, "DROP TABLE older")
tap.eq(stops(c, "DROP TABLE old", A, "DROP TABLE older").tag, "COMMIT", "a change of schema may be the first of them, or the last")
i, j = ids(2)
c.prepare("da", "DELETE FROM a WHERE id = $1")
c.prepare("db", "DELETE FROM b WHERE id = $1")


def bound(*values):
    out = [c.query("BEGIN")] + [c.execute(n, v) for n, v in zip(("da", "db"), values)]
    return out + [c.query("COMMIT")]


r = bound(i, i)
rid = request_of(r[2])
tap.has(text(rid), "[1 of 2, at most 5 rows] [$1 = '%d'] DELETE" % i, "values are shown with their statement")
sign(rid)
r = bound(i, j)
tap.ok(r[-1].tag == "ROLLBACK" and there("a", i) and there("b", j), "another value in the second is another statement", r)
r = bound(i, i)
sign(request_of(r[2]))
tap.eq(bound(i, i)[-1].tag, "COMMIT", "with the values that were signed it runs")
refuse_all()
p = connect("pipe-db")


def pipeline(*statements):
    r = p.pipeline([(s, []) for s in statements])
    if p.txn == INERROR:
        p.query("ROLLBACK")
    return r


i, = ids()
A, B = delete("a", i), delete("b", i)
n = until_through(lambda: pipeline("BEGIN", A, B, "COMMIT"))
tap.ok(n in ((2, 1), (3, 2)), "in one pipeline", n)
i, = ids()
A, B = delete("a", i), delete("b", i)
for n in range(1, 5):
    r = pipeline(A, B)
    if r[-1].tag == "DELETE 1":
        break
    sign(*waiting())
tap.ok(n in (2, 3) and not there("a", i) and not there("b", i), "a pipeline without BEGIN is one transaction as well", n)
i, = ids()
A, B = delete("a", i), delete("b", i)
pipeline(A)
sign(*waiting())
r = pipeline(A, B)
rid, = waiting()
sign(rid)
r = pipeline(A)
tap.ok(not r[0].ok and there("a", i), "the first alone is not what was signed", r)
tap.eq([x.tag for x in pipeline(A, B)], ["DELETE 1", "DELETE 1"], "nor does that use it up: both are through")
i, = ids()
A, B = delete("a", i), delete("b", i)
r = p.query("%s; %s" % (A, B))
tap.eq(shown(request_of(r))["steps"], 1, "several statements in one text are one action")
sign(request_of(r))
tap.eq(p.query("%s; %s" % (A, B)).tag, "DELETE 1", "which runs the second time")
r = p.query("BEGIN; %s; %s; COMMIT" % (delete("c", i), delete("d", i)))
sign(request_of(r))
tap.eq(p.query("BEGIN; %s; %s; COMMIT" % (delete("c", i), delete("d", i))).tag, "COMMIT", "with BEGIN and COMMIT, too")

i, = ids()
A, B = "BEGIN; " + delete("a", i), delete("b", i)


def begins():
    r = p.query(A)
    r = p.query(B) if r.ok else r
    return p.query("COMMIT" if r.ok else "ROLLBACK") if p.txn != 0 else r


refuse_all()
tap.eq(until_through(begins), (3, 2), "a text that begins the transaction may be the first of them")

# === at its limits =================================================================================================
o = connect("one-db")
i, = ids()
r = goes_on(o, delete("b", i), delete("c", i))
tap.has(r[2].hint, "nobody can give this approval", "what nobody can approve is no step")
i, = ids()
many = [delete("a", k) for k in ids(34)]
c = connect()
r = goes_on(c, *many)
steps = [shown(request_of(x))["steps"] for x in r[1:-1]]
tap.eq((steps[:32], max(steps)), (list(range(1, 33)), 32), "one request is for 32 statements at most")
tap.ok(wait_for(lambda: st.verify().returncode == 0), "the log holds, signed to its end", st.verify().stdout)
hr.kill()
st.stop()
tap.done()
