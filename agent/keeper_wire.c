/*
 * Requests to a keeper as bytes, both ways. Runs in its callers and in the keeper. Both are of one
 * user and one release: what is checked is form, so that a mistake is an error and not a wrong run.
 */
#include "agent/keeper_wire.h"

#include "common/xalloc.h"

#include "common/banned.h"

bool
keeper_peer_is_ours(int fd)
{
	struct ucred c;
	socklen_t n = sizeof(c);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == geteuid();
}

void
keeper_error_put(struct buf *out, const struct err *e)
{
	buf_u32(out, (uint32_t)-e->code);
	buf_lz(out, e->msg);
}

void
keeper_caller_put(struct buf *out, const struct keeper_caller *c)
{
	static const struct keeper_caller none;

	c = c != NULL ? c : &none;
	buf_lz(out, c->call);
	buf_lz(out, c->progress);
	buf_lz(out, c->tool_use);
	buf_lz(out, c->turn);
	buf_lz(out, c->execution);
}

void
keeper_caller_take(struct rd *r, struct str ret[KEEPER_CALLER_TEXTS])
{
	for (size_t i = 0; i < KEEPER_CALLER_TEXTS; i++) {
		ret[i] = rd_lstr(r);
		if (ret[i].n > KEEPER_CALLER_MAX)
			ret[i].n = KEEPER_CALLER_MAX;
	}
}

void
keeper_list_put(struct buf *out, const char *const *list, size_t n)
{
	buf_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_lz(out, list[i]);
}

static size_t
list_count(const char *const *list)
{
	size_t n = 0;

	while (list != NULL && list[n] != NULL)
		n++;
	return n;
}

char *
keeper_text_take(struct rd *r)
{
	struct str s = rd_lstr(r);

	if (s.n != 0 && memchr(s.p, '\0', s.n) != NULL)
		r->bad = true;
	return s.n != 0 && !r->bad ? str_dup(s) : NULL;
}

char **
keeper_list_take(struct rd *r, size_t *ret_n)
{
	uint32_t n = rd_u32(r);
	char **list;

	if (r->bad || n > SANDBOX_ARGS_MAX) {
		r->bad = true;
		return NULL;
	}
	list = xcalloc((size_t)n + 1, sizeof(*list));
	for (uint32_t i = 0; i < n; i++) {
		list[i] = keeper_text_take(r);
		if (list[i] == NULL)
			list[i] = xstrdup("");
	}
	if (ret_n != NULL)
		*ret_n = n;
	return list;
}

void
keeper_list_free(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

static uint32_t *
limit_list(struct sandbox_limits *l, size_t i)
{
	uint32_t *const all[] = {&l->cpu_percent, &l->memory_mib, &l->pids, &l->output_mib,
	    &l->workspace_mib, &l->open_files, &l->linger_s};

	return i < ARRAY_LEN(all) ? all[i] : NULL;
}

void
keeper_ask_encode(const struct keeper_ask *a, struct buf *out)
{
	struct sandbox_limits l = a->limits;

	buf_lz(out, a->id);
	buf_lz(out, a->socket);
	buf_lz(out, a->agent);
	buf_lz(out, a->task);
	keeper_list_put(out, a->targets, a->ntargets);
	keeper_list_put(out, a->allow, a->nallow);
	keeper_list_put(out, a->env, list_count(a->env));
	buf_lz(out, a->workspace);
	buf_lz(out, a->state);
	buf_u8(out, a->workspace_unsafe ? 1 : 0);
	buf_u32(out, (uint32_t)a->nbinds);
	for (size_t i = 0; i < a->nbinds; i++) {
		buf_lz(out, a->binds[i].host_path);
		buf_lz(out, a->binds[i].inside);
	}
	buf_u8(out, a->narrow ? 1 : 0);
	buf_u8(out, a->home ? 1 : 0);
	buf_u32(out, a->as);
	buf_u32(out, a->may_lack);
	buf_u32(out, a->time_s);
	buf_u8(out, a->time_pauses ? 1 : 0);
	buf_u32(out, a->idle_s);
	for (size_t i = 0; limit_list(&l, i) != NULL; i++)
		buf_u32(out, *limit_list(&l, i));
}

static void
binds_take(struct rd *r, struct keeper_asked *ret)
{
	uint32_t n = rd_u32(r);

	r->bad = r->bad || n > SANDBOX_BINDS_MAX;
	for (; !r->bad && ret->a.nbinds < n; ret->a.nbinds++) {
		size_t i = ret->a.nbinds;

		ret->bind_paths[i] = keeper_text_take(r);
		ret->bind_insides[i] = keeper_text_take(r);
		ret->binds[i] = (struct sandbox_bind){ret->bind_paths[i], ret->bind_insides[i]};
		r->bad = r->bad || ret->bind_paths[i] == NULL || ret->bind_insides[i] == NULL;
	}
}

int
keeper_ask_decode(struct str body, struct keeper_asked *ret, struct err *err)
{
	struct rd r = rd_init(body);
	struct keeper_ask *a = &ret->a;

	*ret = (struct keeper_asked){0};
	a->id = ret->id = keeper_text_take(&r);
	a->socket = ret->socket = keeper_text_take(&r);
	a->agent = ret->agent = keeper_text_take(&r);
	a->task = ret->task = keeper_text_take(&r);
	ret->targets = keeper_list_take(&r, &a->ntargets);
	ret->allow = keeper_list_take(&r, &a->nallow);
	ret->env = keeper_list_take(&r, NULL);
	a->workspace = ret->workspace = keeper_text_take(&r);
	a->state = ret->state = keeper_text_take(&r);
	a->workspace_unsafe = rd_u8(&r) == 1;
	binds_take(&r, ret);
	a->targets = (const char *const *)ret->targets;
	a->allow = (const char *const *)ret->allow;
	a->env = (const char *const *)ret->env;
	a->narrow = rd_u8(&r) == 1;
	a->home = rd_u8(&r) == 1;
	a->as = rd_u32(&r);
	a->may_lack = rd_u32(&r);
	a->time_s = rd_u32(&r);
	a->time_pauses = rd_u8(&r) == 1;
	a->idle_s = rd_u32(&r);
	for (size_t i = 0; limit_list(&a->limits, i) != NULL; i++)
		*limit_list(&a->limits, i) = rd_u32(&r);
	if (rd_end(&r) && a->id != NULL && a->socket != NULL)
		return 0;
	keeper_asked_free(ret);
	return err_set(err, ERR_PROTOCOL, "keeper: malformed order");
}

void
keeper_asked_free(struct keeper_asked *a)
{
	free(a->id);
	free(a->socket);
	free(a->agent);
	free(a->task);
	free(a->workspace);
	free(a->state);
	for (size_t i = 0; i < SANDBOX_BINDS_MAX; i++) {
		free(a->bind_paths[i]);
		free(a->bind_insides[i]);
	}
	keeper_list_free(a->targets);
	keeper_list_free(a->allow);
	keeper_list_free(a->env);
	*a = (struct keeper_asked){0};
}

/* --- a program ---------------------------------------------------------------------- */

enum { ORDER_STDIN = 1, ORDER_MERGE = 2, ORDER_BACKGROUND = 4, ORDER_TTY = 8 };

void
keeper_program_encode(const struct sandbox_exec *x, const char *label, struct buf *out)
{
	unsigned bits = (x->pipe_stdin ? ORDER_STDIN : 0u) | (x->merge ? ORDER_MERGE : 0u) |
			(x->background ? ORDER_BACKGROUND : 0u) | (x->tty ? ORDER_TTY : 0u);

	buf_lz(out, x->language);
	buf_lstr(out, x->code);
	keeper_list_put(
	    out, (const char *const *)x->argv, list_count((const char *const *)x->argv));
	buf_lz(out, x->cwd);
	buf_lz(out, label);
	buf_lstr(out, x->stdin_bytes);
	buf_u8(out, (uint8_t)bits);
	buf_u32(out, x->timeout_s);
	buf_u16(out, x->rows);
	buf_u16(out, x->cols);
	keeper_list_put(out, x->env, list_count(x->env));
}

static void
order_bits(struct sandbox_exec *x, unsigned bits)
{
	x->pipe_stdin = (bits & ORDER_STDIN) != 0;
	x->merge = (bits & ORDER_MERGE) != 0;
	x->background = (bits & ORDER_BACKGROUND) != 0;
	x->tty = (bits & ORDER_TTY) != 0;
	x->stdin_fd = -1;
}

int
keeper_program_decode(struct str body, struct keeper_order *ret, struct err *err)
{
	struct rd r = rd_init(body);
	struct sandbox_exec *x = &ret->x;

	*ret = (struct keeper_order){.code = BUF(WIRE_BODY_MAX), .input = BUF(WIRE_BODY_MAX)};
	x->language = ret->language = keeper_text_take(&r);
	buf_put_str(&ret->code, rd_lstr(&r));
	ret->argv = keeper_list_take(&r, NULL);
	x->cwd = ret->cwd = keeper_text_take(&r);
	ret->label = keeper_text_take(&r);
	buf_put_str(&ret->input, rd_lstr(&r));
	order_bits(x, rd_u8(&r));
	x->timeout_s = rd_u32(&r);
	x->rows = rd_u16(&r);
	x->cols = rd_u16(&r);
	ret->env = keeper_list_take(&r, NULL);
	x->code = buf_str(&ret->code);
	x->stdin_bytes = buf_str(&ret->input);
	x->argv = ret->argv;
	x->env = (const char *const *)ret->env;
	if (rd_end(&r))
		return 0;
	keeper_order_free(ret);
	return err_set(err, ERR_PROTOCOL, "keeper: malformed program");
}

void
keeper_order_free(struct keeper_order *o)
{
	free(o->language);
	free(o->cwd);
	free(o->label);
	keeper_list_free(o->argv);
	keeper_list_free(o->env);
	buf_free(&o->code);
	buf_free(&o->input);
	*o = (struct keeper_order){0};
}
