"""The console of a Stack: its part of broker.json, a throwaway certificate, questions without a browser."""
import http.client
import json
import os
import socket
import ssl
import subprocess

from harness import free_port, must

HOST = "console.test"


def switch_on(stack, tls=True):
    """Before the broker starts. What the browser calls it is stack.console."""
    t = stack.t
    stack.console_port = free_port()
    stack.console_pem = t + "/console.pem"
    must(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
          "-keyout", t + "/console.key", "-out", stack.console_pem, "-subj", "/CN=" + HOST,
          "-addext", "subjectAltName=DNS:" + HOST])
    os.chmod(t + "/console.key", 0o600)
    stack.console = "https://%s:%d" % (HOST, stack.console_port)
    stack.console_tls = tls
    conf = {"listen": "127.0.0.1:%d" % stack.console_port, "origin": stack.console}
    if tls:
        conf.update(tls_cert=stack.console_pem, tls_key=t + "/console.key")
    path = stack.state + "/broker.json"
    with open(path, encoding="utf-8") as f:
        d = json.load(f)
    d["console"] = conf
    with open(path, "w", encoding="utf-8") as f:
        json.dump(d, f)


def invite(stack, person, signer, **kw):
    """The link that person is given."""
    r = stack.cli("invite", person, "--as", signer, "--key", stack.key(signer), "--yes", **kw)
    if r.returncode != 0:
        raise RuntimeError(r.stdout)
    return r.stdout.strip().split("\n")[-1]


class Answer:
    def __init__(self, r):
        self.status, self.headers, self.body = r.status, r.headers, r.read()

    def json(self):
        return json.loads(self.body)


class Client:
    """One person's HTTP client that is no browser; `cookie` is its session."""

    def __init__(self, stack):
        self.stack, self.cookie = stack, None

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.stack.console_port), 40)
        if not self.stack.console_tls:
            return s
        return ssl.create_default_context(cafile=self.stack.console_pem).wrap_socket(s, server_hostname=HOST)

    def ask(self, method, path, body=None, **fields):
        """fields: of the request, with _ for -; None: not sent."""
        h = {"Host": "%s:%d" % (HOST, self.stack.console_port)}
        if method == "POST":
            h.update({"Origin": self.stack.console, "X-Cofferdam": "1", "Content-Type": "application/json"})
        if self.cookie:
            h["Cookie"] = "__Host-cofferdam=" + self.cookie
        h.update({k.replace("_", "-"): v for k, v in fields.items()})
        c = http.client.HTTPConnection(HOST)
        c.sock = self.connect()
        data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
        if data is not None and isinstance(data, str):
            data = data.encode()
        c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if data is not None:
            h.setdefault("Content-Length", str(len(data)))
        for k, v in h.items():
            if v is not None:
                c.putheader(k, v)
        c.endheaders(data)
        a = Answer(c.getresponse())
        c.close()
        return a

    def sign_in(self, authenticator, person, **change):
        """With a software authenticator; the answer."""
        b = self.ask("POST", "/api/sign-in/begin", {}).json()
        text = "cofferdam-sign-in v1\nbroker: %s\norigin: %s\nnonce: %s\nend\n" % (
            self.stack.broker_name(), self.stack.console, b["nonce"])
        a = self.ask("POST", "/api/sign-in", {"nonce": b["nonce"], "person": person,
                                              "signature": json.dumps(authenticator.get(text.encode(), **change))})
        if a.status == 200:
            self.cookie = a.headers["Set-Cookie"].split("=", 1)[1].split(";")[0]
        return a
