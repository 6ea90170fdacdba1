/*
 * Answers of servers. Runs in upstream. libcurl has found the lines and taken the framing off; the
 * head is read again here by the strict reader, and an answer that the two could take differently
 * is none. The server is untrusted: it may repeat a credential, and it may lie about lengths.
 */
#include "broker/upstream_http_answer.h"

#include <assert.h>
#include <stdio.h>

#include "broker/upstream_scrub.h"
#include "broker/upstream_unpack.h"
#include "broker/upstream_upgrade.h"
#include "broker/upstream_ws.h"
#include "common/ipc.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FRAME_HEAD ((size_t)20) /* of UF_BODY: connection, act, length */

struct answer {
	answer_send_fn *send;
	void *arg;
	uint64_t conn, act;
	bool to_head; /* the request's method is HEAD */
	struct buf head;
	unsigned interim, status;
	bool known; /* how much content there must be: left */
	uint64_t left, bytes;
	struct scrub *scrub;	 /* NULL: there is no secret to look for */
	struct scrub_set *set;	 /* of the scrubber, which holds it */
	struct unpack *unpack;	 /* NULL: the content is what it is */
	struct upgrade_ask *ask; /* what was asked for; NULL: no other protocol */
	struct ws *ws;		 /* it is WebSocket now */
	enum http_body framing;
	struct buf out; /* settled content, behind room for a frame's head */
	struct hash_ctx *hash;
	uint64_t seal_most;
	struct buf seal;
	struct secret *key;
	uint8_t wrap[BLOB_WRAP_LEN];
	char kid[72], media[48];
};

/* --- life ------------------------------------------------------------------------ */

static void
frame_begin(struct answer *a)
{
	a->out.n = 0;
	buf_u64(&a->out, a->conn);
	buf_u64(&a->out, a->act);
	buf_u32(&a->out, 0); /* the length, when it is known */
}

struct answer *
answer_new(const struct upstream_lease *l, struct scrub_set *set, answer_send_fn *send, void *arg)
{
	struct answer *a = xcalloc(1, sizeof(*a));

	a->send = send;
	a->arg = arg;
	a->conn = l->conn;
	a->act = l->act;
	a->to_head = str_eqz(l->method, "HEAD");
	a->hash = hash_begin();
	buf_init(&a->head, HTTP_HEAD_MAX);
	buf_init(&a->out, FRAME_HEAD + 8 * ANSWER_FRAME); /* the scrubber may let go of more */
	frame_begin(a);
	if (set != NULL)
		a->scrub = scrub_new(set);
	a->set = set;
	if (l->body == LEASE_UPGRADE)
		a->ask = upgrade_ask_new(l->fields, l->nfields);
	a->seal_most = l->seal < BLOB_PLAIN_MAX ? l->seal : BLOB_PLAIN_MAX;
	buf_init(&a->seal, a->seal_most);
	if (a->seal_most != 0) {
		assert(l->wrap.n == sizeof(a->wrap));
		a->key = secret_copy(l->blob_key);
		memcpy(a->wrap, l->wrap.p, sizeof(a->wrap));
		(void)snprintf(a->kid, sizeof(a->kid), "%.*s", STR_ARG(l->kid));
	}
	return a;
}

void
answer_free(struct answer *a)
{
	if (a == NULL)
		return;
	if (a->hash != NULL)
		(void)hash_end(a->hash);
	scrub_free(a->scrub);
	unpack_free(a->unpack);
	upgrade_ask_free(a->ask);
	ws_free(a->ws);
	secret_free(a->key);
	buf_free(&a->head);
	buf_free(&a->out);
	buf_free(&a->seal);
	free(a);
}

/* --- heads ----------------------------------------------------------------------- */

static bool
is_identity(const struct http_response *r)
{
	for (size_t i = 0; i < r->nfields; i++)
		if (http_name_is(r->fields[i].name, "Content-Encoding") &&
		    !http_name_is(r->fields[i].value, "identity"))
			return false;
	return true;
}

/* One coding that can be undone, of all of the content. */
static bool
can_unpack(const struct http_response *r)
{
	static const char *const codings[] = {"gzip", "x-gzip", "deflate"};
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Encoding");
	bool known = false;

	for (size_t i = 0; i < r->nfields; i++)
		if (http_name_is(r->fields[i].name, "Content-Encoding") && &r->fields[i] != f)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(codings); i++)
		known |= http_name_is(f->value, codings[i]);
	return known && r->status != 206;
}

/* A length is one whatever the secret is. */
static void
put_field(struct answer *a, struct buf *b, const struct http_field *f)
{
	AUTO_BUF struct buf value = BUF(HTTP_HEAD_MAX);

	if (a->scrub == NULL || http_name_is(f->name, "Content-Length"))
		buf_put_str(&value, f->value);
	else
		scrub_text(a->scrub, f->value, &value);
	buf_lstr(b, f->name);
	buf_lstr(b, buf_str(&value));
}

/* Says something of the bytes that were compressed. */
static bool
is_of_packed(const struct answer *a, struct str name)
{
	static const char *const names[] = {"Content-Encoding", "Content-Length", "Content-MD5",
	    "Content-Digest", "Digest", "ETag", "Accept-Ranges"};

	for (size_t i = 0; a->unpack != NULL && i < ARRAY_LEN(names); i++)
		if (http_name_is(name, names[i]))
			return true;
	return false;
}

/* End-to-end fields, Content-Length among them. */
static void
send_head(struct answer *a, const struct http_response *r)
{
	AUTO_BUF struct buf fields = BUF((size_t)1 << 17), b = BUF((size_t)1 << 18);
	uint32_t n = 0;

	for (size_t i = 0; i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (http_field_is_hop(r->fields, r->nfields, f->name) || is_of_packed(a, f->name))
			continue;
		put_field(a, &fields, f);
		n++;
	}
	if (r->status == 101) {
		struct http_field f = {STR("Upgrade"), upgrade_protocol(a->ask)};

		put_field(a, &fields, &f);
		n++;
	}
	buf_u64(&b, a->conn);
	buf_u64(&b, a->act);
	buf_u16(&b, (uint16_t)r->status);
	buf_u32(&b, n);
	buf_put_str(&b, buf_str(&fields));
	a->send(a->arg, MSG_UF_HEAD, &b);
}

/* type/subtype of the content, if it is one of plain characters. */
static void
note_media(struct answer *a, const struct http_response *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");
	struct str rest = f != NULL ? f->value : STR_NONE, type, sub, top;

	if (!str_cut(&rest, ';', &type))
		type = rest;
	type = str_trim(type);
	sub = type;
	if (type.n >= sizeof(a->media) || !str_cut(&sub, '/', &top) || !http_is_token(top) ||
	    !http_is_token(sub))
		type = STR("application/octet-stream");
	(void)snprintf(a->media, sizeof(a->media), "%.*s", STR_ARG(type));
}

static void take_plain(void *arg, struct str bytes);

static int
final_head(struct answer *a, const struct http_response *r, struct err *err)
{
	if (a->scrub != NULL && !is_identity(r) && r->body != HTTP_BODY_NONE) {
		if (!can_unpack(r))
			return err_set(err, ERR_UPSTREAM,
			    "a compressed answer cannot be inspected for credentials");
		a->unpack = unpack_new(take_plain, a);
	}
	a->status = r->status;
	a->framing = r->body;
	a->known = r->body == HTTP_BODY_LENGTH || r->body == HTTP_BODY_NONE;
	a->left = r->body == HTTP_BODY_LENGTH ? r->length : 0;
	note_media(a, r);
	send_head(a, r);
	return 0;
}

/* What is searched after it: each message of a WebSocket, or the stream as one text. */
static int
switched(struct answer *a, const struct http_response *r, struct err *err)
{
	int rc = upgrade_check(a->ask, r, err);

	if (rc != 0)
		return rc;
	a->status = r->status;
	a->framing = HTTP_BODY_CLOSE;
	if (str_ieqz(upgrade_protocol(a->ask), HTTP_WEBSOCKET))
		a->ws = ws_new(a->set);
	note_media(a, r);
	send_head(a, r);
	return 0;
}

static int
head_done(struct answer *a, unsigned *ret_head, struct err *err)
{
	struct http_response r;
	int rc = http_response_parse(buf_str(&a->head), a->to_head, &r, err);

	if (rc != 0) {
		(void)err_wrap(err, "the server's answer");
		return err->code = ERR_UPSTREAM;
	}
	*ret_head = r.status;
	if (r.status == 101)
		return switched(a, &r, err);
	if (r.status >= 200)
		return final_head(a, &r, err);
	if (++a->interim > ANSWER_INTERIM_MAX)
		return err_set(
		    err, ERR_UPSTREAM, "more than %d heads before the answer", ANSWER_INTERIM_MAX);
	if (r.status != 100)
		send_head(a, &r);
	return 0;
}

int
answer_line(struct answer *a, struct str line, unsigned *ret_head, struct err *err)
{
	int rc;

	*ret_head = 0;
	if (a->status != 0)
		return 0; /* trailers: dropped */
	buf_put_str(&a->head, line);
	if (buf_over(&a->head))
		return err_set(
		    err, ERR_UPSTREAM, "the head of the answer has over %zu bytes", HTTP_HEAD_MAX);
	if (!str_eqz(line, "\r\n") && !str_eqz(line, "\n"))
		return 0;
	rc = head_done(a, ret_head, err);
	buf_reset(&a->head);
	return rc;
}

/* --- content --------------------------------------------------------------------- */

static void
frame_send(struct answer *a, size_t n)
{
	struct str content = str_mem(a->out.p + FRAME_HEAD, n);
	struct buf frame = a->out; /* the same memory, seen as one frame */
	size_t rest = a->out.n - FRAME_HEAD - n;

	hash_add(a->hash, content.p, n);
	a->bytes += n;
	if (a->seal.n < a->seal_most)
		buf_put(&a->seal, content.p,
		    n < a->seal_most - a->seal.n ? n : (size_t)(a->seal_most - a->seal.n));
	frame.n = FRAME_HEAD - 4;
	buf_u32(&frame, (uint32_t)n);
	frame.n = FRAME_HEAD + n;
	a->send(a->arg, MSG_UF_BODY, &frame);
	memmove(a->out.p + FRAME_HEAD, a->out.p + FRAME_HEAD + n, rest);
	a->out.n = FRAME_HEAD + rest;
}

void
answer_flush(struct answer *a)
{
	while (a->out.n > FRAME_HEAD) {
		size_t n = a->out.n - FRAME_HEAD;

		frame_send(a, n < ANSWER_FRAME ? n : ANSWER_FRAME);
	}
}

static void
take_plain(void *arg, struct str bytes)
{
	struct answer *a = arg;

	while (bytes.n != 0) {
		struct str part = str_mem(bytes.p, bytes.n < 16384 ? bytes.n : 16384);

		if (a->scrub != NULL)
			scrub_feed(a->scrub, part, &a->out);
		else
			buf_put_str(&a->out, part);
		if (buf_over(&a->out))
			fatal("an answer does not fit its buffer");
		bytes = str_mem(bytes.p + part.n, bytes.n - part.n);
		while (a->out.n - FRAME_HEAD >= ANSWER_FRAME)
			frame_send(a, ANSWER_FRAME);
	}
}

static int
take_frames(struct answer *a, struct str bytes, struct err *err)
{
	int rc = 0;

	while (rc == 0 && bytes.n != 0) {
		struct str piece =
		    str_mem(bytes.p, bytes.n < UPSTREAM_WS_PIECE ? bytes.n : UPSTREAM_WS_PIECE);

		rc = ws_feed(a->ws, piece, &a->out, err);
		if (buf_over(&a->out))
			fatal("a stream does not fit its buffer");
		bytes = str_mem(bytes.p + piece.n, bytes.n - piece.n);
		while (a->out.n - FRAME_HEAD >= ANSWER_FRAME)
			frame_send(a, ANSWER_FRAME);
	}
	return rc != 0 ? err->code = ERR_UPSTREAM : 0;
}

int
answer_content(struct answer *a, struct str bytes, struct err *err)
{
	if (a->ws != NULL)
		return take_frames(a, bytes, err);
	a->left -= a->known && a->left >= bytes.n ? bytes.n : 0;
	if (a->unpack != NULL)
		return unpack_feed(a->unpack, bytes, err);
	take_plain(a, bytes);
	return 0;
}

int
answer_end(struct answer *a, bool whole, struct err *err)
{
	AUTO_BUF struct buf b = BUF(64);
	int rc = 0;

	if (a->status == 0)
		return 0;
	/* What looked like the beginning of the secret was it not, or is all that came of it. */
	if (a->ws != NULL)
		ws_end(a->ws, &a->out);
	answer_settle(a);
	if (whole && a->known && a->left != 0)
		rc = err_set(err, ERR_UPSTREAM, "%llu bytes of the answer are missing",
		    (unsigned long long)a->left);
	if (whole && rc == 0 && a->unpack != NULL && !unpack_is_whole(a->unpack))
		rc = err_set(err, ERR_UPSTREAM, "the compressed answer has no end");
	buf_u64(&b, a->conn);
	buf_u64(&b, a->act);
	buf_u8(&b, whole && rc == 0 ? 1 : 0);
	a->send(a->arg, MSG_UF_END, &b);
	return rc;
}

/* --- read from the connection itself ------------------------------------------------ */

bool
answer_switched(const struct answer *a)
{
	return a->status == 101;
}

enum http_body
answer_framing(const struct answer *a, uint64_t *ret_length)
{
	*ret_length = a->left;
	return a->framing;
}

bool
answer_waits(const struct answer *a)
{
	return a->ws == NULL && a->scrub != NULL && scrub_waits(a->scrub);
}

void
answer_settle(struct answer *a)
{
	if (a->scrub != NULL)
		scrub_end(a->scrub, &a->out);
	answer_flush(a);
}

/* --- the account of it ----------------------------------------------------------- */

unsigned
answer_status(const struct answer *a)
{
	return a->status;
}

uint64_t
answer_sent(struct answer *a, struct hash *ret)
{
	*ret = hash_end(TAKE_PTR(a->hash));
	return a->bytes;
}

uint32_t
answer_replaced(const struct answer *a)
{
	uint32_t n = a->scrub != NULL ? scrub_count(a->scrub) : 0;

	return a->ws != NULL ? n + ws_replaced(a->ws) : n;
}

void
answer_clean(struct answer *a, struct str in, struct buf *out)
{
	if (a->scrub != NULL)
		scrub_text(a->scrub, in, out);
	else
		buf_put_str(out, in);
}

bool
answer_seal(struct answer *a, struct buf *frame, struct blob_ref *ret)
{
	struct err err = {0};
	char media[64];

	if (a->seal.n == 0)
		return false;
	(void)snprintf(media, sizeof(media), "%s%s", a->media, a->bytes > a->seal.n ? ";cut" : "");
	if (blob_seal_with(
		a->key, a->wrap, str_z(a->kid), media, buf_str(&a->seal), frame, ret, &err) == 0)
		return true;
	log_error("an answer is not sealed: %s", err.msg);
	return false;
}
