/*
 * Runs cells in a context of a fresh sandbox, by the library as any caller does: for the tests of
 * contexts and their bench. Arguments: language, memory MiB, output MiB. Each line of the input is
 * one request, each line of the output one answer, both JSON:
 *	{"code", "timeout_ms", "watch_ms"}	what became of the cell (watch_ms: then the watch
 *says stop)
 *	{"restart": 1}, {"open": LANGUAGE}	a fresh interpreter, another context
 *	{"exec": SHELL COMMAND}			its output, in the same sandbox
 *	{"bench": N, "code"}			median and least microseconds of N such cells
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/timerfd.h>

#include "agent/sandbox/sandbox.h"
#include "common/jcs.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define OUTPUT_KEPT 20000

struct tool {
	struct sandbox *sb;
	struct sandbox_context *c;
	struct buf shown; /* displays of this cell, JSON values with commas */
};

static void
display(void *arg, bool result, struct str json)
{
	struct tool *t = arg;

	buf_printf(&t->shown, "%s{\"bundle\":%.*s,\"result\":%s}", t->shown.n != 0 ? "," : "",
	    STR_ARG(json), result ? "true" : "false");
}

static bool
stop(void *arg UNUSED)
{
	return true;
}

static const char *
end_name(enum sandbox_cell_end end)
{
	switch (end) {
	case SANDBOX_CELL_OK: return "ok";
	case SANDBOX_CELL_ERROR: return "error";
	case SANDBOX_CELL_INTERRUPTED: return "interrupted";
	case SANDBOX_CELL_LOST: break;
	}
	return "lost";
}

static void
answer(struct tool *t, const struct sandbox_cell_result *r, struct buf *out)
{
	AUTO_BUF struct buf list = BUF((size_t)200 << 20), text = BUF((size_t)1 << 20);
	struct jcs j;

	buf_put_c(&list, '[');
	buf_put_str(&list, buf_str(&t->shown));
	buf_put_c(&list, ']');
	sandbox_result_text(&r->out, &text);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", sandbox_cause_name(r->cause));
	jcs_raw(&j, "display", buf_str(&list));
	jcs_z(&j, "end", end_name(r->end));
	jcs_str_lossy(&j, "error_name", str_z(r->error_name));
	jcs_str_lossy(&j, "error_value", str_z(r->error_value));
	jcs_str_lossy(&j, "output", buf_str(&text));
	jcs_int(&j, "total", (int64_t)r->out.total);
	jcs_str_lossy(&j, "traceback", str_z(r->traceback));
	jcs_int(&j, "value", r->value);
	jcs_close(&j);
}

static int
cell(struct tool *t, const struct json *q, struct buf *out, struct err *err)
{
	int64_t watch = json_int(json_get(q, "watch_ms"));
	struct itimerspec when = {
	    .it_value = {.tv_sec = watch / 1000, .tv_nsec = watch % 1000 * 1000000}};
	AUTO_FD int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct sandbox_cell_result r;
	struct sandbox_cell c = {.code = json_str(json_get(q, "code")),
	    .timeout_ms = (uint32_t)json_int(json_get(q, "timeout_ms")),
	    .display = display,
	    .arg = t,
	    .watch_fd = watch != 0 ? &timer : NULL,
	    .watch = stop,
	    .head = OUTPUT_KEPT,
	    .tail = OUTPUT_KEPT};
	int rc;

	if (timer < 0 || timerfd_settime(timer, 0, &when, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "timer");
	buf_reset(&t->shown);
	rc = sandbox_context_run(t->c, &c, &r, err);
	if (rc != 0)
		return rc;
	answer(t, &r, out);
	sandbox_cell_free(&r);
	return 0;
}

static int
less(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int
bench(struct tool *t, const struct json *q, struct buf *out, struct err *err)
{
	size_t n = (size_t)json_int(json_get(q, "bench"));
	AUTO_FREE uint64_t *us = xcalloc(n, sizeof(*us));
	struct sandbox_cell c = {.code = json_str(json_get(q, "code"))};

	for (size_t i = 0; i < n; i++) {
		struct sandbox_cell_result r;

		if (sandbox_context_run(t->c, &c, &r, err) != 0)
			return err->code;
		us[i] = r.out.duration_us;
		sandbox_cell_free(&r);
	}
	qsort(us, n, sizeof(*us), less);
	buf_printf(out, "{\"least_us\":%llu,\"median_us\":%llu}", (unsigned long long)us[0],
	    (unsigned long long)us[n / 2]);
	return 0;
}

static int
shell(struct tool *t, const struct json *q, struct buf *out, struct err *err)
{
	struct sandbox_exec x = {.language = "bash",
	    .code = json_str(json_get(q, "exec")),
	    .stdin_fd = -1,
	    .merge = true,
	    .head = OUTPUT_KEPT};
	struct sandbox_result r;
	struct jcs j;

	if (sandbox_exec(t->sb, &x, &r, err) != 0)
		return err->code;
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "output", buf_str(&r.head));
	jcs_close(&j);
	sandbox_result_free(&r);
	return 0;
}

static int
request(struct tool *t, struct str line, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	struct sandbox_context *fresh = NULL;
	AUTO_FREE char *language = NULL;
	const struct json *q;

	if (json_parse(line, "request", &d, err) != 0)
		return err->code;
	q = json_root(d);
	if (json_get(q, "bench") != NULL)
		return bench(t, q, out, err);
	if (json_get(q, "exec") != NULL)
		return shell(t, q, out, err);
	if (json_get(q, "code") != NULL)
		return cell(t, q, out, err);
	if (json_get(q, "restart") != NULL) {
		if (sandbox_context_restart(t->c, err) != 0)
			return err->code;
	} else {
		language = str_dup(json_str(json_get(q, "open")));
		if (sandbox_context_open(t->sb, language, NULL, 0, &fresh, err) != 0)
			return err->code;
		sandbox_context_close(t->c);
		t->c = fresh;
	}
	buf_put_z(out, "{}");
	return 0;
}

int
main(int argc, char **argv)
{
	struct sandbox_spec spec = {0};
	struct tool t = {.shown = BUF((size_t)100 << 20)};
	AUTO_FREE char *line = NULL;
	struct err err = {0};
	uint64_t memory = 0, output = 0;
	size_t cap = 0;
	ssize_t n;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc != 4 || !str_to_u64(str_z(argv[2]), 65536, &memory) ||
	    !str_to_u64(str_z(argv[3]), 1024, &output))
		return 2;
	spec.limits.memory_mib = (uint32_t)memory;
	spec.limits.output_mib = (uint32_t)output;
	if (geteuid() != 0)
		spec.may_lack = SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	if (sandbox_create(&spec, &t.sb, &err) != 0 ||
	    sandbox_context_open(t.sb, argv[1], NULL, 0, &t.c, &err) != 0) {
		(void)printf("%d %s\n", err.code, err.msg);
		sandbox_destroy(t.sb);
		return 1;
	}
	while ((n = getline(&line, &cap, stdin)) > 0) {
		AUTO_BUF struct buf out = BUF((size_t)400 << 20);

		if (request(&t, str_mem(line, (size_t)n), &out, &err) != 0) {
			struct jcs j;

			buf_reset(&out);
			jcs_init(&j, &out);
			jcs_open(&j, NULL);
			jcs_str_lossy(&j, "failed", str_z(err.msg));
			jcs_close(&j);
		}
		(void)printf("%.*s\n", STR_ARG(buf_str(&out)));
		(void)fflush(stdout);
	}
	sandbox_context_close(t.c);
	sandbox_destroy(t.sb);
	buf_free(&t.shown);
	return 0;
}
