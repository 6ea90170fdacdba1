/*
 * What stands in one policy and not in the other: targets, people, calendars, rules, and the rest.
 * Runs in the command line alone, on the canonical form of both, so that a key that is new in the
 * language is compared as well. Says of what it cannot weigh that it may widen.
 */
#include "policy/policy_diff.h"

#include <stdarg.h>
#include <stdio.h>

#include "policy/policy_internal.h"

#include "common/banned.h"

struct parts {
	const struct policy *p[2];
	const struct json *v[2]; /* the canonical policies */
	policy_change_fn *say;
	void *arg;
	struct policy_diff_sum *sum;
	int64_t now_s;
};

static void told(const struct parts *d, enum policy_change_kind kind, bool widens, const char *fmt,
    ...) PRINTF_LIKE(4, 5);
static void
told(const struct parts *d, enum policy_change_kind kind, bool widens, const char *fmt, ...)
{
	struct policy_change c = {.kind = kind, .widens = widens};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(c.text, sizeof(c.text), fmt, ap);
	va_end(ap);
	policy_diff_tell(&c, d->say, d->arg, d->sum);
}

/* A value in short. */
static void
value_put(struct buf *out, const struct json *v)
{
	AUTO_BUF struct buf text = BUF(POLICY_BUNDLE_MAX);
	struct jcs j;

	if (v == NULL) {
		buf_put_z(out, "nothing");
		return;
	}
	jcs_init(&j, &text);
	(void)jcs_value(&j, NULL, v, NULL);
	if (text.n <= 160)
		buf_put_str(out, buf_str(&text));
	else
		buf_printf(out, "%.*s... (%zu bytes)", 120, (const char *)text.p, text.n);
}

static bool
same_value(const struct json *a, const struct json *b)
{
	AUTO_BUF struct buf x = BUF(POLICY_BUNDLE_MAX);
	AUTO_BUF struct buf y = BUF(POLICY_BUNDLE_MAX);
	struct jcs j;

	if (a == NULL || b == NULL)
		return a == b;
	jcs_init(&j, &x);
	(void)jcs_value(&j, NULL, a, NULL);
	jcs_init(&j, &y);
	(void)jcs_value(&j, NULL, b, NULL);
	return str_eq(buf_str(&x), buf_str(&y));
}

/* "host: \"a\" -> \"b\"; port: ..." of members that differ. */
static void
members_put(struct buf *out, const struct json *a, const struct json *b)
{
	const struct json *side[2] = {a, b};

	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < json_count(side[s]); i++) {
			AUTO_FREE char *key = str_dup(json_key(side[s], i));
			const struct json *x = json_get(a, key), *y = json_get(b, key);

			if ((s == 1 && x != NULL) || same_value(x, y))
				continue;
			buf_printf(out, "%s%s: ", out->n != 0 ? "; " : "", key);
			value_put(out, x);
			buf_put_z(out, " -> ");
			value_put(out, y);
		}
	}
}

static const struct json *
find(const struct json *section, struct str id)
{
	for (size_t i = 0; i < json_count(section); i++) {
		const struct json *v = json_at(section, i);
		struct str name = json_type(section) == JSON_OBJECT ? json_key(section, i)
								    : json_str(json_get(v, "id"));

		if (str_eq(name, id))
			return v;
	}
	return NULL;
}

static struct str
name_at(const struct json *section, size_t i)
{
	return json_type(section) == JSON_OBJECT ? json_key(section, i)
						 : json_str(json_get(json_at(section, i), "id"));
}

/* --- rules, targets ------------------------------------------------------------------ */

struct named {
	const char *key, *noun;
	enum policy_change_kind kind;
	bool added, removed, changed; /* may widen */
};

static void
named_diff(const struct parts *d, const struct named *n, size_t *same)
{
	const struct json *a = json_get(d->v[0], n->key), *b = json_get(d->v[1], n->key);

	for (size_t i = 0; i < json_count(a); i++) {
		struct str id = name_at(a, i);
		const struct json *now = find(b, id);
		AUTO_BUF struct buf what = BUF(4096);

		if (now == NULL) {
			told(d, n->kind, n->removed, "%s %.*s is removed", n->noun, STR_ARG(id));
		} else if (same_value(json_at(a, i), now)) {
			(*same)++;
		} else {
			members_put(&what, json_at(a, i), now);
			told(d, n->kind, n->changed, "%s %.*s: %.*s", n->noun, STR_ARG(id),
			    STR_ARG(buf_str(&what)));
		}
	}
	for (size_t i = 0; i < json_count(b); i++) {
		struct str id = name_at(b, i);
		AUTO_BUF struct buf what = BUF(4096);

		if (find(a, id) != NULL)
			continue;
		value_put(&what, json_at(b, i));
		told(d, n->kind, n->added, "%s %.*s is new: %.*s", n->noun, STR_ARG(id),
		    STR_ARG(buf_str(&what)));
	}
}

/* --- people -------------------------------------------------------------------------- */

static bool
holds(const struct json *list, const struct json *v)
{
	for (size_t i = 0; i < json_count(list); i++)
		if (str_eq(json_str(json_at(list, i)), json_str(v)))
			return true;
	return false;
}

/* What one side has and the other does not. */
static void
list_diff(const struct parts *d, struct str who, const char *noun, const struct json *a,
    const struct json *b, bool added)
{
	for (size_t i = 0; i < json_count(b); i++)
		if (!holds(a, json_at(b, i)))
			told(d, CHANGE_PERSON, added,
			    added ? "%.*s has %s %.*s now" : "%.*s has %s %.*s no more",
			    STR_ARG(who), noun, STR_ARG(json_str(json_at(b, i))));
}

static void
person_diff(const struct parts *d, struct str who, const struct json *a, const struct json *b)
{
	static const char *const lists[][2] = {
	    {"roles", "role"}, {"keys", "key"}, {"login", "login"}};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct json *x = json_get(a, lists[i][0]), *y = json_get(b, lists[i][0]);

		list_diff(d, who, lists[i][1], x, y, true);
		list_diff(d, who, lists[i][1], y, x, false);
	}
}

static void
people_diff(const struct parts *d)
{
	const struct json *a = json_get(d->v[0], "people"), *b = json_get(d->v[1], "people");

	for (size_t i = 0; i < json_count(a); i++) {
		struct str who = json_key(a, i);
		const struct json *now = find(b, who);

		if (now == NULL)
			told(d, CHANGE_PERSON, false, "%.*s is removed", STR_ARG(who));
		else if (same_value(json_at(a, i), now))
			d->sum->same.people++;
		else
			person_diff(d, who, json_at(a, i), now);
	}
	for (size_t i = 0; i < json_count(b); i++) {
		struct str who = json_key(b, i);

		if (find(a, who) != NULL)
			continue;
		told(d, CHANGE_PERSON, true, "%.*s is new", STR_ARG(who));
		person_diff(d, who, NULL, json_at(b, i));
	}
}

/* --- calendars ----------------------------------------------------------------------- */

static const struct calendar *
calendar_find(const struct policy *p, struct str id)
{
	for (size_t i = 0; i < p->ncalendars; i++)
		if (str_eq(p->calendars[i].id, id))
			return &p->calendars[i];
	return NULL;
}

#define STRETCHES_MAX 12

/* Stretches to come that b has and a does not. */
static void
stretches(const struct parts *d, const struct calendar *a, const struct calendar *b, bool added)
{
	size_t n = 0, k = 0;

	for (size_t i = 0; i < b->n; i++) {
		int64_t at = b->iv[i].from;

		while (k < a->n && a->iv[k].to <= at)
			k++;
		for (size_t m = k; at < b->iv[i].to; m++) {
			int64_t to =
			    m < a->n && a->iv[m].from < b->iv[i].to ? a->iv[m].from : b->iv[i].to;
			char from_text[CLOCK_TEXT_SIZE], to_text[CLOCK_TEXT_SIZE];

			clock_format_s(at * 1000000, from_text);
			clock_format_s(to * 1000000, to_text);
			if (to > at && to > d->now_s && ++n <= STRETCHES_MAX)
				told(d, CHANGE_CALENDAR, added == b->open,
				    "calendar %.*s: %s %s from %s to %s", STR_ARG(b->id),
				    added ? "now" : "no longer", b->open ? "open" : "frozen",
				    from_text, to_text);
			at = m < a->n && a->iv[m].to > at ? a->iv[m].to : b->iv[i].to;
		}
	}
	if (n > STRETCHES_MAX)
		told(d, CHANGE_CALENDAR, added == b->open,
		    "calendar %.*s: %zu more stretches that are %s %s", STR_ARG(b->id),
		    n - STRETCHES_MAX, added ? "now" : "no longer", b->open ? "open" : "frozen");
}

static void
calendar_diff(const struct parts *d, const struct calendar *a, const struct calendar *b)
{
	char was[CLOCK_TEXT_SIZE], is[CLOCK_TEXT_SIZE];
	size_t told_before = d->sum->n[CHANGE_CALENDAR];

	if (a->open != b->open)
		told(d, CHANGE_CALENDAR, true, "calendar %.*s: %s -> %s", STR_ARG(a->id),
		    a->open ? "open" : "freeze", b->open ? "open" : "freeze");
	if (!str_eq(a->tz, b->tz))
		told(d, CHANGE_CALENDAR, false, "calendar %.*s: zone %.*s -> %.*s", STR_ARG(a->id),
		    STR_ARG(a->tz), STR_ARG(b->tz));
	clock_format_s(a->valid.from * 1000000, was);
	clock_format_s(b->valid.from * 1000000, is);
	if (a->valid.from != b->valid.from)
		told(d, CHANGE_CALENDAR, b->valid.from < a->valid.from,
		    "calendar %.*s: valid from %s -> %s", STR_ARG(a->id), was, is);
	clock_format_s(a->valid.to * 1000000, was);
	clock_format_s(b->valid.to * 1000000, is);
	if (a->valid.to != b->valid.to)
		told(d, CHANGE_CALENDAR, b->valid.to > a->valid.to,
		    "calendar %.*s: valid until %s -> %s; outside it counts as frozen or shut",
		    STR_ARG(a->id), was, is);
	if (a->open == b->open) {
		stretches(d, b, a, false);
		stretches(d, a, b, true);
	}
	if (d->sum->n[CHANGE_CALENDAR] == told_before)
		d->sum->same.calendars++;
}

static void
calendars_diff(const struct parts *d)
{
	for (size_t i = 0; i < d->p[0]->ncalendars; i++) {
		const struct calendar *a = &d->p[0]->calendars[i];
		const struct calendar *b = calendar_find(d->p[1], a->id);

		if (b != NULL)
			calendar_diff(d, a, b);
		else
			told(d, CHANGE_CALENDAR, false, "calendar %.*s is removed", STR_ARG(a->id));
	}
	for (size_t i = 0; i < d->p[1]->ncalendars; i++) {
		const struct calendar *b = &d->p[1]->calendars[i];

		if (calendar_find(d->p[0], b->id) == NULL)
			told(d, CHANGE_CALENDAR, false,
			    "calendar %.*s is new: %s, %.*s, %zu windows", STR_ARG(b->id),
			    b->open ? "open" : "freeze", STR_ARG(b->tz), b->n);
	}
}

/* --- the rest ------------------------------------------------------------------------ */

/* Members at the top that are no section. */
static void
other_diff(const struct parts *d)
{
	static const char *const sections[] = {"calendars", "people", "rules", "targets"};
	static const char *const harmless[] = {"engine", "policy", "schema", "serial", "tzdata"};
	AUTO_BUF struct buf what = BUF(4096);

	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < json_count(d->v[s]); i++) {
			AUTO_FREE char *key = str_dup(json_key(d->v[s], i));
			const struct json *x = json_get(d->v[0], key), *y = json_get(d->v[1], key);
			bool skip = s == 1 && x != NULL, widens = true;

			for (size_t k = 0; k < ARRAY_LEN(sections); k++)
				skip = skip || strcmp(key, sections[k]) == 0;
			for (size_t k = 0; k < ARRAY_LEN(harmless); k++)
				widens = widens && strcmp(key, harmless[k]) != 0;
			if (skip || same_value(x, y))
				continue;
			buf_reset(&what);
			buf_printf(&what, "%s: ", key);
			value_put(&what, x);
			buf_put_z(&what, " -> ");
			value_put(&what, y);
			told(d, CHANGE_OTHER, widens, "%.*s", STR_ARG(buf_str(&what)));
		}
	}
}

static int
canonical(const struct policy *p, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_BUNDLE_MAX);

	policy_emit(p, &text);
	return json_parse(buf_str(&text), "policy", ret, err);
}

int
policy_diff_parts(const struct policy *before, const struct policy *after, int64_t now_s,
    policy_change_fn *say, void *arg, struct policy_diff_sum *ret, struct err *err)
{
	/* What rules do was looked at action by action; what a target is cannot be. */
	static const struct named rules = {"rules", "rule", CHANGE_RULE, false, false, false};
	static const struct named targets = {
	    "targets", "target", CHANGE_TARGET, false, false, true};
	AUTO(json) struct json_doc *a = NULL;
	AUTO(json) struct json_doc *b = NULL;
	struct parts d = {.p = {before, after}, .say = say, .arg = arg, .sum = ret, .now_s = now_s};
	int rc = canonical(before, &a, err);

	if (rc == 0)
		rc = canonical(after, &b, err);
	if (rc != 0)
		return rc;
	d.v[0] = json_root(a);
	d.v[1] = json_root(b);
	named_diff(&d, &rules, &ret->same.rules);
	named_diff(&d, &targets, &ret->same.targets);
	people_diff(&d);
	calendars_diff(&d);
	other_diff(&d);
	return 0;
}

/* --- theorems and cases -------------------------------------------------------------- */

static const struct json *
source_find(const struct policy_diff_source *s, const char *key, struct str id)
{
	const struct json *v = NULL;

	for (size_t i = 0; v == NULL && i < s->n; i++)
		v = find(json_get(s->parts[i].v, key), id);
	return v;
}

/* Of two theorems: do they say the same? Why they say it is left out. */
static bool
same_theorem(const struct json *a, const struct json *b)
{
	return same_value(json_get(a, "never"), json_get(b, "never")) &&
	       same_value(json_get(a, "unless"), json_get(b, "unless"));
}

static void
theorems_diff(const struct parts *d, const struct policy_diff_source *x,
    const struct policy_diff_source *y, bool second)
{
	for (size_t k = 0; k < x->n; k++) {
		const struct json *list = json_get(x->parts[k].v, "prove");

		for (size_t i = 0; i < json_count(list); i++) {
			const struct json *v = json_at(list, i);
			struct str id = name_at(list, i);
			const struct json *other = source_find(y, "prove", id);
			AUTO_BUF struct buf what = BUF(4096);

			if (other == NULL)
				told(d, CHANGE_THEOREM, !second,
				    second ? "theorem %.*s is new"
					   : "theorem %.*s is removed: what it held, nothing "
					     "holds any more",
				    STR_ARG(id));
			else if (!second && !same_value(v, other)) {
				members_put(&what, v, other);
				told(d, CHANGE_THEOREM, !same_theorem(v, other),
				    "theorem %.*s: %.*s", STR_ARG(id), STR_ARG(buf_str(&what)));
			}
		}
	}
}

/* How many cases of x are not in y, or are others there. */
static size_t
cases_without(const struct policy_diff_source *x, const struct policy_diff_source *y, bool changed)
{
	size_t n = 0;

	for (size_t k = 0; k < x->n; k++) {
		const struct json *list = json_get(x->parts[k].v, "cases");

		for (size_t i = 0; i < json_count(list); i++) {
			const struct json *o = source_find(y, "cases", name_at(list, i));

			n += changed ? o != NULL && !same_value(json_at(list, i), o) : o == NULL;
		}
	}
	return n;
}

void
policy_diff_prove(const struct policy_diff_source *before, const struct policy_diff_source *after,
    policy_change_fn *say, void *arg, struct policy_diff_sum *ret)
{
	const struct parts d = {.say = say, .arg = arg, .sum = ret};
	size_t gone = cases_without(before, after, false),
	       other = cases_without(before, after, true),
	       fresh = cases_without(after, before, false);

	theorems_diff(&d, before, after, false);
	theorems_diff(&d, after, before, true);
	if (gone + other + fresh != 0)
		told(&d, CHANGE_OTHER, false, "cases: %zu removed, %zu changed, %zu new", gone,
		    other, fresh);
}
