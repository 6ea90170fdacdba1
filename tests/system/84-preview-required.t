#!/usr/bin/python3
"""A rule that asks for a preview: nobody is asked to sign what the target could not be asked about. With PostgreSQL, and a real nginx
whose ETags are its own; and what was signed is held to its preview by a broker that was started anew in between."""
import atexit
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, PROXY, Http, HostRun, Pg, Stack, Tap, Temp, free_port, run, wait_for
from libpq import Conn
from origin import Ca

tap, temp = Tap(), Temp("preview-required")


class Nginx:
    """The server as Debian has it: files, written by its dav module, over TLS. `seen()`: method, path, If-Match, status of each."""

    def __init__(self, host):
        self.t, self.host, self.address, self.port, self.tls = temp.path + "/nginx", host, "127.0.0.1", free_port(), True
        self.ca = Ca(temp.path + "/ca")
        pem, key = self.ca.issue(host)
        os.makedirs(self.t + "/files/v")
        self.origin, self.authority = "https://%s:%d" % (host, self.port), "%s:%d" % (host, self.port)
        with open(self.t + "/conf", "w", encoding="ascii") as f:
            f.write("""daemon off; worker_processes 1; user root; pid @/pid; error_log @/err;
events { worker_connections 64; }
http { log_format seen escape=none '$request_method $uri $http_if_match $status'; access_log @/access seen;
 client_body_temp_path @/body; proxy_temp_path @/p; fastcgi_temp_path @/f; uwsgi_temp_path @/u; scgi_temp_path @/s;
 server { listen 127.0.0.1:%d ssl; server_name %s; ssl_certificate %s; ssl_certificate_key %s;
  root @/files; dav_methods PUT DELETE; } }
""".replace("@", self.t) % (self.port, host, pem, key))
        self.p = subprocess.Popen(["/usr/sbin/nginx", "-p", self.t, "-c", self.t + "/conf", "-e", self.t + "/err"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.stop)
        if not wait_for(lambda: run(["curl", "-sk", "--resolve", "%s:%d:127.0.0.1" % (host, self.port), self.origin + "/"]).returncode == 0, 20):
            raise RuntimeError(open(self.t + "/err", encoding="utf-8").read())

    def write(self, name, text):
        """Another content, another modification time: an ETag of nginx is made of length and time."""
        with open(self.t + "/files" + name, "w", encoding="ascii") as f:
            f.write(text)

    def read(self, name):
        with open(self.t + "/files" + name, encoding="ascii") as f:
            return f.read()

    def seen(self):
        with open(self.t + "/access", encoding="ascii") as f:
            return [line.split() for line in f]

    def etag(self, name):
        st_ = os.stat(self.t + "/files" + name)
        return '"%x-%x"' % (int(st_.st_mtime), st_.st_size)

    def stop(self):
        self.p.terminate()
        self.p.wait(20)


nginx = Nginx("files.test")
for i in range(1, 6):
    nginx.write("/v/%d" % i, "one")
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1,9);"
         "CREATE VIEW slow AS SELECT id FROM orders WHERE pg_sleep(60) IS NOT NULL;"
         "ALTER TABLE orders OWNER TO agent; ALTER VIEW slow OWNER TO agent")
st = Stack(temp, pg, start=False, http={"files": Http(nginx, preview="look"), "plain": Http(nginx, url="https://plain.test:%d" % nginx.port)})
with open(st.policy_file, encoding="utf-8") as f:
    BASE = json.load(f)
BASE["targets"]["crm-db"]["preview"] = "count"
BASE["targets"]["mute-db"] = {k: v for k, v in BASE["targets"]["crm-db"].items() if k != "preview"}
RULES = BASE["rules"] + [{"id": "seen-first", "require": {"env": "prod", "effects": {"any": ["delete", "bulk", "drop", "overwrite"]}}, "preview": "required",
                          "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"}]
st.build_policy({"serial": 2, "rules": RULES, "targets": BASE["targets"], "attempts": {"alarm": 2}})
st.start()
hr = HostRun(st)

# === said of the policy ======================================================================================
r = run([CLI, "policy", "check", st.policy_file])
tap.ok("rule seen-first asks for a preview, and target plain has none" in r.stdout or "target mute-db has none" in r.stdout,
       "check tells of a target where the rule can only refuse", r.stdout)
whole = dict(BASE, serial=9, rules=BASE["rules"] + [dict(RULES[-1], require={"target": ["crm-db", "files"], "effects": {"any": ["delete"]}})])
with open(temp.path + "/whole.json", "w", encoding="utf-8") as f:
    json.dump(whole, f)
tap.ok("asks for a preview" not in run([CLI, "policy", "check", temp.path + "/whole.json"]).stdout, "and not where each target has one")
for sql, want, name in (("DELETE FROM orders", "required", "explain says that one is needed"),
                        ("UPDATE orders SET id = 1 WHERE id = 1", None, "and where none is")):
    out = subprocess.run([CLI, "policy", "explain", st.policy_file, "--target", "crm-db", "--sql", sql, "--json"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False).stdout
    tap.eq(json.loads(out)["decision"].get("preview"), want, name)


# === PostgreSQL ==============================================================================================
def asked(r):
    m = re.search(r"request ([a-z2-7]{26})", r.hint or "")
    return m.group(1) if m else None


def shown(rid):
    return json.loads(st.cli("show", rid, "--json").stdout)


def refused(r, why, name):
    tap.ok(not r.ok and r.sqlstate == "42501" and "needs a preview" in r.message and why in r.message and asked(r) is None and st.pending() == [], name,
           (r.message, r.hint, st.pending()))


mute, c = Conn(hr.dsn(pg, target="mute-db")), Conn(hr.dsn(pg))
refused(mute.query("DELETE FROM orders WHERE id = 1"), "target mute-db has no \"preview\"", "a target that is asked nothing: refused, nobody is asked")
tap.eq([(a["decision"]["verdict"], a["decision"].get("approval")) for a in st.acts()[-1:]], [("needs_approval", None)],
       "the record has the verdict, and no request")
tap.ok("preview" in st.acts()[-1]["decision"]["reason"] and not st.records("approval.request"), "and why", st.acts()[-1]["decision"])
mute.query("DELETE FROM orders WHERE id = 1")
mute.query("DELETE FROM orders WHERE id = 1")
tap.eq([a["decision"].get("attempt") for a in st.acts()[-2:]], [1, 2], "coming back with it is a try at what was refused")
c.query("BEGIN")
refused(c.query("DELETE FROM orders WHERE id = 1"), "outside a transaction", "inside a transaction there is none")
c.query("ROLLBACK")
refused(c.query("DROP TABLE orders"), "only one change of rows", "nor of a DROP")
refused(c.query("DELETE FROM orders WHERE id IN (SELECT id FROM slow)"), "57014", "nor of what takes the server too long to count")
r = c.query("DELETE FROM orders WHERE id = 1")
rid = asked(r)
tap.ok(rid and shown(rid)["preview"] == "plan-rows=1 count=1", "what it counts is asked for", r.hint)
tap.has(st.cli("show", rid).stdout, "plan-rows=1 count=1", "and shown")

# === nginx =====================================================================================================
def curl(method, path, host=None, *more):
    env = {"PATH": "/usr/bin:/bin", "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY]), "CURL_CA_BUNDLE": st.run_ca()}
    r = run(["curl", "-sS", "-X", method, "-w", "\n%{http_code}", *more, (host or nginx.origin) + path], env=env)
    body, _, status = r.stdout.rpartition("\n")
    return int(status or 0), body


def put(path, text, host=None):
    return curl("PUT", path, host, "--data-binary", text, "-H", "Content-Type: text/plain")


def request_in(body):
    return json.loads(body).get("request") if body.startswith("{") else None


def writes(path):
    return [x for x in nginx.seen() if x[0] in ("PUT", "DELETE") and x[1] == path]


def written(path):
    """nginx writes its log behind its answer."""
    return wait_for(lambda: writes(path), 20)


status, body = put("/v/1", "uno", "https://plain.test:%d" % nginx.port)
tap.ok(status == 403 and request_in(body) is None and json.loads(body)["verdict"] == "needs_approval"
       and "target plain has no \\\"preview\\\"" in body, "HTTP: without a look nobody is asked", body)
status, body = put("/v/new", "new")
tap.ok(status == 403 and request_in(body) is None and "no such thing" in body, "nor of a file that is not there", body)
status, body = curl("DELETE", "/v/")
tap.ok(status == 403 and request_in(body) is None, "nor of a directory that nginx does not list", body)
tag = nginx.etag("/v/1")
status, body = put("/v/1", "uno")
first = request_in(body)
tap.ok(status == 403 and first, "of a file that is there people are", body)
tap.eq(shown(first)["preview"], "if-match=" + tag, "with the ETag that nginx gave of it")
second, third = request_in(put("/v/2", "dos")[1]), request_in(curl("DELETE", "/v/3")[1])
for i in (first, second, third):
    for p in ("dana", "omar"):
        st.sign("approve", i, p)
tap.eq({shown(i)["state"] for i in (first, second, third)}, {"armed"}, "signed, all are armed")

# === the broker is started anew between signing and use ===========================================================
core = st.child("core")
os.kill(core, 9)
wait_for(lambda: st.child("core") not in (0, core) and st.cli("status").returncode == 0, 30)
tap.eq({shown(i)["state"] for i in (first, second, third)}, {"armed"}, "after core was killed they are armed still")
tap.eq(shown(first)["preview"], "if-match=" + tag, "with their previews")
status, _ = wait_for(lambda: (lambda r: r if r[0] not in (0, 502, 503) else None)(put("/v/1", "uno")), 30, 0.3)
tap.eq((status, nginx.read("/v/1"), written("/v/1")), (204, "uno", [["PUT", "/v/1", tag, "204"]]), "the PUT passes, and nginx gets If-Match as it was signed")
tap.eq(st.records("outcome")[-1]["data"]["condition"], "held", "and the outcome says so")
nginx.write("/v/2", "by another hand")
status, body = put("/v/2", "dos")
again = request_in(body)
tap.ok(status == 403 and again not in (None, second) and nginx.read("/v/2") == "by another hand",
       "a file that changed since is not written, though it was signed", body)
tap.eq([x["data"]["reason"] for x in st.records("approval.void") if x["data"]["id"] == second], ["preview_changed"], "the request is void")
tap.eq(shown(again)["preview"], "if-match=" + nginx.etag("/v/2"), "people are asked anew, by what it is now")
third_tag = nginx.etag("/v/3")
tap.eq((curl("DELETE", "/v/3")[0], os.path.exists(nginx.t + "/files/v/3"), written("/v/3")), (204, False, [["DELETE", "/v/3", third_tag, "204"]]),
       "the DELETE passes as it was signed")
tap.eq(writes("/v/2"), [], "and of the file that changed nginx heard nothing")
hr.end()
st.stop()
nginx.stop()
tap.done()
