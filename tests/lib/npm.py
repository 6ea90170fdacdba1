"""Packages from npm that tests use, and nothing that is shipped does: tests/npm has the lock file."""
import fcntl
import os
import shutil

from harness import TOP, run

NPM = os.path.join(TOP, "build/npm")
AGENTS = os.path.join(TOP, "build/npm-agents")  # of tests/interop/agents: for make interop-agents alone
INTEROP = os.path.join(TOP, "build/npm-interop")  # of tests/interop/npm: for make interop-mcp alone


def install(to=NPM, of="tests/npm"):
    """The locked packages, once; again when the lock file has changed. Returns what npm said and how it ended."""
    os.makedirs(to, exist_ok=True)
    with open(to + "/.lock", "w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return installed(to, os.path.join(TOP, of))


def installed(to, of):
    lock = os.path.join(to, "package-lock.json")
    with open(of + "/package-lock.json", encoding="utf-8") as f:
        want = f.read()
    if os.path.exists(to + "/done"):
        with open(lock, encoding="utf-8") as f:
            if f.read() == want:
                return run(["true"])
        os.unlink(to + "/done")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(of + "/" + name, to)
    env = dict(os.environ)
    env.setdefault("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt")  # as apt and curl trust
    # An optional package of another system that no registry has is a fault to `ci` alone; versions and hashes are locked for both.
    r = run(["npm", "ci" if to == NPM else "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=to, timeout=600, env=env)
    if r.returncode == 0:
        with open(to + "/done", "w", encoding="ascii"):
            pass
    return r
