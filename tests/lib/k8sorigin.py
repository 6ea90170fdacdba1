"""What kubectl needs of an API server, for an origin.Origin: discovery, a few objects, and a list of what was done. There is
no API server in Debian; the requests are kubectl's own, the answers of the form that the API documents."""
import json


def resource(name, kind, namespaced, *verbs):
    return {"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
            "verbs": list(verbs or ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")),
            "shortNames": {"deployments": ["deploy"], "pods": ["po"], "namespaces": ["ns"]}.get(name, [])}


CORE = [resource("namespaces", "Namespace", False), resource("pods", "Pod", True), resource("secrets", "Secret", True),
        resource("configmaps", "ConfigMap", True), resource("nodes", "Node", False)]
APPS = [resource("deployments", "Deployment", True), dict(resource("deployments/scale", "Scale", True, "get", "patch", "update"),
                                                         group="autoscaling", version="v1")]


class K8s:
    """The objects: path -> object."""

    def __init__(self, origin, secrets=()):
        self.secrets = set(secrets)  # tokens it takes
        self.objects, self.done, self.looks = {}, [], []
        self.put("v1", "Namespace", "/api/v1/namespaces/payments", {})
        for p in ("p1", "p2"):
            self.put("v1", "Pod", "/api/v1/namespaces/payments/pods/" + p, {"spec": {"containers": [{"name": "c", "image": "i"}]}})
        self.put("v1", "Secret", "/api/v1/namespaces/payments/secrets/db", {"data": {"password": "aHVudGVyMg=="}})
        self.put("apps/v1", "Deployment", "/apis/apps/v1/namespaces/payments/deployments/api",
                 {"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
                           "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
        origin.on("*", self.answer)

    def put(self, version, kind, path, more):
        name = path.rsplit("/", 1)[1]
        self.objects[path] = dict({"apiVersion": version, "kind": kind, "metadata": {
            "name": name, "namespace": "payments", "uid": "u-" + name, "resourceVersion": "1"}}, **more)

    def answer(self, req, c):
        if req.get("Authorization") not in {"Bearer " + s for s in self.secrets}:
            return self.status(c, 401, "Unauthorized", "who is it?")
        status, body = self.judge(req, req.path.rstrip("/"))
        c.reply(status, json.dumps(body).encode(), [("Content-Type", "application/json")])
        return None

    @staticmethod
    def status(c, code, reason, message):
        c.reply(code, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                                  "message": message}).encode(), [("Content-Type", "application/json")])

    def judge(self, req, path):
        fixed = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                 "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": CORE},
            "/apis/apps/v1": {"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": APPS},
            "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
        }
        if req.method == "GET" and "as=PartialObjectMetadata" in (req.get("Accept") or "") and path in self.objects:
            self.looks.append(req.path)
            return 200, {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": self.objects[path]["metadata"]}
        if req.method == "GET" and path in fixed:
            return 200, fixed[path]
        scale = path.endswith("/scale")
        path = path[:-6] if scale else path
        o = self.objects.get(path)
        if req.method != "GET":
            self.done.append((req.method, req.path))
        if req.method == "GET" and o is None:
            inside = [v for k, v in self.objects.items() if k.rsplit("/", 1)[0] == path]
            return (200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": inside}) if inside else \
                (404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"})
        if req.method == "POST":
            # kubectl sends some kinds in protobuf: here it is enough that it came.
            new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}} if req.body[:4] == b"k8s\0" else json.loads(req.body)
            new["metadata"].update(uid="u-new", resourceVersion="1")
            self.objects[path + "/" + new["metadata"]["name"]] = new
            return 201, new
        if o is None:
            return 404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}
        if req.method == "DELETE":
            want = (json.loads(req.body) if req.body else {}).get("preconditions") or {}
            if any(o["metadata"][k] != v for k, v in want.items()):
                return 409, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
                             "message": "Precondition failed"}
            if not (req.body and json.loads(req.body).get("dryRun") == ["All"]):
                del self.objects[path]
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if req.method in ("PATCH", "PUT"):
            o["metadata"]["resourceVersion"] = str(int(o["metadata"]["resourceVersion"]) + 1)
            o["spec"]["replicas"] = json.loads(req.body).get("spec", {}).get("replicas", o["spec"].get("replicas"))
        if scale:
            return 200, {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": o["metadata"], "spec": {"replicas": o["spec"]["replicas"]},
                         "status": {"replicas": 3}}
        return 200, o
