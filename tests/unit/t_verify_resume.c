/* A verifier that goes on at a head: what it reads again, what it says, and where it may be taken
 * up next. What comes of each attack: 35-verify-resume.t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/pack.h"
#include "audit/verify_blobs.h"
#include "tests/fuzz/log_dir.h"
#include "tests/fuzz/resume_same.h"

#include "common/banned.h"

#define RECORDS 60
#define H "0000000000000000000000000000000000000000000000000000000000000000"
#define REF "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"r\",\"len\":1,\"media\":\"t\"}"

static struct image log_;

/* A log of several segments. */
static int
fill(struct store *s)
{
	for (int i = 0; i < RECORDS / 3; i++) {
		dir_fill(s, 3);
		assert_int_equal(store_checkpoint(s, NULL), 0);
	}
	return dir_close(s);
}

static int
make(void **state)
{
	(void)state;
	dir_make();
	if (dir_open(fill, NULL) != 0)
		return -1;
	image_take(&log_);
	return 0;
}

static int
anew(void **state)
{
	(void)state;
	image_put(&log_);
	return 0;
}

static struct pin
head_of(const struct image_file *f)
{
	struct pin at = {.name = "resume"};
	const struct vkey *key;

	assert_int_equal(checkpoint_open(buf_str(&f->bytes), &dir_.keys, &at.cp, &key, NULL), 0);
	return at;
}

static struct verdict
verify(const struct verify_ask *ask, int want)
{
	struct verdict v = {0};

	assert_int_equal(verify_log_asked(dir_.fd, &dir_.keys, ask, &v, NULL), want);
	return v;
}

/* --- what is read again ---------------------------------------------------------------------- */

static void
body_of(struct buf *out, const char *type, struct str data)
{
	struct record r = {.batch = 1,
	    .seq = 1,
	    .data = data,
	    .run = STR("r-1"),
	    .src = STR("agent"),
	    .time = STR("2026-11-29T14:31:13.123456Z"),
	    .type = str_z(type)};

	buf_reset(out);
	record_body(out, &r);
}

static void
a_record_is_read_again_if_it_is_of_the_log_an_erasure_or_names_content(void **state)
{
	static const struct {
		const char *type, *data;
		bool is;
	} cases[] = {
	    {"log.open", "{}", true},
	    {"log.anything", "{}", true},
	    {"erasure", "{}", true},
	    {"action", "{\"request\":{\"head\":" REF "}}", true},
	    {"outcome", "{\"answer\":" REF "}", true},
	    {"action", "{\"request\":{}}", false},
	    {"logs", "{}", false},
	    {"blog.open", "{}", false},
	    {"erasures", "{}", false},
	    {"agent.note", "{\"type\":\"log.open\"}", false},
	    {"agent.note", "{\"text\":\"\\\"type\\\":\\\"log.open\\\",\\\"v\\\":1}\"}", false},
	    {"agent.note", "{\"text\":\"\\\"ct\\\":\\\"\"}", false},
	    {"agent.note", "{\"ct\":1}", false},
	};
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		body_of(&body, cases[i].type, str_z(cases[i].data));
		assert_int_equal(chain_heeds(buf_str(&body)), cases[i].is);
	}
}

static void
what_is_no_record_is_read_again(void **state)
{
	static const char *const bodies[] = {"", "}", "{}", "\",\"v\":1}", "x\",\"v\":1}",
	    "{\"type\":\"agent.note\",\"v\":2}", "{\"type\":\"agent.note\",\"v\":1} ",
	    "{\"type\":\"agent.note\",\"v\":1,\"w\":1}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		assert_true(chain_heeds(str_z(bodies[i])));
}

/* Texts of all that the search looks for, at any place that canonical JSON lets them be. */
static void
put_any(struct buf *out, unsigned *seed, unsigned depth)
{
	static const char *const texts[] = {"\"ct\":\"", "log.", "\",\"v\":1}",
	    "\"type\":\"log.open", "\"type\":\"erasure\",\"v\":1", "\\", "\"", H, "x"};
	static const char *const keys[] = {
	    "answer", "content", "ct", "head", "request", "type", "v"};
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO_BUF struct buf text = BUF(4096), inner = BUF(65536);
		unsigned dice = (unsigned)rand_r(seed) % 6;

		if (dice < 2)
			continue;
		if (dice == 2 && depth != 0) {
			put_any(&inner, seed, depth - 1);
			jcs_raw(&j, keys[i], buf_str(&inner));
			continue;
		}
		for (unsigned n = dice == 5 ? 1 : (unsigned)rand_r(seed) % 4; n > 0; n--)
			buf_put_z(&text,
			    texts[dice == 5 ? 7 : (unsigned)rand_r(seed) % ARRAY_LEN(texts)]);
		jcs_str(&j, keys[i], buf_str(&text));
	}
	jcs_close(&j);
}

static void
no_record_that_counts_is_passed_over_whatever_stands_in_it(void **state)
{
	static const char *const types[] = {"log.open", "log.prune", "log.close", "log.segment",
	    "erasure", "action", "outcome", "agent.note", "run.start", "logs", "x"};
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX), data = BUF(RECORD_BODY_MAX);
	unsigned seed = 7, named = 0, passed = 0;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		const char *type = types[(unsigned)rand_r(&seed) % ARRAY_LEN(types)];
		struct hash ct;
		struct record r;
		bool heeds, names;

		buf_reset(&data);
		put_any(&data, &seed, 3);
		body_of(&body, type, buf_str(&data));
		assert_int_equal(record_parse(buf_str(&body), &r, NULL), 0);
		heeds = chain_heeds(buf_str(&body));
		names = pack_ref_ct(&r, &ct);
		if (names || str_has_prefix(r.type, "log.") || str_eqz(r.type, "erasure") ||
		    record_of_start(r.type) || record_ends(r.type))
			assert_true(heeds);
		named += names;
		passed += !heeds;
	}
	assert_true(named > 100 && passed > 1000); /* both were there */
}

/* --- what it says ------------------------------------------------------------------------------
 */

static void
from_each_head_it_says_the_same(void **state)
{
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < log_.n; i++) {
		struct pin at;
		bool resumed;

		if (!str_has_prefix(str_z(log_.file[i].name), LOG_CP "/"))
			continue;
		at = head_of(&log_.file[i]);
		assert_null(resume_differs(dir_.fd, &dir_.keys, &at, &resumed));
		assert_true(resumed);
		n++;
	}
	assert_true(n > 10);
}

static void
it_says_from_where_it_went_on_and_that_it_did_not(void **state)
{
	struct pin at = head_of(image_last(&log_, LOG_CP "/", ""));
	const struct verify_ask ask = {.resume = &at};
	AUTO_BUF struct buf out = BUF(65536);
	struct verdict v = verify(&ask, 0);

	(void)state;
	assert_int_equal(verdict_status(&v), 0);
	assert_int_equal(v.resumed, at.cp.size);
	assert_int_equal(v.unlike, 0);
	at.cp.root.b[0] ^= 1;
	v = verify(&ask, 0);
	assert_int_equal(verdict_status(&v), 1);
	assert_int_equal(v.faults[0].kind, LOG_KIND_REWRITTEN);
	assert_int_equal(v.resumed, 0);
	assert_int_equal(v.unlike, at.cp.size);
	verdict_put(&out, &v);
	buf_put(&out, "", 1);
	assert_non_null(strstr((char *)out.p, "not resumed at "));
}

static void
the_last_record_before_the_head_gives_its_time(void **state)
{
	struct pin at = head_of(image_last(&log_, LOG_CP "/", ""));
	const struct verify_ask ask = {.resume = &at};
	struct verdict v = verify(&ask, 0), whole = verify(&(const struct verify_ask){0}, 0);

	(void)state;
	assert_int_equal(strlen(v.time), 27);
	assert_string_equal(v.time, whole.time);
	assert_int_equal(v.heads, whole.heads); /* the one that it went on from is not counted */
}

/* --- where it may be taken up next
 * ---------------------------------------------------------------- */

struct told {
	size_t n;
	uint64_t last;
	char name[48];
};

static void
held(void *arg, const char *name, const struct checkpoint *cp)
{
	struct told *t = arg;

	assert_true(t->n == 0 || cp->size > t->last);
	t->n++;
	t->last = cp->size;
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	assert_non_null(image_find(&log_, name));
	assert_int_equal(head_of(image_find(&log_, name)).cp.size, cp->size);
	assert_string_equal(cp->origin, "o.example");
}

static void
each_head_that_holds_is_told_up_to_the_first_finding(void **state)
{
	struct pin pin = head_of(image_last(&log_, LOG_CP "/", ""));
	struct told t = {0}, all = {0};
	struct verify_ask ask = {.held = held, .arg = &all, .pins = &pin, .npins = 1};
	AUTO_BUF struct buf leaves = BUF(65536);
	struct verdict v = verify(&ask, 0);
	const struct image_file *f = image_find(&log_, LOG_SEG "/00000000000000000000" LOG_LEAVES);

	(void)state;
	assert_true(all.n > 10 && all.n < v.heads && all.last == v.size); /* a pin is none */
	assert_non_null(f);
	buf_put_str(&leaves, buf_str(&f->bytes));
	leaves.p[8 * HASH_LEN] ^= 1; /* of record 8 */
	dir_put(f->name, buf_str(&leaves));
	ask.arg = &t;
	v = verify(&ask, 0);
	assert_int_equal(v.faults[0].kind, LOG_KIND_LEAVES);
	assert_int_equal(v.faults[0].seq, 8);
	assert_true(t.n > 0 && t.last <= 8);
	/* A head of the log that holds beside a pin of the same size that does not is none. */
	image_put(&log_);
	t = (struct told){0};
	pin.cp.root.b[0] ^= 1;
	v = verify(&ask, 0);
	assert_int_equal(v.faults[0].kind, LOG_KIND_REWRITTEN);
	assert_true(t.n == all.n - 1 && t.last < pin.cp.size);
}

static void
of_a_log_in_which_something_is_found_at_once_none_is_told(void **state)
{
	struct told t = {0};
	const struct verify_ask ask = {.held = held, .arg = &t};
	struct verdict v;

	(void)state;
	dir_put(LOG_CP "/notes", STR("x"));
	v = verify(&ask, 0);
	assert_int_equal(v.faults[0].kind, LOG_KIND_FOREIGN);
	assert_int_equal(t.n, 0);
}

static void
it_stops_when_it_is_told_and_says_how_far_it_is(void **state)
{
	static volatile sig_atomic_t stop = 1;
	const struct verify_ask ask = {.stop = &stop};
	struct verdict v = verify(&ask, 1), whole;

	(void)state;
	assert_int_equal(v.size, 1);
	stop = 0;
	whole = verify(&ask, 0);
	assert_int_equal(v.newest, whole.verified);
	assert_int_equal(verdict_status(&whole), 0);
}

static void
packs_are_not_read_on_when_it_is_stopped(void **state)
{
	static const volatile sig_atomic_t no = 0, yes = 1;
	AUTO_BUF struct buf frame = BUF(4096);
	struct blobs b = {.stop = &no};
	struct verdict v = {0};
	struct blob_ref ref;

	(void)state;
	assert_int_equal(blob_seal(dir_.seed, STR("r"), "t", STR("x"), &frame, &ref, NULL), 0);
	dir_put(LOG_BLOB "/00000000000000000000" LOG_PACK, buf_str(&frame));
	assert_int_equal(blobs_check(&b, dir_.fd, 0, &v, NULL), 0);
	b.stop = &yes;
	assert_int_equal(blobs_check(&b, dir_.fd, 0, &v, NULL), 1);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup(name, anew)
	const struct CMUnitTest tests[] = {
	    T(a_record_is_read_again_if_it_is_of_the_log_an_erasure_or_names_content),
	    T(what_is_no_record_is_read_again),
	    T(no_record_that_counts_is_passed_over_whatever_stands_in_it),
	    T(from_each_head_it_says_the_same),
	    T(it_says_from_where_it_went_on_and_that_it_did_not),
	    T(the_last_record_before_the_head_gives_its_time),
	    T(each_head_that_holds_is_told_up_to_the_first_finding),
	    T(of_a_log_in_which_something_is_found_at_once_none_is_told),
	    T(it_stops_when_it_is_told_and_says_how_far_it_is),
	    T(packs_are_not_read_on_when_it_is_stopped),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, make, NULL);
}
