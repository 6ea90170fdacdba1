#!/usr/bin/python3
"""git and kubectl, as they are, through the broker: what they push and change is judged by the command list and the API path,
people approve the refs by their ids, and what is refused is told in the words of each protocol."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import gitorigin
from harness import PROXY, Http, HostRun, Stack, Tap, Temp, run, wait_for
from k8sorigin import K8s
from origin import Ca, Origin

tap = Tap()
temp = Temp("git-k8s")
ca = Ca(temp.path + "/ca")
lab, api = Origin(temp.path, "git.test", ca=ca), Origin(temp.path, "k8s.test", ca=ca)
git_target = Http(lab, kind="basic", user="agent", url=None, repositories=["/repo.git"], protected=["refs/heads/main"])
git_target.more["kind"] = "git"
k8s_target = Http(api, placeholder="KUBE_TOKEN")
k8s_target.more["kind"] = "k8s"
os.makedirs(temp.path + "/git")
gitorigin.repository(temp.path + "/git/repo.git", {"README": "through the broker\n"})
gitorigin.serve(lab, temp.path + "/git")
cluster = K8s(api, [k8s_target.secret])
st = Stack(temp, None, http={"repo": git_target, "cluster": k8s_target})
hr = HostRun(st)
ENV = {"PATH": "/usr/bin:/bin", "HOME": temp.path + "/home", "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY]),
       "GIT_SSL_CAINFO": st.run_ca(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
os.makedirs(ENV["HOME"])


def sh(text, **kw):
    return run(["bash", "-c", text], env=ENV, **kw)


def acts(path, since=0):
    return [a for a in st.acts()[since:] if path in a["request"]["facts"]["http"].get("path", "")]


# --- git ------------------------------------------------------------------------------------------------------
W = temp.path + "/work"
r = sh("git clone -q %s/repo.git %s && cat %s/README" % (lab.origin, W, W))
tap.eq(r.stdout, "through the broker\n", "git clone")
sh("cd %s && git config user.name a && git config user.email a@a && head -c 3000000 /dev/urandom > big && git add big && git commit -q -m second" % W)
seen = len(st.acts())
r = sh("cd %s && git push -q origin HEAD:refs/heads/topic; echo status $?" % W)
tap.ok(r.stdout.endswith("status 0\n"), "GIT-02: a new branch of 3 MB is pushed at the first try", (r.stdout, r.stderr))
mine = acts("git-receive-pack", seen)
tap.eq([a["request"]["effects"] for a in mine if a["request"]["facts"]["http"]["api"] == "git"], [["read"], ["write"]],
       "GIT-02: the probe reads, the push writes: one push on the record")
tap.eq(mine[-1]["request"]["input"]["relations"], ["repo.git:refs/heads/topic"], "the record names the ref")
body = mine[-1]["request"]["facts"]["http"]["body"]["git"]["commands"]
head = sh("git -C %s rev-parse HEAD" % W).stdout.strip()
tap.eq([(c["old"], c["new"], c["ref"]) for c in body], [("0" * 40, head, "refs/heads/topic")], "and old and new ids")
tap.ok(any(q.get("Transfer-Encoding") == "chunked" for q in lab.arrivals if "receive-pack" in q.path), "GIT-02: in chunks, streamed behind its start")
tap.ok(not any("Authorization" in str(q.head) and b"cfph_" in q.head for q in lab.arrivals), "(with the broker's credential)")

r = sh("cd %s && git push origin HEAD:refs/heads/main 2>&1; echo status $?" % W)
tap.ok("status 1" in r.stdout and "needs approval" in r.stdout and "remote rejected" in r.stdout and st.pending(),
       "an update whose objects nobody has seen waits for people, and git says so", r.stdout)
rid = next(i for i in st.pending())
tap.ok(rid in r.stdout, "and as which request", r.stdout)
shown = st.cli("show", rid).stdout
tap.ok(head in shown and "refs/heads/main" in shown, "people see ref and ids in full", shown)
main = lambda: sh("git -C %s/git/repo.git rev-parse refs/heads/main" % temp.path).stdout.strip()
before = main()
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
r = sh("cd %s && git -c pack.threads=1 -c pack.compression=0 push origin HEAD:refs/heads/main 2>&1; echo status $?" % W)
tap.ok("status 0" in r.stdout and main() == head != before, "signed, it passes, also packed in another way", r.stdout)
r = sh("cd %s && git push origin %s:refs/heads/main --force 2>&1; echo status $?" % (W, before))
tap.ok("status 1" in r.stdout and main() == head, "another id is another push: the signature was for that one", r.stdout)
r = sh("cd %s && git push origin :refs/heads/main 2>&1; echo status $?" % W)
tap.ok("status 1" in r.stdout and acts("git-receive-pack")[-1]["request"]["effects"] == ["drop"], "deleting a protected branch is a drop", r.stdout)
r = sh("cd %s && git push origin :refs/heads/topic 2>&1; echo status $?" % W)
tap.eq(acts("git-receive-pack")[-1]["request"]["effects"], ["delete"], "deleting another is a delete")
r = sh("cd %s && git push origin HEAD:refs/notes/x 2>&1; echo status $?" % W)
tap.ok("denied" in r.stdout and acts("git-receive-pack")[-1]["decision"]["verdict"] == "deny", "a ref that is no branch is denied", r.stdout)
r = sh("git clone -q %s/other.git %s/other 2>&1; echo status $?" % (lab.origin, temp.path))
tap.ok("status 128" in r.stdout and not any("other.git" in q.path for q in lab.arrivals), "another repository is none of the target's", r.stdout)

# --- kubectl --------------------------------------------------------------------------------------------------
KUBE = temp.path + "/kubeconfig"
with open(KUBE, "w", encoding="utf-8") as f:
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "preferences": {},
               "clusters": [{"name": "c", "cluster": {"server": api.origin, "certificate-authority": st.run_ca()}}],
               "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "payments"}}],
               "users": [{"name": "u", "user": {"token": hr.env["KUBE_TOKEN"]}}]}, f)


def kubectl(*argv, **kw):
    """kubectl's words are in stderr: no test asks which of the two."""
    r = run(["kubectl", "--kubeconfig", KUBE, "--cache-dir", temp.path + "/kubecache", *argv], env=ENV, **kw)
    r.stderr = r.stdout
    return r


if not shutil.which("kubectl"):
    raise RuntimeError("no kubectl: make deps installs it")
r = kubectl("get", "pods", "-o", "name")
tap.eq(sorted(r.stdout.split()), ["pod/p1", "pod/p2"], "kubectl get pods")
r = kubectl("get", "secret", "db", "-o", "json")
tap.ok(r.returncode != 0 and "no-escape" in r.stderr and "Forbidden" in r.stderr, "K8S-01: a secret is not shown, and kubectl says why", r.stderr)
r = kubectl("get", "secrets")
tap.ok(r.returncode != 0 and "aHVudGVyMg" not in r.stdout, "K8S-01: nor in a table", r.stderr)
r = kubectl("exec", "p1", "--", "id")
tap.ok(r.returncode != 0 and ("POST", "/api/v1/namespaces/payments/pods/p1/exec") not in cluster.done, "K8S-01: no shell runs in a pod", r.stderr)
r = kubectl("scale", "deployment", "api", "--replicas=5")
tap.eq((r.returncode, cluster.objects["/apis/apps/v1/namespaces/payments/deployments/api"]["spec"]["replicas"]), (0, 5), "kubectl scale up is a write")
r = kubectl("scale", "deployment", "api", "--replicas=0")
tap.ok(r.returncode != 0 and "needs approval" in r.stderr and acts("/scale")[-1]["request"]["effects"] == ["disrupt", "write"],
       "kubectl scale to nothing disrupts, and waits for people", r.stderr)
r = kubectl("delete", "pod", "p1", "--wait=false")
rid = next((i for i in st.pending() if i in r.stderr), None)
tap.ok(r.returncode != 0 and rid, "kubectl delete waits for people, and names the request", r.stderr)
tap.eq(acts("/pods/p1")[-1]["request"]["input"]["relations"], ["payments/pods/p1"], "the record names the object")
for p in ("dana", "omar"):
    st.sign("approve", rid, p)
r = kubectl("delete", "pod", "p1", "--wait=false")
tap.ok(r.returncode == 0 and "/api/v1/namespaces/payments/pods/p1" not in cluster.objects, "signed, it passes", r.stderr)
# As kubectl delete --dry-run=server sends it: an older kubectl first wants the whole of OpenAPI.
x = hr.direct("cluster")
r = x.ask("DELETE", "/api/v1/namespaces/payments/pods/p2", api.authority, [("Content-Type", "application/json")],
          b'{"propagationPolicy":"Background","dryRun":["All"]}')
tap.ok(r.status == 200 and acts("/pods/p2")[-1]["request"]["effects"] == ["read"], "a dry run only reads", r.body)
r = x.ask("DELETE", "/api/v1/namespaces/payments/pods/p2?dryRun=All", api.authority, [("Content-Type", "application/json")], b"{}")
tap.ok(r.status == 403 and acts("/pods/p2")[-1]["request"]["effects"] == ["delete"], "beside a body the query says nothing to the server, and nothing to the broker", r.body)
x.close()
r = kubectl("delete", "pods", "--all", "--wait=false")
tap.ok(r.returncode != 0, "kubectl delete --all waits, too", r.stderr)
r = kubectl("create", "configmap", "c", "--from-literal=a=b")
tap.ok(r.returncode == 0 and "/api/v1/namespaces/payments/configmaps/c" in cluster.objects, "kubectl create is a write", r.stderr)
r = kubectl("get", "pods", "--as", "system:admin")
tap.ok(r.returncode != 0 and acts("/pods")[-1]["request"]["effects"] == ["priv", "read"], "K8S-01: to act as another is refused", r.stderr)
r = kubectl("get", "pods", "--token", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl")
tap.ok(r.returncode != 0 and not any(b"eyJhbGci" in q.head for q in api.arrivals), "K8S-01: a token that was found is refused", r.stderr)
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
