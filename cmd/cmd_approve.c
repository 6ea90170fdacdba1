/*
 * `cofferdam approve | deny | revoke`. Runs on the approver's machine, as the approver: the
 * statement is built here from what is shown, and signed with the person's own key, which this
 * program never sees. What you see is what you sign.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_request.h"
#include "cmd/cmd_sign.h"
#include "common/jcs.h"
#include "common/sig.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct sign_args {
	const char *decision, *state, *id, *person, *key, *role, *reason;
	bool yes;
};

#define AT(f) offsetof(struct sign_args, f)

static const struct option_row rows[] = {
    {"ID", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(id), 0, 0, NULL,
	"the request, as `cofferdam pending` prints it"},
    {"--as", OPTION_TEXT | OPTION_NEEDED, AT(person), 0, 0, "PERSON",
	"who signs, a person of the policy"},
    {"--key", OPTION_TEXT, AT(key), 0, 0, "FILE", ARG_KEY_IS},
    {"--role", OPTION_TEXT, AT(role), 0, 0, "ROLE",
	"which of their roles (default: one that is missing)"},
    {"--reason", OPTION_TEXT, AT(reason), 0, 0, "TEXT",
	"why; signed with it, and recorded; of deny and revoke"},
    {"--yes", OPTION_FLAG, AT(yes), 0, 0, NULL, "do not ask before signing"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

/* --- one decision ---------------------------------------------------------------- */

static bool
in_list(const struct json *list, struct str role)
{
	for (size_t i = 0; i < json_count(list); i++) {
		struct str s = json_str(json_at(list, i)), head = s;

		(void)str_cut(&s, ':', &head);
		if (str_eq(head, role))
			return true;
	}
	return false;
}

/* The role asked for that this person has, an open one first; the broker has the last word. */
static struct str
role_for(const struct sign_args *a, const struct json *o)
{
	const struct json *roles = json_get(o, "roles"), *slots = json_get(o, "slots");
	struct str s, head;

	if (a->role != NULL)
		return str_z(a->role);
	for (size_t i = 0; i < json_count(roles); i++)
		if (in_list(json_get(o, "missing"), json_str(json_at(roles, i))))
			return json_str(json_at(roles, i));
	if (json_count(roles) != 0)
		return json_str(json_at(roles, 0));
	if (json_count(slots) != 0 && strcmp(a->decision, "approve") == 0) {
		s = head = json_str(json_at(slots, 0));
		(void)str_cut(&s, ':', &head);
		return head;
	}
	return STR("none");
}

static int
send_signature(const struct sign_args *a, struct str role, struct str signature,
    struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf args = BUF(16384);
	struct jcs j;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "id", str_z(a->id));
	jcs_str_lossy(&j, "note", str_z(a->reason));
	jcs_str_lossy(&j, "person", str_z(a->person));
	jcs_str_lossy(&j, "role", role);
	jcs_str_lossy(&j, "signature", signature);
	jcs_close(&j);
	return control_sign(a->state, a->decision, buf_str(&args), ret, err);
}

static void
print_state(const struct json *o)
{
	AUTO_FREE char *state = control_text(o, "state"), *missing = control_list(o, "missing"),
		       *id = control_text(o, "id"), *by = control_text(o, "use_by");

	(void)printf("\nrequest %s: %s", id, state);
	if (strcmp(state, "pending") == 0)
		(void)printf(", missing %s", missing);
	if (by[0] != '\0')
		(void)printf(": the agent can use it once until %s", by);
	(void)printf("\n");
}

static int
decide(const struct sign_args *a, struct err *err)
{
	AUTO(json) struct json_doc *shown = NULL;
	AUTO(json) struct json_doc *result = NULL;
	AUTO_BUF struct buf action = BUF((size_t)4 << 20);
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	AUTO_BUF struct buf signature = BUF(SIG_SSHSIG_MAX);
	struct statement st;
	struct str role;
	int rc = request_fetch(a->state, a->id, a->person, &shown, err);

	if (rc == 0)
		rc = request_action(json_root(shown), &action, err);
	if (rc == 0)
		rc = request_print(json_root(shown), err);
	if (rc != 0)
		return rc;
	role = role_for(a, json_root(shown));
	st = request_statement(
	    json_root(shown), a->decision, role, str_z(a->person), buf_str(&action));
	st.note = str_z(a->reason);
	rc = statement_bytes(&st, &bytes, err);
	if (rc != 0)
		return rc;
	(void)printf("\nthe statement that is signed:\n%.*s", STR_ARG(buf_str(&bytes)));
	rc = sign_ask(a->decision, a->person, a->yes, err);
	if (rc == 0)
		rc = sign_bytes(a->key, buf_str(&bytes), &signature, err);
	if (rc == 0)
		rc = send_signature(a, role, buf_str(&signature), &result, err);
	if (rc == 0)
		print_state(json_root(result));
	return rc;
}

int
cmd_approve(int argc, char **argv)
{
	AUTO_FREE char *key = sign_key_default();
	struct sign_args a = {.decision = argv[0], .key = key};
	struct err err;

	if (!ARGS_READ(argv[0], rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.reason != NULL && strcmp(argv[0], "approve") == 0)
		return args_wrong(
		    argv[0], "--reason \"%s\" is for deny and revoke alone", a.reason);
	return decide(&a, &err) == 0 ? CMD_OK : cmd_fail(&err);
}
