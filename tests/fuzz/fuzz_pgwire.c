/*
 * Fuzzes what reads PostgreSQL bytes. The first byte chooses: 0 start-up packets, 1 a client's
 * messages, 2 a server's messages against what is owed for a client's, 3 SCRAM from a server.
 * What is accepted must be whole, within its limits and survive being followed in pieces.
 */
#include <assert.h>

#include "broker/upstream_plan.h"
#include "broker/upstream_scram.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
startup(struct str s)
{
	struct pgwire_startup st;
	struct err err = {0};
	int n = pgwire_startup_parse(s, &st, &err);

	assert(n <= PGWIRE_STARTUP_MAX && (n <= 0 || (size_t)n <= s.n));
	if (n < 0) {
		assert(err.code == n && err.msg[0] != '\0');
		return;
	}
	assert((n > 0) == (st.kind != PGWIRE_STARTUP_NONE));
	for (size_t i = 0; i < st.n; i++) {
		assert(st.params[i].key.n != 0);
		assert(memchr(st.params[i].key.p, 0, st.params[i].key.n) == NULL);
		assert(st.params[i].value.p + st.params[i].value.n < s.p + n);
	}
	/* What was read builds the same parameters again. */
	if (st.kind == PGWIRE_STARTUP_V3 && st.noptions == 0) {
		AUTO_BUF struct buf b = BUF(PGWIRE_STARTUP_MAX + 100);
		struct pgwire_startup again;

		pgwire_put_startup(&b, st.params, st.n);
		assert(pgwire_startup_parse(buf_str(&b), &again, &err) == n && again.n == st.n);
	}
}

static void
client(struct str s)
{
	struct upstream_plan plan = {0};
	struct pgwire_track t = {0};
	struct pgwire_msg m;
	struct err err = {0};

	while (pgwire_next(s, PGWIRE_MESSAGE_MAX, &m, &err) == 1) {
		assert(m.whole.n <= s.n && m.body.n + 5 == m.whole.n);
		for (size_t i = 0; i < m.whole.n; i++) {
			assert(i == 0 || !pgwire_track_boundary(&t));
			assert(pgwire_track_add(&t, str_mem(m.whole.p + i, 1)));
		}
		assert(pgwire_track_boundary(&t));
		if (pgwire_check_frontend(&m, &err) == 0) {
			if (m.type == 'Q')
				assert(memchr(m.body.p, 0, m.body.n) == m.body.p + m.body.n - 1);
			(void)upstream_plan_add(&plan, m.whole, &err);
		}
		s.p += m.whole.n;
		s.n -= m.whole.n;
	}
	assert(plan.n <= UPSTREAM_PLAN_MAX);
}

/* Up to the first byte 0xff the client's types, then the server's. */
static void
server(struct str s)
{
	AUTO_BUF struct buf sent = BUF(1 << 20);
	struct upstream_plan plan = {0};
	struct pgwire_error e;
	struct err err = {0};
	size_t at = 0;

	for (; at < s.n && (uint8_t)s.p[at] != 0xff; at++) {
		buf_put_c(&sent, "QPBDECSHF"[(uint8_t)s.p[at] % 9]);
		buf_u32(&sent, 5);
		buf_put_c(&sent, s.p[at] < 0 ? 'S' : 'P');
	}
	if (upstream_plan_add(&plan, buf_str(&sent), &err) != 0)
		assert(plan.n == UPSTREAM_PLAN_MAX);
	for (; at < s.n; at++) {
		uint16_t before = plan.at;
		enum upstream_step step = upstream_plan_step(&plan, s.p[at]);

		assert(plan.at >= before && plan.at <= plan.n);
		assert(step != UPSTREAM_STEP_BAD || plan.at == before);
		assert(!plan.skip || upstream_plan_done(&plan));
	}
	if (pgwire_error_parse(s, &e, &err) == 0) {
		AUTO_BUF struct buf b = BUF(s.n * 2 + 100);

		pgwire_put_error(&b, "ERROR", &e);
		assert(!buf_over(&b));
		assert(pgwire_error_parse(str_mem(b.p + 5, b.n - 5), &e, &err) == 0);
	}
}

static void
scram(struct str s)
{
	AUTO(upstream_scram) struct upstream_scram *c = NULL;
	AUTO_BUF struct buf out = BUF(1 << 16);
	const char *mechanism = NULL;
	struct str first;
	struct err err = {0};

	if (upstream_scram_new(
		secret_copy(STR("pencil")), STR("user"), "rOprNGfwEbeRWgbNEkqO", &c, &err) != 0)
		abort();
	if (!str_cut(&s, '\n', &first) ||
	    upstream_scram_first(c, first, STR("hash"), &mechanism, &out, &err) != 0)
		return;
	if (!str_cut(&s, '\n', &first) || upstream_scram_continue(c, first, &out, &err) != 0)
		return;
	/* Nobody without the password can make this signature. */
	if (upstream_scram_finish(c, s, &err) == 0)
		assert(str_has_prefix(s, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const targets[])(struct str) = {startup, client, server, scram};

	if (size == 0)
		return 0;
	targets[data[0] % ARRAY_LEN(targets)](str_mem(data + 1, size - 1));
	return 0;
}
