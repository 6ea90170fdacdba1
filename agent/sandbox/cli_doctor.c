/*
 * `cofferdam doctor`: can a full sandbox be had on this host, by this user, and if not, what to do
 * (the command line, as the person who types it). The last row is the proof: a sandbox that is
 * built and ended here.
 */
#include <stdio.h>
#include <string.h>

#include "common/jcs.h"
#include "common/log.h"
#include "agent/sandbox/cli.h"
#include "agent/sandbox/native_doctor.h"

#include "common/banned.h"

struct doctor {
	struct buf json;
	struct jcs j;
	struct cli_table *table; /* NULL: JSON */
	bool full;
};

static void
row_put(void *arg, const char *name, bool ok, bool needed, const char *found, const char *fix)
{
	struct doctor *d = arg;

	d->full = d->full && (ok || !needed);
	if (d->table != NULL) {
		cli_table_cell(d->table, name);
		cli_table_cell(d->table, ok ? "ok" : needed ? "MISSING" : "missing");
		cli_table_cell(d->table, found);
		cli_table_cell(d->table, fix);
		return;
	}
	jcs_open(&d->j, NULL);
	jcs_str_lossy(&d->j, "do", str_z(fix));
	jcs_str_lossy(&d->j, "found", str_z(found));
	jcs_z(&d->j, "name", name);
	jcs_bool(&d->j, "needed", needed);
	jcs_bool(&d->j, "ok", ok);
	jcs_close(&d->j);
}

static void
build_try(struct doctor *d)
{
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct sandbox_spec spec = {0};
	struct err e = {0};

	if (sandbox_create_here(&spec, &sb, &e) == 0)
		row_put(d, "a full sandbox", true, true, "built and ended", "");
	else
		row_put(d, "a full sandbox", false, true, e.msg,
		    d->full ? e.msg : "what stands above at MISSING");
}

static int
doctor(bool json)
{
	static const char *const heads[] = {"WHAT", "IS", "FOUND", "TO DO", NULL};
	struct doctor d = {.json = BUF(1 << 20), .full = true};

	if (json) {
		jcs_init(&d.j, &d.json);
		jcs_open(&d.j, NULL);
		jcs_array(&d.j, "checks");
	} else {
		d.table = cli_table_new(heads);
	}
	native_doctor(row_put, &d);
	build_try(&d);
	if (json) {
		jcs_array_end(&d.j);
		jcs_bool(&d.j, "full", d.full);
		jcs_close(&d.j);
		(void)printf("%.*s\n", STR_ARG(buf_str(&d.json)));
	} else {
		cli_table_print(d.table);
		(void)printf("\n%s\n", d.full ? "A full sandbox can be had."
					      : "No full sandbox can be had. What is missing and "
						"may be lacked, `--may-lack LAYER` allows.");
	}
	buf_free(&d.json);
	return d.full ? CLI_OK : CLI_FAILED;
}

int
cli_doctor(int argc, char **argv)
{
	bool json = argc > 1 && strcmp(argv[1], "--json") == 0;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		(void)printf(
		    "usage: cofferdam doctor [--json]\n"
		    "What this host has for a sandbox, and what to do about what it lacks. Ends "
		    "with 0 when a full one\ncan be had by you, else with 1.\n"
		    "  %-26s as JSON\n  %-26s print this\n",
		    "--json", "--help");
		return CLI_OK;
	}
	if (argc > 2 || (argc == 2 && !json)) {
		log_error("usage: cofferdam doctor [--json]");
		return CLI_USAGE;
	}
	return doctor(json);
}
