/*
 * The message table as data, the frame header, and descriptors in control messages.
 * Runs in every process; the header's bytes come from a peer that may be taken over, so
 * nothing of it is used before the table has said yes.
 */
#include "common/ipc_frame.h"

#include <assert.h>
#include <string.h>

#include "common/log.h"

#include "common/banned.h"

#define PARENT IPC_ROLE_PARENT
#define FRONT IPC_ROLE_FRONT
#define CORE IPC_ROLE_CORE
#define PARSER IPC_ROLE_PARSER
#define UPSTREAM IPC_ROLE_UPSTREAM
#define WRITER IPC_ROLE_WRITER
#define CONSOLE IPC_ROLE_CONSOLE
#define COURIER IPC_ROLE_COURIER
#define AGENT IPC_ROLE_AGENT
#define CLI IPC_ROLE_CLI
#define ANY IPC_ROLE_ANY

struct row {
	const char *name;
	enum ipc_role from, to;
	size_t max, nfds;
};

/* By message number; a number without a row has no name. */
static const struct row rows[] = {
#define X(n, id, f, t, m, fds) [id] = {#n, (f), (t), (m), (fds)},
#include "common/ipc_msg.tbl"
#undef X
};

#define X(n, id, f, t, m, fds) \
	static_assert((m) <= IPC_BODY_MAX && (fds) <= IPC_FDS_MAX && (id) < 256, #n);
#include "common/ipc_msg.tbl"
#undef X

static const char *const role_names[] = {
    [IPC_ROLE_NONE] = "none",
    [IPC_ROLE_PARENT] = "parent",
    [IPC_ROLE_FRONT] = "front",
    [IPC_ROLE_CORE] = "core",
    [IPC_ROLE_PARSER] = "parser",
    [IPC_ROLE_UPSTREAM] = "upstream",
    [IPC_ROLE_WRITER] = "writer",
    [IPC_ROLE_CONSOLE] = "console",
    [IPC_ROLE_COURIER] = "courier",
    [IPC_ROLE_AGENT] = "agent",
    [IPC_ROLE_CLI] = "cli",
};

const char *
ipc_role_name(enum ipc_role r)
{
	return (size_t)r < ARRAY_LEN(role_names) ? role_names[r] : r == IPC_ROLE_ANY ? "any" : "?";
}

static const struct row *
row_find(uint16_t type)
{
	return type < ARRAY_LEN(rows) && rows[type].name != NULL ? &rows[type] : NULL;
}

const char *
ipc_msg_name(uint16_t type)
{
	const struct row *r = row_find(type);

	return r != NULL ? r->name : "?";
}

static bool
role_fits(enum ipc_role wanted, enum ipc_role is)
{
	switch (is) {
	case IPC_ROLE_FRONT:
	case IPC_ROLE_CORE:
	case IPC_ROLE_PARSER:
	case IPC_ROLE_UPSTREAM:
	case IPC_ROLE_WRITER:
	case IPC_ROLE_CONSOLE:
	case IPC_ROLE_COURIER: return wanted == is || wanted == IPC_ROLE_ANY;
	case IPC_ROLE_PARENT:
	case IPC_ROLE_AGENT:
	case IPC_ROLE_CLI: return wanted == is;
	case IPC_ROLE_NONE:
	case IPC_ROLE_ANY: break;
	}
	return false;
}

static int
frame_check(const struct ipc_frame *f, enum ipc_role from, enum ipc_role to, struct err *err)
{
	const struct row *r = row_find(f->type);

	if (r == NULL)
		return err_set(err, ERR_PROTOCOL, "%s sent message %u, which does not exist",
		    ipc_role_name(from), f->type);
	if (!role_fits(r->from, from) || !role_fits(r->to, to))
		return err_set(err, ERR_PROTOCOL, "%s may not send %s to %s", ipc_role_name(from),
		    r->name, ipc_role_name(to));
	if (f->body > r->max)
		return err_set(
		    err, ERR_PROTOCOL, "%s of %u bytes, at most %zu", r->name, f->body, r->max);
	if (f->nfds != r->nfds)
		return err_set(err, ERR_PROTOCOL, "%s with %u descriptors, must have %zu", r->name,
		    f->nfds, r->nfds);
	return 0;
}

void
ipc_frame_encode(struct buf *to, uint16_t type, size_t body, size_t nfds)
{
	buf_u32(to, (uint32_t)body);
	buf_u16(to, type);
	buf_u16(to, (uint16_t)nfds);
}

int
ipc_frame_decode(
    const uint8_t *p, enum ipc_role from, enum ipc_role to, struct ipc_frame *ret, struct err *err)
{
	struct rd r = rd_init(str_mem(p, IPC_HEADER));
	struct ipc_frame f;
	int rc;

	f.body = rd_u32(&r);
	f.type = rd_u16(&r);
	f.nfds = rd_u16(&r);
	rc = frame_check(&f, from, to, err);
	if (rc != 0)
		return rc;
	*ret = f;
	return 0;
}

void
ipc_frame_must_fit(
    enum ipc_role from, enum ipc_role to, uint16_t type, const struct buf *body, size_t nfds)
{
	struct ipc_frame f = {.type = type, .nfds = (uint16_t)nfds};
	struct err err = {0};

	if (body != NULL && buf_over(body))
		fatal("ipc: %s overflowed its buffer of %zu bytes", ipc_msg_name(type), body->max);
	if ((body != NULL && body->n > IPC_BODY_MAX) || nfds > IPC_FDS_MAX)
		fatal("ipc: %s is over the limits of a frame", ipc_msg_name(type));
	f.body = body != NULL ? (uint32_t)body->n : 0;
	if (frame_check(&f, from, to, &err) != 0)
		fatal("ipc: %s", err.msg);
}

size_t
ipc_control_take(struct msghdr *m, int fds[IPC_FDS_MAX])
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		/* The control buffer has room for no more. */
		assert(k <= IPC_FDS_MAX - n);
		memcpy(fds + n, CMSG_DATA(c), k * sizeof(int));
		n += k;
	}
	return n;
}

void
ipc_control_put(struct msghdr *m, union ipc_control *c, const int *fds, size_t nfds)
{
	struct cmsghdr *h;

	if (nfds == 0)
		return;
	memset(c, 0, sizeof(*c));
	m->msg_control = c->b;
	m->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	h = CMSG_FIRSTHDR(m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(h), fds, nfds * sizeof(int));
}

void
ipc_close_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
		fds[i] = -1;
	}
}
