#!/usr/bin/python3
"""The console towards whoever reaches its port: what is refused before core hears of it, limits, slow senders; and what core
refuses though the console asks. Passkeys are a software authenticator's (authenticator.py). Behind a proxy: without TLS."""
import hashlib
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import console
from authenticator import WebAuthn
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, must, run, wait_for
from libpq import Conn

tap, temp = Tap(), Temp("console-http")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1,9); ALTER TABLE t OWNER TO agent")
st = Stack(temp, pg, start=False)
console.switch_on(st)
with open(st.state + "/keys/log/vkey", "rb") as f:
    NAME = "sha256:" + hashlib.sha256(f.read().strip()).hexdigest()
st.broker_name = lambda: NAME
KEYS = {p: WebAuthn("p256" if p == "dana" else "ed25519", st.console) for p in st.people}
PEOPLE = {p: {"roles": r, "login": ["unix:root" if p == "olivia" else "unix:" + p], "keys": [st.pub(p), KEYS[p].line()]}
          for p, r in st.people.items()}
st.build_policy({"serial": 2, "people": PEOPLE})
st.start()
c = console.Client(st)

# === before core hears of it =================================================================================
a = c.ask("GET", "/")
tap.ok(a.status == 401 and b"There is no password" in a.body, "who is not signed in gets the page to sign in", a.body)
NEEDED = {"Content-Security-Policy": ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"],
          "X-Frame-Options": ["DENY"], "X-Content-Type-Options": ["nosniff"], "Referrer-Policy": ["no-referrer"],
          "Cache-Control": ["no-store"], "Cross-Origin-Resource-Policy": ["same-origin"]}
for path, status in (("/", 401), ("/sign-in", 200), ("/enrol", 200), ("/assets/console.js", 200), ("/assets/console.css", 200),
                     ("/assets/icon.svg", 200), ("/api/pending", 401), ("/nothing", 404), ("/api/nothing", 404)):
    a = c.ask("GET", path)
    missing = [k for k, v in NEEDED.items() if not all(x in (a.headers[k] or "") for x in v)]
    tap.ok(a.status == status and not missing and "unsafe" not in a.headers["Content-Security-Policy"],
           "%s: %d, with the security fields" % (path, status), (a.status, missing))
a = c.ask("HEAD", "/sign-in")
tap.ok(a.status == 200 and a.body == b"" and int(a.headers["Content-Length"]) > 100, "HEAD has no body")
for fields, want, why in (
        ({}, 200, "a POST of the console's own page is taken"),
        ({"Origin": None}, 403, "one without an origin is not"),
        ({"Origin": "https://evil.test"}, 403, "nor from another"),
        ({"Origin": "null"}, 403, "nor from none that is told"),
        ({"Origin": st.console + "0"}, 403, "nor from one that begins the same"),
        ({"Sec_Fetch_Site": "same-origin"}, 200, "same-origin is"),
        ({"Sec_Fetch_Site": "same-site"}, 403, "same-site is not"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "nor cross-site"),
        ({"X-Cofferdam": None}, 403, "nor without the field that no form can send"),
        ({"Content-Type": "text/plain"}, 415, "nor what a form can send"),
        ({"Content-Type": None}, 415, "nor without a type")):
    tap.eq(c.ask("POST", "/api/sign-in/begin", {}, **fields).status, want, why)
for fields, want, why in (({"Host": "evil.test"}, 421, "another host is not here"),
                          ({"Host": console.HOST}, 421, "nor another port"),
                          ({"Host": "127.0.0.1:%d" % st.console_port}, 421, "nor an address")):
    tap.eq(c.ask("GET", "/sign-in", **fields).status, want, why)
for method, path, want, why in (("PUT", "/", 405, "only GET, HEAD and POST"), ("GET", "/api/sign-in", 405, "what is for POST alone"),
                                ("GET", "/?x=1", 404, "a query"), ("GET", "/%2e%2e/x", 404, "an escape"), ("GET", "/a/../b", 404, "dots"),
                                ("GET", "/requests/" + "a" * 65, 404, "an id that is too long"), ("TRACE", "/", 405, "TRACE")):
    tap.eq(c.ask(method, path).status, want, "refused: " + why)
tap.eq(c.ask("POST", "/api/sign-in", b"{" * 2000).status, 400, "a body that is no JSON is refused")
tap.eq(c.ask("POST", "/api/sign-in", b'{"nonce":"a","nonce":"b"}').status, 400, "and one with a key twice")
tap.eq(c.ask("POST", "/api/sign-in", {"nonce": "x" * 70000}).status, 413, "and one that is too large")
tap.eq(c.ask("GET", "/sign-in", X_Long="y" * 17000).status, 431, "and a head that is")
tap.eq(c.ask("GET", "/sign-in", b"x").status, 400, "a GET with a body is refused")


def raw(data, seconds=60):
    s = c.connect()
    s.settimeout(seconds)
    s.sendall(data)
    got = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                break
            got += more
    except OSError:
        pass
    s.close()
    return got


HOST = "%s:%d" % (console.HOST, st.console_port)
got = raw(b"GET /sign-in HTTP/1.1\r\nHost: %s\r\n\r\nGET /enrol HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % ((HOST.encode(),) * 2))
tap.ok(got.count(b"HTTP/1.1 200 OK") == 2 and b"enrol-page" in got, "two requests at once are answered in turn", got[:300])
got = raw(b"GET / HTTP/1.1\r\nHost: %s\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" % HOST.encode())
tap.ok(got.startswith(b"HTTP/1.1 400"), "what could be read in two ways is refused", got[:100])
got = raw(b"GET / HTTP/1.1\r\nHost: %s\r\nX-Slow: " % HOST.encode())
tap.ok(got.startswith(b"HTTP/1.1 408"), "a request that does not end in time is told so", got[:100])
held = [c.connect() for _ in range(300)]
tap.eq(c.ask("GET", "/sign-in").status, 200, "300 connections that say nothing keep nobody out")
for s in held:
    s.close()

# === signing in ==============================================================================================
a = c.sign_in(KEYS["omar"], "dana")
tap.ok(a.status == 401, "another's passkey does not open dana's session", a.body)
for change, why in (({"origin": "https://evil.test"}, "an assertion for another origin"), ({"rp": "evil.test"}, "for another relying party"),
                    ({"flags": 1}, "of somebody who was not verified"), ({"crossOrigin": True}, "out of another page"),
                    ({"challenge": "AAAA"}, "over another text")):
    tap.eq(c.sign_in(KEYS["dana"], "dana", **change).status, 401, why + " opens none")
a = c.ask("POST", "/api/sign-in", {"nonce": "00" * 48, "person": "dana", "signature": "{}"})
tap.ok(a.status == 401 and "begin again" in a.json()["detail"], "nor does a nonce that core did not make", a.body)
tap.eq(c.sign_in(KEYS["nobody"] if "nobody" in KEYS else KEYS["dana"], "nobody").status, 401, "nor a name that the policy does not have")
b = c.ask("POST", "/api/sign-in/begin", {}).json()
text = "cofferdam-sign-in v1\nbroker: %s\norigin: %s\nnonce: %s\nend\n" % (NAME, st.console, b["nonce"])
once = {"nonce": b["nonce"], "person": "dana", "signature": json.dumps(KEYS["dana"].get(text.encode()))}
tap.eq([c.ask("POST", "/api/sign-in", once).status for _ in range(2)], [200, 401], "the same assertion opens one session, not two")
a = c.sign_in(KEYS["dana"], "dana")
tap.ok(a.status == 200 and all(w in a.headers["Set-Cookie"] for w in ("__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
       and c.cookie not in a.body.decode(), "dana signs in; the session is in the cookie alone", a.headers)
tap.eq(c.ask("GET", "/api/session").json()["person"], "dana", "and is dana's")
good = c.cookie
for bad, why in ((good[:-1] + ("0" if good[-1] != "0" else "1"), "a token that is nearly right"), ("", "an empty one"),
                 ("x; __Host-cofferdam=" + good, "two of that name"), ("a" * 200, "one that is too long")):
    c.cookie = bad
    tap.eq(c.ask("GET", "/api/session").status, 401, why + " is nobody's")
c.cookie = good
omar = console.Client(st)
omar.sign_in(KEYS["omar"], "omar")

# === who is invited =========================================================================================
r = st.cli("invite", "nobody", "--as", "olivia", "--key", st.key("olivia"), "--yes")
tap.ok(r.returncode == 1 and '"nobody" is no person of the policy: there are dana, olivia, omar' in r.stdout and not st.records("console.invite"),
       "who is no person of the policy is not invited; told is who there is", r.stdout)
tap.ok("/enrol#" in console.invite(st, "omar", "olivia"), "who is one, is")

# === what a session may ======================================================================================
hr = HostRun(st)
tap.eq([json.loads(st.cli("status", "--json").stdout)["run_ids"], c.ask("GET", "/api/status").json()["run_ids"]], [[hr.id]] * 2,
       "status names the runs, on both ways")
db = Conn(hr.dsn(pg))
db.query("DELETE FROM t WHERE id = 1")
rid = wait_for(lambda: next(iter(st.pending()), None), 20)
a = c.ask("GET", "/api/requests/" + rid)
tap.ok(a.status == 200 and a.json()["rule"] == "two-people", "it may look", a.body)
path = "/api/requests/%s/" % rid
s = c.ask("POST", path + "statement", {"decision": "approve", "role": "dba"}).json()
tap.eq(s["challenge"], hashlib.sha256(s["statement"].encode()).hexdigest(), "core tells what is to be signed")
tap.ok(s["statement"].startswith("cofferdam-approval v") and "approver: dana\n" in s["statement"], "in dana's name", s)
sign = lambda who, text: json.dumps(KEYS[who].get(text.encode()))
tap.eq(c.ask("POST", path + "approve", {"role": "dba", "signature": ""}).status, 403, "a session alone approves nothing")
tap.eq(c.ask("POST", path + "approve", {"role": "dba", "signature": "{}"}).status, 403, "nor does an empty assertion")
tap.eq(omar.ask("POST", path + "approve", {"role": "dba", "signature": sign("dana", s["statement"])}).status, 403,
       "nor dana's assertion in omar's session")
tap.eq(c.ask("POST", path + "deny", {"role": "dba", "signature": sign("dana", s["statement"])}).status, 403,
       "nor is one that approves a denial")
tap.eq(c.ask("POST", path + "approve", {"role": "oncall", "signature": sign("dana", s["statement"])}).status, 403, "nor for another role")
for verb in ("revoke", "run-end", "run-revoke", "lift-sign"):
    tap.eq(c.ask("POST", path + verb, {}).status, 404, "the console has no " + verb)
a = c.ask("POST", path + "approve", {"role": "dba", "signature": sign("dana", s["statement"])})
tap.ok(a.status == 200 and a.json()["missing"] == ["oncall:1"], "dana's own, in her session, counts", a.body)
s = omar.ask("POST", path + "statement", {"decision": "approve", "role": "oncall"}).json()
a = omar.ask("POST", path + "approve", {"role": "oncall", "signature": sign("omar", s["statement"])})
tap.ok(a.status == 200 and a.json()["state"] == "armed", "with omar's it is armed", a.body)
tap.eq([db.query("DELETE FROM t WHERE id = 1").ok for _ in range(2)], [True, False], "and passes once")

# === reload, policy, end =====================================================================================
must(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-keyout",
      st.t + "/console.key", "-out", st.console_pem, "-subj", "/CN=" + console.HOST, "-addext", "subjectAltName=DNS:" + console.HOST])
os.kill(st.broker.pid, signal.SIGHUP)


def fresh():
    try:
        return c.ask("GET", "/api/session").status
    except OSError:
        return None


tap.eq(wait_for(fresh, 20), 200, "a new certificate is used after SIGHUP, and sessions go on")
del PEOPLE["dana"]["keys"][1]
st.reload({"people": PEOPLE})
tap.eq(c.ask("GET", "/api/session").json()["person"], "dana", "a person of the policy stays signed in")
tap.eq(console.Client(st).sign_in(KEYS["dana"], "dana").status, 401, "a key that the policy has no more opens no session")
gone = {p: v for p, v in PEOPLE.items() if p != "dana"}
rules = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}}]
st.reload({"people": gone, "rules": rules})
tap.eq(c.ask("GET", "/api/session").status, 401, "who is no person of the policy any more sees nothing more")
tap.eq(omar.ask("POST", "/api/sign-out", {}).status, 200, "omar signs out")
tap.eq(omar.ask("GET", "/api/session").status, 401, "and the token is worth nothing")
st.stop()

# === behind a proxy; configurations that are refused =========================================================
path = st.state + "/broker.json"
with open(path, encoding="utf-8") as f:
    conf = json.load(f)


def configured(**change):
    d = dict(conf, console={k: v for k, v in dict(conf["console"], **change).items() if v is not None})
    with open(path, "w", encoding="utf-8") as out:
        json.dump(d, out)


def refused(word, **change):
    configured(**change)
    r = run([os.path.dirname(os.path.realpath(CLI)) + "/cofferdam-broker", "--state", st.state], timeout=20)
    tap.ok(r.returncode != 0 and word in r.stdout, "refused at start: " + word, r.stdout)


refused("must be https://", origin="http://" + console.HOST)
refused("must be a name", origin="https://10.0.0.1")
refused("as browsers write it", origin="https://Console.test")
refused("go together", tls_key=None)
refused("loopback address only", tls_cert=None, tls_key=None, listen="0.0.0.0:%d" % st.console_port)
refused("must be an address", listen="localhost:80")
refused("unknown key", colour="blue")
configured(tls_cert=None, tls_key=None)
st.console_tls = False
st.start()
tap.eq(console.Client(st).ask("GET", "/sign-in").status, 200, "behind a proxy it speaks plain HTTP, on loopback")
o = console.Client(st)
tap.eq((o.sign_in(KEYS["omar"], "omar").status, o.ask("GET", "/api/session").status), (200, 200), "and people sign in all the same")
tap.eq(st.verify().returncode, 0, "the log verifies")
tap.done()
