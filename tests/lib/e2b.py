"""A plain client of cofferdam-sandboxd, and the server itself: what E2B's SDKs send, byte by byte."""
import atexit
import base64
import http.client
import json
import os
import queue
import socket
import struct
import subprocess
import threading
import urllib.parse

from harness import BUILD, ending, stops, wait_for

KEYS = {"alice": "key-alice-0123456789abcdef", "bob": "key-bob-0123456789abcdefgh"}


class Server:
    def __init__(self, st, *options, keys=None, wait=True):
        self.keys_file = st.t + "/apikeys"
        with open(self.keys_file, "w", encoding="ascii") as f:
            f.write("".join("%s %s\n" % k for k in (keys or KEYS).items()))
        os.chmod(self.keys_file, 0o600)
        limits = [] if os.getuid() == 0 else ["--limits-optional"]
        self.log = st.t + "/sandboxd.log"
        with ending, open(self.log, "ab") as log:
            self.p = subprocess.Popen([BUILD + "/cofferdam-sandboxd", "--keys", self.keys_file, "--state", st.state, "--listen",
                                       "127.0.0.1:0", *limits, *options], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=log, encoding="utf-8")
        stops.append(self.stop)
        atexit.register(self.stop)
        line = self.p.stdout.readline()
        if not line.startswith("listening at "):
            raise RuntimeError("sandboxd does not come up:\n" + open(self.log, encoding="utf-8").read())
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        if self.p.poll() is None:
            self.p.terminate()
            self.p.wait(20)

    def children(self):
        with open("/proc/%d/task/%d/children" % (self.p.pid, self.p.pid), encoding="ascii") as f:
            return [int(c) for c in f.read().split()]

    def open(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=(), key="alice"):
        """Status, headers, body; JSON where it is."""
        c = self.open()
        h = dict(headers)
        if key is not None:
            h.setdefault("X-API-KEY", KEYS.get(key, key))
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            h.setdefault("Content-Type", "application/json")
        try:
            c.request(method, path, body, h)
            r = c.getresponse()
            raw = r.read()
        finally:
            c.close()
        if (r.getheader("Content-Type") or "").startswith("application/json"):
            raw = json.loads(raw)
        return r.status, r.headers, raw

    def create(self, key="alice", **body):
        answers = []

        def asked():  # one whose time is over counts until nothing of it is left
            answers.append(self.ask("POST", "/v2/sandboxes", dict({"templateID": "base", "timeout": 300}, **body), key=key))
            return answers[-1][0] != 429

        wait_for(asked)
        status, _, r = answers[-1]
        if status != 201:
            raise RuntimeError("create: %d %r" % (status, r))
        return Box(self, r, key)


def envelope(message, flags=0):
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(raw)) + raw


class Stream:
    """Messages of a stream, as they come."""

    def __init__(self, box, path, message, headers=()):
        self.conn = box.server.open()
        self.conn.request("POST", path, envelope(message), dict({"Content-Type": "application/connect+json"}, **box.headers(headers)))
        self.r = self.conn.getresponse()
        self.status = self.r.status

    def read(self, n):
        out = b""
        while len(out) < n:
            piece = self.r.read(n - len(out))
            if not piece:
                raise EOFError("the stream is cut")
            out += piece
        return out

    def next(self):
        """(flags, message)"""
        flags, n = struct.unpack(">BI", self.read(5))
        return flags, json.loads(self.read(n))

    def close(self):
        self.conn.close()


class Box:
    def __init__(self, server, r, key="alice"):
        self.server, self.id, self.key = server, r["sandboxID"], key
        self.token, self.traffic = r["envdAccessToken"], r["trafficAccessToken"]

    def headers(self, more=()):
        return dict({"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token}, **dict(more))

    def ask(self, method, path, body=None, headers=()):
        return self.server.ask(method, path, body, self.headers(headers), key=None)

    def call(self, name, message):
        status, _, r = self.ask("POST", "/" + name, message)
        return status, r

    def control(self, method, what="", body=None):
        return self.server.ask(method, "/sandboxes/" + self.id + what, body, key=self.key)

    def health(self):
        return self.ask("GET", "/health")[0]

    def start(self, argv, headers=(), **more):
        message = {"process": {"cmd": argv[0], "args": argv[1:], "envs": more.pop("envs", {})}, "stdin": False}
        if "cwd" in more:
            message["process"]["cwd"] = more.pop("cwd")
        message.update(more)
        return Stream(self, "/process.Process/Start", message, headers)

    def run(self, script, headers=(), **more):
        """As commands.run: {"stdout", "stderr", "exitCode", "error", "end"}; end is the last message's error, if any."""
        s = self.start(["/bin/bash", "-l", "-c", script], headers, **more)
        out = {"stdout": b"", "stderr": b"", "pty": b"", "exitCode": None, "error": None, "end": None, "pid": None}
        while True:
            flags, m = s.next()
            if flags == 2:
                out["end"] = m.get("error")
                break
            event = m["event"]
            out["pid"] = event.get("start", {}).get("pid", out["pid"])
            for k, v in event.get("data", {}).items():
                out[k] += base64.b64decode(v)
            if "end" in event:
                out["exitCode"], out["error"] = event["end"]["exitCode"], event["end"].get("error")
        s.close()
        for k in ("stdout", "stderr", "pty"):
            out[k] = out[k].decode(errors="replace")
        return out

    def read(self, path):
        return self.ask("GET", "/files?path=" + urllib.parse.quote(path))

    def write(self, path, content, kind="application/octet-stream"):
        return self.ask("POST", "/files?path=" + urllib.parse.quote(path), content, {"Content-Type": kind})

    def execute(self, code, **more):
        """Lines of JSON, parsed."""
        status, _, raw = self.ask("POST", "/execute", dict({"code": code}, **more))
        return [json.loads(line) for line in raw.decode().splitlines()] if status == 200 else (status, raw)

    def kill(self):
        return self.control("DELETE")[0]


def at_once(n, job, threads=8):
    """Results of job(0) .. job(n-1); an exception is a result."""
    todo, out = queue.Queue(), [None] * n
    for i in range(n):
        todo.put(i)

    def work():
        while True:
            try:
                i = todo.get_nowait()
            except queue.Empty:
                return
            try:
                out[i] = job(i)
            except Exception as e:  # the test looks at it
                out[i] = e

    ts = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return out


def raw(port, data, shut=True):
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(data)
        if shut:
            s.shutdown(socket.SHUT_WR)
        out = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return out
            out += piece
