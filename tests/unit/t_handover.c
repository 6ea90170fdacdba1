/* A log's key hands over: what is believed, by whom, and that the store begins with the new one. */
#include "audit/handover.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "audit/segment.h"
#include "audit/writer_store.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ORIGIN "broker.example/test"

struct key {
	struct vkey v;
	struct secret *seed, *sk;
};

static struct key
key_of(uint8_t b)
{
	struct key k = {.seed = secret_new(32), .sk = secret_new(64)};
	uint8_t pub[32];

	memset(secret_bytes(k.seed), b, 32);
	assert_int_equal(
	    crypto_sign_seed_keypair(pub, secret_bytes(k.sk), secret_bytes(k.seed)), 0);
	assert_int_equal(vkey_make(STR(ORIGIN), pub, &k.v, NULL), 0);
	return k;
}

static void
key_free(struct key *k)
{
	secret_free(k->seed);
	secret_free(k->sk);
}

static void
sign(struct buf *note, struct str text, const struct key *k)
{
	uint8_t sig[64];

	(void)crypto_sign_detached(sig, NULL, (const uint8_t *)text.p, text.n, secret_bytes(k->sk));
	note_put_sig(note, &k->v, sig);
}

static struct handover
between(const struct key *old, const struct key *next, uint64_t size)
{
	struct handover h = {
	    .at = {.origin = ORIGIN, .size = size}, .old = old->v, .next = next->v};

	h.old.last = size;
	h.next.first = size;
	return h;
}

static void
note_of(struct buf *note, const struct handover *h, const struct key *a, const struct key *b)
{
	AUTO_BUF struct buf text = BUF(HANDOVER_MAX);

	buf_reset(note);
	handover_text(&text, h);
	buf_put_str(note, buf_str(&text));
	buf_put_c(note, '\n');
	if (a != NULL)
		sign(note, buf_str(&text), a);
	if (b != NULL)
		sign(note, buf_str(&text), b);
}

/* --- in itself ----------------------------------------------------------------------- */

static void
a_handover_needs_both_signatures_one_log_and_two_keys(void **state)
{
	struct key a = key_of(7), b = key_of(8);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);
	struct handover h = between(&a, &b, 3), got;

	(void)state;
	note_of(&note, &h, &a, &b);
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), 0);
	assert_int_equal(got.old.last, 3);
	assert_int_equal(got.next.first, 3);
	note_of(&note, &h, &b, &a); /* in any order */
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), 0);
	note_of(&note, &h, &a, NULL);
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), ERR_TAMPER);
	note_of(&note, &h, &b, NULL);
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), ERR_TAMPER);
	h = between(&a, &a, 3);
	note_of(&note, &h, &a, &a);
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), ERR_TAMPER);
	h = between(&a, &b, 3);
	(void)snprintf(h.at.origin, sizeof(h.at.origin), "other");
	note_of(&note, &h, &a, &b);
	assert_int_equal(handover_open(buf_str(&note), &got, NULL), ERR_TAMPER);
	key_free(&a);
	key_free(&b);
}

static void
an_end_before_the_size_needs_a_reason_and_none_lies_behind_it(void **state)
{
	static const struct {
		uint64_t size, last;
		const char *reason;
		int code;
	} cases[] = {{3, 3, "", 0}, {3, 2, "stolen", 0}, {3, 0, "stolen", 0}, {3, 3, "stolen", 0},
	    {3, 2, "", ERR_TAMPER}, {3, 4, "stolen", ERR_TAMPER}, {0, 0, "", ERR_TAMPER},
	    {3, 2, "sto\nlen", ERR_TAMPER}, {3, 2, "st\xc3\xa4hlen", ERR_TAMPER}};
	struct key a = key_of(7), b = key_of(8);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct handover h = between(&a, &b, cases[i].size), got;

		h.old.last = cases[i].last;
		(void)snprintf(h.reason, sizeof(h.reason), "%s", cases[i].reason);
		note_of(&note, &h, &a, &b);
		assert_int_equal(handover_open(buf_str(&note), &got, NULL), cases[i].code);
	}
	key_free(&a);
	key_free(&b);
}

/* --- followed ------------------------------------------------------------------------ */

struct log {
	char path[64];
	int fd;
};

static struct log
log_new(void)
{
	struct log l = {.path = "/tmp/t_handover.XXXXXX"};

	assert_non_null(mkdtemp(l.path));
	l.fd = open(l.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(l.fd >= 0);
	return l;
}

static int
remove_entry(const char *path, const struct stat *sb UNUSED, int type UNUSED, struct FTW *f UNUSED)
{
	return remove(path);
}

static void
log_free(struct log *l)
{
	(void)close(l->fd);
	assert_int_equal(nftw(l->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void
put(const struct log *l, uint64_t number, struct str note)
{
	AUTO_FREE char *name = xasprintf(LOG_KEY "/%020llu", (unsigned long long)number);
	AUTO_FD int fd = -1;

	(void)mkdirat(l->fd, LOG_KEY, 0700);
	(void)unlinkat(l->fd, name, 0);
	fd = openat(l->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, note.p, note.n), (ssize_t)note.n);
}

struct heard {
	unsigned good, bad;
};

static void
hear(void *arg, uint64_t number UNUSED, const struct handover *h, const struct err *why UNUSED)
{
	struct heard *x = arg;

	if (h != NULL)
		x->good++;
	else
		x->bad++;
}

static struct heard
follow(const struct log *l, struct vkeys *keys)
{
	struct heard x = {0};

	assert_int_equal(handovers_follow(l->fd, keys, hear, &x, NULL), 0);
	return x;
}

static void
trust_goes_from_key_to_key_and_ranges_only_become_narrower(void **state)
{
	struct key a = key_of(7), b = key_of(8), c = key_of(9);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);
	struct vkeys keys = {.n = 1, .key = {a.v}};
	struct handover h = between(&a, &b, 3);
	struct log l = log_new();
	struct heard x = follow(&l, &keys);

	(void)state;
	assert_true(x.good == 0 && x.bad == 0 && keys.n == 1); /* no key/ at all */
	note_of(&note, &h, &a, &b);
	put(&l, 3, buf_str(&note));
	h = between(&b, &c, 9);
	note_of(&note, &h, &b, &c);
	put(&l, 9, buf_str(&note));
	x = follow(&l, &keys);
	assert_true(x.good == 2 && x.bad == 0 && keys.n == 3);
	assert_true(keys.key[0].last == 3 && keys.key[1].first == 3 && keys.key[1].last == 9);
	assert_true(keys.key[2].first == 9 && keys.key[2].last == UINT64_MAX);
	x = follow(&l, &keys); /* once more changes nothing */
	assert_true(x.good == 2 && x.bad == 0 && keys.n == 3 && keys.key[1].last == 9);
	/* The key file may say less. */
	keys = (struct vkeys){.n = 2, .key = {a.v, b.v}};
	keys.key[1].first = 5;
	keys.key[1].last = 8;
	x = follow(&l, &keys);
	assert_true(x.good == 1 && x.bad == 1 && keys.n == 2 && keys.key[1].first == 5);
	/* Who trusts the second key alone learns the third, and nothing of the first. */
	keys = (struct vkeys){.n = 1, .key = {b.v}};
	x = follow(&l, &keys);
	assert_true(x.good == 1 && x.bad == 0 && keys.n == 2 && keys.key[0].first == 0);
	log_free(&l);
	key_free(&a);
	key_free(&b);
	key_free(&c);
}

static void
a_key_that_has_ended_hands_over_to_nobody(void **state)
{
	struct key a = key_of(7), b = key_of(8), c = key_of(9);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);
	struct vkeys keys = {.n = 1, .key = {a.v}};
	struct handover h = between(&a, &b, 3);
	struct log l = log_new();
	struct heard x;

	(void)state;
	note_of(&note, &h, &a, &b);
	put(&l, 3, buf_str(&note));
	h = between(&a, &c, 5);
	note_of(&note, &h, &a, &c);
	put(&l, 5, buf_str(&note));
	x = follow(&l, &keys);
	assert_true(x.good == 1 && x.bad == 1 && keys.n == 2);
	put(&l, 2, STR("no note"));
	keys = (struct vkeys){.n = 1, .key = {a.v}};
	x = follow(&l, &keys);
	assert_true(x.good == 0 && x.bad == 1 && keys.n == 1); /* none behind it is read */
	log_free(&l);
	key_free(&a);
	key_free(&b);
	key_free(&c);
}

static void
two_keys_of_one_name_and_id_are_told_apart(void **state)
{
	struct key a = key_of(7), b = key_of(8);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);
	struct vkeys keys = {.n = 2, .key = {a.v, b.v}};
	struct handover h = between(&a, &b, 3);
	struct log l = log_new();
	struct heard x;

	(void)state;
	note_of(&note, &h, &a, &b);
	put(&l, 3, buf_str(&note));
	keys.key[1].pub[0] ^= 1; /* as if somebody had found a key with that ID */
	x = follow(&l, &keys);
	assert_true(x.good == 0 && x.bad == 1);
	keys = (struct vkeys){.n = 1, .key = {a.v}};
	keys.key[0].pub[0] ^= 1;
	x = follow(&l, &keys);
	assert_true(x.good == 0 && x.bad == 1 && keys.n == 1);
	log_free(&l);
	key_free(&a);
	key_free(&b);
}

/* --- the store ----------------------------------------------------------------------- */

static int
opened(const struct log *l, const struct key *k, const struct handover *h, struct str note,
    bool close_it)
{
	const struct store_opts o = {.ballast = 65536, .handover = h, .handover_note = note};
	struct signer *s = NULL;
	struct store *st = NULL;
	struct err err = {0};
	int r;

	assert_int_equal(signer_new(k->seed, &k->v, &s, NULL), 0);
	r = store_open(l->fd, s, &o, &st, &err);
	if (r == 0 && close_it)
		assert_int_equal(store_close(st, NULL), 0);
	store_free(st);
	signer_free(s);
	return r;
}

static uint64_t
newest(const struct log *l, struct checkpoint *ret, const struct key *k)
{
	const struct vkeys keys = {.n = 1, .key = {k->v}};
	AUTO_LOG_FILES struct log_files f = {0};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	AUTO_FREE char *name = NULL;
	const struct vkey *key;

	assert_int_equal(log_files_list(l->fd, LOG_CP, "", NULL, &f, NULL), 0);
	name = xasprintf(LOG_CP "/%020llu", (unsigned long long)f.number[0][f.n[0] - 1]);
	assert_int_equal(log_read_file(l->fd, name, &note, NULL), 0);
	return checkpoint_open(buf_str(&note), &keys, ret, &key, NULL) == 0
		   ? f.number[0][f.n[0] - 1]
		   : 0;
}

/* Killed before the new key's first head: what it wrote stands, nobody has signed it. */
static void
forget_newest(const struct log *l, const struct checkpoint *cp)
{
	AUTO_FREE char *name = xasprintf(LOG_CP "/%020llu", (unsigned long long)cp->size);

	assert_int_equal(unlinkat(l->fd, name, 0), 0);
	assert_int_equal(unlinkat(l->fd, LOG_CHECKPOINT, 0), 0);
}

static void
a_store_begins_with_a_new_key_only_by_a_handover_from_the_old(void **state)
{
	struct key a = key_of(7), b = key_of(8), c = key_of(9);
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX), file = BUF(HANDOVER_MAX);
	AUTO_FREE char *name = NULL;
	struct handover h, wrong;
	struct checkpoint cp, again;
	struct log l = log_new();
	uint64_t end;

	(void)state;
	assert_int_equal(opened(&l, &a, NULL, STR_NONE, true), 0);
	end = newest(&l, &cp, &a);
	assert_true(end != 0);
	assert_int_equal(opened(&l, &b, NULL, STR_NONE, true), ERR_CONFIG);
	wrong = between(&c, &b, end);
	assert_int_equal(opened(&l, &b, &wrong, STR("x"), true), ERR_CONFIG);
	wrong = between(&a, &b, end - 1); /* the old key's head lies behind it */
	assert_int_equal(opened(&l, &b, &wrong, STR("x"), true), ERR_TAMPER);
	h = between(&a, &b, end);
	note_of(&note, &h, &a, &b);
	assert_int_equal(opened(&l, &b, &h, buf_str(&note), false), 0);
	assert_true(newest(&l, &cp, &b) > end);
	name = xasprintf(LOG_KEY "/%020llu", (unsigned long long)end);
	assert_int_equal(log_read_file(l.fd, name, &file, NULL), 0);
	assert_true(str_eq(buf_str(&file), buf_str(&note)));
	/* Killed there and begun again, in either order: never the old key, always the new. */
	forget_newest(&l, &cp);
	assert_int_equal(opened(&l, &b, &h, buf_str(&note), true), 0);
	assert_true(newest(&l, &again, &b) > cp.size);
	assert_int_equal(opened(&l, &b, &h, buf_str(&note), true), 0);
	assert_int_equal(opened(&l, &a, NULL, STR_NONE, true), ERR_CONFIG);
	log_free(&l);
	key_free(&a);
	key_free(&b);
	key_free(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_handover_needs_both_signatures_one_log_and_two_keys),
	    cmocka_unit_test(an_end_before_the_size_needs_a_reason_and_none_lies_behind_it),
	    cmocka_unit_test(trust_goes_from_key_to_key_and_ranges_only_become_narrower),
	    cmocka_unit_test(a_key_that_has_ended_hands_over_to_nobody),
	    cmocka_unit_test(two_keys_of_one_name_and_id_are_told_apart),
	    cmocka_unit_test(a_store_begins_with_a_new_key_only_by_a_handover_from_the_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
