#!/usr/bin/python3
"""Reference data that are files: a directory of this host is listed, read and searched by runs, on the record, and by
no way out of it. Which directories there are says broker.json; who sees them, the policy."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, HostRun, Stack, Tap, Temp, run, wait_for

tap, temp = Tap(), Temp("reference-files")
os.chmod(temp.path, 0o755)
PART = 4 << 20


def put(name, content, mode=0o644):
    path = temp.path + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content.encode() if isinstance(content, str) else content)
    os.chmod(path, mode)
    return path


# --- a tree that holds everything ------------------------------------------------------------------------
put("secret/key", "outside: canary-outside\n")
put("docs/guide.md", "# Rotating a table\nFirst look at the Locks.\nthen rotate\n")
put("docs/run books/db/slow query.md", "Slow Query: EXPLAIN it\nno locks here\n")
put("docs/d\u00fcrre.txt", "umlaut locks\n")
put("docs/page.html", "<h1>locks</h1>")
put("docs/logo.png", b"\x89PNG\r\n\0\0binary locks")
put("docs/empty.txt", "")
big = put("docs/big/dump.log", b"x" * 99 + b"\n")
with open(big, "wb") as f:
    f.write(b"0123456789abcdef" * (PART // 16) + b"tail of it\n")
put("docs/closed.txt", "locks of root\n", 0o600)
os.symlink("../secret", temp.path + "/docs/out")
os.symlink("guide.md", temp.path + "/docs/alias.md")
os.symlink("/etc/passwd", temp.path + "/docs/passwd")
os.mkfifo(temp.path + "/docs/pipe")
os.mkdir(temp.path + "/docs/nothing", 0o755)
with open(os.fsencode(temp.path) + b"/docs/nothing/\xff.txt", "wb") as f:
    f.write(b"locks\n")
if os.geteuid() == 0:
    os.mknod(temp.path + "/docs/zero", 0o20666, os.makedev(1, 5))


class Files:
    """As harness.Http: a target of the policy."""

    def __init__(self, name, host, **more):
        self.host, self.authority, self.origin = host, host + ":80", "http://" + host
        self.target = dict({"kind": "reference", "env": "prod", "origin": self.origin, "files": name}, **more)
        self.origin_, self.also = self.origin, []

    def policy(self, _):
        return self.target


class Target:
    def __init__(self, files):
        self.origin, self.kind, self.secret, self.also, self.user, self.field = files, None, None, [], None, None

    def policy(self, name):
        return self.origin.target


WIDE = [{"id": "all", "permit": {"effects": {"only": ["@data", "@change", "@destructive"]}}},
        {"id": "no-closed", "forbid": {"target": "docs", "resource": {"any": ["GET /big/*"]}}, "override": "never"}]
docs, missing, over_tls = Files("docs", "docs.test"), Files("nowhere", "missing.test"), Files("docs", "safe.test")
over_tls.target["origin"] = over_tls.origin = "https://safe.test"
http = {"docs": Target(docs), "missing": Target(missing), "safe": Target(over_tls)}
st = Stack(temp, None, {"rules": WIDE[:1]}, http=http, start=False)
CONFIG = st.state + "/broker.json"


def config(references):
    with open(CONFIG, encoding="ascii") as f:
        c = json.load(f)
    c["references"] = references
    with open(CONFIG, "w", encoding="ascii") as f:
        json.dump(c, f)


def starts():
    with open(temp.path + "/start.log", "wb") as f:
        p = subprocess.Popen([BUILD + "/cofferdam-broker", "--state", st.state], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
    said = lambda: open(temp.path + "/start.log", encoding="utf-8").read()
    wait_for(lambda: p.poll() is not None or "ready" in said(), 30)
    if p.poll() is None:
        p.terminate()
        p.wait()
    return said()


# --- which directories there are -----------------------------------------------------------------------------
for refs, words in (({"docs": "docs"}, "must be a directory by its whole path"), ({"a b": "/srv"}, "a reference's name must be"),
                    ([], "references must be an object"), ({"docs": temp.path + "/none"}, "No such file"),
                    ({"docs": temp.path + "/docs/guide.md"}, "Not a directory"), ({"docs": temp.path + "/docs/out"}, "reached through a link"),
                    ({"docs": st.state}, "is, holds or lies in the state directory"), ({"docs": temp.path}, "is, holds or lies in the state directory"),
                    ({"docs": st.state + "/keys"}, "is, holds or lies in the state directory"), ({"docs": "/"}, "must be a directory by its whole path")):
    config(refs)
    said = starts()
    tap.ok(words in said and "ready" not in said, "broker.json with %s does not start" % str(refs).replace(temp.path, "DIR"), said)
config({"docs": temp.path + "/docs"})
st.start()
hr = HostRun(st)


def ask(path, *args, target="docs"):
    r = hr.curl(target, path, "-o", temp.path + "/body", "-D", temp.path + "/head", "-w", "%{http_code}", *args)
    with open(temp.path + "/body", "rb") as f, open(temp.path + "/head", encoding="latin-1") as h:
        return r.stdout[-3:], f.read(), h.read().lower()


# --- what is read ------------------------------------------------------------------------------------------------
code, body, head = ask("/guide.md")
tap.ok(code == "200" and body.startswith(b"# Rotating") and "content-type: text/markdown" in head, "a file is read", (code, body, head))
tap.eq(ask("/run%20books/db/slow%20query.md")[1], b"Slow Query: EXPLAIN it\nno locks here\n", "also under names with spaces")
tap.eq(ask("/d%C3%BCrre.txt")[1], b"umlaut locks\n", "and with letters beyond ASCII")
tap.eq(ask("/empty.txt")[:2], ("200", b""), "an empty file is empty")
code, body, head = ask("/guide.md", "--head")
tap.ok(code == "200" and "content-length: %d" % os.path.getsize(temp.path + "/docs/guide.md") in head, "its head says its length", head)
code, body, head = ask("/")
entries = json.loads(body)["entries"]
kinds = {e["name"]: e["type"] for e in entries}
tap.eq([e["name"] for e in entries], sorted(os.listdir(temp.path + "/docs"), key=os.fsencode), "a directory is a list of its names, sorted")
tap.eq([kinds[n] for n in ("guide.md", "run books", "out", "pipe")], ["file", "directory", "link", "special"], "which says what each is")
tap.eq([e["bytes"] for e in entries if e["name"] == "guide.md"], [os.path.getsize(temp.path + "/docs/guide.md")], "and how large a file")
tap.eq(json.loads(ask("/run%20books")[1])["entries"], [{"name": "db", "type": "directory"}], "below, too, with or without / at the end")
tap.eq(json.loads(ask("/nothing/")[1]), {"entries": [], "left_out": 1, "path": "/nothing/"}, "a name that no path can spell is counted")
code, body, head = ask("/logo.png")
tap.ok(body.startswith(b"\x89PNG") and "application/octet-stream" in head and "x-cofferdam-reference: binary" in head, "a binary file says that it is one", head)

# --- what is cut -----------------------------------------------------------------------------------------------------
code, body, head = ask("/big/dump.log")
tap.ok(code == "200" and body[:PART] == b"0123456789abcdef" * (PART // 16) and body[PART:] == b"\n[cut: bytes 0 to %d of %d; read on with ?from=%d]\n" % (PART, PART + 11, PART),
       "of a file over the limit comes the beginning, and what was cut is said in it", body[PART:])
tap.has(head, "x-cofferdam-part: bytes 0 to %d of %d" % (PART, PART + 11), "and in its head")
tap.eq(ask("/big/dump.log?from=%d" % PART)[1], b"tail of it\n", "the rest is read on from there")
tap.eq(ask("/guide.md?from=99999")[0], "400", "there is nothing behind the end of a file")

# --- what is searched ------------------------------------------------------------------------------------------------
found = json.loads(ask("/?q=LOCKS")[1])
tap.eq([(h["path"], h["line"], h["text"]) for h in found["hits"]],
       [("/d\u00fcrre.txt", 1, "umlaut locks"), ("/guide.md", 2, "First look at the Locks."), ("/page.html", 1, "<h1>locks</h1>"),
        ("/run books/db/slow query.md", 2, "no locks here")] if os.geteuid() == 0 else [(h["path"], h["line"], h["text"]) for h in found["hits"]],
       "a search finds lines in all files below, whatever their case")
tap.ok(found["binary_files"] == 1 and found["left_out"] >= 4 and found["cut"], "and says what it did not look into", {k: v for k, v in found.items() if k != "hits"})
found = json.loads(ask("/run%20books/?q=query+slow")[1])
tap.eq([h["path"] for h in found["hits"]], ["/run books/db/slow query.md"], "all of several words stand in a line, below that directory")
tap.ok(not found["cut"] and found["left_out"] == 0, "a search that looked at everything says so", found)
tap.eq(json.loads(ask("/?q=canary-outside")[1])["hits"], [], "what lies behind links is not found")
for query in ("?q=", "?q", "?x=1", "?q=%ZZ", "?from=-1", "?from=x"):
    code, body, head = ask("/" + query)
    tap.ok(code == "400", "%s is no question" % query, body)

# --- what is refused -------------------------------------------------------------------------------------------------
for path, want, words in (("/out/key", "403", b"links are not followed"), ("/out", "403", b"links are not followed"), ("/alias.md", "403", b"links are not followed"),
                          ("/passwd", "403", b"links are not followed"), ("/pipe", "403", b"neither a file nor a directory"), ("/none", "404", b"no such file"),
                          ("/guide.md/x", "404", b"no such file"), ("/guide.md/", "404", b"it is a file"), ("/%67uide.md", "404", b"escape only what must be"),
                          ("/" + "a" * 300, "404", b"no such file"), ("/guide.md?q=x", "400", b"searches a directory")):
    code, body, head = ask(path)
    tap.ok(code == want and words in body, "%s is refused with words" % path[:20], (code, body))
if os.geteuid() == 0:
    tap.eq(ask("/zero")[0], "403", "a device is not opened")
    code, body, head = ask("/closed.txt")
    tap.ok(code == "403" and b"its user needs one" in body, "what upstream's user may not read is refused, and says whose right is missing", body)
sent = len(st.records("outcome"))
for path in ("/../secret/key", "/run%20books/../../secret/key", "/%2e%2e/secret/key", "/..%2fsecret/key", "//guide.md", "/./guide.md", "/a%00b", "/\\..\\x"):
    code, body, head = ask(path, "--path-as-is")
    tap.ok(code in ("400", "403", "404") and b"outside" not in body, "%s leads nowhere" % path, (code, body))
for args in (("-d", "x"), ("-X", "PUT", "-d", "x"), ("-X", "DELETE"), ("-X", "PATCH", "-d", "x"), ("-X", "GET", "-d", "x"), ("-X", "OPTIONS")):
    code, body, head = ask("/guide.md", *args)
    tap.ok(code == "403" and b"denied" in body, "%s is refused though the rules permit all" % " ".join(args), (code, body))
tap.eq(open(temp.path + "/docs/guide.md", encoding="ascii").read(), "# Rotating a table\nFirst look at the Locks.\nthen rotate\n", "nothing was changed")
code, body, head = ask("/", target="missing")
tap.ok(code == "502" and b'names no directory \\"nowhere\\"' in body, "a name that broker.json does not have is said", body)

# --- the record ----------------------------------------------------------------------------------------------------------
acts = [a for a in st.acts(verdict="allow") if a["request"]["input"]["target"] == "docs"]
tap.eq({(a["request"]["input"]["kind"], tuple(a["request"]["input"]["effects"])) for a in acts}, {("reference", ("read",))}, "each is an action that reads")
guide = next(a for a in acts if a["request"]["http"]["path"] == "/guide.md")
out = wait_for(lambda: next((r["data"] for r in st.records("outcome") if r["data"]["action"] == guide["action"]), None), 10)
tap.ok(out["status"] == "ok" and out["peer"] == "files:docs", "its outcome says from which directory it was answered", out)
refused = wait_for(lambda: next((r["data"] for r in st.records("outcome") if r["data"].get("http_status") == 403), None), 10)
tap.ok(refused["status"] not in ("not_sent", "unknown"), "what was refused by the directory has its outcome, too", refused)

# --- a run, and one without it --------------------------------------------------------------------------------------------
r = st.sandbox("sh", "-c", "curl -s http://docs.test/guide.md && curl -s 'https://safe.test/?q=rotate' && wget -qO- http://docs.test/run%20books/")
tap.ok("First look" in r.stdout and '"path":"/guide.md"' in r.stdout and '"name":"db"' in r.stdout, "code in the sandbox reads, searches and lists, over http and https", r.stdout + r.stderr)
other = HostRun(st, targets=["safe"])
tap.eq(sorted(other.address), ["PROXY", "safe"] if "PROXY" in other.address else sorted(other.address), "a run that asks for other targets has no listener of it")
r = other.curl("docs", "/guide.md", "-o", temp.path + "/body", "-w", "%{http_code}", proxy=True)
tap.ok(r.stdout[-3:] == "403" and "First look" not in open(temp.path + "/body", encoding="utf-8").read(), "nor is it let through by the proxy", r.stdout)
other.end()

# --- under way ------------------------------------------------------------------------------------------------------------
for i in range(300):
    put("docs/many/%03d/x.txt" % i, "needle %d\n" % i + "hay\n" * 200)
busy = [subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--connect-to", "docs.test:80:%s:%d" % (hr.address["docs"], hr.port["docs"]),
                          "http://docs.test/?q=needle"], stdout=subprocess.PIPE, encoding="ascii") for _ in range(20)]
tap.eq(ask("/guide.md")[0], "200", "who reads one file is answered while twenty search")
tap.eq([p.communicate(timeout=60)[0] for p in busy], ["200"] * 20, "and they are answered, too")
found = json.loads(ask("/many/?q=needle")[1])
tap.ok(len(found["hits"]) == 200 and found["cut"], "of many hits the first 200 come, and the cut is said", (len(found["hits"]), found["cut"]))
half = subprocess.Popen(["curl", "-s", "--limit-rate", "20k", "-o", "/dev/null", "--connect-to", "docs.test:80:%s:%d" % (hr.address["docs"], hr.port["docs"]),
                         "http://docs.test/big/dump.log"])
wait_for(lambda: len([a for a in st.acts(verdict="allow") if a["request"]["http"]["path"] == "/big/dump.log"]) >= 3, 20)
half.kill()
half.wait()
tap.eq(ask("/guide.md")[0], "200", "who goes away in the midst of a file leaves the others alone")

# --- the policy ------------------------------------------------------------------------------------------------------------
def check(**change):
    with open(st.policy_file, encoding="utf-8") as f:
        p = json.load(f)
    p["targets"]["docs"] = {k: v for k, v in dict(docs.target, **change).items() if v is not None}
    with open(temp.path + "/p.json", "w", encoding="utf-8") as f:
        json.dump(p, f)
    return run([CLI, "policy", "check", temp.path + "/p.json"])


for change, words in (({"address": "127.0.0.1"}, "nothing is dialled"), ({"credential": "x"}, "has files, so no credential"), ({"read_posts": ["/x"]}, "has files, so no read_posts"),
                      ({"origin": "http://*.docs.test.x"}, "must be"), ({"origin": None}, "no origin under which"), ({"files": "/srv/x"}, "an id"), ({"kind": "http"}, '"files" has no meaning for kind http'),
                      ({"networks": ["10.0.0.0/8"]}, "nothing is dialled"), ({"files": None}, "without TLS the host must be a loopback address")):
    r = check(**change)
    tap.ok(r.returncode != 0 and words in r.stdout, "a target with %s is refused" % change, r.stdout)
tap.eq(check().returncode, 0, "the one above is not")
for host in ("127.0.0.1", "localhost"):
    r = check(files=None, origin="http://%s:8080" % host)
    tap.ok(r.returncode == 0 and "target docs: %s is the sandbox itself" % host in r.stdout, "a site at %s is warned of: no client inside would ask the broker for it" % host, r.stdout)
r = check(files=None, origin="http://docs.test:8080", address="127.0.0.1")
tap.ok(r.returncode == 0 and "the sandbox itself" not in r.stdout, "under a name of its own it is not", r.stdout)
r = check(files=None, kind="http", origin="http://127.0.0.1:11434", model="openai")
tap.ok(r.returncode == 0 and "the sandbox itself" not in r.stdout, "nor a model, which the loop asks from outside", r.stdout)
hr.end()
tap.done()
