"""A value in a configuration is mended on a branch of its own."""
import json

from gitorigin import Shop
from tasks import Task as Base

CONFIG = {"service": "shop", "database": {"host": "db.internal", "port": 5342}, "replicas": 3, "port": 8080}


class Task(Shop, Base):
    DATABASE = False
    WRONG = (("s/5342/5432/", "s/8080/5432/"),)

    def setup(self):
        self.repository({"deploy.json": json.dumps(CONFIG, indent=2) + "\n", "README": "the shop\n"})
        self.first = self.git("rev-parse", "refs/heads/main")

    def check(self, work, playing):
        if self.git("rev-parse", "refs/heads/main") != self.first:
            return "main was changed"
        if self.git("diff", "--name-only", "main", "fix-port") != "deploy.json":
            return "the branch fix-port is not there, or changes something else"
        try:
            got = json.loads(self.git("show", "fix-port:deploy.json"))
        except ValueError:
            return "deploy.json is no JSON"
        return "" if got == dict(CONFIG, database={"host": "db.internal", "port": 5432}) else "deploy.json says %s" % got
