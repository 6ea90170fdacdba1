/*
 * `cofferdam sandbox code`: cells of code in one interpreter that keeps its variables (the command
 * line, as the person who types it). The interpreter ends with this; an error in a cell is an
 * answer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

static void
stream_put(void *arg UNUSED, int stream, struct str bytes)
{
	FILE *f = stream == 2 ? stderr : stdout;

	(void)fwrite(bytes.p, 1, bytes.n, f);
	(void)fflush(f);
}

/* The value of a cell as text; of what else it shows, the kinds. */
static void
display_put(void *arg UNUSED, bool result, struct str json)
{
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct err e = {0};
	size_t text;

	if (cli_json_parse(json, &d, &e) != 0)
		return;
	text = cli_json_get(d, 0, "text/plain");
	if (result && text != CLI_NONE) {
		AUTO_FREE char *z = cli_json_text(d, text);

		(void)printf("%s\n", z);
	} else {
		(void)printf("%.*s\n", STR_ARG(json));
	}
	(void)fflush(stdout);
}

/* False when the cell failed. */
static int
cell_run(const struct cli *c, struct sandbox_context *x, struct str code, bool *ret_good,
    struct err *err)
{
	const struct sandbox_cell cell = {.code = code,
	    .timeout_ms = (uint32_t)c->timeout_s * 1000,
	    .output = stream_put,
	    .display = display_put};
	struct sandbox_cell_result r;
	int rc = sandbox_context_run(x, &cell, &r, err);

	if (rc != 0)
		return rc;
	*ret_good = r.end == SANDBOX_CELL_OK;
	switch (r.end) {
	case SANDBOX_CELL_OK: break;
	case SANDBOX_CELL_ERROR:
		if (r.traceback != NULL && r.traceback[0] != '\0')
			(void)fprintf(stderr, "%s\n", r.traceback);
		else if (r.error_name != NULL && strcmp(r.error_name, "exit") == 0)
			(void)fprintf(stderr, "exit status %s\n", r.error_value);
		else
			(void)fprintf(
			    stderr, "%s\n", r.error_value != NULL ? r.error_value : "failed");
		break;
	case SANDBOX_CELL_INTERRUPTED:
		log_warn(
		    "interrupted (%s); variables are still there", sandbox_cause_name(r.cause));
		break;
	case SANDBOX_CELL_LOST:
		log_warn("the interpreter ended (%s); a new one is begun, without variables",
		    sandbox_cause_name(r.cause));
		break;
	}
	sandbox_cell_free(&r);
	return 0;
}

/* Lines of standard input up to one of "---", or the end; false: nothing was left. */
static bool
cell_read(struct buf *code)
{
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool any = false;
	ssize_t n;

	buf_reset(code);
	while ((n = getline(&line, &room, stdin)) >= 0) {
		any = true;
		if (strcmp(line, "---\n") == 0 || strcmp(line, "---") == 0)
			break;
		buf_put(code, line, (size_t)n);
	}
	return any;
}

int
cli_code(const struct cli *c)
{
	AUTO_BUF struct buf code = BUF(SANDBOX_CODE_MAX);
	struct sandbox_context *x = NULL;
	struct sandbox *sb = NULL;
	struct err e = {0};
	bool good = true;
	int status = cli_attach(c->words[0], &sb), rc;

	if (status != CLI_OK)
		return status;
	rc = sandbox_context_open(sb, c->language != NULL ? c->language : "python", c->cwd,
	    (uint32_t)c->timeout_s * 1000, &x, &e);
	while (rc == 0 && cell_read(&code))
		rc = buf_over(&code)
			 ? err_set(&e, ERR_TOO_LARGE, "a cell is over %zu bytes", SANDBOX_CODE_MAX)
			 : cell_run(c, x, buf_str(&code), &good, &e);
	if (x != NULL)
		sandbox_context_close(x);
	sandbox_detach(sb);
	if (rc != 0)
		return cli_fail(&e);
	return good ? CLI_OK : CLI_FAILED;
}
