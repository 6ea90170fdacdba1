#!/usr/bin/python3
"""Pruning: the oldest segments go, by a signed order and on the record; proofs, pins and what stays hold. Killed at each
system call it is finished by the next start, and whoever only deletes files is told."""
import atexit
import contextlib
import glob
import io
import json
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log  # noqa: E402
import sanitizers  # noqa: E402
from harness import BUILD, CLI, HostRun, Pg, Stack, Tap, Temp, run, wait_for  # noqa: E402

tap, temp = Tap(), Temp("prune")
T = temp.path
TOOL = BUILD + "/tool_append-log"
SMALL = "seg=4000"
os.environ["ASAN_OPTIONS"] = sanitizers.no_leaks()  # which does not work under strace


def tool(d, *args, inject=None):
    argv = [TOOL, d] + list(args)
    if inject:
        argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + inject.split(":")[0], "-e", "inject=" + inject] + argv
    return run(argv)


def prune(d, *args):
    return run([CLI, "log", "prune", "--state", d, *args])


def verdicts(d, *pins, python=True):
    c = run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"] + [w for p in pins for w in ("--pin", p)])
    out = io.StringIO()
    if not python:
        return (c.returncode,), c.stdout
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        p = verify_log.main(["", d + "/log", d + "/keys/log/vkey", *pins])
    return (c.returncode, p), c.stdout + out.getvalue()


def segs(d):
    return sorted(int(os.path.basename(p)[:20]) for p in glob.glob(d + "/log/seg/*.jsonl"))


def lines(d):
    return [x for p in sorted(glob.glob(d + "/log/seg/*.jsonl")) for x in open(p, "rb").read().splitlines(True)]


SHM = tempfile.mkdtemp(prefix="prune.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # many syncs, and no power is cut
atexit.register(shutil.rmtree, SHM, True)


def copy(src, name):
    d = SHM + "/" + name
    shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(src, d)
    return d


def tree(d):
    return {p: open(p, "rb").read() for p in glob.glob(d + "/log/**/*", recursive=True) if os.path.isfile(p)}


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


# --- a log of some runs: one ends early, one goes on behind the prune, one is not over ------------------------------
START = '{"agent":"a","budget":{},"level":"host","login":"root","owner":"olivia","targets":[],"task":"@"}'


def recs(name, rows):
    path = T + "/" + name
    with open(path, "w") as f:
        f.writelines("\t".join(r) + "\n" for r in rows)
    return "from=" + path


def notes(r, n):
    return [("agent.note", "agent", r, '{"content":"@","n":%d}' % i, "said by %s, %d" % (r, i)) for i in range(n)]


BASE = T + "/base"
tool(BASE, "1", SMALL, recs("early", [("run.start", "broker", "r-early", START, "task")] + notes("r-early", 12) +
                            [("run.end", "broker", "r-early", '{"status":"done","text":""}', "")]))
tool(BASE, "1", SMALL, recs("long", [("run.start", "broker", "r-long", START, "task")] + notes("r-long", 6)))
for i in range(6):
    tool(BASE, "1", SMALL, recs("mid", [("run.start", "broker", "r-mid%d" % i, START, "task")] + notes("r-mid%d" % i, 12) +
                                [("run.end", "broker", "r-mid%d" % i, '{"status":"done","text":""}', "")]))
write(BASE + "/keys/blob/r-long.key", bytes(32))
r = prune(BASE, "--before-seq", "100000")
tap.ok(r.returncode == 0 and "is not over" in r.stdout and "r-long" in r.stdout and "nothing was changed" in r.stdout,
       "a run that is not over holds all from its start on, and is named", r.stdout)
tool(BASE, "1", SMALL, recs("end", [("run.end", "broker", "r-long", '{"status":"done","text":""}', "")]))
for i in range(3):
    tool(BASE, "14", SMALL)
before = lines(BASE)
was = tree(BASE)
r = prune(BASE, "--before-seq", "70")
tap.ok(r.returncode == 0 and tree(BASE) == was, "without --yes nothing is changed", r.stdout)
m = re.search(r"(\d+) segments, records 0 to (\d+), (\d+) bytes would go", r.stdout)
tap.ok(m and int(m[2]) + 1 in segs(BASE) and int(m[2]) < 70, "it says how many segments, which records, how many bytes would go", r.stdout)
TO = int(m[2]) + 1 if m else 0
r = prune(BASE, "--before", "2020-01-01T00:00:00Z")
tap.ok(r.returncode == 0 and "nothing can go: " in r.stdout and "a segment goes as a whole" in r.stdout,
       "of what is younger than asked for nothing goes, and it is said why", r.stdout)
for day, n in (("2020-01-01", "nothing can go"), ("36500d", "nothing can go"), ("0s", "records 0 to ")):
    tap.has(prune(BASE, "--before", day).stdout, n, "--before takes what log query takes: %s" % day)
r = prune(BASE, "--keep-days", "0")
tap.ok(r.returncode == 0 and re.search(r"records 0 to \d+", r.stdout) and "start may begin to read here" in r.stdout,
       "of what is older all may go but for what the next start reads", r.stdout)
for args, words in (([], "0 are given"), (["--before-seq", "70", "--keep-days", "1"], "2 are given"), (["--before-seq", "70", "--yes"], "--reason TEXT"),
                    (["--before", "yesterday"], '--before must be as 2026-11-29T14:00:00Z, 2026-11-29, 90s, 15m, 2h or 7d, is "yesterday"'), (["--cancel", "--yes"], "stands alone"),
                    (["--keep-days", "x"], '"x"'), (["--before-seq", "-1"], '"-1"'), (["--force"], '"--force"')):
    r = prune(BASE, *args)
    tap.ok(r.returncode == 2 and words in r.stdout and tree(BASE) == was, "refused as usage, with what is wrong: %s" % " ".join(args or ["no limit"]), r.stdout)
PIN = write(T + "/pin", open(sorted(glob.glob(BASE + "/log/cp/*"))[-1], "rb").read())
OLD_PIN = write(T + "/old-pin", open([p for p in sorted(glob.glob(BASE + "/log/cp/*")) if int(p[-20:]) < TO][-1], "rb").read())
run([CLI, "log", "index", BASE])
run([CLI, "log", "export", "--state", BASE, "--cursor", T + "/cursor", "--output", T + "/out", "--format", "lines", "--type", "run.end"])

# --- ordered, and killed at each call of the start that carries it out ------------------------------------------------
r = prune(BASE, "--before-seq", "70", "--yes", "--reason", "older than we keep")
tap.ok(r.returncode == 0 and "ordered" in r.stdout and os.path.exists(BASE + "/log/prune"), "with --yes it is ordered", r.stdout)
tap.eq([verdicts(BASE)[0], [x for x in was if tree(BASE).get(x) != was[x] and "index" not in x]], [(0, 0), []],
       "which takes nothing away, and the log verifies as before")
r = prune(BASE, "--before-seq", "70", "--yes", "--reason", "again")
tap.ok(r.returncode == 2 and "an order to prune is there" in r.stdout, "a second order is refused while one waits", r.stdout)
d = copy(BASE, "cancelled")
r = prune(d, "--cancel")
tool(d, "1", SMALL)
tap.ok(r.returncode == 0 and segs(d)[0] == 0 and prune(d, "--cancel").returncode == 2, "an order can be taken away, once", r.stdout)

ORDERED = copy(BASE, "ordered")


def finished(d, python=True):
    """None, or what is wrong with a log whose prune must be done."""
    rcs, out = verdicts(d, PIN, OLD_PIN, python=python)
    if set(rcs) != {0} or "TAMPER" in out:
        return "does not verify: " + out
    if segs(d)[0] != TO or os.path.exists(d + "/log/prune") or glob.glob(d + "/log/kept/*.pack"):
        return "not done: begins at %d" % segs(d)[0]
    if lines(d)[: len(before) - TO] != before[TO:]:
        return "records that stay are others"
    return None


if run(["strace", "-qq", "-e", "trace=none", "true"]).returncode != 0:
    tap.ok(True, "killed at each call # SKIP strace cannot trace here")
else:
    d, trace = copy(ORDERED, "x"), T + "/trace"
    CALLS = "openat,fsync,fdatasync,pwrite64,renameat,unlinkat,faccessat2,faccessat,fchmod,flock,fallocate"
    run(["strace", "-f", "-qq", "-o", trace, "-e", "trace=" + CALLS, TOOL, d, "1", SMALL])
    n = {}
    for line in open(trace):
        if (m := re.match(r"\d+ +(\w+)\(", line)):
            n[m[1]] = n.get(m[1], 0) + 1
    tap.ok(n.get("unlinkat", 0) > segs(d)[0] // 30 and n.get("renameat", 0) > 3, "a clean start removes and renames", n)
    bad, at = [], 0
    for call, times in sorted(n.items()):
        for when in range(1, times + 1):
            for how in ("signal=SIGKILL", "error=EIO"):
                if call in ("openat", "faccessat", "faccessat2") and when % 5 or how == "error=EIO" and call not in ("unlinkat", "renameat", "fsync"):
                    continue
                d, at = copy(ORDERED, "x"), at + 1
                tool(d, "1", SMALL, inject="%s:%s:when=%d" % (call, how, when))
                rcs, out = verdicts(d, PIN, OLD_PIN, python=at % 5 == 0)
                if set(rcs) - {0, 3} or "TAMPER" in out:
                    bad.append((call, how, when, "before the next start: " + out))
                again = tool(d, "1", SMALL)
                why = again.stdout if again.returncode else finished(d, python=at % 5 == 1)
                if why:
                    bad.append((call, how, when, why))
    tap.eq(bad[:3], [], "killed or failed at each of %d places: what is there always verifies, and the next start finishes it" % at)

# --- done: what is said, proved, found, exported ---------------------------------------------------------------------------
was_blob = sum(os.path.getsize(p) for p in glob.glob(BASE + "/log/blob/*"))
tool(BASE, "1", SMALL)
tap.eq(finished(BASE), None, "the next start does it: the log holds old and newer pins, and what stays is what it was")
rcs, out = verdicts(BASE)
tap.ok(re.search(r"^pruned up to %d on 20\S+ by \w+: its records are not here, but for \d+ that were kept" % TO, out, re.M) and
       len(re.findall(r"^VERIFIED to size \d+.* \+ %d pruned" % TO, out, re.M)) == 2, "both verifiers say up to where, when and by whom it was pruned", out)
tap.ok(sum(os.path.getsize(p) for p in glob.glob(BASE + "/log/blob/*")) < was_blob, "contents that nobody needs are gone as well")
rec = [json.loads(x)["body"] for x in lines(BASE) if b'"type":"log.prune"' in x]
tap.ok(len(rec) == 1 and rec[0]["data"]["to"] == TO and rec[0]["data"]["from"] == 0 and rec[0]["data"]["reason"] == "older than we keep" and
       rec[0]["src"] == "operator" and rec[0]["data"]["segments"] > 1, "it is on the record", rec)
r = run([CLI, "log", "show", BASE, "--json"])
stay = [json.loads(x) for x in r.stdout.splitlines() if x.startswith("{")]
early = [x for x in stay if x["seq"] < TO]
tap.ok({x.get("run") for x in early} == {None, "r-long", "r-1"} and sum(x.get("run") == "r-long" for x in early) ==
       sum(b'"run":"r-long"' in x for x in before[:TO]), "of a run that goes on behind, all is kept; of others nothing", early)
tap.ok("records before %d were pruned" % TO in r.stdout, "log show says that there were more", r.stdout[-300:])
kept = [x["seq"] for x in early if x.get("run") == "r-long"][0]
gone = [json.loads(x)["body"]["seq"] for x in before[:TO] if b'"run":"r-early"' in x][3]
ORIGIN = json.loads(before[0])["body"]["data"]["origin"]
for seq, what in ((gone, "pruned"), (TO + 1, "that stays")):
    text = "%s#%d:%s:%d" % (ORIGIN, seq, json.loads(before[seq])["hash"], len(before))
    wrong = text.replace(text.split(":")[1], "0" * 64)
    tap.eq([run([CLI, "log", "verify-receipt", x, BASE]).returncode for x in (text, wrong)], [0, 1], "a receipt of a record %s is held, and no other" % what)


def prove(seq, *more):
    r = run([CLI, "log", "prove", str(seq), "--state", BASE, *more])
    if r.returncode == 0:
        p = write(T + "/proof", r.stdout.encode())
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            q = verify_log.main(["", "--proof", p, BASE + "/keys/log/vkey"])
        r.stdout = (run([CLI, "log", "verify-proof", p, "--keys", BASE + "/keys/log/vkey"]).returncode, q)
    return r


for cp in (PIN, OLD_PIN):
    tap.eq(prove(kept, "--checkpoint", cp).stdout, (0, 0), "a record that was kept is proved against a checkpoint from before")
r = prove(gone)
tap.ok(r.returncode == 1 and "record %d was pruned" % gone in r.stdout, "of one that was pruned it is said", r.stdout)
mine = write(T + "/mine", before[gone])
for cp in (PIN, OLD_PIN):
    tap.eq(prove(gone, "--checkpoint", cp, "--line", mine).stdout, (0, 0), "and who has its line proves it all the same")
r = prove(gone, "--line", write(T + "/mine", before[gone + 1]))
tap.ok(r.returncode == 1 and "is not record %d" % gone in r.stdout, "another record's line proves nothing", r.stdout)
for more in ([], ["--scan"]):
    r = run([CLI, "log", "query", BASE, "--run", "r-mid5", "--limit", "0", "--json", *more])
    tap.eq((r.returncode, sum('"run":"r-mid5"' in x for x in r.stdout.splitlines())), (0, 14), "what stays is found %s" % (more or ["by the index of before"])[0])
    r = run([CLI, "log", "query", BASE, "--run", "r-early", "--limit", "0", "--json", *more])
    tap.ok(r.returncode == 0 and "r-early" not in r.stdout and "records before %d were pruned" % TO in r.stdout, "of what is gone it is said", r.stdout)
r = run([CLI, "log", "export", "--state", BASE, "--output", T + "/out2", "--format", "lines"])
tap.ok(r.returncode == 0 and open(T + "/out2").readline().startswith('{"body":') and json.loads(open(T + "/out2").readline())["body"]["seq"] == TO,
       "an export begins with what is there", r.stdout)
r = run([CLI, "replay", "timeline", "--state", BASE, "r-long"])
tap.ok(r.returncode == 0 and "said by r-long, 0" in r.stdout and "pruned up to %d" % TO in r.stdout, "a run that was kept is told from its start on, with its contents", r.stdout[:1500])
r = run([CLI, "replay", "timeline", "--state", BASE, "r-early"])
tap.ok(r.returncode != 0 and "pruned" in r.stdout, "of a run that is gone it is said", r.stdout)

# --- starts -----------------------------------------------------------------------------------------------------------------
d = copy(BASE, "no-live")
for p in glob.glob(d + "/log/live/*"):
    os.unlink(p)
r = tool(d, "1", SMALL)
tap.eq((r.returncode, verdicts(d)[0]), (0, (0, 0)), "a start that must read all of it goes by hashes and what was kept")
d = copy(BASE, "deleted")
os.unlink(d + "/log/seg/%020d.jsonl" % segs(d)[0])
rcs, out = verdicts(d)
tap.ok(rcs == (1, 1) and len(re.findall("TAMPER at seq %d.*missing" % TO, out)) == 2, "a segment more than the record says is missing to both verifiers", out)
for p in glob.glob(d + "/log/live/*"):
    os.unlink(p)
r = tool(d, "1", SMALL)
tap.ok(r.returncode != 0 and "no signed record says that they were pruned" in r.stdout, "and a start that reads all of it refuses it", r.stdout)
d = copy(BASE, "back")
for p in glob.glob(d + "/log/cp/*"):
    if int(p[-20:]) > TO - 5:
        os.unlink(p)
shutil.copy(sorted(glob.glob(d + "/log/cp/*"))[-1], d + "/log/checkpoint")
for p in glob.glob(d + "/log/live/*"):
    os.unlink(p)
tap.ok(tool(d, "1", SMALL).returncode != 0 and verdicts(d)[0] == (1, 1), "nor does one whose newest checkpoint is of what was pruned start")

# --- orders that are none ------------------------------------------------------------------------------------------------------
OTHER = T + "/other"
tool(OTHER, "30", SMALL, "seed=9")


def forged(name, change):
    d = copy(ORDERED, name)
    os.chmod(d + "/log/prune", 0o600)
    change(d)
    r = tool(d, "1", SMALL)
    tap.ok(r.returncode == 0 and segs(d)[0] == 0 and "nothing is pruned" in r.stdout and not any(b"log.prune" in x for x in lines(d)),
           "nothing is removed: " + name.replace("-", " "), r.stdout)


def edit(path, old, new):
    os.chmod(path, 0o600)
    b = open(path, "rb").read()
    assert old in b
    write(path, b.replace(old, new, 1))


forged("an-order-that-nobody-signed", lambda d: edit(d + "/log/prune", b"older than we keep", b"older than we kept"))
forged("an-order-for-more-segments", lambda d: edit(d + "/log/prune", b"\n%d\n" % TO, b"\n%d\n" % segs(d)[-3]))
forged("an-order-of-another-key", lambda d: shutil.copy(OTHER + "/log/checkpoint", d + "/log/prune"))
forged("what-was-kept-is-less", lambda d: os.unlink(sorted(glob.glob(d + "/log/kept/*.jsonl"))[0]))
forged("leaf-hashes-are-not-there", lambda d: os.unlink(d + "/log/seg/%020d.leaves" % 0))
forged("leaf-hashes-are-others", lambda d: edit(d + "/log/seg/%020d.leaves" % 0, open(d + "/log/seg/%020d.leaves" % 0, "rb").read()[32:64], b"x" * 32))

# --- once more -------------------------------------------------------------------------------------------------------------------
for i in range(3):
    tool(BASE, "14", SMALL)
r = prune(BASE, "--keep-days", "0", "--yes", "--reason", "again")
tool(BASE, "1", SMALL)
rcs, out = verdicts(BASE, PIN, OLD_PIN)
tap.ok(r.returncode == 0 and segs(BASE)[0] > TO and rcs == (0, 0) and "pruned up to %d" % segs(BASE)[0] in out, "a log that was pruned is pruned again, and holds", r.stdout + out)
os.chmod(BASE + "/log/seg/%020d.jsonl" % segs(BASE)[0], 0o600)
edit(BASE + "/log/seg/%020d.jsonl" % segs(BASE)[0], b'"src":"agent"', b'"src":"human"')
r = prune(BASE, "--keep-days", "0", "--yes", "--reason", "to hide it")
tap.ok(r.returncode == 1 and not os.path.exists(BASE + "/log/prune") and "nothing of it is pruned" in r.stdout, "a log that does not verify is not pruned", r.stdout)

# --- the broker ---------------------------------------------------------------------------------------------------------------------
pg = Pg(temp)
pg.admin("CREATE TABLE contacts (id int); GRANT SELECT ON contacts TO agent")
st = Stack(temp, pg, start=False)
ORIGIN = "origin=test.example/log"
tool(st.state, "0", ORIGIN)  # with the key of the tool, so that it can fill segments between two lives of the broker
st.start()
a, b = HostRun(st), HostRun(st)
for r in (a, b):
    r.psql(pg, "SELECT count(*) FROM contacts")
    r.psql(pg, "GRANT ALL ON contacts TO PUBLIC")
a.end()
wait_for(lambda: any(x["run"] == a.id for x in st.records("run.end")))
st.stop()
for i in range(4):
    tool(st.state, "20", SMALL, ORIGIN)
r = prune(st.state, "--before-seq", "1000")
tap.ok("is not over" in r.stdout, "the run that the broker left is not over", r.stdout)
st.start()
wait_for(lambda: any(x["run"] == b.id for x in st.records("run.end")))
st.stop()
r = prune(st.state, "--before-seq", "1000", "--yes", "--reason", "broker")
tap.ok(r.returncode == 0 and "ordered" in r.stdout, "once it is, an order can be given", r.stdout)
st.start()
c = HostRun(st)
wait_for(lambda: not os.path.exists(st.state + "/log/prune"))
first = segs(st.state)[0]
out = c.psql(pg, "SELECT count(*) FROM contacts")
tap.ok(first > 0 and out.returncode == 0, "the broker that starts carries it out and serves", (first, out.stdout, open(st.broker_log).read()[-2000:]))
r = st.cli("replay", "timeline", b.id)
tap.ok(r.returncode == 0 and "GRANT ALL" in r.stdout, "a run of before whose end came after is told whole", r.stdout[-1500:])
r = st.cli("replay", "whatif")
n = re.search(r"^(\d+) actions: ", r.stdout, re.M)
tap.ok(r.returncode == 0 and n and int(n[1]) >= 5, "its verdicts come out again, by the policy of then", r.stdout)
c.end()
st.stop()
tap.eq(verdicts(st.state)[0], (0, 0), "and the log verifies")
tap.done()
