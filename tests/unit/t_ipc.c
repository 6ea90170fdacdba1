/*
 * Unit tests of the internal wires: frames against the table, descriptors, back-pressure,
 * a peer that breaks the rules, the blocking form. The vectors are those of docs/format-ipc.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/hash.h"
#include "common/ipc.h"
#include "common/ipc_frame.h"

#include "common/banned.h"

/* One end is a wire under test (as `self`), the other a bare socket that plays any peer. */
struct rig {
	struct loop *l;
	struct ipc *w;
	int peer;
	unsigned frames, fds_before;
	uint16_t type;
	size_t body_n, nfds;
	char body[64];
	char why[512];
	int kept;
	bool refuse, free_inside, pause_inside, keep;
};

static struct rig r;

static int
on_msg(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	struct rig *rig = arg;
	struct str all = str_mem(body->p, body->n);

	rig->frames++;
	rig->type = type;
	rig->body_n = all.n;
	rig->nfds = nfds;
	if (rig->keep) {
		rig->kept = fds[0];
		fds[0] = -1;
	}
	if (rig->pause_inside)
		ipc_read_enable(w, false);
	if (rig->free_inside) {
		ipc_free(w);
		rig->w = NULL;
		loop_stop(rig->l, 0);
	}
	/* The body is good to the end of the call, also after the wire was freed. */
	if (all.n != 0)
		memcpy(rig->body, all.p, all.n < sizeof(rig->body) ? all.n : sizeof(rig->body));
	return rig->refuse ? err_set(err, ERR_PROTOCOL, "malformed") : 0;
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct rig *rig = arg;

	assert_ptr_equal(w, rig->w);
	ipc_free(w);
	(void)snprintf(rig->why, sizeof(rig->why), "%s", why); /* still good */
	rig->w = NULL;
	loop_stop(rig->l, 1);
}

static unsigned
open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			n++;
	return n;
}

static void
rig_as(enum ipc_role self, enum ipc_role peer)
{
	unsigned before = open_fds();
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	r = (struct rig){.l = loop_new(), .peer = sv[1], .kept = -1, .fds_before = before};
	r.w = ipc_new(r.l, sv[0], self, peer, on_msg, on_gone, &r);
}

static int
setup(void **state UNUSED)
{
	rig_as(IPC_ROLE_CORE, IPC_ROLE_PARENT);
	return 0;
}

static int
teardown(void **state UNUSED)
{
	ipc_free(r.w);
	loop_free(r.l);
	if (r.peer >= 0)
		(void)close(r.peer);
	if (r.kept >= 0)
		(void)close(r.kept);
	return 0;
}

static void
stop(void *arg)
{
	loop_stop(arg, 0);
}

static void
run_ms(uint64_t ms)
{
	struct loop_timer *t = loop_timer_add(r.l, ms, stop, r.l);

	if (loop_run(r.l) != 0)
		loop_timer_del(t);
}

/* Bytes in hex, with n copies of standard error's descriptor. */
static void
play(const char *hex, size_t nfds)
{
	AUTO_BUF struct buf b = BUF(1 << 16);
	union {
		char b[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov;
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	assert_true(enc_unhex(str_z(hex), &b));
	iov = (struct iovec){b.p, b.n};
	if (nfds != 0) {
		struct cmsghdr *h;

		m.msg_control = control.b;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		for (size_t i = 0; i < nfds; i++)
			memcpy(CMSG_DATA(h) + i * sizeof(int), &(int){2}, sizeof(int));
	}
	assert_int_equal(sendmsg(r.peer, &m, 0), (ssize_t)b.n);
}

static void
assert_gone(const char *text)
{
	run_ms(1000);
	assert_null(r.w);
	if (strstr(r.why, text) == NULL)
		fail_msg("why is \"%s\", wanted \"%s\"", r.why, text);
	/* The wire's end is closed, and with it every descriptor that came: left are the loop's
	 * two. */
	if (r.peer >= 0)
		(void)close(r.peer);
	r.peer = -1;
	assert_int_equal(open_fds(), r.fds_before + 2);
}

/* --- vectors of docs/format-ipc.md ------------------------------------------------------ */

static const struct vector {
	const char *what, *hex;
	enum ipc_role self, peer;
	size_t nfds;
} vectors[] = {
    {"P_GO", "0000000000040000", IPC_ROLE_FRONT, IPC_ROLE_PARENT, 0},
    {"P_CONFIG",
	"0000000a000100000000000100000002"
	"7b7d",
	IPC_ROLE_WRITER, IPC_ROLE_PARENT, 0},
    {"P_WIRE",
	"0000000500020001"
	"06"
	"00000000",
	IPC_ROLE_CORE, IPC_ROLE_PARENT, 1},
    {"P_FD",
	"0000000900030001"
	"00000005"
	"7661756c74",
	IPC_ROLE_CORE, IPC_ROLE_PARENT, 1},
    {"C_LOG",
	"0000000700070000"
	"01"
	"00000002"
	"6869",
	IPC_ROLE_PARENT, IPC_ROLE_PARSER, 0},
    {"K_KEEP",
	"0000000d00080001"
	"00000005"
	"722d616263"
	"00000002",
	IPC_ROLE_PARENT, IPC_ROLE_CORE, 1},
    {"K_KEPT_END", "00000000000b0000", IPC_ROLE_CORE, IPC_ROLE_PARENT, 0},
    {"PG_DONE",
	"0000001c001c0000"
	"0000000000000001"
	"0000000000000002"
	"0000000000000400"
	"00000000",
	IPC_ROLE_FRONT, IPC_ROLE_CORE, 0},
    {"X_ASK",
	"00000015003c0000"
	"0000000000000007"
	"01"
	"00000008"
	"53454c4543542031",
	IPC_ROLE_PARSER, IPC_ROLE_CORE, 0},
    {"A_LISTEN",
	"0000000400520001"
	"00000000",
	IPC_ROLE_CORE, IPC_ROLE_AGENT, 1},
};

static void
the_documented_vectors_are_read(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		const struct vector *v = &vectors[i];

		(void)teardown(NULL);
		rig_as(v->self, v->peer);
		play(v->hex, v->nfds);
		run_ms(1);
		assert_int_equal(r.frames, 1);
		assert_string_equal(ipc_msg_name(r.type), v->what);
		assert_int_equal(r.body_n, strlen(v->hex) / 2 - IPC_HEADER);
		assert_int_equal(r.nfds, v->nfds);
	}
}

static void
the_documented_vectors_are_written(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		const struct vector *v = &vectors[i];
		AUTO_BUF struct buf raw = BUF(4096);
		AUTO_BUF struct buf body = BUF(4096);
		AUTO_BUF struct buf hex = BUF(4096);
		AUTO_FREE char *text = NULL;
		char got[256];
		ssize_t n;

		(void)teardown(NULL);
		rig_as(v->peer, v->self);
		assert_true(enc_unhex(str_z(v->hex), &raw));
		buf_put(&body, raw.p + IPC_HEADER, raw.n - IPC_HEADER);
		ipc_send(r.w, (uint16_t)(raw.p[4] << 8 | raw.p[5]), &body, &(int){2}, v->nfds);
		n = recv(r.peer, got, sizeof(got), 0);
		assert_true(n > 0);
		enc_hex(&hex, str_mem(got, (size_t)n));
		text = buf_dup_z(&hex);
		assert_string_equal(text, v->hex);
	}
}

/* --- the text that others read ------------------------------------------------------------- */

static const char *
doc_text(void)
{
	static char text[1 << 17];
	int fd = open("docs/format-ipc.md", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		fail_msg("docs/format-ipc.md: %s (run from the top of the tree)", strerror(errno));
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	assert_in_range(n, 1000, sizeof(text) - 2);
	text[n] = '\0';
	return text;
}

static const char *
doc_role(enum ipc_role role)
{
	static char name[2][16];
	static unsigned turn;
	char *to = name[turn++ % 2];

	(void)snprintf(to, sizeof(name[0]), "%s", ipc_role_name(role));
	return to;
}

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

static void
the_document_has_each_row_of_the_table_and_each_vector(void **state UNUSED)
{
	static const struct {
		const char *name;
		int id;
		enum ipc_role from, to;
		int max, fds;
	} rows[] = {
#define X(n, id, f, t, m, fds) {#n, (id), (f), (t), (m), (fds)},
#include "common/ipc_msg.tbl"
#undef X
	};
	const char *doc = doc_text();
	char line[512];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(line, sizeof(line), "\n| %d | %s | %s | %s | %d | %d | ", rows[i].id,
		    rows[i].name, doc_role(rows[i].from), doc_role(rows[i].to), rows[i].max,
		    rows[i].fds);
		if (strstr(doc, line) == NULL)
			fail_msg("docs/format-ipc.md has no row%s", line);
	}
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		(void)snprintf(line, sizeof(line), "\n| %s | %s | %s | %zu | `%s` |",
		    vectors[i].what, doc_role(vectors[i].peer), doc_role(vectors[i].self),
		    vectors[i].nfds, vectors[i].hex);
		if (strstr(doc, line) == NULL)
			fail_msg("docs/format-ipc.md has no vector%s", line);
	}
}

/* --- what the reader refuses, and the nearest that it takes ---------------------------------- */

static void
a_message_that_does_not_exist_ends_the_wire(void **state UNUSED)
{
	play("0000000000ff0000", 0);
	assert_gone("message 255, which does not exist");
	assert_int_equal(r.frames, 0);
}

static void
a_message_from_the_wrong_side_ends_the_wire(void **state UNUSED)
{
	play("0000000000060000", 0); /* C_READY goes to the parent, not to core */
	assert_gone("parent may not send C_READY to core");
}

static void
a_body_over_its_limit_is_refused_before_it_arrives(void **state UNUSED)
{
	play("0000010100020001", 1); /* P_WIRE: 257 bytes, limit 256 */
	assert_gone("P_WIRE of 257 bytes, at most 256");
}

static void
a_body_of_exactly_its_limit_is_taken(void **state UNUSED)
{
	static const uint8_t body[256];

	play("0000010000020001", 1);
	assert_int_equal(write(r.peer, body, sizeof(body)), sizeof(body));
	run_ms(5);
	assert_non_null(r.w);
	assert_int_equal(r.frames, 1);
	assert_int_equal(r.body_n, 256);
}

static void
a_huge_length_allocates_nothing(void **state UNUSED)
{
	play("ffffffff00010000", 0);
	assert_gone("P_CONFIG of 4294967295 bytes");
}

static void
a_descriptor_the_table_does_not_want_ends_the_wire(void **state UNUSED)
{
	play("0000000000040001", 1);
	assert_gone("P_GO with 1 descriptors, must have 0");
}

static void
a_descriptor_that_the_header_hides_ends_the_wire(void **state UNUSED)
{
	play("0000000000040000", 1);
	assert_gone("1 descriptors without a frame");
}

static void
a_promised_descriptor_that_is_missing_ends_the_wire(void **state UNUSED)
{
	play("000000050003000100000001"
	     "78",
	    0);
	assert_gone("P_FD came without its descriptors");
}

static void
two_descriptors_where_one_is_due_end_the_wire(void **state UNUSED)
{
	play("0000000500030001"
	     "0000",
	    2); /* body not whole yet */
	assert_gone("P_FD with 2 descriptors, must have 1");
}

static void
more_descriptors_than_any_frame_has_end_the_wire(void **state UNUSED)
{
	play("000000050003000100000001"
	     "78",
	    IPC_FDS_MAX + 1);
	assert_gone("more than 4 descriptors");
	assert_int_equal(r.frames, 0);
}

static void
a_frame_cut_short_by_the_end_is_named(void **state UNUSED)
{
	play("00000005000300", 0);
	(void)shutdown(r.peer, SHUT_WR);
	assert_gone("closed the wire in the middle of a frame");
}

static void
an_orderly_end_is_named_too(void **state UNUSED)
{
	play("0000000000040000", 0);
	(void)shutdown(r.peer, SHUT_WR);
	assert_gone("parent closed the wire");
	assert_int_equal(r.frames, 1);
}

static void
a_handler_that_refuses_ends_the_wire_with_its_reason(void **state UNUSED)
{
	r.refuse = true;
	play("0000000000040000"
	     "0000000000050000",
	    0);
	assert_gone("P_GO: malformed");
	assert_int_equal(r.frames, 1);
}

static void
a_frame_may_come_byte_by_byte(void **state UNUSED)
{
	const char *hex = "00000005000300010000000178";

	for (size_t i = 0; i < strlen(hex); i += 2) {
		char one[3] = {hex[i], hex[i + 1], '\0'};

		play(one, i == 0 ? 1 : 0);
		run_ms(1);
		assert_int_equal(r.frames, i + 2 == strlen(hex));
	}
	assert_int_equal(r.type, MSG_P_FD);
}

static void
a_kept_descriptor_stays_open_and_others_are_closed(void **state UNUSED)
{
	unsigned before = open_fds();

	play("000000050003000100000001"
	     "78",
	    1);
	run_ms(2);
	assert_int_equal(open_fds(), before);
	r.keep = true;
	play("000000050003000100000001"
	     "78",
	    1);
	run_ms(2);
	assert_int_equal(open_fds(), before + 1);
	assert_int_equal(fcntl(r.kept, F_GETFD), FD_CLOEXEC);
}

static void
a_handler_may_free_its_own_wire(void **state UNUSED)
{
	r.free_inside = true;
	play("0000000500030001"
	     "00000001"
	     "78",
	    1);
	run_ms(20);
	assert_int_equal(r.frames, 1);
	assert_null(r.w);
	assert_int_equal(r.body[4], 'x');
}

/* --- back-pressure and queues ------------------------------------------------------------ */

static void
frames_wait_while_reading_is_off_and_come_when_it_is_on(void **state UNUSED)
{
	r.pause_inside = true;
	play("0000000000040000"
	     "0000000000050000"
	     "00000000000b0000",
	    0);
	run_ms(5);
	assert_int_equal(r.frames, 1);
	for (unsigned i = 2; i <= 3; i++) {
		ipc_read_enable(r.w, true);
		run_ms(5);
		assert_int_equal(r.frames, i);
	}
	ipc_read_enable(r.w, true);
	(void)shutdown(r.peer, SHUT_WR);
	assert_gone("closed the wire");
}

static void
what_a_peer_said_before_it_died_is_heard_although_sending_fails(void **state UNUSED)
{
	(void)teardown(NULL);
	rig_as(IPC_ROLE_PARENT, IPC_ROLE_CORE);
	r.pause_inside = true;
	play("0000000700070000"
	     "01"
	     "00000002"
	     "6869"
	     "0000000000060000",
	    0);
	(void)close(r.peer);
	r.peer = -1;
	ipc_send(r.w, MSG_P_STOP, NULL, NULL, 0);
	assert_non_null(r.w); /* never called back from inside ipc_send() */
	run_ms(1000);
	assert_int_equal(r.frames, 2);
	assert_null(r.w);
	assert_string_equal(r.why, "core closed the wire");
}

static void
a_peer_that_stops_reading_ends_its_wire_at_the_queue_limit(void **state UNUSED)
{
	AUTO_BUF struct buf body = BUF(IPC_BODY_MAX);

	(void)teardown(NULL);
	rig_as(IPC_ROLE_CORE, IPC_ROLE_WRITER);
	(void)buf_grow(&body, IPC_BODY_MAX);
	memset(body.p, 0, body.n);
	for (size_t i = 0; i < IPC_QUEUE_MAX / IPC_BODY_MAX - 1; i++)
		ipc_send(r.w, MSG_W_APPEND, &body, NULL, 0);
	run_ms(1);
	assert_non_null(r.w);
	for (int i = 0; i < 4; i++)
		ipc_send(r.w, MSG_W_APPEND, &body, NULL, 0);
	assert_gone("writer does not read");
}

/* Frames come as CONFIG, KEPT, CONFIG ...; each KEPT with its number and a descriptor. */
static int
on_alternating(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body,
    int *fds UNUSED, size_t nfds, struct err *err UNUSED)
{
	assert_int_equal(type, r.frames % 2 == 0 ? MSG_P_CONFIG : MSG_K_KEPT);
	assert_int_equal(nfds, r.frames % 2);
	if (nfds == 1) {
		assert_true(str_eqz(rd_lstr(body), "r-abc"));
		assert_int_equal(rd_u32(body), r.frames / 2);
	}
	if (++r.frames == 16)
		loop_stop(r.l, 0);
	return 0;
}

static void
never_gone(void *arg UNUSED, struct ipc *w UNUSED, const char *why)
{
	fail_msg("gone: %s", why);
}

static void
a_full_socket_queues_and_keeps_order_and_descriptors(void **state UNUSED)
{
	static const uint8_t zeros[300000];
	AUTO_BUF struct buf body = BUF(1 << 20);
	unsigned before = open_fds();
	struct ipc *reader;

	(void)teardown(NULL);
	rig_as(IPC_ROLE_PARENT, IPC_ROLE_CORE);
	buf_u32(&body, 1);
	buf_lstr(&body, str_mem(zeros, sizeof(zeros)));
	for (unsigned i = 0; i < 8; i++) {
		AUTO_BUF struct buf kept = BUF(64);

		ipc_send(r.w, MSG_P_CONFIG, &body, NULL, 0);
		buf_lz(&kept, "r-abc");
		buf_u32(&kept, i);
		ipc_send(r.w, MSG_K_KEPT, &kept, &(int){2}, 1);
	}
	assert_true(ipc_queued(r.w) > 1000000);
	reader =
	    ipc_new(r.l, r.peer, IPC_ROLE_CORE, IPC_ROLE_PARENT, on_alternating, never_gone, NULL);
	run_ms(5000);
	assert_int_equal(r.frames, 16);
	assert_int_equal(ipc_queued(r.w), 0);
	assert_int_equal(open_fds(), before);
	ipc_free(reader);
	r.peer = -1;
}

static void
what_a_lazy_wire_sends_in_one_turn_goes_out_together_in_the_next(void **state UNUSED)
{
	AUTO_BUF struct buf kept = BUF(64);
	struct msghdr none = {0};
	uint8_t got[512];
	ssize_t n;

	(void)teardown(NULL);
	rig_as(IPC_ROLE_PARENT, IPC_ROLE_CORE);
	ipc_lazy(r.w, true);
	for (unsigned i = 0; i < 9; i++)
		ipc_send(r.w, MSG_P_GO, NULL, NULL, 0);
	assert_int_equal(ipc_queued(r.w), 9 * 8);
	assert_int_equal(recv(r.peer, got, sizeof(got), MSG_DONTWAIT), -1);
	run_ms(20);
	n = recv(r.peer, got, sizeof(got), MSG_DONTWAIT);
	assert_int_equal(n, 9 * 8);
	assert_int_equal(ipc_queued(r.w), 0);
	/* Descriptors stay with their frame. */
	buf_lz(&kept, "r-abc");
	buf_u32(&kept, 1);
	ipc_send(r.w, MSG_P_GO, NULL, NULL, 0);
	ipc_send(r.w, MSG_K_KEPT, &kept, &(int){2}, 1);
	ipc_lazy(r.w, false);
	assert_int_equal(ipc_queued(r.w), 0);
	assert_int_equal(recv(r.peer, got, 8, MSG_DONTWAIT), 8);
	none.msg_iov = &(struct iovec){got, sizeof(got)};
	none.msg_iovlen = 1;
	assert_int_equal(recvmsg(r.peer, &none, MSG_DONTWAIT), 8 + (ssize_t)kept.n);
	assert_int_not_equal(none.msg_flags & MSG_CTRUNC, 0);
	/* Told to be itself again, it sends at once. */
	ipc_send(r.w, MSG_P_GO, NULL, NULL, 0);
	assert_int_equal(recv(r.peer, got, sizeof(got), MSG_DONTWAIT), 8);
}

/* --- our own mistakes ------------------------------------------------------------------- */

static int
exit_of_send(uint16_t type, const struct buf *body, size_t nfds)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		ipc_send(r.w, type, body, (int[]){2, 2, 2, 2, 2}, nfds);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
sending_outside_the_table_ends_the_process(void **state UNUSED)
{
	AUTO_BUF struct buf over = BUF(4);
	AUTO_BUF struct buf large = BUF(1000);

	buf_u64(&over, 1);
	(void)buf_grow(&large, 1000);
	memset(large.p, 0, large.n);
	assert_int_equal(exit_of_send(MSG_C_READY, NULL, 0), 0);
	assert_int_equal(exit_of_send(MSG_C_READY, &large, 0), 1);
	assert_int_equal(exit_of_send(MSG_C_READY, NULL, 1), 1);
	assert_int_equal(exit_of_send(MSG_C_LOG, &large, 0), 0);
	assert_int_equal(exit_of_send(MSG_C_LOG, &over, 0), 1);
	assert_int_equal(exit_of_send(MSG_P_GO, NULL, 0), 1);
	assert_int_equal(exit_of_send(MSG_K_KEEP, NULL, 1), 0);
	assert_int_equal(exit_of_send(MSG_K_KEEP, NULL, 5), 1);
	assert_int_equal(exit_of_send(0, NULL, 0), 1);
	assert_int_equal(exit_of_send(9999, NULL, 0), 1);
}

static void
a_child_may_not_speak_for_a_role_that_is_not_a_child(void **state UNUSED)
{
	(void)teardown(NULL);
	rig_as(IPC_ROLE_PARENT, IPC_ROLE_AGENT); /* C_LOG is from ANY child; an agent is none */
	play("0000000700070000"
	     "01"
	     "00000002"
	     "6869",
	    0);
	assert_gone("agent may not send C_LOG to parent");
}

/* --- the blocking form ---------------------------------------------------------------------- */

static int
sync_recv(int timeout_ms, struct buf *body, int *fds, size_t *nfds, struct err *err)
{
	uint16_t type;

	return ipc_sync_recv(
	    ipc_fd(r.w), IPC_ROLE_CORE, IPC_ROLE_PARENT, timeout_ms, &type, body, fds, nfds, err);
}

static void
the_blocking_reader_holds_the_same_rules(void **state UNUSED)
{
	static const struct {
		const char *hex;
		size_t nfds;
		int code;
		const char *more; /* with one descriptor */
	} cases[] = {
	    {"0000000000040000", 0, 0, NULL},
	    {"0000000000040000", 1, ERR_PROTOCOL, NULL},
	    {"000000050003000100000001"
	     "78",
		1, 0, NULL},
	    {"000000050003000100000001"
	     "78",
		0, ERR_PROTOCOL, NULL},
	    {"000000050003000100000001"
	     "78",
		2, ERR_PROTOCOL, NULL},
	    {"000000050003000100000001"
	     "78",
		5, ERR_PROTOCOL, NULL},
	    {"0000000000060000", 0, ERR_PROTOCOL, NULL},
	    {"0000010100020001", 1, ERR_PROTOCOL, NULL},
	    {"00000000000400", 0, ERR_TIMEOUT, NULL},
	    {"", 0, ERR_TIMEOUT, NULL},
	    {"00000005000300010000", 1, ERR_PROTOCOL, "000178"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_BUF struct buf body = BUF(512);
		struct err err = {0};
		int fds[IPC_FDS_MAX];
		size_t nfds = 0;
		unsigned before;

		(void)teardown(NULL);
		(void)setup(NULL);
		before = open_fds();
		if (cases[i].hex[0] != '\0')
			play(cases[i].hex, cases[i].nfds);
		if (cases[i].more != NULL)
			play(cases[i].more, 1);
		assert_int_equal(sync_recv(10, &body, fds, &nfds, &err), cases[i].code);
		for (size_t k = 0; k < nfds; k++)
			(void)close(fds[k]);
		assert_int_equal(open_fds(), before);
	}
}

static void
the_blocking_reader_tells_that_the_peer_closed(void **state UNUSED)
{
	AUTO_BUF struct buf body = BUF(512);
	struct err err = {0};

	(void)shutdown(r.peer, SHUT_WR);
	assert_int_equal(sync_recv(-1, &body, NULL, NULL, &err), ERR_UNAVAILABLE);
}

static void
the_blocking_writer_and_reader_fit(void **state UNUSED)
{
	AUTO_BUF struct buf body = BUF(512);
	AUTO_BUF struct buf in = BUF(512);
	struct err err = {0};
	int fds[IPC_FDS_MAX];
	size_t nfds;

	buf_lz(&body, "vault");
	assert_int_equal(ipc_sync_send(r.peer, IPC_ROLE_PARENT, IPC_ROLE_CORE, MSG_P_FD, &body,
			     &(int){2}, 1, &err),
	    0);
	assert_int_equal(
	    ipc_sync_send(r.peer, IPC_ROLE_PARENT, IPC_ROLE_CORE, MSG_P_GO, NULL, NULL, 0, &err),
	    0);
	assert_int_equal(sync_recv(1000, &in, fds, &nfds, &err), 0);
	assert_int_equal(nfds, 1);
	assert_true(str_eq(buf_str(&in), buf_str(&body)));
	(void)close(fds[0]);
	assert_int_equal(sync_recv(1000, &in, fds, &nfds, &err), 0);
	assert_int_equal(nfds, 0);
	assert_int_equal(in.n, 0);
}

static void
a_socket_at_a_path_longer_than_an_address_is_reached(void **state UNUSED)
{
	char dir[300] = "/tmp/t_ipc.XXXXXX", path[512], at[128];
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	AUTO_FD int dirfd = -1;
	AUTO_FD int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO_FD int fd = -1;
	struct err err = {0};

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/%0200d", dir, 0);
	assert_int_equal(mkdir(path, 0700), 0);
	dirfd = open(path, O_PATH | O_CLOEXEC);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d/s", dirfd);
	memcpy(sa.sun_path, at, strlen(at));
	assert_int_equal(bind(listener, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 1), 0);
	(void)snprintf(path, sizeof(path), "%s/%0200d/s", dir, 0);
	assert_int_equal(ipc_connect(path, &fd, &err), 0);
	assert_int_equal(unlinkat(dirfd, "s", 0), 0);
	assert_int_equal(ipc_connect(path, &fd, &err), ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, path));
	path[strlen(path) - 2] = '\0';
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(the_documented_vectors_are_read),
	    T(the_documented_vectors_are_written),
	    T(the_document_has_each_row_of_the_table_and_each_vector),
	    T(a_message_that_does_not_exist_ends_the_wire),
	    T(a_message_from_the_wrong_side_ends_the_wire),
	    T(a_body_over_its_limit_is_refused_before_it_arrives),
	    T(a_body_of_exactly_its_limit_is_taken),
	    T(a_huge_length_allocates_nothing),
	    T(a_descriptor_the_table_does_not_want_ends_the_wire),
	    T(a_descriptor_that_the_header_hides_ends_the_wire),
	    T(a_promised_descriptor_that_is_missing_ends_the_wire),
	    T(two_descriptors_where_one_is_due_end_the_wire),
	    T(more_descriptors_than_any_frame_has_end_the_wire),
	    T(a_frame_cut_short_by_the_end_is_named),
	    T(an_orderly_end_is_named_too),
	    T(a_handler_that_refuses_ends_the_wire_with_its_reason),
	    T(a_frame_may_come_byte_by_byte),
	    T(a_kept_descriptor_stays_open_and_others_are_closed),
	    T(a_handler_may_free_its_own_wire),
	    T(frames_wait_while_reading_is_off_and_come_when_it_is_on),
	    T(what_a_peer_said_before_it_died_is_heard_although_sending_fails),
	    T(a_peer_that_stops_reading_ends_its_wire_at_the_queue_limit),
	    T(a_full_socket_queues_and_keeps_order_and_descriptors),
	    T(what_a_lazy_wire_sends_in_one_turn_goes_out_together_in_the_next),
	    T(sending_outside_the_table_ends_the_process),
	    T(a_child_may_not_speak_for_a_role_that_is_not_a_child),
	    T(the_blocking_reader_holds_the_same_rules),
	    T(the_blocking_reader_tells_that_the_peer_closed),
	    T(the_blocking_writer_and_reader_fit),
	    T(a_socket_at_a_path_longer_than_an_address_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
