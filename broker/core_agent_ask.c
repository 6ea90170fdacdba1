/*
 * What an agent may ask about its own run (process: core). It learns nothing of other runs, and
 * nothing here decides or changes anything.
 */
#include "broker/core_agent.h"

#include "broker/core_approve.h"
#include "broker/core_peer.h"
#include "broker/core_question.h"
#include "broker/core_status.h"
#include "broker/core_words.h"

#include "common/banned.h"

static void
request_put(const struct core_request *rq, struct jcs *j)
{
	AUTO_BUF struct buf slots = BUF(512);

	policy_slots_put(&slots, rq->slots, rq->nslots, ", ");
	if (rq->state == CORE_RQ_PENDING)
		jcs_time_known(j, "approve_by", rq->approve_by_us);
	jcs_int(j, "grants", (int64_t)rq->ngrants);
	jcs_z(j, "id", rq->id);
	jcs_str(j, "needs", buf_str(&slots));
	jcs_time_known(j, "not_before", rq->not_before_us);
	if (rq->reason != NULL)
		jcs_str_lossy(j, "reason", str_z(rq->reason));
	jcs_z(j, "state", core_request_state_name(rq->state));
	jcs_z(j, "target", rq->target);
	if (rq->state == CORE_RQ_ARMED)
		jcs_time_known(j, "use_by", rq->use_by_us);
}

/* {"id"}: how its request for approval stands. */
static int
ask_approval(struct core_run *run, const struct json *args, struct jcs *j, struct err *err)
{
	struct str id = json_str(json_get(args, "id"));
	const struct core_request *rq = core_approve_by_id(run->core, id);

	if (rq == NULL || rq->run != run)
		return err_set(err, ERR_NOT_FOUND, "this run has no request \"%.*s\"", STR_ARG(id));
	request_put(rq, j);
	return 0;
}

/* {}: how all of them stand that are known still. */
static int
ask_approvals(
    struct core_run *run, const struct json *args UNUSED, struct jcs *j, struct err *err UNUSED)
{
	const struct core_request *rq;

	jcs_array(j, "requests");
	TAILQ_FOREACH (rq, &run->requests, link) {
		jcs_open(j, NULL);
		request_put(rq, j);
		jcs_close(j);
	}
	jcs_array_end(j);
	return 0;
}

static void
line_put(void *arg, struct str line)
{
	jcs_str_lossy(arg, NULL, line);
}

/* {}: the policy in words, and what is shut until when. */
static int
ask_standing(
    struct core_run *run, const struct json *args UNUSED, struct jcs *j, struct err *err UNUSED)
{
	AUTO_BUF struct buf words = BUF(CORE_WORDS_MAX);

	core_words_put(run, &words);
	jcs_array(j, "frozen");
	core_status_frozen(run->core, core_now(run->core), line_put, j);
	jcs_array_end(j);
	jcs_str_lossy(j, "words", buf_str(&words));
	return 0;
}

static const struct {
	const char *verb;
	int (*fn)(struct core_run *run, const struct json *args, struct jcs *j, struct err *err);
} verbs[] = {
    {"answer", core_question_look},
    {"approval", ask_approval},
    {"approvals", ask_approvals},
    {"question", core_question_ask},
    {"question_end", core_question_drop},
    {"standing", ask_standing},
};

static int
ask(struct core_run *run, struct str verb, struct str text, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct jcs j;
	int rc = json_parse(text, "arguments", &doc, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(verbs); i++) {
		if (!str_eqz(verb, verbs[i].verb))
			continue;
		jcs_init(&j, out);
		jcs_open(&j, NULL);
		rc = verbs[i].fn(run, json_root(doc), &j, err);
		if (rc == 0)
			jcs_close(&j);
		return rc;
	}
	return rc != 0
		   ? rc
		   : err_set(err, ERR_INVALID, "an agent cannot ask for \"%.*s\"", STR_ARG(verb));
}

int
core_agent_on_ask(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	AUTO_BUF struct buf out = BUF(CORE_ASK_MAX), result = BUF(CORE_ASK_MAX - 256);
	uint64_t id = rd_u64(body);
	struct str verb = rd_lstr(body), args = rd_lstr(body);
	struct err why = {0};
	int rc;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "A_ASK is malformed");
	rc = core_control_whole(ask(p->run, verb, args, &result, &why), &result, &why);
	buf_u64(&out, id);
	buf_u32(&out, (uint32_t)-rc);
	buf_lstr(&out, rc == 0 ? buf_str(&result) : str_z(why.msg));
	core_send(p, MSG_A_REPLY, &out);
	return 0;
}
