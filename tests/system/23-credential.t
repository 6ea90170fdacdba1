#!/usr/bin/python3
"""`cofferdam credential`: what goes into the vault, from where, and what it says of it. Never a secret."""
import json
import os
import pty
import signal
import stat
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Http, Stack, Tap, Temp, must, run, wait_for
from origin import Origin

tap, temp = Tap(), Temp("cred")
os.chdir(temp.path)
with open("policy.json", "w", encoding="ascii") as f:
    json.dump({"schema": "cofferdam-policy/1", "policy": "p", "serial": 1, "clock": "trusted", "people": {},
               "calendars": {}, "rules": [{"id": "r", "permit": {"effects": {"only": ["@data"]}}}],
               "targets": {
                   "api": {"kind": "http", "env": "prod", "origin": "https://api.test", "credential": "api-token"},
                   "api2": {"kind": "http", "env": "prod", "origin": "https://api2.test", "credential": "moved"},
                   "db": {"kind": "postgres", "env": "prod", "host": "db.test", "port": 5432, "database": "d",
                          "user": "agent", "credential": "db-agent", "tls": "verify-full"}}}, f)
must([CLI, "init", "--state", "st", "--origin", "a.example/log", "--policy", "policy.json"])
SECRET = "canary-" + os.urandom(16).hex()
said = []


def cred(*args, secret=SECRET, **kw):
    if secret is not None:
        kw.update(stdin=None, input=secret)
    r = run([CLI, "credential", *args, "--state", "st"], **kw)
    said.append(r.stdout)
    return r


def refused(part, name, *args, **kw):
    r = cred(*args, **kw)
    tap.ok(r.returncode != 0 and part in r.stdout, name, "%d %s" % (r.returncode, r.stdout))


def taken(name, *args, **kw):
    r = cred(*args, **kw)
    tap.ok(r.returncode == 0, name, r.stdout)
    return r.stdout


def listed(name):
    for line in cred("list", secret=None).stdout.splitlines():
        if line.split("\t")[0] == name:
            return line.split("\t")[1:]
    return None


# --- kinds and bindings -----------------------------------------------------------------
out = taken("a bearer token for an origin", "add", "api-token", "--kind", "bearer", "--url", "https://api.test")
tap.eq(out, "api-token: added, version 1\n", "add says name and version")
tap.eq(listed("api-token")[:3], ["bearer", "version 1", "https://api.test:443"], "list says kind, version and binding")
tap.ok(abs(time.time() - time.mktime(time.strptime(listed("api-token")[3], "%Y-%m-%dT%H:%M:%SZ")) + time.timezone) < 60,
       "and when it was set", listed("api-token"))
taken("basic with a user", "add", "b", "--kind", "basic", "--user", "bot", "--url", "https://API.test:8443/")
tap.eq(listed("b")[:3], ["basic", "version 1", "https://bot@api.test:8443"], "the host in one spelling, with its port")
refused("needs a user", "basic without a user", "add", "x", "--kind", "basic", "--url", "https://api.test")
taken("a header", "add", "h", "--kind", "header", "--field", "X-Api-Key", "--url", "https://api.test")
tap.eq(listed("h")[0], "header X-Api-Key", "list names the header")
refused("needs a field", "a header without its name", "add", "x", "--kind", "header", "--url", "https://api.test")
refused("belongs to the message", "the Host header", "add", "x", "--kind", "header", "--field", "Host", "--url",
        "https://api.test")
taken("a query parameter", "add", "q", "--kind", "query", "--field", "key", "--url", "https://api.test")
taken("http for a loopback host", "add", "l", "--kind", "bearer", "--url", "http://127.0.0.1:8080")
refused("clear text", "http for another", "add", "x", "--kind", "bearer", "--url", "http://api.test")
taken("a password of PostgreSQL", "add", "db-agent", "--target-host", "db.test", "--port", "5432", "--user", "agent")
tap.eq(listed("db-agent")[:3], ["postgresql-password", "version 1", "postgresql://agent@db.test:5432"], "bound to user and port")
refused("no --url", "PostgreSQL with an URL", "add", "x", "--kind", "postgresql-password", "--url", "https://db.test")
refused("needs --url", "an HTTP kind without one", "add", "x", "--kind", "bearer", "--target-host", "h", "--port", "1")
refused("--kind must be", "an URL without a kind", "add", "x", "--url", "https://api.test")
for url in ("api.test", "ftp://api.test", "https://u@api.test", "https://api.test/path", "https://api.test:0",
            "https://api.test?x", "https://", "https://api.test#f"):
    refused("--url", "%s is no origin" % url, "add", "x", "--kind", "bearer", "--url", url)
refused("already", "a name that is taken", "add", "api-token", "--kind", "bearer", "--url", "https://other.test")
tap.eq(listed("api-token")[2], "https://api.test:443", "and it stays where it was bound")

for part, args in (("--url", ("x", "--kind", "bearer", "--url", "api.test")), ("credential name", ("a b", "--kind", "bearer", "--url", "https://a.test")),
                   ("needs a user", ("x", "--kind", "basic", "--url", "https://a.test")),
                   ("clear text", ("x", "--kind", "bearer", "--url", "http://a.test")), ("empty", ("x", "--kind", "bearer", "--url", "https://a.test"))):
    refused(part, "without a secret, too, what is wrong is said: %s" % part, "add", *args, secret="")
r = cred("add", "x", "--kind", "bearer", "--url", "http://a.test", "--command", "touch asked; echo secret", secret=None)
tap.ok(r.returncode != 0 and not os.path.exists("asked"), "a password manager is not asked for what could not be taken", r.stdout)
refused('--fd must be a number from 0 to 1023, is "abc"', "a descriptor that is none", "rotate", "api-token", "--fd", "abc", secret=None)
refused('--port must be a number from 1 to 65535, is "65536"', "a port that is none", "add", "x", "--target-host", "h", "--port", "65536", "--user", "u")
refused("--fd and --command: give one of them", "two places for a secret", "rotate", "api-token", "--fd", "0", "--command", "echo x")
refused("--path goes with --run", "a path that nobody asks for", "test", "api-token", "--path", "/x", secret=None)
refused('"--kind" is not an option here', "an option of another verb", "list", "--kind", "bearer", secret=None)
helped = run([CLI, "credential", "add", "--help"]).stdout
tap.ok(" aws (" in helped and "ID KEY [TOKEN]" in helped and "https://*.NAME" in helped, "--help knows of kind aws and *.NAME", helped)

# --- where a secret comes from ----------------------------------------------------------
refused("usage", "a secret as an argument is a usage error", "add", "x", "hunter2", "--kind", "bearer", "--url",
        "https://api.test")
refused("empty", "no secret", "rotate", "api-token", secret="")
refused("empty", "an empty line", "rotate", "api-token", secret="\n")
refused("cannot stand", "two lines", "rotate", "api-token", secret="abcd\nefgh\n")
refused("longer than 8192", "one that is too long is not cut", "rotate", "api-token", secret="x" * 8193 + "\n")
taken("8192 bytes and a line feed", "rotate", "api-token", secret="x" * 8192 + "\n")
r, w = os.pipe()
os.write(w, b"from-a-descriptor")
os.close(w)
taken("from a descriptor", "rotate", "api-token", "--fd", str(r), secret=None, pass_fds=[r])
os.close(r)
taken("from a command's output", "rotate", "api-token", "--command", "printf %s " + SECRET, secret=None)
refused("status 3", "a command that fails gives none", "rotate", "api-token", "--command", "echo half; exit 3", secret=None)
refused("signal 9", "nor one that is killed", "rotate", "api-token", "--command", "echo half; kill -9 $$", secret=None)
refused("usage", "two sources", "rotate", "api-token", "--command", "true", "--fd", "0", secret=None)
tap.eq(listed("api-token")[:3], ["bearer", "version 4", "https://api.test:443"],
       "each that was taken counts the version by one, and the binding stays")
refused("usage", "rotate takes no binding", "rotate", "api-token", "--url", "https://evil.test")
refused("no credential", "rotate of none", "rotate", "nobody")


def terminal(keys, after=None):
    """Types at `rotate` on a terminal; status, and what the terminal showed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(CLI, [CLI, "credential", "rotate", "api-token", "--state", "st"])
    seen = b""
    while b"secret: " not in seen:
        seen += os.read(fd, 1024)
    os.write(fd, keys)
    if after:
        time.sleep(0.2)
        os.kill(pid, after)
    try:
        while True:
            more = os.read(fd, 1024)
            if not more:
                break
            seen += more
    except OSError:
        pass
    status = os.waitpid(pid, 0)[1]
    os.close(fd)
    return os.waitstatus_to_exitcode(status), seen.decode()


status, seen = terminal(b"typed-" + SECRET.encode() + b"\n")
tap.ok(status == 0 and "version 5" in seen, "from a terminal", seen)
tap.ok(SECRET not in seen, "which does not show it", seen)
status, seen = terminal(b"x" * 5000 + b"\n")
tap.ok(status != 0 and "by a pipe" in seen and listed("api-token")[1] == "version 5", "a line that the terminal cuts is not taken", seen)
status, seen = terminal(b"half-of-it", signal.SIGINT)
tap.ok(status != 0 and listed("api-token")[1] == "version 5", "interrupted: nothing is changed", seen)

# --- test -------------------------------------------------------------------------------
taken("bound elsewhere than its target", "add", "moved", "--kind", "bearer", "--url", "https://elsewhere.test")
r = cred("test", "api-token", secret=None)
tap.ok(r.returncode == 0 and r.stdout == "api: used, for https://api.test:443\n", "test names the targets that use it", r.stdout)
r = cred("test", "db-agent", secret=None)
tap.ok(r.returncode == 0 and "db: used, for postgresql://agent@db.test:5432" in r.stdout, "of PostgreSQL, too", r.stdout)
refused("api2: not used: the credential is bound to https://elsewhere.test:443, the target is https://api2.test:443",
        "and says when a target's place is another", "test", "moved", secret=None)
refused("no target of the active policy names it", "or that none names it", "test", "q", secret=None)
refused("no credential", "a credential that is not there", "test", "nobody", secret=None)
refused("usage", "--path without --run", "test", "api-token", "--path", "/x", secret=None)

# --- remove, and what is left -------------------------------------------------------------
taken("remove", "remove", "moved", secret=None)
tap.eq(listed("moved"), None, "it is gone")
refused("no credential", "twice", "remove", "moved", secret=None)
tap.ok(not any(SECRET in s for s in said), "no output ever held the secret")
tap.eq(stat.S_IMODE(os.stat("st/vault").st_mode), 0o600, "the vault is its owner's alone")
tap.ok(SECRET.encode() not in open("st/vault", "rb").read() and
       not [n for n in os.listdir("st") if n.startswith(".vault")], "sealed, and no half-written file stays")
with open("st/keys/vault.key", "r+b") as f:
    f.write(b"\0" * 32)
refused("not sealed under", "under another key nothing opens", "list", secret=None)

# --- with a broker: SIGHUP, and test --run ------------------------------------------------
o = Origin(temp.path, "api.test")
http = {"api": Http(o, secret="right-" + SECRET)}
stack = Stack(temp, None, http=http)


def scripted(req, c):
    good = req.get("authorization") == "Bearer right-" + SECRET and req.path == "/"
    c.reply(200 if good else 401, b"fine" if good else b"who are you?")


o.on("/", scripted)
o.on("/private", scripted)
r = stack.cli("credential", "test", "api-key", "--run")
tap.ok(r.returncode == 0 and "api: used, for " in r.stdout and "api: HTTP 200: answered" in r.stdout,
       "test --run asks the target through the broker", r.stdout)
tap.ok(len(stack.acts(verdict="allow")) == 1 and SECRET not in r.stdout, "which is an action on the record", r.stdout)
r = stack.cli("credential", "test", "api-key", "--run", "--path", "/private")
tap.ok(r.returncode == 1 and "api: HTTP 401: refused" in r.stdout and "who are you?" in r.stdout, "and says what the target says", r.stdout)
r = run([CLI, "credential", "rotate", "api-key", "--state", stack.state], stdin=None, input="wrong-" + SECRET)
tap.ok("version 2; the running broker takes it on SIGHUP: kill -HUP %d\n" % stack.broker.pid in r.stdout,
       "rotate says how a running broker hears of it", r.stdout)
tap.eq(stack.cli("credential", "test", "api-key", "--run").returncode, 0, "until then it uses the one it has")
os.kill(stack.broker.pid, signal.SIGHUP)
tap.ok(wait_for(lambda: "HTTP 401" in stack.cli("credential", "test", "api-key", "--run").stdout, 30, 1), "and then the new one")
tap.done()
