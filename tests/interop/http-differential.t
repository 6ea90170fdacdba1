#!/usr/bin/python3
"""Whatever our request reader accepts, llhttp accepts too and reads the same in it.

Some thousands of requests, built from parts that smuggle and parts that do not and then damaged here
and there, the same ones each time, and the corpora of the fuzz targets. tests/fuzz/llhttp_check.c says
what is compared and which differences are meant.
"""
import glob
import os
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, TOP, Tap

MANY = 20000
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "PROPFIND", "M-SEARCH", "BREW", "get", "CONNECT",
           "PRI", "SOURCE", "DESCRIBE", "G ET", ""]
TARGETS = ["/", "/a/b?c=d", "/%2e%2e/x", "/?a={b}|\"c\"[1]", "/a b", "/a#b", "//x", "http://a.test/x", "http://a.test:80",
           "https://a.test?q", "a.test:443", "*", "/caf\xe9", "/?caf\xe9", "/\\x", "http://u@a.test/", "http://b.test/", "x", ""]
VERSIONS = ["HTTP/1.1"] * 12 + ["HTTP/1.0"] * 4 + ["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", ""]
HOSTS = ["Host: a.test"] * 12 + ["host:A.TEST.:443", "Host: a.test:80", "Host: \t a.test\t ", "Host: b.test", "Host: u@a.test",
                                 "Host:", "Host: a.test\r\nHost: a.test", "X: y"]
FIELDS = ["Accept: */*", "X:", "X: a \t b \t", "Connection: close", "Connection: keep-alive", "Connection: a,, Close ,b",
          "Connection: keep-alive, close", "Proxy-Connection: keep-alive", "Proxy-Connection: close", "TE: trailers",
          "Connection: Upgrade\r\nUpgrade: websocket", "Upgrade: h2c", "Expect: 100-continue", "Expect: x", "X: \xc3\xa9",
          "Trailer: X", "Cookie: a=b; c=d", "Content-Type: a/b", "X : y", "X Y: z", "X\xe9: y", "X: a\r\n b", "X: a\nY: b",
          "X: a\rb", "X: a\0b", "Connection: Host", "Connection: x\tclose", "Content_Length: 3", "X" * 300 + ": " + "y" * 3000]
FRAMES = [("Content-Length: %d", 0)] * 20 + [("Transfer-Encoding: chunked", 1)] * 60 + [
    ("transfer-encoding:  CHUNKED ", 1), ("Content-Length:%d   ", 0), ("Content-Length: +%d", 0), ("Content-Length: 0%d", 0),
    ("Content-Length: %d, 5", 0), ("Content-Length: %d\r\nContent-Length: %d", 0), ("Content-Length: ", 0),
    ("Content-Length: 18446744073709551616", 0), ("Content-Length : %d", 0), ("Content-Length:\t%d", 0),
    ("Transfer-Encoding: xchunked", 1), ("Transfer-Encoding: chunked, chunked", 1), ("Transfer-Encoding: gzip, chunked", 1),
    ("Transfer-Encoding: chunked, gzip", 1), ("Transfer-Encoding : chunked", 1), ("Transfer-Encoding:\x0bchunked", 1),
    ("Transfer-Encoding: chunked\t", 1), ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", 1),
    ("Content-Length: %d\r\nTransfer-Encoding: chunked", 1), ("Transfer-Encoding: chunked\r\nContent-Length: %d", 0)]
CONTENT = [b"", b"x", b"hello", b"DELETE /prod HTTP/1.1\r\nHost: a.test\r\n\r\n", b"0\r\n\r\n", b"\0\xff" * 40, b"y" * 5000]
SIZES = ["%x"] * 90 + ["%X", "0%x", "00000000%x", "0x%x", "%x;ext", "%x ", " %x", "+%x", "-%x", "%x\t", "ffffffffffffffff%x",
                       "fffffffffffffff%x", "", "%xg"]
TRAILERS = [""] * 12 + ["X-Sum: a b\r\n", "X:\r\n", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "X : y\r\n",
                        "X: a\r\n b\r\n", "Connection: close\r\n", "X\r\n"]
BEHIND = [b""] * 3 + [b"GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n", b"\r\n", b"\0"]


def chunked(r, content):
    out = b""
    while content:
        n = r.choice([1, 3, 16, len(content)]) if len(content) < 200 else len(content) // 2 + 1
        size = r.choice(SIZES)
        out += (size % len(content[:n]) if "%" in size else size).encode() + b"\r\n" + content[:n]
        out += r.choice([b"\r\n"] * 150 + [b"\n", b"", b"\r", b"\r\n\r\n"])
        content = content[n:]
    return out + r.choice([b"0\r\n"] * 12 + [b"0\n", b"00\r\n", b"0;a\r\n"]) + r.choice(TRAILERS).encode() + b"\r\n"


def some(r, values, odd):
    """One of the first, which is plain, or any of them one time in `odd`."""
    return values[0] if r.randrange(odd) else r.choice(values)


def message(r):
    content = r.choice(CONTENT)
    head = [" ".join((r.choice(METHODS[:6]) if r.randrange(8) else r.choice(METHODS), some(r, TARGETS, 4), some(r, VERSIONS, 4)))]
    fields = [some(r, HOSTS, 5)] + [r.choice(FIELDS[:11]) if r.randrange(8) else r.choice(FIELDS)
                                    for _ in range(r.randrange(4))]
    body = b""
    if r.randrange(4):
        frame, in_chunks = r.choice(FRAMES)
        fields.append(frame.replace("%d", str(len(content))))
        body = chunked(r, content) if in_chunks else content
    r.shuffle(fields)
    m = "\r\n".join(head + fields).encode("latin-1") + b"\r\n\r\n" + body + r.choice(BEHIND)
    if r.randrange(4) == 0:
        m = damaged(r, m)
    return m


def damaged(r, m):
    at = r.randrange(len(m))
    byte = bytes([r.choice(b"\r\n\t \0:,;%#\x7f\x80/?aA0" + bytes([r.randrange(256)]))])
    return r.choice([m[:at], m[:at] + byte + m[at:], m[:at] + byte + m[at + 1:], m[:at] + m[at + 1:], m[:at] + m[max(0, at - 9):]])


def differential(messages, twist=0):
    data = b"".join(struct.pack(">I", len(m)) + m for m in messages)
    p = subprocess.run([BUILD + "/tool_http_differential", str(twist)], input=data, stdout=subprocess.PIPE, timeout=300,
                       check=True)
    return p.stdout.decode().splitlines()


tap = Tap()
rnd = random.Random(9112)
messages = [message(rnd) for _ in range(MANY)]
for path in sorted(glob.glob(os.path.join(TOP, "tests/fuzz/corpus/fuzz_http_llhttp/*"))
                   + glob.glob(os.path.join(TOP, "tests/fuzz/corpus/fuzz_http_request/*"))):
    with open(path, "rb") as f:
        messages.append(f.read())
said = differential(messages)
tap.eq(len(said), len(messages), "%d requests, one answer for each" % len(messages))
count = {word: said.count(word) for word in ("refused", "cut", "whole")}
wrong = ["%s: %r" % (s, m) for m, s in zip(messages, said) if s.startswith("differs")]
tap.ok(not wrong, "what is accepted is the same to llhttp, to its last byte (%s)"
       % ", ".join("%d %s" % (n, w) for w, n in count.items()), "\n".join(wrong[:20]))
tap.ok(count["refused"] > MANY / 4, "many were refused", count)
tap.ok(count["whole"] > MANY / 4, "many were accepted and whole", count)
tap.ok(count["cut"] > MANY / 50, "and some were cut, or refused in their body", count)
whole = [m for m, s in zip(messages, said) if s == "whole"]
tap.ok(sum(b"hunked" in m.lower() for m in whole) > MANY / 20, "among the whole ones many came in chunks")
tap.ok(len({m.split(b" ")[0] for m in whole}) > 8, "and under many methods")

# The comparison itself: one fact of our reading twisted, and every request is seen to differ.
for twist, what in enumerate(("method", "target", "fields", "framing", "content", "keep-alive", "the end"), 1):
    blind = [m for m, s in zip(whole, differential(whole, twist)) if s != "differs " + what]
    # Of a connection that we would close llhttp may say the same for another reason.
    allowed = len(whole) // 50 if what == "keep-alive" else 0
    tap.ok(len(blind) <= allowed, "%s that differs is seen" % what, "%d unseen, like %r" % (len(blind), blind[:1]))
tap.done()
