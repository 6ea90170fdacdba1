/*
 * Reads what a run may reach from the broker's messages. Runs in cofferdam-agent; the broker is
 * trusted for its form no more than any peer.
 */
#include "agent/agent_broker_plan.h"

#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

static bool
target_take(struct rd *r, struct broker_target *t)
{
	uint32_t port;
	uint8_t listen;

	t->target = str_dup(rd_lstr(r));
	t->kind = str_dup(rd_lstr(r));
	t->host = str_dup(rd_lstr(r));
	port = rd_u32(r);
	t->port = (uint16_t)(port <= 65535 ? port : 0);
	t->address = str_dup(rd_lstr(r));
	t->database = str_dup(rd_lstr(r));
	t->user = str_dup(rd_lstr(r));
	listen = rd_u8(r);
	t->listen = (enum broker_listen)listen;
	return listen <= BROKER_LISTEN_LOOP;
}

void
broker_plan_drop(struct broker_plan *p)
{
	for (size_t i = 0; i < p->ntargets; i++) {
		struct broker_target *t = &p->targets[i];

		free(t->target);
		free(t->kind);
		free(t->host);
		free(t->address);
		free(t->database);
		free(t->user);
	}
	for (size_t i = 0; i < p->nenv; i++) {
		free(p->env[i].name);
		free(p->env[i].value);
	}
	p->ntargets = p->nenv = 0;
}

int
broker_targets_take(struct rd *r, bool numbered, struct broker_plan *p, struct err *err)
{
	uint32_t n = rd_u32(r);
	bool ok = true;

	if (n > BROKER_TARGETS_MAX)
		return err_set(
		    err, ERR_PROTOCOL, "broker: %u targets, limit %d", n, BROKER_TARGETS_MAX);
	for (p->ntargets = 0; p->ntargets < n; p->ntargets++) {
		struct broker_target *t = &p->targets[p->ntargets];

		t->index = numbered ? rd_u32(r) : (uint32_t)p->ntargets;
		t->fresh = numbered ? rd_u8(r) == 1 : true;
		ok = target_take(r, t) && ok;
	}
	n = rd_u32(r);
	if (n > BROKER_TARGETS_MAX)
		return err_set(
		    err, ERR_PROTOCOL, "broker: %u variables, limit %d", n, BROKER_TARGETS_MAX);
	for (p->nenv = 0; p->nenv < n; p->nenv++) {
		p->env[p->nenv].name = str_dup(rd_lstr(r));
		p->env[p->nenv].value = str_dup(rd_lstr(r));
	}
	return !r->bad && ok ? 0 : err_set(err, ERR_PROTOCOL, "broker: malformed plan");
}

static int
models_take(struct rd *r, struct broker_plan *p, struct err *err)
{
	uint32_t n = rd_u32(r);

	if (n > BROKER_MODELS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "broker: %u models, limit %d", n, BROKER_MODELS_MAX);
	for (p->nmodels = 0; p->nmodels < n; p->nmodels++) {
		struct broker_model *m = &p->models[p->nmodels];

		m->target = str_dup(rd_lstr(r));
		m->provider = str_dup(rd_lstr(r));
		m->url = str_dup(rd_lstr(r));
		m->key = str_dup(rd_lstr(r));
	}
	return 0;
}

int
broker_plan_take(struct broker_plan *p, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	int rc;

	p->run = str_dup(rd_lstr(&r));
	p->owner = str_dup(rd_lstr(&r));
	p->ca_pem = str_dup(rd_lstr(&r));
	rc = broker_targets_take(&r, false, p, err);
	p->words = str_dup(rd_lstr(&r));
	if (rc == 0)
		rc = models_take(&r, p, err);
	if (rc == 0 && (!rd_end(&r) || p->run[0] == '\0'))
		rc = err_set(err, ERR_PROTOCOL, "broker: malformed plan");
	return rc;
}

void
broker_plan_free(struct broker_plan *p)
{
	broker_plan_drop(p);
	for (size_t i = 0; i < p->nmodels; i++) {
		struct broker_model *m = &p->models[i];

		free(m->target);
		free(m->provider);
		free(m->url);
		free(m->key);
	}
	free(p->run);
	free(p->owner);
	free(p->ca_pem);
	free(p->words);
}

void
broker_plan_swap(struct broker_plan *p, struct broker_plan *next)
{
	broker_plan_drop(p);
	memcpy(p->targets, next->targets, sizeof(p->targets));
	memcpy(p->env, next->env, sizeof(p->env));
	p->ntargets = next->ntargets;
	p->nenv = next->nenv;
	next->ntargets = next->nenv = 0;
}
