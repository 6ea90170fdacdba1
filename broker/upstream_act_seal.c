/*
 * Answers of PostgreSQL that the log keeps, where the policy wants it: what went to front, sealed
 * with a key of this answer alone. Runs in upstream. The order is the promise, as for HTTP: the
 * writer syncs a frame with or before the record that names it, so core is told only when the frame
 * has left this process.
 */
#include "audit/blob.h"
#include "broker/upstream_act.h"
#include "broker/upstream_http.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define DONE_MAX 8192
#define FRAME_MAX (BLOB_PLAIN_MAX + 4096)
#define MEDIA "application/x-postgresql"

struct upstream_seal {
	struct upstream_seal *next; /* of those that wait, in their order */
	uint64_t conn, act;
	size_t most;
	struct secret *key;
	uint8_t wrap[BLOB_WRAP_LEN];
	char kid[72];
	struct buf answer;
	bool cut;
	struct buf ref, done; /* U_SEALED's text, U_DONE */
	uint64_t frame_at;
};

void
upstream_seal_free(struct upstream_seal *s)
{
	if (s == NULL)
		return;
	secret_free(s->key);
	buf_free(&s->answer);
	buf_free(&s->ref);
	buf_free(&s->done);
	free(s);
}
DEFINE_AUTO(seal, struct upstream_seal, upstream_seal_free)

int
upstream_seal_on(struct upstream_hub *h, struct rd *body, struct err *err)
{
	AUTO(seal) struct upstream_seal *s = xcalloc(1, sizeof(*s));
	struct str kid, key, wrap;

	s->conn = rd_u64(body);
	s->act = rd_u64(body);
	s->most = (size_t)rd_u64(body);
	kid = rd_lstr(body);
	key = rd_lstr(body);
	wrap = rd_lstr(body);
	if (!rd_end(body) || s->most > BLOB_PLAIN_MAX || kid.n >= sizeof(s->kid) ||
	    key.n != BLOB_KEY_LEN || wrap.n != BLOB_WRAP_LEN)
		return err_set(err, ERR_PROTOCOL, "malformed");
	(void)memcpy(s->kid, kid.p, kid.n);
	(void)memcpy(s->wrap, wrap.p, wrap.n);
	s->key = secret_copy(key);
	explicit_bzero((void *)(uintptr_t)key.p, key.n); /* the wire's buffer must not keep it */
	buf_init(&s->answer, s->most);
	buf_init(&s->ref, 1024);
	buf_init(&s->done, DONE_MAX);
	upstream_seal_free(h->seal);
	h->seal = TAKE_PTR(s);
	return 0;
}

struct upstream_seal *
upstream_seal_take(struct upstream_hub *h, uint64_t conn, uint64_t act)
{
	struct upstream_seal *s = TAKE_PTR(h->seal);

	if (s != NULL && s->conn == conn && s->act == act)
		return s;
	upstream_seal_free(s);
	return NULL;
}

void
upstream_seal_add(struct upstream_seal *s, struct str bytes)
{
	size_t room = s != NULL ? s->most - s->answer.n : 0;

	if (s == NULL)
		return;
	s->cut |= bytes.n > room;
	buf_put(&s->answer, bytes.p, bytes.n < room ? bytes.n : room);
}

static void
seal(struct upstream_hub *h, struct upstream_seal *s)
{
	AUTO_BUF struct buf frame = BUF(FRAME_MAX);
	struct blob_ref ref;
	struct err err = {0};
	struct jcs j;

	if (h->http == NULL || s->answer.n == 0)
		return;
	if (blob_seal_with(s->key, s->wrap, str_z(s->kid), s->cut ? MEDIA ";cut" : MEDIA,
		buf_str(&s->answer), &frame, &ref, &err) != 0) {
		log_error("an answer is not sealed: %s", err.msg);
		return;
	}
	if (!seal_frame(h->http, buf_str(&frame), &s->frame_at))
		return;
	jcs_init(&j, &s->ref);
	blob_ref_jcs(&j, NULL, &ref);
}

static void
say(struct upstream_hub *h, struct upstream_seal *s)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, s->conn);
	buf_u64(&b, s->act);
	buf_lstr(&b, buf_str(&s->ref));
	if (s->ref.n != 0)
		upstream_hub_core(h, MSG_U_SEALED, &b);
	upstream_hub_core(h, MSG_U_DONE, &s->done);
	upstream_seal_free(s);
}

void
upstream_seal_done(struct upstream_hub *h, struct upstream_seal *s, const struct buf *done)
{
	struct upstream_seal **at = &h->sealing;

	if (s == NULL) {
		upstream_hub_core(h, MSG_U_DONE, done);
		return;
	}
	seal(h, s);
	buf_put_str(&s->done, buf_str(done));
	while (*at != NULL)
		at = &(*at)->next;
	*at = s;
	upstream_seal_settle(h);
}

void
upstream_seal_settle(struct upstream_hub *h)
{
	struct upstream_seal *s;

	while ((s = h->sealing) != NULL) {
		if (s->ref.n != 0 && !seal_left(h->http, s->frame_at))
			return;
		h->sealing = s->next;
		say(h, s);
	}
}

void
upstream_seal_flush(struct upstream_hub *h, const struct upstream_conn *c)
{
	struct upstream_seal **at = &h->sealing;

	while (*at != NULL) {
		struct upstream_seal *s = *at;

		if (c != NULL && s->conn != c->id) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		/* What waited for may be lost with this process: no record names it. */
		buf_reset(&s->ref);
		say(h, s);
	}
}
