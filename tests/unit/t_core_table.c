/* The request table of core: what is not in it, out of state, twice or too large ends that peer. */
#include "tests/unit/core_help.h"

#include "broker/core_table.h"
#include "common/banned.h"

static const struct {
	uint16_t type;
	enum ipc_role from, to;
	size_t max;
} wire_table[] = {
#define X(name, id, f, t, m, n) {(id), IPC_ROLE_##f, IPC_ROLE_##t, (m)},
#include "common/ipc_msg.tbl"
#undef X
};

static void
every_message_to_core_has_one_row_within_the_wires_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire_table); i++) {
		size_t rows = 0;

		if (wire_table[i].to != IPC_ROLE_CORE)
			continue;
		for (size_t k = 0; k < core_table_rows; k++) {
			if (core_table[k].type != wire_table[i].type)
				continue;
			rows++;
			assert_int_equal(core_table[k].from, wire_table[i].from);
			assert_true(core_table[k].limit <= wire_table[i].max);
			assert_true(core_table[k].states != 0);
		}
		if (rows != 1)
			fail_msg("%s has %zu rows", ipc_msg_name(wire_table[i].type), rows);
	}
}

static int
dispatch(struct core_peer *p, uint16_t type, struct str body)
{
	struct rd r = rd_init(body);
	struct err err;

	return core_table_dispatch(p, NULL, type, &r, NULL, 0, &err);
}

static void
a_message_of_another_peer_is_refused(void **state)
{
	struct world *w = *state;

	/* Front may not speak for the writer, nor upstream for front. */
	assert_int_equal(dispatch(w->c->front, MSG_W_ACK, STR("")), ERR_PROTOCOL);
	assert_int_equal(dispatch(w->c->upstream, MSG_PG_ACT, STR("")), ERR_PROTOCOL);
	assert_int_equal(dispatch(w->c->front, MSG_Q_CALL, STR("")), ERR_PROTOCOL);
}

static void
a_message_out_of_state_is_refused(void **state)
{
	struct world *w = *state;
	struct core_peer agent = {.core = w->c, .role = IPC_ROLE_AGENT, .state = CORE_S_NEW};

	assert_int_equal(
	    dispatch(w->c->writer, MSG_W_LIVE, STR("")), ERR_STATE); /* it is live already */
	assert_int_equal(dispatch(&agent, MSG_A_EVENT, STR("")), ERR_STATE);
	assert_int_equal(dispatch(&agent, MSG_A_START, STR("")), ERR_STATE);
}

static void
a_message_that_may_come_once_comes_once(void **state)
{
	struct world *w = *state;
	struct core_peer parent = {.core = w->c, .role = IPC_ROLE_PARENT, .state = CORE_S_OPEN};

	assert_int_equal(dispatch(&parent, MSG_K_KEPT_END, STR("")), 0);
	assert_int_equal(dispatch(&parent, MSG_K_KEPT_END, STR("")), ERR_PROTOCOL);
}

static void
a_message_over_its_limit_is_refused(void **state)
{
	struct world *w = *state;
	char big[257] = {0};

	assert_int_equal(
	    dispatch(w->c->writer, MSG_W_ACK, str_mem(big, sizeof(big))), ERR_TOO_LARGE);
	assert_int_equal(dispatch(w->c->writer, MSG_W_ACK, str_mem(big, 88)),
	    ERR_PROTOCOL); /* a ticket that is not waiting */
}

static void
trailing_bytes_are_refused_everywhere(void **state)
{
	struct world *w = *state;
	char zeros[64] = {0};

	/* A lying front ends its own wire, not core. */
	client_ready(w, 1);
	assert_int_equal(dispatch(w->c->front, MSG_PG_CLOSE, str_mem(zeros, 9)), ERR_PROTOCOL);
	assert_int_equal(dispatch(w->c->front, MSG_PG_ACT, str_mem(zeros, 22)), ERR_PROTOCOL);
	assert_int_equal(dispatch(w->c->upstream, MSG_U_DONE, str_mem(zeros, 60)), ERR_PROTOCOL);
	assert_non_null(core_pg_find(w->c, 1));
}

static void
a_front_that_breaks_the_rules_loses_its_wire_and_its_connections(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(256);

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	buf_u64(&b, 1);
	buf_u64(&b, 6);
	buf_u8(&b, 1);
	buf_lz(&b, "");
	say(&w->front, MSG_PG_ACT, &b); /* while one is in flight */
	settle(w);
	assert_null(w->c->front);
	assert_null(core_pg_find(w->c, 1));
	(void)heard(&w->upstream, MSG_U_CLOSE);
	assert_int_equal(count(w, "outcome"), 2); /* of the connect, and "lost" of the read */
	world_wire(w, &w->front, IPC_ROLE_FRONT, "");
	w->run->targets[0].listener = 1;
	client_ready(w, 1); /* the next front may use the number again */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_message_to_core_has_one_row_within_the_wires_limit),
	    world_test(a_message_of_another_peer_is_refused),
	    world_test(a_message_out_of_state_is_refused),
	    world_test(a_message_that_may_come_once_comes_once),
	    world_test(a_message_over_its_limit_is_refused),
	    world_test(trailing_bytes_are_refused_everywhere),
	    world_test(a_front_that_breaks_the_rules_loses_its_wire_and_its_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
