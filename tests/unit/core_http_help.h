/* The fake world of core_help.h with HTTP targets: what front asks and upstream answers. */
#ifndef TESTS_UNIT_CORE_HTTP_HELP_H
#define TESTS_UNIT_CORE_HTTP_HELP_H

#include "tests/unit/core_help.h"

#include <sys/mman.h>

#include "broker/core_http.h"
#include "broker/core_plan.h"
#include "common/httplease.h"

#define SECRET "s3cr3t-token-of-api"

enum { L_API = 2, L_PLAIN, L_PROXY, L_LOOP }; /* listeners as front knows them */

static inline char *
http_policy(const struct world *w, const char *rules, int serial)
{
	static const char standard[] =
	    "{\"id\":\"reads\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}},"
	    "{\"id\":\"work\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@"
	    "destructive\"]}}},"
	    "{\"id\":\"no-escape\",\"forbid\":{\"effects\":{\"any\":[\"@escape\"]}},\"override\":"
	    "\"never\"},"
	    "{\"id\":\"no-bulk\",\"forbid\":{\"effects\":{\"any\":[\"bulk\"]}},\"override\":"
	    "\"never\"},"
	    "{\"id\":\"two-people\",\"require\":{\"env\":\"prod\",\"effects\":{\"any\":[\"@"
	    "destructive\"]}},"
	    "\"approve\":[{\"role\":\"dba\",\"count\":1},{\"role\":\"oncall\",\"count\":1}],"
	    "\"within\":\"30m\",\"use_within\":\"5m\"}";

	return xasprintf(
	    "{\"schema\":\"cofferdam-policy/"
	    "1\",\"policy\":\"t\",\"serial\":%d,\"clock\":\"trusted\","
	    "\"targets\":{"
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\",\"port\":5432,"
	    "\"database\":\"app\",\"user\":\"agent\",\"credential\":\"cred\",\"tls\":\"off\"},"
	    "\"api\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://api.test\","
	    "\"credential\":\"api-key\",\"placeholder\":\"API_TOKEN\",\"max_body\":10000000},"
	    "\"infra\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://infra.test:8443\","
	    "\"credential\":\"infra-key\",\"networks\":[\"10.0.0.0/8\"]},"
	    "\"plain\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"http://127.0.0.1:8080\"},"
	    "\"wild\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://*.ok.test\"},"
	    "\"llm\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://model.test\","
	    "\"model\":\"anthropic\",\"wrapped\":true,\"credential\":\"llm-key\"}},"
	    "\"people\":{\"olivia\":{\"roles\":[\"oncall\"],\"login\":[\"unix:olivia\"],\"keys\":["
	    "\"%s\"]},"
	    "\"dana\":{\"roles\":[\"dba\"],\"login\":[\"unix:dana\"],\"keys\":[\"%s\"]},"
	    "\"omar\":{\"roles\":[\"oncall\"],\"login\":[\"unix:omar\"],\"keys\":[\"%s\"]}},"
	    "\"calendars\":{},\"rules\":[%s]}",
	    serial, w->olivia.line, w->dana.line, w->omar.line, rules != NULL ? rules : standard);
}

static inline void
http_credential(struct world *w, const char *name, const char *kind, const char *host,
    uint16_t port, const char *secret)
{
	struct vault_bind b = {.name = str_z(name),
	    .kind = str_z(kind),
	    .scheme = STR("https"),
	    .host = str_z(host),
	    .port = port};
	struct err err;

	if (strcmp(kind, "header") == 0 || strcmp(kind, "query") == 0)
		b.field = strcmp(kind, "query") == 0 ? STR("key") : STR("X-Api-Key");
	if (strcmp(kind, "basic") == 0)
		b.user = STR("robot");
	if (vault_put(w->c->vault, &b, secret_copy(str_z(secret)), &err) != 0)
		fail_msg("vault: %s", err.msg);
}

static inline void
http_target(struct world *w, const char *id, const char *kind, const char *scheme, const char *host,
    uint16_t port, enum core_listen listen, uint32_t listener)
{
	const struct policy_target *t = policy_target(w->c->policy, str_z(id));
	struct core_target *to;

	core_run_target_add(w->run, &(struct core_target){.id = (char *)(uintptr_t)id,
					.kind = (char *)(uintptr_t)kind,
					.scheme = (char *)(uintptr_t)scheme,
					.host = (char *)(uintptr_t)host,
					.port = port,
					.listen = listen});
	to = &w->run->targets[w->run->ntargets - 1];
	to->listener = listener;
	if (t != NULL)
		core_plan_place(t, to->place);
	w->run->loop = w->run->loop || listen == CORE_LISTEN_UNIX;
}

/* That policy comes into force, and the run is as it had been planned under it. */
static inline void
http_planned(struct world *w, const char *text)
{
	struct policy *p = world_parse(text);

	for (size_t i = 0; i < w->run->ntargets; i++) {
		const struct policy_target *t = policy_target(p, str_z(w->run->targets[i].id));

		if (t != NULL)
			core_plan_place(t, w->run->targets[i].place);
	}
	core_boot_policy_use(w->c, p);
}

static inline int
http_setup(void **state)
{
	struct world *w = world_new();
	AUTO_FREE char *text = http_policy(w, NULL, 2);

	core_boot_policy_use(w->c, world_parse(text));
	http_credential(w, "api-key", "bearer", "api.test", 443, SECRET);
	http_credential(w, "infra-key", "header", "infra.test", 8443, "s3cr3t-of-infra");
	http_credential(w, "llm-key", "header", "model.test", 443, "s3cr3t-of-llm");
	http_target(w, "api", "http", "https", "api.test", 443, CORE_LISTEN_TCP, L_API);
	http_target(w, "infra", "http", "https", "infra.test", 8443, CORE_LISTEN_NONE, 0);
	http_target(w, "plain", "http", "http", "127.0.0.1", 8080, CORE_LISTEN_TCP, L_PLAIN);
	http_target(w, "wild", "http", "https", "*.ok.test", 443, CORE_LISTEN_NONE, 0);
	http_target(w, "", "proxy", "", "proxy.cofferdam.internal", 3128, CORE_LISTEN_TCP, L_PROXY);
	http_target(w, "llm", "http", "https", "model.test", 443, CORE_LISTEN_NONE, 0);
	http_target(w, "", "loop", "", "", 0, CORE_LISTEN_UNIX, L_LOOP);
	*state = w;
	return 0;
}

static inline int
http_teardown(void **state)
{
	world_free(*state);
	return 0;
}
#define http_test(f) cmocka_unit_test_setup_teardown(f, http_setup, http_teardown)

/* --- front ----------------------------------------------------------------------- */

struct ask {
	uint64_t act; /* 0: 1 */
	uint32_t listener;
	bool clear; /* no TLS */
	const char *host, *connect, *sni, *fault, *head, *content;
	uint32_t port;
	uint8_t body;
	uint64_t length;
	bool expect;
};

#define GET_API "GET /v1/things HTTP/1.1\r\nHost: api.test\r\n\r\n"

/* By default a request on the direct listener of api.test. */
static inline void
asks(struct world *w, const struct ask *a)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	const char *host = a->host != NULL ? a->host : "api.test";
	const char *content = a->content != NULL ? a->content : "";
	uint8_t body = a->body != 0 ? a->body : a->content != NULL ? 1 : 0;

	buf_u64(&b, 7);
	buf_u64(&b, a->act != 0 ? a->act : 1);
	buf_u32(&b, a->listener != 0 ? a->listener : L_API);
	buf_u8(&b, a->clear ? 0 : 1);
	buf_lz(&b, host);
	buf_u32(&b, a->port != 0 ? a->port : 443);
	buf_lz(&b, a->connect);
	buf_lz(&b, a->sni != NULL ? a->sni : a->clear ? "" : host);
	buf_lz(&b, a->fault);
	buf_lz(&b, a->head != NULL ? a->head : GET_API);
	buf_u8(&b, body);
	buf_u64(&b, a->content != NULL ? strlen(content) : a->length);
	buf_u8(&b, a->expect ? 1 : 0);
	buf_lz(&b, content);
	say(&w->front, MSG_H_ACT, &b);
	settle(w);
}

static inline void
front_says(struct world *w, uint16_t type, uint64_t act)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, 7);
	buf_u64(&b, act);
	say(&w->front, type, &b);
	settle(w);
}

static inline int
sealed(struct str content)
{
	int fd = -1;
	struct err err;

	if (core_http_body_memfd(content, &fd, &err) != 0)
		fail_msg("%s", err.msg);
	return fd;
}

static inline void
gives_body(struct world *w, uint64_t act, struct str content)
{
	AUTO_BUF struct buf b = BUF(64);
	AUTO_FD int fd = sealed(content);
	struct err err;

	buf_u64(&b, 7);
	buf_u64(&b, act);
	buf_u64(&b, content.n);
	assert_int_equal(
	    ipc_sync_send(w->front.fd, IPC_ROLE_FRONT, IPC_ROLE_CORE, MSG_H_BODY, &b, &fd, 1, &err),
	    0);
	settle(w);
}

static inline void
gives_hash(struct world *w, uint64_t act, uint64_t length, const struct hash *sha)
{
	AUTO_BUF struct buf b = BUF(128);

	buf_u64(&b, 7);
	buf_u64(&b, act);
	buf_u64(&b, length);
	buf_put(&b, sha->b, HASH_LEN);
	say(&w->front, MSG_H_HASHED, &b);
	settle(w);
}

struct need {
	uint8_t how;
	uint64_t most;
};
static inline struct need
needed(struct world *w)
{
	struct rd r = heard(&w->front, MSG_H_NEED);
	struct need n;

	assert_int_equal(rd_u64(&r), 7);
	(void)rd_u64(&r);
	n.how = rd_u8(&r);
	n.most = rd_u64(&r);
	assert_true(rd_end(&r));
	return n;
}

/* --- refusals -------------------------------------------------------------------- */

struct problem {
	unsigned status;
	bool close;
	bool retry;
	struct json_doc *doc;
	struct str title, detail, how, request;
};

/* The caller frees doc. */
static inline struct problem
problem(struct world *w)
{
	struct rd r = heard(&w->front, MSG_H_REFUSED);
	struct problem p = {0};
	struct err err;
	struct str body;
	uint32_t n;

	assert_int_equal(rd_u64(&r), 7);
	(void)rd_u64(&r);
	p.status = rd_u16(&r);
	p.close = rd_u8(&r) == 1;
	n = rd_u32(&r);
	for (uint32_t i = 0; i < n; i++) {
		p.retry = str_eqz(rd_lstr(&r), "Retry-After") || p.retry;
		(void)rd_lstr(&r);
	}
	body = rd_lstr(&r);
	assert_true(rd_end(&r));
	if (json_parse(body, "problem", &p.doc, &err) != 0)
		fail_msg("%s: %.*s", err.msg, STR_ARG(body));
	p.title = json_str(json_get(json_root(p.doc), "title"));
	p.detail = json_str(json_get(json_root(p.doc), "detail"));
	p.how = json_str(json_get(json_root(p.doc), "how"));
	p.request = json_str(json_get(json_root(p.doc), "request"));
	assert_int_equal(json_int(json_get(json_root(p.doc), "status")), p.status);
	return p;
}

#define assert_problem(w, want, word)                                                         \
	do {                                                                                  \
		struct problem p_ = problem(w);                                               \
		if (p_.status != (want) || !str_eqz(p_.title, word))                          \
			fail_msg("%u %.*s: %.*s, wanted %u %s", p_.status, STR_ARG(p_.title), \
			    STR_ARG(p_.detail), (unsigned)(want), word);                      \
		json_free(p_.doc);                                                            \
	} while (0)

/* --- upstream -------------------------------------------------------------------- */

struct http_lease {
	uint64_t conn, act;
	bool tls;
	struct str host, address, ca, method, target;
	uint32_t port, nnetworks;
	uint32_t nfields;
	struct http_field fields[HTTP_FIELDS_MAX + 1];
	uint8_t body, expect, bound, credential, fresh;
	uint64_t length, seal;
	struct str content, sha, field, user, secret, placeholder, kid, key, wrap;
	uint32_t nothers;
	struct {
		struct str secret, user, placeholder;
	} others[CORE_OTHERS_MAX];
	uint8_t via;
	uint32_t via_port;
	struct str via_host, via_ca, via_user, via_secret;
	struct hash hash;
};

static inline struct http_lease
http_leased_as(struct world *w, uint16_t type)
{
	struct rd r = heard(&w->upstream, type);
	struct http_lease l = {0};

	l.conn = rd_u64(&r);
	l.act = rd_u64(&r);
	(void)rd_lstr(&r); /* run */
	l.tls = rd_u8(&r) == 1;
	l.host = rd_lstr(&r);
	l.port = rd_u32(&r);
	l.address = rd_lstr(&r);
	l.nnetworks = rd_u32(&r);
	for (uint32_t i = 0; i < l.nnetworks; i++)
		(void)rd_lstr(&r);
	l.ca = rd_lstr(&r);
	l.method = rd_lstr(&r);
	l.target = rd_lstr(&r);
	l.nfields = rd_u32(&r);
	for (uint32_t i = 0; i < l.nfields && i < ARRAY_LEN(l.fields); i++) {
		l.fields[i].name = rd_lstr(&r);
		l.fields[i].value = rd_lstr(&r);
	}
	l.body = rd_u8(&r);
	l.length = rd_u64(&r);
	l.content = rd_lstr(&r);
	l.expect = rd_u8(&r);
	l.bound = rd_u8(&r);
	l.sha = rd_bytes(&r, HASH_LEN);
	l.credential = rd_u8(&r);
	l.field = rd_lstr(&r);
	l.user = rd_lstr(&r);
	l.secret = rd_lstr(&r);
	l.placeholder = rd_lstr(&r);
	l.nothers = rd_u32(&r);
	for (uint32_t i = 0; i < l.nothers && i < ARRAY_LEN(l.others); i++) {
		l.others[i].secret = rd_lstr(&r);
		l.others[i].user = rd_lstr(&r);
		l.others[i].placeholder = rd_lstr(&r);
	}
	l.fresh = rd_u8(&r);
	l.seal = rd_u64(&r);
	l.kid = rd_lstr(&r);
	l.key = rd_lstr(&r);
	l.wrap = rd_lstr(&r);
	l.via = rd_u8(&r);
	l.via_host = rd_lstr(&r);
	l.via_port = rd_u32(&r);
	l.via_ca = rd_lstr(&r);
	l.via_user = rd_lstr(&r);
	l.via_secret = rd_lstr(&r);
	assert_true(rd_end(&r));
	l.hash = http_lease_hash(l.method, l.target, l.fields, l.nfields);
	return l;
}

static inline struct http_lease
http_leased(struct world *w)
{
	return http_leased_as(w, MSG_UH_SEND);
}

static inline const struct http_field *
lease_field(const struct http_lease *l, const char *name)
{
	return http_field_find(l->fields, l->nfields, name);
}

struct answered {
	uint64_t act;	/* 0: 1 */
	uint8_t status; /* 0: 1 */
	uint16_t http;
	const char *message, *blob;
	uint32_t reflected;
	uint8_t ended; /* of a stream */
	uint64_t body_bytes;
	struct hash head, body;
};

static inline void
answers(struct world *w, const struct answered *a)
{
	AUTO_BUF struct buf b = BUF(16384);
	struct hash sha = hash_sha256(STR("answer"));

	buf_u64(&b, 7);
	buf_u64(&b, a->act != 0 ? a->act : 1);
	buf_u8(&b, a->status != 0 ? a->status : 1);
	buf_u16(&b, a->http);
	buf_u64(&b, a->http != 0 ? 6 : 0);
	buf_put(&b, sha.b, HASH_LEN);
	buf_u64(&b, a->body_bytes);
	buf_put(&b, a->body.b, HASH_LEN);
	buf_put(&b, a->head.b, HASH_LEN);
	buf_lz(&b, "192.0.2.7:443");
	buf_lz(&b, "abcd");
	buf_u32(&b, a->reflected);
	buf_u8(&b, a->ended);
	buf_lz(&b, a->message);
	buf_lz(&b, a->blob);
	say(&w->upstream, MSG_UH_DONE, &b);
	settle(w);
}

/* An allowed request from lease to its end. */
static inline void
passes(struct world *w, uint64_t act)
{
	struct http_lease l = http_leased(w);

	assert_int_equal(l.act, act);
	answers(w, &(struct answered){.act = act, .http = 200, .head = l.hash});
	(void)heard(&w->front, MSG_H_DONE);
}

/* --- people ---------------------------------------------------------------------- */

static inline void
signs(struct world *w, const struct core_request *rq, const char *person, const char *role,
    const struct person *key)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX + 64);
	AUTO_BUF struct buf armor = BUF(4096);
	AUTO_BUF struct buf args = BUF(16384);
	AUTO_BUF struct buf b = BUF(1 << 18);
	struct core_statement st;
	struct jcs j;
	struct rd r;
	struct err err;

	core_sign_statement(rq, "approve", str_z(role), str_z(person), &st);
	if (statement_bytes(&st.s, &bytes, &err) != 0)
		fail_msg("%s", err.msg);
	core_sign_statement_free(&st);
	person_sign(key, STATEMENT_NAMESPACE, buf_str(&bytes), &armor);
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_z(&j, "id", rq->id);
	jcs_z(&j, "person", person);
	jcs_z(&j, "role", role);
	jcs_str(&j, "signature", buf_str(&armor));
	jcs_close(&j);
	if (w->cli.fd <= 0)
		(void)core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), 0);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, "approve");
	buf_lstr(&b, buf_str(&args));
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
	r = heard(&w->cli, MSG_Q_REPLY);
	assert_int_equal(rd_u32(&r), 0);
}

static inline struct core_request *
newest_request(const struct world *w)
{
	return TAILQ_LAST(&w->run->requests, core_requests);
}

static inline void
arms(struct world *w)
{
	struct core_request *rq = newest_request(w);

	assert_non_null(rq);
	signs(w, rq, "dana", "dba", &w->dana);
	signs(w, rq, "omar", "oncall", &w->omar);
	assert_int_equal(rq->state, CORE_RQ_ARMED);
}

/* The head of the last action, as it was sealed. */
static inline void
sealed_head(const struct world *w, struct buf *plain)
{
	AUTO(json) struct json_doc *a = last(w, "action");
	struct blob_ref ref;
	struct err err;

	if (blob_ref_parse(at(a, "request", "head"), &ref, &err) != 0)
		fail_msg("%s", err.msg);
	for (size_t i = w->nrecords; i-- > 0;)
		if (strcmp(w->records[i].type, "action") == 0) {
			if (blob_open(
				w->run->key, buf_str(&w->records[i].frame), &ref, plain, &err) != 0)
				fail_msg("%s", err.msg);
			return;
		}
}

/* Does any record but sealed frames hold this text? */
static inline bool
on_record(const struct world *w, const char *text)
{
	for (size_t i = 0; i < w->nrecords; i++)
		if (strstr(w->records[i].data, text) != NULL)
			return true;
	return false;
}

#endif
