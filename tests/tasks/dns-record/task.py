"""One record of a zone is changed by an API."""
import json

from harness import Http
from tasks import Task as Base


class Task(Base):
    DATABASE = False
    WRONG = (('"ttl": 300', '"ttl": 30'),)
    ZONE = {"rec-1001": ("www", "192.0.2.7", 3600), "rec-1002": ("www-old", "192.0.2.7", 3600), "rec-1003": ("mail", "192.0.2.9", 300)}

    def services(self):
        o = self.field.origin("dns.test")

        def answer(req, c):
            id_ = req.path.rsplit("/", 1)[1]
            if req.method == "PATCH" and id_ in self.zone:
                self.zone[id_].update(json.loads(req.body))
                body = self.zone[id_]
            elif req.method == "GET" and req.path == "/zones/shop/records":
                body = [dict(r, id=i) for i, r in self.zone.items()]
            else:
                body = None
            c.reply(404 if body is None else 200, json.dumps(body).encode(), [("Content-Type", "application/json")])

        o.on("*", answer)
        self.values["URL"] = o.origin
        return {"dns": Http(o)}

    def setup(self):
        self.zone = {i: {"name": n, "value": v, "ttl": t} for i, (n, v, t) in self.ZONE.items()}

    def check(self, work, playing):
        want = {i: {"name": n, "value": v, "ttl": t} for i, (n, v, t) in self.ZONE.items()}
        want["rec-1001"].update(value="192.0.2.80", ttl=300)
        return "" if self.zone == want else "the zone is %s" % self.zone
