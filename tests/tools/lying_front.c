/*
 * Test tool: stands in for cofferdam-front and lies. The test connects to a run's listener and
 * sends one byte, the number of a lie; this program opens a real upstream connection through core
 * and then sends core (or upstream) what a taken-over front might. It answers the test with one
 * line: what came back. Nothing it sends may make a statement reach the server that core did not
 * judge.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define EVIL "DELETE FROM t WHERE id = 1"

static struct lie_state {
	struct loop *loop;
	struct ipc *core, *upstream;
	int listener;
	uint32_t listener_id;
	int client;
	unsigned lie;
	unsigned ticks; /* of 20 ms since the client came */
	uint64_t conn;
} st = {.listener = -1, .client = -1, .conn = 7000};

static void
answer(const char *what)
{
	if (st.client < 0)
		return;
	(void)!write(st.client, what, strlen(what));
	(void)!write(st.client, "\n", 1);
	(void)close(st.client);
	st.client = -1;
}

static void
msg(struct buf *b, char type, struct str body)
{
	buf_put_c(b, type);
	buf_u32(b, (uint32_t)body.n + 4);
	buf_put_str(b, body);
}

static void
query(struct buf *b, const char *sql)
{
	msg(b, 'Q', str_mem(sql, strlen(sql) + 1));
}

static void
extended(struct buf *b, const char *sql, const char *portal)
{
	AUTO_BUF struct buf m = BUF(4096);

	buf_put_c(&m, '\0');
	buf_put(&m, sql, strlen(sql) + 1);
	buf_u16(&m, 0);
	msg(b, 'P', buf_str(&m));
	buf_reset(&m);
	buf_put(&m, portal, strlen(portal) + 1);
	buf_put_c(&m, '\0');
	buf_u16(&m, 0);
	buf_u16(&m, 0);
	buf_u16(&m, 0);
	msg(b, 'B', buf_str(&m));
	buf_reset(&m);
	buf_put(&m, portal, strlen(portal) + 1);
	buf_u32(&m, 0);
	msg(b, 'E', buf_str(&m));
}

static void
act(uint64_t conn, uint64_t n, uint8_t kind, struct str messages)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u64(&b, conn);
	buf_u64(&b, n);
	buf_u8(&b, kind);
	buf_lstr(&b, messages);
	ipc_send(st.core, MSG_PG_ACT, &b, NULL, 0);
}

static void
two_queries(struct buf *m)
{
	query(m, "SELECT 1");
	query(m, EVIL);
}

static void
nul_in_query(struct buf *m)
{
	msg(m, 'Q', STR("SELECT 1\0; " EVIL "\0"));
}

static void
no_nul(struct buf *m)
{
	msg(m, 'Q', STR(EVIL));
}

static void
extended_ok_form(struct buf *m)
{
	extended(m, EVIL, "");
	msg(m, 'S', STR_NONE);
}

static void
unbound_portal(struct buf *m)
{
	extended(m, "SELECT 1", "a");
	msg(m, 'E', STR("b\0\0\0\0\0"));
	msg(m, 'S', STR_NONE);
}

static void
sync_then_query(struct buf *m)
{
	extended(m, "SELECT 1", "");
	msg(m, 'S', STR_NONE);
	query(m, EVIL);
}

static void
length_short(struct buf *m)
{
	buf_put_c(m, 'Q');
	buf_u32(m, 13); /* says 9 bytes of text, holds more */
	buf_put_str(m, STR("SELECT 1\0Q\0\0\0\x1f" EVIL "\0"));
}

static void
length_long(struct buf *m)
{
	buf_put_c(m, 'Q');
	buf_u32(m, 4000);
	buf_put_str(m, STR(EVIL "\0"));
}

static void
function_call(struct buf *m)
{
	msg(m, 'F', STR("\0\0\x03\xc4\0\0\0\0\0\0"));
}

static void
query_in_sync(struct buf *m)
{
	extended(m, "SELECT 1", "");
	query(m, EVIL);
	msg(m, 'S', STR_NONE);
}

static void
copy_data(struct buf *m)
{
	msg(m, 'd', STR("1\n"));
	query(m, EVIL);
}

static void
terminate_then_query(struct buf *m)
{
	msg(m, 'X', STR_NONE);
	query(m, EVIL);
}

static void
parse_nul_text(struct buf *m)
{
	msg(m, 'P', STR("\0SELECT 1\0" EVIL "\0\0\0"));
	msg(m, 'S', STR_NONE);
}

static void
bind_trailing(struct buf *m)
{
	extended(m, "SELECT 1", "");
	m->p[m->n - 1] = 1;
	msg(m, 'B', STR("\0\0\0\0\0\0\0\0" EVIL));
	msg(m, 'S', STR_NONE);
}

static void
plain(struct buf *m)
{
	query(m, "SELECT 1");
}

static void
copy_in(struct buf *m)
{
	query(m, "COPY t FROM STDIN");
}

static void
copy_in_slow(struct buf *m)
{
	query(m, "COPY slow FROM STDIN");
}

/* --- COPY data, which goes to upstream without core ---------------------------------- */

static void
fu_copy(uint64_t act_id, uint8_t how, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_u64(&b, st.conn);
	buf_u64(&b, act_id);
	buf_u8(&b, how);
	buf_lstr(&b, bytes);
	ipc_send(st.upstream, MSG_FU_COPY, &b, NULL, 0);
}

static void
honest_copy(void)
{
	fu_copy(1, 0, STR("100\n"));
	fu_copy(1, 1, STR(""));
}

static void
behind_the_end(void)
{
	honest_copy();
	fu_copy(1, 0, STR("666\n"));
}

static void
two_ends(void)
{
	fu_copy(1, 2, STR("no"));
	fu_copy(1, 1, STR(""));
}

static void
too_much(void)
{
	AUTO_BUF struct buf b = BUF(65536);

	while (b.n + 4 <= b.max)
		buf_put_z(&b, "666\n");
	for (int i = 0; i < 400; i++) /* 25 MiB, more than the sockets of a slow server hold */
		fu_copy(1, 0, buf_str(&b));
	fu_copy(1, 1, STR(""));
}

static void
query_as_data(void)
{
	AUTO_BUF struct buf b = BUF(4096);

	query(&b, "TRUNCATE t");
	fu_copy(1, 0, buf_str(&b));
	fu_copy(1, 1, STR(""));
}

static void
unknown_how(void)
{
	fu_copy(1, 3, STR("666\n"));
}

static void
not_leased(void)
{
	fu_copy(1, 0, STR("666\n"));
	fu_copy(1, 1, STR(""));
}

static void
of_a_later_act(void)
{
	fu_copy(2, 0, STR("666\n"));
	fu_copy(2, 1, STR(""));
}

static void
cancel_of_nobody(void)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, st.conn + 99);
	ipc_send(st.core, MSG_PG_CANCEL, &b, NULL, 0);
}

static const struct {
	const char *name;
	uint8_t kind;
	void (*make)(struct buf *m);
} lies[] = {
    {"an honest read (the control)", 1, plain},
    {"two queries in one message", 1, two_queries},
    {"NUL inside the text", 1, nul_in_query},
    {"a text without its NUL", 1, no_nul},
    {"extended messages called a query", 1, extended_ok_form},
    {"a query called extended", 2, plain},
    {"a portal that was never bound", 2, unbound_portal},
    {"a query behind the Sync", 2, sync_then_query},
    {"a length that is too short", 1, length_short},
    {"a length that is too long", 1, length_long},
    {"a function call", 1, function_call},
    {"a query between extended messages", 2, query_in_sync},
    {"copy data before a query", 1, copy_data},
    {"a query behind Terminate", 1, terminate_then_query},
    {"a second text inside Parse", 2, parse_nul_text},
    {"bytes behind a Bind", 2, bind_trailing},
    {"a kind that does not exist", 9, plain},
    {"another connection's number", 1, plain},
    {"an honest COPY (the control)", 1, copy_in},
    {"COPY data without a COPY", 1, plain},
    {"COPY data of a later exchange", 1, copy_in},
    {"COPY data behind its end", 1, copy_in},
    {"a second end of the data", 1, copy_in},
    {"more COPY data than was asked for", 1, copy_in_slow},
    {"COPY data of an unknown kind", 1, copy_in},
    {"a query as COPY data", 1, copy_in},
    {"a cancel of a connection that is not there", 1, plain},
    {"two acts at once", 1, plain},
    {"a lease of its own to upstream", 1, plain},
};

/* What is sent besides: right behind the act, or when upstream asks for COPY data. */
static const struct {
	const char *name;
	bool asked;
	void (*fn)(void);
} besides[] = {
    {"an honest COPY (the control)", true, honest_copy},
    {"COPY data without a COPY", false, not_leased},
    {"COPY data of a later exchange", true, of_a_later_act},
    {"COPY data behind its end", true, behind_the_end},
    {"a second end of the data", true, two_ends},
    {"more COPY data than was asked for", true, too_much},
    {"COPY data of an unknown kind", true, unknown_how},
    {"a query as COPY data", true, query_as_data},
    {"a cancel of a connection that is not there", false, cancel_of_nobody},
};

static void
beside(bool asked)
{
	for (size_t i = 0; i < ARRAY_LEN(besides); i++)
		if (besides[i].asked == asked && strcmp(besides[i].name, lies[st.lie].name) == 0)
			besides[i].fn();
}

static void
tell_lie(void)
{
	AUTO_BUF struct buf m = BUF(65536);

	lies[st.lie].make(&m);
	if (strcmp(lies[st.lie].name, "a lease of its own to upstream") == 0) {
		/* Not in the message table: ipc_send would refuse, so the frame is written by hand.
		 */
		AUTO_BUF struct buf f = BUF(65536);
		AUTO_BUF struct buf q = BUF(4096);

		buf_u64(&q, st.conn);
		buf_u64(&q, 1);
		buf_u8(&q, 1);
		buf_reset(&m);
		query(&m, EVIL);
		buf_lstr(&q, buf_str(&m));
		buf_u8(&q, 0);
		buf_u64(&q, 0);
		buf_u8(&q, 0);
		for (int i = 0; i < 5; i++)
			buf_lz(&q, "");
		buf_u32(&f, (uint32_t)q.n);
		buf_u16(&f, MSG_U_SEND);
		buf_u16(&f, 0);
		buf_put_str(&f, buf_str(&q));
		(void)!send(ipc_fd(st.upstream), f.p, f.n, MSG_NOSIGNAL);
		usleep(300000);
		answer("sent to upstream");
		return;
	}
	act(strcmp(lies[st.lie].name, "another connection's number") == 0 ? st.conn + 99 : st.conn,
	    1, lies[st.lie].kind, buf_str(&m));
	beside(false);
	if (strcmp(lies[st.lie].name, "two acts at once") == 0) {
		buf_reset(&m);
		query(&m, EVIL);
		act(st.conn, 2, 1, buf_str(&m));
	}
}

static int
on_core(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds,
    size_t nfds UNUSED, struct err *err UNUSED)
{
	struct str state;
	char text[300];

	if (type == MSG_F_LISTEN) {
		st.listener_id = rd_u32(body);
		st.listener = fds[0];
		fds[0] = -1;
		return 0;
	}
	if (type == MSG_PG_OPENED) {
		tell_lie();
		return 0;
	}
	if (type == MSG_PG_REFUSED) {
		(void)rd_u64(body);
		(void)rd_u64(body);
		(void)rd_u8(body);
		state = rd_lstr(body);
		(void)snprintf(text, sizeof(text), "refused %.*s", STR_ARG(state));
		answer(text);
	} else if (type == MSG_PG_DONE) {
		answer("done");
	} else if (type == MSG_PG_GONE) {
		answer("gone");
	}
	return 0;
}

static void
on_core_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
	st.core = NULL;
	answer("wire ended");
	if (st.listener >= 0)
		(void)close(st.listener);
	st.listener = -1;
	proc_wire_lost(IPC_ROLE_CORE);
}

static int
on_upstream(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err UNUSED)
{
	if (type != MSG_UF_COPY || rd_u64(body) != st.conn)
		return 0;
	(void)rd_u64(body);
	if (rd_u8(body) == 1)
		beside(true);
	return 0;
}

static void
on_upstream_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
	st.upstream = NULL;
	proc_wire_lost(IPC_ROLE_UPSTREAM);
}

static void
on_client(void *arg UNUSED)
{
	AUTO_BUF struct buf b = BUF(4096);
	unsigned char c;
	int fd;

	(void)loop_timer_add(st.loop, 20, on_client, NULL);
	if (st.client >= 0 && ++st.ticks > 100)
		answer("ignored");
	if (st.listener < 0 || st.core == NULL || st.client >= 0)
		return;
	fd = accept4(st.listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	if (recv(fd, &c, 1, 0) != 1 || c >= ARRAY_LEN(lies)) {
		(void)close(fd);
		return;
	}
	st.client = fd;
	st.ticks = 0;
	st.lie = c;
	st.conn++;
	buf_u64(&b, st.conn);
	buf_u32(&b, st.listener_id);
	buf_u32(&b, 196608);
	buf_u32(&b, 1);
	buf_lz(&b, "user");
	buf_lz(&b, "liar");
	ipc_send(st.core, MSG_PG_OPEN, &b, NULL, 0);
}

static int
on_wire(void *arg UNUSED, enum ipc_role peer, struct str run UNUSED, int fd, struct err *err UNUSED)
{
	if (peer == IPC_ROLE_CORE) {
		ipc_free(st.core);
		st.core = ipc_new(st.loop, fd, IPC_ROLE_FRONT, peer, on_core, on_core_gone, NULL);
	} else {
		ipc_free(st.upstream);
		st.upstream =
		    ipc_new(st.loop, fd, IPC_ROLE_FRONT, peer, on_upstream, on_upstream_gone, NULL);
	}
	return 0;
}

static int
on_serve(void *arg UNUSED, struct err *err UNUSED)
{
	(void)loop_timer_add(st.loop, 20, on_client, NULL);
	return 0;
}

int
main(int argc, char **argv)
{
	static const char *const calls[] = {
	    "accept4", "recvfrom", "sendto", "setsockopt", "getsockopt", NULL};
	static const struct proc_ops ops = {.self = IPC_ROLE_FRONT,
	    .name = "front",
	    .wire = on_wire,
	    .serve = on_serve,
	    .syscalls = calls};

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < ARRAY_LEN(lies); i++)
			(void)printf("%s\n", lies[i].name);
		return 0;
	}
	st.loop = loop_new();
	return proc_main(&ops, st.loop, NULL);
}
