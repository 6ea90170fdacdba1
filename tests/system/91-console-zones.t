#!/usr/bin/python3
"""The same freeze, whatever zone the broker and its console were started in: the console's JSON and page, `status` and `pending`,
and what a client reads. When it is, is what Python's own zone data says."""
import hashlib
import json
import os
import re
import sys
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import console
from authenticator import WebAuthn
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, run
from libpq import Conn

tap, temp = Tap(), Temp("console-zones")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int); ALTER TABLE t OWNER TO agent")
st = Stack(temp, pg, start=False)
console.switch_on(st)
ISO = "%Y-%m-%dT%H:%M:%SZ"
NOW = datetime.now(timezone.utc).replace(microsecond=0)
YEAR = [(NOW - timedelta(days=60)).strftime("%Y-%m-%d"), (NOW + timedelta(days=300)).strftime("%Y-%m-%d")]
ZONES = {"akl": "Pacific/Auckland", "la": "America/Los_Angeles"}
HERE = ZoneInfo(ZONES["akl"])
# From an hour ago to two hours from now, as clocks in Auckland show it. The same words of Los Angeles are of another time.
HOURS = [(NOW.astimezone(HERE) + timedelta(hours=h)).strftime("%Y-%m-%dT%H:%M") for h in (-1, 2)]
NIGHT = [{"from": "Fri 22:00", "to": "Sat 06:00"}]
CALENDARS = {}
for name, tz in ZONES.items():
    CALENDARS["night-" + name] = {"kind": "freeze", "tz": tz, "weekly": NIGHT, "valid": YEAR}
    CALENDARS["hours-" + name] = {"kind": "freeze", "tz": tz, "once": [{"from": HOURS[0], "to": HOURS[1]}], "valid": YEAR}
ALL = ["@data", "@change", "@destructive"]
RULES = [{"id": "all", "permit": {"effects": {"only": ALL}}},
         *({"id": "frozen-" + c, "forbid": {"during": [c], "effects": {"any": e}}, "override": "never"}
           for c, e in (("night-akl", ["drop"]), ("night-la", ["bulk"]), ("hours-akl", ["schema"]), ("hours-la", ["write"])))]
KEY = WebAuthn("ed25519", st.console)
PEOPLE = {p: {"roles": r, "login": ["unix:root" if p == "olivia" else "unix:" + p], "keys": [st.pub(p)] + [KEY.line()] * (p == "dana")}
          for p, r in st.people.items()}
st.build_policy({"serial": 2, "people": PEOPLE, "calendars": CALENDARS, "rules": RULES})


def instant(words, zone):
    """The later reading: a freeze's end where clocks change."""
    t = datetime.strptime(words, "%Y-%m-%dT%H:%M").replace(tzinfo=zone)
    return max(t.replace(fold=f).astimezone(timezone.utc) for f in (0, 1))


UNTIL = instant(HOURS[1], HERE).strftime(ISO)


def in_zone(tz):
    """All that anybody is told of the freezes by a broker, console and commands started with that TZ (None: without one)."""
    os.environ.pop("TZ", None)
    if tz is not None:
        os.environ["TZ"] = tz
    time.tzset()
    st.start()
    with open("/proc/%d/environ" % st.broker.pid, "rb") as f:
        given = [v[3:].decode() for v in f.read().split(b"\0") if v.startswith(b"TZ=")]
    hr, c = HostRun(st), console.Client(st)
    db = Conn(hr.dsn(pg))
    seen = {"refused": [db.query("ALTER TABLE t ADD COLUMN c%d int" % i).message for i in range(2)],
            "allowed": db.query("INSERT INTO t VALUES (1)").ok}
    with open(st.state + "/keys/log/vkey", "rb") as f:
        st.broker_name = lambda: "sha256:" + hashlib.sha256(f.read().strip()).hexdigest()
        c.sign_in(KEY, "dana")
    status, told = c.ask("GET", "/api/status").json(), json.loads(st.cli("status", "--json").stdout)
    seen["api"] = {k: status[k] for k in ("calendars", "frozen")}
    seen["command"] = {k: told[k] for k in ("calendars", "frozen")}
    seen["windows"] = c.ask("GET", "/api/calendars").body.decode()
    seen["page"] = re.sub(r"(?s)^.*?<h1", "<h1", c.ask("GET", "/freezes").body.decode())
    decision = st.records("action")[-3]["data"]["decision"]
    seen["record"] = {k: decision[k] for k in ("verdict", "rules", "calendar", "until")}
    hr.end()
    st.stop()
    return given, seen


ASKED = ("UTC", "Asia/Kolkata", "America/New_York", None)
said = {}
for tz in ASKED:
    given, said[tz] = in_zone(tz)
    tap.eq(given, [tz] if tz else [], "the broker is started with TZ %s" % (tz or "not set"))
first = said["UTC"]
for part in first:
    tap.ok(all(s[part] == first[part] for s in said.values()), "FRZ-04: %s: the same under every TZ" % part,
           json.dumps({str(tz): s[part] for tz, s in said.items()}, indent=1))
tap.eq(first["record"], {"verdict": "deny", "rules": ["frozen-hours-akl"], "calendar": "hours-akl", "until": UNTIL.replace("Z", ".000000Z")},
       "FRZ-04: it is the freeze of Auckland's clocks that refuses, until they show its end")
tap.ok(all("hours-akl" in m and UNTIL in m for m in first["refused"]), "FRZ-04: and the client reads so", first["refused"])
tap.ok(first["allowed"], "FRZ-04: the same words of Los Angeles' clocks are of another time: what they would freeze passes")
states = {c["id"]: c for c in first["api"]["calendars"]}
tap.eq((states["hours-akl"]["state"], states["hours-akl"]["until"], states["hours-la"]["state"]), ("frozen", UNTIL, "clear"),
       "FRZ-04: the console's status says so")
tap.eq(first["command"], first["api"], "FRZ-04: in the words of the command line")

# === each edge of the weekly windows, as the console tells them ===============================================
windows = {c["id"]: c["windows"] for c in json.loads(first["windows"])["calendars"]}
probes = {}
for name, tz in ZONES.items():
    z, wrong = ZoneInfo(tz), []
    for w in windows["night-" + name]:
        local = [datetime.strptime(w[k], ISO).replace(tzinfo=timezone.utc).astimezone(z).strftime("%a %H:%M") for k in ("from", "to")]
        if local != ["Fri 22:00", "Sat 06:00"]:
            wrong.append((w, local))
    tap.ok(len(windows["night-" + name]) > 40 and not wrong, "FRZ-04: each window is from Friday 22:00 to Saturday 06:00 in %s" % tz, wrong)
    probes[name] = [datetime.strptime(windows["night-" + name][4][k], ISO) for k in ("from", "to")]


def explain(tz, at, sql):
    env = {k: v for k, v in os.environ.items() if k != "TZ"}
    env.update({"TZ": tz} if tz else {})
    r = json.loads(run([CLI, "policy", "explain", st.policy_file, "--target", "crm-db", "--sql", sql, "--at", at.strftime(ISO), "--json"], env=env).stdout)
    return r["decision"]["verdict"], r["decision"].get("until")


SECOND = timedelta(seconds=1)
for name, sql in (("akl", "DROP TABLE t"), ("la", "DELETE FROM t")):
    begin, end = probes[name]
    want = [("allow", None), *([("deny", end.strftime(ISO))] * 3), ("allow", None)]
    for tz in ASKED:
        got = [explain(tz, at, sql) for at in (begin - SECOND, begin, begin + (end - begin) / 2, end - SECOND, end)]
        tap.eq(got, want, "FRZ-04: and at its edges explain says the same as the console's window (%s, TZ %s)" % (name, tz or "not set"))
tap.eq(st.verify().returncode, 0, "the log verifies")
tap.done()
