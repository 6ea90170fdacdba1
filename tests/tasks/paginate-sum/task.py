"""An API gives its list in pages."""
import json

from harness import Http
from tasks import Task as Base, report


class Task(Base):
    DATABASE = False
    WRONG = (('cursor = doc["next"]', "cursor = None"),)

    def services(self):
        o = self.field.origin("payouts.test")
        self.rows = [{"id": n, "cents": n * 7, "state": "failed" if n % 6 == 0 else "paid"} for n in range(1, 96)]

        def page(req, c):
            at = int(req.args.get("cursor") or 0)
            more = at + 20 if at + 20 < len(self.rows) else None
            c.reply(200, json.dumps({"payouts": self.rows[at:at + 20], "next": more}).encode(), [("Content-Type", "application/json")])

        o.on("/payouts", page)
        self.values["URL"] = o.origin
        return {"payouts": Http(o)}

    def check(self, work, playing):
        want = sum(r["cents"] for r in self.rows if r["state"] == "paid")
        got = report(work, "total.json")
        return "" if got == {"paid_cents": want} else "it says %s, it is %d" % (got, want)
