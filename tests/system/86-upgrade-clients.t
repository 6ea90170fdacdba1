#!/usr/bin/python3
"""NET-10 of the field cases with programs as they are: a WebSocket library at both ends, and kubectl exec, attach and
port-forward by SPDY. A client of the real sandbox is among them."""
import asyncio
import hashlib
import json
import os
import shutil
import ssl
import sys
import threading
import time

import websockets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import PROXY, Http, HostRun, Stack, Tap, Temp, run, wait_for
from k8sorigin import K8s
from origin import Ca, Origin
from rawhttp import context
from spdyexec import Session
from wsorigin import switch

tap = Tap()
temp = Temp("upgrade-clients")
ca = Ca(temp.path + "/ca")


class Server:
    """websockets.serve in a thread of its own: echoes, and says what it was asked with."""

    def __init__(self, host):
        self.host, self.tls, self.ca, self.address = host, True, ca, "127.0.0.1"
        self.heads, self.closed, self.ready = [], [], threading.Event()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.main, daemon=True).start()
        self.ready.wait(20)

    @property
    def origin(self):
        return "https://" + self.authority

    @property
    def authority(self):
        return "%s:%d" % (self.host, self.port)

    def main(self):
        asyncio.set_event_loop(self.loop)
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(*ca.issue(self.host))

        async def serve():
            s = await websockets.serve(self.one, "127.0.0.1", 0, ssl=ctx, max_size=1 << 25, subprotocols=["chat.v2", "chat.v1"])
            self.port = s.sockets[0].getsockname()[1]
            self.ready.set()
        self.loop.run_until_complete(serve())
        self.loop.run_forever()

    async def one(self, ws):
        self.heads.append(dict(ws.request_headers))
        try:
            async for m in ws:
                await ws.send("the secret is " + ws.request_headers["Authorization"][7:] if m == "tell me" else m)
        except websockets.ConnectionClosed:
            pass
        self.closed.append((ws.close_code, time.monotonic()))


chat = Server("chat.test")
api = Origin(temp.path, "k8s.test", ca=ca)
k8s_target = Http(api, placeholder="KUBE_TOKEN", upgrade={"SPDY/3.1": ["write"]})
k8s_target.more["kind"] = "k8s"
chat_target = Http(chat, upgrade={"websocket": ["read", "write"]}, placeholder="CHAT_TOKEN")
cluster = K8s(api, [k8s_target.secret])
st = Stack(temp, None, http={"chat": chat_target, "cluster": k8s_target})
hr = HostRun(st)


def last():
    return st.acts()[-1]


def client(how, **kw):
    x = hr.tcp("chat") if how == "direct" else hr.tcp(PROXY)
    if how == "proxy":
        x.connect(chat.authority)
    x.s.setblocking(False)
    return websockets.connect("wss://%s/room" % chat.authority, sock=x.s, ssl=context(st.run_ca(), alpn=()), server_hostname="chat.test",
                                    max_size=1 << 25, **kw)


async def talk(how):
    async with client(how, subprotocols=["chat.v1"]) as ws:
        tap.eq((ws.subprotocol, [e.name for e in ws.extensions]), ("chat.v1", []), "NET-10: a library agrees on a subprotocol, and on no compression (%s)" % how)
        for m in ("hello", b"\0\1\2", "", "ü" * 5000):
            await ws.send(m)
            tap.eq(await ws.recv(), m, "NET-10: %d of %s come back (%s)" % (len(m), type(m).__name__, how))
        big = os.urandom(10 << 20)
        await ws.send(big)
        got = await ws.recv()
        tap.eq((len(got), hashlib.sha256(got).digest()), (len(big), hashlib.sha256(big).digest()), "NET-10: 10 MiB come back exactly (%s)" % how)
        t0 = time.monotonic()
        await (await ws.ping())
        tap.ok(time.monotonic() - t0 < 5, "NET-10: it is pinged (%s)" % how)
        n = 500
        for i in range(n):
            await ws.send(str(i))
        tap.ok([await ws.recv() for _ in range(n)] == [str(i) for i in range(n)], "NET-10: %d messages in a row, in order (%s)" % (n, how))
        await ws.send("tell me")
        m = await ws.recv()
        tap.ok(chat_target.secret not in m and m.startswith("the secret is "), "NET-10: a secret is not told (%s)" % how)
    tap.eq(ws.close_code, 1000, "NET-10: it ends in order (%s)" % how)


for how in ("direct", "proxy"):
    asyncio.run(talk(how))
    out = st.outcome(last()["action"])
    tap.eq((out["status"], out["http_status"], out["reflected_credential"]), ("ok", 101, 1), "NET-10: and on the record (%s)" % how)
tap.ok(all(h["authorization"] == "Bearer " + chat_target.secret and "sec-websocket-extensions" not in h for h in chat.heads),
       "NET-10: the library's server sees the broker's credential, and no extension", chat.heads)


async def cut():
    ws = await client("direct")
    await ws.send("here")
    await ws.recv()
    r = st.cli("freeze", "start", "--reason", "stop", "--target", "chat", "--as", "dana", "--key", st.key("dana"), "--yes")
    try:
        await asyncio.wait_for(ws.recv(), 5)
        return r, 0
    except websockets.ConnectionClosed as e:
        return r, e.code

r, code = asyncio.run(cut())
tap.eq(code, 1006, "NET-10: a freeze breaks it off, as the library tells")
tap.ok(wait_for(lambda: chat.closed and chat.closed[-1][0] == 1006, 5), "NET-10: at both ends", chat.closed)
try:
    asyncio.run(talk("direct"))
    code = 101
except websockets.InvalidStatusCode as e:
    code = e.status_code
tap.eq(code, 403, "NET-10: in the freeze there is no new one")
fid = st.cli("status", "--json").stdout
for f in json.loads(fid)["freezes"]:
    for p in ("dana", "omar"):
        st.cli("freeze", "lift", f["id"], "--as", p, "--key", st.key(p), "--yes")

# --- kubectl -----------------------------------------------------------------------------------------------------
ENV = {"PATH": "/usr/bin:/bin", "HOME": temp.path + "/home", "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY])}
os.makedirs(ENV["HOME"])
KUBE = temp.path + "/kubeconfig"
with open(KUBE, "w", encoding="utf-8") as f:
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "preferences": {},
               "clusters": [{"name": "c", "cluster": {"server": api.origin, "certificate-authority": st.run_ca()}}],
               "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "payments"}}],
               "users": [{"name": "u", "user": {"token": hr.env["KUBE_TOKEN"]}}]}, f)
cluster.objects["/api/v1/namespaces/payments/pods/p1"]["status"] = {"phase": "Running"}
asked = []


def streams(req, c):
    asked.append(req)
    if req.get("Authorization") != "Bearer " + k8s_target.secret:
        cluster.status(c, 401, "Unauthorized", "who is it?")
        return
    c.send(switch(req, [("X-Stream-Protocol-Version", "v4.channel.k8s.io")]))
    Session(c, req.args.get("stdin") == "true", b"uid=0(root) " + req.args.get("command", "").encode() + b"\n").run()


for verb in ("exec", "attach"):
    api.on("/api/v1/namespaces/payments/pods/p1/" + verb, streams, early=True)
api.on("/api/v1/namespaces/payments/pods/p2/exec", lambda req, c: cluster.status(c, 400, "BadRequest", "there is no such container"))


def kubectl(*argv, **kw):
    return run(["kubectl", "--kubeconfig", KUBE, "--cache-dir", temp.path + "/kubecache", *argv], env=ENV, **kw)


if not shutil.which("kubectl"):
    raise RuntimeError("no kubectl: make deps installs it")
r = kubectl("exec", "p1", "--", "id")
tap.eq((r.returncode, r.stdout), (0, "uid=0(root) id\n"), "NET-10: kubectl exec")
act = last()
tap.eq((act["request"]["http"]["upgrade"].upper(), act["request"]["effects"], act["request"]["input"]["relations"]),
       ("SPDY/3.1", ["write"], ["payments/pods/p1/exec"]), "NET-10: an action by the pod's name, with what the policy says of such streams")
tap.eq(asked[-1].get("X-Stream-Protocol-Version") is not None and asked[-1].get("Connection"), "Upgrade", "NET-10: (with kubectl's own fields)")
out = st.outcome(act["action"])
tap.ok(out["http_status"] == 101 and out["answer_bytes"] > 0 and out["body_bytes"] > 0 and out["status"] in ("ok", "broken"), "NET-10: and its outcome", out)
text = "".join("line %d of what is piped in\n" % i for i in range(3000))
r = kubectl("exec", "-i", "p1", "--", "cat", stdin=None, input=text)
tap.eq((r.returncode, r.stdout), (0, "uid=0(root) cat\n" + text), "NET-10: kubectl exec -i: %d KB through it and back" % (len(text) >> 10))
r = kubectl("attach", "p1")
tap.ok(r.returncode == 0 and "uid=0(root)" in r.stdout, "NET-10: kubectl attach", r.stdout)
r = kubectl("exec", "p2", "--", "id")
tap.ok(r.returncode != 0 and "no such container" in r.stdout, "NET-10: an answer instead reaches kubectl", r.stdout)
st.reload({"rules": [{"id": "read", "permit": {"effects": {"only": ["@data"]}}},
                     {"id": "p2", "permit": {"effects": {"only": ["write"]}, "resource": ["payments/pods/p2/*"]}}]})
n = len(asked)
r = kubectl("exec", "p1", "--", "id")
tap.ok(r.returncode != 0 and len(asked) == n and "Forbidden" in r.stdout, "NET-10: rules by the pod's name hold for streams, and kubectl says why", r.stdout)

# --- in the real sandbox -------------------------------------------------------------------------------------------
st.reload({})
code = """
import asyncio, os, ssl, sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import socket, websockets
async def main():
    host, port = "chat.test", %d
    s = socket.create_connection((host, port))
    s.setblocking(False)
    async with websockets.connect("wss://%%s:%%d/room" %% (host, port), sock=s, ssl=ssl.create_default_context(), server_hostname=host,
                                  extra_headers={"Authorization": "Bearer " + os.environ["CHAT_TOKEN"]}) as ws:
        await ws.send("from the sandbox")
        print(await ws.recv())
asyncio.run(main())
""" % chat.port
r = st.sandbox("/usr/bin/python3", "-c", code)
tap.eq(r.stdout, "from the sandbox\n", "NET-10: a program in the sandbox, with its placeholder") or print("# " + r.stderr[-1500:])
st.stop()
tap.done()
