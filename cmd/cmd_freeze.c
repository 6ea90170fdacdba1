/*
 * `cofferdam freeze | exception | breakglass`: tables of their verbs and of what each takes. Runs
 * as the person; what is signed is in cmd_lift.c.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_help.h"
#include "cmd/cmd_lift.h"
#include "cmd/cmd_sign.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* The verbs, as groups of options. */
enum {
	F_START = 1 << 0,
	F_LIFT = 1 << 1,
	F_STATUS = 1 << 2,
	X_REQUEST = 1 << 3,
	X_SIGN = 1 << 4,
	X_REVOKE = 1 << 5,
	X_LIST = 1 << 6,
	B_START = 1 << 7,
	B_CONFIRM = 1 << 8,
	B_END = 1 << 9,
	B_REVIEW = 1 << 10,
	B_LIST = 1 << 11,
	LISTS = F_STATUS | X_LIST | B_LIST,
	NOTES = F_LIFT | X_SIGN | X_REVOKE | B_CONFIRM | B_END,
	OF_ONE = NOTES | B_REVIEW,
	SIGNS = OF_ONE | F_START | B_START,
	SCOPES = X_REQUEST | B_START,
	ASKS = SCOPES | F_START
};

static const struct verb {
	enum lift_kind kind;
	enum lift_decision decision;
	unsigned group;
	const char *words;
} verbs[] = {
    {LIFT_KIND_FREEZE, LIFT_START, F_START, "freeze start"},
    {LIFT_KIND_FREEZE, LIFT_STOP, F_LIFT, "freeze lift"},
    {LIFT_KIND_FREEZE, LIFT_NOTHING, F_STATUS, "freeze status"},
    {LIFT_KIND_EXCEPTION, LIFT_NOTHING, X_REQUEST, "exception request"},
    {LIFT_KIND_EXCEPTION, LIFT_START, X_SIGN, "exception sign"},
    {LIFT_KIND_EXCEPTION, LIFT_STOP, X_REVOKE, "exception revoke"},
    {LIFT_KIND_EXCEPTION, LIFT_NOTHING, X_LIST, "exception list"},
    {LIFT_KIND_BREAKGLASS, LIFT_START, B_START, "breakglass start"},
    {LIFT_KIND_BREAKGLASS, LIFT_CONFIRM, B_CONFIRM, "breakglass confirm"},
    {LIFT_KIND_BREAKGLASS, LIFT_STOP, B_END, "breakglass end"},
    {LIFT_KIND_BREAKGLASS, LIFT_CLOSE, B_REVIEW, "breakglass review"},
    {LIFT_KIND_BREAKGLASS, LIFT_NOTHING, B_LIST, "breakglass list"},
};

#define AT(f) offsetof(struct lift_args, f)

static const struct option_row rows[] = {
    {"ID", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED | OPTION_OF(OF_ONE), AT(id), 0, 0, NULL,
	"its id, as `cofferdam status` prints it"},
    {"--rule", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(X_REQUEST), AT(rule), 0, 0, "R",
	"the rule that is not to stop it"},
    {"--target", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(SCOPES), AT(target), 0, 0, "T",
	"a target of the policy"},
    {"--target", OPTION_TEXT | OPTION_OF(F_START), AT(target), 0, 0, "T", "on this target only"},
    {"--env", OPTION_TEXT | OPTION_OF(F_START), AT(env), 0, 0, "E",
	"on targets of this environment only"},
    {"--effects", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(SCOPES), AT(effects), 0, 0, "LIST",
	"what may pass besides @data, as \"drop bulk\""},
    {"--effects", OPTION_TEXT | OPTION_OF(F_START), AT(effects), 0, 0, "LIST",
	"what is refused (default: @change,@destructive,@escape)"},
    {"--run", OPTION_TEXT | OPTION_OF(SCOPES), AT(run), 0, 0, "RUN", "in this run only"},
    {"--from", OPTION_TEXT | OPTION_OF(X_REQUEST), AT(from), 0, 0, "TIME",
	"2026-12-24T12:00:00Z (default: now)"},
    {"--to", OPTION_TEXT | OPTION_OF(X_REQUEST), AT(to), 0, 0, "TIME",
	"the end, at most 24 hours later"},
    {"--for", OPTION_TEXT | OPTION_OF(X_REQUEST), AT(duration), 0, 0, "TIME",
	"instead of --to: 30m, 2h"},
    {"--for", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(B_START), AT(duration), 0, 0, "TIME",
	"how long, at most 60m"},
    {"--uses", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(X_REQUEST), AT(uses), 0, 0, "N",
	"how many actions may pass"},
    {"--ticket", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(X_REQUEST), AT(ticket), 0, 0, "X",
	"the change it is for"},
    {"--reason", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(ASKS), AT(reason), 0, 0, "TEXT",
	"why, for everybody who reads of it"},
    {"--as", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(SIGNS), AT(as), 0, 0, "PERSON",
	"who signs, a person of the policy"},
    {"--note", OPTION_TEXT | OPTION_OF(NOTES), AT(note), 0, 0, "TEXT",
	"words that are signed with it"},
    {"--note", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(B_REVIEW), AT(note), 0, 0, "TEXT",
	"what you have seen; signed with it"},
    {"--key", OPTION_TEXT | OPTION_OF(SIGNS), AT(key), 0, 0, "FILE", ARG_KEY_IS},
    {"--role", OPTION_TEXT | OPTION_OF(SIGNS), AT(role), 0, 0, "ROLE",
	"which of their roles (default: one that fits)"},
    {"--yes", OPTION_FLAG | OPTION_OF(SIGNS), AT(yes), 0, 0, NULL, "do not ask before signing"},
    {"--json", OPTION_FLAG | OPTION_OF(LISTS), AT(json), 0, 0, NULL, ARG_JSON_IS},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static const struct verb *
find(enum lift_kind kind, const char *name)
{
	size_t n = strlen(lift_kind_name(kind)) + 1; /* and a space */

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (verbs[i].kind == kind && strcmp(verbs[i].words + n, name) == 0)
			return &verbs[i];
	return NULL;
}

static int
act(const struct verb *v, struct lift_args *a, struct err *err)
{
	AUTO_FREE char *id = a->id != NULL ? xstrdup(a->id) : NULL;
	int rc = 0;

	/* Everything but looking: what stops an incident is not typed word by word. */
	if (v->kind == LIFT_KIND_FREEZE && a->effects == NULL)
		a->effects = "@change @destructive @escape";
	/* What could not be signed is not asked for. */
	if (v->decision != LIFT_NOTHING)
		rc = sign_ready(a->key, err);
	if (rc == 0 && v->decision != LIFT_NOTHING && (v->group & ASKS) != 0)
		rc = sign_can_ask(a->yes, err);
	if (rc == 0 && (v->group & ASKS) != 0)
		rc = lift_ask(v->kind, a, &id, err);
	if (rc != 0)
		return rc;
	if (v->decision != LIFT_NOTHING)
		return lift_sign(v->kind, v->decision, id, a, err);
	if ((v->group & ASKS) == 0)
		return lift_list(v->kind, a, err);
	(void)printf("%s\n", id);
	return 0;
}

static int
command(enum lift_kind kind, int argc, char **argv)
{
	const struct verb *v = argc > 1 ? find(kind, argv[1]) : NULL;
	struct lift_args a = {0};
	struct err err;

	if (v == NULL)
		return cmd_usage(lift_kind_name(kind));
	if (!args_read(v->words, rows, ARRAY_LEN(rows), v->group, argc - 1, argv + 1, &a))
		return CMD_USAGE;
	return act(v, &a, &err) == 0 ? CMD_OK : cmd_fail(&err);
}

int
cmd_freeze(int argc, char **argv)
{
	return command(LIFT_KIND_FREEZE, argc, argv);
}

int
cmd_exception(int argc, char **argv)
{
	return command(LIFT_KIND_EXCEPTION, argc, argv);
}

int
cmd_breakglass(int argc, char **argv)
{
	return command(LIFT_KIND_BREAKGLASS, argc, argv);
}
