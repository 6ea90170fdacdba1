#!/usr/bin/python3
"""Credentials over HTTPS: bound to their origin, put in by the broker, taken out of answers, in no file.

CRD-01, 02, 03 and 05 of the field cases. What scrubbing cannot do (parts of a secret, ranges) is in the threat model.
"""
import base64
import copy
import gzip
import json
import os
import signal
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import PROXY, Http, HostRun, Stack, Tap, Temp, wait_for
from origin import Ca, Origin, credential_of, json_escaped
from rawhttp import Closed, chunks, request

tap = Tap()
temp = Temp("http-cred")
ca = Ca(temp.path + "/ca")
o = {n: Origin(temp.path, n + ".test", ca=ca) for n in ("a", "b", "basic", "key", "q")}
plain = Origin(temp.path, "a.test", tls=False)
# One service under three names, which shows whom it has seen.
names = ("one.test", "two.test", "three.test", "basic1.test")
service = Origin(temp.path, names[0], names=names[1:], ca=ca)
for host in names:
    o[host[:-5]] = copy.copy(service)
    o[host[:-5]].host = host
# Not plain hexadecimal: percent form, JSON form and base64url differ from the text. A bearer token has no quotes.
token = lambda: "canary/+" + base64.b64encode(os.urandom(19)).decode()
odd = lambda: token() + "?&\"\\"
http = {"a": Http(o["a"], secret=token(), placeholder="A_TOKEN"), "b": Http(o["b"], placeholder="B_TOKEN"),
        "basic": Http(o["basic"], kind="basic", user="agent", secret=odd(), placeholder="BASIC_TOKEN"),
        "key": Http(o["key"], kind="header", field="X-Api-Key", secret=odd(), placeholder="KEY_TOKEN"),
        "q": Http(o["q"], kind="query", field="api_key", secret=odd(), placeholder="Q_TOKEN")}
each = list(http)
http.update({"one": Http(o["one"], secret=token(), placeholder="ONE_TOKEN"),
             "two": Http(o["two"], kind="header", field="X-Api-Key", secret=odd(), placeholder="TWO_TOKEN"),
             "basic1": Http(o["basic1"], kind="basic", user="agent", secret=odd(), placeholder="BASIC1_TOKEN"),
             "three": Http(o["three"], kind=None)})
SECRETS = {n: h.secret for n, h in http.items() if h.kind}
st = Stack(temp, None, http=http, policy={"rules": [
    {"id": "all", "permit": {"effects": {"only": ["@data", "@change", "@destructive"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]})
hr = HostRun(st)
PH = {n: hr.env.get(n.upper() + "_TOKEN", "") for n in SECRETS}
got = []  # every byte that the agent's side was given


def ask(target, method, path, fields=(), body=None, how="direct"):
    x = getattr(hr, how)(target)
    try:
        r = x.ask(method, path, o[target].authority, fields, body)
        got.append(r.head + r.raw_body)
        return r
    except (Closed, OSError) as e:
        print("# %s %s of %s: %r" % (method, path, target, e))
        return None
    finally:
        x.close()


def quiet():
    for x in (*o.values(), plain):
        x.forget()


def arrived():
    return [(x.host, r.method, r.target) for x in (*o.values(), plain) for r in x.arrivals]


def forms(s):
    """Every spelling of a secret that must not come out."""
    b = s.encode()
    out = {b, b.hex().encode(), b.hex().upper().encode(), urllib.parse.quote(s, safe="").encode(), urllib.parse.quote(s).encode(),
           "".join("%%%02x" % x for x in b).encode(), "".join("%%%02X" % x for x in b).encode(), json.dumps(s)[1:-1].encode(),
           s.replace("/", "\\/").encode(), json_escaped(s).encode()}
    for enc in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            out.add(enc(b"\0" * shift + b)[4 if shift else 0:-4].rstrip(b"="))
    return {f for f in out if len(f) >= 12}


def leaks(data):
    return [n for n, s in SECRETS.items() if any(f in data for f in forms(s))]


# === the credential is used, and by the broker ===============================================================
tap.ok(all(len(p) == 31 and p.startswith("cfph_") for p in PH.values()) and len(set(PH.values())) == len(PH),
       "the run has a placeholder for each credential", PH)
for n in each:
    for how in ("direct", "tunnel"):
        r = ask(n, "GET", "/x?keep=1", how=how)
        tap.eq(r and r.status, 200, "%s by %s: passes" % (n, how))
q = {n: x.arrivals[0] for n, x in o.items() if x.arrivals}
tap.eq(q["a"].get("Authorization"), "Bearer " + SECRETS["a"], "bearer arrives")
tap.eq(q["basic"].get("Authorization"), "Basic " + base64.b64encode(b"agent:" + SECRETS["basic"].encode()).decode(), "basic arrives")
tap.eq(q["key"].get("X-Api-Key"), SECRETS["key"], "a header arrives")
tap.eq(q["q"].args, {"keep": "1", "api_key": SECRETS["q"]}, "a query parameter arrives, beside what was asked")
tap.ok(all(SECRETS[m] not in (r.head + r.body).decode("latin-1") for n, x in o.items() for r in x.arrivals for m in SECRETS if m != n),
       "and none at another's")
quiet()

# === CRD-01: placeholders =====================================================================================
BASIC = lambda p: "Basic " + base64.b64encode(b"agent:" + p.encode()).decode()
p = PH["a"]
for name, path, fields, body in (
        ("Authorization", "/x", [("Authorization", "Bearer " + p)], None), ("another field", "/x", [("X-Any", p)], None),
        ("the query", "/x?t=" + p, [], None), ("the query, percent-encoded", "/x?t=%63" + p[1:], [], None), ("the path", "/x/" + p, [], None),
        ("a Basic password", "/x", [("Authorization", BASIC(p))], None),
        ("a JSON body", "/x", [("Content-Type", "application/json")], json.dumps({"t": p}).encode()),
        ("a form", "/x", [("Content-Type", "application/x-www-form-urlencoded")], b"t=" + p.encode()),
        ("a chunked body", "/x", [("Transfer-Encoding", "chunked")], None)):
    before = len(st.acts())
    if name == "a chunked body":
        x = hr.direct("b")
        x.send(request("POST", path, o["b"].authority, fields) + chunks(["t=" + p[:9], p[9:]]))
        try:
            r = x.answer()
        except Closed:
            r = None
        x.close()
    else:
        r = ask("b", "POST" if body else "GET", path, fields, body)
    tap.ok(r is not None and r.status == 403 and not arrived(), "CRD-01: another's placeholder in %s: 403, nothing arrives (%s)" % (name, r and r.status), arrived())
    acts = st.acts()[before:]
    tap.ok(len(acts) == 1 and acts[0]["decision"]["verdict"] == "deny", "CRD-01: %s: on the record as denied" % name, acts)
    text = json.dumps(acts)
    tap.ok("a-key" in text and "b.test" in text and "a.test" in text, "CRD-01: %s: with the credential's name and both hosts" % name, text[:1500])
    quiet()
for n, fields, path in (("a", [("Authorization", "Bearer " + PH["a"])], "/x"), ("basic", [("Authorization", BASIC(PH["basic"]))], "/x"),
                        ("key", [("x-api-key", PH["key"])], "/x"), ("q", [], "/x?api_key=" + PH["q"])):
    r = ask(n, "GET", path, fields)
    ok = r is not None and r.status == 200 and len(o[n].arrivals) == 1
    tap.ok(ok and SECRETS[n] in json.dumps([*o[n].arrivals[0].headers, base64.b64decode((o[n].arrivals[0].get("Authorization") or "x x").split(" ")[1] + "==").decode("latin-1") if n == "basic" else "",
                                            o[n].arrivals[0].args], ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\"),
           "CRD-01: its own placeholder in its own place (%s) passes, with the secret" % n, r)
    tap.ok(ok and PH[n] not in o[n].arrivals[0].head.decode("latin-1"), "CRD-01: and is not seen behind the broker (%s)" % n)
    quiet()
for name, fields in (("a bearer token", [("Authorization", "Bearer ghp_found-in-a-file-0123456789")]), ("a Basic password", [("Authorization", BASIC("hunter2"))]),
                     ("an API key", [("X-Api-Key", "sk-live-0123456789abcdef")]), ("Proxy-Authorization", [("Proxy-Authorization", BASIC("x"))]),
                     ("a cookie", [("Cookie", "session=0123")])):
    before = len(st.acts())
    r = ask("a", "GET", "/x", fields)
    acts = st.acts()[before:]
    if name == "Proxy-Authorization":
        tap.ok(r is not None and all(not q_.get("Proxy-Authorization") for q_ in o["a"].arrivals), "%s never arrives (%s)" % (name, r and r.status))
    else:
        tap.ok(r is not None and r.status == 403 and not arrived(), "%s that the agent found is refused (%s)" % (name, r and r.status))
        tap.ok(acts and acts[-1]["decision"]["verdict"] == "deny", "%s: on the record" % name)
    tap.ok("found-in-a-file" not in json.dumps(acts) and "sk-live" not in json.dumps(acts), "%s: its value is not in clear on the record" % name, acts)
    quiet()
x = hr.tcp(PROXY)
r = x.ask("GET", "http://a.test:%d/x" % plain.port, plain.authority)
tap.ok(r.status in (403, 421, 502) and not plain.arrivals, "a credential never goes in clear: http:// of the same name is no target (%d)" % r.status)
x.close()

# === CRD-02: what is reflected ================================================================================
FORMS = ("raw", "field", "base64", "base64-1", "base64-2", "base64url", "basic", "percent", "quoted", "json", "escaped", "hex", "HEX",
         "header", "split", "bytes", "close", "reason", "trailer", "location")
for n in each:
    for form in FORMS:
        if n != "a" and form not in ("raw", "field", "basic", "quoted", "header", "split"):
            continue
        r = ask(n, "GET", "/reflect?form=" + form)
        if r is None:
            tap.ok(False, "CRD-02: %s, %s: no answer" % (n, form))
            continue
        found = leaks(r.head + r.raw_body) + leaks(r.body)
        tap.eq(found, [], "CRD-02: %s echoed as %s: not in the answer (%d)" % (n, form, r.status))
        if form in ("raw", "split", "json"):
            tap.ok(r.status == 200 and r.body.startswith(b"before ") and r.body.endswith(b" after\n"),
                   "CRD-02: and what stands around it is whole", r)
            cl = r.get("Content-Length")
            tap.ok(cl is None or int(cl) == len(r.body), "CRD-02: with the right length", r)
act = st.acts()[-1]
ask("a", "GET", "/reflect?form=raw")
act = st.acts()[-1]
out = st.outcome(act["action"])
tap.ok("reflected" in json.dumps(out), "CRD-02: the record says that it was reflected", out)
ask("a", "GET", "/ok")
out = st.outcome(st.acts()[-1]["action"])
tap.ok(out is not None and not (out.get("http") or out).get("reflected"), "CRD-02: and of another answer that it was not", out)
r = ask("a", "GET", "/reflect?form=gzip", [("Accept-Encoding", "gzip")])
body = r.body if r is not None else b""
if r is not None and r.get("Content-Encoding") == "gzip":
    body = gzip.decompress(body)
tap.ok(r is not None and not leaks(body) and (r.status >= 400 or b"before" in body), "CRD-02: gzip is looked into, or refused (%s)" % (r and r.status), body)
r = ask("a", "GET", "/binary")
tap.eq(r and r.body, bytes(range(256)) * 40, "CRD-02: a binary body without it is unchanged")
r = ask("a", "GET", "/gzip", [("Accept-Encoding", "gzip")])
tap.ok(r is not None and r.status in (200, 502), "CRD-02: an honest gzip answer: %s" % (r and r.status))
quiet()

# === what one target shows of another's ========================================================================
saw = {}  # the last one of each kind


def show(req, c):
    """All that it was authorised by so far, in several spellings; ?gzip=1 compressed, ?br=1 in a coding that cannot be read."""
    for f in ("Authorization", "X-Api-Key"):
        if req.get(f):
            saw[f + req.get("Host")] = req.get(f), credential_of(req)[0]
    if "how" not in req.args:
        return c.reply(200, b"seen\n")
    text = "; ".join("%s %s %s %s" % (f, base64.b64encode(s_.encode()).decode(), json_escaped(s_), s_.encode().hex()) for f, s_ in saw.values())
    body = ("before " + text + " after\n").encode()
    if req.args["how"] == "gzip":
        return c.reply(200, gzip.compress(body), [("Content-Encoding", "gzip")])
    if req.args["how"] == "br":
        return c.reply(200, body, [("Content-Encoding", "br")])
    c.reply(200, body, [("X-Seen", f) for f, s_ in saw.values()])


service.on("/show", show)
for n in ("one", "two", "basic1"):
    tap.eq((lambda r: r and (r.status, r.body))(ask(n, "GET", "/show")), (200, b"seen\n"), "one service by the name %s: passes" % n)
tap.ok(len(saw) == 3 and {s_ for f, s_ in saw.values()} == {SECRETS[n] for n in ("one", "two", "basic1")}, "and it has seen each credential", saw.keys())
for n in ("one", "two", "basic1", "three"):
    for how in ("plain", "gzip"):
        r = ask(n, "GET", "/show?how=" + how, [("Accept-Encoding", "gzip")])
        tap.ok(r is not None and r.status == 200 and r.body.startswith(b"before ") and r.body.endswith(b" after\n"),
               "through %s (%s) the service shows what it saw" % (n, how), r)
        tap.eq(leaks(r.head + r.body) if r else None, [], "and neither its own secret nor another target's (%s, %s)" % (n, how))
        tap.ok(r is not None and all(PH[m].encode() in r.body for m in ("one", "two", "basic1")), "but the placeholder of each (%s, %s)" % (n, how), r)
    tap.ok(r is not None and service.arrivals[-1].get("Accept-Encoding") == "identity", "asked through %s for nothing compressed" % n)
    r = ask(n, "GET", "/show?how=br")
    tap.ok(r is not None and r.status == 502 and not leaks(r.head + r.body), "through %s a coding that cannot be read is refused (%s)" % (n, r and r.status))
out = st.outcome([a for a in st.acts() if "three" in json.dumps(a)][1]["action"])
tap.ok("reflected" in json.dumps(out), "the record of the target without a credential says that one was shown", out)
quiet()

# === CRD-05: redirects ========================================================================================
for code, to in (("302", "https://b.test:%d/stolen" % o["b"].port), ("302", "http://a.test:%d/stolen" % plain.port),
                 ("302", "https://a.test:8443/stolen"), ("307", "https://b.test:%d/stolen" % o["b"].port)):
    body = b"payload" if code == "307" else None
    r = ask("a", "POST" if body else "GET", "/redirect?code=%s&to=%s" % (code, urllib.parse.quote(to, safe="")), body=body)
    tap.eq((r and r.status, r and r.get("Location")), (int(code), to), "CRD-05: %s to %s is handed back" % (code, to))
    tap.ok([h for h, _, _ in arrived()] == ["a.test"], "CRD-05: and not followed by the broker", arrived())
    quiet()
r = hr.curl("a", "/redirect?to=" + urllib.parse.quote("https://b.test:%d/x" % o["b"].port, safe=""), "-L", proxy=True)
tap.ok(len(o["b"].arrivals) == 1 and o["b"].arrivals[0].get("Authorization") == "Bearer " + SECRETS["b"],
       "CRD-05: a client that follows gets the credential of the place it goes to", (r.stdout, arrived()))
r = hr.curl("a", "/redirect?to=" + urllib.parse.quote("https://a.test:8443/x", safe=""), "-L", proxy=True)
tap.ok(r.returncode != 0, "CRD-05: to a port that is no target it does not get", r.stdout)
quiet()

# === CRD-03: nowhere ==========================================================================================
r = ask("a", "GET", "/500")
tap.eq(r and r.status, 500, "CRD-03: a 500 of the origin is relayed")
ask("a", "GET", "/broken?how=head")
good = o["a"].ctx
o["a"].ctx.load_cert_chain(*Ca(temp.path + "/other-ca").issue("a.test"))
for c in list(o["a"].conns):
    c.cut()
quiet()
r = ask("a", "GET", "/x", [("Connection", "close")])
tap.ok(r is not None and r.status == 502 and not o["a"].arrivals, "CRD-03: a certificate of another authority: 502, nothing sent (%s)" % (r and r.status), r)
tap.eq(leaks(b"".join(got)), [], "CRD-03: in all that the agent's side was given there is no secret (%d bytes)" % sum(map(len, got)))
tap.eq(leaks(b"xx" + base64.b64encode(b"a" + SECRETS["a"].encode() + b"b") + b"yy"), ["a"], "CRD-03: (the search finds a planted base64 form)")
for n in ("front", "core", "upstream", "writer"):
    pid = st.child(n)
    hit = []
    for f in ("cmdline", "environ", "comm", "maps"):
        try:
            with open("/proc/%d/%s" % (pid, f), "rb") as g:
                hit += leaks(g.read())
        except OSError:
            pass
    tap.eq(hit, [], "CRD-03: nothing in arguments and environment of %s" % n)
for n in ("front", "upstream"):
    pid = st.child(n)
    os.kill(pid, signal.SIGABRT)
    tap.ok(wait_for(lambda: st.child(n) not in (0, pid), 20), "CRD-03: %s is made to dump core, and starts again" % n)
hr.end()
st.stop()
found = {}
for d, _, files in os.walk(temp.path):
    for f in files:
        path = os.path.join(d, f)
        if os.path.isfile(path) and "/state/keys/" not in path:
            with open(path, "rb") as g:
                hit = leaks(g.read())
            if hit:
                found[path] = hit
tap.eq(found, {}, "CRD-03: no file of the state, nor the broker's output, holds one")
text = json.dumps(st.records())
tap.ok("a-key" in text and "credential_fp" in text, "CRD-03: the log names the credential and has its fingerprint")
tap.ok("VERIFIED" in st.verify().stdout, "the log verifies", st.verify().stdout)
tap.done()
