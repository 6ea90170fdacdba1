#!/usr/bin/python3
"""A taken-over front cannot make upstream send an HTTP request that core did not judge: each lie is told for real."""
import os
import shutil
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import harness
from harness import BUILD, Http, HostRun, Stack, Tap, Temp, must, wait_for
from origin import GraphQl, Origin

tap = Tap()
temp = Temp("http-liar")
o = Origin(temp.path, "api.test", tls=False)
api = Http(o, kind=None, env="lab")
g = GraphQl(o, [""])
# The programs find one another beside the running one: a folder where front is the liar.
lib = temp.path + "/bin"
os.mkdir(lib)
for f in os.listdir(BUILD):
    if f.startswith("cofferdam") and os.path.isfile(BUILD + "/" + f):
        shutil.copy(BUILD + "/" + f, lib + "/" + f)
shutil.copy(BUILD + "/tool_lying_http", lib + "/cofferdam-front")
lies = must([BUILD + "/tool_lying_http", "--list"]).splitlines()
st = Stack(temp, None, http={"api": api}, start=False, policy={"rules": [
    {"id": "read", "permit": {"effects": {"only": ["@data", "write"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]})
harness.BUILD = lib
st.start()
harness.BUILD = BUILD
hr = HostRun(st)


def tell(n):
    """What came back for lie n; retried while core re-registers the listener with a new wire."""
    got = ""
    for _ in range(100):
        try:
            with socket.create_connection((hr.address["api"], hr.port["api"]), timeout=5) as s:
                s.sendall(bytes([n]))
                s.settimeout(20)
                got = s.recv(300).decode().strip()
                if got:
                    return got
        except OSError as e:
            got = str(e)
        time.sleep(0.1)
    return "no answer: " + got


HONEST = [n for n, name in enumerate(lies) if "control" in name]
# Harmless: what core judged is what arrives, or nothing does.
MAY_PASS = {"a body that nobody asked for", "two acts at once", "a body without a lease"}
for n, name in enumerate(lies):
    o.forget()
    got = tell(n)
    whole = [(r.method, r.path, r.body_bytes) for r in o.arrivals if r.whole]
    if n in HONEST:
        tap.eq(got, "done 200", name + " passes")
        tap.eq(len(whole), 1, "and arrives")
    elif name == "a lease of its own to upstream":
        tap.eq((got, whole), ("sent to upstream", []), name)
    elif name == "a mutation in place of the query":
        # A client may send one as well: it is judged as what it is.
        tap.ok(got.startswith(("refused", "wire ended", "aborted")) and not whole, "%s: %s" % (name, got), whole)
    elif name == "more body than leased":
        # No verdict rested on this body. The leased length may have arrived before the rest came; never the rest.
        tap.ok(got.startswith(("refused", "wire ended", "broken off")) and whole in ([], [("POST", "/count", 50000)]),
               "%s: %s" % (name, got), whole)
    elif name in MAY_PASS:
        tap.ok(all(m == "GET" or p == "/x" for m, p, _ in whole), "%s: %s, nothing but what was judged arrives" % (name, got), whole)
    else:
        tap.ok(got.startswith(("refused", "wire ended", "aborted", "broken off", "upstream's wire ended")) and not whole,
               "%s: %s" % (name, got), (got, whole))
    time.sleep(0.2)
    tap.ok(not any(b"evil" in r.head or b"/evil" in r.body for r in o.arrivals),
           "%s: what it smuggled does not arrive" % name, [(r.head, r.body[:200]) for r in o.arrivals])
tap.eq(wait_for(lambda: tell(0) == "done 200" and "done", 20), "done", "after all the lies an honest read still passes")
tap.ok(not any(e[0] != "query" for e in g.executed), "the service executed queries only", g.executed)
hr.end()
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "the log verifies", st.verify().stdout)
tap.done()
