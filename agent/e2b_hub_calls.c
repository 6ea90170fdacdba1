/*
 * What workers ask of the hub (process: the listener of cofferdam-sandboxd). A key, a token or a
 * signature is looked at here alone, and in a time that does not tell how near it was.
 */
#include "agent/e2b_hub_int.h"

#include <string.h>
#include <time.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "agent/keeper_client.h"

#include "common/banned.h"

static uint32_t
login_of(const struct e2b_config *c, const char *principal)
{
	for (size_t i = 0; i < c->nlogins; i++)
		if (strcmp(c->login[i].name, principal) == 0)
			return c->login[i].uid;
	return KEEPER_SELF;
}

static size_t
count_of(const struct e2b_hub *h, const char *principal)
{
	size_t n = 0;

	for (const struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		n += strcmp(s->e.principal, principal) == 0;
	return n;
}

static int
room_check(const struct e2b_hub *h, const char *principal, struct err *err)
{
	size_t own = count_of(h, principal);

	if (h->n >= h->c->max)
		return err_set(err, ERR_BUSY,
		    "%zu sandboxes are there, the limit of this server (--max): end some", h->n);
	if (own >= h->c->max_per_key)
		return err_set(err, ERR_BUSY,
		    "%zu sandboxes of \"%s\" are there, the limit of a key (--max-per-key): end "
		    "some",
		    own, principal);
	return 0;
}

/* --- calls ----------------------------------------------------------------------------------- */

struct call {
	struct e2b_hub *h;
	int caller;
	struct rd in;
	struct buf out;
};

static const char *
principal_of(struct call *q, struct err *err)
{
	const char *who = serve_tokens_who(q->h->c->tokens, rd_lstr(&q->in));

	if (who == NULL)
		(void)err_set(err, ERR_UNAUTHORISED,
		    "X-API-KEY is missing, or no key of this server (see its --keys)");
	return who;
}

static int
malformed(struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "hub: malformed request");
}

static int
on_reserve(struct call *q, struct err *err)
{
	const char *who = principal_of(q, err);
	struct e2b_entry want = {0};
	struct sandbox_entry *s;
	struct timespec now;

	if (who == NULL)
		return err->code;
	e2b_entry_take(&q->in, &want);
	if (!rd_end(&q->in) || room_check(q->h, who, err) != 0) {
		e2b_entry_free(&want);
		return err->code != 0 ? err->code : malformed(err);
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	s = xcalloc(1, sizeof(*s));
	s->e = want;
	free(s->e.id);
	s->e.id = hub_random(13);
	free(s->e.principal);
	s->e.principal = xstrdup(who);
	free(s->e.token);
	s->e.token = hub_random(32);
	free(s->e.traffic);
	s->e.traffic = hub_random(32);
	s->e.as = login_of(q->h->c, who);
	s->e.serial = ++q->h->serial;
	s->e.started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	s->keeper = -1;
	s->hub = q->h;
	s->caller = q->caller;
	*q->h->last = s;
	q->h->last = &s->next;
	q->h->n++;
	e2b_entry_put(&s->e, &q->out);
	return 0;
}

static struct sandbox_entry *
own_reserved(struct call *q, struct err *err)
{
	struct sandbox_entry *s = hub_find(q->h, rd_lstr(&q->in));

	if (rd_end(&q->in) && s != NULL && s->caller == q->caller)
		return s;
	(void)err_set(err, ERR_NOT_FOUND, "hub: nothing is reserved under that id");
	return NULL;
}

static int
on_commit(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_reserved(q, err);
	struct sockaddr_un a;
	socklen_t n;

	if (s == NULL)
		return err->code;
	s->keeper = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->keeper < 0 || keeper_address(s->e.id, &a, &n, err) != 0 ||
	    connect(s->keeper, (const struct sockaddr *)&a, n) != 0 ||
	    !keeper_peer_is_ours(s->keeper)) {
		hub_drop(q->h, s);
		return err_set(err, ERR_UNAVAILABLE, "the sandbox is gone already");
	}
	hub_keeper_watch(s);
	s->caller = -1;
	return 0;
}

static int
on_release(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_reserved(q, err);

	if (s == NULL)
		return err->code;
	hub_drop(q->h, s);
	return 0;
}

static struct sandbox_entry *
own_found(struct call *q, struct err *err)
{
	const char *who = principal_of(q, err);
	struct str id = rd_lstr(&q->in);
	struct sandbox_entry *s = who != NULL ? hub_find(q->h, id) : NULL;

	if (who == NULL)
		return NULL;
	if (s != NULL && s->keeper >= 0 && strcmp(s->e.principal, who) == 0)
		return s;
	(void)err_set(err, ERR_NOT_FOUND, "sandbox \"%.*s\" was not found",
	    (int)(id.n < 64 ? id.n : 64), id.p);
	return NULL;
}

static int
on_find(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_found(q, err);

	if (s == NULL)
		return err->code;
	if (!rd_end(&q->in))
		return malformed(err);
	e2b_entry_put(&s->e, &q->out);
	return 0;
}

static int
on_next(struct call *q, struct err *err)
{
	const char *who = principal_of(q, err);
	uint64_t after = rd_u64(&q->in);

	if (who == NULL)
		return err->code;
	if (!rd_end(&q->in))
		return malformed(err);
	for (struct sandbox_entry *s = q->h->first; s != NULL; s = s->next)
		if (s->e.serial > after && s->keeper >= 0 && strcmp(s->e.principal, who) == 0) {
			e2b_entry_put(&s->e, &q->out);
			return 0;
		}
	return err_set(err, ERR_NOT_FOUND, "no more");
}

static bool
token_is(const char *own, struct str token)
{
	struct hash a = hash_sha256(str_z(own)), b = hash_sha256(token);

	return hash_eq(&a, &b);
}

static int
on_token(struct call *q, struct err *err)
{
	struct str id = rd_lstr(&q->in), token = rd_lstr(&q->in);
	struct sandbox_entry *s = hub_find(q->h, id);

	if (!rd_end(&q->in))
		return malformed(err);
	if (s == NULL || s->keeper < 0)
		return err_set(err, ERR_NOT_FOUND, "the sandbox was not found");
	if (!token_is(s->e.token, token) && !token_is(s->e.traffic, token))
		return err_set(
		    err, ERR_UNAUTHORISED, "the access token is missing, or not this sandbox's");
	e2b_entry_put(&s->e, &q->out);
	return 0;
}

/* base64 without its padding. */
static bool
signature_fits(const struct e2b_entry *e, struct str text, struct str expires, struct str signature)
{
	AUTO_BUF struct buf all = BUF(16384), sum = BUF(128);
	struct hash h, a, b;
	struct str want;

	buf_put_str(&all, text);
	buf_put_c(&all, ':');
	buf_put_z(&all, e->token);
	if (expires.n != 0)
		buf_put_c(&all, ':');
	buf_put_str(&all, expires);
	h = hash_sha256(buf_str(&all));
	enc_base64(&sum, str_mem(h.b, sizeof(h.b)));
	want = buf_str(&sum);
	while (want.n != 0 && want.p[want.n - 1] == '=')
		want.n--;
	a = hash_sha256(want);
	b = hash_sha256(signature);
	return !buf_over(&all) && hash_eq(&a, &b);
}

static int
on_signed(struct call *q, struct err *err)
{
	struct str id = rd_lstr(&q->in), text = rd_lstr(&q->in), expires = rd_lstr(&q->in),
		   signature = rd_lstr(&q->in);
	uint64_t until = UINT64_MAX;

	if (!rd_end(&q->in))
		return malformed(err);
	if (expires.n != 0 && !str_to_u64(expires, INT64_MAX, &until))
		return err_set(err, ERR_INVALID, "signature_expiration is no number");
	if (until < (uint64_t)time(NULL))
		return err_set(err, ERR_UNAUTHORISED, "the URL's time is over");
	for (struct sandbox_entry *s = q->h->first; s != NULL; s = s->next)
		if (s->keeper >= 0 && (id.n == 0 || str_eqz(id, s->e.id)) &&
		    signature_fits(&s->e, text, expires, signature)) {
			e2b_entry_put(&s->e, &q->out);
			return 0;
		}
	return err_set(err, ERR_UNAUTHORISED, "the URL's signature fits no sandbox that is there");
}

static int
on_change(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_found(q, err);
	struct e2b_entry e = {0};

	if (s == NULL)
		return err->code;
	e2b_entry_take(&q->in, &e);
	if (!rd_end(&q->in)) {
		e2b_entry_free(&e);
		return malformed(err);
	}
	free(s->e.network);
	s->e.network = TAKE_PTR(e.network);
	s->e.timeout_s = e.timeout_s;
	e2b_entry_free(&e);
	return 0;
}

static int (*const calls[HUB_CALLS])(struct call *q, struct err *err) = {
    [HUB_RESERVE] = on_reserve,
    [HUB_COMMIT] = on_commit,
    [HUB_RELEASE] = on_release,
    [HUB_FIND] = on_find,
    [HUB_NEXT] = on_next,
    [HUB_TOKEN] = on_token,
    [HUB_SIGNED] = on_signed,
    [HUB_CHANGE] = on_change,
};

void
hub_answer(struct e2b_hub *h, int caller, struct str message)
{
	struct call q = {
	    .h = h, .caller = caller, .in = rd_init(message), .out = BUF(HUB_MESSAGE_MAX)};
	unsigned type = rd_u8(&q.in);
	struct err e = {0};
	int rc = type < HUB_CALLS && calls[type] != NULL ? calls[type](&q, &e) : malformed(&e);
	AUTO_BUF struct buf out = BUF(HUB_MESSAGE_MAX);

	buf_u32(&out, (uint32_t)-rc);
	if (rc != 0)
		buf_lz(&out, e.msg);
	else
		buf_put_str(&out, buf_str(&q.out));
	buf_free(&q.out);
	(void)send(caller, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
}
