/*
 * `cofferdam status | show | run-end`: what the broker says of itself. Runs as the
 * person; prints encoded text only.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_courier.h"
#include "cmd/cmd_export_cursor.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_lift.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_request.h"
#include "cmd/cmd_show_ended.h"
#include "common/jcs.h"
#include "common/log.h"

#include "common/banned.h"

struct look_args {
	const char *state, *id;
	bool json;
};

#define AT(f) offsetof(struct look_args, f)

static const struct option_row status_rows[] = {
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_JSON_IS},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static const struct option_row show_rows[] = {
    {"ID", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(id), 0, 0, NULL,
	"the request, as `cofferdam pending` prints it"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_JSON_IS},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static const struct option_row end_rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(id), 0, 0, NULL, ARG_RUN_IS},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

/* The result as it came, canonical. */
static int
print_json(const struct json *o, struct err *err)
{
	AUTO_BUF struct buf b = BUF((size_t)8 << 20);
	struct jcs j;
	int rc;

	jcs_init(&j, &b);
	rc = jcs_value(&j, NULL, o, err);
	if (rc == 0)
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
	return rc;
}

/* What somebody should look at, or know. */
static void
print_more(const struct json *r)
{
	AUTO_FREE char *parent = control_text(r, "parent");

	if (parent[0] != '\0')
		(void)printf("      child of %s\n", parent);
	if (json_bool(json_get(r, "paused")))
		(void)printf("      paused by a person\n");
	if (json_int(json_get(r, "alarms")) != 0)
		(void)printf("      ALARM: it goes on trying at what was refused (%" PRId64
			     " times told)\n",
		    json_int(json_get(r, "alarms")));
}

static void
print_runs(const struct json *o)
{
	const struct json *runs = json_get(o, "runs");

	for (size_t i = 0; i < json_count(runs); i++) {
		const struct json *r = json_at(runs, i);
		AUTO_FREE char *id = control_text(r, "id"), *agent = control_text(r, "agent"),
			       *owner = control_text(r, "owner"), *state = control_text(r, "state");

		(void)printf("  %s  %s, of %s, by %s, %" PRId64 " connections, %" PRId64
			     " pending\n",
		    id, state, owner, agent, json_int(json_get(r, "connections")),
		    json_int(json_get(r, "pending")));
		print_more(r);
	}
}

/* What stands in the way, and what lets more pass than the policy says. */
static void
print_standing(const struct json *o)
{
	static const char *const lists[] = {"freezes", "exceptions", "breakglass"};
	const struct json *frozen = json_get(o, "frozen"), *calendars = json_get(o, "calendars");

	for (size_t i = 0; i < json_count(frozen); i++) {
		AUTO_FREE char *z = log_vis(json_str(json_at(frozen, i)));

		(void)printf("%-8s %s\n", i == 0 ? "frozen" : "", z);
	}
	for (size_t i = 0; i < json_count(calendars); i++) {
		const struct json *c = json_at(calendars, i);
		AUTO_FREE char *id = control_text(c, "id"), *state = control_text(c, "state"),
			       *until = control_text(c, "until");

		(void)printf("%-8s %s: %s%s%s\n", i == 0 ? "calendar" : "", id, state,
		    until[0] != '\0' ? " until " : "", until);
	}
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < json_count(json_get(o, lists[k])); i++)
			lift_print(json_at(json_get(o, lists[k]), i));
	if (json_int(json_get(o, "reviews")) != 0)
		(void)printf("reviews  %" PRId64
			     " open: no break-glass begins until another person closes them\n",
		    json_int(json_get(o, "reviews")));
}

/* How far each witness has seen the log. */
static void
print_witnesses(const struct json *o)
{
	const struct json *list = json_get(o, "witnesses");

	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *w = json_at(list, i);
		AUTO_FREE char *name = control_text(w, "name"), *error = control_text(w, "error"),
			       *conflict = control_text(w, "conflict"),
			       *since = control_text(w, "since");

		(void)printf("witness  %s: cosigned size %" PRId64 ", %" PRId64 " records behind",
		    name, json_int(json_get(w, "size")), json_int(json_get(w, "behind")));
		if (since[0] != '\0')
			(void)printf(", missing since %s", since);
		if (conflict[0] != '\0')
			(void)printf("\n         IT REFUSES THIS LOG (%s): %s", conflict,
			    json_bool(json_get(w, "proven"))
				? "proven, nothing that needs witnesses is sent"
				: "by its own word, it counts for nothing until it cosigns again");
		if (error[0] != '\0')
			(void)printf("\n         %s", error);
		(void)printf("\n");
	}
}

static bool
serving(const struct json *o)
{
	return str_eqz(json_str(json_get(o, "state")), "serving");
}

static int
print_status(const struct look_args *a, const struct json *o, struct err *err)
{
	AUTO(json) struct json_doc *runs = NULL;
	const struct json *p = json_get(o, "policy");
	AUTO_FREE char *state = control_text(o, "state"), *origin = control_text(o, "origin"),
		       *name = control_text(p, "name"), *digest = control_text(p, "digest"),
		       *damage = control_text(o, "log_damage");
	int rc = control_call(a->state, "runs", STR("{}"), &runs, err);

	if (rc != 0)
		return rc;
	(void)printf("broker   %s\nlog      %s, %" PRId64 " records\n", state, origin,
	    json_int(json_get(o, "log_size")));
	if (damage[0] != '\0')
		(void)printf("DAMAGE   %s (cofferdam log verify tells all of it)\n", damage);
	if (p != NULL)
		(void)printf("policy   %s, serial %" PRId64 ", sha256:%s\n", name,
		    json_int(json_get(p, "serial")), digest);
	(void)printf("pending  %" PRId64 "\nruns     %" PRId64 "\n",
	    json_int(json_get(o, "pending")), json_int(json_get(o, "runs")));
	print_runs(json_root(runs));
	print_standing(o);
	print_witnesses(o);
	log_print_doubts(o);
	return 0;
}

/* What core says, and beside it the courier and exports, which core knows nothing of. */
static int
print_both(
    const struct look_args *a, const struct json *o, const struct json *courier, struct err *err)
{
	AUTO_BUF struct buf b = BUF((size_t)8 << 20);
	struct jcs j;
	int rc;

	jcs_init(&j, &b);
	rc = courier_status_add(&j, o, courier, a->state, err);
	if (rc == 0)
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
	return rc;
}

/* Exit 0 only when actions can pass. */
int
cmd_status(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL, *courier = NULL;
	const struct json *k = NULL;
	struct look_args a = {0};
	struct err err;
	int rc;

	if (!ARGS_READ("status", status_rows, argc, argv, &a))
		return CMD_USAGE;
	rc = control_call(a.state, "status", STR("{}"), &doc, &err);
	if (rc == 0)
		rc = courier_status_read(a.state, &courier, &err);
	if (rc == 0 && courier != NULL)
		k = json_root(courier);
	if (rc == 0)
		rc = a.json ? print_both(&a, json_root(doc), k, &err)
			    : print_status(&a, json_root(doc), &err);
	if (rc != 0)
		return cmd_fail(&err);
	if (!a.json) {
		courier_status_print(k);
		export_status_print(
		    a.state, (uint64_t)json_int(json_get(json_root(doc), "log_size")));
	}
	return serving(json_root(doc)) ? CMD_OK : CMD_FAILED;
}

int
cmd_show(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct look_args a = {0};
	struct err err;
	int rc;

	if (!ARGS_READ("show", show_rows, argc, argv, &a))
		return CMD_USAGE;
	rc = request_fetch(a.state, a.id, NULL, &doc, &err);
	if (rc == ERR_NOT_FOUND)
		return show_ended(a.state, a.id, a.json, &err) == 0 ? CMD_OK : cmd_fail(&err);
	if (rc == 0)
		rc =
		    a.json ? print_json(json_root(doc), &err) : request_print(json_root(doc), &err);
	return rc == 0 ? CMD_OK : cmd_fail(&err);
}

int
cmd_run_end(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(1024);
	struct look_args a = {0};
	struct err err;
	struct jcs j;
	int rc;

	if (!ARGS_READ("run-end", end_rows, argc, argv, &a))
		return CMD_USAGE;
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "run", str_z(a.id));
	jcs_close(&j);
	rc = control_call(a.state, "run-end", buf_str(&args), &doc, &err);
	if (rc != 0)
		return cmd_fail(&err);
	(void)printf("run %s is ended\n", a.id);
	return CMD_OK;
}
