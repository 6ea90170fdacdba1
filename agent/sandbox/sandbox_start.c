/*
 * A program's begin and end on the wire (any caller's process). Checks what the caller asks for,
 * hands its descriptors over, takes the pipes; what came out of them is somebody else's business.
 */
#include "agent/sandbox/sandbox_client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

static int
env_check(const char *const *env, struct err *err)
{
	for (size_t n = 0; env != NULL && env[n] != NULL; n++)
		if (n >= SANDBOX_ENV_MAX || strchr(env[n], '=') == NULL || env[n][0] == '=' ||
		    strlen(env[n]) > 65536)
			return err_set(err, ERR_INVALID,
			    "sandbox: variable %zu of the program is not NAME=value of at most "
			    "65536 bytes, or over %d",
			    n + 1, SANDBOX_ENV_MAX);
	return 0;
}

static int
argv_check(const struct sandbox_exec *x, struct err *err)
{
	size_t n = 0;

	if (x->language != NULL && sandbox_interpreter(x->language, NULL) == NULL)
		return err_set(err, ERR_NOT_FOUND,
		    "sandbox: language \"%s\" is not known (bash sh python javascript perl)",
		    x->language);
	if (x->language != NULL && x->code.n > SANDBOX_CODE_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox: code of %zu bytes, limit %zu",
		    x->code.n, SANDBOX_CODE_MAX);
	while (x->language == NULL && x->argv != NULL && x->argv[n] != NULL)
		n++;
	if (x->language == NULL && (n == 0 || n > SANDBOX_ARGS_MAX))
		return err_set(err, ERR_INVALID, "sandbox: from 1 to %d arguments, not %zu",
		    SANDBOX_ARGS_MAX, n);
	return 0;
}

int
client_exec_check(const struct sandbox *sb, const struct sandbox_exec *x, struct err *err)
{
	int rc;

	if (sb->wire < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
	if ((rc = argv_check(x, err)) != 0)
		return rc;
	if (x->cwd != NULL && x->cwd[0] != '/')
		return err_set(
		    err, ERR_INVALID, "sandbox: directory \"%s\" is not absolute", x->cwd);
	if (x->nfds > SANDBOX_EXEC_FDS_MAX)
		return err_set(err, ERR_INVALID, "sandbox: %zu descriptors, limit %d", x->nfds,
		    SANDBOX_EXEC_FDS_MAX);
	return env_check(x->env, err);
}

/* The sandbox's environment with the program's own; of a name the last wins. Borrowed strings. */
static const char **
env_merge(char *const *base, const char *const *own)
{
	size_t nbase = 0, nown = 0, n = 0;
	const char **env;

	while (base != NULL && base[nbase] != NULL)
		nbase++;
	while (own != NULL && own[nown] != NULL)
		nown++;
	env = xcalloc(nbase + nown + 1, sizeof(*env));
	for (size_t i = 0; i < nbase + nown; i++) {
		const char *e = i < nbase ? base[i] : own[i - nbase];
		size_t at = nown == 0 ? n : 0, len = (size_t)(strchr(e, '=') - e) + 1;

		while (at < n && strncmp(env[at], e, len) != 0)
			at++;
		env[at] = e;
		n += at == n;
	}
	return env;
}

static int
started_take(const struct sandbox_exec *x, bool spawn, struct wire_msg *m,
    struct client_started *ret, struct err *err)
{
	bool merged = x->merge || x->tty, in = x->pipe_stdin && !x->tty;
	size_t want = spawn ? 0 : (merged ? 1u : 2u) + (in ? 1u : 0u);
	struct rd r = rd_init(buf_str(&m->body));

	ret->proc = rd_u32(&r);
	if (!rd_end(&r) || ret->proc == 0 || m->nfds != want)
		return err_set(err, ERR_PROTOCOL,
		    "sandbox: unexpected start of a program (%zu descriptors, not %zu)", m->nfds,
		    want);
	for (size_t i = 0; i < want; i++)
		(void)fcntl(m->fds[i], F_SETFL, O_NONBLOCK);
	if (spawn)
		return 0;
	ret->out = TAKE_FD(m->fds[0]);
	if (!merged)
		ret->errs = TAKE_FD(m->fds[1]);
	if (in)
		ret->in = TAKE_FD(m->fds[want - 1]);
	return 0;
}

int
client_start(struct sandbox *sb, const struct sandbox_exec *x, bool spawn,
    struct client_started *ret, struct err *err)
{
	AUTO_FREE const char **env = env_merge(sb->env, x->env);
	AUTO_BUF struct buf exec = BUF(WIRE_BODY_MAX), b = BUF(WIRE_BODY_MAX);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	int rc;

	*ret = CLIENT_STARTED;
	if ((rc = client_exec_check(sb, x, err)) != 0)
		return rc;
	sandbox_exec_encode(x, env, &exec);
	buf_lstr(&b, buf_str(&exec));
	buf_u8(&b, spawn ? 1 : 0);
	if (buf_over(&exec) || buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "sandbox: program and arguments are too large");
	if ((rc = client_send(sb, CALL_EXEC, &b, x->fds, x->nfds, &ret->tag, err)) != 0 ||
	    (rc = client_answer(sb, ret->tag, CALL_STARTED, CLIENT_START_MS, &m, err)) != 0)
		return rc;
	return started_take(x, spawn, &m, ret, err);
}

int
client_end_read(struct rd *r, struct sandbox_result *ret, struct err *err)
{
	unsigned cause = rd_u8(r);
	uint32_t value = rd_u32(r);
	uint64_t user_us = rd_u64(r), system_us = rd_u64(r), peak = rd_u64(r);
	struct str refused = rd_lstr(r);

	if (!rd_end(r) || cause == SANDBOX_NONE || cause > SANDBOX_POLICY)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed end of a program");
	ret->cause = (enum sandbox_cause)cause;
	ret->value = (int)value;
	ret->user_us = user_us;
	ret->system_us = system_us;
	ret->peak_kib = peak;
	free(ret->refused);
	ret->refused = refused.n != 0 ? str_dup(refused) : NULL;
	return 0;
}

int
client_ended(struct sandbox *sb, const struct client_started *s, int timeout_ms,
    struct sandbox_result *ret, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct rd r;
	int rc = client_answer(sb, s->tag, CALL_EXITED, timeout_ms, &m, err);

	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	if (rd_u32(&r) != s->proc)
		return err_set(err, ERR_PROTOCOL, "sandbox: the end of another program");
	return client_end_read(&r, ret, err);
}

void
client_kill(struct sandbox *sb, const struct client_started *s, enum sandbox_cause cause)
{
	AUTO_BUF struct buf b = BUF(8);
	struct err e;
	uint32_t tag;

	buf_u32(&b, s->proc);
	buf_u8(&b, (uint8_t)cause);
	(void)client_send(sb, CALL_KILL, &b, NULL, 0, &tag, &e);
}

void
client_started_free(struct client_started *s)
{
	cleanup_close_fd(&s->out);
	cleanup_close_fd(&s->errs);
	cleanup_close_fd(&s->in);
}
