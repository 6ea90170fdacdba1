"""Attacks on logs: what each is made from, what it does to a copy, and what a verifier must say of it.

Importing builds the logs; 36-verify-mutants.t and 35-verify-resume.t go through the list."""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import verify_log as v  # noqa: E402
from forge import chained, line_of  # noqa: E402
from harness import BUILD, Temp  # noqa: E402
from notes import Key, handover  # noqa: E402

temp = Temp("attacks")
T = temp.path


def build(name, count, *opts):
    subprocess.run([BUILD + "/tool_append-log", T + "/" + name, str(count), *opts], check=True, stdout=subprocess.DEVNULL)
    return T + "/" + name


ONE = build("one", 30, "batch=3", "cp=10")
SEGS = build("segs", 40, "batch=3", "cp=10", "seg=6000")
OPEN = build("open", 20, "batch=4", "cp=0", "close=0")
TAIL = build("tail", 40, "batch=4", "cp=0", "close=0", "seg=6000")
KEY = ONE + "/keys/log/vkey"

# A log whose first segments were pruned; of the first run nothing is left, of the second all.
with open(T + "/lines", "w") as f:
    f.writelines("agent.note\tagent\tr-%d\t{\"n\":%d}\t\n" % (1 if i < 30 and i % 2 else 2, i) for i in range(60))
PRUNED = build("pruned", 0, "seg=6000", "from=" + T + "/lines")
build("pruned", 30, "seg=6000")  # closed at the end; lines of a file are one write, and segments end with a write
subprocess.run([BUILD + "/cofferdam", "log", "prune", "--state", PRUNED, "--before-seq", "1000", "--yes", "--reason", "old"],
               check=True, stdout=subprocess.DEVNULL)
build("pruned", 3, "seg=6000")

# --- attacks: each damages a copy; verifiers must answer so ----------------------------------
ATTACKS = {}


def attack(src, rc, *words, keys=None, pins=()):
    def put(f):
        ATTACKS[f.__name__] = (src, f, rc, sorted(words), keys, pins)
        return f
    return put


def seg(d):
    return sorted(d + "/seg/" + n for n in os.listdir(d + "/seg") if n.endswith(".jsonl"))


def get(path):
    with open(path, "rb") as f:
        return f.read()


def set_(path, data):
    with open(path, "wb") as f:
        f.write(data)


def edit(d, change):
    lines = get(seg(d)[0]).splitlines(True)
    r = change(lines)
    set_(seg(d)[0], b"".join(lines if r is None else r))


def body(k, old, new):
    """An attack on the form of record k of the unsigned log, with right hashes."""
    def run(d):
        def change(x):
            assert old in x[k], (old, x[k])
            x[k] = line_of(x[k][8:-76].replace(old, new, 1))
            return chained(x, k)
        edit(d, change)
    return run


def form(name, old, new, k=4):
    f = body(k, old, new)
    f.__name__ = name
    attack(OPEN, 1, (k, "changed"))(f)


form("space", b'"data":{', b'"data": {')
form("leading_zero", b'"n":4', b'"n":04')
form("minus_zero", b'"n":4', b'"n":-0')
form("large_integer", b'"n":4', b'"n":9007199254740992')
form("fraction", b'"n":4', b'"n":4.0')
form("null", b'"n":4', b'"n":null')
form("keys_out_of_order", b'"n":4', b'"n":4,"a":1')
form("key_twice", b'"n":4', b'"n":4,"n":4')
form("escaped_slash", b'"n":4', b'"n":"\\/"')
form("needless_escape", b'"n":4', b'"n":"\\u0041"')
form("nul", b'"n":4', b'"n":"\\u0000"')
form("surrogate", b'"n":4', b'"n":"\\ud800"')
form("not_utf8", b'"n":4', b'"n":"\xc3(a"')
form("too_deep", b'"n":4', b'"n":' + b"[" * 16 + b"]" * 16)
form("raw_control", b'"n":4', b'"n":"\t"')
form("member_more", b'"v":1', b'"v":1,"w":1')
form("version", b'"v":1', b'"v":2')
form("source", b'"src":"agent"', b'"src":"root"')
form("type", b'"type":"agent.note"', b'"type":"Agent.note"')
form("run", b'"run":"r-1"', b'"run":"r/1"')
ATTACKS["no_such_date"] = (OPEN, lambda d: edit(d, lambda x: chained(
    x[:4] + [line_of(re.sub(rb'"time":"....-..-..', b'"time":"2026-02-30', x[4][8:-76]))] + x[5:], 4)), 1, [(4, "changed")], None, ())
ATTACKS["batch_above"] = (OPEN, body(4, b'"batch":1,', b'"batch":5,'), 1, [(4, "changed")], None, ())


@attack(OPEN, 1, (6, "changed"))
def batch_cannot_be(d):
    body(6, b'"batch":5,', b'"batch":4,')(d)


@attack(ONE, 1, (9, "changed"))
def hash_of_the_line(d):
    edit(d, lambda x: x.__setitem__(9, x[9][:-67] + b"0" * 64 + x[9][-3:]))


@attack(ONE, 1, (9, "changed"))
def end_of_the_line(d):
    edit(d, lambda x: x.__setitem__(9, x[9][:-2] + b"]\n"))


@attack(ONE, 1, (9, "changed"))
def middle_of_the_line(d):
    edit(d, lambda x: x.__setitem__(9, x[9].replace(b',"hash":"', b',"hasH":"')))


@attack(ONE, 1, (9, "changed"))
def begin_of_the_line(d):
    edit(d, lambda x: x.__setitem__(9, x[9].replace(b'{"body":', b'{"bodY":')))


@attack(OPEN, 1, (9, "changed"))
def follows_another(d):
    edit(d, lambda x: x.__setitem__(9, line_of(x[9][8:-76].replace(b'"src":"agent"', b'"src":"human"'))))


@attack(OPEN, 1, (10, "missing"))
def number_skipped(d):  # within a batch
    edit(d, lambda x: chained(x[:10] + x[11:], 10))


@attack(ONE, 1, (9, "reordered"))
def exchanged(d):
    edit(d, lambda x: x.__setitem__(slice(9, 11), [x[10], x[9]]))


@attack(ONE, 1, (9, "duplicated"))
def twice(d):
    edit(d, lambda x: x.insert(10, x[9]))


@attack(ONE, 1, (9, "inserted"))
def pushed_in(d):
    edit(d, lambda x: x.insert(9, b"x\n"))


@attack(ONE, 1, (20, "cut"))
def cut_off(d):
    edit(d, lambda x: x[:20])


@attack(ONE, 1, (20, "cut"))
def cut_within(d):
    edit(d, lambda x: x[:20] + [x[20][:50]])


@attack(ONE, 1, (31, "changed"))
def end_zeroed(d):
    edit(d, lambda x: x[:31] + [b"\0" * 80 + b"\n"])


@attack(OPEN, 1, (20, "changed"))
def more_than_a_write(d):
    edit(d, lambda x: x[:20] + [b"x" * (1 << 20) + b"y"])


@attack(OPEN, 1, (9, "changed"))
def batch_behind_damage(d):
    edit(d, lambda x: x.__setitem__(9, b"\0" * 30 + x[9][30:]))


@attack(OPEN, 1, (16, "changed"))
def batch_right_behind_damage(d):
    edit(d, lambda x: x[:16] + [b"\0" * 30 + x[16][30:], x[17]])


@attack(OPEN, 3)
def batch_above_behind_damage(d):  # no record, so no later batch
    edit(d, lambda x: x[:9] + [b"\0" * 30 + x[9][30:], line_of(x[10][8:-76].replace(b'"batch":9,', b'"batch":99,'))])


@attack(OPEN, 3)
def torn_end(d):
    edit(d, lambda x: x[:-1] + [x[-1][:90]])


@attack(ONE, 1, (1, "rewritten"))
def rewritten(d):
    edit(d, lambda x: chained(x[:12] + [line_of(x[12][8:-76].replace(b'"src":"agent"', b'"src":"human"'))] + x[13:], 12))


# --- segments, leaves, packs, names
FIRST = [int(os.path.basename(s)[:20]) for s in seg(SEGS + "/log")]


@attack(SEGS, 1, (FIRST[1], "misplaced"))
def misplaced(d):
    os.rename(seg(d)[1], d + "/seg/%020d.jsonl" % (FIRST[1] + 1))


@attack(SEGS, 1, (FIRST[1], "missing"))
def segment_gone(d):
    os.unlink(seg(d)[1])
    os.unlink(seg(d)[0][:-26] + "%020d.leaves" % FIRST[1])


@attack(SEGS, 1, (3, "leaves"))
def leaves_changed(d):
    p = d + "/seg/%020d.leaves" % 0
    b = bytearray(get(p))
    b[100] ^= 1
    set_(p, bytes(b))


@attack(SEGS, 1, (0, "leaves"))
def leaves_longer(d):
    p = d + "/seg/%020d.leaves" % 0
    set_(p, get(p) + b"x" * 32)


# --- pruned
GONE = [int(n[:20]) for n in sorted(os.listdir(PRUNED + "/log/seg")) if n.endswith(".jsonl")][0]
KEPT = sorted(os.listdir(PRUNED + "/log/kept"))[0]


@attack(PRUNED, 0)
def pruned(d):
    pass


@attack(SEGS, 1, (0, "missing"))
def pruned_without_a_record(d):
    os.unlink(seg(d)[0])


@attack(PRUNED, 1, (GONE, "missing"))
def more_than_was_pruned(d):
    os.unlink(seg(d)[0])


@attack(TAIL, 1, (0, "missing"))
def pruned_by_nobody(d):
    os.unlink(seg(d)[0])
    lines = get(seg(d)[-1]).splitlines(True)
    r = json.loads(lines[-1])
    body = dict(r["body"], seq=r["body"]["seq"] + 1, batch=r["body"]["seq"] + 1, prev=r["hash"], type="log.prune", src="operator",
                data={"by": "root", "from": 0, "kept": {"records": 0, "sha256": hashlib.sha256(b"").hexdigest()}, "to": 1000})
    body.pop("run", None)
    lines.append(line_of(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()))
    set_(seg(d)[-1], b"".join(lines))


def kept(d, change):
    lines = get(d + "/kept/" + KEPT).splitlines(True)
    set_(d + "/kept/" + KEPT, b"".join(change(lines)))


KEPT_SEQ = [json.loads(x)["body"]["seq"] for x in get(PRUNED + "/log/kept/" + KEPT).splitlines()]


@attack(PRUNED, 1, (KEPT_SEQ[1], "kept"))
def kept_line_changed(d):
    kept(d, lambda x: [x[0], line_of(x[1][8:-76].replace(b'"src":"agent"', b'"src":"human"')), *x[2:]])


@attack(PRUNED, 1, (0, "kept"))
def kept_line_gone(d):
    kept(d, lambda x: x[:-1])


@attack(PRUNED, 1, (len(get(PRUNED + "/log/seg/%020d.leaves" % 0)) // 32, "kept"))
def kept_line_of_another_record(d):
    kept(d, lambda x: x + get(seg(d)[0]).splitlines(True)[:1])


@attack(ONE, 1, (0, "foreign"))
def foreign_name(d):
    set_(d + "/cp/notes", b"")


@attack(ONE, 1, (0, "foreign"))
def foreign_in_the_root(d):
    set_(d + "/notes", b"")


def directory(name, how, *words):
    """In the place of a directory of the log: a link to one that is whole, a file, nothing."""
    def f(d):
        os.rename(d + "/" + name, d + "/../was-" + name)
        if how == "link":
            os.symlink("../was-" + name, d + "/" + name)
        elif how == "file":
            set_(d + "/" + name, b"")
    f.__name__ = "%s_is_%s" % (name, how)
    attack(PRUNED if name == "kept" else ONE, 1, *([(0, "missing")] if how == "gone" else [(0, "foreign")]), *words)(f)


for how in ("link", "file", "gone"):
    directory("seg", how, (0, "cut"))
    directory("cp", how, (1, "checkpoint"))
    directory("blob", how, *[(n, "blob") for n, x in enumerate(get(seg(ONE + "/log")[0]).splitlines()) if b'"ct":"' in x])
directory("kept", "link", (0, "kept"))


@attack(ONE, 1, (0, "foreign"))
def witnessed_elsewhere(d):
    os.symlink("cp", d + "/wit")


@attack(ONE, 1, (0, "foreign"))
def handed_over_elsewhere(d):
    os.symlink("cp", d + "/key")


@attack(ONE, 1, (0, "foreign"), (0, "cut"))
def link(d):
    os.rename(seg(d)[0], d + "/../elsewhere")
    os.symlink("../../elsewhere", d + "/seg/%020d.jsonl" % 0)


@attack(ONE, 1, (3, "blob"))
def blob_changed(d):
    p = d + "/blob/%020d.pack" % 0
    b = bytearray(get(p))
    b[120] ^= 1
    set_(p, bytes(b))


@attack(SEGS, 1, (0, "junk"))
def junk(d):
    p = d + "/blob/%020d.pack" % 0
    set_(p, get(p) + b"junk")


# --- what the writer says of itself
@attack(ONE, 1, (32, "after-close"))
def after_close(d):
    def change(x):
        r = json.loads(x[-1][8:-76])
        r.update(seq=32, batch=32, type="agent.note", prev=x[-1][-67:-3].decode())
        x.append(line_of(json.dumps(r, sort_keys=True, separators=(",", ":")).encode()))
    edit(d, change)


@attack(ONE, 1, (1, "checkpoint"))
def checkpoint_of_the_start_gone(d):
    os.unlink(d + "/cp/%020d" % 1)


@attack(SEGS, 1, (FIRST[1], "checkpoint"))
def checkpoint_of_a_segment_gone(d):
    os.unlink(d + "/cp/%020d" % FIRST[1])


@attack(ONE, 1, (5, "resplit"))
def resplit(d):
    lines = get(seg(d)[0]).splitlines(True)
    set_(d + "/seg/%020d.jsonl" % 5, b"".join(lines[5:]))
    set_(seg(d)[0], b"".join(lines[:5]))


# --- checkpoints, some with the log's own key: what it would never sign
NEWEST = sorted(os.listdir(ONE + "/log/cp"))[-1]
NOTE = get(ONE + "/log/cp/" + NEWEST)
TEXT, SIG = NOTE[:NOTE.rindex(b"\n\n") + 1], NOTE[NOTE.rindex(b"\n\n") + 2:]
NAME = b"broker.example/test"


def sign(text, name=NAME):
    h = hashlib.sha512(bytes([7]) * 32).digest()
    a = (int.from_bytes(h[:32], "little") & (1 << 254) - 8) | 1 << 254

    def enc(p):
        x, y, z, _ = p
        i = pow(z, v.P - 2, v.P)
        return (y * i % v.P | (x * i % v.P & 1) << 255).to_bytes(32, "little")
    pub = enc(v.mul(a, v.G))
    r = int.from_bytes(hashlib.sha512(h[32:] + text).digest(), "little") % v.L
    big = enc(v.mul(r, v.G))
    k = int.from_bytes(hashlib.sha512(big + pub + text).digest(), "little") % v.L
    sig = big + ((r + k * a) % v.L).to_bytes(32, "little")
    kid = hashlib.sha256(name + b"\n\1" + pub).digest()[:4]
    return text + b"\n" + "— ".encode() + name + b" " + base64.b64encode(kid + sig) + b"\n"


assert sign(TEXT) == NOTE


def noted(name, note, at=None, keys=None, rc=1):
    def run(d):
        os.unlink(d + "/checkpoint")
        set_(d + "/cp/" + (at or NEWEST), note)
    run.__name__ = name
    attack(ONE, rc, *([(int(at or NEWEST), "checkpoint")] if rc == 1 else []), keys=keys)(run)


LINES = TEXT.split(b"\n")
B64 = SIG.split(b" ")[2][:-1]
noted("wrong_signature", TEXT + b"\n" + SIG.replace(B64, base64.b64encode(base64.b64decode(B64)[:-1] + bytes([base64.b64decode(B64)[-1] ^ 1]))))
noted("spare_bits_of_a_signature", NOTE[:-3] + bytes([NOTE[-3] + 1]) + NOTE[-2:] if B64.endswith(b"=") else b"")
noted("size_with_zero", sign(TEXT.replace(b"\n%d\n" % int(NEWEST), b"\n0%d\n" % int(NEWEST))))
noted("extension_line", sign(TEXT + b"more\n"))
noted("another_origin", sign(TEXT.replace(NAME, b"other.example/test")))
noted("root_of_31_bytes", sign(b"\n".join(LINES[:2] + [base64.b64encode(base64.b64decode(LINES[2])[:31]), b""])))
noted("carriage_return", sign(TEXT.replace(b"\n", b"\r\n", 1)))
noted("another_size_than_its_name", NOTE, "%020d" % 7)
noted("too_many_signatures", NOTE + "— w.example AAAAAAAAAAAA\n".encode() * 64)
noted("sixty_four_signatures", NOTE + "— w.example AAAAAAAAAAAA\n".encode() * 63, rc=0)
noted("line_without_dash", NOTE + b"x w.example AAAAAAAAAAAA\n")
noted("signature_without_name", NOTE + "—  AAAAAAAAAAAA\n".encode())


@attack(ONE, 2, keys="stranger")
def key_of_a_stranger(d):
    pass


@attack(ONE, 1, (int(NEWEST), "checkpoint"), (0, "checkpoint"), keys="early")
def key_past_its_sizes(d):
    pass


@attack(ONE, 1, (1, "checkpoint"), keys="late")
def key_before_its_sizes(d):
    pass


@attack(ONE, 1, (19, "cut"), pins=("newest",))
def rolled_back(d):
    edit(d, lambda x: x[:19])
    os.unlink(d + "/checkpoint")
    for n in os.listdir(d + "/cp"):
        if int(n) > 19:
            os.unlink(d + "/cp/" + n)


VKEY = get(KEY).decode().strip()
set_(T + "/early", ("%s 0 %d\n" % (VKEY, int(NEWEST) - 1)).encode())
set_(T + "/late", ("%s 2 -\n" % VKEY).encode())
shutil.copy(build("stranger-log", 1, "seed=9") + "/keys/log/vkey", T + "/stranger")
shutil.copy(ONE + "/log/cp/" + NEWEST, T + "/newest")


# --- handovers, by the log's own key and the next one
OLD, NEXT, STRANGE = Key(bytes([7]) * 32, NAME), Key(bytes([8]) * 32, NAME), Key(bytes([8]) * 32, b"other.example/test")
SIZE, ROOT = int(NEWEST), base64.b64decode(LINES[2])


def handed(name, note, at=NEWEST, rc=1):
    def run(d):
        os.mkdir(d + "/key")
        set_(d + "/key/" + at, note)
    run.__name__ = name
    attack(ONE, rc, *([(int(at), "key")] if rc == 1 else []))(run)


handed("handed_over", OLD.note(handover(OLD, NEXT, SIZE, ROOT), NEXT), rc=0)
handed("handed_over_by_one", OLD.note(handover(OLD, NEXT, SIZE, ROOT)))
handed("handed_to_another_log", OLD.note(handover(OLD, STRANGE, SIZE, ROOT), STRANGE))
handed("ended_before_without_reason", OLD.note(handover(OLD, NEXT, SIZE, ROOT, last=SIZE - 1), NEXT))
handed("ended_behind", OLD.note(handover(OLD, NEXT, SIZE, ROOT, last=SIZE + 1, reason=b"copied"), NEXT))
handed("revoked_at_the_end", OLD.note(handover(OLD, NEXT, SIZE, ROOT, reason=b"copied"), NEXT), rc=0)
handed("handover_under_another_number", OLD.note(handover(OLD, NEXT, SIZE, ROOT), NEXT), at="%020d" % 7)
handed("handover_of_another_kind", OLD.note(handover(OLD, NEXT, SIZE, ROOT, first=b"cofferdam-log-key/2"), NEXT))


def scene(name):
    """A damaged copy, made once."""
    d = T + "/scene/" + name + "/log"
    if not os.path.exists(d):
        shutil.copytree(ATTACKS[name][0] + "/log", d)
        for p, _, names in os.walk(d):
            for n in names:
                os.chmod(os.path.join(p, n), 0o600)
        ATTACKS[name][1](d)
    return d
