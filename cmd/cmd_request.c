/*
 * Showing a request. Runs as the approver. What the agent sent is printed encoded, so that no
 * control sequence can hide part of it, and what the agent says comes last and is marked:
 * it is an argument of an interested party.
 */
#include "cmd/cmd_request.h"

#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd_show.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/jcs.h"
#include "common/log.h"

#include "common/banned.h"

int
request_fetch(
    const char *state, const char *id, const char *person, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf args = BUF(4096);
	struct jcs j;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "id", str_z(id));
	if (person != NULL)
		jcs_str_lossy(&j, "person", str_z(person));
	jcs_close(&j);
	return control_call(state, "show", buf_str(&args), ret, err);
}

int
request_action(const struct json *o, struct buf *ret, struct err *err)
{
	if (!enc_unbase64(json_str(json_get(o, "show_base64")), ret) || buf_over(ret) ||
	    ret->n == 0)
		return err_set(err, ERR_PROTOCOL, "the broker does not show the action");
	return 0;
}

struct statement
request_statement(
    const struct json *o, const char *decision, struct str role, struct str person, struct str show)
{
	return (struct statement){
	    .decision = str_z(decision),
	    .broker = json_str(json_get(o, "broker")),
	    .request = json_str(json_get(o, "id")),
	    .action = json_str(json_get(o, "action")),
	    .policy = json_str(json_get(o, "policy")),
	    .log_head = json_str(json_get(o, "log_head")),
	    .agent = json_str(json_get(o, "agent")),
	    .run = json_str(json_get(o, "run")),
	    .owner = json_str(json_get(o, "owner")),
	    .target = json_str(json_get(o, "target")),
	    .effects = json_str(json_get(o, "effects")),
	    .rule = json_str(json_get(o, "rule")),
	    .role = role,
	    .approver = person,
	    .max_rows = json_int(json_get(o, "max_rows")),
	    .preview = json_str(json_get(o, "preview")),
	    .not_before_us = json_int(json_get(o, "not_before_us")),
	    .approve_by_us = json_int(json_get(o, "approve_by_us")),
	    .use_within_s = json_int(json_get(o, "use_within")),
	    .show = show,
	};
}

static void
line(const struct json *o, const char *label, const char *key)
{
	AUTO_FREE char *z = control_text(o, key);

	if (z[0] != '\0')
		(void)printf("%-12s %s\n", label, z);
}

static void
line_list(const struct json *o, const char *label, const char *key)
{
	AUTO_FREE char *z = control_list(o, key);

	(void)printf("%-12s %s\n", label, z[0] != '\0' ? z : "nobody");
}

static void
grants(const struct json *o)
{
	const struct json *g = json_get(o, "grants");

	for (size_t i = 0; i < json_count(g); i++) {
		AUTO_FREE char *person = control_text(json_at(g, i), "person");
		AUTO_FREE char *role = control_text(json_at(g, i), "role");

		(void)printf("%-12s %s as %s\n", "signed by", person, role);
	}
}

/* What the whole policy says of it at this moment: a freeze may have begun, or be near. */
static void
now(const struct json *n)
{
	AUTO_FREE char *text = control_text(n, "text"), *calendar = control_text(n, "calendar"),
		       *until = control_text(n, "until");

	if (text[0] != '\0')
		(void)printf("%-12s %s\n", "now", text);
	if (calendar[0] != '\0')
		(void)printf("%-12s %s changes %s\n", "calendar", calendar,
		    until[0] != '\0' ? until : "at a time that is not known");
}

int
request_print(const struct json *o, struct err *err)
{
	AUTO_BUF struct buf action = BUF((size_t)4 << 20);
	const struct json *use_by = json_get(o, "use_by_us");
	char until[CLOCK_TEXT_SIZE];
	int rc = request_action(o, &action, err);
	struct str says = json_str(json_get(o, "agent_says"));

	if (rc != 0)
		return rc;
	clock_format_s(json_int(use_by != NULL ? use_by : json_get(o, "approve_by_us")), until);
	line(o, "request", "id");
	line(o, "state", "state");
	line(o, "reason", "reason");
	line(o, "target", "target");
	line(o, "effects", "effects");
	line(o, "rule", "rule");
	line(o, "run", "run");
	line(o, "owner", "owner");
	line(o, "agent", "agent");
	if (json_int(json_get(o, "steps")) > 1)
		(void)printf("%-12s %" PRId64 ", of one transaction: all of them or none\n",
		    "statements", json_int(json_get(o, "steps")));
	if (json_int(json_get(o, "max_rows")) >= 0)
		(void)printf("%-12s %" PRId64 "\n", "max rows", json_int(json_get(o, "max_rows")));
	line(o, "preview", "preview");
	if (json_bool(json_get(o, "verify")))
		(void)printf(
		    "%-12s with a hardware key that verifies the person\n", "to be signed");
	if (use_by != NULL)
		(void)printf("%-12s %s, once\n", "use by", until);
	else
		(void)printf("%-12s %s, then within %" PRId64 " s\n", "sign by", until,
		    json_int(json_get(o, "use_within")));
	now(json_get(o, "now"));
	grants(o);
	line_list(o, "missing", "missing");
	(void)printf("action (%zu bytes):\n", action.n);
	show_block(buf_str(&action));
	if (says.n != 0) {
		(void)printf(
		    "agent says (an argument of the agent, not part of what is signed):\n");
		show_block(says);
	}
	return 0;
}
