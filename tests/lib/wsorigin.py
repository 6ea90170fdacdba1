"""WebSocket by hand (RFC 6455), as tests of the wire need it: frames to write and read, and paths of an origin.Origin that
switch protocols rightly, early, slowly, wrongly and not at all. What it understands it echoes."""
import base64
import hashlib
import os
import struct
import threading
import time

from origin import Gone

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def accept(key):
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def frame(op, data, mask=False, fin=True, rsv=0):
    """One frame; a client's is masked."""
    n, m = len(data), 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | rsv << 4 | op])
    head += bytes([m | n]) if n < 126 else bytes([m | 126]) + struct.pack(">H", n) if n < 65536 else bytes([m | 127]) + struct.pack(">Q", n)
    if not mask:
        return head + data
    key = os.urandom(4)
    pad = int.from_bytes((key * (n // 4 + 1))[:n], "big") if n else 0
    return head + key + (int.from_bytes(data, "big") ^ pad).to_bytes(n, "big") if n else head + key


def unframe(take):
    """The next frame by take(n): (op, fin, data, rsv)."""
    a, b = take(2)
    n = b & 0x7f
    if n == 126:
        n = struct.unpack(">H", take(2))[0]
    elif n == 127:
        n = struct.unpack(">Q", take(8))[0]
    key = take(4) if b & 0x80 else None
    data = take(n)
    if key and n:
        data = (int.from_bytes(data, "big") ^ int.from_bytes((key * (n // 4 + 1))[:n], "big")).to_bytes(n, "big")
    return a & 15, bool(a & 0x80), data, a >> 4 & 7


def ask(path, host, key=None, fields=(), method="GET", protocol="websocket", connection="Upgrade", version="13"):
    """The bytes of a request to switch."""
    key = base64.b64encode(os.urandom(16)).decode() if key is None else key
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + host]
    lines += ["Connection: " + connection] if connection else []
    lines += ["Upgrade: " + protocol] if protocol else []
    if protocol == "websocket":
        lines += (["Sec-WebSocket-Key: " + key] if key else []) + (["Sec-WebSocket-Version: " + version] if version else [])
    lines += ["%s: %s" % f for f in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def switch(req, fields=(), protocol=None):
    """The 101 that agrees to what was asked."""
    key = req.get("Sec-WebSocket-Key")
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: " + (protocol or req.get("Upgrade") or "")]
    lines += ["Sec-WebSocket-Accept: " + accept(key)] if key else []
    return ("\r\n".join(lines + ["%s: %s" % f for f in fields]) + "\r\n\r\n").encode()


class Echo:
    """Paths of an origin: /echo and what its query asks for. `streams`: of each how it went: bytes, how it ended, when."""

    def __init__(self, origin):
        self.o, self.streams = origin, []
        for path in ("/echo", "/raw", "/api/v1/namespaces/payments/pods/p1/exec", "/api/v1/namespaces/payments/pods/p1/portforward",
                     "/api/v1/namespaces/payments/pods/p1/attach", "/quiet", "/other"):
            origin.on(path, self.serve, early=True)

    def head(self, req, c):
        """The 101 and what goes with it, in as many writes as are asked for."""
        a = req.args
        fields = [("Sec-WebSocket-Protocol", a["sub"])] if "sub" in a else []
        out = switch(req, fields) + (frame(TEXT, a["early"].encode()) if "early" in a else b"")
        if a.get("split"):
            for i in range(len(out)):
                c.send(out[i:i + 1])
                time.sleep(0.0005)
        else:
            c.send(out)

    def serve(self, req, c):
        st = {"req": req, "conn": c, "got": 0, "ended": None, "at": None, "bytes": b""}
        self.streams.append(st)
        try:
            self.head(req, c)
            if req.path == "/echo" or (req.get("Upgrade") or "").lower() == "websocket":
                self.frames(req, c, st)
            else:
                self.raw(c, st)
        except Gone as e:
            st["ended"] = st["ended"] or str(e)
            raise
        finally:
            st["at"] = time.monotonic()

    @staticmethod
    def raw(c, st):
        while True:
            if not c.buf:
                c.more()
            b, c.buf = c.buf, b""
            st["got"] += len(b)
            st["bytes"] = (st["bytes"] + b)[-65536:]
            c.send(b)

    @staticmethod
    def frames(req, c, st):
        if req.path == "/quiet":
            while True:
                c.more()
                st["got"] += len(c.buf)
                c.buf = b""
        while True:
            op, fin, data, _ = unframe(c.take)
            st["got"] += len(data)
            if op == CLOSE:
                st["ended"] = "close frame"
                c.send(frame(CLOSE, data))
                c.close()
                return
            c.send(frame(PONG if op == PING else op, data, fin=fin))


def later(seconds, fn):
    t = threading.Timer(seconds, fn)
    t.daemon = True
    t.start()
    return t
