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
one(const struct scrub_secret *s)
{
	return scrub_new(scrub_set_new(s, 1));
}

static struct scrub *
of(const char *secret)
{
	return one(&(struct scrub_secret){.secret = str_z(secret), .placeholder = STR(MARK)});
}

static struct scrub *
with_mark(const char *secret, const char *mark)
{
	return one(&(struct scrub_secret){.secret = str_z(secret), .placeholder = str_z(mark)});
}

static struct scrub *
basic(struct str secret, const char *user, const char *mark)
{
	return one(&(struct scrub_secret){secret, str_z(user), str_z(mark), true});
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
	struct scrub *s = basic(STR("open sesame"), "ali", MARK);
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
		struct scrub *s = with_mark("aab", "XYZ");

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
	struct scrub *s = with_mark("aabaaba", "12");
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
	s = basic(buf_str(&secret), "u", "");
	for (size_t i = 0; i < text.n; i += 1000)
		scrub_feed(s, str_mem(text.p + i, text.n - i < 1000 ? text.n - i : 1000), &out);
	scrub_end(s, &out);
	assert_int_equal(out.n, text.n);
	for (size_t i = 0; i < out.n; i++)
		assert_int_equal(out.p[i], '*');
	scrub_free(s);
}

/* --- several secrets --------------------------------------------------------------- */

static struct scrub *
many(const struct scrub_secret *s, size_t n)
{
	return scrub_new(scrub_set_new(s, n));
}

static void
each_of_several_secrets_is_replaced_by_its_own_placeholder(void **state UNUSED)
{
	static const struct scrub_secret secrets[] = {
	    {STR("first-secret"), STR(""), STR("cfph_one"), false},
	    {STR("other secret"), STR("bob"), STR("cfph_two"), true},
	    {STR("third"), STR(""), STR("cfph_three"), false},
	};
	static const char *const rows[][2] = {
	    {"a first-secret, other secret, third.", "a cfph_one****, cfph_two****, cfph_."},
	    {"first-secretother secretthird", "cfph_one****cfph_two****cfph_"},
	    {"thirdthird first-secrefirst-secret", "cfph_three first-secrecfph_one****"},
	    {"other+secret %66irst-secret \\u0074hird", "cfph_two**** cfph_one****** cfph_three"},
	    {"Basic Ym9iOm90aGVyIHNlY3JldA==", "Basic cfph_two**************=="},
	    {"66697273742d736563726574", "cfph_one****************"},
	    {"first-secret", "cfph_one****"},
	    {"thirt other-secret first", "thirt other-secret first"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t cut = 0; cut <= strlen(rows[i][0]); cut++) {
			struct scrub *s = many(secrets, ARRAY_LEN(secrets));
			AUTO_BUF struct buf out = BUF(4096);

			run(s, str_z(rows[i][0]), cut, &out);
			if (!str_eqz(buf_str(&out), rows[i][1]))
				fail_msg(
				    "%s cut at %zu: %.*s", rows[i][0], cut, STR_ARG(buf_str(&out)));
			scrub_free(s);
		}
	}
}

/* In whichever order they are told; no byte of a match may stay because another owns its ends. */
static void
secrets_that_overlap_are_replaced_as_a_whole(void **state UNUSED)
{
	static const struct {
		const char *a, *b, *text, *want;
	} rows[] = {
	    {"abcdef", "abcdefghi", "-abcdefghi-abcdefgh-", "-BBBBBBBBB-AAAAAAgh-"},
	    {"efghij", "abcdefghij", "-abcdefghij-xefghij-", "-BBBBBBBBBB-xAAAAAA-"},
	    {"cdefgh", "abcdefghij", "-abcdefghij-", "-BBBBBBBBBB-"},
	    {"abcdef", "defghi", "-abcdefghi-", "-AAABBBBBB-"},
	    {"x", "xyzx", "-xyzx-xyx-", "-BBBB-AyA-"},
	    {"ab", "abzzab", "-ab%7azab-", "-BBBBBBBB-"},
	    {"abcdef", "abcdef", "-abcdef-", "-AAAAAA-"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scrub_secret pair[2] = {
		    {.secret = str_z(rows[i].a), .placeholder = STR("AAAAAAAAAAAA")},
		    {.secret = str_z(rows[i].b), .placeholder = STR("BBBBBBBBBBBB")}};

		for (int turn = 0; turn < 2; turn++) {
			struct scrub *s = many(pair, 2);
			struct scrub_secret first = pair[0];

			for (size_t cut = 0; cut <= strlen(rows[i].text); cut++) {
				AUTO_BUF struct buf out = BUF(256);

				run(s, str_z(rows[i].text), cut, &out);
				if (!str_eqz(buf_str(&out), rows[i].want))
					fail_msg("%s, cut at %zu, turn %d: %.*s", rows[i].text, cut,
					    turn, STR_ARG(buf_str(&out)));
			}
			scrub_free(s);
			if (strcmp(rows[i].a, rows[i].b) == 0)
				break;
			pair[0] = pair[1];
			pair[1] = first;
		}
	}
}

static void
a_full_set_of_secrets_is_found(void **state UNUSED)
{
	struct scrub_secret secrets[SCRUB_SECRETS_MAX] = {0};
	char *text[SCRUB_SECRETS_MAX];
	struct scrub *s;

	for (size_t i = 0; i < SCRUB_SECRETS_MAX; i++) {
		text[i] = xasprintf("token-%zu/of-the-run %zu", i * 7919, i);
		secrets[i] =
		    (struct scrub_secret){str_z(text[i]), STR("user"), STR("cfph_"), i % 2 == 0};
	}
	s = many(secrets, SCRUB_SECRETS_MAX);
	for (size_t i = 0; i < SCRUB_SECRETS_MAX; i++) {
		AUTO_BUF struct buf in = BUF(4096), out = BUF(4096);

		buf_put_z(&in, text[i]);
		buf_put_c(&in, '\n');
		enc_hex(&in, str_z(text[i]));
		buf_put_c(&in, '\n');
		enc_base64(&in, str_z(text[i]));
		scrub_text(s, buf_str(&in), &out);
		assert_int_equal(out.n, in.n);
		assert_int_equal(scrub_count(s), 3 * (i + 1));
		for (size_t k = 0; k < in.n; k++)
			if (in.p[k] != '\n' && in.p[k] != '=')
				assert_int_not_equal(memchr("cfph_*", out.p[k], 6), NULL);
	}
	scrub_free(s);
	for (size_t i = 0; i < SCRUB_SECRETS_MAX; i++)
		free(text[i]);
}

/* --- sets that are kept ------------------------------------------------------------ */

static struct scrub_set *
get(struct scrub_sets *c, const char *secret, const char *user, bool with_user)
{
	return scrub_sets_get(
	    c, &(struct scrub_secret){str_z(secret), str_z(user), STR("cfph_"), with_user}, 1);
}

static void
the_same_secrets_are_one_set_and_others_are_not(void **state UNUSED)
{
	struct scrub_sets *c = scrub_sets_new();
	struct scrub_set *a = get(c, "secret-a", "", false), *same = get(c, "secret-a", "", false);
	struct scrub_set *others[] = {get(c, "secret-b", "", false), get(c, "secret-a", "", true),
	    get(c, "secret-a", "u", true)};

	assert_ptr_equal(a, same);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		assert_ptr_not_equal(a, others[i]);
		scrub_set_drop(others[i]);
	}
	scrub_set_drop(a);
	scrub_set_drop(same);
	a = get(c, "secret-a", "", false);
	assert_ptr_equal(a, same); /* kept, and readable again */
	for (int i = 0; i < 2; i++) {
		struct scrub *s;
		AUTO_BUF struct buf out = BUF(256);

		s = scrub_new(i == 0 ? a : get(c, "secret-a", "", false));
		scrub_text(s, STR("secret-a"), &out);
		assert_true(str_eqz(buf_str(&out), "cfph_***"));
		scrub_free(s);
	}
	scrub_sets_free(c);
}

static void
what_is_kept_has_a_limit_and_what_is_in_use_lives_on(void **state UNUSED)
{
	struct scrub_sets *c = scrub_sets_new();
	struct scrub *s = scrub_new(get(c, "the first", "", false));
	AUTO_BUF struct buf out = BUF(256);

	for (size_t i = 0; i < 3 * SCRUB_SETS_MAX; i++) {
		AUTO_FREE char *secret = xasprintf("secret %zu", i);

		scrub_set_drop(get(c, secret, "", false));
	}
	assert_int_equal(scrub_sets_sweep(c), SCRUB_SETS_MAX);
	scrub_text(s, STR("the first"), &out);
	assert_true(str_eqz(buf_str(&out), "cfph_****"));
	scrub_set_drop(get(c, "secret 47", "", false));
	assert_int_equal(scrub_sets_sweep(c), 1); /* nobody asked for the others */
	assert_int_equal(scrub_sets_sweep(c), 0);
	scrub_free(s);
	s = scrub_new(get(c, "the last", "", false));
	assert_int_equal(scrub_sets_sweep(c), 1);
	assert_int_equal(scrub_sets_sweep(c), 1); /* it is in use */
	scrub_sets_free(c);
	buf_reset(&out);
	scrub_text(s, STR("the last"), &out);
	assert_true(str_eqz(buf_str(&out), "cfph_***"));
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
	    cmocka_unit_test(each_of_several_secrets_is_replaced_by_its_own_placeholder),
	    cmocka_unit_test(secrets_that_overlap_are_replaced_as_a_whole),
	    cmocka_unit_test(a_full_set_of_secrets_is_found),
	    cmocka_unit_test(the_same_secrets_are_one_set_and_others_are_not),
	    cmocka_unit_test(what_is_kept_has_a_limit_and_what_is_in_use_lives_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
