/*
 * `replay whatif --reclassify`: what a recorded request is, told by the classifiers of this program
 * from its bytes. Runs as the reviewer, who needs the key of the content; foreign text is parsed in
 * the confined parser alone, as in the broker. Sends nothing anywhere.
 */
#include "cmd/cmd_replay_reclassify.h"

#include "audit/blob.h"
#include "cmd/cmd_parser.h"
#include "common/xalloc.h"
#include "policy/effects_http.h"
#include "policy/facts.h"

#include "common/banned.h"

struct reclassify {
	struct replay_blobs *blobs;
	struct cmd_parser *parser;
	struct buf bytes; /* of the action at hand */
	struct cmd_facts sql;
	struct cmd_answer body;
	struct json_doc *doc; /* of either */
	struct http_view view;
};

int
reclassify_new(struct replay_blobs *blobs, struct reclassify **ret, struct err *err)
{
	struct reclassify *x = xcalloc(1, sizeof(*x));
	int r = cmd_parser_start(&x->parser, err);

	if (r != 0) {
		free(x);
		return r;
	}
	x->blobs = blobs;
	buf_init(&x->bytes, BLOB_PLAIN_MAX);
	*ret = x;
	return 0;
}

static void
forget(struct reclassify *x)
{
	json_free(TAKE_PTR(x->doc));
	cmd_facts_free(&x->sql);
	cmd_answer_free(&x->body);
	buf_reset(&x->bytes);
}

void
reclassify_free(struct reclassify *x)
{
	if (x == NULL)
		return;
	forget(x);
	buf_free(&x->bytes);
	cmd_parser_stop(x->parser);
	free(x);
}

static enum reclassified
none(struct buf *why, const char *what)
{
	buf_put_z(why, what);
	return RECLASSIFIED_NONE;
}

static void
differ(struct buf *why, const char *what, struct str now, struct str then)
{
	buf_printf(why, "%s%s now %.*s, were %.*s", why->n != 0 ? "; " : "", what, STR_ARG(now),
	    STR_ARG(then));
}

static void
differ_effects(struct buf *why, uint32_t now, uint32_t then)
{
	AUTO_BUF struct buf a = BUF(512), b = BUF(512);

	buf_put_c(&a, '[');
	effect_put(&a, now);
	buf_put_c(&a, ']');
	buf_put_c(&b, '[');
	effect_put(&b, then);
	buf_put_c(&b, ']');
	differ(why, "effects", buf_str(&a), buf_str(&b));
}

/* --- SQL -------------------------------------------------------------------------------------- */

static void
take_relations(struct replay_input *in, const struct json *list)
{
	size_t n = json_count(list);

	if (n > REPLAY_RELATIONS_MAX)
		n = REPLAY_RELATIONS_MAX;
	for (size_t i = 0; i < n; i++)
		in->relations[i] = json_str(json_at(list, i));
	in->in.nrelations = n;
}

/* What the recorded facts gave, by the table of today; 0: they are no facts. */
static uint32_t
effects_then(struct str facts)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct facts_sql_view view;

	if (json_parse(facts, "facts", &doc, NULL) != 0 ||
	    json_get(json_root(doc), "error") != NULL)
		return EFFECT_invalid;
	effects_sql(json_root(doc), &view);
	return view.effects;
}

/* The statement: the bytes, or beside what was bound to it in a document of its own. */
static bool
statement(const struct reclassify *x, const struct canon_node *request, struct json_doc **doc,
    struct str *ret)
{
	struct str want = canon_text(canon_member(request, "text_sha256"));

	*ret = buf_str(&x->bytes);
	for (int i = 0; i < 2; i++) {
		struct hash text = hash_sha256(*ret);
		char hex[HASH_HEX_SIZE];

		hash_hex(&text, hex);
		if (str_eqz(want, hex))
			return true;
		if (i != 0 || json_parse(*ret, "head", doc, NULL) != 0)
			return false;
		*ret = json_str(json_get(json_root(*doc), "sql"));
	}
	return false;
}

static enum reclassified
sql(struct reclassify *x, const struct canon_node *request, struct replay_input *in,
    struct buf *why)
{
	const struct canon_node *facts = canon_member(request, "facts");
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};
	uint32_t now;
	struct str text;

	if (!statement(x, request, &doc, &text))
		return none(why, "the sealed text is not the one whose hash was recorded");
	if (cmd_parser_facts(x->parser, text, &x->sql, &err) != 0)
		return none(why, err.msg);
	if (x->sql.parsed ? str_eq(facts->text, buf_str(&x->sql.json))
			  : canon_member(facts, "error") != NULL)
		return RECLASSIFIED_SAME;
	if (x->sql.parsed && json_parse(buf_str(&x->sql.json), "facts", &x->doc, &err) != 0)
		return none(why, err.msg);
	differ(why, "facts", buf_str(&x->sql.json), facts->text);
	now = (in->in.effects & ~effects_then(facts->text)) | x->sql.view.effects;
	if (now != in->in.effects)
		differ_effects(why, now, in->in.effects);
	in->in.effects = now;
	in->in.statements = x->sql.view.statements;
	/* What the parser of today refuses has no facts. */
	take_relations(in, x->doc != NULL ? json_get(json_root(x->doc), "rel") : NULL);
	return RECLASSIFIED_OTHER;
}

/* --- HTTP ------------------------------------------------------------------------------------- */

/* True: the body (or query) was judged then, so it is judged now. */
static bool
body_judged(struct reclassify *x, const struct policy_target *t, const struct http_request *r,
    struct str body, struct err *err)
{
	const struct http_field *type = http_field_find(r->fields, r->nfields, "Content-Type");
	uint8_t dialect = http_api_dialect(x->view.api);

	if ((x->view.query_wanted
		    ? cmd_parser_text(x->parser, dialect, r->query, &x->body, err)
		    : cmd_parser_body(x->parser, dialect, type != NULL ? type->value : STR(""),
			  body, &x->body, err)) != 0)
		return false;
	if (!x->body.parsed) {
		effects_http_body_fault("the parser refused what it was to judge", &x->view);
		return true;
	}
	if (json_parse(buf_str(&x->body.text), "facts", &x->doc, err) != 0)
		return false;
	effects_http_body(t, x->view.api, json_root(x->doc), &x->view);
	return true;
}

static bool
same_names(const struct replay_input *in, const struct str *names, size_t n)
{
	if (in->in.nrelations != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!str_eq(in->relations[i], names[i]))
			return false;
	return true;
}

/* The view beside the record. */
static enum reclassified
compare(struct reclassify *x, const struct canon_node *request, struct replay_input *in,
    struct buf *why)
{
	const struct canon_node *http = canon_member(request, "http");
	const struct canon_node *facts = canon_member(canon_member(request, "facts"), "http");
	struct str api = canon_text(canon_member(facts, "api")), names[RESOURCES_MAX];
	size_t n = resources_list(&x->view.resources, names);
	/* Core refused for a reason of its own: that stays, whatever the bytes are. */
	uint32_t own = canon_member(http, "status") != NULL ? in->in.effects & EFFECT_opaque : 0;
	bool hidden = canon_member(http, "found") != NULL;

	if (!str_eqz(api, http_api_name(x->view.api)))
		differ(why, "API", str_z(http_api_name(x->view.api)), api);
	if ((x->view.effects | own) != in->in.effects)
		differ_effects(why, x->view.effects | own, in->in.effects);
	if (x->view.statements != in->in.statements || x->view.deferred != in->in.deferred ||
	    (!hidden && !same_names(in, names, n)))
		buf_printf(why, "%sother resources, number, or time", why->n != 0 ? "; " : "");
	if (why->n == 0)
		return RECLASSIFIED_SAME;
	in->in.effects = x->view.effects | own;
	in->in.statements = x->view.statements;
	in->in.deferred = x->view.deferred;
	in->in.nrelations = hidden ? 0 : n;
	for (size_t i = 0; i < in->in.nrelations; i++)
		in->relations[i] = names[i];
	return RECLASSIFIED_OTHER;
}

/* The request from its bytes. False: `why` says what of it was never recorded. */
static bool
view(struct reclassify *x, const struct policy_target *t, const struct canon_node *facts,
    struct buf *why)
{
	struct str body = buf_str(&x->bytes), head;
	bool refused = canon_member(facts, "fault") != NULL;
	struct http_request r;
	size_t scanned = 0, end = 0;
	struct err err = {0};

	if (http_head_end(body, &scanned, &end, &err) != 0 || end == 0)
		end = body.n;
	head = str_mem(body.p, end);
	body = str_mem(body.p + end, body.n - end);
	if (http_request_parse(head, &r, NULL) != 0) {
		effects_http_fault(http_method_claim(head), &x->view);
		return true;
	}
	if (refused && canon_member(facts, "path") == NULL) {
		buf_put_z(why, "it was refused for how its body came, which is not in its bytes");
		return false;
	}
	effects_http(t, &r, &x->view);
	if ((!refused && canon_member(facts, "body") == NULL) ||
	    (!x->view.query_wanted && !x->view.body_wanted))
		return true;
	if (x->view.body_wanted && body.n == 0) {
		buf_put_z(why, "its body is not in the record");
		return false;
	}
	if (body_judged(x, t, &r, body, &err))
		return true;
	buf_put_z(why, err.msg);
	return false;
}

static enum reclassified
http(struct reclassify *x, const struct policy *p, const struct canon_node *request,
    struct replay_input *in, struct buf *why)
{
	const struct canon_node *facts = canon_member(canon_member(request, "facts"), "http");
	const struct policy_target *t = policy_target(p, in->in.target);
	bool masked = memmem(x->bytes.p, x->bytes.n, "<masked ", 8) != NULL;
	const uint32_t recorded = in->in.effects;
	enum reclassified r;

	if (str_eqz(canon_text(canon_member(request, "kind")), "connect"))
		return RECLASSIFIED_SAME; /* refused by its method alone */
	if (!view(x, t, facts, why))
		return RECLASSIFIED_NONE;
	r = compare(x, request, in, why);
	if (r == RECLASSIFIED_OTHER && masked) {
		in->in.effects = recorded;
		buf_reset(why);
		return none(why, "a secret stood in it, so that not all of its bytes are here");
	}
	return r;
}

/* --- either ----------------------------------------------------------------------------------- */

enum reclassified
reclassify(struct reclassify *x, const struct policy *p, const struct canon_node *data,
    struct replay_input *in, struct buf *why)
{
	const struct canon_node *request = canon_member(data, "request");
	const struct canon_node *facts = canon_member(request, "facts");
	const struct canon_node *head = canon_member(request, "head");
	struct err err = {0};

	buf_reset(why);
	forget(x);
	if (canon_count(facts) == 0)
		return RECLASSIFIED_SAME; /* a connection, a cancel: core's own words */
	if (head == NULL)
		return none(why, "its bytes were not recorded");
	if (replay_blobs_read(x->blobs, head->text, &x->bytes, &err) != 0)
		return none(why, err.msg);
	return canon_member(facts, "http") != NULL ? http(x, p, request, in, why)
						   : sql(x, request, in, why);
}
