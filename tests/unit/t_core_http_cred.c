/* Credentials in HTTP requests: what is foreign, what a placeholder may do, what records keep. */
#include "tests/unit/core_http_help.h"

#include "broker/core_token.h"
#include "common/token.h"
#include "common/banned.h"

#define TOKEN "ghp_0123456789abcdefghijABCDEFGHIJ012345"

static void
placeholder(const struct world *w, const char *credential, char out[CORE_PLACEHOLDER_SIZE])
{
	core_cred_placeholder(w->run, str_z(credential), out);
}

/* One request with this request target, fields and body; %s in them is the placeholder. */
static void
sends(struct world *w, uint64_t act, const char *target, const char *fields, const char *content)
{
	AUTO_FREE char *head = xasprintf("%s %s HTTP/1.1\r\nHost: api.test\r\n%s%s%zu\r\n\r\n",
	    content != NULL ? "POST" : "GET", target, fields,
	    content != NULL ? "Content-Type: text/plain\r\nContent-Length: " : "X-Length: ",
	    content != NULL ? strlen(content) : 0);

	asks(w, &(struct ask){.act = act, .head = head, .content = content});
}

static void
assert_foreign(struct world *w, const char *place)
{
	AUTO(json) struct json_doc *a = last(w, "action");
	const struct json *f = json_get(at(a, "request", "http"), "found");

	assert_problem(w, 403, "credential_foreign");
	assert_state(json_str(json_get(f, "what")), "credential_foreign");
	assert_state(json_str(json_get(f, "place")), place);
	assert_int_equal(json_str(json_get(f, "fingerprint")).n, 16);
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
assert_scope(struct world *w, const char *credential, const char *bound)
{
	AUTO(json) struct json_doc *a = last(w, "action");
	const struct json *f = json_get(at(a, "request", "http"), "found");
	struct problem p = problem(w);
	AUTO(json) struct json_doc *doc = p.doc;

	assert_int_equal(p.status, 403);
	assert_state(p.title, "credential_scope");
	assert_state(json_str(json_get(f, "what")), "credential_scope");
	assert_state(json_str(json_get(f, "credential")), credential);
	assert_state(json_str(json_get(f, "bound_to")), bound);
	if (credential[0] != '\0') {
		assert_true(has(p.detail, credential));
		assert_true(has(p.detail, bound));
	}
	assert_true(has(p.detail, "api.test:443"));
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* --- foreign --------------------------------------------------------------------- */

static void
what_carries_a_credential_is_foreign_wherever_it_stands(void **state)
{
	static const struct {
		const char *target, *fields, *place;
	} cases[] = {
	    {"/", "Authorization: Bearer abc\r\n", "field Authorization"},
	    {"/", "authorization: Basic dXNlcjpzZWNyZXQ=\r\n", "field authorization"},
	    {"/", "Authorization: abc\r\n", "field Authorization"},
	    {"/", "Authorization: Basic c2tfbGl2ZV8wMTIzNDU2Nzg5YWJjZGVmOg==\r\n",
		"field Authorization"},
	    {"/", "X-Api-Key: abc\r\n", "field X-Api-Key"},
	    {"/", "Cookie: session=1\r\n", "field Cookie"},
	    {"/", "X-Vault-Token: abc\r\n", "field X-Vault-Token"},
	    {"/", "X-Note: use " TOKEN " please\r\n", "field X-Note"},
	    {"/", "X-Note: -----BEGIN EC PRIVATE KEY-----\r\n", "field X-Note"},
	    {"/?a=1&access_token=abc", "", "query parameter access_token"},
	    {"/?a=1;access%5Ftoken=abc", "", "query parameter access%5Ftoken"},
	    {"/?q=" TOKEN, "", "query parameter q"},
	    {"/?q=ghp%5F0123456789abcdefghijABCDEFGHIJ012345", "", "query parameter q"},
	    {"/x/" TOKEN, "", "path"},
	    {"/x/ghp%5F0123456789abcdefghijABCDEFGHIJ012345", "", "path"},
	    {"/", TOKEN ": x\r\n", "field name"},
	    {"/", "X_Api_Key: abc\r\n", "field X_Api_Key"},
	    {"/", "dd_api_key: abc\r\n", "field dd_api_key"},
	    {"/", "Access-Token: abc\r\n", "field Access-Token"},
	    {"/?token[]=abc", "", "query parameter token[]"},
	    {"/?%20token=abc", "", "query parameter %20token"},
	    {"/?token%00x=abc", "", "query parameter token%00x"},
	    {"/?access.token=abc", "", "query parameter access.token"},
	    {"/?API-KEY=abc", "", "query parameter API-KEY"},
	    {"/", "X-Jwt: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl\r\n", "field X-Jwt"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sends(w, i + 1, cases[i].target, cases[i].fields, NULL);
		assert_foreign(w, cases[i].place);
	}
}

static void
ordinary_words_are_not_foreign(void **state)
{
	static const struct {
		const char *target, *fields;
	} cases[] = {
	    {"/", ""},
	    {"/?tokens=5&keyword=abc&page_token", ""},
	    {"/task-0123456789abcdefghijABCDEFGHIJ", "X-Note: risk-0123456789abcdefghij01234\r\n"},
	    {"/?access_token=", "Authorization:\r\n"},
	    {"/", "X-Request-Id: 0123456789abcdef0123456789abcdef\r\nUser-Agent: curl/8\r\n"},
	    {"/?q=sk-this-is-a-long-slug-of-words", "Proxy-Authorization: Basic dTpw\r\n"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sends(w, i + 1, cases[i].target, cases[i].fields, NULL);
		passes(w, i + 1);
	}
}

static void
a_foreign_credential_is_on_no_record_and_in_no_sealed_head(void **state)
{
	static const struct {
		const char *target, *fields, *secret;
	} cases[] = {
	    {"/", "Authorization: Bearer zzsecretzz1\r\n", "zzsecretzz1"},
	    {"/", "Authorization: Basic dTp6enNlY3JldHp6Mg==\r\n", "enNlY3JldHp6M"},
	    {"/?access_token=zzsecretzz3&b=2", "", "zzsecretzz3"},
	    {"/?q=" TOKEN, "", TOKEN},
	    {"/a/" TOKEN "/b", "", TOKEN},
	    {"/a/ghp%5F0123456789abcdefghijABCDEFGHIJ012345/b", "", "0123456789abcdefghij"},
	    {"/", "X_Api_Key: zzsecretzz5\r\n", "zzsecretzz5"},
	    {"/", "Cookie: sid=zzsecretzzsecretzz6\r\n", "zzsecretzzsecretzz6"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);

		sends(w, i + 1, cases[i].target, cases[i].fields, NULL);
		sealed_head(w, &plain);
		assert_true(has(buf_str(&plain), "<masked "));
		assert_true(has(buf_str(&plain), "Host: api.test"));
		assert_false(has(buf_str(&plain), cases[i].secret));
		assert_false(on_record(w, cases[i].secret));
		assert_problem(w, 403, "credential_foreign");
	}
}

static void
a_head_that_is_not_well_formed_is_masked_too(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);

	asks(w,
	    &(struct ask){.fault = "field 1: white space before the colon",
		.head = "GET /?access_token=zz1 HTTP/1.1\r\nAuthorization : Bearer zz2\r\n zz3\r\n"
			"X: " TOKEN "\r\nan end"});
	assert_problem(w, 400, "invalid_request");
	sealed_head(w, &plain);
	assert_false(has(buf_str(&plain), "zz"));
	assert_false(has(buf_str(&plain), TOKEN));
	assert_true(has(buf_str(&plain), "an end"));
	assert_false(on_record(w, "zz1"));
	buf_reset(&plain);
	asks(w,
	    &(struct ask){.act = 2,
		.fault = "target: user information",
		.head =
		    "GET https://user:zzsecretzz6@api.test/a HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_problem(w, 400, "invalid_request");
	sealed_head(w, &plain);
	assert_false(has(buf_str(&plain), "zzsecretzz6"));
	assert_true(has(buf_str(&plain), "@api.test/a"));
	assert_false(on_record(w, "zzsecretzz6"));
}

/* The fingerprint of what was found is that of the credential if it is the same. */
static void
the_vaults_own_secret_is_foreign_in_a_clients_hand(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *a = NULL;
	char fp[17];

	sends(w, 1, "/", "Authorization: Bearer " SECRET "\r\n", NULL);
	a = last(w, "action");
	core_cred_fingerprint(w->c, STR(SECRET), fp);
	assert_state(
	    json_str(json_get(json_get(at(a, "request", "http"), "found"), "fingerprint")), fp);
	assert_foreign(w, "field Authorization");
	assert_false(on_record(w, SECRET));
}

/* --- placeholders ---------------------------------------------------------------- */

static void
a_placeholder_in_its_place_becomes_the_credential(void **state)
{
	struct world *w = *state;
	char p[CORE_PLACEHOLDER_SIZE];
	AUTO_BUF struct buf user = BUF(256);
	AUTO_BUF struct buf b64 = BUF(256);
	AUTO_BUF struct buf alone = BUF(256);
	AUTO_FREE char *bearer = NULL, *token = NULL, *basic = NULL, *key = NULL;

	placeholder(w, "api-key", p);
	buf_put_z(&user, "x-access-token:");
	buf_put_z(&user, p);
	enc_base64(&b64, buf_str(&user));
	buf_reset(&user);
	buf_put_z(&user, p);
	buf_put_c(&user, ':');
	enc_base64(&alone, buf_str(&user));
	bearer = xasprintf("Authorization: Bearer %s\r\n", p);
	token = xasprintf("authorization: token %s\r\n", p);
	basic = xasprintf("Authorization: Basic %.*s\r\n", STR_ARG(buf_str(&b64)));
	key = xasprintf("Authorization: Basic %.*s\r\n", STR_ARG(buf_str(&alone)));
	for (uint64_t i = 1; i <= 4; i++) {
		AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);
		struct http_lease l;

		sends(w, i, "/v1?a=1",
		    i == 1   ? bearer
		    : i == 2 ? token
		    : i == 3 ? basic
			     : key,
		    NULL);
		l = http_leased(w);
		assert_null(lease_field(&l, "Authorization"));
		assert_int_equal(l.credential, 1);
		assert_state(l.secret, SECRET);
		assert_state(l.placeholder, p);
		sealed_head(w, &plain);
		assert_false(has(buf_str(&plain), SECRET));
	}
}

static void
a_placeholder_elsewhere_is_out_of_scope(void **state)
{
	struct world *w = *state;
	char own[CORE_PLACEHOLDER_SIZE], other[CORE_PLACEHOLDER_SIZE];
	AUTO_FREE char *path = NULL, *query = NULL, *field = NULL, *body = NULL, *wrong = NULL;

	placeholder(w, "api-key", own);
	placeholder(w, "infra-key", other);
	path = xasprintf("/v1/%s", own);
	query = xasprintf("/v1?x=%s", own);
	field = xasprintf("X-Note: %s\r\n", own);
	body = xasprintf("{\"k\":\"%s\"}", own);
	wrong = xasprintf("Authorization: Bearer %s\r\n", other);
	sends(w, 1, path, "", NULL);
	assert_scope(w, "api-key", "api.test:443");
	sends(w, 2, query, "", NULL);
	assert_scope(w, "api-key", "api.test:443");
	sends(w, 3, "/", field, NULL);
	assert_scope(w, "api-key", "api.test:443");
	sends(w, 4, "/", "", body);
	assert_scope(w, "api-key", "api.test:443");
	sends(w, 5, "/", wrong, NULL); /* another target's */
	assert_scope(w, "infra-key", "infra.test:8443");
	sends(w, 6, "/", "Authorization: Bearer cfph_abcdefghijklmnopqrstuvwxyz\r\n", NULL);
	assert_scope(w, "", ""); /* of no target here: another run's */
}

static void
a_placeholder_is_the_same_after_a_restart_and_another_in_each_run(void **state)
{
	struct world *w = *state;
	char a[CORE_PLACEHOLDER_SIZE], b[CORE_PLACEHOLDER_SIZE];
	struct core_run *other = NULL;
	struct err err;

	placeholder(w, "api-key", a);
	placeholder(w, "api-key", b);
	assert_string_equal(a, b);
	assert_int_equal(core_run_new(w->c, NULL, &other, &err), 0);
	core_cred_placeholder(other, STR("api-key"), b);
	assert_string_not_equal(a, b);
	core_run_free(other);
}

static void
a_field_of_the_targets_own_takes_its_placeholder_only(void **state)
{
	struct world *w = *state;
	char p[CORE_PLACEHOLDER_SIZE];
	AUTO_FREE char *good = NULL, *bearer = NULL;
	struct http_lease l;
	struct ask a = {
	    .listener = L_PROXY, .host = "infra.test", .port = 8443, .connect = "infra.test:8443"};

	placeholder(w, "infra-key", p);
	good = xasprintf("GET / HTTP/1.1\r\nHost: infra.test:8443\r\nx-api-key: %s\r\n\r\n", p);
	bearer = xasprintf(
	    "GET / HTTP/1.1\r\nHost: infra.test:8443\r\nAuthorization: Bearer %s\r\n\r\n", p);
	a.head = good;
	asks(w, &a);
	l = http_leased(w);
	assert_null(lease_field(&l, "X-Api-Key"));
	assert_int_equal(l.credential, 3);
	assert_state(l.field, "X-Api-Key");
	assert_int_equal(l.nnetworks, 1);
	a.head = bearer;
	a.act = 2;
	asks(w, &a);
	assert_problem(w, 403, "credential_scope");
	a.head = "GET / HTTP/1.1\r\nHost: infra.test:8443\r\nX-Api-Key: dummy\r\n\r\n";
	a.act = 3;
	asks(w, &a);
	assert_problem(w, 403, "credential_foreign");
}

static void
a_query_parameter_of_the_targets_own_is_taken_out(void **state)
{
	struct world *w = *state;
	char p[CORE_PLACEHOLDER_SIZE];
	AUTO_FREE char *head = NULL;
	struct http_lease l;

	http_credential(w, "api-key", "query", "api.test", 443, SECRET);
	placeholder(w, "api-key", p);
	head = xasprintf("GET /m?a=1&key=%s&b=2 HTTP/1.1\r\nHost: api.test\r\n\r\n", p);
	asks(w, &(struct ask){.head = head});
	l = http_leased(w);
	assert_state(l.target, "/m?a=1&b=2");
	assert_int_equal(l.credential, 4);
	assert_state(l.field, "key");
	asks(w,
	    &(struct ask){.act = 2, .head = "GET /m?key=mine HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_problem(w, 403, "credential_foreign");
	asks(w, &(struct ask){.act = 4, .head = "GET /m?key= HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_problem(w, 403, "credential_foreign");
	asks(w, &(struct ask){
		    .act = 5, .head = "GET /m?KEY[]=mine HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_problem(w, 403, "credential_foreign");
	asks(w,
	    &(struct ask){.act = 3, .head = "GET /m?keys=mine HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	l = http_leased(w);
	assert_state(l.target, "/m?keys=mine");
}

static void
basic_carries_its_user(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	http_credential(w, "api-key", "basic", "api.test", 443, SECRET);
	asks(w, &(struct ask){0});
	l = http_leased(w);
	assert_int_equal(l.credential, 2);
	assert_state(l.user, "robot");
}

/* --- the other credentials of the run ------------------------------------------------- */

static void
assert_other(const struct http_lease *l, size_t i, const struct world *w, const char *name,
    const char *secret, const char *user)
{
	char p[CORE_PLACEHOLDER_SIZE];

	placeholder(w, name, p);
	assert_true(i < l->nothers);
	assert_state(l->others[i].secret, secret);
	assert_state(l->others[i].user, user);
	assert_state(l->others[i].placeholder, p);
}

static void
a_lease_names_every_other_credential_of_the_run(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	assert_state(l.secret, SECRET);
	assert_int_equal(l.nothers, 2);
	assert_other(&l, 0, w, "infra-key", "s3cr3t-of-infra", "");
	assert_other(&l, 1, w, "llm-key", "s3cr3t-of-llm", "");
	/* Its target has none: all of them, and nothing compressed. */
	http_credential(w, "api-key", "basic", "api.test", 443, SECRET);
	asks(w,
	    &(struct ask){.act = 2,
		.listener = L_PLAIN,
		.clear = true,
		.host = "127.0.0.1",
		.port = 8080,
		.head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept-Encoding: br\r\n\r\n"});
	l = http_leased(w);
	assert_int_equal(l.credential, 0);
	assert_int_equal(l.nothers, 3);
	assert_other(&l, 0, w, "api-key", SECRET, "robot");
	assert_state(lease_field(&l, "Accept-Encoding")->value, "identity");
}

static void
a_credential_that_the_vault_has_not_is_not_looked_for(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	struct err err;
	struct ask a = {.listener = L_PLAIN,
	    .clear = true,
	    .host = "127.0.0.1",
	    .port = 8080,
	    .head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept-Encoding: br\r\n\r\n"};

	http_credential(w, "llm-key", "header", "elsewhere.test", 443, "bound elsewhere");
	assert_int_equal(vault_remove(w->c->vault, STR("api-key"), &err), 0);
	asks(w, &a);
	l = http_leased(w);
	assert_int_equal(l.nothers, 1);
	assert_other(&l, 0, w, "infra-key", "s3cr3t-of-infra", "");
	assert_int_equal(vault_remove(w->c->vault, STR("infra-key"), &err), 0);
	a.act = 2;
	asks(w, &a);
	l = http_leased(w);
	assert_int_equal(l.nothers, 0);
	assert_state(lease_field(&l, "Accept-Encoding")->value, "br");
}

/* Targets t0, t1, ... of the run, with a credential each. */
static void
many_credentials(struct world *w, size_t n)
{
	AUTO_FREE char *text = http_policy(w, NULL, 3);
	AUTO_BUF struct buf b = BUF(1 << 18);
	char *at = strstr(text, "\"plain\":");

	buf_put(&b, text, (size_t)(at - text));
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *id = xasprintf("t%zu", i), *host = xasprintf("t%zu.test", i);

		buf_printf(&b,
		    "\"%s\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://%s\","
		    "\"credential\":\"%s\"},",
		    id, host, id);
		http_credential(w, id, "bearer", host, 443, host);
		http_target(w, id, "http", "https", host, 443, CORE_LISTEN_NONE, 0);
	}
	buf_put_z(&b, at);
	buf_put_c(&b, '\0');
	http_planned(w, (const char *)b.p);
}

static void
a_run_with_more_credentials_than_can_be_looked_for_is_refused(void **state)
{
	struct world *w = *state;

	many_credentials(w, CORE_OTHERS_MAX - 2); /* with infra and llm, besides api's own */
	asks(w, &(struct ask){0});
	assert_int_equal(http_leased(w).nothers, CORE_OTHERS_MAX);
	/* One more: without one of its own all of them would be others. */
	asks(w, &(struct ask){.act = 2,
		    .listener = L_PLAIN,
		    .clear = true,
		    .host = "127.0.0.1",
		    .port = 8080,
		    .head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"});
	assert_problem(w, 503, "too_many_credentials");
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* --- places ------------------------------------------------------------------------ */

static void
a_credential_bound_elsewhere_or_missing_refuses(void **state)
{
	struct world *w = *state;
	struct err err;

	http_credential(w, "api-key", "bearer", "api.test", 8443, SECRET);
	asks(w, &(struct ask){0});
	assert_problem(w, 403, "credential_missing");
	assert_int_equal(vault_remove(w->c->vault, STR("api-key"), &err), 0);
	asks(w, &(struct ask){.act = 2});
	assert_problem(w, 403, "credential_missing");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
cookies_pass_where_the_policy_says_so(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3), *with = NULL;
	AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);
	char *at = strstr(text, "\"max_body\":10000000");
	struct http_lease l;

	*at = '\0';
	with = xasprintf("%s\"cookies\":\"pass\",\"max_body\":10000000%s", text, at + 19);
	core_boot_policy_use(w->c, world_parse(with));
	sends(w, 1, "/", "Cookie: sid=zz1\r\n", NULL);
	l = http_leased(w);
	assert_state(lease_field(&l, "Cookie")->value, "sid=zz1");
	sealed_head(w, &plain);
	assert_false(has(buf_str(&plain), "zz1")); /* but the log does not keep it */
}

/* --- shapes ---------------------------------------------------------------------- */

static void
tokens_are_known_by_their_shape(void **state)
{
	static const char *const tokens[] = {TOKEN, "github_pat_11ABCDEFG0123456789abcdef",
	    "glpat-abcdefghij0123456789", "xoxb-1234567890-abcdef",
	    "sk-ant-api03-0123456789abcdefghij", "sk-0123456789abcdefghijABCD",
	    "AKIAIOSFODNN7EXAMPLE", "AIzaSyA0123456789abcdefghijABCDEFGHIJ01",
	    "npm_0123456789abcdefghijABCDEFGHIJ012345"};
	static const char *const words[] = {"ghp_short", "AKIA", "task-0123456789abcdefghijABCD",
	    "sk-only-words-and-dashes-here", "eyJhbGciOiJIUzI1NiJ9", "AKIAlowercaseletters"};
	struct str found;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		AUTO_FREE char *in = xasprintf("x=%s;", tokens[i]);

		assert_true(token_find(str_z(in), &found));
		assert_state(found, tokens[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		assert_false(token_find(str_z(words[i]), &found));
	assert_true(
	    core_token_placeholder(STR("a cfph_x cfph_abcdefghijklmnopqrstuvwxyz!"), &found));
	assert_state(found, "cfph_abcdefghijklmnopqrstuvwxyz");
	assert_false(core_token_placeholder(STR("cfph_abcdefghijklmnopqrstuvwxy"), &found));
	assert_false(core_token_placeholder(STR("cfph_ABCDEFGHIJKLMNOPQRSTUVWXYZ"), &found));
}

/* api.test behind a proxy. */
static void
put_via(struct world *w, int serial, const char *via)
{
	AUTO_FREE char *text = http_policy(w, NULL, serial), *with = NULL;
	char *at = strstr(text, "\"max_body\":10000000");

	with = xasprintf("%.*s\"via\":\"%s\",%s", (int)(at - text), text, via, at);
	http_planned(w, with);
}

static void
proxy_credential(
    struct world *w, const char *kind, const char *scheme, const char *host, uint16_t port)
{
	struct vault_bind b = {.name = STR("px"),
	    .kind = str_z(kind),
	    .scheme = str_z(scheme),
	    .host = str_z(host),
	    .port = port,
	    .user = strcmp(kind, "basic") == 0 ? STR("robot") : STR("")};
	struct err err;

	if (vault_put(w->c->vault, &b, secret_copy(STR("s3cr3t-of-proxy")), &err) != 0)
		fail_msg("vault: %s", err.msg);
}

#define PX "https://px.test:3128\",\"via_credential\":\"px"

static void
the_proxy_and_its_credential_are_leased_and_named(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	assert_int_equal(l.via, 0);
	assert_true(l.via_host.n == 0 && l.via_port == 0 && l.via_secret.n == 0);
	assert_false(on_record(w, "upstream_proxy"));
	proxy_credential(w, "basic", "https", "px.test", 3128);
	put_via(w, 3, PX);
	asks(w, &(struct ask){.act = 2});
	l = http_leased(w);
	assert_int_equal(l.via, 2);
	assert_state(l.via_host, "px.test");
	assert_int_equal(l.via_port, 3128);
	assert_state(l.via_user, "robot");
	assert_state(l.via_secret, "s3cr3t-of-proxy");
	assert_true(l.via_ca.n == 0);
	assert_state(l.secret, SECRET);
	assert_true(on_record(w, "\"upstream_proxy\":\"https://px.test:3128\""));
	assert_false(on_record(w, "s3cr3t-of-proxy"));
	put_via(w, 4, "http://10.0.0.1:8080");
	asks(w, &(struct ask){.act = 3});
	l = http_leased(w);
	assert_int_equal(l.via, 1);
	assert_true(l.via_user.n == 0 && l.via_secret.n == 0);
}

static void
a_credential_of_another_proxy_refuses(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *kind, *scheme, *host;
		uint16_t port;
	} rows[] = {
	    {"bearer", "https", "px.test", 3128},
	    {"basic", "https", "other.test", 3128},
	    {"basic", "https", "px.test", 3129},
	    {"basic", "http", "127.0.0.1", 3128},
	};

	put_via(w, 3, PX);
	asks(w, &(struct ask){0});
	assert_problem(w, 403, "credential_missing");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		proxy_credential(w, rows[i].kind, rows[i].scheme, rows[i].host, rows[i].port);
		asks(w, &(struct ask){.act = i + 2});
		assert_problem(w, 403, "credential_missing");
	}
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* What people signed for one way is not sent another. */
static void
the_digest_covers_the_proxy(void **state)
{
	struct world *w = *state;
	static const char *const vias[] = {PX, "https://px.test:3128", "https://py.test:3128"};
	char seen[ARRAY_LEN(vias)][HASH_HEX_SIZE];

	proxy_credential(w, "basic", "https", "px.test", 3128);
	for (size_t i = 0; i < ARRAY_LEN(vias); i++) {
		put_via(w, (int)i + 3, vias[i]);
		asks(w, &(struct ask){.act = i + 1,
			    .head = "DELETE /r/1 HTTP/1.1\r\nHost: api.test\r\n\r\n"});
		assert_problem(w, 403, "needs_approval");
		{
			AUTO(json) struct json_doc *a = last(w, "action");

			(void)snprintf(seen[i], sizeof(seen[i]), "%.*s",
			    STR_ARG(json_str(at(a, "request", "digest"))));
		}
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(seen[i], seen[k]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    http_test(what_carries_a_credential_is_foreign_wherever_it_stands),
	    http_test(ordinary_words_are_not_foreign),
	    http_test(a_foreign_credential_is_on_no_record_and_in_no_sealed_head),
	    http_test(a_head_that_is_not_well_formed_is_masked_too),
	    http_test(the_vaults_own_secret_is_foreign_in_a_clients_hand),
	    http_test(a_placeholder_in_its_place_becomes_the_credential),
	    http_test(a_placeholder_elsewhere_is_out_of_scope),
	    http_test(a_placeholder_is_the_same_after_a_restart_and_another_in_each_run),
	    http_test(a_field_of_the_targets_own_takes_its_placeholder_only),
	    http_test(a_query_parameter_of_the_targets_own_is_taken_out),
	    http_test(basic_carries_its_user),
	    http_test(a_lease_names_every_other_credential_of_the_run),
	    http_test(a_credential_that_the_vault_has_not_is_not_looked_for),
	    http_test(a_run_with_more_credentials_than_can_be_looked_for_is_refused),
	    http_test(a_credential_bound_elsewhere_or_missing_refuses),
	    http_test(the_proxy_and_its_credential_are_leased_and_named),
	    http_test(a_credential_of_another_proxy_refuses),
	    http_test(the_digest_covers_the_proxy),
	    http_test(cookies_pass_where_the_policy_says_so),
	    cmocka_unit_test(tokens_are_known_by_their_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
