/*
 * Reads a profile (process: cofferdam-agent, as the person who calls). The file comes from that
 * person or with the program; what it could do beyond variables and files inside the sandbox is
 * refused here, so that a profile that was copied from somewhere cannot widen anything.
 */
#include "agent/profile.h"

#include <string.h>

#include "common/json.h"
#include "common/token.h"
#include "common/xalloc.h"
#include "agent/profile_check.h"

#include "common/banned.h"

static const char *const providers[PROFILE_PROVIDERS] = {"anthropic", "openai", "google"};
static const char *const parts[PROFILE_PARTS] = {"url", "host", "key", "key.end"};

const char *
profile_provider_name(enum profile_provider p)
{
	return providers[p];
}

/* --- templates ------------------------------------------------------------------- */

static bool
template_is(struct str s, enum profile_provider *ret_provider, enum profile_part *ret_part)
{
	struct str provider;

	if (!str_cut(&s, '.', &provider))
		return false;
	for (size_t i = 0; i < PROFILE_PROVIDERS; i++)
		for (size_t k = 0; k < PROFILE_PARTS; k++)
			if (str_eqz(provider, providers[i]) && str_eqz(s, parts[k])) {
				*ret_provider = (enum profile_provider)i;
				*ret_part = (enum profile_part)k;
				return true;
			}
	return false;
}

bool
profile_template_next(struct str *s, struct str *ret_text, enum profile_provider *ret_provider,
    enum profile_part *ret_part, int *ret_rc)
{
	const char *at = memmem(s->p, s->n, "${", 2);
	struct str inner;

	*ret_rc = 0;
	if (at == NULL) {
		*ret_text = *s;
		return false;
	}
	*ret_text = str_mem(s->p, (size_t)(at - s->p));
	*s = str_mem(at + 2, s->n - ret_text->n - 2);
	if (str_cut(s, '}', &inner) && template_is(inner, ret_provider, ret_part))
		return true;
	*ret_rc = ERR_SYNTAX;
	return false;
}

/* --- members --------------------------------------------------------------------- */

struct reading {
	struct json_doc *doc;
	struct profile *p;
	struct err *err;
};

static int
text_check(const struct reading *r, const struct json *v, const char *what, struct str s)
{
	const char *why = profile_check_text(s);

	if (why != NULL)
		return json_err(r->doc, v, r->err, ERR_INVALID, "%s %s", what, why);
	return 0;
}

static int
string_take(const struct reading *r, const struct json *v, const char *what, char **ret)
{
	if (json_type(v) != JSON_STRING || json_str(v).n == 0 || json_str(v).n > PROFILE_TEXT_MAX)
		return json_err(r->doc, v, r->err, ERR_INVALID,
		    "%s must be a text of 1 to %zu bytes", what, PROFILE_TEXT_MAX);
	*ret = str_dup(json_str(v));
	return 0;
}

static int
name_take(struct reading *r, const struct json *v)
{
	if (json_type(v) != JSON_STRING || !profile_check_name(json_str(v)))
		return json_err(r->doc, v, r->err, ERR_INVALID,
		    "name must be 1 to %d small letters, digits and '-', is \"%.*s\"",
		    PROFILE_NAME_MAX, STR_ARG(json_str(v)));
	r->p->name = str_dup(json_str(v));
	return 0;
}

static int
about_take(struct reading *r, const struct json *v)
{
	return string_take(r, v, "about", &r->p->about);
}

static int
commands_take(struct reading *r, const struct json *v)
{
	struct profile *p = r->p;

	if (json_type(v) != JSON_ARRAY || json_count(v) > PROFILE_COMMANDS_MAX)
		return json_err(r->doc, v, r->err, ERR_INVALID,
		    "commands must be a list of at most %d names", PROFILE_COMMANDS_MAX);
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *e = json_at(v, i);
		struct str s = json_str(e);

		if (s.n == 0 || s.n > PROFILE_NAME_MAX || memchr(s.p, '/', s.n) != NULL ||
		    !str_is_ascii_print(s))
			return json_err(r->doc, e, r->err, ERR_INVALID,
			    "a command is a program's name without its directory, is \"%.*s\"",
			    STR_ARG(s));
		p->commands[p->ncommands++] = str_dup(s);
	}
	return 0;
}

static int
models_take(struct reading *r, const struct json *v)
{
	if (json_type(v) != JSON_ARRAY)
		return json_err(r->doc, v, r->err, ERR_INVALID, "models must be a list");
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *e = json_at(v, i);
		size_t k = 0;

		while (k < PROFILE_PROVIDERS && !str_eqz(json_str(e), providers[k]))
			k++;
		if (k == PROFILE_PROVIDERS)
			return json_err(r->doc, e, r->err, ERR_INVALID,
			    "a model is anthropic, openai or google, is \"%.*s\"",
			    STR_ARG(json_str(e)));
		r->p->speaks[k] = true;
	}
	return 0;
}

static int
env_take(struct reading *r, const struct json *v)
{
	struct profile *p = r->p;

	if (json_type(v) != JSON_OBJECT || json_count(v) > PROFILE_VARS_MAX)
		return json_err(r->doc, v, r->err, ERR_INVALID,
		    "env must be an object of at most %d variables", PROFILE_VARS_MAX);
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *e = json_at(v, i);
		struct str name = json_key(v, i);
		const char *why = profile_check_variable(name, json_str(e));
		int rc;

		if (json_type(e) != JSON_STRING)
			why = "must be a text";
		if (why != NULL)
			return json_err(
			    r->doc, e, r->err, ERR_INVALID, "variable %.*s %s", STR_ARG(name), why);
		if ((rc = text_check(r, e, "this variable", json_str(e))) != 0)
			return rc;
		p->vars[p->nvars++] =
		    (struct profile_item){.name = str_dup(name), .text = str_dup(json_str(e))};
	}
	return 0;
}

/* A list of lines, each of which ends. */
static int
lines_take(const struct reading *r, const struct json *v, char **ret)
{
	AUTO_BUF struct buf b = BUF(PROFILE_TEXT_MAX);

	if (json_type(v) != JSON_ARRAY)
		return json_err(
		    r->doc, v, r->err, ERR_INVALID, "a file must be a list of its lines");
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *e = json_at(v, i);

		if (json_type(e) != JSON_STRING ||
		    memchr(json_str(e).p, '\n', json_str(e).n) != NULL)
			return json_err(r->doc, e, r->err, ERR_INVALID,
			    "a line must be a text without its end");
		buf_put_str(&b, json_str(e));
		buf_put_c(&b, '\n');
	}
	if (buf_over(&b))
		return json_err(r->doc, v, r->err, ERR_TOO_LARGE, "a file is at most %zu bytes",
		    PROFILE_TEXT_MAX);
	*ret = buf_dup_z(&b);
	return text_check(r, v, "this file", str_z(*ret));
}

static int
files_take(struct reading *r, const struct json *v)
{
	struct profile *p = r->p;

	if (json_type(v) != JSON_OBJECT || json_count(v) > PROFILE_FILES_MAX)
		return json_err(r->doc, v, r->err, ERR_INVALID,
		    "files must be an object of at most %d files", PROFILE_FILES_MAX);
	for (size_t i = 0; i < json_count(v); i++) {
		struct profile_item *f = &p->files[p->nfiles];
		int rc;

		if (!profile_check_path(json_key(v, i)))
			return json_err(r->doc, json_at(v, i), r->err, ERR_INVALID,
			    "a file stands below the home, as \".tool/settings.json\": \"%.*s\" "
			    "does not",
			    STR_ARG(json_key(v, i)));
		f->name = str_dup(json_key(v, i));
		p->nfiles++;
		if ((rc = lines_take(r, json_at(v, i), &f->text)) != 0)
			return rc;
	}
	return 0;
}

/* --- the whole ------------------------------------------------------------------- */

static const struct member {
	const char *key;
	int (*take)(struct reading *r, const struct json *v);
	bool needed;
} members[] = {
    {"name", name_take, true},
    {"about", about_take, true},
    {"commands", commands_take, false},
    {"models", models_take, false},
    {"env", env_take, false},
    {"files", files_take, false},
};

static int
member_take(struct reading *r, struct str key, const struct json *v)
{
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (str_eqz(key, members[i].key))
			return members[i].take(r, v);
	return json_err(r->doc, v, r->err, ERR_INVALID,
	    "\"%.*s\" is no key of a profile: name, about, commands, models, env and files are",
	    STR_ARG(key));
}

int
profile_parse(struct str text, const char *where, struct profile **ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO(profile) struct profile *p = xcalloc(1, sizeof(*p));
	struct reading r = {.p = p, .err = err};
	const struct json *root;
	int rc;

	if (text.n > PROFILE_SIZE_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s: %zu bytes, limit %zu", where, text.n,
		    PROFILE_SIZE_MAX);
	if ((rc = json_parse(text, where, &doc, err)) != 0)
		return rc;
	r.doc = doc;
	root = json_root(doc);
	if (json_type(root) != JSON_OBJECT)
		return json_err(doc, root, err, ERR_INVALID, "a profile is an object");
	for (size_t i = 0; i < json_count(root); i++)
		if ((rc = member_take(&r, json_key(root, i), json_at(root, i))) != 0)
			return rc;
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (members[i].needed && json_get(root, members[i].key) == NULL)
			return json_err(
			    doc, root, err, ERR_INVALID, "\"%s\" is missing", members[i].key);
	p->path = xstrdup(where);
	*ret = TAKE_PTR(p);
	return 0;
}

static void
items_free(struct profile_item *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].name);
		free(v[i].text);
	}
}

void
profile_free(struct profile *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->ncommands; i++)
		free(p->commands[i]);
	items_free(p->vars, p->nvars);
	items_free(p->files, p->nfiles);
	free(p->name);
	free(p->about);
	free(p->path);
	free(p);
}
