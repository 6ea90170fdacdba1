#!/usr/bin/python3
"""A log that is verified, indexed, queried and proved from while its writer writes, rotates, signs and is killed: whatever moment a
reader meets, nothing is called tampered with, what was signed once stays signed, and no reader holds the writer up."""
import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log
from harness import BUILD, CLI, Tap, Temp, run

tap, temp = Tap(), Temp("log-live")
d = temp.path + "/log"
KEYS = temp.path + "/vkey"  # that of the driver is written anew by each writer
SEED = int(os.environ.get("LIVE_SEED", "0")) or random.randrange(1 << 30)
ROUNDS, KILLS, SEGMENTS = int(os.environ.get("LIVE_ROUNDS", "40")), 12, 12
rnd = random.Random(SEED)
print("# LIVE_SEED=%d" % SEED)
done, wrong = threading.Event(), []
acked, kills, stops = 0, 0, 0


def write(count, kill_at):
    """One writer's life: to its end, or killed at that acknowledgement."""
    global acked, kills, stops
    p = subprocess.Popen([BUILD + "/tool_append-log", d, str(count), "batch=%d" % rnd.choice((1, 4, 16)), "cp=%d" % rnd.choice((0, 16, 64)),
                          "seg=%d" % rnd.choice((4000, 20000, 300000)), "size=%d" % rnd.choice((0, 300))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = 0
    for line in p.stdout:
        m = re.match(r"ack (\d+)$", line)
        acked, seen = int(m[1]) if m else acked, seen + bool(m)
        if seen == kill_at:
            p.kill()
    err, rc = p.stderr.read(), p.wait()
    kills, stops = kills + (rc == -9), stops + (rc == 0)
    if rc not in (0, -9):
        wrong.append(("the writer", rc, err))


def writer():
    while not done.is_set() and not wrong:
        write(rnd.choice((20, 200)), rnd.randrange(1, 60))


write(4, -1)
shutil.copy(d + "/keys/log/vkey", KEYS)
t = threading.Thread(target=writer)
t.start()
at, size, n, said = 0, 0, {"verify": 0, "the other verifier": 0, "index": 0, "query": 0, "prove": 0}, {0: 0, 3: 0}
while not wrong and (n["verify"] < ROUNDS or kills < KILLS or len(os.listdir(d + "/log/seg")) < SEGMENTS):
    pin, before = temp.path + "/pin", acked
    with open(d + "/log/checkpoint", "rb") as f, open(pin, "wb") as g:
        g.write(f.read())
    r = run([CLI, "log", "verify", d + "/log", "--keys", KEYS, "--pin", pin])
    m = re.match(r"VERIFIED to size (\d+).*?(?: \+ (\d+) unsigned)?(?: \+ \d+ torn bytes)?$", r.stdout.splitlines()[-1] if r.stdout else "")
    n["verify"] += 1
    if r.returncode not in said or not m or int(m[1]) < at or int(m[1]) + int(m[2] or 0) < before:
        wrong.append(("verify", r.returncode, r.stdout, at, before))
        break
    said[r.returncode] += 1
    at = int(m[1])
    if n["verify"] % 6 == 0:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rc = verify_log.main(["", d + "/log", KEYS, pin])
        n["the other verifier"] += 1
        if rc not in said:
            wrong.append(("the other verifier", rc, out.getvalue()))
    if n["verify"] % 3 == 0:
        r = run([CLI, "log", "index", d, "--index", temp.path + "/index.db"])
        n["index"] += 1
        if r.returncode != 0:
            wrong.append(("index", r.returncode, r.stderr))
        r = run([CLI, "log", "query", d, "--index", temp.path + "/index.db", "--type", "agent.exec", "--limit", "5", "--json"])
        n["query"] += 1
        if r.returncode != 0 or any("seq" not in json.loads(x)["body"] for x in r.stdout.splitlines() if x.startswith("{")):
            wrong.append(("query", r.returncode, r.stdout, r.stderr))
        r = run([CLI, "log", "prove", str(at - 1), d, "--keys", KEYS])
        n["prove"] += 1
        if r.returncode != 0:
            wrong.append(("prove", at, r.stderr))
done.set()
t.join()
tap.eq(wrong[:3], [], "read %d times (%s) while %d records were written, in %d segments, by writers of which %d were killed and %d ended" %
       (sum(n.values()), ", ".join("%s %d" % x for x in n.items()), acked, sum(x.endswith(".jsonl") for x in os.listdir(d + "/log/seg")), kills, stops))
print("# verified to the end %d times, with something unsigned or torn behind it %d times" % (said[0], said[3]))
write(1, -1)
r = run([CLI, "log", "verify", d + "/log", "--keys", KEYS])
tap.ok(r.returncode == 0 and int(re.search(r"VERIFIED to size (\d+)", r.stdout)[1]) >= acked, "and at the end it holds all that was acknowledged, signed", r.stdout)
tap.done()
