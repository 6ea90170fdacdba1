/*
 * Drives one part of cofferdam-inside: its frames, its input, its end. Runs in the caller. It must
 * never wait for the part without a limit, and never take its word for more than its answer.
 */
#include "agent/sandbox/sandbox_helper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "agent/sandbox/sandbox_client.h"

#include "common/banned.h"

#define SEND_MAX (FRAME_DATA_MAX * 2 + 64)
#define ABORT_MS 10000 /* to take away what was half done */
#define ERRS_MAX 300   /* of what tar says */

struct drive {
	struct sandbox *sb;
	const struct helper *h;
	struct client_started st;
	struct frame_reader reader;
	struct buf send;
	bool fed;
	char errs[ERRS_MAX];
	size_t nerrs;
};

static void
in_close(struct drive *d)
{
	if (d->st.in >= 0)
		(void)close(d->st.in);
	d->st.in = -1;
}

static int
drive_feed(struct drive *d, struct err *err)
{
	int rc = d->h->feed(d->h->arg, &d->send, err);

	if (rc < 0)
		return rc;
	d->fed = rc != 0;
	return buf_over(&d->send) ? err_set(err, ERR_INTERNAL, "sandbox: input grew too large") : 0;
}

static void
drive_send(struct drive *d)
{
	ssize_t k = write(d->st.in, d->send.p, d->send.n);

	if (k > 0) {
		buf_drop(&d->send, (size_t)k);
		if (d->send.n == 0 && d->fed)
			in_close(d);
	} else if (k < 0 && errno != EAGAIN && errno != EINTR) {
		in_close(d); /* it has said why */
	}
}

/* Output until there is none now; false in *more: end of file. */
static int
drive_take(struct drive *d, bool *more, struct err *err)
{
	char room[FRAME_DATA_MAX / 2];
	ssize_t k = read(d->st.out, room, sizeof(room));

	if (k < 0)
		return errno == EAGAIN || errno == EINTR
			   ? 0
			   : err_sys(err, ERR_SYSTEM, errno, "sandbox: read");
	*more = k != 0;
	return frame_feed(&d->reader, str_mem(room, (size_t)k), err);
}

static void
drive_errs(struct drive *d)
{
	char room[4096];
	ssize_t k = read(d->st.errs, room, sizeof(room));

	for (ssize_t i = 0; i < k && d->nerrs < ERRS_MAX; i++)
		d->errs[d->nerrs++] = (char)(room[i] >= 0x20 && room[i] < 0x7f ? room[i] : ' ');
	if (k == 0) {
		(void)close(d->st.errs);
		d->st.errs = -1;
	}
}

/* One wait and what came of it. 1: output has ended, 2: told to stop. */
static int
drive_turn(struct drive *d, struct err *err)
{
	bool send = d->st.in >= 0 && d->send.n != 0, more = true;
	struct pollfd p[] = {{.fd = d->st.out, .events = POLLIN},
	    {.fd = d->st.errs, .events = POLLIN}, {.fd = send ? d->st.in : -1, .events = POLLOUT},
	    {.fd = d->st.in >= 0 && !send && !d->fed ? d->h->feed_fd : -1, .events = POLLIN},
	    {.fd = d->h->stop_fd, .events = POLLIN}, {.fd = d->sb->wire, .events = POLLIN}};
	/* A source that is slow is the caller's business. */
	int n = poll(p, ARRAY_LEN(p), d->h->stays || p[3].fd >= 0 ? -1 : HELPER_IDLE_MS);

	if (n < 0)
		return errno == EINTR ? 0 : err_sys(err, ERR_SYSTEM, errno, "sandbox: poll");
	if (n == 0)
		return err_set(err, ERR_TIMEOUT, "sandbox: %s: no progress for %d s", d->h->about,
		    HELPER_IDLE_MS / 1000);
	if (p[1].revents != 0)
		drive_errs(d);
	if (p[0].revents != 0 && drive_take(d, &more, err) != 0)
		return err->code;
	if (!more)
		return 1;
	if (p[4].revents != 0)
		return 2;
	if (p[3].revents != 0 && drive_feed(d, err) != 0)
		return err->code;
	if (d->st.in >= 0 && d->send.n != 0)
		drive_send(d);
	return p[5].revents != 0 ? client_turn(d->sb, err) : 0;
}

/* After the end of its output: how it ended, if it did not say. */
static int
drive_end(struct drive *d, struct err *err)
{
	struct sandbox_result r = {0};
	struct err ignored;

	if (client_ended(d->sb, &d->st, HELPER_IDLE_MS, &r, err) != 0)
		return err->code;
	free(r.refused);
	if (d->reader.ended)
		return 0;
	err_clear(&ignored);
	if (r.cause == SANDBOX_MEMORY)
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: %s: the helper inside was ended by the sandbox's memory limit",
		    d->h->about);
	return err_set(err, ERR_UNAVAILABLE, "sandbox: %s: the helper inside ended: %s %d",
	    d->h->about, sandbox_cause_name(r.cause), r.value);
}

static void
drive_abort(struct drive *d)
{
	struct sandbox_result r = {0};
	struct err ignored = {0};

	/* End of its input makes it undo what it did; what does not listen is ended. */
	client_started_free(&d->st);
	if (client_ended(d->sb, &d->st, ABORT_MS, &r, &ignored) == ERR_TIMEOUT) {
		client_kill(d->sb, &d->st, SANDBOX_KILLED);
		(void)client_ended(d->sb, &d->st, CLIENT_ANSWER_MS, &r, &ignored);
	}
	free(r.refused);
}

static void
drive_free(struct drive *d)
{
	client_started_free(&d->st);
	frame_reader_free(&d->reader);
	buf_free(&d->send);
}

int
helper_run(struct sandbox *sb, const struct helper *h, struct err *err)
{
	__attribute__((cleanup(drive_free))) struct drive d = {
	    .sb = sb, .h = h, .st = CLIENT_STARTED, .send = BUF(SEND_MAX)};
	char *argv[8];
	struct sandbox_exec x = {.argv = argv, .helper = true, .stdin_fd = -1, .pipe_stdin = true};
	struct err e = {0};
	size_t n = 0;
	int rc;

	for (; n < ARRAY_LEN(argv) - 1 && h->argv[n] != NULL; n++)
		memcpy(&argv[n], &h->argv[n], sizeof(argv[n]));
	argv[n] = NULL;
	frame_reader_init(&d.reader, h->ops, h->arg);
	client_leave(sb);
	rc = client_start(sb, &x, false, &d.st, &e);
	if (rc != 0)
		return err_set(err, e.code, "%s", e.msg);
	if (h->feed == NULL && !h->stays)
		in_close(&d);
	while (rc == 0)
		rc = drive_turn(&d, &e);
	if (rc == 1)
		rc = drive_end(&d, &e);
	else
		drive_abort(&d);
	if (rc >= 0)
		return 0;
	if (d.nerrs != 0)
		return err_set(err, e.code, "%s (%.*s)", e.msg, (int)d.nerrs, d.errs);
	return err_set(err, e.code, "%s", e.msg);
}
