#!/usr/bin/python3
"""Mutation of what judges proofs, receipts, orders to prune and records of erasures, in the commands, in the writer and in the
independent verifier: each check taken out makes the forgery it is there for pass, or be called something else."""
import base64
import contextlib
import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log  # noqa: E402
from harness import BUILD, TOP, Tap, Temp  # noqa: E402
from mutants import c_mutant, each_is_seen, py_seen, table  # noqa: E402
from notes import Key  # noqa: E402

tap, temp = Tap(), Temp("proof-mutants")
T = temp.path
CMD, TOOL = BUILD + "/cofferdam-cmd", BUILD + "/tool_append-log"
NAME = b"broker.example/test"
OWN, STRANGE = Key(bytes([7]) * 32, NAME), Key(bytes([9]) * 32, NAME)


def get(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, 0o600)
    with open(path, "wb") as f:
        f.write(data)
    return path


def build(name, count, *opts):
    subprocess.run([TOOL, T + "/" + name, str(count), *opts], check=True, stdout=subprocess.DEVNULL)
    return T + "/" + name


def sha(b):
    return hashlib.sha256(b).digest()


def python(module, *argv):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            return module.main(["", *argv]), out.getvalue()
        except Exception as e:  # a mutant may fall
            return repr(e), ""


ONE = build("one", 30, "batch=3", "cp=10")
KEYS = ONE + "/keys/log/vkey"
OTHER = put(T + "/stranger", STRANGE.vkey + b"\n")
BODIES = [x[8:-76] for x in get(glob.glob(ONE + "/log/seg/*.jsonl")[0]).splitlines(True)]
SCENES = {}  # name -> (kind, what it is made of, what is to be said)

# --- proofs ---------------------------------------------------------------------------------------------------------
PROOF = subprocess.run([CMD, "log", "prove", "17", ONE], check=True, capture_output=True).stdout
LINES = PROOF.split(b"\n")
EIGHTEEN = subprocess.run([CMD, "log", "prove", "18", ONE], check=True, capture_output=True).stdout.split(b"\n")


def signed(body, index, size, root, *path):
    """By the log's own key, whatever it says: no thief of the key makes a proof of what is none."""
    note = OWN.note(b"%s\n%d\n%s\n" % (NAME, size, base64.b64encode(root)))
    return b"c2sp.org/tlog-proof@v1\nextra %s\nindex %d\n%s\n%s" % (
        base64.b64encode(body), index, b"".join(base64.b64encode(h) + b"\n" for h in path), note)


def leaf(body):
    return sha(b"\0" + body)


def node(a, b):
    return sha(b"\1" + a + b)


X = sha(b"x")
for name, data, rc in (
        ("proof", PROOF, 0), ("signed_proof", signed(BODIES[0], 0, 2, node(leaf(BODIES[0]), X), X), 0),
        ("another_version", PROOF.replace(b"@v1", b"@v2", 1), 1), ("extra_word", PROOF.replace(b"extra ", b"extrb ", 1), 1),
        ("index_word", PROOF.replace(b"index ", b"indeX ", 1), 1),
        ("another_body", b"\n".join(EIGHTEEN[:3] + LINES[3:]), 1),
        ("hash_longer", PROOF.replace(LINES[3], base64.b64encode(base64.b64decode(LINES[3]) + b"\0"), 1), 1),
        ("hash_longer_signed", signed(BODIES[0], 0, 2, node(leaf(BODIES[0]), X + b"\0"), X + b"\0"), 1),
        ("number_of_another", signed(BODIES[17], 0, 1, leaf(BODIES[17])), 1),
        ("no_record", signed(b'{"a":1}', 0, 1, leaf(b'{"a":1}')), 1),
        ("hash_above_the_root", signed(BODIES[0], 0, 1, node(X, leaf(BODIES[0])), X), 1),
        ("hash_unused", signed(BODIES[0], 0, 1, leaf(BODIES[0]), X), 1),
        ("hash_missing", signed(BODIES[0], 0, 2, leaf(BODIES[0])), 1),
        ("behind_the_size", signed(BODIES[5], 5, 1, leaf(BODIES[5])), 1)):
    SCENES[name] = ("proof", put(T + "/proofs/" + name, data), rc)

# --- receipts -------------------------------------------------------------------------------------------------------
H, SIZE = leaf(BODIES[5]).hex(), len(BODIES)
damaged = shutil.copytree(ONE + "/log", T + "/damaged")
put(sorted(glob.glob(damaged + "/cp/*"))[0], b"")  # the rest is as it was
R = NAME.decode() + "#5:%s:%d" % (H, SIZE)
for name, receipt, log, keys, rc in (
        ("receipt", R, ONE + "/log", KEYS, 0), ("receipt_size_zero", R.replace(":%d" % SIZE, ":0%d" % SIZE), ONE + "/log", KEYS, 2),
        ("receipt_upper", R.replace(H, H.upper()), ONE + "/log", KEYS, 2), ("receipt_size", NAME.decode() + "#5:%s:5" % H, ONE + "/log", KEYS, 2),
        ("receipt_no_origin", "#5:%s:%d" % (H, SIZE), ONE + "/log", KEYS, 2), ("receipt_long", "a" * 700 + R, ONE + "/log", KEYS, 2),
        ("receipt_other", "other" + R, ONE + "/log", KEYS, 1), ("receipt_set_back", R[:-len(str(SIZE))] + str(SIZE + 1), ONE + "/log", KEYS, 1),
        ("receipt_leaf", R.replace(H, leaf(BODIES[6]).hex()), ONE + "/log", KEYS, 1), ("receipt_damaged", R, damaged, KEYS, 1),
        ("receipt_stranger", R, ONE + "/log", OTHER, 2)):
    SCENES[name] = ("receipt", (receipt, log, keys), rc)

# --- orders to prune: what a start does with them -------------------------------------------------------------------
LONG = build("long", 60, "batch=3", "cp=10", "seg=6000")
subprocess.run([CMD, "log", "prune", "--state", LONG, "--before-seq", "1000", "--yes", "--reason", "old"], check=True, stdout=subprocess.DEVNULL)
ORDER = get(LONG + "/log/prune").split(b"\n\n")[0] + b"\n"
TO = int(ORDER.split(b"\n")[2])
SEGS = sorted(int(os.path.basename(p)[:20]) for p in glob.glob(LONG + "/log/seg/*.jsonl"))
LEAVES = [leaf(x[8:-76]) for p in sorted(glob.glob(LONG + "/log/seg/*.jsonl")) for x in get(p).splitlines(True)]


def root(leaves):
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return node(root(leaves[:k]), root(leaves[k:]))


def ends_at(n):
    f = ORDER.split(b"\n")
    return b"\n".join(f[:2] + [b"%d" % n, base64.b64encode(root(LEAVES[:n]))] + f[4:])


def order(name, said, text=ORDER, key=OWN, change=lambda d: None):
    SCENES[name] = ("order", (text, key, change), (not said, said))


def flip(pattern):
    def change(d):
        p = sorted(glob.glob(d + "/" + pattern))[0]
        b = bytearray(get(p))
        b[40] ^= 1
        put(p, bytes(b))
    return change


def older_live(d):
    at = sorted(os.listdir(d + "/live"))
    os.rename(d + "/live/" + at[-2], d + "/live/%020d" % SEGS[1])


order("order", "")
order("order_unsigned", "no signature by", key=STRANGE)
order("order_of_another_log", "order is for another log", ORDER.replace(NAME, b"other.example/test", 1))
order("order_line_more", "spelled in another way", ORDER + b"more\n")
order("order_of_nothing", "order prunes from %d to %d" % (TO, TO), ORDER.replace(b"=\n0\n", b"=\n%d\n" % TO, 1))
order("order_within_a_segment", "no sealed and signed segment", ends_at(SEGS[1] + 1))
order("order_of_the_open_segment", "no sealed and signed segment", ends_at(SEGS[-1]))
order("order_without_live", "behind what the next start may need", change=lambda d: [os.unlink(p) for p in glob.glob(d + "/live/*")])
order("order_behind_live", "behind what the next start may need", change=older_live)
order("order_with_another_root", "are not those of the order", ORDER.replace(base64.b64encode(root(LEAVES[:TO])), base64.b64encode(X)))
order("order_without_leaves", ".leaves is not there", change=lambda d: os.unlink(sorted(glob.glob(d + "/seg/*.leaves"))[0]))
order("order_with_another_rest", "what was kept is not what the order says", change=flip("kept/*.jsonl"))

# --- erasures -------------------------------------------------------------------------------------------------------
put(T + "/lines", b"".join(b"%s\toperator\t-\t{\"id\":\"e\",\"runs\":%s}\t\n" % x for x in (
    (b"erasure", b'["r-1","r-2","r-1"]'), (b"erasure", b'["r-2","../x",5]'), (b"erasure", b'"r-9"'), (b"erasure.other", b'["r-8"]'))))
SCENES["erasures"] = ("erasure", build("erased", 1, "from=" + T + "/lines") + "/log", (0, ("2", "3")))


# --- what is said -----------------------------------------------------------------------------------------------------
def erased(rc, out):
    m = re.search(r"content of (\d+) runs is erased, by (\d+) records", out)
    return rc, m and m.groups()


def prunes(program, name, at):
    text, key, change = SCENES[name][1]
    d = at + "-" + name
    shutil.copytree(LONG, d)
    change(d + "/log")
    put(d + "/log/prune", key.note(text))
    r = subprocess.run([program, d, "1", "seg=6000"], capture_output=True, text=True, errors="replace")
    gone = r.returncode == 0 and not os.path.exists(d + "/log/seg/%020d.jsonl" % 0)
    shutil.rmtree(d)
    want = SCENES[name][2][1]
    return gone, want if want in r.stderr + r.stdout and (gone or want) else r.stderr


def says(program, name, at):
    kind, what, _ = SCENES[name]
    if kind == "order":
        return prunes(program, name, at)
    argv = {"proof": lambda: ["verify-proof", what, "--keys", KEYS], "erasure": lambda: ["verify", what, "--keys", KEYS],
            "receipt": lambda: ["verify-receipt", what[0], what[1], "--keys", what[2]]}[kind]()
    r = subprocess.run([program, "log", *argv], capture_output=True, text=True, errors="replace")
    return erased(r.returncode, r.stdout) if kind == "erasure" else r.returncode


def py_says(module, name):
    kind, what, _ = SCENES[name]
    if kind == "erasure":
        return erased(*python(module, what, KEYS))
    return python(module, *(("--proof", what, KEYS) if kind == "proof" else ("--receipt", *what)))[0]


for name, (kind, _, want) in SCENES.items():
    got = [says(TOOL if kind == "order" else CMD, name, T + "/first")] + ([] if kind == "order" else [py_says(verify_log, name)])
    tap.eq(got, [want] * len(got), "%s: %s" % (name, want))

# --- mutants: file, what stands there, what in its place, scenes of which one must come out otherwise -------------------
C = table(r"""
audit/proof.c ~ || !str_eqz(line, TITLE)) ~ ) ~ another_version
audit/proof.c ~ !take_word(&line, "extra ") ~ (line = str_mem(line.p + 6, line.n - 6), false) ~ extra_word
audit/proof.c ~ !take_word(&line, "index ") ~ (line = str_mem(line.p + 6, line.n - 6), false) ~ index_word
audit/proof.c ~ || h.n != HASH_LEN) ~ ) ~ hash_longer
audit/proof.c ~ if (proof.record.seq != p.index) ~ if (false) ~ number_of_another
audit/proof.c ~ r = record_parse(buf_str(body), &proof.record, err); ~ r = 0; ~ no_record
audit/proof.c ~ if (!tree_inclusion_ok( ~ if (false && !tree_inclusion_ok( ~ another_body
audit/tree.c ~ if (index >= n) return false; for ~ for ~ behind_the_size
audit/tree.c ~ for (size_t i = 0; i < nproof; i++) { if (sn == 0) return false; if ((fn & 1) != 0 || fn == sn) { h ~ for (size_t i = 0; i < nproof; i++) { if ((fn & 1) != 0 || fn == sn) { h ~ hash_above_the_root
audit/tree.c ~ return sn == 0 && hash_eq(&h, root); ~ return hash_eq(&h, root); ~ hash_missing
audit/receipt.c ~ s.n > RECEIPT_MAX || ~ ~ receipt_long
audit/receipt.c ~ || origin.n == 0) ~ ) ~ receipt_no_origin
audit/receipt.c ~ r.size <= r.seq || ~ ~ receipt_size
common/str.c ~ || (s.n > 1 && s.p[0] == '0')) ~ ) ~ receipt_size_zero
cmd/cmd_log_receipt.c ~ if (v->faults[i].seq <= r->seq) ~ if (false) ~ receipt_damaged
cmd/cmd_log_receipt.c ~ if (v->config[0] != '\0') ~ if (false) ~ receipt_stranger
cmd/cmd_log_receipt.c ~ !receipt_is_of(origin, str_z(keys->key[0].name))) ~ false) ~ receipt_other
cmd/cmd_log_receipt.c ~ if (v->size < r->size) ~ if (false) ~ receipt_set_back
cmd/cmd_log_receipt.c ~ if (!hash_eq(&leaf, &r->leaf)) ~ if (false) ~ receipt_leaf
audit/erasure.c ~ if (!str_eqz(r->type, "erasure")) ~ if (!str_has_prefix(r->type, "erasure")) ~ erasures
audit/erasure.c ~ if (!record_run_ok(run)) ~ if (false) ~ erasures
audit/erasure.c ~ if (n == 0 || strcmp(e->run[n - 1].run, e->run[i].run) != 0) ~ if (true) ~ erasures
audit/prune_order.c ~ (r = note_open(note, keys, &text, &key, err)) != 0 || ~ (key = &keys->key[0], (void)note_split(note, &text, &(struct str){0}), false) || ~ order_unsigned
audit/prune_order.c ~ if (strcmp(o.to.origin, key->name) != 0) ~ if (false) ~ order_of_another_log
audit/prune_order.c ~ if (!str_eq(buf_str(&again), all)) ~ if (false) ~ order_line_more
audit/prune_order.c ~ if (o.from >= o.to.size) ~ if (false) ~ order_of_nothing
audit/writer_prune.c ~ if (!log_files_has(&p->seg, 0, to) || ~ if ( ~ order_within_a_segment
audit/writer_prune.c ~ to >= s->seg_first || ~ ~ order_of_the_open_segment
audit/writer_prune.c ~ live.n[0] < LIVE_KEPT || ~ live.n[0] >= LIVE_KEPT && ~ order_without_live
audit/writer_prune.c ~ || to > live.number[0][live.n[0] - LIVE_KEPT]) ~ ) ~ order_behind_live
audit/writer_prune.c ~ || !hash_eq(&root, &p->o.to.root))) ~ )) ~ order_with_another_root
audit/writer_prune.c ~ if (!log_files_has(&p->seg, 1, p->first)) ~ if (false) ~ order_without_leaves
audit/writer_prune.c ~ if (r == 0 && !hash_eq(&is, &p->o.kept_sha256)) ~ if (false) ~ order_with_another_rest
""", "\t\t")


def mutant(n):
    path, old, new, names = C[n]
    at = "%s/m%d" % (T, n)
    orders = any(SCENES[x][0] == "order" for x in names.split())
    why = c_mutant(at, path, old, new, BUILD + "/tests/tools/append-log.o", "cofferdam-writer") if orders else c_mutant(at, path, old, new)
    if why:
        return why
    red = [x for x in names.split() if says(at, x, at) != SCENES[x][2]]
    os.unlink(at)
    return None if red else "%s without `%s`: %s is still seen" % (path, old, names)


each_is_seen(tap, range(len(C)), mutant, "each of %d checks taken out of the commands and the writer makes its forgery pass")

PY = table(r"""
rb"c2sp\.org/tlog-proof@v1 ~ rb"c2sp\.org/tlog-proof@v[12] ~ another_version
\nextra ([^\n]*) ~ \nextr. ([^\n]*) ~ extra_word
\nindex (0|[1-9][0-9]{0,18})\n ~ \ninde. (0|[1-9][0-9]{0,18})\n ~ index_word
or any(h is None or len(h) != 32 for h in hashes): ~ : ~ hash_longer_signed
if not v or v[0]["seq"] != index ~ if v[0]["seq"] != index ~ no_record
or v[0]["seq"] != index or ~ or ~ number_of_another
or index >= size: ~ : ~ behind_the_size
if leads_to(v[1], index, size, hashes) != root: ~ if False: ~ another_body
return None if path else h ~ return h ~ hash_unused
            if not path:
                return None ~             if not path:
                return h ~ hash_missing
or len(os.fsencode(text)) > 708 or ~ or ~ receipt_long
([^#]+)#(0| ~ ([^#]*)#(0| ~ receipt_no_origin
:([0-9a-f]{64}): ~ :([0-9a-fA-F]{64}): ~ receipt_upper
:([1-9][0-9]{0,18})", text) ~ :([0-9]{1,19})", text) ~ receipt_size_zero
not int(m[2]) < int(m[4]) < 2**63 ~ not int(m[4]) < 2**63 ~ receipt_size
if any(at <= seq for at, _, _ in log.findings): ~ if False: ~ receipt_damaged
if log.config: ~ if False: ~ receipt_stranger
elif origin != receipt_origin(name): ~ elif False: ~ receipt_other
elif log.tree.size < size: ~ elif False: ~ receipt_set_back
elif log.leaves[seq] != leaf: ~ elif False: ~ receipt_leaf
if r["type"] == "erasure": ~ if r["type"].startswith("erasure"): ~ erasures
if isinstance(x, str) and ~ if ~ erasures
and re.fullmatch(FORMS["run"], x)} ~ } ~ erasures
 if isinstance(runs, list) else set() ~ ~ erasures
""", "                ")
py_seen(tap, TOP + "/tests/verify_log.py", PY, lambda m, x: py_says(m, x) == SCENES[x][2],
        "each of %d checks taken out of the independent verifier makes its forgery pass")
tap.done()
