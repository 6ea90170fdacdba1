#!/usr/bin/python3
"""Mutation of the verifiers: each check taken out, in the C verifier and in the independent one, makes
the attack it is there for go unseen, or be called something else. A check without such an attack
beside it would be one that nobody tests."""
import contextlib
import io
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log as v  # noqa: E402
from attacks import ATTACKS, KEY, T, scene  # noqa: E402
from harness import BUILD, TOP, Tap  # noqa: E402
from mutants import c_mutant, each_is_seen, py_seen, table  # noqa: E402

tap = Tap()


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
audit/segment.c ~ O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) ~ O_RDONLY | O_DIRECTORY | O_CLOEXEC) ~ seg_is_link cp_is_link blob_is_link
audit/segment.c ~ errno == ENOENT || errno == ENOTDIR ~ errno == ENOENT ~ seg_is_file cp_is_file blob_is_file
audit/verify_shape.c ~ if (faccessat(logdir, dirs[i], F_OK, AT_SYMLINK_NOFOLLOW) != 0) ~ if (false) ~ seg_is_gone cp_is_gone blob_is_gone
audit/verify.c ~ if (!hash_eq(&h->root, &root)) { ~ if (false) { ~ rewritten
audit/verify.c ~ && numbered && cp.size != number) ~ && false) ~ another_size_than_its_name
audit/verdict.c ~ if (f->foreign != 0) ~ if (false) ~ foreign_name foreign_in_the_root
audit/verify.c ~ i < ask->npins; i++) ~ i < 0; i++) ~ rolled_back
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
and not os.path.islink(path) ~ ~ seg_is_link cp_is_link blob_is_link
for e in [] if not is_dir(path) else ~ for e in ~ seg_is_file cp_is_file blob_is_file
for x in gone: ~ for x in []: ~ seg_is_gone cp_is_gone blob_is_gone
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
