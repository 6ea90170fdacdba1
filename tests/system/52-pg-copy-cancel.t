#!/usr/bin/python3
"""COPY FROM STDIN and cancel requests: the real front and upstream between clients and a real PostgreSQL, core a
stand-in; how the wire keeps data, errors and Syncs apart. The whole broker: 53-pg-copy-broker.t."""
import hashlib
import os
import select
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import harness as h  # noqa: E402
import pgcore  # noqa: E402
from pgraw import FLUSH, SSL, SYNC, Mock, Raw, cancel, msg, parse, pbe, query, request, scram_server, hello  # noqa: E402

import psycopg2  # noqa: E402
import psycopg2.errors  # noqa: E402
import psycopg  # noqa: E402

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # freed memory is kept for a while there

tap = h.Tap()
tmp = h.Temp("pgcopy")
pg = h.Pg(tmp)
with open(pg.ca, "rb") as f:
    target = dict(host=pg.host, address="127.0.0.1", port=pg.port, database=pg.database, user=pg.user,
                  password=pg.password, ca=f.read())
core = pgcore.Core(h.BUILD, tmp.path, target, deny="forbidden")
port = core.listen(pg.host)
pg.admin("CREATE TABLE t(i int, s text); ALTER TABLE t OWNER TO agent; CREATE TABLE big(s text); ALTER TABLE big OWNER TO agent;"
         "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$begin raise 'trigger says no'; end$$;"
         "CREATE TABLE guarded(i int); ALTER TABLE guarded OWNER TO agent;"
         "CREATE TRIGGER g BEFORE INSERT ON guarded FOR EACH STATEMENT EXECUTE FUNCTION no()")


def dsn(mode="disable", **kw):
    d = dict(host=pg.host, hostaddr="127.0.0.1", port=port, dbname=pg.database, user="anybody", sslmode=mode,
             sslrootcert=core.ca, connect_timeout=15, gssencmode="disable")
    d.update(kw)
    return " ".join("%s='%s'" % kv for kv in d.items())


def psql(script, mode="disable", *args, **kw):
    return h.run([h.PGBIN + "/psql", "-XqAt", "-v", "VERBOSITY=verbose", *args, dsn(mode)], stdin=None, input=script, **kw).stdout


def raw():
    r = Raw(port)
    assert r.login().endswith("Z")
    return r


def count(table="t"):
    return int(pg.admin("SELECT count(*) FROM " + table))


def empty():
    pg.admin("TRUNCATE t")


def d(data):
    return msg("d", data)


C, F = msg("c"), msg("f", b"enough\0")
COPY = query("copy t from stdin")

# --- simple protocol ---------------------------------------------------------------------
r = raw()
tap.eq(r.ask(COPY, "G"), "G", "the server's request for data reaches the client")
tap.eq(r.ask(d(b"1\ta\n") + d(b"2\t") + d(b"b\n3\tc\n") + C), "CZ", "data in any pieces, and its end")
tap.eq((r.tag, r.z, count()), ("COPY 3", "I", 3), "all rows are there")
done = core.done[-1]
tap.eq((done["copied"], done["copied_bytes"], done["copied_sha256"]), (1, 12, hashlib.sha256(b"1\ta\n2\tb\n3\tc\n").hexdigest()),
       "core is told bytes and digest of the data")
tap.eq(r.ask(COPY + d(b"4\td\n") + C + query("select 1")), "GCZ", "a client that does not wait to be asked")
tap.eq(r.until(), "TDCZ", "and goes on at once")
tap.eq(count(), 4, "loses nothing")
tap.eq(core.done[-1]["copied"], 0, "what is no COPY is told as none")
tap.eq(r.ask(COPY + d(b"5\te\n") + F), "GEZ", "CopyFail")
tap.eq((r.err["C"], "enough" in r.err["M"], count()), ("57014", True, 4), "PG-11: is the server's error with the client's words, and no row stays")
tap.eq(r.ask(COPY + d(b"x\te\n") + d(b"6\tf\n") + C + query("select 2")), "GEZ", "data that is wrong")
tap.eq((r.err["C"], r.until(), count()), ("22P02", "TDCZ", 4), "is told, the rest is dropped, the next query answered")
tap.eq(r.ask(COPY, "G") + r.ask(d(b"x\n") + C), "GEZ", "the same for a client that waits")
tap.eq(r.ask(COPY + d(b"7\tg\n") + SYNC + FLUSH + d(b"8\th\n") + C), "GCZ", "Sync and Flush among the data are read over")
tap.eq(count(), 6, "as the server does")
tap.eq(r.ask(COPY + d(b"9\ti\n") + query("delete from t")), "GEZ", "a Query among the data")
tap.eq((r.err["C"], count()), ("57014", 6), "fails the COPY and is not run")
tap.eq(r.ask(query("select 3")), "TDCZ", "the session goes on")
tap.eq(r.ask(query("copy t from stdin; select 4; copy t from stdin") + d(b"10\tj\n") + C + d(b"11\tk\n12\tl\n") + C), "GCTDCGCZ",
       "two in one text")
tap.eq((count(), core.done[-1]["copied_bytes"]), (9, 15), "both are counted")
tap.eq(r.ask(query("copy t from stdin (format csv)") + d(b'13,"m\nn"\n') + C), "GCZ", "CSV with a line feed within")
tap.eq(r.ask(query("copy t (i) from stdin") + C), "GCZ", "no data at all")
tap.eq((r.tag, core.done[-1]["copied"], core.done[-1]["copied_bytes"]), ("COPY 0", 1, 0), "is a COPY of nothing")
tap.eq(r.ask(query("copy nothing from stdin") + d(b"1\n") + C + query("select 5")) + r.until(), "EZTDCZ", "a table that does not exist")
tap.eq(r.ask(query("copy guarded from stdin") + d(b"1\n") + C), "GEZ", "a trigger that says no after the request for data")
tap.has(r.err["M"], "trigger says no", "is told")
tap.eq(r.ask(query("select 6")), "TDCZ", "and the session goes on")
tap.eq(r.ask(query("copy t from stdin /*forbidden*/") + d(b"1\tz\n") + C + query("select 7")), "EZ",
       "a refused COPY with its data sent already: one error")
tap.eq((r.err["C"], r.until()), ("42501", "TDCZ"), "the data is dropped, the next query answered")
tap.eq(r.ask(d(b"1\tz\n") + C + F + SYNC), "Z", "data outside of a COPY is dropped")

# --- transactions ------------------------------------------------------------------------
empty()
tap.eq(r.ask(query("begin")) + r.ask(COPY + d(b"1\ta\n") + C), "CZGCZ", "in a transaction")
tap.eq((r.z, count()), ("T", 0), "nothing is visible before COMMIT")
tap.eq(r.ask(COPY + d(b"x\n") + C), "GEZ", "an error in it")
tap.eq(r.z, "E", "fails it")
tap.eq(r.ask(query("commit")), "CZ", "so that COMMIT")
tap.eq(count(), 0, "commits nothing")
tap.eq(r.ask(query("begin; copy t from stdin; commit") + d(b"1\ta\n") + C), "CGCCZ", "BEGIN, COPY, COMMIT in one text")
tap.eq((r.z, count()), ("I", 1), "are one transaction")

# --- extended protocol ---------------------------------------------------------------------
empty()
X = pbe("copy t from stdin")
tap.eq(r.ask(X + SYNC, "G"), "12G", "extended, with its Sync before the data, as libpq does")
tap.eq(r.ask(d(b"1\ta\n") + C + SYNC), "CZ", "the Sync behind the data ends it")
tap.eq((count(), r.z), (1, "I"), "rows are there")
tap.eq(r.ask(X + FLUSH, "G") + r.ask(d(b"2\tb\n") + C + SYNC), "12GCZ", "with a Flush")
tap.eq(r.ask(X + d(b"3\tc\n") + C + SYNC), "12GCZ", "without waiting and without a Flush")
tap.eq(count(), 3, "rows are there")
tap.eq(r.ask(X + SYNC, "G") + r.ask(d(b"x\n") + d(b"4\td\n") + C + SYNC), "12GEZ", "an error in the data")
tap.eq((r.err["C"], r.z), ("22P02", "I"), "is told once, with one ReadyForQuery")
tap.eq(r.ask(X + SYNC, "G") + r.ask(d(b"x\n"), "E"), "12GE", "or at once,")
tap.eq(r.ask(d(b"4\td\n") + C + pbe("delete from t") + SYNC), "Z", "and what stands before the Sync is skipped")
tap.eq((r.ask(SYNC), count()), ("Z", 3), "whole")
tap.eq(r.ask(pbe("copy nothing from stdin") + SYNC), "12EZ", "an error before data is asked for takes the first Sync")
tap.eq(r.ask(query("select 1")), "TDCZ", "and the session is right")
tap.eq(r.ask(pbe("copy guarded from stdin") + SYNC, "GE") + r.until("E"), "12GE", "a trigger that fails before it reads")
tap.eq(r.ask(C + SYNC), "Z", "the same as any error in a COPY")
tap.eq(r.ask(pbe("select 1") + X + SYNC, "G") + r.ask(d(b"5\te\n") + C + SYNC), "12DC12GCZ", "behind another statement")
tap.eq(r.ask(X + SYNC, "G") + r.ask(C + pbe("select 2") + SYNC), "12GC12DCZ", "another statement behind it, before the Sync")
tap.eq(r.ask(X + SYNC, "G") + r.ask(F + SYNC), "12GEZ", "CopyFail")
tap.eq(r.ask(parse("copy t from stdin", "c1") + SYNC) + r.ask(query("select 3")), "1ZTDCZ", "a named one")
r.close()

# --- row limits ----------------------------------------------------------------------------
empty()
r = raw()
L = query("copy t from stdin /*limit 2*/")
tap.eq(r.ask(L, "G") + r.ask(d(b"1\ta\n2\tb\n") + C), "GCZ", "as many rows as the limit")
tap.eq((count(), r.tag, r.z), (2, "COPY 2", "I"), "are committed")
tap.eq(r.ask(L, "G") + r.ask(d(b"3\ta\n4\tb\n5\tc\n") + C), "GEZ", "one more")
tap.eq((r.err["M"], count(), r.z), ("row limit: 3 rows, signed limit 2", 2, "I"), "is undone, and told")
tap.eq((core.done[-1]["status"], core.done[-1]["copied_bytes"]), (3, 12), "core is told both")
tap.eq(r.ask(L, "G") + r.ask(d(b"x\n") + C), "GEZ", "an error under a limit")
tap.eq((r.err["C"], r.z), ("22P02", "I"), "is the server's own, and the session idle")
tap.eq(r.ask(L, "G") + r.ask(F), "GEZ", "CopyFail under a limit")
E1 = pbe("copy t from stdin /*limit 2*/")
tap.eq(r.ask(E1 + SYNC, "G") + r.ask(d(b"3\ta\n") + C + SYNC), "12GCZ", "extended under a limit")
tap.eq(r.ask(E1 + SYNC, "G") + r.ask(d(b"4\ta\n5\tb\n6\tc\n") + C + SYNC), "12GEZ", "and over it")
tap.eq((count(), r.z), (3, "I"), "nothing of that stays")
tap.eq(r.ask(query("begin")) + r.ask(L, "G") + r.ask(d(b"4\ta\n5\tb\n6\tc\n") + C), "CZGEZ", "over it in the client's transaction")
tap.eq((r.z, r.ask(query("commit")), count()), ("E", "CZ", 3), "the transaction fails")
tap.eq(r.ask(query("copy (select 1) to stdout /*limit 5*/")), "EZ", "what COPY TO tells are no changed rows")
r.close()

# --- clients -------------------------------------------------------------------------------
empty()
with open(tmp.path + "/rows", "w") as f:
    f.write("".join("%d\trow %d\n" % (i, i) for i in range(1000)))
for mode in ("disable", "require"):
    out = psql("\\copy t from '%s/rows'\nselect count(*) from t;\n" % tmp.path, mode)
    tap.eq(out.strip().split("\n")[-1], "1000" if mode == "disable" else "2000", "psql \\copy, sslmode=%s" % mode)
out = psql("copy t from stdin;\n1\ta\n2\tb\n\\.\nselect count(*) from t;\n")
tap.eq(out.strip(), "2002", "psql with the data in its script")
out = psql("copy t from stdin;\nx\ta\n2\tb\n\\.\nselect 8;\n")
tap.ok("22P02" in out and out.rstrip().endswith("8"), "psql goes on after an error in the data", out)
c = psycopg2.connect(dsn("require"))
cur = c.cursor()
with open(tmp.path + "/rows") as f:
    cur.copy_expert("copy t from stdin", f)
c.commit()
tap.eq(count(), 3002, "psycopg2 copy_expert")
with open(tmp.path + "/rows") as f:
    try:
        cur.copy_expert("copy t from stdin /*forbidden*/", f)
        tap.ok(False, "psycopg2 is refused")
    except psycopg2.errors.InsufficientPrivilege:
        tap.ok(True, "psycopg2 is refused")
c.rollback()
cur.execute("select 1")
tap.eq(cur.fetchone(), (1,), "and goes on")
c.close()
with psycopg.connect(dsn("require"), autocommit=True) as c:
    with c.cursor().copy("copy t (i, s) from stdin") as cp:
        for i in range(1000):
            cp.write_row((i, "x"))
    tap.eq(count(), 4002, "psycopg 3 copy")
    with c.cursor().copy("copy t (i, s) from stdin (format binary)") as cp:
        cp.set_types(["int4", "text"])
        for i in range(1000):
            cp.write_row((i, "y\n"))
    tap.eq(count(), 5002, "psycopg 3 binary copy")
    try:
        with c.cursor().copy("copy t from stdin") as cp:
            cp.write(b"1\ta\n")
            raise RuntimeError("changed its mind")
    except (RuntimeError, psycopg.errors.QueryCanceled):
        pass
    tap.eq((c.execute("select count(*) from t").fetchone()[0], c.info.transaction_status), (5002, psycopg.pq.TransactionStatus.IDLE),
           "psycopg 3 that changes its mind")
    try:
        with c.cursor().copy("copy t from stdin") as cp:
            cp.write(b"x\ta\n")
        tap.ok(False, "psycopg 3 reads the server's error")
    except psycopg.errors.InvalidTextRepresentation:
        tap.ok(True, "psycopg 3 reads the server's error")
    with c.cursor().copy("copy t from stdin") as cp:
        cp.write(b"1\t" + b"z" * (3 << 20) + b"\n")
    tap.eq(pg.admin("select max(length(s)) from t"), str(3 << 20), "psycopg 3 with one message of 3 MB")
    with c.cursor().copy("copy (select i from t where s='x') to stdout") as cp:
        tap.eq(sum(1 for _ in cp.rows()), 1000, "COPY TO STDOUT as before")
out = h.run([h.PGBIN + "/pgbench", "-i", "-s", "1", "-q", dsn("require")], timeout=120)
tap.eq((out.returncode, count("pgbench_accounts")), (0, 100000), "pgbench fills its tables by COPY")

# --- a client that goes away -----------------------------------------------------------------
empty()
for how in ("closes", "terminates", "is reset"):
    r = raw()
    r.ask(COPY + d(b"1\ta\n2\tb\n"), "G")
    if how == "terminates":
        r.send(msg("X"))
    elif how == "is reset":
        r.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    r.close()
    ok = h.wait_for(lambda: pg.admin("select count(*) from pg_stat_activity where query like 'copy t%'") == "0", 10)
    tap.ok(ok and count() == 0, "PG-11: a client that %s in the middle leaves no row and no session" % how, count())
r = raw()
r.ask(COPY + d(b"1\ta\n"), "G")
pid = pg.admin("select pid from pg_stat_activity where query like 'copy t%'")
pg.admin("select pg_terminate_backend(%s)" % pid)
tap.has(r.until("$E"), "E", "a server that goes in the middle is told")
tap.eq(r.err["C"], "57P01", "with its own words")
r.close()

# --- much data in little memory --------------------------------------------------------------
rss = {p: core.status(p, "VmRSS") for p in ("front", "upstream")}


def fill(row, n):
    p = subprocess.Popen([h.PGBIN + "/psql", "-XqAt", "-c", "copy big from stdin", dsn("require")], stdin=subprocess.PIPE)
    sha = hashlib.sha256()
    for _ in range(n):
        p.stdin.write(row)
        sha.update(row)
    p.stdin.close()
    return p.wait(), sha.hexdigest()


t0 = time.monotonic()
code, sha = fill(b"x" * 99999 + b"\n", 2098)
print("# 200 MB in %.1f s" % (time.monotonic() - t0))
tap.eq((code, count("big"), core.done[-1]["copied_bytes"], core.done[-1]["copied_sha256"]), (0, 2098, 209800000, sha), "200 MB arrive whole")
# A server that takes its time with each row.
pg.admin("CREATE TABLE slow(s text); ALTER TABLE slow OWNER TO agent;"
         "CREATE FUNCTION crawl() RETURNS trigger LANGUAGE plpgsql AS $$begin perform pg_sleep(5); return new; end$$;"
         "CREATE TRIGGER c BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION crawl()")
r = raw()
r.ask(query("copy slow from stdin"), "G")
r.s.settimeout(2)
sent = 0
try:
    while sent < 100 << 20:
        r.send(d(b"y" * 999999 + b"\n"))
        sent += 1000000
except (socket.timeout, TimeoutError):
    pass
tap.ok(sent < 30 << 20, "a slow server slows its client", sent)
grown = {p: core.status(p, "VmHWM") - rss[p] for p in rss}
print("# grown by %s kB" % grown)
tap.ok(SANITIZED or all(v < 16384 for v in grown.values()), "neither costs memory", grown)
r.close()

# --- cancel ----------------------------------------------------------------------------------
def ask_cancel(key, tls=False):
    x = Raw(port)
    if tls:
        assert x.send(request(SSL)).byte() == b"S"
        x.tls(core.ca, pg.host)
    return x.send(cancel(key)).rest()


r, other = raw(), raw()
tap.ok(r.key != other.key and len(r.key) == 8, "each session has a key of its own")
backend = pg.admin("select string_agg(pid::text, ' ') from pg_stat_activity where usename='agent'").split()
tap.ok(str(int.from_bytes(r.key[:4], "big")) not in backend, "which is not the server's")
for tls in (False, True):
    r.send(query("select pg_sleep(30)"))
    time.sleep(0.3)
    t0 = time.monotonic()
    tap.eq(ask_cancel(r.key, tls), b"", "a cancel request%s is answered by nothing" % (" under TLS" if tls else ""))
    tap.eq(r.until(), "TEZ", "but what runs")
    tap.ok(r.err["C"] == "57014" and time.monotonic() - t0 < 2, "ends within two seconds", (r.err, time.monotonic() - t0))
    tap.eq(r.ask(query("select 1")), "TDCZ", "and the next query works")
tap.eq([x["how"] for x in core.cancelled], [1, 1], "core is told that the server has it")
tap.eq(pg.admin("select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and pid<>pg_backend_pid() and state='active'"), "0",
       "nothing runs on at the server")
n = core.cancels
tap.eq(ask_cancel(r.key), b"", "a right key when nothing runs")
tap.eq((r.ask(query("select 2")), len(core.cancelled)), ("TDCZ", 2), "does nothing")
r.send(query("select pg_sleep(4)"))
time.sleep(0.2)
ask_cancel(bytes([r.key[0], r.key[1], r.key[2], r.key[3], r.key[4] ^ 1]) + r.key[5:])
ask_cancel(other.key)
port2 = core.listen(pg.host, run="r-other")
x = Raw(port2)
tap.eq(x.send(cancel(r.key)).rest(), b"", "a right key at another run's listener")
for i in range(1000):
    ask_cancel(os.urandom(8))
tap.eq((r.until(), core.cancels - n), ("TDCZ", 2), "wrong keys, another session's, another run's: nothing is cancelled")
tap.ok(h.wait_for(lambda: any("cancel request" in line for line in core.log)), "and it is logged")
time.sleep(1.1)
r.ask(COPY, "G")
t0 = time.monotonic()
ask_cancel(r.key)
while time.monotonic() - t0 < 10:  # the server looks at it when it has read a message
    r.send(d(b"1\ta\n"))
    if not r.quiet(0.05):
        break
tap.eq(r.until(), "EZ", "in the middle of a COPY")
tap.eq((r.err["C"], r.ask(d(b"2\tb\n") + C + query("select 3")), count()), ("57014", "TDCZ", 0), "it ends that, and its rows are gone")
r.send(pbe("select pg_sleep(30)") + SYNC)
time.sleep(0.3)
ask_cancel(r.key)
tap.eq((r.until(), r.err["C"]), ("12EZ", "57014"), "in the extended protocol")
# What comes next is never hit: a cancel that is late waits, or is not sent.
bad = 0
for i in range(40):
    r.send(query("select pg_sleep(0.01)"))
    t = threading.Thread(target=ask_cancel, args=(r.key,), daemon=True)
    t.start()
    first = r.until()
    second = r.ask(query("select pg_sleep(0.03)"))
    t.join()
    bad += second != "TDCZ"
    time.sleep(0.02)
tap.eq(bad, 0, "of 40 cancels at the very end of a statement none hits the next")
r.close()

p = subprocess.Popen([h.PGBIN + "/psql", "-XqAt", "-v", "VERBOSITY=verbose", dsn("require")], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
p.stdin.write(b"select pg_sleep(30);\nselect 'after';\n")
p.stdin.flush()
time.sleep(1)
t0 = time.monotonic()
p.send_signal(2)
p.stdin.close()
out = p.stdout.read().decode()
p.wait()
tap.ok("57014" in out and time.monotonic() - t0 < 2, "Ctrl-C in psql", out)
with psycopg.connect(dsn("require"), autocommit=True) as c:
    threading.Timer(0.5, c.cancel).start()
    try:
        c.execute("select pg_sleep(30)")
        tap.ok(False, "psycopg 3's cancel")
    except psycopg.errors.QueryCanceled:
        tap.ok(True, "psycopg 3's cancel")
    tap.eq(c.execute("select 5").fetchone(), (5,), "and its connection goes on")
c = psycopg2.connect(dsn("require"))
threading.Timer(0.5, c.cancel).start()
try:
    c.cursor().execute("select pg_sleep(30)")
    tap.ok(False, "libpq's PQcancel")
except psycopg2.errors.QueryCanceled:
    tap.ok(True, "libpq's PQcancel")
c.close()

codes = core.stop()
tap.eq(codes, {"front": 0, "upstream": 0}, "both end in order")
tap.done()
