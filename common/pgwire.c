/*
 * PostgreSQL messages, read. Runs in front on bytes from hostile clients, in upstream on
 * bytes from servers that have proved who they are. Every length is checked against what
 * is there before it is used; what is not exactly of its layout is an error.
 */
#include "common/pgwire.h"

#include <string.h>

#include "common/banned.h"

#define CODE_SSL 80877103u
#define CODE_GSS 80877104u
#define CODE_CANCEL 80877102u

static uint32_t
be32(const char *p)
{
	const uint8_t *u = (const uint8_t *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

struct str
pgwire_rd_z(struct rd *r)
{
	const uint8_t *q = !r->bad && r->n != 0 ? memchr(r->p, 0, r->n) : NULL;
	struct str s;

	if (q == NULL) {
		r->bad = true;
		return STR_NONE;
	}
	s = rd_bytes(r, (size_t)(q - r->p));
	(void)rd_u8(r);
	return s;
}

/* --- start-up -------------------------------------------------------------------- */

static int
startup_param(struct pgwire_startup *s, struct str key, struct str value, struct err *err)
{
	if (str_has_prefix(key, "_pq_.")) {
		if (s->noptions == PGWIRE_STARTUP_PARAMS)
			return err_set(err, ERR_TOO_LARGE,
			    "start-up packet: more than %d protocol options",
			    PGWIRE_STARTUP_PARAMS);
		s->options[s->noptions++] = key;
		return 0;
	}
	for (size_t i = 0; i < s->n; i++)
		if (str_eq(s->params[i].key, key))
			return err_set(err, ERR_PROTOCOL,
			    "start-up packet: parameter \"%.*s\" stands twice", STR_ARG(key));
	if (s->n == PGWIRE_STARTUP_PARAMS)
		return err_set(err, ERR_TOO_LARGE, "start-up packet: more than %d parameters",
		    PGWIRE_STARTUP_PARAMS);
	s->params[s->n++] = (struct pgwire_param){key, value};
	return 0;
}

static int
startup_v3(struct str body, struct pgwire_startup *s, struct err *err)
{
	struct rd r = rd_init(body);

	s->kind = PGWIRE_STARTUP_V3;
	for (;;) {
		struct str key = pgwire_rd_z(&r), value;

		if (!r.bad && key.n == 0)
			break;
		value = pgwire_rd_z(&r);
		if (r.bad)
			return err_set(err, ERR_PROTOCOL,
			    "start-up packet: a parameter has no end within the packet");
		if (startup_param(s, key, value, err) != 0)
			return err->code;
	}
	if (!rd_end(&r))
		return err_set(
		    err, ERR_PROTOCOL, "start-up packet: %zu bytes after the last parameter", r.n);
	return 0;
}

static int
startup_code(struct str whole, struct pgwire_startup *s, struct err *err)
{
	uint32_t code = be32(whole.p + 4);

	switch (code) {
	case CODE_SSL: s->kind = PGWIRE_STARTUP_SSL; break;
	case CODE_GSS: s->kind = PGWIRE_STARTUP_GSS; break;
	case CODE_CANCEL: s->kind = PGWIRE_STARTUP_CANCEL; break;
	default:
		if (code >> 16 != 3)
			return err_set(err, ERR_UNSUPPORTED,
			    "unsupported frontend protocol %u.%u: only 3.0 is served", code >> 16,
			    code & 0xffff);
		s->version = code;
		return startup_v3(str_mem(whole.p + 8, whole.n - 8), s, err);
	}
	/* A cancel's key has a variable length in protocol 3.2; the others are bare. */
	if (code == CODE_CANCEL ? whole.n < 16 || whole.n > 12 + 256 : whole.n != 8)
		return err_set(err, ERR_PROTOCOL,
		    "start-up packet: length %zu does not fit its code", whole.n);
	if (code == CODE_CANCEL) {
		s->cancel_pid = be32(whole.p + 8);
		s->cancel_key = str_mem(whole.p + 12, whole.n - 12);
	}
	return 0;
}

int
pgwire_startup_parse(struct str in, struct pgwire_startup *ret, struct err *err)
{
	struct err own;
	uint32_t len;

	*ret = (struct pgwire_startup){0};
	if (in.n < 4)
		return 0;
	len = be32(in.p);
	if (len < 8)
		return err_set(
		    err, ERR_PROTOCOL, "start-up packet: length %u, must be 8 or more", len);
	if (len > PGWIRE_STARTUP_MAX)
		return err_set(err, ERR_TOO_LARGE, "start-up packet: length %u, limit %d bytes",
		    len, PGWIRE_STARTUP_MAX);
	if (in.n < len)
		return 0;
	if (startup_code(str_mem(in.p, len), ret, err != NULL ? err : &own) != 0)
		return err != NULL ? err->code : own.code;
	return (int)len;
}

/* --- typed messages -------------------------------------------------------------- */

int
pgwire_next(struct str in, size_t max, struct pgwire_msg *ret, struct err *err)
{
	uint32_t len;

	if (in.n < 5)
		return 0;
	len = be32(in.p + 1);
	if (len < 4 || len > INT32_MAX)
		return err_set(err, ERR_PROTOCOL, "message '%c': invalid length %u",
		    in.p[0] >= ' ' && in.p[0] <= '~' ? in.p[0] : '?', len);
	if ((size_t)len + 1 > max)
		return err_set(err, ERR_TOO_LARGE, "message '%c' has %zu bytes, limit %zu",
		    in.p[0] >= ' ' && in.p[0] <= '~' ? in.p[0] : '?', (size_t)len + 1, max);
	if (in.n < (size_t)len + 1)
		return 0;
	*ret = (struct pgwire_msg){
	    in.p[0], str_mem(in.p, (size_t)len + 1), str_mem(in.p + 5, len - 4)};
	return 1;
}

static void
check_z(struct rd *r)
{
	(void)pgwire_rd_z(r);
}

static void
check_parse(struct rd *r)
{
	check_z(r);
	check_z(r);
	(void)rd_bytes(r, (size_t)4 * rd_u16(r));
}

/* i16 count, values each with an i32 length, -1 for NULL. */
static void
check_values(struct rd *r)
{
	uint16_t n = rd_u16(r);

	for (uint16_t i = 0; i < n && !r->bad; i++) {
		uint32_t len = rd_u32(r);

		if (len == UINT32_MAX)
			continue;
		if (len > INT32_MAX)
			r->bad = true;
		(void)rd_bytes(r, len);
	}
}

static void
check_bind(struct rd *r)
{
	check_z(r);
	check_z(r);
	(void)rd_bytes(r, (size_t)2 * rd_u16(r));
	check_values(r);
	(void)rd_bytes(r, (size_t)2 * rd_u16(r));
}

static void
check_call(struct rd *r)
{
	(void)rd_u32(r);
	(void)rd_bytes(r, (size_t)2 * rd_u16(r));
	check_values(r);
	(void)rd_u16(r);
}

static void
check_execute(struct rd *r)
{
	check_z(r);
	(void)rd_u32(r);
}

/* Describe and Close: 'S' statement or 'P' portal, then its name. */
static void
check_named(struct rd *r)
{
	uint8_t kind = rd_u8(r);

	if (kind != 'S' && kind != 'P')
		r->bad = true;
	check_z(r);
}

static void
check_any(struct rd *r)
{
	(void)rd_bytes(r, r->n);
}

static void
check_empty(struct rd *r)
{
	(void)r;
}

static const struct {
	char type;
	const char *name;
	void (*check)(struct rd *r);
} frontend[] = {
    {'Q', "Query", check_z},
    {'P', "Parse", check_parse},
    {'B', "Bind", check_bind},
    {'D', "Describe", check_named},
    {'E', "Execute", check_execute},
    {'C', "Close", check_named},
    {'S', "Sync", check_empty},
    {'H', "Flush", check_empty},
    {'F', "FunctionCall", check_call},
    {'X', "Terminate", check_empty},
    {'d', "CopyData", check_any},
    {'c', "CopyDone", check_empty},
    {'f', "CopyFail", check_z},
    {'p', "PasswordMessage", check_any},
};

int
pgwire_check_frontend(const struct pgwire_msg *m, struct err *err)
{
	struct rd r = rd_init(m->body);

	for (size_t i = 0; i < ARRAY_LEN(frontend); i++) {
		if (frontend[i].type != m->type)
			continue;
		frontend[i].check(&r);
		/* Also catches a NUL inside a text: what a reader of C strings would not see. */
		if (!rd_end(&r))
			return err_set(err, ERR_PROTOCOL, "invalid message format: %s of %zu bytes",
			    frontend[i].name, m->whole.n);
		return 0;
	}
	return err_set(
	    err, ERR_PROTOCOL, "invalid frontend message type %u", (unsigned)(uint8_t)m->type);
}

/* --- following a stream ---------------------------------------------------------- */

bool
pgwire_track_add(struct pgwire_track *t, struct str s)
{
	while (s.n != 0) {
		size_t n;

		if (t->left != 0) {
			n = s.n < t->left ? s.n : t->left;
			t->left -= n;
		} else {
			n = s.n < 5u - t->nhead ? s.n : 5u - t->nhead;
			memcpy(t->head + t->nhead, s.p, n);
			t->nhead = (uint8_t)(t->nhead + n);
			if (t->nhead == 5) {
				uint32_t len = be32((const char *)t->head + 1);

				if (len < 4 || len > INT32_MAX)
					return false;
				t->left = len - 4;
				t->nhead = 0;
			}
		}
		s.p += n;
		s.n -= n;
	}
	return true;
}

bool
pgwire_track_boundary(const struct pgwire_track *t)
{
	return t->left == 0 && t->nhead == 0;
}

/* --- errors and tags ------------------------------------------------------------- */

int
pgwire_error_parse(struct str body, struct pgwire_error *ret, struct err *err)
{
	struct rd r = rd_init(body);
	struct pgwire_error e = {0};
	uint8_t code;

	while ((code = rd_u8(&r)) != 0) {
		struct str s = pgwire_rd_z(&r);

		switch (code) {
		case 'S': e.severity = e.severity.n != 0 ? e.severity : s; break;
		case 'V': e.severity = s; break;
		case 'C': e.sqlstate = s; break;
		case 'M': e.message = s; break;
		case 'D': e.detail = s; break;
		case 'H': e.hint = s; break;
		default: break;
		}
	}
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "malformed ErrorResponse of %zu bytes", body.n);
	*ret = e;
	return 0;
}

bool
pgwire_tag_rows(struct str tag, struct str *ret_verb, uint64_t *ret_rows)
{
	size_t at = tag.n, end;

	while (at > 0 && tag.p[at - 1] != ' ')
		at--;
	if (at == 0 || !str_to_u64(str_mem(tag.p + at, tag.n - at), UINT64_MAX, ret_rows))
		return false;
	for (end = 0; tag.p[end] != ' ';)
		end++;
	*ret_verb = str_mem(tag.p, end);
	return true;
}
