"""PostgreSQL's protocol by hand: a client that can say anything, and a server that lies on demand."""
import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading

SSL, GSS, CANCEL = 80877103, 80877104, 80877102


def msg(typ, body=b""):
    return typ.encode() + struct.pack(">I", len(body) + 4) + body


def startup(version=0x30000, **params):
    body = struct.pack(">I", version)
    for k, v in params.items():
        body += k.encode() + b"\0" + v.encode() + b"\0"
    body += b"\0"
    return struct.pack(">I", len(body) + 4) + body


def request(code):
    return struct.pack(">II", 8, code)


def cancel(key):
    return struct.pack(">II", len(key) + 8, CANCEL) + key


def query(sql):
    return msg("Q", sql.encode() + b"\0")


def parse(sql, name=""):
    return msg("P", name.encode() + b"\0" + sql.encode() + b"\0\0\0")


def bind(portal="", name="", values=()):
    body = portal.encode() + b"\0" + name.encode() + b"\0\0\0" + struct.pack(">H", len(values))
    for v in values:
        body += struct.pack(">I", len(v)) + v
    return msg("B", body + b"\0\0")


def execute(portal="", rows=0):
    return msg("E", portal.encode() + b"\0" + struct.pack(">I", rows))


def pbe(sql):
    return parse(sql) + bind() + execute()


SYNC, FLUSH = msg("S"), msg("H")


def fields(body):
    out = {}
    for f in body.split(b"\0"):
        if f:
            out[chr(f[0])] = f[1:].decode("utf-8", "replace")
    return out


class Raw:
    def __init__(self, port, host="127.0.0.1", timeout=15):
        self.s = socket.create_connection((host, port), timeout=timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def send(self, b):
        self.s.sendall(b)
        return self

    def tls(self, ca=None, host=None):
        ctx = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
        self.s = ctx.wrap_socket(self.s, server_hostname=host or "x")
        return self

    def byte(self):
        return self.s.recv(1)

    def rest(self):
        """All until the other side closes."""
        out = self.buf
        self.buf = b""
        while True:
            try:
                b = self.s.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                b = b""
            if not b:
                return out
            out += b

    def one(self):
        while len(self.buf) < 5 or len(self.buf) < 1 + struct.unpack(">I", self.buf[1:5])[0]:
            b = self.s.recv(65536)
            if not b:
                return None, b""
            self.buf += b
        n = 1 + struct.unpack(">I", self.buf[1:5])[0]
        m, self.buf = self.buf[:n], self.buf[n:]
        return chr(m[0]), m[5:]

    def until(self, stop="Z"):
        """Messages up to one of the types in `stop`: the types as a word; the last error's fields in self.err."""
        out, self.err, self.rows, self.z = "", {}, [], ""
        while True:
            t, b = self.one()
            if t is None:
                return out + "$"
            out += t
            if t == "E":
                self.err = fields(b)
            elif t == "D":
                self.rows.append(b)
            elif t == "Z":
                self.z = b.decode()
            elif t == "C":
                self.tag = b[:-1].decode()
            elif t == "K":
                self.key = b
            if t in stop:
                return out

    def login(self, **kw):
        kw = kw or {"user": "x", "database": "crm"}
        self.send(startup(**kw))
        return self.until("ZE")

    def ask(self, b, stop="Z"):
        self.send(b)
        return self.until(stop)

    def quiet(self, seconds=0.3):
        """True when nothing comes within that time."""
        if self.buf:
            return False
        self.s.settimeout(seconds)
        try:
            self.buf += self.s.recv(65536)
            return False
        except (socket.timeout, TimeoutError):
            return True
        finally:
            self.s.settimeout(15)

    def close(self):
        self.s.close()


def backend_error(sqlstate, message, severity="ERROR"):
    return msg("E", b"S%s\0V%s\0C%s\0M%s\0\0" % tuple(x.encode() for x in (severity, severity, sqlstate, message)))


class Mock:
    """One lying server: script(conn) is run for each client, after TLS when `tls` says so."""

    def __init__(self, script, cert=None, tls="S"):
        self.l = socket.socket()
        self.l.bind(("127.0.0.1", 0))
        self.l.listen(8)
        self.port = self.l.getsockname()[1]
        self.script, self.cert, self.tls = script, cert, tls
        self.seen, self.error = [], None
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.l.accept()
            except OSError:
                return
            threading.Thread(target=self.client, args=(s,), daemon=True).start()

    def client(self, s):
        try:
            s.settimeout(15)
            if self.tls is not None:
                assert s.recv(8) == request(SSL)
                s.sendall(self.tls.encode())
                if self.tls != "S":
                    self.seen.append(s.recv(100))
                    return
                ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                ctx.load_cert_chain(self.cert + ".pem", self.cert + ".key")
                s = ctx.wrap_socket(s, server_side=True)
            n = struct.unpack(">I", self.take(s, 4))[0]
            self.seen.append(self.take(s, n - 4))
            self.script(self, s)
        except (OSError, AssertionError) as e:
            self.error = e
        finally:
            s.close()

    def take(self, s, n):
        out = b""
        while len(out) < n:
            b = s.recv(n - len(out))
            assert b, "client closed"
            out += b
        return out

    def message(self, s):
        h = self.take(s, 5)
        return chr(h[0]), self.take(s, struct.unpack(">I", h[1:])[0] - 4)

    def close(self):
        self.l.close()


def scram_server(mock, s, password, mechanisms=b"SCRAM-SHA-256\0", lie=None):
    """The server's half of SCRAM; `lie` changes one answer."""
    s.sendall(msg("R", struct.pack(">I", 10) + mechanisms + b"\0"))
    t, b = mock.message(s)
    mech, rest = b.split(b"\0", 1)
    mock.mechanism = mech.decode()
    first = rest[4:].decode()
    gs2, bare = first[:first.index(",,") + 2], first[first.index(",,") + 2:]
    mock.gs2 = gs2
    nonce = bare.split("r=")[1]
    salt = os.urandom(16)
    iterations = 1000 if lie == "iterations" else 4096
    sn = ("other" if lie == "nonce" else nonce) + "server"
    sf = "r=%s,s=%s,i=%d" % (sn, base64.b64encode(salt).decode(), iterations)
    s.sendall(msg("R", struct.pack(">I", 11) + sf.encode()))
    t, b = mock.message(s)
    final = b.decode()
    without = final[:final.index(",p=")]
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    am = (bare + "," + sf + "," + without).encode()
    sig = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), am, "sha256")
    if lie == "signature":
        sig = bytes(32)
    s.sendall(msg("R", struct.pack(">I", 12) + b"v=" + base64.b64encode(sig)))
    s.sendall(msg("R", struct.pack(">I", 0)))


def hello(s, encoding=b"UTF8"):
    s.sendall(msg("S", b"client_encoding\0" + encoding + b"\0") + msg("S", b"standard_conforming_strings\0on\0") +
              msg("K", b"pidpkeyk") + msg("Z", b"I"))
