/*
 * Code and commands, in a job of cofferdam-mcp. What comes out of a stream was written by code that
 * nobody trusts: it is kept head and tail, and told as text.
 */
#include "agent/mcp_job.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/jcs.h"

#include "common/banned.h"

#define PROGRESS_US 250000
#define RESULTS_MAX ((size_t)1 << 20) /* of values that were shown; more are left out */
#define KILL_AGAIN_MS 2000

/* One stream's output: its first and its last bytes. */
struct kept {
	struct buf head, tail;
	uint64_t total;
};

struct course {
	struct mcp_job *j;
	struct keeper_stream *s;
	uint32_t number; /* of a program */
	bool cell, killed;
	struct kept out[2];
	struct buf results;
	size_t nresults, left_out;
	char line[201];
	uint64_t told_us, total, told;
};

static void
kept_put(struct kept *k, struct str s)
{
	size_t n = k->head.max - k->head.n;

	k->total += s.n;
	if (n > s.n)
		n = s.n;
	buf_put(&k->head, s.p, n);
	s = str_mem(s.p + n, s.n - n);
	if (s.n > MCP_TAIL)
		s = str_mem(s.p + s.n - MCP_TAIL, MCP_TAIL);
	buf_put_str(&k->tail, s);
	if (k->tail.n > 2 * MCP_TAIL)
		buf_drop(&k->tail, k->tail.n - MCP_TAIL);
}

static bool
kept_text(struct kept *k, struct buf *out)
{
	uint64_t left;

	if (k->tail.n > MCP_TAIL)
		buf_drop(&k->tail, k->tail.n - MCP_TAIL);
	left = k->total - k->head.n - k->tail.n;
	buf_put_str(out, buf_str(&k->head));
	if (left != 0)
		buf_printf(out, "\n[... %llu bytes left out ...]\n", (unsigned long long)left);
	buf_put_str(out, buf_str(&k->tail));
	return left != 0;
}

/* The last line that is not empty, for who looks on. */
static void
line_keep(struct course *c, struct str s)
{
	struct str last = str_trim(s);

	for (size_t i = last.n; i != 0; i--)
		if (last.p[i - 1] == '\n') {
			last = str_mem(last.p + i, last.n - i);
			break;
		}
	if (last.n > sizeof(c->line) - 1)
		last.n = sizeof(c->line) - 1;
	if (last.n == 0)
		return;
	(void)memcpy(c->line, last.p, last.n);
	c->line[last.n] = '\0';
}

static void
progress(struct course *c)
{
	AUTO_BUF struct buf b = BUF(512);
	uint64_t now = clock_boot_us();

	if (c->total == c->told || now - c->told_us < PROGRESS_US)
		return;
	buf_u64(&b, c->total);
	buf_lz(&b, c->line);
	(void)mcp_frame_send(c->j->fd, MCP_F_PROGRESS, buf_str(&b), NULL);
	c->told = c->total;
	c->told_us = now;
}

static void
display(struct course *c, struct str json)
{
	AUTO(json) struct json_doc *d = NULL;

	if (json_parse_numbers(json, "display", &d, NULL) != 0 ||
	    json_type(json_root(d)) != JSON_OBJECT)
		return;
	if (c->results.n + json.n + 2 > c->results.max) {
		c->left_out++;
		return;
	}
	if (c->nresults++ != 0)
		buf_put_c(&c->results, ',');
	buf_put_str(&c->results, json);
}

/* The hub wants it to end: a cell is interrupted with its stream, a program is killed. */
static int
end_it(struct course *c, struct err *err)
{
	if (c->cell || c->number == 0) {
		keeper_stream_close(TAKE_PTR(c->s));
		return err_set(err, ERR_STATE, "it was stopped");
	}
	if (!c->killed && keeper_signal(c->j->k, c->number, SIGKILL, NULL) == 0)
		c->killed = true;
	return 0;
}

/* 1: *ev is its end; 0: go on. */
static int
event_take(struct course *c, const struct keeper_event *ev, struct err *err)
{
	switch (ev->type) {
	case KEEPER_STARTED:
		c->number = ev->number;
		/* What it was given on standard input is all that there is. */
		return c->cell || c->j->o->args.stdin_text.n == 0
			   ? 0
			   : keeper_input(c->j->k, c->number, STR(""), true, err);
	case KEEPER_OUTPUT:
		kept_put(&c->out[ev->number == 2 ? 1 : 0], ev->bytes);
		c->total += ev->bytes.n;
		line_keep(c, ev->bytes);
		return 0;
	case KEEPER_DISPLAY: display(c, ev->bytes); return 0;
	case KEEPER_ENDED: return 1;
	case KEEPER_FAILED: return err_set(err, ev->code, "%.*s", STR_ARG(ev->bytes));
	}
	return err_set(err, ERR_PROTOCOL, "keeper: an event of type %d", (int)ev->type);
}

static int
follow(struct course *c, struct keeper_event *ev, struct err *err)
{
	int rc = 0;

	while (rc == 0) {
		struct pollfd p[2] = {{.fd = keeper_stream_fd(c->s), .events = POLLIN},
		    {.fd = c->killed ? -1 : c->j->fd, .events = POLLIN}};

		if (mcp_job_stopped(c->j) && (rc = end_it(c, err)) != 0)
			return rc;
		(void)poll(p, 2, c->killed ? KILL_AGAIN_MS : PROGRESS_US / 1000);
		if ((rc = keeper_next(c->s, 0, ev, err)) == ERR_TIMEOUT)
			rc = 0;
		else if (rc == 0)
			rc = event_take(c, ev, err);
		progress(c);
	}
	return rc == 1 ? 0 : rc;
}

/* --- the result ------------------------------------------------------------------------ */

static const char *
cause_of(const struct course *c, const struct keeper_event *ev)
{
	static const char *const ends[] = {[SANDBOX_CELL_OK] = "ok",
	    [SANDBOX_CELL_ERROR] = "error",
	    [SANDBOX_CELL_INTERRUPTED] = "interrupted",
	    [SANDBOX_CELL_LOST] = "lost"};

	if (!c->cell)
		return sandbox_cause_name(ev->cause);
	return (size_t)ev->end < ARRAY_LEN(ends) ? ends[ev->end] : "lost";
}

static void
error_put(const struct keeper_event *ev, struct jcs *j)
{
	if (ev->name.n == 0 && ev->error.n == 0)
		return;
	jcs_open(j, "error");
	jcs_str_lossy(j, "message", ev->error);
	jcs_str_lossy(j, "name", ev->name);
	jcs_str_lossy(j, "trace", ev->trace);
	jcs_close(j);
}

/* What the broker refused meanwhile, and what to make of it. */
static void
refused_take(struct mcp_job *j, struct json_doc **ret)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 18);
	struct err e = {0};

	if (keeper_query(j->k, "refused", STR("{}"), &b, &e) != 0 ||
	    json_parse(buf_str(&b), "refused", ret, &e) != 0)
		*ret = NULL; /* the output has the refusal, too, as its client saw it */
}

static bool
result_put(struct course *c, const struct keeper_event *ev, struct buf *out)
{
	AUTO_BUF struct buf text = BUF(MCP_HEAD + MCP_TAIL + 256);
	AUTO_BUF struct buf errors = BUF(MCP_HEAD + MCP_TAIL + 256);
	AUTO(json) struct json_doc *d = NULL;
	const struct json *refused;
	bool cut = c->left_out != 0, ended = !c->cell && ev->cause == SANDBOX_EXITED;
	struct jcs j;

	cut = kept_text(&c->out[0], &text) || cut;
	cut = kept_text(&c->out[1], &errors) || cut;
	refused_take(c->j, &d);
	refused = d != NULL ? json_get(json_root(d), "refused") : NULL;
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", cause_of(c, ev));
	jcs_int(&j, "duration_ms", (int64_t)(ev->duration_us / 1000));
	if (c->cell)
		error_put(ev, &j);
	if (ended)
		jcs_int(&j, "exit_code", ev->value);
	if (json_count(refused) != 0)
		jcs_z(&j, "hint",
		    "what was refused stays refused until what it names has changed; for what "
		    "needs approval call request_approval with the id");
	jcs_int(&j, "output_bytes", (int64_t)c->total);
	if (json_count(refused) != 0)
		(void)jcs_value(&j, "refused", refused, NULL);
	if (c->cell) {
		jcs_array(&j, "results");
		if (c->nresults != 0)
			jcs_raw(&j, NULL, buf_str(&c->results));
		jcs_array_end(&j);
	}
	jcs_z(&j, "run", keeper_run(c->j->k));
	jcs_str_lossy(&j, "stderr", buf_str(&errors));
	jcs_str_lossy(&j, "stdout", buf_str(&text));
	jcs_bool(&j, "truncated", cut);
	jcs_close(&j);
	return c->cell ? ev->end != SANDBOX_CELL_OK : !(ended && ev->value == 0);
}

static void
course_free(struct course *c)
{
	keeper_stream_close(c->s);
	for (size_t i = 0; i < 2; i++) {
		buf_free(&c->out[i].head);
		buf_free(&c->out[i].tail);
	}
	buf_free(&c->results);
}
#define AUTO_COURSE __attribute__((cleanup(course_free)))

static struct course
course_of(struct mcp_job *j, bool cell)
{
	return (struct course){.j = j,
	    .cell = cell,
	    .out = {{BUF(MCP_HEAD), BUF(3 * MCP_TAIL + 65536), 0},
		{BUF(MCP_HEAD), BUF(3 * MCP_TAIL + 65536), 0}},
	    .results = BUF(RESULTS_MAX)};
}

/* --- code ------------------------------------------------------------------------------ */

/* The hub asks for one only where there is none of that name. */
static int
context_open(struct mcp_job *j, char id[KEEPER_ID_MAX + 1], struct err *err)
{
	AUTO_FREE char *language = str_dup(j->o->args.language);
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	struct keeper_event ev = {0};
	int rc = keeper_context_open(j->k, language, NULL, id, &s, err);

	do {
		if (rc == 0)
			rc = keeper_next(s, -1, &ev, err);
		if (rc == 0 && ev.type == KEEPER_FAILED)
			rc = err_set(err, ev.code, "%.*s", STR_ARG(ev.bytes));
	} while (rc == 0 && ev.type != KEEPER_STARTED && ev.type != KEEPER_ENDED);
	return rc != 0 ? rc : mcp_frame_send(j->fd, MCP_F_CONTEXT, str_z(id), err);
}

int
mcp_job_code(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_COURSE struct course c = course_of(j, true);
	char id[KEEPER_ID_MAX + 1] = "";
	struct keeper_event ev;
	int rc = 0;

	(void)snprintf(id, sizeof(id), "%s", j->o->context);
	if (id[0] == '\0')
		rc = context_open(j, id, err);
	else if (j->o->args.restart)
		rc = keeper_context_restart(j->k, id, err);
	if (rc != 0 ||
	    (rc = keeper_cell(j->k, id, j->o->args.code, (uint32_t)j->o->args.timeout_s * 1000,
		 &c.s, err)) != 0 ||
	    (rc = follow(&c, &ev, err)) != 0)
		return rc;
	*failed = result_put(&c, &ev, out);
	return 0;
}

/* --- commands -------------------------------------------------------------------------- */

int
mcp_job_command(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_COURSE struct course c = course_of(j, false);
	AUTO_FREE char *command = str_dup(j->o->args.command), *cwd = str_dup(j->o->args.cwd);
	char bash[] = "bash", option[] = "-c";
	char *argv[] = {bash, option, command, NULL};
	const struct sandbox_exec x = {.argv = argv,
	    .cwd = cwd,
	    .stdin_bytes = j->o->args.stdin_text,
	    .pipe_stdin = j->o->args.stdin_text.n != 0,
	    .stdin_fd = -1,
	    .timeout_s = (uint32_t)j->o->args.timeout_s};
	struct keeper_event ev;
	int rc = keeper_program(j->k, &x, NULL, &c.s, err);

	if (rc != 0 || (rc = follow(&c, &ev, err)) != 0)
		return rc;
	*failed = result_put(&c, &ev, out);
	return 0;
}
