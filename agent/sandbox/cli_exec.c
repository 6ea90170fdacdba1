/*
 * `cofferdam sandbox exec`, `attach`: a program with the person's own streams, in a fresh sandbox
 * of this process or in one that is there. What is to start fast: no more is done here before the
 * start than is asked for.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

/* As a table: what it was, who tried, how often. */
static void
explain(const struct sandbox_result *r)
{
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct err e = {0};
	size_t n;

	if (r->refused == NULL || cli_json_parse(str_z(r->refused), &d, &e) != 0 ||
	    (n = cli_json_count(d, 0)) == 0) {
		log_warn("no system call was refused%s", e.msg[0] != '\0' ? " (unreadable)" : "");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		size_t row = cli_json_at(d, 0, i);
		AUTO_FREE char *call = cli_json_text(d, cli_json_get(d, row, "call"));
		AUTO_FREE char *who = cli_json_text(d, cli_json_get(d, row, "program"));

		log_warn("refused: system call %s (%lld) by %s, %lld times", call,
		    (long long)cli_json_int(d, cli_json_get(d, row, "number")), who,
		    (long long)cli_json_int(d, cli_json_get(d, row, "count")));
	}
}

/* Standard input as code. */
static int
code_read(struct buf *code, struct err *err)
{
	char room[16384];
	ssize_t k;

	while ((k = read(STDIN_FILENO, room, sizeof(room))) > 0)
		buf_put(code, room, (size_t)k);
	if (k < 0)
		return err_sys(err, ERR_SYSTEM, errno, "standard input");
	if (buf_over(code))
		return err_set(
		    err, ERR_TOO_LARGE, "code over %zu bytes on standard input", code->max);
	return 0;
}

static int
program_run(const struct cli *c, struct sandbox *sb, char *const *argv)
{
	AUTO_BUF struct buf code = BUF(SANDBOX_CODE_MAX);
	struct sandbox_streams s = {.x = {.argv = argv,
					.cwd = c->cwd,
					.env = c->env,
					.timeout_s = (uint32_t)c->timeout_s,
					.pipe_stdin = c->language == NULL,
					.stdin_fd = c->language == NULL ? STDIN_FILENO : -1,
					.background = c->background,
					.tty = c->tty},
	    .end_unread = true};
	struct sandbox_result r;
	struct err e = {0};
	int status = CLI_FAILED, rc = 0;

	if (c->language != NULL && (rc = code_read(&code, &e)) == 0) {
		s.x.language = c->language;
		s.x.code = buf_str(&code);
	}
	if (rc != 0 || sandbox_streams_run(sb, &s, &r, &status, &e) != 0) {
		log_error("%s", e.msg);
		return e.code == ERR_NOT_FOUND ? CLI_NOT_FOUND
		       : e.code == ERR_INVALID ? CLI_USAGE
					       : CLI_UNAVAILABLE;
	}
	if (r.cause != SANDBOX_EXITED && status != 128 + SIGPIPE) {
		AUTO_FREE char *words = sandbox_result_words(&r);

		log_warn("%s", words);
	}
	if (c->explain)
		explain(&r);
	sandbox_result_free(&r);
	return status;
}

static int
exec_check(const struct cli *c)
{
	struct err e;

	if (c->nwords != 0)
		(void)err_set(&e, ERR_INVALID, "\"%s\": the command comes behind --", c->words[0]);
	else if (c->command != NULL && c->language != NULL)
		(void)err_set(&e, ERR_INVALID,
		    "--language takes its code from standard input, "
		    "and no command");
	else if (c->command == NULL && c->language == NULL && !c->level)
		(void)err_set(
		    &e, ERR_INVALID, "no command: cofferdam sandbox exec [options] -- COMMAND...");
	else if (c->in != NULL && cli_has_spec(c))
		(void)err_set(&e, ERR_INVALID,
		    "--in %s: options of a sandbox belong to `create`, it is built already", c->in);
	else if (c->in == NULL && c->background)
		(void)err_set(
		    &e, ERR_INVALID, "--background: a fresh sandbox ends with its command");
	else
		return CLI_OK;
	return cli_fail(&e);
}

int
cli_exec(const struct cli *c)
{
	AUTO(sandbox) struct sandbox *sb = NULL;
	AUTO_FREE char *level = NULL;
	int status = exec_check(c);

	if (status != CLI_OK)
		return status;
	if (c->in != NULL) {
		if ((status = cli_attach(c->in, &sb)) == CLI_OK)
			status = program_run(c, sb, c->command);
		sandbox_detach(TAKE_PTR(sb));
		return status;
	}
	if ((status = cli_create(c, NULL, true, &sb, &level)) != CLI_OK)
		return status;
	if (c->level) {
		(void)printf("%s\n", level);
		(void)fflush(stdout);
	}
	return c->command != NULL || c->language != NULL ? program_run(c, sb, c->command) : CLI_OK;
}

/* A shell, or what is behind "--", with a terminal. */
int
cli_shell(const struct cli *c)
{
	char bash[] = "/bin/bash", *shell[] = {bash, NULL};
	struct cli own = *c;
	struct sandbox *sb = NULL;
	int status = cli_attach(c->words[0], &sb);

	if (status != CLI_OK)
		return status;
	own.tty = true;
	status = program_run(&own, sb, c->command != NULL ? c->command : shell);
	sandbox_detach(sb);
	return status;
}
