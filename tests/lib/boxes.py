"""What tests of the sandbox share that call it from outside: namespaces, control groups, programs and sockets of the
test's own, so that nothing of another test on this machine is looked at, and what is left is its own."""
import atexit
import os
import shutil
import subprocess
import sys
import time

from harness import BUILD

PROGRAMS = ("cofferdam", "cofferdam-cmd", "cofferdam-sandbox", "cofferdam-init", "cofferdam-inside")
SOCKETS = "/run/cofferdam-sandbox"
OWN = []


def outer():
    """Starts this program again, as root in a mount, uts and pid namespace of its own."""
    if os.geteuid() == 0 and "COFFERDAM_OUTER" not in os.environ:
        os.environ["COFFERDAM_OUTER"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child",
                              sys.executable] + sys.argv)


def programs(path):
    """A copy: a spare user cannot look into every build directory."""
    os.mkdir(path, 0o755)
    for p in PROGRAMS:
        shutil.copy(os.path.join(BUILD, p), path)
    return path


def sockets():
    """An empty directory of named sandboxes, in the outer mount namespace."""
    os.makedirs(SOCKETS, 0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", SOCKETS], check=True)


def processes():
    """(pid, command line) of everything in the pid namespace."""
    out = []
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/cmdline" % d, "rb") as f:
                    out.append((int(d), f.read().replace(b"\0", b" ").decode("latin1").strip()))
            except OSError:
                pass
    return out


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return len(f.readlines())


def hierarchies():
    """Directory of this process in every hierarchy of control groups that is mounted."""
    with open("/proc/self/cgroup", encoding="ascii") as f:
        rows = f.read().split()
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        table = [(line.split()[3:5], line.split(" - ")[1].split()) for line in f]
    for row in rows:
        _, names, path = row.split(":", 2)
        for (root, at), (kind, _, options) in table:
            if kind == ("cgroup" if names else "cgroup2") and set(names.split(",")) - {""} <= set(options.split(",")) \
                    and path.startswith(root.rstrip("/")):
                yield at + path[len(root.rstrip("/")):]
                break


def put(group, pid=0):
    with open(group + "/cgroup.procs", "w", encoding="ascii") as f:
        f.write(str(pid))


def groups_own():
    """Groups of this test alone. An ordinary user may have none."""
    for d in hierarchies():
        own = "%s/test-%d-%d" % (d.rstrip("/"), os.getpid(), time.monotonic_ns())
        try:
            os.mkdir(own)
            OWN.append(own)
            put(own)
        except OSError:
            pass
    atexit.register(groups_leave)


def groups():
    """What sandboxes of this test have made, and is there."""
    return sorted(top + "/" + d for own in OWN for top, dirs, _ in os.walk(own) for d in dirs)


def groups_leave():
    for own in OWN:
        try:
            put(os.path.dirname(own))
        except OSError:
            pass
        for _ in range(100):
            for top, _, _ in os.walk(own, topdown=False):
                try:
                    os.rmdir(top)
                except OSError:
                    pass
            if not os.path.isdir(own):
                break
            time.sleep(0.02)
    OWN.clear()
