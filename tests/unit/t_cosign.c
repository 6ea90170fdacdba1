/* Cosignatures and add-checkpoint: the vectors of docs/format-witness.md, and each way to differ.
 */
#include "audit/cosign.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "common/banned.h"

#define DASH "\xe2\x80\x94 "
#define WKEY "witness.example/w1+fea3b187+BBOY9ixtGkV8UbpqS189vS9p/KkyFiGNyJl+QWvRfZPK"
#define WLINE                                                                                      \
	DASH "witness.example/w1 "                                                                 \
	     "/qOxhwAAAABlU/EA7SgbWxGciok+qs2ThaKgnYcIGjyDaKvRi1k+O9mHliWZ5xwuvRdcwYq2djryrVwdLwO" \
	     "5Wc8J+JWChUqesspJAg=="
#define LKEY "broker.example/test+8cb22760+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"
#define TEXT3 "broker.example/test\n3\nrra8/idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=\n"
#define SIG3                                                                                       \
	DASH "broker.example/test "                                                                \
	     "jLInYLiWBXeXg3a9XW4Togy61fBl/8sG8FsZEi/WrNNtecAeCdHv/OKpYWzm9YCJkm3kvYL5H9EL5PzLOtz" \
	     "FVPsZ0w0=\n"
#define PROOF8                                           \
	"ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c=\n" \
	"B1Bqhf2d0vEg62lPhgEeW7RmLlxBWmKRcDPUqWJEh+c=\n" \
	"+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=\n" \
	"a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=\n"
#define NOTE8                                                                                      \
	"broker.example/test\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\n" DASH            \
	"broker.example/test "                                                                     \
	"jLInYDWJMVDN0la8xDriOg0fc2ofI9McB+PsXcjKRNR47v8gklDLybUYSbWhEM+TtaXCUUC2iaxmLwpur44NBUhX" \
	"cg8=\n"

static struct cosigner
witness(void)
{
	struct cosigner c;

	assert_int_equal(cosigner_parse(STR(WKEY), &c, NULL), 0);
	return c;
}

static void
a_witness_key_is_written_as_it_was_read_and_no_log_key_is_one(void **state)
{
	AUTO_BUF struct buf b = BUF(1024);
	struct cosigner c = witness();
	struct err err = {0};

	(void)state;
	cosigner_put(&b, &c);
	assert_true(str_eqz(buf_str(&b), WKEY));
	assert_int_equal(cosigner_parse(STR(LKEY), &c, &err), ERR_CONFIG);
	assert_non_null(strstr(err.msg, "is type 1"));
	assert_true(cosigner_is(STR(WKEY)));
	assert_true(cosigner_is(STR(WKEY " 0 -")));
	assert_false(cosigner_is(STR(LKEY)));
}

static void
a_key_file_holds_keys_of_both_kinds_and_each_reader_takes_its_own(void **state)
{
	struct cosigners all;
	struct vkeys logs;

	(void)state;
	assert_int_equal(
	    cosigners_parse(STR("# keys\n" LKEY " 0 -\n" WKEY "\n\n"), "keys", &all, NULL), 0);
	assert_int_equal(all.n, 1);
	assert_string_equal(all.key[0].name, "witness.example/w1");
	assert_int_equal(vkeys_parse(STR(LKEY " 0 -\n" WKEY "\n"), "keys", &logs, NULL), 0);
	assert_int_equal(logs.n, 1);
}

static void
the_documented_cosignature_verifies_and_any_change_does_not(void **state)
{
	char line[] = WLINE;
	struct cosigner c = witness();
	uint64_t t = 0;

	(void)state;
	assert_int_equal(cosign_line_check(STR(WLINE), &c, STR(TEXT3), &t, NULL), 1);
	assert_int_equal(t, 1700000000);
	for (size_t i = 0; i < sizeof(line) - 1; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			line[i] = (char)(line[i] ^ (1 << bit));
			assert_int_not_equal(cosign_line_check(str_mem(line, sizeof(line) - 1), &c,
						 STR(TEXT3), &t, NULL),
			    1);
			line[i] = (char)(line[i] ^ (1 << bit));
		}
	assert_int_equal(cosign_line_check(STR(WLINE), &c,
			     STR("broker.example/test\n4\nrra8/"
				 "idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=\n"),
			     &t, NULL),
	    ERR_TAMPER);
}

static void
a_line_by_somebody_else_is_passed_over(void **state)
{
	struct cosigner c = witness();
	struct str line;
	uint64_t t = 0;

	(void)state;
	c.id[0] ^= 1;
	assert_int_equal(cosign_line_check(STR(WLINE), &c, STR(TEXT3), &t, NULL), 0);
	c = witness();
	assert_int_equal(
	    cosign_answer_parse(STR(SIG3 WLINE "\n"), &c, STR(TEXT3), &line, &t, NULL), 0);
	assert_true(str_eqz(line, WLINE));
	assert_int_equal(
	    cosign_answer_parse(STR(SIG3), &c, STR(TEXT3), &line, &t, NULL), ERR_TAMPER);
	assert_int_equal(cosign_answer_parse(STR(""), &c, STR(TEXT3), &line, &t, NULL), ERR_TAMPER);
}

/* What was cosigned is size 3 of the documented log. */
static struct cosign_log
at_three(void)
{
	struct cosign_log log = {.origin = "broker.example/test"};
	struct checkpoint cp;

	assert_int_equal(vkeys_parse(STR(LKEY), "key", &log.keys, NULL), 0);
	assert_int_equal(checkpoint_parse_text(STR(TEXT3), &cp, NULL), 0);
	log.size = cp.size;
	log.root = cp.root;
	return log;
}

static enum cosign_status
judge(const struct cosign_log *log, struct str body, enum cosign_evidence *evidence)
{
	struct cosign_request rq;
	struct checkpoint cp;

	assert_int_equal(cosign_request_parse(body, &rq, NULL), 0);
	return cosign_judge(log, &rq, &cp, evidence, NULL);
}

static void
a_head_is_cosigned_when_it_is_shown_to_extend_the_last(void **state)
{
	struct cosign_log log = at_three(), fresh = log;
	enum cosign_evidence evidence;

	(void)state;
	fresh.size = 0;
	assert_int_equal(judge(&log, STR("old 3\n" PROOF8 "\n" NOTE8), &evidence), COSIGN_OK);
	assert_int_equal(judge(&fresh, STR("old 0\n\n" NOTE8), &evidence), COSIGN_OK);
	assert_int_equal(judge(&log, STR("old 3\n\n" TEXT3 "\n" SIG3), &evidence), COSIGN_OK);
	assert_int_equal(evidence, COSIGN_NOTHING);
}

static void
whatever_else_is_refused_and_a_contradiction_is_evidence(void **state)
{
	struct cosign_log log = at_three();
	enum cosign_evidence evidence;

	(void)state;
	assert_int_equal(judge(&log, STR("old 0\n\n" NOTE8), &evidence), COSIGN_CONFLICT);
	assert_int_equal(evidence, COSIGN_NOTHING);
	assert_int_equal(judge(&log, STR("old 9\n\n" NOTE8), &evidence), COSIGN_MALFORMED);
	/* The head that was cosigned, with a proof that nobody needs. */
	assert_int_equal(
	    judge(&log, STR("old 3\n" PROOF8 "\n" TEXT3 "\n" SIG3), &evidence), COSIGN_FORK);
	assert_int_equal(evidence, COSIGN_NOTHING);
	assert_int_equal(judge(&log, STR("old 3\n\n" NOTE8), &evidence), COSIGN_FORK);
	assert_int_equal(evidence, COSIGN_UNPROVEN);
	log.root.b[0] ^= 1; /* as if other records had been cosigned */
	assert_int_equal(judge(&log, STR("old 3\n" PROOF8 "\n" NOTE8), &evidence), COSIGN_FORK);
	assert_int_equal(evidence, COSIGN_UNPROVEN);
	assert_int_equal(judge(&log, STR("old 3\n\n" TEXT3 "\n" SIG3), &evidence), COSIGN_CONFLICT);
	assert_int_equal(evidence, COSIGN_PROVEN);
	log = at_three();
	log.keys.key[0].last = 7; /* the key may not sign that size any more */
	assert_int_equal(judge(&log, STR("old 3\n" PROOF8 "\n" NOTE8), &evidence), COSIGN_UNSIGNED);
	log = at_three();
	log.keys.key[0].pub[0] ^= 1;
	assert_int_equal(judge(&log, STR("old 3\n" PROOF8 "\n" NOTE8), &evidence), COSIGN_UNSIGNED);
	assert_int_equal(evidence, COSIGN_NOTHING);
}

static void
a_request_has_one_spelling(void **state)
{
	static const char *const bad[] = {"", "old 3", "old 3\n", "old  3\n\n", "old 03\n\n",
	    "old -1\n\n", "new 3\n\n", "old 3\nAAAA\n\n", "old 3\r\n\r\n", "old 3 \n\n",
	    "old 99999999999999999999\n\n"};
	struct cosign_request rq;
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(cosign_request_parse(str_z(bad[i]), &rq, NULL), ERR_SYNTAX);
	assert_int_equal(cosign_request_parse(STR("old 3\n\nrest"), &rq, NULL), 0);
	assert_true(str_eqz(rq.note, "rest"));
	assert_true(cosign_conflict_parse(STR("19\n"), &n) && n == 19);
	assert_false(cosign_conflict_parse(STR("19"), &n));
	assert_false(cosign_conflict_parse(STR("019\n"), &n));
	assert_false(cosign_conflict_parse(STR("19\n\n"), &n));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_witness_key_is_written_as_it_was_read_and_no_log_key_is_one),
	    cmocka_unit_test(a_key_file_holds_keys_of_both_kinds_and_each_reader_takes_its_own),
	    cmocka_unit_test(the_documented_cosignature_verifies_and_any_change_does_not),
	    cmocka_unit_test(a_line_by_somebody_else_is_passed_over),
	    cmocka_unit_test(a_head_is_cosigned_when_it_is_shown_to_extend_the_last),
	    cmocka_unit_test(whatever_else_is_refused_and_a_contradiction_is_evidence),
	    cmocka_unit_test(a_request_has_one_spelling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
