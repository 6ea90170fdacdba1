#!/usr/bin/python3
"""Reference data: a documentation site of nginx and a search API beside it, given to runs by a policy that permits far
too much. They are read, on the record, and nothing else, whatever the rules say."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, HostRun, Http, Stack, Tap, Temp, free_port, must, run, wait_for

tap, temp = Tap(), Temp("reference")
BASE = [] if os.geteuid() == 0 else ["--limits-optional"]


class Nginx:
    """nginx with a directory of documentation; /search answers POST, /log counts what came."""
    tls = False
    address = "127.0.0.1"

    def __init__(self):
        self.port = free_port()
        self.host, self.authority = "docs.test", "docs.test:%d" % self.port
        self.origin = "http://" + self.authority
        self.dir = temp.path + "/nginx"
        for d in ("docs", "t"):
            os.makedirs(self.dir + "/" + d)
        os.chmod(temp.path, 0o755)
        with open(self.dir + "/docs/guide.html", "w", encoding="ascii") as f:
            f.write("<h1>Rotating a table</h1>")
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write("""daemon off; pid %(d)s/pid; error_log %(d)s/error.log; events {}
http { access_log %(d)s/access.log; client_body_temp_path %(d)s/t; proxy_temp_path %(d)s/t; fastcgi_temp_path %(d)s/t;
 uwsgi_temp_path %(d)s/t; scgi_temp_path %(d)s/t;
 server { listen 127.0.0.1:%(p)d; root %(d)s/docs;
  location = /search { default_type application/json; return 200 '{"hits":["guide"]}'; }
  location = /purge { return 200 'purged'; } } }""" % {"d": self.dir, "p": self.port})
        self.p = subprocess.Popen(["/usr/sbin/nginx", "-c", self.dir + "/conf", "-p", self.dir, "-e", self.dir + "/error.log"],
                                  stdin=subprocess.DEVNULL)
        wait_for(lambda: run(["curl", "-s", "http://127.0.0.1:%d/guide.html" % self.port]).returncode == 0, 20)

    def came(self):
        with open(self.dir + "/access.log", encoding="ascii") as f:
            return [line.split('"')[1] for line in f]

    def stop(self):
        self.p.terminate()
        self.p.wait()


ng = Nginx()
http = {"docs": Http(ng, kind=None, read_posts=["/search"])}
st = Stack(temp, None, http=http, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    POLICY = json.load(f)
target = dict(POLICY["targets"]["docs"], kind="reference")
WIDE = [{"id": "all", "permit": {"effects": {"only": ["@data", "@change", "@destructive"]}}},
        {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]
st.build_policy({"serial": 2, "targets": {"docs": target}, "rules": WIDE})
st.start()
hr = HostRun(st)


def ask(path, *args):
    r = hr.curl("docs", path, "-o", temp.path + "/body", "-w", "%{http_code}", *args)
    with open(temp.path + "/body", encoding="utf-8") as f:
        return r.stdout[-3:], f.read()


tap.eq(ask("/guide.html"), ("200", "<h1>Rotating a table</h1>"), "a page is read")
tap.eq(ask("/guide.html", "--head")[0], "200", "its head, too")
tap.eq(ask("/search", "-d", "{\"q\":\"rotate\"}", "-H", "content-type: application/json"), ("200", '{"hits":["guide"]}'), "the search that the policy names answers POST")
tap.eq([a["request"]["input"]["effects"] for a in st.acts(verdict="allow")], [["read"]] * 3, "all of it is read, on the record")
tap.eq({a["request"]["input"]["kind"] for a in st.acts()}, {"reference"}, "as the kind that it is")
came = len(ng.came())
for name, path, args in (("another POST", "/purge", ("-d", "x")), ("PUT", "/guide.html", ("-X", "PUT", "-d", "x")), ("DELETE", "/guide.html", ("-X", "DELETE")),
                         ("PATCH", "/guide.html", ("-X", "PATCH", "-d", "x")), ("a method that is not known", "/x", ("-X", "PURGE")), ("OPTIONS", "/", ("-X", "OPTIONS")),
                         ("a GET with a body", "/guide.html", ("-X", "GET", "-d", "x")), ("the search's path in another spelling", "/Search", ("-d", "q=1")),
                         ("the search with something behind its path", "/search/x", ("-d", "q=1")),
                         ("a form with another method in it", "/search", ("-d", "_method=DELETE&q=1")),
                         ("another method in a header", "/guide.html", ("-H", "X-HTTP-Method-Override: DELETE"))):
    code, text = ask(path, *args)
    tap.ok(code in ("403", "400") and "denied" in text, "%s is refused though the rules permit all" % name, code + text)
tap.eq(len(ng.came()), came, "nothing of it came to the server")
tap.ok(all({"opaque", "invalid"} & set(a["request"]["input"]["effects"]) for a in st.acts(verdict="deny")), "it is opaque or invalid, which no policy can permit")
tap.has(ask("/purge", "-d", "x")[1], "only read", "and the answer says why")
tap.eq(ask("/search", "-d", "q=1")[0], "200", "a form that only asks is not")
inside = st.sandbox("curl", "-s", ng.origin + "/guide.html")
tap.has(inside.stdout, "Rotating a table", "code in the sandbox reads it under its ordinary address")

# --- what a reviewer is told ---------------------------------------------------------------------------------
with open(st.policy_file, encoding="utf-8") as f:
    policy = json.load(f)
policy["cases"] = [
    {"id": "c1", "at": "2026-12-01T12:00:00Z", "input": {"target": "docs", "method": "GET", "path": "/guide.html"}, "expect": {"verdict": "allow", "effects": ["read"]}},
    {"id": "c2", "at": "2026-12-01T12:00:00Z", "input": {"target": "docs", "method": "DELETE", "path": "/guide.html"}, "expect": {"verdict": "deny"}}]
with open(temp.path + "/p.json", "w", encoding="utf-8") as f:
    json.dump(policy, f)
r = run([CLI, "policy", "test", temp.path + "/p.json"])
tap.eq(r.returncode, 0, "cases of a policy judge it alike") or print("# " + r.stdout)
policy["targets"]["docs"]["unsafe_gets"] = ["/x"]
with open(temp.path + "/p.json", "w", encoding="utf-8") as f:
    json.dump(policy, f)
tap.has(run([CLI, "policy", "check", temp.path + "/p.json"]).stdout, '"unsafe_gets" has no meaning for kind reference', "a key that would say otherwise is an error")
hr.end()
ng.stop()
tap.done()
