/*
 * The supervisor's end of the filter: answers each told refusal with the table's error and counts
 * it by call and program, so that a person can see why a tool fails. Never lets a call continue:
 * what it would be judged by is memory that another thread inside may change. Code inside may make
 * such calls as fast as it likes, die in the middle of one, and name itself as it likes, so a turn
 * has a maximum, the table is bounded, and /proc is read only so many times a second.
 */
#include "agent/sandbox/filter.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ROWS_MAX 63	/* and one for all others */
#define PROGRAMS_MAX 7	/* of one call, then it has a row for all its others */
#define LOOKS_MAX 64	/* readings of /proc in one second */
#define PROGRAM_SIZE 16 /* TASK_COMM_LEN */
#define UNKNOWN "?"
#define OTHERS "other"

struct row {
	unsigned nr;
	char program[PROGRAM_SIZE];
	uint64_t count;
};

struct filter_counts {
	struct row rows[ROWS_MAX];
	size_t nrows;
	uint64_t others;
	/* Who was looked up in this second; what comes over LOOKS_MAX is taken from here. */
	struct look {
		uint32_t tid;
		char program[PROGRAM_SIZE];
	} looks[LOOKS_MAX];
	size_t nlooks;
	time_t second;
	/* The kernel's structures may be longer than the ones this was compiled with. */
	struct seccomp_notif *ask;
	struct seccomp_notif_resp *answer;
	size_t ask_size, answer_size;
};

struct filter_counts *
filter_counts_new(void)
{
	struct filter_counts *c = xcalloc(1, sizeof(*c));
	struct seccomp_notif_sizes sizes = {0};

	(void)syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
	c->ask_size = sizeof(*c->ask);
	c->answer_size = sizeof(*c->answer);
	if (sizes.seccomp_notif > c->ask_size)
		c->ask_size = sizes.seccomp_notif;
	if (sizes.seccomp_notif_resp > c->answer_size)
		c->answer_size = sizes.seccomp_notif_resp;
	c->ask = xcalloc(1, c->ask_size);
	c->answer = xcalloc(1, c->answer_size);
	return c;
}

void
filter_counts_free(struct filter_counts *c)
{
	if (c == NULL)
		return;
	free(c->ask);
	free(c->answer);
	free(c);
}

/* --- what the table says ---------------------------------------------------------------------- */

static uint32_t
word_at(const struct seccomp_data *d, uint32_t offset)
{
	uint32_t w;

	assert(offset <= sizeof(*d) - sizeof(w));
	memcpy(&w, (const char *)d + offset, sizeof(w));
	return w;
}

static bool
jumps(uint16_t op, uint32_t a, uint32_t k)
{
	return op == BPF_JEQ ? a == k : op == BPF_JGE ? a >= k : (a & k) != 0;
}

/* Runs the program that knows errors. It is made by the build and proved by t_filter: of the
 * machine's instructions it has only these. */
static int
error_of(const struct seccomp_data *d)
{
	struct sock_fprog prog = filter_program(false);
	uint32_t a = 0;

	for (size_t i = 0; i < prog.len; i++) {
		const struct sock_filter *f = &prog.filter[i];

		if (f->code == (BPF_RET | BPF_K))
			return (f->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO
				   ? (int)(f->k & SECCOMP_RET_DATA)
				   : EPERM;
		if (f->code == (BPF_LD | BPF_W | BPF_ABS))
			a = word_at(d, f->k);
		else if (f->code == (BPF_ALU | BPF_AND | BPF_K))
			a &= f->k;
		else if (f->code == (BPF_JMP | BPF_JA))
			i += f->k;
		else
			i += jumps(BPF_OP(f->code), a, f->k) ? f->jt : f->jf;
	}
	return EPERM;
}

/* --- who and how often ------------------------------------------------------------------------ */

/* The thread's name, as printable text; false: it could not be read. */
static bool
comm_read(uint32_t tid, char ret[PROGRAM_SIZE])
{
	char path[64];
	AUTO_FD int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, PROGRAM_SIZE);
	if (n <= 0)
		return false;
	ret[n - 1] = '\0'; /* the line's end */
	for (char *p = ret; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return ret[0] != '\0';
}

/* Who waits for this answer. Read while it waits, or the number may be another's by now. */
static const char *
program_of(int listener, struct filter_counts *c)
{
	struct timespec now;
	uint64_t id = c->ask->id;
	size_t at = 0;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec != c->second) {
		c->second = now.tv_sec;
		c->nlooks = 0;
	}
	if (c->nlooks == LOOKS_MAX) {
		while (at < LOOKS_MAX && c->looks[LOOKS_MAX - 1 - at].tid != c->ask->pid)
			at++;
		return at < LOOKS_MAX ? c->looks[LOOKS_MAX - 1 - at].program : UNKNOWN;
	}
	at = c->nlooks++;
	c->looks[at].tid = c->ask->pid;
	if (c->ask->pid == 0 || !comm_read(c->ask->pid, c->looks[at].program) ||
	    ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) != 0)
		(void)snprintf(c->looks[at].program, PROGRAM_SIZE, UNKNOWN);
	return c->looks[at].program;
}

static void
count(struct filter_counts *c, unsigned nr, const char *program)
{
	size_t same = 0;
	struct row *r;

	for (r = c->rows; r < c->rows + c->nrows; r++) {
		if (r->nr != nr)
			continue;
		if (strcmp(r->program, program) == 0) {
			r->count++;
			return;
		}
		if (strcmp(r->program, OTHERS) != 0)
			same++;
	}
	if (same >= PROGRAMS_MAX && strcmp(program, OTHERS) != 0) {
		count(c, nr, OTHERS);
	} else if (c->nrows == ROWS_MAX) {
		c->others++;
	} else {
		r = &c->rows[c->nrows++];
		*r = (struct row){.nr = nr, .count = 1};
		(void)snprintf(r->program, sizeof(r->program), "%s", program);
	}
}

bool
filter_notify_turn(int listener, struct filter_counts *c, unsigned max)
{
	for (unsigned i = 0; i < max; i++) {
		struct pollfd p = {.fd = listener, .events = POLLIN};

		/* RECV would wait, and it knows no O_NONBLOCK. */
		if (poll(&p, 1, 0) <= 0)
			return true;
		if ((p.revents & POLLIN) == 0)
			return false;
		memset(c->ask, 0, c->ask_size);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, c->ask) != 0) {
			/* ENOENT: it was killed, or a signal took it back. */
			if (errno == ENOENT || errno == EINTR)
				continue;
			return false;
		}
		count(c, (unsigned)c->ask->data.nr, program_of(listener, c));
		memset(c->answer, 0, c->answer_size);
		c->answer->id = c->ask->id;
		c->answer->error = -error_of(&c->ask->data);
		(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, c->answer); /* or it is gone */
	}
	return true;
}

/* --- the answer to people --------------------------------------------------------------------- */

static int
row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->nr != y->nr ? (x->nr < y->nr ? -1 : 1) : strcmp(x->program, y->program);
}

static void
row_write(struct jcs *j, const char *call, uint64_t n, int64_t nr, const char *program)
{
	jcs_open(j, NULL);
	jcs_z(j, "call", call);
	jcs_int(j, "count", (int64_t)n);
	jcs_int(j, "number", nr);
	jcs_z(j, "program", program);
	jcs_close(j);
}

void
filter_counts_json(struct filter_counts *c, bool reset, struct buf *out)
{
	struct jcs j;

	qsort(c->rows, c->nrows, sizeof(c->rows[0]), row_order);
	jcs_init(&j, out);
	jcs_array(&j, NULL);
	for (const struct row *r = c->rows; r < c->rows + c->nrows; r++) {
		const char *name = filter_call_name(r->nr);

		row_write(&j, name != NULL ? name : UNKNOWN, r->count, r->nr, r->program);
	}
	if (c->others != 0)
		row_write(&j, OTHERS, c->others, -1, OTHERS);
	jcs_array_end(&j);
	if (reset) {
		c->nrows = 0;
		c->others = 0;
	}
}
