"""What kubectl exec needs of a server behind its SPDY/3.1 upgrade: streams are answered, stdin is echoed to stdout, the error
stream ends with success (remotecommand v4). Header blocks are read by nobody here: streams come in a known order."""
import json
import struct
import zlib

SYN_STREAM, SYN_REPLY, PING = 1, 2, 6


class Session:
    """One connection: c is an origin's Conn, behind its 101."""

    def __init__(self, c, stdin, output=b""):
        self.c, self.deflate, self.streams = c, zlib.compressobj(), []
        self.names = ["error"] + (["stdin"] if stdin else []) + ["stdout", "stderr"]
        self.stdin, self.output, self.got = stdin, output, b""

    def control(self, kind, body, flags=0):
        self.c.send(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body)

    def data(self, name, data, fin=False):
        self.c.send(struct.pack(">II", self.streams[self.names.index(name)], (1 if fin else 0) << 24 | len(data)) + data)

    def reply(self, stream):
        block = self.deflate.compress(struct.pack(">I", 0)) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(SYN_REPLY, struct.pack(">I", stream) + block)
        self.streams.append(stream)

    def over(self):
        self.data("error", json.dumps({"metadata": {}, "status": "Success"}).encode(), True)
        self.data("stderr", b"", True)
        self.data("stdout", b"", True)

    def run(self):
        while True:
            a, b = struct.unpack(">II", self.c.take(8))
            body = self.c.take(b & 0xffffff)
            if a >> 31 and a & 0xffff == SYN_STREAM:
                self.reply(struct.unpack(">I", body[:4])[0] & 0x7fffffff)
                if len(self.streams) == len(self.names):
                    self.data("stdout", self.output)
                    if not self.stdin:
                        self.over()
            elif a >> 31 and a & 0xffff == PING:
                self.control(PING, body)
            elif not a >> 31 and self.stdin and a == self.streams[1]:
                self.got += body
                if body:
                    self.data("stdout", body)
                if b >> 24 & 1:
                    self.over()
