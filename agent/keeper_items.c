/*
 * Programs and contexts as the keeper sees them (process: cofferdam-agent keep): each is on the
 * record before its process is begun, and what that one reports is recorded. A holder is of this
 * program and may be believed as far as what it passes on: bytes from inside.
 */
#include "agent/keeper_run.h"

#include <signal.h>
#include <stdio.h>

#include "common/jcs.h"
#include "common/words.h"
#include "common/xalloc.h"
#include "agent/agent_loop.h"

#include "common/banned.h"

#define FIELDS_MAX ((size_t)16384) /* of an event, as core has it */
/* A list of all programs has room in an answer. */
#define META_MAX (WIRE_BODY_MAX / (KEEPER_PROGRAMS_MAX + 1))
#define META_ARGS ((size_t)1024)

int
keeper_item_stream(int *ret_theirs, int *ret_ours, struct err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	*ret_theirs = pair[0];
	*ret_ours = pair[1];
	return 0;
}

struct keeper_item *
keeper_item_program_find(struct keeper_run *k, uint32_t number)
{
	for (struct keeper_item *i = k->items; i != NULL; i = i->next)
		if (!i->context && !i->ended && i->number == number)
			return i;
	return NULL;
}

struct keeper_item *
keeper_item_context_find(struct keeper_run *k, struct str id)
{
	for (struct keeper_item *i = k->items; i != NULL; i = i->next)
		if (i->context && str_eqz(id, i->id))
			return i;
	return NULL;
}

int
keeper_item_tell(
    struct keeper_item *i, uint8_t type, const struct buf *body, int fd, struct err *err)
{
	if (wire_send(i->wire, type, body, &fd, fd >= 0 ? 1 : 0, err) == 0)
		return 0;
	return err_set(err, ERR_NOT_FOUND, "%s %s%u has ended", i->context ? "context" : "program",
	    i->id, i->number);
}

void
keeper_item_drop(struct keeper_run *k, struct keeper_item *i)
{
	struct keeper_item **at = &k->items;

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	if (i->context)
		k->ncontexts--;
	else
		k->nprograms--;
	/* Its connection to the supervisor goes with it: an interpreter is tied to that, a program
	 * goes on by itself unless it was ended. */
	if (i->pid > 0)
		(void)kill(i->pid, SIGKILL);
	cleanup_close_fd(&i->wire);
	free(i->language);
	free(i->meta);
	free(i);
}

void
keeper_item_reaped(struct keeper_run *k, pid_t pid)
{
	for (struct keeper_item *i = k->items; i != NULL; i = i->next)
		if (i->pid == pid)
			i->pid = 0;
}

void
keeper_item_list(const struct keeper_run *k, bool contexts, struct buf *ret)
{
	bool first = true;

	buf_put_c(ret, '[');
	for (const struct keeper_item *i = k->items; i != NULL; i = i->next) {
		if (i->context != contexts || i->ended)
			continue;
		if (!first)
			buf_put_c(ret, ',');
		first = false;
		buf_put_z(ret, i->meta);
	}
	buf_put_c(ret, ']');
}

/* --- on the record -------------------------------------------------------------------------- */

static void
text_put(struct jcs *j, const char *key, struct str s)
{
	if (s.n != 0)
		jcs_str_lossy(j, key, s);
}

/* caller: whose call it is, five texts. */
static int
exec_record(struct keeper_run *k, const struct str *caller, const char *context,
    const char *language, char *const *argv, struct str code, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(FIELDS_MAX * 2), text = BUF(WIRE_BODY_MAX);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	if (language == NULL)
		jcs_int(&j, "argc", (int64_t)words_quote(&text, argv));
	text_put(&j, "client_call", caller[0]);
	text_put(&j, "client_progress", caller[1]);
	text_put(&j, "client_tool_use", caller[2]);
	text_put(&j, "client_turn", caller[3]);
	if (context != NULL)
		jcs_z(&j, "context", context);
	text_put(&j, "execution", caller[4]);
	if (language != NULL)
		jcs_z(&j, "language", language);
	jcs_int(&j, "turn", (int64_t)k->turn + 1);
	jcs_close(&j);
	if (buf_over(&text))
		return err_set(err, ERR_TOO_LARGE,
		    "the command is over %zu bytes, which is what a record takes", text.max);
	return broker_event(k->hold.broker, "exec", buf_str(&fields),
	    language != NULL ? code : buf_str(&text), err);
}

static int
result_record(struct keeper_run *k, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	struct str fields = rd_lstr(&r), content = rd_lstr(&r);

	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "keeper: malformed result");
	return broker_event(k->hold.broker, "result", fields, content, err);
}

bool
keeper_item_hear(struct keeper_run *k, struct keeper_item *i)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (wire_recv(i->wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
		return false;
	if (m.type == HOLD_GONE) {
		keeper_over(k, "error", "the sandbox went away");
		return false;
	}
	if (m.type != HOLD_RESULT)
		return false;
	/* What cannot be recorded must not go on. */
	if (result_record(k, buf_str(&m.body), &e) != 0) {
		keeper_over(k, "error", e.msg);
		return false;
	}
	/* Before anybody is told of the end, so that nobody who knows of it finds the program. */
	i->ended = !i->context;
	return wire_send(i->wire, HOLD_NOTED, NULL, NULL, 0, &e) == 0;
}

/* --- begun -------------------------------------------------------------------------------------
 */

int
keeper_is_awake(const struct keeper_run *k, struct err *err)
{
	if (k->steer.paused)
		return err_set(err, ERR_STATE, "run %s is paused by a person", k->ask.id);
	if (k->paused)
		return err_set(err, ERR_STATE, "run %s is paused: resume it first", k->ask.id);
	return 0;
}

static int
may_begin(const struct keeper_run *k, bool context, struct err *err)
{
	int rc = keeper_is_awake(k, err);

	if (rc != 0)
		return rc;
	if (!context && k->nprograms >= KEEPER_PROGRAMS_MAX)
		return err_set(err, ERR_BUSY, "%d programs run, the limit of a run: end some",
		    KEEPER_PROGRAMS_MAX);
	if (context && k->ncontexts >= KEEPER_CONTEXTS_MAX)
		return err_set(err, ERR_BUSY,
		    "%d contexts are open, the limit of a run: close some", KEEPER_CONTEXTS_MAX);
	return 0;
}

static struct keeper_item *
item_add(struct keeper_run *k, bool context, pid_t pid, int wire)
{
	struct keeper_item *i = xcalloc(1, sizeof(*i));

	i->context = context;
	i->pid = pid;
	i->wire = wire;
	i->next = k->items;
	k->items = i;
	if (context)
		k->ncontexts++;
	else
		k->nprograms++;
	return i;
}

/* By names alone, which "=" ends: "A" stands before "A1", and "A1=" before "A=". */
static int
env_cmp(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return jcs_key_cmp(str_mem(x, strcspn(x, "=")), str_mem(y, strcspn(y, "=")));
}

/* Names ascending, each once. */
static void
env_put(struct jcs *j, char *const *env)
{
	size_t n = 0;
	AUTO_FREE const char **sorted = NULL;

	while (env[n] != NULL)
		n++;
	sorted = xcalloc(n + 1, sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		sorted[i] = env[i];
	qsort(sorted, n, sizeof(*sorted), env_cmp);
	jcs_open(j, "env");
	for (size_t i = 0; i < n; i++) {
		struct str rest = str_z(sorted[i]), name, next;
		struct str after = str_z(i + 1 < n ? sorted[i + 1] : "");

		if (!str_cut(&rest, '=', &name) || !str_is_utf8(name) ||
		    (str_cut(&after, '=', &next) && str_eq(name, next)))
			continue;
		jcs_key(j, name);
		jcs_str_lossy(j, NULL, rest);
	}
	jcs_close(j);
}

/* Not whole: the first arguments, and no variables. */
static void
meta_put(const struct keeper_order *o, uint32_t number, bool whole, struct buf *b)
{
	char *const none[] = {NULL};
	size_t bytes = 0;
	struct jcs j;

	jcs_init(&j, b);
	jcs_open(&j, NULL);
	jcs_array(&j, "args");
	for (size_t i = 0; o->argv[i] != NULL; i++)
		if ((bytes += strlen(o->argv[i]) + 1) <= META_ARGS || whole)
			jcs_str_lossy(&j, NULL, str_z(o->argv[i]));
	jcs_array_end(&j);
	jcs_str_lossy(&j, "cwd", str_z(o->cwd));
	env_put(&j, whole ? o->env : none);
	jcs_str_lossy(&j, "label", str_z(o->label));
	if (o->language != NULL)
		jcs_str_lossy(&j, "language", str_z(o->language));
	jcs_int(&j, "number", number);
	jcs_bool(&j, "tty", o->x.tty);
	jcs_close(&j);
}

char *
keeper_item_meta(const struct keeper_order *o, uint32_t number, struct err *err)
{
	AUTO_BUF struct buf whole = BUF(META_MAX), cut = BUF(META_MAX);

	meta_put(o, number, true, &whole);
	if (!buf_over(&whole))
		return buf_dup_z(&whole);
	meta_put(o, number, false, &cut);
	if (!buf_over(&cut))
		return buf_dup_z(&cut);
	(void)err_set(
	    err, ERR_TOO_LARGE, "a program's label and directory are over %zu bytes", META_MAX);
	return NULL;
}

/* Descriptors of the two ends; the holder's are closed here once it has them. */
struct ends {
	int theirs, ours, wire, far;
};

static void
ends_free(struct ends *e)
{
	cleanup_close_fd(&e->theirs);
	cleanup_close_fd(&e->ours);
	cleanup_close_fd(&e->wire);
	cleanup_close_fd(&e->far);
}
#define AUTO_ENDS __attribute__((cleanup(ends_free)))
#define ENDS ((struct ends){-1, -1, -1, -1})

static int
ends_open(struct ends *e, struct err *err)
{
	int rc = keeper_item_stream(&e->theirs, &e->ours, err);

	return rc == 0 ? keeper_item_stream(&e->wire, &e->far, err) : rc;
}

int
keeper_item_program(
    struct keeper_run *k, struct str body, uint32_t *ret_number, int *ret_stream, struct err *err)
{
	struct str caller[KEEPER_CALLER_TEXTS];
	struct rd r = rd_init(body);
	struct keeper_order o = {0};
	AUTO_ENDS struct ends e = ENDS;
	int rc = may_begin(k, false, err);
	AUTO_FREE char *meta = NULL;
	struct keeper_item *i;
	pid_t pid;

	keeper_caller_take(&r, caller);
	if (rc != 0 || (rc = keeper_program_decode(rd_bytes(&r, r.n), &o, err)) != 0)
		return rc;
	if ((meta = keeper_item_meta(&o, k->next_number + 1, err)) == NULL)
		rc = err->code;
	if (rc != 0 || (rc = ends_open(&e, err)) != 0 ||
	    (rc = exec_record(k, caller, NULL, o.language, o.argv, buf_str(&o.code), err)) != 0) {
		keeper_order_free(&o);
		return rc;
	}
	k->turn++;
	pid = fork();
	if (pid == 0)
		keeper_program_hold(k, &o, k->next_number + 1, k->turn, e.far, e.ours);
	if (pid < 0) {
		keeper_order_free(&o);
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	}
	i = item_add(k, false, pid, TAKE_FD(e.wire));
	i->number = ++k->next_number;
	i->meta = TAKE_PTR(meta);
	keeper_order_free(&o);
	*ret_number = i->number;
	*ret_stream = TAKE_FD(e.theirs);
	return 0;
}

static char *
context_meta(const char *id, const char *language, const char *cwd)
{
	AUTO_BUF struct buf b = BUF(65536);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "cwd", str_z(cwd));
	jcs_z(&j, "id", id);
	jcs_str_lossy(&j, "language", str_z(language));
	jcs_close(&j);
	return buf_dup_z(&b);
}

static struct keeper_item *
shared_find(struct keeper_run *k, const char *language)
{
	for (struct keeper_item *i = k->items; i != NULL; i = i->next)
		if (i->context && i->shared && strcmp(i->language, language) == 0)
			return i;
	return NULL;
}

int
keeper_item_context(
    struct keeper_run *k, struct str body, char *ret_id, int *ret_stream, struct err *err)
{
	struct rd r = rd_init(body);
	AUTO_FREE char *language = keeper_text_take(&r), *cwd = keeper_text_take(&r);
	bool shared = rd_u8(&r) == 1;
	struct keeper_item *i = shared && language != NULL ? shared_find(k, language) : NULL;
	AUTO_ENDS struct ends e = ENDS;
	int rc = i == NULL ? may_begin(k, true, err) : 0;
	pid_t pid;

	if (rc != 0)
		return rc;
	if (i != NULL) {
		memcpy(ret_id, i->id, sizeof(i->id));
		return 0;
	}
	if (!rd_end(&r) || language == NULL || str_z(cwd).n > 4096)
		return err_set(err, ERR_PROTOCOL, "keeper: malformed request");
	if ((rc = ends_open(&e, err)) != 0)
		return rc;
	pid = fork();
	if (pid == 0)
		keeper_context_hold(k, language, cwd, e.far, e.ours);
	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	i = item_add(k, true, pid, TAKE_FD(e.wire));
	i->shared = shared;
	(void)snprintf(i->id, sizeof(i->id), "c%u", ++k->next_context);
	i->language = TAKE_PTR(language);
	i->meta = context_meta(i->id, i->language, cwd != NULL ? cwd : "/work");
	memcpy(ret_id, i->id, sizeof(i->id));
	*ret_stream = TAKE_FD(e.theirs);
	return 0;
}

int
keeper_item_cell(struct keeper_run *k, struct str body, int *ret_stream, struct err *err)
{
	struct str caller[KEEPER_CALLER_TEXTS], id, code;
	struct rd r = rd_init(body);
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	AUTO_FD int theirs = -1, ours = -1;
	struct keeper_item *i;
	uint32_t timeout;
	int rc;

	keeper_caller_take(&r, caller);
	id = rd_lstr(&r);
	timeout = rd_u32(&r);
	code = rd_lstr(&r);
	i = keeper_item_context_find(k, id);
	if (!rd_end(&r) || code.n > SANDBOX_CODE_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "code of %zu bytes, limit %zu", code.n, SANDBOX_CODE_MAX);
	if (i == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "there is no context \"%.*s\" (any more)", STR_ARG(id));
	if ((rc = keeper_is_awake(k, err)) != 0 ||
	    (rc = keeper_item_stream(&theirs, &ours, err)) != 0 ||
	    (rc = exec_record(k, caller, i->id, i->language, NULL, code, err)) != 0)
		return rc;
	buf_u64(&b, ++k->turn);
	buf_u32(&b, timeout);
	buf_lstr(&b, code);
	if ((rc = keeper_item_tell(i, HOLD_CELL, &b, ours, err)) != 0)
		return rc;
	*ret_stream = TAKE_FD(theirs);
	return 0;
}
