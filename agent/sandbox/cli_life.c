/*
 * `cofferdam sandbox` create, list, inspect, kill, pause, resume, extend, network: the sandbox as a
 * whole (the command line, as the person who types it).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

#define LIST_MAX ((size_t)64 << 20)
#define EXTEND_MAX 86400

int
cli_create_named(const struct cli *c)
{
	AUTO_FREE char *level = NULL;
	struct sandbox *sb = NULL;
	int status = cli_create(c, c->words[0], false, &sb, &level);

	if (status != CLI_OK)
		return status;
	if (c->level)
		(void)printf("%s\n", level);
	sandbox_detach(sb);
	return CLI_OK;
}

/* Seconds as people read them. */
static char *
seconds(int64_t s)
{
	if (s >= 3600)
		return xasprintf("%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
	if (s >= 60)
		return xasprintf("%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
	return xasprintf("%llds", (long long)s);
}

/* One row of list: what inspect says of it. */
static void
row_put(struct cli_table *t, const struct cli_doc *d, size_t v)
{
	static const char *const texts[] = {"name", "state", "backend"};
	AUTO_FREE char *error = cli_json_text(d, cli_json_get(d, v, "error"));
	size_t usage = cli_json_get(d, v, "usage"), left = cli_json_get(d, v, "left_ms");
	AUTO_FREE char *time = seconds(cli_json_int(d, left) / 1000), *labels = NULL;
	AUTO_FREE char *memory = xasprintf(
	    "%lldM", (long long)(cli_json_int(d, cli_json_get(d, usage, "memory_bytes")) >> 20));
	AUTO_FREE char *level =
	    cli_json_text(d, cli_json_get(d, cli_json_get(d, v, "level"), "level"));
	AUTO_FREE char *since = cli_json_text(d, cli_json_get(d, v, "paused_since"));
	AUTO_FREE char *still = xasprintf("%s (stands still)", time);
	AUTO_BUF struct buf b = BUF(65536);
	size_t list = cli_json_get(d, v, "labels");

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO_FREE char *text = cli_json_text(d, cli_json_get(d, v, texts[i]));
		AUTO_FREE char *more = xasprintf("%s since %s", text, since);

		cli_table_cell(t, i == 1 && since[0] != '\0' ? more : text);
	}
	cli_table_cell(t, level);
	cli_table_cell(t, error[0] != '\0' ? "" : since[0] != '\0' ? still : time);
	cli_table_cell(t, error[0] != '\0' ? "" : memory);
	for (size_t i = 0; i < cli_json_count(d, list); i++) {
		AUTO_FREE char *label = cli_json_text(d, cli_json_at(d, list, i));

		buf_printf(&b, "%s%s", i != 0 ? " " : "", label);
	}
	labels = buf_dup_z(&b);
	cli_table_cell(t, labels);
}

/* Why nothing is known of it. */
static void
error_say(const struct cli_doc *d, size_t v)
{
	AUTO_FREE char *error = cli_json_text(d, cli_json_get(d, v, "error"));
	AUTO_FREE char *name = cli_json_text(d, cli_json_get(d, v, "name"));

	if (error[0] != '\0')
		log_warn("%s: %s", name, error);
}

int
cli_list(const struct cli *c)
{
	static const char *const heads[] = {
	    "NAME", "STATE", "BACK END", "LEVEL", "ENDS IN", "MEMORY", "LABELS", NULL};
	AUTO_BUF struct buf b = BUF(LIST_MAX);
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct cli_table *t;
	struct err e = {0};

	if (sandbox_list(&b, &e) != 0)
		return cli_fail(&e);
	if (c->json) {
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
		return CLI_OK;
	}
	if (cli_json_parse(buf_str(&b), &d, &e) != 0)
		return cli_fail(&e);
	t = cli_table_new(heads);
	for (size_t i = 0; i < cli_json_count(d, 0); i++)
		row_put(t, d, cli_json_at(d, 0, i));
	cli_table_print(t);
	(void)fflush(stdout);
	for (size_t i = 0; i < cli_json_count(d, 0); i++)
		error_say(d, cli_json_at(d, 0, i));
	return CLI_OK;
}

int
cli_inspect(const struct cli *c)
{
	AUTO_BUF struct buf b = BUF(LIST_MAX);
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct sandbox *sb = NULL;
	struct err e = {0};
	int status = cli_attach(c->words[0], &sb), rc;

	if (status != CLI_OK)
		return status;
	rc = sandbox_inspect(sb, &b, &e);
	sandbox_detach(sb);
	if (rc != 0)
		return cli_fail(&e);
	if (c->json) {
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
		return CLI_OK;
	}
	if (cli_json_parse(buf_str(&b), &d, &e) != 0)
		return cli_fail(&e);
	cli_print_json(d, 0);
	return CLI_OK;
}

/* Attach, one order, detach. */
typedef int order_fn(struct sandbox *sb, const struct cli *c, struct err *err);

static int
order(const struct cli *c, order_fn *give)
{
	struct sandbox *sb = NULL;
	struct err e = {0};
	int status = cli_attach(c->words[0], &sb), rc;

	if (status != CLI_OK)
		return status;
	rc = give(sb, c, &e);
	sandbox_detach(sb);
	return rc == 0 ? CLI_OK : cli_fail(&e);
}

static int
give_kill(struct sandbox *sb, const struct cli *c, struct err *err)
{
	uint64_t proc;

	if (!cli_number(c->words[1], UINT32_MAX, &proc))
		return err_set(err, ERR_INVALID, "\"%s\" is not the number of a program; see `ps`",
		    c->words[1]);
	return sandbox_proc_kill(sb, (uint32_t)proc, err);
}

int
cli_kill(const struct cli *c)
{
	struct sandbox *sb = NULL;
	int status;

	if (c->nwords == 2)
		return order(c, give_kill);
	if ((status = cli_attach(c->words[0], &sb)) == CLI_OK)
		sandbox_destroy(sb);
	return status;
}

static int
give_pause(struct sandbox *sb, const struct cli *c UNUSED, struct err *err)
{
	return sandbox_pause(sb, err);
}

static int
give_resume(struct sandbox *sb, const struct cli *c UNUSED, struct err *err)
{
	return sandbox_resume(sb, err);
}

static bool
is_paused(struct sandbox *sb)
{
	AUTO_BUF struct buf b = BUF(LIST_MAX);
	AUTO(cli_doc) struct cli_doc *d = NULL;
	struct err e = {0};

	return sandbox_inspect(sb, &b, &e) == 0 && cli_json_parse(buf_str(&b), &d, &e) == 0 &&
	       cli_json_get(d, 0, "paused_since") != CLI_NONE;
}

static int
give_time(struct sandbox *sb, const struct cli *c, struct err *err)
{
	uint64_t s;

	int rc;

	if (!cli_number(c->words[1], EXTEND_MAX, &s) || s == 0)
		return err_set(err, ERR_INVALID, "SECONDS must be from 1 to %d, is \"%s\"",
		    EXTEND_MAX, c->words[1]);
	rc = sandbox_extend(sb, (uint32_t)s, err);
	if (rc == 0 && is_paused(sb))
		log_warn("it is paused: the %llu s count from resume", (unsigned long long)s);
	return rc;
}

int
cli_pause(const struct cli *c)
{
	return order(c, give_pause);
}

int
cli_resume(const struct cli *c)
{
	return order(c, give_resume);
}

int
cli_extend(const struct cli *c)
{
	return order(c, give_time);
}

/* --- network --------------------------------------------------------------------------------- */

/* Becomes the command, with the listeners as sd_listen_fds(3) has them. */
static int
listeners_serve(const struct cli *c, const int *fds, struct err *err)
{
	AUTO_FREE char *n = xasprintf("%zu", c->nadd), *pid = xasprintf("%d", (int)getpid());
	int high[CLI_TARGETS_MAX];

	for (size_t i = 0; i < c->nadd; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + CLI_TARGETS_MAX)) < 0)
			return err_sys(err, ERR_SYSTEM, errno, "listener");
	/* Made for the broker, which does not block; who reads of sd_listen_fds expects that it
	 * does. */
	for (size_t i = 0; i < c->nadd; i++)
		if (dup2(high[i], 3 + (int)i) < 0 || fcntl(3 + (int)i, F_SETFL, 0) != 0)
			return err_sys(err, ERR_SYSTEM, errno, "listener");
	(void)setenv("LISTEN_FDS", n, 1);
	(void)setenv("LISTEN_PID", pid, 1);
	(void)execvp(c->command[0], c->command);
	return err_sys(err, ERR_NOT_FOUND, errno, "%s", c->command[0]);
}

static int
give_network(struct sandbox *sb, const struct cli *c, struct err *err)
{
	int fds[CLI_TARGETS_MAX], rc;

	if (c->nadd == 0 && c->ndrop == 0)
		return err_set(err, ERR_INVALID, "nothing to --add or --drop");
	if (c->command != NULL && c->nadd == 0)
		return err_set(err, ERR_INVALID, "a command is for the listeners of --add");
	rc = sandbox_network(sb, c->add, c->nadd, c->drop, c->ndrop, fds, err);
	if (rc == 0 && c->command != NULL)
		rc = listeners_serve(c, fds, err);
	for (size_t i = 0; rc == 0 && i < c->nadd; i++)
		(void)close(fds[i]);
	return rc;
}

int
cli_network(const struct cli *c)
{
	return order(c, give_network);
}
