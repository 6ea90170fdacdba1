/*
 * Appends by producers of which each waits for its answer, over the wire to a cofferdam-writer of
 * its own, beside a bare group-commit loop of as many bytes: what the process and its wire cost.
 * The two take turns, a slice each, so that a busy disk slows both. An answer's time is from the
 * send to the acknowledgement, as a caller sees it; the bare loop's writer never waits for anybody.
 *
 *	bench_wire DIR [RECORDS [PRODUCERS]]
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "audit/checkpoint.h"
#include "common/clock.h"
#include "common/ipc.h"
#include "common/log.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "tests/bench/appends.h"

#include "common/banned.h"

#define UID 63101

static uint64_t producers = 64;

/* --- the writer -------------------------------------------------------------------------- */

static void
send_all(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(fd, s.p, s.n);

		if (k <= 0)
			fatal("the writer is gone");
		s.p += k;
		s.n -= (size_t)k;
	}
}

static void
put_msg(struct buf *out, uint16_t type, const struct buf *body, uint16_t nfds)
{
	buf_u32(out, (uint32_t)body->n);
	buf_u16(out, type);
	buf_u16(out, nfds);
	buf_put_str(out, buf_str(body));
}

static void
send_fd(int wire, uint16_t type, const struct buf *body, int fd)
{
	AUTO_BUF struct buf b = BUF(1 << 16);
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov;
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control)};

	put_msg(&b, type, body, 1);
	iov = (struct iovec){b.p, b.n};
	control.align = (struct cmsghdr){
	    .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	if (sendmsg(wire, &m, 0) != (ssize_t)b.n)
		fatal("the writer takes nothing");
	(void)close(fd);
}

/* The next frame's type and body (in `in`, good until the next call). */
static uint16_t
next_msg(int fd, struct buf *in, size_t *used, struct str *body)
{
	buf_drop(in, *used);
	*used = 0;
	for (;;) {
		struct rd r = rd_init(buf_str(in));
		uint8_t *p;
		ssize_t k;

		if (in->n >= 8) {
			uint32_t n = rd_u32(&r);
			uint16_t type = rd_u16(&r);

			if (in->n - 8 >= n) {
				*body = str_mem(in->p + 8, n);
				*used = 8 + (size_t)n;
				return type;
			}
		}
		p = buf_grow(in, 1 << 16);
		k = read(fd, p, 1 << 16);
		if (k <= 0)
			fatal("the writer is gone");
		in->n -= (size_t)((1 << 16) - k);
	}
}

static void
hand_file(int parent, int dir, const char *name, const char *as, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(64);
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || pwrite(fd, bytes.p, bytes.n, 0) != (ssize_t)bytes.n)
		fatal("%s: %s", name, strerror(errno));
	buf_lz(&b, as);
	send_fd(parent, MSG_P_FD, &b, fd);
}

static void
hand_keys(int parent, int dir)
{
	AUTO_BUF struct buf line = BUF(1024), b = BUF(64);
	uint8_t seed[32] = {7}, pub[32], sk[64];
	struct vkey vkey;
	struct err err = {0};
	int log;

	crypto_sign_seed_keypair(pub, sk, seed);
	if (vkey_make(STR("bench"), pub, &vkey, &err) != 0)
		fatal_err(&err);
	vkey_put(&line, &vkey);
	buf_put_c(&line, '\n');
	if (mkdirat(dir, "log", 0700) != 0 ||
	    (log = openat(dir, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    (geteuid() == 0 && fchown(log, UID, UID) != 0))
		fatal("log: %s", strerror(errno));
	buf_lz(&b, "log");
	send_fd(parent, MSG_P_FD, &b, log);
	hand_file(parent, dir, "seed", "log-key", str_mem(seed, 32));
	hand_file(parent, dir, "vkey", "log-vkey", buf_str(&line));
}

/* As the broker's parent does it; returns core's wire once the log is open. */
static int
start_writer(const char *program, int dir, pid_t *ret_pid, int *ret_parent)
{
	AUTO_BUF struct buf config = BUF(1024), out = BUF(2048), wire = BUF(64), in = BUF(1 << 20);
	int parent[2], core[2];
	size_t used = 0;
	struct str body;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, parent) != 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, core) != 0)
		fatal("socketpair: %s", strerror(errno));
	*ret_pid = fork();
	if (*ret_pid == 0) {
		(void)dup2(parent[1], 3);
		(void)execl(program, program, (char *)NULL);
		_exit(127);
	}
	(void)close(parent[1]);
	buf_u32(&config, IPC_VERSION);
	buf_lz(&config, geteuid() == 0 ? "{\"gid\":63101,\"log_level\":\"error\",\"name\":"
					 "\"writer\",\"origin\":\"bench\",\"uid\":63101}"
				       : "{\"log_level\":\"error\",\"name\":\"writer\","
					 "\"origin\":\"bench\"}");
	put_msg(&out, MSG_P_CONFIG, &config, 0);
	send_all(parent[0], buf_str(&out));
	hand_keys(parent[0], dir);
	buf_u8(&wire, IPC_ROLE_CORE);
	buf_lz(&wire, "");
	send_fd(parent[0], MSG_P_WIRE, &wire, core[1]);
	buf_reset(&out);
	buf_reset(&wire);
	put_msg(&out, MSG_P_GO, &wire, 0);
	send_all(parent[0], buf_str(&out));
	while (next_msg(core[0], &in, &used, &body) != MSG_W_LIVE_END)
		;
	*ret_parent = parent[0];
	return core[0];
}

/* --- turns ----------------------------------------------------------------------------------- */

struct wire {
	int fd;
	struct buf in, out;
	size_t used;
	uint64_t *sent; /* by producer: when its record went out */
};

static void
produce(struct wire *w, uint64_t who)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, who);
	buf_u8(&b, 0);
	buf_lz(&b, "action");
	buf_lz(&b, "broker");
	buf_lz(&b, "r-1");
	buf_lstr(&b, str_mem(data, DATA_LEN));
	buf_u32(&b, 0);
	put_msg(&w->out, MSG_W_APPEND, &b, 0);
	w->sent[who] = clock_boot_us();
}

static void
flush(struct wire *w)
{
	send_all(w->fd, buf_str(&w->out));
	buf_reset(&w->out);
}

/* Is there another whole answer that needs no read? */
static bool
more(const struct wire *w)
{
	struct rd r = rd_init(str_mem(w->in.p + w->used, w->in.n - w->used));

	return w->in.n - w->used >= 8 && rd_u32(&r) <= w->in.n - w->used - 8;
}

/* Each producer's next record goes out when the answer to its last is there. */
static void
wire_slice(struct wire *w, struct times *t)
{
	uint64_t began = clock_boot_us(), left = SLICE * producers;

	for (uint64_t i = 0; i < producers; i++)
		produce(w, i);
	flush(w);
	for (uint64_t acks = 0; acks < SLICE * producers; acks++) {
		struct str body;
		struct rd r;
		uint64_t who;

		if (next_msg(w->fd, &w->in, &w->used, &body) != MSG_W_ACK)
			fatal("not an answer");
		r = rd_init(body);
		who = rd_u64(&r);
		times_add(t, clock_boot_us() - w->sent[who]);
		if (left > producers) {
			produce(w, who);
			left--;
		}
		if (!more(w))
			flush(w);
	}
	t->us += clock_boot_us() - began;
}

static void
bare_slice(int fd, off_t *off, uint64_t batch, struct times *t)
{
	for (int i = 0; i < SLICE; i++) {
		uint64_t began = clock_boot_us();

		bare_batch(fd, off, batch);
		times_add(t, clock_boot_us() - began);
		t->us += clock_boot_us() - began;
	}
}

static void
bench(const char *program, int dir, uint64_t records)
{
	struct times t[3] = {{0}, {0}, {0}};
	struct buf none = BUF(1);
	struct wire w = {.in = BUF(1 << 22), .out = BUF(1 << 22)};
	int bare = openat(dir, "bare", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), parent;
	off_t off = 0;
	pid_t pid;
	int status;

	if (bare < 0)
		fatal("bare: %s", strerror(errno));
	w.sent = xcalloc(producers, sizeof(*w.sent));
	w.fd = start_writer(program, dir, &pid, &parent);
	for (uint64_t i = 0; i < records; i += SLICE * producers) {
		wire_slice(&w, &t[0]);
		bare_slice(bare, &off, producers, &t[1]);
		bare_slice(bare, &off, 1, &t[2]);
	}
	(void)printf("%9" PRIu64 " %12.0f %12.0f %7.2f %11.2f %11.2f %11.2f\n", producers,
	    (double)t[0].n * 1e6 / (double)t[0].us,
	    (double)(t[1].n * producers) * 1e6 / (double)t[1].us,
	    (double)t[1].us / (double)t[0].us * (double)t[0].n / (double)(t[1].n * producers),
	    p99(&t[0]), p99(&t[1]), p99(&t[2]));
	put_msg(&w.out, MSG_P_STOP, &none, 0);
	send_all(parent, buf_str(&w.out));
	(void)waitpid(pid, &status, 0);
	if (status != 0)
		fatal("the writer did not end well");
	(void)close(w.fd);
	(void)close(parent);
	for (size_t i = 0; i < 3; i++)
		free(t[i].each);
	free(w.sent);
	buf_free(&w.in);
	buf_free(&w.out);
	(void)close(bare);
}

int
main(int argc, char **argv)
{
	AUTO_FREE char *program = proc_program("cofferdam-writer");
	uint64_t records = 100000;
	int dir;

	if (argc < 2 || (argc > 2 && !str_to_u64(str_z(argv[2]), UINT32_MAX, &records)) ||
	    (argc > 3 && (!str_to_u64(str_z(argv[3]), 4096, &producers) || producers == 0)) ||
	    (mkdir(argv[1], 0711) != 0 && errno != EEXIST) ||
	    (dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		fatal("usage: bench_wire DIR [RECORDS [PRODUCERS]]");
	data_fill();
	(void)printf("%9s %12s %12s %7s %11s %11s %11s\n", "producers", "wire /s", "bare /s",
	    "ratio", "answer p99", "bare p99", "1 sync p99");
	bench(program, dir, records);
	(void)close(dir);
	return 0;
}
