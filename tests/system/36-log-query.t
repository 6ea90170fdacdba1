#!/usr/bin/python3
"""The index and what is found through it: a query shows what the log holds, and nothing else.

Real logs, made by the writer's store. The answer of a query is held against a plain reading of all
lines; the index is deleted, cut, forged and raced, and may change nothing of what is shown but the
time it takes.
"""
import atexit
import glob
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from harness import BUILD, Tap  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
T = tempfile.mkdtemp(prefix="log-query.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
rnd = random.Random(7)
ESC = "\x1b[2J\u202e\x9b31m"


def record(i):
    run = "r-%d" % (i // 400)
    if i % 2:
        return "outcome\tbroker\t%s\t%s\t\n" % (run, json.dumps({"action": "a-%d" % (i - 1), "status": rnd.choice(("ok", "error"))},
                                                               sort_keys=True, separators=(",", ":")))
    d = {"action": "a-%d" % i,
         "decision": {"grants": [{"person": "zoe", "role": "dba"}] if i % 10 == 0 else [], "reason": "as rule %d says" % (i % 7),
                      "rules": ["rule-%d" % (i % 7)], "verdict": rnd.choice(("allow", "allow", "deny", "needs_approval"))},
         "request": {"effects": sorted(rnd.sample(("read", "write", "delete"), rnd.randint(1, 2))),
                     "facts": {"relations": ["public.t%d" % (i % 50)]}, "input": {"agent": "bot-%d" % (i % 3), "owner": "anna"},
                     "sent": "%064x" % i, "target": rnd.choice(("prod", "staging"))}}
    if i == 4000:
        d["decision"]["reason"] = "hostile </script> " + ESC + " Grüße"
        d["request"]["input"]["agent"] = "bot" + ESC
    return "action\tbroker\t%s\t%s\t\n" % (run, json.dumps(d, sort_keys=True, ensure_ascii=False, separators=(",", ":")).replace(
        "\x9b", "\u009b"))


def build(name, first, count, **opts):
    d = "%s/%s" % (T, name)
    with open(d + ".from", "w") as f:
        f.writelines(record(i) for i in range(first, first + count))
    subprocess.run([TOOL, d, "1", "batch=500", "cp=500", "from=" + d + ".from"] + ["%s=%s" % o for o in opts.items()], check=True,
                   stdout=subprocess.DEVNULL)
    return d


def run(*args):
    return subprocess.run([CLI, "log"] + list(args), capture_output=True, text=True)


def seqs(state, *args):
    r = run("query", "--state", state, "--json", "--limit", "0", *args)
    if r.returncode != 0:
        raise AssertionError(r.stderr)
    return [json.loads(line)["body"]["seq"] for line in r.stdout.splitlines()]


def lines(state):
    return [line for f in sorted(glob.glob(state + "/log/seg/*.jsonl")) for line in open(f, "rb").read().splitlines(True)]


def index(state):
    return state + "/index/log.db"


N = 10000
LOG = build("base", 0, N, seg=2000000)
BODIES = [json.loads(x)["body"] for x in lines(LOG)]


def plain(fn):
    """What a reading of all lines finds, newest first."""
    return [b["seq"] for b in reversed(BODIES) if fn(b)]


def action(fn):
    return lambda b: b["type"] == "action" and fn(b["data"]["request"], b["data"]["decision"])


# --- each filter, through the index and without it, against a plain reading ---------------------
cut = BODIES[5000]["time"]
FILTERS = [
    (["--run", "r-7"], lambda b: b.get("run") == "r-7"),
    (["--type", "outcome"], lambda b: b["type"] == "outcome"),
    (["--type", "log.open", "--type", "log.close"], lambda b: b["type"] in ("log.open", "log.close")),
    (["--src", "agent"], lambda b: b["src"] == "agent"),
    (["--agent", "bot-2"], action(lambda q, d: q["input"]["agent"] == "bot-2")),
    (["--person", "zoe"], action(lambda q, d: d["grants"])),
    (["--person", "anna", "--target", "prod"], action(lambda q, d: q["target"] == "prod")),
    (["--effect", "delete"], action(lambda q, d: "delete" in q["effects"])),
    (["--effect", "delete", "--effect", "write"], action(lambda q, d: set(q["effects"]) & {"delete", "write"})),
    (["--verdict", "deny", "--rule", "rule-3"], action(lambda q, d: d["verdict"] == "deny" and d["rules"] == ["rule-3"])),
    (["--status", "error"], lambda b: b["data"].get("status") == "error"),
    (["--action", "a-4444"], lambda b: b["data"].get("action") == "a-4444"),
    (["--text", "PUBLIC.t48"], action(lambda q, d: q["facts"]["relations"] == ["public.t48"])),
    (["--text", "t48 needs_approval"],
     action(lambda q, d: q["facts"]["relations"] == ["public.t48"] and d["verdict"] == "needs_approval")),
    (["--text", "Grüße"], lambda b: "Grüße" in json.dumps(b, ensure_ascii=False)),
    (["--from", cut], lambda b: b["time"] >= cut),
    (["--to", cut, "--verdict", "deny"], action(lambda q, d: d["verdict"] == "deny")),
    (["--first", "4000", "--last", "4200"], lambda b: 4000 <= b["seq"] <= 4200),
    (["--run", "r-none"], lambda b: False),
]
for args, fn in FILTERS:
    want = plain(lambda b: fn(b) and ("--to" not in args or b["time"] <= cut))
    tap.ok(seqs(LOG, *args) == want and (want or "r-none" in args), "%s finds what a reading of all lines finds (%d)" % (
        " ".join(args) if cut not in args else args[0], len(want)))
    if seqs(LOG, "--scan", *args) != want or seqs(LOG, "--oldest", *args) != want[::-1]:
        tap.ok(False, "and so it does without an index, and backwards: %s" % args)
tap.eq(seqs(LOG), plain(lambda b: True), "without a filter all records come, newest first")
tap.ok(run("query", LOG + "/log", "--limit", "1").stdout == run("query", LOG, "--limit", "1").stdout != "",
       "a log directory alone is searched without an index")

r = run("query", "--state", LOG, "--verdict", "deny", "--limit", "5", "--json")
tap.ok(len(r.stdout.splitlines()) == 5 and "there are more" in r.stderr, "a limit is kept, and it says that there are more")
tap.ok(all(x.encode() + b"\n" in set(lines(LOG)) for x in r.stdout.splitlines()), "JSON lines are the log's own lines, byte by byte")
tap.eq([run("query", "--state", LOG, *a).returncode for a in
        (["--from", "yesterday"], ["--limit", "-1"], ["--text", "-- ;"], ["--nothing"], ["--run", "r-1"])], [2, 2, 2, 2, 0],
       "a filter that is none is refused; the nearest right one is not")
r = run("query", "--state", LOG, "--text", "hostile")
tap.ok(len(r.stdout.splitlines()) == 1 and "a-4000" in r.stdout and not set(r.stdout) & set("\x1b\x9b\u202e"),
       "what would move a terminal stands in the table as visible text", repr(r.stdout))
r = subprocess.run(["script", "-qec", "%s log query --state %s --text hostile --json" % (CLI, LOG), "/dev/null"], capture_output=True)
out = r.stdout.decode()
tap.ok("hostile" in out and not set(out) & set("\x1b\x9b\u202e"), "and in JSON on a terminal", repr(out))

# --- the index is derived ------------------------------------------------------------------------
fresh = run("index", "--state", LOG, "--rebuild")
tap.ok(fresh.returncode == 0 and "up to date" in fresh.stdout, "log index makes it anew", fresh.stderr)
before = open(index(LOG), "rb").read()
os.unlink(index(LOG))
run("index", "--state", LOG)
dump = [list(sqlite3.connect(x).iterdump()) for x in (index(LOG),)]
open(T + "/was.db", "wb").write(before)
tap.ok(dump[0] == list(sqlite3.connect(T + "/was.db").iterdump()), "an index that was deleted comes back the same")
tap.eq(os.stat(index(LOG)).st_mode & 0o777, 0o600, "only its owner reads it")

want = plain(action(lambda q, d: d["verdict"] == "deny"))


def damaged(what, change):
    change(index(LOG))
    tap.eq(seqs(LOG, "--verdict", "deny"), want, what)


def write(data):
    def change(path):
        with open(path, "wb") as f:
            f.write(data)
    return change


def sql(*statements):
    def change(path):
        db = sqlite3.connect(path)
        for s in statements:
            db.execute(s)
        db.commit()
        db.close()
    return change


damaged("an index that is no database is made anew", write(b"no database " * 1000))
damaged("an empty one, too", write(b""))
damaged("a cut one, too", lambda p: os.truncate(p, 4096 * 5))
damaged("one of another version, too", sql("PRAGMA user_version=99"))
damaged("one with a table too many, too", sql("CREATE TABLE t(x)"))
damaged("one with a trigger, too", sql("CREATE TRIGGER t AFTER INSERT ON block BEGIN DELETE FROM post; END"))
damaged("one that lost its newest block, too", sql("DELETE FROM post WHERE block=1", "DELETE FROM block WHERE n=1"))
damaged("one whose newest block has another leaf, too", sql("UPDATE block SET leaf=randomblob(32)"))
damaged("one whose places point between lines, too", sql(
    "UPDATE block SET places=substr(places,1,4000)||x'00000007'||substr(places,4005) WHERE n=0"))
damaged("one whose places are those of other records, too", sql(
    "UPDATE block SET places=substr(places,5,4)||substr(places,5) WHERE n=0",
    "UPDATE post SET bits=x'0000'||bits WHERE block=0 AND length(bits)<510"))
other = build("other", 50000, N, seed=9)
run("index", "--state", other)
damaged("one of another log, too", lambda p: shutil.copy(index(other), p))
every = (b"\xff" * 512).hex()
damaged("a forged one that names every record shows only those that match", sql("UPDATE post SET bits=x'%s'" % every))
os.unlink(index(LOG))
os.symlink(T + "/elsewhere.db", index(LOG))
r = run("query", "--state", LOG, "--limit", "1")
tap.ok(r.returncode != 0 and not os.path.exists(T + "/elsewhere.db"), "an index behind a link is not followed", r.stderr)
os.unlink(index(LOG))
tap.eq(seqs(LOG, "--verdict", "deny"), want, "without the link it is made")

# --- killed while it indexes; two at once ----------------------------------------------------------
bad = kills = 0
for k in range(12):
    for f in glob.glob(index(LOG) + "*"):
        os.unlink(f)
    p = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=pwrite64:signal=SIGKILL:when=%d" % (1 + k * 6),
                          BUILD + "/cofferdam-cmd", "log", "index", "--state", LOG], stdout=subprocess.DEVNULL)
    kills += p.wait() != 0
    bad += seqs(LOG, "--verdict", "deny") != want
tap.ok(bad == 0 and kills > 4, "killed at any write, it is brought up to date by the next query (%d kills)" % kills)
os.unlink(index(LOG))
many = [subprocess.Popen([CLI, "log", "query", "--state", LOG, "--verdict", "deny", "--limit", "0", "--json"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
outs = [p.communicate() for p in many]  # one by one: the others write into full pipes
tap.ok(all([json.loads(x)["body"]["seq"] for x in o.splitlines()] == want for o, _ in outs),
       "six queries at once on no index find the same", str([e for _, e in outs]))

# --- while the log is written, and a log that is not whole ------------------------------------------
seen = 0
writer = subprocess.Popen([TOOL, T + "/live", "20000", "batch=50", "cp=500", "seg=1000000"], stdout=subprocess.PIPE, text=True)
while seen < 20000:
    line = writer.stdout.readline()
    if not line:
        break
    if not line.startswith("ack") or int(line.split()[1]) < seen + 5000:
        continue
    seen = int(line.split()[1])
    got = seqs(T + "/live", "--oldest")
    if len(got) < seen or got != list(range(len(got))):
        break
writer.stdout.read()
writer.wait()
tap.ok(seen >= 15000 and writer.returncode == 0, "what was acknowledged is found while the log is written (%d)" % seen)


# --- what is not the index's ---------------------------------------------------------------------
mine = T + "/mine"
with open(mine, "w", encoding="ascii") as f:
    f.write("mine, and no index\n" * 100)
notes = sqlite3.connect(T + "/notes.db")
notes.execute("CREATE TABLE notes(t)")
notes.commit()
notes.close()
for path in (mine, T + "/notes.db", glob.glob(LOG + "/log/seg/*.jsonl")[0]):
    was = open(path, "rb").read()
    for args in (["query", "--limit", "1"], ["index"], ["index", "--rebuild"]):
        r = run(args[0], "--state", LOG, "--index", path, *args[1:])
        tap.ok(r.returncode == 2 and path + ": is there and no index" in r.stderr and open(path, "rb").read() == was,
               "a file that is no index is not taken for one: %s %s" % (os.path.basename(path)[-8:], " ".join(args)), r.stderr)
open(T + "/none", "w").close()
for path in (T + "/new", T + "/none"):
    for args in (["query", "--limit", "1"], ["index", "--rebuild"], ["query", "--limit", "1"]):
        r = run(args[0], "--state", LOG, "--index", path, *args[1:])
        tap.ok(r.returncode == 0, "a new one, an empty one and ours are: %s" % args[0], r.stderr)
for option, word, known in (("verdict", "denied", "deny"), ("src", "alien", "broker"), ("effect", "@data", "read"), ("effect", "remove", "delete")):
    r = run("query", "--state", LOG, "--" + option, word)
    tap.ok(r.returncode == 2 and r.stdout == "" and "--%s must be one " % option in r.stderr and 'is "%s"' % word in r.stderr,
           "a word that no record can have is an error, not an answer: %s %s" % (option, word), r.stderr)
    tap.ok(run("query", "--state", LOG, "--" + option, known).stdout != "", "and beside it %s finds" % known)


def hurt(seq, fn, *args, keep=False):
    d = T + "/hurt"
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(LOG, d)
    if not keep:
        shutil.rmtree(d + "/index")
    for f in sorted(glob.glob(d + "/log/seg/*.jsonl")):
        os.chmod(f, 0o600)
        all_of_it = open(f, "rb").read().splitlines(True)
        n = seq - int(os.path.basename(f)[:20])
        if 0 <= n < len(all_of_it):
            all_of_it[n] = fn(all_of_it[n])
            open(f, "wb").write(b"".join(all_of_it))
    return run("query", "--state", d, "--limit", "0", "--json", *(args or ("--verdict", "deny")))


def anew(old, new):
    """Other words of the same length in a line, with its own hash right."""
    def change(x):
        body = x[8:-76].replace(old, new, 1)
        return b'{"body":' + body + b',"hash":"' + hashlib.sha256(b"\0" + body).hexdigest().encode() + b'"}\n'
    return change


r = hurt(6000, lambda x: x.replace(b"action", b"oction", 1))
got = [json.loads(x)["body"]["seq"] for x in r.stdout.splitlines()]
tap.ok(r.returncode == 1 and "record 6000" in r.stderr and "log verify" in r.stderr and got == [s for s in want if s < 6000],
       "a log that is not whole is searched up to there, and it says so", r.stderr)
s = [x for x in want if x < 5000][0]
for what, old, new in (("is shown", b"anna", b"anno"), ("does not match any more", b'"deny"', b'"dent"')):
    r = hurt(s, anew(old, new), keep=True)
    tap.ok(r.returncode == 1 and "the log is not whole" in r.stderr and "record %d does not follow" % (s + 1) in r.stderr
           and [json.loads(x)["body"]["seq"] for x in r.stdout.splitlines()] == [x for x in want if x > s],
           "a record that was changed with its own hash, found through the index, is no answer: it %s" % what, r.stderr)
r = hurt(s, anew(b"anna", b"anna"), keep=True)
tap.ok(r.returncode == 0 and len(r.stdout.splitlines()) == len(want), "its own words are", r.stderr)
starts = [int(os.path.basename(f)[:20]) for f in sorted(glob.glob(LOG + "/log/seg/*.jsonl"))]
for k in (starts[1] - 1, 4095, 4096):
    r = hurt(k, anew(b'"v":1}', b'"v":1}'), "--first", str(k), "--last", str(k), keep=True)
    got = r.returncode, len(r.stdout.splitlines())
    r = hurt(k, anew(b'"mono":', b'"mono":1'), "--first", str(k), "--last", str(k), keep=True)
    year = hurt(k, anew(b'"time":"2', b'"time":"3'), "--first", str(k), "--last", str(k), keep=True)
    tap.ok(got == (0, 1) and (r.returncode, r.stdout) == (1, "") and (year.returncode, year.stdout) == (1, ""),
           "at the end of a segment and of a block, too: record %d" % k, (got, r, year))
r = hurt(len(BODIES) - 1, lambda x: x[:-20])
tap.ok(r.returncode == 0 and [json.loads(x)["body"]["seq"] for x in r.stdout.splitlines()] == want,
       "what a crash leaves at the end is no fault", r.stderr)
all_of_it = [CLI, "log", "query", "--state", LOG, "--limit", "0", "--json"]
with open("/dev/full", "w", encoding="ascii") as full:
    r = subprocess.run(all_of_it, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
tap.ok(r.returncode == 2 and b"standard output: cannot be written" in r.stderr, "what could not be written is no success", r)
p = subprocess.Popen(all_of_it, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
first = p.stdout.readline()
p.stdout.close()
tap.eq((json.loads(first)["body"]["v"], p.wait(60), p.stderr.read()), (1, 0, b""), "who reads one line and no more has what they wanted")
tap.done()
