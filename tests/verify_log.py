#!/usr/bin/env python3
"""Independent verifier of a decision log, written from docs/format-log.md alone.

usage: verify_log.py LOGDIR KEYFILE [PINNED_CHECKPOINT...]
       verify_log.py --proof FILE KEYFILE
       verify_log.py --receipt RECEIPT LOGDIR KEYFILE

Python's standard library only; shares no line with the C verifier. Prints one line for each
finding and the verdict last. Exit 0 verified or held, 1 tampered with or not held, 2 usage or keys,
3 whole but with an unsigned or torn end.
"""
import base64
import binascii
import datetime
import hashlib
import json
import os
import re
import stat
import sys

MAX_INT = 2**53 - 1
TORN_MAX = 1 << 20
ZERO = bytes(32)
ROOT_FILES = ("LOCK", "ballast", "checkpoint", "prune")
ROOT_DIRS = ("seg", "cp", "blob", "torn", "live", "key", "kept", "wit", "evidence", "lost+found")
OF_START = ("log.open", "log.segment", "log.recovered", "log.full", "log.key")

# --- Ed25519, verification only (RFC 8032 5.1) -----------------------------------------
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e, f = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    g, h = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    x, y, z, t = f - e, h - g, h + g, f + e
    return x * y % P, z * t % P, y * z % P, x * t % P


def mul(n, a):
    r = (0, 1, 1, 0)
    while n:
        if n & 1:
            r = add(r, a)
        a, n = add(a, a), n >> 1
    return r


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point(s):
    y = int.from_bytes(s, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * I % P
        if (v * x * x - u) % P:
            return None
    if x == 0 and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


GY = 4 * pow(5, P - 2, P) % P
G = point(GY.to_bytes(32, "little"))


def signed_by(pub, msg, sig):
    a, r, s = point(pub), point(sig[:32]), int.from_bytes(sig[32:], "little")
    if len(sig) != 64 or a is None or r is None or s >= L or same(mul(8, a), (0, 1, 1, 0)):
        return False
    h = int.from_bytes(hashlib.sha512(sig[:32] + pub + msg).digest(), "little") % L
    return same(mul(s, G), add(r, mul(h, a)))


# --- hashes and tree --------------------------------------------------------------------
def sha(b):
    return hashlib.sha256(b).digest()


class Tree:
    """RFC 6962 2.1; keeps the roots of full subtrees."""

    def __init__(self):
        self.size, self.stack = 0, []

    def push(self, leaf):
        n = self.size
        while n & 1:
            leaf, n = sha(b"\1" + self.stack.pop() + leaf), n >> 1
        self.stack.append(leaf)
        self.size += 1

    def root(self):
        if not self.stack:
            return sha(b"")
        h = self.stack[-1]
        for left in reversed(self.stack[:-1]):
            h = sha(b"\1" + left + h)
        return h


# --- notes --------------------------------------------------------------------------------
class Bad(Exception):
    """Not of the form: tampering."""


class Config(Exception):
    """Keys or usage."""


def unbase64(s):
    try:
        b = base64.b64decode(s, validate=True)
    except (binascii.Error, ValueError):
        return None
    return b if base64.b64encode(b) == s else None  # one spelling only


def name_ok(b):
    try:
        s = b.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(b) <= 200 and not any(c.isspace() or c < " " or c in "+\x7f" for c in s)


def vkey(text):
    """(name, ID, public key), or ValueError."""
    fields = text.split(b"+", 2)
    blob = unbase64(fields[2]) if len(fields) == 3 else None
    if blob is None or len(blob) != 33 or blob[0] != 1 or not name_ok(fields[0]):
        raise ValueError
    kid = sha(fields[0] + b"\n" + blob)[:4]
    if fields[1] != kid.hex().encode():
        raise ValueError
    return fields[0], kid, blob[1:]


def is_witness(text):
    """A cosigner's key (docs/format-witness.md), which signs no head of a log."""
    fields = text.split(b"+", 2)
    blob = unbase64(fields[2]) if len(fields) == 3 else None
    return blob is not None and len(blob) == 33 and blob[0] == 4 and name_ok(fields[0])


def witness_key(text):
    """(NAME, ID, public key) of a cosigner, or None."""
    fields = text.split(b"+", 2)
    if not is_witness(text):
        return None
    blob = unbase64(fields[2])
    kid = sha(fields[0] + b"\n" + blob)[:4]
    return (fields[0], kid, blob[1:]) if fields[1] == kid.hex().encode() else None


def read_witnesses(path):
    lines = [x.split(b" ")[0] for x in open(path, "rb").read().split(b"\n") if x and not x.startswith(b"#")]
    keys = [witness_key(x) for x in lines if is_witness(x)]
    if None in keys:
        raise Config("%s: the ID of a witness' key is not that of its key" % path)
    return keys


def read_keys(path):
    keys = {}
    for n, line in enumerate(open(path, "rb").read().split(b"\n"), 1):
        if not line or line.startswith(b"#"):
            continue
        parts = line.split(b" ")
        if is_witness(parts[0]):
            continue
        first, last = 0, None
        try:
            if len(parts) == 4 and parts[3] == b"revoked" and parts[2] != b"-":
                parts.pop()
            if len(parts) == 3:
                first, last = int(parts[1]), None if parts[2] == b"-" else int(parts[2])
            elif len(parts) != 1:
                raise ValueError
            name, kid, pub = vkey(parts[0])
            if last is not None and last < first:
                raise ValueError
        except ValueError:
            raise Config("%s:%d: not a verifier key" % (path, n)) from None
        if (name, kid) in keys:
            raise Config("%s:%d: a key of the same name and ID stands above" % (path, n))
        keys[name, kid] = (pub, first, last)
    if not keys:
        raise Config("%s: no key" % path)
    return keys


def open_note(note, keys):
    """(text, (name, key)) of the first signature by one of these keys, or Bad, or Config when none is."""
    try:
        note.decode()
    except UnicodeDecodeError:
        raise Bad("not UTF-8") from None
    if len(note) > 16384 or not note.endswith(b"\n") or any(c < 32 and c != 10 for c in note):
        raise Bad("not a signed note")
    cut = note.rfind(b"\n\n")
    text, sigs = note[: cut + 1], note[cut + 2 :].split(b"\n")[:-1]
    if cut < 1 or not sigs or len(sigs) > 64:
        raise Bad("not a signed note")
    signer = None
    for line in sigs:
        m = re.fullmatch("— ".encode() + rb"([^ ]+) ([^ ]+)", line)
        blob = unbase64(m[2]) if m else None
        if not m or not name_ok(m[1]) or blob is None or len(blob) < 5:
            raise Bad("signature line not of the form")
        key = keys.get((m[1], blob[:4]))
        if key is None:
            continue
        if not signed_by(key[0], text, blob[4:]):
            raise Bad("signature does not hold")
        signer = signer or (m[1], key)
    if signer is None:
        raise Config("no signature by a key given")
    return text, signer


def checkpoint_text(text):
    """(origin, size, root)"""
    lines = text.split(b"\n")
    root = unbase64(lines[2]) if len(lines) == 4 else None
    if root is None or len(root) != 32 or not name_ok(lines[0]):
        raise Bad("not a checkpoint")
    if not re.fullmatch(rb"0|[1-9][0-9]{0,18}", lines[1]) or int(lines[1]) >= 2**63:
        raise Bad("size is not a number")
    return lines[0], int(lines[1]), root


def open_checkpoint(note, keys):
    """(origin, size, root), or Bad, or Config when no key given here signed it."""
    text, (name, (_, first, last)) = open_note(note, keys)
    origin, size, root = checkpoint_text(text)
    if origin != name:
        raise Bad("signed by the key of another log")
    if size < first or (last is not None and size > last):
        raise Bad("outside the sizes of its key")
    return origin.decode(), size, root


def open_handover(note):
    """((size, root), last, old key, new key), signed by both."""
    cut = note.rfind(b"\n\n")
    lines = note[: cut + 1].split(b"\n")
    if len(note) > 4096 or cut < 1 or len(lines) not in (8, 9) or lines[0] != b"cofferdam-log-key/1":
        raise Bad("not a handover")
    origin, size, root = checkpoint_text(b"".join(x + b"\n" for x in lines[1:4]))
    try:
        old, new = vkey(lines[5]), vkey(lines[6])
    except ValueError:
        raise Bad("no verifier keys") from None
    if not re.fullmatch(rb"0|[1-9][0-9]{0,18}", lines[4]) or old[0] != origin or new[0] != origin or old[1] == new[1]:
        raise Bad("last size or names are not of the form")
    last, revoked = int(lines[4]), len(lines) == 9
    if size == 0 or last > size or (not revoked and last != size):
        raise Bad("the old key cannot end there")
    if revoked and not re.fullmatch(rb"[ -~]{1,256}", lines[7]):
        raise Bad("reason is not of the form")
    for name, kid, pub in (old, new):
        try:
            open_note(note, {(name, kid): (pub, 0, None)})
        except Config:
            raise Bad("not signed by both keys") from None
    return (size, root), last, old, new


# --- records ---------------------------------------------------------------------------------
def pairs(members):
    keys = [k.encode("utf-16-be", "surrogatepass") for k, _ in members]
    if any(a >= b for a, b in zip(keys, keys[1:])):
        raise ValueError("keys")
    return dict(members)


def refuse(_):
    raise ValueError("number")


def integer(s):
    n = int(s)
    if abs(n) > MAX_INT:
        raise ValueError("number")
    return n


def walk(v, depth):
    if isinstance(v, str):
        if "\0" in v:
            raise ValueError("NUL")
    elif isinstance(v, dict):
        for k in v:
            walk(k, depth)
            walk(v[k], depth - 1)
    elif isinstance(v, list):
        for e in v:
            walk(e, depth - 1)
    elif v is None:
        raise ValueError("null")
    if depth <= 0 and isinstance(v, (dict, list)):
        raise ValueError("depth")


def canonical(b):
    """The value of exactly canonical bytes, or ValueError."""
    v = json.loads(b.decode(), object_pairs_hook=pairs, parse_float=refuse, parse_int=integer, parse_constant=refuse)
    if json.dumps(v, ensure_ascii=False, separators=(",", ":")).encode() != b:
        raise ValueError("not canonical")
    return v


KEYS = ["batch", "data", "mono", "prev", "seq", "src", "time", "type", "v"]
FORMS = {
    "prev": r"[0-9a-f]{64}",
    "run": r"[A-Za-z0-9._-]{1,64}",
    "src": r"broker|agent|human|operator",
    "time": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z",
    "type": r"[a-z0-9_.]{1,64}",
}


def self_valid(line):
    """(record, leaf hash) of a line valid in itself, else None."""
    if not (line.startswith(b'{"body":') and line.endswith(b'"}\n') and line[-76:-67] == b',"hash":"'):
        return None
    body = line[8:-76]
    leaf = sha(b"\0" + body)
    if len(body) > 65535 or line[-67:-3] != leaf.hex().encode():
        return None
    try:
        r = canonical(body)
        walk(r, 17)
        if sorted(set(r) - {"run"}) != KEYS or not isinstance(r["data"], dict):
            return None
        for k, form in FORMS.items():
            if k in r and not re.fullmatch(form, r[k]):
                return None
        for k in ("batch", "mono", "seq", "v"):
            if type(r[k]) is not int or r[k] < 0:
                return None
        datetime.datetime.strptime(r["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        return (r, leaf) if r["v"] == 1 and r["batch"] <= r["seq"] else None
    except (ValueError, TypeError, RecursionError):
        return None


def reference(r):
    """The ct of the record's blob, or None."""
    t, d = r["type"], r["data"]
    if t == "action":
        d, key = d.get("request"), "head"
    elif t.startswith("agent.") or t == "run.message":
        key = "content"
    else:
        key = {"policy.load": "bundle", "run.start": "task", "approval.request": "show", "outcome": "answer"}.get(t)
    ref = d.get(key) if isinstance(d, dict) and key else None
    ct = ref.get("ct") if isinstance(ref, dict) else None
    return ct if isinstance(ct, str) and re.fullmatch(r"[0-9a-f]{64}", ct) else None


# --- the directory ----------------------------------------------------------------------------
def is_dir(path):
    return os.path.isdir(path) and not os.path.islink(path)


def listing(path, suffixes):
    """Sorted numbers per suffix, and names that do not belong. What is no directory holds nothing."""
    out, foreign = {s: [] for s in suffixes}, []
    for e in [] if not is_dir(path) else os.scandir(path):
        m = re.fullmatch(r"([0-9]{20})(.*)", e.name)
        if e.name.startswith(".tmp"):
            continue
        if m and m[2] in out and int(m[1]) < 2**63 and stat.S_ISREG(e.stat(follow_symlinks=False).st_mode):
            out[m[2]].append(int(m[1]))
        else:
            foreign.append(e.name)
    return {s: sorted(n) for s, n in out.items()}, sorted(foreign)


def root_foreign(path):
    """Names in the log directory itself that do not belong."""
    out = []
    for e in os.scandir(path):
        if e.name.startswith(".tmp"):
            continue  # may be gone by now
        try:
            mode = e.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
        good = e.name in ROOT_FILES and stat.S_ISREG(mode) or e.name in ROOT_DIRS and stat.S_ISDIR(mode)
        if not good:
            out.append(e.name)
    return sorted(out)


def content(path):
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as f:
        return f.read()


class Log:
    def __init__(self, path, keys, pins, witnesses=()):
        self.path, self.keys, self.findings, self.config = path, keys, [], None
        self.given, self.named, self.notes = list(witnesses), [], []
        self.heads = []
        self.follow()
        self.read_heads([open_pin(x, self.keys) for x in pins])
        self.newest = max([h[0] for h in self.heads], default=0)
        self.read_records()
        self.read_packs()
        self.check_prunes()
        self.read_cosignatures()

    def found(self, seq, word, text):
        self.findings.append((seq, word, text))

    def sub(self, *names):
        return os.path.join(self.path, *names)

    def foreign(self, where, names):
        if names:
            self.found(0, "foreign", "%s holds %r" % (where, names[0]))

    # keys
    def follow(self):
        """From the keys given to those that they handed over to."""
        numbers, foreign = listing(self.sub("key"), [""])
        self.foreign("key", foreign)
        for n in numbers[""]:
            try:
                head, last, old, new = open_handover(content(self.sub("key", "%020d" % n)))
                if head[0] != n:
                    raise Bad("is for size %d" % head[0])
                if old[:2] not in self.keys:
                    continue
                pub, first, end = self.keys[old[:2]]
                known = self.keys.get(new[:2], (new[2], 0, None))
                if pub != old[2] or known[0] != new[2]:
                    raise Bad("another key has the same name and ID")
                told = new[:2] in self.keys and end == last
                if not told and (n < first or (end is not None and n > end)):
                    raise Bad("handed over outside the sizes of the old key")
            except (Bad, OSError) as e:
                self.found(n, "key", "key/%d: %s" % (n, e))
                return
            self.keys[old[:2]] = (pub, first, last)
            self.keys[new[:2]] = (known[0], max(known[1], n), known[2])
            self.heads.append(head)

    # heads
    def read_head(self, path, number, numbered):
        try:
            _, size, root = open_checkpoint(content(path), self.keys)
            if numbered and size != number:
                raise Bad("is for size %d" % size)
            self.heads.append((size, root))
            return True
        except (Bad, OSError) as e:
            self.found(number, "checkpoint", "%s: %s" % (path, e))
        except Config as e:
            self.config = "%s: %s" % (path, e)

    def read_heads(self, pins):
        self.foreign("the log directory", root_foreign(self.path))
        numbers, foreign = listing(self.sub("cp"), [""])
        self.foreign("cp", foreign)
        for n in numbers[""]:
            self.read_head(self.sub("cp", "%020d" % n), n, True)
        numbers, foreign = listing(self.sub("wit"), [""])
        self.foreign("wit", foreign)
        for n in numbers[""]:
            if self.read_head(self.sub("wit", "%020d" % n), n, True):
                self.notes.append(n)
        if os.path.lexists(self.sub("checkpoint")):
            self.read_head(self.sub("checkpoint"), 0, False)
        self.heads += pins

    # witnesses
    def cosigned(self, n, text, line):
        """Time and witness of one signature line, or None."""
        m = re.fullmatch("— ".encode() + rb"([^ ]+) ([^ ]+)", line)
        blob = unbase64(m[2])
        for w in self.witnesses:
            if (m[1], blob[:4]) != w[:2]:
                continue
            at = int.from_bytes(blob[4:12], "big")
            message = b"cosignature/v1\ntime %d\n" % at + text
            if len(blob) != 76 or at >= 2**63 or not signed_by(w[2], message, blob[12:]):
                self.found(n, "checkpoint", "wit/%d: a cosignature does not hold" % n)
                continue
            return w, at
        return None

    def read_cosignatures(self):
        self.witnesses = self.given or self.named
        self.seen = {}
        for n in self.notes if self.witnesses else []:
            note = content(self.sub("wit", "%020d" % n))
            cut = note.rfind(b"\n\n")
            for line in note[cut + 2 :].split(b"\n")[:-1]:
                got = self.cosigned(n, note[: cut + 1], line)
                if got and n <= self.verified:
                    self.seen[got[0][:2]] = (n, got[1])

    def say_witnesses(self):
        own = "" if self.given else ", by the log's own word"
        for name, kid, _ in self.witnesses:
            n, at = self.seen.get((name, kid), (0, 0))
            if n == 0:
                print("not witnessed by %s%s" % (name.decode(), own))
                continue
            when = datetime.datetime.fromtimestamp(at % 253402300800, datetime.timezone.utc)
            print("witnessed at %d by %s, %s%s" % (n, name.decode(), when.strftime("%Y-%m-%dT%H:%M:%SZ"), own))

    def check_heads(self):
        """All heads of the size reached."""
        n = self.tree.size
        for root in self.by_size.get(n, []):
            if self.rewritten:
                return
            if root != self.tree.root():
                self.rewritten = True
                self.found(self.verified, "rewritten", "other records were signed up to size %d" % n)
            else:
                self.verified, self.held = n, self.held + 1

    # records
    def read_records(self):
        numbers, foreign = listing(self.sub("seg"), [".jsonl", ".leaves"])
        self.foreign("seg", foreign)
        self.segs, self.leaves_of = numbers[".jsonl"], numbers[".leaves"]
        self.check_dirs()
        self.tree, self.prev, self.batch = Tree(), ZERO, 0
        self.leaves, self.refs, self.torn = [], [], 0
        self.ended, self.owed, self.adopted, self.erased, self.erasures = False, None, [], set(), 0
        self.by_size, self.rewritten, self.verified, self.held = {}, False, 0, 0
        for size, root in self.heads:
            self.by_size.setdefault(size, []).append(root)
        self.prunes, self.gone, self.kept, self.kept_files = [], self.segs[0] if self.segs else 0, 0, {}
        self.check_heads()
        self.read_kept()
        stopped = self.gone > 0 and not self.read_pruned()
        for i, name in enumerate(self.segs):
            if stopped:
                break
            data = content(self.sub("seg", "%020d.jsonl" % name))
            lines = [s + b"\n" for s in data.split(b"\n")]
            lines[-1] = lines[-1][:-1]  # what follows the last LF
            if lines[-1] == b"":
                lines.pop()
            stopped = self.read_segment(i, name, lines)
            self.check_leaves(name, not stopped)
            if stopped:
                break
        size = self.tree.size
        said = max([to for seq, _, to, _, _ in self.prunes if seq < self.newest], default=0)
        if (not stopped or self.torn) and self.gone > said:
            self.torn = 0
            self.found(said, "missing", "records %d to %d are not there, and no signed record says that they were pruned" % (said, self.gone - 1))
        elif (not stopped or self.torn) and size < self.newest:
            self.found(size, "cut", "%d records, signed are %d" % (size, self.newest))

    def check_dirs(self):
        """Made before the first record is."""
        gone = [x for x in ("seg", "cp", "blob") if not os.path.lexists(self.sub(x))]
        if not self.segs and self.newest == 0:
            if len(gone) == 3:
                raise Config("no log is here: %s" % self.path)
            return
        for x in gone:
            self.found(0, "missing", "the directory %s is not there" % x)

    # what is left of pruned records
    def read_kept(self):
        numbers, foreign = listing(self.sub("kept"), [".jsonl", ".pack"])
        self.foreign("kept", foreign)
        self.kept_files = {n: content(self.sub("kept", "%020d.jsonl" % n)) for n in numbers[".jsonl"]}

    def read_pruned(self):
        """By leaf hashes up to the first segment that is there; False: a kept line is none of them."""
        while self.tree.size < self.gone and self.tree.size in self.leaves_of:
            first = self.tree.size
            data = content(self.sub("seg", "%020d.leaves" % first))
            lines = [s + b"\n" for s in self.kept_files.get(first, b"").split(b"\n")]
            lines[-1] = lines[-1][:-1]
            if lines[-1] == b"":
                lines.pop()
            if len(data) < 32:
                break
            for j in range(len(data) // 32):
                leaf, k = data[32 * j : 32 * j + 32], self.tree.size
                v = self_valid(lines[0]) if lines else None
                if lines and (not v or v[0]["seq"] < k or (v[0]["seq"] == k and v[1] != leaf)):
                    self.found(k, "kept", "what was kept of segment %d is not of its records" % first)
                    return False
                if v and v[0]["seq"] == k:
                    self.kept += 1
                    self.take(*v)
                    lines.pop(0)
                else:
                    self.tree.push(leaf)
                    self.prev = leaf
                    self.leaves.append(leaf)
                    self.check_heads()
            if lines:
                self.found(self.tree.size, "kept", "what was kept of segment %d is not of its records" % first)
                return False
        self.batch = 0
        return True

    def check_prunes(self):
        """That nothing is missing of what was kept, by each record of a prune that is signed."""
        for seq, start, to, digest, _ in self.prunes:
            if seq >= self.verified:
                continue
            parts = (n.to_bytes(8, "big") + sha(self.kept_files[n]) for n in sorted(self.kept_files) if start <= n < to)
            if sha(b"".join(parts)).hex() != digest:
                self.found(start, "kept", "what was kept of the records that record %d says were pruned is not that" % seq)

    def read_segment(self, i, name, lines):
        k = self.tree.size
        if name != k:
            first = self_valid(lines[0]) if lines else None
            if first and first[0]["seq"] == k:
                self.found(k, "misplaced", "segment is named %d" % name)
            elif name > k:
                self.found(k, "missing", "no segment holds record %d" % k)
            else:
                self.found(k, "inserted", "segment %d stands where record %d is due" % (name, k))
            return True
        for n, line in enumerate(lines):
            v = self_valid(line)
            if not v or not self.fits(*v):
                self.stop(i, lines, n, v)
                return True
            self.take(*v)
            self.check_own(name, v[0])
        return False

    def fits(self, r, _):
        k = self.tree.size
        return r["seq"] == k and r["prev"] == self.prev.hex() and r["batch"] in (self.batch, k)

    def take(self, r, leaf):
        self.tree.push(leaf)
        self.prev, self.batch = leaf, r["batch"]
        self.leaves.append(leaf)
        if r["type"] == "erasure":
            runs = r["data"].get("runs")
            self.erasures += 1
            self.erased |= {x for x in runs if isinstance(x, str) and re.fullmatch(FORMS["run"], x)} if isinstance(runs, list) else set()
        d, k = r["data"], r["data"].get("kept")
        if r["type"] == "log.prune" and type(d.get("from")) is int and type(d.get("to")) is int and isinstance(k, dict):
            self.prunes.append((r["seq"], d["from"], d["to"], k.get("sha256"), "on %s by %s" % (r["time"], d.get("by"))))
        ct = reference(r)
        if ct:
            self.refs.append((r["seq"], ct))
        self.check_heads()

    def check_own(self, segment, r):
        """What the writer's own records say of the files around them."""
        seq, kind, start = r["seq"], r["type"], r["type"] in OF_START
        signed = None
        if kind == "log.segment" and seq != 0:
            signed = seq
            if self.owed == seq:
                self.owed = None
        elif kind == "log.open":
            self.owed = seq + 1
        elif not start:
            signed, self.owed = self.owed, None
        if signed is not None and not (is_dir(self.sub("cp")) and os.path.lexists(self.sub("cp", "%020d" % signed))):
            self.found(signed, "checkpoint", "cp/%020d is not there, but was signed before record %d" % (signed, seq))
        if self.ended and not start:
            self.found(seq, "after-close", "record %d stands behind the close of the log" % seq)
        if not start or kind == "log.open":
            self.ended = False
        if kind in ("log.close", "log.full"):
            self.ended = True
        if (kind == "log.segment" and seq != segment) or (seq == segment != 0 and not start):
            self.found(seq, "resplit", "record %d is in segment %d" % (seq, segment))
        if kind == "log.open":
            listed = r["data"].get("witnesses", [])
            keys = [witness_key(x.encode()) for x in listed if isinstance(x, str)] if isinstance(listed, list) else []
            self.named = [k for k in keys if k]
        n = r["data"].get("unsigned") if kind == "log.open" else None
        if type(n) is int and 0 < n <= r["batch"]:
            self.adopted.append((n, r["batch"] - n, seq))

    def later(self, i, lines, n):
        """Lines behind line n of segment i, to the end of the log."""
        yield from lines[n + 1 :]
        for name in self.segs[i + 1 :]:
            yield from (s + b"\n" for s in content(self.sub("seg", "%020d.jsonl" % name)).split(b"\n")[:-1])

    def stop(self, i, lines, n, v):
        k, last = self.tree.size, i == len(self.segs) - 1
        if v:
            self.wrong_place(i, lines, n, *v)
            return
        if last and not lines[n].endswith(b"\n") and k < self.newest:
            self.found(k, "cut", "the log ends within record %d" % k)
            return
        rest = sum(len(s) for s in lines[n:])
        if last and rest <= TORN_MAX and k >= self.newest:
            if not any(w and w[0]["batch"] > k for w in map(self_valid, lines[n + 1 :])):
                self.torn = rest
                return
        nxt = self_valid(lines[n + 1]) if n + 1 < len(lines) else None
        if nxt and nxt[0]["seq"] == k and nxt[0]["prev"] == self.prev.hex():
            self.found(k, "inserted", "a line before record %d is no record" % k)
        else:
            self.found(k, "changed", "record %d is not valid in itself" % k)

    def wrong_place(self, i, lines, n, r, leaf):
        k, seq = self.tree.size, r["seq"]
        if seq == k and r["prev"] != self.prev.hex():
            self.found(max(k - 1, 0), "changed", "record %d follows another record" % k)
        elif seq == k:
            self.found(k, "changed", "batch of record %d cannot be" % k)
        elif self.gone <= seq < k and self.leaves[seq] == leaf:
            self.found(seq, "duplicated", "record %d stands again before record %d" % (seq, k))
        elif seq < k:
            self.found(k, "inserted", "a record with number %d stands before record %d" % (seq, k))
        elif any(w and w[0]["seq"] == k for w in map(self_valid, self.later(i, lines, n))):
            self.found(k, "reordered", "record %d stands before record %d" % (seq, k))
        else:
            self.found(k, "missing", "records %d to %d are not there" % (k, seq - 1))

    def check_leaves(self, name, whole):
        mine = self.leaves[name:]
        if name not in self.leaves_of or not mine:
            return
        data = content(self.sub("seg", "%020d.leaves" % name))
        for j, leaf in enumerate(mine):
            if data[32 * j : 32 * j + 32] != leaf:
                self.found(name + j, "leaves", "another hash for record %d" % (name + j))
                return
        if whole and len(data) != 32 * len(mine):
            self.found(name, "leaves", "%d bytes, must be %d" % (len(data), 32 * len(mine)))

    # packs
    @staticmethod
    def frame(data, at):
        """(ct in hex, bytes) of the frame there, or (None, 0)."""
        head = {b"CFB1": 32, b"CFB2": 104}.get(data[at : at + 4])
        if head:
            total, ct = int.from_bytes(data[at + 4 : at + 8], "big"), int.from_bytes(data[at + head : at + head + 4], "big")
            if 48 <= ct <= 48 + (2 << 20) and total == head + 4 + ct and at + total <= len(data):
                return sha(data[at + 8 : at + head] + data[at + head + 4 : at + total]).hex(), total
        return None, 0

    def read_packs(self):
        numbers, foreign = listing(self.sub("blob"), [".pack"])
        self.foreign("blob", foreign)
        seen, named = set(), {ct for _, ct in self.refs}
        for n in numbers[".pack"]:
            data, at = content(self.sub("blob", "%020d.pack" % n)), 0
            skipped = junk = False
            while at >= 0 and at < len(data):
                h, total = self.frame(data, at)
                if h:
                    seen.add(h)
                    junk = junk or (skipped and h in named)
                    at += total
                else:
                    skipped = True
                    at = data.find(b"CFB", at + 1)
            if junk or (skipped and self.segs and n < self.segs[-1]):
                self.found(n, "junk", "pack %d holds bytes that are no frame" % n)
        missing = [seq for seq, ct in self.refs if ct not in seen]
        self.blobs = len(self.refs) - len(missing)
        for seq in missing:
            self.found(seq, "blob", "content of record %d is in no pack, or changed" % seq)

    def verdict(self):
        for seq, word, text in self.findings:
            print("TAMPER at seq %d: %s: %s" % (seq, word, text))
        if self.config:
            print("CONFIG: " + self.config)
        for a in self.adopted:
            print("%d records from seq %d on were adopted unsigned at seq %d after a crash" % a)
        if self.erasures:
            print("content of %d runs is erased, by %d records" % (len(self.erased), self.erasures))
        self.say_witnesses()
        if self.gone:
            who = [w for seq, _, to, _, w in self.prunes if seq < self.verified and to >= self.gone]
            print("pruned up to %d%s: its records are not here, but for %d that were kept" % (self.gone, " " + who[-1] if who else "", self.kept))
        print("%d checkpoints and %d blobs hold" % (self.held, self.blobs))
        size = self.tree.size
        end = " to size %d" % self.verified if self.verified else ""
        end += " + %d unsigned" % (size - self.verified) if size > self.verified else ""
        end += " + %d pruned" % self.gone if self.gone else ""
        end += " + %d torn bytes" % self.torn if self.torn else ""
        if self.findings:
            print("TAMPER, %d findings%s" % (len(self.findings), "; heads hold" + end if self.verified else end))
            return 1
        print(("VERIFIED" if self.verified else "UNSIGNED, no checkpoint") + end)
        if self.config:
            return 2
        return 3 if not self.verified or size > self.verified or self.torn else 0


def open_pin(path, keys):
    try:
        return open_checkpoint(content(path), keys)[1:]
    except Bad as e:
        raise Config("%s: %s" % (path, e)) from None


# --- proofs of single records -------------------------------------------------------------------
def leads_to(leaf, index, size, path):
    """The root that a path leads to (RFC 6962 2.1.1, from the leaf upward), or None."""
    h, last, path = leaf, size - 1, list(path)
    while last:
        if index & 1 or index < last:  # it has a sibling
            if not path:
                return None
            other = path.pop(0)
            h = sha(b"\1" + (other + h if index & 1 else h + other))
        index, last = index >> 1, last >> 1
    return None if path else h


def verify_proof(path, keys):
    data = content(path)
    m = re.fullmatch(rb"c2sp\.org/tlog-proof@v1\nextra ([^\n]*)\nindex (0|[1-9][0-9]{0,18})\n((?:[^\n]+\n)*)\n(.*)", data, re.S)
    if not m or len(data) > 131072:
        raise Bad("not a proof")
    body, index, hashes = unbase64(m[1]), int(m[2]), [unbase64(h) for h in m[3].split(b"\n")[:-1]]
    if body is None or len(hashes) > 64 or any(h is None or len(h) != 32 for h in hashes):
        raise Bad("not base64")
    origin, size, root = open_checkpoint(m[4], keys)
    v = self_valid(b'{"body":' + body + b',"hash":"' + sha(b"\0" + body).hex().encode() + b'"}\n')
    if not v or v[0]["seq"] != index or index >= size:
        raise Bad("no record of this number")
    if leads_to(v[1], index, size, hashes) != root:
        raise Bad("the path does not lead to the root")
    print("VERIFIED record %d of %s, in its log of size %d" % (index, origin, size))
    return 0


# --- receipts -------------------------------------------------------------------------------------
def receipt_origin(name):
    """As receipts spell it."""
    return "".join(chr(c) if 0x21 <= c <= 0x7e and chr(c) not in "%#\"'\\$`" else "%%%02X" % c for c in name)


def read_receipt(text):
    """(origin as spelled, seq, leaf hash, size)"""
    m = re.fullmatch(r"([^#]+)#(0|[1-9][0-9]{0,18}):([0-9a-f]{64}):([1-9][0-9]{0,18})", text)
    if not m or len(os.fsencode(text)) > 708 or not int(m[2]) < int(m[4]) < 2**63:
        raise Config("not a receipt")
    return m[1], int(m[2]), bytes.fromhex(m[3]), int(m[4])


def verify_receipt(text, path, keyfile):
    origin, seq, leaf, size = read_receipt(text)
    keys = read_keys(keyfile)
    name = next(iter(keys))[0]
    log = read_log(path, keys, [], ())
    if log.config:
        raise Config(log.config)
    if any(at <= seq for at, _, _ in log.findings):
        why = "the log is tampered with there or before"
    elif origin != receipt_origin(name):
        why = "it is of another log"
    elif log.tree.size < size:
        why = "the log has %d records, and had %d" % (log.tree.size, size)
    elif log.leaves[seq] != leaf:
        why = "record %d is another one" % seq
    else:
        print("HELD record %d of %s" % (seq, origin))
        return 0
    print("NOT HELD: " + why)
    return 1


def first_there(path):
    """The number of the first segment that is there, 0 if there is none."""
    names = os.listdir(path + "/seg") if is_dir(path + "/seg") else []
    return min([int(n[:20]) for n in names if re.fullmatch(r"[0-9]{20}\.jsonl", n)], default=0)


def read_log(path, keys, pins, witnesses):
    """From the beginning again when something that was listed is gone: it was pruned meanwhile, or a start opens a segment
    again that had been closed. Each prune leaves fewer segments."""
    tries = 100
    while True:
        try:
            before = first_there(path)
            log = Log(path, dict(keys), pins, witnesses)
            if first_there(path) == before:
                return log
        except FileNotFoundError:
            tries -= 1
            if tries == 0:
                raise


def main(argv):
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if argv[1] == "--proof":
            return verify_proof(argv[2], read_keys(argv[3]))
        if argv[1] == "--receipt":
            return verify_receipt(argv[2], argv[3], argv[4])
        keys = read_keys(argv[2])
        return read_log(argv[1], keys, argv[3:], read_witnesses(argv[2])).verdict()
    except Bad as e:
        print("TAMPER: %s" % e)
        return 1
    except (Config, OSError, IndexError) as e:
        print("verify_log.py: %s" % e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
