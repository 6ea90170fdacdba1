/*
 * GraphQL over HTTP to facts: a JSON body, a document as the body, a query string. Runs in
 * cofferdam-parser alone, on bytes that the agent chose. A request that says two things about
 * which document runs is left unknown; it must never pick one of them.
 */
#include "policy/facts.h"

#include "common/arena.h"
#include "common/hash.h"
#include "common/jcs.h"
#include "policy/graphql.h"
#include "policy/webform.h"

#include "common/banned.h"

DEFINE_AUTO(arena, struct arena, arena_free)

/* What one request holds, whichever way it came. */
struct request {
	struct str query, name, hash;
	bool has_query;
	const char *unknown; /* why it is not to be told what runs; NULL: it is */
};

static void
put_names(struct jcs *j, const char *key, const struct str *v, size_t n)
{
	jcs_array(j, key);
	for (size_t i = 0; i < n; i++)
		jcs_str(j, NULL, v[i]);
	jcs_array_end(j);
}

static int
put_document(struct jcs *j, const struct request *q, struct err *err)
{
	AUTO(arena) struct arena *a = arena_new(GRAPHQL_ARENA_MAX);
	struct graphql_doc *doc;
	struct graphql_op op;
	int rc = graphql_parse(a, q->query, &doc, err);

	if (rc == 0)
		rc = graphql_select(a, doc, q->name, &op, err);
	if (rc != 0)
		return rc;
	jcs_open(j, NULL);
	put_names(j, "fields", op.fields, op.nfields);
	if (op.type == GRAPHQL_MUTATION && op.nnested != 0)
		put_names(j, "nested", op.nested, op.nnested);
	jcs_int(j, "operations", op.operations);
	jcs_z(j, "type", graphql_type_name(op.type));
	jcs_close(j);
	return 0;
}

static void
put_unknown(struct jcs *j, const char *why)
{
	jcs_open(j, NULL);
	jcs_z(j, "unknown", why);
	jcs_close(j);
}

/* A hash beside its document is for the server's cache; one that is not its own may run another. */
static bool
hash_is_of(struct str hex, struct str text)
{
	struct hash said, is = hash_sha256(text);

	return hash_from_hex(hex, &said) && hash_eq(&said, &is);
}

static int
put_request(struct jcs *j, const struct request *q, struct err *err)
{
	if (q->unknown != NULL) {
		put_unknown(j, q->unknown);
		return 0;
	}
	if (q->has_query) {
		if (q->hash.n != 0 && !hash_is_of(q->hash, q->query)) {
			put_unknown(j, "the document and the hash beside it differ");
			return 0;
		}
		return put_document(j, q, err);
	}
	if (q->hash.n == 0)
		return err_set(err, ERR_SYNTAX, "GraphQL: there is no query");
	jcs_open(j, NULL);
	jcs_str(j, "hash", q->hash);
	if (q->name.n != 0)
		jcs_str(j, "name", q->name);
	jcs_close(j);
	return 0;
}

/* --- a JSON object ------------------------------------------------------------------- */

/* "extensions": only persistedQuery says what runs. */
static void
read_extensions(struct request *q, const struct json *v)
{
	const struct json *p = json_get(v, "persistedQuery"), *hash;
	struct hash h;

	if (json_type(v) != JSON_OBJECT && json_type(v) != JSON_NULL)
		q->unknown = "extensions are no object";
	for (size_t i = 0; i < json_count(v) && json_type(v) == JSON_OBJECT; i++)
		if (!str_eqz(json_key(v, i), "persistedQuery") &&
		    str_ieqz(json_key(v, i), "persistedQuery"))
			q->unknown = "persistedQuery is spelled another way";
	if (p == NULL || json_type(p) == JSON_NULL)
		return;
	hash = json_get(p, "sha256Hash");
	if (json_type(p) != JSON_OBJECT || json_count(p) != 2 ||
	    json_int(json_get(p, "version")) != 1 || !hash_from_hex(json_str(hash), &h))
		q->unknown = "persistedQuery is not of version 1 with a SHA-256";
	else
		q->hash = json_str(hash);
}

/* `text` may be null: then it is as if it were not there. */
static bool
read_text(const struct json *v, struct str *ret, bool *ret_is)
{
	*ret_is = json_type(v) == JSON_STRING;
	*ret = json_str(v);
	return *ret_is || json_type(v) == JSON_NULL;
}

static void
read_member(struct request *q, struct str key, const struct json *v)
{
	bool named;

	if (str_eqz(key, "query")) {
		if (!read_text(v, &q->query, &q->has_query))
			q->unknown = "query is no string";
	} else if (str_eqz(key, "operationName")) {
		if (!read_text(v, &q->name, &named))
			q->unknown = "operationName is no string";
	} else if (str_eqz(key, "variables")) {
		if (json_type(v) != JSON_OBJECT && json_type(v) != JSON_NULL)
			q->unknown = "variables are no object";
	} else if (str_eqz(key, "extensions")) {
		read_extensions(q, v);
	} else {
		/* "id", "doc_id", "Query": what they do, servers decide. */
		q->unknown = "a member other than query, operationName, variables and extensions";
	}
}

static struct request
read_object(const struct json *v)
{
	struct request q = {.unknown = NULL};

	if (json_type(v) != JSON_OBJECT)
		q.unknown = "a request that is no object";
	for (size_t i = 0; q.unknown == NULL && i < json_count(v); i++)
		read_member(&q, json_key(v, i), json_at(v, i));
	return q;
}

static int
put_batch(struct jcs *j, const struct json *root, struct err *err)
{
	int rc = 0;

	if (json_count(root) == 0)
		return err_set(err, ERR_SYNTAX, "GraphQL: an empty batch");
	if (json_count(root) > FACTS_GRAPHQL_BATCH_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "GraphQL: more than %d requests in a batch",
		    FACTS_GRAPHQL_BATCH_MAX);
	for (size_t i = 0; rc == 0 && i < json_count(root); i++) {
		struct request q = read_object(json_at(root, i));

		rc = put_request(j, &q, err);
	}
	return rc;
}

static int
put_json(struct jcs *j, struct str body, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct request q;
	int rc = json_parse_numbers(body, "body", &doc, err);

	if (rc != 0)
		return rc == ERR_TOO_LARGE ? ERR_TOO_COMPLEX : rc;
	if (json_type(json_root(doc)) == JSON_ARRAY)
		return put_batch(j, json_root(doc), err);
	q = read_object(json_root(doc));
	return put_request(j, &q, err);
}

/* --- the ways in --------------------------------------------------------------------- */

typedef int put_fn(struct jcs *j, struct str input, struct err *err);

static int
facts(put_fn *fn, struct str input, struct buf *ret_json, struct err *err)
{
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX);
	struct jcs j;
	int rc;

	if (input.n > FACTS_GRAPHQL_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "GraphQL: the request is over %zu bytes",
		    FACTS_GRAPHQL_MAX);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_array(&j, "graphql");
	rc = fn(&j, input, err);
	if (rc != 0)
		return rc == ERR_TOO_COMPLEX ? rc : ERR_SYNTAX;
	jcs_array_end(&j);
	jcs_close(&j);
	if (buf_over(&out))
		return err_set(
		    err, ERR_TOO_COMPLEX, "GraphQL: its facts are over %zu bytes", FACTS_JSON_MAX);
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}

static int
put_text(struct jcs *j, struct str body, struct err *err)
{
	const struct request q = {.query = body, .has_query = true};

	return put_request(j, &q, err);
}

static int
put_nothing(struct jcs *j, struct str why, struct err *err UNUSED)
{
	jcs_open(j, NULL);
	jcs_str(j, "unknown", why);
	jcs_close(j);
	return 0;
}

/*
 * What `curl -d` sends when nobody says that it is JSON: a form to one server, JSON to another.
 * It is one name and no value that any form of GraphQL knows.
 */
static bool
form_is_json(struct str body)
{
	struct str s = str_trim(body);

	return s.n != 0 && (s.p[0] == '{' || s.p[0] == '[') && memchr(s.p, '&', s.n) == NULL &&
	       memchr(s.p, ';', s.n) == NULL;
}

int
facts_graphql_body(struct str content_type, struct str body, struct buf *ret_json, struct err *err)
{
	struct media_type t = media_type_parse(content_type);

	if (!t.odd && (t.media == MEDIA_JSON || (t.media == MEDIA_FORM && form_is_json(body))))
		return facts(put_json, body, ret_json, err);
	if (!t.odd && t.media == MEDIA_GRAPHQL)
		return facts(put_text, body, ret_json, err);
	return facts(put_nothing, STR("a body of this Content-Type"), ret_json, err);
}

/* --- a query string ------------------------------------------------------------------ */

struct parameter {
	const char *name;
	bool seen;
	struct buf value;
};
enum { QUERY, OPERATION, VARIABLES, EXTENSIONS, PARAMETERS };

/* Decodes one pair; what it is to GraphQL, if anything, goes into p[]. */
static int
read_pair(
    struct parameter *p, struct str name, struct str value, const char **unknown, struct err *err)
{
	AUTO_BUF struct buf key = BUF(name.n + 1);

	if (!webform_decode(name, &key))
		return err_set(err, ERR_SYNTAX, "GraphQL: a name of the query string is malformed");
	for (size_t i = 0; i < PARAMETERS; i++) {
		if (!str_eqz(buf_str(&key), p[i].name))
			continue;
		if (p[i].seen)
			*unknown = "a parameter stands twice";
		p[i].seen = true;
		if (!webform_decode(value, &p[i].value))
			return err_set(err, ERR_SYNTAX, "GraphQL: %s is malformed", p[i].name);
		return 0;
	}
	if (webform_is_graphql(name))
		*unknown = "a parameter that may name another document";
	return 0;
}

static int
read_query_extensions(struct request *q, struct str text, struct json_doc **doc, struct err *err)
{
	int rc = json_parse_numbers(text, "extensions", doc, err);

	if (rc == 0)
		read_extensions(q, json_root(*doc));
	return rc;
}

static int
put_parameters(struct jcs *j, struct parameter *p, struct str query, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct request q = {.unknown = NULL};
	struct str rest = query, name, value;
	int rc = 0;

	if (query.n != 0 && memchr(query.p, ';', query.n) != NULL)
		q.unknown = "a ';' in the query string";
	while (rc == 0 && webform_next(&rest, &name, &value))
		rc = read_pair(p, name, value, &q.unknown, err);
	q.query = buf_str(&p[QUERY].value);
	q.has_query = p[QUERY].seen;
	q.name = buf_str(&p[OPERATION].value);
	if (rc == 0 && p[EXTENSIONS].value.n != 0)
		rc = read_query_extensions(&q, buf_str(&p[EXTENSIONS].value), &doc, err);
	return rc == 0 ? put_request(j, &q, err) : rc;
}

static int
put_query(struct jcs *j, struct str query, struct err *err)
{
	struct parameter p[PARAMETERS] = {[QUERY] = {.name = "query"},
	    [OPERATION] = {.name = "operationName"},
	    [VARIABLES] = {.name = "variables"},
	    [EXTENSIONS] = {.name = "extensions"}};
	int rc;

	for (size_t i = 0; i < PARAMETERS; i++)
		buf_init(&p[i].value, 2 * query.n + 1);
	rc = put_parameters(j, p, query, err);
	for (size_t i = 0; i < PARAMETERS; i++)
		buf_free(&p[i].value);
	return rc;
}

int
facts_graphql_query(struct str query, struct buf *ret_json, struct err *err)
{
	return facts(put_query, query, ret_json, err);
}
