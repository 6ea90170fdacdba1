/* SCRAM-SHA-256 against the vector of RFC 7677, and servers that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "broker/upstream_scram.h"

#include "common/banned.h"

#define NONCE "rOprNGfwEbeRWgbNEkqO"
#define OFFER STR("SCRAM-SHA-256\0\0")
#define OFFER_PLUS STR("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
#define SERVER_FIRST "r=" NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define SERVER_FINAL "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

/* Up to the server-first message; out holds the answer. */
static struct upstream_scram *
begun(const char *password, struct str offer, struct str binding, const char **mechanism,
    struct buf *out)
{
	struct upstream_scram *s = NULL;
	struct err err = {0};

	assert_int_equal(
	    upstream_scram_new(secret_copy(str_z(password)), STR("user"), NONCE, &s, &err), 0);
	assert_int_equal(upstream_scram_first(s, offer, binding, mechanism, out, &err), 0);
	return s;
}

static void
rfc7677_vector_passes_both_ways(void **state UNUSED)
{
	AUTO_BUF struct buf first = BUF(1000);
	AUTO_BUF struct buf final = BUF(1000);
	const char *mechanism = NULL;
	AUTO(upstream_scram)
	struct upstream_scram *s = begun("pencil", OFFER, STR(""), &mechanism, &first);
	struct err err = {0};

	assert_string_equal(mechanism, "SCRAM-SHA-256");
	assert_true(str_eqz(buf_str(&first), "n,,n=user,r=" NONCE));
	assert_int_equal(upstream_scram_continue(s, STR(SERVER_FIRST), &final, &err), 0);
	assert_true(str_eqz(buf_str(&final), "c=biws,r=" NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
					     "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
	assert_int_equal(upstream_scram_finish(s, STR(SERVER_FINAL), &err), 0);
}

static void
server_that_does_not_know_the_password_is_refused(void **state UNUSED)
{
	static const struct {
		const char *text;
		int rc;
	} finals[] = {
	    {"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G8=", ERR_UNAUTHORISED},
	    {"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95A==", ERR_PROTOCOL}, /* shorter */
	    {"v=", ERR_PROTOCOL},
	    {"", ERR_PROTOCOL},
	    {"e=other-error", ERR_UNAUTHORISED},
	    {SERVER_FINAL ",x=1", ERR_PROTOCOL},
	};

	for (size_t i = 0; i < ARRAY_LEN(finals); i++) {
		AUTO_BUF struct buf out = BUF(2000);
		const char *mechanism;
		AUTO(upstream_scram)
		struct upstream_scram *s = begun("pencil", OFFER, STR(""), &mechanism, &out);
		struct err err = {0};

		assert_int_equal(upstream_scram_continue(s, STR(SERVER_FIRST), &out, &err), 0);
		assert_int_equal(
		    upstream_scram_finish(s, str_z(finals[i].text), &err), finals[i].rc);
		/* A second try is none. */
		if (finals[i].rc == ERR_UNAUTHORISED)
			assert_int_not_equal(
			    upstream_scram_continue(s, STR(SERVER_FIRST), &out, &err), 0);
	}
}

static void
server_first_must_extend_our_nonce_and_be_sane(void **state UNUSED)
{
	static const struct {
		const char *text;
		int rc;
	} firsts[] = {
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", 0},
	    {"r=" NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ERR_PROTOCOL},
	    {"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ERR_PROTOCOL},
	    {"r=x" NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ERR_PROTOCOL},
	    {"r=" NONCE "\x01,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ERR_PROTOCOL},
	    {"r=" NONCE "x,s:W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ERR_PROTOCOL},
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", ERR_UNSUPPORTED},
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=600001", ERR_UNSUPPORTED},
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1", ERR_PROTOCOL},
	    {"r=" NONCE "x,s=,i=4096", ERR_PROTOCOL},
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6g,i=4096", ERR_PROTOCOL},
	    {"r=" NONCE "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,m=ext", ERR_UNSUPPORTED},
	    {"s=W22ZaJ0SNY7soEsUEjb6gQ==,r=" NONCE "x,i=4096", ERR_PROTOCOL},
	};

	for (size_t i = 0; i < ARRAY_LEN(firsts); i++) {
		AUTO_BUF struct buf out = BUF(2000);
		const char *mechanism;
		AUTO(upstream_scram)
		struct upstream_scram *s = begun("pencil", OFFER, STR(""), &mechanism, &out);
		struct err err = {0};

		if (upstream_scram_continue(s, str_z(firsts[i].text), &out, &err) != firsts[i].rc)
			fail_msg("%s: %s", firsts[i].text, err.msg);
	}
}

static void
messages_have_their_order_and_a_size(void **state UNUSED)
{
	static const struct {
		int nonce, rc;
	} rows[] = {{4000, 0}, {4058, ERR_TOO_LARGE}, {4090, ERR_PROTOCOL}};
	struct upstream_scram *early = NULL;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_BUF struct buf out = BUF(8192), first = BUF(8192);
		const char *mechanism;
		AUTO(upstream_scram)
		struct upstream_scram *s = begun("pencil", OFFER, STR(""), &mechanism, &out);

		assert_int_equal(upstream_scram_finish(s, STR(SERVER_FINAL), &err), ERR_PROTOCOL);
		buf_printf(&first, "r=" NONCE "%0*d,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		    rows[i].nonce - (int)strlen(NONCE), 1);
		assert_int_equal(
		    upstream_scram_continue(s, buf_str(&first), &out, &err), rows[i].rc);
		if (rows[i].rc == 0)
			assert_int_equal(
			    upstream_scram_continue(s, buf_str(&first), &out, &err), ERR_PROTOCOL);
	}
	assert_int_equal(
	    upstream_scram_new(secret_copy(STR("pencil")), STR("user"), NONCE, &early, &err), 0);
	{
		AUTO_BUF struct buf out = BUF(8192);

		assert_int_equal(
		    upstream_scram_continue(early, STR(SERVER_FIRST), &out, &err), ERR_PROTOCOL);
	}
	upstream_scram_free(early);
}

static void
a_password_has_a_size(void **state UNUSED)
{
	static char long_[1025];
	struct upstream_scram *s = NULL;
	struct err err = {0};

	memset(long_, 'p', sizeof(long_));
	assert_int_equal(
	    upstream_scram_new(secret_copy(str_mem(long_, 1025)), STR("user"), NONCE, &s, &err),
	    ERR_UNSUPPORTED);
	assert_int_equal(
	    upstream_scram_new(secret_copy(str_mem(long_, 1024)), STR("user"), NONCE, &s, &err), 0);
	upstream_scram_free(s);
}

static void
channel_is_bound_when_the_server_offers_it(void **state UNUSED)
{
	AUTO_BUF struct buf plus = BUF(2000);
	AUTO_BUF struct buf final = BUF(2000);
	AUTO_BUF struct buf could = BUF(2000);
	AUTO_BUF struct buf plain = BUF(2000);
	const char *mechanism;
	AUTO(upstream_scram)
	struct upstream_scram *a =
	    begun("pencil", OFFER_PLUS, STR("0123456789"), &mechanism, &plus);
	struct err err = {0};

	assert_string_equal(mechanism, "SCRAM-SHA-256-PLUS");
	assert_true(str_has_prefix(buf_str(&plus), "p=tls-server-end-point,,n=user,"));
	assert_int_equal(upstream_scram_continue(a, STR(SERVER_FIRST), &final, &err), 0);
	/* c= carries the header and the certificate's hash. */
	assert_true(
	    str_has_prefix(buf_str(&final), "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsMDEyMzQ1Njc4OQ==,"));
	{
		/* Not offered: the server is told that we could, and sees when the offer was cut
		 * out. */
		AUTO(upstream_scram)
		struct upstream_scram *b UNUSED =
		    begun("pencil", OFFER, STR("0123456789"), &mechanism, &could);
		AUTO(upstream_scram)
		struct upstream_scram *c UNUSED =
		    begun("pencil", OFFER_PLUS, STR(""), &mechanism, &plain);

		assert_true(str_has_prefix(buf_str(&could), "y,,"));
		assert_true(str_has_prefix(buf_str(&plain), "n,,"));
		assert_string_equal(mechanism, "SCRAM-SHA-256");
	}
}

static void
other_mechanisms_are_refused(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(2000);
	AUTO(upstream_scram) struct upstream_scram *s = NULL;
	const char *mechanism;
	struct err err = {0};

	assert_int_equal(upstream_scram_new(secret_copy(STR("x")), STR(""), NULL, &s, &err), 0);
	assert_int_equal(upstream_scram_first(s, STR("SCRAM-SHA-1\0OAUTHBEARER\0\0"), STR(""),
			     &mechanism, &out, &err),
	    ERR_UNSUPPORTED);
}

static void
password_outside_ascii_is_refused_with_a_reason(void **state UNUSED)
{
	static const char *const bad[] = {"", "p\303\244ssword", "tab\there"};
	struct upstream_scram *s = NULL;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(
		    upstream_scram_new(secret_copy(str_z(bad[i])), STR(""), NULL, &s, &err),
		    ERR_UNSUPPORTED);
		assert_null(s);
		if (bad[i][0] != '\0')
			assert_null(strstr(err.msg, bad[i])); /* the message never shows it */
	}
	assert_int_equal(
	    upstream_scram_new(secret_copy(STR("pass word~!")), STR(""), NULL, &s, &err), 0);
	upstream_scram_free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rfc7677_vector_passes_both_ways),
	    cmocka_unit_test(server_that_does_not_know_the_password_is_refused),
	    cmocka_unit_test(server_first_must_extend_our_nonce_and_be_sane),
	    cmocka_unit_test(messages_have_their_order_and_a_size),
	    cmocka_unit_test(a_password_has_a_size),
	    cmocka_unit_test(channel_is_bound_when_the_server_offers_it),
	    cmocka_unit_test(other_mechanisms_are_refused),
	    cmocka_unit_test(password_outside_ascii_is_refused_with_a_reason),
	};

	return cmocka_run_group_tests_name("scram", tests, NULL, NULL);
}
