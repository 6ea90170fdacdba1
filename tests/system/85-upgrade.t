#!/usr/bin/python3
"""NET-10 of the field cases: connections that switch protocols, over the real wire. Early bytes, odd pieces, servers that
agree to something else, requests that two servers could read in two ways; and what ends a stream on both sides."""
import base64
import hashlib
import io
import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from connectproxy import ConnectProxy
from harness import CLI, PROXY, Http, HostRun, Stack, Tap, Temp, must, run, wait_for
from origin import Ca, Origin
from rawhttp import Closed, Raw, request
from wsorigin import BINARY, CLOSE, PING, PONG, TEXT, Echo, ask, frame, switch, unframe

SANITIZED = os.environ.get("MODE", "opt") != "opt"  # there, time and memory say nothing
SOON = 0.1 if not SANITIZED else 1.0
tap = Tap()
temp = Temp("upgrade")
ca = Ca(temp.path + "/ca")
WS = {"websocket": ["read", "write"], "echo/1": ["write"]}
PATHS = ["/echo", "/quiet", "/raw", "/answer", "/odd", "/leak", "/flood", "/end"]
names = ("live", "plain", "risky", "small", "other")
o = {n: Origin(temp.path, n + ".test", ca=ca) for n in names}
o["clear"] = Origin(temp.path, "clear.test", tls=False)
o["far"] = Origin(temp.path, "far.test", ca=ca)
o["cluster"] = Origin(temp.path, "cluster.test", ca=ca)
px = ConnectProxy({"far.test": "127.0.0.1"})
http = {"live": Http(o["live"], upgrade=WS, upgrade_paths=PATHS), "plain": Http(o["plain"]), "other": Http(o["other"]),
        "risky": Http(o["risky"], upgrade={"websocket": ["delete"]}),
        "small": Http(o["small"], upgrade=WS, max_body=65536),
        "clear": Http(o["clear"], kind=None, upgrade=WS),
        "far": Http(o["far"], address=None, via="http://localhost:%d" % px.port, upgrade=WS),
        "cluster": Http(o["cluster"], kind="bearer", upgrade={"SPDY/3.1": ["write"], "websocket": ["disrupt"]}, namespaces=["payments"])}
http["cluster"].more["kind"] = "k8s"
echo = {n: Echo(x) for n, x in o.items()}
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "prod-work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         {"id": "two-people", "require": {"env": "prod", "effects": {"any": ["@destructive"]}},
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m"}]
st = Stack(temp, None, http=http, policy={"rules": RULES},
           people={"olivia": ["oncall"], "dana": ["dba"], "omar": ["oncall"], "carol": ["change-manager"]})
hr = HostRun(st)
secret = http["live"].secret.encode()


def to(target="live", tls=True):
    return hr.direct(target) if tls else hr.tcp(target)


def start(target="live", path="/echo", behind=b"", x=None, tls=True, **kw):
    """A stream: the connection behind its 101. x.first: what came in one read with the head."""
    x = x or to(target, tls)
    x.send(ask(path, o[target].authority, **kw) + behind)
    x.first = b""
    while b"\r\n\r\n" not in x.buf:
        x.buf += x.s.recv(65536)
        x.first = x.first or x.buf
    a = x.head()
    if a.status != 101:
        x.body(a)
    x.a = a
    return x


def status(x):
    return x.a.status


def says(x, data, op=TEXT):
    x.send(frame(op, data, mask=True))
    return unframe(x.take)


def last():
    return st.acts()[-1]


def outcome(act=None):
    return st.outcome((act or last())["action"]) or {}


def ended(x, seconds=5.0):
    """When the client's connection ended, or None."""
    x.rest(seconds)
    return time.monotonic() if x.over else None


def server_ended(target, seconds=5.0):
    s = echo[target].streams[-1]
    wait_for(lambda: s["at"] is not None, seconds, 0.005)
    return s["at"]


def quiet():
    for x in o.values():
        x.forget()


def arrived():
    return [(x.host, r.method, r.target) for x in o.values() for r in x.arrivals]


# --- idle for a minute: begun now, looked at in the end --------------------------------------------------------
calm = HostRun(st)  # a run that nobody touches
idle = start("small", x=calm.direct("small"))
tap.eq((status(idle), says(idle, b"hush")[2]), (101, b"hush"), "NET-10: a stream that will be silent")
idle_since = time.monotonic()
x = start()
tap.eq((status(x), says(x, b"one")), (101, (TEXT, True, b"one", 0)), "NET-10: a stream with the credential that the broker puts in")
q = o["live"].arrivals[-1]
tap.eq((q.get("Authorization"), q.get("Upgrade"), q.get("Connection"), q.get("Sec-WebSocket-Version"), q.get("Host")),
       ("Bearer " + http["live"].secret, "websocket", "Upgrade", "13", o["live"].authority), "NET-10: what the server was asked")
act = last()
tap.eq((act["request"]["http"].get("upgrade"), act["request"]["effects"], act["decision"]["verdict"]),
       ("websocket", ["read", "write"], "allow"), "NET-10: it is an action of its own, by what the policy says of the protocol")
tap.eq(st.records("outcome"), [], "NET-10: which has no outcome as long as it lasts")

# --- early bytes, and odd pieces -------------------------------------------------------------------------------
x = start(path="/echo?early=hello")
tap.eq((status(x), x.first.startswith(b"HTTP/1.1 101 "), x.first.count(b"\r\n\r\n")), (101, True, 1), "NET-10: the 101 comes in one write")
tap.eq(unframe(x.take), (TEXT, True, b"hello", 0), "NET-10: and the frame that came in its segment is not lost")
tap.eq((x.a.get("Upgrade"), x.a.get("Connection"), x.a.get("Sec-WebSocket-Extensions")), ("websocket", "Upgrade", None), "(the 101 says what it is)")
x = start(behind=frame(TEXT, b"pipelined", mask=True))
tap.eq((status(x), unframe(x.take)[2]), (101, b"pipelined"), "NET-10: a frame that the client sent behind its request arrives")
x = start(path="/echo?early=hello&split=1", behind=frame(TEXT, b"too", mask=True))
tap.eq((status(x), unframe(x.take)[2], unframe(x.take)[2]), (101, b"hello", b"too"), "NET-10: a 101 and its frame, byte by byte, and a pipelined one")
x = to()
for b in ask("/echo", o["live"].authority) + frame(TEXT, b"slow", mask=True):
    x.send(bytes([b]))
tap.eq((x.head().status, unframe(x.take)[2]), (101, b"slow"), "NET-10: a request byte by byte")
big = os.urandom(10 << 20)
x = start()
t = threading.Thread(target=lambda: x.send(frame(BINARY, big, mask=True)), daemon=True)
t.start()
op, fin, data, _ = unframe(x.take)
tap.eq((op, fin, len(data), hashlib.sha256(data).hexdigest()), (BINARY, True, len(big), hashlib.sha256(big).hexdigest()), "NET-10: a message of 10 MiB is echoed exactly")
for n in (0, 1, 125, 126, 65535, 65536):
    tap.eq(says(x, b"z" * n, BINARY)[2], b"z" * n, "NET-10: and one of %d bytes" % n)
tap.eq(says(x, b"are you there", PING)[:3], (PONG, True, b"are you there"), "NET-10: control frames too")
many = [os.urandom(i % 90) for i in range(2000)]
x.send(b"".join(frame(BINARY, m, mask=True) for m in many))
tap.ok(all(unframe(x.take)[2] == m for m in many), "NET-10: 2000 small ones, in their order")
x.send(frame(TEXT, b"in ", True, fin=False) + frame(PING, b"!", True) + frame(0, b"", True, fin=False) + frame(0, b"parts", True))
tap.eq([unframe(x.take)[:3] for _ in range(4)], [(TEXT, False, b"in "), (PONG, True, b"!"), (0, False, b""), (0, True, b"parts")],
       "NET-10: fragments stay what they are")
act = last()
x.send(frame(CLOSE, b"\x03\xe8bye", mask=True))
tap.eq((unframe(x.take)[2], x.closed()), (b"\x03\xe8bye", True), "NET-10: the closing handshake, then the end")
out = outcome(act)
want = len(big) + sum(map(len, many))
tap.eq((out.get("status"), out.get("http_status"), out.get("ended")), ("ok", 101, "server"), "NET-10: the outcome says that and who ended it")
tap.ok(out.get("answer_bytes", 0) > want and out.get("body_bytes", 0) > out["answer_bytes"] and out["duration_us"] > 0, "NET-10: with the bytes of both ways and how long", out)
tap.has(st.cli("replay", "timeline").stdout, "upgrade websocket", "NET-10: the timeline tells of an upgrade")
tap.ok(re.search(r"outcome of \d+: ok  http_status 101 .*ended server", st.cli("replay", "timeline").stdout), "NET-10: and how it went",
       st.cli("replay", "timeline").stdout[-1500:])

# --- an answer instead -----------------------------------------------------------------------------------------
x = to()
for code, framing in ((200, "length"), (426, "length"), (200, "chunked"), (403, "length"), (500, "chunked")):
    o["live"].on("/answer", lambda r, c, code=code, framing=framing: c.reply(code, b"not here: " + b"y" * 30000, framing=framing))
    start(path="/answer", x=x)
    tap.eq((status(x), len(x.a.body), x.buf), (code, 30010, b""), "NET-10: %d instead, by %s: relayed with its framing" % (code, framing))
    tap.eq((outcome().get("http_status"), outcome().get("ended")), (code, None), "NET-10: its outcome is of an answer")
r = x.ask("GET", "/ok", o["live"].authority)
tap.eq((r.status, r.body), (200, b"ok"), "NET-10: the connection stays usable")
start(x=x)
tap.eq((status(x), says(x, b"now")[2]), (101, b"now"), "NET-10: also for an upgrade behind that")
o["live"].on("/answer", lambda r, c: c.reply(200, b"until the end", framing="close"))
x = start(path="/answer")
tap.eq((status(x), x.a.body), (200, b"until the end"), "NET-10: an answer that ends with its connection")
o["live"].on("/answer", lambda r, c: (c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"), c.cut()))
x = to()
x.send(ask("/answer", o["live"].authority))
x.head()
tap.ok(ended(x) and x.buf in (b"", b"only this"), "NET-10: one that breaks off is broken off", x.buf)

# --- servers that agree to something else ----------------------------------------------------------------------
ODD = {
    "another protocol": lambda r: switch(r, protocol="echo/1"),
    "no protocol": lambda r: switch(r).replace(b"Upgrade: websocket\r\n", b""),
    "two protocols": lambda r: switch(r, [("Upgrade", "echo/1")]),
    "no Connection": lambda r: switch(r).replace(b"Connection: Upgrade\r\n", b""),
    "another accept": lambda r: switch(r).replace(b"Sec-WebSocket-Accept: ", b"Sec-WebSocket-Accept: x"),
    "no accept": lambda r: b"".join(x + b"\r\n" for x in switch(r).split(b"\r\n")[:-2] if b"Accept" not in x) + b"\r\n",
    "two accepts": lambda r: switch(r, [("Sec-WebSocket-Accept", "x")]),
    "an extension": lambda r: switch(r, [("Sec-WebSocket-Extensions", "permessage-deflate")]),
    "a subprotocol": lambda r: switch(r, [("Sec-WebSocket-Protocol", "chat")]),
    "a length": lambda r: switch(r, [("Content-Length", "5")]),
    "chunks": lambda r: switch(r, [("Transfer-Encoding", "chunked")]),
    "HTTP/1.0": lambda r: switch(r).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a bare line end": lambda r: switch(r).replace(b"Connection: Upgrade\r\n", b"Connection: Upgrade\n"),
}
for what, head in ODD.items():
    o["live"].on("/odd", lambda r, c, head=head: c.send(head(r) + frame(TEXT, b"early")))
    x = to()
    x.send(ask("/odd", o["live"].authority))
    a = x.answer()
    tap.ok(a.status == 502 and b"early" not in a.body, "NET-10: a 101 with %s is a 502" % what, a)
    tap.eq((outcome().get("status"), outcome().get("http_status")), ("lost", None), "NET-10: and on the record: it was asked, and no answer is known")
o["live"].on("/odd", lambda r, c: (c.send(switch(r, [("Sec-WebSocket-Protocol", "v4.channel.k8s.io")])), Echo.frames(r, c, {"got": 0})))
x = start(path="/odd", fields=[("Sec-WebSocket-Protocol", "v5.channel.k8s.io, v4.channel.k8s.io")])
tap.eq((status(x), x.a.get("Sec-WebSocket-Protocol"), says(x, b"sub")[2]), (101, "v4.channel.k8s.io", b"sub"), "NET-10: a subprotocol that was offered passes")
o["plain"].on("/unasked", lambda r, c: c.send(switch(r, protocol="websocket") + frame(TEXT, b"early")))
for target, path in (("plain", "/unasked"), ("live", "/unasked")):
    o["live"].on("/unasked", lambda r, c: c.send(switch(r, protocol="websocket")))
    a = to(target).ask("GET", path, o[target].authority)
    tap.eq(a.status, 502, "NET-10: a 101 that nobody asked for is a 502 (%s)" % target)
for what, piece in (("that is compressed", frame(TEXT, b"abc", rsv=4)), ("that is masked", frame(TEXT, b"abc", mask=True)),
                    ("of no known kind", frame(5, b"")), ("that goes on with nothing", frame(0, b"abc")), ("in a long form", b"\x81\x7e\x00\x05hello"),
                    ("of control in parts", frame(PING, b"", fin=False))):
    o["live"].on("/odd", lambda r, c, piece=piece: (c.send(switch(r) + frame(TEXT, b"good")), time.sleep(0.1), c.send(piece), c.more()))
    x = start(path="/odd")
    good = unframe(x.take)[2]
    tap.eq((good, ended(x) is not None, x.buf), (b"good", True, b""), "NET-10: a frame %s ends the stream, the one before it passes" % what)
    tap.eq((outcome().get("status"), outcome().get("ended")), ("broken", "protocol"), "NET-10: and its outcome says so")

# --- what is not asked in one way ------------------------------------------------------------------------------
quiet()
key = base64.b64encode(b"k" * 16).decode()
host = o["live"].authority
BAD = {
    "on a path that is not allowed": ask("/other", host), "with a needless escape in the path": ask("/%65cho", host),
    "h2c": ask("/echo", host, protocol="h2c", connection="Upgrade, HTTP2-Settings", fields=[("HTTP2-Settings", "AAMAAABk")]),
    "with HTTP2-Settings": ask("/echo", host, fields=[("HTTP2-Settings", "AAMAAABk")]),
    "to TLS": ask("/echo", host, protocol="TLS/1.0"), "to a protocol that is not named": ask("/echo", host, protocol="spdy/3.1"),
    "to several protocols": ask("/echo", host, protocol="websocket, h2c", fields=[("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", "13")]),
    "in two fields": ask("/echo", host, fields=[("Upgrade", "h2c")]), "without Connection": ask("/echo", host, connection=None),
    "with another Connection": ask("/echo", host, connection="keep-alive"), "without a key": ask("/echo", host, key=""),
    "with a short key": ask("/echo", host, key="c2hvcnQ="), "with two keys": ask("/echo", host, fields=[("Sec-WebSocket-Key", key)]),
    "of another version": ask("/echo", host, version="8"), "by POST": ask("/echo", host, method="POST", fields=[("Content-Length", "0")]),
    "with a body": ask("/echo", host, fields=[("Content-Length", "5")]) + b"hello",
    "with chunks": ask("/echo", host, fields=[("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n0\r\n\r\n",
    "in HTTP/1.0": ask("/echo", host).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "with Expect": ask("/echo", host, fields=[("Expect", "100-continue")]),
    "with another method in a header": ask("/echo", host, fields=[("X-HTTP-Method-Override", "DELETE")]),
    "with a token of its own": ask("/echo", host, fields=[("Authorization", "Bearer found-somewhere")]),
    "with a token in the subprotocols": ask("/echo", host, fields=[("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.ZXhhbXBsZQ, v4.channel.k8s.io")]),
}
WHY = {"on a path that is not allowed": "upgrade_paths", "with HTTP2-Settings": "HTTP2-Settings", "to TLS": "may be switched to",
       "to a protocol that is not named": "than the target's `upgrade` names", "in two fields": "exactly one protocol", "without Connection": "Connection does not name",
       "with a short key": "Sec-WebSocket-Key", "of another version": "Sec-WebSocket-Version 13", "by POST": "other than GET", "with a body": "has content",
       "in HTTP/1.0": "HTTP/1.0", "with Expect": "an Expect field"}
for what, piece in BAD.items():
    x = to()
    x.send(piece)
    a = x.answer()
    tap.ok(a.status in (400, 403) and not arrived(), "NET-10: an upgrade %s: %d, and no upstream contact" % (what, a.status), (a, arrived()))
    tap.ok(WHY.get(what, "").encode() in a.body, "NET-10: the refusal says why: %s" % WHY.get(what, "-"), a.body)
    tap.eq(last()["decision"]["verdict"], "deny", "NET-10: on the record as a denial")
x = start("plain")
tap.ok(status(x) == 403 and not arrived(), "NET-10: a target that says nothing of upgrades has none", x.a)
a = to().ask("GET", "/ok", host, [("Connection", "upgrade")])
tap.eq((a.status, o["live"].arrivals[-1].get("Connection")), (200, None), "NET-10: Connection alone asks for nothing, and is not passed on")
x = start(path="/raw", protocol="ECHO/1")
x.send(b"\0\1bytes")
tap.eq((status(x), x.take(7)), (101, b"\0\1bytes"), "NET-10: another protocol that the policy names passes, in any case")
offer = [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")]
x = start(fields=offer)
tap.eq((status(x), o["live"].arrivals[-1].get("Sec-WebSocket-Extensions"), says(x, b"a" * 500)[2]), (101, None, b"a" * 500), "NET-10: extensions are not offered on")

# --- where it can be asked --------------------------------------------------------------------------------------
x = start(x=hr.tunnel("live"))
tap.eq((status(x), says(x, b"t")[2], last()["request"]["http"]["via"]), (101, b"t", "proxy"), "NET-10: through CONNECT")
x = start("clear", tls=False)
tap.eq((status(x), says(x, b"c")[2]), (101, b"c"), "NET-10: to a loopback service without TLS")
n = len(px.heads)
x = start("far")
tap.eq((status(x), says(x, b"f")[2], len(px.heads) - n), (101, b"f", 1), "NET-10: through the forward proxy of its target")
exec_path = "/api/v1/namespaces/payments/pods/p1/exec"
x = start("cluster", exec_path + "?command=id", protocol="SPDY/3.1", method="POST", fields=[("Content-Length", "0"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io")])
x.send(b"spdy")
tap.eq((status(x), x.take(4), last()["request"]["effects"], last()["request"]["input"]["relations"]), (101, b"spdy", ["write"], ["payments/pods/p1/exec"]),
       "NET-10: kubectl exec counts as what the policy says of its protocol there")
tap.eq(o["cluster"].arrivals[-1].get("X-Stream-Protocol-Version"), "v4.channel.k8s.io", "(its own fields pass)")
x = start("cluster", exec_path.replace("exec", "portforward"), protocol="SPDY/3.1", method="POST", fields=[("Content-Length", "0")])
tap.eq((status(x), last()["request"]["effects"]), (101, ["write"]), "NET-10: kubectl port-forward as well")
n = len(o["cluster"].arrivals)
x = start("cluster", exec_path.replace("payments", "kube-system"), protocol="SPDY/3.1", method="POST", fields=[("Content-Length", "0")])
tap.eq((status(x), "opaque" in last()["request"]["effects"], len(o["cluster"].arrivals)), (403, True, n), "NET-10: not outside its namespaces")
a = to("cluster").ask("POST", exec_path, o["cluster"].authority, [("Content-Length", "0")])
tap.eq((a.status, last()["request"]["effects"], len(o["cluster"].arrivals)), (403, ["exec"], n), "NET-10: and without an upgrade it is exec, which nothing permits")

# --- people ------------------------------------------------------------------------------------------------------
x = start("risky")
act = last()
rid = next(iter(st.pending()), None)
tap.eq((status(x), act["request"]["effects"], arrived().count(("risky.test", "GET", "/echo"))), (403, ["delete", "read"], 0), "NET-10: one that needs people waits for them")
shown = st.cli("show", rid).stdout
tap.ok("Upgrade: websocket" in shown and "what passes then, in both directions, is neither shown" in shown, "NET-10: who are told what they sign", shown)
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
start("risky", x=x)

tap.eq((status(x), says(x, b"signed")[2]), (101, b"signed"), "NET-10: it passes with their signatures, under another key")
y = start("risky")
tap.eq(status(y), 403, "NET-10: once")

# --- secrets do not come back ----------------------------------------------------------------------------------
half = len(secret) // 2
pad = b"before " + secret + b" after"
LEAKS = {
    "a message": [frame(TEXT, pad)], "a message in base64": [frame(TEXT, base64.b64encode(secret))],
    "fragments": [frame(TEXT, pad[:half], fin=False), frame(PING, b"between"), frame(0, pad[half:half + 9], fin=False), frame(0, pad[half + 9:])],
    "fragments of one byte": [frame(TEXT, pad[:1], fin=False)] + [frame(0, pad[i:i + 1], fin=i == len(pad) - 1) for i in range(1, len(pad))],
    "a ping": [frame(PING, secret[:120])], "a ping amid a message": [frame(TEXT, secret[:half], fin=False), frame(PING, secret), frame(0, secret[half:])],
    "a close": [frame(CLOSE, b"\x03\xe8" + secret[:100])],
}
for what, pieces in LEAKS.items():
    for pause in (0, 0.02):
        def leak(r, c, pieces=pieces, pause=pause):
            c.send(switch(r))
            for p in pieces:
                c.send(p)
                time.sleep(pause)
            c.send(frame(TEXT, b"done") if what != "a close" else b"")
            c.more()
        o["live"].on("/leak", leak)
        x = start(path="/leak")
        got = [unframe(x.take) for _ in range(len(pieces) + (what != "a close"))]
        x.close()
        lengths = [len(unframe(io.BytesIO(p).read)[2]) for p in pieces]
        data = b"".join(g[2] for g in got if g[0] < 8)
        tap.ok(secret not in data and base64.b64encode(secret)[:-4] not in data and not any(secret[:60] in g[2] for g in got),
               "NET-10: a secret in %s is not told (%s)" % (what, "slowly" if pause else "at once"), got)
        tap.eq([len(g[2]) for g in got[:len(pieces)]], lengths, "NET-10: and every frame has its length")
        out = outcome()
        tap.ok(out.get("reflected_credential", 0) >= 1, "NET-10: the outcome counts it", out)


def drip(r, c):
    c.send(switch(r) + secret[:5])
    time.sleep(1)
    c.send(b"no secret" + secret[:9] + b"|")
    for i in range(0, len(secret), 7):
        c.send(secret[i:i + 7])
    c.send(b"|end")
    c.more()


o["live"].on("/leak", drip)
x = start(path="/leak", protocol="echo/1")
t0 = time.monotonic()
first = x.take(5)
took = time.monotonic() - t0
tap.ok(first == secret[:5] and took < 0.8, "NET-10: of another protocol, what only begins like a secret is let go of (%.2f s)" % took, first)
tap.eq(x.take(9 + 9 + 1), b"no secret" + secret[:9] + b"|", "NET-10: exactly")
got = x.take(len(secret) + 4)
tap.ok(got.endswith(b"|end") and secret not in got, "NET-10: but a secret in pieces that follow each other is found", got)
x.close()

# --- who does not read ---------------------------------------------------------------------------------------------


def flood(r, c):
    r.sent = 0
    c.send(switch(r))
    piece = frame(BINARY, b"f" * 65000)
    while r.sent < 200 << 20:
        c.send(piece)
        r.sent += len(piece)


def rss():
    return sum(int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % st.child(n)).read())[1]) for n in ("front", "core", "upstream")) // 1024


o["live"].on("/flood", flood)
before = rss()
x = start(path="/flood")
q = o["live"].arrivals[-1]
time.sleep(2)
sent = q.sent
time.sleep(0.5)
tap.ok(q.sent == sent < 64 << 20, "NET-10: a client that does not read stops the server (%d KiB written)" % (sent >> 10))
tap.ok(rss() - before < 32 or SANITIZED, "NET-10: in bounded memory (%d MiB more)" % (rss() - before))
n = sum(len(unframe(x.take)[2]) for _ in range(1500))
tap.eq(n, 1500 * 65000, "NET-10: and goes on when it reads again")
x.close()
tap.ok(wait_for(lambda: q.sent == q.sent and len([k for k in o["live"].conns if k.number == q.conn]) == 0, 10), "NET-10: a client that goes ends the server's side")
tap.eq(outcome().get("ended"), "client", "NET-10: and the record says who")
o["live"].on("/flood", lambda r, c: (c.send(switch(r)), time.sleep(4), Echo.frames(r, c, {"got": 0})), early=True)
x = start(path="/flood", protocol="websocket")
x.s.settimeout(1.5)
sent, piece = 0, frame(BINARY, b"g" * 65000, mask=True)
try:
    while sent < 100 << 20:
        x.s.sendall(piece)
        sent += len(piece)
except (socket.timeout, TimeoutError):
    pass
tap.ok(sent < 32 << 20, "NET-10: a server that does not read stops the client (%d KiB written)" % (sent >> 10))
x.close()

# --- ends ----------------------------------------------------------------------------------------------------------


def to_the_end(r, c):
    c.send(switch(r))
    got = b""
    try:
        while True:
            c.more()
    except Exception:  # the end of what the client sends
        got = c.buf
    c.send(b"all of " + got)
    c.close()


o["clear"].on("/end", to_the_end, early=True)
x = start("clear", "/end", tls=False, protocol="echo/1")
x.send(b"what I had to say")
x.s.shutdown(socket.SHUT_WR)
tap.eq((x.rest(), x.over), (b"all of what I had to say", True), "NET-10: a client that has ended hears the rest")
tap.eq((outcome().get("status"), outcome().get("ended")), ("ok", "client"), "NET-10: it has ended the stream, in order")
o["live"].on("/end", lambda r, c: (c.send(switch(r) + frame(TEXT, b"x" * 300000)), c.close()))
x = start(path="/end")
tap.eq((len(unframe(x.take)[2]), x.closed()), (300000, True), "NET-10: a server that ends at once: all arrives, then the end")
o["live"].on("/end", lambda r, c: (c.send(switch(r) + frame(TEXT, b"y")), time.sleep(0.2), c.cut()))
x = start(path="/end")
tap.ok(unframe(x.take)[2] == b"y" and ended(x), "NET-10: one that breaks off ends it as well")
tap.eq((outcome().get("status"), outcome().get("ended")), ("broken", "lost"), "NET-10: as broken")
x = start("small")
tap.eq(len(says(x, b"s" * 60000)[2]), 60000, "NET-10: within max_body")
try:
    x.send(frame(TEXT, b"s" * 60000, mask=True))
except OSError:
    pass
tap.ok(ended(x) is not None, "NET-10: what the client sends beyond it ends the stream")
out = outcome()
tap.eq((out.get("status"), out.get("ended") in ("limit", "client"), out.get("body_bytes", 0) <= 65536), ("broken", True, True), "NET-10: and has not all gone out")
streams = [start() for _ in range(80)]
tap.ok(all(says(s, b"%d" % i)[2] == b"%d" % i for i, s in enumerate(streams)), "NET-10: 80 streams at once")
for s in streams:
    s.close()

# --- what ends it on both sides -------------------------------------------------------------------------------------


def cut(what, do, word, target="live", path="/echo", before=lambda: None, **kw):
    """Opens a stream, does it, and looks when both sides ended, counted from when it was done."""
    x = start(target, path, **kw)
    if status(x) != 101 or says(x, b"alive")[2] != b"alive":
        tap.ok(False, "NET-10: %s: a stream to end" % what, x.a)
        return
    time.sleep(0.1)
    tap.eq(says(x, b"so far")[2], b"so far", "NET-10: before %s it lives" % what)
    act = last()
    seen = {}
    t = threading.Thread(target=lambda: seen.update(at=ended(x, 30)), daemon=True)
    t.start()
    do()
    done = time.monotonic()
    t.join(30)
    server = server_ended(target, 10)
    late = [(v or 1e9) - done for v in (seen.get("at"), server)]
    tap.ok(max(late) < SOON, "NET-10: %s closes both sides within 100 ms (client %.0f ms, server %.0f ms)" % (what, late[0] * 1e3, late[1] * 1e3))
    out = outcome(act)
    tap.eq((out.get("ended"), out.get("status"), out.get("http_status"), out.get("body_bytes", 0) > 0, out.get("answer_bytes", 0) > 0),
           (word, "broken", 101, True, True), "NET-10: %s is on the record, with the bytes of both ways" % what)


def lives(what):
    tap.eq(says(stays, b"still")[2], b"still", "NET-10: %s leaves others alone" % what)


stays = start()


def without(**change):
    h = http["live"]
    h.more.update(change)
    st.reload({"rules": RULES})


def more_rules():
    st.reload({"rules": RULES + [{"id": "unrelated", "forbid": {"target": "other", "effects": {"any": ["delete"]}}, "override": "never"}]})


more_rules()
lives("a policy that says nothing else of it")
cut("a policy with another forbid", lambda: st.reload({"rules": RULES + [{"id": "no-live", "forbid": {"target": "live", "effects": {"any": ["write"]}}, "override": "never"}]}), "policy")
tap.ok(ended(stays, 2), "(all streams of that target)")
x = start()
tap.eq(status(x), 403, "NET-10: and no new one begins")
st.reload({"rules": RULES})
cut("a policy that takes the protocol away", lambda: without(upgrade={"echo/1": ["write"]}), "policy")
without(upgrade=WS)
cut("a policy that takes the path away", lambda: without(upgrade_paths=["/raw"]), "policy")
without(upgrade_paths=PATHS)
cut("a policy by which it does something else", lambda: without(upgrade={"websocket": ["read", "write", "overwrite"], "echo/1": ["write"]}), "policy")
without(upgrade=WS)


def lift(f):
    for p in ("dana", "omar"):
        st.cli("freeze", "lift", f, "--as", p, "--key", st.key(p), "--yes")


def freeze(*more):
    r = st.cli("freeze", "start", "--reason", "stop", "--as", "dana", "--key", st.key("dana"), "--yes", *more)
    return re.search(r"freeze ([a-z2-7]{26}): in force", r.stdout)[1]


f = freeze("--effects", "delete")
tap.eq(says(start(), b"x")[2], b"x", "NET-10: a freeze of other effects leaves a stream alone")
lift(f)
fid = []
cut("an emergency freeze", lambda: fid.append(freeze("--target", "live")), "policy")
lift(fid[0])
tap.eq(says(start(), b"again")[2], b"again", "NET-10: once it is lifted one begins again")
begin = int(time.time()) + 5
iso = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) for t in (begin, begin + 3600)]
st.reload({"rules": RULES + [{"id": "window", "forbid": {"target": "live", "during": ["soon"], "effects": {"any": ["write"]}}, "override": "never"}],
           "calendars": {"soon": {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2020-01-01", "2040-01-01"], "once": [{"from": iso[0], "to": iso[1]}]}}})
cut("a window that begins", lambda: time.sleep(max(0, begin - time.time())), "policy")
st.reload({"rules": RULES})
st.reload({"rules": RULES + [{"id": "soft", "forbid": {"target": "live", "effects": {"any": ["write"]}}, "override": "exception"}]})
tap.eq(status(start()), 403, "NET-10: a rule that an exception can lift")
r = st.cli("exception", "request", "--rule", "soft", "--target", "live", "--effects", "write", "--uses", "1", "--for", "1h",
           "--ticket", "CHG-1", "--reason", "a look")
eid = r.stdout.strip()
st.cli("exception", "sign", eid, "--as", "carol", "--key", st.key("carol"), "--yes")
cut("the end of the exception that let it pass", lambda: st.cli("exception", "revoke", eid, "--as", "dana", "--key", st.key("dana"), "--yes"), "policy")
st.reload({"rules": RULES})
cut("a pause of the run", lambda: st.cli("pause", hr.id), "paused")
st.cli("resume", hr.id)
stays = start()
tap.eq(says(stays, b"on")[2], b"on", "NET-10: when it goes on one begins again")


def vault(verb, name, *more, **kw):
    must([CLI, "credential", verb, name + "-key", *more, "--state", st.state], stdin=None, **kw)
    os.kill(st.broker.pid, signal.SIGHUP)


def gone():
    """The vault is read once the broker has taken the signal: `done` is when the stream is seen to go, at most."""
    vault("rotate", "live", input=http["live"].secret + "2")
    time.sleep(0.5)


vault("rotate", "other", input="canary-" + os.urandom(16).hex())
time.sleep(0.5)
lives("another credential of the run")
cut("a credential that is another now", gone, "credential")
x = start()
tap.eq((status(x), o["live"].arrivals[-1].get("Authorization")), (101, "Bearer " + http["live"].secret + "2"), "NET-10: the next one goes with the new one")
x.close()
vault("rotate", "live", input=http["live"].secret)
time.sleep(0.5)

# --- a minute of silence -------------------------------------------------------------------------------------------
left = 61 - (time.monotonic() - idle_since)
time.sleep(max(0, left))
tap.eq(says(idle, b"still here")[2], b"still here", "NET-10: a stream that was silent for %d s goes on" % (time.monotonic() - idle_since))

# --- parts that are killed -----------------------------------------------------------------------------------------
for part in ("upstream", "front", "core"):
    x = start()
    tap.eq((status(x), says(x, b"here")[2]), (101, b"here"), "NET-10: a stream before %s is killed" % part)
    act = last()
    os.kill(st.child(part), signal.SIGKILL)
    killed = time.monotonic()
    at, server = ended(x, 10), server_ended("live", 10)
    tap.ok(at and server and max(at, server) - killed < 5, "NET-10: kill -9 of %s ends it on both sides" % part)
    tap.ok(wait_for(lambda: outcome(act), 20), "NET-10: with an outcome: %s" % outcome(act).get("status"))
    tap.ok(outcome(act).get("status") in ("lost", "unknown", "broken"), "NET-10: that claims nothing", outcome(act))

    def again():
        try:
            y = start()
            return status(y) == 101 and says(y, b"new")[2] == b"new"
        except (Closed, OSError, IndexError):
            return False
    tap.ok(wait_for(again, 30, 0.3), "NET-10: and the next one works")

# --- the run -------------------------------------------------------------------------------------------------------
cut("a stop of the run", lambda: st.cli("stop", hr.id), "stopped")
hr.kill()
hr = HostRun(st)
cut("a revoke of the run", lambda: st.cli("revoke", hr.id, "--reason", "x"), "run")
recs = [(r["type"], r["data"].get("action")) for r in st.records() if r.get("run") == hr.id]
tap.ok(wait_for(lambda: "run.end" in [r["type"] for r in st.records() if r.get("run") == hr.id], 10), "(the run ends)")
recs = [r["type"] for r in st.records() if r.get("run") == hr.id]
tap.ok(recs.index("outcome") < recs.index("run.end"), "NET-10: the outcome of its stream stands before the end of the run", recs)
hr = HostRun(st)
cut("the end of its agent", lambda: (os.kill(hr.p.pid, signal.SIGKILL), hr.p.wait(), time.sleep(0.3)), "run")
tap.eq(run([CLI, "status", "--state", st.state, "--json"]).returncode, 0, "(the broker lives)")
tap.ok(secret not in open(st.broker_log, "rb").read(), "NET-10: the secret is in no log of the broker")
st.stop()
tap.done()
