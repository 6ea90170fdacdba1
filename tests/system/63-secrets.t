#!/usr/bin/python3
"""The credential is nowhere but in the vault: not in the sandbox, logs, arguments, environments, files."""
import base64
import os
import subprocess
import sys
import urllib.parse
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, HostRun, Pg, Stack, Tap, Temp, run, wait_for
from libpq import Conn

tap = Tap()
temp = Temp("secrets")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int); ALTER TABLE t OWNER TO agent")
st = Stack(temp, pg)
secret = pg.password.encode()
vault_key = open(st.state + "/keys/vault.key", "rb").read()
log_seed = open(st.state + "/keys/log/seed", "rb").read()
ca_key = b"".join(open(st.state + "/keys/ca/key.pem", "rb").read().split(b"\n")[1:-2])[:40]


def forms(s):
    out = {s, s.hex().encode(), urllib.parse.quote(s).encode()}
    for shift in range(3):
        out.add(base64.b64encode(b"\0" * shift + s)[4 if shift else 0:-4].rstrip(b"="))
    return {f for f in out if len(f) >= 12}


NEEDLES = {"database password": forms(secret), "vault key": forms(vault_key), "log key": forms(log_seed), "CA key": {ca_key}}


def search(data):
    return [name for name, fs in NEEDLES.items() if any(f in data for f in fs)]


# The search itself can find: planted in a file, it does.
tap.eq(search(b"xx" + base64.b64encode(b"a" + secret + b"b") + b"yy"), ["database password"], "the search finds a planted base64 form")

hr = HostRun(st)
c = Conn(hr.dsn(pg))
tap.eq(c.query("SELECT 1").rows, [["1"]], "the credential is in use")
c.query("DROP TABLE t")
c.query("SELECT no_such_function()")

pids = [st.broker.pid] + [p for p in (st.child(n) for n in ("front", "core", "upstream", "writer", "parser")) if p]
tap.eq(len(pids), 6, "the broker and its five children run")
for p in pids:
    found = []
    for f in ("cmdline", "environ", "comm", "status", "maps"):
        try:
            found += search(open("/proc/%d/%s" % (p, f), "rb").read())
        except PermissionError:
            pass
    tap.eq(found, [], "nothing in arguments, environment and maps of process %s" % open("/proc/%d/comm" % p).read().strip())

# Front and parser parse hostile bytes: their memory never held it. (Read as root: they are not dumpable.)
if os.getuid() == 0:
    for name in ("front", "parser", "writer"):
        pid, found = st.child(name), []
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
                        found += search(mem.read(min((1 << 24) + 4096, b - at)))
                    except (OSError, ValueError):
                        break
        tap.ok("database password" not in found, "the memory of %s never held the password" % name, found)
        tap.eq([n for n in found if name != "writer" and n], [], "nor another key: %s" % name)

# From inside the sandbox: environment, every readable file, every process.
code = r"""
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
        try:
            for fd in os.listdir("/proc/%s/fd" % p):
                out.append(os.readlink("/proc/%s/fd/%s" % (p, fd)).encode())
        except OSError:
            pass
sys.stdout.buffer.write(zlib.compress(b"collected %d\n" % len(out) + b"\n".join(out), 9))
"""
r = subprocess.run([CLI, "run", "--state", st.state, "--", "/usr/bin/python3", "-c", code],
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120,
                   env={"PATH": os.environ["PATH"], "LEAKED": pg.password})
got = zlib.decompress(r.stdout) if r.returncode == 0 else b""
tap.ok(got.startswith(b"collected"), "a run in the sandbox collects all it can read (%d bytes)" % len(got), r.stderr[-600:])
tap.eq(search(got + r.stderr), [], "none of it is a secret")
tap.ok(b"db.crm.internal" in got, "though it sees its hosts file (the collection is real)")

c.close()
hr.end()
st.stop()
# On disk: everything but the vault and the keys themselves.
found = {}
for top in (st.state, temp.path + "/broker.log"):
    for d, _, files in (os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [os.path.basename(top)])]):
        for f in files:
            p = os.path.join(d, f)
            if "/state/keys/" in p:
                continue
            hit = search(open(p, "rb").read())
            if hit:
                found[p] = hit
tap.eq(found, {}, "no file of the state but the key files holds one, nor does the broker's log")
cores = [os.path.join(d, f) for d, _, files in os.walk(temp.path) for f in files if f == "core" or f.startswith("core.")]
tap.eq(cores, [], "no core file was written")
tap.done()
