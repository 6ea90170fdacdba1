/*
 * What holders of programs and of contexts share: a process of its own, forked by the keeper, which
 * ends with it. It has the keeper's rights and memory of the moment, and no descriptor of the
 * keeper's but its wire and one stream. What comes from inside goes to callers and to the record,
 * and is never looked into.
 */
#include "agent/keeper_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/agent_loop.h"

#include "common/banned.h"

#define NEAR 3
#define STOP_MS 5000

void
keeper_holder_enter(int *wire, int *stream, pid_t keeper)
{
	int w = fcntl(*wire, F_DUPFD_CLOEXEC, 1000), s = fcntl(*stream, F_DUPFD_CLOEXEC, 1000);

	if (w < 0 || s < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper ||
	    dup3(w, NEAR, O_CLOEXEC) < 0 || dup3(s, NEAR + 1, O_CLOEXEC) < 0 ||
	    close_range(NEAR + 2, ~0u, 0) != 0)
		_exit(1);
	*wire = NEAR;
	*stream = NEAR + 1;
}

/* --- the record ---------------------------------------------------------------------------------
 */

static void
result_send(
    struct keeper_holder *h, struct str fields, struct str text, keeper_other_fn *other, void *arg)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	struct err e = {0};

	buf_lstr(&b, fields);
	buf_lstr(&b, text);
	if (h->gone || wire_send(h->wire, HOLD_RESULT, &b, NULL, 0, &e) != 0)
		h->gone = true;
	while (!h->gone) {
		AUTO_WIRE struct wire_msg m = WIRE_MSG;

		if (wire_recv(h->wire, -1, WIRE_BODY_MAX, &m, &e) != 0)
			h->gone = true;
		else if (m.type == HOLD_NOTED)
			return;
		else
			other(arg, &m);
	}
}

static void
fields_put(const struct sandbox_result *r, uint64_t turn, const char *context, struct buf *out)
{
	struct jcs j;

	if (context == NULL) {
		loop_result_fields(r, turn, out);
		return;
	}
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", sandbox_cause_name(r->cause));
	jcs_z(&j, "context", context);
	jcs_int(&j, "duration_us", (int64_t)r->duration_us);
	jcs_int(&j, "kept_bytes", (int64_t)(r->head.n + r->tail.n));
	jcs_int(&j, "total_bytes", (int64_t)r->total);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_int(&j, "value", r->value);
	jcs_close(&j);
}

void
keeper_holder_result(struct keeper_holder *h, const struct sandbox_result *r, uint64_t turn,
    const char *context, keeper_other_fn *other, void *arg)
{
	AUTO_BUF struct buf fields = BUF(4096), text = BUF((size_t)1 << 20);

	fields_put(r, turn, context, &fields);
	sandbox_result_text(r, &text);
	result_send(h, buf_str(&fields), buf_str(&text), other, arg);
}

void
keeper_holder_refused(struct keeper_holder *h, const char *why, uint64_t turn, const char *context,
    keeper_other_fn *other, void *arg)
{
	AUTO_BUF struct buf fields = BUF(4096);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", "not_started");
	if (context != NULL)
		jcs_z(&j, "context", context);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_close(&j);
	result_send(h, buf_str(&fields), str_z(why), other, arg);
}

/* --- streams
 * -------------------------------------------------------------------------------------- */

static void
hear(struct keeper_holder *h, keeper_other_fn *other, void *arg)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (wire_recv(h->wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
		h->gone = true;
	else
		other(arg, &m);
}

bool
keeper_holder_send(struct keeper_holder *h, int stream, uint8_t type, const struct buf *body,
    keeper_other_fn *other, void *arg, const bool *stop)
{
	AUTO_BUF struct buf all = BUF(WIRE_BODY_MAX + 6);
	size_t off = 0;

	buf_u32(&all, (uint32_t)body->n);
	buf_u8(&all, type);
	buf_u8(&all, 0);
	buf_put(&all, body->p, body->n);
	while (off < all.n) {
		ssize_t n = send(stream, all.p + off, all.n - off, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd p[2] = {
		    {.fd = stream, .events = POLLOUT}, {.fd = h->wire, .events = POLLIN}};

		if (n > 0) {
			off += (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		/* Who does not read holds nobody who is ordered to end; that stream is cut. */
		if (poll(p, ARRAY_LEN(p), *stop ? STOP_MS : -1) == 0 || h->gone)
			return false;
		if (p[1].revents != 0)
			hear(h, other, arg);
	}
	return true;
}

void
keeper_ended_put(struct buf *b, const struct sandbox_result *r, enum sandbox_cell_end end,
    const char *name, const char *error, const char *trace)
{
	buf_u8(b, (uint8_t)r->cause);
	buf_u32(b, (uint32_t)r->value);
	buf_u8(b, (uint8_t)end);
	buf_u64(b, r->total);
	buf_u64(b, r->duration_us);
	buf_lz(b, name);
	buf_lz(b, error);
	buf_lz(b, trace);
}
