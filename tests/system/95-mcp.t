#!/usr/bin/python3
"""cofferdam mcp over the real broker and a real PostgreSQL: both eras, over stdio and HTTP. A client runs code, meets a
refusal, people sign, it goes on; what takes long is pending; what is cancelled ends; nobody is served who does not say who it
is; a freeze is told the same whatever the client's zone; nothing is left of a client that was killed."""
import atexit
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mcp
from harness import CLI, Pg, Stack, Tap, Temp, run, wait_for
from origin import Ca

tap, temp = Tap(), Temp("mcp")
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY, v int); INSERT INTO orders SELECT g, g FROM generate_series(1,50) g;"
         "ALTER TABLE orders OWNER TO agent; CREATE TABLE frozen(id int); ALTER TABLE frozen OWNER TO agent")
st = Stack(temp, pg, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    RULES = json.load(f)["rules"]
st.build_policy({"serial": 2, "rules": RULES + [
    {"id": "freeze-hard", "forbid": {"env": "prod", "during": ["yearend"], "relation": ["public.frozen"]}, "override": "breakglass"}],
    "calendars": {"yearend": {"kind": "freeze", "tz": "Europe/London", "valid": ["2020-01-01", "2040-01-01"],
                              "once": [{"from": "2026-01-01T00:00", "to": "2039-01-04T08:00"}]}}})
st.start()
MCP = [CLI, "mcp", "--state", st.state] + ([] if os.getuid() == 0 else ["--limits-optional"])
TOOLS = ["approval_status", "end", "execution_status", "list_files", "list_targets", "read_file", "request_approval", "run_code",
         "run_command", "write_file"]
started = []


def end_all():
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()


atexit.register(end_all)


def stdio(*args, era=mcp.MODERN, env=None):
    s = mcp.Stdio(MCP + list(args), era=era, env=env, stderr=open(temp.path + "/mcp.log", "ab"))
    started.append(s.p)
    return s


def rounds(client, name):
    """What any client may do, in any era and over any wire."""
    tools = client.call("tools/list")
    tools = (tools if isinstance(tools, dict) else tools.message)["result"]["tools"]
    tap.eq([t["name"] for t in tools], TOOLS, name + ": the tools, in their order")
    tap.ok(all(t["outputSchema"]["type"] == "object" and t["inputSchema"]["additionalProperties"] is False for t in tools),
           name + ": each says what it takes and what it gives")
    r = client.tool("run_code", {"code": "x = 20\nprint(x + 1)"})
    tap.eq((r.failed, r.data.get("stdout"), r.data.get("state")), (False, "21\n", "ended"), name + ": code runs")
    tap.eq(json.loads(r.text), r.data, name + ": the text is the structured result")
    r = client.tool("run_code", {"code": "x * 2"})
    tap.eq(r.data.get("results"), [{"text/plain": "40"}], name + ": its variables stay")
    r = client.tool("run_code", {"code": "1/0"})
    tap.ok(r.failed and r.data["error"]["name"] == "ZeroDivisionError" and r.data["cause"] == "error", name + ": an exception is a failure",
           r.text)
    r = client.tool("run_code", {"language": "bash", "code": "echo sh; exit_code=3; (exit 3)"})
    tap.ok("sh\n" in r.data.get("stdout", ""), name + ": a shell is a language", r.text)
    r = client.tool("run_command", {"command": "cat; echo err >&2; exit 4", "stdin": "in"})
    tap.eq((r.failed, r.data.get("exit_code"), r.data.get("stdout"), r.data.get("stderr")), (True, 4, "in", "err\n"),
           name + ": a command's streams and status")
    r = client.tool("write_file", {"path": "d/f.bin", "content": base64.b64encode(b"\xff\0a").decode(), "encoding": "base64"})
    tap.eq(r.data.get("bytes"), 3, name + ": a file is written")
    r = client.tool("read_file", {"path": "d/f.bin"})
    tap.eq((r.data.get("encoding"), base64.b64decode(r.data.get("content", ""))), ("base64", b"\xff\0a"), name + ": and read")
    r = client.tool("list_files", {"depth": 2})
    tap.eq([e["path"] for e in r.data.get("entries", [])], ["/work/d", "/work/d/f.bin"], name + ": and listed")
    for args, part in (({}, "code is missing"), ({"code": "1", "lang": "x"}, 'no argument "lang"'), ({"code": 1}, "must be a string"),
                       ({"code": "1", "language": "perl"}, "must be one of"), ({"code": "1", "timeout_s": 0}, "from 1 to 86400")):
        r = client.tool("run_code", args)
        tap.ok(r.failed and part in r.text, name + ": arguments that do not fit are told: " + part, r.text)
    r = client.tool("read_file", {"path": "nowhere"})
    tap.ok(r.failed and "nowhere" in r.text, name + ": a file that is not there is a failure in words", r.text)
    approvals(client, name)


def approvals(client, name):
    number = 1 + approvals.n
    approvals.n += 1
    sql = "DELETE FROM orders WHERE id = %d" % number
    r = client.tool("run_command", {"command": "psql -Xc '%s'" % sql})
    refused = " ".join(r.data.get("refused", []))
    m = re.search(r"request ([a-z2-7]{26})", refused)
    if not tap.ok(r.failed and m and "two-people" in refused and "dba:1" in refused and "cofferdam approve" in refused,
                  name + ": a refusal names rule, request and what to run", r.text):
        return
    rid = m[1]
    r = client.tool("request_approval", {"request": rid, "reason": "the order was a test"})
    q = r.data.get("requests", [{}])[0]
    tap.ok(q.get("state") == "pending" and rid in q.get("how", "") and "nothing here can" in q.get("hint", ""),
           name + ": who asks is told whom it waits for, and that nothing here signs", r.text)
    tap.has(st.cli("show", rid).stdout, "the order was a test", name + ": its reason stands where people sign")
    r = client.tool("run_command", {"command": "psql -Xc '%s'" % sql})
    tap.ok(r.failed, name + ": not signed, it is refused again")
    for who in ("dana", "omar"):
        st.sign("approve", rid, who)
    r = client.tool("approval_status", {"request": rid})
    tap.eq(r.data.get("requests", [{}])[0].get("state"), "armed", name + ": signed by two people it is armed")
    r = client.tool("run_command", {"command": "psql -Xc '%s'" % sql})
    tap.ok(not r.failed and "DELETE 1" in r.data.get("stdout", ""), name + ": then the same statement passes", r.text)
    tap.eq(pg.admin("SELECT count(*) FROM orders WHERE id = %d" % number), "0", name + ": and is done")
    states = {q["request"]: q["state"] for q in client.tool("approval_status").data.get("requests", [])}
    tap.eq(states.get(rid, "consumed"), "consumed", name + ": once")
    r = client.tool("request_approval", {"request": "aaaaaaaaaaaaaaaaaaaaaaaaaa"})
    tap.ok(r.failed and "has no request" in r.text, name + ": another run's request is nobody's here", r.text)


approvals.n = 0

# --- stdio ----------------------------------------------------------------------------
s = stdio()
d = s.call("server/discover")["result"]
tap.ok(d["supportedVersions"] == ["2026-07-28", "2025-11-25", "2025-06-18"] and d["resultType"] == "complete" and d["ttlMs"] >= 0,
       "a modern client discovers", d)
tap.eq(st.records("run.start"), [], "until a call needs one there is no run")
rounds(s, "modern, stdio")
tap.ok(len(s.every) > 10 and all(json.loads(x)["jsonrpc"] == "2.0" and x.endswith(b"\n") for x in s.every),
       "MCP-01: whatever code and commands print, each line of the server's output is a message", s.every[-1:])
lines = s.call("tools/list"), s.call("tools/list")
tap.eq(lines[0]["result"], lines[1]["result"], "the list is the same each time")
for method in ("initialize", "ping", "resources/list", "prompts/list", "frob"):
    tap.eq(s.call(method).get("error", {}).get("code"), -32601, "a modern client has no %s" % method)
s.era = None
tap.eq(s.call("tools/list").get("error", {}).get("code"), -32602, "a request without _meta, and no initialize before, is refused")
s.era = mcp.MODERN
for raw, code in ((b"{", -32700), (b"[]", -32600), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600), (b'{"id":1,"method":"ping"}', -32600),
                  (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
                  (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700)):
    s.raw(raw + b"\n")
    tap.eq(s.next()["error"]["code"], code, "%s is answered with %d" % (raw.decode(), code))

# A client that reads nobody's errors, and its answers late.
full = mcp.Stdio(MCP, stderr=subprocess.PIPE)
started.append(full.p)
asked = [full.ask("tools/call", {"name": "run_command", "arguments": {"command": "yes %s | head -c %d; yes %s | head -c %d >&2" % (w, n, w, n)}})
         for w, n in (("some", 200000), ("more", 5000000))]
asked += [full.ask("tools/list"), full.ask("tools/call", {"name": "run_code", "arguments": {"code": "print(6 * 7)"}})]
got = [full.wait(i) for i in asked]
some, more, last = (mcp.Tool(got[i]) for i in (0, 1, 3))
tap.eq((some.data.get("output_bytes"), more.data.get("output_bytes"), more.data.get("truncated"), last.data.get("stdout")), (400000, 10000000, True, "42\n"),
       "MCP-03: what prints much is answered whole or as cut off, with its size, and what was asked meanwhile is answered as well")
tap.ok(len(json.dumps(got[1])) < 1 << 20 and more.data["stdout"].startswith("more\nmore") and more.data["stdout"].endswith("more\n"),
       "MCP-03: of what is cut off, the beginning and the end are told", more.text[-300:])
tap.eq(full.end(), 0, "MCP-03: and a server whose errors nobody reads ends as others do")

# What is never there: a way to sign, a credential.
hunt = r"""
import os, subprocess
found = []
for base in ("/proc/self/environ", "/work", "/tmp", "/etc", "/run", "/home", "/root"):
    for d, _, names in os.walk(base) if os.path.isdir(base) else [(os.path.dirname(base), [], [os.path.basename(base)])]:
        for n in names:
            try:
                if CANARY in open(os.path.join(d, n), "rb").read(1 << 20): found.append(os.path.join(d, n))
            except OSError: pass
print("found", found, sorted(k for k in os.environ if "PASSWORD" in k or "TOKEN" in k))
"""
r = s.tool("run_code", {"code": "CANARY = bytes.fromhex(%r)\n" % pg.password.encode().hex() + hunt})
tap.ok(r.data.get("stdout", "").startswith("found [] []"), "the database's password is nowhere in the sandbox", r.text)
tap.ok("elicitation" not in json.dumps(d) and not any(t in TOOLS for t in ("approve", "sign")), "nothing that a client says can approve")

# Progress, cancellation, pending.
i = s.ask("tools/call", {"name": "run_command", "arguments": {"command": "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done"}}, token="p1")
s.wait(i)
p = [m["params"] for m in s.others if m.get("method") == "notifications/progress"]
tap.ok(len(p) >= 2 and all(m["progressToken"] == "p1" for m in p) and [m["progress"] for m in p] == sorted({m["progress"] for m in p}) and
       p[-1]["message"].startswith("line"), "progress grows, and tells the last line", p)
i = s.ask("tools/call", {"name": "run_code", "arguments": {"code": "import time\nopen('/work/began','w').close()\ntime.sleep(600)"}})
wait_for(lambda: not s.tool("read_file", {"path": "began"}).failed)
s.tell("notifications/cancelled", {"requestId": i, "reason": "test"})
r = s.tool("run_code", {"code": "print(x)"})
tap.eq(r.data.get("stdout"), "20\n", "MCP-04: a cell that is cancelled ends, and its interpreter is there still")
tap.ok(i not in s.answers, "MCP-04: what was cancelled is not answered")
i = s.ask("tools/call", {"name": "run_command", "arguments": {"command": "touch went; sleep 600"}})
wait_for(lambda: not s.tool("read_file", {"path": "went"}).failed)
s.tell("notifications/cancelled", {"requestId": i})
tap.ok(wait_for(lambda: "sleep 600" not in s.tool("run_command", {"command": "ps ax -o args= | grep -v grep | grep '^sleep'; true"}).data["stdout"]),
       "MCP-04: a command that is cancelled is gone, with what it began")

pend = stdio("--wait", "1")
r = pend.tool("run_command", {"command": "sleep 4; echo late"})
while r.data.get("state") is None:  # a run that begins slowly is pending, too
    r = pend.tool("execution_status", {"execution_id": re.search(r"x\d+", r.text)[0]})
x = r.data["execution_id"]
tap.eq((r.data["state"], r.failed), ("running", False), "what takes longer than a call may is pending, under an id")
while r.data.get("state") == "running":
    r = pend.tool("execution_status", {"execution_id": x})
tap.eq((r.data["state"], r.data["stdout"]), ("ended", "late\n"), "which a later call asks for")
r = pend.tool("execution_status", {"execution_id": x})
tap.ok(r.failed and "told already" in r.text, "once", r.text)
r = pend.tool("run_command", {"command": "sleep 600"})
r = pend.tool("execution_status", {"execution_id": r.data["execution_id"], "stop": True})
while r.data.get("state") == "running":
    r = pend.tool("execution_status", {"execution_id": r.data["execution_id"]})
tap.ok(r.failed and r.data.get("cause") == "killed" or "signalled" in r.text, "and can stop it", r.text)


def keepers():
    """Process ids of the keepers there are."""
    found = set()
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % p, "rb") as f:
                if f.read() == b"cofferdam-agent\0keep\0":
                    found.add(int(p))
        except OSError:
            pass
    return found


# What was cancelled may go on for longer than a call may wait: while the keeper is stopped nothing ends.
others = keepers()
slow = stdio("--wait", "1")
r = slow.tool("run_code", {"code": "1"})
while "run" not in r.data:
    r = slow.tool("execution_status", {"execution_id": re.search(r"x\d+", r.text)[0]})
held = wait_for(lambda: keepers() - others)
for p in held:
    os.kill(p, signal.SIGSTOP)
try:
    j = slow.ask("tools/call", {"name": "list_targets", "arguments": {}})
    x = re.search(r"execution_status of (x\d+)", mcp.Tool(slow.wait(j)).text)[1]
    i = slow.ask("tools/call", {"name": "execution_status", "arguments": {"execution_id": x}})
    slow.tell("notifications/cancelled", {"requestId": i})
    for _ in range(2):
        r = slow.tool("execution_status", {"execution_id": x})
        tap.ok("it goes on" in r.text, "who waited and cancelled leaves nothing behind that the next would meet", r.text)
finally:
    for p in held:
        os.kill(p, signal.SIGCONT)
tap.eq(slow.tool("run_code", {"code": "print(2)"}).data.get("stdout"), "2\n", "nor the server")
slow.end()
pend.end()

# The run's end.
first = s.tool("end", {"reason": "all done"}).data
tap.eq(first["state"], "ended", "`end` ends the run")
own = wait_for(lambda: [r for r in st.records("run.end") if r["run"] == first["run"]])  # others end at about this time
tap.eq([r["data"]["text"] for r in own], ["all done"], "with its reason on the record")
second = s.tool("run_code", {"code": "print('x' in dir())"}).data
tap.ok(second["stdout"] == "False\n" and second["run"] != first["run"], "a later call begins a new one, with nothing of the old", second)
st.cli("run-end", second["run"])
told = wait_for(lambda: (lambda t: t if "run is over" in t.text else None)(s.tool("run_code", {"code": "1"})))
tap.ok(told is not None and told.failed, "a run that a person ended is not begun again by the same client", told and told.text)
tap.eq(s.end(), 0, "MCP-04: the end of input ends the server")

s = stdio(era=mcp.LEGACY)
tap.eq((s.hello["result"]["protocolVersion"], "resultType" in s.hello["result"]), (mcp.LEGACY, False), "a client of 2025-11-25 is answered in its own")
tap.eq(s.call("ping")["result"], {}, "and pings")
rounds(s, "2025-11-25, stdio")
tap.eq(s.call("initialize", mcp.hello())["error"]["code"], -32600, "and initializes once")
victim = s.tool("run_code", {"code": "1"}).data["run"]
os.kill(s.p.pid, signal.SIGKILL)
ended = wait_for(lambda: [r for r in st.records("run.end") if r["run"] == victim])
tap.ok(ended, "a server that is killed takes its run with it")
tap.ok(wait_for(lambda: json.loads(run([CLI, "sandbox", "list", "--json"]).stdout or "[]") == []), "and its sandbox",
       run([CLI, "sandbox", "list", "--json"]).stdout)
s = stdio(era="2025-06-18")
tap.eq(s.hello["result"]["protocolVersion"], "2025-06-18", "2025-06-18 is spoken")
s.end()
s = mcp.Stdio(MCP, era="1999-01-01")
tap.eq(s.hello["result"]["protocolVersion"], mcp.LEGACY, "who asks for a version that is not is offered the newest of its era")
s.end()

# --- one freeze, whatever the zone ------------------------------------------------------
answers = {}
for zone in ("UTC", "Asia/Kolkata", None):
    env = {k: v for k, v in os.environ.items() if k != "TZ"}
    z = stdio(env=dict(env, TZ=zone) if zone else env)
    t = z.tool("list_targets").data
    r = z.tool("run_command", {"command": "psql -Xc 'DELETE FROM frozen'"})
    answers[zone] = (t["frozen"], t["policy"], re.sub(r"a-[a-z2-7]{26}", "A", " ".join(r.data["refused"])))
    z.end()
tap.ok("yearend" in answers["UTC"][0][0] and "2039-01-04T08:00:00Z" in answers["UTC"][0][0], "a freeze is told, and until when", answers["UTC"])
tap.ok("freeze-hard" in answers["UTC"][2] and "2039-01-04T08:00:00Z" in answers["UTC"][2], "its refusal names rule and window", answers["UTC"])
for zone in ("Asia/Kolkata", None):
    tap.eq(answers[zone], answers["UTC"], "the same under TZ=%s" % zone)

# --- HTTP -----------------------------------------------------------------------------
ALICE, BOB = "alice-token-0123456789", "bob-token-0123456789abc"
tokens = temp.path + "/tokens"
with open(tokens, "w", encoding="ascii") as f:
    f.write("alice %s\nbob %s\n" % (ALICE, BOB))
os.chmod(tokens, 0o600)


def listen(*args):
    p = subprocess.Popen(MCP + ["--listen", "127.0.0.1:0", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    started.append(p)
    url = re.search(rb"listening on (\S+):(\d+)/mcp", p.stderr.readline())
    threading.Thread(target=p.stderr.read, daemon=True).start()
    return p, int(url[2])


for args, part in ((["--listen", "127.0.0.1:0"], "nobody is served"), (["--token-file", tokens], "need --listen"),
                   (["--listen", "0.0.0.0:0", "--token-file", tokens], "clear text"), (["--wait", "51"], "from 1 to 50")):
    r = run(MCP + args)
    tap.ok(r.returncode in (1, 2) and part in r.stdout, "%s: %s" % (" ".join(args).replace(temp.path, ""), part), r.stdout)
server, port = listen("--token-file", tokens)
h = mcp.Http(port, ALICE)
rounds(h, "modern, HTTP")
alice_run = h.tool("run_code", {"code": "secret = 'hers'"}).data["run"]
b = mcp.Http(port, BOB)
r = b.tool("run_code", {"code": "print('secret' in dir())"})
tap.ok(r.data["stdout"] == "False\n" and r.data["run"] != alice_run, "another principal has another run", r.text)
again = mcp.Http(port, ALICE)
tap.eq(again.tool("run_code", {"code": "print(secret)"}).data["stdout"], "hers\n", "the same principal's requests share one")
for name, token in (("no token", None), ("another token", ALICE + "x"), ("a part of it", ALICE[:-1])):
    a = mcp.Http(port, token).call("tools/list")
    tap.ok(a.status == 401 and a.fields.get("www-authenticate", "").startswith("Bearer"), "%s: 401" % name, a.body)
tap.eq(h.post(h.message("tools/list"), {"Origin": "http://evil.example"}).status, 403, "a page's Origin: 403")
tap.eq(h.post(h.message("tools/list"), {"Origin": "http://127.0.0.1:%d" % port}).status, 200, "its own: 200")
tap.eq(h.post(h.message("tools/list"), {"Host": "rebound.example"}).status, 421, "a name that is not this server's (DNS rebinding): 421")
tap.eq(h.post(h.message("tools/list"), {"Host": "localhost:%d" % port}).status, 200, "localhost: 200")
a = h.post(h.message("tools/list"), {"Mcp-Method": "tools/call"})
tap.eq((a.status, a.message["error"]["code"]), (400, -32020), "Mcp-Method that is not the body's: -32020")
a = h.post(h.message("tools/call", {"name": "run_code", "arguments": {"code": "1"}}), {"Mcp-Name": "read_file"})
tap.eq((a.status, a.message["error"]["code"]), (400, -32020), "nor Mcp-Name")
a = h.call("frob")
tap.eq((a.status, a.message["error"]["code"]), (404, -32601), "a method that is not: 404")
for verb in ("GET", "DELETE"):
    with h.verb(verb) as sock:
        tap.eq(mcp.answer(sock).status, 405, "a modern client has no %s" % verb)
tap.eq(h.post({"jsonrpc": "2.0", "method": "notifications/initialized", "params": mcp.modern()}).status, 202, "a notification: 202")
tap.eq(h.post(None, {"Content-Type": "text/plain"}, raw=b"{}").status, 415, "text/plain, which a page can send unasked: 415")
tap.eq(h.post(None, raw=b'{"jsonrpc":"2.0","id":1').status, 400, "half a message: 400")
a = h.call("tools/call", {"name": "run_command", "arguments": {"command": "for i in 1 2 3 4; do echo $i; sleep 0.4; done"}}, token=7)
tap.ok(a.fields["content-type"] == "text/event-stream" and a.fields["x-accel-buffering"] == "no" and len(a.events) >= 2 and
       a.events[0]["params"]["progressToken"] == 7 and a.events[-1]["result"]["resultType"] == "complete",
       "progress comes as events, and the answer behind it", a.events)
sock = h.begin(h.message("tools/call", {"name": "run_command", "arguments": {"command": "touch gone1; sleep 601"}}, token=8))
wait_for(lambda: not h.tool("read_file", {"path": "gone1"}).failed)
sock.close()
ps = lambda client: client.tool("run_command", {"command": "ps ax -o args= | grep '^sleep 60'; true"}).data["stdout"]
tap.ok(wait_for(lambda: "sleep 601" not in ps(h)), "a modern client that closes the stream has cancelled")

l = mcp.Http(port, ALICE, era=mcp.LEGACY)
tap.ok(l.hello.status == 200 and re.fullmatch("[a-z2-7]{26}", l.session or ""), "an initialize-based client gets a session", l.hello.fields)
rounds(l, "2025-11-25, HTTP")
mine = l.tool("run_code", {"code": "1"}).data["run"]
tap.ok(mine not in (alice_run,), "with a run of its own")
thief = mcp.Http(port, BOB)
thief.era, thief.session = mcp.LEGACY, l.session
tap.eq(thief.call("tools/list").status, 404, "which is no session to another principal")
many = []
while len(many) < 40 and (not many or many[-1].hello.status == 200):
    many.append(mcp.Http(port, BOB, era=mcp.LEGACY))
tap.ok(many[-1].hello.status == 429 and "16 sessions of yours" in str(many[-1].hello.message or many[-1].hello.body), "one principal does not take all sessions: 429, with the limit",
       (len(many), many[-1].hello.status, many[-1].hello.body))
spare = mcp.Http(port, ALICE, era=mcp.LEGACY)
tap.eq(spare.hello.status, 200, "another principal finds room")
for x in many[:-1] + [spare]:
    x.verb("DELETE").close()
tap.ok(wait_for(lambda: mcp.Http(port, BOB, era=mcp.LEGACY).hello.status == 200), "and so does the first, with some ended")
nobody = mcp.Http(port, ALICE)
nobody.era = mcp.LEGACY
tap.eq(nobody.call("tools/list").status, 400, "without its id: 400")
nobody.session = "a" * 26
tap.eq(nobody.call("tools/list").status, 404, "with one that is not: 404")
stream = l.verb("GET")
head = b""
while b"\r\n\r\n" not in head:
    head += stream.recv(4096)
tap.ok(b" 200 " in head and b"text/event-stream" in head, "GET opens a stream", head)
sock = l.begin(l.message("tools/call", {"name": "run_command", "arguments": {"command": "touch gone2; sleep 602"}}))
wait_for(lambda: not l.tool("read_file", {"path": "gone2"}).failed)
sock.close()
tap.has(ps(l), "sleep 602", "a client of before that loses its connection has not cancelled")
with l.verb("DELETE") as sock:
    tap.eq(mcp.answer(sock).status, 204, "DELETE ends the session")
rest = b""
while not rest.endswith(b"0\r\n\r\n"):
    rest += stream.recv(4096) or b"(cut) 0\r\n\r\n"
tap.ok(b"cut" not in rest, "its stream ends well", rest)
tap.eq(l.call("tools/list").status, 404, "it is not there any more")
tap.ok(wait_for(lambda: [r for r in st.records("run.end") if r["run"] == mine and "ended the session" in r["data"]["text"]]), "nor its run")
server.send_signal(signal.SIGTERM)
tap.eq(server.wait(30), 0, "a server that is told to end does")
tap.ok(wait_for(lambda: [r for r in st.records("run.end") if r["run"] == alice_run]), "and ends its runs")

# mTLS, and a listener that is killed.
sca, cca, oca = (Ca(temp.path + "/" + n) for n in ("sca", "cca", "oca"))
cert, key = sca.issue("127.0.0.1")
server, port = listen("--tls-cert", cert, "--tls-key", key, "--client-ca", cca.pem)
m = mcp.Http(port, tls=mcp.client_tls(sca.pem, cca.client("alice")))
r = m.tool("run_code", {"code": "print(6 * 7)"})
tap.eq(r.data.get("stdout"), "42\n", "a client's certificate is enough")
for name, c in (("none", None), ("another authority's", oca.client("mallory"))):
    try:
        status = mcp.Http(port, tls=mcp.client_tls(sca.pem, c)).call("tools/list").status
    except OSError:
        status = 0
    tap.eq(status, 0, "%s is not" % name)
server.kill()
server.wait()
tap.ok(wait_for(lambda: [x for x in st.records("run.end") if x["run"] == r.data["run"]]), "a listener that is killed takes its runs with it")
tap.ok(wait_for(lambda: json.loads(run([CLI, "sandbox", "list", "--json"]).stdout or "[]") == []), "and their sandboxes")
starts, ends = {r["run"] for r in st.records("run.start")}, {r["run"] for r in st.records("run.end")}
tap.eq(starts, ends, "every run has an end on the record")
events = {r["run"] for r in st.records("agent.exec")}
tap.ok(events <= starts, "and what ran is on it")
end_all()
tap.done()
