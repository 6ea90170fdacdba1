#!/usr/bin/python3
"""`cofferdam policy import-ics`: every trap that libical falls into is refused or put right, beside what is allowed."""
import json
import os
import random
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Tap, Temp, run  # noqa: E402

t = Tap()
temp = Temp("import")
PATH = os.path.join(temp.path, "x.ics")
LONDON = "TZID=Europe/London:"


def event(*lines, uid="1", summary="freeze", end="DTEND;" + LONDON + "20261219T080000", start="DTSTART;" + LONDON + "20261218T180000"):
    return ["BEGIN:VEVENT", "UID:" + uid, "DTSTAMP:20260101T000000Z", "SUMMARY:" + summary] + \
        [x for x in (start, end) if x] + list(lines) + ["END:VEVENT"]


def calendar(*events, top=()):
    return ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//x//y//EN"] + list(top) + \
        [x for e in events for x in e] + ["END:VCALENDAR"]


def put(lines, line_end="\r\n"):
    with open(PATH, "wb") as f:
        f.write("".join(x + line_end for x in lines).encode("utf-8", "surrogateescape"))


def imported(lines, *args, **kw):
    put(lines, **kw)
    return run([CLI, "policy", "import-ics", PATH, *args])


def windows(lines, *args):
    r = imported(lines, "--json", *args)
    try:
        return [(w["from"], w["to"]) for w in json.loads(r.stdout)["once"]]
    except ValueError:
        return r.stdout


def good(lines, want, name, *args):
    t.eq(windows(lines, *args), want, name)


def bad(lines, words, name, *args, **kw):
    r = imported(lines, *args, **kw)
    t.ok(r.returncode == 1 and words in r.stdout and "once" not in r.stdout, "refused: " + name, r.stdout)


ONE = [("2026-12-18T18:00:00Z", "2026-12-19T08:00:00Z")]
good(calendar(event()), ONE, "an event with a zone")
good(calendar(event(start="DTSTART:20261218T180000Z", end="DTEND:20261219T080000Z")), ONE, "an event in UTC")
t.eq(imported(calendar(event()), line_end="\n").returncode, 0, "line feeds alone do, too")
r = imported(calendar(event(summary="Year\033[31m-end")))
t.ok(r.returncode == 1 and "control character" in r.stdout, "refused: a control character", r.stdout)
r = imported(calendar(event(summary="Jahresende: kein Änderungsfenster")))
t.ok(r.returncode == 0 and "1 windows, zone Europe/London" in r.stdout and "See that every window is meant" in r.stdout and
     "Fri 2026-12-18 18:00:00 +00:00  to  Sat 2026-12-19 08:00:00 +00:00" in r.stdout, "a person sees each window in both clocks",
     r.stdout)
text = r.stdout[r.stdout.index("{"):]
policy = {"schema": "cofferdam-policy/1", "policy": "t", "serial": 1,
          "targets": {"db": {"kind": "postgres", "env": "prod", "host": "d.internal", "database": "d", "user": "u", "credential": "c"}},
          "calendars": {"c": dict(json.loads(text), valid=["2026-01-01", "2028-01-01"])},
          "rules": [{"id": "p", "permit": {"effects": {"only": ["@data"]}}},
                    {"id": "f", "forbid": {"during": ["c"], "effects": {"any": ["read"]}}, "override": "never"}]}
with open(temp.path + "/p.json", "w", encoding="ascii") as f:
    json.dump(policy, f)
got = json.loads(run([CLI, "policy", "calendar", temp.path + "/p.json", "--json"]).stdout)["calendars"][0]["intervals"]
t.eq(got, [list(ONE[0])], "what is printed can be pasted, and means the same")

# Zones.
bad(calendar(event(start="DTSTART;TZID=Europe/Lodnon:20261218T180000", end="DTEND;TZID=Europe/Lodnon:20261219T080000")),
    "Europe/Lodnon", "a misspelt zone, which libical takes for UTC")
bad(calendar(event(start="DTSTART:20261218T180000", end="DTEND:20261219T080000")), "without a zone", "a time without a zone")
bad(calendar(event(), event(uid="2", start="DTSTART;TZID=Europe/Berlin:20261218T180000",
                            end="DTEND;TZID=Europe/Berlin:20261219T080000")), "one zone", "two zones in one file")
bad(calendar(event(start="DTSTART;TZID=Europe/London:20261218T180000Z")), "beside a UTC time", "a zone beside UTC")
ZONE = ["BEGIN:VTIMEZONE", "TZID:Europe/London", "BEGIN:STANDARD", "DTSTART:19700101T000000", "TZOFFSETFROM:+0500",
        "TZOFFSETTO:+0500", "END:STANDARD", "END:VTIMEZONE"]
good(calendar(ZONE, event()), ONE, "what the file says of a zone is not believed")
bad(calendar(event()), "--tz says", "another zone than is asked for", "--tz", "Europe/Berlin")

# Dates.
for value in ("20261318T180000", "20260230T180000", "20261218T256161", "20261218T2500", "2026-12-18T18:00", "20261218T180060"):
    bad(calendar(event(start="DTSTART;" + LONDON + value)), "that there is", "%s, which libical may put right" % value)
good(calendar(event(start="DTSTART;" + LONDON + "20280229T180000", end="DTEND;" + LONDON + "20280301T080000")),
     [("2028-02-29T18:00:00Z", "2028-03-01T08:00:00Z")], "29 February of a leap year")
bad(calendar(event(end="DTEND;" + LONDON + "20261217T080000")), "ends before", "an end before its start")
bad(calendar(event(end="DTEND;" + LONDON + "20261218T180000")), "ends before", "an end at its start")
bad(calendar(event(end="DURATION:-PT1H")), "no duration", "a negative duration")
bad(calendar(event(end="DURATION:PT0S")), "no duration", "a duration of nothing")
bad(calendar(event(end="DURATION:PT1H30S5M")), "no duration", "a duration out of order")
good(calendar(event(end="DURATION:P1DT2H")), [("2026-12-18T18:00:00Z", "2026-12-19T20:00:00Z")], "a duration")
bad(calendar(event(end=None)), "has no end", "an event without end, which libical takes for 0 seconds")
bad(calendar(event("DURATION:PT1H")), "exclude one another", "an end and a duration")
bad(calendar(event(end="DTEND;VALUE=DATE:20261219")), "not of one kind", "a day as the end of a time")
bad(calendar(event(start=None)), "no DTSTART", "an event without start")

# Whole days.
DAY = dict(start="DTSTART;VALUE=DATE:20261224", end="DTEND;VALUE=DATE:20261227")
good(calendar(event(**DAY)), [("2026-12-24T00:00:00Z", "2026-12-27T00:00:00Z")],
     "whole days end before DTEND, which libical takes for a day more", "--tz", "Europe/London")
good(calendar(event(start=DAY["start"], end=None)), [("2026-12-24T00:00:00Z", "2026-12-25T00:00:00Z")],
     "a day without end is one day, which libical takes for two", "--tz", "Europe/London")
good(calendar(event(start="DTSTART;VALUE=DATE:20260329", end="DTEND;VALUE=DATE:20260330")),
     [("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")], "a day of 23 hours", "--tz", "Europe/Berlin")
good(calendar(event(start=DAY["start"], end="DURATION:P2D")), [("2026-12-24T00:00:00Z", "2026-12-26T00:00:00Z")],
     "a duration of days", "--tz", "Europe/London")
bad(calendar(event(**DAY)), "say --tz", "whole days without a zone")
bad(calendar(event(start=DAY["start"], end="DURATION:PT5H")), "DURATION of days", "whole days of hours", "--tz", "UTC")

# Clock changes.
good(calendar(event("RRULE:FREQ=WEEKLY;COUNT=3", start="DTSTART;" + LONDON + "20260320T160000",
                    end="DTEND;" + LONDON + "20260323T080000")),
     [("2026-03-20T16:00:00Z", "2026-03-23T08:00:00Z"), ("2026-03-27T16:00:00Z", "2026-03-30T08:00:00Z"),
      ("2026-04-03T15:00:00Z", "2026-04-06T07:00:00Z")],
     "a weekend over the spring change lasts until both readings are over")
r = imported(calendar(event("RRULE:FREQ=WEEKLY;COUNT=3", start="DTSTART;" + LONDON + "20260320T160000",
                            end="DTEND;" + LONDON + "20260323T080000")))
t.has(r.stdout, "by the wall clock and by elapsed time it ends apart: the later is taken", "which is said")
good(calendar(event("RRULE:FREQ=WEEKLY;COUNT=2", start="DTSTART;" + LONDON + "20260320T160000", end="DURATION:P2DT16H")),
     [("2026-03-20T16:00:00Z", "2026-03-23T08:00:00Z"), ("2026-03-27T16:00:00Z", "2026-03-30T07:00:00Z")],
     "days of a duration are the calendar's, its hours elapse")
TWICE = dict(start="DTSTART;" + LONDON + "20261025T013000", end="DTEND;" + LONDON + "20261025T023000")
good(calendar(event(**TWICE)), [("2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z")],
     "a start that comes twice is the first one, where libical takes the second")
good(calendar(event(**TWICE)), [("2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z")],
     "of an open window the second", "--kind", "open")
good(calendar(event(start="DTSTART;" + LONDON + "20260329T013000", end="DTEND;" + LONDON + "20260329T030000")),
     [("2026-03-29T00:30:00Z", "2026-03-29T02:00:00Z")], "a start that does not come is the earlier reading")
t.has(imported(calendar(event(**TWICE))).stdout, "come twice or not at all: the earlier is taken", "which is said, too")
EASTER = dict(start="DTSTART;TZID=Pacific/Easter:20300407T120000", end="DTEND;TZID=Pacific/Easter:20300407T130000")
good(calendar(event(**EASTER)), [("2030-04-07T18:00:00Z", "2030-04-07T19:00:00Z")], "Pacific/Easter, whose rule libical gets wrong")

# Recurrence.
good(calendar(event("RRULE:FREQ=DAILY;COUNT=2")), ONE + [("2026-12-19T18:00:00Z", "2026-12-20T08:00:00Z")], "DAILY")
good(calendar(event("RRULE:FREQ=WEEKLY;INTERVAL=2;UNTIL=20270102T000000Z;BYDAY=FR")),
     ONE + [("2027-01-01T18:00:00Z", "2027-01-02T08:00:00Z")], "WEEKLY, every second")
good(calendar(event("RRULE:FREQ=MONTHLY;COUNT=2;BYDAY=3FR")), ONE + [("2027-01-15T18:00:00Z", "2027-01-16T08:00:00Z")],
     "the third Friday")
good(calendar(event("RRULE:FREQ=YEARLY;COUNT=2")), ONE + [("2027-12-18T18:00:00Z", "2027-12-19T08:00:00Z")], "YEARLY")
good(calendar(event("RRULE:FREQ=MONTHLY;COUNT=2;BYMONTHDAY=-14")), ONE + [("2027-01-18T18:00:00Z", "2027-01-19T08:00:00Z")],
     "a day from the end of the month")
good(calendar(event("RRULE:FREQ=DAILY")), ONE, "a rule without end, up to --to", "--to", "2026-12-19T10:00:00Z")
bad(calendar(event("RRULE:FREQ=DAILY")), "never ends", "a rule without end")
for rule, words in (("FREQ=SECONDLY;COUNT=2", "FREQ must be"), ("FREQ=HOURLY;COUNT=2", "FREQ must be"),
                    ("FREQ=WEEKLY;COUNT=2;BYDAY=XX", "BYDAY names no day"), ("FREQ=WEEKLY;COUNT=2;BYDAY=", "BYDAY names no day"),
                    ("FREQ=WEEKLY;COUNT=2;BYDAY=2FR", "MONTHLY and YEARLY alone"), ("COUNT=2", "FREQ is missing"),
                    ("FREQ=DAILY;COUNT=2;COUNT=3", "stands twice"), ("FREQ=DAILY;COUNT=2;UNTIL=20270101T000000Z", "exclude"),
                    ("FREQ=YEARLY;COUNT=2;BYMONTH=2;BYMONTHDAY=30", "none of the days"),
                    ("FREQ=MONTHLY;COUNT=2;BYSETPOS=1;BYDAY=FR", "only FREQ"), ("FREQ=DAILY;COUNT=2;BYHOUR=4", "only FREQ"),
                    ("FREQ=WEEKLY;COUNT=2;BYDAY=MO", "none of the days"), ("FREQ=DAILY;UNTIL=20270101", "UNTIL must be a time"),
                    ("FREQ=DAILY;UNTIL=20270101T000000", "UNTIL must be in UTC"), ("FREQ=FORTNIGHTLY", "FREQ must be"),
                    ("FREQ=DAILY;COUNT=5000", "more than"), ("FREQ=YEARLY;BYWEEKNO=1;COUNT=2", "only FREQ")):
    bad(calendar(event("RRULE:" + rule)), words, "RRULE " + rule)
bad(calendar(event("RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30")), "FREQ must be", "the rule that libical works on for ever")
ours, theirs = socket.socketpair()
helper = subprocess.Popen([os.path.join(BUILD, "cofferdam-ics")], pass_fds=[3], preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
theirs.close()
ours.sendall("\n".join(["-"] + calendar(event("RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"))).encode())
ours.shutdown(socket.SHUT_WR)
ours.settimeout(60)
t.eq(ours.recv(100), b"", "asked directly, libical's process has no answer to it")
t.eq(helper.wait(60), -signal.SIGKILL, "and is ended by its limit of a second")
for line, words in (("RECURRENCE-ID;" + LONDON + "20261218T180000", "RECURRENCE-ID"), ("EXRULE:FREQ=DAILY;COUNT=2", "EXRULE"),
                    ("RDATE;" + LONDON + "20261220T180000", "RDATE"), ("RRULE:FREQ=DAILY;COUNT=2", "stands twice"),
                    ("STATUS:TENTATIVE", "only CONFIRMED"), ("X-LIC-ERROR:x", "X-LIC-ERROR"), ("NOT-A-PROPERTY:1", "is not known"),
                    ("EXDATE;" + LONDON + "20261231T180000", "cancels no occurrence")):
    bad(calendar(event("RRULE:FREQ=DAILY;COUNT=3", line)), words, line.split(":")[0])
THREE = ["RRULE:FREQ=DAILY;COUNT=3"]
TWO = ONE + [("2026-12-20T18:00:00Z", "2026-12-21T08:00:00Z")]
good(calendar(event(*THREE, "EXDATE;" + LONDON + "20261219T180000")), TWO, "EXDATE in the zone")
good(calendar(event(*THREE, "EXDATE:20261219T180000Z")), TWO, "EXDATE in UTC, which libical lets pass")
r = imported(calendar(event("STATUS:CANCELLED"), event(uid="2")))
t.ok(r.returncode == 0 and "left out, since it is cancelled" in r.stdout and "1 windows" in r.stdout, "a cancelled event is left out, and said",
     r.stdout)
bad(calendar(event(), event()), "two events have the UID", "one UID twice")

# The file.
bad(calendar(event())[:-1], "ends before END:VCALENDAR", "a file that is cut")
bad(calendar(event())[1:], "BEGIN:VCALENDAR", "a file without a calendar")
bad(calendar(["BEGIN:VTODO", "UID:1", "END:VTODO"]), "VTODO is not supported", "something else than events")
bad(calendar(), "no event", "a file without events")
bad(calendar(event(), top=["METHOD:CANCEL"]), "METHOD:CANCEL", "a file that cancels")
bad(calendar(event(), top=["CALSCALE:CHINESE"]), "GREGORIAN", "another calendar")
bad([x for x in calendar(event()) if not x.startswith("VERSION")], "VERSION", "no version")
bad(calendar(event(summary="\udcff")), "not UTF-8", "bytes that are no UTF-8")
bad(calendar(event(summary="x" * 9000)), "over 8192 bytes", "a line without end")
folded = [x if len(x) < 20 else x[:17] + "\r\n " + x[17:] for x in calendar(event())]
good(folded, ONE, "folded lines")
t.eq(imported([]).returncode, 1, "an empty file is refused")
t.eq(run([CLI, "policy", "import-ics", "nowhere.ics"]).returncode, 2, "a file that is not there is exit status 2")

# What we export comes back.
with open(temp.path + "/out.ics", "wb") as f:
    f.write(subprocess.run([CLI, "policy", "calendar", temp.path + "/p.json", "--ics"], check=True, stdout=-1).stdout)
r = run([CLI, "policy", "import-ics", temp.path + "/out.ics", "--json"])
t.eq([(w["from"], w["to"]) for w in json.loads(r.stdout)["once"]], ONE, "what calendar --ics writes is read back")

# Rules at random: both readers agree, or they are refused; and a third one, dateutil, says the same.
from dateutil import rrule, tz  # noqa: E402

rng = random.Random(int(os.environ.get("ICS_SEED", "11")))
days = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
same = taken = 0
first = None
for _ in range(int(os.environ.get("ICS_ROUNDS", "150"))):
    freq = rng.choice(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
    parts = ["FREQ=" + freq, "COUNT=%d" % rng.randint(1, 30)]
    if rng.random() < 0.4:
        parts.append("INTERVAL=%d" % rng.randint(1, 4))
    if rng.random() < 0.5:
        nth = rng.choice(["", "", "1", "-1", "2"]) if freq == "MONTHLY" else ""
        parts.append("BYDAY=" + ",".join(nth + d for d in rng.sample(days, rng.randint(1, 4))))
    if rng.random() < 0.3 or freq == "YEARLY":
        parts.append("BYMONTH=" + ",".join(str(m) for m in rng.sample(range(1, 13), rng.randint(1, 5))))
    if rng.random() < 0.3 and freq != "WEEKLY":
        parts.append("BYMONTHDAY=" + ",".join(str(m) for m in rng.sample([1, 5, 15, 28, 30, 31, -1, -2], 2)))
    if rng.random() < 0.3:
        parts.append("WKST=" + rng.choice(days))
    day = "2026%02d%02d" % (rng.randint(1, 12), rng.randint(1, 28))
    rule = ";".join(parts)
    got = windows(calendar(event("RRULE:" + rule, start="DTSTART;TZID=UTC:" + day + "T100000", end="DURATION:PT1H")))
    if isinstance(got, str):
        if "libical" in got and first is None:
            first = rule + " " + day + ": " + got
        continue
    taken += 1
    want = [x.strftime("%Y-%m-%dT%H:%M:%SZ") for x in rrule.rrulestr("DTSTART:" + day + "T100000\nRRULE:" + rule)]
    if [w[0] for w in got] == want:
        same += 1
    elif first is None:
        first = "%s %s:\nours %s\ndateutil %s" % (rule, day, [w[0] for w in got], want)
t.eq((same, first), (taken, None), "rules at random: libical and dateutil see the same occurrences")
t.ok(taken >= 20, "many of them were taken", taken)
temp.remove()
t.done()
