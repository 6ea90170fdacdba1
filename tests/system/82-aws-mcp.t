#!/usr/bin/python3
"""The aws command and calls of MCP tools through the broker: INC-04 and INC-08 of the field cases for AWS, and tools that do
what the policy says of their names. Requests to AWS go unsigned here; 86-aws-sign.t has them signed."""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, PROXY, Http, HostRun, Stack, Tap, Temp, run, wait_for
from origin import Ca, Origin

tap = Tap()
temp = Temp("aws-mcp")
ca = Ca(temp.path + "/ca")
rds, s3 = Origin(temp.path, "rds.eu-west-1.amazonaws.com", ca=ca), Origin(temp.path, "s3.eu-west-1.amazonaws.com", ca=ca)
tools = Origin(temp.path, "mcp.test", ca=ca)
LIST = b'<DescribeDBInstancesResponse><DescribeDBInstancesResult><DBInstances/></DescribeDBInstancesResult></DescribeDBInstancesResponse>'
GONE = b'<DeleteDBInstanceResponse><DeleteDBInstanceResult/></DeleteDBInstanceResponse>'
rds.on("*", lambda req, c: c.reply(200, GONE if b"DeleteDBInstance" in req.body else LIST, [("Content-Type", "text/xml")]))
s3.on("*", lambda req, c: c.reply(200, b"<ListBucketResult><Name>logs</Name></ListBucketResult>", [("Content-Type", "application/xml")]))
tools.on("*", lambda req, c: c.reply(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}).encode(), [("Content-Type", "application/json")]))


def target(origin, kind, credential=None, **more):
    h = Http(origin, kind=credential, **more)
    h.more["kind"] = kind
    return h


mcp = target(tools, "mcp", "bearer", tools={"list_rows": ["read"], "drop_table": ["drop"]})
st = Stack(temp, None, http={"rds": target(rds, "aws", regions=["eu-west-1"]), "s3": target(s3, "aws"), "mcp": mcp})
hr = HostRun(st)
ENV = {"PATH": "/usr/bin:/bin", "AWS_PAGER": "", "HOME": temp.path + "/home", "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY]),
       "AWS_CA_BUNDLE": st.run_ca(), "AWS_MAX_ATTEMPTS": "1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "eu-west-1"}
os.makedirs(ENV["HOME"])
if not shutil.which("aws", path=ENV["PATH"]):
    raise RuntimeError("no aws: make deps installs it")


def aws(o, *argv, **env):
    return run(["aws", "--endpoint-url", o.origin, *([] if env else ["--no-sign-request"]), *argv], env={**ENV, **env})


def last():
    return st.acts()[-1]


# --- INC-04: one action in every encoding ------------------------------------------------------------------------
r = aws(rds, "rds", "describe-db-instances")
tap.ok(r.returncode == 0 and last()["request"]["effects"] == ["read"], "aws rds describe-db-instances reads", r.stdout)
DELETE = ["rds", "delete-db-instance", "--db-instance-identifier", "prod", "--skip-final-snapshot", "--delete-automated-backups"]
rds.forget()
r = aws(rds, *DELETE)
tap.ok(r.returncode != 0 and len(st.pending()) == 1 and not rds.arrivals, "INC-04: aws rds delete-db-instance waits for people", r.stdout)
tap.eq((last()["request"]["effects"], last()["request"]["input"]["relations"]), (["drop"], ["rds:DeleteDBInstance/prod"]),
       "INC-04: as a drop of that instance")
rid = next(iter(st.pending()))
shown = st.cli("show", rid).stdout
tap.ok("SkipFinalSnapshot=true" in shown and "DeleteAutomatedBackups=true" in shown, "INC-04: people see both dangerous flags", shown)
r = aws(rds, "rds", "delete-db-cluster", "--db-cluster-identifier", "prod", "--skip-final-snapshot")
other = next(i for i in st.pending() if i != rid)
lines = [x.strip() for x in st.cli("pending").stdout.splitlines() if "POST https://" in x]
tap.eq(sorted(x.split(" POST https://")[0] for x in lines), ["rds:DeleteDBCluster prod", "rds:DeleteDBInstance prod"], "pending says which action each is, and of what")
tap.ok(re.search(r"does \S*rds:DeleteDBInstance/prod", st.cli("replay", "timeline").stdout), "so does the timeline", st.cli("replay", "timeline").stdout[-600:])
for p in ("dana", "omar"):
    st.sign("approve", other, p)
r = aws(rds, *DELETE)
tap.ok(r.returncode != 0 and rid in st.pending() and not rds.arrivals, "INC-04: a signature for another action does not cover it", r.stdout)
FORM = [("Content-Type", "application/x-www-form-urlencoded")]
BODY = b"Action=DeleteDBInstance&DBInstanceIdentifier=prod&SkipFinalSnapshot=true"
WAYS = {
    "twice in the body": ("POST", "/", FORM, BODY + b"&Action=DescribeDBInstances"),
    "in the query and in the body": ("POST", "/?Action=DescribeDBInstances", FORM, BODY),
    "in lower case": ("POST", "/", FORM, BODY.replace(b"DeleteDBInstance&", b"deletedbinstance&")),
    "its name in lower case": ("POST", "/", FORM, BODY.replace(b"Action", b"action")),
    "as a target of the JSON protocol": ("POST", "/", [("Content-Type", "application/x-amz-json-1.1"), ("X-Amz-Target", "AmazonRDSv19.DeleteDBInstance")], b"{}"),
}
for name, (method, path, fields, body) in WAYS.items():
    x = hr.direct("rds")
    r = x.ask(method, path, rds.authority, fields, body)
    x.close()
    tap.ok(r.status in (400, 403) and last()["decision"]["verdict"] == "deny" and not rds.arrivals, "INC-04: %s: denied" % name, (r.status, last()["request"]["effects"]))
x = hr.direct("rds")
r = x.ask("GET", "/?" + BODY.decode(), rds.authority)
x.close()
tap.ok(r.status == 403 and last()["request"]["effects"] == ["drop"] and last()["decision"]["verdict"] == "needs_approval", "INC-04: in the query alone it is the same action", r.body)
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
r = aws(rds, *DELETE)
tap.ok(r.returncode == 0 and len(rds.arrivals) == 1, "signed, it passes once", r.stdout)
r = aws(rds, *DELETE)
tap.ok(r.returncode != 0 and len(rds.arrivals) == 1, "and not twice", r.stdout)

# --- INC-08: a script that tries whatever it finds ------------------------------------------------------------------
KEY = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
rds.forget()
r = aws(rds, "rds", "describe-db-instances", **KEY)
tap.ok(r.returncode != 0 and not rds.arrivals and last()["request"]["http"]["found"]["what"] == "credential_foreign", "INC-08: a key that was found is refused", r.stdout)
tap.ok(KEY["AWS_ACCESS_KEY_ID"] not in json.dumps(st.acts()), "INC-08: and stands nowhere in the log")
for profile in ("default", "prod", "admin"):
    r = aws(rds, "rds", "describe-db-instances", "--profile", profile, X="1")
    tap.ok(r.returncode != 0 and not rds.arrivals, "INC-08: there is no profile %s" % profile, r.stdout)
for argv, effects in ((["s3", "rb", "s3://logs"], ["drop"]), (["s3", "rm", "s3://logs/a"], ["delete"]),
                      (["s3api", "put-bucket-policy", "--bucket", "logs", "--policy", "{}"], ["priv"]),
                      (["s3api", "put-bucket-lifecycle-configuration", "--bucket", "logs", "--lifecycle-configuration", '{"Rules":[]}'], ["bulk", "delete"])):
    s3.forget()
    r = aws(s3, *argv)
    tap.ok(r.returncode != 0 and not any(q.method in ("DELETE", "PUT") for q in s3.arrivals) and last()["request"]["effects"] == effects,
           "INC-08: aws %s does not pass at once" % " ".join(argv[:2]), (r.stdout, last()["request"]["effects"]))
r = aws(s3, "s3api", "list-objects-v2", "--bucket", "logs")
tap.ok(r.returncode == 0 and last()["request"]["effects"] == ["read"], "what only reads passes", r.stdout)


# --- MCP -------------------------------------------------------------------------------------------------------
def ask(method, params, fields=()):
    x = hr.direct("mcp")
    r = x.ask("POST", "/mcp", tools.authority, [("Content-Type", "application/json"), *fields],
              json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    x.close()
    return r


call = lambda name, **kw: ask("tools/call", {"name": name, "arguments": {}}, **kw)
tap.eq((ask("tools/list", {}).status, call("list_rows").status), (200, 200), "MCP: lists, and a tool that reads, pass")
tools.forget()
r = call("drop_table")
tap.ok(r.status == 403 and last()["request"]["effects"] == ["drop"] and last()["request"]["input"]["relations"] == ["tool/drop_table"] and not tools.arrivals,
       "MCP: a tool that drops waits for people", r.body)
r = call("send_mail")
tap.ok(r.status == 403 and last()["request"]["effects"] == ["opaque"] and not tools.arrivals, "MCP: a tool of which nothing is said is denied", r.body)
r = call("drop_table", fields=[("Mcp-Name", "list_rows")])
tap.ok(r.status == 403 and last()["decision"]["verdict"] == "deny" and not tools.arrivals, "MCP: header and message must agree", r.body)

# --- kinds that are not served -----------------------------------------------------------------------------------
with open(st.policy_file, encoding="utf-8") as f:
    p = json.load(f)
p["targets"] = dict(p["targets"], cache={"kind": "redis", "env": "prod", "host": "localhost", "tls": "off"})
st.build_policy({"serial": p["serial"] + 1, "targets": p["targets"]})
st.broker.send_signal(1)
wait_for(lambda: "serial %d" % (p["serial"] + 1) in st.cli("status").stdout, 15)
r = run([CLI, "run", "--state", st.state, "--target", "cache", "--", "true"])
tap.ok(r.returncode != 0 and "does not speak the protocol of kind redis" in r.stdout, "a run with target cache is refused, and told why", r.stdout)
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
