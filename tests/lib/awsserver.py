"""A server of AWS for tests: it verifies every signature by botocore's own signer, as the services do, and knows
a little of S3, of the query protocol and of the JSON protocol.

What a service makes canonical it does from what it understood, not from the bytes that came: path and query are
undone and escaped again here, and given to botocore so.
"""
import hashlib
import hmac
import re
import threading
import time
import urllib.parse

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

AUTH = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, "
                  r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})\Z")
EMPTY = hashlib.sha256(b"").hexdigest()
SIGNED_CHUNKS, UNSIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


class Wrong(Exception):
    """Code and words of the error that a client gets."""


def again(s, slash=False):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(s), safe="-_.~" + ("/" if slash else ""))


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Account:
    """Its keys: id -> (secret, token or None). `skew`: seconds that its clock differs from ours."""

    def __init__(self):
        self.keys, self.skew = {}, 0

    def add(self, name, secret, token=None):
        self.keys[name] = (secret, token)
        return "%s %s%s" % (name, secret, " " + token if token else "")


class Service:
    """Serves `origin` as `service` in `region`. verified: what each request that was good was signed with."""

    def __init__(self, origin, account, service, region, answer):
        self.origin, self.account, self.service, self.region, self.answer = origin, account, service, region, answer
        self.verified, self.refused, self.lock = [], [], threading.Lock()
        origin.routes.clear()  # its own answers are for other tests
        origin.on("*", self.one)

    def one(self, req, c):
        try:
            req.content = self.verify(req)
        except Wrong as e:
            self.refused.append(e.args)
            text = "<Error><Code>%s</Code><Message>%s</Message><AWSAccessKeyId>%s</AWSAccessKeyId></Error>" % (
                e.args[0], e.args[1], (AUTH.match(req.get("Authorization") or "") or [None, "?"])[1])
            c.reply(403, text if self.service == "s3" else "<ErrorResponse>%s</ErrorResponse>" % text,
                    [("Content-Type", "text/xml")], to_head=req.method == "HEAD")
            return
        self.answer(req, c)

    def credentials(self, m):
        if m[1] not in self.account.keys:
            raise Wrong("InvalidAccessKeyId", "no such access key")
        return self.account.keys[m[1]]

    def verify(self, req):
        """The content of the body, once all signatures are right."""
        m = AUTH.match(req.get("Authorization") or "")
        if m is None:
            raise Wrong("MissingAuthenticationToken", "no signature of version 4")
        secret, token = self.credentials(m)
        if (m[3], m[4]) != (self.region, self.service):
            raise Wrong("AuthorizationHeaderMalformed", "signed for %s/%s, this is %s/%s" % (m[3], m[4], self.region, self.service))
        date = req.get("X-Amz-Date") or ""
        if not re.fullmatch(r"\d{8}T\d{6}Z", date) or date[:8] != m[2] or len(req.all("X-Amz-Date")) != 1:
            raise Wrong("AccessDenied", "no date")
        at = time.mktime(time.strptime(date, "%Y%m%dT%H%M%SZ")) - time.timezone
        if abs(at - time.time() - self.account.skew) > 300:
            raise Wrong("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
        if (req.get("X-Amz-Security-Token") or None) != token:
            raise Wrong("InvalidToken", "The provided token is malformed or otherwise invalid.")
        self.fields(req, m[5].split(";"))
        if self.signature(req, m, secret, token, date) != m[6]:
            raise Wrong("SignatureDoesNotMatch", "The request signature we calculated does not match.")
        content = self.body(req, m, secret, date)
        with self.lock:
            self.verified.append((m[1], req.method, req.target))
        return content

    @staticmethod
    def fields(req, signed):
        """What must be signed is, what belongs to one connection is not, and nothing is that is not there."""
        if signed != sorted(signed) or "host" not in signed:
            raise Wrong("SignatureDoesNotMatch", "SignedHeaders")
        for n, _ in req.headers:
            if n.lower().startswith("x-amz-") and n.lower() not in signed:
                raise Wrong("AccessDenied", "There were headers present in the request which were not signed: " + n)
        for n in signed:
            if n in ("connection", "expect", "transfer-encoding", "te", "keep-alive", "upgrade") or not req.all(n):
                raise Wrong("SignatureDoesNotMatch", "signed: " + n)

    def signature(self, req, m, secret, token, date):
        pairs = [p.partition("=") for p in req.query.split("&") if p]
        query = "&".join("%s=%s" % (again(a), again(b)) for a, _, b in pairs)
        path = again(req.path, True) if self.service == "s3" else req.path
        r = AWSRequest(req.method, "%s://%s%s" % ("https", req.get("Host"), path + ("?" + query if query else "")))
        for n in m[5].split(";"):
            for v in req.all(n):
                r.headers.add_header(n, v)
        r.context.update(timestamp=date, payload_signing_enabled=True)
        signer = (S3SigV4Auth if self.service == "s3" else SigV4Auth)(Credentials(m[1], secret, token), self.service, self.region)
        if "x-amz-content-sha256" not in m[5].split(";"):
            r.data = req.body
        signer.headers_to_sign = lambda request: request.headers
        return signer.signature(signer.string_to_sign(r, signer.canonical_request(r)), r)

    def body(self, req, m, secret, date):
        said = req.get("X-Amz-Content-Sha256")
        if said is None and self.service == "s3":
            raise Wrong("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        if said == SIGNED_CHUNKS:
            return self.chunks(req, m, secret, date)
        if said == UNSIGNED_TRAILER:
            return self.trailer(req)
        if said not in (None, "UNSIGNED-PAYLOAD") and said != hashlib.sha256(req.body).hexdigest():
            raise Wrong("XAmzContentSHA256Mismatch", "The provided x-amz-content-sha256 header does not match what was computed.")
        return req.body

    @staticmethod
    def line(b):
        line, _, rest = b.partition(b"\r\n")
        return line.decode(), rest

    def announced(self, req, content):
        if req.get("X-Amz-Decoded-Content-Length") != str(len(content)) or "aws-chunked" not in (req.get("Content-Encoding") or ""):
            raise Wrong("IncompleteBody", "decoded length")
        return content

    def chunks(self, req, m, secret, date):
        key = ("AWS4" + secret).encode()
        for part in (m[2], m[3], m[4], "aws4_request"):
            key = mac(key, part)
        scope, last, rest, content = "/".join([m[2], m[3], m[4], "aws4_request"]), m[6], req.body, b""
        while True:
            line, rest = self.line(rest)
            size, _, sig = line.partition(";chunk-signature=")
            data, rest = rest[:int(size, 16)], rest[int(size, 16):]
            last = mac(key, "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", date, scope, last, EMPTY, hashlib.sha256(data).hexdigest()])).hex()
            if last != sig or rest[:2] != b"\r\n":
                raise Wrong("SignatureDoesNotMatch", "a chunk's signature")
            content, rest = content + data, rest[2:]
            if not data:
                break
            if 0 < len(data) < 8192 and not rest.startswith(b"0;"):
                raise Wrong("InvalidChunkSizeError", "Only the last chunk is allowed to have a size less than 8192 bytes")
        if rest:
            raise Wrong("IncompleteBody", "bytes behind the last chunk")
        return self.announced(req, content)

    def trailer(self, req):
        rest, content = req.body, b""
        while True:
            line, rest = self.line(rest)
            n = int(line, 16)
            if n == 0:
                break
            content, rest = content + rest[:n], rest[n + 2:]
        name, _, _ = self.line(rest)[0].partition(":")
        if name != req.get("X-Amz-Trailer"):
            raise Wrong("MalformedTrailerError", "the trailer that was announced is not there")
        return self.announced(req, content)


def s3(store, host_bucket=None):
    """Put, get, list, delete and multipart of one dict: (bucket, key) -> bytes. host_bucket: its name is in the host's."""
    def answer(req, c):
        path = ("/" + host_bucket if host_bucket else "") + urllib.parse.unquote(req.path)
        bucket, _, key = path[1:].partition("/")
        args, xml = req.args, [("Content-Type", "application/xml")]
        etag = [("ETag", '"%s"' % hashlib.md5(req.content).hexdigest())]
        if not key and req.method == "GET":
            keys = sorted(k for b, k in store if b == bucket and k.startswith(args.get("prefix", "")))
            body = "".join("<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                           % (k.replace("&", "&amp;"), len(store[bucket, k])) for k in keys)
            c.reply(200, "<ListBucketResult><Name>%s</Name><KeyCount>%d</KeyCount>%s</ListBucketResult>" % (bucket, len(keys), body), xml)
        elif req.method == "POST" and "uploads" in args:
            c.reply(200, "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>", xml)
        elif req.method == "PUT" and "uploadId" in args:
            store[bucket, key, int(args["partNumber"])] = req.content
            c.reply(200, b"", etag)
        elif req.method == "POST" and "uploadId" in args:
            parts = sorted(k for k in store if len(k) == 3 and k[:2] == (bucket, key))
            store[bucket, key] = b"".join(store.pop(p) for p in parts)
            c.reply(200, "<CompleteMultipartUploadResult><Key>k</Key><ETag>\"e\"</ETag></CompleteMultipartUploadResult>", xml)
        elif req.method == "PUT":
            store[bucket, key] = req.content
            c.reply(200, b"", etag)
        elif req.method in ("GET", "HEAD") and (bucket, key) in store:
            data, more, status = store[bucket, key], [("ETag", '"e"'), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")], 200
            if req.get("Range"):
                a, b = req.get("Range").removeprefix("bytes=").split("-")
                total, data, status = len(data), data[int(a):int(b or len(data)) + 1], 206
                more.append(("Content-Range", "bytes %s-%d/%d" % (a, int(a) + len(data) - 1, total)))
            c.reply(status, data, more, to_head=req.method == "HEAD")
        elif req.method == "DELETE":
            store.pop((bucket, key), None)
            c.reply(204, framing="none")
        else:
            c.reply(404, "<Error><Code>NoSuchKey</Code><Message>no</Message></Error>", xml, to_head=req.method == "HEAD")
    return answer
