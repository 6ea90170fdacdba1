#!/usr/bin/env python3
"""Mutation of the verifiers: each check taken out, in the C verifier and in the independent one, makes
the attack it is there for go unseen, or be called something else. A check without such an attack
beside it would be one that nobody tests."""
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log as v  # noqa: E402
from harness import BUILD, TOP, Tap, Temp  # noqa: E402
from mutants import c_mutant, each_is_seen, py_seen, table  # noqa: E402
from notes import Key, handover  # noqa: E402

tap, temp = Tap(), Temp("mutants")
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

# --- attacks: each damages a copy; both verifiers must answer so ----------------------------------
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


def line_of(body):
    return b'{"body":' + body + b',"hash":"' + hashlib.sha256(b"\0" + body).hexdigest().encode() + b'"}\n'


def chained(lines, k):
    """Hashes and prev anew from line k on, bytes of bodies kept."""
    for i in range(k, len(lines)):
        prev = lines[i - 1][-67:-3] if i else b"0" * 64
        lines[i] = line_of(re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"' + prev + b'"', lines[i][8:-76], count=1))
    return lines


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


# --- both verifiers ----------------------------------------------------------------------------------
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


def c_says(program, name):
    _, _, _, _, keys, pins = ATTACKS[name]
    r = subprocess.run([program, "log", "verify", scene(name), "--keys", T + "/" + keys if keys else KEY] +
                       [w for p in pins for w in ("--pin", T + "/" + p)], capture_output=True, text=True, errors="replace")
    return r.returncode, sorted((int(s), w) for s, w in re.findall(r"^TAMPER at seq (\d+).*?: ([\w-]+):", r.stdout, re.M))


def py_says(module, name):
    _, _, _, _, keys, pins = ATTACKS[name]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            rc = module.main(["verify_log.py", scene(name), T + "/" + keys if keys else KEY] + [T + "/" + p for p in pins])
        except Exception as e:  # a mutant may fall
            return repr(e)
    return rc, sorted((int(s), w) for s, w in re.findall(r"^TAMPER at seq (\d+): ([\w-]+):", out.getvalue(), re.M))


for name, (_, _, rc, words, _, _) in ATTACKS.items():
    got = c_says(BUILD + "/cofferdam-cmd", name), py_says(v, name)
    tap.eq(got, ((rc, words), (rc, words)), "%s: both verifiers say %s" % (name, words or rc))

# --- mutants: file, what stands there, what in its place, attacks of which one must come out otherwise
C = table(r"""
audit/record.c ~ if (!hash_eq(&said, &is)) ~ if (false) ~ hash_of_the_line
audit/record.c ~ memcmp(line.p + line.n - 3, "\"}\n", 3) != 0 || ~ ~ end_of_the_line
audit/record.c ~ memcmp(tail, SUFFIX, sizeof(SUFFIX) - 1) != 0 || ~ ~ middle_of_the_line
audit/record.c ~ memcmp(line.p, RECORD_PREFIX, RECORD_PREFIX_LEN) != 0) ~ false) ~ begin_of_the_line
audit/record.c ~ record_src_ok(r->src) && record_type_ok(r->type) && r->time.n ~ record_type_ok(r->type) && r->time.n ~ source
audit/record.c ~ record_type_ok(r->type) && ~ ~ type
audit/record.c ~ if (!record_run_ok(r->run)) ~ if (false) ~ run
audit/record.c ~ clock_parse(r->time, &us, NULL) == 0 && ~ (us = 0, true) && ~ no_such_date
audit/record.c ~ str_eqz(v, "1") && ~ ~ version
audit/record.c ~ && r->batch <= r->seq; ~ ; ~ batch_above_behind_damage
audit/record.c ~ || !str_eqz(left, "}")) ~ ) ~ member_more
audit/canon.c ~ if (*from == '0' && (n > 1 || minus)) ~ if (false) ~ leading_zero minus_zero
audit/canon.c ~ if (n > strlen(INT_DIGITS) || (n == strlen(INT_DIGITS) && memcmp(from, INT_DIGITS, n) > 0)) ~ if (false) ~ large_integer
audit/canon.c ~ if (last.p != NULL && !key_before(last, key)) ~ if (false) ~ keys_out_of_order key_twice
audit/canon.c ~ return lo != 0 && lo != '\b' ~ return lo != '\b' ~ nul
audit/canon.c ~ "\"\\bfnrt", s->p[1]) != NULL ~ "\"\\/bfnrt", s->p[1]) != NULL ~ escaped_slash
audit/canon.c ~ if (p[2] != '0' || p[3] != '0' || (hi != 0 && hi != 1)) ~ if (false) ~ needless_escape surrogate
audit/canon.c ~ if (str_is_utf8(str_mem(s->p, n))) ~ if (true) ~ not_utf8
audit/canon.c ~ if (depth >= s->depth_max) ~ if (false) ~ too_deep
audit/canon.c ~ if (c < 0x20) ~ if (false) ~ raw_control
audit/chain.c ~ if (ret->seq != c->tree.size || ~ if ( ~ number_skipped
audit/chain.c ~ !hash_eq(&ret->prev, &c->head) || ~ ~ follows_another
audit/chain.c ~ (ret->batch != c->batch && ret->batch != ret->seq)) ~ false) ~ batch_cannot_be
audit/chain.c ~ if (name == k) { ~ if (true) { ~ misplaced segment_gone
audit/chain_fault.c ~ rest > TORN_MAX || ~ ~ more_than_a_write
audit/chain_fault.c ~ if (!last || rest > TORN_MAX || k < c->newest) ~ if (!last || rest > TORN_MAX) ~ end_zeroed
audit/chain_fault.c ~ if (last && how == SEGMENT_PART && k < c->newest) ~ if (false) ~ cut_within
audit/chain_fault.c ~ if (!later && (n = any_later(c, batch_after, k, &later, err)) != 0) ~ if (false) ~ batch_behind_damage
audit/chain_fault.c ~ later = r.batch > k; ~ later = false; ~ batch_right_behind_damage
audit/chain_fault.c ~ if (r.seq == k && hash_eq(&r.prev, &c->head)) ~ if (false) ~ pushed_in
audit/chain_fault.c ~ if (leaf_before(c, seq, &old) && hash_eq(&old, leaf)) ~ if (false) ~ twice
audit/chain_fault.c ~ if (later)
		chain_set_fault(c, LOG_KIND_REORDERED ~ if (false)
		chain_set_fault(c, LOG_KIND_REORDERED ~ exchanged
audit/segment.c ~ if (!is_type(e, DT_REG)) ~ if (false) ~ link
audit/verify.c ~ if (!hash_eq(&h->root, &root)) { ~ if (false) { ~ rewritten
audit/verify.c ~ && numbered && cp.size != number) ~ && false) ~ another_size_than_its_name
audit/verdict.c ~ if (f->foreign != 0) ~ if (false) ~ foreign_name foreign_in_the_root
audit/verify.c ~ i < npins; i++) ~ i < 0; i++) ~ rolled_back
audit/verify.c ~ memcmp(y->leaves.p + y->leaves_at, leaf->b, HASH_LEN) != 0)) { ~ false)) { ~ leaves_changed
audit/verify.c ~ && y->leaves_at != y->leaves.n) ~ && false) ~ leaves_longer
audit/verify_blobs.c ~ (junk || number < last_seg)) ~ false) ~ junk
audit/verify_blobs.c ~ if (b->seen[i].found) ~ if (true) ~ blob_changed
audit/verify.c ~ newest > y->v.size) ~ false) ~ cut_off
audit/chain.c ~ if (c->gone > c->said && ~ if (false && ~ pruned_without_a_record more_than_was_pruned
audit/chain.c ~ && (c->newest == 0 || r->seq < c->newest) && ~ && ~ pruned_by_nobody
audit/pruned.c ~ (*ret_is && !hash_eq(&p->line_leaf, ret_leaf)) ~ false ~ kept_line_changed
audit/pruned.c ~ if (p->has_line) return not_of_these(p, err); ~ ~ kept_line_of_another_record
audit/verify_pruned.c ~ if (!hash_eq(&is, &s->kept)) ~ if (false) ~ kept_line_gone
audit/verify.c ~ check_heads(y, tree->size, tree, STR("")); ~ ~ pruned
audit/verify_shape.c ~ if (after)
		add ~ if (false)
		add ~ after_close
audit/verify_shape.c ~ s->owed = r->seq + 1; ~ ; ~ checkpoint_of_the_start_gone
audit/verify_shape.c ~ return check_checkpoint(s, r->seq, r->seq, f); ~ return 0; ~ checkpoint_of_a_segment_gone
audit/verify_shape.c ~ if (first && r->seq != 0 && !record_of_start(r->type)) { ~ if (false) { ~ resplit
audit/checkpoint.c ~ || !sig_ed25519_verify(k->pub, text, blob.p + 4)) ~ ) ~ wrong_signature
audit/checkpoint.c ~ if (strcmp(cp.origin, key->name) != 0) ~ if (false) ~ another_origin
audit/checkpoint.c ~ if (cp.size < key->first || cp.size > key->last) ~ if (cp.size < key->first) ~ key_past_its_sizes
audit/checkpoint.c ~ if (cp.size < key->first || ~ if ( ~ key_before_its_sizes
audit/checkpoint.c ~ if (text.n != 0) /* ~ if (false) /* ~ extension_line
audit/checkpoint.c ~ || root.n != HASH_LEN) ~ ) ~ root_of_31_bytes
audit/checkpoint.c ~ if (++n > NOTE_SIGS_MAX) ~ if (false) ~ too_many_signatures
audit/checkpoint.c ~ if (first == NULL)
		return err_set(err, ERR_CONFIG ~ if (false)
		return err_set(err, ERR_CONFIG ~ key_of_a_stranger
audit/checkpoint.c ~ memcmp(line.p, DASH, DASH_LEN) != 0) ~ false) ~ line_without_dash
audit/handover.c ~ for (int i = 0; i < 2; i++) { ~ for (int i = 0; i < 1; i++) { ~ handed_over_by_one
audit/handover.c ~ || strcmp(h.next.name, h.at.origin) != 0) ~ ) ~ handed_to_another_log
audit/handover.c ~ || (h.reason[0] == '\0' && last != h.at.size)) ~ ) ~ ended_before_without_reason
audit/handover.c ~ last > h.at.size || ~ ~ ended_behind
audit/handover.c ~ if (ret->at.size != number) ~ if (false) ~ handover_under_another_number
common/enc.c ~ if (pad != 0 && (b64_value(s.p[digits - 1]) & (pad == 1 ? 3u : 15u)) != 0) ~ if (false) ~ spare_bits_of_a_signature
common/str.c ~ || (s.n > 1 && s.p[0] == '0')) ~ ) ~ size_with_zero
""", "\t\t")


def mutant(n):
    path, old, new, names = C[n]
    at = "%s/m%d" % (T, n)
    why = c_mutant(at, path, old, new)
    if why:
        return why
    red = [x for x in names.split() if c_says(at, x) != (ATTACKS[x][2], ATTACKS[x][3])]
    os.unlink(at)
    return None if red else "%s without `%s`: %s is still seen" % (path, old, names)


each_is_seen(tap, range(len(C)), mutant, "each of %d checks taken out of the C verifier makes its attack red")

PY = table(r"""
or line[-67:-3] != leaf.hex().encode(): ~ : ~ hash_of_the_line
and line.endswith(b'"}\n') ~ ~ end_of_the_line
and line[-76:-67] == b',"hash":"' ~ ~ middle_of_the_line
line.startswith(b'{"body":') and ~ ~ begin_of_the_line
if any(a >= b for a, b in zip(keys, keys[1:])): ~ if False: ~ keys_out_of_order
!= b:
        raise ValueError("not canonical") ~ == b"x":
        raise ValueError("not canonical") ~ space escaped_slash
if abs(n) > MAX_INT: ~ if False: ~ large_integer
if "\0" in v: ~ if False: ~ nul
elif v is None: ~ elif v == 0.5: ~ null
if depth <= 0 and ~ if False and ~ too_deep
if sorted(set(r) - {"run"}) != KEYS or ~ if ~ member_more
if k in r and not re.fullmatch(form, r[k]): ~ if False: ~ source type run
datetime.datetime.strptime(r["time"], "%Y-%m-%dT%H:%M:%S.%fZ") ~ ~ no_such_date
if r["v"] == 1 and ~ if ~ version
and r["batch"] <= r["seq"] else None ~ else None ~ batch_above_behind_damage
return r["seq"] == k and ~ return ~ number_skipped
r["prev"] == self.prev.hex() and r["batch"] ~ r["batch"] ~ follows_another
and r["batch"] in (self.batch, k) ~ ~ batch_cannot_be
if name != k: ~ if False: ~ misplaced
if last and rest <= TORN_MAX and ~ if last and ~ more_than_a_write
and k >= self.newest: ~ : ~ end_zeroed
if not any(w and w[0]["batch"] > k for ~ if not any(False for ~ batch_behind_damage
if root != self.tree.root(): ~ if False: ~ rewritten
if numbered and size != number: ~ if False: ~ another_size_than_its_name
self.heads += pins ~ pass ~ rolled_back
if data[32 * j : 32 * j + 32] != leaf: ~ if False: ~ leaves_changed
if whole and len(data) != 32 * len(mine): ~ if False: ~ leaves_longer
if junk or (skipped and ~ if False and (skipped and ~ junk
if ct not in seen] ~ if False] ~ blob_changed
and size < self.newest: ~ and False: ~ cut_off
if self.ended and not start: ~ if False: ~ after_close
self.owed = seq + 1 ~ pass ~ checkpoint_of_the_start_gone
if signed is not None and ~ if False and ~ checkpoint_of_a_segment_gone
or (seq == segment != 0 and not start): ~ : ~ resplit
if not signed_by( ~ if False and not signed_by( ~ wrong_signature
if origin != name: ~ if False: ~ another_origin
or (last is not None and size > last): ~ : ~ key_past_its_sizes
if size < first or (last ~ if (last ~ key_before_its_sizes
return b if base64.b64encode(b) == s else None ~ return b ~ spare_bits_of_a_signature
or len(sigs) > 64: ~ : ~ too_many_signatures
or len(root) != 32 ~ ~ root_of_31_bytes
elif self.gone <= seq < k and self.leaves[seq] == leaf: ~ elif False: ~ twice
for name, kid, pub in (old, new): ~ for name, kid, pub in (old,): ~ handed_over_by_one
or new[0] != origin or ~ or ~ handed_to_another_log
or (not revoked and last != size): ~ : ~ ended_before_without_reason
or last > size or ~ or ~ ended_behind
and self.gone > said: ~ and False: ~ pruned_without_a_record more_than_was_pruned
in self.prunes if seq < self.newest] ~ in self.prunes] ~ pruned_by_nobody
(v[0]["seq"] == k and v[1] != leaf) ~ False ~ kept_line_changed
if lines: ~ if False: ~ kept_line_of_another_record
if sha(b"".join(parts)).hex() != digest: ~ if False: ~ kept_line_gone
if head[0] != n: ~ if False: ~ handover_under_another_number
or lines[0] != b"cofferdam-log-key/1": ~ : ~ handover_of_another_kind
""", "    ")
py_seen(tap, TOP + "/tests/verify_log.py", PY, lambda m, x: py_says(m, x) == (ATTACKS[x][2], ATTACKS[x][3]),
        "each of %d checks taken out of the independent verifier makes its attack red")
tap.done()
