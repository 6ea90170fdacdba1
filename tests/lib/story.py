"""A recorded run for tests and benches of replay: a log made by the real store, its records and content made here."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from harness import BUILD

CLI, TOOL = BUILD + "/cofferdam", BUILD + "/tool_append-log"


def emit(d):
    return json.dumps(d, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def action_id(n):
    """Of the form that core gives: a- and 26 digits of base32."""
    digits = "abcdefghijklmnopqrstuvwxyz234567"
    return "a-" + "".join(digits[n // 32 ** i % 32] for i in range(26))


class Story:
    """Lines of a log. What is added last is the next record; self.seq is its number (log.open is 0)."""

    def __init__(self, run="r-1"):
        self.run, self.lines, self.n, self.digest = run, [], 0, "0" * 64

    @property
    def seq(self):
        return 1 + len(self.lines)

    def add(self, kind, src, data, content=b"", run=None):
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogateescape")
        self.lines.append(b"\t".join((kind.encode(), src.encode(), (self.run if run is None else run).encode(),
                                      emit(data).encode(), content.replace(b"\n", b"\\n"))))
        return self.seq - 1

    def policy(self, text, digest):
        self.digest = digest
        return self.add("policy.load", "broker", {"bundle": "@", "clock": "trusted", "digest": digest, "policy": "base", "serial": 1,
                                                  "tzdata": "x"}, text, "-")

    def start(self, task="Count the contacts.", **more):
        return self.add("run.start", "broker", {
            "agent": "helper", "level": {"back_end": "native"}, "login": "unix:bob", "owner": "bob", "task": "@",
            "targets": [{"address": "", "host": "db.internal", "kind": "postgres", "port": 5432, "target": "crm"}], **more}, task)

    def end(self, status="done", text="exited with 0"):
        return self.add("run.end", "broker", {"status": status, "text": text})

    def model(self, words, turn=1):
        return self.add("agent.model", "agent", {"content": "@", "done": False, "model": "fake", "turn": turn}, words)

    def exec(self, code, turn=1, **more):
        return self.add("agent.exec", "agent", {"content": "@", "language": "bash", "turn": turn, **more}, code)

    def result(self, text, turn=1, cause="exited", value=0, duration_us=0, **more):
        return self.add("agent.result", "agent", {"cause": cause, "content": "@", "duration_us": duration_us, "total_bytes": len(text),
                                                  "turn": turn, "value": value, **more}, text)

    def act(self, head, verdict="allow", rules=("read",), effects=("read",), operation="query", sent=None, reason="because", at=None,
            target="crm", http=None, **decision):
        self.n += 1
        aid = action_id(self.n)
        d = {"at": at or time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()), "clock": "trusted", "clock_known": True,
             "engine": "cofferdam-effects/5", "grants": [], "policy": self.digest, "reason": reason, "rules": list(rules), "slots": [],
             "verdict": verdict}
        d.update(decision)
        q = {"address": "x:1", "conn": 1, "digest": "0" * 64, "effects": list(effects), "facts": {}, "head": "@",
             "input": {"agent": "helper", "effects": list(effects), "env": "prod", "kind": "http" if http else "postgres", "owner": "bob",
                       "relations": [], "statements": 1, "target": target},
             "kind": "request" if http else "query", "operation": operation, "protocol": "http" if http else "postgresql", "sent": "",
             "target": target}
        if http:
            q["http"] = http
        else:
            q.update({"text_sha256": "0" * 64, "txn": "I", "txn_effects": []})
        seq = self.add("action", "broker", {"action": aid, "decision": d,
                                            "dispatch": {"sent": (verdict == "allow") if sent is None else sent}, "request": q}, head)
        return aid, seq

    def outcome(self, act, status="ok", **more):
        return self.add("outcome", "broker", {"action": act[0], "action_seq": act[1], "answer_bytes": 12, "duration_us": 1500, "rows": 1,
                                              "sent": "", "sqlstate": "", "status": status, "tag": "SELECT 1", **more})

    def ask(self, prompt, answer, status="ok", between=lambda: None):
        """An exchange with a model, as the broker saw it; `between`: what is recorded before its outcome is."""
        body = json.dumps({"model": "fake", "messages": [{"role": "user", "content": prompt}]})
        act = self.act("POST /v1/messages HTTP/1.1\r\nhost: model\r\n\r\n" + body, rules=["model"], effects=["write"], operation="POST",
                       target="claude", http={"authority": "model", "path": "/v1/messages", "scheme": "https", "via": "loop"})
        between()
        self.add("outcome", "broker", {"action": act[0], "action_seq": act[1], "answer": "@", "answer_bytes": 100, "duration_us": 900000,
                                       "http_status": 200, "sent": "", "status": status}, answer.replace("\\n", "\\u000a"))
        return act

    def turn(self, words, code, turn=1):
        """The model answers with words and code, which the agent tells and runs."""
        blocks = [{"type": "text", "text": words}]
        if code:
            blocks.append({"type": "tool_use", "name": "run_code", "input": {"language": "bash", "code": code}})
        self.ask("go on", json.dumps({"content": blocks}))
        self.model(words, turn)
        if code:
            self.exec(code, turn)

    def build(self, path, **opts):
        shutil.rmtree(path, ignore_errors=True)
        with tempfile.NamedTemporaryFile(prefix="story.") as f:
            f.write(b"".join(x + b"\n" for x in self.lines))
            f.flush()
            subprocess.run([TOOL, path, "0", "from=" + f.name] + ["%s=%s" % o for o in opts.items()], check=True,
                           stdout=subprocess.DEVNULL)
        key = path + "/keys/blob/r-1.key"
        for kid in (self.run, "policy"):
            if not os.path.exists("%s/keys/blob/%s.key" % (path, kid)):
                shutil.copy(key, "%s/keys/blob/%s.key" % (path, kid))
        return path


RULES = [{"id": "read", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         {"id": "two", "require": {"env": "prod", "effects": {"any": ["@destructive"]}},
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m",
          "limits": {"max_rows": 5}},
         {"id": "frozen", "forbid": {"env": "prod", "during": ["quiet"], "effects": {"any": ["schema", "bulk", "drop"]}},
          "override": "breakglass"}]


def bundle(where, rules=None, freeze=(-3600, 3600), name="base"):
    """A policy with a freeze from so many seconds before now to so many after: (bundle's text, digest)."""
    keys, now = {}, time.time()
    for who in ("bob", "dana", "omar"):
        path = "%s/key-%s" % (where, who)
        if not os.path.exists(path):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        with open(path + ".pub", encoding="ascii") as f:
            keys[who] = f.read().strip()
    p = {"schema": "cofferdam-policy/1", "policy": name, "serial": 1, "clock": "trusted",
         "targets": {"crm": {"kind": "postgres", "env": "prod", "host": "127.0.0.1", "port": 5432, "database": "crm", "user": "agent",
                             "credential": "crm", "tls": "off"}},
         "people": {"bob": {"roles": ["oncall"], "login": ["unix:bob"], "keys": [keys["bob"]]},
                    "dana": {"roles": ["dba"], "login": ["unix:dana"], "keys": [keys["dana"]]},
                    "omar": {"roles": ["oncall"], "login": ["unix:omar"], "keys": [keys["omar"]]}},
         "calendars": {"quiet": {"kind": "freeze", "tz": "Etc/UTC", "once": [
             {"from": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now + freeze[0])),
              "to": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now + freeze[1]))}],
             "valid": ["%d-01-01" % (time.gmtime().tm_year - 1), "2039-12-31"]}},
         "rules": rules or RULES}
    with open("%s/%s.json" % (where, name), "w", encoding="utf-8") as f:
        json.dump(p, f)
    out = "%s/bundles-%s" % (where, name)
    os.makedirs(out, exist_ok=True)
    subprocess.run([CLI, "policy", "build", "%s/%s.json" % (where, name), "-o", out], check=True, capture_output=True)
    digest = [x for x in os.listdir(out) if re.fullmatch(r"[0-9a-f]{64}\.json", x)][0][:64]
    with open("%s/%s.json" % (out, digest), encoding="utf-8") as f:
        return f.read(), digest


def replay(verb, state, *args, **kw):
    r = subprocess.run([CLI, "replay", verb, "--state", state, *args], capture_output=True, **kw)
    return r.returncode, r.stdout.decode("utf-8"), r.stderr.decode("utf-8", "replace")
