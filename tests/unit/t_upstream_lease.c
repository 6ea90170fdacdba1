/* What upstream takes from core as a request to send: each refusal one change to a lease that is
 * good, and beside it the nearest that is good too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "audit/blob.h"
#include "broker/upstream_http_lease.h"

#include "common/banned.h"

static const struct upstream_lease good = {
    .run = STR("r-1"),
    .tls = true,
    .host = STR("api.test"),
    .port = 443,
    .method = STR("POST"),
    .target = STR("/v1/x?y=z"),
    .fields = {{STR("Accept"), STR("*/*")}},
    .nfields = 1,
};
static struct upstream_lease l;
static char long_[UPSTREAM_SECRET_MAX + HTTP_TARGET_MAX + 2];

#define LONG(n) str_mem(long_, (n))
#define WITH(rc, ...)                                                             \
	do {                                                                      \
		struct err err_ = {0};                                            \
		l = good;                                                         \
		__VA_ARGS__;                                                      \
		if (lease_check(&l, &err_) != (rc))                               \
			fail_msg("%s: %d %s", #__VA_ARGS__, err_.code, err_.msg); \
	} while (0)
#define BAD(...) WITH(ERR_CONFIG, __VA_ARGS__)
#define GOOD(...) WITH(0, __VA_ARGS__)

static int
setup(void **state UNUSED)
{
	memset(long_, 'x', sizeof(long_));
	return 0;
}

static void
a_host_stands_in_its_one_spelling_with_a_port(void **state UNUSED)
{
	GOOD((void)0);
	BAD(l.port = 0);
	BAD(l.port = 65536);
	GOOD(l.port = 65535);
	WITH(ERR_SYNTAX, l.host = STR(""));
	BAD(l.host = STR("API.test"));
	BAD(l.host = STR("api.test:443"));
	GOOD(l.host = STR("10.0.0.1"));
	GOOD(l.host = STR("2001:db8::1"));
	BAD(l.nnetworks = UPSTREAM_NETS_MAX + 1);
	GOOD(l.nnetworks = UPSTREAM_NETS_MAX);
}

#define VIA l.via = LEASE_VIA_HTTP, l.via_host = STR("proxy.test"), l.via_port = 3128
#define VIA_AUTH VIA, l.via_secret = STR("s"), l.via_user = STR("u")

static void
a_proxy_is_for_tls_and_its_credential_has_a_form(void **state UNUSED)
{
	BAD(l.via_host = STR("proxy.test"));
	GOOD(VIA);
	BAD(VIA, l.via_port = 0);
	BAD(VIA, l.tls = false);
	BAD(VIA, l.address = STR("10.0.0.1"));
	BAD(VIA, l.nnetworks = 1);
	GOOD(VIA_AUTH);
	GOOD(VIA_AUTH, l.via_secret = LONG(UPSTREAM_SECRET_MAX), l.via_user = l.via_secret);
	BAD(VIA_AUTH, l.via_secret = LONG(UPSTREAM_SECRET_MAX + 1));
	BAD(VIA_AUTH, l.via_user = LONG(UPSTREAM_SECRET_MAX + 1));
	BAD(VIA_AUTH, l.via_secret = STR(""));
	BAD(VIA_AUTH, l.via_user = STR("u:v"));
	GOOD(VIA_AUTH, l.via_secret = STR("u:v"));
	BAD(VIA_AUTH, l.via_user = str_mem("u\0v", 3));
	BAD(VIA_AUTH, l.via_secret = str_mem("u\0v", 3));
}

static void
a_head_is_of_the_form_and_has_no_field_of_ours(void **state UNUSED)
{
	BAD(l.method = STR("PO ST"));
	BAD(l.method = LONG(HTTP_METHOD_MAX + 1));
	GOOD(l.method = LONG(HTTP_METHOD_MAX));
	BAD(l.method = STR("CONNECT"));
	BAD(l.target = STR(""));
	BAD(l.target = STR("x"));
	GOOD(l.target = STR("*"));
	BAD(l.target = STR("/a b"));
	BAD(l.target = STR("/\x7f"));
	BAD(l.target = STR("/a#b"));
	GOOD(l.target = STR("/~"));
	long_[0] = '/';
	BAD(l.target = LONG(HTTP_TARGET_MAX + 1));
	GOOD(l.target = LONG(HTTP_TARGET_MAX));
	long_[0] = 'x';
	BAD(l.fields[0].name = STR("Acc ept"));
	BAD(l.fields[0].value = STR("a\nb"));
	BAD(l.fields[0].value = STR("a "));
	GOOD(l.fields[0].value = STR("a b"));
	BAD(l.fields[0].name = STR("host"));
	BAD(l.fields[0].name = STR("content-length"));
	BAD(l.fields[0].name = STR("expect"));
	BAD(l.fields[0].name = STR("transfer-encoding"));
	GOOD(l.fields[0].name = STR("authorization"));
	BAD(l.credential = LEASE_BEARER, l.secret = STR("s"),
	    l.fields[0].name = STR("authorization"));
	BAD(l.credential = LEASE_HEADER, l.secret = STR("s"), l.field = STR("X-Key"),
	    l.fields[0].name = STR("x-key"));
	GOOD(l.credential = LEASE_HEADER, l.secret = STR("s"), l.field = STR("X-Key"));
}

static void
a_body_is_as_long_as_it_says(void **state UNUSED)
{
	BAD(l.length = 1);
	BAD(l.content = STR("x"));
	BAD(l.body = LEASE_SEALED, l.length = 1, l.content = STR("x"));
	GOOD(l.body = LEASE_SEALED, l.length = 1);
	BAD(l.body = LEASE_INLINE, l.length = 2, l.content = STR("x"));
	GOOD(l.body = LEASE_INLINE, l.length = 1, l.content = STR("x"));
	BAD(l.body = LEASE_STREAM, l.length = (uint64_t)INT64_MAX + 1);
	GOOD(l.body = LEASE_STREAM, l.length = INT64_MAX);
	WITH(ERR_UNSUPPORTED, l.method = STR("HEAD"), l.body = LEASE_STREAM, l.length = 1);
	GOOD(l.method = STR("HEAD"), l.body = LEASE_STREAM);
}

#define AS(kind) l.credential = LEASE_##kind, l.secret = STR("s3cr3t")

static void
a_credential_can_stand_where_it_goes(void **state UNUSED)
{
	BAD(AS(BEARER), l.secret = STR(""));
	BAD(AS(BEARER), l.secret = LONG(UPSTREAM_SECRET_MAX + 1));
	GOOD(AS(BEARER), l.secret = LONG(UPSTREAM_SECRET_MAX));
	BAD(AS(BEARER), l.secret = STR("a\r\nX: y"));
	BAD(AS(BEARER), l.secret = STR("a "));
	GOOD(AS(BASIC), l.user = STR("u"), l.secret = STR("a:b"));
	BAD(AS(BASIC), l.user = STR("u:v"));
	BAD(AS(BASIC), l.user = LONG(UPSTREAM_SECRET_MAX + 1));
	BAD(AS(HEADER), l.field = STR("X Key"));
	BAD(AS(HEADER), l.field = STR("Connection"));
	BAD(AS(HEADER), l.field = STR("Host"));
	BAD(AS(HEADER), l.field = STR("X-Key"), l.secret = STR("a\nb"));
	GOOD(AS(QUERY), l.field = STR("key"));
	BAD(AS(QUERY), l.field = STR(""));
	BAD(AS(QUERY), l.field = STR("k y"));
	BAD(AS(QUERY), l.field = STR("k\x7fy"));
	BAD(AS(QUERY), l.field = STR("k&y"));
	BAD(AS(QUERY), l.field = STR("key"), l.target = STR("*"));
}

#define OTHER l.nothers = 1, l.others[0].secret = STR("s")

static void
other_credentials_of_the_run_have_a_size(void **state UNUSED)
{
	GOOD(OTHER);
	BAD(OTHER, l.others[0].secret = STR(""));
	BAD(OTHER, l.others[0].secret = LONG(UPSTREAM_SECRET_MAX + 1));
	BAD(OTHER, l.others[0].user = LONG(UPSTREAM_SECRET_MAX + 1));
	GOOD(OTHER, l.others[0].user = LONG(UPSTREAM_SECRET_MAX));
}

#define SEAL \
	l.seal = 1, l.kid = STR("k"), l.blob_key = LONG(BLOB_KEY_LEN), l.wrap = LONG(BLOB_WRAP_LEN)

static void
an_answer_is_sealed_with_a_key_or_not_at_all(void **state UNUSED)
{
	GOOD(SEAL);
	BAD(SEAL, l.kid = STR(""));
	BAD(SEAL, l.blob_key = LONG(BLOB_KEY_LEN - 1));
	BAD(SEAL, l.wrap = LONG(BLOB_WRAP_LEN - 1));
}

#define FILES                                                                     \
	l.via = LEASE_VIA_FILES, l.via_host = STR("docs"), l.method = STR("GET"), \
	l.host = STR("d.test")

static void
a_directory_is_read_without_credential_body_and_address(void **state UNUSED)
{
	GOOD(FILES);
	GOOD(FILES, l.method = STR("HEAD"));
	BAD(FILES, l.method = STR("POST"));
	BAD(FILES, l.via_host = STR(""));
	BAD(FILES, l.via_host = LONG(65));
	BAD(FILES, l.via_host = str_mem("d\0s", 3));
	BAD(FILES, l.body = LEASE_SEALED);
	BAD(FILES, AS(BEARER));
	BAD(FILES, l.address = STR("10.0.0.1"));
	BAD(FILES, l.nnetworks = 1);
	BAD(FILES, l.via_secret = STR("s"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_host_stands_in_its_one_spelling_with_a_port),
	    cmocka_unit_test(a_proxy_is_for_tls_and_its_credential_has_a_form),
	    cmocka_unit_test(a_head_is_of_the_form_and_has_no_field_of_ours),
	    cmocka_unit_test(a_body_is_as_long_as_it_says),
	    cmocka_unit_test(a_credential_can_stand_where_it_goes),
	    cmocka_unit_test(other_credentials_of_the_run_have_a_size),
	    cmocka_unit_test(an_answer_is_sealed_with_a_key_or_not_at_all),
	    cmocka_unit_test(a_directory_is_read_without_credential_body_and_address),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
