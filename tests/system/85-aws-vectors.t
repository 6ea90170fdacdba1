#!/usr/bin/python3
"""Signatures of AWS, version 4: what the broker's signer makes of requests of every kind is what botocore makes of them."""
import datetime
import hashlib
import json
import os
import random
import sys
import urllib.parse
from http.client import HTTPMessage

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from harness import BUILD, Tap, run

tap = Tap()
SEED = int(os.environ.get("SEED", "20150830"))
rnd = random.Random(SEED)
TEXT = "abcXYZ09-_.~ +/%&=?#;:@!$'()*,[]|\"<>\\^`{}üé漢\U0001f600\t"
NAMES = ["X-Amz-Meta-A", "x-amz-acl", "X-AMZ-TAGGING", "Content-Type", "Content-MD5", "x-amz-meta-b", "X-Amz-Target"]
OTHERS = ["User-Agent", "Accept", "If-Match", "amz-sdk-request", "Range", "Connection", "Expect", "X-Amzn-Trace-Id"]


def word(most, of=TEXT):
    return "".join(rnd.choice(of) for _ in range(rnd.randrange(most)))


def escape(s, slash=""):
    return urllib.parse.quote(s, safe="-_.~" + slash)


def request(service):
    segments = [escape(word(8).replace("/", "%2F")) for _ in range(rnd.randrange(4))]
    if service != "s3":
        segments += rnd.choice([[], ["."], ["..", "x"], ["", "y"], [""]])
    path = "/" + "/".join(segments)
    pairs = [(escape(word(6)), escape(word(6))) for _ in range(rnd.randrange(5))]
    pairs += pairs[:1] * rnd.randrange(3)
    fields = [(n, word(20, "abc =,;/0  \t").strip()) for n in rnd.sample(NAMES, rnd.randrange(len(NAMES)))]
    fields += [(n, word(10, "xyz0")) for n in rnd.sample(OTHERS, rnd.randrange(4))]
    if fields and rnd.random() < .3:
        fields.append((fields[0][0], "again"))
    query = "&".join(a + "=" + b if b or rnd.random() < .5 else a for a, b in pairs if a)
    payload = rnd.choice(["UNSIGNED-PAYLOAD", hashlib.sha256(word(50).encode()).hexdigest()])
    fields.append(("X-Amz-Content-Sha256", payload))
    rnd.shuffle(fields)
    return {"method": rnd.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]), "target": path + ("?" + query if query else ""),
            "host": rnd.choice(["example.amazonaws.com", "b.s3.eu-west-1.amazonaws.com", "localhost:9000"]), "fields": fields,
            "payload": payload, "id": "AKIDEXAMPLE", "secret": rnd.choice(["wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "k" * 200]),
            "region": rnd.choice(["us-east-1", "eu-west-1"]), "service": service, "time": rnd.randrange(1, 4102444800)}


def theirs(q):
    date = datetime.datetime.fromtimestamp(q["time"], datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    r = AWSRequest(q["method"], "https://" + q["host"] + q["target"])
    r.headers["Host"] = q["host"]
    for n, v in q["fields"]:
        if n.lower().startswith("x-amz-") or n.lower() in ("content-type", "content-md5"):
            r.headers.add_header(n, v)
    r.context.update(timestamp=date, payload_signing_enabled=True)
    s = (S3SigV4Auth if q["service"] == "s3" else SigV4Auth)(Credentials(q["id"], q["secret"]), q["service"], q["region"])
    s.headers_to_sign = lowered  # of botocore's own choice more are signed
    return "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (
        s.scope(r), s.signed_headers(s.headers_to_sign(r)), s.signature(s.string_to_sign(r, s.canonical_request(r)), r))


def lowered(request):
    m = HTTPMessage()
    for n, v in request.headers.items():
        m[n.lower()] = v
    return m


asked = [request("s3" if i % 2 else rnd.choice(["rds", "lambda", "iam"])) for i in range(int(os.environ.get("CASES", "2000")))]
r = run([BUILD + "/tool_sigv4"], stdin=None, input="".join(json.dumps(q) + "\n" for q in asked))
got = r.stdout.splitlines()
tap.eq((r.returncode, len(got)), (0, len(asked)), "every request is signed")
wrong = [(q, g, theirs(q)) for q, g in zip(asked, got) if g != theirs(q)]
tap.ok(not wrong, "and as botocore does it: %d requests of S3 and of others, seed %d" % (len(asked), SEED), "%d differ; %s" % (len(wrong), wrong[:2]))

# What clients may write in two ways, botocore takes as it stands; a service sees what it means.
one = {"method": "GET", "host": "s3.eu-west-1.amazonaws.com", "fields": [["X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"]],
       "payload": "UNSIGNED-PAYLOAD", "id": "A", "secret": "s" * 40, "region": "eu-west-1", "service": "s3", "time": 1440938160}
ways = [("/b/a%20b%2Bc/%252F/%C3%BC?x=&list-type=2&x=1&acl", "/b/a%20b+c/%252F/%c3%bc?acl&list-type=2&x=1&x=", "the same in another spelling"),
        ("/b/day%3D1/k?prefix=a%2Fb", "/b/day=1/k?prefix=a/b", "characters that need not be escaped"),
        ("/b/%7Ek", "/b/~k", "an escape of what is never escaped")]
for a, b, name in ways:
    r = run([BUILD + "/tool_sigv4"], stdin=None, input="".join(json.dumps(dict(one, target=t)) + "\n" for t in (a, b, a + "z")))
    x, y, z = r.stdout.splitlines()
    tap.ok(x == y and x != z, "one signature: " + name, r.stdout)
tap.done()
