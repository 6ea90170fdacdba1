/*
 * What an MCP client is told: answers in the form of its era, progress, requests of ours. Linked by
 * cofferdam-mcp and by the fixture of the conformance tests.
 */
#include "agent/mcp_session_int.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define ANSWER_MAX ((size_t)16 << 20)

void
mcp_server_info_put(const struct mcp_server *s, struct buf *out)
{
	buf_printf(out, "{\"name\":\"%s\",\"title\":\"%s\",\"version\":\"%s\"}", s->name, s->title,
	    s->version);
}

void
mcp_call_free(struct mcp_call *c)
{
	TAILQ_REMOVE(&c->s->calls, c, link);
	c->s->ncalls--;
	mcp_message_free(&c->m);
	free(c->ask);
	free(c);
}

void
mcp_call_drop(struct mcp_call *c)
{
	if (c->s->server->cancel != NULL)
		c->s->server->cancel(c);
	/* Over HTTP its exchange still waits: it ends without an answer. */
	if (c->exchange != NULL)
		c->s->out->answer(c->exchange, 0, STR(""));
	mcp_call_free(c);
}

static void
answer(struct mcp_call *c, unsigned status, struct str text)
{
	void *exchange = c->exchange;
	const struct mcp_out *out = c->s->out;

	mcp_call_free(c);
	if (exchange != NULL)
		out->answer(exchange, status, text);
}

/* `lead`: members that stand before those of result, each with a comma behind it. */
static void
result_put(struct mcp_call *c, struct str lead, struct str result)
{
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);
	bool empty = result.n == 2; /* "{}" */

	buf_printf(&b, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{", c->m.id);
	if (lead.n != 0 && empty)
		lead.n--;
	buf_put_str(&b, lead);
	buf_put_str(&b, str_mem(result.p + 1, result.n - 1));
	buf_put_c(&b, '}');
	if (buf_over(&b))
		mcp_call_error(c, MCP_INTERNAL, "the answer is over 16 MiB", STR(""));
	else
		answer(c, 200, buf_str(&b));
}

static void
lead_put(const struct mcp_call *c, const char *type, bool kept, struct buf *out)
{
	if (c->era != MCP_ERA_MODERN)
		return;
	buf_put_z(out, "\"_meta\":{\"" MCP_META "serverInfo\":");
	mcp_server_info_put(c->s->server, out);
	buf_printf(out, "},\"resultType\":\"%s\",", type);
	if (kept)
		buf_printf(out, "\"cacheScope\":\"public\",\"ttlMs\":%d,", MCP_LIST_TTL_MS);
}

void
mcp_call_result_as(struct mcp_call *c, const char *type, struct str result)
{
	AUTO_BUF struct buf lead = BUF(4096);

	lead_put(c, type, false, &lead);
	result_put(c, buf_str(&lead), result);
}

void
mcp_call_result(struct mcp_call *c, struct str result)
{
	mcp_call_result_as(c, "complete", result);
}

void
mcp_call_list(struct mcp_call *c, struct str result)
{
	AUTO_BUF struct buf lead = BUF(4096);

	lead_put(c, "complete", true, &lead);
	result_put(c, buf_str(&lead), result);
}

void
mcp_call_error(struct mcp_call *c, enum mcp_code code, const char *text, struct str data)
{
	AUTO_BUF struct buf b = BUF(1 << 16);

	mcp_put_error(&b, c->m.id, code, text, data);
	/* A legacy client is told of HTTP's errors only where its session is at stake. */
	answer(c, c->era == MCP_ERA_MODERN ? mcp_code_http(code) : 200, buf_str(&b));
}

void
mcp_call_lacks(struct mcp_call *c, const char *capabilities)
{
	AUTO_BUF struct buf data = BUF(1024);

	buf_printf(&data, "{\"requiredCapabilities\":%s}", capabilities);
	mcp_call_error(c, MCP_MISSING_CAPABILITY, "the client did not declare what this needs",
	    buf_str(&data));
}

void
mcp_call_structured(struct mcp_call *c, struct str structured, bool failed)
{
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);

	buf_put_z(&b, "{\"content\":[{\"type\":\"text\",\"text\":");
	mcp_text_put(&b, structured);
	buf_printf(&b, "}],\"isError\":%s,\"structuredContent\":", failed ? "true" : "false");
	buf_put_str(&b, structured);
	buf_put_c(&b, '}');
	if (buf_over(&b))
		mcp_call_failed(c, "the result is too large to be told");
	else
		mcp_call_result(c, buf_str(&b));
}

void
mcp_call_failed(struct mcp_call *c, const char *text)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_put_z(&b, "{\"content\":[{\"type\":\"text\",\"text\":");
	mcp_text_put(&b, str_z(text));
	buf_put_z(&b, "}],\"isError\":true}");
	mcp_call_result(c, buf_str(&b));
}

/* --- while it goes on ------------------------------------------------------------------ */

void
mcp_call_notify(struct mcp_call *c, const char *method, struct str params)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	if (c->exchange == NULL)
		return;
	mcp_put_notification(&b, method, params);
	if (!buf_over(&b))
		c->s->out->send(c->exchange, buf_str(&b));
}

void
mcp_call_progress(struct mcp_call *c, uint64_t progress, uint64_t total, const char *message)
{
	AUTO_BUF struct buf p = BUF(1 << 16);

	if (c->m.token[0] == '\0')
		return;
	buf_printf(&p, "{\"progressToken\":%s,\"progress\":%llu", c->m.token,
	    (unsigned long long)progress);
	if (total != 0)
		buf_printf(&p, ",\"total\":%llu", (unsigned long long)total);
	if (message != NULL) {
		buf_put_z(&p, ",\"message\":");
		mcp_text_put(&p, str_z(message));
	}
	buf_put_c(&p, '}');
	mcp_call_notify(c, "notifications/progress", buf_str(&p));
}

void
mcp_call_ask(struct mcp_call *c, const char *method, struct str params, mcp_asked_fn *fn)
{
	AUTO_BUF struct buf b = BUF(1 << 17);
	char id[32];

	free(c->ask);
	c->ask = xcalloc(1, sizeof(*c->ask));
	*c->ask = (struct mcp_ask){.number = ++c->s->asks, .fn = fn};
	(void)snprintf(id, sizeof(id), "\"s%llu\"", (unsigned long long)c->ask->number);
	mcp_put_request(&b, id, method, params);
	if (c->exchange != NULL)
		c->s->out->send(c->exchange, buf_str(&b));
}
