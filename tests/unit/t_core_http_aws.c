/* Requests that are signed for AWS, in core: what is leased, what people sign, what is refused. */
#include "tests/unit/core_http_help.h"

#include "common/banned.h"

#define L_AWS 20
#define ID "AKIA0000000000000001"
#define KEY "s3cr3t/key"
#define TOKEN "s3ss10n+token"
#define AUTHORIZATION(region, date)                                                         \
	"Authorization: AWS4-HMAC-SHA256 Credential=%s/20260101/" region                    \
	"/s3/aws4_request, SignedHeaders=host, Signature=00000000000000000000000000000\r\n" \
	"X-Amz-Date: " date "\r\n"

static int
aws_setup(void **state)
{
	static const char target[] =
	    "\"aws\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://store.test\","
	    "\"credential\":\"aws-key\",\"services\":[\"s3\"],\"regions\":[\"a\",\"b\"]},";
	struct world *w;
	AUTO_FREE char *text = NULL, *with = NULL;
	char *at;

	(void)http_setup(state);
	w = *state;
	text = http_policy(w, NULL, 3);
	at = strstr(text, "\"plain\":");
	*at = '\0';
	with = xasprintf("%s%s\"plain\":%s", text, target, at + 8);
	http_credential(w, "aws-key", "aws", "*.test.example", 443, ID " " KEY " " TOKEN);
	http_credential(w, "aws-key", "aws", "store.test", 443, ID " " KEY " " TOKEN);
	http_planned(w, with);
	http_target(w, "aws", "aws", "https", "store.test", 443, CORE_LISTEN_TCP, L_AWS);
	return 0;
}
#define aws_test(f) cmocka_unit_test_setup_teardown(f, aws_setup, http_teardown)

/* %s in the fields is the placeholder. */
static void
sends(struct world *w, uint64_t act, const char *line, const char *fields, const char *content)
{
	char own[CORE_PLACEHOLDER_SIZE];
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_FREE char *head = NULL;
	struct str rest = str_z(fields), before;

	core_cred_placeholder(w->run, STR("aws-key"), own);
	buf_printf(&b, "%s HTTP/1.1\r\nHost: store.test\r\n", line);
	while (str_cut(&rest, '%', &before)) {
		buf_put_str(&b, before);
		buf_put_z(&b, own);
		rest = str_mem(rest.p + 1, rest.n - 1);
	}
	buf_put_str(&b, rest);
	if (content != NULL)
		buf_printf(&b, "Content-Length: %zu\r\n", strlen(content));
	buf_put_z(&b, "\r\n");
	head = buf_dup_z(&b);
	asks(w, &(struct ask){.act = act,
		    .listener = L_AWS,
		    .host = "store.test",
		    .head = head,
		    .content = content});
}

static struct hash
digest(struct world *w)
{
	AUTO(json) struct json_doc *a = last(w, "action");
	struct hash h;

	assert_true(hash_from_hex(json_str(at(a, "request", "digest")), &h));
	return h;
}

static bool
leases(const struct http_lease *l, const char *name)
{
	return http_field_find(l->fields, l->nfields, name) != NULL;
}

static void
client_s_signature_is_taken_away_and_the_key_is_leased(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	sends(w, 1, "GET /logs/k?prefix=a+b",
	    AUTHORIZATION("a", "20260101T000000Z") "Date: Thu, 01 Jan 1970 00:00:00 "
						   "GMT\r\nX-Amz-Security-Token: mine\r\n"
						   "X-Amz-Meta-A: 1\r\n",
	    NULL);
	l = http_leased(w);
	assert_int_equal(l.credential, 5);
	assert_state(l.field, "a/s3");
	assert_state(l.user, ID);
	assert_state(l.secret, KEY " " TOKEN);
	assert_state(l.target, "/logs/k?prefix=a%20b"); /* as it is judged */
	assert_true(leases(&l, "X-Amz-Meta-A"));
	assert_false(leases(&l, "Authorization"));
	assert_false(leases(&l, "X-Amz-Date"));
	assert_false(leases(&l, "Date"));
	assert_false(leases(&l, "X-Amz-Security-Token"));
}

static void
each_part_of_the_key_is_looked_for_in_other_answers(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	unsigned seen = 0;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	for (uint32_t i = 0; i < l.nothers; i++)
		seen += str_eqz(l.others[i].secret, KEY) || str_eqz(l.others[i].secret, TOKEN) ||
			str_eqz(l.others[i].secret, ID);
	assert_int_equal(seen, 3);
}

static void
people_sign_what_is_sent_and_for_where_but_no_date(void **state)
{
	struct world *w = *state;
	struct hash first, other;

	sends(w, 1, "DELETE /logs/k", AUTHORIZATION("a", "20260101T000000Z"), NULL);
	first = digest(w);
	assert_verdict(w, "needs_approval");
	sends(w, 2, "DELETE /logs/k",
	    AUTHORIZATION("a", "20260102T000000Z") "Amz-Sdk-Invocation-Id: 7\r\n", NULL);
	other = digest(w);
	assert_true(hash_eq(&first, &other));
	sends(w, 3, "DELETE /logs/k", AUTHORIZATION("b", "20260101T000000Z"), NULL);
	other = digest(w);
	assert_false(hash_eq(&first, &other));
	sends(w, 4, "DELETE /logs/k", AUTHORIZATION("a", "20260101T000000Z") "X-Amz-Meta-A: 1\r\n",
	    NULL);
	other = digest(w);
	assert_false(hash_eq(&first, &other));
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

#define CHUNK(n, digit)             \
	n ";chunk-signature=" digit \
	  "00000000000000000000000000000000000000000000000000000000000000" digit "\r\n"
#define CHUNKED                                                        \
	AUTHORIZATION("a", "20260101T000000Z")                         \
	"X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n" \
	"Content-Encoding: aws-chunked\r\nX-Amz-Decoded-Content-Length: 5\r\n"

static void
signed_chunks_are_their_content(void **state)
{
	struct world *w = *state;
	struct hash first, other;

	sends(w, 1, "PUT /logs/k", CHUNKED, CHUNK("5", "0") "hello\r\n" CHUNK("0", "0") "\r\n");
	assert_verdict(w, "needs_approval");
	first = digest(w);
	sends(w, 2, "PUT /logs/k", CHUNKED,
	    CHUNK("2", "1") "he\r\n" CHUNK("3", "2") "llo\r\n" CHUNK("0", "3") "\r\n");
	other = digest(w);
	assert_true(hash_eq(&first, &other));
	sends(w, 3, "PUT /logs/k", CHUNKED, CHUNK("5", "0") "hallo\r\n" CHUNK("0", "0") "\r\n");
	other = digest(w);
	assert_false(hash_eq(&first, &other));
	sends(w, 4, "PUT /logs/k", CHUNKED, CHUNK("5", "0") "hello\r\n");
	assert_verdict(w, "deny");
}

static void
a_scope_that_is_not_the_target_s_is_not_signed(void **state)
{
	struct world *w = *state;

	sends(w, 1, "GET /logs/k", AUTHORIZATION("c", "20260101T000000Z"), NULL);
	assert_verdict(w, "deny");
	sends(w, 2, "GET /logs/k", "", NULL); /* of two regions, which? */
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	sends(w, 3, "GET /logs/k", AUTHORIZATION("b", "20260101T000000Z"), NULL);
	assert_state(http_leased(w).field, "b/s3");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    aws_test(client_s_signature_is_taken_away_and_the_key_is_leased),
	    aws_test(each_part_of_the_key_is_looked_for_in_other_answers),
	    aws_test(people_sign_what_is_sent_and_for_where_but_no_date),
	    aws_test(signed_chunks_are_their_content),
	    aws_test(a_scope_that_is_not_the_target_s_is_not_signed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
