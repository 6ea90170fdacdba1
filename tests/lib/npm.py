"""Packages from npm that tests use, and nothing that is shipped does: tests/npm has the lock file."""
import fcntl
import os
import shutil

from harness import TOP, run

NPM = os.path.join(TOP, "build/npm")


def install():
    """The locked packages, once; again when the lock file has changed. Returns what npm said and how it ended."""
    os.makedirs(NPM, exist_ok=True)
    with open(NPM + "/.lock", "w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return installed()


def installed():
    lock = os.path.join(NPM, "package-lock.json")
    with open(TOP + "/tests/npm/package-lock.json", encoding="utf-8") as f:
        want = f.read()
    if os.path.exists(NPM + "/done"):
        with open(lock, encoding="utf-8") as f:
            if f.read() == want:
                return run(["true"])
        os.unlink(NPM + "/done")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(TOP + "/tests/npm/" + name, NPM)
    env = dict(os.environ)
    env.setdefault("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt")  # as apt and curl trust
    r = run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=NPM, timeout=600, env=env)
    if r.returncode == 0:
        with open(NPM + "/done", "w", encoding="ascii"):
            pass
    return r
