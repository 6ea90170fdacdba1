/*
 * Runs in the command line as the parent and the core of one confined cofferdam-parser, so
 * that `policy test` and `policy explain` see the very facts that core would see. The text
 * may be hostile (a case file under review): it is never parsed in this process.
 */
#include "cmd/cmd_parser.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker/parser_ask.h"
#include "common/ipc.h"
#include "common/jcs.h"
#include "common/proc.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define START_MS 10000
#define ANSWER_MS 10000
#define UID_BASE 63100 /* as the broker's default, when the parser has no user of its own */

struct cmd_parser {
	pid_t pid;
	int parent_fd; /* we are its parent here */
	int core_fd;   /* and its core here; -1: gone */
	uint64_t id;
};

static void
child_end(struct cmd_parser *p)
{
	if (p->pid > 0) {
		(void)kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	p->pid = 0;
	cleanup_close_fd(&p->parent_fd);
	cleanup_close_fd(&p->core_fd);
}

void
cmd_parser_stop(struct cmd_parser *p)
{
	if (p == NULL)
		return;
	child_end(p);
	free(p);
}

static void
config_put(struct buf *out)
{
	AUTO_BUF struct buf text = BUF(1024);
	const struct passwd *pw = geteuid() == 0 ? getpwnam("_cofferdam-parser") : NULL;
	struct jcs j;

	jcs_init(&j, &text);
	jcs_open(&j, NULL);
	if (geteuid() == 0)
		jcs_int(&j, "gid", pw != NULL ? pw->pw_gid : UID_BASE + IPC_ROLE_PARSER);
	jcs_z(&j, "log_level", "error");
	jcs_z(&j, "name", "parser");
	jcs_z(&j, "origin", "command-line");
	if (geteuid() == 0)
		jcs_int(&j, "uid", pw != NULL ? pw->pw_uid : UID_BASE + IPC_ROLE_PARSER);
	jcs_close(&j);
	buf_u32(out, IPC_VERSION);
	buf_lstr(out, buf_str(&text));
}

static int
parent_send(struct cmd_parser *p, uint16_t type, const struct buf *body, const int *fds,
    size_t nfds, struct err *err)
{
	return ipc_sync_send(
	    p->parent_fd, IPC_ROLE_PARENT, IPC_ROLE_PARSER, type, body, fds, nfds, err);
}

/* What a parent does: configuration, one wire, go; then wait until it has confined itself. */
static int
child_configure(struct cmd_parser *p, int core_peer_fd, struct err *err)
{
	AUTO_BUF struct buf config = BUF(2048);
	AUTO_BUF struct buf wire = BUF(64);
	AUTO_BUF struct buf body = BUF(8192);
	uint16_t type = 0;
	int fds[IPC_FDS_MAX];
	size_t nfds = 0;
	int rc;

	config_put(&config);
	buf_u8(&wire, IPC_ROLE_CORE);
	buf_lz(&wire, "cli");
	rc = parent_send(p, MSG_P_CONFIG, &config, NULL, 0, err);
	if (rc == 0)
		rc = parent_send(p, MSG_P_WIRE, &wire, &core_peer_fd, 1, err);
	if (rc == 0)
		rc = parent_send(p, MSG_P_GO, NULL, NULL, 0, err);
	while (rc == 0 && type != MSG_C_READY) {
		struct rd r;
		struct str text;

		rc = ipc_sync_recv(p->parent_fd, IPC_ROLE_PARENT, IPC_ROLE_PARSER, START_MS, &type,
		    &body, fds, &nfds, err);
		if (rc != 0 || type != MSG_C_LOG)
			continue;
		r = rd_init(buf_str(&body));
		(void)rd_u8(&r);
		text = rd_lstr(&r);
		(void)fprintf(stderr, "cofferdam: %.*s\n", STR_ARG(text));
	}
	return rc;
}

static int
child_start(struct cmd_parser *p, struct err *err)
{
	AUTO_FREE char *program = proc_program("cofferdam-parser");
	AUTO_FD int parent_peer = -1;
	AUTO_FD int core_peer = -1;
	int a[2], b[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	p->parent_fd = a[0];
	parent_peer = a[1];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	p->core_fd = b[0];
	core_peer = b[1];
	rc = proc_spawn(program, "cofferdam-parser", parent_peer, &p->pid, err);
	if (rc != 0)
		return rc;
	/* So that its death is seen as an end of file. */
	(void)close(TAKE_FD(parent_peer));
	rc = child_configure(p, core_peer, err);
	return rc != 0 ? err_wrap(err, "%s", program) : 0;
}

int
cmd_parser_start(struct cmd_parser **ret, struct err *err)
{
	AUTO(cmd_parser) struct cmd_parser *p = xcalloc(1, sizeof(*p));
	int rc;

	p->parent_fd = p->core_fd = -1;
	rc = child_start(p, err);
	if (rc != 0)
		return rc;
	*ret = TAKE_PTR(p);
	return 0;
}

void
cmd_facts_free(struct cmd_facts *f)
{
	buf_free(&f->json);
}

void
cmd_answer_free(struct cmd_answer *a)
{
	buf_free(&a->text);
}

static int
answer_take(struct cmd_answer *a, struct str msg, uint64_t id, struct err *err)
{
	struct rd r = rd_init(msg);
	uint64_t got = rd_u64(&r);
	uint8_t status = rd_u8(&r);
	struct str text = rd_lstr(&r);

	if (!rd_end(&r) || got != id || status > 2)
		return err_set(err, ERR_PROTOCOL, "the parser's answer is malformed");
	buf_put_str(&a->text, text);
	a->parsed = status == 0;
	return 0;
}

/* As in core: a question that the parser does not survive has no facts; a new one is started. */
static int
question(struct cmd_parser *p, uint16_t type, const struct buf *ask, const int *fds, size_t nfds,
    struct cmd_answer *ret, struct err *err)
{
	AUTO_BUF struct buf body = BUF((size_t)1 << 17);
	uint16_t got = 0;
	int got_fds[IPC_FDS_MAX], rc;
	size_t got_nfds = 0;

	*ret = (struct cmd_answer){.text = BUF((size_t)1 << 17)};
	if (p->core_fd < 0) {
		rc = child_start(p, err);
		if (rc != 0)
			return rc;
	}
	rc = ipc_sync_send(p->core_fd, IPC_ROLE_CORE, IPC_ROLE_PARSER, type, ask, fds, nfds, NULL);
	if (rc == 0)
		rc = ipc_sync_recv(p->core_fd, IPC_ROLE_CORE, IPC_ROLE_PARSER, ANSWER_MS, &got,
		    &body, got_fds, &got_nfds, NULL);
	if (rc != 0 || got != MSG_X_FACTS) {
		child_end(p);
		buf_put_z(&ret->text, "the parser did not survive the text");
		return 0;
	}
	return answer_take(ret, buf_str(&body), p->id, err);
}

int
cmd_parser_text(
    struct cmd_parser *p, uint8_t dialect, struct str text, struct cmd_answer *ret, struct err *err)
{
	AUTO_BUF struct buf ask = BUF((size_t)1 << 17);

	buf_u64(&ask, ++p->id);
	buf_u8(&ask, dialect);
	buf_lstr(&ask, text);
	return question(p, MSG_X_ASK, &ask, NULL, 0, ret, err);
}

static int
body_seal(struct str body, int *ret_fd, struct err *err)
{
	AUTO_FD int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t n = 0;

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "memfd_create");
	while (n < body.n) {
		ssize_t put = write(fd, body.p + n, body.n - n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return err_sys(err, ERR_SYSTEM, errno, "memfd");
		n += (size_t)put;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "F_ADD_SEALS");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
cmd_parser_body(struct cmd_parser *p, uint8_t dialect, struct str content_type, struct str body,
    struct cmd_answer *ret, struct err *err)
{
	AUTO_BUF struct buf ask = BUF((size_t)8192);
	AUTO_FD int fd = -1;
	int rc = body_seal(body, &fd, err);

	if (rc != 0)
		return rc;
	buf_u64(&ask, ++p->id);
	buf_u8(&ask, dialect);
	buf_lstr(&ask, content_type);
	buf_u64(&ask, body.n);
	return question(p, MSG_X_BODY, &ask, &fd, 1, ret, err);
}

static int
facts_invalid(struct cmd_facts *f, const char *why)
{
	f->view = (struct facts_sql_view){.effects = EFFECT_invalid, .statements = 1};
	buf_reset(&f->json);
	buf_put_z(&f->json, why);
	return 0;
}

int
cmd_parser_facts(struct cmd_parser *p, struct str sql, struct cmd_facts *ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_ANSWER struct cmd_answer a = {.parsed = false};
	int rc;

	*ret = (struct cmd_facts){.json = BUF((size_t)1 << 17)};
	if (sql.n > FACTS_SQL_MAX)
		return facts_invalid(ret, "the text is over the limit and was not parsed");
	if (!str_is_utf8(sql) || (sql.n != 0 && memchr(sql.p, '\0', sql.n) != NULL))
		return facts_invalid(ret, "the text is not UTF-8 without NUL");
	rc = cmd_parser_text(p, PARSER_DIALECT_POSTGRESQL, sql, &a, err);
	if (rc != 0)
		return rc;
	buf_put_str(&ret->json, buf_str(&a.text));
	ret->view = (struct facts_sql_view){.effects = EFFECT_invalid, .statements = 1};
	if (!a.parsed)
		return 0;
	rc = json_parse(buf_str(&a.text), "facts", &doc, err);
	if (rc != 0)
		return rc;
	ret->parsed = true;
	effects_sql(json_root(doc), &ret->view);
	return 0;
}
