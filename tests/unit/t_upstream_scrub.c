/*
 * The scrubber: each form of a secret is replaced wherever a text is cut, lengths stay, and what is
 * nearly the secret passes untouched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/upstream_scrub.h"
#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SECRET "s3cr/T+k\"y"
#define MARK "cfph_abcdefghijklmnopqrstuvwxyz"

/* Each text holds the secret once, between '<' and '>' which must stay. */
static const char *const forms[] = {
    "<" SECRET ">",
    "Bearer <" SECRET ">",
    "<s3cr%2FT%2Bk%22y>",
    "<s3cr%2fT%2bk%22y>",
    "<%73%33%63%72%2F%54%2B%6B%22%79>",
    "<s3cr/T%2Bk\"y>",
    "{\"a\":\"<s3cr/T+k\\\"y>\"}",
    "{\"a\":\"<s3cr\\/T+k\\\"y>\"}",
    "{\"a\":\"<s3cr\\u002fT\\u002Bk\\u0022y>\"}",
    "<\\u0073\\u0033\\u0063\\u0072\\u002f\\u0054\\u002b\\u006b\\u0022\\u0079>",
    "<733363722f542b6b2279>",
    "<733363722F542B6B2279>",
    "<733363722f542B6b2279>",
};

static void
run(struct scrub *s, struct str text, size_t cut, struct buf *out)
{
	scrub_feed(s, str_mem(text.p, cut), out);
	scrub_feed(s, str_mem(text.p + cut, text.n - cut), out);
	scrub_end(s, out);
}

static struct scrub *
of(const char *secret)
{
	return scrub_new(str_z(secret), false, STR(""), STR(MARK));
}

/* The text with everything between '<' and the last '>' replaced. */
static char *
masked(const char *text)
{
	char *want = xstrdup(text), *from = strchr(want, '<') + 1, *to = strrchr(want, '>');

	for (size_t i = 0; from + i < to; i++)
		from[i] = i < sizeof(MARK) - 1 ? MARK[i] : '*';
	return want;
}

static void
each_form_is_replaced_wherever_the_text_is_cut(void **state UNUSED)
{
	struct scrub *s = of(SECRET);
	uint32_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		AUTO_FREE char *want = masked(forms[i]);

		for (size_t cut = 0; cut <= strlen(forms[i]); cut++) {
			AUTO_BUF struct buf out = BUF(4096);

			run(s, str_z(forms[i]), cut, &out);
			if (!str_eqz(buf_str(&out), want))
				fail_msg(
				    "%s cut at %zu: %.*s", forms[i], cut, STR_ARG(buf_str(&out)));
			assert_int_equal(scrub_count(s), ++count);
		}
	}
	scrub_free(s);
}

/* What is left of the secret when the text is decoded again: at most its outer bits. */
static void
base64_is_replaced_at_every_alignment_in_both_alphabets(void **state UNUSED)
{
	static const char *const secrets[] = {
	    "abcdef", "tok?>tok?>", "0123456789a", "~~~~~~~~~~~~"};

	for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
		struct scrub *s = of(secrets[i]);

		for (size_t before = 0; before < 6; before++) {
			for (int url = 0; url < 2; url++) {
				AUTO_BUF struct buf plain = BUF(256), enc = BUF(256),
						    out = BUF(256), dec = BUF(256);

				buf_put(&plain, "ABCDEF", before);
				buf_put_z(&plain, secrets[i]);
				buf_put_z(&plain, "XYZ!?");
				enc_base64(&enc, buf_str(&plain));
				for (size_t k = 0; url == 1 && k < enc.n; k++)
					enc.p[k] = (uint8_t)(enc.p[k] == '+'   ? '-'
							     : enc.p[k] == '/' ? '_'
									       : enc.p[k]);
				scrub_text(s, buf_str(&enc), &out);
				assert_int_equal(out.n, enc.n);
				for (size_t k = 0; k < out.n; k++)
					if (strchr("*_-", out.p[k]) != NULL)
						out.p[k] = 'A';
				assert_true(enc_unbase64(buf_str(&out), &dec));
				for (size_t k = 1; k + 1 < strlen(secrets[i]); k++)
					if (dec.p[before + k] == (uint8_t)secrets[i][k] &&
					    dec.p[before + k + 1] == (uint8_t)secrets[i][k + 1])
						fail_msg("%s behind %zu: %.*s", secrets[i], before,
						    STR_ARG(buf_str(&out)));
			}
		}
		scrub_free(s);
	}
}

static void
escaped_base64_is_base64(void **state UNUSED)
{
	static const char *const texts[] = {
	    "<fn5\\/fn5+fn5+fn5+>", "<fn5%2ffn5%2Bfn5%2Bfn5%2B>", "<fn5_fn5-fn5-fn5->"};
	struct scrub *s = of("~~\x7f~~~~~~~~~");

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO_FREE char *want = masked(texts[i]);
		AUTO_BUF struct buf out = BUF(256);

		scrub_text(s, str_z(texts[i]), &out);
		assert_true(str_eqz(buf_str(&out), want));
	}
	scrub_free(s);
}

static void
a_basic_credential_is_one_more_form(void **state UNUSED)
{
	struct scrub *s = scrub_new(STR("open sesame"), true, STR("ali"), STR(MARK));
	AUTO_BUF struct buf out = BUF(256), want = BUF(256);

	scrub_text(s, STR("Basic YWxpOm9wZW4gc2VzYW1l."), &out);
	buf_put_z(&want, "Basic cfph_abcdefghijklmno.");
	assert_true(str_eq(buf_str(&out), buf_str(&want)));
	buf_reset(&out);
	scrub_text(s, STR("user=ali"), &out);
	assert_true(str_eqz(buf_str(&out), "user=ali"));
	scrub_free(s);
}

static void
a_space_may_be_a_plus_in_form_data(void **state UNUSED)
{
	struct scrub *s = of("open sesame");
	AUTO_BUF struct buf out = BUF(256);

	scrub_text(s, STR("<open+sesame> <open%20sesame> <open+ sesame>"), &out);
	assert_true(str_eqz(buf_str(&out), "<cfph_abcdef> <cfph_abcdefgh> <open+ sesame>"));
	scrub_free(s);
}

static void
letters_beyond_ascii_are_found_escaped(void **state UNUSED)
{
	struct scrub *s = of("gr\xc3\xbc\xc3\x9f-\xf0\x9f\x94\x91-key");
	static const char *const texts[] = {"<gr\xc3\xbc\xc3\x9f-\xf0\x9f\x94\x91-key>",
	    "<gr\\u00fc\\u00DF-\\ud83d\\udd11-key>", "<gr%C3%BC%c3%9f-%f0%9f%94%91-key>"};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO_FREE char *want = masked(texts[i]);
		AUTO_BUF struct buf out = BUF(256);

		scrub_text(s, str_z(texts[i]), &out);
		assert_true(str_eqz(buf_str(&out), want));
	}
	scrub_free(s);
}

static void
what_is_nearly_the_secret_passes(void **state UNUSED)
{
	static const char *const texts[] = {"s3cr/T+k\"", "3cr/T+k\"y", "s3cr/T+k\"Y",
	    "S3CR/T+K\"Y", "s3cr/T k\"y", "s3cr%2FT%2Bk%2y", "s3cr%252FT", "733363722f542b6b227",
	    "s3cr\\x2fT+k\"y", "s3cr\\u002gT+k\"y", "\\ud83d\\u0073\\u0033", "%%%s3cr%",
	    "\\\\\\s3cr\\", "s3cr\n/T+k\"y"};
	struct scrub *s = of(SECRET);

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO_FREE char *text = xasprintf("%s.", texts[i]);

		for (size_t cut = 0; cut <= strlen(text); cut++) {
			AUTO_BUF struct buf out = BUF(256);

			run(s, str_z(text), cut, &out);
			if (!str_eqz(buf_str(&out), text))
				fail_msg("%s cut at %zu: %.*s", text, cut, STR_ARG(buf_str(&out)));
		}
	}
	assert_int_equal(scrub_count(s), 0);
	scrub_free(s);
}

/* Broken escapes before, inside a repeated beginning, and half a surrogate pair. */
static void
the_secret_is_found_behind_what_looked_like_it(void **state UNUSED)
{
	static const char *const rows[][2] = {
	    {"aaab-aab", "aXYZ-XYZ"},
	    {"aaaaab", "aaaXYZ"},
	    {"%%61ab", "%XYZ**"},
	    {"%6%61ab", "%6XYZ**"},
	    {"%6aab", "%6XYZ"},
	    {"\\u00\\u0061ab", "\\u00XYZ*****"},
	    {"\\ud83d\\u0061ab", "\\ud83dXYZ*****"},
	    {"\\ud83d\\aab", "\\ud83d\\XYZ"},
	    {"\\ud83d\\u006aab", "\\ud83d\\u006XYZ"},
	    {"\\ud83d\\ud83d\\u0061ab", "\\ud83d\\ud83dXYZ*****"},
	    {"\\\\aab", "\\\\XYZ"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scrub *s = scrub_new(STR("aab"), false, STR(""), STR("XYZ"));

		for (size_t cut = 0; cut <= strlen(rows[i][0]); cut++) {
			AUTO_BUF struct buf out = BUF(256);

			run(s, str_z(rows[i][0]), cut, &out);
			if (!str_eqz(buf_str(&out), rows[i][1]))
				fail_msg("%s: %.*s", rows[i][0], STR_ARG(buf_str(&out)));
		}
		scrub_free(s);
	}
}

static void
overlapping_matches_are_one_run(void **state UNUSED)
{
	struct scrub *s = scrub_new(STR("aabaaba"), false, STR(""), STR("12"));
	AUTO_BUF struct buf out = BUF(256);

	scrub_text(s, STR("-aabaabaaba-aabaaba-"), &out);
	assert_true(str_eqz(buf_str(&out), "-12********-12*****-"));
	assert_int_equal(scrub_count(s), 2);
	scrub_free(s);
}

static void
a_short_secret_is_not_looked_for_in_hex_and_base64(void **state UNUSED)
{
	struct scrub *s = of("abcde"), *six = of("abcdef");
	AUTO_BUF struct buf out = BUF(256);

	scrub_text(s, STR("abcde 6162636465 YWJjZGU= %61bcde"), &out);
	assert_true(str_eqz(buf_str(&out), "cfph_ 6162636465 YWJjZGU= cfph_ab"));
	buf_reset(&out);
	scrub_text(six, STR("616263646566 YWJjZGVm"), &out);
	assert_true(str_eqz(buf_str(&out), "cfph_abcdefg cfph_abc"));
	scrub_free(s);
	scrub_free(six);
}

static void
a_text_that_ends_within_the_secret_does_not_give_half_of_it(void **state UNUSED)
{
	struct scrub *s = of("0123456789abcdef");
	AUTO_BUF struct buf out = BUF(256);

	scrub_text(s, STR("token 01234567"), &out);
	assert_true(str_eqz(buf_str(&out), "token cfph_abc"));
	buf_reset(&out);
	scrub_text(s, STR("token 0123456"), &out);
	assert_true(str_eqz(buf_str(&out), "token 0123456"));
	buf_reset(&out);
	scrub_feed(s, STR("token 01234567"), &out);
	scrub_feed(s, STR("!"), &out);
	assert_true(str_eqz(buf_str(&out), "token 01234567!"));
	scrub_free(s);
}

static void
nothing_waits_that_cannot_be_a_beginning(void **state UNUSED)
{
	struct scrub *s = of(SECRET);
	AUTO_BUF struct buf out = BUF(4096);

	scrub_feed(s, STR("data: {\"delta\":\"hello\"}\n\n"), &out);
	assert_int_equal(out.n, 25);
	buf_reset(&out);
	/* "s3c" may go on; ahead of it all has gone. */
	scrub_feed(s, STR("token s3c"), &out);
	assert_true(str_eqz(buf_str(&out), "token "));
	scrub_feed(s, STR("!"), &out);
	assert_true(str_eqz(buf_str(&out), "token s3c!"));
	scrub_free(s);
}

static void
the_longest_secret_fully_escaped_is_replaced(void **state UNUSED)
{
	AUTO_BUF struct buf secret = BUF(UPSTREAM_SECRET_MAX), text = BUF(1 << 18),
			    out = BUF(1 << 18);
	struct scrub *s;

	for (size_t i = 0; i < UPSTREAM_SECRET_MAX; i++)
		buf_put_c(&secret, (char)('!' + i * i % 89));
	for (size_t i = 0; i < secret.n; i++)
		buf_printf(&text, "\\u%04x", secret.p[i]);
	s = scrub_new(buf_str(&secret), true, STR("u"), STR(""));
	for (size_t i = 0; i < text.n; i += 1000)
		scrub_feed(s, str_mem(text.p + i, text.n - i < 1000 ? text.n - i : 1000), &out);
	scrub_end(s, &out);
	assert_int_equal(out.n, text.n);
	for (size_t i = 0; i < out.n; i++)
		assert_int_equal(out.p[i], '*');
	scrub_free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_form_is_replaced_wherever_the_text_is_cut),
	    cmocka_unit_test(base64_is_replaced_at_every_alignment_in_both_alphabets),
	    cmocka_unit_test(escaped_base64_is_base64),
	    cmocka_unit_test(a_basic_credential_is_one_more_form),
	    cmocka_unit_test(a_space_may_be_a_plus_in_form_data),
	    cmocka_unit_test(letters_beyond_ascii_are_found_escaped),
	    cmocka_unit_test(what_is_nearly_the_secret_passes),
	    cmocka_unit_test(the_secret_is_found_behind_what_looked_like_it),
	    cmocka_unit_test(overlapping_matches_are_one_run),
	    cmocka_unit_test(a_short_secret_is_not_looked_for_in_hex_and_base64),
	    cmocka_unit_test(a_text_that_ends_within_the_secret_does_not_give_half_of_it),
	    cmocka_unit_test(nothing_waits_that_cannot_be_a_beginning),
	    cmocka_unit_test(the_longest_secret_fully_escaped_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
