"""Small operational tasks for an agent (tests/tasks/, docs/tasks.md): one broker and one PostgreSQL for all of them, each task with
targets of its own, made anew before each playing. What counts is the state that services and workspace are left in."""
import atexit
import importlib.util
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import psycopg2
from fakemodel import Model
from harness import CLI, TOP, Http, Pg, Stack, free_port, run, wait_for
from origin import Ca, Origin

DIR = TOP + "/tests/tasks"
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         {"id": "one-person", "require": {"env": "prod", "effects": {"any": ["@destructive"]}}, "approve": [{"role": "dba", "count": 1}],
          "within": "30m", "use_within": "5m", "limits": {"max_rows": 1000}}]

# What the recorded conversations have for @PG@: also a psql that is tried again while its request waits for people.
AGAIN = """again() {
	for i in $(seq 40); do
		psql -X -v ON_ERROR_STOP=1 "$@" > /tmp/out 2>&1 && break
		grep -q "needs approval" /tmp/out || break
		sleep 0.2
	done
	cat /tmp/out
}"""


class Task:
    """One of tests/tasks/NAME: task.py is a subclass `Task`, task.md the words for the model, conversation.md (or .json, for
    tests/tools/fakemodel.mjs) the recorded conversation that solves it."""
    DATABASE = True  # it has a database of its own, as the target NAME-db
    SQL = ""  # what is in it, made as the agent's role
    DOCS = False  # it has the documentation site
    WRONG = ()  # (words of the conversation, other words): with all of these it must be judged unsolved
    RULES, CALENDARS = (), {}  # more of the policy; "@DB@" is the database's target

    def __init__(self, name, field):
        self.name, self.field = name, field
        self.db = name.replace("-", "_")
        self.values = {"PSQL": "psql -X -h %s -p %d -U agent -d %s" % (field.pg.host, field.pg.port, self.db), "DB": name + "-db", "DATABASE": self.db, "PORT": field.pg.port, "DOCS": field.site.origin,
                       "PG": "export PGUSER=agent PGHOST=%s PGPORT=%d PGDATABASE=%s\n%s" % (field.pg.host, field.pg.port, self.db, AGAIN)}

    def services(self):
        """HTTP targets of its own, made once: name -> Http."""
        return {}

    def setup(self):
        """What its services hold, before each playing."""

    def workspace(self, path):
        """Files that lie in the workspace before."""

    def approves(self, request):
        """Would a person sign this? Else they reject it."""
        return True

    def answer(self, question):
        """What a person says to a question."""
        return "I cannot say more than the task does."

    def check(self, work, playing):
        """Looks at what was left. "" if the task is solved, else what is wrong."""
        raise NotImplementedError

    def ends(self):
        """After each playing."""

    # --- for the tasks ---

    def filled(self, text):
        for key, value in self.values.items():
            text = text.replace("@%s@" % key, str(value))
        return text

    def file(self, name):
        with open("%s/%s/%s" % (DIR, self.name, name), encoding="utf-8") as f:
            return self.filled(f.read())

    def begin(self):
        if self.DATABASE:
            self.field.admin("DROP DATABASE IF EXISTS %s WITH (FORCE)" % self.db)
            self.field.admin("CREATE DATABASE %s OWNER agent" % self.db)
            self.field.admin("SET ROLE agent; " + self.SQL + "; RESET ROLE", self.db)
        self.setup()

    def sql(self, text):
        """All rows, seen as superuser."""
        return self.field.admin(text, self.db)

    def one(self, text):
        rows = self.sql(text)
        return rows[0][0] if rows else None

    def targets(self):
        names = [self.name + "-db"] if self.DATABASE else []
        names += list(self.http)
        return names + (["docs"] if self.DOCS or not names else [])


def report(work, name):
    """A JSON file that the agent was to write; None if there is none that can be read."""
    try:
        with open(work + "/" + name, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


class Site:
    """nginx with tests/tasks/docs: runbooks, for every task that needs or may want them."""
    tls = False
    address = "127.0.0.1"

    def __init__(self, temp):
        self.port, self.dir = free_port(), temp.path + "/nginx"
        self.host, self.authority = "docs.test", "docs.test:%d" % self.port
        self.origin = "http://" + self.authority
        os.makedirs(self.dir + "/t")
        shutil.copytree(DIR + "/docs", self.dir + "/docs")
        subprocess.run(["chmod", "-R", "a+rX", self.dir], check=True)
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write("daemon off; pid %(d)s/pid; error_log %(d)s/error.log; events {}\nhttp { access_log off; %(t)s\n"
                    "server { listen 127.0.0.1:%(p)d; root %(d)s/docs; } }"
                    % {"d": self.dir, "p": self.port, "t": " ".join("%s_temp_path %s/t;" % (x, self.dir) for x in
                                                                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))})
        os.chmod(temp.path, 0o755)
        self.p = subprocess.Popen(["/usr/sbin/nginx", "-c", self.dir + "/conf", "-p", self.dir, "-e", self.dir + "/error.log"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.stop)
        wait_for(lambda: run(["curl", "-s", "http://127.0.0.1:%d/" % self.port]).returncode == 0, 20)

    def stop(self):
        self.p.terminate()
        self.p.wait()


class Remote:
    """A model's API by its URL, as an origin of harness.Http."""
    tls = False  # its certificate is judged by the system's CAs

    def __init__(self, url):
        u = urllib.parse.urlsplit(url)
        self.origin = "%s://%s" % (u.scheme, u.netloc)
        self.address = None
        try:
            ipaddress.ip_address(u.hostname)
        except ValueError:
            found = socket.getaddrinfo(u.hostname, None)[0][4][0]
            self.address = None if ipaddress.ip_address(found).is_global else found


URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com", "openai-responses": "https://api.openai.com"}


class Field:
    """The services that all tasks share, and the people."""

    def __init__(self, temp, names, model=None, url=None, secret=None):
        self.temp, self.model, self.url = temp, model, url
        self.ca = Ca(temp.path + "/ca")
        self.pg = Pg(temp, host="db.test", database="shared")
        self.site = Site(temp)
        self.http = {"docs": Http(self.site, kind=None)}
        self.http["docs"].more["kind"] = "reference"
        if model:
            provider = model.split(":")[0]
            key = {"kind": None} if not secret else {"kind": "header", "field": "x-api-key"} if provider == "anthropic" else {"kind": "bearer"}
            remote = Remote(url or URLS[provider])
            self.http["model"] = Http(remote, secret=secret, model=provider.split("-")[0], address=remote.address, **key)
        self.recorded = Model(temp, "recorded")
        self.playing = threading.Lock()  # the scripted model plays for one
        self.http["recorded"] = Http(self.recorded, kind="header", field="x-api-key", model="anthropic", address=None)
        self.tasks = {}
        for n in names:
            self.tasks[n] = t = load(n)(n, self)
            t.http = t.services()
            self.http.update(t.http)
        self.stack = Stack(temp, self.pg, people={"olivia": ["oncall"], "dana": ["dba"]}, http=self.http, start=False)
        self.build()
        self.stack.start()
        self.live, self.asked, self.open = {}, set(), True
        self.person = threading.Thread(target=self.attend, daemon=True)
        self.person.start()

    def build(self):
        with open(self.stack.policy_file, encoding="utf-8") as f:
            policy = json.load(f)
        crm = policy["targets"].pop("crm-db")
        calendars, rules = {}, list(RULES)
        for t in self.tasks.values():
            if t.DATABASE:
                policy["targets"][t.name + "-db"] = dict(crm, database=t.db)
            calendars.update(t.CALENDARS)
            rules += json.loads(t.filled(json.dumps(list(t.RULES))))
        self.stack.build_policy({"serial": 2, "targets": policy["targets"], "calendars": calendars, "rules": rules})

    def admin(self, text, database="postgres"):
        c = psycopg2.connect(host=self.pg.sock, port=self.pg.port, user="postgres", dbname=database)
        c.autocommit = True
        try:
            cur = c.cursor()
            cur.execute(text)
            return cur.fetchall() if cur.description else []
        finally:
            c.close()

    def origin(self, host):
        return Origin(self.temp.path, host, ca=self.ca)

    def attend(self):
        """A person who signs or rejects, and answers."""
        while self.open:
            try:
                doc = json.loads(self.stack.cli("pending", "--json").stdout)
            except ValueError:
                doc = {}
            for r in doc.get("pending", []):
                self.decide(r)
            for q in doc.get("questions", []):
                p = self.who(q["run"])
                if p and (q["run"], q["asked"]) not in self.asked:
                    self.asked.add((q["run"], q["asked"]))
                    p.questions += 1
                    self.stack.cli("answer", q["run"], p.task.answer(q["question"]))
            time.sleep(0.1)

    def decide(self, request):
        p = self.who(request["run"])
        if p and request["id"] not in self.asked:
            verb = "approve" if p.task.approves(request) else "reject"
            if self.stack.sign(verb, request["id"], "dana").returncode == 0:
                self.asked.add(request["id"])

    def who(self, run_id):
        """The playing whose run this is, or a child of it."""
        if run_id not in self.live:
            starts = {r["run"]: r["data"] for r in self.stack.records("run.start")}
            parent = starts.get(run_id, {}).get("parent")
            if parent not in self.live:  # not yet: its first line may still be on its way
                return None
            self.live[run_id] = self.live[parent]
        return self.live[run_id]

    def stop(self):
        self.open = False
        self.person.join()
        self.stack.stop()
        self.pg.stop()
        self.site.stop()
        self.recorded.stop()
        for t in self.tasks.values():
            for h in t.http.values():
                h.origin.stop()


class Playing:
    """A task, given to a model or played from its recording, and what came of it."""

    def __init__(self, field, task, wrong=False):
        self.field, self.task, self.questions = field, task, 0
        task.begin()
        work = "%s/work-%s-%d" % (field.temp.path, task.name, time.monotonic_ns())
        os.makedirs(work)
        task.workspace(work)
        argv = [CLI, "run", "--state", field.stack.state, "--workspace", work, "--task", task.file("task.md"), "--max-time", "600"]
        argv += [] if os.geteuid() == 0 else ["--limits-optional"]
        for t in task.targets():
            argv += ["--target", t]
        began = time.monotonic()
        recording = None if field.model else self.recording(wrong, work)
        if recording and recording.endswith(".json"):
            with field.playing:
                with open(recording, encoding="utf-8") as f:
                    field.recorded.play(dict(json.load(f), key=field.http["recorded"].secret))
                self.go(argv + ["--model", "anthropic:recorded", "--base-url", field.recorded.origin])
        elif recording:
            self.go(argv + ["--script", recording])
        else:
            self.go(argv + ["--model", field.model] + (["--base-url", field.url] if field.url else []))
        self.seconds = time.monotonic() - began
        self.count()
        try:
            self.why = task.check(work, self)
        except psycopg2.Error as e:  # what it looks for is not there
            self.why = str(e).splitlines()[0]
        task.ends()

    def recording(self, wrong, work):
        """Its conversation, with what stands between @ filled in, as a file."""
        kind = "json" if os.path.exists("%s/%s/conversation.json" % (DIR, self.task.name)) else "md"
        words = self.task.file("conversation." + kind)
        for old, new in self.task.WRONG if wrong else ():
            if self.task.filled(old) not in words:
                raise RuntimeError("%s: its conversation has no %r" % (self.task.name, old))
            words = words.replace(self.task.filled(old), self.task.filled(new))
        path = "%s.conversation.%s" % (work, kind)
        with open(path, "w", encoding="utf-8") as f:
            f.write(words)
        return path

    def go(self, argv):
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        first = p.stdout.readline()
        self.run = (re.match(r"run (\S+)", first) or ["", ""])[1]
        self.field.live[self.run] = self
        self.said = first + p.communicate(timeout=660)[0]

    def count(self):
        """What the broker has on record of it and of its children."""
        kin, mine = {self.run}, []
        for r in self.field.stack.records():
            if r["type"] == "run.start" and r["data"].get("parent") in kin:
                kin.add(r["run"])
            if r.get("run") in kin:
                mine.append(r)
        verdicts = [r["data"]["decision"]["verdict"] for r in mine if r["type"] == "action"]
        self.refusals, self.asks = verdicts.count("deny"), verdicts.count("needs_approval")
        self.turns = sum(r["type"] == "agent.model" for r in mine)
        end = next((r["data"] for r in mine if r["type"] == "run.end" and r["run"] == self.run), {})
        spent = end.get("spent") or {}
        self.status, self.tokens = end.get("status", "lost"), spent.get("tokens_in", 0) + spent.get("tokens_out", 0)

    def row(self):
        return {"task": self.task.name, "run": self.run, "solved": self.why == "", "why": self.why, "status": self.status, "turns": self.turns,
                "tokens": self.tokens, "seconds": round(self.seconds, 2), "refusals": self.refusals, "approvals": self.asks,
                "questions": self.questions}


def names():
    return sorted(n for n in os.listdir(DIR) if os.path.exists("%s/%s/task.py" % (DIR, n)))


def load(name):
    spec = importlib.util.spec_from_file_location("task_" + name.replace("-", "_"), "%s/%s/task.py" % (DIR, name))
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m.Task


def play_all(field, repeat=1, counter=False, jobs=2, each=lambda rows: None):
    """Every task `repeat` times, and with counter once more with what is wrong: lists of playings by name, in order."""
    def one(task):
        rows = [Playing(field, task) for _ in range(repeat)] + ([Playing(field, task, True)] if counter else [])
        each(rows)
        return task.name, rows
    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, field.tasks.values()))
