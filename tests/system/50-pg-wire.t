#!/usr/bin/python3
"""The real front and upstream between real clients and a real PostgreSQL; core is a stand-in."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import harness as h  # noqa: E402
import pgcore  # noqa: E402
from pgraw import (FLUSH, GSS, SSL, SYNC, Raw, bind, execute, msg, parse, pbe, query, request,  # noqa: E402
                   startup)

import psycopg2  # noqa: E402
import psycopg2.errors  # noqa: E402

tap = h.Tap()
tmp = h.Temp("pgwire")
pg = h.Pg(tmp)
with open(pg.ca, "rb") as f:
    target = dict(host=pg.host, address="127.0.0.1", port=pg.port, database=pg.database, user=pg.user,
                  password=pg.password, ca=f.read())
core = pgcore.Core(h.BUILD, tmp.path, target, deny="forbidden|drop table")
port = core.listen(pg.host)
pg.admin("CREATE TABLE kept(i int primary key, t text); INSERT INTO kept SELECT g, 'row '||g FROM generate_series(1,100) g;"
         "ALTER TABLE kept OWNER TO agent")


def dsn(mode="disable", **kw):
    d = dict(host=pg.host, hostaddr="127.0.0.1", port=port, dbname=pg.database, user="anybody", sslmode=mode,
             sslrootcert=core.ca, connect_timeout=15, gssencmode="disable")
    d.update(kw)
    return " ".join("%s='%s'" % kv for kv in d.items())


def psql(script, mode="disable", *args, **kw):
    r = h.run([h.PGBIN + "/psql", "-XqAt", "-v", "VERBOSITY=verbose", *args, dsn(mode, **kw)], stdin=None, input=script)
    return r.stdout


def count(where="true"):
    return int(pg.admin("SELECT count(*) FROM kept WHERE " + where))


def raw(**kw):
    r = Raw(port)
    t = r.login(**kw)
    assert t.endswith("Z"), t
    return r


# --- sessions --------------------------------------------------------------------------
for mode in ("disable", "require", "verify-full"):
    tap.eq(psql("select 40+2, current_user;", mode).strip(), "42|agent", "psql with sslmode=%s gets its answer" % mode)
tap.eq(core.leaves, 1, "one certificate is asked for and kept")
out = psql("select 1;", "verify-full", host="other.internal")
tap.has(out, "does not match host name", "a client that checks the name is not fooled by another host's")
tap.eq(core.opened[-1]["peer"], "127.0.0.1:%d" % pg.port, "the peer's address is told")
tap.eq(len(core.opened[-1]["cert"]), 64, "the server certificate's digest is told")

# --- refusals --------------------------------------------------------------------------
out = psql("select 1;\ndrop table kept;\nselect 2;\n")
tap.ok(out.startswith("1\n") and out.rstrip().endswith("2"), "after a refusal the session goes on", out)
tap.has(out, "ERROR:  42501: denied by policy: rule test", "the refusal is an error of PostgreSQL")
tap.has(out, "HINT:  ask somebody", "with its hint")
out = psql("begin;\nupdate kept set t='x' where i=1;\nselect 'forbidden';\nselect 3;\nrollback;\nselect 4;\n")
tap.has(out, "42501: denied by policy", "in a transaction the refusal is read too")
tap.has(out, "25P02", "and the server itself has failed the transaction")
tap.ok(out.rstrip().endswith("4"), "ROLLBACK ends it", out)
tap.eq(count("t='x'"), 0, "nothing of it stayed")
out = psql("select 5 as a \\; drop table kept;\nselect 6;\n")
tap.ok("5" not in out.split("\n"), "of one Query string with a refused part nothing runs", out)
out = psql("begin;\ndelete from kept;\nselect 'forbidden';\ncommit;\nselect 8;\n")
tap.eq((out.rstrip()[-1], count()), ("8", 100), "COMMIT after a refusal rolls back")

c = psycopg2.connect(dsn("require"))
cur = c.cursor()
cur.execute("insert into kept values (1000, 'new')")
try:
    cur.execute("select 'forbidden'")
    tap.ok(False, "psycopg2 raises InsufficientPrivilege")
except psycopg2.errors.InsufficientPrivilege as e:
    tap.eq((e.pgcode, e.diag.message_detail), ("42501", "action=a-test"), "psycopg2 raises InsufficientPrivilege with detail")
tap.eq(c.get_transaction_status(), psycopg2.extensions.TRANSACTION_STATUS_INERROR, "psycopg2 sees a failed transaction")
c.rollback()
cur.execute("select count(*) from kept where i=1000")
tap.eq(cur.fetchone(), (0,), "after rollback the connection works and the insert is gone")
try:
    cur.execute("insert into kept values (1, 'twice')")
    tap.ok(False, "a server error comes through")
except psycopg2.errors.UniqueViolation as e:
    tap.eq((e.diag.constraint_name, e.diag.table_name), ("kept_pkey", "kept"), "a server error comes through with all fields")
c.close()

# --- extended protocol, by hand ----------------------------------------------------------
r = raw()
tap.eq(r.ask(query("select 1") + pbe("select 2") + SYNC), "TDCZ", "pipelined: the simple query first")
tap.eq(r.until(), "12DCZ", "and then the extended one, in order")
tap.eq(r.ask(pbe("select 1") + pbe("select 'forbidden'") + pbe("select 3") + SYNC), "12DC12EZ",
       "a refusal inside a pipeline: what was before it answers, what follows is skipped")
tap.eq((r.err["C"], r.err["M"], r.err["D"], r.z), ("42501", "denied by policy: rule test", "action=a-test", "I"),
       "and the server's complaint reads as the refusal")
tap.eq(r.ask(pbe("select 'forbidden'") + pbe("select 3") + SYNC), "EZ", "refused while idle: one error, one ReadyForQuery")
tap.eq(r.ask(pbe("select 'forbidden'") + FLUSH, "E"), "E", "refused at a Flush")
tap.eq(r.ask(pbe("select 3") + query("select 4") + SYNC), "Z", "then all is skipped up to Sync, a Query too")
tap.eq(r.ask(parse("select 'forbidden'", "s1") + msg("D", b"Ss1\0") + FLUSH, "Tn"), "1tT", "a Parse alone passes, it is judged at Execute")
tap.eq(r.ask(bind("", "s1") + execute() + SYNC), "EZ", "and there it is refused; the server gets the Sync it waits for")
tap.eq(r.ask(query("select 5")), "TDCZ", "the session goes on")
tap.eq(r.ask(query("begin") + query("select 1/0"), "Z") + r.until(), "CZEZ", "BEGIN and an error")
tap.eq(r.z, "E", "the state is E")
tap.eq(r.ask(query("select 'forbidden'")), "EZ", "a refusal in a failed transaction is told as one")
tap.eq((r.err["C"], r.z), ("42501", "E"), "with the state unchanged")
tap.eq(r.ask(query("rollback")), "CZ", "ROLLBACK")
tap.eq(r.ask(pbe("select 1/0") + FLUSH, "E"), "1E", "an error at a Flush")
tap.eq(r.ask(pbe("delete from kept") + FLUSH + pbe("delete from kept") + SYNC), "Z", "and the server skips to Sync")
tap.eq(count(), 100, "none of the skipped ran")
tap.eq(r.ask(parse("select $1::int", "named") + SYNC), "1Z", "a named statement")
tap.eq(r.ask(bind("", "named", [b"7"]) + execute() + bind("", "named", [b"8"]) + execute() + SYNC), "2DC2DCZ", "runs as often as it is bound")
tap.eq(r.ask(msg("C", b"Snamed\0") + SYNC), "3Z", "and closes")
n = core.acts
tap.eq(r.ask(b"".join(parse("select %d" % i, "p%d" % i) for i in range(1000)) + SYNC), "1" * 1000 + "Z", "1,000 pipelined Parses")
tap.eq(core.acts - n, 4, "go in cuts of 256")
tap.eq(r.ask(msg("d", b"x") + msg("c") + msg("f", b"y\0") + SYNC), "Z", "COPY messages outside a COPY are dropped")
tap.eq(r.ask(msg("F", b"\0\0\0\1\0\0\0\0\0\0")), "EZ", "FunctionCall is refused and the session goes on")
tap.eq(r.ask(query("")), "IZ", "an empty query")
tap.eq(r.ask(SYNC + SYNC) + r.until(), "ZZ", "bare Syncs")

# --- what is withheld --------------------------------------------------------------------
core.hold_done = []
r.send(query("select * from generate_series(1,3)"))
tap.eq(r.until("D") + r.until("D") + r.until("D"), "TDDD", "rows stream before the outcome is recorded")
tap.ok(r.quiet(), "the completion does not")
core.release()
tap.eq(r.until(), "CZ", "it comes with core's word")
core.hold_done = []
r.send(query("insert into kept values (2000,'h')"))
tap.ok(r.quiet(), "of a change nothing is told before its outcome is recorded")
core.release()
tap.eq(r.until(), "CZ", "then it is")
r.ask(query("delete from kept where i=2000"))

# --- row limits --------------------------------------------------------------------------
tap.eq(r.ask(query("delete from kept where i<=3 /*limit 3*/")), "CZ", "within its row limit a change is committed")
tap.eq((r.z, count()), ("I", 97), "and the session is idle after it")
tap.eq(r.ask(query("delete from kept /*limit 3*/")), "EZ", "over the limit the answer is an error")
tap.eq((r.err["C"], r.err["M"], r.z, count()), ("42501", "row limit: 97 rows, signed limit 3", "I", 97), "and nothing has changed")
tap.eq(core.done[-1]["status"], 3, "core is told so")
tap.eq(r.ask(pbe("delete from kept where i=4 returning i /*limit 1*/") + SYNC), "12DCZ", "the extended form commits")
tap.eq(r.ask(pbe("delete from kept returning i /*limit 1*/") + SYNC), "EZ", "or is undone, rows withheld")
tap.eq(r.ask(pbe("delete from kept where i=5 /*limit 1*/") + FLUSH, "C"), "12C", "at a Flush too")
tap.eq(r.ask(SYNC), "Z", "with its Sync after")
tap.eq(r.ask(pbe("delete from kept /*limit 1*/") + FLUSH, "E") + r.ask(SYNC), "EZ", "and undone at a Flush")
tap.eq(count(), 95, "the counts are right")
tap.eq(r.ask(parse("delete from kept where i=6 /*limit 1*/") + msg("D", b"S\0") + FLUSH, "n"), "1tn", "an unnamed statement, parsed before")
tap.eq(r.ask(bind() + execute() + SYNC), "2CZ", "is still there after the BEGIN around it")
tap.eq(r.ask(query("begin")), "CZ", "inside a client's transaction")
tap.eq(r.ask(query("delete from kept where i=7 /*limit 1*/")), "CZ", "a change within the limit")
tap.eq(r.z, "T", "leaves it open")
tap.eq(r.ask(query("delete from kept where i<12 /*limit 1*/")), "EZ", "one over it")
tap.eq((r.err["M"], r.z), ("row limit: 4 rows, signed limit 1", "E"), "fails the transaction")
tap.eq(r.ask(query("commit")), "CZ", "so that COMMIT")
tap.eq(count(), 94, "commits nothing")
tap.eq(r.ask(query("begin") + pbe("delete from kept where i<12 /*limit 1*/") + SYNC) + r.until(), "CZEZ", "the same, extended")
tap.eq(r.z, "E", "fails it too")
r.ask(query("rollback"))
tap.eq(r.ask(query("select 1 /*limit 5*/")), "EZ", "a statement that tells no changed rows does not pass under a limit")
tap.has(r.err["M"], "tells no changed rows", "and says why")
tap.eq(r.ask(pbe("begin") + FLUSH, "C"), "12C", "something ran before in the same exchange")
tap.eq(r.ask(pbe("delete from kept where i=8 /*limit 1*/") + SYNC), "EZ", "then a row limit cannot be kept")
tap.eq(r.err["C"], "0A000", "and the statement is not sent")
r.ask(query("rollback"))
tap.eq(count(), 94, "nothing changed")
tap.eq(r.ask(query("select 'forbidden'; delete from kept /*limit 1*/")), "EZ", "a refusal wins over a limit")
pg.admin("CREATE TABLE def(i int, j int); ALTER TABLE def OWNER TO agent; INSERT INTO def VALUES (1,1);"
         "ALTER TABLE def ADD CONSTRAINT u UNIQUE(i) DEFERRABLE INITIALLY DEFERRED")
tap.eq(r.ask(query("insert into def values (1,2) /*limit 1*/")), "EZ", "a constraint that fails at COMMIT")
tap.eq((r.err["C"], r.z), ("23505", "I"), "is told instead of the completion")
tap.eq(r.ask(query("delete from kept where i/0=1 /*limit 1*/")), "EZ", "an error under a limit")
tap.eq((r.err["C"], r.z), ("22012", "I"), "is the server's own, and the session idle again")
tap.eq(r.ask(query("update kept set t=repeat('x',9000000) where i=20 returning t /*limit 1*/")), "EZ", "an answer too large to withhold")
tap.eq((r.err["C"], r.z, count("length(t)>100")), ("54000", "I", 0), "is undone")

# --- asynchronous ------------------------------------------------------------------------
tap.eq(r.ask(query("do $$begin raise notice 'hello'; end$$")), "NCZ", "a NOTICE comes through")
r.ask(query("listen ch"))
pg.admin("NOTIFY ch, 'ping'")
tap.eq(r.until("A"), "A", "a notification reaches an idle session")
r.ask(query("set application_name='z'"))
n = len(core.gone)
tap.has(r.ask(query("set client_encoding='SQL_ASCII'"), "$E"), "E", "a session whose encoding changes is ended")
tap.has(r.err["M"], "client_encoding", "with the reason")
r.close()
r = raw()
tap.has(r.ask(query("set standard_conforming_strings=off"), "$E"), "E", "so is one whose rule for backslashes changes")
r.close()

# --- clients' own suites in small ----------------------------------------------------------
pg.admin("CREATE SCHEMA b AUTHORIZATION agent")
out = h.run([h.PGBIN + "/pgbench", "-i", "-s", "1", "-q", "-I", "tGp", dsn("require")], timeout=120)
tap.eq(out.returncode, 0, "pgbench fills its tables on the server's side") or print("# " + out.stdout)
for proto in ("simple", "extended", "prepared"):
    out = h.run([h.PGBIN + "/pgbench", "-n", "-M", proto, "-c", "4", "-T", "2", dsn("require")], timeout=60).stdout
    tap.has(out, "number of failed transactions: 0", "pgbench -M %s" % proto)
    print("# " + " ".join(line for line in out.splitlines() if line.startswith("tps")))
try:
    import psycopg
except ImportError:
    psycopg = None
if psycopg:
    with psycopg.connect(dsn("require"), autocommit=True) as c:
        with c.pipeline() as p:
            a = c.execute("select 1")
            b = c.execute("select 'forbidden'")
            try:
                p.sync()
                a_ok = a.fetchone() == (1,)
                b.fetchone()
                err = None
            except psycopg.errors.InsufficientPrivilege as e:
                err, a_ok = e, True
        tap.ok(err is not None and a_ok, "psycopg 3 pipeline: InsufficientPrivilege")
        tap.eq(c.execute("select 2").fetchone(), (2,), "and the connection goes on")
        with c.cursor().copy("copy (select g from generate_series(1,1000) g) to stdout") as cp:
            tap.eq(sum(1 for _ in cp.rows()), 1000, "psycopg 3: COPY TO STDOUT")
        for i in range(8):
            assert c.execute("select %s::int", (i,), prepare=True).fetchone() == (i,)
        tap.ok(True, "psycopg 3: a server-side prepared statement, 8 times")

# --- much data in little memory --------------------------------------------------------------
rss = {p: core.status(p, "VmRSS") for p in ("front", "upstream")}
SANITIZED = os.environ.get("MODE", "opt") != "opt"  # freed memory is kept for a while there
p = subprocess.Popen([h.PGBIN + "/psql", "-XqAt", "-c", "copy (select repeat('x',999) from generate_series(1,104858)) to stdout",
                      dsn("require")], stdout=subprocess.PIPE)
size = 0
while True:
    b = p.stdout.read(1 << 20)
    if not b:
        break
    size += len(b)
tap.eq((p.wait(), size), (0, 104858 * 1000), "COPY TO STDOUT of 100 MB arrives whole")
r = raw()
r.send(query("copy (select repeat('x',999) from generate_series(1,104858)) to stdout"))
time.sleep(2)  # a client that does not read
grown = {p: core.status(p, "VmHWM") - rss[p] for p in rss}
tap.ok(SANITIZED or all(v < 16384 for v in grown.values()), "neither it nor a client that does not read costs memory", grown)
types = r.until()
tap.eq((types.count("d"), types[-3:]), (104858, "cCZ"), "the slow client still gets all of it")
tap.eq(r.ask(query("select repeat('y', 50000000)")), "TDCZ", "a row of 50 MB")
tap.eq(len(r.rows[0]), 50000006, "comes whole")
grown = {p: core.status(p, "VmHWM") - rss[p] for p in rss}
tap.ok(SANITIZED or all(v < 32768 for v in grown.values()), "and is never held whole", grown)
r.close()

# --- start-up --------------------------------------------------------------------------------
r = Raw(port)
tap.eq(r.send(request(GSS)).byte(), b"N", "GSSENCRequest is declined")
tap.eq(r.send(request(SSL)).byte(), b"S", "SSLRequest after it is taken")
r.tls(core.ca, pg.host)
tap.eq(r.login()[0], "R", "and the session comes up under TLS")
r.close()
r = Raw(port)
r.send(request(SSL) + startup(user="x"))
out = r.rest()
tap.ok(out[:1] == b"E" and b"08P01" in out and b"unencrypted data" in out, "bytes in clear behind SSLRequest are refused", out)
r = Raw(port)
r.send(request(GSS)).byte()
tap.has(r.send(request(GSS)).rest().decode("latin1"), "08P01", "a second GSSENCRequest is refused")
for name, code in (("SSLRequest", SSL), ("GSSENCRequest", GSS)):
    r = Raw(port)
    r.send(request(SSL)).byte()
    r.tls()
    tap.has(r.send(request(code)).rest().decode("latin1"), "08P01", name + " under TLS is refused")
r = Raw(port)
for b in startup(user="x", database="crm"):
    r.send(bytes([b]))
tap.eq(r.until("ZE")[-1], "Z", "a start-up packet that comes byte by byte")
r.close()
r = Raw(port)
out = r.send(b"\0\0\0\x10\x04\xd2\x16\x2e" + b"pidpkeyk").rest()
tap.eq(out, b"", "a cancel request is closed without a word")
r = Raw(port)
r.send(startup(0x30002, user="x", database="crm"))
tap.eq(r.one(), ("v", b"\0\3\0\0\0\0\0\0"), "protocol 3.2 is negotiated down to 3.0")
tap.eq(r.until("ZE")[-1], "Z", "and served")
r.close()
r = Raw(port)
r.send(startup(0x30000, **{"user": "x", "_pq_.opt": "1"}))
tap.eq(r.one(), ("v", b"\0\3\0\0\0\0\0\1_pq_.opt\0"), "an unknown protocol option is named")
r.close()
for name, b, part in (("protocol 2", b"\0\0\0\x10\0\2\0\0user\0\0\0\0", "0A000"), ("a packet of 10,001 bytes", b"\0\0\x27\x11\0\3\0\0", "54000"),
                      ("a packet of 7 bytes", b"\0\0\0\7\0\3\0", "08P01"), ("no user", startup(database="crm"), "28000"),
                      ("HTTP", b"GET / HTTP/1.1\r\n\r\n", "54000")):
    tap.has(Raw(port).send(b).rest().decode("latin1"), part, name + " is refused with " + part)

# --- messages that do not parse ----------------------------------------------------------------
n = core.acts
for name, b, part in (("length 0", b"Q\0\0\0\0", "08P01"), ("length 3", b"Q\0\0\0\3", "08P01"),
                      ("length 0x7fffffff", b"Q\x7f\xff\xff\xff", "54000"), ("length 0xffffffff", b"Q\xff\xff\xff\xff", "08P01"),
                      ("NUL inside a Query", msg("Q", b"SELECT 1\0; DROP TABLE t\0"), "08P01"),
                      ("Bind with length -2", msg("B", b"\0\0\0\0\0\1\xff\xff\xff\xfe\0\0"), "08P01"),
                      ("Bind with 65535 values", msg("B", b"\0\0\0\0\xff\xff\0\0"), "08P01"),
                      ("a message over 1 MiB", query("x" * (1 << 20)), "54000"),
                      ("a password nobody asked for", msg("p", b"secret\0"), "08P01"),
                      ("a type nobody knows", msg("w", b""), "08P01")):
    r = raw()
    r.send(b)
    tap.has(r.rest().decode("latin1"), part, name + ": " + part + " and the end")
tap.eq(core.acts, n, "of none of them core heard anything")

# --- failures ----------------------------------------------------------------------------------
r = raw()
r.send(query("select pg_sleep(20)"))
time.sleep(0.5)
pg.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename='agent' AND query LIKE '%pg_sleep(20)%'")
out = r.until("E$")
tap.eq((out[-1], r.err.get("C"), r.err.get("S")), ("E", "57P01", "FATAL"), "a backend that is terminated: the server's reason")
tap.eq(core.done[-1]["status"], 4, "core is told that the outcome is unknown")
r = raw()
core.close_next = True
r.send(query("select 1"))
tap.ok(b"57P01" in r.rest(), "core can end a connection at an act")
r = raw()
r.send(query("select pg_sleep(2)"))
time.sleep(0.3)
r.close()
h.wait_for(lambda: pg.admin("SELECT count(*) FROM pg_stat_activity WHERE usename='agent'") == "0", 8)
tap.ok(core.conns == {}, "a client that goes away takes its session along", core.conns)
r = raw()
r.send(query("select pg_sleep(2)"))
time.sleep(0.3)
os.kill(core.procs["upstream"].pid, 9)
tap.ok(r.until("E$")[-1] == "E" and r.err["C"] == "08006", "upstream killed: 08006 to the client", r.err)
core.restart("upstream")
tap.eq(psql("select 1;", "require").strip(), "1", "and service goes on with the next one")
r = raw()
os.kill(core.procs["front"].pid, 9)
tap.eq(r.rest(), b"", "front killed: the connection closes")
core.restart("front")
tap.eq(psql("select 2;", "verify-full").strip(), "2", "and the listener serves again")
h.wait_for(lambda: pg.admin("SELECT count(*) FROM pg_stat_activity WHERE usename='agent'") == "0", 8)
tap.eq(pg.admin("SELECT count(*) FROM pg_stat_activity WHERE usename='agent'"), "0", "no session is left behind at the server")
r = raw()
core.unlisten("r-test")
tap.ok(b"57P01" in r.rest(), "the end of a run ends its connections")
try:
    Raw(port)
    tap.ok(False, "and its listener")
except ConnectionRefusedError:
    tap.ok(True, "and its listener")
with open("/proc/%d/status" % core.procs["front"].pid) as f:
    status = f.read()
if not SANITIZED:
    tap.ok("Seccomp:\t2" in status and "NoNewPrivs:\t1" in status, "front runs confined", status)
tap.eq(core.stop(), {"front": 0, "upstream": 0}, "both end when asked to")
tap.done()
