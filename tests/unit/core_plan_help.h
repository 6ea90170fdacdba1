/* A run that opens, and the plan that it is given, in the world of core_http_help.h. */
#ifndef TESTS_UNIT_CORE_PLAN_HELP_H
#define TESTS_UNIT_CORE_PLAN_HELP_H

#include "tests/unit/ca_help.h"
#include "tests/unit/core_http_help.h"

#include "broker/core_ca.h"
#include "broker/core_plan.h"

struct entry {
	struct str target, kind, host, address;
	uint32_t port;
	uint8_t listen;
};
struct plan {
	struct str run;
	uint32_t n, nenv;
	struct entry e[16];
	struct str name[4], value[4];
	uint32_t nmodels;
	struct str model[2][4]; /* target, provider, URL, placeholder */
};

static inline void
opens(struct world *w, const char *target, uint8_t loop)
{
	AUTO_BUF struct buf b = BUF(65536);

	if (w->c->ca == NULL) {
		AUTO_BUF struct buf key = BUF(8192);
		AUTO_BUF struct buf cert = BUF(8192);
		struct err err;

		ca_make(&key, &cert);
		assert_int_equal(core_ca_load(buf_str(&key), buf_str(&cert), &w->c->ca, &err), 0);
	}
	end_close(&w->agent);
	(void)core_peer_new(w->c, IPC_ROLE_AGENT, end_open(&w->agent, IPC_ROLE_AGENT), getuid());
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, "tester");
	buf_lz(&b, "task");
	buf_lz(&b, ""); /* parent */
	buf_u32(&b, target != NULL ? 1 : 0);
	if (target != NULL)
		buf_lz(&b, target);
	buf_u32(&b, 0); /* effects */
	buf_lz(&b, ""); /* budget */
	buf_lz(&b, "{}");
	buf_u8(&b, loop);
	say(&w->agent, MSG_A_OPEN, &b);
	settle(w);
}

static inline struct plan
planned(struct world *w)
{
	struct rd r = heard(&w->agent, MSG_A_PLAN);
	struct plan p = {.run = rd_lstr(&r)};

	(void)rd_lstr(&r); /* owner */
	(void)rd_lstr(&r); /* CA */
	p.n = rd_u32(&r);
	assert_in_range(p.n, 0, ARRAY_LEN(p.e));
	for (uint32_t i = 0; i < p.n; i++) {
		struct entry *e = &p.e[i];

		e->target = rd_lstr(&r);
		e->kind = rd_lstr(&r);
		e->host = rd_lstr(&r);
		e->port = rd_u32(&r);
		e->address = rd_lstr(&r);
		(void)rd_lstr(&r); /* database */
		(void)rd_lstr(&r); /* user */
		e->listen = rd_u8(&r);
	}
	p.nenv = rd_u32(&r);
	for (uint32_t i = 0; i < p.nenv && i < ARRAY_LEN(p.name); i++) {
		p.name[i] = rd_lstr(&r);
		p.value[i] = rd_lstr(&r);
	}
	(void)rd_lstr(&r); /* the policy in words */
	p.nmodels = rd_u32(&r);
	for (uint32_t i = 0; i < p.nmodels && i < ARRAY_LEN(p.model); i++)
		for (size_t k = 0; k < ARRAY_LEN(p.model[0]); k++)
			p.model[i][k] = rd_lstr(&r);
	assert_true(rd_end(&r));
	return p;
}

static inline const struct entry *
entry(const struct plan *p, const char *target, const char *kind)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (str_eqz(p->e[i].target, target) && str_eqz(p->e[i].kind, kind))
			return &p->e[i];
	return NULL;
}

static inline void
assert_refused(struct world *w, int code, const char *part)
{
	struct rd r = heard(&w->agent, MSG_A_ERROR);
	struct str text;

	assert_int_equal(rd_u32(&r), -code);
	text = rd_lstr(&r);
	if (!has(text, part))
		fail_msg("\"%.*s\" does not say \"%s\"", STR_ARG(text), part);
}

#endif
