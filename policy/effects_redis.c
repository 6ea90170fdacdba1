/*
 * Redis commands to effects, by one table of all commands. Linked into core and the command line;
 * pure. Must never take a command for harmless that it does not know, nor a transaction for its
 * first word.
 */
#include "policy/effects_redis.h"

#include "common/banned.h"

#define READ EFFECT_read
#define TXN EFFECT_txn
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
#define OPAQUE EFFECT_opaque

#define BULK_KEYS 5 /* more at once is a collection */

static const struct row {
	const char *name, *sub;
	uint32_t effects;
	int first, last, step;
} rows[] = {
#define X(name, sub, effects, first, last, step) \
	{name, sub, (uint32_t)(effects), first, last, step},
#include "policy/effects_redis.tbl"
#undef X
};

static void
doubt(struct redis_view *v, uint32_t effect, const char *why)
{
	v->effects |= effect;
	if (v->fault == NULL)
		v->fault = why;
}

/* A command's own row, else its subcommand's. */
static const struct row *
row_find(struct str name, struct str sub)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_ieqz(name, rows[i].name) &&
		    (rows[i].sub[0] == '\0' ? !str_ieqz(name, "COMMAND") || sub.n == 0
					    : str_ieqz(sub, rows[i].sub)))
			return &rows[i];
	return NULL;
}

static bool
has_word(const struct json *words, size_t from, const char *z)
{
	for (size_t i = from; i < json_count(words); i++)
		if (str_ieqz(json_str(json_at(words, i)), z))
			return true;
	return false;
}

/* Options that make another command of it. */
static uint32_t
by_options(const struct row *w, const struct json *words)
{
	if (strcmp(w->name, "SET") == 0 && has_word(words, 3, "NX"))
		return WRITE;
	if (strcmp(w->name, "SORT") == 0 && !has_word(words, 1, "STORE"))
		return READ;
	if (strncmp(w->name, "GEORADIUS", 9) == 0 && !has_word(words, 1, "STORE") &&
	    !has_word(words, 1, "STOREDIST"))
		return READ;
	if (strcmp(w->name, "COPY") == 0 && !has_word(words, 1, "REPLACE"))
		return WRITE;
	if (strcmp(w->name, "GETEX") == 0 && json_count(words) == 2)
		return READ;
	if (strcmp(w->name, "XADD") == 0 &&
	    (has_word(words, 1, "MAXLEN") || has_word(words, 1, "MINID")))
		return WRITE | DELETE | BULK;
	return w->effects;
}

static void
name_keys(const struct row *w, const struct json *words, struct redis_view *v)
{
	int n = (int)json_count(words), last = w->last < 0 ? n + w->last : w->last;
	unsigned keys = 0;

	for (int i = w->first; w->first != 0 && i <= last && i < n; i += w->step, keys++)
		RESOURCES_ADD(&v->resources, json_str(json_at(words, (size_t)i)));
	if (w->first == 0 && (w->effects & (SESSION | TXN)) == 0 && strcmp(w->name, "PING") != 0)
		RESOURCES_ADD(&v->resources, STR("*"));
	if (keys > BULK_KEYS && (w->effects & DELETE) != 0)
		v->effects |= BULK;
}

static void
judge_command(const struct json *words, struct redis_view *v)
{
	struct str name = json_str(json_at(words, 0)), sub = STR("");
	const struct row *w;

	if (json_count(words) > 1)
		sub = json_str(json_at(words, 1));
	w = row_find(name, sub);
	if (w == NULL) {
		doubt(v, OPAQUE, "a command that is not known");
		return;
	}
	v->effects |= by_options(w, words);
	v->statements += (w->effects & TXN) == 0;
	name_keys(w, words, v);
}

static bool
is_command(const struct json *v)
{
	if (json_type(v) != JSON_ARRAY || json_count(v) == 0)
		return false;
	for (size_t i = 0; i < json_count(v); i++)
		if (json_type(json_at(v, i)) != JSON_STRING)
			return false;
	return true;
}

void
effects_redis(const struct json *facts, struct redis_view *ret)
{
	const struct json *list = json_get(facts, "redis");

	*ret = (struct redis_view){.effects = 0};
	if (json_type(facts) != JSON_OBJECT || json_count(facts) != 1 ||
	    json_type(list) != JSON_ARRAY || json_count(list) == 0)
		doubt(ret, OPAQUE, "what it asks for was not told in a form that is known");
	for (size_t i = 0; i < json_count(list); i++) {
		if (is_command(json_at(list, i)))
			judge_command(json_at(list, i), ret);
		else
			doubt(ret, EFFECT_invalid, "a command without a name");
	}
	if (ret->resources.over)
		doubt(ret, OPAQUE, "it names more keys than can be judged at once");
	if (ret->statements == 0)
		ret->statements = 1;
}
