#!/usr/bin/python3
"""What we export, read by OpenTelemetry's own generated messages: each request becomes the protocol's binary form and comes
back from it as it was. Needs the npm registry (tests/npm has the lock file); without it this test fails rather than be passed over.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, CLI, Tap, Temp
from npm import NPM, install

JUDGE = r"""
const root = require(process.cwd() + '/node_modules/@opentelemetry/otlp-transformer/build/src/generated/root.js');
const Request = root.opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest;
for (const line of require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
	const o = JSON.parse(line), m = Request.fromObject(o), wrong = Request.verify(m);
	if (wrong) { console.log(JSON.stringify({wrong})); continue; }
	const bytes = Request.encode(m).finish();
	const back = Request.toObject(Request.decode(bytes), {longs: String, enums: Number});
	const sort = v => Array.isArray(v) ? v.map(sort) : v && typeof v === 'object' ? Object.fromEntries(Object.keys(v).sort().map(k => [k, sort(v[k])])) : v;
	console.log(JSON.stringify({same: JSON.stringify(sort(o)) === JSON.stringify(sort(back)), bytes: bytes.length,
		records: o.resourceLogs[0].scopeLogs[0].logRecords.length}));
}
"""
tap, temp = Tap(), Temp("otlp")


def judged(text):
    r = subprocess.run(["node", "-e", JUDGE], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=NPM, encoding="utf-8", timeout=120, check=False)
    return [json.loads(x) for x in r.stdout.splitlines()] if r.returncode == 0 else [{"wrong": r.stdout}]


r = install()
if not tap.ok(r.returncode == 0, "the protocol's messages are installed from the lock file", r.stdout):
    tap.done()
data = {"action": "a-1", "decision": {"clock_known": True, "max_rows": 9007199254740991, "rules": ["r"], "verdict": "deny"}, "duration_us": -5,
        "request": {"effects": ["read", "drop"], "input": {"agent": "böt \x1b </script>", "owner": "anna"}, "target": "prod"}}
with open(temp.path + "/from", "w", encoding="utf-8") as f:
    f.writelines("action\tbroker\tr-1\t%s\t\n" % json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")).replace("\x1b", "\\u001b")
                 for _ in range(300))
subprocess.run([BUILD + "/tool_append-log", temp.path + "/s", "300", "batch=50", "from=" + temp.path + "/from"], check=True, stdout=subprocess.DEVNULL)
text = subprocess.run([CLI, "log", "export", "--state", temp.path + "/s", "--format", "otlp"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                      encoding="utf-8", timeout=60).stdout
v = judged(text)
tap.eq([x for x in v if not x.get("same")], [], "%d requests go through the binary form unchanged" % len(v))
tap.ok(sum(x.get("records", 0) for x in v) > 600, "with all their records", v)
one = text.splitlines()[0]
for name, was, now in (("a field that is none", '"eventName"', '"eventname"'), ("an integer of another size", '"severityNumber":9', '"severityNumber":"nine"'),
                       ("a text that is none", '"severityText":"INFO"', '"severityText":9')):
    tap.ok(was in one and not judged(one.replace(was, now))[0].get("same"), "%s is found" % name)
tap.done()
