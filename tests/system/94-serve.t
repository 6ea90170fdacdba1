#!/usr/bin/python3
"""The HTTP server of programs that a person starts (common/serve.h): who may speak, what is read, what a stream and a client
that goes away are to its handler, and that one connection is nothing to the others."""
import atexit
import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Tap, Temp, run, wait_for
from origin import Ca

tap, temp = Tap(), Temp("serve")
started = []


def end_all():
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()


atexit.register(end_all)


class Server:
    def __init__(self, *args, **env):
        self.log = temp.path + "/log%d" % len(started)
        self.p = subprocess.Popen([BUILD + "/tool_serve_echo", *args], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=open(self.log, "wb"), encoding="ascii")
        started.append(self.p)
        self.url = self.p.stdout.readline().strip()
        self.port = int(self.url.rsplit(":", 1)[1]) if self.url else 0

    def connect(self, tls=None):
        s = socket.create_connection(("127.0.0.1", self.port), 20)
        return tls.wrap_socket(s, server_hostname="127.0.0.1") if tls else s

    def raw(self, data, tls=None):
        """Sends, says that nothing more comes only by waiting, and reads to the end of the connection."""
        with self.connect(tls) as s:
            s.sendall(data)
            return everything(s)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def workers(self):
        with open("/proc/%d/task/%d/children" % (self.p.pid, self.p.pid), encoding="ascii") as f:
            return [int(x) for x in f.read().split()]


def everything(s):
    out = b""
    while True:
        try:
            b = s.recv(65536)
        except ConnectionResetError:
            return out + b"RESET"
        if not b:
            return out
        out += b


def until(s, end):
    out = b""
    while not out.endswith(end):
        b = s.recv(65536)
        if not b:
            return out + b"EOF"
        out += b
    return out


def get(path="/", *fields, method="GET", host="127.0.0.1", body=b""):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + host, *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


CLOSE = "Connection: close"
plain = Server(":0")
tap.has(plain.url, "http://127.0.0.1:", "without an address it is loopback's")

# --- what is read ---------------------------------------------------------------------
with plain.connect() as s:
    s.sendall(get("/a") + get("/b", "Content-Length: 2", method="POST", body=b"hi"))
    both = until(s, b"body=hi\n")
    tap.ok(0 <= both.find(b"GET /a") < both.find(b"POST /b"), "requests on one connection are answered in turn, also sent at once",
           both)
    s.sendall(get("/c", "Transfer-Encoding: chunked", method="PUT", body=b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
    tap.ok(until(s, b"body=abcde\n").endswith(b"body=abcde\n"), "a chunked body is read whole")
with plain.connect() as s:
    for piece in (b"GET /slow HT", b"TP/1.1\r\nHo", b"st: 127.0.0.1\r\n", b"\r\n"):
        s.sendall(piece)
        time.sleep(0.02)
    tap.ok(b"GET /slow" in until(s, b"body=\n"), "a head may come in pieces")
with plain.connect() as s:
    s.sendall(get("/e", "Content-Length: 4", "Expect: 100-continue", method="POST"))
    tap.ok(until(s, b"\r\n\r\n").startswith(b"HTTP/1.1 100 "), "who waits for it is told to go on")
    s.sendall(b"body")
    tap.ok(until(s, b"body=body\n").startswith(b"HTTP/1.1 200 "), "and then has an answer")
for name, data, status in (
        ("no Host", b"GET / HTTP/1.1\r\n\r\n", b" 400 "),
        ("two lengths", get("/", "Content-Length: 1", "Content-Length: 1", method="POST", body=b"x"), b" 400 "),
        ("both framings", get("/", "Content-Length: 1", "Transfer-Encoding: chunked", method="POST", body=b"0\r\n\r\n"), b" 400 "),
        ("CONNECT", b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", b" 400 "),
        ("a head over the limit", get("/", "X: " + "a" * 33000), b" 431 "),
        ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b" 400 ")):
    answer = plain.raw(data)
    tap.ok(status in answer.split(b"\r\n")[0] and b"Connection: close" in answer, "%s is refused, and that is the end" % name,
           answer[:300])
answer = plain.raw(get("/", "Content-Length: 65537", CLOSE, method="POST", body=b"x" * 65537))
tap.ok(b" 413 " in answer.split(b"\r\n")[0], "a body over the handler's limit is refused", answer[:300])
answer = plain.raw(get("/", "Content-Length: 65536", CLOSE, method="POST", body=b"x" * 65536))
tap.ok(b" 200 " in answer.split(b"\r\n")[0], "and one of just that limit is taken")
answer = plain.raw(get("/count", "Content-Length: 9000000", CLOSE, method="POST", body=b"x" * 9000000))
tap.ok(b"9000000 whole" in answer, "a handler may read a body of any length piece by piece", answer[-200:])
answer = plain.raw(get("/", CLOSE, method="HEAD"))
tap.ok(b"Content-Length: " in answer and answer.endswith(b"\r\n\r\n"), "HEAD has the fields and no content", answer)

# --- streams --------------------------------------------------------------------------
answer = plain.raw(get("/stream", CLOSE))
tap.ok(answer.endswith(b"4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"), "a stream comes in pieces and ends well", answer)
tap.ok(not plain.raw(get("/cut")).endswith(b"0\r\n\r\n"), "one that its handler left is cut: it does not look whole")
tap.ok(plain.raw(b"GET /stream HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").endswith(b"\r\n\r\none\ntwo\n"),
       "to HTTP/1.0 it goes without chunks")
s = plain.connect()
s.sendall(get("/gone"))
until(s, b"here\n\r\n")
tap.ok("has gone" not in plain.said(), "while the client is there its handler goes on")
s.close()
tap.ok(wait_for(lambda: "has gone" in plain.said()), "and it learns when the client has gone", plain.said())
tap.ok(b" 500 " in plain.raw(get("/silent")).split(b"\r\n")[0], "a handler that makes no answer is a 500")

# --- web pages ------------------------------------------------------------------------
for name, fields, host, status in (
        ("its address", [], "127.0.0.1", b"200"), ("its address and port", [], "127.0.0.1:%d" % plain.port, b"200"),
        ("localhost", [], "localhost:1234", b"200"), ("a page's own name (DNS rebinding)", [], "rebound.example", b"421"),
        ("localhost as a label", [], "localhost.example", b"421"), ("another loopback address", [], "127.0.0.2", b"421"),
        ("its own Origin", ["Origin: http://localhost:%d" % plain.port], "127.0.0.1", b"200"),
        ("an Origin of another port", ["Origin: http://localhost:1"], "127.0.0.1", b"403"),
        ("an Origin of another scheme", ["Origin: https://localhost:%d" % plain.port], "127.0.0.1", b"403"),
        ("a page's Origin", ["Origin: http://evil.example"], "127.0.0.1", b"403"),
        ("Origin: null", ["Origin: null"], "127.0.0.1", b"403"), ("an empty Origin", ["Origin:"], "127.0.0.1", b"403")):
    answer = plain.raw(get("/", *fields, CLOSE, host=host))
    tap.ok(answer.split(b" ")[1:2] == [status], "%s: %s" % (name, status.decode()), answer[:300])
named = Server(":0", ALLOW_HOST="mcp.internal")
tap.ok(b" 200 " in named.raw(get("/", CLOSE, host="mcp.internal")), "a name that was allowed is taken")
tap.ok(b" 421 " in named.raw(get("/", CLOSE, host="mcp.internal.example")), "one that begins so is not")

# --- tokens ---------------------------------------------------------------------------
TOKEN = "0123456789abcdef0123456789"


def tokens(text, mode=0o600):
    path = temp.path + "/tokens"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


with_tokens = Server(":0", TOKENS=tokens("# who\nci-1 %s\nother another-token-of-20\n" % TOKEN))
tap.ok(b"who=ci-1 " in with_tokens.raw(get("/", "Authorization: Bearer " + TOKEN, CLOSE)), "a token is its principal's")
for wrong in (TOKEN[:-1], TOKEN + "0", "", "ci-1 " + TOKEN):
    tap.ok(b"who=- " in with_tokens.raw(get("/", "Authorization: Bearer " + wrong, CLOSE)), "%r is nobody's" % wrong)
tap.ok(b"who=- " in with_tokens.raw(get("/", "Authorization: Basic " + TOKEN, CLOSE)), "nor is a token under another scheme")
for name, text, mode in (("that others may read", "a %s\n" % TOKEN, 0o640), ("with a short token", "a 123456789012345\n", 0o600),
                         ("without a name", TOKEN + "\n", 0o600), ("with a name twice", "a %s\na %sx\n" % (TOKEN, TOKEN), 0o600),
                         ("with a token twice", "a %s\nb %s\n" % (TOKEN, TOKEN), 0o600), ("that is empty", "# none\n", 0o600)):
    r = run([BUILD + "/tool_serve_echo", ":0"], env={**os.environ, "TOKENS": tokens(text, mode)})
    tap.ok(r.returncode == 1 and "tokens" in r.stdout, "a file of tokens %s is refused, and told where" % name, r.stdout)

# --- TLS, clients' certificates -------------------------------------------------------
server_ca, client_ca, other_ca = Ca(temp.path + "/sca"), Ca(temp.path + "/cca"), Ca(temp.path + "/oca")
cert, key = server_ca.issue("127.0.0.1")


def tls(pair=None):
    c = ssl.create_default_context(cafile=server_ca.pem)
    if pair:
        c.load_cert_chain(*pair)
    return c


def refused(server, context):
    try:
        return server.raw(get("/", CLOSE), context)
    except (ssl.SSLError, ConnectionError):
        return b""


for listen in ("0.0.0.0:0", "[::]:0"):
    r = run([BUILD + "/tool_serve_echo", listen])
    tap.ok(r.returncode == 1 and "clear text" in r.stdout, "beyond loopback %s is not served in clear text" % listen, r.stdout)
for listen in ("127.0.0.1", "example.com:80", "127.0.0.1:65536", ":x"):
    r = run([BUILD + "/tool_serve_echo", listen])
    tap.ok(r.returncode == 1 and "--listen" in r.stdout, "%s is no address and port" % listen, r.stdout)
over_tls = Server("0.0.0.0:0", cert, key)
tap.ok(b"GET / who=- client= " in over_tls.raw(get("/", CLOSE), tls()), "with a certificate it is, and over TLS")
tap.ok(b" 421 " in over_tls.raw(get("/", CLOSE, host="rebound.example"), tls()), "under its own address alone")
tap.ok(b"HTTP/1.1 200" not in over_tls.raw(get("/", CLOSE)), "and not in clear text")
mutual = Server(":0", cert, key, client_ca.pem)
mine = client_ca.client("alice")
der = ssl.PEM_cert_to_DER_cert(open(mine[0], encoding="ascii").read())
answer = mutual.raw(get("/", CLOSE), tls(mine))
tap.has(answer.decode(), "client=sha256:" + hashlib.sha256(der).hexdigest(), "a client's certificate is who it is")
tap.ok(b"200" not in refused(mutual, tls()), "a client without one is refused")
tap.ok(b"200" not in refused(mutual, tls(other_ca.client("mallory"))), "as is one with another authority's")

# --- one connection is nothing to the others ------------------------------------------
plain.raw(get("/crash"))
tap.ok(b" 200 " in plain.raw(get("/", CLOSE)), "a worker that crashes takes its own connection alone")
tap.has(plain.said(), "signal 6", "and is told of")
few = Server(":0", WORKERS="4")
idle = [few.connect() for _ in range(4)]
wait_for(lambda: len(few.workers()) == 4)
tap.ok(b" 200 " in few.raw(get("/", CLOSE)), "where all places are taken by who asks nothing, the one that waits longest goes")
tap.eq(everything(idle[0]), b"", "that is the first that came")
busy = [few.connect() for _ in range(3)]
for s in busy:
    s.sendall(get("/gone"))
    until(s, b"here\n\r\n")
tap.ok(b" 200 " in few.raw(get("/", CLOSE)), "who is at a request keeps its place while others come and go")
for s in busy:
    s.setblocking(False)
    try:
        gone = s.recv(1) == b""
    except BlockingIOError:
        gone = False
    tap.ok(not gone, "and its stream")
few.p.send_signal(signal.SIGKILL)
few.p.wait()
for s in busy:
    s.setblocking(True)
    everything(s)
tap.ok(True, "a listener that is killed takes its workers with it")
plain.p.send_signal(signal.SIGTERM)
tap.eq(plain.p.wait(20), 0, "one that is told to end does")
tap.done()
