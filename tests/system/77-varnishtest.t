#!/usr/bin/python3
"""varnishtest's client and server, with the broker between them: tests/varnish/*.vtc. Each script has a target
of its own; the scripts themselves are held against a plain connection first, so that they ask nothing impossible."""
import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import TOP, Http, HostRun, Stack, Tap, Temp, free_port, run

tap = Tap()
temp = Temp("vtc")


class Place:
    """Where a script's own server will listen."""

    def __init__(self, name):
        self.tls, self.host, self.address, self.port = False, name + ".test", "127.0.0.1", free_port()
        self.origin = "http://%s:%d" % (self.host, self.port)


scripts = {os.path.basename(f)[:-4]: f for f in sorted(glob.glob(TOP + "/tests/varnish/*.vtc"))}
http = {n: Http(Place(n), kind=None, env="lab") for n in scripts}
st = Stack(temp, None, http=http, policy={"rules": [
    {"id": "lab-work", "permit": {"env": "lab", "effects": {"only": ["@data", "@change", "@destructive"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"}]})
hr = HostRun(st)
# What only something in the middle does.
MIDDLE = {"keep-alive", "malformed", "close-delimited", "http10-client", "expect-417"}


def script(name, broker):
    o = http[name].origin
    return run(["varnishtest", "-t", "30", "-Dport=%d" % o.port, "-Dhost=%s:%d" % (o.host, o.port), "-Dbroker=" + broker, scripts[name]],
               cwd=temp.path, timeout=60)


for n in scripts:
    with open(scripts[n], encoding="utf-8") as f:
        title = f.readline().split('"')[1]
    if n not in MIDDLE:
        r = script(n, "127.0.0.1:%d" % http[n].origin.port)
        tap.ok(r.returncode == 0, "%s: holds without the broker" % n, r.stdout[-3000:])
    r = script(n, "%s:%d" % (hr.address[n], hr.port[n]))
    tap.ok(r.returncode == 0, "%s: %s" % (n, title), r.stdout[-4000:])
hr.end()
tap.done()
