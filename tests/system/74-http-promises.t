#!/usr/bin/python3
"""The promises over HTTPS when parts fail: no record no act, unknown tightens, a freeze judged at execution,
a signature used once and for these bytes only, the credential nowhere but in the vault."""
import atexit
import base64
import hashlib
import json
import os
import signal
import sys
import threading
import time
import urllib.parse
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Http, HostRun, Stack, Tap, Temp, must, run, wait_for
from origin import Ca, GraphQl, Origin
from rawhttp import Closed, request

# The full-disk part needs a small file system of its own: a private mount namespace.
if os.getuid() == 0 and not os.environ.get("IN_UNSHARE"):
    os.environ["IN_UNSHARE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private",
                          sys.executable, os.path.abspath(__file__)])

tap = Tap()
temp = Temp("http-promises")
ca = Ca(temp.path + "/ca")
o, lab = Origin(temp.path, "api.test", ca=ca), Origin(temp.path, "lab.test", ca=ca)
http = {"api": Http(o, placeholder="API_TOKEN"), "lab": Http(lab, env="lab")}
g = GraphQl(lab, [http["lab"].secret])
LAB = {"id": "lab-work", "permit": {"env": "lab", "effects": {"only": ["@data", "@change", "@destructive"]}}}
st = Stack(temp, None, http=http, start=False)
st.classified = False  # its parser is killed over a body
with open(st.policy_file, encoding="utf-8") as f:
    RULES = json.load(f)["rules"] + [LAB]
for r in RULES:
    r.pop("limits", None)  # rows are of PostgreSQL
st.build_policy({"rules": RULES, "serial": 2})
small = os.getuid() == 0
if small:
    os.rename(st.state + "/log", st.state + "/log.old")
    os.mkdir(st.state + "/log", 0o700)
    must(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", st.state + "/log"])
    atexit.register(run, ["umount", "-l", st.state + "/log"])
    must(["cp", "-a", st.state + "/log.old/.", st.state + "/log/"])
st.start()
hr = HostRun(st)


def ask(target, method, path, body=None, fields=(), timeout=30):
    """One exchange on a connection of its own; None if it was cut."""
    try:
        x = hr.direct(target)
    except OSError:
        return None
    x.s.settimeout(timeout)
    try:
        return x.ask(method, path, http[target].origin.authority, fields, body)
    except (Closed, OSError, ValueError):
        return None
    finally:
        x.close()


def status(r):
    return r.status if r is not None else 0


def works(name):
    r = wait_for(lambda: (lambda a: a if status(a) == 200 else None)(ask("api", "GET", "/ok")), 30, 0.2)
    tap.ok(r is not None and r.body == b"ok", name, open(st.broker_log).read()[-2000:])


def refused_id(r):
    return next((i for i in st.pending() if r is not None and i in r.body.decode()), None)


works("before anything fails, a read passes")

# --- the writer is stopped: nothing passes, reads included --------------------------
for name, method, target in (("read", "GET", "api"), ("change", "POST", "lab")):
    o.forget()
    lab.forget()
    pid = st.child("writer")
    os.kill(pid, signal.SIGSTOP)
    t0 = time.monotonic()
    r = ask(target, method, "/stopped", b"x" if method == "POST" else None)
    took = time.monotonic() - t0
    seen = o.paths("/stopped") + lab.paths("/stopped")
    os.kill(pid, signal.SIGCONT)
    tap.ok(status(r) in (0, 503, 502), "writer stopped: no %s passes (%d)" % (name, status(r)))
    tap.ok(took < 25, "and the client is told, not left hanging (%.0f s)" % took)
    tap.eq(seen, [], "nothing arrived")
    works("writer goes on: the next one works")
    tap.eq(o.paths("/stopped") + lab.paths("/stopped"), [], "and what was refused does not arrive late")


# --- the disk of the log is full ----------------------------------------------------
def fill(path):
    """Write until the file system takes no more."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except OSError:
        pass
    os.close(fd)


if small:
    # Twice: when the disk is full the writer frees its ballast, to close the log in order.
    for part in ("full", "again"):
        fill(st.state + "/log/fill")
        for i in range(200):
            r = ask("api", "GET", "/disk?%s-%d-%s" % (part, i, "y" * 3000))
            if status(r) != 200:
                break
    tap.ok(status(r) != 200, "disk full: reads stop passing (%d)" % status(r))
    r = ask("lab", "POST", "/full-change", b"x")
    tap.ok(status(r) != 200, "disk full: no change passes (%d)" % status(r))
    tap.eq(lab.paths("/full"), [], "and none arrived")
    os.unlink(st.state + "/log/fill")
    works("with room again the broker recovers by itself")
    tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
else:
    for name in ("reads stop passing", "no change passes", "none arrived", "recovers", "verifies"):
        tap.ok(True, "disk full: %s # SKIP needs root for a small file system" % name)

# --- the parser dies in mid-judgement -----------------------------------------------
JSON = [("Content-Type", "application/json")]
QUERY = b'{"query":"{viewer{login}}"}'
tap.eq(status(ask("lab", "POST", "/graphql", QUERY, JSON)), 200, "a GraphQL query passes")
lab.forget()
os.kill(st.child("parser"), signal.SIGSTOP)
box = []
th = threading.Thread(target=lambda: box.append(ask("lab", "POST", "/graphql", QUERY, JSON)), daemon=True)
th.start()
time.sleep(0.3)
os.kill(st.child("parser"), signal.SIGKILL)
th.join(30)
tap.ok(box and status(box[0]) in (0, 400, 403, 503), "parser killed in mid-judgement: refused (%d)" % status(box[0]))
tap.eq(lab.paths("/graphql"), [], "nothing arrived")
tap.ok(wait_for(lambda: status(ask("lab", "POST", "/graphql", QUERY, JSON)) == 200, 20, 0.2), "the next one finds a new parser")

# --- each process killed: listeners and state come back -------------------------------
BODY = b'{"name":"x"}'
r = ask("api", "DELETE", "/v1/things/7")
rid = refused_id(r)
tap.ok(status(r) == 403 and rid, "a deletion waits for people", r)
for name in ("front", "core", "upstream", "writer"):
    before = st.child(name)
    os.kill(before, signal.SIGKILL)
    tap.ok(wait_for(lambda: st.child(name) not in (0, before), 20), "%s killed: started again" % name)
    works("%s killed: the same listener serves" % name)
tap.ok(wait_for(lambda: rid in st.pending(), 10), "the pending request survived all of it", st.cli("pending").stdout)
for p in ("dana", "omar"):
    r = st.sign("approve", rid, p)
    tap.ok(r.returncode == 0, "%s signs it afterwards" % p, r.stdout)
old = st.child("core")
os.kill(old, signal.SIGKILL)
wait_for(lambda: st.child("core") not in (0, old), 20)
works("core killed again")
o.forget()
tap.eq(status(ask("api", "DELETE", "/v1/things/8")), 403, "the signature is not for another path")
tap.eq(status(ask("api", "DELETE", "/v1/things/7", fields=[("X-Force", "1")])), 403, "nor for the same with another field")
tap.eq(status(ask("api", "DELETE", "/v1/things/7?purge=1")), 403, "nor with a query")
tap.eq(o.paths("/v1"), [], "none of these arrives")
tap.eq((status(ask("api", "DELETE", "/v1/things/7")), o.paths("/v1")), (200, ["/v1/things/7"]), "armed before core died, it runs once after")
tap.eq((status(ask("api", "DELETE", "/v1/things/7")), o.paths("/v1")), (403, ["/v1/things/7"]), "and not again")

# --- in flight when a process is killed: at most once, outcome on the record ----------------------------
hold = threading.Event()
lab.on("/held", lambda req, c: (hold.wait(20), c.reply(200, b"held\n")))
for name in ("front", "core", "upstream", "writer"):
    lab.forget()
    hold.clear()
    box = []
    th = threading.Thread(target=lambda: box.append(ask("lab", "POST", "/held", b"order=1")), daemon=True)
    th.start()
    tap.ok(wait_for(lambda: lab.paths("/held"), 10), "%s: the request is at the origin" % name)
    act = st.acts()[-1]
    pid = st.child(name)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: st.child(name) not in (0, pid), 20)
    time.sleep(0.3)
    hold.set()
    th.join(40)
    works("%s killed while it waits for the answer: the next works" % name)
    tap.eq(len(lab.paths("/held")), 1, "%s: it arrived once, and is not sent again" % name)
    out = st.outcome(act["action"], 15)
    tap.ok(out is not None and (out["status"] in ("unknown", "lost") or (name in ("front", "writer") and out["status"] in ("ok", "error"))),
           "%s: its outcome is on the record (%s)" % (name, out and out["status"]), out)
    tap.ok(status(box[0]) != 200 or name == "writer", "%s: the client is not told that all is well (%d)" % (name, status(box[0])))

# --- the digest judged is the digest sent ----------------------------------------------------------------
outs = {r["data"]["action"]: r["data"] for r in st.records("outcome")}
wrong = [a["action"] for a in st.acts() if a["dispatch"]["sent"] and outs.get(a["action"], {}).get("status") == "ok" and
         outs[a["action"]]["sent"] != a["request"]["sent"]]
tap.eq(wrong, [], "for every finished action the digest judged equals the digest sent")
body = b"some-body-" + os.urandom(6).hex().encode()
lab.forget()
ask("lab", "POST", "/digest", body)
tap.ok(hashlib.sha256(body).hexdigest() in json.dumps(st.acts()[-1]), "the record has the body's digest", st.acts()[-1])
tap.eq([r.body for r in lab.arrivals], [body], "which is that of what arrived")

# --- a body under a signature: small, sealed, and over what core holds --------------------------------------
for size, name in ((40, "a small body"), (3 << 20, "a body of 3 MiB"), (9 << 20, "a body of 9 MiB")):
    good, bad = os.urandom(size // 2).hex().encode(), os.urandom(size // 2).hex().encode()
    o.forget()
    o.on("/upload", lambda req, c: c.reply(200, b"stored\n"))
    r = ask("api", "PUT", "/upload", good, timeout=60)
    rid = refused_id(r)
    tap.ok(status(r) == 403 and rid, "%s: waits for people" % name, r)
    if not rid:
        continue
    for p in ("dana", "omar"):
        st.sign("approve", rid, p)
    r = ask("api", "PUT", "/upload", bad, timeout=60)
    tap.ok(status(r) != 200 and not any(q.whole and q.body == bad for q in o.arrivals), "%s: other bytes of the same length do not pass (%d)" % (name, status(r)))
    r = ask("api", "PUT", "/upload", good, timeout=60)
    if status(r) != 200 and size > 8 << 20:
        # What other bytes were sent under it burnt it: a streamed body is known only at its end.
        rid = refused_id(r)
        for p in ("dana", "omar") if rid else ():
            st.sign("approve", rid, p)
        r = ask("api", "PUT", "/upload", good, timeout=60)
    tap.ok(status(r) == 200 and [q.body == good for q in o.arrivals if q.whole] == [True], "%s: the signed one does, once (%d)" % (name, status(r)),
           [(len(q.body), q.whole) for q in o.arrivals])
    tap.ok(status(ask("api", "PUT", "/upload", good, timeout=60)) == 403, "%s: and not again" % name)

# --- time: a freeze that begins between signature and use --------------------------------------------------
start = time.time() + 6
iso = lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))
freeze = {"id": "freeze-hard", "forbid": {"env": "prod", "during": ["fz"], "effects": {"any": ["@change", "@destructive"]}}, "override": "exception"}
st.reload({"rules": RULES + [freeze], "calendars": {"fz": {"kind": "freeze", "tz": "Etc/UTC", "once": [{"from": iso(start), "to": iso(start + 3600)}],
                                                                         "valid": ["2020-01-01", "2040-01-01"]}}})
rid = refused_id(ask("api", "DELETE", "/v1/things/9"))
signed = [st.sign("approve", rid, p).returncode for p in ("dana", "omar")] if rid else None
early = time.time() < start
time.sleep(max(0, start + 0.3 - time.time()))
o.forget()
tap.eq((signed, early), ([0, 0], True), "a deletion is signed before the freeze")
r = ask("api", "DELETE", "/v1/things/9")
tap.ok(status(r) == 403 and b"freeze-hard" in r.body and b"fz" in r.body, "but the freeze is judged at execution: refused, with rule and window", r)
tap.eq((o.paths("/v1"), status(ask("api", "GET", "/ok"))), ([], 200), "nothing arrives; reads stay allowed")

# --- the credential is nowhere but in the vault ------------------------------------------------------------
secret = http["api"].secret.encode()


def forms(s):
    out = {s, s.hex().encode(), urllib.parse.quote(s).encode()}
    for shift in range(3):
        out.add(base64.b64encode(b"\0" * shift + s)[4 if shift else 0:-4].rstrip(b"="))
    return {f for f in out if len(f) >= 12}


NEEDLES = forms(secret) | forms(http["lab"].secret.encode())
hit = lambda data: any(f in data for f in NEEDLES)
tap.ok(hit(b"xx" + base64.b64encode(b"a" + secret + b"b") + b"yy"), "the search finds a planted base64 form")
if os.getuid() == 0:
    for name in ("front", "parser", "writer"):
        pid, found = st.child(name), False
        with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
            for line in maps:
                w = line.split()
                if "w" not in w[1] or "[vvar" in line:
                    continue
                a, b = (int(x, 16) for x in w[0].split("-"))
                # In pieces that overlap. The sanitizers' shadow, terabytes of nothing, is left out.
                for at in range(a, b if b - a < 1 << 32 else a, 1 << 24):
                    try:
                        mem.seek(at)
                        found = found or hit(mem.read(min((1 << 24) + 4096, b - at)))
                    except (OSError, ValueError):
                        break
        tap.ok(not found, "the memory of %s never held a credential" % name)
COLLECT = r"""
import os, sys, zlib
out = [os.environb.__repr__().encode()]
for root in ("/etc", "/work", "/tmp", "/run", "/var", "/home", "/root", "/dev/shm", "/opt", "/srv", "/mnt"):
    for d, _, files in os.walk(root):
        for f in files:
            try:
                p = os.path.join(d, f)
                if os.path.isfile(p) and os.path.getsize(p) < 4 << 20:
                    out.append(open(p, "rb").read())
            except OSError:
                pass
for p in os.listdir("/proc"):
    if p.isdigit():
        for f in ("cmdline", "environ", "maps", "mem", "status"):
            try:
                out.append(open("/proc/%s/%s" % (p, f), "rb").read(1 << 20))
            except OSError:
                pass
import urllib.request
try:
    out.append(urllib.request.urlopen("URL/reflect?form=raw").read())
    out.append(urllib.request.urlopen("URL/ok").read())
except Exception as e:
    out.append(repr(e).encode())
sys.stdout.buffer.write(zlib.compress(b"collected %d\n" % len(out) + b"\n".join(out), 9))
""".replace("URL", o.origin)
r = st.sandbox("/usr/bin/python3", "-c", COLLECT, encoding=None, env={"PATH": os.environ["PATH"], "LEAKED": http["api"].secret})
got = zlib.decompress(r.stdout) if r.returncode == 0 else b""
tap.ok(got.startswith(b"collected"), "a run in the sandbox collects all it can read (%d bytes)" % len(got), r.stderr[-600:])
tap.ok(not hit(got + r.stderr), "none of it is a credential, though it used one, and had it echoed")
tap.ok(b"api.test" in got and b"before " in got and b"cfph_" in got, "it sees its hosts file, the answers and a placeholder", got[-500:])
ca_key = open(st.state + "/keys/ca/key.pem", "rb").read().split(b"\n")[1]
tap.ok(ca_key not in got, "nor the key of the run's certificate authority")
hr.end()
st.stop()
found = []
for top in (st.state, st.broker_log):
    for d, _, files in (os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [os.path.basename(top)])]):
        for f in files:
            p = os.path.join(d, f)
            if "/state/keys/" not in p and os.path.isfile(p):
                with open(p, "rb") as h:
                    if hit(h.read()):
                        found.append(p)
tap.eq(found, [], "no file of the state but the key files holds one, nor does the broker's log")
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok("VERIFIED" in st.verify().stdout, "and the log verifies", st.verify().stdout)
tap.done()
