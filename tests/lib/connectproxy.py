"""A forward proxy for tests: CONNECT with Basic, names resolved by its own table, answers by script."""
import base64
import socket
import ssl
import threading


class ConnectProxy:
    """`names`: host -> address. `heads`: each head that came; `through`: authorities that were connected.
    `script`: what it answers instead (bytes), `{auth}` being what it was authorised by."""

    def __init__(self, names, user=None, secret=None, cert=None, address="127.0.0.1"):
        self.names, self.heads, self.through, self.script = names, [], [], None
        self.want = "Basic " + base64.b64encode(("%s:%s" % (user, secret)).encode()).decode() if user else None
        self.ctx = None
        if cert:
            self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.ctx.load_cert_chain(*cert)
        self.l = socket.socket()
        self.l.bind((address, 0))
        self.l.listen(64)
        self.port = self.l.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.l.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        try:
            if self.ctx:
                s = self.ctx.wrap_socket(s, server_side=True)
            self.one(s)
        except OSError:
            pass
        finally:
            s.close()

    def one(self, s):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            b = s.recv(1)
            if not b:
                return
            head += b
        self.heads.append(head.decode("latin-1"))
        line, *fields = head[:-4].decode("latin-1").split("\r\n")
        method, authority, _ = line.split(" ")
        auth = dict(f.split(": ", 1) for f in fields).get("Proxy-Authorization")
        host, port = authority.rsplit(":", 1)
        if self.script:
            s.sendall(self.script.replace(b"{auth}", (auth or "").encode()))
        elif auth != self.want:
            s.sendall(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 0\r\n\r\n")
        elif method != "CONNECT" or host not in self.names:
            s.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
        else:
            self.relay(s, authority, (self.names[host], int(port)))

    def relay(self, s, authority, to):
        t = socket.create_connection(to)
        self.through.append((authority, t.getsockname()[1]))
        s.sendall(b"HTTP/1.1 200 Go\r\nX-Of-Proxy: yes\r\n\r\n")
        threading.Thread(target=self.pump, args=(t, s), daemon=True).start()
        self.pump(s, t)

    @staticmethod
    def pump(a, b):
        try:
            while True:
                d = a.recv(65536)
                if not d:
                    break
                b.sendall(d)
        except OSError:
            pass
        try:
            b.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
