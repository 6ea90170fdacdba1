/*
 * The hub of cofferdam-sandboxd: which sandboxes there are, whose they are, and by which tokens
 * they are reached. Runs in the listener's process, between its connections, and reads of what
 * comes from outside only the texts that its workers pass on. It waits for nobody. It holds the one
 * descriptor that keeps the keepers alive: when it ends, by itself or by force, they and their
 * sandboxes do.
 */
#include "agent/e2b_hub.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/keeper_client.h"

#include "common/banned.h"

#define CALLERS_MAX (SERVE_WORKERS_MAX + 8)

struct sandbox_entry {
	struct e2b_entry e;
	int keeper; /* a connection that says when the keeper is gone; -1: not there yet */
	int caller; /* the worker that makes it, until it is there; -1 */
	struct sandbox_entry *next;
};

struct e2b_hub {
	struct e2b_config *c;
	struct serve_hook hook;
	int epoll, listener, life; /* life: the end that nobody reads */
	int callers[CALLERS_MAX];
	size_t ncallers;
	struct sandbox_entry *first, **last; /* by serial */
	size_t n;
	uint64_t serial;
};

void
e2b_entry_free(struct e2b_entry *e)
{
	free(e->id);
	free(e->principal);
	free(e->template);
	free(e->metadata);
	free(e->network);
	free(e->token);
	free(e->traffic);
	*e = (struct e2b_entry){0};
}

/* --- entries ------------------------------------------------------------------------------ */

static struct sandbox_entry *
find(struct e2b_hub *h, struct str id)
{
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		if (str_eqz(id, s->e.id))
			return s;
	return NULL;
}

/* Workers have copies of what was open when they were forked: a close alone would not take it out.
 */
static void
fd_close(struct e2b_hub *h, int *fd)
{
	if (*fd >= 0)
		(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, *fd, NULL);
	cleanup_close_fd(fd);
}

static void
drop(struct e2b_hub *h, struct sandbox_entry *s)
{
	struct sandbox_entry **at = &h->first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (h->last == &s->next)
		h->last = at;
	h->n--;
	fd_close(h, &s->keeper);
	e2b_entry_free(&s->e);
	free(s);
}

/* Its maker is gone before it said that it is there: whatever comes up is ended, by a process that
 * may wait for it. */
static void
abandon(struct e2b_hub *h, struct sandbox_entry *s)
{
	const struct timespec nap = {.tv_nsec = 200000000};
	pid_t self = getpid(), pid = fork();

	if (pid == 0) {
		struct keeper *k;
		struct err e = {0};

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
			_exit(1);
		for (int i = 0; i < 50; i++, (void)nanosleep(&nap, NULL))
			if (keeper_open(s->e.id, &k, &e) == 0)
				_exit(keeper_end(k, "error", "who made it is gone", &e) != 0);
		_exit(0);
	}
	drop(h, s);
}

static char *
random_text(size_t bytes)
{
	AUTO_BUF struct buf b = BUF(256);
	uint8_t room[64];

	rand_bytes(room, bytes);
	enc_base32(&b, str_mem(room, bytes));
	return buf_dup_z(&b);
}

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
	s->e.id = random_text(13);
	free(s->e.principal);
	s->e.principal = xstrdup(who);
	free(s->e.token);
	s->e.token = random_text(32);
	free(s->e.traffic);
	s->e.traffic = random_text(32);
	s->e.as = login_of(q->h->c, who);
	s->e.serial = ++q->h->serial;
	s->e.started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	s->keeper = -1;
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
	struct sandbox_entry *s = find(q->h, rd_lstr(&q->in));

	if (rd_end(&q->in) && s != NULL && s->caller == q->caller)
		return s;
	(void)err_set(err, ERR_NOT_FOUND, "hub: nothing is reserved under that id");
	return NULL;
}

static int
on_commit(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_reserved(q, err);
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
	struct sockaddr_un a;
	socklen_t n;

	if (s == NULL)
		return err->code;
	s->keeper = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->keeper < 0 || keeper_address(s->e.id, &a, &n, err) != 0 ||
	    connect(s->keeper, (const struct sockaddr *)&a, n) != 0 ||
	    !keeper_peer_is_ours(s->keeper)) {
		drop(q->h, s);
		return err_set(err, ERR_UNAVAILABLE, "the sandbox is gone already");
	}
	ev.data.fd = s->keeper;
	(void)epoll_ctl(q->h->epoll, EPOLL_CTL_ADD, s->keeper, &ev);
	s->caller = -1;
	return 0;
}

static int
on_release(struct call *q, struct err *err)
{
	struct sandbox_entry *s = own_reserved(q, err);

	if (s == NULL)
		return err->code;
	drop(q->h, s);
	return 0;
}

static struct sandbox_entry *
own_found(struct call *q, struct err *err)
{
	const char *who = principal_of(q, err);
	struct str id = rd_lstr(&q->in);
	struct sandbox_entry *s = who != NULL ? find(q->h, id) : NULL;

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
	struct sandbox_entry *s = find(q->h, id);

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

static void
answer(struct e2b_hub *h, int caller, struct str message)
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

/* --- descriptors -------------------------------------------------------------------------------
 */

static void
caller_gone(struct e2b_hub *h, size_t i)
{
	int fd = h->callers[i];

	for (struct sandbox_entry *s = h->first, *next; s != NULL; s = next) {
		next = s->next;
		if (s->caller == fd)
			abandon(h, s);
	}
	fd_close(h, &h->callers[i]);
	h->callers[i] = h->callers[--h->ncallers];
}

static void
caller_turn(struct e2b_hub *h, size_t i)
{
	uint8_t room[HUB_MESSAGE_MAX];
	ssize_t n = recv(h->callers[i], room, sizeof(room), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n > sizeof(room))
		caller_gone(h, i);
	else
		answer(h, h->callers[i], str_mem(room, (size_t)n));
}

static void
accept_one(struct e2b_hub *h)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	ev.data.fd = fd;
	if (!keeper_peer_is_ours(fd) || h->ncallers == CALLERS_MAX ||
	    epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
		(void)close(fd);
	else
		h->callers[h->ncallers++] = fd;
}

static void
fd_turn(struct e2b_hub *h, int fd)
{
	if (fd == h->listener) {
		accept_one(h);
		return;
	}
	for (size_t i = 0; i < h->ncallers; i++)
		if (h->callers[i] == fd) {
			caller_turn(h, i);
			return;
		}
	/* A keeper says nothing unasked: it is gone. */
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		if (s->keeper == fd) {
			drop(h, s);
			return;
		}
}

static void
ready(void *arg)
{
	struct e2b_hub *h = arg;
	struct epoll_event ev;

	/* One at a time: what it closes may be another's number by the next. */
	if (epoll_wait(h->epoll, &ev, 1, 0) == 1)
		fd_turn(h, ev.data.fd);
}

/* --- its life
 * ------------------------------------------------------------------------------------- */

static int
listener_open(struct e2b_hub *h, struct err *err)
{
	struct epoll_event ev = {.events = EPOLLIN};
	AUTO_FREE char *name = random_text(10);
	struct sockaddr_un a;
	socklen_t n;

	(void)snprintf(h->c->hub, sizeof(h->c->hub), "cofferdam-sandboxd-%s", name);
	n = e2b_hub_address(h->c, &a);
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ev.data.fd = h->listener;
	if (h->listener < 0 || bind(h->listener, (const struct sockaddr *)&a, n) != 0 ||
	    listen(h->listener, 128) != 0 ||
	    epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->listener, &ev) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's socket");
	return 0;
}

int
e2b_hub_open(struct e2b_config *c, struct e2b_hub **ret, struct err *err)
{
	struct e2b_hub *h = xcalloc(1, sizeof(*h));
	int life[2];

	*ret = c->own_hub = h;
	h->c = c;
	h->last = &h->first;
	h->listener = h->life = -1;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0 || pipe2(life, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's descriptors");
	c->life = life[0];
	h->life = life[1];
	h->hook = (struct serve_hook){.fd = h->epoll, .ready = ready, .arg = h};
	return listener_open(h, err);
}

const struct serve_hook *
e2b_hub_hook(struct e2b_hub *h)
{
	return &h->hook;
}

void
e2b_hub_leave(struct e2b_hub *h)
{
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		cleanup_close_fd(&s->keeper);
	while (h->ncallers != 0)
		(void)close(h->callers[--h->ncallers]);
	cleanup_close_fd(&h->listener);
	cleanup_close_fd(&h->epoll);
	cleanup_close_fd(&h->life);
}

void
e2b_hub_close(struct e2b_hub *h)
{
	if (h == NULL)
		return;
	while (h->first != NULL)
		drop(h, h->first);
	while (h->ncallers != 0)
		(void)close(h->callers[--h->ncallers]);
	cleanup_close_fd(&h->listener);
	cleanup_close_fd(&h->epoll);
	cleanup_close_fd(&h->life);
	cleanup_close_fd(&h->c->life);
	free(h);
}
