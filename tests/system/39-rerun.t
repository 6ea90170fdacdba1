#!/usr/bin/python3
"""A run again: its code in a fresh sandbox against the recorded answers; same, first divergence at each ordinal, no live traffic."""
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Http, Pg, Stack, Tap, Temp, run, wait_for  # noqa: E402
from origin import Origin  # noqa: E402

t = Tap()
temp = Temp("rerun")
pg = Pg(temp)
pg.admin("CREATE TABLE contacts (id int PRIMARY KEY, name text)")
pg.admin("INSERT INTO contacts SELECT g, 'contact ' || g FROM generate_series(1, 12) g")
pg.admin("ALTER TABLE contacts OWNER TO agent")
o = Origin(temp.path + "/o", "api.test")
answers = {"n": 0}
o.on("/count", lambda req, conn: count(req, conn))
st = Stack(temp, pg, http={"api": Http(o, seal="answers")}, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    policy = json.load(f)
policy["targets"]["crm-db"]["seal"] = "answers"
RULES = policy["rules"]
st.build_policy({"targets": policy["targets"], "rules": RULES, "serial": 2})
st.start()
os.mkdir(temp.path + "/tmp")
os.chmod(temp.path + "/tmp", 0o711)
os.environ["TMPDIR"] = temp.path + "/tmp"


def count(req, conn):
    answers["n"] += 1
    conn.reply(200, b"%d\n" % answers["n"], [("Content-Type", "text/plain")])


def perform(text, *opts):
    """A run of this script: its id."""
    path = temp.path + "/script.md"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    r = run([CLI, "run", "--state", st.state, "--task", "the task", "--script", path, *opts] +
            ([] if os.getuid() == 0 else ["--limits-optional"]), timeout=120)
    ids = re.findall(r"\br-[a-z0-9]+", r.stdout)
    if not ids:
        raise RuntimeError(r.stdout)
    return ids[0], r.stdout


def rerun(run_id, *args, state=None):
    return run([CLI, "replay", "rerun", "--state", state or st.state, *args, run_id], timeout=180)


def left():
    return os.listdir(temp.path + "/tmp")


STORY = """## say
I look first.

## code bash
psql -Atc 'SELECT count(*) FROM contacts'
psql -Atc 'SELECT nothing FROM contacts' || echo "exit $?"

## cell python
import subprocess
n = subprocess.run(["curl", "-sS", "-d", "x=1&y=2", "%s/count"], capture_output=True, text=True).stdout
print("the counter says", n)

## code bash
psql -c "UPDATE contacts SET name = 'you' WHERE id = 3"
psql -c "DELETE FROM contacts WHERE id = 4" || echo refused
psql -c "DROP TABLE contacts" || echo refused

## done
That is all.
""" % o.origin
first, out = perform(STORY)
statements = len(st.records("action"))
arrived, before = len(o.arrivals), pg.admin("SELECT string_agg(id || name, ',' ORDER BY id) FROM contacts")
r = rerun(first)
t.eq(r.returncode, 0, "a run whose code does the same again is the same")
t.ok(r.stdout.startswith("SAME\n") and "answers were not recorded" not in r.stdout, "it says so, and every answer was on the record", r.stdout)
t.has(r.stdout, "3 executions and ", "it counts what was the same")
t.eq((len(o.arrivals), len(st.records("action")), answers["n"]), (arrived, statements, 1),
     "nothing reached the server, and nothing was recorded in the log")
t.eq(pg.admin("SELECT string_agg(id || name, ',' ORDER BY id) FROM contacts"), before, "nor did the database have any of it")
t.eq(left(), [], "nothing of it is left")

# --- the first divergence, at each place -----------------------------------------------------
def diverging(at):
    """Four statements over one connection, of which one is another each time."""
    sql = ["SELECT %d" % i for i in range(4)]
    sql[at] = "SELECT '$u'"
    return "## code bash\nu=$(cat /proc/sys/kernel/random/uuid)\npsql -At %s >/dev/null\n\n## done\nx\n" % " ".join('-c "%s"' % q for q in sql)


wrong = []
for k in range(4):
    run_id, _ = perform(diverging(k))
    r = rerun(run_id)
    if r.returncode != 1 or "DIVERGED at action %d: another request" % (k + 2) not in r.stdout or "-- 1 executions and %d actions before" % (k + 1) not in r.stdout:
        wrong.append((k, r.returncode, r.stdout))
t.eq(wrong, [], "a statement that is another is named, at each of 4 places, and how much before it was the same")
LONG = "## code bash\nseq 100000; %s; seq 100000\n\n## done\nx\n"
t.eq(rerun(perform(LONG % "true")[0]).returncode, 0, "a long output, whose middle is left out, is the same")
for what in ("cat /proc/sys/kernel/random/uuid; ", ""), ("", "; cat /proc/sys/kernel/random/uuid"):
    r = rerun(perform("## code bash\n%sseq 100000%s\n\n## done\nx\n" % what)[0])
    t.ok(r.returncode == 1 and "another output" in r.stdout, "but not when its %s is another" % ("beginning" if what[0] else "end"), r.stdout)
run_id, _ = perform("## code bash\ncat /proc/sys/kernel/random/uuid\n\n## done\nx\n")
r = rerun(run_id)
t.ok(r.returncode == 1 and "DIVERGED at result of execution 1: another output" in r.stdout, "so is an output that is another, without any action", r.stdout)
run_id, _ = perform("## code bash\nread -r i </proc/sys/kernel/random/uuid; exit $((0x${i:0:4} % 250))\n\n## done\nx\n")
r = rerun(run_id)
t.ok(r.returncode == 0 or (r.returncode == 1 and "it ended otherwise" in r.stdout), "and an exit that is another", r.stdout)

# --- a changed program -----------------------------------------------------------------------
def workspace(name, text):
    d = "%s/%s" % (temp.path, name)
    os.makedirs(d, exist_ok=True)
    with open(d + "/job.sh", "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(d, 0o777)
    return d


JOB = "## code bash\n. ./job.sh\n\n## done\nx\n"
TWO = "psql -Atc 'SELECT 1'\npsql -Atc 'SELECT 2'\n"
same, changed, more = workspace("same", TWO), workspace("changed", TWO.replace("2", "3")), workspace("more", TWO + "psql -Atc 'SELECT 3'\n")
fewer, swapped = workspace("fewer", TWO.split("\n")[0] + "\n"), workspace("swapped", "psql -Atc 'SELECT 2'\npsql -Atc 'SELECT 1'\n")
job, _ = perform(JOB, "--workspace", same)
t.eq(rerun(job, "--workspace", same).returncode, 0, "with the workspace that it had a run is the same")
for d, what in ((changed, "DIVERGED at action 4: another request"), (more, "DIVERGED at action 5: one action more"),
                (fewer, "DIVERGED at action 3: an action is missing"), (swapped, "DIVERGED at action 2: the same actions in another order")):
    r = rerun(job, "--workspace", d)
    t.ok(r.returncode == 1 and what in r.stdout, "a program that was changed: " + what, r.stdout)

# --- people ----------------------------------------------------------------------------------
WAITS = "## code bash\nuntil psql -c 'DELETE FROM contacts WHERE id = 5'; do sleep 0.2; done 2>/dev/null\n\n## done\nx\n"
with open(temp.path + "/waits.md", "w", encoding="utf-8") as f:
    f.write(WAITS)
p = subprocess.Popen([CLI, "run", "--state", st.state, "--task", "t", "--script", temp.path + "/waits.md"] +
                     ([] if os.getuid() == 0 else ["--limits-optional"]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
request = wait_for(lambda: [x for x in st.pending() if "id = 5" in st.cli("show", x).stdout])[0]
for who in ("dana", "omar"):
    st.sign("approve", request, who)
waited = re.search(r"\br-[a-z0-9]+", p.communicate(timeout=60)[0])[0]
r = rerun(waited)
t.ok(r.returncode == 0 and re.search(r"[1-9]\d* of them refused as then", r.stdout), "a run that was refused until people signed is refused as often, then answered", r.stdout)

# --- other ways to ask -----------------------------------------------------------------------
WAYS = """## code bash
psql -v VERBOSITY=verbose -At <<'EOF'
BEGIN;
UPDATE contacts SET name = 'x' WHERE id = 6;
DELETE FROM contacts WHERE id = 6;
SELECT 'not reached';
ROLLBACK;
PREPARE p (int) AS SELECT name FROM contacts WHERE id = $1;
EXECUTE p (7);
COPY contacts TO STDOUT;
COPY contacts FROM PROGRAM 'id';
SELECT repeat('x', 300000);
EOF
psql -At -c "SELECT 1; DELETE FROM contacts; SELECT 2"
curl -sS -o /dev/null -w '%%{http_code} %%{content_type}\\n' -X DELETE %(o)s/echo
curl -sS -X DELETE %(o)s/echo
head -c 300000 /dev/zero | tr '\\0' y | curl -sS -T - %(o)s/count
curl -sSI %(o)s/echo | head -1
curl -sS %(o)s/a%%20b?q=1 -o /dev/null -w '%%{http_code}\\n'

## done
x
""".replace("\\\\", "\\") % {"o": o.origin}
ways, out = perform(WAYS)
arrived = len(o.arrivals)
r = rerun(ways)
t.ok(r.returncode == 0 and "answers were not recorded" not in r.stdout, "transactions, prepared statements, COPY, refusals of each kind, uploads and large answers come again", r.stdout + out)
t.eq(len(o.arrivals), arrived, "without a request to the server")

# --- what is not on the record ---------------------------------------------------------------
no_seal = json.loads(json.dumps(policy["targets"]))
del no_seal["crm-db"]["seal"]
st.reload({"targets": no_seal, "rules": RULES})
bare, _ = perform("## code bash\npsql -Atc 'SELECT 1' >/dev/null 2>&1; psql -Atc 'SELECT 2' >/dev/null 2>&1; true\n\n## done\nx\n")
r = rerun(bare)
t.ok(r.returncode == 0 and "-- 2 answers were not recorded, the first to record " in r.stdout, "answers that were not recorded are counted, and where they do not matter it is the same", r.stdout)
bare, _ = perform("## code bash\npsql -Atc 'SELECT 1'\n\n## done\nx\n")
r = rerun(bare)
t.ok(r.returncode == 3 and "UNDECIDED" in r.stdout, "where they do, it cannot be decided", r.stdout)
erased, _ = perform("## code bash\necho x\n\n## done\nx\n")
t.eq(rerun(erased).returncode, 0, "a run without any action is the same as well")
r = st.cli("log", "erase", "--subject", "run:" + erased, "--reason", "asked for", "--yes")
r = rerun(erased)
t.ok(r.returncode == 3 and "erased" in r.stdout, "a run that was erased cannot be run again, and that is said", r.stdout)
t.eq(rerun("r-nobody").returncode, 2, "nor one that is not there")

# --- nothing of it reaches anything, and nothing is left -------------------------------------
stays = workspace("stays", "psql -Atc 'SELECT 1'\ntouch began\nsleep 600\n")
p = subprocess.Popen([CLI, "replay", "rerun", "--state", st.state, "--workspace", stays, job], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
t.ok(wait_for(lambda: os.path.exists(stays + "/began"), 60), "while it is run again")
stage = temp.path + "/tmp/" + left()[0]


def names():
    """The processes of the stage: those that name it, and what descends from them."""
    ps = run(["ps", "-eo", "pid,ppid,comm,args"]).stdout.splitlines()[1:]
    rows = [(int(a), int(b), c, d) for a, b, c, d in (line.split(None, 3) for line in ps)]
    own = {a for a, b, c, d in rows if stage in d}
    for _ in rows:
        own |= {a for a, b, c, d in rows if b in own}
    return {a: c for a, b, c, d in rows if a in own}


procs = names()
again = [a for a in procs if open("/proc/%d/cmdline" % a, "rb").read().startswith(b"cofferdam-rerun")]
t.eq(len(again), 1, "in the place of upstream stands what answers from the record")
with open("/proc/%d/status" % again[0], encoding="ascii") as f:
    filtered = "Seccomp:\t2" in f.read()
t.ok(filtered or "asan" in BUILD, "which has a filter that knows no call to make a socket")  # a sanitizer's needs are not filtered
inet = set()
for table in ("tcp", "tcp6", "udp", "udp6"):
    with open("/proc/%d/net/%s" % (again[0], table), encoding="ascii") as f:
        inet |= {line.split()[9] for line in f.read().splitlines()[1:]}
held = [os.readlink("/proc/%d/fd/%s" % (again[0], f)) for f in os.listdir("/proc/%d/fd" % again[0])]
t.eq([x for x in held if x.startswith("socket:[") and x[8:-1] in inet], [], "and no socket of a network")
secrets = [pg.password.encode(), st.http["api"].secret.encode()]
found = []
for top, _, files in os.walk(stage):
    for f in files:
        try:
            with open(os.path.join(top, f), "rb") as b:
                text = b.read()
        except OSError:
            continue
        found += [f for x in secrets if x in text]
t.eq(found, [], "no recorded credential is in the stage")
p.send_signal(signal.SIGKILL)
p.wait()
t.ok(wait_for(lambda: not left() and not names(), 60), "killed, it leaves no process and no file", "%r %r" % (left(), names()))
pg.stop()
o.open = False
t.eq(rerun(first).returncode, 0, "it needs no server: with the database stopped it is the same")
t.done()
