"""A stand-in for the parent and core, to test the real front and upstream alone.

Speaks the frames of common/ipc_msg.tbl, starts both programs, answers F_LEAF_ASK with a throwaway
CA, and judges with one regular expression: what matches is refused, all else is allowed. A comment
/*limit N*/ in a statement leases it with max_rows N. Runs in a thread of the test.
"""
import array
import json
import os
import re
import selectors
import socket
import struct
import subprocess
import threading

import sanitizers
from harness import ipc_version

VERSION = ipc_version()
PARENT, FRONT, CORE, PARSER, UPSTREAM, WRITER = 1, 2, 3, 4, 5, 6
(P_CONFIG, P_WIRE, P_FD, P_GO, P_STOP, C_READY, C_LOG) = range(1, 8)
(F_LISTEN, F_UNLISTEN, F_LEAF_ASK, F_LEAF, PG_OPEN, PG_OPENED, PG_ACT, PG_REFUSED, PG_DONE, PG_CLOSE,
 PG_GONE, PG_CANCEL) = range(20, 32)
(U_OPEN, U_OPENED, U_SEND, U_DONE, U_CLOSE, U_GONE, U_CANCEL, U_CANCELLED) = range(40, 48)

COPY_IN = re.compile(rb"copy\b.*\bfrom\s+stdin", re.I | re.S)


def lstr(b):
    if isinstance(b, str):
        b = b.encode()
    return struct.pack(">I", len(b)) + b


class Rd:
    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        assert self.at + n <= len(self.b), "short message"
        self.at += n
        return self.b[self.at - n:self.at]

    def num(self, fmt):
        return struct.unpack(">" + fmt, self.take(struct.calcsize(">" + fmt)))[0]

    def lstr(self):
        return self.take(self.num("I"))

    def text(self):
        return self.lstr().decode("utf-8", "strict")

    def pairs(self):
        return [(self.lstr(), self.lstr()) for _ in range(self.num("I"))]

    def end(self):
        assert self.at == len(self.b), "trailing bytes"


class Wire:
    def __init__(self, sock, handler, name):
        self.sock, self.handler, self.name, self.buf, self.out = sock, handler, name, b"", b""
        self.open = True
        sock.setblocking(False)

    def send(self, typ, body=b"", fds=()):
        if not self.open:
            return
        frame = struct.pack(">IHH", len(body), typ, len(fds)) + body
        if fds:  # the descriptors go with the frame's first byte
            self.flush(True)
            anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            n = self.sock.sendmsg([frame], anc)
            self.out += frame[n:]
        else:
            self.out += frame
        self.flush(False)

    def flush(self, wait):
        while self.out:
            try:
                self.out = self.out[self.sock.send(self.out):]
            except BlockingIOError:
                if not wait:
                    return
            except OSError:
                self.open = False
                return


def messages(b):
    out = []
    while b:
        n = 1 + struct.unpack(">I", b[1:5])[0]
        out.append((b[:1].decode(), b[5:n], b[:n]))
        b = b[n:]
    return out


def z(b):
    at = b.index(b"\0")
    return b[:at], b[at + 1:]


class Conn:
    def __init__(self, cid):
        self.id, self.txn, self.stmts, self.portals, self.open, self.pairs, self.skip = cid, "I", {}, {}, False, [], False
        self.act = None


class Core:
    def __init__(self, build, tmp, target, deny="xyzzy", uids=(63102, 63105)):
        self.build, self.tmp, self.target = build, tmp, target
        self.deny = re.compile(deny.encode(), re.I)
        self.uids = uids
        self.conns, self.log, self.done, self.opened, self.gone, self.cancelled = {}, [], [], [], [], []
        self.cancels = 0
        self.hold_done = None      # a list: PG_DONE frames wait in it
        self.close_next = False    # refuse the next act with how=0
        self.ready = set()
        self.acts = 0
        self.lock = threading.RLock()
        self.sel = selectors.DefaultSelector()
        self.procs, self.parents = {}, {}
        self.front = self.upstream = None
        self.listeners = {}
        self.make_ca()
        r, self.wake_w = os.pipe()
        self.sel.register(r, selectors.EVENT_READ, None)
        self.wake_r = r
        self.stop_flag = False
        self.start("front")
        self.start("upstream")
        self.join()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()
        self.wait(lambda: self.ready == {"front", "upstream"})

    # --- processes and wires
    def start(self, name):
        ours, theirs = socket.socketpair()
        fd = theirs.fileno()

        # A confined process cannot look for leaks: that needs /proc.
        env = {} if os.environ.get("MODE", "opt") == "opt" else {"ASAN_OPTIONS": "detect_leaks=0"}

        def child():
            os.dup2(fd, 3)
            os.set_inheritable(3, True)
        p = subprocess.Popen([self.build + "/cofferdam-" + name], pass_fds=(3,), preexec_fn=child, env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sanitizers.errors(name))
        theirs.close()
        w = Wire(ours, self.from_child(name), "parent-" + name)
        self.procs[name], self.parents[name] = p, w
        self.add(w)
        cfg = {"name": name, "origin": "test", "log_level": "debug"}
        if os.getuid() == 0:
            uid = self.uids[0 if name == "front" else 1]
            cfg.update(uid=uid, gid=uid)
        w.send(P_CONFIG, struct.pack(">I", VERSION) + lstr(json.dumps(cfg)))
        w.going = False

    def give(self, name, role):
        ours, theirs = socket.socketpair()
        self.parents[name].send(P_WIRE, struct.pack(">B", role) + lstr(""), [theirs.fileno()])
        theirs.close()
        return ours

    def go(self, name):
        if not self.parents[name].going:
            self.parents[name].going = True
            self.parents[name].send(P_GO)

    def join(self):
        """Wires between all that live: front-core, upstream-core, upstream-front."""
        for old in (self.front, self.upstream):
            if old is not None:
                self.drop(old)
        self.front = Wire(self.give("front", CORE), self.from_front, "front")
        self.upstream = Wire(self.give("upstream", CORE), self.from_upstream, "upstream")
        a, b = socket.socketpair()
        self.parents["front"].send(P_WIRE, struct.pack(">B", UPSTREAM) + lstr(""), [a.fileno()])
        self.parents["upstream"].send(P_WIRE, struct.pack(">B", FRONT) + lstr(""), [b.fileno()])
        a.close()
        b.close()
        self.add(self.front)
        self.add(self.upstream)
        self.go("front")
        self.go("upstream")

    def restart(self, name):
        with self.lock:
            self.drop(self.parents[name])
            self.procs[name].wait()
            self.ready.discard(name)
            self.conns.clear()
            self.start(name)
            self.join()
            # Front drops its listeners with the wire to core.
            for i, (s, host, run) in self.listeners.items():
                self.tell_listen(i, s, host, run)
        os.write(self.wake_w, b"x")
        self.wait(lambda: name in self.ready)

    def add(self, w):
        self.sel.register(w.sock, selectors.EVENT_READ, w)

    def drop(self, w):
        if w.open or w.sock.fileno() >= 0:
            try:
                self.sel.unregister(w.sock)
            except (KeyError, ValueError):
                pass
            w.open = False
            w.sock.close()

    def wait(self, cond, seconds=20):
        import time
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if cond():
                return True
            time.sleep(0.01)
        raise RuntimeError("stand-in core: timed out\n" + "\n".join(self.log[-20:]))

    def loop(self):
        while not self.stop_flag:
            for key, ev in self.sel.select(0.2):
                w = key.data
                if w is None:
                    os.read(self.wake_r, 100)
                    continue
                with self.lock:
                    self.readable(w)
            with self.lock:
                for w in (self.front, self.upstream):
                    w.flush(False)

    def readable(self, w):
        if not w.open:
            return
        try:
            b = w.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            b = b""
        if not b:
            self.drop(w)
            return
        w.buf += b
        while len(w.buf) >= 8:
            n, typ, _ = struct.unpack(">IHH", w.buf[:8])
            if len(w.buf) < 8 + n:
                break
            body, w.buf = w.buf[8:8 + n], w.buf[8 + n:]
            w.handler(typ, Rd(body))

    def from_child(self, name):
        def handler(typ, rd):
            if typ == C_READY:
                self.ready.add(name)
            elif typ == C_LOG:
                rd.num("B")
                self.log.append(name + ": " + rd.text())
        return handler

    def stop(self):
        self.stop_flag = True
        os.write(self.wake_w, b"x")
        self.thread.join()
        for name, w in self.parents.items():
            w.send(P_STOP)
        codes = {}
        for name, p in self.procs.items():
            try:
                codes[name] = p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                codes[name] = p.wait()
        return codes

    def kill(self):
        self.stop_flag = True
        for p in self.procs.values():
            if p.poll() is None:
                p.kill()
                p.wait()

    # --- certificates
    def make_ca(self):
        d = self.tmp + "/runca"
        os.makedirs(d, exist_ok=True)
        self.ca = d + "/ca.pem"
        self.ca_key = d + "/ca.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=run CA", "-keyout", self.ca_key, "-out", self.ca],
                       check=True, stderr=subprocess.DEVNULL)
        self.leaves = 0
        self.refuse_leaf = False

    def leaf(self, host, spki):
        self.leaves += 1
        d = self.tmp + "/runca/%d" % self.leaves
        with open(d + ".der", "wb") as f:
            f.write(spki)
        with open(d + ".ext", "w") as f:
            f.write("subjectAltName=DNS:%s\n" % host)
        subprocess.run(["openssl", "pkey", "-pubin", "-inform", "DER", "-in", d + ".der", "-out", d + ".pub"], check=True)
        subprocess.run(["openssl", "x509", "-new", "-subj", "/CN=" + host, "-force_pubkey", d + ".pub", "-CA", self.ca,
                        "-CAkey", self.ca_key, "-days", "1", "-extfile", d + ".ext", "-out", d + ".pem"], check=True,
                       stderr=subprocess.DEVNULL)
        with open(d + ".pem", "rb") as f:
            return f.read()

    # --- listeners
    def listen(self, host, run="r-test"):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(128)
        with self.lock:
            i = len(self.listeners) + 1
            self.listeners[i] = (s, host, run)
            self.tell_listen(i, s, host, run)
        return s.getsockname()[1]

    def tell_listen(self, i, s, host, run):
        self.front.send(F_LISTEN, struct.pack(">IB", i, 1) + lstr(run) + lstr("db") + lstr(host) +
                        struct.pack(">I", 5432), [s.fileno()])

    def unlisten(self, run):
        with self.lock:
            for i in [i for i, v in self.listeners.items() if v[2] == run]:
                self.listeners.pop(i)[0].close()
            self.front.send(F_UNLISTEN, lstr(run))

    # --- front
    def from_front(self, typ, rd):
        if typ == F_LEAF_ASK:
            i, host, spki = rd.num("I"), rd.lstr(), rd.lstr()
            rd.end()
            pem = b"" if self.refuse_leaf else self.leaf(self.listeners[i][1], spki)
            self.front.send(F_LEAF, struct.pack(">I", i) + lstr(host) + lstr(pem))
        elif typ == PG_OPEN:
            c = Conn(rd.num("Q"))
            rd.num("I")
            self.version = rd.num("I")
            pairs = rd.pairs()
            rd.end()
            c.pairs = pairs
            self.conns[c.id] = c
            t = self.target
            extra = [(k, v) for k, v in pairs if k not in (b"user", b"database")]
            body = struct.pack(">Q", c.id) + lstr("r-test") + lstr(t["host"]) + lstr(t.get("address", ""))
            body += struct.pack(">I", t["port"]) + lstr(t["database"]) + lstr(t["user"])
            body += struct.pack(">B", t.get("tls", 1)) + lstr(t.get("ca", b"")) + lstr(t["password"])
            body += struct.pack(">I", len(extra)) + b"".join(lstr(k) + lstr(v) for k, v in extra)
            self.upstream.send(U_OPEN, body)
        elif typ == PG_ACT:
            cid, act, kind, b = rd.num("Q"), rd.num("Q"), rd.num("B"), rd.lstr()
            rd.end()
            self.acts += 1
            if cid in self.conns:
                self.act(self.conns[cid], act, kind, b)
        elif typ == PG_CLOSE:
            cid = rd.num("Q")
            rd.end()
            if self.conns.pop(cid, None) is not None:
                self.upstream.send(U_CLOSE, struct.pack(">QB", cid, 0))
        elif typ == PG_CANCEL:
            cid = rd.num("Q")
            rd.end()
            self.cancels += 1
            if cid in self.conns and self.conns[cid].act is not None:
                self.upstream.send(U_CANCEL, struct.pack(">QQ", cid, self.conns[cid].act))
        else:
            raise AssertionError("front sent %d" % typ)

    def refuse(self, c, act, how, sqlstate, message, detail="", hint=""):
        self.front.send(PG_REFUSED, struct.pack(">QQB", c.id, act, how) + lstr(sqlstate) + lstr(message) + lstr(detail) +
                        lstr(hint) + lstr(""))

    def act(self, c, act, kind, b):
        if self.close_next:
            self.close_next = False
            self.refuse(c, act, 0, "57P01", "ended by the test")
            del self.conns[c.id]
            self.upstream.send(U_CLOSE, struct.pack(">QB", c.id, 0))
            return
        ms, limit, sent, executed, denied, copy_in = messages(b), 0, b"", False, False, False
        for typ, body, whole in ms:
            sql = None
            if typ == "Q":
                sql = z(body)[0]
            elif typ == "F":
                denied = True
            elif typ == "P":
                name, rest = z(body)
                c.stmts[name] = z(rest)[0]
            elif typ == "B":
                portal, rest = z(body)
                c.portals[portal] = c.stmts.get(z(rest)[0], b"")
            elif typ == "E":
                sql = c.portals.get(z(body)[0], b"")
            if sql is not None:
                m = re.search(rb"/\*limit (\d+)\*/", sql)
                limit = int(m.group(1)) if m else limit
                denied = denied or bool(self.deny.search(sql))
                copy_in = copy_in or bool(COPY_IN.search(sql))
            if denied:
                break
            executed = executed or typ in "QE"
            sent += whole
        if denied and not executed and c.txn == "I" and not c.skip:
            self.refuse(c, act, 1, "42501", "denied by policy: rule test", "action=a-test", "ask somebody")
            return
        token = "cofferdam_refused_%s" % os.urandom(8).hex() if denied else ""
        body = struct.pack(">QQB", c.id, act, kind) + lstr(sent) + struct.pack(">BQB", 1 if limit else 0, limit, 0)
        body += lstr(token) + lstr("42501") + lstr("denied by policy: rule test") + lstr("action=a-test") + lstr("")
        body += struct.pack(">B", 1 if copy_in else 0)
        c.act = act
        self.upstream.send(U_SEND, body)

    # --- upstream
    def from_upstream(self, typ, rd):
        if typ == U_OPENED:
            o = dict(conn=rd.num("Q"), ok=rd.num("B"), sqlstate=rd.text(), message=rd.text(), peer=rd.text(),
                     cert=rd.text(), params=rd.pairs())
            rd.end()
            self.opened.append(o)
            c = self.conns.get(o["conn"])
            if c is None:
                if o["ok"]:
                    self.upstream.send(U_CLOSE, struct.pack(">QB", o["conn"], 0))
            elif o["ok"]:
                c.open = True
                ps = o["params"]
                self.front.send(PG_OPENED, struct.pack(">QII", c.id, 0, len(ps)) + b"".join(lstr(k) + lstr(v) for k, v in ps))
            else:
                del self.conns[c.id]
                self.refuse(c, 0, 0, o["sqlstate"], o["message"])
        elif typ == U_DONE:
            d = dict(conn=rd.num("Q"), act=rd.num("Q"), status=rd.num("B"), txn=chr(rd.num("B")), rows=rd.num("Q"),
                     bytes=rd.num("Q"), tag=rd.text(), sqlstate=rd.text(), message=rd.text(), sent=rd.take(32).hex(),
                     copied=rd.num("B"), copied_bytes=rd.num("Q"), copied_sha256=rd.take(32).hex())
            rd.end()
            self.done.append(d)
            del self.done[:-2000]
            c = self.conns.get(d["conn"])
            if c is not None:
                c.txn, c.act = d["txn"], None
                frame = struct.pack(">QQQI", d["conn"], d["act"], d["bytes"], 0)
                if self.hold_done is not None:
                    self.hold_done.append(frame)
                else:
                    self.front.send(PG_DONE, frame)
        elif typ == U_GONE:
            cid, state, message = rd.num("Q"), rd.text(), rd.text()
            rd.end()
            self.gone.append((state, message))
            if self.conns.pop(cid, None) is not None:
                self.front.send(PG_GONE, struct.pack(">Q", cid) + lstr(state) + lstr(message))
        elif typ == U_CANCELLED:
            self.cancelled.append(dict(conn=rd.num("Q"), act=rd.num("Q"), how=rd.num("B"), message=rd.text()))
            rd.end()
        else:
            raise AssertionError("upstream sent %d" % typ)

    def release(self):
        with self.lock:
            for f in self.hold_done:
                self.front.send(PG_DONE, f)
            self.hold_done = None

    def status(self, name, field):
        with open("/proc/%d/status" % self.procs[name].pid) as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        return 0
