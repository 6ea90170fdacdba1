"""git over smart HTTP for an origin.Origin: Debian's git-http-backend behind its routes."""
import os
import shutil
import subprocess

from harness import Http

BACKEND = "/usr/lib/git-core/git-http-backend"


def repository(path, files):
    """A bare repository with one commit of these files (name -> text)."""
    env = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", HOME=path + ".home", GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@t.test",
               GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@t.test")
    work = path + ".work"
    os.makedirs(work)
    git = lambda *a: subprocess.run(["git", *a], cwd=work, env=env, check=True, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    git("init", "-q", "-b", "main")
    for name, text in files.items():
        with open(os.path.join(work, name), "w", encoding="utf-8") as f:
            f.write(text)
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("clone", "-q", "--bare", work, path)
    subprocess.run(["git", "config", "http.receivepack", "true"], cwd=path, env=env, check=True)


def serve(origin, root):
    """Every path of the origin that its other routes do not take goes to git-http-backend below `root`."""
    other, _ = origin.routes["*"]

    def answer(req, c):
        if ".git/" not in req.path:
            other(req, c)
            return
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": req.path,
               "QUERY_STRING": req.query, "REQUEST_METHOD": req.method, "CONTENT_TYPE": req.get("Content-Type") or "",
               "CONTENT_LENGTH": str(len(req.body)), "REMOTE_USER": "agent", "REMOTE_ADDR": "127.0.0.1",
               "GIT_PROTOCOL": req.get("Git-Protocol") or "", "HTTP_CONTENT_ENCODING": req.get("Content-Encoding") or "",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        p = subprocess.run([BACKEND], input=req.body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, timeout=60)
        head, _, body = p.stdout.partition(b"\r\n\r\n")
        fields = [tuple(x.decode().split(": ", 1)) for x in head.split(b"\r\n") if b": " in x]
        status = next((int(v.split()[0]) for n, v in fields if n == "Status"), 200)
        c.reply(status, body, [f for f in fields if f[0] != "Status"])

    origin.on("*", answer)


class Shop:
    """Of a task whose field has a repository: /shop.git behind an origin of its own."""
    ORIGIN = "git.test"

    def services(self):
        o = self.field.origin(self.ORIGIN)
        self.root = self.field.temp.path + "/git-" + self.name
        self.bare = self.root + "/shop.git"
        serve(o, self.root)
        self.values["URL"] = o.origin
        h = Http(o, kind="basic", user="agent", repositories=["/shop.git"], protected=["refs/heads/main"])
        h.more["kind"] = "git"
        return {self.name: h}

    def repository(self, files):
        """The repository anew, with one commit of these files."""
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)
        repository(self.bare, files)

    def git(self, *argv, where=None):
        """What it prints; "" when it fails."""
        r = subprocess.run(["git", "-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@t", "-C", where or self.bare, *argv],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", timeout=60)
        return r.stdout.strip() if r.returncode == 0 else ""
