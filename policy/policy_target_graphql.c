/*
 * The key "graphql" of an http target: where it is served, what its fields do, which documents a
 * client may name by their hash. Runs in the command line on source and in core on bundles.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "policy/graphql.h"

#include "common/banned.h"

#define FIELDS_MAX 1024
#define PERSISTED_MAX 256
#define DOCUMENT_MAX ((size_t)16384)

struct graphql_in {
	struct strs paths;
	size_t nfields, npersisted;
	struct policy_graphql_field *fields;
	struct policy_persisted *persisted;
};

static bool
is_name(struct str s)
{
	if (s.n == 0 || s.n > POLICY_TEXT_MAX || (s.p[0] >= '0' && s.p[0] <= '9'))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '_')
			return false;
	}
	return true;
}

static bool
is_field(struct str s)
{
	struct str kind;

	return str_cut(&s, '.', &kind) && (str_eqz(kind, "mutation") || str_eqz(kind, "query")) &&
	       is_name(s);
}

static int
by_name(const void *a, const void *b)
{
	const struct policy_graphql_field *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

static int
read_fields(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct graphql_in *g = out;
	size_t n = json_count(v);
	int rc = read_type(r, v, JSON_OBJECT, "effects", err);

	if (rc != 0)
		return rc;
	if (n == 0 || n > FIELDS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "effects must name from 1 to %d fields, name %zu", FIELDS_MAX, n);
	g->fields = arena_alloc(r->p->mem, n * sizeof(*g->fields));
	for (size_t i = 0; i < n; i++) {
		struct policy_graphql_field *f = &g->fields[i];

		if (!is_field(json_key(v, i)))
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "a field must be mutation.NAME or query.NAME, is \"%.*s\"",
			    STR_ARG(json_key(v, i)));
		f->name = read_keep(r, json_key(v, i));
		rc = read_effect_list(r, json_at(v, i), &f->effects, err);
		if (rc != 0)
			return rc;
		if (f->effects == 0)
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "field %.*s has no effects: say [\"read\"] if it only reads",
			    STR_ARG(f->name));
	}
	qsort(g->fields, n, sizeof(*g->fields), by_name);
	g->nfields = n;
	return 0;
}

static int
by_hash(const void *a, const void *b)
{
	const struct policy_persisted *x = a, *y = b;

	return memcmp(x->hash.b, y->hash.b, HASH_LEN);
}

/* Printable ASCII and line ends, as everything that people review. */
static bool
document_is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < 0x20 || s.p[i] > 0x7e) && s.p[i] != '\n' && s.p[i] != '\r' &&
		    s.p[i] != '\t')
			return false;
	return s.n != 0 && s.n <= DOCUMENT_MAX;
}

DEFINE_AUTO(arena, struct arena, arena_free)

/* What could not be judged later is found where it was written. */
static int
check_document(struct reader *r, const struct json *v, struct err *err)
{
	AUTO(arena) struct arena *a = arena_new(GRAPHQL_ARENA_MAX);
	struct graphql_doc *doc;
	struct err why = {0};

	if (graphql_parse(a, json_str(v), &doc, &why) != 0)
		return json_err(r->doc, v, err, ERR_INVALID, "a persisted document: %s", why.msg);
	return 0;
}

static int
read_document(struct reader *r, const struct json *v, struct str key, struct policy_persisted *ret,
    struct err *err)
{
	struct hash is;
	int rc = read_type(r, v, JSON_STRING, "a persisted document", err);

	if (rc != 0)
		return rc;
	if (!hash_from_hex(key, &ret->hash))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "the name of a persisted document must be its SHA-256 in 64 lower-case hex "
		    "digits");
	if (!document_is_plain(json_str(v)))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a persisted document must be printable ASCII of 1 to %zu bytes", DOCUMENT_MAX);
	is = hash_sha256(json_str(v));
	if (!hash_eq(&is, &ret->hash)) {
		char hex[HASH_HEX_SIZE];

		hash_hex(&is, hex);
		return json_err(r->doc, v, err, ERR_INVALID,
		    "the document's SHA-256 is %s, not what it is named by", hex);
	}
	ret->text = read_keep(r, json_str(v));
	return check_document(r, v, err);
}

static int
read_persisted(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct graphql_in *g = out;
	size_t n = json_count(v);
	int rc = read_type(r, v, JSON_OBJECT, "persisted", err);

	if (rc != 0)
		return rc;
	if (n == 0 || n > PERSISTED_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "persisted must hold from 1 to %d documents, holds %zu", PERSISTED_MAX, n);
	g->persisted = arena_alloc(r->p->mem, n * sizeof(*g->persisted));
	for (size_t i = 0; i < n; i++) {
		rc = read_document(r, json_at(v, i), json_key(v, i), &g->persisted[i], err);
		if (rc != 0)
			return rc;
	}
	qsort(g->persisted, n, sizeof(*g->persisted), by_hash);
	g->npersisted = n;
	return 0;
}

/* `out` is the whole target. */
int
policy_read_graphql(struct reader *r, const struct json *v, void *out, struct err *err)
{
	static const struct read_field fields[] = {
	    {"paths", policy_read_paths, offsetof(struct graphql_in, paths), false},
	    {"effects", read_fields, 0, false},
	    {"persisted", read_persisted, 0, false},
	};
	struct target *t = out;
	struct graphql_in g = {0};
	int rc = read_object(r, v, "graphql", fields, ARRAY_LEN(fields), &g, err);

	if (rc != 0)
		return rc;
	if (json_count(v) == 0)
		return json_err(r->doc, v, err, ERR_INVALID, "graphql says nothing");
	t->graphql_paths = g.paths;
	t->pub.graphql_fields = g.fields;
	t->pub.ngraphql_fields = g.nfields;
	t->pub.persisted = g.persisted;
	t->pub.npersisted = g.npersisted;
	return 0;
}
