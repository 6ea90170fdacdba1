/*
 * `cofferdam sandbox` spawn, ps, logs, wait, input, signal: programs that go on by themselves (the
 * command line, as the person who types it). Their output goes out as it is; it is asked for.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

#define FOLLOW_MS 30000

/* Attaches to words[0]; words[1] is a program's number. */
static int
attach_proc(const struct cli *c, struct sandbox **ret, uint32_t *ret_proc)
{
	uint64_t proc;

	if (!cli_number(c->words[1], UINT32_MAX, &proc) || proc == 0) {
		log_error("\"%s\" is not the number of a program; see `ps`", c->words[1]);
		return CLI_USAGE;
	}
	*ret_proc = (uint32_t)proc;
	return cli_attach(c->words[0], ret);
}

typedef int proc_fn(const struct cli *c, struct sandbox *sb, uint32_t proc, struct err *err);

static int
with_proc(const struct cli *c, proc_fn *fn)
{
	struct sandbox *sb = NULL;
	struct err e = {0};
	uint32_t proc = 0;
	int status = attach_proc(c, &sb, &proc), rc;

	if (status != CLI_OK)
		return status;
	rc = fn(c, sb, proc, &e);
	sandbox_detach(sb);
	return rc == 0 ? CLI_OK : cli_fail(&e);
}

int
cli_spawn(const struct cli *c)
{
	const struct sandbox_exec x = {.argv = c->command,
	    .cwd = c->cwd,
	    .env = c->env,
	    .timeout_s = (uint32_t)c->timeout_s,
	    .merge = true,
	    .tty = c->tty,
	    .rows = 24,
	    .cols = 80,
	    .pipe_stdin = c->input,
	    .stdin_fd = -1};
	struct sandbox *sb = NULL;
	struct err e = {0};
	uint32_t proc = 0;
	int status, rc;

	if (c->command == NULL) {
		log_error("no command: cofferdam sandbox spawn NAME [options] -- COMMAND...");
		return CLI_USAGE;
	}
	if ((status = cli_attach(c->words[0], &sb)) != CLI_OK)
		return status;
	rc = sandbox_spawn(sb, &x, &proc, &e);
	sandbox_detach(sb);
	if (rc != 0)
		return cli_fail(&e);
	(void)printf("%u\n", proc);
	return CLI_OK;
}

/* Of a context the command is its driver's whole text, which nobody wants to read. */
static void
command_put(const struct cli_doc *d, size_t argv, struct buf *out)
{
	size_t n = cli_json_count(d, argv);
	AUTO_FREE char *first = cli_json_text(d, cli_json_at(d, argv, 0));
	AUTO_FREE char *last = cli_json_text(d, cli_json_at(d, argv, n != 0 ? n - 1 : 0));
	const char *language = sandbox_context_language(first, last);

	if (language != NULL) {
		buf_printf(out, "(context %s)", language);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *arg = cli_json_text(d, cli_json_at(d, argv, i));

		buf_printf(out, "%s%s", i != 0 ? " " : "", arg);
	}
}

static void
row_put(struct cli_table *t, const struct cli_doc *d, size_t v)
{
	static const char *const texts[] = {"proc", "state", "cause", "value", "output"};
	AUTO_BUF struct buf b = BUF(65536);
	bool left = cli_json_get(d, v, "left") != CLI_NONE;
	AUTO_FREE char *line = NULL;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO_FREE char *text = cli_json_text(d, cli_json_get(d, v, texts[i]));

		cli_table_cell(t, i == 1 && left ? "ended, left programs" : text);
	}
	command_put(d, cli_json_get(d, v, "argv"), &b);
	line = buf_dup_z(&b);
	cli_table_cell(t, line);
}

int
cli_ps(const struct cli *c)
{
	static const char *const heads[] = {
	    "PROC", "STATE", "CAUSE", "VALUE", "OUTPUT", "COMMAND", NULL};
	AUTO_BUF struct buf b = BUF((size_t)16 << 20);
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct sandbox *sb = NULL;
	struct cli_table *t;
	struct err e = {0};
	int status = cli_attach(c->words[0], &sb), rc;

	if (status != CLI_OK)
		return status;
	rc = sandbox_proc_list(sb, &b, &e);
	sandbox_detach(sb);
	if (rc != 0 || (!c->json && cli_json_parse(buf_str(&b), &d, &e) != 0))
		return cli_fail(&e);
	if (c->json) {
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
		return CLI_OK;
	}
	t = cli_table_new(heads);
	for (size_t i = 0; i < cli_json_count(d, 0); i++)
		row_put(t, d, cli_json_at(d, 0, i));
	cli_table_print_fit(t);
	return CLI_OK;
}

/* False: nobody reads. */
static bool
out_put(struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(STDOUT_FILENO, s.p, s.n);

		if (k < 0 && errno != EINTR)
			return false;
		if (k > 0) {
			s.p += k;
			s.n -= (size_t)k;
		}
	}
	return true;
}

/* What is kept, and with --follow what comes until its end. */
static int
logs_copy(const struct cli *c, struct sandbox *sb, uint32_t proc, struct err *err)
{
	struct sandbox_logs at = {.next = c->from, .running = true};
	uint64_t asked;

	do {
		AUTO_BUF struct buf b = BUF((size_t)1 << 20);
		int rc;

		asked = at.next;
		rc = sandbox_proc_logs(sb, proc, asked, c->follow ? FOLLOW_MS : 0, &b, &at, err);
		if (rc != 0)
			return rc;
		if (at.first > asked)
			log_warn("bytes %llu to %llu are no longer kept", (unsigned long long)asked,
			    (unsigned long long)at.first);
		if (!out_put(buf_str(&b)))
			return 0;
	} while (at.next != asked || (c->follow && at.running));
	return 0;
}

int
cli_logs(const struct cli *c)
{
	return with_proc(c, logs_copy);
}

int
cli_wait(const struct cli *c)
{
	uint64_t left = c->timeout_s != 0 ? c->timeout_s * 1000 : UINT64_MAX;
	struct sandbox *sb = NULL;
	struct sandbox_result r;
	struct err e = {0};
	uint32_t proc = 0;
	int status = attach_proc(c, &sb, &proc), rc = ERR_TIMEOUT;

	if (status != CLI_OK)
		return status;
	while (rc == ERR_TIMEOUT && left != 0) {
		uint32_t ms = left < 60000 ? (uint32_t)left : 60000;

		rc = sandbox_proc_wait(sb, proc, ms, &r, &e);
		left -= left == UINT64_MAX ? 0 : ms;
	}
	sandbox_detach(sb);
	if (rc != 0)
		return rc == ERR_TIMEOUT ? (log_error("%s", e.msg), 124) : cli_fail(&e);
	status = sandbox_streams_status(&r);
	sandbox_result_free(&r);
	return status;
}

static int
input_copy(const struct cli *c, struct sandbox *sb, uint32_t proc, struct err *err)
{
	char room[32768];
	ssize_t k;
	int rc = 0;

	while (rc == 0 && (k = read(STDIN_FILENO, room, sizeof(room))) != 0) {
		if (k < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "standard input");
		if (k > 0)
			rc = sandbox_proc_input(sb, proc, str_mem(room, (size_t)k), false, err);
	}
	return rc == 0 && c->close ? sandbox_proc_input(sb, proc, STR_NONE, true, err) : rc;
}

int
cli_input(const struct cli *c)
{
	return with_proc(c, input_copy);
}

/* TERM, SIGTERM, 15; 0: none. */
static int
signal_number(const char *word)
{
	uint64_t n;

	if (cli_number(word, 64, &n))
		return (int)n;
	if (strncasecmp(word, "SIG", 3) == 0)
		word += 3;
	for (int i = 1; i < 32; i++)
		if (strcasecmp(sigabbrev_np(i), word) == 0)
			return i;
	return 0;
}

int
cli_signal(const struct cli *c)
{
	struct sandbox *sb = NULL;
	struct err e = {0};
	uint32_t proc = 0;
	int number = signal_number(c->words[2]), status, rc;

	if (number == 0) {
		log_error(
		    "\"%s\" is no signal: a number from 1 to 64, or a name as TERM", c->words[2]);
		return CLI_USAGE;
	}
	if ((status = attach_proc(c, &sb, &proc)) != CLI_OK)
		return status;
	rc = sandbox_proc_signal(sb, proc, number, &e);
	sandbox_detach(sb);
	return rc == 0 ? CLI_OK : cli_fail(&e);
}
