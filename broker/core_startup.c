/*
 * The start-up packet of a client (process: core). Every parameter is judged by its name and value;
 * user and database are the target's, whatever the client says, and another database is an escape.
 */
#include "broker/core_startup.h"

#include <stdlib.h>

#include "common/hash.h"
#include "common/pgwire.h"
#include "common/xalloc.h"
#include "policy/facts.h"

#include "common/banned.h"

#define NAME_MAX_ ((size_t)63) /* of PostgreSQL: NAMEDATALEN - 1 */

/* The parameters of one start-up packet, on their way from PG_OPEN to U_OPEN. */
struct startup {
	uint32_t effects, kept;
	struct buf list; /* pairs, as U_OPEN carries them */
	struct buf pins; /* what changes how a statement is read is part of what is approved */
	struct buf text; /* for people */
	struct buf bad;	 /* the first name that is not harmless; empty: none */
	bool receipts;
};

static void
startup_free(struct startup *s)
{
	buf_free(&s->list);
	buf_free(&s->pins);
	buf_free(&s->text);
	buf_free(&s->bad);
}

/* A client chose the name: in messages and records it is encoded, and no longer than a name is. */
static void
startup_effects(struct startup *s, struct str key, uint32_t effects)
{
	s->effects |= effects;
	if (effects != EFFECT_read && s->bad.n == 0)
		enc_percent(&s->bad, str_mem(key.p, key.n < NAME_MAX_ ? key.n : NAME_MAX_));
}

/* The broker's own: not the server's business. Another value of it is judged as a setting. */
static bool
is_receipt(struct startup *s, struct str key, struct str value)
{
	if (!str_ieqz(key, "cofferdam.receipt") ||
	    !(str_ieqz(value, "on") || str_ieqz(value, "off")))
		return false;
	s->receipts = str_ieqz(value, "on");
	return true;
}

static void
startup_keep(struct startup *s, struct str key, struct str value)
{
	if (is_receipt(s, key, value))
		return;
	startup_effects(s, key, effects_pg_startup(key, value));
	s->kept++;
	buf_lstr(&s->list, key);
	buf_lstr(&s->list, value);
	buf_put_c(&s->text, ' ');
	enc_percent(&s->text, key);
	buf_put_c(&s->text, '=');
	enc_percent(&s->text, value);
	if (str_eqz(key, "application_name"))
		return;
	buf_lstr(&s->pins, key);
	buf_lstr(&s->pins, value);
}

/* `options` goes on as the settings it makes, so that upstream sends what was judged by name. */
static void
startup_options(struct startup *s, struct str options)
{
	AUTO_BUF struct buf name = BUF(256);
	AUTO_BUF struct buf value = BUF(PGWIRE_STARTUP_MAX);
	struct str rest = options;
	int r;

	while ((r = effects_pg_option(&rest, &name, &value)) > 0)
		startup_keep(s, buf_str(&name), buf_str(&value));
	if (r < 0)
		startup_keep(s, STR("options"), options);
}

static void
startup_param(struct core_conn *conn, struct startup *s, struct str key, struct str value)
{
	if (str_eqz(key, "user"))
		return; /* whoever the client says it is, it is the target's user */
	if (str_eqz(key, "database")) {
		if (!str_eqz(value, conn->from.target->database))
			startup_effects(s, key, EFFECT_session); /* elsewhere */
	} else if (str_eqz(key, "options")) {
		startup_options(s, value);
	} else {
		startup_keep(s, key, value);
	}
}

int
core_startup_read(struct core_conn *conn, struct rd *body, uint32_t *ret_effects, struct err *err)
{
	__attribute__((cleanup(startup_free))) struct startup s = {.effects = EFFECT_read,
	    .list = BUF(60000),
	    .pins = BUF(60000),
	    .text = BUF(200000),
	    .bad = BUF(3 * NAME_MAX_)};
	uint32_t n = rd_u32(body);
	char hex[HASH_HEX_SIZE];
	struct hash h;

	if (n > PGWIRE_STARTUP_PARAMS)
		return err_set(err, ERR_TOO_LARGE, "start-up packet has %u parameters, limit %d", n,
		    PGWIRE_STARTUP_PARAMS);
	for (uint32_t i = 0; i < n && !body->bad; i++) {
		struct str key = rd_lstr(body), value = rd_lstr(body);

		startup_param(conn, &s, key, value);
	}
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "PG_OPEN is malformed");
	if (s.kept > PGWIRE_STARTUP_PARAMS || buf_over(&s.list) || buf_over(&s.text))
		return err_set(err, ERR_TOO_LARGE, "start-up packet sets %u parameters, limit %d",
		    s.kept, PGWIRE_STARTUP_PARAMS);
	*ret_effects = s.effects;
	conn->receipts = s.receipts;
	buf_u32(&conn->params, s.kept);
	buf_put_str(&conn->params, buf_str(&s.list));
	h = hash_sha256(buf_str(&s.pins));
	hash_hex(&h, hex);
	conn->pins = xasprintf("database=%s user=%s startup=%s", conn->from.target->database,
	    conn->from.target->user, hex);
	conn->startup = xasprintf("connect database=%s user=%s%.*s", conn->from.target->database,
	    conn->from.target->user, STR_ARG(buf_str(&s.text)));
	if (s.bad.n != 0)
		conn->startup_bad = xasprintf(
		    "start-up parameter \"%.*s\" is not harmless", STR_ARG(buf_str(&s.bad)));
	return 0;
}
