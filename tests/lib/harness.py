"""What the system tests share: a throwaway PostgreSQL, HTTP origins, a state directory, the broker, a run.

Python 3 standard library only (clients are psql, curl and such, or psycopg2 where a test needs it). Every
process a test starts is ended by its own id. TAP goes to standard output.
"""
import atexit
import json
import os
import pwd
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import sanitizers
from rawhttp import Raw

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD") or os.path.join(TOP, "build/gcc-opt")
PGBIN = "/usr/lib/postgresql/15/bin"
CLI = os.path.join(BUILD, "cofferdam")
PROXY = "proxy"


stops = []
replays, replay_reports = [], []  # of each log at its broker's end: actions judged again; what was another verdict


def told(kind, value, trace):
    """What ends a test stands in its TAP, where the ladder shows it."""
    for line in "".join(traceback.format_exception(kind, value, trace)).splitlines():
        print("# " + line, flush=True)


sys.excepthook = told


def ipc_version():
    """What the wires speak, as common/ipc.h says."""
    with open(TOP + "/common/ipc.h", encoding="ascii") as f:
        return int(re.search(r"#define IPC_VERSION (\d+)", f.read()).group(1))


class Tap:
    """ok/not ok lines; plan() at the end; the exit status tells."""

    def __init__(self):
        self.n = self.bad = 0

    def ok(self, cond, name, note=None):
        self.n += 1
        print("%s %d - %s" % ("ok" if cond else "not ok", self.n, name), flush=True)
        if not cond:
            self.bad += 1
            for line in str(note or "").splitlines():
                print("#   " + line, flush=True)
        return bool(cond)

    def eq(self, got, want, name):
        return self.ok(got == want, name, "got  %r\nwant %r" % (got, want))

    def has(self, text, part, name):
        return self.ok(part in text, name, "no %r in:\n%s" % (part, text))

    def done(self):
        for stop in stops:
            stop()
        for report in sanitizers.said():
            self.ok(False, "no sanitizer speaks", report)
        if replays:
            self.ok(not replay_reports, "each of %d recorded verdicts comes out again" % sum(replays), "\n".join(replay_reports))
        print("1..%d" % self.n, flush=True)
        sys.exit(1 if self.bad else 0)


def run(argv, **kw):
    kw.setdefault("timeout", 60)
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("encoding", "utf-8")
    kw.setdefault("errors", "replace")
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)


def must(argv, **kw):
    r = run(argv, **kw)
    if r.returncode != 0:
        raise RuntimeError("%s: exit %d\n%s" % (" ".join(argv), r.returncode, r.stdout))
    return r.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(cond, seconds=20, step=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        v = cond()
        if v:
            return v
        time.sleep(step)
    return cond()


class Ending:
    """A test that is told to end takes what it started with it: once, and not from the midst of a start whose
    processes nobody would know. Threads are daemons, or the exit waits for them with all of it still there."""

    def __init__(self):
        self.held, self.told = 0, 0
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, self.tell)

    def tell(self, sig, _):
        self.told = self.told or 128 + sig
        self.now()

    def now(self):
        if self.told and not self.held:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.exit(self.told)

    def __enter__(self):
        self.held += 1

    def __exit__(self, *_):
        self.held -= 1
        self.now()


ending = Ending()


class Temp:
    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix="cofferdam-%s." % name)
        os.chmod(self.path, 0o711)
        atexit.register(self.remove)

    def remove(self):
        if os.environ.get("KEEP"):
            print("# kept: " + self.path)
        else:
            shutil.rmtree(self.path, ignore_errors=True)


class Pg:
    """A throwaway PostgreSQL 15: loopback, TLS from a throwaway CA, SCRAM; see throwaway-pg.sh."""

    def __init__(self, temp, host="db.crm.internal", database="crm", user="agent"):
        self.t, self.host, self.database, self.user = temp.path, host, database, user
        self.port = free_port()
        self.password = os.urandom(16).hex()
        atexit.register(self.stop)
        with ending:
            self.sh("pg_start t %d %s" % (self.port, host))
        self.sock, self.log, self.ca = self.t + "/pg-t/sock", self.t + "/pg-t/server.log", self.t + "/tls/ca.pem"
        self.admin("CREATE ROLE %s LOGIN PASSWORD '%s'" % (user, self.password), "postgres")
        self.admin("CREATE DATABASE %s OWNER %s" % (database, user), "postgres")

    def sh(self, script):
        # A server keeps the descriptors it is given: never a pipe of ours.
        with open(self.t + "/pg-sh.log", "ab") as log:
            subprocess.run(["bash", "-euc", 'T=$1; . "$2"; ' + script, "pg", self.t,
                            TOP + "/tests/lib/throwaway-pg.sh"],
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, timeout=60)

    def admin(self, sql, database=None):
        return must([PGBIN + "/psql", "-XqAt", "-h", self.sock, "-p", str(self.port), "-U", "postgres",
                     "-v", "ON_ERROR_STOP=1", "-d", database or self.database, "-c", sql]).strip()

    def log_statements(self):
        self.admin("ALTER SYSTEM SET log_statement='all'", "postgres")
        self.admin("SELECT pg_reload_conf()", "postgres")
        time.sleep(0.3)

    def server_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self):
        self.sh("pg_stop t || true")


def login():
    return "unix:" + pwd.getpwuid(os.getuid()).pw_name


class Http:
    """An HTTP target: its origin (origin.Origin), the credential it gets and its kind, more keys of the policy.
    url: what the policy calls it, if not as the origin does."""

    def __init__(self, origin, kind="bearer", secret=None, user=None, field=None, url=None, **more):
        self.origin, self.kind, self.user, self.field, self.more = origin, kind, user, field, more
        self.url = url or origin.origin
        self.secret = secret or "canary-" + os.urandom(16).hex()
        self.also = []  # more credentials: (arguments of `credential add`, secret)

    def policy(self, name):
        o = self.origin
        t = {"kind": "http", "env": "prod", "origin": self.url, "address": o.address}
        if o.tls:
            t["ca"] = o.ca.pem
        if self.kind:
            t["credential"] = name + "-key"
        t.update(self.more)
        return {k: v for k, v in t.items() if v is not None}

    def credential(self, name):
        extra = (["--user", self.user] if self.user else []) + (["--field", self.field] if self.field else [])
        return [name + "-key", "--kind", self.kind, "--url", self.url, *extra]


class Stack:
    """State directory, people with keys, vault, broker. pg may be None; http: name -> Http."""

    def __init__(self, temp, pg, policy=None, people=None, start=True, http=None):
        self.t, self.pg, self.http = temp.path, pg, http or {}
        self.state = self.t + "/state"
        self.keys = self.t + "/keys"
        self.broker = None
        self.forged = []  # numbers of records that the test forged: what looks deep finds them
        self.classified = True  # False: a parser died over what it can read, as the test wanted
        self.broker_log = self.t + "/broker.log"
        sanitizers.logs.append(self.broker_log)  # a process that one ends is started again, and nobody would notice
        os.makedirs(self.keys, mode=0o700, exist_ok=True)
        self.people = people or {"olivia": ["oncall"], "dana": ["dba"], "omar": ["oncall"]}
        for p in self.people:
            if not os.path.exists(self.key(p)):
                must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", p, "-f", self.key(p)])
        self.policy_file = self.t + "/policy.json"
        self.write_policy(policy or {})
        must([CLI, "init", "--state", self.state, "--origin", "test.example/log", "--policy", self.policy_file])
        if pg is not None:
            must([CLI, "credential", "add", "crm-agent", "--state", self.state, "--kind", "postgresql-password",
                  "--target-host", pg.host, "--port", str(pg.port), "--user", pg.user],
                 stdin=None, input=pg.password)
        for name, h in self.http.items():
            for args, secret in h.also:
                must([CLI, "credential", "add", *args, "--state", self.state], stdin=None, input=secret)
            if h.kind:
                must([CLI, "credential", "add", *h.credential(name), "--state", self.state], stdin=None, input=h.secret)
        atexit.register(self.stop)
        stops.append(self.stop)
        if start:
            self.start()

    def key(self, person):
        return self.keys + "/" + person

    def pub(self, person):
        with open(self.key(person) + ".pub", encoding="ascii") as f:
            return f.read().strip()

    def write_policy(self, change):
        """The base policy of the tests with top-level keys replaced by `change`."""
        pg = self.pg
        targets = {name: h.policy(name) for name, h in self.http.items()}
        if pg is not None:
            targets["crm-db"] = {"kind": "postgres", "env": "prod", "host": pg.host, "address": "127.0.0.1",
                                 "port": pg.port, "database": pg.database, "user": pg.user,
                                 "credential": "crm-agent", "tls": "verify-full", "ca": pg.ca}
        policy = {
            "schema": "cofferdam-policy/1", "policy": "test", "serial": change.pop("serial", 1), "clock": "trusted",
            "targets": targets,
            "people": {p: {"roles": r, "login": [login() if p == "olivia" else "unix:" + p], "keys": [self.pub(p)]}
                       for p, r in self.people.items()},
            "calendars": {},
            "rules": [
                {"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
                {"id": "prod-work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
                {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
                {"id": "two-people", "require": {"env": "prod", "effects": {"any": ["@destructive"]}},
                 "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}],
                 "within": "30m", "use_within": "5m", "limits": {"max_rows": 5}}],
        }
        policy.update(change)
        with open(self.policy_file, "w", encoding="utf-8") as f:
            json.dump(policy, f, indent=1)

    def build_policy(self, change):
        self.write_policy(change)
        must([CLI, "policy", "build", self.policy_file, "--state", self.state])

    def start(self):
        log = open(self.broker_log, "ab")
        with ending:
            self.broker = subprocess.Popen([BUILD + "/cofferdam-broker", "--state", self.state],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not wait_for(lambda: run([CLI, "status", "--state", self.state]).returncode == 0
                        or self.broker.poll() is not None, 30):
            raise RuntimeError("the broker does not come up:\n" + open(self.broker_log).read())
        if self.broker.poll() is not None:
            raise RuntimeError("the broker ended:\n" + open(self.broker_log).read())

    def stop(self):
        if self.broker is not None and self.broker.poll() is None:
            self.broker.terminate()
            try:
                self.broker.wait(15)
            except subprocess.TimeoutExpired:
                self.broker.kill()
                self.broker.wait()
            self.replay()
        self.broker = None

    def replay(self):
        """Judges all of the log again, and the bytes of it: nothing may come out otherwise. What is sealed and what people
        signed must hold."""
        deep = self.cli("log", "verify", "--deep", timeout=600).stdout
        if re.search(r"^TAMPER at seq \d+: (content|signature): ", deep, re.M) and not self.forged:
            replay_reports.append(deep)
        if self.forged and "TAMPER at seq %s: signature: " % self.forged[0] not in deep:
            replay_reports.append("the forged signatures are not told: " + deep)
        r = self.cli("replay", "whatif", timeout=600)
        if r.returncode != 0:
            replay_reports.append(r.stdout)
        again = self.cli("replay", "whatif", "--reclassify", timeout=600)
        if "RECLASSIFIED" in again.stdout and self.classified:
            replay_reports.append(again.stdout)
        counts = re.search(r"^(\d+) actions: ", r.stdout, re.M)
        replays.append(int(counts[1]) if counts else 0)


    def child(self, name):
        """Process id of a child of the broker ("front", "writer", ...); 0 if there is none now."""
        want = ("cofferdam-" + name)[:15]
        for pid in os.listdir("/proc"):
            if not pid.isdigit():
                continue
            try:
                with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as f:
                    stat = f.read()
            except OSError:
                continue
            comm, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            if comm == want and int(rest[1]) == self.broker.pid and rest[0] != "Z":
                return int(pid)
        return 0

    def cli(self, *args, **kw):
        return run([CLI, *args, "--state", self.state], **kw)

    def pending(self):
        """Ids of the open requests."""
        out = self.cli("pending", "--json").stdout
        return [r["id"] for r in json.loads(out)["pending"]]

    def reload(self, change):
        """Builds the policy with `change` under the next serial and has the broker load it."""
        with open(self.policy_file, encoding="utf-8") as f:
            serial = json.load(f)["serial"] + 1
        self.build_policy(dict(change, serial=serial))
        os.kill(self.broker.pid, signal.SIGHUP)
        if not wait_for(lambda: "serial %d," % serial in self.cli("status").stdout, 15):
            raise RuntimeError("policy %d is not loaded:\n%s" % (serial, open(self.broker_log).read()[-2000:]))

    def run_ca(self):
        """File name of the certificate authority that runs trust."""
        return self.state + "/keys/ca/cert.pem"

    def sandbox(self, *argv, opts=(), **kw):
        """A command in the real sandbox, as `cofferdam run -- COMMAND` has it; stdout and stderr apart."""
        kw.setdefault("timeout", 120)
        kw.setdefault("stdin", subprocess.DEVNULL)
        if "encoding" not in kw:
            kw.update(encoding="utf-8", errors="replace")
        limits = [] if os.getuid() == 0 else ["--limits-optional"]
        return subprocess.run([CLI, "run", "--state", self.state, *limits, *opts, "--", *argv], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **kw)

    def acts(self, **want):
        """Data of the action records whose decision has these values."""
        return [r["data"] for r in self.records("action")
                if all(r["data"]["decision"].get(k) == v for k, v in want.items())]

    def outcome(self, action, seconds=10):
        """Data of that action's outcome record."""
        return wait_for(lambda: next((r["data"] for r in self.records("outcome") if r["data"]["action"] == action), None),
                        seconds)

    def sign(self, verb, request, person, key=None, role=None):
        extra = ["--role", role] if role else []
        return self.cli(verb, request, "--as", person, "--key", key or self.key(person), "--yes", *extra)

    def records(self, type_=None):
        """BODY of every record, in order (the writer's segments, as they are on disk)."""
        out = []
        seg = self.state + "/log/seg"
        for name in sorted(n for n in os.listdir(seg) if n.endswith(".jsonl")):
            with open(seg + "/" + name, "rb") as f:
                for line in f.read().split(b"\n"):
                    if not line:
                        continue
                    try:
                        body = json.loads(line)["body"]
                    except ValueError:
                        continue  # the line being written
                    if type_ is None or body["type"] == type_:
                        out.append(body)
        return out

    def record(self, type_, seconds=20):
        """Data of the last record of that type; what was answered may not be written yet."""
        return wait_for(lambda: self.records(type_), seconds)[-1]["data"]

    def verify(self):
        return self.cli("log", "verify")


class HostRun:
    """A run whose listeners are on this host's loopback (tests/tools/hostrun.c)."""

    def __init__(self, stack, targets=(), **env):
        """targets: these alone. PARENT, EFFECTS, BUDGET, AGENT, SAYS as tests/tools/hostrun.c has them."""
        self.p = subprocess.Popen([BUILD + "/tool_hostrun", stack.state + "/run/agent.sock", *targets],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE if env else None,
                                  encoding="utf-8", env=dict(os.environ, **env))
        self.stack, self.id, self.port, self.address, self.env = stack, None, {}, {}, {}
        for line in self.p.stdout:
            w = line.split()
            if w[0] == "run":
                self.id = w[1]
            elif w[0] == "listen":
                self.address[w[1]], self.port[w[1]] = w[2], int(w[3])
            elif w[0] == "env":
                self.env[w[1]] = w[2]
            elif w[0] == "started":
                break
        else:
            raise RuntimeError("no run: %s" % (self.p.stderr.read() if env else ""))
        atexit.register(self.kill)

    def dsn(self, pg, target="crm-db", **kw):
        d = {"host": self.address[target], "port": self.port[target], "dbname": pg.database,
             "user": "anybody", "sslmode": "disable", "connect_timeout": 20}
        d.update(kw)
        return " ".join("%s='%s'" % kv for kv in d.items())

    def psql(self, pg, sql, *args, target="crm-db", **kw):
        return run([PGBIN + "/psql", "-X", "-v", "ON_ERROR_STOP=0", "-v", "VERBOSITY=verbose", "-At", *args,
                    self.dsn(pg, target), "-c", sql], **kw)

    def tcp(self, target):
        """A connection to the listener of a target, or to the proxy (PROXY)."""
        return Raw(self.address[target], self.port[target])

    def direct(self, target, **kw):
        """TLS to the direct listener of an HTTPS target, as a client in the sandbox has it."""
        return self.tcp(target).tls(self.stack.http[target].origin.host, self.stack.run_ca(), **kw)

    def tunnel(self, target, **kw):
        """TLS through the proxy to a target."""
        o = self.stack.http[target].origin
        c = self.tcp(PROXY)
        a = c.connect(o.authority)
        if a.status != 200:
            raise RuntimeError("CONNECT %s: %r" % (o.authority, a))
        return c.tls(o.host, self.stack.run_ca(), **kw)

    def curl(self, target, path, *args, proxy=False, **kw):
        """curl to a target, by its direct listener or by the proxy."""
        o = self.stack.http[target].origin
        how = (["--proxy", "http://%s:%d" % (self.address[PROXY], self.port[PROXY])] if proxy else
               ["--connect-to", "%s:%s:%d" % (o.authority, self.address[target], self.port[target])])
        return run(["curl", "-sS", "--max-time", "30", "--cacert", self.stack.run_ca(), *how, *args, o.origin + path], **kw)

    def follow(self):
        """From here on changes of the run's targets are read as they come."""
        self.changes = queue.Queue()
        threading.Thread(target=self.read_changes, daemon=True).start()
        return self

    def read_changes(self):
        gone, came = [], []
        for line in self.p.stdout:
            w = line.split()
            if w[0] == "gone":
                gone.append(w[1])
            elif w[0] == "listen":
                came.append(w[1])
                self.address[w[1]], self.port[w[1]] = w[2], int(w[3])
            elif w[0] == "env":
                self.env[w[1]] = w[2]
            elif w[0] == "changed":
                self.changes.put((gone, came))
                gone, came = [], []

    def changed(self):
        """The next change: names of targets that went, and that came."""
        return self.changes.get(timeout=30)

    def end(self):
        self.p.stdin.close()
        return self.p.wait(20)

    def kill(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGKILL)
            self.p.wait()
