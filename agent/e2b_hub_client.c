/*
 * A worker's questions to the hub (process: a worker of cofferdam-sandboxd). One connection for the
 * worker's life, made when it is first needed, and anew when an answer did not come.
 */
#include "agent/e2b_hub.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

#define ANSWER_MS 15000

socklen_t
e2b_hub_address(const struct e2b_config *c, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s", c->hub);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->hub));
}

void
e2b_entry_put(const struct e2b_entry *e, struct buf *out)
{
	buf_lz(out, e->id);
	buf_lz(out, e->principal);
	buf_lz(out, e->template);
	buf_lz(out, e->metadata);
	buf_lz(out, e->network);
	buf_lz(out, e->token);
	buf_lz(out, e->traffic);
	buf_u32(out, e->as);
	buf_u32(out, e->timeout_s);
	buf_u8(out, e->pauses ? 1 : 0);
	buf_u8(out, e->resumes ? 1 : 0);
	buf_u64(out, (uint64_t)e->started_ms);
	buf_u64(out, e->serial);
}

static char *
text(struct rd *r)
{
	char *z = keeper_text_take(r);

	return z != NULL ? z : xstrdup("");
}

void
e2b_entry_take(struct rd *r, struct e2b_entry *ret)
{
	ret->id = text(r);
	ret->principal = text(r);
	ret->template = text(r);
	ret->metadata = text(r);
	ret->network = text(r);
	ret->token = text(r);
	ret->traffic = text(r);
	ret->as = rd_u32(r);
	ret->timeout_s = rd_u32(r);
	ret->pauses = rd_u8(r) == 1;
	ret->resumes = rd_u8(r) == 1;
	ret->started_ms = (int64_t)rd_u64(r);
	ret->serial = rd_u64(r);
}

static int hub_fd = -1;

static int
hub_open(const struct e2b_config *c, struct err *err)
{
	struct sockaddr_un a;
	socklen_t n = e2b_hub_address(c, &a);

	if (hub_fd >= 0)
		return 0;
	hub_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (hub_fd >= 0 && connect(hub_fd, (const struct sockaddr *)&a, n) == 0)
		return 0;
	(void)err_sys(err, ERR_UNAVAILABLE, errno, "the server's hub");
	cleanup_close_fd(&hub_fd);
	return err->code;
}

/* The bytes of its answer, or -1. */
static ssize_t
answer_wait(uint8_t *room, size_t max, unsigned ms)
{
	struct pollfd p = {.fd = hub_fd, .events = POLLIN};
	uint64_t now = clock_boot_us(), until = now + (uint64_t)ms * 1000;
	int rc;

	do
		rc = poll(&p, 1, (int)((until - now + 999) / 1000));
	while (rc < 0 && errno == EINTR && (now = clock_boot_us()) < until);
	return rc > 0 ? recv(hub_fd, room, max, MSG_DONTWAIT) : -1;
}

static int
answer_take(const uint8_t *p, size_t n, struct e2b_entry *ret, struct err *err)
{
	struct rd r = rd_init(str_mem(p, n));
	uint32_t code = rd_u32(&r);
	struct str words;

	if (code != 0) {
		words = rd_lstr(&r);
		if (!rd_end(&r) || code > 100)
			return err_set(err, ERR_PROTOCOL, "hub: malformed answer");
		return err_set(err, -(int)code, "%.*s", STR_ARG(words));
	}
	if (ret == NULL)
		return 0;
	*ret = (struct e2b_entry){0};
	e2b_entry_take(&r, ret);
	if (rd_end(&r))
		return 0;
	e2b_entry_free(ret);
	return err_set(err, ERR_PROTOCOL, "hub: malformed answer");
}

static int
ask(const struct e2b_config *c, const struct buf *b, struct e2b_entry *ret, struct err *err)
{
	uint8_t room[HUB_MESSAGE_MAX];
	ssize_t n = -1;
	int rc;

	if (buf_over(b))
		return err_set(
		    err, ERR_TOO_LARGE, "a request to the hub is over %zu bytes", HUB_MESSAGE_MAX);
	if ((rc = hub_open(c, err)) != 0)
		return rc;
	if (send(hub_fd, b->p, b->n, MSG_NOSIGNAL) == (ssize_t)b->n)
		n = answer_wait(room, sizeof(room), c->hub_ms != 0 ? c->hub_ms : ANSWER_MS);
	if (n > 0)
		return answer_take(room, (size_t)n, ret, err);
	/* What still comes of it is the answer to no other question, who may be another's. */
	cleanup_close_fd(&hub_fd);
	return err_set(err, ERR_UNAVAILABLE, "the server's hub does not answer");
}

#define HUB_BUF(name, call)                              \
	AUTO_BUF struct buf name = BUF(HUB_MESSAGE_MAX); \
	buf_u8(&(name), (call))

int
e2b_hub_reserve(const struct e2b_config *c, struct str key, const struct e2b_entry *want,
    struct e2b_entry *ret, struct err *err)
{
	HUB_BUF(b, HUB_RESERVE);

	buf_lstr(&b, key);
	e2b_entry_put(want, &b);
	return ask(c, &b, ret, err);
}

int
e2b_hub_commit(const struct e2b_config *c, const char *id, struct err *err)
{
	HUB_BUF(b, HUB_COMMIT);

	buf_lz(&b, id);
	return ask(c, &b, NULL, err);
}

int
e2b_hub_release(const struct e2b_config *c, const char *id, struct err *err)
{
	HUB_BUF(b, HUB_RELEASE);

	buf_lz(&b, id);
	return ask(c, &b, NULL, err);
}

int
e2b_hub_find(const struct e2b_config *c, struct str key, struct str id, struct e2b_entry *ret,
    struct err *err)
{
	HUB_BUF(b, HUB_FIND);

	buf_lstr(&b, key);
	buf_lstr(&b, id);
	return ask(c, &b, ret, err);
}

int
e2b_hub_next(const struct e2b_config *c, struct str key, uint64_t after, struct e2b_entry *ret,
    struct err *err)
{
	HUB_BUF(b, HUB_NEXT);

	buf_lstr(&b, key);
	buf_u64(&b, after);
	return ask(c, &b, ret, err);
}

int
e2b_hub_token(const struct e2b_config *c, struct str id, struct str token, struct e2b_entry *ret,
    struct err *err)
{
	HUB_BUF(b, HUB_TOKEN);

	buf_lstr(&b, id);
	buf_lstr(&b, token);
	return ask(c, &b, ret, err);
}

int
e2b_hub_signed(const struct e2b_config *c, struct str id, struct str signed_text,
    struct str expires, struct str signature, struct e2b_entry *ret, struct err *err)
{
	HUB_BUF(b, HUB_SIGNED);

	buf_lstr(&b, id);
	buf_lstr(&b, signed_text);
	buf_lstr(&b, expires);
	buf_lstr(&b, signature);
	return ask(c, &b, ret, err);
}

int
e2b_hub_change(
    const struct e2b_config *c, struct str key, const struct e2b_entry *e, struct err *err)
{
	HUB_BUF(b, HUB_CHANGE);

	buf_lstr(&b, key);
	buf_lz(&b, e->id);
	e2b_entry_put(e, &b);
	return ask(c, &b, NULL, err);
}
