#!/usr/bin/python3
"""What the target shows of a thing before people are asked about it: they sign it, and the action is held to it. HTTP by
ETag and If-Match, Kubernetes by uid and resourceVersion, git by the ids of the refs; through curl, kubectl and git as they are."""
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import gitorigin
from harness import PROXY, Http, HostRun, Stack, Tap, Temp, run, wait_for
from k8sorigin import K8s
from origin import Ca, Origin

tap = Tap()
temp = Temp("preview")
ca = Ca(temp.path + "/ca")
web, lab, api = Origin(temp.path, "web.test", ca=ca), Origin(temp.path, "git.test", ca=ca), Origin(temp.path, "k8s.test", ca=ca)


class Things:
    """Files with ETags, as a server has them that does what RFC 9110 13.1.1 says."""

    def __init__(self, origin):
        self.files, self.during = {"/v/1": b"one", "/v/2": b"two", "/v/3": b"three"}, None
        self.weak, self.status, self.silent = False, {}, set()
        origin.on("*", self.answer)

    def etag(self, path):
        return '"%s"' % hashlib.sha256(self.files[path]).hexdigest()[:16]

    def answer(self, req, c):
        if req.method == "HEAD":
            self.head(req, c)
            return
        if self.during:
            self.during()
        want = req.get("If-Match")
        if want is not None and (req.path not in self.files or want != self.etag(req.path)):
            c.reply(412, b"changed")
        elif req.method == "PUT":
            self.files[req.path] = req.body
            c.reply(204)
        elif req.method == "DELETE":
            self.files.pop(req.path, None)
            c.reply(204)
        else:
            c.reply(200, self.files.get(req.path, b""))

    def head(self, req, c):
        if req.path in self.silent:
            c.reply(503, to_head=True)
        elif req.path in self.status:
            c.reply(self.status[req.path], headers=[("Location", web.origin + "/elsewhere")], to_head=True)
        elif req.path not in self.files:
            c.reply(404, to_head=True)
        else:
            c.reply(200, self.files[req.path], [("ETag", ("W/" if self.weak else "") + self.etag(req.path))], to_head=True)


things = Things(web)
web_target = Http(web, preview="look", unsafe_gets=["/v/unsafe/1"])
git_target = Http(lab, kind="basic", user="agent", url=None, repositories=["/repo.git"], protected=["refs/heads/main"], preview="look")
git_target.more["kind"] = "git"
k8s_target = Http(api, placeholder="KUBE_TOKEN", preview="look")
k8s_target.more["kind"] = "k8s"
os.makedirs(temp.path + "/git")
gitorigin.repository(temp.path + "/git/repo.git", {"README": "through the broker\n"})
gitorigin.serve(lab, temp.path + "/git")
cluster = K8s(api, [k8s_target.secret])
st = Stack(temp, None, http={"web": web_target, "repo": git_target, "cluster": k8s_target})
hr = HostRun(st)
ENV = {"PATH": "/usr/bin:/bin", "HOME": temp.path + "/home", "HTTPS_PROXY": "http://%s:%d" % (hr.address[PROXY], hr.port[PROXY]),
       "GIT_SSL_CAINFO": st.run_ca(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "CURL_CA_BUNDLE": st.run_ca()}
os.makedirs(ENV["HOME"])


def sh(text, **kw):
    return run(["bash", "-c", text], env=ENV, **kw)


def curl(method, path, *more):
    r = run(["curl", "-sS", "-X", method, "-w", "\n%{http_code}", *more, web.origin + path], env=ENV)
    body, _, status = r.stdout.rpartition("\n")
    return int(status or 0), body


def put(path, body, *more):
    return curl("PUT", path, "--data-binary", body, "-H", "Content-Type: text/plain", *more)


def asked(text):
    """The request that an answer names."""
    return next((i for i in st.pending() if i in text), None)


def shown(rid):
    return json.loads(st.cli("show", rid, "--json").stdout)


def signed(rid):
    for p in ("dana", "omar"):
        st.sign("approve", rid, p)


def outcome():
    return st.records("outcome")[-1]["data"]


def arrived(method, path):
    return [q for q in web.arrivals if q.method == method and q.path == path]


# --- HTTP -----------------------------------------------------------------------------------------------------
tag = things.etag("/v/1")
status, body = put("/v/1", "uno")
rid = asked(body)
tap.ok(status == 403 and rid, "a PUT over what is there waits for people", body)
tap.eq(shown(rid)["preview"], "if-match=" + tag, "who see the ETag that the server gave")
tap.ok("if-match=" + tag in st.cli("show", rid).stdout, "also as text")
tap.ok([q.get("Authorization") for q in arrived("HEAD", "/v/1")] == ["Bearer " + web_target.secret], "the broker asked once, with the credential")
look = st.records("preview")
seq = {x["type"]: x["seq"] for x in st.records() if x["type"] in ("preview", "approval.request")}
tap.ok(len(look) == 1 and look[0]["data"]["method"] == "HEAD" and look[0]["data"]["path"] == "/v/1" and look[0]["data"]["origin"] == "broker"
       and seq["preview"] < seq["approval.request"], "after a record of its own, before people were", look)
first = next(a for a in st.acts() if a["action"] == look[0]["data"]["action"])
tap.eq(first["decision"]["approval"], rid, "which names the action that it was for")
put("/v/1", "uno")
tap.eq(len(arrived("HEAD", "/v/1")), 1, "what is pending is not looked at again")
signed(rid)
tap.ok(things.files["/v/1"] == b"one" and put("/v/1", "uno")[0] == 204 and things.files["/v/1"] == b"uno", "signed, it passes")
tap.eq([q.get("If-Match") for q in arrived("PUT", "/v/1")], [tag], "with If-Match as it was signed")
tap.eq((outcome()["condition"], outcome()["preview"]), ("held", "if-match=" + tag), "the outcome says that the condition held")
tap.eq(st.acts()[-1]["dispatch"]["condition"], "if-match=" + tag, "the dispatch, that the broker added it")

rid = asked(put("/v/2", "dos")[1])
signed(rid)
things.files["/v/2"] = b"by another hand"
status, body = put("/v/2", "dos")
again = asked(body)
tap.ok(status == 403 and again and again != rid and things.files["/v/2"] == b"by another hand", "changed since people signed: nothing is sent", body)
tap.eq(shown(again)["preview"], "if-match=" + things.etag("/v/2"), "they are asked anew, by what it is now")
tap.ok([x["data"]["reason"] for x in st.records("approval.void") if x["data"]["id"] == rid] == ["preview_changed"], "and what they signed is void")
signed(again)


def meanwhile():
    things.files["/v/2"] = b"a moment before"


things.during = meanwhile
status, body = put("/v/2", "dos")
things.during = None
tap.eq((status, things.files["/v/2"]), (412, b"a moment before"), "changed between the look and the request: the server refuses it")
tap.eq((outcome()["http_status"], outcome()["status"], outcome()["condition"]), (412, "error", "failed"), "and the outcome says that nothing was done")

rid = asked(put("/v/3", "tres")[1])
signed(rid)
things.silent.add("/v/3")
status, body = put("/v/3", "tres")
tap.ok(status == 503 and "looked at again" in body and things.files["/v/3"] == b"three", "who cannot be asked again gets nothing", body)
things.silent.clear()
tap.ok(put("/v/3", "tres")[0] == 204 and things.files["/v/3"] == b"tres", "and the approval is there still when he answers")

rid = asked(put("/v/3", "own", "-H", 'If-Match: "mine"')[1])
tap.eq(shown(rid)["preview"], "etag=" + things.etag("/v/3"), "a condition of the client's own stays the only one")
signed(rid)
tap.ok(put("/v/3", "own", "-H", 'If-Match: "mine"')[0] == 412 and things.files["/v/3"] == b"tres", "and the server judges it")
things.weak = True
tap.eq(shown(asked(curl("DELETE", "/v/3")[1]))["preview"], "none", "a weak ETag is none")
things.weak = False
tap.eq(shown(asked(put("/v/new", "x")[1]))["preview"], "none", "what is not there has none")
things.status["/v/4"] = 302
tap.eq(shown(asked(curl("DELETE", "/v/4")[1]))["preview"], "failed=status-302", "a redirect is told")
tap.ok(not any(q.path == "/elsewhere" for q in web.arrivals), "and not followed")
tap.eq(shown(asked(curl("DELETE", "/v/unsafe/1")[1]))["preview"], "failed=not-permitted", "where a read is more than that, nobody looks")
tap.ok(not arrived("HEAD", "/v/unsafe/1"), "(nothing came)")

# --- Kubernetes -----------------------------------------------------------------------------------------------
KUBE = temp.path + "/kubeconfig"
with open(KUBE, "w", encoding="utf-8") as f:
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "preferences": {},
               "clusters": [{"name": "c", "cluster": {"server": api.origin, "certificate-authority": st.run_ca()}}],
               "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "payments"}}],
               "users": [{"name": "u", "user": {"token": hr.env["KUBE_TOKEN"]}}]}, f)
PODS = "/api/v1/namespaces/payments/pods/"


def kubectl(*argv):
    r = run(["kubectl", "--kubeconfig", KUBE, "--cache-dir", temp.path + "/kubecache", *argv], env=ENV)
    return r.returncode, r.stdout + (r.stderr or "")


rc, text = kubectl("delete", "pod", "p1", "--wait=false")
rid = asked(text)
tap.ok(rc != 0 and rid, "kubectl delete waits for people", text)
tap.eq(shown(rid)["preview"], "preconditions=uid:u-p1,resource-version:1", "who see which object it is, and in which version")
tap.eq(cluster.looks, [PODS + "p1"], "of which the broker read the metadata alone")
signed(rid)
rc, text = kubectl("delete", "pod", "p1", "--wait=false")
tap.ok(rc == 0 and PODS + "p1" not in cluster.objects, "signed, it passes", text)
sent = [json.loads(q.body) for q in api.arrivals if q.method == "DELETE" and q.path == PODS + "p1"]
tap.eq([s.get("preconditions") for s in sent], [{"uid": "u-p1", "resourceVersion": "1"}], "with the preconditions that were signed")
tap.ok(sent[0].get("propagationPolicy") == "Background", "beside what kubectl had said", sent)
tap.eq((outcome()["condition"], st.acts()[-1]["dispatch"]["condition"]), ("held", "preconditions=uid:u-p1,resource-version:1"),
       "the record has them")

rc, text = kubectl("delete", "pod", "p2", "--wait=false")
rid = asked(text)
signed(rid)
cluster.objects[PODS + "p2"]["metadata"].update(uid="u-another", resourceVersion="9")
rc, text = kubectl("delete", "pod", "p2", "--wait=false")
again = asked(text)
tap.ok(rc != 0 and again and again != rid and PODS + "p2" in cluster.objects, "another pod of the same name is another request", text)
signed(again)
x = hr.direct("cluster")
judge, done = cluster.judge, []


def race(req, path):
    if req.method == "DELETE" and not done:
        done.append(1)
        cluster.objects[path]["metadata"]["resourceVersion"] = "10"
    return judge(req, path)


cluster.judge = race
rc, text = kubectl("delete", "pod", "p2", "--wait=false")
cluster.judge = judge
tap.ok(rc != 0 and PODS + "p2" in cluster.objects and outcome()["http_status"] == 409 and outcome()["condition"] == "failed",
       "changed between the look and the request: the server refuses it", (text, outcome()))
r = x.ask("DELETE", PODS + "p2", api.authority)
rid = asked(r.body.decode())
signed(rid)
r = x.ask("DELETE", PODS + "p2", api.authority)
tap.ok(r.status == 200 and PODS + "p2" not in cluster.objects and json.loads(api.arrivals[-1].body)["preconditions"]["resourceVersion"] == "10",
       "a DELETE without a body gets one of its own", r.body)
x.close()
rc, text = kubectl("scale", "deployment", "api", "--replicas=0")
rid = asked(text)
tap.eq(shown(rid)["preview"], "uid=u-api resource-version=1", "of an update the version is shown")
signed(rid)
cluster.objects["/apis/apps/v1/namespaces/payments/deployments/api"]["metadata"]["resourceVersion"] = "2"
rc, text = kubectl("scale", "deployment", "api", "--replicas=0")
again = asked(text)
tap.ok(rc != 0 and again not in (None, rid) and shown(again)["preview"] == "uid=u-api resource-version=2", "and held to as the broker sees it", text)

# --- git ------------------------------------------------------------------------------------------------------
W = temp.path + "/work"
r = sh("git clone -q %s/repo.git %s && cd %s && git config user.name a && git config user.email a@a" % (lab.origin, W, W))
sh("cd %s && for i in 1 2 3; do echo $i > f; git add f; git commit -q -m $i; done" % W)
main = lambda: sh("git -C %s/git/repo.git rev-parse refs/heads/main" % temp.path).stdout.strip()
before, head = main(), sh("git -C %s rev-parse HEAD" % W).stdout.strip()
PUSH = "cd %s && git push origin HEAD:refs/heads/main 2>&1; echo status $?" % W
r = sh(PUSH)
rid = asked(r.stdout)
tap.ok("status 1" in r.stdout and rid, "a push to a protected branch waits for people", r.stdout)
tap.eq(shown(rid)["preview"], "refs=as-said commits=3 objects=9", "who see that the server has the old id, and what is pushed")
text = st.cli("show", rid).stdout
tap.ok(before in text and head in text, "and both ids in full", text)
signed(rid)
r = sh(PUSH)
tap.ok("status 0" in r.stdout and main() == head, "signed, it passes", r.stdout)
tap.eq(outcome()["preview"], "refs=as-said commits=3 objects=9", "the outcome has the preview")

sh("cd %s && echo 4 > f && git commit -q -a -m 4 && git push -q origin HEAD:refs/heads/topic" % W)
r = sh(PUSH)
rid = asked(r.stdout)
tap.eq(shown(rid)["preview"], "refs=as-said commits=0 objects=0", "of what the server has already no commit is pushed")
signed(rid)
real = sh("git -C %s/git/repo.git update-ref refs/heads/main %s; echo $?" % (temp.path, before)).stdout
r = run(["bash", "-c", PUSH], env=dict(ENV))
tap.ok(real == "0\n" and asked(r.stdout) not in (None, rid), "git itself sees another old id: another push", r.stdout)
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
