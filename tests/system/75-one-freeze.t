#!/usr/bin/python3
"""One policy, one freeze: the same deletion by PostgreSQL, by HTTP DELETE, by a GraphQL mutation, by a push and by a
Kubernetes DELETE is refused by the same rule in the same words; after the freeze each needs the same people, and passes once
when they have signed."""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import gitorigin
from harness import PROXY, Http, HostRun, Pg, Stack, Tap, Temp, run, wait_for
from k8sorigin import K8s
from libpq import Conn
from origin import Ca, GraphQl, Origin

tap = Tap()
temp = Temp("one-freeze")
pg = Pg(temp)
pg.admin("CREATE TABLE volumes(id text PRIMARY KEY); INSERT INTO volumes VALUES ('vol-prod'), ('vol-test-1'); ALTER TABLE volumes OWNER TO agent")
pg.log_statements()
o = Origin(temp.path, "infra.test")
infra = Http(o, graphql={"paths": ["/graphql"], "effects": {"mutation.volumeDelete": ["delete"]}})
g = GraphQl(o, [infra.secret])
ca = Ca(temp.path + "/ca")
lab, api = Origin(temp.path, "git.test", ca=ca), Origin(temp.path, "k8s.test", ca=ca)
repo, cluster = Http(lab, kind="basic", user="agent"), Http(api)
repo.more["kind"], cluster.more["kind"] = "git", "k8s"
os.makedirs(temp.path + "/git")
BARE = temp.path + "/git/repo.git"
gitorigin.repository(BARE, {"README": "x"})
gitorigin.serve(lab, temp.path + "/git")
run(["git", "-C", BARE, "branch", "vol-test-1", "main"])
k = K8s(api, [cluster.secret])
k.put("v1", "Pod", "/api/v1/namespaces/payments/pods/vol-test-1", {})
st = Stack(temp, pg, http={"infra": infra, "repo": repo, "cluster": cluster}, start=False)
with open(st.policy_file, encoding="utf-8") as f:
    RULES = json.load(f)["rules"]
FREEZE_S = 20
end = time.time() + FREEZE_S
iso = lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))
st.build_policy({"serial": 2, "rules": RULES + [
    {"id": "freeze-hard", "forbid": {"env": "prod", "during": ["release-freeze"], "effects": {"any": ["@change", "@destructive"]}},
     "override": "breakglass", "why": "Nothing in production changes."}],
    "calendars": {"release-freeze": {"kind": "freeze", "tz": "Etc/UTC", "valid": ["2020-01-01", "2040-01-01"],
                                     "once": [{"from": iso(end - 3600), "to": iso(end)}]}}})
st.start()
hr = HostRun(st)
c = Conn(hr.dsn(pg))


def by_sql():
    r = c.query("DELETE FROM volumes WHERE id = 'vol-test-1'")
    return r.ok, r.message + r.detail + r.hint


def by_http():
    x = hr.direct("infra")
    r = x.ask("DELETE", "/volumes/vol-test-1", o.authority)
    x.close()
    return r.status == 200, r.body.decode()


def by_graphql():
    x = hr.tunnel("infra")
    r = x.ask("POST", "/graphql", o.authority, [("Content-Type", "application/json")],
              b'{"query":"mutation{volumeDelete(id:\\"vol-test-1\\"){id}}"}')
    x.close()
    return r.status == 200, r.body.decode()


def by_git():
    env = {"PATH": "/usr/bin:/bin", "HOME": temp.path, "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY]),
           "GIT_SSL_CAINFO": st.run_ca(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    r = run(["git", "-C", temp.path + "/git/repo.git.work", "push", lab.origin + "/repo.git", ":refs/heads/vol-test-1"], env=env)
    return r.returncode == 0, "".join(x.replace("remote: ", "", 1) for x in r.stdout.splitlines())


def by_kubernetes():
    x = hr.direct("cluster")
    r = x.ask("DELETE", "/api/v1/namespaces/payments/pods/vol-test-1", api.authority)
    x.close()
    return r.status == 200, r.body.decode()


WAYS = {"PostgreSQL": by_sql, "HTTP DELETE": by_http, "GraphQL": by_graphql, "git": by_git, "Kubernetes": by_kubernetes}


def world():
    return (pg.admin("SELECT string_agg(id, ',' ORDER BY id) FROM volumes"), [(r.method, r.path) for r in o.arrivals], list(g.volumes),
            "vol-test-1" in run(["git", "-C", BARE, "branch"]).stdout, list(k.done))


before = world()
tap.ok(c.query("SELECT count(*) FROM volumes").ok, "in the freeze reads pass: PostgreSQL")
texts = {}
for name, way in WAYS.items():
    ok, texts[name] = way()
    act = st.acts()[-1]
    tap.ok(not ok, "%s: refused" % name, texts[name])
    d = act["decision"]
    tap.eq((d["verdict"], d["rules"], d.get("calendar"), act["request"]["effects"]), ("deny", ["freeze-hard"], "release-freeze", ["delete"]),
           "%s: by the rule freeze-hard, its calendar, for the effect delete" % name)
    tap.ok(all(t in texts[name] for t in ("freeze-hard", "release-freeze", iso(end))), "%s: who asks is told rule, window and its end" % name, texts[name])
tap.eq(world(), before, "no server saw anything of it")
acts = st.acts(verdict="deny")
tap.eq(len({json.dumps([a["decision"][k] for k in ("verdict", "rules", "calendar", "policy")]) for a in acts}), 1, "all decisions are the same")
x = hr.direct("infra")
tap.eq([x.ask("GET", "/ok", o.authority).status,
        x.ask("POST", "/graphql", o.authority, [("Content-Type", "application/json")], b'{"query":"{volumes{id}}"}').status], [200, 200],
       "in the freeze reads pass: HTTP, GraphQL")
x.close()
tap.ok(time.time() < end, "(all of that was in the freeze)")
time.sleep(max(0, end + 0.3 - time.time()))

# After it: the same people for each way.
requests = {}
for name, way in WAYS.items():
    ok, text = way()
    act = st.acts()[-1]
    d = act["decision"]
    tap.eq((ok, d["verdict"], d["rules"], d["slots"]),
           (False, "needs_approval", ["two-people"], ["dba:1", "oncall:1"]), "%s: after the freeze it waits for the same two people" % name)
    requests[name] = d.get("approval")
    tap.ok(d.get("approval") and d["approval"] in text, "%s: and says as which request" % name, text)
tap.eq(len(set(requests.values())), len(WAYS), "a request of its own for each")
tap.eq(world()[0], before[0], "nothing is deleted yet")
st.sign("approve", requests["HTTP DELETE"], "dana")
st.sign("approve", requests["HTTP DELETE"], "omar")
tap.ok(not by_sql()[0] and not by_graphql()[0] and not by_git()[0] and not by_kubernetes()[0], "a signature for one way is none for the others")
tap.ok(by_http()[0] and not by_http()[0], "HTTP DELETE: signed, it passes once")
for name in ("PostgreSQL", "GraphQL", "git", "Kubernetes"):
    for p in ("dana", "omar"):
        st.sign("approve", requests[name], p)
    tap.eq([WAYS[name]()[0], WAYS[name]()[0]], [True, False], "%s: signed, it passes once" % name)
tap.eq((pg.admin("SELECT string_agg(id, ',') FROM volumes"), g.volumes, [r.path for r in o.arrivals if r.method == "DELETE"], k.done,
        "vol-test-1" in run(["git", "-C", BARE, "branch"]).stdout),
       ("vol-prod", ["vol-prod", "vol-backup", "vol-test-2"], ["/volumes/vol-test-1"],
        [("DELETE", "/api/v1/namespaces/payments/pods/vol-test-1")], False), "each server did exactly one deletion")

# An emergency freeze is the same for all of them. (A branch that is gone cannot be deleted once more.)
run(["git", "-C", BARE, "branch", "vol-test-1", "main"])
r = st.cli("freeze", "start", "--reason", "stop", "--effects", "delete", "--as", "dana", "--key", st.key("dana"), "--yes")
fid = re.search(r"freeze ([a-z2-7]{26}): in force", r.stdout).group(1)
for name, way in WAYS.items():
    ok, text = way()
    tap.ok(not ok and fid in text and st.acts()[-1]["decision"]["rules"] == [fid], "%s: an emergency freeze refuses it" % name, text)
x = hr.direct("infra")
tap.eq(x.ask("GET", "/ok", o.authority).status, 200, "and reads pass")
x.close()
for p in ("dana", "omar"):
    st.cli("freeze", "lift", fid, "--as", p, "--key", st.key(p), "--yes")
tap.eq([(way()[0], st.acts()[-1]["decision"]["rules"]) for way in WAYS.values()], [(False, ["two-people"])] * len(WAYS), "lifted, it is as before")
c.close()
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
