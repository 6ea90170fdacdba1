/*
 * process.Process of E2B's data plane (process: a worker of cofferdam-sandboxd): programs begun,
 * found, fed, ended. Numbers are the keeper's, not process ids of inside.
 */
#include "agent/e2b_stream.h"

#include <signal.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

/* --- start ------------------------------------------------------------------------------------ */

struct start {
	struct sandbox_exec x;
	char **argv, **env, *label;
	struct buf cwd;
	bool pty;
};

static void
start_free(struct start *s)
{
	keeper_list_free(s->argv);
	keeper_list_free(s->env);
	free(s->label);
	buf_free(&s->cwd);
}
#define AUTO_START __attribute__((cleanup(start_free)))

static int
argv_take(const struct json *p, char ***ret, struct err *err)
{
	const struct json *args = json_get(p, "args");
	struct str cmd = json_str(json_get(p, "cmd"));
	size_t n = json_count(args);

	if (cmd.n == 0 || (args != NULL && json_type(args) != JSON_ARRAY) ||
	    n + 1 > SANDBOX_ARGS_MAX)
		return err_set(err, ERR_INVALID,
		    "process.cmd is wanted, and process.args of at most %d", SANDBOX_ARGS_MAX - 1);
	*ret = xcalloc(n + 2, sizeof(**ret));
	(*ret)[0] = str_dup(cmd);
	for (size_t i = 0; i < n; i++)
		(*ret)[i + 1] = str_dup(json_str(json_at(args, i)));
	return 0;
}

static int
env_take(const struct json *o, char ***ret, struct err *err)
{
	size_t n = json_count(o);

	if (n > SANDBOX_ENV_MAX / 2)
		return err_set(
		    err, ERR_INVALID, "process.envs: over %d variables", SANDBOX_ENV_MAX / 2);
	*ret = xcalloc(n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++) {
		struct str k = json_key(o, i), v = json_str(json_at(o, i));

		if (k.n == 0 || memchr(k.p, '=', k.n) != NULL)
			return err_set(err, ERR_INVALID, "process.envs: a name is malformed");
		(*ret)[i] = xasprintf("%.*s=%.*s", STR_ARG(k), STR_ARG(v));
	}
	return 0;
}

static uint16_t
size_of(const struct json *size, const char *what, uint16_t otherwise)
{
	int64_t v = json_int(json_get(size, what));

	return v >= 1 && v <= 1000 ? (uint16_t)v : otherwise;
}

static int
start_take(struct e2b_request *q, const struct json *o, struct start *s, struct err *err)
{
	const struct json *p = json_get(o, "process"), *pty = json_get(o, "pty"),
			  *in = json_get(o, "stdin");
	struct str cwd = json_str(json_get(p, "cwd")), tag = json_str(json_get(o, "tag"));
	uint64_t ms = e2b_timeout_ms(q);
	int rc = argv_take(p, &s->argv, err);

	if (rc != 0 || (rc = env_take(json_get(p, "envs"), &s->env, err)) != 0)
		return rc;
	if (cwd.n != 0 && !e2b_path(cwd, &s->cwd))
		return err_set(err, ERR_INVALID, "process.cwd is no path");
	s->label = tag.n != 0 ? str_dup(tag) : NULL;
	s->pty = pty != NULL && json_type(pty) == JSON_OBJECT;
	s->x = (struct sandbox_exec){.argv = s->argv,
	    .env = (const char *const *)s->env,
	    .cwd = cwd.n != 0 ? (const char *)s->cwd.p : NULL,
	    .stdin_fd = -1,
	    .background = true,
	    .tty = s->pty,
	    .rows = size_of(json_get(pty, "size"), "rows", 24),
	    .cols = size_of(json_get(pty, "size"), "cols", 80),
	    /* The stream keeps the time; this is for one whose client went away. */
	    .timeout_s = ms != 0 ? (uint32_t)(ms / 1000) + 2 : 0};
	s->x.pipe_stdin = !s->pty && (in == NULL || json_type(in) != JSON_BOOL || json_bool(in));
	if (s->x.timeout_s > KEEPER_TIME_MAX)
		s->x.timeout_s = KEEPER_TIME_MAX;
	return 0;
}

void
e2b_on_start(struct e2b_request *q)
{
	AUTO(keeper_stream) struct keeper_stream *stream = NULL;
	AUTO_START struct start s = {.cwd = BUF(8192)};
	AUTO(json) struct json_doc *d = NULL;
	struct err e = {0};

	if (!e2b_message(q, true, &d) || !e2b_user_ok(q, true))
		return;
	if (start_take(q, json_root(d), &s, &e) != 0 ||
	    keeper_program(q->keeper, &s.x, s.label, &stream, &e) != 0) {
		e2b_frame_end(q, &e);
		return;
	}
	e2b_stream(q, stream, s.pty, true);
}

/* --- which one
 * ------------------------------------------------------------------------------------ */

/* The keeper's list as JSON; the entry with this label, or number. */
static const struct json *
list_find(const struct json *list, struct str label, int64_t number)
{
	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *p = json_at(list, i);

		if (label.n != 0 ? str_eq(json_str(json_get(p, "label")), label)
				 : json_int(json_get(p, "number")) == number)
			return p;
	}
	return NULL;
}

static int
select_program(struct e2b_request *q, const struct json *selector, uint32_t *ret, bool *ret_pty,
    struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct str tag = json_str(json_get(selector, "tag"));
	int64_t pid = json_int(json_get(selector, "pid"));
	const struct json *p;
	int rc = keeper_programs(q->keeper, &b, err);

	if (rc != 0 || (rc = json_parse(buf_str(&b), "programs", &d, err)) != 0)
		return rc;
	p = list_find(json_root(d), tag, pid);
	if (p == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "process with pid %lld not found", (long long)pid);
	*ret = (uint32_t)json_int(json_get(p, "number"));
	*ret_pty = json_bool(json_get(p, "tty"));
	return 0;
}

void
e2b_on_attach(struct e2b_request *q)
{
	AUTO(keeper_stream) struct keeper_stream *stream = NULL;
	AUTO(json) struct json_doc *d = NULL;
	uint32_t number = 0;
	bool pty = false;
	struct err e = {0};

	if (!e2b_message(q, true, &d))
		return;
	if (select_program(q, json_get(json_root(d), "process"), &number, &pty, &e) != 0 ||
	    keeper_attach(q->keeper, number, &stream, &e) != 0)
		e2b_frame_end(q, &e);
	else
		e2b_stream(q, stream, pty, false);
}

static void
program_put(struct jcs *j, const struct json *p)
{
	const struct json *args = json_get(p, "args");
	struct err ignored = {0};

	jcs_open(j, NULL);
	jcs_open(j, "config");
	jcs_array(j, "args");
	for (size_t i = 1; i < json_count(args); i++)
		jcs_str(j, NULL, json_str(json_at(args, i)));
	jcs_array_end(j);
	jcs_str(j, "cmd", json_str(json_at(args, 0)));
	if (json_str(json_get(p, "cwd")).n != 0)
		jcs_str(j, "cwd", json_str(json_get(p, "cwd")));
	(void)jcs_value(j, "envs", json_get(p, "env"), &ignored);
	jcs_close(j);
	jcs_int(j, "pid", json_int(json_get(p, "number")));
	if (json_str(json_get(p, "label")).n != 0)
		jcs_str(j, "tag", json_str(json_get(p, "label")));
	jcs_close(j);
}

void
e2b_on_processes(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX), out = BUF(WIRE_BODY_MAX);
	AUTO(json) struct json_doc *d = NULL, *none = NULL;
	struct err e = {0};
	struct jcs j;

	if (!e2b_message(q, false, &none))
		return;
	if (keeper_programs(q->keeper, &b, &e) != 0 ||
	    json_parse(buf_str(&b), "programs", &d, &e) != 0) {
		e2b_connect_fail(q, &e);
		return;
	}
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_array(&j, "processes");
	/* Oldest first. */
	for (size_t i = json_count(json_root(d)); i-- > 0;)
		program_put(&j, json_at(json_root(d), i));
	jcs_array_end(&j);
	jcs_close(&j);
	e2b_answer_json(q, 200, &out);
}

/* --- fed and ended -------------------------------------------------------------------------------
 */

static void
answer(struct e2b_request *q, int rc, const struct err *e)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_put_z(&b, "{}");
	if (rc == 0)
		e2b_answer_json(q, 200, &b);
	else
		e2b_connect_fail(q, e);
}

/* A request about one program; false: it was answered. */
static bool
asked(struct e2b_request *q, struct json_doc **ret, uint32_t *ret_number)
{
	struct err e = {0};
	bool pty;

	if (!e2b_message(q, false, ret))
		return false;
	if (select_program(q, json_get(json_root(*ret), "process"), ret_number, &pty, &e) == 0)
		return true;
	e2b_connect_fail(q, &e);
	return false;
}

static int
input_give(struct e2b_request *q, uint32_t number, const struct json *input, struct err *err)
{
	AUTO_BUF struct buf bytes = BUF(E2B_FRAME_MAX);
	const struct json *v = json_get(input, "stdin");

	if (v == NULL)
		v = json_get(input, "pty");
	if (v == NULL || !enc_unbase64(json_str(v), &bytes))
		return err_set(err, ERR_INVALID, "input: stdin or pty in base64 is wanted");
	return keeper_input(q->keeper, number, buf_str(&bytes), false, err);
}

void
e2b_on_input(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	uint32_t number = 0;
	struct err e = {0};

	if (asked(q, &d, &number))
		answer(q, input_give(q, number, json_get(json_root(d), "input"), &e), &e);
}

void
e2b_on_signal(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *v;
	uint32_t number = 0;
	struct err e = {0};
	int signo = 0;

	if (!asked(q, &d, &number))
		return;
	v = json_get(json_root(d), "signal");
	if (str_eqz(json_str(v), "SIGNAL_SIGKILL") || json_int(v) == SIGKILL)
		signo = SIGKILL;
	else if (str_eqz(json_str(v), "SIGNAL_SIGTERM") || json_int(v) == SIGTERM)
		signo = SIGTERM;
	answer(q,
	    signo != 0
		? keeper_signal(q->keeper, number, signo, &e)
		: err_set(&e, ERR_INVALID, "signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL"),
	    &e);
}

void
e2b_on_close_stdin(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	uint32_t number = 0;
	struct err e = {0};

	if (asked(q, &d, &number))
		answer(q, keeper_input(q->keeper, number, STR(""), true, &e), &e);
}

void
e2b_on_update(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *size;
	uint32_t number = 0;
	struct err e = {0};
	int rc = 0;

	if (!asked(q, &d, &number))
		return;
	size = json_get(json_get(json_root(d), "pty"), "size");
	if (size != NULL)
		rc = keeper_resize(
		    q->keeper, number, size_of(size, "rows", 24), size_of(size, "cols", 80), &e);
	answer(q, rc, &e);
}

/* --- a stream of input
 * ------------------------------------------------------------------------------ */

static int
input_message(struct e2b_request *q, struct str json, uint32_t *number, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o, *start;
	bool pty;
	int rc = json_parse_numbers(json, "message", &d, err);

	if (rc != 0)
		return rc;
	/* The oneof stands at the top in JSON. */
	o = json_root(d);
	start = json_get(o, "start");
	if (start != NULL)
		return select_program(q, json_get(start, "process"), number, &pty, err);
	if (json_get(o, "data") == NULL)
		return 0; /* keepalive */
	if (*number == 0)
		return err_set(err, ERR_INVALID, "StreamInput: start comes first");
	return input_give(q, *number, json_get(json_get(o, "data"), "input"), err);
}

static int
input_read(struct e2b_request *q, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_FRAME_MAX + 65536);
	uint32_t number = 0;
	bool last = false;
	int more = 0, rc;

	while (more == 0) {
		struct str piece, in, json;
		size_t before;

		if ((more = serve_body_next(q->conn, &piece, err)) < 0)
			return more;
		buf_put_str(&b, piece);
		if (buf_over(&b))
			return err_set(err, ERR_TOO_LARGE, "StreamInput: a message is too large");
		in = buf_str(&b);
		before = in.n;
		while ((rc = e2b_frame_take(&in, &json, &last, err)) == 1 && !last)
			if ((rc = input_message(q, json, &number, err)) != 0)
				break;
		if (rc < 0)
			return rc;
		buf_drop(&b, before - in.n);
	}
	return b.n == 0 ? 0 : err_set(err, ERR_SYNTAX, "StreamInput: a message is cut");
}

void
e2b_on_stream_input(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(16);
	struct err e = {0};

	if (input_read(q, &e) != 0) {
		e2b_frame_end(q, &e);
		return;
	}
	buf_put_z(&b, "{}");
	if (e2b_frame_send(q, &b, &e) == 0)
		e2b_frame_end(q, NULL);
}
