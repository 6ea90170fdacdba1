#!/usr/bin/python3
"""Watching a run and telling it something, over the real broker, sandbox and a real PostgreSQL: streams for people and
machines, two watchers, one who does not read, pause, words of a person, stop, and core killed in between."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Http, Pg, Stack, Tap, Temp, run, wait_for
from fakemodel import Model

tap, temp = Tap(), Temp("watch")
ROOT = os.geteuid() == 0
BASE = [] if ROOT else ["--limits-optional"]
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY, v int); INSERT INTO orders SELECT g, g FROM generate_series(1,50) g;"
         "ALTER TABLE orders OWNER TO agent;")
ant = Model(temp, "ant")
st = Stack(temp, pg, http={"claude": Http(ant, kind="header", field="x-api-key", model="anthropic", address=None)}, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    POLICY = json.load(f)
for who, name in (("dana", "daemon"), ("omar", "bin")):
    POLICY["people"][who]["login"] = ["unix:" + name]
CHANGE = {"people": POLICY["people"], "targets": POLICY["targets"], "attempts": {"alarm": 2},
          "rules": POLICY["rules"] + [{"id": "never-drop", "forbid": {"effects": {"any": ["drop"]}}, "override": "never"}]}
st.build_policy(dict(CHANGE, serial=2))
st.start()


def opened():
    """The control socket for other users of this machine, as its group is where it is installed."""
    for p in (temp.path, st.state, st.state + "/run"):
        os.chmod(p, 0o755)
    os.chmod(st.state + "/run/control.sock", 0o666)


opened()
DAEMON, BIN = 1, 2


def as_user(uid, *args):
    argv = [CLI, *args, "--state", st.state] if args[0] != "message" else [CLI, args[0], "--state", st.state, *args[1:]]
    return run((["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []) + argv)


class Loop:
    """`cofferdam run` with the fake model, its workspace on this host."""

    def __init__(self, steps, *opts, out=subprocess.PIPE, **env):
        self.work = temp.path + "/w%d" % time.monotonic_ns()
        os.mkdir(self.work)
        os.chmod(self.work, 0o777)
        ant.play({"steps": steps})
        self.p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--workspace", self.work, "--model", "anthropic:fake-1",
                                   "--base-url", ant.origin, "--task", "look at it", *opts], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.PIPE, encoding="utf-8", env=dict(os.environ, **env))
        before = {r["run"] for r in st.records("run.start")}
        self.id = wait_for(lambda: next((r["run"] for r in st.records("run.start") if r["run"] not in before), None), 30) or \
            st.records("run.start")[-1]["run"]

    def has(self, name):
        return wait_for(lambda: os.path.exists(self.work + "/" + name), 60)

    def give(self, name):
        open(self.work + "/" + name, "w", encoding="ascii").close()

    def end(self):
        return self.p.communicate(timeout=90)

    def status(self):
        return wait_for(lambda: next((r["data"]["status"] for r in st.records("run.end") if r["run"] == self.id), None), 30)


def code(text):
    return {"tool": "run_command", "input": {"language": "bash", "command": text}}


def sql(text):
    return code("psql -h %s -U x -d crm -X -c \"%s\" 2>&1" % (pg.host, text))


def wait(name):
    return "touch /work/at-%s; while [ ! -e /work/%s ]; do sleep 0.05; done" % (name, name)


class Watcher:
    def __init__(self, run_id, uid=0):
        pre = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []
        self.p = subprocess.Popen(pre + [CLI, "attach", "--state", st.state, "--json", run_id], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.p.stdout), daemon=True)
        self.reader.start()

    def events(self):
        self.reader.join(90)
        return [json.loads(line) for line in self.lines]


# --- what a stream shows -------------------------------------------------------------------------------------------
EVIL = "\\033]0;owned\\007 \\033[31mred"
lp = Loop([{"text": "I look.", "tools": [sql("SELECT count(*) FROM orders")]},
           {"tools": [sql("DROP TABLE orders"), sql("DROP TABLE orders -- again"), sql("DROP TABLE orders -- and again")]},
           {"tools": [code("printf '" + EVIL + "'; psql -h %s -U x -d crm -X -c \"$(printf 'SELECT 1 -- %s')\" >/dev/null" % (pg.host, EVIL))]},
           {"text": "Done \x1b]2;title\x07 it is."}])
out, err = lp.end()
tap.ok(lp.p.returncode == 0, "a run with a stream ends", err)
tap.ok(re.search(r"^! allow: read on crm-db: SELECT count", out, re.M), "an action is shown with its verdict", out)
tap.ok(re.search(r"^!   ok, 1 rows", out, re.M), "and its outcome", out)
tap.ok(re.search(r"^! deny: drop on crm-db: DROP TABLE orders\n!   denied by policy: rule never-drop", out, re.M), "a refusal with its rule", out)
tap.has(out, "! ALARM: 2 tries at what was refused, on crm-db", "and the alarm that tries at it raise")
tap.has(out, "| I look.", "the model's words")
tap.ok("$ " in out and "= exit 0" in out or "exited" in out, "code and output", out)
tap.ok(not [c for c in out if ord(c) < 32 and c not in "\n\t"], "nothing of it is a control character", repr(out))
tap.ok("\\^[" in out or "\\033" in out or "\\x1b" in out, "which are made visible", out)
where = [out.find("! allow: read on crm-db: SELECT count"), out.find("$ bash"), out.find("I look.")]

lp = Loop([{"text": "I look.", "tools": [sql("SELECT count(*) FROM orders"), sql("DROP TABLE orders")]}, {"text": "Done."}], "--json")
out, err = lp.end()
events = [json.loads(line) for line in out.splitlines()]
log = {r["seq"]: r for r in st.records() if r.get("run") == lp.id}
tap.ok(events and all(set(e) <= {"at", "data", "left_out", "run", "seq", "src", "text", "type"} for e in events), "for machines, an object a line", out)
tap.ok(all(log[e["seq"]]["type"] == e["type"] and log[e["seq"]]["src"] == e["src"] for e in events), "each is a record of the log, by its place there")
tap.ok(all(e["data"] == log[e["seq"]]["data"] for e in events if e["src"] != "agent"), "what the broker observed comes as the log has it")
tap.eq([e["text"] for e in events if e["type"] == "agent.model"], ["I look.", "Done."], "with the text that is sealed there")
tap.eq([e["data"]["decision"]["verdict"] for e in events if e["type"] == "action" and e["data"]["request"]["target"] == "crm-db" and
        e["data"]["request"]["operation"] == "query"], ["allow", "deny"], "and the verdicts")


def on_terminal(**env):
    """The stream of a run that writes to a terminal."""
    master, slave = pty.openpty()
    lp = Loop([{"text": "I look.", "tools": [sql("DROP TABLE orders")]}, {"text": "Done."}], out=slave, TERM="xterm", **env)
    os.close(slave)
    got = b""
    while True:
        r, _, _ = select.select([master], [], [], 60)
        try:
            piece = os.read(master, 65536) if r else b""
        except OSError:
            break
        if not piece:
            break
        got += piece
    lp.end()
    os.close(master)
    return got.decode()


got = on_terminal(NO_COLOR="")
tap.ok("\x1b[1;31m! deny" in got and "\x1b[36m| I look." in got, "a terminal has colours", repr(got))
tap.ok("\x1b" not in on_terminal(NO_COLOR="1"), "unless NO_COLOR says no")

# --- nobody reads ---------------------------------------------------------------------------------------------------
r, w = os.pipe()
lp = Loop([{"tools": [code("head -c 400000 /dev/zero | tr '\\0' x | fold -w 100"),
                      code("touch /work/there")] * 5}, {"text": "Done."}], out=w)
os.close(w)
tap.eq(lp.status(), "done", "a run whose output nobody reads goes on to its end")
os.close(r)
lp.end()

# --- watchers --------------------------------------------------------------------------------------------------------
BIG = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo \"SELECT $i, length('$(head -c 9000 /dev/zero | tr '\\0' x)');\"; done"
lp = Loop([{"text": "First.", "tools": [code(wait("one"))]}, {"tools": [code("(%s) | psql -h %s -U x -d crm -X -q >/dev/null" % (BIG, pg.host)), code(wait("two"))]},
           {"text": "Done."}], "--quiet")
lp.has("at-one")
a, b, slow = Watcher(lp.id), Watcher(lp.id), Watcher(lp.id)
wait_for(lambda: len([x for x in st.records("run.watch") if x["run"] == lp.id]) == 3, 20)
wait_for(lambda: slow.lines, 20)
slow.p.send_signal(signal.SIGSTOP)
tap.eq([x["data"]["by"] for x in st.records("run.watch")], ["olivia"] * 3, "who watches is on the record")
lp.give("one")
tap.ok(lp.has("at-two"), "a watcher who does not read holds nothing up")
slow.p.send_signal(signal.SIGCONT)
lp.give("two")
ea, eb, es = a.events(), b.events(), slow.events()
lp.end()
tap.ok(ea[-1]["type"] == eb[-1]["type"] == "stream.end", "a stream says where it ends")
tap.ok("First." in [e.get("text") for e in ea if e["type"] == "agent.model"], "it begins with what was before")
seqs = [e["seq"] for e in ea if "seq" in e]
tap.eq(seqs, sorted(set(seqs)), "and is in the order of the log")
last = [e["seq"] for e in ea if e["type"] == "action"][-1]
tap.eq([e["seq"] for e in ea if e.get("seq", 0) > seqs[5]], [e["seq"] for e in eb if e.get("seq", 0) > seqs[5]], "two see the same")
left = sum(e["events"] for e in es if e["type"] == "stream.left_out")
tap.ok(left > 0 and len([e for e in es if "seq" in e]) + left >= len(seqs) - 4, "who did not read is told how much is left out",
       "%d left out, %d seen, %d in all" % (left, len(es), len(ea)))
log = [r["seq"] for r in st.records() if r.get("run") == lp.id]
tap.eq([s for s in log if s >= seqs[0]], seqs, "nothing is missing for who reads")

# --- who may -----------------------------------------------------------------------------------------------------------
lp = Loop([{"text": "I wait.", "tools": [code(wait("one"))]}, {"text": "Done."}], "--quiet")
lp.has("at-one")
if ROOT:
    r = as_user(DAEMON, "attach", lp.id)
    tap.ok(r.returncode != 0 and "for its owner" in r.stdout, "another person may not watch", r.stdout)
    tap.ok(as_user(DAEMON, "message", lp.id, "hello").returncode != 0, "nor tell it anything")
    tap.ok(as_user(DAEMON, "resume", lp.id).returncode != 0, "nor let it go on")
    tap.ok(as_user(61234, "attach", lp.id).returncode != 0, "nor may a stranger")
    tap.eq(as_user(DAEMON, "pause", lp.id).returncode, 0, "but any person may pause it")
    tap.eq(st.record("run.pause")["by"], "dana", "by their name")
    tap.eq(as_user(0, "resume", lp.id).returncode, 0, "its owner lets it go on")
    st.reload(dict(CHANGE, watch=["dba"]))
    wd = Watcher(lp.id, DAEMON)
    tap.ok(wait_for(lambda: st.records("run.watch")[-1]["data"]["by"] == "dana", 20), "who has a role that the policy's watch names may look")
    tap.ok(as_user(BIN, "attach", lp.id).returncode != 0, "who has another may not")
lp.give("one")
lp.end()
if ROOT:
    tap.ok(wd.events()[-1]["type"] == "stream.end", "until the end")

# --- pause -----------------------------------------------------------------------------------------------------------------
COUNT = "i=0; while [ ! -e /work/stop ]; do i=$((i+1)); echo $i > /work/n.tmp; mv /work/n.tmp /work/n; done"


def n():
    with open(lp.work + "/n", encoding="ascii") as f:
        return int(f.read())


lp = Loop([{"text": "I count.", "tools": [code(COUNT)]}, {"text": "Done."}], "--quiet")
lp.has("n")
tap.has(st.cli("pause", "--reason", "lunch", lp.id).stdout, "paused", "a run is paused")
wait_for(lambda: (x := n(), time.sleep(0.3))[0] == n(), 20)
at = n()
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core), 20)
wait_for(lambda: st.cli("status").returncode == 0, 20)
wait_for(lambda: '"live"' in st.cli("status", "--json").stdout or True, 5)
tap.eq(n(), at, "what runs in it stands still, also when core is killed")
tap.ok(wait_for(lambda: st.cli("resume", lp.id).returncode == 0, 30), "and goes on when it is let")
tap.ok(wait_for(lambda: n() > at, 30), "from where it was")
lp.give("stop")
lp.end()
tap.eq([lp.status(), st.records("run.pause")[-1]["data"].get("reason")], ["done", "lunch"], "to its end")
lp = Loop([{"text": "One.", "tools": [code(wait("one"))]}, {"text": "Two.", "tools": [code("echo two > /work/two")]}, {"text": "Done."}], "--quiet")
lp.has("at-one")
st.cli("pause", lp.id)
lp.p.kill()
lp.p.wait()
tap.eq(lp.status(), "lost", "a paused run whose agent is killed is lost")
tap.ok(wait_for(lambda: run(["pgrep", "-f", lp.work]).returncode != 0, 20), "and leaves no process behind")

# --- words -----------------------------------------------------------------------------------------------------------------
opened()


def heard():
    return json.dumps([h["body"]["messages"] for h in ant.heard()])


DELETE = sql("DELETE FROM orders WHERE id = 7")
lp = Loop([{"text": "I ask.", "tools": [DELETE, code(wait("one"))]}, {"text": "I see.", "tools": [code(wait("two"))]},
           {"text": "Again.", "tools": [DELETE]}, {"text": "Done."}], "--quiet")
lp.has("at-one")
rid = wait_for(st.pending, 20)[0]
tap.eq(st.sign("approve", rid, "dana").returncode, 0, "a person signs for what the run asks")
tap.ok(st.cli("message", lp.id, "x" * 4097).returncode != 0, "a message has an end")
r = run([CLI, "message", "--state", st.state, lp.id, "leave the \x1b[31mold ones"])
tap.ok(r.returncode == 0, "its owner tells it something", r.stdout)
if ROOT:
    r = as_user(DAEMON, "message", lp.id, "delete number seven, please")
    tap.ok(r.returncode == 0, "so does a person who may watch", r.stdout)
core = st.child("core")
os.kill(core, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, core), 20)
wait_for(lambda: "live" in st.cli("status").stdout, 20)
opened()
lp.give("one")
lp.has("at-two")
tap.ok("olivia, a person, says to you" in heard() and "old ones" in heard(), "the model is given it as that person's words", heard())
tap.eq(heard().count("old ones"), len([h for h in ant.heard() if "old ones" in json.dumps(h["body"])]), "once, though core was killed meanwhile")
tap.eq([m["data"]["by"] for m in st.records("run.message") if m["run"] == lp.id], ["olivia"] + ["dana"] * ROOT, "by name on the record")
tap.ok("delete number seven" not in json.dumps([m["data"] for m in st.records("run.message")]), "sealed as all content is")
if ROOT:
    tap.ok("delete number seven" in heard(), "also what the other said")
    st.sign("approve", rid, "omar")
    lp.give("two")
    lp.end()
    acts = [a for a in st.acts() if "delete" in a["request"]["input"]["effects"]]
    tap.eq([a["decision"]["verdict"] for a in acts], ["needs_approval"] * 2, "a signature by who gave it words does not count any more")
    tap.eq(acts[-1]["request"]["input"].get("words"), ["dana"], "and the record says who they are")
    lp2 = Loop([{"text": "I ask.", "tools": [DELETE, code(wait("one")), DELETE, code(wait("two"))]}, {"text": "Done."}], "--quiet")
    lp2.has("at-one")
    as_user(DAEMON, "message", lp2.id, "go on")
    rid = wait_for(st.pending, 20)[-1]
    r = st.sign("approve", rid, "dana")
    tap.ok(r.returncode != 0, "who gave it words cannot sign", r.stdout)
    tap.eq(st.record("approval.rejected")["reason"], "separation_of_duties", "and is told why, on the record")
    lp2.give("one")
    lp2.has("at-two")
    tap.ok(any("nobody can give" in x["data"]["decision"]["reason"] or x["data"]["decision"]["slots"] for x in st.records("action") if x["run"] == lp2.id),
           "a run that nobody else could sign for is told")
    lp2.give("two")
    lp2.end()
else:
    lp.give("two")
    lp.end()

# --- stop ---------------------------------------------------------------------------------------------------------------------
lp = Loop([{"text": "I wait.", "tools": [code(wait("never"))]}, {"text": "Done."}])
lp.has("at-never")
w = Watcher(lp.id)
wait_for(lambda: st.records("run.watch")[-1]["run"] == lp.id, 20)
r = st.cli("stop", "--reason", "enough of it", lp.id)
tap.ok(r.returncode == 0, "a run is stopped", r.stdout)
out, err = lp.end()
tap.ok((lp.status(), lp.p.returncode) == ("stopped", 1), "in order", err)
tap.has(st.records("run.end")[-1]["data"]["text"], "enough of it", "the end says by whom and why")
kinds = [r["type"] for r in st.records() if r.get("run") == lp.id]
tap.ok("agent.result" in kinds[kinds.index("run.stop"):], "what was done so far is on the record", kinds)
tap.eq([e["type"] for e in w.events()][-2:], ["run.end", "stream.end"], "who watches sees it")
lp = Loop([{"text": "I wait.", "tools": [code(wait("never"))]}, {"text": "Done."}], "--quiet")
lp.has("at-never")
st.cli("pause", lp.id)
st.cli("stop", lp.id)
lp.end()
tap.eq(lp.status(), "stopped", "so is one that is paused")
p = subprocess.Popen([CLI, "run", "--state", st.state, *BASE, "--", "sleep", "1000"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
wait_for(lambda: [r for r in st.records("agent.exec") if r["data"].get("argc") == 2], 30)
rid = [r["run"] for r in st.records("agent.exec") if r["data"].get("argc") == 2][-1]
st.cli("stop", rid)
p.communicate(timeout=60)
tap.eq([r["data"]["status"] for r in st.records("run.end") if r["run"] == rid], ["stopped"], "and a command")
tap.ok(st.cli("pause", lp.id).returncode != 0, "what is over cannot be paused")
pg.stop()
tap.done()
