/*
 * Cases of the group "approval": who signs what and when, and what happens between. Each is
 * played through the very function that core asks at the moment of use. Runs in
 * `cofferdam policy test` alone; the signatures are taken as verified.
 */
#include <string.h>

#include "cmd/cmd_policy.h"
#include "policy/approval.h"
#include "policy/digest.h"
#include "policy/statement.h"

#include "common/banned.h"

#define SECOND 1000000

struct scenario {
	const struct policy *p;
	const struct json *s; /* the case's "scenario" */
	struct policy_sql sql;
	struct str text;
	struct approval_pending pending;
	struct approval_grant grants[16];
	size_t ngrants;
	struct sig_pubkey revoked;
	size_t nrevoked;
	struct hash action;
	int64_t signed_us, execute_us;
};

static void
scenario_free(struct scenario *s)
{
	policy_sql_free(&s->sql);
}

/* What core would compute for one parameter-less statement, in short. */
static struct hash
action_digest(const struct policy_input *in, struct str sql, struct str param)
{
	AUTO_BUF struct buf effects = BUF(256);
	AUTO_BUF struct buf params = BUF(256);
	struct digest *d = digest_begin();

	effect_put(&effects, in->effects);
	buf_lstr(&params, param);
	digest_field(d, DIGEST_PROTOCOL, STR("postgresql"));
	digest_field(d, DIGEST_TARGET, in->target);
	digest_field(d, DIGEST_OPERATION, sql);
	digest_field(d, DIGEST_PARAMETERS, buf_str(&params));
	digest_field(d, DIGEST_EFFECTS, buf_str(&effects));
	return digest_end(d);
}

static int
time_member(const struct json *s, const char *key, int64_t *ret, struct err *err)
{
	const struct json *v = json_get(s, key);

	return v != NULL ? clock_parse(json_str(v), ret, err) : 0;
}

/* "sql: id = 43": from "id = " on, the text is replaced. False if it does not apply. */
static bool
mutate(struct str sql, struct str how, struct buf *out)
{
	struct str key;
	const char *at;

	if (!str_has_prefix(how, "sql: "))
		return false;
	how.p += 5;
	how.n -= 5;
	key = how;
	while (key.n != 0 && key.p[key.n - 1] != ' ')
		key.n--;
	at = key.n != 0 && sql.n != 0 ? memmem(sql.p, sql.n, key.p, key.n) : NULL;
	if (at == NULL)
		return false;
	buf_put(out, sql.p, (size_t)(at - sql.p));
	buf_put_str(out, how);
	return true;
}

static void
add_grants(struct scenario *s, const struct json *names, bool deny)
{
	const struct json *ns = json_get(s->s, "namespace");

	for (size_t i = 0; names != NULL && i < json_count(names); i++) {
		struct str name = json_str(json_at(names, i));
		const struct policy_person *q = policy_person(s->p, name);
		struct approval_grant *g = &s->grants[s->ngrants];

		if (s->ngrants == ARRAY_LEN(s->grants))
			return;
		*g = (struct approval_grant){.person = name,
		    .ns = ns != NULL ? json_str(ns) : STR(STATEMENT_NAMESPACE),
		    .at_us = s->signed_us,
		    .deny = deny};
		if (q != NULL && q->nkeys != 0)
			g->key = q->keys[0];
		s->ngrants++;
	}
}

/* The request as core would have put it before people at the time of signing. */
static int
ask(struct scenario *s, struct err *err)
{
	struct decision d;

	s->sql.input.at = (struct instant){s->signed_us, true};
	(void)policy_sql_judge(s->p, s->sql.unapprovable, &s->sql.input, &d);
	if (d.verdict != VERDICT_NEEDS_APPROVAL)
		return err_set(err, ERR_INVALID, "would not go to approval: %s", d.text);
	s->pending = (struct approval_pending){.action = s->action,
	    .policy = *policy_digest(s->p),
	    .owner = s->sql.input.owner,
	    .not_before_us = s->signed_us,
	    .approve_by_us = s->signed_us + d.within_s * SECOND,
	    .use_within_s = d.use_within_s,
	    .verify = d.verify,
	    .nslots = d.nslots};
	(void)memcpy(s->pending.slots, d.slots, sizeof(d.slots));
	return 0;
}

static bool
flag(const struct scenario *s, const char *key)
{
	const struct json *v = json_get(s->s, key);

	return v != NULL && json_bool(v);
}

/* What the scenario changes between the signatures and the use. */
static int
disturb(struct scenario *s, struct err *err)
{
	const struct json *how = json_get(s->s, "mutate"), *who = json_get(s->s, "revoked_key");
	AUTO_BUF struct buf text = BUF(FACTS_SQL_MAX);

	if (how != NULL) {
		if (!mutate(s->text, json_str(how), &text))
			return err_set(err, ERR_INVALID, "mutate \"%.*s\" does not fit the sql",
			    STR_ARG(json_str(how)));
		s->action = action_digest(&s->sql.input, buf_str(&text), STR("42"));
	}
	if (flag(s, "bind_param_changed"))
		s->action = action_digest(&s->sql.input, s->text, STR("43"));
	if (flag(s, "policy_changed"))
		s->pending.policy.b[0] ^= 1;
	if (who != NULL) {
		const struct policy_person *q = policy_person(s->p, json_str(who));

		if (q == NULL || q->nkeys == 0)
			return err_set(err, ERR_INVALID, "revoked_key \"%.*s\" is nobody's",
			    STR_ARG(json_str(who)));
		s->revoked = q->keys[0];
		s->nrevoked = 1;
	}
	return 0;
}

static void
judge(const struct scenario *s, struct approval_result *ret)
{
	struct policy_input in = s->sql.input;
	const struct approval_check c = {.pending = &s->pending,
	    .grants = s->grants,
	    .ngrants = s->ngrants,
	    .revoked = &s->revoked,
	    .nrevoked = s->nrevoked,
	    .action = &s->action,
	    .policy = s->p,
	    .input = &in};

	in.at = (struct instant){s->execute_us, true};
	approval_judge(&c, ret);
}

static int
play(struct scenario *s, struct approval_result *ret, struct err *err)
{
	int rc = ask(s, err);

	if (rc != 0)
		return rc;
	add_grants(s, json_get(s->s, "approve"), false);
	add_grants(s, json_get(s->s, "deny"), true);
	rc = disturb(s, err);
	if (rc != 0)
		return rc;
	judge(s, ret);
	if (flag(s, "replay") || flag(s, "broker_crash_after_consume")) {
		/* It has to have passed once for the second time to mean anything. */
		if (ret->verdict != VERDICT_ALLOW)
			return err_set(err, ERR_INVALID, "the first use was not allowed: %s",
			    approval_reason_name(ret->reason));
		s->pending.consumed = true;
		judge(s, ret);
	}
	return 0;
}

static int
scenario_read(struct scenario *s, struct cmd_parser *parser, const struct json *c, struct err *err)
{
	const struct json *in = json_get(c, "input");
	int rc;

	s->s = json_get(in, "scenario");
	if (s->s == NULL || json_type(s->s) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "the input has no scenario");
	s->text = policy_member_str(in, "sql");
	rc = policy_sql_input(s->p, parser, policy_member_str(in, "target"), s->text, &s->sql, err);
	if (rc == 0)
		rc = time_member(c, "at", &s->signed_us, err);
	s->execute_us = s->signed_us;
	if (rc == 0)
		rc = time_member(s->s, "signed_at", &s->signed_us, err);
	if (rc == 0)
		rc = time_member(s->s, "execute_at", &s->execute_us, err);
	s->sql.input.owner = policy_member_str(in, "run_owner");
	s->action = action_digest(&s->sql.input, s->text, STR("42"));
	return rc;
}

int
policy_case_approval(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	__attribute__((cleanup(scenario_free))) struct scenario s = {.p = p};
	const struct json *expect = json_get(c, "expect");
	struct str verdict = policy_member_str(expect, "verdict");
	struct approval_result r;
	int rc = scenario_read(&s, parser, c, err);

	if (rc == 0)
		rc = play(&s, &r, err);
	if (rc != 0)
		return rc;
	ret->ok = str_eqz(verdict, verdict_name(r.verdict)) &&
		  (json_get(expect, "reason") == NULL ||
		      str_eqz(policy_member_str(expect, "reason"), approval_reason_name(r.reason)));
	if (!ret->ok)
		buf_printf(&ret->why, "got %s, reason %s: %s", verdict_name(r.verdict),
		    approval_reason_name(r.reason), r.decision.text);
	return 0;
}
