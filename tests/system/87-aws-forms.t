#!/usr/bin/python3
"""AWS-01 of the field cases: every form in which a body of S3 is signed, and what is none of them. Requests are written by
hand, as no client would; a server that verifies by botocore's own signer says what came of them."""
import hashlib
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from awsserver import SIGNED_CHUNKS, UNSIGNED_TRAILER, Service, s3
from awsworld import ID, KEY, TOKEN, World
from harness import HostRun, Tap, Temp, wait_for
from origin import Origin
from rawhttp import Closed

tap, temp = Tap(), Temp("aws-forms")
w = World(temp, ["s3", "rds"])
STORE = ("minio", "cana-store-" + os.urandom(12).hex())
w.account.add(*STORE)
other = Origin(temp.path, "store.internal", ca=w.ca)
clear = Origin(temp.path, "localhost", tls=False)
mute = Origin(temp.path, "mute.internal", ca=w.ca)
plain = Origin(temp.path, "plain.internal", ca=w.ca)
for name, o in (("store", other), ("clear", clear), ("mute", mute)):
    w.services[name] = Service(o, w.account, "s3", "eu-west-1", s3(w.store))
    w.origins[name] = o
said = {"services": ["s3"], "regions": ["eu-west-1"]}
w.targets["store"] = World.target(other, "store", env="prod", **said)
w.targets["clear"] = World.target(clear, "clear", env="dev", **said)
w.targets["mute"] = World.target(mute, "mute", env="dev")
w.targets["plain"] = World.target(plain, "plain", env="dev")
w.targets["plain"].more["kind"] = "http"
w.targets["s3"].more["placeholder"] = "AWS_ACCESS_KEY_ID"
w.targets["store"].more["placeholder"] = "STORE_KEY"
st = w.stack(*((n, o.origin, "%s %s" % STORE) for n, o in (("store", other), ("clear", clear), ("mute", mute), ("plain", plain))))
hr = HostRun(st)
ME = hr.env["AWS_ACCESS_KEY_ID"]
BIG = os.urandom(300000)


def auth(key=ME, region="eu-west-1", service="s3", names="host;x-amz-content-sha256;x-amz-date", date="20260101"):
    return ("Authorization", "AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s" % (key, date, region, service, names, "0" * 64))


def ask(method, path, fields=(), body=None, target="s3", chunked=None, key=None):
    """One request with the client's signature, unless the fields have one or key is False."""
    o = st.http[target].origin
    x = hr.direct(target) if o.tls else hr.tcp(target)
    own = [] if key is False or any(n == "Authorization" for n, _ in fields) else [auth(key or ME)]
    host = o.host if o.port == 443 else o.authority
    if chunked is not None:
        head = "%s %s HTTP/1.1\r\nHost: %s\r\n" % (method, path, host) + "".join("%s: %s\r\n" % f for f in [*own, *fields])
        x.send((head + "Transfer-Encoding: chunked\r\n\r\n").encode("latin-1"))
        for piece in chunked:
            x.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        x.send(b"0\r\n\r\n")
        r = x.answer()
    else:
        try:
            r = x.ask(method, path, host, [*own, *fields], body)
        except Closed:
            r = None
    x.close()
    return r


def act():
    return st.acts()[-1]


def put(object_, fields, body, content, name, target="s3", **kw):
    w.forget()
    r = ask("PUT", "/logs/" + object_, fields, body, target, **kw)
    s = w.services[target]
    got = w.store.get(("logs", urllib.parse.unquote(object_)))
    tap.ok(r is not None and r.status == 200 and len(s.verified) == 1 and not s.refused and got == content, name,
           (r and (r.status, r.body[:300]), s.refused, got and len(got)))


def refused(status, words, name, method="PUT", path="/logs/no", fields=(), body=b"hello", target="s3", **kw):
    w.forget()
    r = ask(method, path, fields, body, target, **kw)
    o = w.origins.get(target, plain)
    got = (r.status, all(x.encode() in r.body for x in ([words] if isinstance(words, str) else words)), len(o.arrivals))
    tap.ok(got == (status, True, 0) and act()["decision"]["verdict"] == "deny", name, (got, r.body[:600], act()["decision"]))
    return r


def sha(b):
    return ("X-Amz-Content-Sha256", hashlib.sha256(b).hexdigest())


# --- a hash ------------------------------------------------------------------------------------------------------------
put("k", [sha(b"hello")], b"hello", b"hello", "AWS-01: x-amz-content-sha256 is a hash: signed")
refused(400, "X-Amz-Content-Sha256 names", "AWS-01: of another body: refused", fields=[sha(b"other")])
put("k", [sha(BIG)], BIG, BIG, "of a body on its way: signed")
put("k", [sha(BIG)], None, BIG, "of a body without a length", chunked=[BIG[:100000], BIG[100000:]])
w.forget()
w.store.clear()
r = ask("PUT", "/logs/no", [sha(b"other")], BIG)
tap.ok(r.status == 400 and b"body_differs" in r.body and b"X-Amz" not in r.body and not w.store and not w.services["s3"].verified,
       "AWS-01: of another body on its way: it does not become whole", (r.status, r.body))
put("k", [], b"hello", b"hello", "no x-amz-content-sha256: the broker adds it")
put("k", [], BIG, BIG, "none, of a body on its way, over TLS: as unsigned", key=False)
tap.eq(w.origins["s3"].arrivals[-1].get("X-Amz-Content-Sha256"), "UNSIGNED-PAYLOAD", "(which the head says)")
put("k", [], BIG, BIG, "none, of a body on its way, without TLS: its hash is taken", target="clear", key=False)
put("k", [sha(BIG)], BIG, BIG, "without TLS, to loopback, with a hash", target="clear", key=False)

# --- unsigned ------------------------------------------------------------------------------------------------------------
UNSIGNED = ("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
put("k", [UNSIGNED], BIG, BIG, "AWS-01: UNSIGNED-PAYLOAD over TLS")
refused(501, ["UNSIGNED-PAYLOAD is not signed anew", "NotImplemented"], "AWS-01: UNSIGNED-PAYLOAD without TLS", fields=[UNSIGNED], target="clear", key=False)

# --- chunks --------------------------------------------------------------------------------------------------------------


def chunks(content, size=70000, sig="0" * 64, end=True):
    parts = [content[i:i + size] for i in range(0, len(content), size)] + ([b""] if end else [])
    return b"".join(b"%x;chunk-signature=%s\r\n%s\r\n" % (len(p), sig.encode(), p) for p in parts)


def coded(n, word=SIGNED_CHUNKS, *more):
    return [("X-Amz-Content-Sha256", word), ("X-Amz-Decoded-Content-Length", str(n)), ("Content-Encoding", "aws-chunked"), *more]


for content in (b"", b"hello", BIG[:8192], BIG[:65536], BIG[:131072], BIG[:65537], BIG):
    put("k", coded(len(content)), chunks(content), content, "AWS-01: signed chunks, %d bytes: signed anew" % len(content))
arrived = w.origins["s3"].arrivals[-1]
tap.eq((arrived.get("X-Amz-Decoded-Content-Length"), arrived.get("Content-Length"), arrived.get("Transfer-Encoding"), b"0" * 64 in arrived.head + arrived.raw_body),
       (str(len(BIG)), str(len(arrived.body)), None, False), "AWS-01: the decoded length is kept, the length is that of the chunks that go out, and no signature of the client's goes with them")
body = chunks(BIG, 1000)
put("k", coded(len(BIG)), None, BIG, "in chunks of HTTP besides, and of any size", chunked=[body[i:i + 9999] for i in range(0, len(body), 9999)])
put("k", coded(len(BIG)), chunks(BIG, 12345), BIG, "signed chunks without TLS", target="clear", key=False)
for name, content, n, body in (("that say another length", b"hello", 6, None), ("without an end", b"hello", 5, chunks(b"hello", end=False)),
                               ("with something behind them", b"hello", 5, chunks(b"hello") + b"x"), ("that are none", b"", 5, b"hello"),
                               ("without signatures", b"", 5, b"5\r\nhello\r\n0\r\n\r\n")):
    refused(400, "InvalidRequest", "signed chunks " + name, fields=coded(n), body=chunks(content) if body is None else body)
refused(400, "Decoded-Content-Length", "signed chunks without a decoded length", fields=coded(5)[:1], body=chunks(b"hello"))
w.store.clear()
for name, n, body in (("that say another length", len(BIG) + 1, chunks(BIG)), ("that are none", len(BIG), BIG), ("without an end", len(BIG), chunks(BIG, end=False))):
    w.forget()
    r = ask("PUT", "/logs/no", coded(n), body)
    tap.ok(r.status == 400 and b"body_differs" in r.body and not w.store and not w.services["s3"].verified, "on their way, signed chunks %s do not become whole" % name, (r.status, r.body))
trailing = lambda b: b"%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n" % (len(b), b)
TRAILER = ("X-Amz-Trailer", "x-amz-checksum-crc32")
for content in (b"hello", BIG):
    put("k", coded(len(content), UNSIGNED_TRAILER, TRAILER), trailing(content), content, "AWS-01: unsigned chunks with a trailer, %d bytes" % len(content))
put("k", coded(len(BIG), UNSIGNED_TRAILER, TRAILER), None, BIG, "the same in chunks of HTTP, as newer clients do", chunked=[trailing(BIG)])
tap.ok(w.origins["s3"].arrivals[-1].body == trailing(BIG), "and nothing of it is touched")
for word in (SIGNED_CHUNKS + "-TRAILER", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", hashlib.sha256(b"hello").hexdigest().upper(), "anything"):
    refused(501, [word, "NotImplemented"], "AWS-01: 501 that names the form: %s" % word[:44], fields=coded(5, word), body=chunks(b"hello"))

# --- names and queries ---------------------------------------------------------------------------------------------------
put(urllib.parse.quote("a b+c/%2F/ü"), [sha(b"1")], b"1", b"1", "AWS-01: a key of all kinds of characters")
refused(400, "escapes", "an escaped slash, which servers read in two ways", path="/logs/a%2Fb", fields=[sha(b"hello")])
for query, name in (("list-type=2&prefix=&prefix=a%20b%2Bc%2F&delimiter=&prefix=1&prefix=", "empty and repeated values"), ("prefix=a/b=c&list-type=2", "characters that need no escape"),
                    ("prefix=a+b&list-type=2", "a plus for a blank"), ("list-type", "a name alone")):
    w.forget()
    r = ask("GET", "/logs?" + query)
    tap.ok(r.status == 200 and len(w.services["s3"].verified) == 1, "AWS-01: a query with " + name, (r.status, r.body, w.services["s3"].refused))
w.forget()
r = ask("PUT", "/logs/m", [sha(b"1"), ("x-amz-meta-a", "a   b\t c"), ("X-Amz-Meta-A", "d"), ("X-Amz-Meta-Hop", "1"), ("Connection", "x-amz-meta-hop"), ("Content-MD5", "xMpCOKC5I4INzFCab3WEmw=="),
                             ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"), ("X-Amz-Date", "19700101T000000Z")], b"1")
arrived = w.origins["s3"].arrivals[-1]
tap.ok(r.status == 200 and len(w.services["s3"].verified) == 1 and not arrived.all("X-Amz-Meta-Hop") and not arrived.all("Date") and len(arrived.all("X-Amz-Date")) == 1,
       "AWS-01: fields twice, blanks, a field of the connection alone, a clock of 1970", (r.status, r.body, w.services["s3"].refused))
refused(400, "Connection names", "a field that says what is done, taken away on the way", fields=[sha(b"hello"), ("X-Amz-Copy-Source", "logs/k"), ("Connection", "x-amz-copy-source")])

# --- whose signature it is ------------------------------------------------------------------------------------------------
put("k", [sha(b"1"), ("X-Amz-Security-Token", "client's own")], b"1", b"1", "AWS-01: a session token of the client's: taken away")
tap.eq(w.origins["s3"].arrivals[-1].all("X-Amz-Security-Token"), [TOKEN], "and the account's own is there")
r = refused(403, "AccessDenied", "a session token without the placeholder's signature", fields=[sha(b"hello"), ("X-Amz-Security-Token", "client's own")], key=False)
tap.eq(act()["request"]["http"]["found"]["what"], "credential_foreign", "is a credential that was found")
FOREIGN = "AKIAIOSFODNN7EXAMPLE"
refused(403, "AccessDenied", "another access key than the placeholder", fields=[sha(b"hello")], key=FOREIGN)
first = act()["request"]["http"]["found"]
refused(403, "AccessDenied", "the same key, for something else", path="/logs/else", fields=[sha(b"hello")], key=FOREIGN)
tap.eq((first["what"], act()["request"]["http"]["found"]["fingerprint"]), ("credential_foreign", first["fingerprint"]), "is the same find")
tap.ok(FOREIGN not in json.dumps(st.records()), "and stands nowhere in the log")
second = HostRun(st, ["s3"])
refused(403, "AccessDenied", "the placeholder of another run", fields=[sha(b"hello")], key=second.env["AWS_ACCESS_KEY_ID"])
tap.eq(act()["request"]["http"]["found"]["what"], "credential_scope", "is a placeholder that does not belong here")
second.end()
SIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=%s%%2F20260101%%2Feu-west-1%%2Fs3%%2Faws4_request&X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Signature=" + "a" * 64
refused(403, "AccessDenied", "AWS-01: a presigned URL is a foreign credential", "GET", "/logs/k?" + SIGNED % FOREIGN, body=None, key=False)
tap.eq(act()["request"]["http"]["found"]["what"], "credential_foreign", "as the record says")
refused(501, "presigned URL", "one by the placeholder: 501 that names the form", "GET", "/logs/k?" + SIGNED % ME, body=None, key=False)
refused(501, "version 2 in the URL", "version 2 in the URL: 501 that names it", "GET", "/logs/k?AWSAccessKeyId=%s&Expires=1&Signature=abc" % ME, body=None, key=False)
refused(501, "version 2 is not", "version 2: 501 that names it", fields=[("Authorization", "AWS %s:c2lnbmF0dXJl" % ME)])
refused(501, "version 4A", "version 4A: 501 that names it", fields=[("Authorization", auth()[1].replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256").replace("/eu-west-1/", "/"))])
w.store["logs", "k"] = b"1"
w.forget()
r = ask("GET", "/logs/k")
tap.ok(r.status == 200 and len(w.services["s3"].verified) == 1, "the same read by version 4 passes", (r.status, r.body))

# --- for what -------------------------------------------------------------------------------------------------------------
refused(403, ["it is not signed", "another region"], "signed for another region than the host's", fields=[auth(region="us-east-1"), sha(b"hello")])
refused(403, ["it is not signed", "another service"], "signed for another service than the host's", fields=[auth(service="rds"), sha(b"hello")])
refused(403, ["it is not signed", "region that is none"], "a host that says nothing: another region than the target's", fields=[auth(hr.env["STORE_KEY"], region="eu-north-1"), sha(b"hello")], target="store")
refused(403, ["it is not signed", "which service it is for"], "a target that says no service: nothing is signed", fields=[sha(b"hello")], target="mute", key=False)
st.reload({"rules": w.policy["rules"], "targets": dict(json.load(open(st.policy_file, encoding="utf-8"))["targets"], mute=dict(w.targets["mute"].policy("mute"), **said))})
put("k", [sha(b"1")], b"1", b"1", "once it says which: signed", target="mute", key=False)
r = ask("GET", "/", target="plain", key=False)
tap.ok(r.status == 403 and not plain.arrivals and b"credential_missing" in r.body, "a target of another kind does not get such a credential", (r.status, r.body))
w.services["s3"].answer = lambda req, c: c.reply(307, b"", [("Location", "https://store.internal:%d/logs/k" % other.port)])
w.forget()
r = ask("GET", "/logs/k")
tap.ok(r.status == 307 and not other.arrivals and len(w.origins["s3"].arrivals) == 1, "a redirect is the client's to follow", r.status)

# --- people ---------------------------------------------------------------------------------------------------------------
w.forget()
write = lambda sig, content=b"hello", size=70000: ask("PUT", "/logs/asked", coded(len(content)), chunks(content, size, sig), "store", key=False)
r = write("1" * 64)
rid = next(iter(st.pending()))
shown = st.cli("show", rid).stdout
tap.ok(r.status == 403 and "body: 5 bytes" in shown and "| hello" in shown and "chunk-signature" not in shown, "people see the content, not its chunks", shown)
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
r = write("2" * 64, b"hallo")
tap.ok(r.status == 403 and not other.arrivals, "another content is another request", r.status)
r = write("2" * 64, size=2)
tap.ok(r.status == 200 and len(w.services["store"].verified) == 1 and w.store["logs", "asked"] == b"hello", "the same content, signed by the client at another time, passes", (r.status, r.body))
tap.eq(write("3" * 64).status, 403, "once")
huge = b"x" * (9 << 20)
refused(501, "signed chunks", "people cannot be asked about signed chunks of over 8 MiB", fields=coded(len(huge)), body=chunks(huge, 1 << 20), target="store", key=False)
waiting = len(st.pending())
r = ask("PUT", "/logs/huge", [sha(huge)], huge, "store", key=False)
tap.ok(r.status == 403 and len(st.pending()) == waiting + 1, "about the same with its hash they can", r.status)
hr.end()
text = json.dumps(st.records())
tap.ok(not any(x in text for x in (ID, KEY, TOKEN, STORE[1])), "no part of a key is in the log")
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
