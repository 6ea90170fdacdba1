/*
 * Asking for a freeze, an exception, a break-glass, and showing what there is to sign (process:
 * core). Asking changes nothing: it makes a record, so that what is signed names the state of the
 * log.
 */
#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_lift.h"
#include "broker/core_peer.h"
#include "broker/core_run.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- answers ----------------------------------------------------------------------- */

void
core_lift_reply(struct core *c, uint64_t peer, struct core_lift *l)
{
	AUTO_BUF struct buf b = BUF(65536);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	core_lift_data_show(&j, "object", l);
	jcs_close(&j);
	core_control_reply(c, peer, 0, buf_str(&b));
}

struct core_lift *
core_lift_named(const struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "id"));
	struct core_lift *l = core_lift_find(call->core, id);

	if (l == NULL)
		(void)err_set(err, ERR_NOT_FOUND,
		    "there is no freeze, exception or break-glass \"%.*s\"", STR_ARG(id));
	return l;
}

static bool
is_missing(const struct policy_slot *open, size_t n, struct str role)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(open[i].role, role))
			return true;
	return false;
}

/* Roles that this person could sign for, one that is missing first: the command line takes that. */
static void
put_roles(struct jcs *j, struct core_lift *l, struct str person, enum lift_decision d)
{
	const struct policy *p = l->core->policy;
	const struct policy_person *q = p != NULL ? policy_person(p, person) : NULL;
	struct policy_slot open[POLICY_SLOTS_MAX];
	struct core_lift_words w;
	struct lift x = core_lift_of(l, &w);
	size_t n = 0;

	if (l->kind != LIFT_KIND_EXCEPTION || !core_lift_missing(l, STR(""), open, &n))
		n = 0;
	jcs_array(j, "roles");
	if (q != NULL && lift_role_fits(p, &x, d, q, STR("any")))
		jcs_z(j, NULL, "any");
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; q != NULL && i < q->nroles; i++)
			if (is_missing(open, n, q->roles[i]) == (pass == 0) &&
			    lift_role_fits(p, &x, d, q, q->roles[i]))
				jcs_str(j, NULL, q->roles[i]);
	jcs_array_end(j);
}

/* All that a statement says, so that the person's own machine can build and sign it. */
int
core_lift_verb_show(struct core_call *call, struct err *err)
{
	struct core_lift *l = core_lift_named(call, err);
	struct str decision = json_str(json_get(call->args, "decision"));
	struct jcs *j = &call->j;
	struct core_lift_words w;
	struct lift x;

	if (l == NULL)
		return err->code;
	x = core_lift_of(l, &w);
	jcs_str(j, "broker", x.broker);
	jcs_int(j, "effect_bits", x.effects);
	jcs_int(j, "from_us", x.from_us);
	jcs_str(j, "log_head", x.log_head);
	core_lift_data_show(j, "object", l);
	jcs_str(j, "policy", x.policy);
	put_roles(
	    j, l, json_str(json_get(call->args, "person")), lift_decision_parse(l->kind, decision));
	jcs_int(j, "sign_by_us", x.sign_by_us);
	jcs_int(j, "to_us", x.to_us);
	return 0;
}

/* --- asking ------------------------------------------------------------------------ */

static char *
arg_dup(const struct core_call *call, const char *key)
{
	return str_dup(json_str(json_get(call->args, key)));
}

static void
request_acked(void *arg, const struct core_ack *ack)
{
	struct core_lift *l = arg;
	struct core *c = l->core;
	AUTO_BUF struct buf root = BUF(64);
	unsigned long long size = ack->seq + 1;

	l->ticket_request = NULL;
	if (ack->code != 0) {
		core_control_reply(c, l->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: nothing can be signed"));
		core_lift_free(l);
		return;
	}
	enc_base64(&root, str_mem(ack->root.b, HASH_LEN));
	free(l->log_head);
	l->log_head = xasprintf("%s %llu %.*s", c->origin, size, STR_ARG(buf_str(&root)));
	l->state = CORE_LIFT_ASKED;
	l->checked = true;
	core_lift_timer(l);
	core_lift_reply(c, l->peer, l);
}

static int
effects_read(struct str text, uint32_t *ret, struct err *err)
{
	struct str word;

	*ret = 0;
	while (text.n != 0) {
		uint32_t e;

		if (!str_cut(&text, ' ', &word)) {
			word = text;
			text = STR("");
		}
		e = effect_parse(word);
		if (e == 0)
			return err_set(err, ERR_INVALID, "\"%.*s\" is no effect", STR_ARG(word));
		*ret |= e;
	}
	return 0;
}

static void
asked_by(const struct core_call *call, struct core_lift *l)
{
	const struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	const char *login = p != NULL ? core_peer_login(p) : NULL;

	l->by = login != NULL ? xstrdup(login) : xasprintf("uid %u", p != NULL ? p->uid : 0);
}

static int
fill(const struct core_call *call, struct core_lift *l, struct err *err)
{
	AUTO_BUF struct buf id = BUF(CORE_ID_SIZE);
	const int64_t second = 1000000;
	uint8_t r[16];

	rand_bytes(r, sizeof(r));
	enc_base32(&id, str_mem(r, sizeof(r)));
	memcpy(l->id, id.p, id.n);
	l->policy = *policy_digest(call->core->policy);
	l->rule = arg_dup(call, "rule");
	l->target = arg_dup(call, "target");
	l->env = arg_dup(call, "env");
	l->run = arg_dup(call, "run");
	l->ticket = arg_dup(call, "ticket");
	l->reason = arg_dup(call, "reason");
	l->log_head = xstrdup("");
	asked_by(call, l);
	l->from_us = json_int(json_get(call->args, "from_us")) / second * second;
	l->to_us = json_int(json_get(call->args, "to_us")) / second * second;
	l->seconds = json_int(json_get(call->args, "seconds"));
	l->uses = json_int(json_get(call->args, "uses"));
	l->sign_by_us = l->kind == LIFT_KIND_EXCEPTION
			    ? l->to_us
			    : (clock_wall_us() / second + LIFT_ASK_S) * second;
	return effects_read(json_str(json_get(call->args, "effects")), &l->effects, err);
}

/* What its kind does not have must not have been said: nobody would see it in what is signed. */
static int
only_its_own(const struct core_lift *l, struct err *err)
{
	bool glass = l->kind == LIFT_KIND_BREAKGLASS, freeze = l->kind == LIFT_KIND_FREEZE;
	const struct {
		const char *what;
		bool said, may;
	} all[] = {
	    {"rule", l->rule[0] != '\0', !glass && !freeze},
	    {"env", l->env[0] != '\0', freeze},
	    {"run", l->run[0] != '\0', !freeze},
	    {"ticket", l->ticket[0] != '\0', !glass && !freeze},
	    {"from or to", l->from_us != 0 || l->to_us != 0, !glass && !freeze},
	    {"uses", l->uses != 0, !glass && !freeze},
	    {"seconds", l->seconds != 0, glass},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].said && !all[i].may)
			return err_set(err, ERR_INVALID, "a %s has no %s", lift_kind_name(l->kind),
			    all[i].what);
	return 0;
}

/* One that waits for signatures, asked for by `by` (NULL: by anybody) the longest ago. */
static struct core_lift *
oldest_asked(const struct core *c, enum lift_kind k, const char *by)
{
	struct core_lift *o;

	TAILQ_FOREACH (o, &c->lifts, link)
		if (o->kind == k && o->state == CORE_LIFT_ASKED && !o->busy &&
		    (by == NULL || strcmp(o->by, by) == 0))
			return o;
	return NULL;
}

/*
 * Who asks for a freeze or for break-glass signs it in the same breath, so one that still waits was
 * given up: it makes room. Nothing that was begun and left may keep the stop button from working.
 */
static bool
make_room(const struct core *c, const struct core_lift *l)
{
	struct core_lift *o = oldest_asked(c, l->kind, l->by);

	if (l->kind == LIFT_KIND_EXCEPTION)
		return false;
	if (o == NULL)
		o = oldest_asked(c, l->kind, NULL);
	if (o == NULL)
		return false;
	core_lift_end(o, "never signed: another took its place");
	return true;
}

static int
too_many(const struct core *c, const struct core_lift *l, struct err *err)
{
	const struct core_lift *o;
	int all = 0, mine = 0;

	TAILQ_FOREACH (o, &c->lifts, link)
		if (o != l && o->kind == l->kind && o->state <= CORE_LIFT_ASKED) {
			all++;
			mine += strcmp(o->by, l->by) == 0;
		}
	if ((mine >= CORE_LIFT_ASKED_BY_MAX || all >= CORE_LIFT_ASKED_MAX) && !make_room(c, l))
		return err_set(err, ERR_TOO_LARGE,
		    "%d of a kind wait for signatures, %d asked for by %s: the limits are %d and "
		    "%d; sign or revoke some",
		    all, mine, l->by, CORE_LIFT_ASKED_MAX, CORE_LIFT_ASKED_BY_MAX);
	return 0;
}

static int
may_ask(const struct core *c, const struct core_lift *l, struct err *err)
{
	struct core_lift_words w;
	struct lift x = core_lift_of(l, &w);
	int rc = only_its_own(l, err);

	if (rc == 0)
		rc = lift_check(&x, c->policy, clock_wall_us(), err);
	if (rc == 0 && x.run.n != 0 && core_run_find(c, x.run) == NULL)
		rc = err_set(err, ERR_NOT_FOUND,
		    "there is no run %.*s now: nothing would be lifted", STR_ARG(x.run));
	return rc == 0 ? too_many(c, l, err) : rc;
}

int
core_lift_verb_request(struct core_call *call, struct err *err)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct core *c = call->core;
	struct core_lift *l;
	enum lift_kind kind;
	char type[32];
	int rc;

	if (c->policy == NULL)
		return err_set(err, ERR_STATE, "no policy is active");
	if (!lift_kind_parse(json_str(json_get(call->args, "kind")), &kind))
		return err_set(err, ERR_INVALID, "kind must be freeze, exception or breakglass");
	l = core_lift_alloc(c, kind);
	rc = fill(call, l, err);
	if (rc == 0)
		rc = may_ask(c, l, err);
	if (rc == 0) {
		core_lift_data_request(&b, l);
		l->peer = call->peer;
		l->ticket_request =
		    core_record(c, &(struct core_append){.type = core_lift_type(l, "request", type),
				       .src = "human",
				       .flags = CORE_REC_ROOT,
				       .data = &b,
				       .fn = request_acked,
				       .arg = l});
		if (l->ticket_request == NULL)
			rc = err_set(err, ERR_UNAVAILABLE,
			    "the decision log is not available now, try again");
	}
	if (rc == 0)
		return CORE_CALL_LATER;
	core_lift_free(l);
	return rc;
}
