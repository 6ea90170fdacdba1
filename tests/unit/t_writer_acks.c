/* Answers that wait: which go out when, and what stands in them. */
#include "audit/writer_acks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"

#include "common/banned.h"

struct wire {
	struct loop *loop;
	struct ipc *core; /* the writer's end */
	int fd;		  /* core's */
};

static int
on_msg(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type UNUSED, struct rd *body UNUSED,
    int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	return err_set(err, ERR_INVALID, "core says nothing here");
}

static void
on_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
}

static int
setup(void **state)
{
	struct wire *w = calloc(1, sizeof(*w));
	int sv[2];

	assert_non_null(w);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	w->loop = loop_new();
	w->core = ipc_new(w->loop, sv[0], IPC_ROLE_WRITER, IPC_ROLE_CORE, on_msg, on_gone, NULL);
	w->fd = sv[1];
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct wire *w = *state;

	ipc_free(w->core);
	loop_free(w->loop);
	(void)close(w->fd);
	free(w);
	return 0;
}

/* The next answer's ticket, or 0: there is none. */
static uint64_t
next(struct wire *w, struct ack *ret, uint64_t *ret_size)
{
	AUTO_BUF struct buf b = BUF(4096);
	int fds[IPC_FDS_MAX];
	size_t nfds = 0;
	uint16_t type;
	struct rd r;

	if (ipc_sync_recv(w->fd, IPC_ROLE_CORE, IPC_ROLE_WRITER, 0, &type, &b, fds, &nfds, NULL) !=
	    0)
		return 0;
	assert_int_equal(type, MSG_W_ACK);
	r = rd_init(buf_str(&b));
	ret->ticket = rd_u64(&r);
	ret->seq = rd_u64(&r);
	*ret_size = rd_u64(&r);
	memcpy(ret->root.b, rd_bytes(&r, HASH_LEN).p, HASH_LEN);
	memcpy(ret->leaf.b, rd_bytes(&r, HASH_LEN).p, HASH_LEN);
	assert_true(rd_end(&r));
	return ret->ticket;
}

static void
what_waits_for_a_signed_head_goes_out_then_and_all_else_before(void **state)
{
	struct wire *w = *state;
	struct acks a = {0};
	struct ack is;
	uint64_t size;

	acks_add(&a, &(struct ack){.ticket = 1, .seq = 7});
	acks_add(&a, &(struct ack){.ticket = 2, .seq = 8, .flags = ACK_CHECKPOINT});
	acks_add(&a, &(struct ack){.ticket = 3, .seq = 9, .flags = ACK_ROOT});
	acks_add(&a, &(struct ack){.ticket = 4, .seq = 10, .flags = ACK_CHECKPOINT | ACK_WITNESS});
	acks_send(&a, w->core, 11, false);
	assert_int_equal(next(w, &is, &size), 1);
	assert_int_equal(is.seq, 7);
	assert_int_equal(size, 11);
	assert_int_equal(next(w, &is, &size), 3);
	assert_int_equal(next(w, &is, &size), 0);
	free(a.p);
}

static void
after_the_signature_they_go_out_and_nothing_twice(void **state)
{
	struct wire *w = *state;
	struct acks a = {0};
	struct ack is;
	uint64_t size;

	acks_add(&a, &(struct ack){.ticket = 1, .seq = 7});
	acks_add(&a, &(struct ack){.ticket = 2, .seq = 8, .flags = ACK_CHECKPOINT});
	acks_send(&a, w->core, 9, true);
	assert_int_equal(next(w, &is, &size), 2);
	assert_int_equal(is.seq, 8);
	assert_int_equal(next(w, &is, &size), 0);
	free(a.p);
}

static void
an_answer_says_what_its_record_is(void **state)
{
	struct wire *w = *state;
	struct acks a = {0};
	struct ack one = {.ticket = UINT64_MAX, .seq = 7, .flags = ACK_ROOT}, is;
	uint64_t size;

	memset(one.root.b, 0x11, HASH_LEN);
	memset(one.leaf.b, 0x22, HASH_LEN);
	acks_add(&a, &one);
	acks_send(&a, w->core, 1000, false);
	assert_true(next(w, &is, &size) == UINT64_MAX);
	assert_true(hash_eq(&is.root, &one.root) && hash_eq(&is.leaf, &one.leaf));
	free(a.p);
}

static void
flags_are_those_of_any_of_them(void **state UNUSED)
{
	struct acks a = {0};

	assert_int_equal(acks_flags(&a), 0);
	acks_add(&a, &(struct ack){.ticket = 1});
	assert_int_equal(acks_flags(&a), 0);
	acks_add(&a, &(struct ack){.ticket = 2, .flags = ACK_CHECKPOINT | ACK_WITNESS});
	acks_add(&a, &(struct ack){.ticket = 3, .flags = ACK_ROOT});
	assert_int_equal(acks_flags(&a), ACK_CHECKPOINT | ACK_ROOT | ACK_WITNESS);
	free(a.p);
}

static void
a_thousand_wait_and_go_out_in_their_order(void **state)
{
	struct wire *w = *state;
	struct acks a = {0};
	struct ack is;
	uint64_t size;

	for (uint64_t i = 1; i <= 1000; i++)
		acks_add(&a, &(struct ack){.ticket = i, .seq = i});
	assert_int_equal(a.n, 1000);
	acks_send(&a, w->core, 1001, false);
	for (uint64_t i = 1; i <= 1000; i++) {
		assert_int_equal(next(w, &is, &size), i);
		(void)loop_turn(w->loop); /* what the socket did not take at once */
	}
	free(a.p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		what_waits_for_a_signed_head_goes_out_then_and_all_else_before, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		after_the_signature_they_go_out_and_nothing_twice, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_answer_says_what_its_record_is, setup, teardown),
	    cmocka_unit_test(flags_are_those_of_any_of_them),
	    cmocka_unit_test_setup_teardown(
		a_thousand_wait_and_go_out_in_their_order, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
