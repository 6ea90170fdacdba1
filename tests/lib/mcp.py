"""Clients of the Model Context Protocol, on raw pipes and sockets: both eras, over stdio and over Streamable HTTP."""
import itertools
import json
import queue
import socket
import ssl
import subprocess
import threading

MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"


def modern(params=None, token=None, version=MODERN, **meta):
    m = {META + "protocolVersion": version, META + "clientCapabilities": {}, META + "clientInfo": {"name": "test", "version": "1"}}
    if token is not None:
        m["progressToken"] = token
    m.update(meta)
    return dict(params or {}, _meta=m)


def hello(version=LEGACY):
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Stdio:
    """One server process. call() waits for the answer of its request; what comes beside it is in .others."""

    def __init__(self, argv, env=None, stderr=subprocess.DEVNULL, era=MODERN):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env)
        self.ids, self.answers, self.others, self.lines = itertools.count(1), {}, [], queue.Queue()
        self.era, self.every = era, []  # every: each line of its output, as it came
        threading.Thread(target=self.read, daemon=True).start()
        if era != MODERN:
            self.hello = self.call("initialize", hello(era))
            self.tell("notifications/initialized")

    def read(self):
        for line in self.p.stdout:
            self.every.append(line)
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def raw(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def tell(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def ask(self, method, params=None, token=None):
        i = next(self.ids)
        params = modern(params, token) if self.era == MODERN else params
        if token is not None and self.era != MODERN:
            params = dict(params, _meta={"progressToken": token})
        self.send({"jsonrpc": "2.0", "id": i, "method": method, **({"params": params} if params is not None else {})})
        return i

    def next(self, seconds=60):
        m = self.lines.get(timeout=seconds)
        if m is None:
            raise EOFError("the server has ended")
        return m

    def wait(self, i, seconds=60):
        while i not in self.answers:
            m = self.next(seconds)
            if "id" in m and "method" not in m:
                self.answers[m["id"]] = m
            else:
                self.others.append(m)
        return self.answers.pop(i)

    def call(self, method, params=None, token=None, seconds=60):
        return self.wait(self.ask(method, params, token), seconds)

    def tool(self, name, arguments=None, token=None, seconds=60):
        return Tool(self.call("tools/call", {"name": name, "arguments": arguments or {}}, token, seconds))

    def end(self):
        self.p.stdin.close()
        return self.p.wait(30)


class Tool:
    """A tool's result: .data is its structured content, .text what stands in it."""

    def __init__(self, message):
        self.message = message
        self.result = message.get("result", {})
        self.failed = self.result.get("isError", "error" in message)
        self.data = self.result.get("structuredContent", {})
        self.text = "".join(c.get("text", "") for c in self.result.get("content", [])) or json.dumps(message.get("error"))


class Answer:
    def __init__(self, status, fields, body, events):
        self.status, self.fields, self.body, self.events = status, fields, body, events
        self.message = events[-1] if events else (json.loads(body) if body else None)


class Http:
    """One server by its URL; each request a connection of its own."""

    def __init__(self, port, token=None, era=MODERN, tls=None, host=None):
        self.port, self.token, self.era, self.tls, self.session = port, token, era, tls, None
        self.host = host or "127.0.0.1:%d" % port
        self.ids = itertools.count(1)
        if era != MODERN:
            a = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(era)}, version=None)
            self.hello = a
            self.session = a.fields.get("mcp-session-id")
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), 60)
        return self.tls.wrap_socket(s, server_hostname="127.0.0.1") if self.tls else s

    def head(self, verb, fields, version=""):
        out = {"Host": self.host}
        if self.token:
            out["Authorization"] = "Bearer " + self.token
        if self.session:
            out["Mcp-Session-Id"] = self.session
        if version is not None:
            out["MCP-Protocol-Version"] = version or self.era
        out.update(fields)
        lines = ["%s /mcp HTTP/1.1" % verb] + ["%s: %s" % (k, v) for k, v in out.items() if v is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def begin(self, message, fields=None, version="", raw=None):
        """The request is out; the socket, to be read or closed."""
        body = raw if raw is not None else json.dumps(message).encode()
        f = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Content-Length": str(len(body))}
        if message and self.era == MODERN:
            f["Mcp-Method"] = message.get("method")
            if message.get("method") == "tools/call":
                f["Mcp-Name"] = message["params"]["name"]
        f.update(fields or {})
        s = self.connect()
        s.sendall(self.head("POST", f, version) + body)
        return s

    def post(self, message, fields=None, version="", raw=None):
        with self.begin(message, fields, version, raw) as s:
            return answer(s)

    def verb(self, verb, fields=None, version=""):
        s = self.connect()
        s.sendall(self.head(verb, dict({"Accept": "text/event-stream"}, **(fields or {})), version))
        return s

    def message(self, method, params=None, token=None):
        if self.era == MODERN:
            params = modern(params, token)
        elif token is not None:
            params = dict(params, _meta={"progressToken": token})
        return {"jsonrpc": "2.0", "id": next(self.ids), "method": method, **({"params": params} if params is not None else {})}

    def call(self, method, params=None, token=None):
        return self.post(self.message(method, params, token))

    def tool(self, name, arguments=None, token=None):
        return Tool(self.call("tools/call", {"name": name, "arguments": arguments or {}}, token).message or {})


def answer(s):
    f = s.makefile("rb")
    line = f.readline()
    if not line:
        return Answer(0, {}, b"", [])
    status = int(line.split()[1])
    fields = {}
    while (line := f.readline().strip()):
        k, _, v = line.decode("latin-1").partition(":")
        fields[k.lower()] = v.strip()
    if fields.get("transfer-encoding") == "chunked":
        body = b""
        while (n := int(f.readline(), 16)):
            body += f.read(n)
            f.readline()
        f.readline()
    else:
        body = f.read(int(fields.get("content-length", 0)))
    events = []
    if fields.get("content-type") == "text/event-stream":
        for part in body.decode().split("\n\n"):
            data = "".join(x[6:] for x in part.split("\n") if x.startswith("data: "))
            if data:
                events.append(json.loads(data))
    return Answer(status, fields, body, events)


def client_tls(ca, pair=None):
    c = ssl.create_default_context(cafile=ca)
    if pair:
        c.load_cert_chain(*pair)
    return c
