/*
 * The JSON half (process: console): what core said, as it said it; and what a browser posts, as
 * core takes it. Each value is taken by its name and written anew; nothing of a body goes on as it
 * came.
 */
#include "broker/console.h"

#include "common/jcs.h"

#include "common/banned.h"

#define COOKIE_ATTRIBUTES "; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age="

static const struct json *
last(const struct console_conn *c)
{
	return json_root(c->docs[c->ndocs - 1]);
}

static void
json_answer(struct console_conn *c, const struct json *v, struct str extra)
{
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);
	struct err err = {0};
	struct jcs j;

	jcs_init(&j, &b);
	if (jcs_value(&j, NULL, v, &err) != 0)
		console_route_refuse(c, 500, http_reason(500), str_z(err.msg));
	else
		console_conn_answer(c, 200, "application/json", extra, buf_str(&b));
}

void
console_api_json(struct console_conn *c)
{
	json_answer(c, last(c), STR(""));
}

/* The session goes into a cookie that no script reads; what scripts get is who it is. */
void
console_api_signed_in(struct console_conn *c)
{
	const struct json *v = last(c);
	AUTO_BUF struct buf cookie = BUF(512);
	AUTO_BUF struct buf field = BUF(1024);
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	buf_printf(&cookie, "__Host-cofferdam=%.*s" COOKIE_ATTRIBUTES "%lld",
	    STR_ARG(json_str(json_get(v, "session"))), (long long)json_int(json_get(v, "seconds")));
	http_put_field(&field, STR("Set-Cookie"), buf_str(&cookie));
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str(&j, "person", json_str(json_get(v, "person")));
	jcs_close(&j);
	console_conn_answer(c, 200, "application/json", buf_str(&field), buf_str(&b));
}

void
console_api_signed_out(struct console_conn *c)
{
	AUTO_BUF struct buf field = BUF(1024);

	http_put_field(&field, STR("Set-Cookie"), STR("__Host-cofferdam=" COOKIE_ATTRIBUTES "0"));
	console_conn_answer(c, 200, "application/json", buf_str(&field), STR("{}"));
}

void
console_api_events(struct console_conn *c)
{
	if (c->rq.method == CONSOLE_HEAD || c->k->nstreams >= CONSOLE_STREAMS_MAX)
		console_route_refuse(c, 503, http_reason(503),
		    STR("there are too many open pages; reload this one later"));
	else
		console_conn_stream(c);
}

/* --- arguments --------------------------------------------------------------------- */

static void
put(struct jcs *j, const struct json *body, const char *key)
{
	jcs_str(j, key, json_str(json_get(body, key)));
}

int
console_api_args_statement(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err)
{
	struct jcs j;

	(void)err;
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put(&j, body, "decision");
	jcs_z(&j, "id", c->rq.id);
	jcs_str(&j, "person", c->person);
	put(&j, body, "role");
	jcs_close(&j);
	return 0;
}

int
console_api_args_sign(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err)
{
	struct jcs j;

	(void)err;
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "id", c->rq.id);
	jcs_str(&j, "person", c->person);
	put(&j, body, "role");
	put(&j, body, "signature");
	jcs_close(&j);
	return 0;
}

/* Of the body no more than these. */
static int
args_members(const struct json *body, struct buf *out, const char *const *names, size_t n)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < n; i++)
		put(&j, body, names[i]);
	jcs_close(&j);
	return 0;
}

int
console_api_args_sign_in(
    struct console_conn *c UNUSED, const struct json *body, struct buf *out, struct err *err UNUSED)
{
	static const char *const names[] = {"nonce", "person", "signature"};

	return args_members(body, out, names, ARRAY_LEN(names));
}

int
console_api_args_enrol(
    struct console_conn *c UNUSED, const struct json *body, struct buf *out, struct err *err UNUSED)
{
	static const char *const names[] = {"attestation", "client_data", "token"};

	return args_members(body, out, names, ARRAY_LEN(names));
}
