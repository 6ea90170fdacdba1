#!/usr/bin/python3
"""Receipts: each answer names its record, a refusal too, and whoever keeps the name can tell later whether the log still
holds that record. HTTP has them always, PostgreSQL when the client asks; nobody else can give one."""
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log
from harness import CLI, PGBIN, Http, HostRun, Pg, Stack, Tap, Temp, run
from origin import Ca, Origin

tap, temp = Tap(), Temp("receipts")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1,9) g; ALTER TABLE t OWNER TO agent")
o = Origin(temp.path, "api.test", ca=Ca(temp.path + "/ca"))
o.on("/forged", lambda q, c: c.reply(200, "x", headers=[("Cofferdam-Receipt", "test.example/log#0:%s:1" % ("0" * 64)), ("X-Theirs", "1")]))
st = Stack(temp, pg, http={"api": Http(o, placeholder="API_TOKEN")})
LOG, KEYS = st.state + "/log", st.state + "/keys/log/vkey"
compared = []  # what both verifiers say of a receipt
verify_log.signed_by = functools.lru_cache(None)(verify_log.signed_by)  # of a log that grows
RECEIPT = re.compile(r"^test\.example/log#(\d+):([0-9a-f]{64}):(\d+)$")
r = HostRun(st)


def check(receipt, *args, log=LOG):
    c, out = run([CLI, "log", "verify-receipt", receipt, *args, log, "--keys", KEYS]), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        compared.append((receipt[:40], c.returncode, verify_log.main(["", "--receipt", receipt, log, KEYS])))
    return c


def names(receipt, type_="action"):
    """The record that it names, as the log has it."""
    m = RECEIPT.match(receipt or "")
    b = [x for x in st.records() if m and x["seq"] == int(m.group(1))]
    return b[0] if b and b[0]["type"] == type_ and int(m.group(3)) > b[0]["seq"] else {}


def fields(out):
    return re.findall(r"(?im)^cofferdam-receipt: *([^\r\n]*)", out)


def body(out):
    return out.replace("\r", "").split("\n\n", 1)[1]


# === HTTP ===================================================================================================
out = r.curl("api", "/", "-i").stdout
got = fields(out)
kept = [got[0] if got else ""]
a = names(kept[0])
tap.ok(" 200 " in out and len(got) == 1 and a["data"]["request"]["http"]["path"] == "/", "an answer that passes has one receipt, of its action's record", out[:600])
c = check(kept[0])
tap.ok(c.returncode == 0 and "HELD record %d " % a["seq"] in c.stdout, "which the log holds", c.stdout)
out = r.curl("api", "/", "-i", "-X", "POST", "-d", "x=1", "--http1.0").stdout
tap.ok(len(fields(out)) == 1 and names(fields(out)[0])["data"]["request"]["operation"] == "POST", "so has a change, whose answer waits for its record", out[:600])
kept.append(fields(out)[0])
out = r.curl("api", "/", "-i", "-X", "DELETE").stdout
got, p = fields(out), json.loads(body(out))
tap.ok(" 403 " in out and got == [p.get("receipt")] and names(got[0])["data"]["decision"]["verdict"] == "needs_approval",
       "a refusal has it as a field and as a member", out)
tap.eq(list(p), sorted(p), "which stands where its name belongs")
tap.ok(names(got[0])["data"]["action"] == p["action"] and check(got[0]).returncode == 0, "of the action that it names")
kept.append(got[0])
out = r.curl("api", "/", "-i", "-H", "Authorization: Bearer ghp_" + "a1B2" * 9).stdout
tap.ok(" 403 " in out and fields(out) == [json.loads(body(out)).get("receipt")] and check(fields(out)[0]).returncode == 0,
       "so has one for another reason", out)
n = len(o.arrivals)
out = r.curl("api", "/", "-i", "-H", "Cofferdam-Receipt: mine", "-H", "X-Mine: 1").stdout
seen = {k.lower(): v for k, v in o.arrivals[n].headers}
tap.ok("cofferdam-receipt" not in seen and seen.get("x-mine") == "1", "a client's own field of that name is not sent on, another is", seen)
tap.ok(RECEIPT.match(fields(out)[0]) and len(fields(out)) == 1, "nor given back")
out = r.curl("api", "/forged", "-i").stdout
tap.ok("x-theirs: 1" in out.lower() and len(fields(out)) == 1 and check(fields(out)[0]).returncode == 0,
       "a server's field of that name does not reach the client, another does", out[:600])

# === PostgreSQL ===============================================================================================
NOTICE = re.compile(r"NOTICE: +00000: cofferdam receipt: (\S+)")


def psql(sql, asks=True):
    dsn = r.dsn(pg) + (" options='-c cofferdam.receipt=%s'" % asks if isinstance(asks, str) else
                       " options='-c cofferdam.receipt=on -c extra_float_digits=2'" if asks else "")
    x = run([PGBIN + "/psql", "-X", "-v", "VERBOSITY=verbose", "-At", dsn, "-c", sql])
    return x.stdout, NOTICE.findall(x.stdout)


out, got = psql("SELECT v FROM t WHERE id = 1")
tap.ok([names(x).get("data", {}).get("request", {}).get("kind") for x in got][-1:] == ["query"] and "0" in out.split("\n"), "psql that asks for them gets a notice with the answer", out)
tap.ok(len(got) >= 1 and all(check(x).returncode == 0 for x in got), "whose receipt the log holds", got)
kept += got
out, got = psql("UPDATE t SET v = 1 WHERE id = 1; SELECT 7", True)
tap.ok("UPDATE 1" in out and got and names(got[-1]), "with a change, too", out)
out, got = psql("SHOW extra_float_digits", True)
tap.has(out, "2", "options beside it reach the server")
tap.ok("1" in psql("SELECT count(*) FROM t WHERE id = 1 AND current_setting('cofferdam.receipt', true) IS NULL", True)[0].split("\n"), "it itself does not")
out, got = psql("DELETE FROM t", True)
tap.ok("42501" in out and got and names(got[-1])["data"]["decision"]["verdict"] == "needs_approval" and check(got[-1]).returncode == 0, "a refusal has its receipt", out)
kept.append(got[-1])
out, got = psql("BEGIN; SELECT 1; COPY t TO PROGRAM 'true'; COMMIT", True)
tap.ok("42501" in out and got and all(names(x) for x in got), "so has one behind other statements", out)
out, got = psql("COPY t TO STDOUT", True)
tap.ok(out.count("\t0\n") >= 8 and got, "and what came by COPY", out)
for asks in (False, "off"):
    out, got = psql("SELECT v FROM t WHERE id = 2", asks)
    tap.ok("0" in out.split("\n") and "receipt" not in out, "who does not ask%s has none" % (" (off)" if asks else ""), out)
out, got = psql("SELECT 1", "maybe")
tap.ok("cofferdam.receipt" in out and "is not harmless" in out, "another value is refused by its name", out)
out, _ = psql("SELECT 1", "on -c search_path=t")
got = re.findall(r"NOTICE: +cofferdam receipt: (\S+)", out)  # while it connects libpq tells no SQLSTATE
tap.ok("search_path" in out and "is not harmless" in out, "a connection that is refused says why to who asks for receipts, too", out)
tap.ok(len(got) == 1 and check(got[0]).returncode == 0 and names(got[0])["data"]["decision"]["verdict"] == "deny", "and has its receipt", got)

# === the command ==============================================================================================
m = RECEIPT.match(kept[0])
for bad in ("", "x", "test.example/log#1:ab:2", kept[0].upper(), kept[0] + "0000000000000000000000", "#" + kept[0].split("#")[1],
            "test.example/log#%s:%s:%s" % (m.group(1), m.group(2), m.group(1)), kept[0].replace("#", "#0")):
    tap.eq(check(bad).returncode, 2, "not a receipt: usage (%s)" % bad[:24])
tap.eq(run([CLI, "log", "verify-receipt"]).returncode, 2, "none: usage")
tap.eq(check(kept[0], log=temp.path + "/none").returncode, 2, "no log there: usage")
for name, text in (("another log", "other.example/log" + kept[0][kept[0].index("#"):]),
                   ("another hash", kept[0].replace(m.group(2), "0" * 64)),
                   ("another record", kept[0].replace("#" + m.group(1), "#" + str(int(m.group(1)) - 1))),
                   ("a longer log", kept[0][:kept[0].rindex(":")] + ":999999")):
    c = check(text)
    tap.ok(c.returncode == 1 and "NOT HELD" in c.stdout, "not held: " + name, c.stdout)
r.end()
st.stop()
tap.ok(all(check(x).returncode == 0 for x in kept), "stopped, the log holds them all (%d)" % len(kept))

# === a log that was set back, one that was written anew ==========================================================
short = temp.path + "/short"
shutil.copytree(LOG, short)
seg = short + "/seg/" + sorted(n for n in os.listdir(short + "/seg") if n.endswith(".jsonl"))[-1]
with open(seg, "rb") as f:
    lines = f.read().split(b"\n")
first = int(m.group(1))
with open(seg, "wb") as f:
    f.write(b"\n".join(lines[:first + 1]) + b"\n")
for n in os.listdir(short + "/cp"):
    if int(re.match(r"\d+", n).group(0)) > first + 1:
        os.remove(short + "/cp/" + n)
for n in ("checkpoint",):
    if os.path.exists(short + "/" + n):
        os.remove(short + "/" + n)
c = run([CLI, "log", "verify", short, "--keys", KEYS])
tap.ok(c.returncode in (0, 3), "a log set back, with its checkpoints, looks whole to who knows nothing", c.stdout)
c = check(kept[-1], log=short)
tap.ok(c.returncode == 1 and "set back" in c.stdout, "a receipt tells", c.stdout)
early = "test.example/log#%d:%s:%d" % (first, m.group(2), first + 1)
tap.eq(check(early, log=short).returncode, 0, "what it still holds, it holds")

# Another history by the same key: the state as it began, and the same done again.
again = Temp("receipts-again")
fresh = again.path + "/state"
shutil.copytree(st.state, fresh, symlinks=True)
with open(LOG + "/" + os.path.relpath(seg, short), "rb") as f:
    whole = f.read()
line = whole.split(b"\n")[first]
body_ = json.loads(line)["body"]
body_["time"] = body_["time"][:-2] + ("1" if body_["time"][-2] != "1" else "2") + "Z"
text = json.dumps(body_, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
with open(fresh + "/log/" + os.path.relpath(seg, short), "wb") as f:
    f.write(whole.replace(line, b'{"body":' + text + b',"hash":"' + hashlib.sha256(b"\0" + text).hexdigest().encode() + b'"}'))
c = check(kept[0], log=fresh + "/log")
tap.ok(c.returncode == 1 and "NOT HELD" in c.stdout, "a record that was written anew, with its hash, is told", c.stdout)
tap.eq(([x for x in compared if x[1] != x[2]], sorted({x[1] for x in compared})), ([], [0, 1, 2]),
       "the independent verifier says the same of each of these (%d)" % len(compared))
tap.done()
