/*
 * Reads broker.json in the parent. The file is the operator's and closed to others (the
 * state directory's check came first), yet every value is held against its range: a typing
 * error must stop the start, not change what it means.
 */
#include "broker/broker_config.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CONFIG_MAX ((size_t)64 << 10)
#define ORIGIN_MAX 200

struct parse {
	struct json_doc *doc;
	struct broker_config *c;
};

static int
one_of(const struct parse *p, const struct json *v, const char *key, const char *const *names,
    char **ret, struct err *err)
{
	for (size_t i = 0; names[i] != NULL; i++) {
		if (!str_eqz(json_str(v), names[i]))
			continue;
		*ret = xstrdup(names[i]);
		return 0;
	}
	return json_err(
	    p->doc, v, err, ERR_CONFIG, "%s \"%.*s\" is not known", key, STR_ARG(json_str(v)));
}

static int
schema(struct parse *p, const struct json *v, struct err *err)
{
	if (str_eqz(json_str(v), "cofferdam-broker/1"))
		return 0;
	return json_err(p->doc, v, err, ERR_CONFIG,
	    "schema must be \"cofferdam-broker/1\", is \"%.*s\"", STR_ARG(json_str(v)));
}

static int
origin(struct parse *p, const struct json *v, struct err *err)
{
	struct str s = json_str(v);

	if (s.n == 0 || s.n > ORIGIN_MAX || !str_is_ascii_print(s) ||
	    memchr(s.p, ' ', s.n) != NULL || memchr(s.p, '+', s.n) != NULL)
		return json_err(p->doc, v, err, ERR_CONFIG,
		    "origin must be 1 to %d printable characters without space and '+'",
		    ORIGIN_MAX);
	p->c->origin = str_dup(s);
	return 0;
}

static int
clock_mode(struct parse *p, const struct json *v, struct err *err)
{
	static const char *const names[] = {"kernel-sync", "trusted", NULL};

	return one_of(p, v, "clock", names, &p->c->clock, err);
}

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

static int
log_level(struct parse *p, const struct json *v, struct err *err)
{
	return one_of(p, v, "log_level", levels, &p->c->log_level, err);
}

static int
uid_base(struct parse *p, const struct json *v, struct err *err)
{
	int64_t n = json_int(v);

	if (json_type(v) != JSON_INT || n < 1000 || n > INT32_MAX - BROKER_ROLES)
		return json_err(p->doc, v, err, ERR_CONFIG, "uid_base must be from 1000 to %d",
		    INT32_MAX - BROKER_ROLES);
	p->c->uid_base = (uint32_t)n;
	return 0;
}

static int
console(struct parse *p, const struct json *v, struct err *err)
{
	return broker_console_parse(p->doc, v, &p->c->console, err);
}

/* The text as the courier gets it. */
static int
copy_json(const struct json *v, char **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(CONFIG_MAX);
	struct jcs j;
	int rc;

	jcs_init(&j, &text);
	rc = jcs_value(&j, NULL, v, err);
	if (rc == 0)
		*ret = buf_dup_z(&text);
	return rc;
}

static int
webhooks(struct parse *p, const struct json *v, struct err *err)
{
	int rc = webhooks_parse(p->doc, v, &p->c->webhooks, err);

	return rc != 0 || p->c->webhooks.n == 0 ? rc : copy_json(v, &p->c->webhooks_json, err);
}

static int
witnesses(struct parse *p, const struct json *v, struct err *err)
{
	int rc = webhooks_parse_witnesses(p->doc, v, &p->c->witnesses, err);

	return rc != 0 || p->c->witnesses.n == 0 ? rc : copy_json(v, &p->c->witnesses_json, err);
}

static int
references(struct parse *p, const struct json *v, struct err *err)
{
	return broker_references_parse(p->doc, v, &p->c->references, err);
}

static const struct {
	const char *key;
	bool required;
	int (*fn)(struct parse *p, const struct json *v, struct err *err);
} keys[] = {
    {"schema", true, schema},
    {"origin", true, origin},
    {"clock", false, clock_mode},
    {"log_level", false, log_level},
    {"uid_base", false, uid_base},
    {"console", false, console},
    {"references", false, references},
    {"webhooks", false, webhooks},
    {"witnesses", false, witnesses},
};

static int
member(struct parse *p, struct str key, const struct json *v, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_eqz(key, keys[i].key))
			return keys[i].fn(p, v, err);
	return json_err(p->doc, v, err, ERR_CONFIG, "unknown key \"%.*s\"", STR_ARG(key));
}

static int
members(struct parse *p, const struct json *root, struct err *err)
{
	if (json_type(root) != JSON_OBJECT)
		return json_err(p->doc, root, err, ERR_CONFIG, "must be an object");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].required && json_get(root, keys[i].key) == NULL)
			return json_err(
			    p->doc, root, err, ERR_CONFIG, "\"%s\" is missing", keys[i].key);
	for (size_t i = 0; i < json_count(root); i++) {
		int rc = member(p, json_key(root, i), json_at(root, i), err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

int
broker_config_parse(struct str text, const char *name, struct broker_config *ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct broker_config c = {.uid_base = BROKER_UID_BASE};
	struct parse p = {.c = &c};
	int rc = json_parse(text, name, &doc, err);

	if (rc != 0)
		return rc;
	p.doc = doc;
	rc = members(&p, json_root(doc), err);
	if (rc != 0) {
		broker_config_free(&c);
		return rc;
	}
	if (c.log_level == NULL)
		c.log_level = xstrdup("info");
	*ret = c;
	return 0;
}

int
broker_config_load(const struct broker_state *s, struct broker_config *ret, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t n = 0;
	int rc = broker_state_text(s, "broker.json", CONFIG_MAX, &text, &n, err);

	return rc != 0 ? rc : broker_config_parse(str_mem(text, n), "broker.json", ret, err);
}

enum log_level
broker_config_level(const struct broker_config *c)
{
	unsigned i = 0;

	while (levels[i] != NULL && strcmp(levels[i], c->log_level) != 0)
		i++;
	return levels[i] != NULL ? (enum log_level)i : LOG_INFO_;
}

void
broker_config_free(struct broker_config *c)
{
	free(c->origin);
	free(c->clock);
	free(c->log_level);
	broker_console_free(&c->console);
	broker_references_free(&c->references);
	free(c->webhooks_json);
	webhooks_free(&c->webhooks);
	free(c->witnesses_json);
	webhooks_free(&c->witnesses);
	*c = (struct broker_config){0};
}

int
broker_config_ids(const struct broker_config *c, struct broker_ids *ret, struct err *err)
{
	struct broker_ids ids = {.root = geteuid() == 0};
	uint32_t spare = 0;

	for (unsigned role = IPC_ROLE_FRONT; ids.root && role < BROKER_ROLES; role++) {
		AUTO_FREE char *user =
		    xasprintf("_cofferdam-%s", ipc_role_name((enum ipc_role)role));
		const struct passwd *pw;

		errno = 0;
		pw = getpwnam(user);
		if (pw == NULL) {
			ids.uid[role] = ids.gid[role] = c->uid_base + role;
			spare++;
			continue;
		}
		if (pw->pw_uid == 0 || pw->pw_gid == 0)
			return err_set(err, ERR_CONFIG,
			    "user %s has uid %u, gid %u: neither may be 0", user, pw->pw_uid,
			    pw->pw_gid);
		ids.uid[role] = pw->pw_uid;
		ids.gid[role] = pw->pw_gid;
	}
	if (spare != 0)
		log_info("%u users _cofferdam-* do not exist; spare ids from %u are used", spare,
		    c->uid_base + IPC_ROLE_FRONT);
	*ret = ids;
	return 0;
}
