/* The writer's wire to the courier: what is shown, to whom, how much, and what ends it. */
#include "audit/writer_follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "audit/segment.h"
#include "common/xalloc.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

struct fixture {
	char path[64];
	int dir, fd; /* fd: the courier's end */
	struct secret *seed;
	struct signer *signer;
	struct store *store;
	struct loop *loop;
	struct follow *follow;
	int took;
	uint64_t through;
	/* of the last answer */
	uint64_t from, next, size;
	uint32_t n;
	char types[4096];
};

static void
on_took(void *arg, const struct buf *body)
{
	struct fixture *f = arg;
	struct rd r = rd_init(buf_str(body));

	f->took++;
	(void)rd_lstr(&r);
	(void)rd_u64(&r);
	f->through = rd_u64(&r);
}

static void
wire(struct fixture *f)
{
	int sv[2];

	cleanup_close_fd(&f->fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	f->fd = sv[0];
	follow_wire(f->follow, sv[1]);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct store_opts o = {.ballast = 65536, .segment_max = 4096};
	uint8_t pub[32], sk[64];
	struct vkey key;

	assert_non_null(f);
	memcpy(f->path, "/tmp/t_writer_follow.XXXXXX", 28);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->fd = -1;
	f->seed = secret_new(32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	assert_int_equal(vkey_make(STR("o.example"), pub, &key, NULL), 0);
	assert_int_equal(signer_new(f->seed, &key, &f->signer, NULL), 0);
	assert_int_equal(store_open(f->dir, f->signer, &o, &f->store, NULL), 0);
	f->loop = loop_new();
	f->follow = follow_new(f->loop, f->dir, f->store, on_took, f, NULL);
	wire(f);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	follow_free(f->follow);
	loop_free(f->loop);
	store_free(f->store);
	signer_free(f->signer);
	secret_free(f->seed);
	cleanup_close_fd(&f->fd);
	(void)close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

static void
append(struct fixture *f, const char *type, const char *data)
{
	uint64_t seq;

	assert_int_equal(
	    store_append(f->store, type, STR("broker"), STR(""), str_z(data), &seq, NULL, NULL), 0);
}

static void
commit(struct fixture *f)
{
	assert_int_equal(store_commit(f->store, NULL), 0);
	follow_committed(f->follow);
}

static void
send_ask(struct fixture *f, uint32_t reader, uint64_t from, const char *type)
{
	AUTO_BUF struct buf b = BUF(1024);

	buf_u32(&b, reader);
	buf_u64(&b, from);
	buf_u32(&b, 1);
	buf_lz(&b, type);
	assert_int_equal(
	    ipc_sync_send(f->fd, IPC_ROLE_COURIER, IPC_ROLE_WRITER, MSG_W_ASK, &b, NULL, 0, NULL),
	    0);
}

static void
turns(struct fixture *f)
{
	for (int i = 0; i < 20; i++) {
		(void)loop_turn(f->loop);
		(void)usleep(1000);
	}
}

/* An answer that is there now: 0, or the error of the wire. */
static int
answer(struct fixture *f)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 19);
	int fds[IPC_FDS_MAX];
	size_t nfds = 0, at = 0;
	uint16_t type = 0;
	struct rd r;
	int rc;

	turns(f);
	rc =
	    ipc_sync_recv(f->fd, IPC_ROLE_COURIER, IPC_ROLE_WRITER, 0, &type, &b, fds, &nfds, NULL);
	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&b));
	(void)rd_u32(&r);
	f->from = rd_u64(&r);
	f->next = rd_u64(&r);
	f->size = rd_u64(&r);
	f->n = rd_u32(&r);
	f->types[0] = '\0';
	for (uint32_t i = 0; i < f->n; i++) {
		struct str body = rd_lstr(&r);
		struct record rec;

		assert_int_equal(record_parse(body, &rec, NULL), 0);
		if (at + rec.type.n + 32 < sizeof(f->types))
			at += (size_t)snprintf(f->types + at, sizeof(f->types) - at, "%llu:%.*s ",
			    (unsigned long long)rec.seq, STR_ARG(rec.type));
	}
	assert_true(rd_end(&r));
	return 0;
}

static void
only_what_is_durable_and_asked_for_is_shown(void **state)
{
	struct fixture *f = *state;

	append(f, "freeze.sign", "{\"type\":\"a\",\"v\":1}");
	append(f, "action", "{\"x\":\"\\\",\\\"type\\\":\\\"freeze.end\\\",\\\"v\\\":1\"}");
	append(f, "freezer.sign", "{}");
	append(f, "freeze.end", "{}");
	send_ask(f, 0, 0, "freeze.*");
	assert_int_equal(answer(f), 0); /* log.open is there, and is not asked for */
	assert_int_equal(f->n, 0);
	assert_int_equal(f->next, 1);
	send_ask(f, 0, 1, "freeze.*");
	assert_int_not_equal(answer(f), 0); /* queued is not durable */
	wire(f);
	commit(f);
	send_ask(f, 0, 1, "freeze.*");
	assert_int_equal(answer(f), 0);
	assert_string_equal(f->types, "1:freeze.sign 4:freeze.end ");
	assert_int_equal(f->next, 5);
	assert_int_equal(f->size, 5);
	send_ask(f, 0, 1, "freeze.end");
	assert_int_equal(answer(f), 0);
	assert_string_equal(f->types, "4:freeze.end ");
}

static void
who_is_at_the_end_is_answered_when_more_is_durable(void **state)
{
	struct fixture *f = *state;

	send_ask(f, 3, FOLLOW_START, "freeze.*");
	turns(f);
	append(f, "freeze.end", "{}");
	turns(f);
	commit(f);
	assert_int_equal(answer(f), 0);
	assert_int_equal(f->from, 1);
	assert_string_equal(f->types, "1:freeze.end ");
}

static void
a_long_log_comes_in_pieces_over_its_segments(void **state)
{
	struct fixture *f = *state;
	AUTO_FREE char *data = xmalloc(40000);
	uint64_t next = 0, n = 0;
	int pieces = 0;

	(void)snprintf(data, 40000, "{\"x\":\"%039000d\"}", 0);
	for (int i = 0; i < 30; i++) {
		append(f, i % 3 == 0 ? "freeze.end" : "action", data);
		commit(f);
	}
	while (next < store_size(f->store)) {
		send_ask(f, 0, next, "freeze.*");
		assert_int_equal(answer(f), 0);
		assert_int_equal(f->from, next);
		next = f->next;
		n += f->n;
		assert_true(++pieces < 200);
	}
	assert_int_equal(n, 10);
	assert_true(pieces > 10); /* each record is a segment of its own here */
}

static void
readers_do_not_see_each_others_place(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 20; i++)
		append(f, "freeze.end", "{}");
	commit(f);
	send_ask(f, 0, 15, "freeze.*");
	assert_int_equal(answer(f), 0);
	assert_int_equal(f->n, 6);
	send_ask(f, 1, 1, "freeze.*");
	assert_int_equal(answer(f), 0);
	assert_int_equal(f->n, 20);
	send_ask(f, 0, 3, "freeze.*"); /* and back */
	assert_int_equal(answer(f), 0);
	assert_int_equal(f->n, 18);
}

static void
more_than_there_is_is_answered_with_what_there_is(void **state)
{
	struct fixture *f = *state;

	send_ask(f, 0, 1000, "freeze.*");
	assert_int_equal(answer(f), 0);
	assert_int_equal(f->n, 0);
	assert_int_equal(f->size, 1);
	assert_int_equal(f->next, 1000);
}

static void
a_record_that_was_changed_is_not_shown(void **state)
{
	struct fixture *f = *state;
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = -1;
	char name[LOG_NAME_SIZE];

	append(f, "freeze.end", "{\"x\":\"a\"}");
	commit(f);
	log_name(name, 0, LOG_LINES);
	path = xasprintf("%s/seg/%s", f->path, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "{\"bodY", 6, 0), 6);
	send_ask(f, 0, 0, "freeze.*");
	assert_int_not_equal(answer(f), 0);
}

static void
the_wire_ends_when_its_rules_are_broken(void **state)
{
	struct fixture *f = *state;

	send_ask(f, FOLLOW_READERS, 0, "freeze.*");
	assert_int_not_equal(answer(f), 0);
	wire(f);
	send_ask(f, 0, 1, "freeze.*"); /* waits */
	send_ask(f, 0, 0, "freeze.*");
	assert_int_not_equal(answer(f), 0);
	wire(f); /* and a new one serves */
	send_ask(f, 0, 0, "log.*");
	assert_int_equal(answer(f), 0);
	assert_string_equal(f->types, "0:log.open ");
}

static void
send_took(struct fixture *f, uint64_t from, uint64_t through)
{
	AUTO_BUF struct buf b = BUF(1024);

	buf_lz(&b, "siem");
	buf_u64(&b, from);
	buf_u64(&b, through);
	buf_lz(&b, "");
	assert_int_equal(
	    ipc_sync_send(f->fd, IPC_ROLE_COURIER, IPC_ROLE_WRITER, MSG_W_TOOK, &b, NULL, 0, NULL),
	    0);
	turns(f);
}

static void
what_was_taken_is_passed_on_and_told_again(void **state)
{
	struct fixture *f = *state;

	send_took(f, 0, 1);
	assert_int_equal(f->took, 1);
	assert_int_equal(f->through, 1);
	follow_tell(f->follow); /* to a core that has just come */
	assert_int_equal(f->took, 2);
	send_took(f, 0, 2); /* of a record that is not there */
	assert_int_equal(f->took, 2);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(only_what_is_durable_and_asked_for_is_shown),
	    T(who_is_at_the_end_is_answered_when_more_is_durable),
	    T(a_long_log_comes_in_pieces_over_its_segments),
	    T(readers_do_not_see_each_others_place),
	    T(more_than_there_is_is_answered_with_what_there_is),
	    T(a_record_that_was_changed_is_not_shown),
	    T(the_wire_ends_when_its_rules_are_broken),
	    T(what_was_taken_is_passed_on_and_told_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
