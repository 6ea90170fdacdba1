#!/usr/bin/python3
"""The real aws command, boto3 and curl in a sandbox that holds no key: the broker signs what goes out, and servers that
verify by botocore's own signer say whether it did so well. Approvals, a freeze, a key that changes, the command line."""
import datetime
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from awsworld import ID, KEY, RULES, TOKEN, Client, World
from harness import CLI, TOP, Tap, Temp, run, wait_for

tap, temp = Tap(), Temp("aws-sign")
w = World(temp)
st = w.stack()


def inside(script, *targets):
    return st.sandbox("bash", "-c", script, opts=[x for t in targets for x in ("--target", t)])


def both(r):
    return r.stdout + r.stderr


# --- the vault ---------------------------------------------------------------------------------------------------------
listed = st.cli("credential", "list").stdout
tap.ok("aws-prod\taws\tversion 1\thttps://*.eu-west-1.amazonaws.com:443" in listed and not any(x in listed for x in (ID, KEY, TOKEN)),
       "credential list says what a key is bound to, and no part of it", listed)


def add(url, secret, kind="aws", name="other"):
    return run([CLI, "credential", "add", name, "--state", st.state, "--kind", kind, "--url", url], stdin=None, input=secret)


for url, secret, why in (("https://*.com", "AKIA1 secret", "two labels"), ("https://a.test", "AKIA1", "its secret key"),
                         ("http://a.test", "AKIA1 secret", "clear text"), ("https://a.test", "AKIA1 secret token tail", "more words"),
                         ("https://a.*.test", "AKIA1 secret", "host")):
    r = add(url, secret)
    tap.ok(r.returncode != 0 and why in r.stdout and "secret token" not in r.stdout, "credential add refuses %s with %d words" % (url, len(secret.split())), r.stdout)
tap.ok(add("https://*.a.test", "abcdef", "bearer").returncode != 0, "a wildcard is not for what is sent as it is")
r = add("http://localhost:9000", "export AWS_ACCESS_KEY_ID=minio\nexport AWS_SECRET_ACCESS_KEY=%s\n" % os.urandom(8).hex())
tap.ok(r.returncode == 0, "but a key as a shell has it, for loopback without TLS, is taken", r.stdout)

# --- the aws command, as it is -------------------------------------------------------------------------------------
r = inside("env | grep ^AWS_ | sort; aws sts get-caller-identity --query Account --output text", "sts")
tap.ok(r.returncode == 0 and r.stdout.strip().endswith("123456789012") and w.services["sts"].verified[-1][0] == ID,
       "aws sts get-caller-identity, without a file or an option, is signed by the real key", both(r))
env = dict(line.split("=", 1) for line in r.stdout.splitlines() if "=" in line)
tap.ok(env["AWS_ACCESS_KEY_ID"].startswith("cfph_") and env["AWS_SECRET_ACCESS_KEY"] == "the-broker-signs" and
       env["AWS_REGION"] == env["AWS_DEFAULT_REGION"] == "eu-west-1" and "AWS_SESSION_TOKEN" not in env, "the environment has a placeholder and the region", env)
r = inside("aws dynamodb list-tables --output text; /usr/bin/python3 -c 'import boto3; print(boto3.client(\"dynamodb\").list_tables()[\"ResponseMetadata\"][\"HTTPHeaders\"])'", "dynamodb")
tap.ok(r.returncode == 0 and "crm" in r.stdout and w.good("dynamodb") == 2, "aws dynamodb list-tables, and boto3", both(r))
tap.ok(not any(x in both(r) for x in (ID, KEY, TOKEN)) and "cfph_" in (r.stdout.split("x-leak") + [""])[1], "what a server gives back of the key is taken out", both(r))
r = inside("curl -sS 'https://rds.eu-west-1.amazonaws.com/?Action=DescribeDBInstances&Version=2014-10-31'; "
           "curl -sS -o /dev/null -w '%{http_code}' -X POST -d 'Action=DeleteDBInstance&DBInstanceIdentifier=p' https://rds.eu-west-1.amazonaws.com/", "rds")
tap.ok("DescribeDBInstancesResponse" in r.stdout and r.stdout.endswith("403") and w.good("rds") == 1, "curl that knows nothing of signatures: a read is signed, a deletion waits", both(r))

with open(os.path.join(TOP, "tests/tools/canary_scan.py"), encoding="utf-8") as f:
    scan = f.read()
needles = lambda *words: "".join(x.encode()[::-1].hex() + "\n" for x in words)
look = lambda *words: st.sandbox("bash", "-c", 'printf %s "$2" > needles; aws sts get-caller-identity > /dev/null; /usr/bin/python3 -c "$1" needles', "-", scan, needles(*words),
                                 opts=["--target", "sts"])
r = look(ID, KEY, TOKEN)
tap.ok(r.returncode == 0 and "SCANNED" in r.stdout and "FOUND NOTHING" in r.stdout, "no part of the key is anywhere in the sandbox: files, environments, memory", both(r))
tap.ok("environ: secret 0" in look("the-broker-signs").stdout, "where what is there would be found")

# --- S3 ------------------------------------------------------------------------------------------------------------------
KEYS = "a b+c/%2F/ü"
r = inside("""set -e
printf hello > f; head -c 20000000 /dev/zero | tr '\\0' x > big
aws s3 cp f 's3://logs/%(k)s'; aws s3 cp 's3://logs/%(k)s' back; cmp f back
aws s3 cp big s3://logs/big --no-progress; aws s3 cp s3://logs/big back --no-progress; cmp big back
aws s3 ls 's3://logs/a b+c/%%2F/'; aws s3 ls s3://logs/
aws s3 rm 's3://logs/%(k)s'; aws s3api list-objects-v2 --bucket logs --prefix 'a b+c/%%2F/ü=&' --output text
""" % {"k": KEYS}, "logs-s3")
sizes = {k: len(v) for k, v in w.store.items()}
tap.ok(r.returncode == 0 and sizes == {("logs", "big"): 20000000}, "aws s3 cp both ways (in parts, too), ls, rm, in the bucket's own host", (both(r), sizes))
tap.ok(not w.services["logs.s3"].refused and w.good("logs.s3") > 10, "and every signature was right", w.services["logs.s3"].refused)
r = inside("""/usr/bin/python3 - <<'EOF'
import boto3
from botocore.config import Config
s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path", "payload_signing_enabled": True}))
s3.put_object(Bucket="logs", Key=%r, Body=b"z" * 100000, Metadata={"who": "a  b"})
print(len(s3.get_object(Bucket="logs", Key=%r)["Body"].read()))
EOF
""" % (KEYS, KEYS), "s3")
tap.ok(r.returncode == 0 and r.stdout.startswith("100000\n") and not w.services["s3"].refused, "boto3, with a body whose hash is signed, by the path", both(r))

# --- people, once, a freeze --------------------------------------------------------------------------------------------
w.forget()
c = Client(w, st)
END = ["ec2", "terminate-instances", "--instance-ids", "i-0123456789abcdef0"]
r = c.aws(*END)
tap.ok(r.returncode != 0 and not w.origins["ec2"].arrivals and "AccessDenied" in r.stdout and "cofferdam approve" in r.stdout,
       "aws ec2 terminate-instances waits for people, and aws says so in its own words", r.stdout)
rid = next(iter(st.pending()))
shown = st.cli("show", rid).stdout
tap.ok("InstanceId.1=i-0123456789abcdef0" in shown and "the broker signs it for eu-west-1/ec2" in shown and not any(x in shown for x in ("AWS4", "X-Amz-Date", "cfph_")),
       "they see what it does, and nothing of the client's signature", shown)
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
time.sleep(1.1)  # another date, another signature of the client
r = c.aws(*END)
tap.ok(r.returncode == 0 and w.good("ec2") == 1 and w.services["ec2"].verified[0][0] == ID, "signed, it is sent once, by the real key", r.stdout)
r = c.aws(*END)
tap.ok(r.returncode != 0 and len(w.origins["ec2"].arrivals) == 1, "and not twice", r.stdout)
tap.ok(c.aws("ec2", "describe-instances").returncode == 0, "what only reads passes beside it")
now = datetime.datetime.now(datetime.timezone.utc)
iso = lambda hours: (now + datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M")
st.reload({"rules": RULES + [{"id": "freeze", "forbid": {"env": "prod", "during": ["stop"], "effects": {"any": ["@change", "@destructive"]}}, "override": "breakglass"}],
           "calendars": {"stop": {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2020-01-01", "2040-01-01"], "once": [{"from": iso(-1), "to": iso(2)}]}}})
w.forget()
open_before = st.pending()
r = c.aws("rds", "delete-db-instance", "--db-instance-identifier", "prod", "--skip-final-snapshot")
tap.ok(r.returncode != 0 and "freeze" in r.stdout and w.origins["rds"].connections == 0 and not w.origins["rds"].arrivals and st.pending() == open_before,
       "in a freeze aws rds delete-db-instance is denied, and the server hears nothing", r.stdout)
r = c.aws("rds", "describe-db-instances")
tap.ok(r.returncode == 0 and w.good("rds") == 1, "describe-db-instances is allowed", r.stdout)

# --- a key that changes while a run lives ----------------------------------------------------------------------------
NEXT = ("AKIACANARY0000000002", "cana/next+" + os.urandom(16).hex())
next_words = w.account.add(*NEXT)
del w.account.keys[ID]
r = c.aws("sts", "get-caller-identity")
tap.ok(r.returncode != 0 and "InvalidAccessKeyId" in r.stdout and ID not in r.stdout, "a key that the account has no more: the server's own words, less the id", r.stdout)
r = run([CLI, "credential", "rotate", "aws-prod", "--state", st.state], stdin=None, input=next_words)
st.broker.send_signal(1)
tap.ok(r.returncode == 0 and "version 2" in r.stdout, "credential rotate takes the new id and key together", r.stdout)
tap.ok(wait_for(lambda: c.aws("sts", "get-caller-identity").returncode == 0, 20) and w.services["sts"].verified[-1][0] == NEXT[0],
       "and the run that is under way signs with it", w.services["sts"].refused)
w.account.skew = 900
r = c.aws("sts", "get-caller-identity")
tap.ok(r.returncode != 0 and "RequestTimeTooSkewed" in r.stdout, "a clock that is wrong: the server's words reach the client", r.stdout)
w.account.skew = 0
c.hr.end()

# --- credential test ---------------------------------------------------------------------------------------------------
r = st.cli("credential", "test", "aws-prod")
tap.ok(r.returncode == 0 and "sts: used, for https://*.eu-west-1.amazonaws.com:443" in r.stdout, "credential test says for which targets a key is used", r.stdout)
w.forget()
r = st.cli("credential", "test", "aws-prod", "--run")
tap.ok(r.returncode != 0 and all("%s: HTTP 200" % t in r.stdout for t in ("sts", "rds", "ec2", "dynamodb", "s3")) and "logs-s3: say with --path" in r.stdout,
       "with --run each service is asked for something that only reads", r.stdout)
w.account.keys[NEXT[0]] = ("another", None)
r = st.cli("credential", "test", "aws-prod", "--run")
tap.ok(r.returncode != 0 and "SignatureDoesNotMatch" in r.stdout and NEXT[1] not in r.stdout, "and told where it is not accepted", r.stdout)

# --- what is nowhere -----------------------------------------------------------------------------------------------------
where = []
for base, _, files in os.walk(st.state):
    for f in files:
        if not os.path.isfile(base + "/" + f):
            continue
        with open(base + "/" + f, "rb") as g:
            data = g.read()
        where += [f for x in (ID, KEY, TOKEN, *NEXT) if x.encode() in data]
with open(st.broker_log, "rb") as g:
    data = g.read()
where += ["broker.log" for x in (ID, KEY, TOKEN, *NEXT) if x.encode() in data]
tap.eq(where, [], "no part of a key is in the log, in another file or in what the broker says")
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
