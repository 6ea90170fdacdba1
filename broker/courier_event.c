/*
 * One record to what is sent of it. Runs in the courier. The record is the broker's, but words in
 * it are an agent's or a person's: only members that stand in the table below leave, cut and
 * printable; what an agent chose stands apart, under "claimed". Signatures, inputs, sealed content
 * and everything that a later version may add stay here.
 */
#include "broker/courier.h"

#include "audit/export.h"
#include "common/jcs.h"

#include "common/banned.h"

#define WORDS_MAX 256
#define LIST_MAX 32

/* Who is to believe it, and who may read it. */
enum class {
	PUBLIC, /* the broker's own: ids, digests, times, names of the policy */
	WORDS,	/* what a person wrote */
	TEXT,	/* names taken out of what would be sent; only with "show": "text" */
	CLAIM,	/* what an agent says of itself */
};

/* In the order of their names. `input.relations` is one level down. */
static const struct {
	const char *key;
	enum class class;
} members[] = {
    {"action", PUBLIC},
    {"added", PUBLIC},
    {"agent", CLAIM},
    {"approve_by", PUBLIC},
    {"at", PUBLIC},
    {"attempts", PUBLIC},
    {"body_bytes", PUBLIC},
    {"body_sha256", PUBLIC},
    {"by", PUBLIC},
    {"bytes", PUBLIC},
    {"clock", PUBLIC},
    {"decision", PUBLIC},
    {"digest", PUBLIC},
    {"effects", PUBLIC},
    {"env", PUBLIC},
    {"evidence", PUBLIC},
    {"field", PUBLIC},
    {"file", PUBLIC},
    {"first", PUBLIC},
    {"from", PUBLIC},
    {"gone", PUBLIC},
    {"id", PUBLIC},
    {"key", PUBLIC},
    {"kind", PUBLIC},
    {"max_rows", PUBLIC},
    {"not_before", PUBLIC},
    {"note", WORDS},
    {"owner", PUBLIC},
    {"parent", PUBLIC},
    {"person", PUBLIC},
    {"policy", PUBLIC},
    {"reason", WORDS},
    {"relations", TEXT},
    {"role", PUBLIC},
    {"root", PUBLIC},
    {"rule", PUBLIC},
    {"run", PUBLIC},
    {"seconds", PUBLIC},
    {"seq", PUBLIC},
    {"serial", PUBLIC},
    {"sha256", PUBLIC},
    {"sign_by", PUBLIC},
    {"size", PUBLIC},
    {"slots", PUBLIC},
    {"statement", PUBLIC},
    {"status", PUBLIC},
    {"target", PUBLIC},
    {"theirs", PUBLIC},
    {"ticket", WORDS},
    {"to", PUBLIC},
    {"unsigned", PUBLIC},
    {"use_by", PUBLIC},
    {"use_within", PUBLIC},
    {"used", PUBLIC},
    {"uses", PUBLIC},
    {"vkey", PUBLIC},
    {"why", WORDS},
    {"within", PUBLIC},
    {"witness", PUBLIC},
};

/* --- words --------------------------------------------------------------------------- */

static void
put_words(struct jcs *j, const char *key, struct str s)
{
	AUTO_BUF struct buf b = BUF(WORDS_MAX + 8);

	export_words(&b, s, WORDS_MAX);
	jcs_str(j, key, buf_str(&b));
}

/* --- values ---------------------------------------------------------------------------- */

static void put_value(struct jcs *j, const char *key, const struct json *v, unsigned depth);

static void
put_array(struct jcs *j, const char *key, const struct json *v, unsigned depth)
{
	jcs_array(j, key);
	for (size_t i = 0; i < json_count(v) && i < LIST_MAX; i++)
		put_value(j, NULL, json_at(v, i), depth + 1);
	jcs_array_end(j);
}

static void
put_value(struct jcs *j, const char *key, const struct json *v, unsigned depth)
{
	switch (json_type(v)) {
	case JSON_STRING: put_words(j, key, json_str(v)); return;
	case JSON_INT: jcs_int(j, key, json_int(v)); return;
	case JSON_BOOL: jcs_bool(j, key, json_bool(v)); return;
	case JSON_ARRAY:
		if (depth == 0)
			put_array(j, key, v, depth);
		return;
	case JSON_OBJECT: /* of a list, too: not for outside */
	case JSON_NULL:
	case JSON_NUMBER: return;
	}
}

/* A member of the record, or the one of its input that may leave. */
static const struct json *
member(const struct json *data, size_t i)
{
	if (members[i].class == TEXT)
		return json_get(json_get(data, "input"), members[i].key);
	return json_get(data, members[i].key);
}

static bool
leaves(const struct courier_event *e, const struct json *data, size_t i)
{
	const struct json *v = member(data, i);

	return v != NULL && members[i].class != CLAIM && (members[i].class != TEXT || e->text) &&
	       json_type(v) != JSON_OBJECT;
}

static void
put_claims(struct jcs *j, const struct json *data)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct json *v = member(data, i);

		if (members[i].class != CLAIM || json_type(v) != JSON_STRING)
			continue;
		if (!any)
			jcs_open(j, "claimed");
		any = true;
		put_words(j, members[i].key, json_str(v));
	}
	if (any)
		jcs_close(j);
}

/* --- the whole ---------------------------------------------------------------------------- */

void
courier_link(
    const struct courier_event *e, struct str type, struct str id, struct str run, struct buf *out)
{
	struct str base = e->link;

	if (base.n == 0)
		return;
	if (str_has_suffix(base, "/"))
		base.n--;
	buf_put_str(out, base);
	if (str_has_prefix(type, "approval.") && record_run_ok(id))
		buf_printf(out, "/requests/%.*s", STR_ARG(id));
	else if (str_has_prefix(type, "run.") && record_run_ok(run))
		buf_put_z(out, "/runs");
	else
		buf_put_c(out, '/');
}

static void
put_event(
    const struct courier_event *e, const struct record *r, const struct json *data, struct buf *out)
{
	AUTO_BUF struct buf id = BUF(COURIER_ID_MAX), link = BUF(512);
	struct hash leaf = record_leaf(r->body);
	struct jcs j;

	buf_printf(&id, "%.*s#%llu", STR_ARG(e->origin), (unsigned long long)r->seq);
	courier_link(e, r->type, json_str(json_get(data, "id")), r->run, &link);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_claims(&j, data);
	jcs_open(&j, "data");
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (leaves(e, data, i))
			put_value(&j, members[i].key, member(data, i), 0);
	jcs_close(&j);
	jcs_hex(&j, "hash", leaf.b, HASH_LEN);
	jcs_str(&j, "id", buf_str(&id));
	if (link.n != 0)
		jcs_str(&j, "link", buf_str(&link));
	jcs_str(&j, "origin", e->origin);
	if (r->run.n != 0)
		jcs_str(&j, "run", r->run);
	jcs_z(&j, "schema", "cofferdam-webhook/1");
	jcs_int(&j, "seq", (int64_t)r->seq);
	jcs_str(&j, "src", r->src);
	jcs_str(&j, "time", r->time);
	jcs_str(&j, "type", r->type);
	jcs_close(&j);
}

int
courier_event_put(const struct courier_event *e, struct str body, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf text = BUF(COURIER_BODY_MAX);
	struct record r;
	int rc = record_parse(body, &r, err);

	if (rc == 0)
		rc = json_parse(r.data, "record", &doc, err);
	if (rc != 0)
		return rc;
	put_event(e, &r, json_root(doc), &text);
	if (buf_over(&text))
		return err_set(err, ERR_TOO_LARGE, "record %llu: over %zu bytes to send",
		    (unsigned long long)r.seq, COURIER_BODY_MAX);
	if (e->slack)
		return courier_slack_put(e, buf_str(&text), out, err);
	buf_put_str(out, buf_str(&text));
	return 0;
}
