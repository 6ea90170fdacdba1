"""An HTTP/1.1 client that writes the bytes it is told and reads answers strictly; TLS as asked.

Standard library only. A test says where to connect, so one name can be reached at any address.
"""
import socket
import ssl
import time


class Closed(Exception):
    pass


class Answer:
    def __init__(self, head, to_head):
        self.head = head
        line, *fields = head[:-4].split(b"\r\n")
        self.version, status, self.reason = (line.decode("latin-1").split(" ", 2) + [""])[:3]
        self.status = int(status)
        self.headers = [tuple(x.strip() for x in f.decode("latin-1").split(":", 1)) for f in fields]
        self.body, self.raw_body, self.to_head = b"", b"", to_head
        self.whole = False

    def get(self, name):
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def closes(self):
        """Does it say that nothing follows on its connection?"""
        return self.version == "HTTP/1.0" or "close" in [
            t.strip().lower() for v in self.all("Connection") for t in v.split(",")]

    def __repr__(self):
        return "<%d %r %r>" % (self.status, self.headers, self.body[:300])


def context(ca, alpn=("http/1.1",), verify=True):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if verify:
        c.load_verify_locations(ca)
    else:
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    if alpn:
        c.set_alpn_protocols(list(alpn))
    return c


class Raw:
    """One connection. tls: the name to verify (and to send as SNI, unless `sni` says otherwise)."""

    def __init__(self, address, port, timeout=20):
        self.s = socket.create_connection((address, port), timeout=timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def tls(self, name, ca, sni=True, alpn=("http/1.1",)):
        """sni: True the name itself, False none, or another name. The certificate is for `name`."""
        c = context(ca, alpn)
        if sni is True:
            self.s = c.wrap_socket(self.s, server_hostname=name)
        else:
            c.check_hostname = False
            self.s = c.wrap_socket(self.s, server_hostname=sni or None)
        return self

    def connect(self, authority, extra=b""):
        """CONNECT to a forward proxy; the answer."""
        self.send(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (b(authority), b(authority), extra))
        return self.answer(to_connect=True)

    def send(self, data):
        self.s.sendall(b(data))

    def more(self, timeout=None):
        if timeout is not None:
            self.s.settimeout(timeout)
        try:
            d = self.s.recv(65536)
        except ssl.SSLEOFError:
            d = b""
        except ConnectionError:
            d = b""
        if not d:
            raise Closed("closed with %r read" % self.buf[:200])
        self.buf += d

    def until(self, mark):
        while mark not in self.buf:
            self.more()
        out, self.buf = self.buf.split(mark, 1)
        return out + mark

    def take(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def head(self, to_head=False):
        return Answer(self.until(b"\r\n\r\n"), to_head)

    def answer(self, to_head=False, to_connect=False, informational=None, on_body=None, keep=True):
        """One whole answer; 1xx before it go to the list `informational`."""
        while True:
            a = self.head(to_head)
            if a.status >= 200:
                break
            if informational is not None:
                informational.append(a)
        self.body(a, to_connect, on_body, keep)
        return a

    def body(self, a, to_connect=False, on_body=None, keep=True):
        parts, raw = [], []
        a.bytes = 0

        def got(d, r=None):
            a.bytes += len(d)
            if keep:
                parts.append(d)
                raw.append(d if r is None else r)
            if on_body:
                on_body(d)

        te, cl = a.all("Transfer-Encoding"), a.all("Content-Length")
        if a.to_head or a.status in (204, 304) or (to_connect and a.status < 300):
            pass
        elif te:
            if cl or te != ["chunked"]:
                raise ValueError("framing %r %r" % (te, cl))
            while True:
                line = self.until(b"\r\n")
                n = int(line[:-2], 16)
                data = self.take(n)
                if n == 0:
                    while True:
                        t = self.until(b"\r\n")
                        line += t
                        if t == b"\r\n":
                            break
                    raw.append(line)
                    break
                got(data, line + data + self.take(2))
        elif cl:
            left = int(cl[0])
            while left:
                if not self.buf:
                    self.more()
                d = self.take(min(left, len(self.buf)))
                left -= len(d)
                got(d)
        else:
            try:
                while True:
                    if not self.buf:
                        self.more()
                    got(self.take(len(self.buf)))
            except Closed:
                pass
        a.body, a.raw_body, a.whole = b"".join(parts), b"".join(raw), True

    def ask(self, method, target, host, fields=(), body=None, **kw):
        """A well-formed request and its answer."""
        self.send(request(method, target, host, fields, body))
        return self.answer(to_head=method == "HEAD", **kw)

    def rest(self, seconds=5):
        """All that comes until the end, or until nothing comes for so long; `over` says which of the two it was."""
        self.s.settimeout(seconds)
        self.over = False
        try:
            while True:
                d = self.s.recv(65536)
                if not d:
                    break
                self.buf += d
            self.over = True
        except (socket.timeout, TimeoutError):
            pass
        except OSError:  # a reset, or TLS without its good-bye
            self.over = True
        return self.buf

    def closed(self, seconds=5):
        """Does the other side close, without another byte?"""
        return not self.rest(seconds) and self.over

    def certificate(self):
        return self.s.getpeercert(binary_form=True)

    def close(self):
        try:
            self.s.close()
        except OSError:
            pass


def b(x):
    return x.encode("latin-1") if isinstance(x, str) else x


def request(method, target, host, fields=(), body=None):
    """With a body, its length, and a type that says nothing, unless `fields` do."""
    names = {n.lower() for n, _ in fields}
    if body is not None and "content-type" not in names:
        fields = [*fields, ("Content-Type", "application/octet-stream")]
    out = b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (b(method), b(target), b(host))
    for n, v in fields:
        out += b(n) + b": " + b(v) + b"\r\n"
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        out += b"Content-Length: %d\r\n" % len(body)
    return out + b"\r\n" + (b(body) if body else b"")


def chunks(parts):
    return b"".join(b"%x\r\n" % len(p) + p + b"\r\n" for p in map(b, parts)) + b"0\r\n\r\n"


def timed(f):
    t = time.monotonic()
    return f(), time.monotonic() - t
