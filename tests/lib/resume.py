"""`cofferdam log verify --resume` in the hands of tests: scenes (what a program says and leaves behind) and what must come of each.

Importing builds the logs; 35-verify-resume.t holds the command to the scenes, 36-resume-mutants.t the scenes to mutants."""
import base64
import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

import attacks as a
import verify_log as v
from harness import BUILD, must, wait_for

T = a.T
TOOL, CMD = BUILD + "/tool_append-log", BUILD + "/cofferdam-cmd"


def heads(log):
    return sorted(os.listdir(log + "/cp"))


def put(path, data, mode=0o600):
    if os.path.lexists(path):
        os.unlink(path)
    a.set_(path, data)
    os.chmod(path, mode)
    return path


def kept(path):
    """The size of the head that a file holds; None: it is not there."""
    return int(a.get(path).split(b"\n")[1]) if os.path.exists(path) else None


def verify(log, keys, *args, program=CMD, **kw):
    """(exit status, the verdict but for where it went on, where it went on, standard error)"""
    r = subprocess.run([program, "log", "verify", log, "--keys", keys, "--json", *args], capture_output=True, encoding="utf-8",
                       errors="replace", **kw)
    said = json.loads(r.stdout) if r.stdout else None
    on = said.pop("resume", None) if said else None
    return r.returncode, said, (on["at"], on["resumed"]) if on else None, r.stderr


def expected(log, keys, file, *args):
    """What a run from the beginning says that holds the file's head as a pin, which is not counted among the log's own."""
    rc, said, _, err = verify(log, keys, *args, "--pin", file)
    if said:
        said["checkpoints"] -= verify(log, keys, *args, "--pin", file, "--pin", file)[1]["checkpoints"] - said["checkpoints"]
    return rc, said, err


def leaves(log):
    """Of all records, those that were pruned among them."""
    have = {}
    for name in sorted(os.listdir(log + "/seg"), reverse=True):  # lines first, then leaves
        first, data = int(name[:20]), a.get(log + "/seg/" + name)
        mine = [data[i:i + 32] for i in range(0, len(data), 32)] if name.endswith(".leaves") else [
            hashlib.sha256(b"\0" + x[8:-76]).digest() for x in data.splitlines(True)]
        have.update((first + i, leaf) for i, leaf in enumerate(mine))
    return [have[i] for i in range(len(have))]


def signed(all_leaves, size, name=a.NAME):
    """The head of that size, by the log's key."""
    tree = v.Tree()
    for leaf in all_leaves[:size]:
        tree.push(leaf)
    return a.sign(b"%s\n%d\n%s\n" % (name, size, base64.b64encode(tree.root())), name)


# --- logs beside those of the list ------------------------------------------------------------------------------------
def nothing(_):
    pass


with open(T + "/erasures", "w", encoding="ascii") as f:
    f.writelines('erasure\toperator\t-\t{"by":"root","id":"e-%d","reason":"asked","runs":["r-%d"],"subject":"run:r-%d"}\t\n' % (i, i, i) for i in range(3))
    f.writelines("agent.note\tagent\tr-9\t{\"n\":%d}\t\n" % i for i in range(20))
a.ATTACKS["untouched"] = (a.ONE, nothing, 0, [(9, "")], None, ())
a.ATTACKS["erased"] = (a.build("erased", 0, "from=" + T + "/erasures"), nothing, 0, [(5, "")], None, ())
a.ATTACKS["rolled_back_without_a_pin"] = (a.ONE, a.ATTACKS["rolled_back"][1], 1, [(19, "cut")], None, ())


# --- ended in the midst -----
class Stepped:
    """A verification that is held each 50,000 records, where it tells of its progress: standard error is a pipe of one page with just so
    much room that the first of these words go in, and the next do not."""

    def __init__(self, log, keys, file, program=CMD, **kw):
        self.r, w = os.pipe()
        fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
        said = "" if os.path.exists(file) else "cofferdam: %s is not there: begins at record 0\n" % file
        said += "\r1 records, segment 1 of %d" % len([n for n in os.listdir(log + "/seg") if n.endswith(".jsonl")])
        self.w, self.out = os.dup(w), ""
        self.lay(len(said))
        self.p = subprocess.Popen([program, "log", "verify", log, "--keys", keys, "--json", "--progress", "--resume", file],
                                  stdout=subprocess.PIPE, stderr=w, encoding="utf-8", **kw)
        os.close(w)
        self.held()

    def lay(self, room):
        """All but `room` bytes of the pipe."""
        self.base = 4096 - room - 5
        os.write(self.w, b"x" * self.base)

    def waiting(self):
        n = bytearray(4)
        fcntl.ioctl(self.r, termios.FIONREAD, n)
        return int.from_bytes(n, sys.byteorder)

    def held(self):
        """Until it has said what there is room for, and sleeps."""
        def asleep():
            with open("/proc/%d/stat" % self.p.pid, encoding="ascii") as f:
                return self.waiting() > self.base and f.read().rsplit(")", 1)[1].split()[0] == "S"
        assert wait_for(lambda: asleep() and (time.sleep(0.05), asleep())[1], 60), (self.waiting(), self.base)

    def step(self):
        """To where it is held next: what it says now goes in, what it says then does not."""
        self.p.send_signal(signal.SIGSTOP)
        os.waitpid(self.p.pid, os.WUNTRACED)
        self.drain()
        self.lay(len("\r50001 records, segment 1 of 1"))
        self.p.send_signal(signal.SIGCONT)
        self.held()

    def drain(self):
        while self.waiting():
            self.out += os.read(self.r, 4096).decode().strip("x")

    def end(self, sig=None):
        """(exit status, verdict, where it went on, standard error); with a signal, by which it ends."""
        if sig == signal.SIGKILL:
            self.p.kill()
        elif sig:
            self.p.send_signal(signal.SIGSTOP)
            os.waitpid(self.p.pid, os.WUNTRACED)
            self.p.send_signal(sig)
            self.drain()
            self.p.send_signal(signal.SIGCONT)
        os.close(self.w)
        reader = threading.Thread(target=lambda: [setattr(self, "out", self.out + x.decode().strip("x")) for x in iter(lambda: os.read(self.r, 4096), b"")])
        reader.start()
        out = self.p.stdout.read()
        self.p.stdout.close()
        self.p.wait()
        reader.join()
        os.close(self.r)
        said = json.loads(out) if out else None
        on = said.pop("resume", None) if said else None
        return self.p.returncode, said, (on["at"], on["resumed"]) if on else None, re.sub(r"\r.*\r|\r[^\n]*?(?=cofferdam)", "", self.out)


# --- what is known at the end alone, and what is behind the head -------------------------------------------------------------
def blobs_gone(d):
    put(d + "/blob/%020d.pack" % 0, b"")


def end_changed(d):
    a.edit(d, lambda x: x.__setitem__(-2, x[-2].replace(b'"src":"agent"', b'"src":"human"')))


must([TOOL, T + "/held", "9"])
must([TOOL, T + "/held", "110000", "batch=1000", "cp=1000", "blob=0"])
HELD_KEYS, HELD = T + "/held/keys/log/vkey", {}
for name, change in (("blobs", blobs_gone), ("end", end_changed)):
    HELD[name] = shutil.copytree(T + "/held/log", T + "/held-" + name, copy_function=os.link)
    for p in [HELD[name] + "/seg/%020d.jsonl" % 0, HELD[name] + "/blob/%020d.pack" % 0]:
        shutil.copy(p, p + "-"), os.rename(p + "-", p)
    change(HELD[name])


def stepped(name, file, program, **kw):
    """(exit status, findings, had the file a head behind 100,000 records, and has it that at the end?)"""
    p = Stepped(HELD[name], HELD_KEYS, file, program, **kw)
    time.sleep(2.1)
    p.step()
    wait_for(lambda: (kept(file) or 0) > 50000, 5)
    mid = kept(file)
    rc, said, _, _ = p.end()
    return rc, [f["kind"] for f in said["findings"]], mid is not None and 50000 < mid < 100000, kept(file) == mid and mid is not None


def small_files():
    """No file of more than 64 bytes can be written."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def fresh(program):
    """A name that nothing has."""
    return "%s/file-%s-%d-%d" % (T, os.path.basename(program), threading.get_ident(), time.monotonic_ns())


def taken_back(program, note=None):
    file = fresh(program)
    if note:
        put(file, note)
    said = stepped("blobs", file, program)
    return (*said, a.get(file) == note if note else os.path.exists(file))


def found_behind(program):
    return stepped("end", fresh(program), program)


def before(program):
    return taken_back(program, a.get(HELD["blobs"] + "/cp/" + heads(HELD["blobs"])[0]))


def no_room_and_tampered(program):
    return stepped("blobs", fresh(program), program, preexec_fn=small_files)


BLOBS = (1, ["blob"] * 3, True, False)
SLOW = {"taken_back": (taken_back, (*BLOBS, False)), "taken_back_to_what_it_was": (before, (*BLOBS, True)),
        "found_behind": (found_behind, (1, ["changed"], True, True)),
        "no_room_and_tampered": (no_room_and_tampered, (1, ["blob"] * 3, False, False))}


# --- signed by the log's own key, and no records: what the file vouches for, and what it does not -----------------------------
def own(name, k, change, size):
    """A log whose writer wrote what is no record, and signed it; with a head of that size."""
    d = T + "/own-" + name
    shutil.copytree(a.OPEN + "/log", d)

    def edit(x):
        change(x)
        return a.chained(x, k + 1)
    a.edit(d, edit)
    return d, signed(leaves(d), size)


def body(k, old, new):
    def change(x):
        assert old in x[k], x[k]
        x[k] = a.line_of(x[k][8:-76].replace(old, new, 1))
    return change


def other_prev(x):
    x[6] = a.line_of(re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"' + b"0" * 64 + b'"', x[6][8:-76]))


def scene_own(name, k, change, size):
    d, note = own(name, k, change, size)

    def scene(program):
        file = put(fresh(program), note)
        want = expected(d, a.KEY, file)
        rc, said, on, err = verify(d, a.KEY, "--resume", file, program=program)
        return rc, want[0], said == want[1], on, err
    return scene


# --- its file ------------------------------------------------------------------------------------------------------------------
OTHER = b"other.example/test"
put(T + "/two-keys", a.get(a.KEY) + a.Key(bytes([7]) * 32, OTHER).vkey + b"\n", 0o644)
GOOD = a.get(a.ONE + "/log/cp/" + heads(a.ONE + "/log")[1])
LEAVES = leaves(a.ONE + "/log")


def made(f):
    """Something else in the file's place."""
    def make(path):
        f(path)
        return path
    return make


def of(data, mode=0o600):
    return lambda path: put(path, data, mode)


def sock(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.close()


def others(path):
    put(path, GOOD)
    os.chown(path, 65534, 65534)


B64 = GOOD.rstrip().split(b" ")[-1]
FORGED = GOOD.replace(B64, base64.b64encode(base64.b64decode(B64)[:-1] + bytes([base64.b64decode(B64)[-1] ^ 1])))
MUST = "must be a checkpoint of this log, as --resume writes it, or not be there"
WRONG = {
    "empty": (of(b""), "{}, which %s: not a signed note" % MUST),
    "garbage": (of(b"\0\1\2" * 50), "{}, which %s: not a signed note" % MUST),
    "truncated": (of(GOOD[:-1]), "{}, which %s: not a signed note" % MUST),
    "truncated_further": (of(GOOD[:40]), "{}, which %s: not a signed note" % MUST),
    "forged": (of(FORGED), "{}, which %s: signature by broker.example/test does not hold" % MUST),
    "of_another_size": (of(GOOD.replace(b"\n%d\n" % int(heads(a.ONE + "/log")[1]), b"\n%d\n" % (int(heads(a.ONE + "/log")[1]) - 1))), "{}, which %s: signature by "
                        "broker.example/test does not hold" % MUST),
    "by_another_key": (of(a.Key(bytes([9]) * 32, a.NAME).note(GOOD[:GOOD.index(b"\n\n") + 1])), "{}, which %s: no signature by a key that is trusted here" % MUST),
    "of_another_log": (of(signed(LEAVES, 10, OTHER)), "{} is of the log other.example/test, this one is broker.example/test; " + MUST),
    "of_no_record": (of(signed(LEAVES, 0)), "{} is a checkpoint of no record, " + MUST),
    "too_large": (of(GOOD + b"x" * 16384), "{} is larger than 16384 bytes"),
    "link": (made(lambda p: os.symlink(put(p + "-good", GOOD), p)), "{} is a symbolic link, " + MUST),
    "link_to_nothing": (made(lambda p: os.symlink(p + "-none", p)), "{} is a symbolic link, " + MUST),
    "directory": (made(os.mkdir), "{} is a directory, " + MUST),
    "fifo": (made(os.mkfifo), "{} is no regular file, " + MUST),
    "socket": (made(sock), "{}: No such device or address"),
    "others_may_write": (of(GOOD, 0o620), "{} has mode 0620, must be 0600: who can write it decides which records are not judged again"),
    "of_somebody_else": (others, "{} belongs to uid 65534, must be of uid 0: its owner decides which records are not judged again"),
    "in_no_directory": (lambda p: p + "/x", "{}: its directory: No such file or directory"),
    "no_name": (lambda p: T + "/", '"{}" names no file, ' + MUST),
}
if os.geteuid() != 0:
    del WRONG["of_somebody_else"]


def look(path):
    """What there is."""
    if not os.path.lexists(path):
        return None
    s = os.lstat(path)
    return s.st_mode, s.st_ino, s.st_size, s.st_mtime_ns


def scene_wrong(make, words):
    def scene(program):
        path = fresh(program)
        path = make(path) or path
        was = look(path)
        try:
            rc, said, on, err = verify(a.ONE + "/log", T + "/two-keys", "--resume", path, program=program, timeout=10)
        except subprocess.TimeoutExpired:
            return "hangs"
        return rc, said, on, err == "cofferdam: %s\n" % words.format(path) or err, look(path) == was
    return scene


def in_log(sub):
    """Where it would be foreign to every verifier."""
    def scene(program):
        d = "%s/in%s" % (T, os.path.basename(fresh(program)))
        shutil.copytree(a.ONE + "/log", d)
        path = d + sub + "/kept"
        rc, said, on, err = verify(d, a.KEY, "--resume", path, program=program)
        return rc, said, err == "cofferdam: %s lies in the log directory, must lie elsewhere\n" % path or err, os.path.exists(path)
    return scene


def scene_attack(name, k, program, pins=()):
    """(as a run from the beginning, where it went on, is the file what it was?)"""
    src, _, _, _, _, _ = a.ATTACKS[name]
    note = signed(leaves(src + "/log"), k)
    file = put(fresh(program), note)
    want = expected(a.scene(name), a.KEY, file)
    rc, said, on, err = verify(a.scene(name), a.KEY, "--resume", file, program=program)
    return (rc, said) == want[:2] or (rc, said, want), on, a.get(file) == note


def fork(name, k):
    """A head of the log's own key, over other records."""
    def scene(program):
        file = put(fresh(program), a.sign(b"%s\n%d\n%s\n" % (a.NAME, k, base64.b64encode(bytes(32)))))
        want = expected(a.scene(name), a.KEY, file)
        rc, said, on, err = verify(a.scene(name), a.KEY, "--resume", file, program=program)
        return (rc, said) == want[:2] or (rc, said, want), rc, on
    return scene


def up_to_date(program):
    file = put(fresh(program), a.get(a.ONE + "/log/cp/" + heads(a.ONE + "/log")[-1]))
    was = look(file)
    rc = verify(a.ONE + "/log", a.KEY, "--resume", file, program=program)[0]
    return rc, look(file) == was


def no_room(program):
    """What is there stays, and the verdict is told."""
    note, file = signed(LEAVES, 10), fresh(program)
    put(file, note)
    rc, said, on, err = verify(a.scene("untouched"), a.KEY, "--resume", file, program=program, preexec_fn=small_files)
    return rc, said == verify(a.scene("untouched"), a.KEY)[1], on, re.sub(r"\.file-[^:]+", "T", err.replace(file, "FILE")), a.get(file) == note, \
        [n for n in os.listdir(T) if n.startswith("." + os.path.basename(file))]


def replaced_meanwhile(program):
    """The head that was held is another one when it is to be kept."""
    d = "%s/re%s" % (T, os.path.basename(fresh(program)))
    shutil.copytree(T + "/held/log", d, copy_function=os.link)
    file = fresh(program)
    p = Stepped(d, HELD_KEYS, file, program=program)
    cp = d + "/cp/" + [n for n in heads(d) if int(n) <= 50001][-1]
    put(cp, a.get(d + "/cp/" + heads(d)[0]))
    rc, said, _, err = p.end(signal.SIGTERM)
    shutil.rmtree(d)
    return rc, said, os.path.exists(file), re.sub("[0-9]{5,}", "N", err.replace(file, "FILE").partition("record 0\n")[2])


def deep(program):
    file = fresh(program)
    rc, said, on, err = verify(a.ONE + "/log", a.KEY, "--resume", file, "--deep", program=program)
    return rc, said, ('cofferdam: log verify: --deep opens and builds anew all there is each time, so it cannot go on from --resume "%s": give one of them' % file) in err, \
        os.path.exists(file)


TOO_SMALL = "cofferdam: FILE is not kept up: T: File too large\n"
SCENES = {
    "own_form_vouched_for": (scene_own("form", 4, body(4, b'"n":4', b'"n":4.0'), 12), (3, 1, False, (12, True), "")),
    "own_last_is_no_record": (scene_own("last", 11, body(11, b'"n":11', b'"n":11.0'), 12), (1, 1, True, (12, False), "")),
    "own_no_record": (scene_own("none", 4, body(4, b'"v":1', b'"v":1,"w":1'), 12), (1, 1, True, (12, False), "")),
    "own_heeded_is_no_record": (scene_own("heeded", 6, body(6, b'"n":6', b'"n":6.0'), 12), (1, 1, True, (12, False), "")),
    "own_another_number": (scene_own("number", 6, body(6, b'"seq":6', b'"seq":7'), 12), (1, 1, True, (12, False), "")),
    "own_follows_another": (scene_own("prev", 6, other_prev, 12), (1, 1, True, (12, False), "")),
    "untouched": (lambda p: scene_attack("untouched", 11, p), (True, (11, True), False)),
    "erased": (lambda p: scene_attack("erased", 6, p), (True, (6, True), False)),
    "one_beyond": (lambda p: scene_attack("fraction", 4, p), (True, (4, True), True)),
    "line_hash": (lambda p: scene_attack("hash_of_the_line", 20, p), (True, (20, False), True)),
    "start_unsigned": (lambda p: scene_attack("checkpoint_of_the_start_gone", 10, p), (True, (10, False), True)),
    "segment_gone": (lambda p: scene_attack("segment_gone", a.FIRST[1] + 2, p), (True, (a.FIRST[1] + 2, False), True)),
    "leaves": (lambda p: scene_attack("leaves_changed", 10, p), (True, (10, False), True)),
    "blob": (lambda p: scene_attack("blob_changed", 10, p), (True, (10, True), True)),
    "set_back": (lambda p: scene_attack("rolled_back_without_a_pin", 25, p), (True, (25, False), True)),
    "fork": (fork("untouched", 10), (True, 1, (10, False))),
    "fork_of_what_was_pruned": (fork("pruned", 6), (True, 1, (6, False))),
    "in_the_log": (in_log(""), (2, None, True, False)),
    "in_a_directory_of_the_log": (in_log("/seg"), (2, None, True, False)),
    "up_to_date": (up_to_date, (0, True)),
    "no_room": (no_room, (2, True, (10, True), TOO_SMALL, True, [])),
    "replaced_meanwhile": (replaced_meanwhile, (-15, None, False, "cofferdam: FILE is not kept up: cp/N is another one than it was\ncofferdam: stopped by SIGTERM behind N "
                                                "records; N are signed, 0 findings so far; FILE is not there: no head was reached that could be kept\n")),
    "deep": (deep, (2, None, True, False)),
    **{"file_" + n: (scene_wrong(*w), (2, None, None, True, True)) for n, w in WRONG.items()},
}
SCENES.update(SLOW)
