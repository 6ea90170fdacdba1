"""An HTTP/1.1 origin on raw sockets, as the tests and the demo need one: it writes down the exact bytes
of each request that arrived, and answers by script, also wrongly, slowly, by halves and never.

Threads, loopback, TLS from a throwaway CA (openssl). As a program it is the small infrastructure
service of the demo: origin.py --help.
"""
import argparse
import base64
import gzip
import hashlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

HEAD_MAX = 1 << 20


class Ca:
    """A throwaway certificate authority below `directory`; issue() makes a server certificate."""

    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        self.pem = directory + "/ca.pem"
        if not os.path.exists(self.pem):
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                         "-subj", "/CN=throwaway CA of an origin", "-addext", "basicConstraints=critical,CA:TRUE",
                         "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", directory + "/ca.key",
                         "-out", self.pem)

    @staticmethod
    def openssl(*argv):
        subprocess.run(["openssl", *argv], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=60)

    def issue(self, *names):
        """Certificate and key for these names and addresses: two file names."""
        base = self.dir + "/" + names[0].replace(":", "_").replace("*", "any")
        alt = ",".join(("IP:" if n.replace(".", "").isdigit() or ":" in n else "DNS:") + n for n in names)
        with open(base + ".ext", "w", encoding="ascii") as f:
            f.write("subjectAltName=%s\nextendedKeyUsage=serverAuth\n" % alt)
        return self.pair(base, "origin", "-extfile", base + ".ext")

    def client(self, name):
        """The same for a client that is called so."""
        return self.pair(self.dir + "/" + name, name)

    def pair(self, base, subject, *more):
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + subject,
                     "-keyout", base + ".key", "-out", base + ".csr")
        self.openssl("x509", "-req", "-in", base + ".csr", "-CA", self.pem, "-CAkey", self.dir + "/ca.key",
                     "-CAcreateserial", "-days", "2", *more, "-out", base + ".pem")
        return base + ".pem", base + ".key"


class Request:
    """One request as it arrived: `head` and `raw_body` are its very bytes, `body` is without framing."""

    def __init__(self, head, conn):
        self.head, self.conn, self.at = head, conn, time.monotonic()
        line, *fields = head[:-4].split(b"\r\n")
        self.method, self.target, self.version = (line.decode("latin-1").split(" ", 2) + ["", ""])[:3]
        self.path, _, self.query = self.target.partition("?")
        self.headers = [tuple(x.strip() for x in f.decode("latin-1").split(":", 1)) for f in fields if b":" in f]
        self.raw_body = self.body = b""
        self.whole = False

    def get(self, name):
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def args(self):
        return dict(urllib.parse.parse_qsl(self.query, keep_blank_values=True))


class Gone(Exception):
    """The other side is gone."""


class Conn:
    """One connection, on the server's side."""

    def __init__(self, sock, number):
        self.s, self.number, self.buf = sock, number, b""
        self.closed = False
        self.received = 0
        self.thread = threading.get_ident()

    def more(self):
        try:
            b = self.s.recv(65536)
        except (OSError, ValueError) as e:
            raise Gone(str(e)) from e
        if not b:
            raise Gone("end of input")
        self.received += len(b)
        self.buf += b

    def send(self, data):
        try:
            self.s.sendall(data)
        except (OSError, ValueError) as e:
            raise Gone(str(e)) from e

    def line(self):
        while b"\r\n" not in self.buf:
            self.more()
        out, self.buf = self.buf.split(b"\r\n", 1)
        return out

    def take(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def head(self):
        while b"\r\n\r\n" not in self.buf:
            if len(self.buf) > HEAD_MAX:
                raise Gone("a head that does not end")
            self.more()
        out, self.buf = self.buf.split(b"\r\n\r\n", 1)
        return out + b"\r\n\r\n"

    def read_body(self, req, keep=True):
        """Reads the request's body; with keep=False only its length and digest stay."""
        sha, n, kept = hashlib.sha256(), 0, []

        def got(b):
            nonlocal n
            sha.update(b)
            n += len(b)
            if keep:
                kept.append(b)

        if (req.get("Transfer-Encoding") or "").lower() == "chunked":
            raw = []
            while True:
                line = self.line()
                size = int(line.split(b";")[0], 16)
                data = self.take(size)
                got(data)
                raw.append(line + b"\r\n" + data + (self.take(2) if size else b""))
                if size == 0:
                    while True:
                        t = self.line()
                        raw.append(t + b"\r\n")
                        if not t:
                            break
                    break
            req.raw_body = b"".join(raw) if keep else b""
        else:
            left = int(req.get("Content-Length") or 0)
            while left:
                b = self.take(min(left, max(1, len(self.buf)))) if self.buf else None
                if b is None:
                    self.more()
                    continue
                left -= len(b)
                got(b)
            req.raw_body = b"".join(kept)
        req.body, req.body_bytes, req.body_sha256, req.whole = b"".join(kept), n, sha.hexdigest(), True

    def reply(self, status, body=b"", headers=(), chunks=None, framing="length", to_head=False):
        """framing: length, chunked (chunks: a list), close, none (no field about length at all)."""
        if isinstance(body, str):
            body = body.encode()
        out = [b"HTTP/1.1 %d %s\r\n" % (status, b"Scripted")]
        fields = list(headers)
        if framing == "length":
            fields.append(("Content-Length", str(len(body))))
        elif framing == "chunked":
            fields.append(("Transfer-Encoding", "chunked"))
        elif framing == "close":
            fields.append(("Connection", "close"))
        out += [("%s: %s\r\n" % f).encode("latin-1") for f in fields]
        out.append(b"\r\n")
        if not to_head:
            if framing == "chunked":
                out += [chunk(c) for c in (chunks if chunks is not None else [body])] + [b"0\r\n\r\n"]
            else:
                out.append(body)
        self.send(b"".join(out))
        if framing == "close":
            self.close()

    def close(self):
        self.closed = True
        try:
            if isinstance(self.s, ssl.SSLSocket):
                self.s.settimeout(1)
                self.s = self.s.unwrap()
        except (OSError, ValueError):
            pass
        try:
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.s.close()

    def cut(self):
        """Ends without any good-bye: no close_notify, a reset."""
        self.closed = True
        try:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if self.thread == threading.get_ident():
                os.close(self.s.detach())
            else:  # another thread reads it: were it closed here, that one would read whoever gets the number next
                socket.socket.shutdown(self.s, socket.SHUT_RDWR)
        except OSError:
            pass


def chunk(b):
    return b"%x\r\n" % len(b) + b + b"\r\n" if b else b""


class Origin:
    """A server of one name. `arrivals`: each Request; on(path, function(request, conn)): scripted answers."""

    def __init__(self, directory, host, tls=True, names=(), port=0, address="127.0.0.1", alpn=("http/1.1",), ca=None):
        self.host, self.tls = host, tls
        self.arrivals, self.hellos, self.failed, self.bytes_in, self.connections = [], [], [], 0, 0
        self.routes, self.conns, self.lock, self.threads = {}, set(), threading.Lock(), []
        self.after = lambda req: None
        self.open = True
        if tls:
            self.ca = ca or Ca(directory)
            self.cert, key = self.ca.issue(host, *names)
            self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.ctx.load_cert_chain(self.cert, key)
            self.ctx.set_alpn_protocols(list(alpn))
            self.ctx.sni_callback = lambda s, name, ctx: self.hellos.append(name)
        self.l = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.l.bind((address, port))
        self.l.listen(256)
        self.address, self.port = address, self.l.getsockname()[1]
        standard(self)
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    @property
    def origin(self):
        return "%s://%s:%d" % ("https" if self.tls else "http", self.host, self.port)

    @property
    def authority(self):
        return "%s:%d" % (self.host, self.port)

    def on(self, path, answer, early=False):
        """early: called with the head alone; it reads the body itself, if it wants to."""
        self.routes[path] = (answer, early)

    def accept(self):
        while self.open:
            try:
                s, _ = self.l.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(s, self.connections), daemon=True).start()

    def serve(self, s, number):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            try:
                s.settimeout(20)
                s = self.ctx.wrap_socket(s, server_side=True)
                s.settimeout(None)
            except (OSError, ValueError) as e:
                self.failed.append(str(e))
                s.close()
                return
        c = Conn(s, number)
        self.conns.add(c)
        try:
            while not c.closed and self.open:
                self.one(c)
        except Gone:
            pass
        finally:
            self.bytes_in += c.received
            self.conns.discard(c)
            if not c.closed:
                c.close()
            socket.socket.close(c.s)

    def one(self, c):
        req = Request(c.head(), c.number)
        with self.lock:
            self.arrivals.append(req)
        answer, early = self.routes.get(req.path) or self.routes.get("*")
        try:
            if not early:
                if (req.get("Expect") or "").lower() == "100-continue":
                    c.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                c.read_body(req)
            answer(req, c)
        finally:
            self.after(req)
        if (req.get("Connection") or "").lower() == "close" and not c.closed:
            c.close()

    def seen(self, what):
        """Arrivals whose head or body holds these bytes."""
        b = what.encode() if isinstance(what, str) else what
        return [r for r in self.arrivals if b in r.head or b in r.body]

    def paths(self, prefix=""):
        return [r.path for r in self.arrivals if r.path.startswith(prefix)]

    def forget(self):
        with self.lock:
            self.arrivals.clear()
        self.connections = 0
        self.hellos.clear()

    def stop(self):
        self.open = False
        try:
            self.l.shutdown(socket.SHUT_RDWR)  # wakes it; a descriptor closed under it could be another server's next
        except OSError:
            pass
        self.acceptor.join(5)
        self.l.close()
        for c in list(self.conns):
            c.cut()


# --- the answers that every origin knows ------------------------------------------------

def echo(req, c):
    """What arrived, as JSON, without what it was authorised by."""
    safe = [(n, v) for n, v in req.headers if n.lower() not in ("authorization", "x-api-key", "cookie")]
    args = urllib.parse.urlencode([(n, v) for n, v in urllib.parse.parse_qsl(req.query, True) if n != "api_key"])
    c.reply(200, json.dumps({"method": req.method, "path": req.path, "query": args, "headers": safe,
                             "bytes": len(req.body), "sha256": hashlib.sha256(req.body).hexdigest()}) + "\n",
            [("Content-Type", "application/json")], to_head=req.method == "HEAD")


def credential_of(req):
    """The secret that came with the request, wherever it stands: (secret, the field's whole value)."""
    a = req.get("Authorization") or ""
    if a.startswith("Bearer "):
        return a[7:], a
    if a.startswith("Basic "):
        return base64.b64decode(a[6:]).decode().split(":", 1)[1], a
    if req.get("X-Api-Key"):
        return req.get("X-Api-Key"), req.get("X-Api-Key")
    return req.args.get("api_key", "none"), req.args.get("api_key", "none")


def json_escaped(s):
    return "".join("\\u%04x" % ord(ch) for ch in s)


def reflect(req, c):
    """Gives back the credential, in the form that ?form= asks for."""
    secret, field = credential_of(req)
    form = req.args.get("form", "raw")
    text = {
        "raw": secret, "field": field, "base64": base64.b64encode(secret.encode()).decode(),
        "base64-1": base64.b64encode(b"x" + secret.encode()).decode(),
        "base64-2": base64.b64encode(b"xx" + secret.encode()).decode(),
        "base64url": base64.urlsafe_b64encode(secret.encode()).decode(),
        "basic": "Basic " + base64.b64encode(b"agent:" + secret.encode()).decode(),
        "percent": "".join("%%%02x" % b for b in secret.encode()), "quoted": urllib.parse.quote(secret, safe=""),
        "json": json.dumps(secret), "escaped": json_escaped(secret), "hex": secret.encode().hex(),
        "HEX": secret.encode().hex().upper()}.get(form, secret)
    body = ("before " + text + " after\n").encode()
    if form == "header":
        c.reply(200, b"see the field\n", [("X-Echo", field), ("X-Other", "fine")])
    elif form == "split":
        half = len(b"before ") + len(secret) // 2
        c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body[:half]))
        time.sleep(0.2)
        c.send(chunk(body[half:]) + b"0\r\n\r\n")
    elif form == "bytes":
        c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(len(body)):
            c.send(chunk(body[i:i + 1]))
        c.send(b"0\r\n\r\n")
    elif form == "gzip":
        c.reply(200, gzip.compress(body), [("Content-Encoding", "gzip")])
    elif form == "reason":
        c.send(b"HTTP/1.1 200 " + secret.encode() + b"\r\nContent-Length: 0\r\n\r\n")
    elif form == "trailer":
        c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"ok\n") + b"0\r\nX-Echo: " +
               secret.encode() + b"\r\n\r\n")
    elif form == "location":
        c.reply(302, b"", [("Location", "https://elsewhere.test/?t=" + urllib.parse.quote(secret, safe=""))])
    else:
        c.reply(200, body, framing="close" if form == "close" else "length")


def sse(req, c):
    """?n= events, ?gap= seconds apart, ?close=1 delimited by the end; data: the server's clock."""
    close = req.args.get("close") == "1"
    c.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" +
           (b"Connection: close\r\n\r\n" if close else b"Transfer-Encoding: chunked\r\n\r\n"))
    for i in range(int(req.args.get("n", "3"))):
        if i:
            time.sleep(float(req.args.get("gap", "1")))
        e = b"data: %d %.6f\n\n" % (i + 1, time.monotonic())
        c.send(e if close else chunk(e))
    if close:
        c.close()
    else:
        c.send(b"0\r\n\r\n")


def big(req, c):
    """?n= bytes, chunked when ?chunked=1; written as fast as they are read; `sent` of the request counts them."""
    n, sent = int(req.args.get("n", "1000000")), 0
    piece = bytes(range(256)) * 256
    chunked = req.args.get("chunked") == "1"
    c.send(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % n))
    while sent < n:
        b = piece[:n - sent]
        c.send(chunk(b) if chunked else b)
        sent += len(b)
        req.sent = sent
    if chunked:
        c.send(b"0\r\n\r\n")


def broken(req, c):
    """Breaks off: ?how=length (less than promised), chunk (no last chunk), head, hang, nothing."""
    how = req.args.get("how", "length")
    if how == "length":
        c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
    elif how == "chunk":
        c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"only this"))
    elif how == "head":
        c.send(b"HTTP/1.1 200 OK\r\nContent-Len")
    elif how == "both":
        c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        return
    elif how == "two":
        c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")
        return
    elif how == "hang":
        time.sleep(float(req.args.get("s", "600")))
    time.sleep(0.1)
    c.cut()


def hints(req, c):
    """A 103 before the answer."""
    c.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
    c.reply(200, b"after hints\n")


def count_body(req, c):
    """Takes a large body without keeping it; slowly with ?rate= bytes a second."""
    if (req.get("Expect") or "").lower() == "100-continue" and req.args.get("no100") != "1":
        c.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    c.read_body(req, keep=False)
    c.reply(200, json.dumps({"bytes": req.body_bytes, "sha256": req.body_sha256}) + "\n")


def standard(o):
    text = lambda b: lambda req, c: c.reply(200, b, [("Content-Type", "text/plain")], to_head=req.method == "HEAD")
    o.on("*", echo)
    o.on("/ok", text(b"ok"))
    o.on("/chunked", lambda req, c: c.reply(200, framing="chunked", chunks=[b"one\n", b"two\n", b"three\n"],
                                            to_head=req.method == "HEAD"))
    o.on("/one-byte-chunks", lambda req, c: c.reply(200, framing="chunked", chunks=[b"%c" % (97 + i % 26) for i in range(500)]))
    o.on("/close", lambda req, c: c.reply(200, b"until the end\n", framing="close"))
    o.on("/204", lambda req, c: c.reply(204, framing="none"))
    o.on("/304", lambda req, c: c.reply(304, headers=[("Content-Length", "99"), ("ETag", '"e"')], framing="none"))
    o.on("/417", lambda req, c: (c.reply(417, b"no\n", [("Connection", "close")]), c.close()), early=True)
    o.on("/count", count_body, early=True)
    o.on("/reflect", reflect)
    o.on("/sse", sse)
    o.on("/big", big)
    o.on("/broken", broken)
    o.on("/hints", hints)
    o.on("/gzip", lambda req, c: c.reply(200, gzip.compress(b"zipped\n"), [("Content-Encoding", "gzip")]))
    o.on("/500", lambda req, c: c.reply(500, b"it broke\n"))
    o.on("/binary", lambda req, c: c.reply(200, bytes(range(256)) * 40, [("Content-Type", "application/octet-stream")]))
    o.on("/redirect", lambda req, c: c.reply(int(req.args.get("code", "302")), b"", [("Location", req.args.get("to", "/"))]))


# --- GraphQL ------------------------------------------------------------------------------

class GraphQlError(Exception):
    pass


class Document:
    """A GraphQL document, read far enough to be executed: operations, fragments, selections, arguments."""

    def __init__(self, text):
        self.t, self.i = self.tokens(text), 0
        self.operations, self.fragments = [], {}
        while self.i < len(self.t):
            self.definition()

    @staticmethod
    def tokens(s):
        out, i = [], 0
        while i < len(s):
            ch = s[i]
            if ch in " \t\r\n,\ufeff":
                i += 1
            elif ch == "#":
                while i < len(s) and s[i] not in "\r\n":
                    i += 1
            elif s.startswith("...", i):
                out.append(("p", "..."))
                i += 3
            elif ch in "!$&()=:@[]{|}":
                out.append(("p", ch))
                i += 1
            elif s.startswith('"""', i):
                j = s.index('"""', i + 3)
                out.append(("s", s[i + 3:j]))
                i = j + 3
            elif ch == '"':
                j = i + 1
                while s[j] != '"':
                    j += 2 if s[j] == "\\" else 1
                out.append(("s", json.loads(s[i:j + 1])))
                i = j + 1
            elif ch.isalpha() or ch == "_":
                j = i
                while j < len(s) and (s[j].isalnum() or s[j] == "_"):
                    j += 1
                out.append(("n", s[i:j]))
                i = j
            elif ch.isdigit() or ch == "-":
                j = i + 1
                while j < len(s) and s[j] in "0123456789.eE+-":
                    j += 1
                out.append(("d", json.loads(s[i:j])))
                i = j
            else:
                raise GraphQlError("unexpected %r" % ch)
        return out

    def peek(self, v=None):
        t = self.t[self.i] if self.i < len(self.t) else ("e", "end")
        return t if v is None else t == ("p", v)

    def next(self, v=None):
        t = self.peek()
        if v is not None and t != ("p", v):
            raise GraphQlError("expected %s, got %s" % (v, t[1]))
        self.i += 1
        return t[1]

    def definition(self):
        if self.peek("{"):
            self.operations.append(("query", "", self.selections()))
            return
        word = self.next()
        if word == "fragment":
            name = self.next()
            self.next()  # on
            self.next()
            self.fragments[name] = self.selections()
            return
        if word not in ("query", "mutation", "subscription"):
            raise GraphQlError("unexpected %s" % word)
        name = "" if self.peek("{") or self.peek("(") or self.peek("@") else self.next()
        if self.peek("("):
            depth = 0
            while True:
                v = self.next()
                depth += (v == "(") - (v == ")")
                if depth == 0:
                    break
        self.directives()
        self.operations.append((word, name, self.selections()))

    def directives(self):
        while self.peek("@"):
            self.next()
            self.next()
            if self.peek("("):
                self.arguments()

    def selections(self):
        out = []
        self.next("{")
        while not self.peek("}"):
            if self.peek("..."):
                self.next()
                if self.peek("{") or self.peek() == ("n", "on") or self.peek("@"):
                    if self.peek() == ("n", "on"):
                        self.next()
                        self.next()
                    self.directives()
                    out.append(("inline", self.selections()))
                else:
                    out.append(("spread", self.next()))
                    self.directives()
                continue
            alias = name = self.next()
            if self.peek(":"):
                self.next()
                name = self.next()
            args = self.arguments() if self.peek("(") else {}
            self.directives()
            out.append(("field", alias, name, args, self.selections() if self.peek("{") else []))
        self.next("}")
        return out

    def arguments(self):
        out = {}
        self.next("(")
        while not self.peek(")"):
            name = self.next()
            self.next(":")
            out[name] = self.value()
        self.next(")")
        return out

    def value(self):
        if self.peek("$"):
            self.next()
            return ("$", self.next())
        if self.peek("["):
            self.next()
            out = []
            while not self.peek("]"):
                out.append(self.value())
            self.next()
            return out
        if self.peek("{"):
            self.next()
            out = {}
            while not self.peek("}"):
                k = self.next()
                self.next(":")
                out[k] = self.value()
            self.next()
            return out
        kind, v = self.peek()
        self.next()
        return {"true": True, "false": False, "null": None}.get(v, v) if kind == "n" else v

    def fields(self, selections, seen=()):
        for s in selections:
            if s[0] == "field":
                yield s
            elif s[0] == "inline":
                yield from self.fields(s[1], seen)
            elif s[1] not in seen:
                yield from self.fields(self.fragments[s[1]], (*seen, s[1]))


class GraphQl:
    """viewer, volumes, volume, x; volumeDelete, volumeCreate, mergePullRequest. Counts what was executed."""

    def __init__(self, origin, tokens, path="/graphql", volumes=("vol-prod", "vol-backup", "vol-test-1", "vol-test-2")):
        self.tokens, self.volumes, self.executed = set(tokens), list(volumes), []
        self.persisted, self.lock = {}, threading.Lock()
        origin.on(path, self.answer)

    def answer(self, req, c):
        who = req.get("Authorization") or ""
        if who.removeprefix("Bearer ") not in self.tokens:
            c.reply(401, json.dumps({"errors": [{"message": "no such token"}]}), [("Content-Type", "application/json")])
            return
        try:
            out = self.request(req)
            status = 200
        except (GraphQlError, KeyError, ValueError, IndexError, TypeError) as e:
            status, out = 400, {"errors": [{"message": str(e)}]}
        c.reply(status, json.dumps(out) + "\n", [("Content-Type", "application/json")])

    def request(self, req):
        media = (req.get("Content-Type") or "").split(";")[0].strip().lower()
        if req.method == "GET":
            a = req.args
            return self.one(a.get("query"), a.get("operationName"), json.loads(a.get("variables", "{}")), a.get("extensions"))
        if media == "application/graphql":
            return self.one(req.body.decode(), None, {})
        if media == "application/x-www-form-urlencoded":
            f = dict(urllib.parse.parse_qsl(req.body.decode(), keep_blank_values=True))
            return self.one(f.get("query"), f.get("operationName"), json.loads(f.get("variables", "{}")))
        body = json.loads(req.body)
        if isinstance(body, list):
            return [self.of(b) for b in body]
        return self.of(body)

    def of(self, b):
        return self.one(b.get("query"), b.get("operationName"), b.get("variables") or {}, b.get("extensions"))

    def one(self, text, name, variables, extensions=None):
        if text is None and extensions:
            text = self.persisted[extensions["persistedQuery"]["sha256Hash"]]
        d = Document(text)
        ops = [o for o in d.operations if not name or o[1] == name]
        if len(ops) != 1:
            raise GraphQlError("which operation?")
        kind, _, selections = ops[0]
        data = {}
        for _, alias, field, args, inner in d.fields(selections):
            data[alias] = self.field(kind, field, self.fill(args, variables), inner)
        return {"data": data}

    def fill(self, v, variables):
        if isinstance(v, tuple):
            return variables.get(v[1])
        if isinstance(v, dict):
            return {k: self.fill(x, variables) for k, x in v.items()}
        return [self.fill(x, variables) for x in v] if isinstance(v, list) else v

    def field(self, kind, name, args, inner):
        with self.lock:
            self.executed.append((kind, name, args))
            if kind == "query":
                if name == "viewer":
                    return {"login": "agent"}
                if name == "volumes":
                    return [{"id": v} for v in self.volumes]
                if name == "volume":
                    return {"id": args["id"]} if args["id"] in self.volumes else None
                return args.get("s")
            if kind != "mutation":
                raise GraphQlError("no %s here" % kind)
            if name == "volumeDelete":
                v = args.get("volumeId") or args.get("id") or (args.get("input") or {}).get("volumeId")
                if v not in self.volumes:
                    raise GraphQlError("no volume %s" % v)
                self.volumes.remove(v)
                return {"deleted": v} if inner else True
            if name == "volumeCreate":
                self.volumes.append(args["name"])
                return {"id": args["name"]}
            return True


def main():
    p = argparse.ArgumentParser(description="The infrastructure service of the demo: HTTPS with a CA of its own, "
                                "GraphQL at /graphql, volumes at /volumes; tokens, one a line, from standard input.")
    p.add_argument("--dir", required=True, help="where its CA and certificate go")
    p.add_argument("--host", default="infra.test")
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--volumes", default="vol-prod,vol-backup,vol-test-1", help="the volumes that it holds, with commas between")
    p.add_argument("--log", required=True, help="arrival log: one JSON line a request")
    a = p.parse_args()
    tokens = [t for t in sys.stdin.read().split() if t]
    o = Origin(a.dir, a.host, port=a.port)
    g = GraphQl(o, tokens, volumes=a.volumes.split(","))
    log = open(a.log, "a", encoding="utf-8")

    def volumes(req, c):
        """The same volumes by plain HTTP: GET /volumes, DELETE /volumes/ID."""
        if (req.get("Authorization") or "").removeprefix("Bearer ") not in g.tokens:
            c.reply(401, b"no such token\n")
        elif req.method == "DELETE":
            try:
                g.field("mutation", "volumeDelete", {"id": req.path.rsplit("/", 1)[-1]}, [])
                c.reply(204, framing="none")
            except GraphQlError as e:
                c.reply(404, str(e))
        else:
            c.reply(200, json.dumps(g.volumes) + "\n")

    o.on("*", volumes)

    def arrived(r):
        auth = r.get("Authorization") or ""
        who = next((i for i, t in enumerate(tokens) if auth == "Bearer " + t), None)
        with o.lock:
            log.write(json.dumps({"method": r.method, "target": r.target, "body": r.body.decode("utf-8", "replace"),
                                  "token": who, "authorization": bool(auth), "volumes": g.volumes}) + "\n")
            log.flush()

    o.after = arrived
    print("serving %s" % o.origin, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
