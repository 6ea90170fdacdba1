#!/usr/bin/python3
"""Exports over the real broker: what leaves is public and in the form that others read, all of it, whatever is killed or
refuses; whoever takes it holds up nobody."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import ocsf
import otlp
from harness import BUILD, CLI, HostRun, Http, Pg, Stack, Tap, Temp, run, wait_for
from origin import Origin

TOKEN = "canary-collector-" + os.urandom(12).hex()
tap, temp = Tap(), Temp("export")
pg = Pg(temp)
pg.admin("CREATE TABLE salaries(id int PRIMARY KEY, v int); INSERT INTO salaries SELECT g, 0 FROM generate_series(1,50) g;"
         "ALTER TABLE salaries OWNER TO agent")
api, o = Origin(temp.path + "/api", "api.test"), Origin(temp.path + "/collector", "127.0.0.1")
st = Stack(temp, pg, {"emergency": {"breakglass": {"max": "30m"}}}, people={"olivia": ["oncall", "breakglass"], "dana": ["dba"], "omar": ["oncall"]},
           start=False, http={"api": Http(api)})
os.makedirs(st.state + "/keys/webhook", mode=0o700)


def put(name, text, mode=0o600):
    path = st.state + "/keys/webhook/" + name
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, mode)


def configure(*hooks):
    with open(st.state + "/broker.json", encoding="utf-8") as f:
        b = json.load(f)
    b["webhooks"] = list(hooks)
    with open(st.state + "/broker.json", "w", encoding="utf-8") as f:
        json.dump(b, f)


def hook(**more):
    h = {"name": "otel", "form": "otlp", "url": "https://127.0.0.1:%d/v1/logs" % o.port, "events": ["all"], "header_file": "keys/webhook/otel",
         "ca_file": "keys/webhook/ca.pem", "networks": ["127.0.0.0/8"], "timeout": 2, "from": "first"}
    h.update(more)
    return {k: v for k, v in h.items() if v is not None}


put("otel", "Authorization: Bearer %s\n" % TOKEN)
with open(o.ca.pem, encoding="ascii") as pem:
    put("ca.pem", pem.read(), 0o644)

# === what is not right stops the start, and is named =============================================================
for words, bad in (("no \"secret_file\"", hook(secret_file="keys/webhook/otel")), ("\"now\" or \"first\"", hook(**{"from": "then"})),
                   ("\"otlp\" alone", hook(form="slack", header_file=None, **{"from": None})),
                   ("\"otlp\" alone", hook(form="slack", events=["alarm"], **{"from": None}))):
    configure(bad)
    try:
        st.start()
        said = "started"
    except RuntimeError as e:
        said = str(e)
    st.stop()
    tap.has(said, words, "refused at start: %s" % words)

# === a collector =================================================================================================
taken, bad, script = [], [], []  # (id, hash) in order of arrival; what is wrong with requests; what it does next, once each
taking = threading.Event()
taking.set()


def collect(req, c):
    what = script.pop(0) if script else None
    if what is not None:
        return what(req, c)
    if not taking.is_set():
        return c.reply(503, b"down")
    return keep(req, c)


def keep(req, c, answer=b"{}"):
    v = json.loads(req.body)
    bad.extend(otlp.request(v))
    if (req.method, req.path, req.get("Content-Type"), req.get("Authorization")) != ("POST", "/v1/logs", "application/json", "Bearer " + TOKEN):
        bad.append("%s %s %r" % (req.method, req.path, req.headers))
    taken.extend((r, a) for r, a in otlp.records(v))
    return c.reply(200, answer, [("Content-Type", "application/json")])


o.on("/v1/logs", collect)


def ids():
    return [a["log.record.uid"] for _, a in list(taken)]


def status(name="otel"):
    return next(h for h in json.loads(st.cli("status", "--json").stdout)["courier"]["webhooks"] if h["name"] == name)


def recorded():
    return ["test.example/log#%d" % r["seq"] for r in st.records() if r["type"] != "log.heartbeat"]


def all_there(seconds=40):
    return wait_for(lambda: set(recorded()) <= set(ids()), seconds)


configure(hook())
st.start()
hr = HostRun(st)
follow = subprocess.Popen([CLI, "log", "export", "--state", st.state, "--format", "json", "--follow", "--output", temp.path + "/follow.json",
                           "--cursor", "follow"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
r = hr.psql(pg, "SELECT count(*) FROM salaries WHERE v = 47114711")
tap.eq(r.stdout.strip(), "0", "an action that reads")
hr.psql(pg, "UPDATE salaries SET v = 1 WHERE id = 1")
hr.psql(pg, "DELETE FROM salaries WHERE id = 47114711")
hr.psql(pg, "COPY salaries TO PROGRAM 'true'")
rid = wait_for(st.pending, 20)[0]
st.sign("approve", rid, "dana")
st.sign("approve", rid, "omar")
tap.ok(wait_for(lambda: st.records("approval.armed"), 20), "one that people sign for")
hr.psql(pg, "DELETE FROM salaries WHERE id = 47114711")
hr.curl("api", "/tokens/path-canary-47114711?q=query-canary-47114711", "-H", "X-Note: field-canary-47114711", "-d", "body-canary-47114711")
hr.curl("api", "/x", "-X", "DELETE")
fid = st.cli("freeze", "start", "--effects", "delete", "--reason", "disk is failing", "--as", "olivia", "--key", st.key("olivia"), "--yes").stdout
tap.ok(wait_for(lambda: st.records("freeze.begin"), 20), "a freeze", fid)

# === OTLP over HTTP ==============================================================================================
tap.ok(all_there(), "every record comes to the collector, from the first one on", status())
tap.eq(bad, [], "each request is of the protocol, field by field, with the credential it was given")
deny = next((r, a) for r, a in taken if a.get("cofferdam.decision.verdict") == "deny")
tap.eq((deny[0]["eventName"], deny[0]["severityText"], deny[1]["cofferdam.request.effects"]["values"][0]["stringValue"]),
       ("cofferdam.action", "WARN", "exec"), "a denied action is a warning, and says what it would have done")
tap.eq(deny[1]["gen_ai.conversation.id"], hr.id, "of its run")
tap.ok("cofferdam.claimed.request.input.agent" in deny[1] and "cofferdam.request.input.agent" not in deny[1], "what the agent says of itself stands apart")
lines = {}
for name in sorted(n for n in os.listdir(st.state + "/log/seg") if n.endswith(".jsonl")):
    with open(st.state + "/log/seg/" + name, "rb") as f:
        lines.update((json.loads(x)["body"]["seq"], json.loads(x)) for x in f.read().splitlines()[:-1])
tap.ok(all(a["cofferdam.hash"] == lines[int(a["cofferdam.seq"])]["hash"] for _, a in taken if int(a["cofferdam.seq"]) in lines),
       "with the leaf hash of the record that it is")
times = [(r["timeUnixNano"], lines[int(a["cofferdam.seq"])]["body"]["time"]) for r, a in taken if int(a["cofferdam.seq"]) in lines]
tap.ok(all(time.gmtime(int(n) // 10**9)[:6] == time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S")[:6] and n[-9:-3] == t[20:26] for n, t in times), "and its time")


def sent():
    return b"".join(r.body for r in o.arrivals)


CANARIES = [b"47114711", b"salaries", TOKEN.encode(), pg.password.encode(), st.http["api"].secret.encode(), b"BEGIN SSH", b"\\u001b", b"\x1b"]
tap.eq([c for c in CANARIES if c in sent()], [], "no SQL, table, path, body, signature, credential or control character leaves")

# === a file that is followed ======================================================================================
def exported(path):
    with open(path, "rb") as f:
        return [json.loads(x) for x in f.read().splitlines(True) if x.endswith(b"\n")]


tap.ok(wait_for(lambda: {r["seq"] for r in st.records() if r["type"] != "log.heartbeat"} <= {e["seq"] for e in exported(temp.path + "/follow.json")}, 20),
       "a followed file has every record as soon as it is signed")
with open(temp.path + "/follow.json", "rb") as f:
    text = f.read()
tap.eq([c for c in CANARIES if c in text], [], "nothing leaves there either that may not")
shown = json.loads(st.cli("status", "--json").stdout)["exports"]
tap.eq([(e["name"], e["format"]) for e in shown], [("follow", "json")], "status tells of it")
tap.has(st.cli("status").stdout, "export   follow, json: up to record ", "also to people")
tap.has(st.cli("log", "export", "--cursor", "follow", "--format", "json").stdout, "another export has the cursor follow", "two exports with one cursor: refused")
follow.terminate()
follow.wait(20)
tap.has(follow.stderr.read().decode(), "0 behind the signed end", "told to end it says how far it came")
tap.ok(wait_for(lambda: json.loads(st.cli("status", "--json").stdout)["exports"][0]["lag"] > 0 or not hr.psql(pg, "SELECT 1"), 20),
       "and status how far it is behind from then on")

# === OCSF ==========================================================================================================
st.cli("log", "export", "--format", "ocsf", "--output", temp.path + "/ocsf.json")
events = exported(temp.path + "/ocsf.json")
wrong = [(e["metadata"]["event_code"], w) for e in events for w in ocsf.check(e)]
tap.eq(wrong, [], "%d events are of the published schema" % len(events))
kind = {}
for e in events:
    kind.setdefault(e["metadata"]["event_code"], set()).add((e["class_uid"], e["activity_id"]))
acts = {(e["unmapped"]["request.operation"], e["unmapped"]["request.effects"][0]): (e["class_uid"], e["activity_id"], e["action_id"], e["disposition_id"])
        for e in events if e["metadata"]["event_code"] == "action"}
tap.eq(acts.get(("connect", "txn")) or acts.get(("connect", "read")), (6005, 3, 1, 1), "a connection: Datastore Activity, Connect, allowed")
tap.ok((6005, 4, 1, 1) in acts.values(), "a SELECT: Query", acts)
tap.ok((6005, 5, 1, 1) in acts.values(), "an UPDATE: Write", acts)
deletes = [(e["class_uid"], e["activity_id"], e["action_id"], e["disposition_id"]) for e in events
           if e["metadata"]["event_code"] == "action" and e["unmapped"]["request.effects"] == ["delete"] and e["class_uid"] == 6005]
tap.eq(deletes, [(6005, 7, 99, 14), (6005, 7, 1, 8)], "a DELETE: Delete, delayed, and then approved")
tap.ok((6003, 4) in kind["action"] and (6003, 1) in kind["action"], "HTTP: API Activity, Delete and Create", kind["action"])
tap.ok(any(e["disposition_id"] == 2 and e["status_id"] == 2 and e["severity_id"] == 3 for e in events if e["metadata"]["event_code"] == "action"), "a refusal: Blocked")
tap.eq((kind["run.start"], kind["approval.request"], kind["approval.armed"], kind["approval.consumed"], kind["freeze.begin"], kind["log.open"]),
       ({(3003, 1)}, {(3004, 1)}, {(3004, 10)}, {(3004, 11)}, {(3004, 10)}, {(6002, 3)}),
       "a run is authorized; requests and freezes are entities; the log's start is a lifecycle event")
e = next(e for e in events if e["metadata"]["event_code"] == "outcome" and e["status_id"] == 1)
tap.ok(any(x["metadata"].get("correlation_uid") == e["metadata"]["correlation_uid"] for x in events if x["metadata"]["event_code"] == "action"),
       "an outcome names its action")
with open(temp.path + "/ocsf.json", "rb") as f:
    text = f.read()
tap.eq([c for c in CANARIES if c in text], [], "nothing leaves here either")
st.cli("log", "export", "--format", "ocsf", "--text", "--output", temp.path + "/text.json")
events = exported(temp.path + "/text.json")
tap.eq([w for e in events for w in ocsf.check(e)], [], "with --text they are, too")
tap.ok(any("path-canary-47114711" in e.get("http_request", {}).get("url", {}).get("path", "") for e in events), "and paths stand in it")
with open(temp.path + "/text.json", "rb") as f:
    text = f.read()
tap.ok(b"query-canary" not in text and b"body-canary" not in text and b"field-canary" not in text and b"salaries" in text, "tables too; no query, field or body")
r = subprocess.run([CLI, "log", "export", "--state", st.state, "--format", "otlp"], capture_output=True, timeout=60, check=False)
tap.eq([w for x in r.stdout.splitlines() for w in otlp.request(json.loads(x))], [], "OTLP in a file: a request a line")
r = subprocess.run([CLI, "log", "export", "--state", st.state, "--format", "lines"], capture_output=True, timeout=60, check=False)
tap.ok(r.stdout and all(json.loads(x) == lines[json.loads(x)["body"]["seq"]] for x in r.stdout.splitlines() if json.loads(x)["body"]["seq"] in lines), "lines as they stand")
r = subprocess.run([CLI, "log", "export", "--state", st.state, "--format", "json", "--type", "approval.*", "--from", "2"], capture_output=True, timeout=60, check=False)
tap.eq({json.loads(x)["type"].split(".")[0] for x in r.stdout.splitlines()}, {"approval"}, "by type")

# === whatever the collector does ====================================================================================
def answers(status_, body=b"", *fields):
    return lambda req, c: c.reply(status_, body, list(fields))


def some():
    """A few records more."""
    for _ in range(3):
        hr.psql(pg, "SELECT 1")


CASES = [("503", answers(503)), ("429 and Retry-After", answers(429, b"", ("Retry-After", "1"))), ("401, its token is stale", answers(401)),
         ("404", answers(404)), ("closes", lambda req, c: c.close()), ("stalls", lambda req, c: time.sleep(3)), ("redirects", answers(302, b"", ("Location", "/other")))]
for name, act in CASES:
    script.append(act)
    some()
    tap.ok(all_there(), "a collector that says %s has all in the end" % name, status())
tap.eq(status()["given_up"], 0, "and nothing was given up")
poison = threading.Event()
victim = []


def picky(req, c):
    """Takes no request that has the record in it."""
    v = json.loads(req.body)
    mine = [a["log.record.uid"] for _, a in otlp.records(v)]
    if not victim:
        victim.append(mine[len(mine) // 2])
    if victim[0] in mine:
        script.append(picky)
        return c.reply(400, b"no")
    return keep(req, c)


taking.clear()
for _ in range(10):
    hr.psql(pg, "SELECT 2")
script.append(picky)
taking.set()
tap.ok(wait_for(lambda: status()["given_up"] == 1, 60), "a record that is refused alone is passed over, and counted", status())
script.clear()
some()
tap.ok(wait_for(lambda: set(recorded()) - set(ids()) == {victim[0]}, 60), "it alone: all beside it arrive", set(recorded()) - set(ids()))
script.append(lambda req, c: keep(req, c, json.dumps({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "too \x1b old"}}).encode()))
some()
tap.ok(wait_for(lambda: status()["given_up"] == 2, 40), "what it refuses of a request is counted, and not sent again", status())
with open(st.broker_log, encoding="utf-8", errors="replace") as f:
    tap.has(f.read(), "records were refused: too ? old", "and its words are told, printable")
tap.ok(TOKEN not in open(st.broker_log, encoding="utf-8", errors="replace").read() and TOKEN not in st.cli("status", "--json").stdout,
       "the credential is told to nobody")

# === whoever is killed ==============================================================================================
taking.clear()
some()
tap.ok(wait_for(lambda: status()["lag"] > 0 and "503" in status()["error"], 20), "while it is down status tells how far behind it is, and why", status())
n = len([1 for _ in range(10) if hr.psql(pg, "SELECT count(*) FROM salaries").stdout.strip() in ("49", "50")])
tap.eq(n, 10, "and psql goes on through the broker")
for child in ("courier", "writer"):
    pid = wait_for(lambda: st.child(child), 20)
    os.kill(pid, signal.SIGKILL)
    tap.ok(wait_for(lambda: st.child(child) not in (0, pid) and st.cli("status").returncode == 0, 30), "%s is killed and back" % child)
taking.set()
missing = lambda: set(recorded()) - set(ids()) - set(victim)
tap.ok(wait_for(lambda: not missing(), 60), "nothing is lost", missing())
by = {}
for _, a in taken:
    by.setdefault(a["log.record.uid"], set()).add(a["cofferdam.hash"])
tap.ok(all(len(v) == 1 for v in by.values()), "one id is one record")
first = list(dict.fromkeys(int(i.rsplit("#", 1)[1]) for i in ids()))
tap.eq(first, sorted(first), "and they came in the order of the log")
tap.eq(bad, [], "each request was of the protocol")
taking.set()
st.stop()

# --- what is written lies elsewhere -------------------------------------------------------------
seg, begun = sorted(os.listdir(st.state + "/log/seg"))[0], st.records("run.start")[0]["run"]


def sizes():
    return {n: os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(st.state + "/log") for n in names}


for words, path in (("log export --output", "log/seg/" + seg), ("log export --output", "log/new"), ("log export --cursor", "log/seg/mine"),
                    ("log index --index", "log/seg/x.db"), ("log index --index", "log/x.db"), ("log query --index", "log/seg/x.db"),
                    ("replay timeline %s --html" % begun, "log/seg/" + seg), ("replay report %s --out" % begun, "log/cp/page")):
    was = sizes()
    r = st.cli(*words.split(), st.state + "/" + path)
    tap.ok(r.returncode == 2 and "lies in the log directory" in r.stdout and sizes() == was, "%s %s: not in the log" % (words, path), (r.returncode, r.stdout))
    r = st.cli(*words.split(), "%s/beside%d-%s" % (st.state, len(words), os.path.basename(path)))
    tap.eq(r.returncode, 0, "beside it")
tap.done()
