#!/usr/bin/python3
"""Cases of the log taken from public bug reports, over the real broker and a real PostgreSQL where a broker is in them.

Each part is named after its case (AUD-01 ...). What is written to the log directory from outside while the broker runs is done as root or
as who runs the broker: nobody else can.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, PGBIN, TOP, HostRun, Pg, Stack, Tap, Temp, must, run, wait_for

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, time and memory say nothing
tap = Tap()
temp = Temp("audit-cases")
TOOL = BUILD + "/tool_append-log"
PY = TOP + "/tests/verify_log.py"


def verify(log, keys, *pins):
    r = run([CLI, "log", "verify", log, "--keys", keys] + [w for p in pins for w in ("--pin", p)])
    return r.returncode, r.stdout


def lines(log):
    return [x for p in sorted(glob.glob(log + "/seg/*.jsonl")) for x in open(p, "rb").read().splitlines(True)]


def last_segment(log):
    return sorted(glob.glob(log + "/seg/*.jsonl"))[-1]


def copy(name, of):
    shutil.rmtree(temp.path + "/" + name, ignore_errors=True)
    shutil.copytree(of, temp.path + "/" + name, symlinks=True)
    return temp.path + "/" + name


def rewrite(path, f):
    os.chmod(path, 0o600)
    with open(path, "rb") as h:
        old = h.read()
    with open(path, "wb") as h:
        h.write(f(old))


# --- AUD-01: the newest records are cut off ------------------------------------------------------------------
base = temp.path + "/ten"
must([TOOL, base, "9", "batch=1", "cp=1"])
KEYS, LOG = base + "/keys/log/vkey", base + "/log"
n = len(lines(LOG))
pin = temp.path + "/pin"
with open(pin, "w", encoding="utf-8") as f:
    f.write(must([CLI, "log", "head", LOG, "--keys", KEYS]))
tap.eq(verify(LOG, KEYS, pin)[0], 0, "AUD-01: as it was written it is verified, with its head kept elsewhere")


def cut(b):
    return b"".join(b.splitlines(True)[:-2])


def bare(d):
    """No head left in the directory that says more than the records do."""
    for p in glob.glob(d + "/cp/*") + [d + "/checkpoint"]:
        os.unlink(p)


more = temp.path + "/more"
shutil.copytree(base, more)
rewrite(last_segment(more + "/log"), cut)
for p in [p for p in glob.glob(more + "/log/cp/*") if int(os.path.basename(p)) > n - 2] + [more + "/log/checkpoint"]:
    os.unlink(p)
must([TOOL, more, "2"])  # well-formed ones, signed by the log's own key
for what, change, word in [
        ("the last two dropped", lambda d: rewrite(last_segment(d), cut), r"at seq %d to %d: cut: .*has %d records, signed are %d" % (n - 2, n - 1, n - 2, n)),
        ("the file emptied", lambda d: rewrite(last_segment(d), lambda b: b""), r"at seq 0 to %d: cut: .*has 0 records, signed are %d" % (n - 1, n)),
        ("the file deleted", lambda d: os.unlink(last_segment(d)), r"at seq 0 to %d: cut: .*has 0 records, signed are %d" % (n - 1, n))]:
    d = copy("cut", LOG)
    change(d)
    rc, out = verify(d, KEYS)
    tap.ok(rc == 1 and re.search(word, out), "AUD-01: %s, and what is left of the directory says so" % what, out)
    bare(d)
    rc, out = verify(d, KEYS, pin)
    tap.ok(rc == 1 and re.search(word, out), "AUD-01: and with all heads taken out of it the one kept elsewhere does", out)
rc, out = verify(more + "/log", KEYS, pin)
tap.ok(rc == 1 and "rewritten" in out, "AUD-01: two new records in their place, signed: not what the head kept elsewhere covers", out)
d = copy("cut", LOG)
bare(d)
rc, out = verify(d, KEYS)
tap.ok(rc == 1 and "%d unsigned" % n in out and "is not there, but was signed" in out, "AUD-01: with no head at all nothing is called verified, and that there were some is said", (rc, out))

# --- AUD-07: what is hashed is what is stored ----------------------------------------------------------------


def again(line, how):
    """The line with its BODY written another way, and the hash that belongs to that."""
    m = re.fullmatch(rb'\{"body":(.*),"hash":"([0-9a-f]{64})"\}\n', line) or re.fullmatch(rb'\{"body":(.*),"leaf":"([0-9a-f]{64})"\}\n', line)
    body = how(m[1])
    return line.replace(m[1], body).replace(m[2], hashlib.sha256(b"\0" + body).hexdigest().encode()) if m else line


def turned(body):
    return json.dumps(dict(reversed(list(json.loads(body).items()))), separators=(",", ":")).encode()


def doubled(body):
    return body[:-1] + b"," + re.search(rb'"v":\d+', body)[0] + b"}"


for what, how in (("its members in another order", turned), ("a member twice", doubled), ("a space more", lambda b: b.replace(b'":', b'": ', 1)),
                  ("a number written as 1e0", lambda b: b.replace(b'"v":1', b'"v":1e0'))):
    d = copy("odd", LOG)
    rewrite(last_segment(d), lambda b: b"".join(again(x, how) if i == 4 else x for i, x in enumerate(b.splitlines(True))))
    rc, out = verify(d, KEYS)
    py = run([sys.executable, PY, d, KEYS])
    tap.ok(rc == 1 and "at seq 4" in out and py.returncode == 1 and "at seq 4" in py.stdout,
           "AUD-07: a line with %s and the hash of that is no record, say both verifiers" % what, out + py.stdout)

# --- AUD-06: rotation ----------------------------------------------------------------------------------------
d = temp.path + "/turns"
must([TOOL, d, "300", "batch=3", "seg=2000"])
heads = [json.loads(open(p, "rb").readline())["body"] for p in sorted(glob.glob(d + "/log/seg/*.jsonl"))]
tap.ok(len(heads) > 20 and all(h["type"] == "log.segment" and h["data"]["size"] == h["seq"] and len(h["data"]["root"]) == 64 for h in heads[1:]),
       "AUD-06: %d segments in a second: each begins with size and root of what went before" % len(heads), heads[:2])
tap.eq(sorted(json.loads(x)["body"]["seq"] for x in lines(d + "/log")), list(range(len(lines(d + "/log")))), "AUD-06: nothing is lost or doubled")
tap.eq(verify(d + "/log", d + "/keys/log/vkey")[0], 0, "AUD-06: and all of it verifies")
for p in sorted(glob.glob(d + "/log/seg/*"))[:6]:
    os.unlink(p)
rc, out = verify(d + "/log", d + "/keys/log/vkey")
tap.ok(rc == 1 and re.search("at seq 0 to [0-9]+: missing", out), "AUD-06: without the first of them the rest is not called verified, and where it begins is said", out)

# --- AUD-11: a long log ---------------------------------------------------------------------------------------
d = temp.path + "/long"
must([TOOL, d, "200000", "batch=512", "cp=1000"])
r = subprocess.Popen([CLI, "log", "verify", d + "/log", "--keys", d + "/keys/log/vkey"], stdout=subprocess.PIPE, encoding="utf-8")
out = r.stdout.read()
_, status, use = os.wait4(r.pid, 0)
r.returncode = os.waitstatus_to_exitcode(status)
tap.ok(r.returncode == 0 and re.search(r"\b200\d\d\d\b", out), "AUD-11: 200,000 records are verified, and how many they are is said", out)
tap.ok(SANITIZED or use.ru_maxrss < 160 << 10, "AUD-11: in memory that does not grow with them", use.ru_maxrss)
QUERY = [CLI, "log", "query", d + "/log", "--index", temp.path + "/long.db", "--json"]
query = lambda *a: subprocess.run(QUERY + list(a), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", timeout=60)  # it tells of progress there
r = query("--first", "150000", "--last", "150000")
tap.ok(r.returncode == 0 and [json.loads(x)["body"]["seq"] for x in r.stdout.splitlines()] == [150000], "AUD-11: record 150,000 is found by its number", r.stdout)
r = query("--first", "1000", "--limit", "0", "--oldest")
tap.eq(len(r.stdout.splitlines()), len(lines(d + "/log")) - 1000, "AUD-11: a list has no ceiling of its own")
del r

# --- with a broker ----------------------------------------------------------------------------------------------
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'x' FROM generate_series(1,5) g; ALTER TABLE t OWNER TO agent;")
pg.log_statements()
st = Stack(temp, pg)
LOG = st.state + "/log"
host = HostRun(st)

# AUD-02: one chain, whoever asks
script = temp.path + "/one.sql"
with open(script, "w", encoding="ascii") as f:
    f.write("SELECT 1;\n")
before = len(st.records("action"))
benches = [subprocess.Popen([PGBIN + "/pgbench", "-n", "-c", "4", "-j", "4", "-t", "25" if SANITIZED else "100", "-f", script, host.dsn(pg)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") for _ in range(8)]
outs = [b.communicate()[0] for b in benches]
want = 8 * 4 * (25 if SANITIZED else 100)
tap.ok(all(b.returncode == 0 for b in benches), "AUD-02: 8 processes of 4 threads each, all at once", outs[0])
wait_for(lambda: len(st.records("outcome")) >= len(st.records("action")))
done = [r for r in st.records("action") if r["data"]["request"].get("sql") == "SELECT 1" or "connect" not in json.dumps(r["data"]["request"])]
tap.ok(len(done) >= want, "AUD-02: each of the %d statements has its record" % want, len(done))
seqs = [r["seq"] for r in st.records()]
tap.eq(seqs, list(range(len(seqs))), "AUD-02: in one chain without a gap")
second = run([BUILD + "/cofferdam-broker", "--state", st.state], timeout=60)
tap.ok(second.returncode != 0 and re.search("already|another|in use|held|runs", second.stdout), "AUD-02: a second broker on the same state does not start, and says why",
       second.stdout)
rc = st.verify()
tap.ok(rc.returncode in (0, 3), "AUD-02: and the log verifies", rc.stdout)

# AUD-10: what is too large has a record, too
big = "SELECT '%s'" % ("a" * (20 << 20))
with open(temp.path + "/big.sql", "w", encoding="ascii") as f:
    f.write(big)
before = len(st.records("action"))
r = run([PGBIN + "/psql", "-X", "-At", "-f", temp.path + "/big.sql", host.dsn(pg)], timeout=120)
wait_for(lambda: len(st.records("action")) > before)
tap.ok(len(st.records("action")) > before, "AUD-10: a statement of 20 MB is on the record, whatever came of it", r.stdout[-300:])
small = [host.psql(pg, "SELECT %d" % i) for i in (41, 42, 43)]
tap.eq([s.stdout.strip() for s in small], ["41", "42", "43"], "AUD-10: and three small ones after it are answered")
r = st.cli("log", "query", "--text", "SELECT", "--limit", "10")
tap.ok(r.returncode == 0, "AUD-10: what stands behind it is found", r.stdout)
tap.ok(st.verify().returncode in (0, 3), "AUD-10: and verifies")

# AUD-05: the file is not what is written to any more
host.end()
st.stop()
whole = temp.path + "/whole"
shutil.copytree(LOG, whole, symlinks=True)


def owned(path):
    """As the writer left it: its user's."""
    s = os.stat(whole)
    for d, dirs, files in os.walk(path):
        for f in [d] + [d + "/" + x for x in dirs + files]:
            os.lchown(f, s.st_uid, s.st_gid) if os.geteuid() == 0 else None


def restore():
    shutil.rmtree(LOG)
    subprocess.run(["cp", "-a", whole, LOG], check=True)


def moved(path):
    os.rename(path, temp.path + "/away")


def null(path):
    moved(path)
    os.symlink("/dev/null", path)


def swapped(path):
    """A copy in its place, byte for byte: another file."""
    moved(path)
    subprocess.run(["cp", "-a", temp.path + "/away", path], check=True)


def folder(path):
    d = os.path.dirname(path)
    shutil.rmtree(temp.path + "/away-dir", ignore_errors=True)
    os.rename(d, temp.path + "/away-dir")
    subprocess.run(["cp", "-a", temp.path + "/away-dir", d], check=True)


for what, change in (("deleted", os.unlink), ("moved away", moved), ("cut to nothing", lambda p: os.truncate(p, 0)), ("a link to /dev/null", null),
                     ("another file with the same bytes", swapped), ("in a directory that was moved away", folder),
                     ("longer by a line that nobody wrote", lambda p: open(p, "ab").write(b"x\n"))):
    restore()
    st.start()
    host = HostRun(st)
    tap.eq(host.psql(pg, "SELECT 1").stdout.strip(), "1", "AUD-05: with its log as it should be the broker answers") if what == "deleted" else None
    mark = "SELECT 'aud-05-%s'" % what.replace(" ", "-").replace("/", "")
    os.path.exists(temp.path + "/away") and os.unlink(temp.path + "/away")
    change(last_segment(LOG))
    r = host.psql(pg, mark, timeout=60)
    tap.ok(r.returncode != 0 and mark not in pg.server_log(), "AUD-05: the segment is %s: the next statement is refused and not sent" % what, r.stdout)
    with open(st.broker_log, encoding="utf-8", errors="replace") as f:
        said = f.read()
    tap.ok(wait_for(lambda: re.search("the decision log stops: ", open(st.broker_log, encoding="utf-8", errors="replace").read()), 20),
           "AUD-05: and the broker's own log says that the decision log stops", said[-800:])
    host.kill()
    st.broker.terminate()
    st.broker.wait(30)
    st.broker = None
    os.unlink(st.broker_log)

# ... or an old record of it
restore()
st.start()
host = HostRun(st)
ok = host.psql(pg, "SELECT 1")
path = sorted(glob.glob(LOG + "/seg/*.jsonl"))[0]
with open(path, "r+b") as f:
    f.seek(os.path.getsize(whole + "/seg/" + os.path.basename(path)) // 2)
    byte = f.read(1)
    f.seek(-1, 1)
    f.write(b"#" if byte != b"#" else b"%")
tap.ok(wait_for(lambda: st.records("log.damage"), 60), "AUD-05: a byte of an old record changed while the broker runs is found by itself, and recorded")
damage = (st.records("log.damage") or [{"data": {}}])[0]["data"]
tap.ok(damage.get("kind") == "changed" and damage.get("seq", 0) > 0, "AUD-05: with the record that it is", damage)
tap.ok(wait_for(lambda: "DAMAGE   changed at record %d" % damage["seq"] in st.cli("status").stdout, 10), "AUD-05: status says so", st.cli("status").stdout)
tap.eq(json.loads(st.cli("status", "--json").stdout).get("log_damage", "")[:7], "changed", "AUD-05: to machines as well")
tap.eq(host.psql(pg, "SELECT 7").stdout.strip(), "7", "AUD-05: what comes now is still recorded and done")
with open(path, "r+b") as f:
    f.seek(os.path.getsize(whole + "/seg/" + os.path.basename(path)) // 2)
    f.write(byte)
tap.ok(wait_for(lambda: "DAMAGE" not in st.cli("status").stdout, 90), "AUD-05: put back, it is not called damaged any more", st.cli("status").stdout)
tap.eq(len(st.records("log.damage")), 1, "AUD-05: one damage is one record")
host.end()
tap.done()
