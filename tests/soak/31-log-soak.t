#!/usr/bin/env python3
"""An hour of writing, rotating, killing and verifying the decision log: nothing acknowledged is lost."""
import atexit
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib")]
from harness import BUILD, Tap  # noqa: E402

CLI = os.environ.get("COFFERDAM", BUILD + "/cofferdam")
TOOL = BUILD + "/tool_append-log"
SECONDS = int(os.environ.get("LOG_SOAK_SECONDS", "3600"))
SEED = int(os.environ.get("LOG_SOAK_SEED", "0")) or random.randrange(1 << 30)
RECORDS_MAX = 1000000  # then a new log is begun
T = tempfile.mkdtemp(prefix="log-soak.")
atexit.register(shutil.rmtree, T, True)
tap = Tap()
rnd = random.Random(SEED)
print("# LOG_SOAK_SEED=%d, %d s" % (SEED, SECONDS), flush=True)


def numbers(d):
    """How many records there are; None if their numbers have a gap."""
    n = 0
    for name in sorted(x for x in os.listdir(d + "/log/seg") if x.endswith(".jsonl")):
        with open(d + "/log/seg/" + name, "rb") as f:
            for line in f:
                if not line.endswith(b"\n"):
                    continue
                if json.loads(line)["body"]["seq"] != n:
                    return None
                n += 1
    return n


def verify(d):
    r = subprocess.run([CLI, "log", "verify", d + "/log", "--vkey", d + "/keys/log/vkey"], capture_output=True, text=True)
    return r.returncode, r.stdout


end = time.monotonic() + SECONDS
bad, kills, stops, verified, total, acked, segments, logs = [], 0, 0, 0, 0, 0, 0, 1
d = T + "/log-1"
while time.monotonic() < end and not bad:
    batch = rnd.choice((1, 8, 64, 256))
    p = subprocess.Popen([TOOL, d, str(rnd.choice((50, 2000, 20000))), "batch=%d" % batch, "cp=%d" % rnd.choice((0, batch, 1024)), "seg=%d" % rnd.choice((20000, 300000, 4000000)),
                          "size=%d" % rnd.choice((0, 200, 700))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit, seen = rnd.randrange(1, 200), 0
    for line in p.stdout:
        m = re.match(r"ack (\d+)$", line)
        if m:
            acked, seen = int(m[1]), seen + 1
        if seen == limit:
            p.send_signal(signal.SIGKILL)
    err = p.stderr.read()
    rc = p.wait()
    kills += rc == -signal.SIGKILL
    stops += rc == 0
    if rc not in (0, -signal.SIGKILL):
        bad.append((rc, err))
    if rnd.random() < 0.1 or acked > RECORDS_MAX:
        rc, out = verify(d)
        n = numbers(d)
        verified += 1
        if rc not in (0, 3) or "TAMPER" in out or n is None or n < acked:
            bad.append((rc, out, n, acked))
    if acked > RECORDS_MAX:
        total, segments, logs = total + acked, segments + len(os.listdir(d + "/log/seg")) // 2, logs + 1
        shutil.rmtree(d)
        d, acked = T + "/log-%d" % logs, 0
rc = subprocess.run([TOOL, d, "1"], capture_output=True, text=True)
v, n = verify(d), numbers(d)
total, segments = total + acked, segments + sum(x.endswith(".jsonl") for x in os.listdir(d + "/log/seg"))
print("# %d records acknowledged in %d logs and %d segments, %d kills, %d clean ends, %d verifications" % (total, logs, segments, kills, stops, verified + 1))
tap.eq(bad, [], "written, rotated, killed and verified: nothing acknowledged is lost, nothing looks tampered with")
tap.ok(rc.returncode == 0 and v[0] == 0 and n is not None and n >= acked, "and at the end the log opens and is whole", (rc.stderr, v, n, acked))
tap.done()
