/*
 * From one bundle to the next: the serial rises, the owners that the bundle before names sign with
 * the keys it has for them, each counts once, and what they signed is this step and no other.
 */
#include "tests/unit/core_help.h"

#include "common/banned.h"
#include "policy/policy_source.h"
#include "policy/succession.h"

static struct person alice, bob, carol;

static struct policy *
policy_of(const char *owners, int serial, const struct person *a)
{
	AUTO_FREE char *text = xasprintf(
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"acme\",\"serial\":%d,%s"
	    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"db.test\","
	    "\"database\":\"d\",\"user\":\"u\",\"credential\":\"c\"}},\"people\":{"
	    "\"alice\":{\"roles\":\"dba\",\"keys\":[\"%s\"]},\"bob\":{\"roles\":\"dba\",\"keys\":["
	    "\"%s\"]},\"carol\":{\"roles\":\"dba\",\"keys\":[\"%s\"]},\"dave\":{\"roles\":"
	    "\"dba\"}},\"rules\":[{\"id\":\"r\",\"permit\":{\"effects\":{\"only\":[\"read\"]}}}]}",
	    serial, owners, a->line, bob.line, carol.line);

	return world_parse(text);
}

#define OWNERS "\"owners\":{\"people\":[\"alice\",\"bob\",\"carol\"],\"count\":2},"
#define OTHER \
	"\"owners\":{\"people\":[\"alice\",\"bob\",\"carol\"],\"count\":2,\"not_author\":true},"

static int
make_people(void **state UNUSED)
{
	assert_true(sodium_init() >= 0);
	person_make(&alice);
	person_make(&bob);
	person_make(&carol);
	return 0;
}

/* One owner's signature; strings live until free_all. */
static char *armors[64];
static size_t narmors;

static struct succession_signature
signed_by(const char *name, const struct person *key, const struct policy *before,
    const struct policy *next, const char *ns)
{
	AUTO_BUF struct buf text = BUF(SUCCESSION_STATEMENT_MAX);
	AUTO_BUF struct buf armor = BUF(SIG_SSHSIG_MAX);

	succession_statement(next, policy_digest(before), str_z(name), &text);
	person_sign(key, ns != NULL ? ns : SUCCESSION_NAMESPACE, buf_str(&text), &armor);
	armors[narmors] = buf_dup_z(&armor);
	return (struct succession_signature){str_z(name), str_z(armors[narmors++])};
}

static int
free_all(void **state UNUSED)
{
	while (narmors != 0)
		free(armors[--narmors]);
	return 0;
}

static void
assert_follows(const struct policy *before, const struct policy *next,
    const struct succession_signature *s, size_t n, const char *why)
{
	struct err err = {0};
	int rc = succession_check(before, next, s, n, &err);

	if (why == NULL && rc != 0)
		fail_msg("%s", err.msg);
	if (why != NULL && (rc == 0 || strstr(err.msg, why) == NULL))
		fail_msg("\"%s\" does not say \"%s\"", rc == 0 ? "(accepted)" : err.msg, why);
}

static void
the_serial_rises_and_the_same_bundle_may_come_again(void **state UNUSED)
{
	struct person young;
	AUTO(policy) struct policy *p = policy_of("", 7, &alice), *same = policy_of("", 7, &alice);
	AUTO(policy)
	struct policy *other = NULL, *lower = policy_of("", 6, &alice),
		      *next = policy_of("", 8, &alice);

	person_make(&young);
	other = policy_of("", 7, &young);
	assert_follows(p, same, NULL, 0, NULL);
	assert_follows(p, other, NULL, 0, "serial must be over 7");
	assert_follows(p, lower, NULL, 0, "is 6");
	assert_follows(p, next, NULL, 0, NULL); /* nobody owns it */
}

static void
as_many_owners_sign_as_the_bundle_before_says(void **state UNUSED)
{
	AUTO(policy) struct policy *p = policy_of(OWNERS, 1, &alice);
	AUTO(policy) struct policy *q = policy_of("", 2, &alice);
	const struct succession_signature s[] = {
	    signed_by("alice", &alice, p, q, NULL), signed_by("bob", &bob, p, q, NULL)};
	const struct succession_signature twice[] = {s[0], s[0]};

	assert_follows(p, q, s, 2, NULL);
	assert_follows(
	    p, q, s, 1, "signatures of 2 of its owners are needed (alice, bob, carol), 1");
	assert_follows(p, q, NULL, 0, "0 count");
	assert_follows(p, q, twice, 2, "1 count"); /* a person, not a signature */
}

static void
a_signature_counts_for_this_step_alone(void **state UNUSED)
{
	AUTO(policy) struct policy *p = policy_of(OWNERS, 1, &alice);
	AUTO(policy) struct policy *q = policy_of("", 2, &alice), *r = policy_of("", 3, &alice);
	const struct succession_signature good = signed_by("alice", &alice, p, q, NULL);
	const struct {
		struct succession_signature s;
		const char *why;
	} c[] = {
	    {signed_by("bob", &bob, p, r, NULL), "bob: "}, /* another bundle */
	    {signed_by("bob", &bob, q, q, NULL), "bob: "}, /* after another */
	    {signed_by("bob", &bob, p, q, "cofferdam-approval"), "namespace"},
	    {signed_by("bob", &carol, p, q, NULL), "the key is not theirs"},
	    {signed_by("dave", &bob, p, q, NULL), "no owner of the policy before"},
	    {signed_by("eve", &bob, p, q, NULL), "no owner of the policy before"},
	};

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		const struct succession_signature s[] = {good, c[i].s};

		assert_follows(p, q, s, 2, c[i].why);
		assert_follows(p, q, s, 2, "1 count");
	}
}

static void
keys_and_owners_are_those_of_the_bundle_before(void **state UNUSED)
{
	struct person young;
	AUTO(policy) struct policy *p = policy_of(OWNERS, 1, &alice), *q = NULL;
	struct succession_signature s[2];

	person_make(&young);
	/* The new one takes alice's key away, and makes one owner of all. */
	q = policy_of("\"owners\":{\"people\":[\"carol\"],\"count\":1},", 2, &young);
	s[0] = signed_by("alice", &young, p, q, NULL);
	s[1] = signed_by("bob", &bob, p, q, NULL);
	assert_follows(p, q, s, 2, "alice: the key is not theirs");
	s[0] = signed_by("alice", &alice, p, q, NULL);
	assert_follows(p, q, s, 2, NULL);
}

static void
somebody_beside_the_author_signs_where_the_text_says_so(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = policy_of(
	    "\"owners\":{\"people\":[\"alice\",\"bob\"],\"count\":1,\"not_author\":true},", 1,
	    &alice);
	AUTO(policy)
	struct policy *q = policy_of("\"author\":\"alice\",", 2, &alice),
		      *none = policy_of("", 2, &alice);
	const struct succession_signature own = signed_by("alice", &alice, p, q, NULL),
					  bobs = signed_by("bob", &bob, p, q, NULL),
					  unsaid = signed_by("bob", &bob, p, none, NULL);

	assert_follows(p, q, &own, 1, "an owner beside the author, alice, must sign");
	assert_follows(p, q, &bobs, 1, NULL);
	assert_follows(p, none, &unsaid, 1, "names no \"author\"");
}

static void
owners_that_could_never_sign_are_refused(void **state UNUSED)
{
	static const struct {
		const char *top, *why;
	} c[] = {
	    {"\"owners\":{\"people\":[\"alice\",\"dave\"],\"count\":1},", "dave must be a person"},
	    {"\"owners\":{\"people\":[\"alice\",\"zoe\"],\"count\":1},", "zoe must be a person"},
	    {"\"owners\":{\"people\":[\"alice\",\"bob\"],\"count\":3},",
		"no policy could ever follow"},
	    {"\"owners\":{\"people\":[],\"count\":1},", "from 1 to"},
	    {"\"owners\":{\"people\":[\"alice\"]},", "has no \"count\""},
	    {"\"author\":\"alice\",\"owners\":{\"people\":[\"alice\"],\"count\":1,\"not_author\":"
	     "true},",
		"the author is the only one"},
	    {"\"author\":\"zoe\",", "no person is named \"zoe\""},
	};

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		AUTO_FREE char *text = xasprintf(
		    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"acme\",\"serial\":1,%s"
		    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"}},\"people\":{"
		    "\"alice\":{\"roles\":\"dba\",\"keys\":[\"%s\"]},\"bob\":{\"roles\":\"dba\","
		    "\"keys\":[\"%s\"]},\"dave\":{\"roles\":\"dba\"}},\"rules\":[]}",
		    c[i].top, alice.line, bob.line);
		AUTO(policy) struct policy *p = NULL;
		struct err err = {0};

		assert_int_not_equal(policy_parse(str_z(text), "p", NULL, NULL, &p, NULL, &err), 0);
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("\"%s\" does not say \"%s\"", err.msg, c[i].why);
	}
}

static void
the_file_of_signatures_is_read_as_it_is_written(void **state UNUSED)
{
	AUTO(policy) struct policy *p = policy_of(OTHER, 1, &alice);
	AUTO(policy) struct policy *q = policy_of("\"author\":\"bob\",", 2, &alice);
	AUTO_BUF struct buf out = BUF(SUCCESSION_FILE_MAX), again = BUF(SUCCESSION_FILE_MAX);
	AUTO_SUCCESSION struct succession r = {0};
	struct succession s = {.before = *policy_digest(p), .bundle = *policy_digest(q), .n = 2};
	static const char *const bad[] = {"{}", "[]",
	    "{\"before\":\"\",\"bundle\":\"\",\"schema\":\"cofferdam-policy-signatures/1\","
	    "\"signatures\":[]}"};

	s.sig[0] = signed_by("alice", &alice, p, q, NULL);
	s.sig[1] = signed_by("carol", &carol, p, q, NULL);
	succession_put(&s, &out);
	assert_int_equal(succession_parse(buf_str(&out), &r, NULL), 0);
	assert_true(hash_eq(&r.before, &s.before) && hash_eq(&r.bundle, &s.bundle));
	assert_follows(p, q, r.sig, r.n, NULL);
	succession_put(&r, &again);
	assert_true(str_eq(buf_str(&out), buf_str(&again)));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_SUCCESSION struct succession none = {0};

		assert_int_not_equal(succession_parse(str_z(bad[i]), &none, NULL), 0);
	}
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, NULL, free_all)
	const struct CMUnitTest tests[] = {
	    TEST(the_serial_rises_and_the_same_bundle_may_come_again),
	    TEST(as_many_owners_sign_as_the_bundle_before_says),
	    TEST(a_signature_counts_for_this_step_alone),
	    TEST(keys_and_owners_are_those_of_the_bundle_before),
	    TEST(somebody_beside_the_author_signs_where_the_text_says_so),
	    TEST(owners_that_could_never_sign_are_refused),
	    TEST(the_file_of_signatures_is_read_as_it_is_written),
	};

	return cmocka_run_group_tests(tests, make_people, NULL);
}
