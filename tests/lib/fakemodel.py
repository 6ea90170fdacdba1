"""A scripted model server (tests/tools/fakemodel.mjs) as an origin of harness.Http."""
import atexit
import json
import subprocess

from harness import TOP


class Model:
    """A fakemodel process; the script may be changed between runs by play(), the port stays. With a CA (origin.Ca) it has
    that name and TLS, at a loopback address."""

    def __init__(self, temp, name, ca=None):
        self.name, self.p, self.ca, self.tls = name, None, ca, ca is not None
        self.address = "127.0.0.1" if ca else None
        self.cert = list(ca.issue(name)) if ca else []
        self.script, self.log = "%s/%s.json" % (temp.path, name), "%s/%s.log" % (temp.path, name)
        self.port = 0
        self.play({"steps": [{"text": "x"}]})
        self.origin = "https://%s:%d" % (name, self.port) if ca else "http://127.0.0.1:%d" % self.port
        atexit.register(self.stop)

    def play(self, script):
        self.stop()
        with open(self.script, "w", encoding="utf-8") as f:
            json.dump(script, f)
        open(self.log, "w", encoding="ascii").close()
        self.p = subprocess.Popen(["node", TOP + "/tests/tools/fakemodel.mjs", str(self.port), self.script, self.log, *self.cert],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="ascii")
        line = self.p.stdout.readline()
        self.port = int(line.split()[-1])

    def stop(self):
        if self.p:
            self.p.kill()
            self.p.wait()
            self.p.stdout.close()
            self.p = None

    def heard(self):
        """The requests so far; a line that is being written is left out."""
        with open(self.log, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]


def code(language, text, **more):
    return {"tool": "run_code", "input": {"language": language, "code": text, **more}}
