#!/usr/bin/python3
"""No secret in anything that the log writes: segments, checkpoints, packs as they are and opened, keys, journals, what replay prints."""
import base64
import ctypes
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import verify_log
from harness import CLI, HostRun, Http, Pg, Stack, Tap, Temp, run, wait_for
from origin import Ca, Origin
from rawhttp import Closed

tap = Tap()
temp = Temp("canary")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int, v text); ALTER TABLE t OWNER TO agent")
ca = Ca(temp.path + "/ca")
# Each form of such a secret differs from the others: percent, JSON, base64, hexadecimal.
token = lambda: "canary/+" + base64.b64encode(os.urandom(19)).decode()
odd = lambda: token() + "?&\"\\"
KINDS = {"bearer": token(), "basic": odd(), "header": odd(), "query": odd()}
o = {n: Origin(temp.path, n + ".test", ca=ca) for n in KINDS}
http = {n: Http(o[n], kind=n, secret=s, user="agent" if n == "basic" else None,
                field={"header": "X-Api-Key", "query": "api_key"}.get(n), placeholder=n.upper() + "_TOKEN") for n, s in KINDS.items()}
st = Stack(temp, pg, http=http)
FOREIGN = {"foreign bearer": "ghp_" + os.urandom(18).hex(), "userinfo": "canary-" + os.urandom(16).hex(), "foreign basic": "canary-" + os.urandom(16).hex()}
SECRETS = dict(KINDS, postgresql=pg.password, **FOREIGN)


def chunks_of(s, size):
    return [s[i:i + size] for i in range(0, len(s), size)]


def shown(s):
    """As a server may show it. Not what answers are not scrubbed of: docs/threat-model.md 4."""
    b = s.encode()
    return [b, b.hex().encode(), b.hex().upper().encode(), urllib.parse.quote(s, safe="").encode(), urllib.parse.quote(s).encode(),
            json.dumps(s).encode(), s.replace("/", "\\/").encode(), *(enc(b"x" * i + b) for i in range(3)
                                                                      for enc in (base64.b64encode, base64.urlsafe_b64encode))]


def forms(s):
    """What to look for: of base64 the middle, which is the same whatever stands beside it."""
    b = s.encode() if isinstance(s, str) else s
    out = {b, b.hex().encode(), b.hex().upper().encode(), urllib.parse.quote(b, safe="").encode(), urllib.parse.quote(b).encode(),
           "".join("%%%02x" % x for x in b).encode()}
    if isinstance(s, str):
        out |= {json.dumps(s)[1:-1].encode(), s.replace("/", "\\/").encode()}
        out.add(json.dumps(json.dumps(s)[1:-1])[1:-1].encode())
    for enc in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            out.add(enc(b"\0" * shift + b)[4 if shift else 0:-4].rstrip(b"="))
    return {f for f in out if len(f) >= 12}


NEEDLES = {n: forms(s) for n, s in SECRETS.items()}
for name, path in (("vault key", "vault.key"), ("log seed", "log/seed")):
    with open(st.state + "/keys/" + path, "rb") as f:
        NEEDLES[name] = forms(f.read())


def search(data):
    return sorted(n for n, fs in NEEDLES.items() if any(f in data for f in fs))


missed = [(n, f) for n, fs in NEEDLES.items() for f in fs if n not in search(b"xx" + f + b"yy")]
tap.eq(missed, [], "the search finds each of %d planted forms" % sum(map(len, NEEDLES.values())))


# --- used in every way -------------------------------------------------------------------------------------------
def echoing(secret):
    """An answer that shows the secret it was sent, in every form, split over chunk borders."""
    def answer(req, c):
        if req.target.startswith("/small"):
            body = b"\n".join(shown(secret))
            c.reply(200, framing="chunked", chunks=chunks_of(body, 7))
        elif req.target.startswith("/error"):
            c.reply(401, b"no: " + secret.encode(), [("WWW-Authenticate", 'Basic realm="%s"' % urllib.parse.quote(secret, safe=""))])
        else:
            c.reply(200, secret.encode(), [("X-Seen", urllib.parse.quote(secret, safe="")), ("Content-Type", "text/plain")])
    return answer


for n in KINDS:
    for path in ("/small", "/error", "/header"):
        o[n].on(path, echoing(KINDS[n]))
hr = HostRun(st)


def ask(target, method, path, fields=(), body=None):
    x = hr.direct(target)
    try:
        return x.ask(method, path, o[target].authority, fields, body)
    except (Closed, OSError):
        return None
    finally:
        x.close()


used, seen = {}, b""
for n in KINDS:
    for path in ("/small", "/error", "/header"):
        r = ask(n, "GET", path)
        seen += r.head + r.raw_body if r else b""
    used[n] = any(search(q.head) for q in o[n].arrivals)
tap.eq(used, dict.fromkeys(KINDS, True), "each credential goes out, by the broker")
tap.eq(search(seen), [], "and none comes back, though every answer shows it in every form")
status = [getattr(ask(*x), "status", None) for x in (
    ("bearer", "GET", "/x", [("Authorization", "Bearer " + FOREIGN["foreign bearer"])]),
    ("basic", "GET", "/x", [("Authorization", "Basic " + base64.b64encode(b"me:" + FOREIGN["foreign basic"].encode()).decode())]),
    ("header", "GET", "https://me:%s@header.test/x" % FOREIGN["userinfo"]))]
tap.ok(all(s is None or s >= 400 for s in status), "credentials that do not belong are refused", status)
for body in ({"password": 12345678, "ok": True}, {"token": [True, False, 1]}):
    ask("bearer", "POST", "/x", [("Content-Type", "application/json")], json.dumps(body).encode())
hr.psql(pg, "SELECT 1")
hr.psql(pg, "SELECT broken(")
hr.psql(pg, "SELECT rolpassword FROM pg_authid")
hr.psql(pg, "DROP TABLE t")
hr.end()
wait_for(lambda: any(x["run"] == hr.id for x in st.records("run.end")))
said = run([CLI, "replay", "timeline", "--full", "--state", st.state, hr.id]).stdout
said += st.cli("status").stdout + st.cli("pending", "--json").stdout + st.cli("log", "show", "--json").stdout
tap.eq(search(said.encode()), [], "none stands in what timeline, status, pending and show print (%d bytes)" % len(said))
st.stop()

# --- every file -----------------------------------------------------------------------------------------------------
so = ctypes.CDLL("libsodium.so.23")


def opened(key, nonce, ct, ad):
    out, n = ctypes.create_string_buffer(len(ct)), ctypes.c_ulonglong()
    if so.crypto_aead_xchacha20poly1305_ietf_decrypt(out, ctypes.byref(n), None, ct, ctypes.c_ulonglong(len(ct)), ad,
                                                     ctypes.c_ulonglong(len(ad)), nonce, key) != 0:
        return None
    return out.raw[:n.value]


files, hits, plain, frames = 0, {}, b"", 0
keys = {}
for d, _, names in os.walk(st.state + "/keys/blob"):
    for n in names:
        with open(os.path.join(d, n), "rb") as f:
            keys[n[:-4].encode()] = f.read()
for top in (st.state + "/log", st.state + "/keys/blob", st.state + "/courier", st.state + "/policy", st.broker_log):
    for d, _, names in os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [os.path.basename(top)])]:
        for n in names:
            with open(os.path.join(d, n), "rb") as f:
                data = f.read()
            files += 1
            if search(data):
                hits[os.path.join(d, n)] = search(data)
            at = 0
            while n.endswith(".pack") and at < len(data):
                _, size = verify_log.Log.frame(data, at)
                frame = data[at:at + size]
                for kid, key in keys.items():
                    own = opened(key, frame[8:32], frame[32:80], b"CFB2" + kid)
                    if own is not None:
                        content = opened(own, frame[80:104], frame[108:], b"CFB2")
                        plain, frames = plain + content[32:] + b"\n", frames + 1
                at += size
tap.ok(files > 8, "the files of the log, its keys and the broker's own log are there", files)
tap.eq(hits, {}, "none of %d files holds a secret, in any form" % files)
tap.ok(frames > 12 and b"SELECT broken(" in plain and b"GET /small" in plain, "the test opens what is sealed: %d frames" % frames)
tap.eq(search(plain), [], "nor does what they hold when it is opened (%d bytes)" % len(plain))
tap.eq([os.path.join(d, f) for d, _, names in os.walk(temp.path) for f in names if f == "core" or f.startswith("core.")], [], "no core file was written")
tap.done()
