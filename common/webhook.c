/*
 * Reads the webhooks of broker.json. Runs in the parent and in the courier; the text is the
 * operator's. A typing error must stop the start, not silence an alarm: every key, event and number
 * is held against what there is.
 */
#include "common/webhook.h"

#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define RETRY_DEFAULT_S 86400 /* of OTLP: for ever */
#define RETRY_MAX_S (7 * 86400)
#define TIMEOUT_DEFAULT_S 15
#define TIMEOUT_MAX_S 60
#define PATH_MAX_ 200

/* Families of records that may leave: what people do and what becomes of it. */
static const char *const families[] = {
    "approval", "freeze", "exception", "breakglass", "run", "policy", "log"};

static const char *const types[] = {"approval.armed", "approval.consumed", "approval.deny",
    "approval.expired", "approval.grant", "approval.mismatch", "approval.rejected",
    "approval.request", "approval.void", "breakglass.begin", "breakglass.end",
    "breakglass.rejected", "breakglass.request", "breakglass.review", "breakglass.sign",
    "exception.begin", "exception.end", "exception.rejected", "exception.request", "exception.sign",
    "exception.use", "freeze.begin", "freeze.end", "freeze.rejected", "freeze.request",
    "freeze.sign", "log.close", "log.conflict", "log.damage", "log.full", "log.heartbeat",
    "log.open", "log.recovered", "log.segment", "policy.load", "policy.refused", "policy.unload",
    "run.alarm", "run.end", "run.message", "run.pause", "run.resume", "run.revoke", "run.start",
    "run.stop", "run.targets", "run.watch"};

/* Of the form otlp alone: a log store takes everything, people do not. */
static const char *const wide[] = {WEBHOOK_EVENT_ALL, "action", "agent.*", "clock.step",
    "console.*", "erasure", "outcome", "outcome.settled", "preview"};

/* What somebody should look at now. */
static const char *const alarms[] = {"approval.rejected", "breakglass.begin", "breakglass.rejected",
    "breakglass.review", "exception.rejected", "freeze.rejected", "log.conflict", "log.damage",
    "log.full", "log.recovered", "policy.refused", "policy.unload", "run.alarm"};

struct parse {
	const struct json_doc *doc;
	const struct json *at;
	struct webhook *h;
	bool witness;
};

/* --- events ------------------------------------------------------------------------- */

static bool
is_one_of(struct str s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(s, names[i]))
			return true;
	return false;
}

static bool
event_known(struct str s)
{
	if (is_one_of(s, wide, ARRAY_LEN(wide)))
		return true;
	if (str_has_suffix(s, ".*"))
		return is_one_of(str_mem(s.p, s.n - 2), families, ARRAY_LEN(families));
	return str_eqz(s, "alarm") || is_one_of(s, types, ARRAY_LEN(types));
}

bool
webhook_type_fits(struct str pattern, struct str type)
{
	if (!str_has_suffix(pattern, ".*"))
		return str_eqz(pattern, "*") || str_eq(pattern, type);
	pattern.n--; /* up to and with the dot */
	return type.n > pattern.n && memcmp(type.p, pattern.p, pattern.n) == 0;
}

size_t
webhook_types(const struct webhook *h, const char *out[WEBHOOK_TYPES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < h->nevents; i++) {
		if (strcmp(h->events[i], WEBHOOK_EVENT_ALL) == 0) {
			out[n++] = "*";
			continue;
		}
		if (strcmp(h->events[i], "alarm") != 0) {
			out[n++] = h->events[i];
			continue;
		}
		for (size_t k = 0; k < ARRAY_LEN(alarms); k++)
			out[n++] = alarms[k];
	}
	return n;
}
_Static_assert(WEBHOOK_EVENTS_MAX + ARRAY_LEN(alarms) <= WEBHOOK_TYPES_MAX, "\"alarm\" once");

bool
webhook_wants(const struct webhook *h, struct str type)
{
	const char *all[WEBHOOK_TYPES_MAX];
	size_t n = webhook_types(h, all);

	for (size_t i = 0; i < n; i++)
		if (webhook_type_fits(str_z(all[i]), type))
			return true;
	return false;
}

/* --- keys --------------------------------------------------------------------------- */

static int
no(const struct parse *p, struct err *err, const char *what)
{
	return json_err(p->doc, p->at, err, ERR_CONFIG, "%s", what);
}

static int
read_name(struct parse *p, struct str s, struct err *err)
{
	bool ok = s.n != 0 && s.n <= WEBHOOK_NAME_MAX;

	for (size_t i = 0; i < s.n; i++)
		ok = ok && ((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') ||
			       s.p[i] == '-');
	if (!ok)
		return no(p, err, "name must be 1 to 32 of a-z, 0-9 and '-'");
	p->h->name = str_dup(s);
	return 0;
}

/* What it is called by is the name in it. */
static int
read_key(struct parse *p, struct str s, struct err *err)
{
	struct str name;
	const char *why = webhook_witness_key(s, &name);

	if (why != NULL)
		return no(p, err, why);
	p->h->key = str_dup(s);
	p->h->name = str_dup(name);
	return 0;
}

static int
read_url(struct parse *p, struct str s, struct err *err)
{
	struct webhook_url u;
	struct err why = {0};

	if (webhook_url_parse(s, &u, &why) != 0)
		return no(p, err, why.msg);
	p->h->url = str_dup(s);
	return 0;
}

/* Beneath the state directory; opened there without a link, so dots can only be a mistake. */
static int
read_path(struct parse *p, struct str s, char **ret, struct err *err)
{
	if (s.n == 0 || s.n > PATH_MAX_ || s.p[0] == '/' || !str_is_ascii_print(s) ||
	    str_glob(STR("*..*"), s))
		return no(p, err,
		    "a file is named by its path beneath the state directory, without \"..\"");
	*ret = str_dup(s);
	return 0;
}

static int
read_url_file(struct parse *p, struct str s, struct err *err)
{
	return read_path(p, s, &p->h->url_file, err);
}

static int
read_secret_file(struct parse *p, struct str s, struct err *err)
{
	return read_path(p, s, &p->h->secret_file, err);
}

static int
read_ca_file(struct parse *p, struct str s, struct err *err)
{
	return read_path(p, s, &p->h->ca_file, err);
}

static int
read_header_file(struct parse *p, struct str s, struct err *err)
{
	return read_path(p, s, &p->h->header_file, err);
}

static int
read_from(struct parse *p, struct str s, struct err *err)
{
	if (!str_eqz(s, "now") && !str_eqz(s, "first"))
		return no(p, err, "from must be \"now\" or \"first\"");
	p->h->from_first = str_eqz(s, "first");
	return 0;
}

static int
read_link(struct parse *p, struct str s, struct err *err)
{
	if (s.n > 200 || !str_has_prefix(s, "https://") || !str_is_ascii_print(s) ||
	    memchr(s.p, ' ', s.n) != NULL || memchr(s.p, '|', s.n) != NULL ||
	    memchr(s.p, '<', s.n) != NULL || memchr(s.p, '>', s.n) != NULL)
		return no(p, err, "link must be an https:// address of at most 200 bytes");
	p->h->link = str_dup(s);
	return 0;
}

static int
read_form(struct parse *p, struct str s, struct err *err)
{
	if (!str_eqz(s, "json") && !str_eqz(s, "slack") && !str_eqz(s, "otlp"))
		return no(p, err, "form must be \"json\", \"slack\" or \"otlp\"");
	p->h->slack = str_eqz(s, "slack");
	p->h->otlp = str_eqz(s, "otlp");
	return 0;
}

static int
read_show(struct parse *p, struct str s, struct err *err)
{
	if (!str_eqz(s, "digest") && !str_eqz(s, "text"))
		return no(p, err, "show must be \"digest\" or \"text\"");
	p->h->text = str_eqz(s, "text");
	return 0;
}

static const struct {
	const char *key;
	int (*fn)(struct parse *p, struct str s, struct err *err);
} strings[] = {
    {"name", read_name},
    {"url", read_url},
    {"url_file", read_url_file},
    {"secret_file", read_secret_file},
    {"ca_file", read_ca_file},
    {"header_file", read_header_file},
    {"from", read_from},
    {"key", read_key},
    {"link", read_link},
    {"form", read_form},
    {"show", read_show},
};

static int
read_events(struct parse *p, const struct json *v, struct err *err)
{
	if (json_type(v) != JSON_ARRAY || json_count(v) == 0 || json_count(v) > WEBHOOK_EVENTS_MAX)
		return no(p, err, "events must be an array of 1 to 32 names");
	for (size_t i = 0; i < json_count(v); i++) {
		struct str s = json_str(json_at(v, i));

		p->at = json_at(v, i);
		if (!event_known(s))
			return json_err(p->doc, p->at, err, ERR_CONFIG,
			    "event \"%.*s\" is not known: a record's type such as "
			    "\"approval.request\", a family such as \"freeze.*\", or \"alarm\"",
			    STR_ARG(s));
		if (is_one_of(s, (const char *const *)p->h->events, p->h->nevents))
			return no(p, err, "this event stands there twice");
		p->h->events[p->h->nevents++] = str_dup(s);
	}
	return 0;
}

static int
read_networks(struct parse *p, const struct json *v, struct err *err)
{
	if (json_type(v) != JSON_ARRAY || json_count(v) > WEBHOOK_NETS_MAX)
		return no(p, err, "networks must be an array of at most 16 networks");
	for (size_t i = 0; i < json_count(v); i++) {
		struct str s = json_str(json_at(v, i));

		p->at = json_at(v, i);
		if (s.n == 0 || s.n > 60 || memchr(s.p, '/', s.n) == NULL)
			return no(p, err, "a network is written as \"10.0.0.0/8\"");
		p->h->networks[p->h->nnetworks++] = str_dup(s);
	}
	return 0;
}

static int
read_seconds(struct parse *p, const struct json *v, int64_t max, int64_t *ret, struct err *err)
{
	int64_t n = json_int(v);

	if (json_type(v) != JSON_INT || n < 1 || n > max)
		return json_err(
		    p->doc, v, err, ERR_CONFIG, "must be from 1 to %lld seconds", (long long)max);
	*ret = n;
	return 0;
}

/* Each of the two has its own. */
static bool
key_known(const struct parse *p, struct str key)
{
	static const char *const witness[] = {"key", "url", "ca_file", "networks", "timeout"};

	return p->witness ? is_one_of(key, witness, ARRAY_LEN(witness)) : !str_eqz(key, "key");
}

static int
member(struct parse *p, struct str key, const struct json *v, struct err *err)
{
	p->at = v;
	if (!key_known(p, key))
		return json_err(p->doc, v, err, ERR_CONFIG, "unknown key \"%.*s\" of a %s",
		    STR_ARG(key), p->witness ? "witness" : "webhook");
	if (str_eqz(key, "events"))
		return read_events(p, v, err);
	if (str_eqz(key, "networks"))
		return read_networks(p, v, err);
	if (str_eqz(key, "retry_for"))
		return read_seconds(p, v, RETRY_MAX_S, &p->h->retry_for_s, err);
	if (str_eqz(key, "timeout"))
		return read_seconds(p, v, TIMEOUT_MAX_S, &p->h->timeout_s, err);
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		if (!str_eqz(key, strings[i].key))
			continue;
		if (json_type(v) != JSON_STRING)
			return json_err(
			    p->doc, v, err, ERR_CONFIG, "%s must be a string", strings[i].key);
		return strings[i].fn(p, json_str(v), err);
	}
	return json_err(
	    p->doc, v, err, ERR_CONFIG, "unknown key \"%.*s\" of a webhook", STR_ARG(key));
}

static int
check_whole(struct parse *p, const struct json *v, const struct webhooks *all, struct err *err)
{
	const struct webhook *h = p->h;

	p->at = v;
	if (p->witness && (h->key == NULL || h->url == NULL))
		return no(p, err, "a witness needs \"key\" and \"url\"");
	if (h->name == NULL)
		return no(p, err, "a webhook needs \"name\"");
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->v[i].name, h->name) == 0)
			return no(p, err, "two of them have this name");
	if (p->witness)
		return 0;
	if ((h->url == NULL) == (h->url_file == NULL))
		return no(p, err, "a webhook needs either \"url\" or \"url_file\"");
	if (h->nevents == 0)
		return no(p, err, "a webhook needs \"events\"");
	for (size_t i = 0; !h->otlp && i < h->nevents; i++)
		if (is_one_of(str_z(h->events[i]), wide, ARRAY_LEN(wide)))
			return json_err(p->doc, v, err, ERR_CONFIG,
			    "event \"%s\" is for the form \"otlp\" alone", h->events[i]);
	if (!h->otlp && (h->header_file != NULL || h->from_first))
		return no(p, err, "\"header_file\" and \"from\" are of the form \"otlp\" alone");
	if (h->otlp && (h->secret_file != NULL || h->link != NULL))
		return no(p, err,
		    "the form \"otlp\" has no \"secret_file\" (nobody looks at signatures "
		    "there: \"header_file\") and no \"link\"");
	if (p->h->retry_for_s < 0)
		p->h->retry_for_s = h->otlp ? 0 : RETRY_DEFAULT_S;
	/* Slack looks at no signature; whoever has the URL may write there. */
	if (h->secret_file == NULL && !h->slack && !h->otlp)
		return no(p, err, "a webhook needs \"secret_file\", with which it is signed");
	return 0;
}

static void
webhook_free(struct webhook *h)
{
	char *const own[] = {h->name, h->url, h->url_file, h->secret_file, h->ca_file, h->link,
	    h->header_file, h->key};

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		free(own[i]);
	for (size_t i = 0; i < h->nevents; i++)
		free(h->events[i]);
	for (size_t i = 0; i < h->nnetworks; i++)
		free(h->networks[i]);
	*h = (struct webhook){0};
}

static int
read_one(const struct json_doc *doc, const struct json *v, bool witness, struct webhooks *all,
    struct err *err)
{
	struct webhook h = {.retry_for_s = -1, .timeout_s = TIMEOUT_DEFAULT_S};
	struct parse p = {doc, v, &h, witness};
	int rc = json_type(v) == JSON_OBJECT ? 0 : no(&p, err, "must be an object");

	for (size_t i = 0; rc == 0 && i < json_count(v); i++)
		rc = member(&p, json_key(v, i), json_at(v, i), err);
	if (rc == 0)
		rc = check_whole(&p, v, all, err);
	if (rc != 0) {
		webhook_free(&h);
		return rc;
	}
	all->v[all->n++] = h;
	return 0;
}

static int
read_all(const struct json_doc *doc, const struct json *v, bool witness, struct webhooks *ret,
    struct err *err)
{
	size_t max = witness ? WITNESSES_MAX : WEBHOOKS_MAX;
	struct webhooks all = {0};
	int rc = 0;

	if (json_type(v) != JSON_ARRAY || json_count(v) > max)
		return json_err(doc, v, err, ERR_CONFIG,
		    "%s must be an array of at most %zu objects",
		    witness ? "witnesses" : "webhooks", max);
	for (size_t i = 0; rc == 0 && i < json_count(v); i++)
		rc = read_one(doc, json_at(v, i), witness, &all, err);
	if (rc != 0) {
		webhooks_free(&all);
		return rc;
	}
	*ret = all;
	return 0;
}

int
webhooks_parse(
    const struct json_doc *doc, const struct json *v, struct webhooks *ret, struct err *err)
{
	return read_all(doc, v, false, ret, err);
}

int
webhooks_parse_witnesses(
    const struct json_doc *doc, const struct json *v, struct webhooks *ret, struct err *err)
{
	return read_all(doc, v, true, ret, err);
}

void
webhooks_free(struct webhooks *w)
{
	for (size_t i = 0; i < w->n; i++)
		webhook_free(&w->v[i]);
	*w = (struct webhooks){0};
}

/* --- addresses ------------------------------------------------------------------------ */

int
webhook_url_parse(struct str url, struct webhook_url *ret, struct err *err)
{
	struct str rest = url, authority;
	struct webhook_url u = {0};
	struct err why = {0};
	size_t n;

	if (url.n > WEBHOOK_URL_MAX || !str_has_prefix(url, "https://"))
		return err_set(err, ERR_CONFIG,
		    "a URL begins with https:// and has at most %d bytes", WEBHOOK_URL_MAX);
	rest = str_mem(url.p + 8, url.n - 8);
	for (n = 0; n < rest.n && rest.p[n] != '/' && rest.p[n] != '?'; n++)
		;
	authority = str_mem(rest.p, n);
	rest = str_mem(rest.p + n, rest.n - n);
	for (size_t i = 0; i < rest.n; i++)
		if (rest.p[i] <= ' ' || rest.p[i] >= 0x7f || rest.p[i] == '#')
			return err_set(err, ERR_CONFIG,
			    "a URL has printable ASCII without space and '#' alone");
	if (http_authority_parse(authority, u.host, &u.port, &why) != 0)
		return err_set(err, ERR_CONFIG, "the host of a URL: %s", why.msg);
	if (u.port == 0)
		u.port = 443;
	u.target[0] = '/'; /* also in front of a query without a path */
	if (rest.n != 0)
		memcpy(u.target + (rest.p[0] == '/' ? 0 : 1), rest.p, rest.n);
	*ret = u;
	return 0;
}
