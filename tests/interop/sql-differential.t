#!/usr/bin/python3
"""Our parser accepts a text exactly when the server's own does, and our lists are the server's own.

Each statement of tests/unit/sql_statements.txt, and the newer syntax below, goes through the
server's Parse message (nothing runs); an error that comes from its scanner or grammar is a refusal.
"""
import ctypes as C
import filecmp
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, TOP, Pg, Tap, Temp
import libpq

NEWER = r"""
SELECT 0o17, 0b11
SELECT 1e5_0
SELECT '{}' IS JSON
SELECT JSON_OBJECT('a': 1)
SELECT JSON_ARRAY(1, 2)
SELECT * FROM JSON_TABLE('{}', '$' COLUMNS (a int PATH '$.a')) t
SELECT now() AT LOCAL
MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE RETURNING *
WITH m AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE) SELECT 1
INSERT INTO t VALUES (1) RETURNING WITH (OLD AS o) o.a
GRANT a TO b WITH INHERIT TRUE
VACUUM (ONLY_DATABASE_STATS)
VACUUM ONLY t
CREATE TABLE t (a int GENERATED ALWAYS AS (1) VIRTUAL)
CREATE TABLE t (a int GENERATED ALWAYS AS (1))
ALTER TABLE t ALTER COLUMN a SET EXPRESSION AS (2)
CREATE TABLE t (a int, PRIMARY KEY (a WITHOUT OVERLAPS))
CREATE TABLE t (a int CONSTRAINT c NOT NULL a)
ALTER TABLE t ADD CONSTRAINT c NOT NULL a
CREATE TABLE t (a text STORAGE plain)
CREATE STATISTICS ON a, b FROM t
ALTER TABLE t SPLIT PARTITION p INTO (PARTITION q FOR VALUES IN (1))
SELECT 1OR 2
SELECT 1 a 2
SELECT ANY_VALUE(a) FROM t
SELECT * FROM t FETCH FIRST 1 ROW WITH TIES
COPY t FROM STDIN (ON_ERROR ignore)
COPY t FROM STDIN (DEFAULT 'x')
CREATE ROLE x WITH (a = b)
REPLACE INTO t VALUES (1)
DELETE t WHERE id = 1
UPDATE t INNER JOIN u SET a = 1
SELECT TOP 5 * FROM t
SELECT * FROM t;;SELECT 1
INSERT INTO t SET a = 1
DROP TABLE t PURGE
EXEC p
USE db
KILL 1
BACKUP DATABASE d
SELECT "a"b FROM t
SELECT E'\x'
SELECT E'\u12'
SELECT U&'\zzzz'
SELECT U&'\d800'
SELECT B'12'
SELECT X'1g'
SELECT $$unterminated
SELECT $a$ x $b$
SELECT 'a' 'b'
SELECT +-+1
SELECT 1 +- 2
SELECT 1 --2
SELECT a := 1
SELECT f(a := 1)
SELECT f(a => 1)
SELECT f(VARIADIC a)
SELECT ARRAY[[1,2],[3,4]]
SELECT (1,2) OVERLAPS (3,4)
SELECT * FROM t AS OF SYSTEM TIME '1'
SELECT * FROM t@x
SELECT 1 !
SELECT ! 1
SELECT !!1
SELECT a.b.c.d.e FROM t
SELECT *.a FROM t
SELECT current_catalog, current_schema, user
SELECT user()
SELECT current_user()
SELECT left('a', 1), right('a', 1)
SELECT treat(a AS int)
CREATE OR REPLACE TRIGGER x BEFORE UPDATE ON t EXECUTE PROCEDURE f()
CREATE TABLE t ()
CREATE VIEW v AS INSERT INTO t VALUES (1)
CREATE RECURSIVE VIEW v (a) AS SELECT 1
EXPLAIN ANALYZE VERBOSE SELECT 1
EXPLAIN (ANALYZE maybe) SELECT 1
ALTER SYSTEM SET a TO DEFAULT
SET a.b.c = 1
SET TIME ZONE LOCAL
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED
BEGIN READ ONLY READ WRITE
COMMIT AND NO CHAIN
START TRANSACTION AND CHAIN
DECLARE c BINARY INSENSITIVE CURSOR FOR SELECT 1
FETCH BACKWARD ALL IN c
NOTIFY c, $1
PREPARE p (int) AS DELETE FROM t
PREPARE p AS DROP TABLE t
COPY (DROP TABLE t) TO STDOUT
WITH x AS (DROP TABLE t) SELECT 1
DO 'x' LANGUAGE plpgsql LANGUAGE plpgsql
LOCK TABLE t IN NO MODE
TRUNCATE
ANALYZE (VERBOSE, SKIP_LOCKED) t (a, b)
CLUSTER
REINDEX SYSTEM d
REINDEX (VERBOSE) SCHEMA s
""".split("\n")[1:-1]

_field = libpq._l.PQresultErrorField


def server_refuses(conn, text):
    """By its scanner or grammar, that is; any later error is an acceptance here."""
    r = C.c_void_p(libpq._l.PQprepare(conn.c, b"", text.encode(), 0, None))
    where = (_field(r, ord("F")) or b"").decode()
    message = (_field(r, ord("M")) or b"").decode()
    libpq._l.PQclear(r)
    return where in ("scan.l", "gram.y", "scansup.c", "parser.c"), message


def statements():
    with open(os.path.join(TOP, "tests/unit/sql_statements.txt"), encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if " :: " in line and not line.startswith("#"):
                yield line.split(" :: ", 1)[1]


# What psql asks of the catalog by itself.
PSQL = r"""\d \d+ \dt+ \di+ \ds+ \dv+ \dm+ \df+ \da \do \dO \dT+ \dTS+ \dC+ \dc+ \dD+ \dn+ \dp \ddp \du+ \dg \l+ \db+
\dx+ \dy+ \dF+ \dFp+ \dFd+ \dFt+ \dL+ \dl+ \dP+ \dRp+ \dAc \dAf \dAo \dAp \dconfig \drds \dX \dE+ \dew+ \des+ \det+ \z
\dS+""".split() + [r"\d+ users", r"\df+ mark", r"\sf mark", r"\dfS+ lower", r"\d pg_class"]


def classify(list_of_texts):
    data = b"".join(t.encode() + b"\0" for t in list_of_texts)
    return subprocess.run([BUILD + "/tool_sql_facts"], input=data, stdout=subprocess.PIPE, check=True,
                          timeout=60).stdout.decode().split("\n")[:-1]


tap = Tap()
temp = Temp("sqldiff")
pg = Pg(temp)
conn = libpq.Conn("host=%s port=%d user=postgres dbname=postgres" % (pg.sock, pg.port))
tap.ok(conn.up, "the throwaway server answers", conn.error)

texts = list(statements()) + NEWER
out = classify(texts)
tap.eq(len(out), len(texts), "%d texts, one answer for each" % len(texts))

differ, refused = [], 0
for text, line in zip(texts, out):
    theirs, message = server_refuses(conn, text)
    ours = not line.startswith("ok\t")
    refused += ours
    if ours != theirs:
        differ.append("%s\n  ours: %s\n  server: %s" % (text, line, message or "accepted"))
tap.ok(not differ, "every text is accepted or refused as by the server's own parser (%d refused)" % refused,
       "\n".join(differ))
tap.ok(refused > 40, "refusals are among them")

lists = os.path.join(temp.path, "lists")
os.mkdir(lists)
subprocess.run([os.path.join(TOP, "tests/tools/gen-pg-functions.sh"), lists], cwd=TOP, check=True, timeout=60,
               env=dict(os.environ, PGHOST=pg.sock, PGPORT=str(pg.port), PGUSER="postgres", PGDATABASE="template1"))
for name in ("pg_functions.tbl", "pg_operators.tbl", "pg_outnames.tbl"):
    same = filecmp.cmp(os.path.join(lists, name), os.path.join(TOP, "policy", name), shallow=False)
    tap.ok(same, "policy/%s is what this server has" % name,
           subprocess.run(["diff", os.path.join(TOP, "policy", name), os.path.join(lists, name)],
                          stdout=subprocess.PIPE).stdout.decode()[:2000])
volatile = pg.admin("SELECT DISTINCT proname FROM pg_proc WHERE provolatile = 'v'"
                    " AND pronamespace = 'pg_catalog'::regnamespace", "template1").split("\n")
with open(os.path.join(TOP, "policy/pg_functions.tbl"), encoding="utf-8") as f:
    allowed = f.read()
tap.eq([v for v in volatile if '"%s"' % v in allowed], [], "no volatile function is on the list of harmless ones")

with open(os.path.join(TOP, "policy/pg_func_effects.tbl"), encoding="utf-8") as f:
    named = [line.split('"')[1] for line in f if line.startswith("FN(")]
server = pg.admin("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace",
                  "template1").split("\n")
tap.eq([n for n in named if n not in server], [], "each function that has effects of its own is one of the server's")

# Attribute notation calls functions; without this the walk's care for it would be superstition.
pg.admin("CREATE FUNCTION mark(int) RETURNS text LANGUAGE sql AS $$ SELECT 'ran' $$", "postgres")
pg.admin("CREATE TABLE users (id int); INSERT INTO users VALUES (1)", "postgres")
for text in ("SELECT x.mark FROM abs(1) x", "SELECT (users.id).mark FROM users"):
    tap.eq(conn.query(text).rows, [["ran"]], "the server takes this for a call: " + text)
tap.eq(conn.query("SELECT u.mark FROM (SELECT 1) u").sqlstate, "42703", "and not this")

shown = subprocess.run(["psql", "-X", "-E", "-h", pg.sock, "-p", str(pg.port), "-U", "postgres", "-d", "postgres"],
                       input="\n".join(PSQL).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
queries = re.findall(r"\*+ QUERY \*+\n(.*?)\n\*{20,}", shown.stdout.decode(), re.S)
tap.ok(len(queries) > 60, "psql's own commands ask the catalog", len(queries))
tap.eq([q for q, line in zip(queries, classify(queries)) if not line.startswith("ok\tread\t")], [],
       "each of these %d queries is a read" % len(queries))
tap.done()
