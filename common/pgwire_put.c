/*
 * PostgreSQL messages, made. Front answers clients with them, upstream speaks to servers.
 * Texts may come from policy or from a server: a NUL in one ends it, so that no field can
 * run into the next.
 */
#include "common/pgwire.h"

#include <string.h>

#include "common/banned.h"

/* Begins a message; put_end() fills its length in. */
static size_t
put_begin(struct buf *b, char type)
{
	buf_put_c(b, type);
	buf_u32(b, 0);
	return b->n;
}

static void
put_end(struct buf *b, size_t at)
{
	size_t len;

	if (buf_over(b))
		return;
	len = b->n - at + 4;
	for (size_t i = 0; i < 4; i++)
		b->p[at - 4 + i] = (uint8_t)(len >> (8 * (3 - i)));
}

static void
put_z(struct buf *b, struct str s)
{
	const char *nul = s.n != 0 ? memchr(s.p, 0, s.n) : NULL;

	buf_put(b, s.p, nul != NULL ? (size_t)(nul - s.p) : s.n);
	buf_u8(b, 0);
}

static void
put_field(struct buf *b, char code, struct str s)
{
	buf_put_c(b, code);
	put_z(b, s);
}

static void
put_words(struct buf *b, char type, const char *severity, const struct pgwire_error *e)
{
	size_t at = put_begin(b, type);

	put_field(b, 'S', str_z(severity));
	put_field(b, 'V', str_z(severity));
	put_field(b, 'C', e->sqlstate.n == 5 ? e->sqlstate : STR("XX000"));
	put_field(b, 'M', e->message);
	if (e->detail.n != 0)
		put_field(b, 'D', e->detail);
	if (e->hint.n != 0)
		put_field(b, 'H', e->hint);
	buf_u8(b, 0);
	put_end(b, at);
}

void
pgwire_put_error(struct buf *b, const char *severity, const struct pgwire_error *e)
{
	put_words(b, 'E', severity, e);
}

void
pgwire_put_notice(struct buf *b, struct str message)
{
	put_words(
	    b, 'N', "NOTICE", &(struct pgwire_error){.sqlstate = STR("00000"), .message = message});
}

void
pgwire_put_ready(struct buf *b, char txn)
{
	size_t at = put_begin(b, 'Z');

	buf_put_c(b, txn);
	put_end(b, at);
}

void
pgwire_put_auth_ok(struct buf *b)
{
	size_t at = put_begin(b, 'R');

	buf_u32(b, 0);
	put_end(b, at);
}

void
pgwire_put_parameter(struct buf *b, struct str key, struct str value)
{
	size_t at = put_begin(b, 'S');

	put_z(b, key);
	put_z(b, value);
	put_end(b, at);
}

void
pgwire_put_key_data(struct buf *b, uint32_t pid, uint32_t key)
{
	size_t at = put_begin(b, 'K');

	buf_u32(b, pid);
	buf_u32(b, key);
	put_end(b, at);
}

/* PostgreSQL sends the whole version number, not only the minor (SendNegotiateProtocolVersion). */
void
pgwire_put_negotiate(struct buf *b, const struct str *options, size_t n)
{
	size_t at = put_begin(b, 'v');

	buf_u32(b, PGWIRE_V3);
	buf_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_z(b, options[i]);
	put_end(b, at);
}

void
pgwire_put_ssl_request(struct buf *b)
{
	buf_u32(b, 8);
	buf_u32(b, 80877103u);
}

void
pgwire_put_cancel(struct buf *b, struct str key)
{
	buf_u32(b, (uint32_t)key.n + 8);
	buf_u32(b, 80877102u);
	buf_put_str(b, key);
}

void
pgwire_put_startup(struct buf *b, const struct pgwire_param *params, size_t n)
{
	size_t at = b->n, len;

	buf_u32(b, 0);
	buf_u32(b, PGWIRE_V3);
	for (size_t i = 0; i < n; i++) {
		put_z(b, params[i].key);
		put_z(b, params[i].value);
	}
	buf_u8(b, 0);
	if (buf_over(b))
		return;
	len = b->n - at;
	for (size_t i = 0; i < 4; i++)
		b->p[at + i] = (uint8_t)(len >> (8 * (3 - i)));
}

void
pgwire_put_sasl_first(struct buf *b, const char *mechanism, struct str data)
{
	size_t at = put_begin(b, 'p');

	put_z(b, str_z(mechanism));
	buf_lstr(b, data);
	put_end(b, at);
}

void
pgwire_put_sasl(struct buf *b, struct str data)
{
	size_t at = put_begin(b, 'p');

	buf_put_str(b, data);
	put_end(b, at);
}

void
pgwire_put_query(struct buf *b, struct str sql)
{
	size_t at = put_begin(b, 'Q');

	put_z(b, sql);
	put_end(b, at);
}

void
pgwire_put_parse(struct buf *b, struct str name, struct str sql)
{
	size_t at = put_begin(b, 'P');

	put_z(b, name);
	put_z(b, sql);
	buf_u16(b, 0);
	put_end(b, at);
}

static void
put_close(struct buf *b, char kind, struct str name)
{
	size_t at = put_begin(b, 'C');

	buf_put_c(b, kind);
	put_z(b, name);
	put_end(b, at);
}

void
pgwire_put_own_bound(
    struct buf *b, struct str name, struct str sql, struct str types, struct str values)
{
	size_t at = put_begin(b, 'P');

	put_z(b, name);
	put_z(b, sql);
	buf_u16(b, (uint16_t)(types.n / 4));
	buf_put_str(b, types);
	put_end(b, at);
	at = put_begin(b, 'B');
	put_z(b, name);
	put_z(b, name);
	buf_put_str(b, values);
	buf_u16(b, 0);
	put_end(b, at);
	at = put_begin(b, 'E');
	put_z(b, name);
	buf_u32(b, 0);
	put_end(b, at);
	put_close(b, 'P', name);
	put_close(b, 'S', name);
}

void
pgwire_put_own_statement(struct buf *b, struct str name, struct str sql)
{
	pgwire_put_own_bound(b, name, sql, STR(""), STR("\0\0\0\0"));
}

void
pgwire_put_sync(struct buf *b)
{
	put_end(b, put_begin(b, 'S'));
}

void
pgwire_put_flush(struct buf *b)
{
	put_end(b, put_begin(b, 'H'));
}

void
pgwire_put_copy_data(struct buf *b, struct str data)
{
	size_t at = put_begin(b, 'd');

	buf_put_str(b, data);
	put_end(b, at);
}

void
pgwire_put_copy_done(struct buf *b)
{
	put_end(b, put_begin(b, 'c'));
}

void
pgwire_put_copy_fail(struct buf *b, struct str why)
{
	size_t at = put_begin(b, 'f');

	put_z(b, why);
	put_end(b, at);
}

void
pgwire_put_terminate(struct buf *b)
{
	put_end(b, put_begin(b, 'X'));
}
