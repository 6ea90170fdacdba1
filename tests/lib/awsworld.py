"""What the tests of signed requests share: services with real host names on port 443 of loopback addresses, one account, one
credential for all of them, and a broker. Only root may listen on that port."""
import json
import os
import shutil

from awsserver import Account, Service, s3
from harness import CLI, PROXY, Http, HostRun, Stack, must, run
from origin import Ca, Origin

ID, KEY, TOKEN = "AKIACANARY0000000001", "cana/ry+" + os.urandom(16).hex(), "tokencanary/" + os.urandom(40).hex()
ALL = ["@data", "@change", "@destructive"]
RULES = [
    {"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
    {"id": "work", "permit": {"effects": {"only": ALL}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
    {"id": "two-people", "require": {"env": "prod", "effects": {"any": ["@destructive"]}},
     "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m"}]
if os.getuid() != 0:
    raise RuntimeError("these tests listen on port 443: run them as root, as make check does")
if not shutil.which("aws", path="/usr/bin:/bin"):
    raise RuntimeError("no aws: make deps installs it")


def query(req, c):
    form = dict(p.split("=", 1) for p in (req.query + "&" + req.content.decode()).split("&") if "=" in p)
    name = form.get("Action", "?")
    inner = {"DescribeDBInstances": "<DBInstances/>", "DescribeInstances": "<reservationSet/>", "TerminateInstances": "<instancesSet/>",
             "GetCallerIdentity": "<Account>123456789012</Account><Arn>arn:aws:iam::123456789012:user/agent</Arn><UserId>U</UserId>"}.get(name, "")
    if not (req.get("Host") or "").startswith("ec2."):
        inner = "<%sResult>%s</%sResult>" % (name, inner, name)
    c.reply(200, "<%sResponse>%s</%sResponse>" % (name, inner, name), [("Content-Type", "text/xml")])


def tables(req, c):
    said = json.loads(req.content)
    body = {"ListTables": {"TableNames": ["crm"]}, "PutItem": {}}.get(req.get("X-Amz-Target").split(".")[1], {"TableName": said.get("TableName")})
    # It gives back what it should not know.
    c.reply(200, json.dumps(body), [("Content-Type", "application/x-amz-json-1.0"), ("X-Leak", "%s %s %s" % (ID, KEY, TOKEN))])


class World:
    def __init__(self, temp, names=("rds", "ec2", "sts", "dynamodb", "s3", "logs.s3"), **policy):
        self.ca, self.account, self.store, self.temp = Ca(temp.path + "/ca"), Account(), {}, temp
        answers = {"rds": query, "ec2": query, "sts": query, "dynamodb": tables, "s3": s3(self.store), "logs.s3": s3(self.store, "logs")}
        self.origins, self.services, self.targets = {}, {}, {}
        for i, name in enumerate(names):
            o = Origin(temp.path, name + ".eu-west-1.amazonaws.com", ca=self.ca, address="127.0.85.%d" % (i + 1), port=443)
            self.origins[name] = o
            self.services[name] = Service(o, self.account, name.split(".")[-1], "eu-west-1", answers[name])
            self.targets[name.replace(".", "-")] = self.target(o, env="prod" if name in ("rds", "ec2") else "dev")
        self.policy = dict({"rules": RULES}, **policy)
        self.words = self.account.add(ID, KEY, TOKEN)

    @staticmethod
    def target(o, credential="aws-prod", **more):
        h = Http(o, kind=None, url=o.origin.removesuffix(":443"))
        h.more = dict(h.more, kind="aws", credential=credential, **more)
        return h

    def stack(self, *credentials):
        """credentials: (name, url, words) besides the account's own."""
        st = Stack(self.temp, None, policy=dict(self.policy), http=self.targets, start=False)
        for name, url, words in (("aws-prod", "https://*.eu-west-1.amazonaws.com", self.words), *credentials):
            must([CLI, "credential", "add", name, "--state", st.state, "--kind", "aws", "--url", url], stdin=None, input=words)
        st.start()
        return st

    def good(self, name):
        return len(self.services[name].verified)

    def forget(self):
        for s in self.services.values():
            s.origin.forget()
            s.verified.clear()
            s.refused.clear()


class Client:
    """The aws command and boto3 beside a run whose listeners are here: as in its sandbox, by its proxy."""

    def __init__(self, world, st, targets=()):
        self.hr = HostRun(st, targets)
        home = world.temp.path + "/home"
        os.makedirs(home, exist_ok=True)
        self.env = {"PATH": "/usr/bin:/bin", "AWS_PAGER": "", "HOME": home, "AWS_CA_BUNDLE": st.run_ca(), "AWS_MAX_ATTEMPTS": "1",
                    "HTTPS_PROXY": "http://%s:%d" % (self.hr.address[PROXY], self.hr.port[PROXY]), "AWS_EC2_METADATA_DISABLED": "true",
                    **{k: v for k, v in self.hr.env.items() if k.startswith("AWS_")}}

    def aws(self, *argv, **env):
        return run(["aws", *argv], env={**self.env, **env})
