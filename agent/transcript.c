/*
 * The run on a terminal, or for a machine (process: cofferdam-agent). The text was written by a
 * model or by code in a sandbox: stream.c encodes every line. A terminal that stands still and a
 * pipe that nobody reads are written to without waiting: what does not fit is counted and left out.
 */
#include "agent/transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define END_WAIT_MS 2000
#define EVENT_TEXT_MAX ((size_t)16384)
#define MARK_MAX 96
#define EVENT_MAX ((size_t)1 << 20)

struct transcript_queue {
	int fd; /* does not block; -1: nobody reads any more */
	struct buf left;
	size_t done, lost; /* bytes of `left` that went out; lines that found no place */
};

/* --- out ------------------------------------------------------------------------------- */

static void
put_all(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(fd, s.p, s.n);

		if (k < 0 && errno != EINTR)
			return; /* nobody looks any more: the run does not depend on that */
		if (k > 0) {
			s.p += k;
			s.n -= (size_t)k;
		}
	}
}

static void
queue_flush(struct transcript_queue *q)
{
	while (q->fd >= 0 && q->done < q->left.n) {
		ssize_t k = write(q->fd, q->left.p + q->done, q->left.n - q->done);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			return;
		if (k < 0)
			cleanup_close_fd(&q->fd);
		else
			q->done += (size_t)k;
	}
	buf_reset(&q->left);
	q->done = 0;
}

static void
queue_put(struct transcript_queue *q, struct str s)
{
	queue_flush(q);
	if (q->done != 0 && q->left.n + s.n > TRANSCRIPT_BEHIND_MAX) {
		buf_drop(&q->left, q->done);
		q->done = 0;
	}
	if (q->left.n + s.n + 128 > TRANSCRIPT_BEHIND_MAX) {
		q->lost++;
		return;
	}
	if (q->lost != 0)
		buf_printf(&q->left, "[%zu pieces are left out here: nobody read]\n", q->lost);
	q->lost = 0;
	buf_put_str(&q->left, s);
	queue_flush(q);
}

static void
put(const struct transcript *t, struct str s)
{
	if (t->queue != NULL)
		queue_put(t->queue, s);
	else if (t->fd >= 0)
		put_all(t->fd, s);
}

/* A description of our own, since O_NONBLOCK belongs to the one that the shell has, too. */
static int
own_description(int fd)
{
	AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
	struct stat st;

	if (fstat(fd, &st) != 0 || (!S_ISFIFO(st.st_mode) && isatty(fd) != 1))
		return -1;
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void
transcript_open(struct transcript *t, int fd, bool json)
{
	int own = own_description(fd);

	*t = (struct transcript){
	    .fd = fd, .json = json, .look = {.colour = !json && stream_colour(fd)}};
	if (own < 0)
		return;
	t->queue = xcalloc(1, sizeof(*t->queue));
	t->queue->fd = own;
	buf_init(&t->queue->left, TRANSCRIPT_BEHIND_MAX);
}

void
transcript_close(struct transcript *t)
{
	struct transcript_queue *q = t->queue;
	uint64_t until = clock_boot_us() + END_WAIT_MS * 1000;

	t->queue = NULL;
	if (q == NULL)
		return;
	queue_flush(q);
	while (q->fd >= 0 && q->left.n != 0 && clock_boot_us() < until) {
		struct pollfd p = {.fd = q->fd, .events = POLLOUT};

		(void)poll(&p, 1, 100);
		queue_flush(q);
	}
	cleanup_close_fd(&q->fd);
	buf_free(&q->left);
	free(q);
}

/* --- lines ----------------------------------------------------------------------------- */

static const struct {
	const char *mark;
	enum stream_tone tone;
} marks[] = {{"| ", STREAM_WORDS}, {"> ", STREAM_QUIET}};

static enum stream_tone
tone_of(const char *mark)
{
	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (strcmp(mark, marks[i].mark) == 0)
			return marks[i].tone;
	return STREAM_PLAIN;
}

static const char *
marked(const struct transcript *t, const char *mark, char room[MARK_MAX])
{
	if (t->prefix == NULL)
		return mark;
	(void)snprintf(room, MARK_MAX, "%s %s", t->prefix, mark);
	return room;
}

void
transcript_text(const struct transcript *t, const char *mark, struct str text)
{
	AUTO_BUF struct buf b = BUF((size_t)16 << 20);
	char room[MARK_MAX];

	if (t->fd < 0 || t->json)
		return;
	stream_text(&t->look, tone_of(mark), marked(t, mark, room), text, &b);
	put(t, buf_str(&b));
}

void
transcript_line(const struct transcript *t, const char *fmt, ...)
{
	AUTO_BUF struct buf b = BUF(65536);
	char text[4096], room[MARK_MAX];
	va_list ap;
	int n;

	if (t->fd < 0 || t->json)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n <= 0)
		return;
	stream_line(&t->look, text[0] == '=' ? STREAM_QUIET : STREAM_PLAIN, marked(t, "", room),
	    str_mem(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1), &b);
	put(t, buf_str(&b));
}

void
transcript_head(const struct transcript *t, const char *run, const char *owner, const char *agent,
    const char *task)
{
	transcript_line(t, "run %s  agent %s  owner %s", run, agent, owner);
	transcript_text(t, "task: ", str_z(task));
}

void
transcript_turn(const struct transcript *t, unsigned turn)
{
	transcript_line(t, "-- turn %u", turn);
}

/* --- records --------------------------------------------------------------------------- */

void
transcript_event(const struct transcript *t, struct str text, const struct json *event)
{
	struct str type = json_str(json_get(event, "type"));
	AUTO_BUF struct buf b = BUF(EVENT_MAX);

	if (t->fd < 0)
		return;
	if (t->json) {
		buf_put_str(&b, text);
		buf_put_c(&b, '\n');
	} else if (!str_eqz(type, "run.start") && !str_eqz(type, "run.end")) {
		/* Its head and its last line say those. */
		stream_event(&t->look, event, &b);
	}
	put(t, buf_str(&b));
}

void
transcript_own(const struct transcript *t, const char *run, uint64_t seq, const char *type,
    struct str fields, struct str content)
{
	AUTO_BUF struct buf b = BUF(EVENT_MAX);
	size_t n = content.n < EVENT_TEXT_MAX ? content.n : EVENT_TEXT_MAX;
	char at[CLOCK_TEXT_SIZE];
	struct jcs j;

	if (t->fd < 0 || !t->json)
		return;
	while (n != 0 && n < content.n && ((unsigned char)content.p[n] & 0xc0) == 0x80)
		n--;
	clock_format(clock_wall_us(), at);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_raw(&j, "data", fields);
	if (n < content.n)
		jcs_int(&j, "left_out", (int64_t)(content.n - n));
	jcs_z(&j, "run", run);
	jcs_int(&j, "seq", (int64_t)seq);
	jcs_z(&j, "src", "agent");
	if (n != 0)
		jcs_str_lossy(&j, "text", str_mem(content.p, n));
	jcs_z(&j, "type", type);
	jcs_close(&j);
	buf_put_c(&b, '\n');
	if (!buf_over(&b))
		put(t, buf_str(&b));
}
