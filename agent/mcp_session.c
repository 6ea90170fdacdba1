/*
 * What one MCP client may ask, in both eras of the protocol. Linked by cofferdam-mcp and by the
 * fixture of the conformance tests; knows no tool, no transport and no clock. A message is answered
 * exactly once, or, if its client cancelled it, never.
 */
#include "agent/mcp_session_int.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* Newest first: what is offered where a client asks for another. */
static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18"};
#define HEADER_VALUE_MAX ((size_t)4096)
#define SUPPORTED "[\"" MCP_MODERN_VERSION "\",\"2025-11-25\",\"2025-06-18\"]"

struct mcp_session *
mcp_session_new(const struct mcp_server *server, const struct mcp_out *out, void *owner)
{
	struct mcp_session *s = xcalloc(1, sizeof(*s));

	s->server = server;
	s->out = out;
	s->owner = owner;
	TAILQ_INIT(&s->calls);
	return s;
}

void
mcp_session_free(struct mcp_session *s)
{
	if (s == NULL)
		return;
	while (!TAILQ_EMPTY(&s->calls))
		mcp_call_drop(TAILQ_FIRST(&s->calls));
	json_free(s->opening);
	free(s);
}

void *
mcp_session_owner(const struct mcp_session *s)
{
	return s->owner;
}

enum mcp_era
mcp_session_era(const struct mcp_session *s)
{
	return s->era;
}

const char *
mcp_session_client(const struct mcp_session *s)
{
	return s->client;
}

bool
mcp_session_declares(const struct mcp_call *c, const char *capability)
{
	const struct json *caps = c->m.capabilities;

	if (c->era == MCP_ERA_LEGACY)
		caps = json_get(json_get(json_root(c->s->opening), "params"), "capabilities");
	return json_type(json_get(caps, capability)) == JSON_OBJECT;
}

/* "name version", of printable ASCII: it goes on the record and into lists. */
static void
client_take(struct mcp_session *s, const struct json *info)
{
	struct str name = json_str(json_get(info, "name")),
		   version = json_str(json_get(info, "version"));
	size_t n;

	if (name.n == 0)
		return;
	(void)snprintf(s->client, sizeof(s->client), "%.*s%s%.*s", STR_ARG(name),
	    version.n != 0 ? " " : "", STR_ARG(version));
	n = strlen(s->client);
	for (size_t i = 0; i < n; i++)
		if (s->client[i] < ' ' || s->client[i] > '~')
			s->client[i] = '?';
}

/* --- the eras' own methods ------------------------------------------------------------ */

static void
initialize(struct mcp_call *c)
{
	struct mcp_session *s = c->s;
	const struct json *p = c->m.params;
	struct str asked = json_str(json_get(p, "protocolVersion"));
	const char *version = legacy_versions[0];
	AUTO_BUF struct buf b = BUF(1 << 17);

	if (s->opened) {
		mcp_call_error(
		    c, MCP_INVALID_REQUEST, "this session was initialized before", STR(""));
		return;
	}
	if (asked.n == 0 || json_type(json_get(p, "capabilities")) != JSON_OBJECT) {
		mcp_call_error(c, MCP_INVALID_PARAMS,
		    "initialize needs protocolVersion, capabilities and clientInfo", STR(""));
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(legacy_versions); i++)
		if (str_eqz(asked, legacy_versions[i]))
			version = legacy_versions[i];
	client_take(s, json_get(p, "clientInfo"));
	s->era = MCP_ERA_LEGACY;
	s->opened = true;
	buf_printf(&b,
	    "{\"capabilities\":%s,\"protocolVersion\":\"%s\",\"serverInfo\":", s->server->legacy,
	    version);
	mcp_server_info_put(s->server, &b);
	if (s->server->instructions != NULL) {
		buf_put_z(&b, ",\"instructions\":");
		mcp_text_put(&b, str_z(s->server->instructions));
	}
	buf_put_c(&b, '}');
	s->opening = TAKE_PTR(c->m.doc); /* params point into it; nothing more is read of c->m */
	mcp_call_result(c, buf_str(&b));
}

static void
discover(struct mcp_call *c)
{
	const struct mcp_server *s = c->s->server;
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_printf(&b, "{\"capabilities\":%s,\"supportedVersions\":" SUPPORTED, s->modern);
	if (s->instructions != NULL) {
		buf_put_z(&b, ",\"instructions\":");
		mcp_text_put(&b, str_z(s->instructions));
	}
	buf_put_c(&b, '}');
	mcp_call_list(c, buf_str(&b));
}

static void
ping(struct mcp_call *c)
{
	mcp_call_result(c, STR("{}"));
}

static void
tools_list(struct mcp_call *c)
{
	const struct mcp_server *s = c->s->server;
	AUTO_BUF struct buf b = BUF(1 << 20);

	if (json_get(c->m.params, "cursor") != NULL) {
		mcp_call_error(
		    c, MCP_INVALID_PARAMS, "there is one page of tools, and no cursor", STR(""));
		return;
	}
	buf_put_z(&b, "{\"tools\":[");
	for (size_t i = 0; i < s->ntools; i++)
		buf_printf(&b, "%s{\"name\":\"%s\",%s}", i != 0 ? "," : "", s->tools[i].name,
		    s->tools[i].json);
	buf_put_z(&b, "]}");
	mcp_call_list(c, buf_str(&b));
}

static const struct mcp_tool *
tool_find(const struct mcp_server *s, struct str name)
{
	for (size_t i = 0; i < s->ntools; i++)
		if (str_eqz(name, s->tools[i].name))
			return &s->tools[i];
	return NULL;
}

static void
tools_call(struct mcp_call *c)
{
	struct str name = json_str(json_get(c->m.params, "name"));
	const struct json *arguments = json_get(c->m.params, "arguments");
	const struct mcp_tool *t = tool_find(c->s->server, name);
	AUTO_BUF struct buf why = BUF(512);

	if (t == NULL) {
		buf_printf(&why, "unknown tool: %.*s", (int)(name.n < 200 ? name.n : 200),
		    name.n != 0 ? name.p : "");
		buf_put_c(&why, '\0');
		mcp_call_error(c, MCP_INVALID_PARAMS, (const char *)why.p, STR(""));
	} else if (arguments != NULL && json_type(arguments) != JSON_OBJECT) {
		mcp_call_error(c, MCP_INVALID_PARAMS, "arguments must be an object", STR(""));
	} else {
		c->s->server->call(c, t, arguments);
	}
}

static const struct method {
	const char *name;
	bool legacy, modern;
	void (*fn)(struct mcp_call *c);
} methods[] = {
    {"initialize", true, false, initialize},
    {"ping", true, false, ping},
    {"server/discover", false, true, discover},
    {"tools/call", true, true, tools_call},
    {"tools/list", true, true, tools_list},
};

static void
dispatch(struct mcp_call *c)
{
	const struct mcp_server *s = c->s->server;

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eqz(c->m.method, methods[i].name) &&
		    (c->era == MCP_ERA_MODERN ? methods[i].modern : methods[i].legacy)) {
			methods[i].fn(c);
			return;
		}
	if (s->other == NULL || !s->other(c))
		mcp_call_error(c, MCP_METHOD_NOT_FOUND, "method not found", STR(""));
}

/* --- which era, and is it well asked? -------------------------------------------------- */

static void
unsupported(struct mcp_call *c, struct str version)
{
	AUTO_BUF struct buf data = BUF(4096);

	c->era = MCP_ERA_MODERN; /* HTTP's 400 goes with it, also where a legacy client asked */
	buf_put_z(&data, "{\"requested\":");
	mcp_text_put(&data, version);
	buf_put_z(&data, ",\"supported\":" SUPPORTED "}");
	mcp_call_error(c, MCP_UNSUPPORTED_VERSION, "unsupported protocol version", buf_str(&data));
}

/* A header must say what the body says (2026-07-28, Streamable HTTP: routing by headers). */
static bool
header_is(struct str header, struct str body)
{
	AUTO_BUF struct buf v = BUF(HEADER_VALUE_MAX);

	return header.n != 0 && mcp_header_value(header, &v) && !buf_over(&v) &&
	       str_eq(buf_str(&v), body);
}

static const char *
header_wrong(const struct mcp_call *c, const struct mcp_http *h)
{
	const struct json *p = c->m.params, *name = json_get(p, "name"), *arg;
	const struct mcp_tool *t;
	struct str param;

	if (!str_eq(h->version, c->m.version))
		return "MCP-Protocol-Version is not what _meta says";
	if (!header_is(h->method, c->m.method))
		return "Mcp-Method is not the method of the body";
	if (str_eqz(c->m.method, "resources/read"))
		name = json_get(p, "uri");
	else if (!str_eqz(c->m.method, "tools/call") && !str_eqz(c->m.method, "prompts/get"))
		return NULL;
	if (!header_is(h->name, json_str(name)))
		return "Mcp-Name is not the name of the body";
	t = str_eqz(c->m.method, "tools/call") ? tool_find(c->s->server, json_str(name)) : NULL;
	if (t == NULL || t->header == NULL)
		return NULL;
	arg = json_get(json_get(p, "arguments"), t->header_argument);
	param = h->param(h->arg, t->header);
	if (arg == NULL ? param.n != 0 : !header_is(param, json_str(arg)))
		return "Mcp-Param is not the argument of the body";
	return NULL;
}

static void
modern(struct mcp_call *c, const struct mcp_http *h)
{
	const char *why;

	if (!c->m.versioned || c->m.capabilities == NULL) {
		mcp_call_error(c, MCP_INVALID_PARAMS,
		    "_meta needs " MCP_META "protocolVersion and " MCP_META "clientCapabilities",
		    STR(""));
		return;
	}
	if (h != NULL && (why = header_wrong(c, h)) != NULL) {
		mcp_call_error(c, MCP_HEADER_MISMATCH, why, STR(""));
		return;
	}
	if (!str_eqz(c->m.version, MCP_MODERN_VERSION)) {
		unsupported(c, c->m.version);
		return;
	}
	client_take(c->s, json_get(c->m.meta, MCP_META "clientInfo"));
	if (c->s->era == MCP_ERA_NONE)
		c->s->era = MCP_ERA_MODERN;
	dispatch(c);
}

static bool
is_legacy_version(struct str v)
{
	for (size_t i = 0; i < ARRAY_LEN(legacy_versions); i++)
		if (str_eqz(v, legacy_versions[i]))
			return true;
	return false;
}

static void
legacy(struct mcp_call *c, const struct mcp_http *h)
{
	bool first = str_eqz(c->m.method, "initialize");

	if (h != NULL && h->version.n != 0 && !first && !is_legacy_version(h->version)) {
		unsupported(c, h->version);
	} else if (!first && !c->s->opened && !str_eqz(c->m.method, "ping")) {
		mcp_call_error(c, MCP_INVALID_PARAMS,
		    "neither _meta with " MCP_META "protocolVersion, nor an initialize before",
		    STR(""));
	} else {
		dispatch(c);
	}
}

/* --- notifications, responses ---------------------------------------------------------- */

static struct mcp_call *
call_find(struct mcp_session *s, const char *id)
{
	struct mcp_call *c;

	TAILQ_FOREACH (c, &s->calls, link)
		if (strcmp(c->m.id, id) == 0)
			return c;
	return NULL;
}

static void
cancelled(struct mcp_session *s, const struct mcp_message *m)
{
	AUTO_BUF struct buf id = BUF(MCP_ID_MAX + 1);
	const struct json *v = json_get(m->params, "requestId");
	struct mcp_call *c;

	if (json_type(v) != JSON_STRING && json_type(v) != JSON_INT)
		return;
	(void)mcp_value_put(&id, v);
	buf_put_c(&id, '\0');
	if (!buf_over(&id) && (c = call_find(s, (const char *)id.p)) != NULL)
		mcp_call_drop(c);
}

/* The call whose question to the client has this id. */
static struct mcp_call *
asker_find(struct mcp_session *s, const char *id)
{
	struct mcp_call *c;
	char own[32];

	TAILQ_FOREACH (c, &s->calls, link) {
		if (c->ask == NULL)
			continue;
		(void)snprintf(own, sizeof(own), "\"s%llu\"", (unsigned long long)c->ask->number);
		if (strcmp(own, id) == 0)
			return c;
	}
	return NULL;
}

static void
response(struct mcp_session *s, const struct mcp_message *m)
{
	struct mcp_call *c = asker_find(s, m->id);
	AUTO_FREE struct mcp_ask *a = NULL;

	if (c == NULL)
		return;
	a = TAKE_PTR(c->ask);
	a->fn(c, m->result);
}

static void
request(struct mcp_session *s, struct mcp_message *m, const struct mcp_http *h, void *exchange)
{
	bool is_modern = m->versioned || str_eqz(m->method, "server/discover") ||
			 (h != NULL && str_eqz(h->version, MCP_MODERN_VERSION));
	/* Over HTTP many modern clients share a session, and their ids mean nothing to each other.
	 */
	bool twice = !(is_modern && h != NULL) && call_find(s, m->id) != NULL;
	struct mcp_call *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->exchange = exchange;
	c->era = is_modern ? MCP_ERA_MODERN : MCP_ERA_LEGACY;
	c->m = *m;
	*m = (struct mcp_message){0};
	TAILQ_INSERT_TAIL(&s->calls, c, link);
	if (s->ncalls++ >= MCP_CALLS_MAX)
		mcp_call_error(
		    c, MCP_INTERNAL, "too many requests are not answered yet (64)", STR(""));
	else if (twice)
		mcp_call_error(
		    c, MCP_INVALID_REQUEST, "a request of that id is not answered yet", STR(""));
	else if (is_modern)
		modern(c, h);
	else
		legacy(c, h);
}

void
mcp_session_take(
    struct mcp_session *s, struct str text, const struct mcp_http *http, void *exchange)
{
	AUTO_MESSAGE struct mcp_message m = {0};
	AUTO_BUF struct buf b = BUF(4096);
	struct err e = {0};
	int code = mcp_message_read(text, &m, &e);

	if (code != 0) {
		mcp_put_error(&b, m.id[0] != '\0' ? m.id : "null", code, e.msg, STR(""));
		s->out->answer(exchange, 400, buf_str(&b));
	} else if (m.kind == MCP_REQUEST) {
		request(s, &m, http, exchange);
	} else {
		if (m.kind == MCP_RESPONSE)
			response(s, &m);
		else if (str_eqz(m.method, "notifications/cancelled") &&
			 (http == NULL || s->era == MCP_ERA_LEGACY))
			cancelled(s, &m);
		s->out->answer(exchange, 202, STR(""));
	}
}

void
mcp_session_gone(struct mcp_session *s, void *exchange)
{
	struct mcp_call *c, *next;

	for (c = TAILQ_FIRST(&s->calls); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->exchange != exchange)
			continue;
		c->exchange = NULL;
		if (c->era == MCP_ERA_MODERN)
			mcp_call_drop(c);
	}
}
