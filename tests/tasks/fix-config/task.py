"""A value in a configuration is mended on a branch of its own."""
import json
import os
import shutil
import subprocess

import gitorigin
from harness import Http
from tasks import Task as Base

CONFIG = {"service": "shop", "database": {"host": "db.internal", "port": 5342}, "replicas": 3, "port": 8080}


class Task(Base):
    DATABASE = False
    WRONG = (("s/5342/5432/", "s/8080/5432/"),)

    def services(self):
        o = self.field.origin("git.test")
        self.root = self.field.temp.path + "/git-" + self.name
        gitorigin.serve(o, self.root)
        self.values["URL"] = o.origin
        h = Http(o, kind="basic", user="agent", repositories=["/shop.git"], protected=["refs/heads/main"])
        h.more["kind"] = "git"
        return {self.name: h}

    def setup(self):
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)
        gitorigin.repository(self.root + "/shop.git", {"deploy.json": json.dumps(CONFIG, indent=2) + "\n", "README": "the shop\n"})
        self.first = self.git("rev-parse", "refs/heads/main")

    def git(self, *argv):
        r = subprocess.run(["git", "-c", "safe.directory=*", "-C", self.root + "/shop.git", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, encoding="utf-8", timeout=60)
        return r.stdout.strip() if r.returncode == 0 else ""

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
