/*
 * `cofferdam freeze | exception | breakglass`: a table of their verbs. Runs as the person; what is
 * signed is in cmd_lift.c.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_lift.h"
#include "cmd/cmd_sign.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* What a verb needs besides what it is. */
enum { NEEDS_ID = 1, NEEDS_AS = 2, NEEDS_SCOPE = 4, NEEDS_NOTE = 8 };

static const struct verb {
	enum lift_kind kind;
	enum lift_decision decision;
	unsigned needs;
	bool ask; /* makes a new one */
	const char *name, *usage;
} verbs[] = {
    {LIFT_KIND_FREEZE, LIFT_START, NEEDS_AS, true, "start",
	"--reason TEXT --as PERSON [--effects LIST] [--target T] [--env E] [--key FILE] [--role "
	"ROLE] [--yes]"},
    {LIFT_KIND_FREEZE, LIFT_STOP, NEEDS_ID | NEEDS_AS, false, "lift",
	"ID --as PERSON [--note TEXT] [--key FILE] [--role ROLE] [--yes]"},
    {LIFT_KIND_FREEZE, LIFT_NOTHING, 0, false, "status", "[--json]"},
    {LIFT_KIND_EXCEPTION, LIFT_NOTHING, NEEDS_SCOPE, true, "request",
	"--rule R --target T --effects LIST --ticket X --reason TEXT --uses N {--to TIME | --for "
	"TIME} [--from TIME] [--run RUN]"},
    {LIFT_KIND_EXCEPTION, LIFT_START, NEEDS_ID | NEEDS_AS, false, "sign",
	"ID --as PERSON [--note TEXT] [--key FILE] [--role ROLE] [--yes]"},
    {LIFT_KIND_EXCEPTION, LIFT_STOP, NEEDS_ID | NEEDS_AS, false, "revoke",
	"ID --as PERSON [--note TEXT] [--key FILE] [--yes]"},
    {LIFT_KIND_EXCEPTION, LIFT_NOTHING, 0, false, "list", "[--json]"},
    {LIFT_KIND_BREAKGLASS, LIFT_START, NEEDS_AS | NEEDS_SCOPE, true, "start",
	"--target T --effects LIST --for TIME --reason TEXT --as PERSON [--run RUN] [--key FILE] "
	"[--yes]"},
    {LIFT_KIND_BREAKGLASS, LIFT_CONFIRM, NEEDS_ID | NEEDS_AS, false, "confirm",
	"ID --as PERSON [--note TEXT] [--key FILE] [--yes]"},
    {LIFT_KIND_BREAKGLASS, LIFT_STOP, NEEDS_ID | NEEDS_AS, false, "end",
	"ID --as PERSON [--note TEXT] [--key FILE] [--yes]"},
    {LIFT_KIND_BREAKGLASS, LIFT_CLOSE, NEEDS_ID | NEEDS_AS | NEEDS_NOTE, false, "review",
	"ID --as PERSON --note TEXT [--key FILE] [--yes]"},
    {LIFT_KIND_BREAKGLASS, LIFT_NOTHING, 0, false, "list", "[--json]"},
};

static int
usage(enum lift_kind kind)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (verbs[i].kind == kind)
			(void)fprintf(stderr, "%s cofferdam %s %s [--state DIR | --via URL] %s\n",
			    strcmp(verbs[i].name, "start") == 0 ||
				    strcmp(verbs[i].name, "request") == 0
				? "usage:"
				: "      ",
			    lift_kind_name(kind), verbs[i].name, verbs[i].usage);
	return CMD_USAGE;
}

static const struct verb *
find(enum lift_kind kind, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (verbs[i].kind == kind && strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static bool
complete(const struct verb *v, const struct lift_args *a)
{
	bool id = (v->needs & NEEDS_ID) != 0, scope = (v->needs & NEEDS_SCOPE) != 0;
	char name[64];

	(void)snprintf(name, sizeof(name), "%s %s", lift_kind_name(v->kind), v->name);
	return cmd_missing(
		   name, id && a->id == NULL, "an ID: its list, or freeze status, has them") &&
	       (a->id != NULL) == id &&
	       cmd_missing(name, scope && a->target == NULL, "--target T") &&
	       cmd_missing(name, scope && a->effects == NULL, "--effects LIST, as \"drop bulk\"") &&
	       cmd_missing(
		   name, v->ask && a->reason == NULL, "--reason TEXT: others will read it") &&
	       cmd_missing(name, (v->needs & NEEDS_AS) != 0 && a->as == NULL,
		   "--as PERSON: in whose name you sign") &&
	       cmd_missing(name, (v->needs & NEEDS_NOTE) != 0 && a->note == NULL,
		   "--note TEXT: what you have seen");
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
	if (rc == 0 && v->decision != LIFT_NOTHING && v->ask)
		rc = sign_can_ask(a->yes, err);
	if (rc == 0 && v->ask)
		rc = lift_ask(v->kind, a, &id, err);
	if (rc != 0)
		return rc;
	if (v->decision != LIFT_NOTHING)
		return lift_sign(v->kind, v->decision, id, a, err);
	if (!v->ask)
		return lift_list(v->kind, a, err);
	(void)printf("%s\n", id);
	return 0;
}

static int
command(enum lift_kind kind, int argc, char **argv)
{
	struct lift_args a = {0};
	const struct verb *v = argc > 1 ? find(kind, argv[1]) : NULL;
	struct err err;

	if (v == NULL || !lift_args_read(argc - 1, argv + 1, &a) || !complete(v, &a))
		return usage(kind);
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
