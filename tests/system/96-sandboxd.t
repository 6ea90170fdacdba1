#!/usr/bin/python3
"""cofferdam sandboxd over the real broker and a real PostgreSQL: sandboxes as E2B's SDKs ask for them, each key's own,
the policy behind each of them, nothing left of them however they end, and hostile clients."""
import base64
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2b import KEYS, Server, Stream, at_once, envelope, raw
from harness import BUILD, Pg, Stack, Tap, Temp, login, run, wait_for

tap, temp = Tap(), Temp("sandboxd")
pg = Pg(temp)
pg.admin("CREATE TABLE accounts(id int PRIMARY KEY, v int); INSERT INTO accounts SELECT g, g FROM generate_series(1,9) g;"
         "CREATE TABLE spare(id int); ALTER TABLE accounts OWNER TO agent; ALTER TABLE spare OWNER TO agent;")
st = Stack(temp, pg, start=False)
ROOT = os.getuid() == 0
if ROOT:
    with open(st.policy_file, encoding="utf-8") as f:
        people = json.load(f)["people"]
    people["dana"]["login"] = ["unix:nobody"]
    st.build_policy({"serial": 2, "people": people})
st.start()


def left(boxes):
    """What is still there of these sandboxes."""
    out = []
    ids = [b.id for b in boxes]
    for d in ("/run/cofferdam-sandbox", os.environ.get("XDG_RUNTIME_DIR", "/none") + "/cofferdam-sandbox",
              "/tmp/cofferdam-sandbox-%d" % os.getuid()):
        out += [n for n in (os.listdir(d) if os.path.isdir(d) else []) if any(i in n for i in ids)]
    with open("/proc/net/unix", encoding="ascii") as f:
        text = f.read()
    out += [i for i in ids if i in text]
    return out


# --- starting -----------------------------------------------------------------------------------
PROGRAM = BUILD + "/cofferdam-sandboxd"
open(temp.path + "/open-keys", "w", encoding="ascii").write("alice " + KEYS["alice"] + "\n")
os.chmod(temp.path + "/open-keys", 0o644)
for options, words in (([], "--keys FILE is needed"), (["--keys", temp.path + "/open-keys"], "lets others read"),
                       (["--keys", "/nonexistent"], "/nonexistent"), (["--frob"], '"--frob" is not an option'),
                       (["--keys", temp.path + "/open-keys", "--max", "0"], "--max must be a number from 1 to"),
                       (["--keys", "k", "--state", "a", "--socket", "b"], "give one")):
    r = run([PROGRAM] + options)
    tap.ok(r.returncode in (1, 2) and words in r.stdout, "sandboxd %s is refused with words" % " ".join(o.split("/")[-1] for o in options), r.stdout)
more = []
if ROOT:
    with open(temp.path + "/logins", "w", encoding="ascii") as f:
        f.write("# whose runs\nbob nobody\n")
    more = ["--logins", temp.path + "/logins"]
s = Server(st, "--max", "5", "--max-per-key", "3", "--upload", "2", *more)
tap.eq(s.ask("GET", "/health", key=None)[0], 204, "the server's own health needs no key")

# --- one sandbox ----------------------------------------------------------------------------------
b = s.create(metadata={"job": "a & b", "n": "1"}, envVars={"GIVEN": "by the caller"})
tap.eq(b.health(), 204, "a sandbox that is there is healthy")
r = b.run('echo "$GIVEN"; pwd; echo wrong >&2; exit 3')
tap.eq((r["stdout"], r["stderr"], r["exitCode"], r["error"], r["end"]), ("by the caller\n/work\n", "wrong\n", 3, "exit status 3", None),
       "a command has its environment, streams and status")
tap.eq(b.run("sleep 100", {"Connect-Timeout-Ms": "300"})["end"]["code"], "deadline_exceeded", "one whose time is over is told so")
tap.ok(wait_for(lambda: not b.call("process.Process/List", {})[1]["processes"]), "and ended")
tap.eq(b.run("no-such-program")["exitCode"], 127, "what bash does not find is 127")
x = b.start(["/no/such"])
tap.eq([x.next()[1]["error"]["code"]], ["not_found"], "what cannot be executed is not found")
x = b.start(["/bin/true", *["'" * 100000] * 4])
while "error" not in (e := x.next()[1]) and "end" not in e["event"]:
    pass
tap.ok("error" not in e, "a long command is recorded, each of its quotes quoted, and runs", str(e)[:300])
x = b.start(["/bin/true", *["'" * 100000] * 11])
e = x.next()[1]
tap.ok("the command is over 4194304 bytes" in e.get("error", {}).get("message", ""), "one that no record takes does not", str(e)[:300])
bg = b.start(["/bin/bash", "-c", "read a; echo got $a; sleep 100"], stdin=True, tag="mine")
pid = bg.next()[1]["event"]["start"]["pid"]
tap.eq(b.call("process.Process/List", {})[1]["processes"],
       [{"config": {"args": ["-c", "read a; echo got $a; sleep 100"], "cmd": "/bin/bash", "envs": {}}, "pid": pid, "tag": "mine"}],
       "the list tells what runs, with its tag")
b.call("process.Process/SendInput", {"process": {"tag": "mine"}, "input": {"stdin": base64.b64encode(b"typed\n").decode()}})
tap.eq(base64.b64decode(bg.next()[1]["event"]["data"]["stdout"]), b"got typed\n", "input reaches it, by tag")
bg.close()
again = Stream(b, "/process.Process/Connect", {"process": {"pid": pid}})
tap.eq(again.next()[1]["event"], {"start": {"pid": pid}}, "it goes on without its client, and is found again")
tap.eq(b.call("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})[0], 200, "it is signalled")
tap.eq(again.next()[1]["event"]["end"], {"error": "signal: killed", "exitCode": -1, "exited": False, "status": "signal: killed"},
       "and its end says so")
tap.eq(b.call("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})[1]["code"], "not_found",
       "what has ended is not found")
again.close()
late = []
for _ in range(40):
    x = b.start(["/bin/true"])
    pid = x.next()[1]["event"]["start"]["pid"]
    while "end" not in x.next()[1]["event"]:
        pass
    late += [b.call("process.Process/" + m, {"process": {"pid": pid}, **more})[1].get("code")
             for m, more in (("SendSignal", {"signal": "SIGNAL_SIGKILL"}), ("CloseStdin", {}))]
    late += [x["pid"] for x in b.call("process.Process/List", {})[1]["processes"]]
    x.close()
tap.eq(set(late), {"not_found"}, "from the moment on that its end is told")
b.write("/home/user/d/a.bin", bytes(range(256)) * 20)
tap.eq(b.read("d/a.bin")[2], bytes(range(256)) * 20, "what was written is read, under either name of its directory")
form = b'--X\r\nContent-Disposition: form-data; name="file"; filename="one.txt"\r\n\r\nfirst\r\n--X\r\n' \
       b'Content-Disposition: form-data; name="file"; filename="/work/d/two.txt"\r\n\r\n\r\n--X--\r\n'
r = b.ask("POST", "/files", form, {"Content-Type": "multipart/form-data; boundary=X"})
tap.eq((r[0], [f["path"] for f in r[2]], b.read("one.txt")[2], b.read("d/two.txt")[2]),
       (200, ["/work/one.txt", "/work/d/two.txt"], b"first", b""), "a form writes its files")
lines = b.execute("x = 41\nprint('o')\nx + 1")
tap.eq(("".join(m["text"] for m in lines if m["type"] == "stdout"), [m for m in lines if m["type"] != "stdout"]),
       ("o\n", [{"execution_count": 1, "type": "number_of_executions"}, {"is_main_result": True, "text": "42", "type": "result"}]),
       "code has output and a result")
tap.eq([m["name"] for m in b.execute("x / 0") if m["type"] == "error"], ["ZeroDivisionError"], "an error is told")
tap.eq([m["text"] for m in b.execute("x") if m["type"] == "result"], ["41"], "and its variables stay")
lines = b.execute("class J:\n    def _repr_json_(self): return {'none': None, 'half': 0.5}\nJ()")
tap.eq([m.get("json") for m in lines if m["type"] == "result"], [{"none": None, "half": 0.5}], "a result in JSON is JSON, with null and fractions")
tap.eq(b.execute("1", env_vars={"A": "a" * (1 << 20)})[0], 413, "variables that have no room as code are not left out, but refused")
x = b.start(["/bin/sleep", "100"], envs={"A": "1", "A1": "2", "A-": "3"})
x.next()
tap.eq([p["config"]["envs"] for p in b.call("process.Process/List", {})[1]["processes"]], [{"A": "1", "A-": "3", "A1": "2"}],
       "variables whose names begin alike are told")
x.close()
b.run("pkill sleep")
status, _, c = b.ask("POST", "/contexts", {"language": "bash", "cwd": "/tmp"})
tap.eq([m["text"] for m in b.execute("pwd", context_id=c["id"])[1:]], ["/tmp\n"], "a context of its own has its directory")
tap.eq([b.ask("DELETE", "/contexts/" + c["id"])[0], b.ask("DELETE", "/contexts/" + c["id"])[0]], [204, 404], "and is removed once")
told = "".join(st.cli("replay", "timeline", r).stdout for r in {x["run"] for x in st.records("agent.exec")})
tap.ok('echo "$GIVEN"; pwd; echo wrong >&2; exit 3' in told and "no-such-program" in told, "what ran is on the record", told)
tap.ok(wait_for(lambda: len(st.records("agent.result")) == len(st.records("agent.exec"))), "and the result of each")

# --- the policy behind it -----------------------------------------------------------------------------
tap.eq(b.run("psql -Atc 'select count(*) from accounts'")["stdout"], "9\n", "psql inside reaches the target")
r = b.run("psql -c 'DROP TABLE spare'")
m = re.search(r"request ([a-z2-7]{26})", r["stderr"])
tap.ok(r["exitCode"] == 1 and "two-people" in r["stderr"] and m, "a DROP is refused with its rule and a request", r)
tap.eq(b.run("psql -c 'CREATE EXTENSION adminpack'")["exitCode"], 1, "what escapes is refused")
for person in ("dana", "omar"):
    st.sign("approve", m.group(1), person)
tap.eq(b.run("psql -c 'DROP TABLE spare'")["stdout"], "DROP TABLE\n", "signed by both it passes")
r = b.run("psql -c 'CREATE TABLE spare(id int)' -c 'DROP TABLE spare'")
tap.ok("two-people" in r["stderr"] and m.group(1) not in r["stderr"], "and once: the next one asks anew", r)
seen = b.run("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc/hosts /etc/passwd 2>/dev/null; ls -laR /run /work /tmp /home /srv "
             "/opt 2>/dev/null; cat /work/.[a-z]* /work/* 2>/dev/null; cat /proc/self/mountinfo; ls -la /proc/[0-9]*/fd 2>/dev/null")["stdout"]
tap.ok(len(seen) > 1000 and not [n for n in (pg.password, KEYS["alice"], KEYS["bob"], b.token, b.traffic) if n in seen],
       "no credential, key or token is inside")

# --- each key's own -----------------------------------------------------------------------------------
o = s.create(key="bob")
owners = {r["data"]["login"]: r["data"]["owner"] for r in st.records("run.start")}
if ROOT:
    tap.eq(owners.get("unix:nobody"), "dana", "a key's runs are of the person whose login it stands for")
tap.eq(owners.get(login()), "olivia", "one without a login has runs of who runs the server")
tap.eq([s.ask("POST", "/sandboxes", {}, key=k)[0] for k in (None, "wrong-key-0123456789", "")], [401, 401, 401], "a wrong key is refused")
for method, what, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/timeout", {"timeout": 9}), ("POST", "/pause", {}),
                           ("POST", "/connect", {"timeout": 9}), ("PUT", "/network", {}), ("GET", "/metrics", None)):
    r = s.ask(method, "/sandboxes/" + b.id + what, body, key="bob")
    tap.ok(r[0] == 404 and r[2]["code"] == 404, "%s %s of another key's sandbox is not found" % (method, what or "it"), r)
tap.eq(([x["sandboxID"] for x in s.ask("GET", "/v2/sandboxes", key="bob")[2]], [x["sandboxID"] for x in s.ask("GET", "/v2/sandboxes")[2]]),
       ([o.id], [b.id]), "each key lists its own")
tap.eq(b.ask("GET", "/files?path=one.txt", headers={"X-Access-Token": o.token})[0], 401, "another sandbox's token opens nothing")
tap.eq(b.ask("POST", "/execute", {"code": "1"}, {"X-Access-Token": ""})[0], 401, "nor does none")
tap.eq(b.ask("GET", "/contexts", headers={"X-Access-Token": "", "E2B-Traffic-Access-Token": b.traffic})[0], 200, "its other token does")
tap.eq(o.kill(), 204, "a key ends its own")

# --- lists, time, pause ------------------------------------------------------------------------------------
c2, c3 = s.create(metadata={"job": "c"}), s.create(metadata={"job": "c"})
r = s.ask("GET", "/v2/sandboxes?limit=2")
tap.eq(([x["sandboxID"] for x in r[2]], [x["sandboxID"] for x in s.ask("GET", "/v2/sandboxes?limit=2&nextToken=" + r[1]["X-Next-Token"])[2]]),
       ([b.id, c2.id], [c3.id]), "a list has pages")
tap.eq([x["sandboxID"] for x in s.ask("GET", "/v2/sandboxes?metadata=job%3Da%252520%252526%252520b")[2]], [b.id], "and a filter of metadata")
tap.eq([x["sandboxID"] for x in s.ask("GET", "/v2/sandboxes?order=desc&state=running")[2]], [c3.id, c2.id, b.id], "an order, and states")
r = s.ask("POST", "/sandboxes", {})
tap.ok(r[0] == 429 and "--max-per-key" in r[2]["message"], "a key's fourth is refused, 429 with the limit", r)
tap.eq(c3.kill(), 204, "one is ended")
p = s.create(timeout=1, autoPause=True)
tap.ok(wait_for(lambda: p.control("GET")[2].get("state") == "paused"), "one that pauses at its time's end is paused then")
tap.eq((p.health(), p.run("true")["end"] if p.health() == 204 else None), (502, None), "it is not there meanwhile")
tap.eq((p.control("POST", "/connect", {"timeout": 60})[0], p.run("echo back")["stdout"]), (201, "back\n"), "until it is connected to")
tap.eq((p.control("POST", "/pause", {})[0], p.control("POST", "/pause", {})[0]), (204, 409), "it is paused by order, once")
tap.eq(p.kill(), 204, "a paused one is ended")
t = s.create(timeout=1)
tap.ok(wait_for(lambda: t.health() == 502), "one whose time is over is gone")
tap.ok(wait_for(lambda: [r for r in st.records("run.end") if r["data"]["status"] == "budget:time"]), "and its run says why")
tap.eq(t.control("GET")[0], 404, "nobody finds it any more")

# --- the network ----------------------------------------------------------------------------------------------
s.create().kill()
r = s.ask("POST", "/sandboxes", {"network": {"allowOut": ["evil.example"]}})
tap.ok(r[0] == 403 and "evil.example" in r[2]["message"] and "crm-db" in r[2]["message"], "a host that is no target is refused, with what there is", r)
r = s.ask("POST", "/sandboxes", {"network": {"denyOut": ["10.0.0.0/8"]}})
tap.ok(r[0] == 400 and "10.0.0.0/8" in r[2]["message"], "so is what cannot be meant", r)
n = s.create(network={"allowOut": [pg.host], "denyOut": ["0.0.0.0/0"]})
tap.eq(n.run("psql -Atc 'select 1'")["stdout"], "1\n", "what is allowed is reached")
tap.eq(n.control("PUT", "/network", {"allow_internet_access": False})[0], 204, "and taken away")
tap.ok(n.run("psql -Atc 'select 1'")["exitCode"] == 2, "then it is not reached")
r = n.control("PUT", "/network", {})
tap.ok(r[0] == 403 and "does not come back" in r[2]["message"], "it does not come back", r)
n.kill()

# --- files: nobody gets out ---------------------------------------------------------------------------------------
with open("/etc/passwd", "rb") as f:
    HOST = f.read()
inside = b.read("../../etc/passwd")
tap.ok(inside[0] == 200 and inside[2] != HOST and b"agent" in inside[2], "dots lead to the sandbox's own files")
tap.ok(b.write("/etc/evil", b"x")[0] in (400, 403, 500) and not os.path.exists("/etc/evil"), "what is read-only inside is not written")
b.run("ln -s /proc/1/root/etc /work/out; ln -s /../../../../root /work/up")
tap.ok(b.read("out/shadow")[0] >= 400 and b.read("up/.ssh")[0] >= 400, "links lead nowhere outside")
tap.eq([b.ask("GET", "/files?path=%00")[0], b.ask("GET", "/files")[0], b.ask("GET", "/files?path=" + "a" * 5000)[0]], [400, 400, 400],
       "a path with NUL, none, and one that is too long are refused")
r = b.write("big", b"x" * (3 << 20))
tap.ok(r[0] == 413 and "2 MiB" in r[2]["message"], "an upload over the limit is refused, 413 with the limit", r)
tap.eq(b.read("big")[0], 404, "and nothing of it is there")
tap.eq([b.ask("POST", "/files", f, {"Content-Type": "multipart/form-data; boundary=X"})[0] for f in (
    b"", b"--X", form[:-7], form.replace(b"form-data", b"attachment"), b"--X\r\n" + b"a" * 9000 + b"\r\n")], [400, 400, 400, 400, 413],
       "forms that are cut or malformed are refused")
tap.eq(b.ask("POST", "/files?path=g", b"x", {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})[0], 415,
       "compressed uploads are refused")

# --- hostile clients ---------------------------------------------------------------------------------------------------
bad = {"an envelope that is too long": (b"\0\xff\xff\xff\xff{}", "resource_exhausted"), "a compressed one": (envelope({}, 1), "unimplemented"),
       "one that is cut": (envelope({})[:4], "invalid_argument"), "two of them": (envelope({}) * 2, "invalid_argument"),
       "one that is not JSON": (envelope(b"{"), "invalid_argument"), "a key twice": (envelope(b'{"a":1,"a":2}'), "invalid_argument"),
       "depth": (envelope(b"[" * 5000), "invalid_argument"), "no command": (envelope({}), "invalid_argument")}
for what, (body, code) in bad.items():
    c = s.open()
    c.request("POST", "/process.Process/Start", body, dict(b.headers(), **{"Content-Type": "application/connect+json"}))
    answer = c.getresponse().read()
    c.close()
    flags, message = answer[0], json.loads(answer[5:])
    tap.eq((flags, message["error"]["code"]), (2, code), "%s is refused in the stream's own words" % what)
tap.eq([b.ask("POST", "/process.Process/List", b"\x00", {"Content-Type": "application/proto"})[2]["code"], b.call("process.Process/Frob", {})[1]["code"]],
       ["unimplemented", "unimplemented"], "binary messages and calls that are not served are refused")
tap.eq([s.ask("GET", "/nope")[0], s.ask("PATCH", "/sandboxes")[0], s.ask("POST", "/sandboxes", b"[1]")[0], s.ask("POST", "/sandboxes", {"timeout": -1})[0],
        s.ask("POST", "/sandboxes", {"metadata": {"a": 1}})[0], s.ask("POST", "/sandboxes", {"envVars": {"A\n": "x"}})[0]], [404, 405, 400, 400, 400, 400],
       "what is not served, and orders that are malformed, are refused")
tap.ok(raw(s.port, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n").startswith(b"HTTP/1.1 400 ") and
       raw(s.port, os.urandom(2000)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 ", b"HTTP/1.1 414 ")), "bytes that are no HTTP are refused")
slow = b.start(["/bin/bash", "-c", "head -c 6000000 /dev/zero"])
pid = slow.next()[1]["event"]["start"]["pid"]
tap.eq(b.run("echo still")["stdout"], "still\n", "a client that does not read holds nobody else")
got = 0
while True:
    flags, m = slow.next()
    if flags == 2 or "end" in m["event"]:
        break
    got += len(base64.b64decode(m["event"]["data"]["stdout"]))
tap.eq(got, 6000000, "and loses nothing when it reads at last")
slow.close()
slow = b.start(["/bin/bash", "-c", "cat /dev/zero"])
pid = slow.next()[1]["event"]["start"]["pid"]
b.call("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
tap.ok(wait_for(lambda: not b.call("process.Process/List", {})[1]["processes"], 30), "a program whose client does not read is ended by order")
slow.close()

# --- what is killed -------------------------------------------------------------------------------------------------------
bg = b.start(["/bin/sleep", "1000"])
pid = bg.next()[1]["event"]["start"]["pid"]
for w in s.children():
    os.kill(w, signal.SIGKILL)
tap.ok(wait_for(lambda: pid in [p["pid"] for p in b.call("process.Process/List", {})[1]["processes"]]), "programs outlive a worker that is killed")


def keeper_of(box):
    """Its process: the one that listens under the sandbox's id."""
    inodes = [line.split()[6] for line in open("/proc/net/unix", encoding="ascii") if line.rstrip().endswith("keeper-" + box.id) and " 00010000 " in line]
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/exe" % p).endswith("/cofferdam-agent") and any(
                    os.readlink("/proc/%s/fd/%s" % (p, f)) == "socket:[%s]" % inodes[0] for f in os.listdir("/proc/%s/fd" % p)):
                return int(p)
        except OSError:
            continue


k = keeper_of(c2)
os.kill(k, signal.SIGKILL)
tap.ok(wait_for(lambda: c2.health() == 502 and c2.control("GET")[0] == 404), "a sandbox whose keeper is killed is gone")
tap.ok(wait_for(lambda: not left([c2])), "and nothing of it is left", left([c2]))
tap.eq(b.run("echo on")["stdout"], "on\n", "the others go on")
s.p.kill()
s.p.wait()
tap.ok(wait_for(lambda: not left([b])), "nor is anything left when the server is killed", left([b]))
tap.ok(wait_for(lambda: len(st.records("run.end")) == len(st.records("run.start"))), "each run has its end on the record")

# --- many ----------------------------------------------------------------------------------------------------------------------
s = Server(st)
many = at_once(100, lambda i: s.ask("POST", "/sandboxes", {"timeout": 300}))
made = [m[2]["sandboxID"] for m in many if m[0] == 201]
refused = [m[2]["message"] for m in many if m[0] == 429]
tap.eq((len(made), len(refused)), (48, 52), "of a hundred at once as many are made as there is room for, the rest is refused, 429")
tap.ok(all("--max" in m for m in refused), "with the limit", refused[:1])
tap.eq(len(s.ask("GET", "/v2/sandboxes?limit=100")[2]), 48, "all of them are listed")
ended = at_once(48, lambda i: s.ask("DELETE", "/sandboxes/" + made[i])[0])
tap.eq(ended, [204] * 48, "and ended")
tap.eq(s.create().kill(), 204, "then there is room again")
s.stop()
tap.eq(s.p.returncode, 0, "it ends in order with SIGTERM")
tap.ok(wait_for(lambda: len(st.records("run.end")) == len(st.records("run.start"))), "and so did each run")
tap.ok(st.verify().returncode == 0, "the log verifies")
tap.done()
