#!/usr/bin/python3
"""Upstream against servers that are not who they should be, or lie; and finding them by name."""
import os
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import harness as h  # noqa: E402
import pgcore  # noqa: E402
from pgraw import CANCEL, Mock, Raw, backend_error, cancel, hello, msg, query, scram_server  # noqa: E402

tap = h.Tap()
tmp = h.Temp("pgup")
HOST, PASSWORD = "db.crm.internal", "correct horse"
tls = tmp.path + "/tls"
subprocess.run(["bash", "-euc", '. "$2"; T=$1; tls_ca "$T/tls"; tls_cert "$T/tls" db.crm.internal; tls_cert "$T/tls" other.internal;'
                'tls_ca "$T/tls2"; tls_cert "$T/tls2" db.crm.internal', "x", tmp.path, h.TOP + "/tests/lib/throwaway-pg.sh"], check=True)
with open(tls + "/ca.pem", "rb") as f:
    CA = f.read()
core = pgcore.Core(h.BUILD, tmp.path, {}, deny="forbidden")
port = core.listen(HOST)
GOOD = tls + "/" + HOST


def login(script, cert=GOOD, mode="S", **kw):
    """What a client hears when the server plays that script; the mock for a look."""
    m = Mock(script, cert, mode)
    t = dict(host=HOST, address="127.0.0.1", port=m.port, database="crm", user="agent", password=PASSWORD, ca=CA)
    t.update(kw)
    core.target = t
    r = Raw(port)
    r.login()
    return r, m


def refused(name, part, script, sqlstate=None, **kw):
    r, m = login(script, **kw)
    ok = r.err.get("S") == "FATAL" and part in r.err.get("M", "") and (sqlstate is None or r.err["C"] == sqlstate)
    tap.ok(ok, name, r.err)
    if PASSWORD.encode() in b"".join(m.seen):
        tap.ok(False, "... and the server has not seen the password", m.seen)
    m.close()
    return m


def good(m, s, **kw):
    scram_server(m, s, PASSWORD, **kw)
    hello(s)


def serve(answers):
    """A server that is proved, then answers each message of the client from the list."""
    def script(m, s):
        good(m, s)
        for a in answers:
            m.seen.append(m.message(s))
            s.sendall(a)
        m.message(s)
    return script


# --- who is there ------------------------------------------------------------------------
r, m = login(lambda m, s: (good(m, s), m.message(s)))
tap.eq(r.z, "I", "a server with the right name, CA and password is taken")
tap.eq((m.mechanism, m.gs2), ("SCRAM-SHA-256", "y,,"), "SCRAM-SHA-256, saying that binding would have been possible")
r.close()
r, m = login(lambda m, s: (scram_server(m, s, PASSWORD, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0"), hello(s), m.message(s)))
tap.eq((m.mechanism, m.gs2, r.z), ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,", "I"), "the channel is bound where offered")
r.close()
r, m = login(lambda m, s: (good(m, s), m.message(s)), mode=None, tls=0)
tap.eq((m.gs2, r.z), ("n,,", "I"), "a target without TLS by policy is spoken to in clear")
r.close()
nothing = lambda m, s: None  # noqa: E731
refused("a certificate for another name is refused", "hostname mismatch", nothing, "08006", cert=tls + "/other.internal")
refused("a certificate of another CA is refused", "certificate for db.crm.internal is refused", nothing, "08006", cert=tmp.path + "/tls2/" + HOST)
refused("a server without TLS is refused", "does not offer TLS", nothing, "08006", mode="N")
refused("so is one that answers the request with an error", "does not offer TLS", nothing, "08006", mode="E")
m = refused("bytes put behind the answer in clear are not read as the server's", "TLS", nothing, "08006", mode="S" + "Z\0\0\0\5I")
refused("a target without CA is refused", "no certificate in it", nothing, ca=b"")
refused("a server that lets us in unasked is refused", "without SCRAM-SHA-256", lambda m, s: s.sendall(msg("R", bytes(4))), "28000")
refused("a server that asks for the password in clear is refused", "in clear", lambda m, s: s.sendall(msg("R", struct.pack(">I", 3))), "0A000")
refused("md5 is refused", "md5", lambda m, s: s.sendall(msg("R", struct.pack(">I", 5) + b"salt")), "0A000")
refused("another mechanism is refused", "no SASL mechanism", lambda m, s: s.sendall(msg("R", struct.pack(">I", 10) + b"SCRAM-SHA-1\0\0")), "0A000")
refused("a server that does not know the password is refused", "signature is wrong", lambda m, s: (good(m, s, lie="signature"), m.message(s)), "28000")
refused("a nonce that is not ours is refused", "nonce", lambda m, s: good(m, s, lie="nonce"))
refused("1,000 iterations are too few", "iteration count 1000", lambda m, s: good(m, s, lie="iterations"))
refused("AuthenticationOk in the middle of SCRAM is refused", "without SCRAM-SHA-256",
        lambda m, s: s.sendall(msg("R", struct.pack(">I", 10) + b"SCRAM-SHA-256\0\0") + msg("R", bytes(4))))
refused("a password outside ASCII is refused", "SASLprep", lambda m, s: good(m, s), "0A000", password="p\u00e4ss")
refused("the server's own refusal is told", "no such role", lambda m, s: s.sendall(backend_error("28P01", "no such role", "FATAL")), "28P01")
refused("another client_encoding than UTF8 is refused", "client_encoding", lambda m, s: (scram_server(m, s, PASSWORD), hello(s, b"SQL_ASCII"), m.message(s)))
refused("a server that hangs up is told as lost", "unexpectedly", lambda m, s: scram_server(m, s, PASSWORD), "08006")
refused("a message of 2 GB while starting is refused", "limit", lambda m, s: s.sendall(b"R\x7f\xff\xff\xff"))
core.target["port"] = h.free_port()
r = Raw(port)
r.login()
tap.ok(r.err["C"] == "08006" and "cannot connect to 127.0.0.1" in r.err["M"], "nobody there: 08006 and the address", r.err)

# --- the start-up packet is ours -----------------------------------------------------------
r, m = login(lambda m, s: (good(m, s), m.message(s)))
r.close()
m = Mock(lambda m, s: (good(m, s), m.message(s)), GOOD)
core.target["port"] = m.port
r = Raw(port)
r.login(user="root", database="other", client_encoding="SJIS", standard_conforming_strings="off", application_name="me")
p = m.seen[0][4:].split(b"\0")
p = dict(zip(p[0:-2:2], p[1::2]))
tap.eq((p[b"user"], p[b"database"], p[b"client_encoding"], p[b"standard_conforming_strings"], p[b"application_name"]),
       (b"agent", b"crm", b"UTF8", b"on", b"me"), "user, database, encoding and backslash rule are the target's; the rest is passed")
r.close()
r = Raw(port)
r.login(user="x", options="-c role=admin")
tap.eq(r.err.get("C"), "42501", "options never reach a server, whoever allowed them")

# --- servers that lie later -------------------------------------------------------------------
for name, answer, part in (
        ("a reply that is not owed", msg("C", b"SELECT 1\0") + msg("Z", b"I") + msg("C", b"DROP TABLE\0"), "owes nothing"),
        ("a ParseComplete for a Query", msg("1"), "out of order"),
        ("a request for COPY data", msg("G", b"\0\0\0"), "COPY data"),
        ("CopyBoth", msg("W", b"\0\0\0"), "out of order"),
        ("an impossible length", b"C\0\0\0\3", "invalid length"),
        ("a completion of 3 MB", b"C\0\x30\0\0", "limit"),
        ("a malformed error", msg("E", b"Mx"), "malformed"),
        ("a state nobody knows", msg("C", b"SELECT 1\0") + msg("Z", b"X"), "malformed ReadyForQuery"),
        ("an encoding that changes", msg("S", b"client_encoding\0SJIS\0"), "client_encoding")):
    r, m = login(serve([answer]))
    r.send(query("select 1"))
    types = r.until("E$") if name != "a reply that is not owed" else r.until("Z") + r.until("E$")
    tap.ok(r.err.get("S") == "FATAL" and part in r.err.get("M", ""), name + " ends the session", (types, r.err))
    m.close()
# Where the answer breaks off inside a message no error can be told.
half = msg("T", b"\0\0") + b"D\0\0\4\0half a row"


def breaks_off(m, s):
    good(m, s)
    m.message(s)
    s.sendall(half)
    time.sleep(0.5)


r, m = login(breaks_off)
r.send(query("select 1"))
tap.eq(r.rest(), half, "an answer that breaks off inside a row is passed on and the connection closed")

# --- servers and COPY FROM STDIN -----------------------------------------------------------------
G = msg("G", b"\0\0\0")
for name, answer, part in (("a completion before the end of the data", G + msg("C", b"COPY 1\0") + msg("Z", b"I"), "out of order"),
                           ("a second request for data", G + G, "out of order"),
                           ("rows in the middle of it", G + msg("T", b"\0\0"), "out of order")):
    r, m = login(serve([answer]))
    r.send(query("copy t from stdin"))
    types = r.until("E$")
    tap.ok(r.err.get("S") == "FATAL" and part in r.err.get("M", ""), name + " ends the session", (types, r.err))
    m.close()

# --- cancels -------------------------------------------------------------------------------------
KEY = b"pidpkeyk"  # as hello() gives it


def sleeper(key=True, close=True):
    """A server whose first query runs until somebody cancels it; it may leave a cancel's connection open."""
    hit = threading.Event()

    def script(m, s):
        if m.seen[-1][:4] == struct.pack(">I", CANCEL):
            hit.set()
            if not close:
                time.sleep(8)
            return
        scram_server(m, s, PASSWORD)
        if key:
            hello(s)
        else:
            s.sendall(msg("S", b"client_encoding\0UTF8\0") + msg("S", b"standard_conforming_strings\0on\0") + msg("Z", b"I"))
        m.message(s)
        if key:
            hit.wait(10)
        else:
            time.sleep(1)
        s.sendall(backend_error("57014", "canceling statement due to user request") + msg("Z", b"I"))
        m.message(s)
        s.sendall(msg("C", b"SELECT 1\0") + msg("Z", b"I"))
        m.message(s)
    return script


for mode, tls_on in (("S", 1), (None, 0)):
    r, m = login(sleeper(), mode=mode, tls=tls_on)
    r.send(query("select pg_sleep(30)"))
    time.sleep(0.2)
    Raw(port).send(cancel(r.key)).rest()
    tap.eq((r.until(), r.err["C"]), ("EZ", "57014"), "a cancel reaches a server %s TLS" % ("under" if tls_on else "without"))
    tap.eq([x for x in m.seen if x[:4] == struct.pack(">I", CANCEL)], [struct.pack(">I", CANCEL) + KEY], "with the server's own key, and nothing else")
    tap.ok(r.key != KEY, "which is not the client's")
    tap.eq(r.ask(query("select 1")), "CZ", "and the session goes on")
    m.close()
r, m = login(sleeper(key=False))
r.send(query("select pg_sleep(30)"))
time.sleep(0.2)
Raw(port).send(cancel(r.key)).rest()
tap.eq(r.until(), "EZ", "a server that gave no key is not cancelled")
tap.eq((core.cancelled[-1]["how"], core.cancelled[-1]["message"]), (0, "the server gave no key to cancel with"), "and core is told why")
m.close()
r, m = login(sleeper(close=False))
r.send(query("select pg_sleep(30)"))
time.sleep(0.2)
t0 = time.monotonic()
Raw(port).send(cancel(r.key)).rest()
tap.eq(r.until() + r.ask(query("select 1")), "EZCZ", "a server that leaves the cancel's connection open holds up the session")
tap.ok(4 < time.monotonic() - t0 < 7, "for five seconds", time.monotonic() - t0)
tap.eq(core.cancelled[-1]["how"], 2, "and what became of the cancel is not known")
m.close()

# --- finding servers by name ------------------------------------------------------------------
m = Mock(lambda m, s: (good(m, s), m.message(s)), None, None)
core.target = dict(host="localhost", port=m.port, database="crm", user="agent", password=PASSWORD, ca=b"", tls=0)
r = Raw(port)
r.login()
tap.eq(r.z, "I", "localhost is found without DNS")
r.close()
core.target["host"] = "no-such-host.invalid"
r = Raw(port)
r.login()
tap.ok(r.err["C"] == "08006" and "no-such-host.invalid cannot be resolved" in r.err["M"], "a name that is not found is told", r.err)
core.target.update(host="db", address="not-a-number")
r = Raw(port)
r.login()
tap.has(r.err["M"], "is not numeric", "an address that is no number is refused")
core.target.update(address="127.0.0.1")
r = Raw(port)
r.login()
tap.eq(r.z, "I", "the next one is served")
tap.eq(core.stop(), {"front": 0, "upstream": 0}, "both end when asked to")
tap.done()
