#!/usr/bin/python3
"""The clock under the writer is set back and forth: order stays, the log says so, and verifies."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
from harness import BUILD, Tap  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
LIB = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
T = tempfile.mkdtemp(prefix="log-clock.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
if not os.path.exists(LIB) or os.environ.get("MODE", "").startswith(("asan", "tsan")):
    print("1..0 # SKIP %s cannot be put before this build" % LIB)
    sys.exit(0)


def records(d):
    return [json.loads(x)["body"] for f in sorted(os.listdir(d + "/log/seg")) if f.endswith(".jsonl") for x in open(d + "/log/seg/" + f, "rb")]


def verify(d):
    r = subprocess.run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"], capture_output=True, text=True)
    return r.returncode, r.stdout


def steps(d):
    return [r["data"]["by_us"] for r in records(d) if r["type"] == "clock.step"]


def write_offset(offset):
    with open(T + "/at.new", "w") as f:
        f.write(offset + "\n")
    os.rename(T + "/at.new", T + "/at")


def run(d, count, offsets, *more):
    """Append, one sync each; the clock's offset changes each time some more records are durable."""
    write_offset(offsets[0])
    env = dict(os.environ, LD_PRELOAD=LIB, FAKETIME_TIMESTAMP_FILE=T + "/at", FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1")
    p = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=2000",
                          TOOL, d, str(count), "seg=20000", *more], env=env, stdout=subprocess.PIPE, text=True)
    acks = 0
    for line in p.stdout:
        acks += line.startswith("ack")
        if acks % (count // len(offsets)) == 0 and acks // (count // len(offsets)) < len(offsets):
            write_offset(offsets[acks // (count // len(offsets))])
    return p.wait()


def numbers(d):
    return [r["seq"] for r in records(d)]


d = T + "/a"
tap.eq(run(d, 200, ["+0"]), 0, "with the clock left alone the writer runs")
tap.eq((steps(d), verify(d)[0]), ([], 0), "and notes nothing")
tap.eq(run(d, 300, ["+0", "-3600", "+86400"]), 0, "set back an hour, then on by more than a day, it goes on")
s = steps(d)
tap.ok(len(s) == 2 and abs(s[0] + 3600e6) < 60e6 and abs(s[1] - 90000e6) < 60e6, "both are on the record, by how much", s)
tap.ok(len({r["time"][:10] for r in records(d)}) >= 2, "a segment older than a day is sealed by the clock that holds", len(os.listdir(d + "/log/seg")))
tap.eq(numbers(d), list(range(len(numbers(d)))), "the order is by number, without a gap")
tap.eq(verify(d)[0], 0, "and the log verifies")
tap.eq(run(d, 10, ["+0"]), 0, "a start with a clock behind the last record")
tap.ok(len(steps(d)) == 3 and abs(steps(d)[2] + 86400e6) < 120e6, "is on the record, too", steps(d))
tap.eq(run(d, 100, ["+0", "+0.4"]), 0, "a clock that is moved by less than a second")
tap.eq((len(steps(d)), verify(d)[0]), (3, 0), "is not a step")
tap.eq(run(d, 60, ["@2026-12-31 23:59:58", "@2027-01-01 00:00:01"]), 0, "over a new year")
tap.eq((numbers(d), verify(d)[0]), (list(range(len(numbers(d)))), 0), "the log verifies as well")
tap.done()
