"""A headless Chromium with virtual authenticators, driven by playwright-core (browser.js)."""
import atexit
import json
import os
import subprocess

from harness import TOP, ending
from npm import NPM


class Browser:
    def __init__(self, temp, hosts=(), certificate=None):
        """hosts: names that are this machine; certificate: its PEM file's key is the one that is trusted. None: files alone."""
        args = ["--disable-gpu", "--no-first-run"]
        if certificate:
            spki = subprocess.run(
                "openssl x509 -in %s -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
                % certificate, shell=True, check=True, stdout=subprocess.PIPE, encoding="ascii").stdout.strip()
            args += ["--host-resolver-rules=" + ",".join("MAP %s 127.0.0.1" % h for h in hosts),
                     "--ignore-certificate-errors-spki-list=" + spki]
        if os.getuid() == 0:
            args.append("--no-sandbox")
        home = temp.path + "/browser"
        os.makedirs(home, exist_ok=True)
        env = dict(os.environ, NODE_PATH=NPM + "/node_modules", HOME=home, TMPDIR=home)
        self.log = open(temp.path + "/browser.log", "wb")
        with ending:
            self.p = subprocess.Popen(["node", TOP + "/tests/lib/browser.js", "/usr/bin/chromium", *args], env=env, stderr=self.log,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        atexit.register(self.stop)
        self.last = 0
        self.version = self.answer()

    def answer(self):
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError("the browser ended:\n" + open(self.log.name, encoding="utf-8", errors="replace").read()[-3000:])
        a = json.loads(line)
        if "error" in a:
            raise RuntimeError(a["error"])
        return a["value"]

    def do(self, code, **args):
        """Runs code (JavaScript, with await) beside the browser; what it returns."""
        self.last += 1
        self.p.stdin.write(json.dumps({"id": self.last, "code": code, "args": args}) + "\n")
        self.p.stdin.flush()
        return self.answer()

    def stop(self):
        if self.p.poll() is None:
            self.p.stdin.close()
            try:
                self.p.wait(15)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()
