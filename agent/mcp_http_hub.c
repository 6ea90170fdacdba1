/*
 * The hub of cofferdam-mcp --listen: all its sessions, in one process that waits for nobody. Its
 * peers are the listener's workers, of this program and this user; what they pass on came over the
 * network. A session is found by its id and its principal together: another's id is as good as
 * none.
 */
#include "agent/mcp_http.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "agent/mcp_wire.h"
#include "common/acceptor.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct client {
	TAILQ_ENTRY(client) link;
	struct hub *hub;
	struct mcp_session *s;
	char *who;
	char id[MCP_HTTP_SESSION_ID + 1]; /* "": the principal's stateless one */
	struct exchange *stream;	  /* its GET */
	size_t nexchanges;
	struct loop_timer *idle;
};

/* One HTTP request, at its worker. */
struct exchange {
	TAILQ_ENTRY(exchange) link;
	struct hub *hub;
	struct mcp_wire *wire;
	struct client *client; /* NULL: none, or gone */
	bool answered;
};

struct hub {
	const struct mcp_http_config *config;
	struct loop *loop;
	int listen;
	TAILQ_HEAD(clients, client) clients;
	TAILQ_HEAD(exchanges, exchange) exchanges;
	size_t nclients;
};

static void idle_watch(struct client *c);

/* --- exchanges -------------------------------------------------------------------------- */

static void
answer(struct exchange *x, unsigned status, const char *session, struct str message)
{
	AUTO_BUF struct buf b = BUF(MCP_WIRE_MAX);

	if (x->answered)
		return;
	buf_u16(&b, (uint16_t)status);
	buf_lz(&b, session);
	buf_lstr(&b, message);
	mcp_wire_send(x->wire, MCP_F_ANSWER, buf_str(&b));
	x->answered = true;
}

static void
refuse(struct exchange *x, unsigned status, const char *why)
{
	AUTO_BUF struct buf b = BUF(4096);

	mcp_put_error(&b, "null", MCP_INVALID_REQUEST, why, STR(""));
	answer(x, status, "", buf_str(&b));
}

/* From the session: an answer tells a new client its id. */
static void
out_send(void *exchange, struct str message)
{
	struct exchange *x = exchange;

	mcp_wire_send(x->wire, MCP_F_SEND, message);
}

static void
out_answer(void *exchange, unsigned status, struct str message)
{
	struct exchange *x = exchange;

	answer(x, status, x->client != NULL ? x->client->id : "", message);
}

static const struct mcp_out out = {.send = out_send, .answer = out_answer};

static void
exchange_leave(struct exchange *x)
{
	struct client *c = x->client;

	if (c == NULL)
		return;
	x->client = NULL;
	if (c->stream == x)
		c->stream = NULL;
	c->nexchanges--;
	idle_watch(c);
}

static void
exchange_free(struct exchange *x)
{
	TAILQ_REMOVE(&x->hub->exchanges, x, link);
	if (x->client != NULL && !x->answered)
		mcp_session_gone(x->client->s, x);
	exchange_leave(x);
	mcp_wire_free(x->wire);
	free(x);
}

/* --- clients ---------------------------------------------------------------------------- */

static void
client_free(struct client *c, const char *said)
{
	struct hub *h = c->hub;
	struct exchange *x;

	TAILQ_REMOVE(&h->clients, c, link);
	h->nclients--;
	loop_timer_del(c->idle);
	h->config->app.close(h->config->app.arg, c->s, said);
	TAILQ_FOREACH (x, &h->exchanges, link)
		if (x->client == c) {
			answer(x, 404, "", STR(""));
			x->client = NULL;
		}
	free(c->who);
	free(c);
}

static void
on_idle(void *arg)
{
	struct client *c = arg;

	c->idle = NULL;
	if (!c->hub->config->app.idle(c->hub->config->app.arg, c->s))
		idle_watch(c); /* an execution goes on that nobody waits for now */
	else
		client_free(c, "nobody asked anything for a long time");
}

/* Its time runs while no request of its is there; a GET that only listens is none. */
static void
idle_watch(struct client *c)
{
	loop_timer_del(c->idle);
	c->idle = NULL;
	if (c->nexchanges == (c->stream != NULL ? 1u : 0u))
		c->idle = loop_timer_add(c->hub->loop, c->hub->config->idle_ms, on_idle, c);
}

static struct client *
client_find(struct hub *h, struct str who, struct str id)
{
	struct client *c;

	TAILQ_FOREACH (c, &h->clients, link)
		if (str_eqz(who, c->who) && str_eqz(id, c->id))
			return c;
	return NULL;
}

/* NULL: there are too many. */
static struct client *
client_new(struct hub *h, struct str who, bool session)
{
	AUTO_BUF struct buf id = BUF(64);
	struct client *c;
	uint8_t room[16];

	c = xcalloc(1, sizeof(*c));
	c->hub = h;
	c->who = str_dup(who);
	if (session) {
		rand_bytes(room, sizeof(room));
		enc_base32(&id, str_mem(room, sizeof(room)));
		(void)memcpy(c->id, id.p, MCP_HTTP_SESSION_ID);
	}
	c->s = h->config->app.open(h->config->app.arg, h->loop, &out, c->who);
	TAILQ_INSERT_TAIL(&h->clients, c, link);
	h->nclients++;
	return c;
}

/* --- requests --------------------------------------------------------------------------- */

static struct str
param(const void *arg, const char *name)
{
	const struct mcp_http_asked *a = arg;

	for (size_t i = 0; i < a->nparams; i++)
		if (str_ieqz(a->param_names[i], name))
			return a->params[i];
	return STR("");
}

static void
post_to(struct exchange *x, struct client *c, const struct mcp_http_asked *a)
{
	const struct mcp_http http = {
	    .version = a->version, .method = a->method, .name = a->name, .param = param, .arg = a};

	x->client = c;
	c->nexchanges++;
	loop_timer_del(c->idle);
	c->idle = NULL;
	mcp_session_take(c->s, a->body, &http, x);
	if (x->client != NULL && x->answered)
		exchange_leave(x);
}

/* False: refused, and told whose sessions are too many. */
static bool
has_room(struct exchange *x, const struct mcp_http_asked *a)
{
	const struct client *c;
	size_t own = 0;

	TAILQ_FOREACH (c, &x->hub->clients, link)
		own += str_eqz(a->who, c->who);
	if (own >= MCP_HTTP_OWN_MAX)
		refuse(
		    x, 429, "16 sessions of yours are open, the limit of one principal: end some");
	else if (x->hub->nclients >= MCP_HTTP_SESSIONS_MAX)
		refuse(x, 503, "32 sessions are open, the limit: end some");
	else
		return true;
	return false;
}

static void
post_new(struct exchange *x, const struct mcp_http_asked *a)
{
	struct client *c;

	if (!has_room(x, a))
		return;
	c = client_new(x->hub, a->who, true);
	post_to(x, c, a);
	if (mcp_session_era(c->s) == MCP_ERA_NONE)
		client_free(c, "it was never initialized");
}

static void
post_stateless(struct exchange *x, const struct mcp_http_asked *a)
{
	struct client *c = client_find(x->hub, a->who, STR(""));

	if (c == NULL && !has_room(x, a))
		return;
	post_to(x, c != NULL ? c : client_new(x->hub, a->who, false), a);
}

static void
post(struct exchange *x, const struct mcp_http_asked *a)
{
	AUTO_MESSAGE struct mcp_message m = {0};
	struct client *c;
	bool modern = str_eqz(a->version, MCP_MODERN_VERSION);
	int rc;

	if (a->session.n != 0 && !modern) {
		if ((c = client_find(x->hub, a->who, a->session)) == NULL)
			refuse(x, 404, "there is no such session (any more): initialize a new one");
		else
			post_to(x, c, a);
		return;
	}
	rc = mcp_message_read(a->body, &m, NULL);
	if (modern || m.versioned || str_eqz(m.method, "server/discover") || rc != 0)
		post_stateless(x, a);
	else if (str_eqz(m.method, "initialize"))
		post_new(x, a);
	else
		refuse(x, 400, "a session is wanted: Mcp-Session-Id, as initialize answered it");
}

/* A stream on which nothing is ever said but that the session is there. */
static void
get(struct exchange *x, struct client *c)
{
	if (c->stream != NULL)
		answer(c->stream, 200, "", STR(""));
	x->client = c;
	c->nexchanges++;
	c->stream = x;
	mcp_wire_send(x->wire, MCP_F_SEND, STR(""));
}

static void
request(struct exchange *x, const struct mcp_http_asked *a)
{
	struct client *c;

	if (a->verb == MCP_HTTP_POST) {
		post(x, a);
		return;
	}
	if (a->session.n == 0 || str_eqz(a->version, MCP_MODERN_VERSION)) {
		refuse(x, 405, "only POST, but in a session that was initialized");
		return;
	}
	c = client_find(x->hub, a->who, a->session);
	if (c == NULL) {
		refuse(x, 404, "there is no such session (any more)");
	} else if (a->verb == MCP_HTTP_GET) {
		get(x, c);
	} else {
		client_free(c, "its client ended the session");
		answer(x, 204, "", STR(""));
	}
}

static void
on_frame(void *arg, enum mcp_frame type, struct str body)
{
	struct exchange *x = arg;
	struct mcp_http_asked a;

	if (type == MCP_F_REQUEST && x->client == NULL && !x->answered &&
	    mcp_http_asked_take(body, &a))
		request(x, &a);
	else
		exchange_free(x);
}

/* --- the hub ---------------------------------------------------------------------------- */

static void
on_accept(void *arg, int fd)
{
	struct hub *h = arg;
	struct exchange *x = xcalloc(1, sizeof(*x));

	x->hub = h;
	x->wire = mcp_wire_new(h->loop, fd, on_frame, x);
	TAILQ_INSERT_TAIL(&h->exchanges, x, link);
}

static void
on_end(void *arg, int signo UNUSED)
{
	struct hub *h = arg;

	while (!TAILQ_EMPTY(&h->clients))
		client_free(TAILQ_FIRST(&h->clients), "the server ended");
	loop_stop(h->loop, 0);
}

_Noreturn void
mcp_http_hub(const struct mcp_http_config *config, int listen_fd)
{
	static struct hub h;

	h = (struct hub){.config = config, .loop = loop_new(), .listen = listen_fd};
	TAILQ_INIT(&h.clients);
	TAILQ_INIT(&h.exchanges);
	(void)signal(SIGPIPE, SIG_IGN);
	loop_signal_add(h.loop, SIGTERM, on_end, &h);
	(void)acceptor_new(h.loop, listen_fd, "sessions", on_accept, &h);
	_exit(loop_run(h.loop));
}
