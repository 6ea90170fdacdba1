"""A commit is reverted on a protected branch, with an approval."""
import json
import os
import shutil
import subprocess

import gitorigin
from harness import Http
from tasks import Task as Base


class Task(Base):
    DATABASE = False
    WRONG = (("origin HEAD:main", "origin HEAD:main-fixed"),)

    def services(self):
        o = self.field.origin("git2.test")
        self.root = self.field.temp.path + "/git-" + self.name
        gitorigin.serve(o, self.root)
        self.values["URL"] = o.origin
        h = Http(o, kind="basic", user="agent", repositories=["/shop.git"], protected=["refs/heads/main"])
        h.more["kind"] = "git"
        return {self.name: h}

    def setup(self):
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)
        bare = self.root + "/shop.git"
        gitorigin.repository(bare, {"deploy.json": json.dumps({"image": "shop:41", "replicas": 3}) + "\n"})
        self.good = self.git(bare, "rev-parse", "main")
        self.git(bare + ".work", "remote", "add", "o", bare)
        with open(bare + ".work/deploy.json", "w", encoding="ascii") as f:
            f.write(json.dumps({"image": "shop:42", "replicas": 0}) + "\n")
        self.git(bare + ".work", "commit", "-qam", "deploy: 42")
        self.git(bare + ".work", "push", "-q", "o", "main")
        self.bad = self.git(bare, "rev-parse", "main")
        subprocess.run(["chmod", "-R", "a+rwX", bare], check=True)

    @staticmethod
    def git(where, *argv):
        r = subprocess.run(["git", "-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@t", "-C", where, *argv], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", timeout=60)
        return r.stdout.strip() if r.returncode == 0 else ""

    def check(self, work, playing):
        bare = self.root + "/shop.git"
        if self.git(bare, "rev-parse", "main^{tree}") != self.git(bare, "rev-parse", self.good + "^{tree}"):
            return "main does not have the files of before"
        return "" if self.git(bare, "rev-list", self.bad + "..main").count("\n") == 0 and self.git(bare, "merge-base", self.bad, "main") == self.bad \
            and self.git(bare, "rev-parse", "main") != self.bad else "the history was rewritten"
