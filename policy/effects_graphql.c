/*
 * GraphQL facts to effects: what a policy says of a field, else what the words of its name say.
 * Linked into core and the command line; pure. The facts come from the parser process, which may
 * have been taken over: nothing here trusts their form. Must never take a name that it does not
 * understand for a bounded change.
 */
#include "policy/effects_graphql.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "policy/facts.h"
#include "policy/graphql.h"

#include "common/banned.h"

#define WORD_MAX 64
#define SUBWORD_MIN 5 /* letters of a verb that counts also inside a longer word */

#define WRITE EFFECT_write
#define DELETE EFFECT_delete
#define BULK EFFECT_bulk
#define DROP EFFECT_drop
#define OVERWRITE EFFECT_overwrite
#define DISRUPT EFFECT_disrupt
#define SESSION EFFECT_session
#define EXEC EFFECT_exec
#define PRIV EFFECT_priv
#define NET EFFECT_net
#define AUDIT EFFECT_audit
#define SECRET EFFECT_secret

struct word {
	const char *name;
	uint32_t effects;
	bool verb;
};
static const struct word words[] = {
#define X(name, effects, verb) {name, (uint32_t)(effects), verb},
#include "policy/effects_graphql.tbl"
#undef X
};

DEFINE_AUTO(arena, struct arena, arena_free)

/* --- the words of a name ------------------------------------------------------------- */

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool
is_letter(char c)
{
	return is_upper(c) || (c >= 'a' && c <= 'z');
}

/* "HTTPServerDelete_v2" is HTTP, Server, Delete, v. */
static bool
next_word(struct str *rest, struct str *ret)
{
	size_t n = 1;

	while (rest->n != 0 && !is_letter(rest->p[0])) {
		rest->p++;
		rest->n--;
	}
	if (rest->n == 0)
		return false;
	for (; n < rest->n && is_letter(rest->p[n]); n++) {
		bool up = is_upper(rest->p[n]), after_low = !is_upper(rest->p[n - 1]);
		bool before_low =
		    n + 1 < rest->n && is_letter(rest->p[n + 1]) && !is_upper(rest->p[n + 1]);

		if (up && (after_low || before_low))
			break;
	}
	*ret = str_mem(rest->p, n);
	rest->p += n;
	rest->n -= n;
	return true;
}

static int
by_name(const void *key, const void *elem)
{
	return str_cmp(*(const struct str *)key, str_z(((const struct word *)elem)->name));
}

static const struct word *
look_up(struct str s)
{
	return bsearch(&s, words, ARRAY_LEN(words), sizeof(words[0]), by_name);
}

/* Also without a plural's ending. `z` has room for one byte more. */
static const struct word *
word_find(char *z, size_t n)
{
	const struct word *w = look_up(str_mem(z, n));

	if (w == NULL && n > 4 && strcmp(z + n - 3, "ies") == 0) {
		(void)memcpy(z + n - 3, "y", 2);
		w = look_up(str_mem(z, n - 2));
		(void)memcpy(z + n - 3, "ies", 4);
	}
	if (w == NULL && n > 3 && z[n - 1] == 's')
		w = look_up(str_mem(z, n - 1));
	return w;
}

struct meaning {
	uint32_t effects, verbs; /* verbs: the part that verbs gave */
	bool verb;
};

static void
mean(struct meaning *m, const struct word *w)
{
	m->effects |= w->effects;
	if (w->verb) {
		m->verb = true;
		m->verbs |= w->effects;
	}
}

/* "volumedelete": only what does harm, so that "recommendation" is no comment. */
static void
mean_inside(struct meaning *m, const char *z)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].verb && (words[i].effects & ~(uint32_t)WRITE) != 0 &&
		    strlen(words[i].name) >= SUBWORD_MIN && strstr(z, words[i].name) != NULL)
			mean(m, &words[i]);
}

static struct meaning
name_means(struct str name)
{
	struct meaning m = {0};
	struct str rest = name, word;

	while (next_word(&rest, &word)) {
		char z[WORD_MAX + 2];
		size_t n = word.n < WORD_MAX ? word.n : WORD_MAX;
		const struct word *w;

		for (size_t i = 0; i < n; i++)
			z[i] = (char)(is_upper(word.p[i]) ? word.p[i] + ('a' - 'A') : word.p[i]);
		z[n] = '\0';
		w = word_find(z, n);
		if (w != NULL)
			mean(&m, w);
		else
			mean_inside(&m, z);
	}
	return m;
}

/* --- one operation ------------------------------------------------------------------- */

struct operation {
	enum graphql_type type;
	size_t nfields, nnested;
	const struct str *fields, *nested;
};

/* What the policy says of "query.NAME" or "mutation.NAME"; 0: nothing. */
static uint32_t
declared(const struct policy_target *t, const char *type, struct str name)
{
	size_t n = strlen(type);

	for (size_t i = 0; i < t->ngraphql_fields; i++) {
		struct str f = t->graphql_fields[i].name;

		if (f.n == n + 1 + name.n && memcmp(f.p, type, n) == 0 && f.p[n] == '.' &&
		    str_eq((struct str){f.p + n + 1, name.n}, name))
			return t->graphql_fields[i].effects;
	}
	return 0;
}

/*
 * A field without a verb may be a folder of others ("mutation { volumes { delete } }"), so that the
 * verbs beneath count, too.
 */
static uint32_t
verbs_beneath(const struct operation *o)
{
	uint32_t effects = 0;

	for (size_t i = 0; i < o->nnested; i++)
		effects |= name_means(o->nested[i]).verbs;
	return effects;
}

static uint32_t
mutation_effects(const struct policy_target *t, const struct operation *o)
{
	uint32_t effects = 0;

	for (size_t i = 0; i < o->nfields; i++) {
		uint32_t said = declared(t, "mutation", o->fields[i]);
		struct meaning m;

		if (said == 0 && str_eqz(o->fields[i], "__typename"))
			said = EFFECT_read;
		effects |= said;
		if (said != 0)
			continue;
		m = name_means(o->fields[i]);
		effects |= m.effects;
		if (!m.verb)
			effects |= WRITE | BULK | verbs_beneath(o);
	}
	return effects;
}

static uint32_t
query_effects(const struct policy_target *t, const struct operation *o)
{
	uint32_t effects = EFFECT_read;

	for (size_t i = 0; i < o->nfields; i++)
		effects |= declared(t, "query", o->fields[i]);
	return effects;
}

static void
doubt(struct graphql_view *v, const char *why)
{
	v->effects |= EFFECT_opaque;
	if (v->fault == NULL)
		v->fault = why;
}

static void
judge_operation(const struct policy_target *t, const struct operation *o, struct graphql_view *v)
{
	switch (o->type) {
	case GRAPHQL_QUERY: v->effects |= query_effects(t, o); return;
	case GRAPHQL_MUTATION:
		v->changes = true;
		v->effects |= mutation_effects(t, o);
		return;
	case GRAPHQL_SUBSCRIPTION: doubt(v, "a subscription"); return;
	case GRAPHQL_NONE: break;
	}
	doubt(v, "an operation that is not known");
}

/* --- facts --------------------------------------------------------------------------- */

/* A list of names; *ret is the caller's to free. False: it is no such list. */
static bool
read_names(const struct json *v, struct str **ret, size_t *ret_n)
{
	size_t n = json_count(v);

	*ret = NULL;
	*ret_n = 0;
	if (v == NULL)
		return true;
	if (json_type(v) != JSON_ARRAY)
		return false;
	*ret = xcalloc(n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++) {
		(*ret)[i] = json_str(json_at(v, i));
		if ((*ret)[i].n == 0)
			return false;
	}
	*ret_n = n;
	return true;
}

static enum graphql_type
type_of(struct str s)
{
	for (int t = GRAPHQL_QUERY; t <= GRAPHQL_SUBSCRIPTION; t++)
		if (str_eqz(s, graphql_type_name((enum graphql_type)t)))
			return (enum graphql_type)t;
	return GRAPHQL_NONE;
}

/* {"fields","nested"?,"operations","type"} */
static bool
judge_document(const struct policy_target *t, const struct json *r, struct graphql_view *v)
{
	AUTO_FREE struct str *fields = NULL, *nested = NULL;
	struct operation o = {.type = type_of(json_str(json_get(r, "type")))};
	size_t members = json_get(r, "nested") != NULL ? 4 : 3;

	if (!read_names(json_get(r, "fields"), &fields, &o.nfields) ||
	    !read_names(json_get(r, "nested"), &nested, &o.nnested) || fields == NULL ||
	    o.nfields == 0 || json_count(r) != members ||
	    json_type(json_get(r, "operations")) != JSON_INT)
		return false;
	o.fields = fields;
	o.nested = nested;
	judge_operation(t, &o, v);
	return true;
}

static const struct policy_persisted *
persisted_find(const struct policy_target *t, const struct hash *h)
{
	for (size_t i = 0; i < t->npersisted; i++)
		if (hash_eq(&t->persisted[i].hash, h))
			return &t->persisted[i];
	return NULL;
}

/* {"hash","name"?}: the document that the policy registered is read here. */
static bool
judge_persisted(const struct policy_target *t, const struct json *r, struct graphql_view *v)
{
	AUTO(arena) struct arena *a = arena_new(GRAPHQL_ARENA_MAX);
	const struct json *name = json_get(r, "name");
	const struct policy_persisted *p;
	struct graphql_doc *doc;
	struct graphql_op op;
	struct hash h;

	if (!hash_from_hex(json_str(json_get(r, "hash")), &h) ||
	    json_count(r) != (name != NULL ? 2 : 1) ||
	    (name != NULL && json_type(name) != JSON_STRING))
		return false;
	p = persisted_find(t, &h);
	if (p == NULL) {
		doubt(v, "a document named by a hash that the policy does not have");
	} else if (graphql_parse(a, p->text, &doc, NULL) != 0 ||
		   graphql_select(a, doc, json_str(name), &op, NULL) != 0) {
		doubt(v, "no operation of a registered document");
	} else {
		struct operation o = {op.type, op.nfields, op.nnested, op.fields, op.nested};

		judge_operation(t, &o, v);
	}
	return true;
}

static bool
judge_request(const struct policy_target *t, const struct json *r, struct graphql_view *v)
{
	if (json_type(r) != JSON_OBJECT)
		return false;
	if (json_get(r, "hash") != NULL)
		return judge_persisted(t, r, v);
	if (json_get(r, "unknown") == NULL)
		return judge_document(t, r, v);
	doubt(v, "a request of which it cannot be told what runs");
	return true;
}

void
effects_graphql(const struct policy_target *t, const struct json *facts, struct graphql_view *ret)
{
	const struct json *list = json_get(facts, "graphql");
	struct graphql_view v = {.requests = 1};
	size_t n = json_count(list);
	bool valid = json_type(facts) == JSON_OBJECT && json_count(facts) == 1 &&
		     json_type(list) == JSON_ARRAY && n != 0 && n <= FACTS_GRAPHQL_BATCH_MAX;

	for (size_t i = 0; valid && i < n; i++)
		valid = judge_request(t, json_at(list, i), &v);
	if (valid)
		v.requests = (unsigned)n;
	else
		doubt(&v, "facts that are not in the form");
	*ret = v;
}
