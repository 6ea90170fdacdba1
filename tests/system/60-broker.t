#!/usr/bin/python3
"""The whole path without a sandbox: front, parser, core, writer, upstream and a real PostgreSQL."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, must, run, wait_for
from libpq import IDLE, INERROR, INTRANS, Conn

tap = Tap()
temp = Temp("broker")
pg = Pg(temp)
pg.admin("CREATE TABLE contacts(id int PRIMARY KEY, name text, region text);"
         "INSERT INTO contacts SELECT g, 'n' || g, CASE WHEN g % 4 = 0 THEN 'EMEA' ELSE 'APAC' END"
         " FROM generate_series(1,1206) g;"
         "ALTER TABLE contacts OWNER TO agent;"
         "CREATE TABLE q(\"delete\" text, data text); ALTER TABLE q OWNER TO agent")
pg.log_statements()
st = Stack(temp, pg)
hr = HostRun(st)
dsn = hr.dsn(pg)
count = lambda: int(pg.admin("SELECT count(*) FROM contacts"))


def last(type_):
    return wait_for(lambda: st.records(type_), 5)[-1]["data"]


# --- reads and harmless things go through unchanged ---------------------------------
c = Conn(dsn)
tap.ok(c.up, "a client connects without a password, as any user", c.error)
tap.eq(c.query("SELECT count(*) FROM contacts").rows, [["1206"]], "a read is allowed and answers")
tap.eq(c.query("SELECT current_user").rows, [["agent"]], "the server sees the target's own user")
for sql in ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM contacts",
            "SELECT \"delete\", 'DROP TABLE t; --' AS x FROM q",
            "SELECT $q$ TRUNCATE t; $q$", "/* /* DROP TABLE t; */ */ SELECT 1",
            "SELECT U&\"d!0061t!0061\" UESCAPE '!' FROM q", "TABLE contacts", "VALUES (1)", "-- ping", "",
            "SET statement_timeout = 30000", "SHOW server_version", "EXPLAIN DELETE FROM contacts",
            "SELECT 1; SELECT 2",
            "EXPLAIN (ANALYZE false) DELETE FROM contacts"):
    r = c.query(sql)
    tap.ok(r.ok, "allowed as a read: %s" % sql[:50], r)
tap.ok("1206" in hr.psql(pg, "SELECT count(*) FROM contacts").stdout, "psql works")
tap.eq(c.params("SELECT count(*) FROM contacts WHERE id < $1", 11).rows, [["10"]], "a parameterised read works")
tap.ok(c.prepare("s1", "SELECT name FROM contacts WHERE id = $1").ok, "a named statement is prepared")
tap.eq(c.execute("s1", 7).rows, [["n7"]], "and executed")
tap.eq([r.rows for r in c.pipeline([("SELECT 1", ()), ("SELECT $1::int", (2,))])], [[["1"]], [["2"]]],
       "a pipeline of reads works")

# --- changes without an approval rule, and what they record -------------------------
r = c.query("INSERT INTO q VALUES ('a','b')")
tap.ok(r.ok, "a bounded insert is allowed outside a freeze", r)
a = last("action")
tap.eq((a["decision"]["verdict"], a["request"]["effects"]), ("allow", ["write"]), "it is recorded as a write, allowed")
tap.eq(last("outcome")["status"], "ok", "with its outcome")

# --- refusals: native errors after which the session goes on ------------------------
REFUSED = ["DROP TABLE contacts", "TRUNCATE contacts", "DELETE FROM contacts", "DELETE FROM contacts WHERE true",
           "UPDATE contacts SET name = NULL",
           "BEGIN; DROP TABLE contacts CASCADE; CREATE TABLE contacts(id int); COMMIT",
           "DO $$ BEGIN EXECUTE 'DROP TABLE contacts'; END $$", "COPY contacts TO PROGRAM 'cat >/dev/null'",
           "COPY (SELECT 1) TO '/tmp/x'", "SELECT 1; COMMIT; DELETE FROM contacts",
           "SET TRANSACTION READ WRITE; DELETE FROM contacts", "/* x */ COMMIT; DROP SCHEMA public CASCADE",
           "ROLLBACK AND CHAIN; DELETE FROM contacts", "SELECT dblink_exec('dbname=app','DELETE FROM t WHERE id=1')",
           "EXPLAIN ANALYZE DELETE FROM contacts", "EXPLAIN (BUFFERS, ANALYZE ON) UPDATE contacts SET name = 'y'",
           "SET standard_conforming_strings = off", "SELECT set_config('search_path','x',false)",
           "SET ROLE postgres", "RESET ALL", "SELECT pg_read_file('/etc/passwd')",
           "ALTER TABLE contacts DROP COLUMN name", "WITH d AS (DELETE FROM contacts RETURNING *) SELECT count(*) FROM d",
           "DELETE FROM contacts WHERE", "\xff".encode("latin-1")]
for sql in REFUSED:
    r = c.query(sql)
    text = sql if isinstance(sql, str) else repr(sql)
    tap.ok(r.sqlstate == "42501" or (text.endswith("WHERE") or not isinstance(sql, str)) and r.sqlstate in
           ("42501", "42601", "22021"), "refused: %s" % text[:60], r)
tap.eq((c.query("SELECT 1").rows, c.txn), ([["1"]], IDLE), "after all of that the session goes on")
tap.eq(count(), 1206, "and every row is still there")
r = c.query("SELECT 1" + "+1" * 40000)
tap.ok(r.sqlstate in ("54001", "42501"), "a statement that would crash the parser is refused", r)
tap.eq(c.query("SELECT 1").rows, [["1"]], "and the session goes on")
r = c.params("DROP TABLE contacts")
tap.eq(r.sqlstate, "42501", "refused in the extended protocol too")
tap.eq(c.params("SELECT $1::int", 3).rows, [["3"]], "which goes on as well")
rs = c.pipeline([("SELECT 1", ()), ("DROP TABLE contacts", ()), ("SELECT 2", ())])
tap.ok(rs[0].rows == [["1"]] and rs[1].sqlstate == "42501" and rs[2].status == 11,
       "in a pipeline what came before the refusal is answered, what follows is aborted", rs)
tap.eq(c.txn, IDLE, "and the connection is idle again")

# --- transactions -------------------------------------------------------------------
tap.ok(c.query("BEGIN").ok and c.query("INSERT INTO q VALUES ('t','t')").ok, "a transaction with a write begins")
r = c.query("DROP TABLE q")
tap.eq((r.sqlstate, c.txn), ("42501", INERROR), "a refusal inside it fails the transaction, as the server would")
tap.eq(c.query("SELECT 1").sqlstate, "25P02", "the next statement gets 25P02 from the server itself")
tap.eq((c.query("COMMIT").tag, c.txn), ("ROLLBACK", IDLE), "COMMIT rolls back")
tap.eq(pg.admin("SELECT count(*) FROM q WHERE data = 't'"), "0", "nothing of the transaction is left")
tap.ok(c.query("BEGIN").ok and c.query("INSERT INTO q VALUES ('u','u')").ok and c.query("COMMIT").ok and
       pg.admin("SELECT count(*) FROM q WHERE data = 'u'") == "1", "a transaction without a refusal commits")

# --- approval -----------------------------------------------------------------------
SQL = "DELETE FROM contacts WHERE id = 17"
r = c.query(SQL)
tap.eq(r.sqlstate, "42501", "a bounded delete needs approval")
ids = st.pending()
tap.eq(len([i for i in ids if i in r.hint]), 1, "the hint names the id of the open request")
rid = [i for i in ids if i in r.hint][0]
tap.has(c.query(SQL).hint, rid, "the same statement again is the same request")
out = st.cli("show", rid).stdout
tap.has(out, SQL, "show prints the statement in full")
r = st.sign("approve", rid, "olivia")
tap.ok(r.returncode != 0 and "separation_of_duties" in r.stdout, "the owner's signature does not count", r.stdout)
r = st.sign("approve", rid, "dana")
tap.ok(r.returncode == 0, "one other person signs", r.stdout)
tap.eq(c.query(SQL).sqlstate, "42501", "one is not enough")
bad = must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", temp.path + "/stranger"])
r = st.sign("approve", rid, "omar", key=temp.path + "/stranger")
tap.ok(r.returncode != 0, "a key that is not enrolled is refused", r.stdout)
tap.ok([x for x in st.records("approval.rejected")], "and recorded")
r = st.sign("approve", rid, "dana")
tap.eq(c.query(SQL).sqlstate, "42501", "the same person twice is one person")
tap.ok("to be signed until" in st.cli("pending").stdout and "sign by" in st.cli("show", rid).stdout,
       "an open request says until when it can be signed")
r = st.sign("approve", rid, "omar")
tap.ok(r.returncode == 0 and "armed" in r.stdout, "the second person arms it", r.stdout)
use_by = st.record("approval.armed")["use_by"]
tap.has(st.cli("pending").stdout, "to be used until %s\n" % (use_by[:19] + "Z"), "pending says until when it can be used")
tap.has(st.cli("show", rid).stdout, "use by       %s, once\n" % (use_by[:19] + "Z"), "so does show")
tap.eq(c.query(SQL.replace("17", "18")).sqlstate, "42501", "another parameter is another action")
tap.eq(c.query(SQL.lower()).sqlstate, "42501", "another text is another action")
r = c.query(SQL)
tap.eq((r.ok, r.tag, c.txn), (True, "DELETE 1", IDLE), "the exact statement runs")
tap.eq(count(), 1205, "one row is gone")
tap.eq(c.query(SQL).sqlstate, "42501", "once: the same again does not")
use = [x["data"] for x in st.records("approval.consumed") if x["data"]["id"] == rid]
act = [x for x in st.records("action") if x["data"]["decision"].get("approval") == rid and
       x["data"]["decision"]["verdict"] == "allow"]
tap.ok(len(use) == 1 and len(act) == 1, "the log holds one consumption and one allowed action", (use, act))

# the signed row limit
BIG = "DELETE FROM contacts WHERE region = 'EMEA'"
r = c.query(BIG)
rid = [i for i in st.pending() if i in r.hint][0]
st.sign("approve", rid, "dana"), st.sign("approve", rid, "omar")
r = c.query(BIG)
tap.ok(r.sqlstate == "42501" and "row limit" in r.message and c.txn == IDLE, "over the signed row limit: refused", r)
tap.eq(count(), 1205, "and rolled back")
tap.eq(last("outcome")["status"], "row_limit", "the outcome says so")

# bound parameters are part of the action
r = c.params("DELETE FROM contacts WHERE id = $1", 20)
rid = [i for i in st.pending() if i in r.hint][0]
st.sign("approve", rid, "dana"), st.sign("approve", rid, "omar")
tap.eq(c.params("DELETE FROM contacts WHERE id = $1", 21).sqlstate, "42501", "another bound value is another action")
r = c.params("DELETE FROM contacts WHERE id = $1", 20)
tap.eq((r.ok, r.tag), (True, "DELETE 1"), "the signed value passes")

# inside a transaction, over the limit
c.query("BEGIN")
r = c.query(BIG)
tap.eq((r.sqlstate, c.txn), ("42501", INERROR), "needing approval inside a transaction fails it")
c.query("ROLLBACK")

# a denial ends the request
r = c.query("DELETE FROM contacts WHERE id = 30")
rid = [i for i in st.pending() if i in r.hint][0]
r = st.sign("deny", rid, "omar")
tap.ok(r.returncode == 0, "a person denies", r.stdout)
r = st.sign("approve", rid, "dana")
tap.ok(r.returncode != 0, "after which nobody can approve", r.stdout)
r = st.cli("approve", "a" * 26, "--as", "dana", "--key", st.key("dana"), "--yes")
tap.ok(r.returncode != 0, "an unknown id is an error", r.stdout)

# --- start-up -----------------------------------------------------------------------
x = Conn(hr.dsn(pg, options="-c standard_conforming_strings=off"))
tap.ok(not x.up and "42501" in x.error or "denied" in x.error, "a pinned start-up option is refused", x.error)
x = Conn(hr.dsn(pg, options="-c statement_timeout=5000"))
tap.ok(x.up, "a harmless one is not", x.error)
tap.eq(x.query("SHOW statement_timeout").rows, [["5s"]], "and has its effect") if x.up else None
x.close()
x = Conn(hr.dsn(pg, replication="database"))
tap.ok(not x.up, "a replication connection is refused", x.error)
x = Conn(hr.dsn(pg, dbname="postgres"))
tap.ok(not x.up, "another database is refused", x.error)

# --- a credential is rotated ----------------------------------------------------------
new = os.urandom(16).hex()
pg.admin("ALTER ROLE agent PASSWORD '%s'" % new, "postgres")
x = Conn(dsn)
tap.ok(not x.up, "after the password changed on the server a new session is refused", x.error)
must([CLI, "credential", "rotate", "crm-agent", "--state", st.state], stdin=None, input=new)
os.kill(st.broker.pid, signal.SIGHUP)


def again():
    with_new = Conn(dsn)
    return with_new if with_new.up else with_new.close()


x = wait_for(again, 10, 0.2)
tap.ok(x is not None, "credential rotate and SIGHUP: the new one is used")
x.close()

# --- the record ---------------------------------------------------------------------
c.close()
tap.eq(hr.end(), 0, "the run ends")
wait_for(lambda: st.verify().returncode == 0, 5, 0.3)
r = st.verify()
tap.ok(r.returncode == 0 and "VERIFIED" in r.stdout, "the log verifies, its head signed a moment after it rests", r.stdout)
recs = st.records()
tap.eq([x["seq"] for x in recs], list(range(len(recs))), "without a gap")
acts = [x["data"] for x in recs if x["type"] == "action"]
sent = [a for a in acts if a["dispatch"]["sent"]]
outs = {x["data"]["action"] for x in recs if x["type"] == "outcome"}
tap.eq([a["action"] for a in sent if a["action"] not in outs], [], "every dispatch has an outcome")
linked = [a for a in acts if a["decision"].get("link") is not None]
tap.ok(len(linked) >= 5, "refused attempts on the same target are linked", len(linked))
log = pg.server_log()
for word in ("DROP TABLE contacts", "TRUNCATE contacts", "TO PROGRAM", "dblink_exec", "pg_read_file"):
    tap.ok(word not in log, "the server never saw: " + word)
r = st.cli("replay", "whatif")
tap.ok(r.returncode == 0 and "100 %" in r.stdout, "re-judged under the recorded policy everything is unchanged",
       r.stdout[-1500:])
r = st.cli("replay", "timeline", hr.id)
tap.ok(r.returncode == 0 and "two-people" in r.stdout, "the timeline names the rule", r.stdout[-1500:])
st.stop()
r = run([CLI, "log", "verify", st.state + "/log", "--vkey", st.state + "/keys/log/vkey"])
tap.ok(r.returncode == 0, "after a clean stop the whole log is signed", r.stdout)
r = run(["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../verify_log.py"),
         st.state + "/log", st.state + "/keys/log/vkey"])
tap.ok(r.returncode == 0, "the independent verifier agrees", r.stdout)
tap.done()
