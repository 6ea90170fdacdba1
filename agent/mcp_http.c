/*
 * A worker of cofferdam-mcp --listen: HTTP in, a question to the hub, its answer out as JSON or as
 * a stream of events. Believes nothing that came over the network; who asks is settled before a
 * byte of a body is read. Must never let a web page in: serve_guard.h.
 */
#include "agent/mcp_http.h"

#include <poll.h>

#include "agent/agent_socket.h"
#include "agent/mcp_wire.h"
#include "common/clock.h"

#include "common/banned.h"

#define BEAT_MS 10000 /* of silence: a stream is begun, or a comment goes into it */

struct exchange {
	struct serve_conn *c;
	int hub;
	bool streams, may_stream, modern;
};

/* --- frames ----------------------------------------------------------------------------- */

void
mcp_http_asked_put(const struct mcp_http_asked *a, struct buf *out)
{
	buf_u8(out, (uint8_t)a->verb);
	buf_lstr(out, a->who);
	buf_lstr(out, a->session);
	buf_lstr(out, a->version);
	buf_lstr(out, a->method);
	buf_lstr(out, a->name);
	buf_u8(out, (uint8_t)a->nparams);
	for (size_t i = 0; i < a->nparams; i++) {
		buf_lstr(out, a->param_names[i]);
		buf_lstr(out, a->params[i]);
	}
	buf_lstr(out, a->body);
}

bool
mcp_http_asked_take(struct str frame, struct mcp_http_asked *ret)
{
	struct rd r = rd_init(frame);

	*ret = (struct mcp_http_asked){.verb = (enum mcp_http_verb)rd_u8(&r)};
	ret->who = rd_lstr(&r);
	ret->session = rd_lstr(&r);
	ret->version = rd_lstr(&r);
	ret->method = rd_lstr(&r);
	ret->name = rd_lstr(&r);
	ret->nparams = rd_u8(&r);
	if (ret->nparams > MCP_HTTP_PARAMS_MAX)
		return false;
	for (size_t i = 0; i < ret->nparams; i++) {
		ret->param_names[i] = rd_lstr(&r);
		ret->params[i] = rd_lstr(&r);
	}
	ret->body = rd_lstr(&r);
	return rd_end(&r);
}

/* --- answers ---------------------------------------------------------------------------- */

static void
refuse(struct serve_conn *c, unsigned status, const char *why)
{
	AUTO_BUF struct buf b = BUF(8192);

	mcp_put_error(&b, "null", MCP_INVALID_REQUEST, why, STR(""));
	(void)serve_answer(c, status, "application/json", buf_str(&b), NULL);
}

static int
stream_begin(struct exchange *x, struct err *err)
{
	if (x->streams)
		return 0;
	x->streams = true;
	serve_field(x->c, "Cache-Control", STR("no-store"));
	serve_field(x->c, "X-Accel-Buffering", STR("no"));
	return serve_stream(x->c, 200, "text/event-stream", err);
}

/* A message is one line of JSON: one data line. */
static int
event_put(struct exchange *x, struct str message, struct err *err)
{
	AUTO_BUF struct buf b = BUF(message.n + 64);
	int rc = stream_begin(x, err);

	buf_put_z(&b, "event: message\ndata: ");
	buf_put_str(&b, message);
	buf_put_z(&b, "\n\n");
	return rc != 0 ? rc : serve_put(x->c, buf_str(&b), err);
}

static int
answer_put(struct exchange *x, struct str frame, struct err *err)
{
	struct rd r = rd_init(frame);
	unsigned status = rd_u16(&r);
	struct str session = rd_lstr(&r), message = rd_lstr(&r);
	int rc = 0;

	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "the hub's answer is malformed");
	if (x->streams) {
		if (message.n != 0)
			rc = event_put(x, message, err);
		return rc != 0 ? rc : serve_end(x->c, err);
	}
	if (session.n != 0)
		serve_field(x->c, "Mcp-Session-Id", session);
	if (status == 405)
		serve_field(x->c, "Allow", STR("POST"));
	if (message.n == 0)
		return serve_answer(x->c, status != 0 ? status : 204, NULL, STR(""), err);
	return serve_answer(x->c, status, "application/json", message, err);
}

/* True: the answer is out, or its client has gone. */
static bool
hub_hear(struct exchange *x)
{
	AUTO_BUF struct buf b = BUF(MCP_WIRE_MAX);
	enum mcp_frame type;
	struct err e = {0};

	if (mcp_frame_recv(x->hub, -1, &type, &b, &e) != 0) {
		if (!x->streams)
			refuse(x->c, 503, "the server is about to end");
		return true;
	}
	if (type == MCP_F_ANSWER) {
		(void)answer_put(x, buf_str(&b), &e);
		return true;
	}
	/* Nobody takes events: what is beside the answer is dropped. */
	if (type == MCP_F_SEND && x->may_stream)
		return (b.n != 0 ? event_put(x, buf_str(&b), &e) : stream_begin(x, &e)) != 0;
	return false;
}

static bool
beat(struct exchange *x)
{
	struct err e = {0};

	if (!x->may_stream)
		return false;
	return stream_begin(x, &e) != 0 || serve_put(x->c, STR(":\n\n"), &e) != 0;
}

/* Until it is answered; closing the hub's socket tells it that the client has gone. */
static void
follow(struct exchange *x)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = x->hub, .events = POLLIN},
		    {.fd = serve_fd(x->c), .events = POLLIN | POLLRDHUP}};
		int rc = poll(p, 2, BEAT_MS);

		if (rc == 0 && beat(x))
			return;
		if (p[0].revents != 0 && hub_hear(x))
			return;
		if (p[1].revents != 0 && serve_gone(x->c))
			return;
		/* What it sent ahead of its answer is kept; looking at it again and again is not.
		 */
		if (p[1].revents != 0 && p[0].revents == 0)
			(void)poll(p, 1, 50);
	}
}

/* --- requests --------------------------------------------------------------------------- */

/* NULL: answered. */
static const char *
who_asks(const struct mcp_http_worker *w, struct serve_conn *c)
{
	struct str token = serve_bearer(c);
	const char *who;

	if (w->c->anybody)
		return "anybody";
	if (w->tokens == NULL)
		return serve_client(c);
	who = token.n != 0 ? serve_tokens_who(w->tokens, token) : NULL;
	if (who == NULL) {
		serve_field(c, "WWW-Authenticate",
		    token.n != 0 ? STR("Bearer realm=\"cofferdam\", error=\"invalid_token\"")
				 : STR("Bearer realm=\"cofferdam\""));
		refuse(c, 401, "a bearer token of this server's is wanted");
	}
	return who;
}

static bool
accepts(const struct serve_conn *c, const char *type)
{
	const struct http_request *rq = serve_request(c);
	struct str v = serve_field_get(c, "Accept");

	return v.n == 0 || http_field_has(rq->fields, rq->nfields, "Accept", type) ||
	       http_field_has(rq->fields, rq->nfields, "Accept", "*/*") ||
	       memmem(v.p, v.n, type, strlen(type)) != NULL;
}

static void
params_take(const struct http_request *rq, struct mcp_http_asked *a)
{
	static const char prefix[] = "Mcp-Param-";
	size_t n = sizeof(prefix) - 1;

	for (size_t i = 0; i < rq->nfields && a->nparams < MCP_HTTP_PARAMS_MAX; i++) {
		struct str name = rq->fields[i].name;

		if (name.n <= n || !str_ieqz(str_mem(name.p, n), prefix))
			continue;
		a->param_names[a->nparams] = str_mem(name.p + n, name.n - n);
		a->params[a->nparams++] = rq->fields[i].value;
	}
}

static bool
is_json(struct str type)
{
	struct str head;

	if (!str_cut(&type, ';', &head))
		head = type;
	return str_ieqz(str_trim(head), "application/json");
}

/* 0: a->verb is set and the body read; else what it was answered with. */
static unsigned
asked_read(struct serve_conn *c, struct mcp_http_asked *a, struct buf *body)
{
	const struct http_request *rq = serve_request(c);
	struct err e = {0};
	int rc;

	a->session = serve_field_get(c, "Mcp-Session-Id");
	a->version = serve_field_get(c, "MCP-Protocol-Version");
	a->method = serve_field_get(c, "Mcp-Method");
	a->name = serve_field_get(c, "Mcp-Name");
	params_take(rq, a);
	a->verb = str_eqz(rq->method, "POST")	  ? MCP_HTTP_POST
		  : str_eqz(rq->method, "GET")	  ? MCP_HTTP_GET
		  : str_eqz(rq->method, "DELETE") ? MCP_HTTP_DELETE
						  : 0;
	if (a->verb == 0) {
		serve_field(c, "Allow", STR("GET, POST, DELETE"));
		return refuse(c, 405, "only GET, POST and DELETE"), 405;
	}
	if (a->verb != MCP_HTTP_POST)
		return 0;
	if (!is_json(serve_field_get(c, "Content-Type")))
		return refuse(c, 415, "the content must be application/json"), 415;
	if (!accepts(c, "application/json") && !accepts(c, "text/event-stream"))
		return refuse(c, 406, "Accept must have application/json and text/event-stream"),
		       406;
	if ((rc = serve_body(c, MCP_MESSAGE_MAX, body, &e)) != 0)
		return refuse(c, (unsigned)err_http(rc), e.msg), (unsigned)err_http(rc);
	a->body = buf_str(body);
	return 0;
}

void
mcp_http_request(void *worker, struct serve_conn *c)
{
	const struct mcp_http_worker *w = worker;
	AUTO_BUF struct buf body = BUF(MCP_MESSAGE_MAX), frame = BUF(MCP_WIRE_MAX);
	struct mcp_http_asked a = {0};
	struct exchange x = {.c = c, .may_stream = accepts(c, "text/event-stream")};
	AUTO_FD int hub = -1;
	struct err e = {0};
	unsigned status;
	const char *who;

	if ((status = serve_guard_check(&w->c->guard, c, &e)) != 0) {
		refuse(c, status, e.msg);
		return;
	}
	if (!str_eqz(serve_request(c)->path, MCP_HTTP_PATH)) {
		refuse(c, 404, "there is " MCP_HTTP_PATH " and nothing else");
		return;
	}
	if ((who = who_asks(w, c)) == NULL || asked_read(c, &a, &body) != 0)
		return;
	a.who = str_z(who);
	mcp_http_asked_put(&a, &frame);
	if (agent_socket_connect(w->hub, &hub, &e) != 0 ||
	    mcp_frame_send(hub, MCP_F_REQUEST, buf_str(&frame), &e) != 0) {
		refuse(c, 503, e.msg);
		return;
	}
	x.hub = hub;
	follow(&x);
}
