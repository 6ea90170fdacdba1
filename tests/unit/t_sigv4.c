/*
 * Signatures of AWS: the examples of its documentation ("Create a signed AWS API request" with
 * IAM's ListUsers; "Signature Calculations for the Authorization Header" of S3: GET bucket
 * lifecycle, GET bucket, chunked upload) and of its test suite (get-vanilla and others).
 * tests/system/85-aws-vectors.t holds the same code against botocore.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "broker/upstream_rechunk.h"
#include "broker/upstream_sigv4.h"
#include "common/awschunk.h"

#include "common/banned.h"

#define IAM_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define T_2015 1440938160 /* 20150830T123600Z */
#define T_2013 1369353600 /* 20130524T000000Z */

static struct sigv4_scope
scope_of(int64_t t, const char *region, const char *service)
{
	struct sigv4_scope s;
	struct err err = {0};

	assert_int_equal(sigv4_scope(t, str_z(region), str_z(service), &s, &err), 0);
	return s;
}

static void
derived_key_is_that_of_the_documentation(void **state)
{
	struct sigv4_scope s = scope_of(T_2015, "us-east-1", "iam");
	AUTO_BUF struct buf hex = BUF(128);
	uint8_t key[SIGV4_KEY_LEN];

	(void)state;
	sigv4_key(&s, STR(IAM_SECRET), key);
	enc_hex(&hex, str_mem(key, sizeof(key)));
	assert_true(str_eqz(
	    buf_str(&hex), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"));
	assert_string_equal(s.date, "20150830T123600Z");
	assert_string_equal(s.text, "20150830/us-east-1/iam/aws4_request");
}

struct example {
	const char *method, *target, *host, *region, *service, *secret, *payload;
	int64_t t;
	struct http_field f[3];
	const char *signature;
};

static void
examples_of_the_documentation_are_signed_so(void **state)
{
	static const struct example examples[] = {
	    {"GET", "/?Action=ListUsers&Version=2010-05-08", "iam.amazonaws.com", "us-east-1",
		"iam", IAM_SECRET, EMPTY, T_2015,
		{{STR("Content-Type"), STR("application/x-www-form-urlencoded; charset=utf-8")},
		    {STR("X-Amz-Date"), STR("20150830T123600Z")}},
		"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
	    {"GET", "/", "example.amazonaws.com", "us-east-1", "service", IAM_SECRET, EMPTY, T_2015,
		{{STR("X-Amz-Date"), STR("20150830T123600Z")}},
		"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	    {"GET", "/?Param2=value2&Param1=value1", "example.amazonaws.com", "us-east-1",
		"service", IAM_SECRET, EMPTY, T_2015,
		{{STR("X-Amz-Date"), STR("20150830T123600Z")}},
		"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	    {"GET", "/example/..", "example.amazonaws.com", "us-east-1", "service", IAM_SECRET,
		EMPTY, T_2015, {{STR("X-Amz-Date"), STR("20150830T123600Z")}},
		"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	    {"POST", "/", "example.amazonaws.com", "us-east-1", "service", IAM_SECRET, EMPTY,
		T_2015, {{STR("X-Amz-Date"), STR("20150830T123600Z")}},
		"5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	    {"GET", "/?lifecycle", "examplebucket.s3.amazonaws.com", "us-east-1", "s3", S3_SECRET,
		EMPTY, T_2013,
		{{STR("x-amz-content-sha256"), STR(EMPTY)},
		    {STR("x-amz-date"), STR("20130524T000000Z")}},
		"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
	    {"GET", "/?max-keys=2&prefix=J", "examplebucket.s3.amazonaws.com", "us-east-1", "s3",
		S3_SECRET, EMPTY, T_2013,
		{{STR("x-amz-content-sha256"), STR(EMPTY)},
		    {STR("x-amz-date"), STR("20130524T000000Z")}},
		"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
		const struct example *e = &examples[i];
		struct sigv4_scope s = scope_of(e->t, e->region, e->service);
		AUTO_BUF struct buf canonical = BUF(8192), names = BUF(1024);
		struct sigv4_request r = {.method = str_z(e->method),
		    .target = str_z(e->target),
		    .host = str_z(e->host),
		    .fields = e->f,
		    .payload = str_z(e->payload),
		    .s3 = strcmp(e->service, "s3") == 0};
		uint8_t key[SIGV4_KEY_LEN];
		char signature[HASH_HEX_SIZE];

		while (r.nfields < ARRAY_LEN(e->f) && e->f[r.nfields].name.n != 0)
			r.nfields++;
		sigv4_key(&s, str_z(e->secret), key);
		sigv4_canonical(&r, &canonical, &names);
		sigv4_sign(&s, key, buf_str(&canonical), signature);
		assert_string_equal(signature, e->signature);
	}
}

static void
what_belongs_to_one_connection_is_not_signed(void **state)
{
	static const struct http_field f[] = {{STR("Connection"), STR("close")},
	    {STR("Expect"), STR("100-continue")}, {STR("X-Amz-"), STR("nameless")},
	    {STR("X-Amz-B"), STR(" a  b\t c ")}, {STR("User-Agent"), STR("x")},
	    {STR("x-amz-b"), STR("d")}, {STR("X-AMZ-A"), STR("1")}};
	struct sigv4_request r = {.method = STR("GET"),
	    .target = STR("/a//b/./c%2Fd/"),
	    .host = STR("h"),
	    .fields = f,
	    .nfields = ARRAY_LEN(f),
	    .payload = STR("P")};
	AUTO_BUF struct buf canonical = BUF(8192), names = BUF(1024);

	(void)state;
	sigv4_canonical(&r, &canonical, &names);
	assert_true(str_eqz(buf_str(&canonical),
	    "GET\n/a/b/c%252Fd/\n\nhost:h\nx-amz-a:1\nx-amz-b:a b c,d\n\nhost;x-amz-a;x-amz-b\nP"));
}

static void
a_time_that_is_none_is_refused(void **state)
{
	struct sigv4_scope s;
	struct err err = {0};

	(void)state;
	assert_int_equal(sigv4_scope(-1, STR("r"), STR("s"), &s, &err), ERR_INVALID);
	assert_int_equal(sigv4_scope(INT64_MAX, STR("r"), STR("s"), &s, &err), ERR_INVALID);
	assert_int_equal(sigv4_scope(0, STR("r"), STR("s"), &s, &err), 0);
	assert_string_equal(s.date, "19700101T000000Z");
}

/* --- chunks ----------------------------------------------------------------------- */

static void
put_chunks(struct buf *b, struct str content, size_t size)
{
	while (true) {
		size_t n = content.n < size ? content.n : size;

		buf_printf(b, "%zX;chunk-signature=%064d\r\n", n, 0);
		buf_put(b, content.p, n);
		buf_put_z(b, "\r\n");
		content.p += n;
		content.n -= n;
		if (n == 0)
			return;
	}
}

/* The whole of `raw` in pieces of `step`; what goes out is appended. */
static int
pass(struct rechunk *r, struct str raw, size_t step, struct buf *out, struct err *err)
{
	int rc = 0;

	for (;;) {
		uint8_t to[1000];
		size_t n = rechunk_take(r, to, sizeof(to));

		buf_put(out, to, n);
		if (n != 0)
			continue;
		if (rechunk_ended(r))
			return 0;
		n = raw.n < step ? raw.n : step;
		rc = n != 0 ? rechunk_put(r, str_mem(raw.p, n), err) : rechunk_end(r, err);
		if (rc != 0)
			return rc;
		raw.p += n;
		raw.n -= n;
	}
}

static struct rechunk *
rechunk(uint64_t length)
{
	static const char seed[] =
	    "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
	struct sigv4_scope s = scope_of(T_2013, "us-east-1", "s3");
	uint8_t key[SIGV4_KEY_LEN];

	sigv4_key(&s, STR(S3_SECRET), key);
	return rechunk_new(&s, key, seed, length);
}

static void
chunks_of_the_documentation_are_signed_so_however_they_come(void **state)
{
	static const size_t sizes[] = {100, 8192, 65536, 70000};
	AUTO_BUF struct buf content = BUF(100000);

	(void)state;
	for (int i = 0; i < 66560; i++)
		buf_put_c(&content, 'a');
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		AUTO_BUF struct buf raw = BUF(300000), out = BUF(100000);
		struct rechunk *r = rechunk(content.n);
		struct err err = {0};

		put_chunks(&raw, buf_str(&content), sizes[i]);
		assert_int_equal(
		    pass(r, buf_str(&raw), i % 2 == 0 ? 1 : RECHUNK_PUT_MAX, &out, &err), 0);
		rechunk_free(r);
		assert_int_equal(out.n, 66824); /* as the documentation counts */
		assert_int_equal(out.n, rechunk_length(content.n));
		assert_true(str_has_prefix(buf_str(&out),
		    "10000;chunk-signature="
		    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\naaa"));
		assert_non_null(memmem(out.p, out.n,
		    "\r\n400;chunk-signature="
		    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\naaa",
		    90));
		assert_true(str_has_suffix(buf_str(&out),
		    "\r\n0;chunk-signature="
		    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"));
	}
}

static void
length_on_the_wire_is_known_before(void **state)
{
	static const size_t lengths[] = {0, 1, 15, 16, 65535, 65536, 65537, 131072, 200000};
	AUTO_BUF struct buf content = BUF(200000);

	(void)state;
	for (size_t i = 0; i < content.max; i++)
		buf_put_c(&content, 'x');
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		AUTO_BUF struct buf raw = BUF(300000), out = BUF(300000), back = BUF(200000);
		struct rechunk *r = rechunk(lengths[i]);
		struct err err = {0};

		put_chunks(&raw, str_mem(content.p, lengths[i]), 10000);
		assert_int_equal(pass(r, buf_str(&raw), 777, &out, &err), 0);
		rechunk_free(r);
		assert_int_equal(out.n, rechunk_length(lengths[i]));
		assert_int_equal(awschunk_read(buf_str(&out), lengths[i], &back, &err), 0);
		assert_int_equal(back.n, lengths[i]);
	}
}

static void
what_is_not_in_signed_chunks_does_not_become_whole(void **state)
{
#define SIG ";chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\r\n"
	static const struct {
		const char *raw;
		uint64_t length;
	} cases[] = {
	    {"5" SIG "hello\r\n0" SIG "\r\n", 4},
	    {"5" SIG "hello\r\n0" SIG "\r\n", 6},
	    {"5" SIG "hello\r\n0" SIG "\r\nx", 5},
	    {"5" SIG "hello\r\n0" SIG "\r", 5},
	    {"5" SIG "hello\r\n", 5},
	    {"5" SIG "hell\r\n0" SIG "\r\n", 5},
	    {"5" SIG "hello!\r\n0" SIG "\r\n", 5},
	    {"5\r\nhello\r\n0\r\n\r\n", 5},
	    {"-5" SIG "hello\r\n0" SIG "\r\n", 5},
	    {SIG "hello\r\n0" SIG "\r\n", 5},
	    {"10000000000000005" SIG "hello\r\n0" SIG "\r\n", 5},
	    {"5;chunk-signature=00\r\nhello\r\n0" SIG "\r\n", 5},
	    {"5;chunk-signature=z000000000000000000000000000000000000000000000000000000000000000"
	     "\r\nhello\r\n0" SIG "\r\n",
		5},
	    {"5\n" SIG "hello\r\n0" SIG "\r\n", 5},
	    {"", 0},
	};
	AUTO_BUF struct buf whole = BUF(1000);
	struct err err = {0};
	struct rechunk *r = rechunk(5);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_BUF struct buf out = BUF(1000), all = BUF(1000);
		struct rechunk *bad = rechunk(cases[i].length);

		assert_int_equal(pass(bad, str_z(cases[i].raw), 7, &out, &err), ERR_STATE);
		rechunk_free(bad);
		assert_true(out.n < rechunk_length(cases[i].length));
		assert_int_equal(
		    awschunk_read(str_z(cases[i].raw), cases[i].length, &all, &err), ERR_SYNTAX);
	}
	assert_int_equal(pass(r, STR("5" SIG "hello\r\n0" SIG "\r\n"), 7, &whole, &err), 0);
	rechunk_free(r);
	assert_int_equal(awschunk_read(STR("5" SIG "hello\r\n0" SIG "\r\n"), 5, NULL, &err), 0);
#undef SIG
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(derived_key_is_that_of_the_documentation),
	    cmocka_unit_test(examples_of_the_documentation_are_signed_so),
	    cmocka_unit_test(what_belongs_to_one_connection_is_not_signed),
	    cmocka_unit_test(a_time_that_is_none_is_refused),
	    cmocka_unit_test(chunks_of_the_documentation_are_signed_so_however_they_come),
	    cmocka_unit_test(length_on_the_wire_is_known_before),
	    cmocka_unit_test(what_is_not_in_signed_chunks_does_not_become_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
