"""One pod of three crashes; it is found, told of, and deleted with an approval."""
from harness import Http
from k8sorigin import K8s
from tasks import Task as Base, report

PODS = "/api/v1/namespaces/payments/pods/"


def status(name, restarts, reason=None):
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}} if reason else {"running": {}}
    last = {"terminated": {"reason": reason, "exitCode": 137}} if reason else {}
    return {"name": name, "ready": reason is None, "restartCount": restarts, "state": waiting, "lastState": last}


class Task(Base):
    DATABASE = False
    WRONG = (("$POD", "api-7d9f1"),)

    def services(self):
        self.origin = self.field.origin("k8s.test")
        h = Http(self.origin, placeholder="KUBE_TASKS")
        h.more["kind"] = "k8s"
        self.secret = h.secret
        self.values["URL"] = self.origin.origin
        return {"cluster": h}

    def setup(self):
        self.cluster = c = K8s(self.origin, [self.secret])
        for p in ("p1", "p2"):
            del c.objects[PODS + p]
        for name, phase, states in (("api-7d9f1", "Running", [status("api", 4), status("proxy", 0)]),
                                    ("api-7d9f2", "Running", [status("api", 0), status("proxy", 31, "OOMKilled")]),
                                    ("batch-11", "Succeeded", [status("batch", 0)])):
            c.put("v1", "Pod", PODS + name, {"spec": {"containers": [{"name": s["name"], "image": "i"} for s in states]},
                                             "status": {"phase": phase, "containerStatuses": states}})

    def check(self, work, playing):
        left = sorted(k[len(PODS):] for k in self.cluster.objects if k.startswith(PODS))
        if left != ["api-7d9f1", "batch-11"]:
            return "the pods are now " + ", ".join(left)
        got = report(work, "pod.json")
        return "" if got == {"pod": "api-7d9f2", "container": "proxy", "reason": "OOMKilled"} else "it says %s" % got
