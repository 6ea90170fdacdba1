"""The writer process, with a test as its parent, core and upstream (tests/system/32-log-writer.t, 38-prune-live.t)."""
import array
import json
import os
import re
import select
import socket
import struct
import subprocess
import time

from harness import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
(P_CONFIG, P_WIRE, P_FD, P_GO, P_STOP, C_READY, C_LOG) = range(1, 8)
W_APPEND, W_ACK, W_LIVE, W_LIVE_END, W_FRAME = 70, 71, 72, 73, 75
CORE, UPSTREAM = 3, 5
IPC_VERSION = int(re.search(r"#define IPC_VERSION (\d+)", open(HERE + "/../../common/ipc.h").read()).group(1))
CHECKPOINT, ROOT = 1, 2


def lstr(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack(">I", len(s)) + s


class Wire:
    def __init__(self, sock):
        self.sock, self.buf = sock, b""

    def send(self, kind, body=b"", fds=()):
        msg = struct.pack(">IHH", len(body), kind, len(fds)) + body
        if fds:
            n = self.sock.sendmsg([msg], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
            msg = msg[n:]
        self.sock.sendall(msg)

    def recv(self, timeout=5):
        """(type, body), or None when the wire is gone or silent."""
        end = time.monotonic() + timeout
        while True:
            if len(self.buf) >= 8:
                n, kind, _ = struct.unpack(">IHH", self.buf[:8])
                if len(self.buf) >= 8 + n:
                    body, self.buf = self.buf[8:8 + n], self.buf[8 + n:]
                    return kind, body
            if not select.select([self.sock], [], [], max(0, end - time.monotonic()))[0]:
                return None
            try:
                data = self.sock.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            self.buf += data


class Writer:
    """Starts one, as the broker's parent would; .core and .upstream are its wires."""

    def __init__(self, state):
        mine, theirs = socket.socketpair()
        self.state, self.logs = state, []
        self.parent = Wire(mine)

        def child():
            os.dup2(theirs.fileno(), 3)

        self.p = subprocess.Popen([BUILD + "/cofferdam-writer"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, pass_fds=(3,), preexec_fn=child, env={"ASAN_OPTIONS": "detect_leaks=0"})  # which cannot work in a process that nobody may trace
        theirs.close()
        config = {"name": "writer", "origin": "broker.example/test", "log_level": "info"}
        if os.geteuid() == 0:
            config.update(uid=63101, gid=63101)
        self.parent.send(P_CONFIG, struct.pack(">I", IPC_VERSION) + lstr(json.dumps(config)))
        for name, path in (("log", "log"), ("log-key", "keys/log/seed"), ("log-vkey", "keys/log/vkey")):
            fd = os.open(state + "/" + path, os.O_RDONLY)
            self.parent.send(P_FD, lstr(name), [fd])
            os.close(fd)
        self.core, self.upstream = self.wire(CORE), self.wire(UPSTREAM)
        self.parent.send(P_GO)
        self.ready = self.wait(C_READY)
        self.live, self.size = self.greeting() if self.ready else ([], None)

    def wire(self, role):
        a, b = socket.socketpair()
        self.parent.send(P_WIRE, bytes([role]) + lstr(""), [b.fileno()])
        b.close()
        return Wire(a)

    def wait(self, want):
        while True:
            m = self.parent.recv()
            if m is None or m[0] == want:
                return m
            if m[0] == C_LOG:
                self.logs.append(m[1][5:].decode())

    def greeting(self):
        live = []
        while True:
            m = self.core.recv()
            if m is None:
                return live, None
            if m[0] == W_LIVE_END:
                return live, struct.unpack(">Q", m[1][:8])[0]
            n = struct.unpack(">I", m[1][:4])[0]
            live.append((json.loads(m[1][4:4 + n]), m[1][4 + n:]))

    def append(self, ticket, kind, data, run="", flags=0, src="broker", frames=()):
        body = data if isinstance(data, (bytes, str)) else json.dumps(data, sort_keys=True, separators=(",", ":"))
        self.core.send(W_APPEND, struct.pack(">QB", ticket, flags) + lstr(kind) + lstr(src) + lstr(run) + lstr(body)
                       + struct.pack(">I", len(frames)) + b"".join(map(lstr, frames)))

    def ack(self, timeout=5):
        m = self.core.recv(timeout)
        if m is None or m[0] != W_ACK:
            return None
        t, seq, size = struct.unpack(">QQQ", m[1][:24])
        return {"ticket": t, "seq": seq, "size": size, "root": m[1][24:56], "leaf": m[1][56:]}

    def end(self, how=None):
        """Exit status; with `how` a signal is sent, without P_STOP."""
        if how is None:
            self.parent.send(P_STOP)
        else:
            self.p.send_signal(how)
        self.wait(-1)
        return self.p.wait(10)

    def gone(self):
        self.wait(-1)
        return self.p.wait(10)
