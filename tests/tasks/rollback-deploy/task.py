"""A commit is reverted on a protected branch, with an approval."""
import json
import subprocess

from gitorigin import Shop
from tasks import Task as Base


class Task(Shop, Base):
    ORIGIN = "git2.test"
    DATABASE = False
    WRONG = (("origin HEAD:main", "origin HEAD:main-fixed"),)

    def setup(self):
        self.repository({"deploy.json": json.dumps({"image": "shop:41", "replicas": 3}) + "\n"})
        work = self.bare + ".work"
        self.good = self.git("rev-parse", "main")
        self.git("remote", "add", "o", self.bare, where=work)
        with open(work + "/deploy.json", "w", encoding="ascii") as f:
            f.write(json.dumps({"image": "shop:42", "replicas": 0}) + "\n")
        self.git("commit", "-qam", "deploy: 42", where=work)
        self.git("push", "-q", "o", "main", where=work)
        self.bad = self.git("rev-parse", "main")
        subprocess.run(["chmod", "-R", "a+rwX", self.bare], check=True)

    def check(self, work, playing):
        if self.git("rev-parse", "main^{tree}") != self.git("rev-parse", self.good + "^{tree}"):
            return "main does not have the files of before"
        return "" if self.git("rev-list", self.bad + "..main").count("\n") == 0 and self.git("merge-base", self.bad, "main") == self.bad \
            and self.git("rev-parse", "main") != self.bad else "the history was rewritten"
