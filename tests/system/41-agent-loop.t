#!/usr/bin/python3
"""The agent's loop against a core played by this test: order of records, budgets, kill, resume."""
import array
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Tap, Temp, ipc_version, must, wait_for

(A_OPEN, A_PLAN, A_LISTEN, A_START, A_STARTED, A_EVENT, A_EVENT_ACK, A_END, A_ENDED, A_RESUME, A_ERROR,
 A_KILL) = range(80, 92)
AGENT = os.path.join(BUILD, "cofferdam-agent")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]
tap, temp = Tap(), Temp("loop")
must(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
      "-subj", "/CN=played CA", "-keyout", temp.path + "/ca.key", "-out", temp.path + "/ca.pem"])
with open(temp.path + "/ca.pem", encoding="ascii") as f:
    CA = f.read()


def u32(n):
    return struct.pack(">I", n)


def u64(n):
    return struct.pack(">Q", n)


def s(text):
    b = text if isinstance(text, bytes) else text.encode()
    return u32(len(b)) + b


class Rd:
    def __init__(self, b):
        self.b = b

    def take(self, n):
        out, self.b = self.b[:n], self.b[n:]
        assert len(out) == n
        return out

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def s(self):
        return self.take(self.u32())


class Core(threading.Thread):
    """Speaks the A_* frames and writes down what it heard; `on` hooks an event's type."""

    def __init__(self, targets=(), on=None, refuse=None, env=()):
        super().__init__(daemon=True)
        self.targets, self.on, self.refuse, self.env = list(targets), on or {}, refuse, list(env)
        self.heard, self.listeners, self.events, self.level = [], {}, [], None
        self.open = self.end = self.conn = None
        self.drop_once = None
        self.words, self.told = "- db: allowed\n", []
        self.path = "%s/agent-%d.sock" % (temp.path, id(self))
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(self.path)
        self.sock.listen()
        self.start()

    def frame(self):
        data, anc = b"", []
        while len(data) < 8:
            part, a, _, _ = self.conn.recvmsg(8 - len(data), socket.CMSG_SPACE(16))
            if not part:
                return None
            data += part
            anc += a
        n, t, nfds = struct.unpack(">IHH", data)
        body = b""
        while len(body) < n:
            part = self.conn.recv(n - len(body))
            if not part:
                return None
            body += part
        fds = array.array("i")
        for _, _, d in anc:
            fds.frombytes(d)
        assert len(fds) == nfds
        return t, Rd(body), list(fds)

    def send(self, t, body=b""):
        try:
            self.conn.sendall(struct.pack(">IHH", len(body), t, 0) + body)
        except OSError:
            pass

    def run(self):
        while True:
            self.conn, _ = self.sock.accept()
            while True:
                try:
                    f = self.frame()
                except OSError:
                    f = None
                if f is None or not self.one(*f):
                    break
            self.conn.close()

    def one(self, t, r, fds):
        self.heard.append(t)
        if t == A_OPEN:
            self.open = [r.u32(), r.s().decode(), r.s().decode()]
            self.parent = r.s().decode()
            self.open.append([r.s().decode() for _ in range(r.u32())])
            self.effects = [r.s().decode() for _ in range(r.u32())]
            self.budget = r.s().decode()
            self.open += [r.s().decode(), bytes([r.take(1)[0] & 1]), r.b]
            if self.refuse:
                self.send(A_ERROR, u32(self.refuse[0]) + s(self.refuse[1]))
                return False
            self.send(A_PLAN, s("r-played") + s("alice") + s(CA) + u32(len(self.targets)) +
                      b"".join(s(n) + s(k) + s(h) + u32(p) + s(a) + s(d) + s(u) + bytes([(how or [1])[0]])
                               for n, k, h, p, a, d, u, *how in self.targets) +
                      u32(len(self.env)) + b"".join(s(n) + s(v) for n, v in self.env) + s(self.words) + u32(0))
        elif t == A_LISTEN:
            self.listeners[r.u32()] = socket.socket(fileno=fds[0])
        elif t == A_START:
            self.level = json.loads(r.s())
            self.send(A_STARTED)
        elif t == A_RESUME:
            self.resumed = (r.u32(), r.s().decode(), r.take(9) and r.b)
            self.send(A_STARTED)
        elif t == A_EVENT:
            id_, type_, fields, content = r.u64(), r.s().decode(), r.s(), r.s()
            f = json.loads(fields)
            canon = json.dumps(f, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            self.events.append((id_, type_, f, content.decode("utf-8", "replace"), canon == fields))
            if type_ in self.on and self.on[type_](self, f) is False:
                return False
            told = self.told.pop(0) if type_ == "result" and self.told else ("", "")
            self.send(A_EVENT_ACK, u64(id_) + u64(len(self.events)) + s(told[0]) + s(told[1]))
        elif t == A_END:
            self.end = (r.s().decode(), r.s().decode())
            self.spent = r.s().decode()
            self.send(A_ENDED)
        return True

    def types(self):
        return [e[1] for e in self.events]


def script(text):
    path = "%s/s%d.md" % (temp.path, time.monotonic_ns())
    with open(path, "w") as f:
        f.write(text)
    return path


def agent(core, *opts, text=None, cmd=None, **kw):
    argv = [AGENT, "run"] + BASE + ["--socket", core.path] + list(opts)
    if text is not None:
        argv += ["--task", kw.pop("task", "the task"), "--script", script(text)]
    if cmd is not None:
        argv += ["--"] + cmd
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=90, **kw)


# --- a whole conversation ------------------------------------------------------------------
order = []


def before_running(core, fields):
    order.append(("exec", os.path.exists(ws + "/ran")))


ws = temp.path + "/ws"
os.mkdir(ws)
core = Core(on={"exec": before_running})
r = agent(core, "--agent", "tester", "--workspace", ws, text="""# a conversation
## say
I look.
## code bash
echo out; echo err >&2; touch /work/ran; exit 3
## code python
print("six" * 2)
## say
Nothing to run \x1b]0;title\x07here.
## code cobol
DISPLAY
## done
All is well.
""")
tap.eq(r.returncode, 0, "a conversation runs to its end")
tap.eq(core.open[:4], [ipc_version(), "tester", "the task", []], "the run is registered with agent, task and targets")
tap.eq(core.open[5:], [b"\0", b""], "no listener for models is asked for, and there is nothing behind it")
tap.eq(core.types(), ["model", "exec", "result", "model", "exec", "result", "model", "exec", "result", "model"],
       "words, code and output are recorded in their order")
tap.eq(order[0], ("exec", False), "code is on the record before it runs")
tap.ok(all(e[4] for e in core.events), "the fields of every event are canonical JSON", core.events)
tap.eq(core.events[0][3], "I look.", "the model's words are recorded whole")
tap.ok("touch /work/ran" in core.events[1][3] and core.events[1][2]["language"] == "bash", "and the code, with its language")
f = core.events[2][2]
tap.eq((f["cause"], f["value"], f["total_bytes"], core.events[2][3]), ("exited", 3, 8, "out\nerr\n"),
       "and the output, in order, with cause, status and total")
tap.eq(core.events[5][3], "sixsix\n", "python code runs too")
tap.eq((core.events[8][2]["cause"], "cobol" in core.events[8][3]), ("not_started", True),
       "a language that is not there is the turn's result, not the end")
tap.eq(core.end, ("done", "All is well."), "the end is reported with its words")
tap.ok("landlock_abi" in core.level and "seccomp" in core.level, "the level that really holds is reported", core.level)
tap.ok("I look." in r.stdout and "sixsix" in r.stdout and "r-played" in r.stdout and "alice" in r.stdout,
       "the transcript shows run, owner, words and output", r.stdout)
tap.ok("\x1b" not in r.stdout and "\\x1b" in r.stdout, "and no control character of the model's", r.stdout)

core = Core()
r = agent(core, text="""## code bash
echo kept > /tmp/kept; (setsid sleep 50 &) ; sleep 51 & echo first
## code bash
cat /tmp/kept; ls -d /proc/[0-9]*/ | wc -l; ls /tmp/.code
## done
""")
tap.eq(core.events[5][3].split()[:1] + [core.events[5][2]["cause"]] if len(core.events) > 5 else r.stderr, ["kept", "exited"],
       "files stay from one turn to the next")
tap.ok(int(core.events[5][3].split()[1]) <= 3, "and processes do not", core.events[5][3])
tap.eq(core.events[5][3].split()[2:], ["2.sh"], "nor does an earlier turn's code")

# --- the tools of a model -------------------------------------------------------------------
core = Core()
r = agent(core, text="""## cell python
x = 41
print("hi")
x + 1
## cell python
x += 1; print(x); y
## cell bash
cd /tmp; v=5; false
## cell bash
pwd; echo $v
## cell javascript
let a = 1; a + 1
## cell bash
exit 3
## cell bash
echo "again[$v]"
## call run_code
{"language": "python"}
## call fly
{}
## call run_code
{"language": "python", "code": "import time\nx += 1\ntime.sleep(60)", "timeout_s": 1}
## cell python
print(x)
## call finish
{"answer": "It cannot be done.", "outcome": "not_done"}
""".replace("\nx += 1\n", "\\nx += 1\\n"))
got = [(e[2]["cause"], e[3]) for e in core.events if e[1] == "result"] + [("", r.stderr)] * 12
tap.eq(got[0], ("ok", "hi\n42\n"), "code in a context: its output, and the value of its last expression")
tap.ok(got[1][0] == "error" and got[1][1].startswith("42\n") and got[1][1].endswith("NameError: name 'y' is not defined\n"),
       "variables live on, and an error is a result", got[1])
tap.eq(got[2:5], [("error", ""), ("ok", "/tmp\n5\n"), ("ok", "2\n")], "in the shell and in node as well")
tap.eq((got[5], got[6]), (("exited", ""), ("ok", "again[]\n")), "an interpreter that ends is begun anew")
tap.ok(got[7] == ("not_started", 'run_code: "code" is missing') and 'there is no tool "fly"' in got[8][1],
       "arguments that are wrong are answered with what is wrong", got[7:9])
tap.eq((got[9][0], got[10]), ("timeout", ("ok", "43\n")), "code that takes too long is interrupted, and its variables are there")
tap.eq((core.end, r.returncode), (("not_done", "It cannot be done."), 1), "finish ends the run, also with a task that was not done")
tap.eq([e[2].get("tool") for e in core.events if e[1] == "exec"],
       ["run_code"] * 8 + [""] + ["run_code"] * 2 + ["finish"], "each call is on the record under its tool")
core = Core()
r = agent(core, text="""## cell bash
head -c 100000 /dev/zero | tr '\\0' a; echo END
## call read_file
{"path": "/tmp/outputs/call-1.txt", "offset": 99990}
## code bash
wc -c </tmp/outputs/call-1.txt; seq 40000
## code bash
grep -c . /tmp/outputs/call-3.txt
## call write_file
{"path": "/work/d/a.txt", "content": "h\u00e4llo"}
## call read_file
{"path": "d/a.txt"}
## call read_file
{"path": "d/a.txt", "limit": 2}
## call read_file
{"path": "/work/none"}
## call write_file
{"path": "/etc/passwd", "content": "x"}
## done
""")
got = [(e[2]["cause"], e[3]) for e in core.events if e[1] == "result"] + [("", r.stderr)] * 9
tap.ok("67236 of 100004 bytes left out" in got[0][1] and "all of it is in /tmp/outputs/call-1.txt" in got[0][1] and
       got[0][1].endswith("aEND\n"), "of long output head and tail, what was left out, and where all of it is", got[0][1][-60:])
tap.eq(got[1], ("ok", "aaaaaaaaaaEND\n"), "the whole is read on from any byte")
tap.ok(got[2][1].startswith("100004\n") and got[3] == ("exited", "40001\n"), "and searched by programs", got[3])
tap.eq(got[5], ("ok", "h\u00e4llo"), "a file is written, with the directory above it, and read")
tap.ok(got[6] == ("ok", "h") and "read on with offset 1" in r.stdout, "a limit cuts no character in two", got[6])
tap.ok(got[7][0] == got[8][0] == "not_started" and "No such file" in got[7][1] and core.end[0] == "done",
       "a file that is not there, or may not be written, is an answer", got[7:9])

# --- targets -------------------------------------------------------------------------------
def serve(core, fields, only=None):
    def go():
        for i, l in core.listeners.items():
            if only not in (None, i):
                continue
            l.setblocking(True)
            c, _ = l.accept()
            c.sendall(b"hello from %d\n" % i)
            c.close()
    threading.Thread(target=go, daemon=True).start()


core = Core(targets=[("db", "postgres", "db.internal", 5432, "127.70.0.1", "crm", "agent"),
                     ("api", "http", "api.example.com", 443, "127.70.0.2", "", "")], on={"exec": serve})
r = agent(core, "--target", "db", "--target", "api", text="""## code bash
for t in db.internal/5432 api.example.com/443; do exec 5<>/dev/tcp/$t; head -1 <&5; done
getent hosts db.internal; echo "$PGHOST $PGPORT $PGDATABASE $PGUSER $PGSSLMODE"
cat /etc/cofferdam/ca.pem; cmp $SSL_CERT_FILE /etc/ssl/certs/ca-certificates.crt && echo same
(exec 6<>/dev/tcp/db.internal/5433) 2>/dev/null || echo other port refused
## done
""")
out = core.events[2][3] if len(core.events) > 2 else r.stderr
tap.eq(core.open[3], ["db", "api"], "the targets that were asked for are named")
tap.ok("hello from 0\nhello from 1\n" in out, "each target's own name and port lead to its own listener, and out of the sandbox", out)
tap.ok("127.70.0.1" in out and "db.internal 5432 crm agent verify-full" in out, "names and the database's variables are there", out)
tap.ok(CA in out and "same" in out, "and the run's certificates where programs look", out)
tap.ok("other port refused" in out, "another port of the same name leads nowhere", out)

# --- http: the proxy, certificates, placeholders ---------------------------------------------
MATRIX = ("SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO AWS_CA_BUNDLE PIP_CERT npm_config_cafile "
          "CARGO_HTTP_CAINFO NIX_SSL_CERT_FILE CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE HTTPLIB2_CA_CERTS DENO_CERT "
          "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH CODEX_CA_CERTIFICATE").split()
core = Core(targets=[("db", "postgres", "one.test", 5432, "127.77.0.1", "crm", "agent"),
                     ("api", "http", "one.test", 443, "127.77.0.1", "", ""),
                     ("api2", "http", "one.test", 8443, "127.77.0.1", "", ""),
                     ("star", "http", "*.ok.test", 443, "", "", "", 0),
                     ("six", "http", "fd00::1", 443, "127.77.0.4", "", ""),
                     ("four", "http", "192.0.2.1", 443, "127.77.0.5", "", ""),
                     ("local", "http", "localhost", 8080, "127.77.0.6", "", ""),
                     ("", "proxy", "proxy.cofferdam.internal", 3128, "127.77.0.7", "", "")],
            env=[("GITHUB_TOKEN", "cfph_" + "a" * 26)], on={"exec": lambda c, f: serve(c, f, 7)})
r = agent(core, text="""## code bash
cat /etc/hosts
for v in """ + " ".join(MATRIX) + """; do echo "$v=${!v}"; done
echo "$NODE_EXTRA_CA_CERTS $PGSSLROOTCERT $SSL_CERT_DIR"
## code bash
for v in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy ALL_PROXY all_proxy; do echo "$v=${!v}"; done
echo "[$NO_PROXY][$no_proxy] $GITHUB_TOKEN"; exec 5<>/dev/tcp/proxy.cofferdam.internal/3128; head -1 <&5
## code bash
cmp /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt && cmp /etc/ssl/cert.pem $SSL_CERT_FILE && echo same
openssl verify -CAfile $SSL_CERT_FILE /etc/cofferdam/ca.pem
env -i openssl verify /etc/cofferdam/ca.pem
env -i openssl verify -no-CAfile -no-CAstore -CApath /etc/ssl/certs /etc/cofferdam/ca.pem
openssl pkcs12 -in /etc/ssl/certs/java/cacerts -passin pass:changeit -nokeys 2>/dev/null | grep -c 2.16.840.1.113894.746875.1.1
grep -c BEGIN $SSL_CERT_FILE
## done
""")
out = [e[3] for e in core.events if e[1] == "result"] or [r.stderr] * 3
tap.eq(out[0].splitlines()[:6], ["127.0.0.1 localhost sandbox", "::1 localhost", "127.77.0.1 one.test",
                                 "127.77.0.7 proxy.cofferdam.internal"] +
       ["%s=/etc/ssl/certs/ca-certificates.crt" % v for v in MATRIX[:2]],
       "a host of several targets is named once, an address, localhost and a wildcard not at all")
tap.ok(all("\n%s=/etc/ssl/certs/ca-certificates.crt\n" % v in out[0] for v in MATRIX), "each ecosystem's variable leads to the bundle",
       out[0])
tap.has(out[0], "/etc/cofferdam/ca.pem /etc/cofferdam/ca.pem /etc/ssl/certs", "node adds the run's CA, libpq trusts it alone")
tap.eq(out[1].splitlines()[:6], ["%s=http://127.77.0.7:3128" % v for v in
                                 ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")],
       "the proxy's variables, in both spellings")
tap.has(out[1], "[localhost,127.0.0.1,::1][localhost,127.0.0.1,::1] cfph_" + "a" * 26, "what stays inside, and the placeholder")
tap.has(out[1], "hello from 7", "the proxy's listener is its entry of the plan")
tap.eq(sorted(core.listeners), [0, 1, 2, 4, 5, 6, 7], "every entry that wants a listener has one, the wildcard has none")
lines = out[2].splitlines()
tap.eq(lines[:4], ["same"] + ["/etc/cofferdam/ca.pem: OK"] * 3,
       "the run's CA is trusted by variable, by the system's file, and by the system's directory")
host_roots = 0
if os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
    with open("/etc/ssl/certs/ca-certificates.crt", encoding="utf-8") as f:
        host_roots = f.read().count("BEGIN CERTIFICATE")
tap.eq(lines[4:], [str(host_roots + 1)] * 2, "bundle and Java's keystore hold this machine's authorities, too")

# --- budgets, errors -----------------------------------------------------------------------
core = Core()
r = agent(core, "--max-turns", "3", text="## say\na\n## say\nb\n## say\nc\n## say\nd\n## done\n")
tap.eq((core.types(), core.end[0], r.returncode), (["model"] * 3, "budget:turns", 1), "the budget of turns ends the run")
core = Core()
begin = time.monotonic()
r = agent(core, "--max-time", "1", text="## code bash\nsleep 60\n## say\nlater\n## done\n")
tap.ok(core.end[0] == "budget:time" and core.events[2][2]["cause"] == "timeout" and time.monotonic() - begin < 6,
       "the budget of time ends code and run", (core.events, core.end))
core = Core()
r = agent(core, text="## code bash\nhead -c 300000 /dev/zero | tr '\\0' x; echo END\n## done\n")
tap.ok(core.events[2][2]["total_bytes"] == 300004 and core.events[2][2]["kept_bytes"] == 32768 and
       "left out" in core.events[2][3] and core.events[2][3].endswith("END\n"),
       "long output is cut to its begin and end, with the total", core.events[2][2])
core = Core()
r = agent(core, text="## say\nno end\n")
tap.ok(core.end[0] == "error" and "done" in core.end[1] and r.returncode == 1, "a script without an end is an error", core.end)
core = Core(refuse=(12, "unix:nobody is no login of a person"))
r = agent(core, text="## code bash\ntouch %s/never\n## done\n" % ws, task="x")
tap.ok(r.returncode == 1 and "no login of a person" in r.stderr and core.events == [] and not os.path.exists(ws + "/never"),
       "a registration that is refused runs nothing, and says why", r.stderr)
r = agent(Core(), text="## cod bash\nls\n")
tap.ok(r.returncode == 2 and ":1: " in r.stderr, "a script that is not understood is refused with its line", r.stderr)
for opts, word in ((["--max-turns", "0"], "--max-turns"), (["--nonsense"], "--nonsense"), (["--task"], "--task"),
                   ([], "--script")):
    r = subprocess.run([AGENT, "run"] + opts, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    tap.ok(r.returncode == 2 and word in r.stderr, "options %s: refused by name" % opts, r.stderr)
r = subprocess.run([AGENT, "run"] + BASE + ["--socket", temp.path + "/none.sock", "--", "true"],
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
tap.ok(r.returncode == 1 and "none.sock" in r.stderr, "no broker: said by name", r.stderr)

# --- kill and resume -----------------------------------------------------------------------
def kill_soon(core, fields):
    threading.Timer(0.5, lambda: core.send(A_KILL, s("frozen by alice"))).start()


core = Core(on={"exec": kill_soon})
begin = time.monotonic()
r = agent(core, "--workspace", ws, text="## code bash\nsleep 20; touch /work/survived\n## say\nnext\n## done\n")
tap.ok(r.returncode == 1 and "frozen by alice" in r.stderr and time.monotonic() - begin < 6 and
       core.types() == ["model", "exec"] and not os.path.exists(ws + "/survived"),
       "a kill from outside ends code and run at once, with the reason", (r.stderr, core.types()))


def lose(core, fields):
    if core.drop_once is None:
        core.drop_once = True
        return False


core = Core(on={"result": lose})
r = agent(core, text="## code bash\necho one\n## code bash\necho two\n## done\nend\n")
tap.ok(core.resumed == (ipc_version(), "r-played", b"") and core.end == ("done", "end") and r.returncode == 0,
       "a core that goes away before its acknowledgement is found again, and the run goes on", (r.stderr, core.types()))
ids = [e[0] for e in core.events if e[1] == "result"]
tap.ok(len(ids) == 3 and ids[0] == ids[1] and ids[2] > ids[1], "the event that was not acknowledged is sent again under its id", ids)


def drop_in_exec(core, fields):
    if core.drop_once is None:
        core.drop_once = True
        threading.Timer(0.3, lambda: core.conn.shutdown(socket.SHUT_RDWR)).start()


core = Core(on={"exec": drop_in_exec})
r = agent(core, text="## code bash\nsleep 1; echo through\n## done\nend\n")
tap.ok(core.end == ("done", "end") and core.events[2][3] == "through\n" and A_RESUME in core.heard,
       "a core that goes away while code runs is found again, and the code is not disturbed", (r.stderr, core.events))


def refuse_resume(core, fields):
    def one(t, r_, fds, was=core.one):
        if t == A_RESUME:
            core.send(A_ERROR, u32(8) + s("no such run"))
            return False
        return was(t, r_, fds)
    core.one = one
    threading.Timer(0.3, lambda: core.conn.shutdown(socket.SHUT_RDWR)).start()


core = Core(on={"exec": refuse_resume})
begin = time.monotonic()
r = agent(core, text="## code bash\nsleep 30\n## done\nend\n")
tap.ok(r.returncode == 1 and "no such run" in r.stderr and time.monotonic() - begin < 10,
       "a core that no longer knows the run ends it", r.stderr)

# --- any command ---------------------------------------------------------------------------
core = Core()
r = agent(core, cmd=["sh", "-c", "read x; echo got $x; echo e >&2; exit 4"], stdin=None, input="line\n")
tap.eq((r.stdout, r.returncode, "e\n" in r.stderr), ("got line\n", 4, True), "run -- COMMAND passes streams and status through")
tap.eq(core.types(), ["exec", "result"], "and is on the record")
tap.eq((core.events[0][2]["argc"], core.events[0][3], core.events[1][2]["value"], core.end[0]), (3, "sh -c 'read x; echo got $x; echo e >&2; exit 4'", 4, "done"),
       "with its arguments, its status and its end")
core = Core()
r = agent(core, cmd=["true"] + ["x" * 100000] * 10)
tap.eq((r.returncode, len(core.events[0][3])), (0, 4 + 10 * 100001), "a long command is on the record, all of it")
core = Core()
r = agent(core, cmd=["true"] + ["x" * 100000] * 11)
tap.ok(r.returncode != 0 and core.types() == [] and "the command is over 1048576 bytes" in r.stderr, "one that no record takes does not run", r.stderr[-300:])
p = subprocess.Popen([AGENT, "run"] + BASE + ["--socket", Core().path, "--", "sh", "-c", "echo up; sleep 3%d" % os.getpid()],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
p.stdout.readline()
p.send_signal(signal.SIGKILL)
p.wait()


def sleeper():
    for d in os.listdir("/proc"):
        try:
            if d.isdigit() and b"sleep\x003%d" % os.getpid() in open("/proc/%s/cmdline" % d, "rb").read():
                return True
        except OSError:
            pass
    return False


tap.ok(wait_for(lambda: not sleeper(), 5), "an agent that is killed takes its sandbox with it")
tap.done()
