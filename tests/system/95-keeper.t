#!/usr/bin/python3
"""A keeper (agent/keeper.h) over the real broker: programs, contexts, time, pause, narrowed targets, what people tell its
run, and its end in every way. tests/tools/keeper.c is its caller."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Pg, Stack, Tap, Temp, ending, run, wait_for

tap, temp = Tap(), Temp("keeper")
pg = Pg(temp)
st = Stack(temp, pg)
TOOL = BUILD + "/tool_keeper"
DIR = "/run/cofferdam-sandbox" if os.getuid() == 0 else None


class Keeper:
    def __init__(self, seconds=300, at_end="kill", *allow):
        with ending:
            self.p = subprocess.Popen([TOOL, "start", st.state + "/run/agent.sock", str(seconds), at_end, *allow], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, encoding="utf-8")
        self.line = self.p.stdout.readline().strip()
        self.id, self.run, self.owner, self.pid = (self.line.split() + [""] * 4)[:4]

    def ask(self, what, *args):
        return run([TOOL, what, self.id, *args]).stdout.strip()

    def begin(self, what, *args):
        p = subprocess.Popen([TOOL, what, self.id, *args], stdout=subprocess.PIPE, encoding="utf-8")
        return p, p.stdout.readline().split()[-1]

    def state(self):
        out = self.ask("state")
        return json.loads(out) if out.startswith("{") else out

    def left(self):
        with open("/proc/net/unix", encoding="ascii") as f:
            socks = self.id in f.read()
        return socks or bool(DIR and [n for n in os.listdir(DIR) if self.id in n])

    def drop(self):
        self.p.stdin.close()
        self.p.wait(20)


if os.getuid() != 0:
    tap.ok(True, "a keeper for each run is tried as root # SKIP needs limits")
    tap.done()
k = Keeper()
tap.ok(re.fullmatch(r"[a-z2-7]{20} r-[a-z2-7]{26} olivia \d+", k.line), "a keeper says id, run and owner", k.line)
tap.eq([t["target"] for t in k.state()["targets"]], ["crm-db"], "its state has the run's targets")
r = k.ask("run", "/bin/sh", "-c", "echo out; echo $GIVEN; echo err >&2; exit 3")
tap.ok("1:out" in r and "2:err" in r and "by the caller" in r and "ended exited 3" in r, "a program has streams, environment, status", r)
tap.has(k.ask("run", "nonesuch"), "failed -8 ", "one that is not there is told so")
tap.has(k.ask("run", "psql", "-Atc", "select 1+1"), "1:2", "a target is reached")
c = k.ask("context", "python").split()[0]
tap.has(k.ask("cell", c, "x = 41\nx + 1", "0"), 'display 1 {"text/plain":"42"}', "a cell has its value")
tap.has(k.ask("cell", c, "x", "0"), '{"text/plain":"41"}', "its context keeps it")
tap.has(k.ask("cell", c, "import time; time.sleep(100)", "300"), "ended timeout", "one whose time is over is interrupted")
p, _ = k.begin("cell", c, "time.sleep(100)", "0")
p.kill()
p.wait()
tap.has(k.ask("cell", c, "x", "0"), '{"text/plain":"41"}', "one whose caller is gone is interrupted, too")
k.ask("restart", c)
tap.has(k.ask("cell", c, "x", "0"), "NameError", "restarted, it has forgotten")
k.ask("close", c)
tap.eq((k.ask("contexts"), k.ask("cell", c, "1", "0")[:8]), ("[]", "error -8"), "closed, it is gone")
p, n = k.begin("cat", "cat")
k.ask("input", n, "typed\n")
tap.eq(p.stdout.readline(), "1:typed\n", "input reaches a program")
q, same = k.begin("attach", n)
tap.eq(same, n, "another caller attaches to it")
k.ask("input", n, "", "close")
tap.eq(("ended exited 0" in p.stdout.read(), "ended exited 0" in q.stdout.read()), (True, True), "the end of its input ends it, for both")
p, n = k.begin("run", "sleep", "1000")
k.ask("signal", n, "15")
tap.has(p.stdout.read(), "ended signalled 15", "a signal ends a program")
p, n = k.begin("run", "cat", "/dev/zero")
os.kill(p.pid, 19)
k.ask("signal", n, "9")
tap.ok(wait_for(lambda: k.ask("programs") == "[]"), "so it does one whose caller does not read")
p.kill()
tap.eq((k.ask("pause"), k.ask("pause")[:9], k.ask("run", "true")[:9]), ("", "error -13", "error -13"), "it is paused, once, and runs nothing then")
tap.eq(k.ask("resume", "200"), "", "it is resumed")
st.cli("pause", k.run, "--reason", "wait")
tap.ok(wait_for(lambda: k.state()["paused"]), "a person pauses it")
tap.has(k.ask("run", "true"), "paused by a person", "then it runs nothing")
st.cli("resume", k.run)
tap.ok(wait_for(lambda: not k.state()["paused"]) and "exited 0" in k.ask("run", "true"), "and goes on when that person says so")
tap.has(k.ask("narrow", "nope.example"), "no target of this run", "narrowed to what is no target it is refused")
tap.eq((k.ask("narrow", pg.host), "1:2" in k.ask("run", "psql", "-Atc", "select 1+1")), ("", True), "to one that is, it reaches that")
tap.has(k.ask("narrow", "*"), "does not come back", "and nothing is added again")
tap.eq(k.ask("end"), "", "it ends by order")
tap.ok(not k.left() and k.ask("state").startswith("error -8"), "and nothing is left by then")
k.drop()
tap.ok(wait_for(lambda: len(st.records("agent.result")) == len(st.records("agent.exec"))), "each program and cell has its result on the record")
k = Keeper(300, "kill", "-")
tap.ok(k.state()["targets"] == [] and "1:2" not in k.ask("run", "psql", "-Atc", "select 1+1"), "narrowed to nothing from the start it reaches nothing")
k.drop()
tap.ok(wait_for(lambda: not k.left()), "it ends with the server that held it")
tap.has(Keeper(300, "kill", "nope").line, "no target of this run", "narrowed to what there is not it does not begin")
k = Keeper(1)
tap.ok(wait_for(lambda: not k.left()), "it ends when its time is over")
tap.ok(wait_for(lambda: st.record("run.end")["status"] == "budget:time"), "and says so")
k = Keeper(1, "pause")
tap.ok(wait_for(lambda: k.state()["paused"]), "or is paused then")
tap.ok(k.ask("resume", "300") == "" and "exited 0" in k.ask("run", "true"), "and resumed")
st.cli("stop", k.run, "--reason", "enough")
tap.ok(wait_for(lambda: not k.left()) and wait_for(lambda: st.record("run.end")["status"] == "stopped"), "a person stops it")
k = Keeper()
p, n = k.begin("run", "sleep", "1000")
st.cli("run-end", k.run)
tap.ok(wait_for(lambda: not k.left()), "the broker ends it")
k = Keeper()
p, n = k.begin("run", "sleep", "1000")
os.kill(int(k.pid), 9)
tap.has(p.stdout.read(), "error -17", "its callers learn that it was killed")
tap.ok(wait_for(lambda: not k.left()), "and nothing of it is left")
tap.ok(wait_for(lambda: len(st.records("run.end")) == len(st.records("run.start"))), "each run has its end on the record")
tap.done()
