/*
 * What people in a browser ask that the command line builds by itself (process: core): the text
 * that an approval signs, and the windows of calendars. Tells; decides nothing.
 */
#include "broker/core_console.h"
#include "broker/core_sign.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define SECOND INT64_C(1000000)
#define DAYS_BEFORE 31
#define DAYS_AFTER 366
#define WINDOWS_MAX 1000 /* of one calendar */

/* {"id","decision","role","person"}: the bytes that would be signed, and their challenge. */
int
core_look_statement(struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "id"));
	struct str decision = json_str(json_get(call->args, "decision"));
	const struct core_request *rq = core_approve_by_id(call->core, id);
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	bool approve = str_eqz(decision, "approve");
	struct core_statement st;
	struct hash h;
	int rc;

	if (rq == NULL)
		return err_set(err, ERR_NOT_FOUND, "there is no request \"%.*s\"", STR_ARG(id));
	if (!approve && !str_eqz(decision, "deny"))
		return err_set(err, ERR_INVALID, "decision must be approve or deny");
	core_sign_statement(rq, approve ? "approve" : "deny",
	    json_str(json_get(call->args, "role")), json_str(json_get(call->args, "person")), &st);
	rc = statement_bytes(&st.s, &bytes, err);
	core_sign_statement_free(&st);
	if (rc != 0)
		return rc;
	h = hash_sha256(buf_str(&bytes));
	jcs_hex(&call->j, "challenge", h.b, HASH_LEN);
	jcs_str(&call->j, "statement", buf_str(&bytes));
	return 0;
}

/* {}: each calendar with its windows from a month ago to a year from now. */
int
core_look_calendars(struct core_call *call, struct err *err)
{
	const struct policy *p = call->core->policy;
	int64_t now = core_now(call->core).us / SECOND;
	int64_t begin = now - DAYS_BEFORE * INT64_C(86400), end = now + DAYS_AFTER * INT64_C(86400);
	struct jcs *j = &call->j;

	(void)err;
	jcs_array(j, "calendars");
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		struct policy_calendar c = policy_calendar_at(p, i);
		size_t n = 0;

		jcs_open(j, NULL);
		jcs_str(j, "id", c.id);
		jcs_z(j, "kind", c.open ? "open" : "freeze");
		jcs_time(j, "valid_from", c.valid_from * SECOND);
		jcs_time(j, "valid_to", c.valid_to * SECOND);
		jcs_array(j, "windows");
		for (size_t k = 0; k < c.nintervals && n < WINDOWS_MAX; k++) {
			int64_t from, to;

			policy_calendar_interval(p, i, k, &from, &to);
			if (to <= begin || from >= end)
				continue;
			jcs_open(j, NULL);
			jcs_time(j, "from", from * SECOND);
			jcs_time(j, "to", to * SECOND);
			jcs_close(j);
			n++;
		}
		jcs_array_end(j);
		jcs_close(j);
	}
	jcs_array_end(j);
	return 0;
}
