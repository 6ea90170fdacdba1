#!/usr/bin/python3
"""Ordinary clients, unmodified, in the real sandbox: curl, wget, git, Python (urllib, requests, httpx), Node, npm, openssl,
Java, a Go program (gron) and the AWS command line. Each with the run's proxy variables, without them, and under `env -i`
with PATH alone, where only the system's own paths are left. TLS-01 and ENV-01 of the field cases.

What cannot work under `env -i` by its nature: Node that is not Debian's brings authorities of its own and looks at the
system's only when told to (--use-openssl-ca; npm: --cafile). That is shown here too, in words, not left out. requests and
aws read the list of the package certifi, which Debian's package points at the system's file; one from PyPI does not.
"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import gitorigin
from harness import Http, Stack, Tap, Temp, must, wait_for
from origin import Ca, Origin

# A public authority is made by putting one among this machine's, for this test alone.
if os.getuid() == 0 and not os.environ.get("IN_UNSHARE"):
    os.environ["IN_UNSHARE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private",
                          sys.executable, os.path.abspath(__file__)])
SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
tap = Tap()
temp = Temp("http-clients")
public = Ca(temp.path + "/public") if os.getuid() == 0 and os.path.exists(SYSTEM) else None
if public:
    with open(temp.path + "/system.crt", "w") as f, open(SYSTEM) as s, open(public.pem) as p:
        f.write(s.read() + p.read())
    must(["mount", "--bind", temp.path + "/system.crt", SYSTEM])
ca = Ca(temp.path + "/ca")
o, plain, lab = Origin(temp.path, "api.test", ca=ca), Origin(temp.path, "plain.test", tls=False), Origin(temp.path, "git.test", ca=ca)
http = {"api": Http(o, placeholder="API_TOKEN"), "plain": Http(plain, kind=None, env="lab"),
        "git": Http(lab, kind="basic", user="agent", env="lab",
                    read_posts=["/repo.git/git-upload-pack"])}
os.makedirs(temp.path + "/git")
gitorigin.repository(temp.path + "/git/repo.git", {"README": "cloned through the broker\n"})
gitorigin.serve(lab, temp.path + "/git")
st = Stack(temp, None, http=http, policy={"rules": [
    {"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
    {"id": "lab-work", "permit": {"env": "lab", "effects": {"only": ["@data", "@change", "@destructive"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]})
URL = o.origin + "/ok?client="


def inside(script, *opts):
    return st.sandbox("/bin/bash", "-c", script, opts=opts)


# --- the environment (ENV-01) --------------------------------------------------------------------------------
r = inside("env")
env = dict(l.split("=", 1) for l in r.stdout.splitlines() if "=" in l)
PROXY_NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
tap.ok(all(env.get(n, "").startswith("http://") for n in PROXY_NAMES), "ENV-01: the proxy in both cases, as http://", r.stdout + r.stderr)
PROXY_URL = env.get("http_proxy", "")
tap.ok(len({env.get(n) for n in PROXY_NAMES}) == 1 and PROXY_URL.endswith(":3128") and "@" not in PROXY_URL, "ENV-01: one for all, without credentials", PROXY_URL)
tap.ok("localhost" in env.get("no_proxy", "") and "127.0.0.1" in env.get("no_proxy", "") and "::1" in env.get("no_proxy", "") and
       env.get("no_proxy") == env.get("NO_PROXY"), "ENV-01: what is inside needs no proxy", env.get("no_proxy"))
tap.ok("all_proxy" not in env or env["all_proxy"].startswith("http://"), "ENV-01: no form that tools reject", env.get("all_proxy"))
CA_NAMES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT",
            "CARGO_HTTP_CAINFO", "npm_config_cafile")
tap.eq([n for n in CA_NAMES if not env.get(n, "").startswith("/")], [], "TLS-01: the bundle stands in each variable of the matrix")
r = inside("for n in %s; do f=${!n}; head -c 27 \"$f\" >/dev/null && grep -c BEGIN.CERTIFICATE \"$f\"; done; ls /etc/ssl/certs | head; "
           "grep -l PRIVATE.KEY -r /etc 2>/dev/null" % " ".join(CA_NAMES))
counts = [int(x) for x in r.stdout.split("\n")[:len(CA_NAMES)] if x.isdigit()]
tap.ok(len(counts) == len(CA_NAMES) and min(counts) >= 1, "TLS-01: and is a file of certificates", r.stdout + r.stderr)
if os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
    tap.ok(max(counts) > 50, "TLS-01: merged with the system's own authorities", counts)
tap.ok("PRIVATE" not in r.stdout, "TLS-01: no private key is in the sandbox", r.stdout)
r = inside("python3 - <<'E'\nimport os, urllib.parse\nfor n in ('http_proxy', 'HTTPS_PROXY'):\n"
           "    u = urllib.parse.urlsplit(os.environ[n]); print(u.scheme, u.hostname, u.port, u.username)\n"
           "import http.server, threading, urllib.request\n"
           "s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
           "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
           "print(urllib.request.urlopen('http://127.0.0.1:%d/' % s.server_port).status)\n"
           "print(urllib.request.urlopen('http://localhost:%d/' % s.server_port).status)\nE")
tap.ok([x.split()[0::2] for x in r.stdout.split("\n")[:2]] == [["http", "3128"]] * 2 and r.stdout.split("\n")[2:4] == ["200", "200"], "ENV-01: what listens inside is reached directly", r.stdout + r.stderr)
r = inside("curl -sS --max-time 5 --noproxy '*' http://127.0.0.1:%d/ok; echo \" $?\"; curl -sS --max-time 5 http://127.0.0.1:%d/ok; echo \" $?\"" % (plain.port, plain.port))
tap.ok(r.stdout.count(" 7") == 2 and "ok" not in r.stdout, "ENV-01: this host's loopback is not reached", r.stdout + r.stderr)
r = inside("curl -sS --max-time 5 -o /dev/null -w '%%{http_code}' --noproxy '' -x %s http://127.0.0.1:%d/ok" % (PROXY_URL, plain.port))
tap.ok(r.stdout in ("403", "421", "400"), "ENV-01: nor through the proxy, but by a target's name", r.stdout + r.stderr)
r = inside("git config --get http.proxy; git config --get http.sslCAInfo; python3 -m pip config list 2>/dev/null; true")
tap.ok("socks" not in r.stdout, "ENV-01: no tool is configured into another proxy", r.stdout)

# --- clients ---------------------------------------------------------------------------------------------------
PY = "import urllib.request as u; print(u.urlopen('%s').read().decode())"
REQ = "import requests as q; print(q.get('%s').text)"
HTTPX = "import httpx as q; print(q.get('%s').text)"
S_CLIENT = ("printf 'GET /ok?client=X HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet "
            "-verify_return_error -verify_hostname api.test -servername api.test -connect %s 2>/dev/null | tail -1" % (o.authority, o.authority))
CLIENTS = {
    "curl": ("curl", "curl -sS %s"),
    "wget": ("wget", "wget -q -O - %s"),
    "python urllib": ("python3", 'python3 -c "%s"' % PY),
    "python requests": ("python3", 'python3 -c "%s"' % REQ),
    "node https": ("node", "node -e \"require('https').get('%s', r => r.on('data', d => process.stdout.write(d)))\""),
    "node fetch": ("node", "node -e \"fetch('%s').then(r => r.text()).then(t => console.log(t))\""),
    "python httpx": ("/usr/bin/python3", '/usr/bin/python3 -c "%s"' % HTTPX),
    # Nothing but the name and the system's path tell s_client whom to trust.
    "openssl s_client": ("openssl", S_CLIENT),
    "openssl s_client, file": ("openssl", S_CLIENT.replace("-quiet", "-quiet -CAfile /etc/ssl/certs/ca-certificates.crt -no-CApath -no-CAstore")),
    "openssl s_client, directory": ("openssl", S_CLIENT.replace("-quiet", "-quiet -CApath /etc/ssl/certs -no-CAfile -no-CAstore")),
    # Debian's Go programs ask libc for names; one that is linked statically does as with netdns=go. Roots are Go's own way in both.
    "go": ("gron", "gron %s | sed -n 's/^json.say = \"\\(.*\\)\";$/\\1/p'"),
    "go, its own resolver": ("gron", "GODEBUG=netdns=go gron %s | sed -n 's/^json.say = \"\\(.*\\)\";$/\\1/p'"),
    "aws": ("/usr/bin/aws", "/usr/bin/aws s3api get-object --no-sign-request --region x --endpoint-url %s --bucket b --key k /tmp/got >&2; cat /tmp/got"),
}
if shutil.which("java"):
    CLIENTS["java"] = ("java", None)
HOW = {"with the proxy variables": "", "without them": "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY; ",
       "under env -i": None}
JAVA = """
import java.net.*; import java.util.*;
public class Get { public static void main(String[] a) throws Exception {
    try (Scanner s = new Scanner(new URL(a[0]).openStream())) { System.out.println(s.nextLine()); } } }
"""
# Those that want more than a line of text: gron reads JSON, aws an object of a bucket.
o.on("/say", lambda req, c: c.reply(200, b'{"say": "ok"}', [("Content-Type", "application/json")]))
for how in range(len(HOW)):
    o.on("/aws-%d/b/k" % how, lambda req, c: c.reply(200, b"ok", [("Content-Type", "text/plain"), ("ETag", '"e"')]))
ADDRESS = {"go": lambda tag: o.origin + "/say?client=" + tag, "aws": lambda tag: o.origin + "/" + tag}
ADDRESS["go, its own resolver"] = ADDRESS["go"]
ARRIVES = {"go": "/say?client=%s", "go, its own resolver": "/say?client=%s", "aws": "/%s/b/k"}
for name, (program, command) in CLIENTS.items():
    if not shutil.which(program):
        tap.ok(True, "%s # SKIP not installed" % name)
        continue
    for how, before in HOW.items():
        if ("file" in name or "directory" in name) and before is not None:
            continue  # no variable changes these
        o.forget()
        tag = name.replace(",", "").replace(" ", "-") + "-" + str(list(HOW).index(how))
        if name == "java":
            cmd = "cat > /tmp/Get.java <<'E'\n%s\nE\n" % JAVA + ("env -i PATH=$PATH " if before is None else "") + \
                "java -Djava.io.tmpdir=/tmp /tmp/Get.java %s" % (URL + tag)
        else:
            cmd = command.replace("client=X", "client=" + tag) if "s_client" in name else command % ADDRESS.get(name, lambda t: URL + t)(tag)
            if before is None and program == "node":
                # Node that is not Debian's has a list of authorities of its own, unless told otherwise.
                cmd = cmd.replace("node ", "node --use-openssl-ca ", 1)
            if before is None:
                cmd = "env -i PATH=/usr/bin:/bin " + (cmd if not set("|;=") & set(cmd.split("?")[0]) else "bash -c '%s'" % cmd.replace("'", "'\\''"))
        r = inside((before or "") + cmd)
        text = r.stdout.replace("Picked up JAVA_TOOL_OPTIONS", "")
        ok = text.strip().endswith("ok") and [q.target for q in o.arrivals] == [ARRIVES.get(name, "/ok?client=%s") % tag]
        tap.ok(ok, "%s, %s" % (name, how), (r.stdout[-600:], r.stderr[-1500:], [q.target for q in o.arrivals]))
        tap.ok(all(q.get("Authorization") == "Bearer " + http["api"].secret for q in o.arrivals) and o.arrivals, "%s, %s: the broker's credential arrives" % (name, how))
if shutil.which("node"):
    # Whose list Node has of itself under `env -i` is its packager's choice: Debian's reads the system's, others bring their own.
    o.forget()
    r = inside("env -i PATH=/usr/bin:/bin " + CLIENTS["node https"][1] % (URL + "bare-node"))
    works = r.stdout.strip().endswith("ok") and len(o.arrivals) == 1
    refuses = not o.arrivals and "unable to verify" in r.stderr
    tap.ok(works or refuses, "node, under env -i and told nothing: %s" % (
        "it reads the system's file" if works else "it knows the authorities it was built with alone, says so, and nothing arrives"), r.stdout + r.stderr)
for how, before in HOW.items():
    lab.forget()
    cmd = "git clone -q %s/repo.git /tmp/clone && cat /tmp/clone/README" % lab.origin
    if before is None:
        cmd = "env -i PATH=/usr/bin:/bin bash -c '%s'" % cmd
    r = inside((before or "") + cmd)
    tap.ok(r.stdout == "cloned through the broker\n", "git clone, %s" % how, (r.stdout, r.stderr[-1500:], [(q.method, q.target) for q in lab.arrivals]))
lab.forget()
r = inside("git clone -q %s/repo.git /work/c && cd /work/c && head -c 3000000 /dev/urandom > big && git add big && "
           "git -c user.name=a -c user.email=a@a commit -q -m second && git push -q origin HEAD:refs/heads/topic && echo pushed" % lab.origin)
tap.ok(r.stdout.endswith("pushed\n"), "git push of 3 MB, in chunks", (r.stdout, r.stderr[-1500:]))
r = inside("git ls-remote %s/repo.git refs/heads/topic" % lab.origin)
tap.ok("refs/heads/topic" in r.stdout, "and it is there", r.stdout + r.stderr)
tap.ok(any(q.get("Transfer-Encoding") == "chunked" for q in lab.arrivals), "(it did go in chunks)")

# --- and a server that the broker does not stand before -----------------------------------------------------
# It has a certificate of the "public" authority and listens inside, where no_proxy and the sandbox leave it alone.
SERVER = """
import http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"say": "ok"}' if self.path.startswith("/say") else b"ok"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("/tmp/public.pem", "/tmp/public.key")
s = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), H)
s.socket = c.wrap_socket(s.socket, server_side=True); s.serve_forever()
"""
if public:
    cert, key = public.issue("localhost")
    # The public ones are in the file; the directory has the run's alone under its hash.
    there = {n: c for n, (p, c) in CLIENTS.items() if shutil.which(p) and "directory" not in n}
    script = "cat > /tmp/public.pem <<'E'\n%s\nE\ncat > /tmp/public.key <<'E'\n%s\nE\n" % (open(cert).read(), open(key).read())
    script += "cat > /tmp/s.py <<'E'\n%s\nE\npython3 /tmp/s.py & for i in $(seq 50); do (: </dev/tcp/127.0.0.1/8443) 2>/dev/null && break; sleep 0.1; done\n" % SERVER
    script += "cat > /tmp/Get.java <<'E'\n%s\nE\n" % JAVA
    for name, command in there.items():
        url = ADDRESS.get(name, lambda t: URL + t)("x")
        cmd = "java -Djava.io.tmpdir=/tmp /tmp/Get.java %s" % url if name == "java" else command if "s_client" in name else command % url
        # Node has the public authorities built in, and knows of this one by the system's file alone.
        cmd = cmd.replace("node ", "node --use-openssl-ca ", 1) if name.startswith("node") else cmd
        script += "echo; echo '== %s'; %s\n" % (name, cmd.replace(o.authority, "localhost:8443").replace("api.test", "localhost"))
    o.forget()
    r = inside(script + "kill %1")
    said = dict(x.split("\n", 1) for x in r.stdout.split("\n== ")[1:])
    tap.eq([n for n in there if not said.get(n, "").strip().endswith("ok")], [], "TLS-01: a public authority is trusted beside the run's, by %s" % ", ".join(there))
    tap.ok(not o.arrivals, "(not by way of the broker)", r.stderr[-3000:])
else:
    tap.ok(True, "TLS-01: a public authority beside the run's # SKIP needs root and a system bundle")

# --- what they see when they may not ------------------------------------------------------------------------
o.forget()
r = inside("curl -sS -X DELETE %s/things/7; echo; curl -sS -o /dev/null -w '%%{http_code}\\n' -X POST -d x %s/things" % (o.origin, o.origin))
doc = {}
try:
    doc = json.loads(r.stdout.split("\n")[0])
except ValueError:
    pass
tap.ok(doc.get("status") == 403 and "default" in r.stdout, "curl is told by a problem document which rule refused it", r.stdout + r.stderr)
tap.ok(r.stdout.strip().endswith("403") and not o.arrivals, "and nothing arrives")
r = inside("wget -q -O - %s/ok || wget -S -O /dev/null http://other.test/ 2>&1 | grep -c '403\\|400\\|failed'" % o.origin.replace("api", "other"))
tap.ok("ok" not in r.stdout, "a host that is no target is not reached", r.stdout + r.stderr)
r = inside("curl -sS -H \"Authorization: Bearer $API_TOKEN\" %s" % (URL + "placeholder"))
tap.ok(r.stdout == "ok" and o.arrivals[-1].get("Authorization") == "Bearer " + http["api"].secret, "a client that insists on a token sends the run's placeholder", r.stdout + r.stderr)
o.forget()
r = inside("head -c 2500000 /dev/zero > /tmp/b; curl -sS -T /tmp/b %s/count" % lab.origin)
tap.ok('"bytes": 2500000' in r.stdout, "curl's upload with Expect passes", r.stdout + r.stderr)
r = inside("curl -sS %s/ok; curl -sS --http2 %s; curl -sS --http1.0 %s" % (plain.origin, URL + "h2", URL + "h10"))
tap.eq(r.stdout, "okokok", "curl: plain http, --http2 falls back, HTTP/1.0")
if shutil.which("npm"):
    lab.on("/a-package", lambda req, c: c.reply(200, json.dumps({"name": "a-package", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {
        "name": "a-package", "version": "1.2.3"}}}), [("Content-Type", "application/json")]))
    lab.on("/-/ping", lambda req, c: c.reply(200, b"{}", [("Content-Type", "application/json")]))
    NPM = "npm view --registry %s/ a-package version 2>&1" % lab.origin
    for how, before in HOW.items():
        cmd = "cd /tmp && HOME=/tmp " + NPM
        if before is None:
            cmd = "cd /tmp && env -i PATH=/usr/bin:/bin %s --cafile /etc/ssl/certs/ca-certificates.crt" % NPM.replace(" 2>&1", "") + " 2>&1"
        r = inside((before or "") + cmd)
        tap.ok(r.stdout.strip().endswith("1.2.3"), "npm asks a registry, %s%s" % (how, " and told of the file" if before is None else ""), r.stdout + r.stderr)
    lab.forget()
    r = inside("cd /tmp && HOME=/tmp npm ping --registry %s/ 2>&1" % lab.origin)
    tap.ok("PONG" in r.stdout and "/-/ping" in [q.path for q in lab.arrivals], "npm ping", (r.stdout, r.stderr, [q.target for q in lab.arrivals]))
else:
    tap.ok(True, "npm # SKIP not installed")
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
