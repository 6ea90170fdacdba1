#!/usr/bin/python3
"""The http group of the policy cases, with their policy, over the real wire: verdicts, effects, rules, slots.

The broker judges at the real time, the cases are of a day without a freeze: the calendars are the file's, with the
weekly ones moved to where they are not in force now.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import TOP, Http, HostRun, Stack, Tap, Temp, wait_for
from origin import Origin
from rawhttp import Closed

tap = Tap()
temp = Temp("http-cases")
with open(TOP + "/tests/cases/policy-cases.json", encoding="utf-8") as f:
    FILE = json.load(f)
POLICY = FILE["policy"]
o = Origin(temp.path, "crm.test")
api = Http(o, **{k: v for k, v in POLICY["targets"]["crm-api"].items() if k not in ("kind", "env")})
# An owner of the run with no part in it, and the people of the file with keys of ours.
people = {"olivia": ["guest"], **{n: p["roles"] for n, p in POLICY["people"].items()}}
st = Stack(temp, None, http={"crm-api": api}, people=people, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    base = json.load(f)
PAST = {"kind": "freeze", "tz": "Europe/London", "once": [{"from": "2026-01-02T00:00", "to": "2026-01-03T00:00"}],
        "valid": ["2020-01-01", "2039-01-01"]}
calendars = {n: dict(PAST, kind=c["kind"]) for n, c in POLICY["calendars"].items()}
# A rule may only name targets that the policy has: the one that rules name gets a host, nobody connects to it.
targets = dict(base["targets"])
targets["prod-db"] = {"kind": "postgres", "env": "prod", "host": "localhost", "port": 1, "database": "d", "user": "u",
                      "credential": "none", "tls": "off"}
st.build_policy({"targets": targets, "rules": POLICY["rules"], "calendars": calendars, "serial": 2})
st.start()
hr = HostRun(st)
cases = [c for c in FILE["cases"] if c["group"] == "http"]
tap.ok(len(cases) >= 13, "%d cases of the http group" % len(cases))
STATUS = {"allow": (200,), "needs_approval": (403,), "deny": (400, 403, 405, 501)}
for c in cases:
    i, want = c["input"], c["expect"]
    name = "%s: %s %s" % (c["id"], i["method"], i["path"])
    o.forget()
    before = len(st.acts())
    x = hr.direct("crm-api")
    fields = i.get("headers", [])
    body = b""
    if i["method"] in ("POST", "PUT") and not fields:
        fields, body = [["Content-Length", "4"]], b"body"
    elif any(n == "Transfer-Encoding" for n, _ in fields):
        body = b"0\r\n\r\n"
    x.send(b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (i["method"].encode(), i["path"].encode(), o.authority.encode()) +
           b"".join(b"%s: %s\r\n" % (n.encode(), v.encode()) for n, v in fields) + b"\r\n" + body)
    try:
        r = x.answer()
    except Closed:
        r = None
    x.close()
    tap.ok(r is not None and r.status in STATUS[want["verdict"]], "%s: answered as %s (%s)" % (name, want["verdict"], r and r.status), r)
    tap.eq([q.method for q in o.arrivals], [i["method"]] if want["verdict"] == "allow" else [],
           "%s: %s" % (name, "arrives" if want["verdict"] == "allow" else "does not arrive"))
    acts = st.acts()[before:]
    if not tap.eq(len(acts), 1, "%s: one record" % name):
        continue
    d, q = acts[0]["decision"], acts[0]["request"]
    tap.eq((d["verdict"], q["effects"]), (want["verdict"], want["effects"]), "%s: verdict and effects" % name)
    if "rules" in want:
        tap.eq(d["rules"], want["rules"], "%s: rules" % name)
    slots = d.get("slots", [])
    tap.eq(slots, want.get("slots", []), "%s: slots" % name)
    if want["verdict"] == "needs_approval":
        tap.ok(d.get("approval") in st.pending() and d["approval"] in r.body.decode() and r.get("Retry-After"),
               "%s: the answer names the request, and when to come again" % name, (r, d))
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
