#!/usr/bin/python3
"""The timeline of one run: claims held against records, what stands around a run, the terminal, the report."""
import atexit
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from harness import BUILD, Tap, wait_for  # noqa: E402
from story import CLI, RULES, Story, action_id, bundle, replay  # noqa: E402

T = tempfile.mkdtemp(prefix="timeline.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
TEXT, DIGEST = bundle(T)


def story(task="Count the contacts."):
    s = Story()
    s.policy(TEXT, DIGEST)
    s.start(task)
    return s


def marks(s, **opts):
    """(record, kind, hard) of everything that is marked, and the whole output."""
    rc, out, err = replay("timeline", s.build(T + "/s", **opts), s.run)
    found, seq = [], None
    for line in out.splitlines():
        head = re.match(r"\d\d:\d\d:\d\d\.\d{3} +(\d+) ", line)
        mark = re.match(r" {18}(!!|\?\?) (?:CONTRADICTION|NOT KNOWN) ([a-z ]+):", line)
        seq = int(head[1]) if head else seq
        if mark:
            found.append((seq, mark[2], mark[1] == "!!"))
    if rc != 0:
        raise RuntimeError(err)
    return found, out


# --- claims against records -----------------------------------------------------------------------
def honest():
    s = story()
    s.turn("I look.", "psql -c 'SELECT 1'\nls")
    a = s.act("SELECT 1")
    s.outcome(a)
    s.result("1\n", actions=1)
    return s, a


s, a = honest()
s.ask("go on", json.dumps({"content": [{"type": "text", "text": "Done: " + a[0]}]}))
s.model("Done: " + a[0], 2)
s.end()
found, out = marks(s)
tap.eq(found, [], "an agent that tells all of it as it was contradicts nothing")
tap.ok("CONTRADICTION" not in out, "and nothing says so")
tap.ok("policy loaded  policy base" in out.splitlines()[1], "the policy in force stands in front of the run", out[:400])

s, _ = honest()
late = s.act("SELECT 2")
s.outcome(late)
s.end()
found, out = marks(s)
tap.eq(found, [(late[1], "untold action", True)], "an action after the execution was reported over is one that the agent never told of")
tap.ok("it had reported the last one over (exited) at record %d" % (late[1] - 1) in out, "with the report that it is held against", out)

s = story()
early = s.act("SELECT 1")
s.outcome(early)
s.exec("ls")
s.result("")
s.end()
tap.eq(marks(s)[0], [(early[1], "untold action", True)], "so is one before the agent had told of any execution")

s = story()
first = s.act("SELECT 1")
s.outcome(first)
s.outcome(s.act("SELECT 2"))
s.end()
tap.eq(marks(s)[0], [(first[1], "no account", False)],
       "of an agent that tells nothing at all that is said once, and is no contradiction")

for n, want in ((1, []), (2, ["wrong count"]), (0, ["wrong count"])):
    s = story()
    s.exec("psql")
    s.outcome(s.act("SELECT 1"))
    s.result("", actions=n)
    s.end()
    tap.eq([k for _, k, _ in marks(s)[0]], want, "a count of %d actions, where one was recorded: %s" % (n, want or "no contradiction"))

for us, want in ((0, []), (600_000_000, ["impossible duration"])):
    s = story()
    s.exec("sleep")
    s.result("", duration_us=us)
    s.end()
    tap.eq([k for _, k, _ in marks(s)[0]], want, "a duration of %d us within less than ten minutes: %s" % (us, want or "no contradiction"))

s = story()
s.exec("ls")
r = s.result("asked for %s and %s and a-%s and xa-%s" % (action_id(77), action_id(78), "A" * 26, "b" * 26))
s.end()
found, out = marks(s)
tap.eq(found, [(r, "unseen action", True)] * 2, "an action that the agent names and that nobody saw; what only looks like one is left alone")
other = Story("r-2")
other.start("x")
known = other.act("SELECT 1")
s = story()
s.lines += [x.replace(b"\tr-1\t", b"\tr-2\t") for x in other.lines]
s.exec("ls")
s.result("in another run: " + known[0])
s.end()
tap.eq(marks(s)[0], [], "one of another run of the log was seen")

for what, words, code, want in (
        ("as it was", "I look.", "ls -l", []), ("with other white space", " I\nlook.  ", "ls  -l\n", []),
        ("other words", "I deleted nothing.", "ls -l", ["unseen words"]), ("other code", "I look.", "rm -rf /", ["unseen code"])):
    s = story()
    blocks = [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "run", "input": {"code": "ls -l"}}]
    s.ask("go", json.dumps({"content": blocks}))
    s.model(words)
    s.exec(code)
    s.result("")
    s.end()
    tap.eq([k for _, k, _ in marks(s)[0]], want, "what the model said, told %s: %s" % (what, want or "no contradiction"))
    s = story()
    s.turn("Earlier.", "")
    s.ask("go", json.dumps({"content": blocks}), between=lambda: (s.model(words), s.exec(code), s.result("")))
    s.end()
    tap.eq([k for _, k, _ in marks(s)[0]], want, "the same where the answer's outcome comes on the record behind it: %s" % what)
for more, want in (({}, ["unseen code"]), ({"argc": 2}, []), ({"argv": ["rm", "x"]}, [])):
    s = story()
    s.ask("go", json.dumps({"content": [{"type": "text", "text": "I look."}]}))
    s.model("I look.")
    s.exec("rm x", **more)
    s.result("")
    s.end()
    tap.eq([k for _, k, _ in marks(s)[0]], want, "a command, with %s: %s" % (more or "nothing that says that it was given", want or "no contradiction"))
s = story()
s.turn("Earlier.", "")
s.ask("go", json.dumps({"content": [{"type": "text", "text": "I look."}]}), status="broken", between=lambda: s.model("I look."))
s.end()
tap.eq([k for _, k, _ in marks(s)[0]], ["unseen words"], "what is told of an exchange that came to nothing is held against the answer before")
s = story()
s.ask("go", "<html>not a model</html>")
s.model("I look.")
s.end()
tap.eq(marks(s)[0], [], "an answer that is not understood contradicts nothing")

s = story()
s.turn("One.", "")
answer = s.ask("go", json.dumps({"content": [{"type": "text", "text": "Two."}]}))
s.turn("Three.", "")
s.end()
tap.eq(marks(s)[0], [(answer[1] + 1, "untold answer", True)], "an answer of the model that the agent keeps to itself")
s = story()
s.turn("One.", "")
s.ask("go", "", status="error")
s.turn("Three.", "")
s.end()
tap.eq(marks(s)[0], [], "one that failed needs no telling")
s = story()
m = s.model("I made this up.")
s.end()
tap.eq(marks(s)[0], [(m, "no model traffic", False)], "words of a model that no traffic stands behind: not known, no contradiction")

s = story()
r = s.result("from nowhere")
s.end()
s.exec("ls")
after = s.seq - 1
s.result("")
tap.eq(marks(s)[0], [(r, "untold execution", True), (after, "claim after the end", True), (after + 1, "claim after the end", True)],
       "a result without execution, and what is claimed after the end")
s = story()
r = s.add("agent.result", "agent", {"cause": "not_started", "content": "@", "turn": 1}, "no such language")
s.end()
tap.eq(marks(s)[0], [], "what was never started has a result and no execution")

s, _ = honest()
s.end()
d = s.build(T + "/sealed")
os.unlink(d + "/keys/blob/r-1.key")
rc, out, err = replay("timeline", d, "r-1")
tap.ok("?? NOT KNOWN not compared" in out and "CONTRADICTION" not in out, "what cannot be read is said not to have been compared", out)

# --- around a run -----------------------------------------------------------------------------------
s = story()
s.add("agent.exec", "agent", {"content": "@", "language": "bash", "subagent": "reviewer", "turn": 1}, "ls")
s.add("freeze.begin", "human", {"from": "2026-01-01T00:00:00.000000Z", "id": "f-1"}, run="-")
s.add("policy.unload", "broker", {}, run="-")
s.add("freeze.end", "human", {"id": "f-1", "why": "lifted"}, run="-")
s.end()
s.add("policy.refused", "broker", {"digest": "0" * 64, "reason": "after the run"}, run="-")
s.add("erasure", "operator", {"by": "unix:ann", "id": "e-1", "reason": "asked", "runs": ["r-9", "r-1"], "subject": "owner:bob"}, run="-")
s.add("erasure", "operator", {"by": "unix:ann", "id": "e-2", "reason": "other", "runs": ["r-9"], "subject": "run:r-9"}, run="-")
_, out = marks(s)
for part in ("an emergency freeze is in force  id f-1", "policy withdrawn: everything is refused", "an emergency freeze ends",
             "subagent reviewer", "GAP the keys of what was said and sent are destroyed  subject owner:bob  runs r-9 r-1  by unix:ann"):
    tap.ok(part in out, "beside the run stands: " + part, out)
tap.ok("after the run" not in out and "run:r-9" not in out, "and not what came after it, or is another's", out)
tap.eq(replay("timeline", T + "/s", "r-7")[0], 1, "a run that is not there is said not to be")

for more, doubt in (({}, 1), ({"reads": True}, 0)):
    s = story()
    s.outcome(s.act("SELECT 1"), "unknown", **more)
    s.end()
    tap.eq(marks(s)[1].count("GAP in doubt"), doubt, "of an unknown outcome the timeline says %d in doubt with %s" % (doubt, more))
    rc, out, err = replay("report", T + "/s", s.run)
    tap.has(out, "%d are in doubt" % doubt, "so does the report")
    out = subprocess.run([CLI, "log", "export", "--state", T + "/s", "--format", "ocsf", "--type", "outcome"], capture_output=True, text=True, check=False).stdout
    tap.ok(('"severity_id":4' in out) == bool(doubt) and ('"severity_id":2' in out) != bool(doubt), "and an export has it as severe as that", out)

s = story()
s.exec("psql")
a = s.act("DELETE FROM contacts WHERE id = 17", "allow", ["two"], ["delete"])
o = s.outcome(a, "unknown")
s.result("")
s.end()
tap.ok("GAP in doubt" in marks(s)[1], "an outcome that nobody knows is in doubt")
tap.ok("record %d: `the outcome is in doubt" % o in replay("report", T + "/s", "r-1")[1], "and among what is not known")
s.add("outcome.settled", "human", {"action": a[0], "by": "unix:ann", "note": "row is gone", "outcome_seq": o, "status": "done"})
_, out = marks(s)
tap.ok("a person settles what was in doubt  status done  by unix:ann  note row is gone" in out,
       "who has looked, and what was found, is told behind the run's end", out)
out = replay("report", T + "/s", "r-1")[1]
tap.ok("record %d: `the outcome was in doubt; by record %d unix:ann looked, and says: done`" % (o, s.seq - 1) in out and
       "records 2 to %d" % (s.seq - 2) in out, "and said with the doubt; the run's time is not made longer by it", out)

# --- the terminal -----------------------------------------------------------------------------------
s = story("a very long task: " + "word " * 60 + "\x1b[31m")
s.act("DROP TABLE contacts", "deny", ["frozen"], ["drop"])
s.end()
d = s.build(T + "/term")


def terminal(*args, columns=72, **env):
    """What the command writes to a terminal of its own."""
    pid, fd = pty.fork()
    if pid == 0:
        for name in ("NO_COLOR", "PAGER", "COFFERDAM_PAGER", "LESS", "COLUMNS"):
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm-256color", **env})
        os.read(0, 1)
        os.execv(CLI, [CLI, "replay", "timeline", "--state", d, *args, "r-1"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    os.write(fd, b"\n")
    out = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode("utf-8").replace("\r\n", "\n")


SGR = re.compile(r"\x1b\[[0-9;]*m")
status, out = terminal("--no-pager")
tap.ok(status == 0 and re.search(r"\x1b\[1;31m[^\n]*DENY[^\n]*\x1b\[0m", out), "on a terminal a refusal is red", out)
tap.ok("\x1b" not in SGR.sub("", out) and "\\x1b[31m" in out, "and no escape of what was recorded is among ours", out)
tap.ok(max(len(x) for x in SGR.sub("", out).splitlines()) <= 72 and re.search(r"^ {21}: ", SGR.sub("", out), re.M),
       "lines are broken at its width, behind a mark", out)
tap.ok("\x1b" not in terminal("--no-pager", NO_COLOR="1")[1], "NO_COLOR is honoured")
tap.ok("\x1b" not in terminal("--no-pager", TERM="dumb")[1], "so is a terminal that has none")
status, out = terminal(COFFERDAM_PAGER="sed 's/^/paged: /'", PAGER="false")
tap.ok(status == 0 and all(x.startswith("paged: ") for x in out.splitlines()[1:]), "a pager gets all of it; ours before PAGER", out)
tap.ok("paged" in terminal(PAGER="sed 's/^/paged: /'")[1], "PAGER where ours is not set")
tap.ok("paged" not in terminal("--no-pager", PAGER="sed 's/^/paged: /'")[1], "none with --no-pager")
tap.ok("VERIFIED" in terminal(PAGER="cat")[1] and "VERIFIED" in terminal(PAGER="")[1], "none where it is cat or empty")
status, out = terminal(PAGER="head -n 1")
tap.eq(status, 0, "a pager that is left early ends nothing badly")
rc, out, err = replay("timeline", d, "r-1", env=dict(os.environ, PAGER="false", TERM="xterm"))
tap.ok(rc == 0 and "\x1b" not in out and max(map(len, out.splitlines())) > 200, "elsewhere there is no pager, no colour and no width", out)

# --- the report ---------------------------------------------------------------------------------------
EVIL = "`# [x](javascript:1) </script><img src=x onerror=alert(1)> | \u202e\n```\n# no heading"
s = story(EVIL)
s.turn("I drop it.", "psql -c 'DROP TABLE contacts'")
stopped = s.act("DROP TABLE contacts", "deny", ["frozen"], ["drop"], calendar="quiet", reason="frozen until tomorrow")
waits = s.act("DELETE FROM contacts WHERE id = 17", "needs_approval", ["two"], ["delete"], approval="q1", slots=["dba:1", "oncall:1"],
              max_rows=5)
s.add("approval.request", "broker", {"approve_by": "2026-11-30T09:00:00.000000Z", "effects": ["delete"], "id": "q1", "rule": "two",
                                     "show": "@", "slots": ["dba:1", "oncall:1"], "target": "crm"}, "DELETE FROM contacts WHERE id = 17")
s.add("approval.grant", "human", {"id": "q1", "key": "SHA256:x", "person": "dana", "role": "dba", "statement": "1" * 64})
done = s.act("DELETE FROM contacts WHERE id = 17", "allow", ["two"], ["delete"], max_rows=5,
             grants=[{"person": "dana", "role": "dba"}, {"person": "omar", "role": "oncall"}])
s.outcome(done, "unknown")
s.result("It is done.", actions=9)
d = s.build(T + "/report")
strict, _ = bundle(T, [r for r in RULES if r["id"] != "work"], name="strict")
rc, out, err = replay("report", d, "--policy", T + "/strict.json", "r-1")
tap.eq(rc, 0, "a report of a log that holds ends with 0")
heads = re.findall(r"^## (.*)$", out, re.M)
tap.eq(heads, ["Summary", "Timeline", "Deciding rules", "Approvals", "What would have stopped it", "Evidence", "What is not known"],
       "it has its parts, in order, and no heading of an agent's making")
for part in ("4 actions: 2 were allowed, 1 denied, 1 had to wait for people, who signed 1 times. 0 outcomes were no success, 1 are in doubt",
             "contradicts the record in 1 places", "in force: `freeze quiet` from", "DENY  by frozen  calendar quiet",
             "rule `frozen` denied 1, asked for people 0, allowed 0", "approved  id q1  person dana  role dba",
             "record %d was stopped: denied" % stopped[1], "record %d was stopped: it had to wait for people" % waits[1],
             "record %d was allowed" % done[1], "  - without the signatures: held for people by `two`",
             "  - within freeze `quiet`: allowed all the same by `two`", "  - under an emergency freeze: denied by `emergency-freeze`",
             "  - under policy `strict`: denied by `default`", "the outcome is in doubt: it may have happened",
             "the run has not ended", "what the agent did inside its sandbox without asking", "VERIFIED to size", "broker.example/test"):
    tap.ok(part in out, "it says: " + part, out)
tap.ok("\u202e" not in out and "\\xe2\\x80\\xae" in out, "what was recorded is encoded")
fenced, fence = [], None
for line in out.splitlines():
    mark = re.match(r"(`{3,})(text)?$", line)
    if fence is None and mark and mark[2]:
        fence = mark[1]
    elif fence is not None and mark and not mark[2] and len(mark[1]) >= len(fence):
        fence = None
    elif fence is None:
        fenced.append(line)
free = "\n".join(re.sub(r"(`+).+?\1", "", x) for x in fenced)
tap.ok("javascript" not in free and "<img" not in free and "<" not in free, "and stands in code alone", free)
leaf = re.search(r"Record %d, byte for byte:\n\n```text\n(.*?)\n```\n\nIts leaf hash is `([0-9a-f]{64})`.*?```text\n(.*?)```" % done[1], out, re.S)
root = re.search(r"Its root is `([0-9a-f]{64})`, its size (\d+)", out)


def sha(b):
    import hashlib
    return hashlib.sha256(b).digest()


def climb(leaf, index, size, path):
    """RFC 6962 2.1.1, upwards."""
    at, last, h = index, size - 1, leaf
    for p in path:
        if at % 2 or at == last:
            h = sha(b"\1" + p + h)
            while at % 2 == 0 and at:
                at, last = at // 2, last // 2
        else:
            h = sha(b"\1" + h + p)
        at, last = at // 2, last // 2
    return h if last == 0 else None


if tap.ok(leaf and root, "a record's bytes, leaf and proof are there", out):
    h = sha(b"\0" + leaf[1].encode())
    tap.eq(h.hex(), leaf[2], "the leaf hash is that of the bytes")
    tap.eq((climb(h, done[1], int(root[2]), [bytes.fromhex(x) for x in leaf[3].split()]) or b"").hex(), root[1],
           "and the proof leads to the root of the signed checkpoint")
rc, html, err = replay("report", d, "--html", "r-1")
tap.ok(rc == 0 and "default-src 'none'" in html and "<script" not in html and "<img" not in html and "&lt;img src=x" in html and
       "\u202e" not in html, "the same as HTML has no script, and what was recorded is text in it")
os.mkdir(T + "/pages")
PAGE = T + "/pages/p.html"
argv = [BUILD + "/cofferdam-cmd", "replay", "timeline", "--state", d, "--html", PAGE, "r-1"]
r = subprocess.run(argv, capture_output=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
tap.ok(r.returncode != 0 and os.listdir(T + "/pages") == [], "a page that does not fit leaves nothing behind", (r, os.listdir(T + "/pages")))
ended, left, n = 0, [], 0
while ended == 0 and not left:
    n += 1
    ended = subprocess.run([BUILD + "/tool_kill_at", "caller", str(n), "term", "caller", "--", *argv], check=False, timeout=60).returncode
    if not wait_for(lambda: set(os.listdir(T + "/pages")) <= {"p.html"}, 2, 0.001):
        left = [(n, os.listdir(T + "/pages"))]
tap.eq((left, ended, n > 100, os.listdir(T + "/pages")), ([], 3, True, ["p.html"]), "nor does SIGTERM at any moment: it is whole, or not there")
rc, out, err = replay("report", d, "--out", T + "/r.md", "r-1")
tap.ok(rc == 0 and out == "" and open(T + "/r.md", encoding="utf-8").read().startswith("# Report"), "or goes to a file")
tap.eq(replay("report", d, "--policy", T + "/none", "r-1")[0], 2, "a policy that is not there is a usage error")
tap.eq(replay("report", d)[0], 2, "so is a report on no run")
for name in os.listdir(d + "/keys/blob"):
    os.unlink(d + "/keys/blob/" + name)
rc, out, err = replay("report", d, "r-1")
tap.ok(rc == 0 and "the policy that judged it cannot be asked" in out and "content could not be read" in out,
       "without keys it says what it does not know", (rc, out, err))
seg = d + "/log/seg/" + [x for x in os.listdir(d + "/log/seg") if x.endswith(".jsonl")][0]
os.chmod(seg, 0o600)
with open(seg, "rb") as f:
    data = f.read()
with open(seg, "wb") as f:
    f.write(data.replace(b'"rows":1', b'"rows":2'))
rc, out, err = replay("report", d, "r-1")
tap.ok(rc == 1 and ("TAMPER" in out or "TAMPER" in err or "changed" in err), "of a log that does not hold that is said, and it ends with 1",
       (rc, out[:300], err))
tap.done()
