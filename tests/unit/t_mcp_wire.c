/*
 * The hub's end of a wire to a worker or a job that reads slowly.
 */
#include "agent/mcp_wire.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/xalloc.h"
#include "tests/unit/policy_help.h"

#include "common/banned.h"

#define LARGE (MCP_WIRE_MAX / 5 * 3)

static void
on_frame(void *arg UNUSED, enum mcp_frame type UNUSED, struct str body UNUSED)
{
	fail_msg("nothing was said to it");
}

/* Of what was sent to it; false: the wire has ended. */
static bool
some_read(int fd, size_t *n)
{
	static uint8_t room[1 << 20];
	ssize_t k = recv(fd, room, sizeof(room), MSG_DONTWAIT);

	*n += k > 0 ? (size_t)k : 0;
	return k != 0;
}

/* With what it has read by then it would be more than a wire holds. */
static void
what_a_slow_reader_has_read_does_not_count(void **state UNUSED)
{
	struct loop *loop = loop_new();
	AUTO_FREE char *large = xcalloc(1, LARGE);
	struct mcp_wire *w;
	size_t n = 0, sent = 2 * (LARGE + 5);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w = mcp_wire_new(loop, pair[0], on_frame, NULL);
	mcp_wire_send(w, MCP_F_SEND, str_mem(large, LARGE));
	while (n < LARGE / 2) {
		assert_true(some_read(pair[1], &n));
		mcp_wire_send(w, MCP_F_SEND, STR(""));
		sent += 5;
	}
	mcp_wire_send(w, MCP_F_SEND, str_mem(large, LARGE));
	while (n < sent) {
		assert_true(some_read(pair[1], &n));
		mcp_wire_send(w, MCP_F_SEND, STR(""));
		sent += 5;
		if (n + LARGE / 4 > sent)
			break;
	}
	mcp_wire_free(w);
	(void)close(pair[1]);
	loop_free(loop);
}

static void
what_nobody_reads_ends_the_wire(void **state UNUSED)
{
	struct loop *loop = loop_new();
	AUTO_FREE char *large = xcalloc(1, LARGE);
	struct mcp_wire *w;
	size_t n = 0;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w = mcp_wire_new(loop, pair[0], on_frame, NULL);
	mcp_wire_send(w, MCP_F_SEND, str_mem(large, LARGE));
	mcp_wire_send(w, MCP_F_SEND, str_mem(large, LARGE));
	while (some_read(pair[1], &n))
		continue;
	assert_true(n < LARGE);
	mcp_wire_free(w);
	(void)close(pair[1]);
	loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_slow_reader_has_read_does_not_count),
	    cmocka_unit_test(what_nobody_reads_ends_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
