#!/usr/bin/python3
"""Webhooks, over the real broker, PostgreSQL and an HTTPS server of ours: what goes out is signed and public, in order and
at least once whatever the endpoint does and whoever is killed; a dead endpoint holds up nobody; break-glass waits
until its record has left the machine where the policy says so."""
import base64
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, HostRun, Pg, Stack, Tap, Temp, ipc_version, run, wait_for
from libpq import Conn
from origin import Ca, Origin

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, memory says nothing

tap, temp = Tap(), Temp("courier")
pg = Pg(temp)
pg.admin("CREATE TABLE secret_plans(id int PRIMARY KEY, v int); INSERT INTO secret_plans SELECT g, 0 FROM generate_series(1,50) g;"
         "ALTER TABLE secret_plans OWNER TO agent")
PEOPLE = {"olivia": ["oncall", "breakglass"], "dana": ["dba"], "omar": ["oncall", "breakglass"]}
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "two-people", "require": {"effects": {"any": ["delete"]}}, "within": "30m", "use_within": "10m",
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}]},
         {"id": "hard", "forbid": {"effects": {"any": ["schema"]}}, "override": "breakglass"}]
KEY = base64.b64encode(b"k" * 32).decode()
OLD = base64.b64encode(b"o" * 24).decode()
o = Origin(temp.path + "/hooks", "127.0.0.1")
st = Stack(temp, pg, {"rules": RULES}, people=PEOPLE, start=False)
HOOKS = st.state + "/keys/webhook"
os.makedirs(HOOKS, mode=0o700)


def put(name, text, mode=0o600):
    with open(HOOKS + "/" + name, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(HOOKS + "/" + name, mode)


def hook(name, path, events, **more):
    h = {"name": name, "url": "https://127.0.0.1:%d%s" % (o.port, path), "events": events, "secret_file": "keys/webhook/siem",
         "ca_file": "keys/webhook/ca.pem", "networks": ["127.0.0.0/8"], "timeout": 2}
    h.update(more)
    return {k: v for k, v in h.items() if v is not None}


def configure(*hooks):
    with open(st.state + "/broker.json", encoding="utf-8") as f:
        b = json.load(f)
    b["webhooks"] = list(hooks)
    with open(st.state + "/broker.json", "w", encoding="utf-8") as f:
        json.dump(b, f)


put("siem", "whsec_%s\nwhsec_%s\n" % (KEY, OLD))
put("slack-url", "https://127.0.0.1:%d/services/T0/B0/topsecretpath\n" % o.port)
with open(o.ca.pem, encoding="ascii") as pem:
    put("ca.pem", pem.read(), 0o644)
other = Ca(temp.path + "/other-ca")
with open(other.pem, encoding="ascii") as pem:
    put("other.pem", pem.read(), 0o644)

# === what is not right stops the start, and is named ============================================================
GOOD = hook("siem", "/siem", ["freeze.*"])


def start_says(*hooks):
    configure(*hooks)
    try:
        st.start()
    except RuntimeError as e:
        return str(e)
    finally:
        st.stop()
    return "started"


for words, bad in (("https://", dict(GOOD, url="http://127.0.0.1/")), ("not known", dict(GOOD, events=["freeze.strat"])),
                   ("either", dict(GOOD, url_file="keys/webhook/slack-url")), ("secret_file", hook("siem", "/", ["alarm"], secret_file=None)),
                   ("No such file", dict(GOOD, secret_file="keys/webhook/none")), ("..", dict(GOOD, secret_file="../x")),
                   ("unknown key", dict(GOOD, retries=3)), ("604800", dict(GOOD, retry_for=604801))):
    tap.has(start_says(bad), words, "refused at start: %s" % words)
tap.has(start_says(GOOD, GOOD), "two of them have this name", "refused at start: one name twice")
put("siem", "whsec_%s\nwhsec_%s\n" % (KEY, OLD), 0o644)
tap.has(start_says(GOOD), "mode is 0644, must be 0600", "refused at start: a secret that others can read")
put("siem", "whsec_%s\nwhsec_%s\n" % (KEY, OLD))

# === what goes out ===============================================================================================
siem, script = [], []  # what was taken, in order; what the endpoint does next, once each
behave = {"siem": True}


def answer(req, c):
    what = script.pop(0) if script else None
    if what is None and behave["siem"]:
        siem.append(req)
        return c.reply(200, b"ok")
    if what is None:
        return c.reply(503, b"down")
    return what(req, c)


chat = []
o.on("/siem", answer)
o.on("/chat", lambda req, c: (chat.append(req), c.reply(204, framing="none")))
o.on("/services/T0/B0/topsecretpath", lambda req, c: (slack.append(req), c.reply(200, b"ok")))
slack, stalled = [], threading.Event()
o.on("/stall", lambda req, c: stalled.wait(60))
o.on("/redirected", lambda req, c: c.reply(200, b"here"))
EVENTS = ["approval.*", "freeze.*", "breakglass.*", "run.revoke", "alarm", "log.recovered"]
ALL = [hook("siem", "/siem", EVENTS, show="text", link="https://console.example/"), hook("chat", "/chat", EVENTS), hook("stuck", "/stall", EVENTS),
       hook("slack", "", EVENTS, form="slack", url=None, url_file="keys/webhook/slack-url", secret_file=None, link="https://console.example/"),
       hook("private", "/chat", EVENTS, networks=[]), hook("stranger", "/chat", EVENTS, ca_file="keys/webhook/other.pem")]
configure(*ALL)
st.start()
hr = HostRun(st)


def idof(req):
    return req.get("webhook-id")


def event(req):
    return json.loads(req.body)


def of(list_, type_):
    return [event(r) for r in list(list_) if event(r)["type"] == type_]


def status(name):
    courier = json.loads(st.cli("status", "--json").stdout)["courier"]
    return next(h for h in courier["webhooks"] if h["name"] == name)


def freeze(reason="disk is failing"):
    """One freeze begun and lifted by two: five records of freeze.*"""
    r = st.cli("freeze", "start", "--effects", "delete", "--reason", reason, "--as", "olivia", "--key", st.key("olivia"), "--yes")
    fid = re.search(r"\b([a-z2-7]{26})\b", r.stdout)
    if not fid:
        raise RuntimeError(r.stdout)
    for who in ("olivia", "omar"):
        st.cli("freeze", "lift", fid.group(1), "--as", who, "--key", st.key(who), "--yes")
    return fid.group(1)


def recorded():
    """Ids of all records on disk that a webhook with EVENTS takes."""
    alarm = ("approval.rejected", "breakglass.begin", "policy.refused", "policy.unload", "log.full")
    wants = lambda t: t.split(".")[0] in ("approval", "freeze", "breakglass") or t in alarm + ("run.revoke", "log.recovered", "run.alarm")
    return ["test.example/log#%d" % r["seq"] for r in st.records() if wants(r["type"])]


def ordered(reqs):
    """Without what came again, and in the order of the log?"""
    seqs = list(dict.fromkeys(int(idof(r).rsplit("#", 1)[1]) for r in list(reqs)))
    return seqs == sorted(seqs)


def all_there(reqs, seconds=40):
    return wait_for(lambda: set(recorded()) <= {idof(r) for r in list(reqs)}, seconds)


r = hr.psql(pg, "DELETE FROM secret_plans WHERE id = 4711471147")
tap.ok("two-people" in r.stdout or "42501" in r.stdout, "an action waits for people", r.stdout)
tap.ok(wait_for(lambda: of(siem, "approval.request") and of(chat, "approval.request"), 20), "a webhook is told that people are asked")
req = next(r for r in siem if event(r)["type"] == "approval.request")
e = event(req)
mac = base64.b64encode(hmac.new(base64.b64decode(KEY), b"%s.%s.%s" % (idof(req).encode(), req.get("webhook-timestamp").encode(), req.body),
                                hashlib.sha256).digest()).decode()
old = base64.b64encode(hmac.new(base64.b64decode(OLD), b"%s.%s.%s" % (idof(req).encode(), req.get("webhook-timestamp").encode(), req.body),
                                hashlib.sha256).digest()).decode()
tap.eq(req.get("webhook-signature"), "v1,%s v1,%s" % (mac, old), "signed with both secrets, over id, time and body")
tap.ok(abs(int(req.get("webhook-timestamp")) - time.time()) < 120, "and the time is now")
tap.eq(req.get("Content-Type"), "application/json", "as JSON")
rec = st.records("approval.request")[0]
tap.eq((e["id"], e["seq"], e["data"]["id"], e["data"]["action"], e["data"]["target"], e["data"]["slots"]),
       ("test.example/log#%d" % rec["seq"], rec["seq"], rec["data"]["id"], rec["data"]["action"], "crm-db", ["dba:1", "oncall:1"]),
       "with the digest, the target and whom it waits for")
tap.eq(e["link"], "https://console.example/requests/" + rec["data"]["id"], "and where to look")
tap.ok("agent" not in e["data"] and e["claimed"]["agent"] == rec["data"]["agent"], "the agent's own words stand apart")
body = req.body.decode()
tap.ok("4711471147" not in body and "DELETE" not in body and "show" not in e["data"] and "signature" not in body and "input" not in body,
       "no SQL, no sealed content, no signature", body)
tap.eq(e["data"].get("relations"), rec["data"]["input"]["relations"], "names of tables with show text")
tap.ok(all("relations" not in x["data"] for x in of(chat, "approval.request")) and b"secret_plans" not in b"".join(r.body for r in chat),
       "and not without it")
tap.ok(wait_for(lambda: any(b"approval.request" in r.body for r in slack), 20), "Slack's form, too")
text = json.loads(next(r for r in slack if b"approval.request" in r.body).body)
tap.eq(list(text), ["text"], "one text, and no button")
tap.ok("sha256:" + rec["data"]["action"] in text["text"] and "<https://console.example/requests/%s|" % rec["data"]["id"] in text["text"],
       "with the digest and a link", text)
freeze("watch <!channel> & *all* <https://evil.example|here>")
tap.ok(wait_for(lambda: any(b"channel" in r.body for r in slack), 20), "what people write comes through")
text = json.loads(next(r for r in slack if b"channel" in r.body).body)["text"]
tap.ok("&lt;!channel&gt; &amp; 'all' &lt;https" in text and "<!" not in text and "<https://evil" not in text, "escaped: no mention, no link, no layout", text)
tap.ok("webhook-signature" not in [n for n, _ in slack[0].headers], "Slack gets no signature without a secret")

# === a dead endpoint holds up nobody ==================================================================================
tap.ok(all_there(siem) and all_there(chat), "AUD-04: all of it arrives, though one webhook is stuck and two cannot be reached")
tap.ok(wait_for(lambda: status("stuck")["lag"] > 0 and "2 s" in status("stuck")["error"], 20), "the stuck one says so", status("stuck"))
tap.has(status("private")["error"], "loopback", "an address that is not public is not connected to")
tap.has(status("stranger")["error"], "certificate", "nor a server that another CA vouches for")
tap.ok("topsecretpath" not in st.cli("status", "--json").stdout and "topsecretpath" not in open(st.broker_log).read(), "an address that is a secret is shown nowhere")
tap.has(st.cli("status").stdout, "webhook  stuck, 127.0.0.1:", "status shows it to people")
n = len([1 for _ in range(20) if hr.psql(pg, "SELECT count(*) FROM secret_plans").stdout.strip() == "50"])
tap.eq(n, 20, "AUD-04: psql goes on through the broker meanwhile")
stalled.set()
st.stop()
o.on("/stall", lambda req, c: c.reply(200))

# === whatever the endpoint does =====================================================================================
configure(*ALL[:2])
st.start()
hr = HostRun(st)
tap.ok(all_there(siem) and ordered(siem), "after a restart it goes on where it was")
no = lambda status, *fields: lambda req, c: c.reply(status, b"x", list(fields))


def short(req, c):
    c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    c.close()


def huge(req, c):
    c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 300000)
    c.close()


def heads(req, c):
    c.send(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"y" * 90000 + b"\r\n\r\n")
    c.close()


cases = [("500", no(500)), ("429 with Retry-After", no(429, ("Retry-After", "2"))), ("closes", lambda req, c: c.close()), ("resets", lambda req, c: c.cut()),
         ("redirects", no(302, ("Location", "https://127.0.0.1:%d/redirected" % o.port))), ("lies about its length", short),
         ("answers without end", huge), ("has a head without end", heads), ("speaks no HTTP", lambda req, c: (c.send(b"SSH-2.0-x\r\n"), c.close())),
         ("stalls", lambda req, c: time.sleep(3))]
for name, act in cases:
    had = len(o.arrivals)
    script.append(act)
    last = freeze()
    tap.ok(all_there(siem), "an endpoint that %s has all in the end" % name, status("siem"))
    tries = [idof(r) for r in o.arrivals[had:] if r.path == "/siem"]
    tap.ok(len(tries) == len(set(tries)) + 1, "and what came again came under the same id", tries)
tap.eq(o.paths("/redirected"), [], "a redirect is never followed")
tap.ok(ordered(siem), "the order is that of the log")
tap.ok(wait_for(lambda: status("siem")["lag"] == 0, 20), "nothing is left behind", status("siem"))

# === whoever is killed ===============================================================================================
behave["siem"] = False
for victim in ("courier", "writer", "courier"):
    pid = wait_for(lambda: st.child(victim), 20)
    freeze()
    os.kill(pid, signal.SIGKILL)
    tap.ok(wait_for(lambda: st.child(victim) not in (0, pid) and run([BUILD + "/cofferdam", "status", "--state", st.state]).returncode == 0, 30),
           "%s is killed and back" % victim)
freeze()
os.kill(st.broker.pid, signal.SIGKILL)
st.broker.wait()
behave["siem"] = True
st.start()
hr = HostRun(st)
tap.ok(all_there(siem, 60) and all_there(chat, 60), "kill -9 of courier, writer and broker: nothing is lost",
       [x for x in recorded() if x not in {idof(r) for r in siem}])
tap.ok(ordered(siem) and ordered(chat), "and nothing is out of order")
by = {}
for r in siem + chat:
    by.setdefault(idof(r), set()).add(event(r)["hash"])
tap.ok(all(len(v) == 1 for v in by.values()), "one id is one record")


# === ten thousand while it is down ====================================================================================
class Control:
    """The control socket, for calls in great number."""

    def __init__(self):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(st.state + "/run/control.sock")

    def call(self, verb, args):
        a = json.dumps(args, separators=(",", ":"), sort_keys=True).encode()
        body = struct.pack(">II", ipc_version(), len(verb)) + verb.encode() + struct.pack(">I", len(a)) + a
        self.s.sendall(struct.pack(">IHH", len(body), 95, 0) + body)
        head = self.take(8)
        return self.take(struct.unpack(">I", head[:4])[0])

    def take(self, n):
        out = b""
        while len(out) < n:
            b = self.s.recv(n - len(out))
            if not b:
                raise RuntimeError("the control socket closed")
            out += b
        return out


def rss(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


behave["siem"] = False
ctl = Control()
ctl.call("lift-request", {"kind": "freeze", "effects": "delete", "reason": "many"})
fid = st.record("freeze.request")["id"]
pid = wait_for(lambda: st.child("courier"), 20)
before = rss(pid)
had = len(st.records("freeze.rejected"))
MANY = 10000
for _ in range(MANY):
    ctl.call("lift-sign", {"id": fid, "decision": "start", "person": "olivia", "role": "any", "signature": "none", "note": ""})
tap.ok(wait_for(lambda: len(st.records("freeze.rejected")) - had >= MANY, 60), "%d records while the endpoint is down" % MANY)
tap.ok(all_there(chat, 240), "the other webhook has them all meanwhile", len(chat))
tap.eq(st.child("courier"), pid, "the courier is the same")
grown = rss(pid) - before
tap.ok(grown < 8192 or SANITIZED, "its memory is flat: %d KiB more" % grown)
tap.ok(wait_for(lambda: status("siem")["lag"] >= MANY and "503" in status("siem")["error"], 20), "its lag and why are told", status("siem"))
behave["siem"] = True
tap.ok(all_there(siem, 240) and ordered(siem), "once it is up it has all of them, in order", len(siem))

# === break-glass that must have left =====================================================================================
c = None


def policy(**glass):
    global c
    st.reload({"rules": RULES, "emergency": {"breakglass": dict({"max": "30m", "answer_within": "30m"}, **glass)}})
    c = wait_for(lambda: next((x for x in [Conn(hr.dsn(pg))] if x.alive), None), 30)


def glass(who="omar"):
    return st.cli("breakglass", "start", "--target", "crm-db", "--effects", "schema", "--for", "10m", "--reason", "outage", "--as", who,
                  "--key", st.key(who), "--yes")


def close_glass(begun):
    """Of what glass() said: the record of its begin may not be on the disk yet."""
    gid = re.search(r"breakglass ([a-z2-7]{26})", begun.stdout).group(1)
    st.cli("breakglass", "end", gid, "--as", "dana", "--key", st.key("dana"), "--yes")
    return st.cli("breakglass", "review", gid, "--as", "dana", "--key", st.key("dana"), "--yes", "--note", "looked at")


ALTER = "ALTER TABLE secret_plans ADD COLUMN c%d int"
policy(offhost="siem", offhost_within="4s")
tap.ok("hard" in c.query(ALTER % 1).message, "a rule that only break-glass lifts")
behave["siem"] = False
r = glass()
tap.ok(r.returncode != 0 and "webhook \"siem\" has not taken record" in r.stdout and "503" in r.stdout and "offhost" in r.stdout,
       "with its endpoint down break-glass is refused, and why is told", r.stdout)
tap.ok("hard" in c.query(ALTER % 1).message, "nothing is lifted")
tap.eq(st.records("breakglass.begin"), [], "and nothing began")
tap.eq(st.record("breakglass.end")["why"], "it was not shipped in time", "which is on record")
done = []
t = threading.Thread(target=lambda: done.append(glass()), daemon=True)
signs = len(st.records("breakglass.sign"))
t.start()
tap.ok(wait_for(lambda: len(st.records("breakglass.sign")) > signs, 20), "one is signed, its endpoint still down")
tap.ok("hard" in c.query(ALTER % 1).message, "it does not act yet")
os.kill(st.child("core"), signal.SIGKILL)
t.join(30)
behave["siem"] = True
tap.ok(wait_for(lambda: st.child("core") and run([BUILD + "/cofferdam", "status", "--state", st.state]).returncode == 0, 30), "core is killed meanwhile")
tap.ok(wait_for(lambda: "interrupted" in st.records("breakglass.end")[-1]["data"]["why"], 20), "it is ended, not begun, by the next core")
tap.ok(all_there(siem), "though the endpoint is told of it afterwards")
hr = HostRun(st)
c = wait_for(lambda: next((x for x in [Conn(hr.dsn(pg))] if x.alive), None), 30)
tap.eq((st.records("breakglass.begin"), "hard" in c.query(ALTER % 1).message), ([], True), "nothing began by that")
r = glass()
tap.ok(r.returncode == 0 and "in force" in r.stdout, "with its endpoint up it begins", r.stdout + str(status("siem")))
sign_seq = [x["seq"] for x in st.records("breakglass.sign")][-1]
at = next(i for i, x in enumerate(o.arrivals) if idof(x) == "test.example/log#%d" % sign_seq and x.path == "/siem")
begin = st.records("breakglass.begin")[-1]
tap.ok(begin["seq"] > sign_seq and at < next((i for i, x in enumerate(o.arrivals) if idof(x) == "test.example/log#%d" % begin["seq"]), 1 << 30),
       "and its record was taken before it began")
tap.eq(c.query(ALTER % 1).tag, "ALTER TABLE", "it acts")
tap.eq(close_glass(r).returncode, 0, "it is looked at")
policy(offhost="nobody", offhost_within="1s")
r = glass()
tap.ok(r.returncode != 0 and "nothing is known" in r.stdout and "breakglass.sign" in r.stdout, "a webhook that is not there: refused, and what to do", r.stdout)
policy()
r = glass()
tap.ok(r.returncode == 0 and "in force" in r.stdout, "a policy that does not ask for it waits for nobody", r.stdout)
tap.eq(close_glass(r).returncode, 0, "it is looked at, too")
tap.ok(wait_for(lambda: st.verify().returncode == 0, 20), "the log verifies")

# === a log that was set back ==============================================================================================
st.stop()
with open(st.state + "/courier/cursors", encoding="utf-8") as f:
    cursors = json.load(f)
cursors["webhooks"][0]["next"] += 100000
with open(st.state + "/courier/cursors", "w", encoding="utf-8") as f:
    json.dump(cursors, f)
st.start()
tap.ok(wait_for(lambda: "set back" in status(cursors["webhooks"][0]["name"])["error"], 20), "a log shorter than what was seen of it is told")
tap.eq(status("chat")["error"], "", "and the other webhook goes on")
os.kill(st.child("courier"), signal.SIGSTOP)
tap.eq(st.cli("freeze", "start", "--effects", "delete", "--reason", "x", "--as", "olivia", "--key", st.key("olivia"), "--yes").returncode, 0,
       "a courier that stands still holds up nobody")
os.kill(st.child("courier"), signal.SIGCONT)
tap.done()
