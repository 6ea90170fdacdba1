/* HTTP exchanges in core: names, verdicts, records, leases, approvals, bodies, ends. */
#include "tests/unit/core_http_help.h"

#include "broker/core_live.h"
#include "policy/digest.h"
#include "common/banned.h"

/* --- allowed, denied ------------------------------------------------------------- */

static void
a_read_is_recorded_then_leased_with_the_credential_then_done(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *a = NULL, *o = NULL;
	struct http_lease l;
	struct rd r;

	w->hold_writer = true;
	asks(w, &(struct ask){0});
	assert_int_equal(count(w, "action"), 1);
	assert_true(silent(&w->upstream, MSG_UH_SEND)); /* not durable yet */
	assert_true(silent(&w->front, MSG_H_GO));
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	r = heard(&w->front, MSG_H_GO);
	assert_int_equal(rd_u64(&r), 7);
	assert_int_equal(rd_u64(&r), 1);
	assert_int_equal(rd_u8(&r), 0);
	assert_int_equal(rd_u64(&r), 0);
	assert_int_equal(rd_u8(&r), 0); /* a read's answer is not held */
	l = http_leased(w);
	assert_true(l.tls);
	assert_state(l.host, "api.test");
	assert_int_equal(l.port, 443);
	assert_state(l.method, "GET");
	assert_state(l.target, "/v1/things");
	assert_null(lease_field(&l, "Host"));
	assert_state(lease_field(&l, "Accept-Encoding")->value, "identity");
	assert_int_equal(l.credential, 1);
	assert_state(l.secret, SECRET);
	assert_int_equal(l.placeholder.n, CORE_PLACEHOLDER_SIZE - 1);
	assert_int_equal(l.fresh, 0);
	assert_int_equal(l.seal, 0);
	assert_int_equal(l.key.n, 0);
	answers(w, &(struct answered){.http = 200, .head = l.hash, .reflected = 2});
	(void)heard(&w->front, MSG_H_DONE);
	a = last(w, "action");
	o = last(w, "outcome");
	assert_state(json_str(at(a, "request", "protocol")), "http");
	assert_state(json_str(at(a, "request", "operation")), "GET");
	assert_state(json_str(at(a, "request", "target")), "api");
	assert_state(json_str(json_get(at(a, "request", "http"), "path")), "/v1/things");
	assert_state(json_str(at(a, "dispatch", "credential")), "api-key");
	assert_int_equal(json_str(at(a, "dispatch", "credential_fp")).n, 16);
	assert_state(json_str(json_get(json_root(o), "status")), "ok");
	assert_int_equal(json_int(json_get(json_root(o), "http_status")), 200);
	assert_int_equal(json_int(json_get(json_root(o), "reflected_credential")), 2);
	assert_true(
	    str_eq(json_str(at(a, "request", "sent")), json_str(json_get(json_root(o), "sent"))));
	assert_false(on_record(w, SECRET));
	assert_int_equal(w->c->nhttps, 0);
}

static void
a_change_waits_for_its_signed_record_and_its_outcome(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	struct rd r;

	asks(w, &(struct ask){.head = "POST /v1/things HTTP/1.1\r\nHost: api.test\r\n"
				      "Content-Length: 2\r\n\r\n",
		    .content = "hi"});
	assert_int_equal(
	    w->records[w->nrecords - 1].flags & CORE_REC_CHECKPOINT, CORE_REC_CHECKPOINT);
	r = heard(&w->front, MSG_H_GO);
	(void)rd_bytes(&r, 25);
	assert_int_equal(rd_u8(&r), 1); /* held */
	l = http_leased(w);
	assert_int_equal(l.body, 1);
	assert_state(l.content, "hi");
	assert_int_equal(l.fresh, 1);
	w->hold_writer = true;
	answers(
	    w, &(struct answered){
		   .http = 201, .head = l.hash, .body_bytes = 2, .body = hash_sha256(STR("hi"))});
	assert_true(silent(&w->front, MSG_H_DONE));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)heard(&w->front, MSG_H_DONE);
}

static void
what_is_denied_goes_nowhere_and_says_why(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *doc = NULL;
	struct problem p;

	asks(w, &(struct ask){.head = "DELETE /v1/things HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	p = problem(w);
	doc = p.doc;
	assert_int_equal(p.status, 403);
	assert_state(p.title, "denied");
	assert_false(p.close);
	assert_false(p.retry);
	assert_state(json_str(json_get(json_root(doc), "verdict")), "deny");
	assert_state(json_str(json_at(json_get(json_root(doc), "rules"), 0)), "no-bulk");
	assert_true(has(p.detail, "no-bulk"));
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	assert_int_equal(w->c->nhttps, 0);
}

static void
a_denied_body_is_not_read(void **state)
{
	struct world *w = *state;
	struct problem p;

	asks(w, &(struct ask){.head = "DELETE /v1/things HTTP/1.1\r\nHost: api.test\r\n"
				      "Content-Length: 3000000\r\nExpect: 100-continue\r\n\r\n",
		    .body = 2,
		    .length = 3000000,
		    .expect = true});
	p = problem(w);
	assert_int_equal(p.status, 403);
	assert_true(p.close);
	json_free(p.doc);
	assert_true(silent(&w->front, MSG_H_NEED));
	assert_true(silent(&w->front, MSG_H_GO));
}

/* A form could add effects, never take them away. */
static void
a_form_that_is_denied_by_its_head_is_not_read(void **state)
{
	static const char head[] = "POST /v1/things HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
				   "application/x-www-form-urlencoded\r\n"
				   "Content-Length: 100000\r\n\r\n";
	struct world *w = *state;
	AUTO_FREE char *text =
	    http_policy(w, "{\"id\":\"reads\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}", 3);

	asks(w, &(struct ask){.head = head, .body = 2, .length = 100000});
	(void)needed(w);
	core_boot_policy_use(w->c, world_parse(text));
	asks(w, &(struct ask){.act = 2, .head = head, .body = 2, .length = 100000});
	assert_problem(w, 403, "denied");
	assert_true(silent(&w->front, MSG_H_NEED));
}

static void
a_log_that_does_not_answer_refuses_and_names_no_action(void **state)
{
	struct world *w = *state;
	struct problem p;

	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	settle(w); /* a new writer that has not told its live records */
	asks(w, &(struct ask){0});
	p = problem(w);
	assert_state(p.title, "log_unavailable");
	assert_null(json_get(json_root(p.doc), "action")); /* it is on no record */
	json_free(p.doc);
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
a_writer_that_dies_before_the_ack_refuses_and_the_action_counts_as_not_sent(void **state)
{
	struct world *w = *state;

	w->hold_writer = true;
	asks(w, &(struct ask){0});
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	settle(w);
	assert_problem(w, 503, "log_unavailable");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	assert_int_equal(w->c->not_sent.n, CORE_ID_SIZE);
}

static void
without_a_policy_everything_is_refused(void **state)
{
	struct world *w = *state;

	core_boot_policy_drop(w->c);
	settle(w);
	asks(w, &(struct ask){0});
	assert_problem(w, 503, "no_policy");
	assert_verdict(w, "deny");
}

static void
without_upstream_nothing_is_sent_and_the_record_says_so(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;

	w->hold_writer = true;
	asks(w, &(struct ask){0});
	end_close(&w->upstream);
	settle(w);
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_problem(w, 503, "unavailable");
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "not_sent");
}

/* --- names ----------------------------------------------------------------------- */

static void
an_unknown_host_is_denied_and_a_known_one_is_not(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){.listener = L_PROXY,
		    .host = "evil.test",
		    .connect = "evil.test:443",
		    .head = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"});
	assert_problem(w, 403, "denied");
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	asks(w, &(struct ask){.act = 2, .listener = L_PROXY, .connect = "api.test:443"});
	passes(w, 2);
}

static void
names_that_disagree_are_misdirected(void **state)
{
	static const struct ask wrong[] = {
	    {.head = "GET / HTTP/1.1\r\nHost: infra.test:8443\r\n\r\n"}, /* Host */
	    {.sni = "infra.test"},
	    {.sni = ""},
	    {.head = "GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n"},
	    {.host = "infra.test",
		.port = 8443,
		.head = "GET / HTTP/1.1\r\nHost: infra.test:8443\r\n\r\n"}, /* another listener */
	    {.clear = true},
	    {.connect = "api.test:443"},
	    {.listener = L_PROXY, .connect = "infra.test:8443"},
	    {.listener = L_PROXY, .connect = "api.test:443", .sni = "infra.test"},
	    {.listener = L_PROXY},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct ask a = wrong[i];

		a.act = i + 1;
		asks(w, &a);
		assert_problem(w, 421, "misdirected_request");
		assert_verdict(w, "deny");
	}
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	asks(w, &(struct ask){.act = 100, .head = "GET / HTTP/1.1\r\nHost: API.test:443\r\n\r\n"});
	passes(w, 100);
}

static void
absolute_form_goes_to_clear_targets_only(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){.listener = L_PROXY,
		    .clear = true,
		    .host = "127.0.0.1",
		    .port = 8080,
		    .head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"});
	l = http_leased(w);
	assert_false(l.tls);
	assert_int_equal(l.credential, 0);
	assert_state(lease_field(&l, "Accept-Encoding")->value, "identity"); /* for others' */
	asks(w, &(struct ask){.act = 2,
		    .listener = L_PROXY,
		    .clear = true,
		    .port = 80,
		    .head = "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_problem(w, 403, "denied");
}

static void
one_label_stands_before_a_wildcard(void **state)
{
	static const char *const wrong[] = {"ok.test", "a.b.ok.test", "evilok.test"};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		AUTO_FREE char *head = xasprintf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", wrong[i]);
		AUTO_FREE char *connect = xasprintf("%s:443", wrong[i]);

		asks(w, &(struct ask){.act = i + 1,
			    .listener = L_PROXY,
			    .host = wrong[i],
			    .connect = connect,
			    .head = head});
		assert_problem(w, 403, "denied");
	}
	asks(w, &(struct ask){.act = 9,
		    .listener = L_PROXY,
		    .host = "a.ok.test",
		    .connect = "a.ok.test:443",
		    .head = "GET / HTTP/1.1\r\nHost: a.ok.test\r\n\r\n"});
	passes(w, 9);
}

static void
a_target_that_is_another_place_now_is_not_reached(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3);
	struct ask a = {.listener = L_PROXY,
	    .clear = true,
	    .host = "127.0.0.1",
	    .port = 8081,
	    .head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n\r\n"};

	memcpy(strstr(text, "127.0.0.1:8080"), "127.0.0.1:8081", 14);
	core_boot_policy_use(w->c, world_parse(text));
	asks(w, &a);
	assert_problem(w, 403, "denied");
	a = (struct ask){.act = 2,
	    .listener = L_PLAIN,
	    .clear = true,
	    .host = "127.0.0.1",
	    .port = 8080,
	    .head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"};
	asks(w, &a);
	assert_problem(w, 503, "run_ended"); /* the listener went with its target */
	asks(w, &(struct ask){.act = 3});
	passes(w, 3);
}

static void connects(struct world *w, const char *host, uint32_t port);

static void
nor_by_connect(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3);

	connects(w, "infra.test", 8443);
	(void)heard(&w->front, MSG_H_CONNECTED);
	memcpy(strstr(text, "infra.test:8443"), "infra.test:8444", 15);
	core_boot_policy_use(w->c, world_parse(text));
	connects(w, "infra.test", 8444);
	assert_problem(w, 403, "denied");
}

static void
connects(struct world *w, const char *host, uint32_t port)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, 7);
	buf_u32(&b, L_PROXY);
	buf_lz(&b, host);
	buf_u32(&b, port);
	buf_lz(&b, "as sent");
	say(&w->front, MSG_H_CONNECT, &b);
	settle(w);
}

static void
connect_is_for_https_targets_of_the_run_and_else_on_the_record(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *a = NULL;
	struct rd r;

	connects(w, "api.test", 443);
	r = heard(&w->front, MSG_H_CONNECTED);
	assert_int_equal(rd_u64(&r), 7);
	assert_state(rd_lstr(&r), "api.test");
	assert_int_equal(count(w, "action"), 0); /* the requests inside are the actions */
	connects(w, "x.ok.test", 443);
	(void)heard(&w->front, MSG_H_CONNECTED);
	connects(w, "api.test", 22);
	assert_problem(w, 403, "denied");
	connects(w, "model.test", 443);
	assert_problem(w, 403, "denied");
	connects(w, "127.0.0.1", 8080);
	assert_problem(w, 403, "denied");
	connects(w, "", 0);
	assert_problem(w, 400, "invalid_request");
	a = last(w, "action");
	assert_state(json_str(at(a, "request", "operation")), "CONNECT");
	assert_state(json_str(at(a, "request", "kind")), "connect");
	assert_int_equal(count(w, "action"), 4);
}

static void
a_head_that_is_not_well_formed_is_recorded_and_refused(void **state)
{
	static const struct {
		const char *head, *fault;
		unsigned status;
	} bad[] = {
	    {"GET /\r\n\r\n", "request line: no version", 400},
	    {"GET / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		NULL, 400},
	    {"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", NULL, 400},
	    {"GET / HTTP/1.1\r\nHost: api.test\r\nExpect: tea\r\n\r\n", NULL, 417},
	    {"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", NULL,
		501},
	    {"GET /aaa", "head: no end within 65536 bytes", 431},
	    {"GET /aaa", "target: 20000 bytes, limit 16384", 414},
	    {GET_API, "PRI is not spoken here", 400},
	    {"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\n", NULL,
		400}, /* no body came */
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(json) struct json_doc *a = NULL;
		uint32_t effects;

		asks(w, &(struct ask){.act = i + 1, .head = bad[i].head, .fault = bad[i].fault});
		assert_problem(w, bad[i].status, "invalid_request");
		a = last(w, "action");
		assert_true(effect_from_json(at(a, "request", "effects"), &effects));
		assert_true((effects & EFFECT_invalid) != 0);
		assert_verdict(w, "deny");
	}
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* The words that pick the status are those of common/http.h. */
static void
faults_of_the_reader_get_their_status(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf head = BUF(1 << 17);
	struct http_request *req = xcalloc(1, sizeof(*req));
	struct err err = {0};
	size_t scanned = 0, end;

	buf_put_z(&head, "GET /");
	while (head.n < HTTP_TARGET_MAX + 5)
		buf_put_c(&head, 'a');
	buf_put_z(&head, " HTTP/1.1\r\nHost: api.test\r\n\r\n");
	assert_int_equal(http_request_parse(buf_str(&head), req, &err), ERR_TOO_LARGE);
	asks(w, &(struct ask){.fault = err.msg, .head = "GET /a"});
	assert_problem(w, 414, "invalid_request");
	buf_reset(&head);
	while (head.n < HTTP_HEAD_MAX)
		buf_put_c(&head, 'a');
	assert_int_equal(http_head_end(buf_str(&head), &scanned, &end, &err), ERR_TOO_LARGE);
	asks(w, &(struct ask){.act = 2, .fault = err.msg, .head = "GET /a"});
	assert_problem(w, 431, "invalid_request");
	free(req);
}

/* --- the loop -------------------------------------------------------------------- */

#define ASK_MODEL                                                           \
	"POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nAccept: */*\r\n" \
	"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"

static void
the_loop_reaches_models_and_nothing_else(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;
	AUTO_BUF struct buf frame = BUF(1 << 16);
	AUTO_BUF struct buf json = BUF(4096), plain = BUF(64);
	AUTO(secret) struct secret *own = NULL;
	struct blob_ref ref;
	struct http_lease l;
	struct jcs j;
	struct err err;

	asks(w, &(struct ask){.listener = L_LOOP,
		    .clear = true,
		    .host = "model.test",
		    .head = ASK_MODEL,
		    .content = "{}"});
	l = http_leased(w);
	assert_true(l.tls);
	assert_int_equal(l.seal, BLOB_PLAIN_MAX);
	assert_state(l.kid, w->run->id);
	assert_int_equal(l.key.n, BLOB_KEY_LEN);
	assert_int_equal(l.wrap.n, BLOB_WRAP_LEN);
	own = secret_copy(l.key);
	assert_false(str_eq(l.key, secret_str(w->run->key)));
	assert_int_equal(l.credential, 3);
	assert_state(l.field, "X-Api-Key");
	assert_int_equal(blob_seal_with(own, (const uint8_t *)l.wrap.p, str_z(w->run->id),
			     "text/event-stream", STR("words"), &frame, &ref, &err),
	    0);
	assert_int_equal(blob_open(w->run->key, buf_str(&frame), &ref, &plain, &err), 0);
	assert_true(str_eqz(buf_str(&plain), "words"));
	jcs_init(&j, &json);
	jcs_open(&j, NULL);
	blob_ref_jcs(&j, "r", &ref);
	jcs_close(&j);
	json.p[json.n - 1] = '\0'; /* its last brace */
	answers(w, &(struct answered){.http = 200,
		       .head = l.hash,
		       .blob = (char *)json.p + 5,
		       .body_bytes = 2,
		       .body = hash_sha256(STR("{}"))});
	(void)heard(&w->front, MSG_H_DONE);
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_get(json_root(o), "answer"), "kid")), w->run->id);
	asks(w, &(struct ask){.act = 2, .listener = L_LOOP, .clear = true});
	assert_problem(w, 403, "denied");
}

/* Its environment is the first thing that code prints; elsewhere the same body is refused. */
static void
a_model_may_read_of_placeholders(void **state)
{
	struct world *w = *state;
	char p[CORE_PLACEHOLDER_SIZE];
	AUTO_FREE char *body = NULL, *head = NULL, *other = NULL;

	core_cred_placeholder(w->run, STR("api-key"), p);
	body = xasprintf("{\"t\":\"%s\"}", p);
	head = xasprintf("POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nContent-Type: "
			 "application/json\r\nContent-Length: %zu\r\n\r\n",
	    strlen(body));
	other = xasprintf("POST /v1/messages HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
			  "application/json\r\nContent-Length: %zu\r\n\r\n",
	    strlen(body));
	asks(w, &(struct ask){.listener = L_LOOP,
		    .clear = true,
		    .host = "model.test",
		    .head = head,
		    .content = body});
	(void)http_leased(w);
	asks(w, &(struct ask){.act = 2, .head = other, .content = body});
	assert_problem(w, 403, "credential_scope");
}

static void
an_answer_that_was_not_to_be_kept_is_not_taken_for_one(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;
	AUTO_BUF struct buf frame = BUF(1 << 16);
	AUTO_BUF struct buf json = BUF(4096);
	struct blob_ref ref;
	struct http_lease l;
	struct jcs j;
	struct err err;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	assert_int_equal(
	    blob_seal(w->run->key, str_z(w->run->id), "text/plain", STR("x"), &frame, &ref, &err),
	    0);
	jcs_init(&j, &json);
	jcs_array(&j, NULL);
	blob_ref_jcs(&j, NULL, &ref);
	buf_put_c(&json, '\0');
	answers(w, &(struct answered){.http = 200, .head = l.hash, .blob = (char *)json.p + 1});
	o = last(w, "outcome");
	assert_null(json_get(json_root(o), "answer"));
}

static void
the_sandbox_does_not_reach_models(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){.listener = L_PROXY,
		    .host = "model.test",
		    .connect = "model.test:443",
		    .head = "GET / HTTP/1.1\r\nHost: model.test\r\n\r\n"});
	assert_problem(w, 403, "denied");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* Where the policy says wrapped and the run has a listener for it: by the proxy, and by that one.
 */
static void
a_wrapped_agent_asks_a_model_and_its_words_are_kept(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	char p[CORE_PLACEHOLDER_SIZE];
	AUTO_FREE char *head = NULL;

	for (size_t i = 0; i < w->run->ntargets; i++)
		if (strcmp(w->run->targets[i].id, "llm") == 0)
			w->run->targets[i].listen = CORE_LISTEN_TCP;
	core_cred_placeholder(w->run, STR("llm-key"), p);
	head = xasprintf("POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nX-Api-Key: "
			 "%s\r\nX-Session-Id: ses_7\r\n"
			 "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n",
	    p);
	asks(w, &(struct ask){.listener = L_PROXY,
		    .host = "model.test",
		    .connect = "model.test:443",
		    .sni = "model.test",
		    .head = head,
		    .content = "{}"});
	l = http_leased(w);
	assert_int_equal(l.seal, BLOB_PLAIN_MAX);
	assert_state(l.kid, w->run->id);
	assert_state(l.field, "X-Api-Key");
	asks(w,
	    &(struct ask){.act = 2,
		.listener = L_PROXY,
		.host = "model.test",
		.connect = "model.test:443",
		.sni = "model.test",
		.head = "POST /v1/messages HTTP/1.1\r\nHost: model.test\r\nX-Api-Key: another\r\n"
			"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n",
		.content = "{}"});
	assert_problem(w, 403, "credential_foreign");
}

static void
a_models_request_is_read_whole_before_it_goes(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	struct need n;

	asks(w, &(struct ask){.listener = L_LOOP,
		    .clear = true,
		    .host = "model.test",
		    .head = "POST /v1/messages HTTP/1.1\r\nHost: model.test\r\n"
			    "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
		    .body = 2,
		    .length = 100000});
	n = needed(w);
	assert_int_equal(n.how, 1);
	assert_int_equal(n.most, CORE_HTTP_MODEL_MAX);
	{
		AUTO_BUF struct buf b = BUF(1 << 17);

		while (b.n < 100000)
			buf_put_c(&b, ' ');
		gives_body(w, 1, buf_str(&b));
	}
	l = http_leased(w);
	assert_int_equal(l.body, 2);
	assert_int_equal(l.length, 100000);
	asks(w, &(struct ask){.act = 2,
		    .listener = L_LOOP,
		    .clear = true,
		    .host = "model.test",
		    .head = "POST /v1/messages HTTP/1.1\r\nHost: model.test\r\n"
			    "Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n",
		    .body = 2,
		    .length = 9000000});
	assert_problem(w, 413, "body_too_large");
}

/* --- GraphQL --------------------------------------------------------------------- */

static void
graphql(struct world *w, uint64_t act, const char *json)
{
	AUTO_FREE char *head =
	    xasprintf("POST /graphql HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
		      "application/json\r\nContent-Length: %zu\r\n\r\n",
		strlen(json));

	asks(w, &(struct ask){.act = act, .head = head, .content = json});
}

static void
a_query_passes_and_a_mutation_needs_people(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *a = NULL;
	struct core_request *rq;

	graphql(w, 1, "{\"query\":\"{viewer{login}}\"}");
	assert_verdict(w, "allow");
	passes(w, 1);
	graphql(w, 2, "{\"query\":\"mutation M {\\n volumeDelete(id: \\\"v1\\\") }\"}");
	assert_problem(w, 403, "needs_approval");
	a = last(w, "action");
	assert_state(
	    json_str(json_get(json_get(at(a, "request", "facts"), "http"), "api")), "graphql");
	rq = newest_request(w);
	assert_true(has(str_z(rq->show), "volumeDelete(id: \\\"v1\\\")")); /* as sent */
	assert_true(
	    has(str_z(rq->show), "mutation M {\n volumeDelete(id: \"v1\") }")); /* as text */
	graphql(w, 3, "{\"query\":");
	assert_problem(w, 400, "invalid_request");
}

static void
a_query_in_the_url_is_judged_by_its_text(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){.head = "GET /graphql?query=%7Bviewer%7Blogin%7D%7D HTTP/1.1\r\n"
				      "Host: api.test\r\n\r\n"});
	passes(w, 1);
	asks(w,
	    &(struct ask){.act = 2,
		.head = "GET /graphql?query=mutation%7Bx%7D HTTP/1.1\r\nHost: api.test\r\n\r\n"});
	assert_verdict(w, "deny");
}

static void
a_parser_that_dies_refuses(void **state)
{
	struct world *w = *state;

	w->hold_parser = true;
	graphql(w, 1, "{\"query\":\"{viewer{login}}\"}");
	assert_int_equal(count(w, "action"), 0);
	end_close(&w->parser);
	settle(w);
	assert_verdict(w, "deny");
	assert_problem(w, 400, "invalid_request");
}

/* --- approvals ------------------------------------------------------------------- */

#define DELETE_ONE "DELETE /v1/things/17 HTTP/1.1\r\nHost: api.test\r\n"

static void
what_people_sign_passes_once(void **state)
{
	struct world *w = *state;
	struct problem p;
	struct core_request *rq;
	struct http_lease l;

	asks(w, &(struct ask){.head = DELETE_ONE "X-Request-Id: 1\r\n\r\n"});
	p = problem(w);
	assert_int_equal(p.status, 403);
	assert_state(p.title, "needs_approval");
	assert_true(p.retry);
	assert_true(has(p.how, "send exactly the same request again"));
	rq = newest_request(w);
	assert_state(p.request, rq->id);
	json_free(p.doc);
	assert_true(has(str_z(rq->show), "DELETE https://api.test:443/v1/things/17"));
	asks(w, &(struct ask){.act = 2, .head = DELETE_ONE "X-Request-Id: 2\r\n\r\n"});
	assert_problem(w, 403, "needs_approval");
	assert_ptr_equal(newest_request(w), rq); /* the same */
	arms(w);
	asks(w, &(struct ask){.act = 3, .head = DELETE_ONE "X-Other: 2\r\n\r\n"});
	assert_problem(w, 403, "needs_approval"); /* another field, another action */
	asks(w, &(struct ask){.act = 4, .head = DELETE_ONE "X-Request-Id: 3\r\n\r\n"});
	assert_verdict(w, "allow");
	assert_int_equal(count(w, "approval.consumed"), 1);
	assert_int_equal(rq->state, CORE_RQ_CONSUMED);
	l = http_leased(w);
	assert_state(l.method, "DELETE");
	answers(w, &(struct answered){.act = 4, .http = 204, .head = l.hash});
	(void)heard(&w->front, MSG_H_DONE);
	asks(w, &(struct ask){.act = 5, .head = DELETE_ONE "X-Request-Id: 4\r\n\r\n"});
	assert_problem(w, 403, "needs_approval");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
a_policy_that_changes_between_verdict_and_sending_stops_it(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3);

	w->hold_writer = true;
	asks(w, &(struct ask){0});
	core_boot_policy_use(w->c, world_parse(text));
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_problem(w, 503, "unavailable");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

#define PUT_BODY(length) \
	"PUT /v1/things/17 HTTP/1.1\r\nHost: api.test\r\nContent-Length: " length "\r\n\r\n"

static void
a_body_under_approval_is_bound_by_its_bytes(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){.head = PUT_BODY("3"), .content = "one"});
	assert_problem(w, 403, "needs_approval");
	assert_true(has(str_z(newest_request(w)->show), "\none"));
	arms(w);
	asks(w, &(struct ask){.act = 2, .head = PUT_BODY("3"), .content = "two"});
	assert_problem(w, 403, "needs_approval");
	asks(w, &(struct ask){.act = 3, .head = PUT_BODY("3"), .content = "one"});
	l = http_leased(w);
	assert_state(l.content, "one");
}

/* curl and its like make a boundary at each try: the parts are what people sign. */
static void
a_multipart_body_may_have_another_boundary(void **state)
{
	struct world *w = *state;
	static const char *const bodies[] = {"--b1\r\nA\r\n--b1--", "--b2\r\nA\r\n--b2--",
	    "--b3\r\nB\r\n--b3--", "--b1\r\nb1\r\n--b1--"};

	for (uint64_t i = 0; i < ARRAY_LEN(bodies); i++) {
		AUTO_FREE char *head = xasprintf("PUT /v1/up/7 HTTP/1.1\r\nHost: api.test\r\n"
						 "Content-Type: multipart/form-data; "
						 "boundary=%.2s\r\nContent-Length: %zu\r\n\r\n",
		    bodies[i] + 2, strlen(bodies[i]));

		asks(w, &(struct ask){.act = i + 1, .head = head, .content = bodies[i]});
		assert_problem(w, 403, "needs_approval");
		assert_int_equal(count(w, "approval.request"), i < 1 ? 1 : i < 2 ? 1 : i);
	}
}

/* Field by field as docs/format-approval.md has it, of which digest-4 is the vector. */
static void
the_digest_is_that_of_the_document(void **state)
{
	struct world *w = *state;
	struct hash none = hash_sha256(STR("")), body = hash_sha256(STR("hi")), got, want;
	AUTO(json) struct json_doc *a = NULL;
	AUTO_BUF struct buf fields = BUF(4096);
	AUTO_BUF struct buf content = BUF(64);
	char id[HASH_HEX_SIZE + 1] = " ";
	struct digest *d = digest_begin();

	asks(w, &(struct ask){.listener = L_PROXY,
		    .host = "infra.test",
		    .port = 8443,
		    .connect = "infra.test:8443",
		    .content = "hi",
		    .head = "PUT /v1/volumes/7?force=1 HTTP/1.1\r\nHost: infra.test:8443\r\n"
			    "Content-Type: text/plain\r\nDate: now\r\nContent-Length: 2\r\n\r\n"});
	assert_problem(w, 403, "needs_approval");
	a = last(w, "action");
	assert_true(hash_from_hex(json_str(at(a, "request", "digest")), &got));
	hash_hex(&none, id + 1);
	buf_lz(&fields, "accept-encoding");
	buf_lz(&fields, "identity");
	buf_lz(&fields, "content-type");
	buf_lz(&fields, "text/plain");
	buf_u8(&content, 1);
	buf_u64(&content, 2);
	buf_put(&content, body.b, HASH_LEN);
	digest_field(d, DIGEST_PROTOCOL, STR("https"));
	digest_field(d, DIGEST_TARGET, STR("infra"));
	digest_field(d, DIGEST_UPSTREAM, STR("infra.test:8443"));
	digest_field(d, DIGEST_UPSTREAM_ID, str_z(id));
	digest_field(d, DIGEST_CREDENTIAL, STR("infra-key"));
	digest_field(d, DIGEST_AGENT, STR("tester"));
	digest_field(d, DIGEST_RUN, str_z(w->run->id));
	digest_field(d, DIGEST_OPERATION, STR("PUT"));
	digest_field(d, DIGEST_RESOURCE, STR("/v1/volumes/7?force=1"));
	digest_field(d, DIGEST_HEADERS, buf_str(&fields));
	digest_field(d, DIGEST_BODY, buf_str(&content));
	digest_field(d, DIGEST_EFFECTS, STR("overwrite " EFFECTS_ENGINE));
	want = digest_end(d);
	assert_true(hash_eq(&got, &want));
}

static void
a_streamed_body_under_approval_is_read_and_shown(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(1 << 18);
	struct http_lease l;
	struct need n;

	while (b.n < 100000)
		buf_put_c(&b, 'x');
	for (uint64_t act = 1; act <= 2; act++) {
		asks(w, &(struct ask){
			    .act = act, .head = PUT_BODY("100000"), .body = 2, .length = 100000});
		n = needed(w);
		assert_int_equal(n.how, 1);
		gives_body(w, act, buf_str(&b));
		if (act == 1) {
			assert_problem(w, 403, "needs_approval");
			arms(w);
		}
	}
	l = http_leased(w);
	assert_int_equal(l.body, 2); /* sealed */
	assert_int_equal(l.length, 100000);
	assert_true(silent(&w->front, MSG_H_NEED));
}

static void
a_large_body_under_approval_is_bound_by_its_hash_and_streamed_at_use(void **state)
{
	struct world *w = *state;
	struct hash sha = hash_sha256(STR("large"));
	AUTO(json) struct json_doc *q = NULL;
	struct http_lease l;
	struct need n;
	struct rd r;

	asks(w, &(struct ask){
		    .head = PUT_BODY("9000000"), .body = 2, .length = 9000000, .expect = true});
	n = needed(w);
	assert_int_equal(n.how, 2);
	assert_int_equal(n.most, 9000000);
	gives_hash(w, 1, 9000000, &sha);
	assert_problem(w, 403, "needs_approval");
	q = last(w, "approval.request");
	assert_int_equal(json_int(json_get(json_root(q), "body_bytes")), 9000000);
	/* Not armed: the same again is told so at once, nothing is read. */
	asks(w, &(struct ask){.act = 2, .head = PUT_BODY("9000000"), .body = 2, .length = 9000000});
	assert_problem(w, 403, "needs_approval");
	assert_true(silent(&w->front, MSG_H_NEED));
	arms(w);
	asks(w, &(struct ask){.act = 3,
		    .head = PUT_BODY("9000000"),
		    .body = 2,
		    .length = 9000000,
		    .expect = true});
	r = heard(&w->front, MSG_H_GO);
	(void)rd_bytes(&r, 16);
	assert_int_equal(rd_u8(&r), 1);
	assert_int_equal(rd_u64(&r), 9000000);
	l = http_leased(w);
	{
		AUTO(json) struct json_doc *a = last(w, "action");

		assert_true(json_bool(json_get(at(a, "request", "http"), "body_bound")));
	}
	assert_int_equal(l.body, 3);
	assert_int_equal(l.bound, 1);
	assert_int_equal(l.expect, 1);
	assert_memory_equal(l.sha.p, sha.b, HASH_LEN);
	/* Upstream saw other bytes: it withheld the last one. */
	answers(
	    w, &(struct answered){.act = 3, .status = 4, .head = l.hash, .body_bytes = 8999999});
	assert_problem(w, 400, "body_differs");
}

static void
a_large_body_that_was_only_hashed_is_not_taken_for_sent(void **state)
{
	struct world *w = *state;
	struct hash sha = hash_sha256(STR("large"));

	asks(w, &(struct ask){.head = PUT_BODY("9000000"), .body = 2, .length = 9000000});
	(void)needed(w);
	asks(w, &(struct ask){.act = 2, .head = PUT_BODY("9000000"), .body = 2, .length = 9000000});
	(void)needed(w);
	gives_hash(w, 1, 9000000, &sha);
	assert_problem(w, 403, "needs_approval");
	arms(w);
	gives_hash(w, 2, 9000000, &sha); /* its body is gone: the signatures are not used */
	assert_problem(w, 403, "needs_approval");
	assert_int_equal(count(w, "approval.consumed"), 0);
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

/* --- after a restart of the log's writer or of core -------------------------------- */

static void
live_record(struct world *w, const char *type, const char *data, uint64_t seq)
{
	AUTO_BUF struct buf live = BUF(65536);
	AUTO_FREE char *body = xasprintf("{\"data\":%s,\"run\":\"%s\",\"seq\":%llu,\"time\":"
					 "\"2026-01-01T00:00:00.000000Z\",\"type\":\"%s\"}",
	    data, w->run->id, (unsigned long long)seq, type);
	uint8_t root[32] = {0};

	buf_lz(&live, body);
	buf_put(&live, root, 32);
	say(&w->writer, MSG_W_LIVE, &live);
}

static void
a_large_body_is_still_bound_after_a_restart(void **state)
{
	struct world *w = *state;
	struct hash sha = hash_sha256(STR("large"));
	AUTO_FREE char *data = NULL;
	struct core_request *rq;

	asks(w, &(struct ask){.head = PUT_BODY("9000000"), .body = 2, .length = 9000000});
	(void)needed(w);
	gives_hash(w, 1, 9000000, &sha);
	assert_problem(w, 403, "needs_approval");
	for (size_t i = 0; i < w->nrecords; i++)
		if (strcmp(w->records[i].type, "approval.request") == 0)
			data = xstrdup(w->records[i].data);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	live_record(w, "run.start", "{\"targets\":[]}", 1);
	live_record(w, "approval.request", data, 2);
	world_live(w);
	rq = newest_request(w);
	assert_int_equal(rq->state, CORE_RQ_PENDING);
	asks(w, &(struct ask){.act = 2, .head = PUT_BODY("9000000"), .body = 2, .length = 9000000});
	assert_problem(w, 403, "needs_approval");
	assert_true(silent(&w->front, MSG_H_NEED)); /* known by its hash: not read again */
	assert_ptr_equal(newest_request(w), rq);
}

/* --- streamed bodies ------------------------------------------------------------- */

static void
a_body_nobody_needs_to_see_streams(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	struct rd r;

	asks(w,
	    &(struct ask){.head = "POST /v1/up HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
				  "application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
		.body = 3});
	r = heard(&w->front, MSG_H_GO);
	(void)rd_bytes(&r, 16);
	assert_int_equal(rd_u8(&r), 1);
	assert_int_equal(rd_u64(&r), 10000000); /* max_body */
	l = http_leased(w);
	assert_int_equal(l.body, 4);
	assert_int_equal(l.bound, 0);
	asks(w, &(struct ask){.act = 2,
		    .head = "POST /v1/up HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
			    "application/octet-stream\r\nContent-Length: 10000001\r\n\r\n",
		    .body = 2,
		    .length = 10000001});
	assert_problem(w, 413, "body_too_large");
	asks(w, &(struct ask){.act = 3,
		    .head = "POST /v1/up HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
			    "application/octet-stream\r\nContent-Length: 10000000\r\n\r\n",
		    .body = 2,
		    .length = 10000000});
	l = http_leased(w);
	assert_int_equal(l.body, 3);
	assert_int_equal(l.length, 10000000);
}

static void
a_body_that_does_not_come_is_on_the_record(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){.head = "POST /graphql HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
				      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
		    .body = 3});
	(void)needed(w);
	front_says(w, MSG_H_CLOSE, 1);
	assert_verdict(w, "deny");
	assert_true(silent(&w->front, MSG_H_REFUSED));
	assert_int_equal(w->c->nhttps, 0);
}

static void
bodies_in_hand_have_a_ceiling_and_are_let_go_once_leased(void **state)
{
	struct world *w = *state;
	static const char query[] = "{\"query\":\"{viewer{login}}\"}";

	w->run->held = CORE_HTTP_RUN_HELD - CORE_HTTP_GRAPHQL_MAX + 1;
	asks(w, &(struct ask){.head = "POST /graphql HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
				      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
		    .body = 3});
	assert_problem(w, 503, "too_many_bodies");
	w->run->held = 0;
	asks(w, &(struct ask){.act = 2,
		    .head = "POST /graphql HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
			    "application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
		    .body = 3});
	(void)needed(w);
	assert_int_equal(w->run->held, CORE_HTTP_GRAPHQL_MAX);
	gives_body(w, 2, str_z(query));
	(void)http_leased(w);
	assert_int_equal(w->run->held, 0);
	assert_int_equal(w->c->held, 0);
}

static void
an_unsealed_body_ends_fronts_wire(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(64);
	AUTO_FD int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct err err;

	asks(w, &(struct ask){.head = "POST /graphql HTTP/1.1\r\nHost: api.test\r\nContent-Type: "
				      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
		    .body = 3});
	(void)needed(w);
	assert_int_equal(write(fd, "{}", 2), 2);
	buf_u64(&b, 7);
	buf_u64(&b, 1);
	buf_u64(&b, 2);
	assert_int_equal(
	    ipc_sync_send(w->front.fd, IPC_ROLE_FRONT, IPC_ROLE_CORE, MSG_H_BODY, &b, &fd, 1, &err),
	    0);
	settle(w);
	assert_true(w->front.fd <= 0);
}

/* --- ends ------------------------------------------------------------------------ */

static void
no_answer_becomes_a_502_once_its_outcome_is_durable(void **state)
{
	static const struct {
		uint8_t status;
		const char *message, *title, *outcome;
		unsigned http;
	} ends[] = {
	    {2, "connection reset", "upstream_failed", "lost", 502},
	    {5, "address not allowed", "upstream_failed", "not_sent", 502},
	    {2, "timed out", "upstream_timeout", "lost", 504},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		AUTO(json) struct json_doc *o = NULL;
		struct http_lease l;

		w->hold_writer = false;
		asks(w, &(struct ask){.act = i + 1});
		l = http_leased(w);
		w->hold_writer = true;
		answers(w, &(struct answered){.act = i + 1,
			       .status = ends[i].status,
			       .message = ends[i].message,
			       .head = l.hash});
		assert_true(silent(&w->front, MSG_H_REFUSED));
		ack(w, &w->records[w->nrecords - 1]);
		settle(w);
		assert_problem(w, ends[i].http, ends[i].title);
		o = last(w, "outcome");
		assert_state(json_str(json_get(json_root(o), "status")), ends[i].outcome);
	}
}

static void
upstream_that_sent_another_head_ends_its_wire_and_the_answer(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){0});
	(void)http_leased(w);
	answers(w, &(struct answered){.http = 200, .head = hash_sha256(STR("other"))});
	assert_true(w->upstream.fd <= 0);
	assert_true(silent(&w->front, MSG_H_DONE));
	(void)heard(&w->front, MSG_H_ABORT);
	assert_int_equal(count(w, "outcome"), 1);
}

static void
upstream_that_sent_another_body_ends_its_wire(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){
		    .head = "POST /v1/x HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\n",
		    .content = "hi"});
	l = http_leased(w);
	answers(
	    w, &(struct answered){
		   .http = 200, .head = l.hash, .body_bytes = 2, .body = hash_sha256(STR("ho"))});
	assert_true(w->upstream.fd <= 0);
	(void)heard(&w->front, MSG_H_ABORT);
}

static void
a_client_that_goes_aborts_and_leaves_an_outcome(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;
	struct http_lease l;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	front_says(w, MSG_H_CLOSE, 1);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	answers(w, &(struct answered){.status = 3, .http = 200, .head = l.hash});
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "broken");
	assert_true(silent(&w->front, MSG_H_DONE));
	assert_int_equal(w->c->nhttps, 0);
}

static void
the_end_of_the_run_aborts_what_is_in_flight(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;

	asks(w, &(struct ask){0});
	(void)http_leased(w);
	core_run_end(w->run, "killed", STR("x"), false);
	settle(w);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	(void)heard(&w->front, MSG_H_ABORT);
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "lost");
	asks(w, &(struct ask){.act = 2});
	assert_problem(w, 503, "run_ended");
}

static void
an_upstream_that_dies_leaves_an_outcome(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;

	asks(w, &(struct ask){0});
	(void)http_leased(w);
	end_close(&w->upstream);
	settle(w);
	(void)heard(&w->front, MSG_H_ABORT);
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "lost");
	assert_true(json_bool(json_get(json_root(o), "reads"))); /* a GET: nothing is in doubt */
}

static void
a_change_that_an_upstream_takes_along_is_in_doubt(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *o = NULL;

	asks(w, &(struct ask){.head = "POST /v1/things HTTP/1.1\r\nHost: api.test\r\n"
				      "Content-Length: 2\r\n\r\n",
		    .content = "hi"});
	(void)http_leased(w);
	end_close(&w->upstream);
	settle(w);
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "lost");
	assert_null(json_get(json_root(o), "reads"));
}

static void
a_front_that_dies_does_not_take_the_outcome_with_it(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	asks(w, &(struct ask){0});
	l = http_leased(w);
	end_close(&w->front);
	settle(w);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	answers(w, &(struct answered){.status = 1, .http = 200, .head = l.hash});
	assert_int_equal(count(w, "outcome"), 1);
	assert_int_equal(w->c->nhttps, 0);
}

static void
an_exchange_in_flight_is_not_in_doubt_for_this_process(void **state)
{
	struct world *w = *state;
	struct http_lease l;
	AUTO_BUF struct buf live = BUF(8192);
	AUTO_BUF struct buf body = BUF(4096);
	uint8_t root[32] = {0};

	asks(w, &(struct ask){0});
	l = http_leased(w);
	{
		AUTO(json) struct json_doc *a = last(w, "action");
		struct str id = json_str(json_get(json_root(a), "action"));

		buf_printf(&body,
		    "{\"data\":{\"action\":\"%.*s\"},\"run\":\"%s\",\"seq\":1,\"time\":"
		    "\"2026-01-01T00:00:00.000000Z\",\"type\":\"action\"}",
		    STR_ARG(id), w->run->id);
	}
	w->run->state = CORE_RUN_STARTING; /* its start is not among the live records here */
	buf_lstr(&live, buf_str(&body));
	buf_put(&live, root, 32);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	say(&w->writer, MSG_W_LIVE, &live);
	world_live(w);
	assert_int_equal(count(w, "outcome"), 0);
	answers(w, &(struct answered){.http = 200, .head = l.hash});
	assert_int_equal(count(w, "outcome"), 1);
	/* Of another process nobody knows. */
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	say(&w->writer, MSG_W_LIVE, &live);
	world_live(w);
	assert_int_equal(count(w, "outcome"), 2);
	{
		AUTO(json) struct json_doc *o = last(w, "outcome");

		assert_state(json_str(json_get(json_root(o), "status")), "unknown");
	}
}

static void
a_run_has_a_ceiling_of_requests_in_flight(void **state)
{
	struct world *w = *state;
	size_t own = w->run->nhttps;

	w->run->nhttps = CORE_HTTP_RUN_MAX;
	asks(w, &(struct ask){0});
	assert_problem(w, 503, "too_many_requests");
	w->run->nhttps = own;
	asks(w, &(struct ask){.act = 2});
	passes(w, 2);
}

static void
the_same_exchange_twice_ends_fronts_wire(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){0});
	asks(w, &(struct ask){0});
	assert_true(w->front.fd <= 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    http_test(a_read_is_recorded_then_leased_with_the_credential_then_done),
	    http_test(a_change_waits_for_its_signed_record_and_its_outcome),
	    http_test(what_is_denied_goes_nowhere_and_says_why),
	    http_test(a_denied_body_is_not_read),
	    http_test(a_form_that_is_denied_by_its_head_is_not_read),
	    http_test(a_log_that_does_not_answer_refuses_and_names_no_action),
	    http_test(a_writer_that_dies_before_the_ack_refuses_and_the_action_counts_as_not_sent),
	    http_test(without_a_policy_everything_is_refused),
	    http_test(without_upstream_nothing_is_sent_and_the_record_says_so),
	    http_test(an_unknown_host_is_denied_and_a_known_one_is_not),
	    http_test(names_that_disagree_are_misdirected),
	    http_test(absolute_form_goes_to_clear_targets_only),
	    http_test(one_label_stands_before_a_wildcard),
	    http_test(a_target_that_is_another_place_now_is_not_reached),
	    http_test(nor_by_connect),
	    http_test(connect_is_for_https_targets_of_the_run_and_else_on_the_record),
	    http_test(a_head_that_is_not_well_formed_is_recorded_and_refused),
	    http_test(faults_of_the_reader_get_their_status),
	    http_test(the_loop_reaches_models_and_nothing_else),
	    http_test(a_model_may_read_of_placeholders),
	    http_test(an_answer_that_was_not_to_be_kept_is_not_taken_for_one),
	    http_test(the_sandbox_does_not_reach_models),
	    http_test(a_wrapped_agent_asks_a_model_and_its_words_are_kept),
	    http_test(a_models_request_is_read_whole_before_it_goes),
	    http_test(a_query_passes_and_a_mutation_needs_people),
	    http_test(a_query_in_the_url_is_judged_by_its_text),
	    http_test(a_parser_that_dies_refuses),
	    http_test(what_people_sign_passes_once),
	    http_test(a_policy_that_changes_between_verdict_and_sending_stops_it),
	    http_test(a_body_under_approval_is_bound_by_its_bytes),
	    http_test(the_digest_is_that_of_the_document),
	    http_test(a_multipart_body_may_have_another_boundary),
	    http_test(a_streamed_body_under_approval_is_read_and_shown),
	    http_test(a_large_body_under_approval_is_bound_by_its_hash_and_streamed_at_use),
	    http_test(a_large_body_that_was_only_hashed_is_not_taken_for_sent),
	    http_test(a_large_body_is_still_bound_after_a_restart),
	    http_test(a_body_nobody_needs_to_see_streams),
	    http_test(a_body_that_does_not_come_is_on_the_record),
	    http_test(bodies_in_hand_have_a_ceiling_and_are_let_go_once_leased),
	    http_test(an_unsealed_body_ends_fronts_wire),
	    http_test(no_answer_becomes_a_502_once_its_outcome_is_durable),
	    http_test(upstream_that_sent_another_head_ends_its_wire_and_the_answer),
	    http_test(upstream_that_sent_another_body_ends_its_wire),
	    http_test(a_client_that_goes_aborts_and_leaves_an_outcome),
	    http_test(the_end_of_the_run_aborts_what_is_in_flight),
	    http_test(an_upstream_that_dies_leaves_an_outcome),
	    http_test(a_change_that_an_upstream_takes_along_is_in_doubt),
	    http_test(a_front_that_dies_does_not_take_the_outcome_with_it),
	    http_test(an_exchange_in_flight_is_not_in_doubt_for_this_process),
	    http_test(a_run_has_a_ceiling_of_requests_in_flight),
	    http_test(the_same_exchange_twice_ends_fronts_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
