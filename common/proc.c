/*
 * A child of the broker from its first instruction to its last: reads its configuration
 * and descriptors from the parent, confines itself, serves. Runs in front, core, parser,
 * upstream and writer. Trusts the parent alone. Must never serve a wire before it is
 * confined, and must not go on when one layer of that is missing.
 */
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define HELD_WIRES_MAX 16
#define RUN_MAX 200

enum state { START = 0, CONFIGURED, SERVING };

struct held_wire {
	enum ipc_role peer;
	char run[RUN_MAX + 1];
	int fd;
};

struct proc {
	const struct proc_ops *ops;
	struct loop *loop;
	void *arg;
	struct ipc *parent;
	enum state state;
	int ruleset;
	uid_t uid; /* 0: stay who we are */
	gid_t gid;
	struct held_wire held[HELD_WIRES_MAX];
	size_t nheld;
	struct loop_timer *orphan[IPC_CHILDREN]; /* by peer: its wire is gone */
};

static struct proc self;

struct ipc *
proc_parent(void)
{
	return self.parent;
}

/* --- a wire without a successor -------------------------------------------------------- */

static void
orphaned(void *arg)
{
	struct proc *p = arg;

	/* All fired timers are gone; the process goes too, so none is deleted again. */
	log_error("no new wire came for one that is gone: starting afresh");
	loop_stop(p->loop, 1);
}

void
proc_wire_lost(enum ipc_role peer)
{
	if (self.loop == NULL || peer >= IPC_CHILDREN || self.orphan[peer] != NULL)
		return;
	self.orphan[peer] = loop_timer_add(self.loop, PROC_ORPHAN_MS, orphaned, &self);
}

static void
wire_found(struct proc *p, enum ipc_role peer)
{
	if (peer >= IPC_CHILDREN || p->orphan[peer] == NULL)
		return;
	loop_timer_del(p->orphan[peer]);
	p->orphan[peer] = NULL;
}

/* --- log lines go to the parent ------------------------------------------------------- */

static void
log_to_parent(void *arg, enum log_level level, struct str line)
{
	struct proc *p = arg;
	AUTO_BUF struct buf b = BUF(4096);

	buf_u8(&b, (uint8_t)level);
	buf_lstr(&b, line);
	ipc_send(p->parent, MSG_C_LOG, &b, NULL, 0);
}

static void
on_parent_gone(void *arg, struct ipc *w, const char *why)
{
	struct proc *p = arg;

	log_set_sink(NULL, NULL);
	p->parent = NULL;
	ipc_free(w);
	log_error("the parent is gone (%s)", why);
	loop_stop(p->loop, 1);
}

/* --- what the parent sends -------------------------------------------------------------- */

static int
id_read(const struct json *config, const char *key, uid_t *ret, struct err *err)
{
	const struct json *v = json_get(config, key);
	int64_t n = v != NULL ? json_int(v) : 0;

	if (v == NULL || json_type(v) != JSON_INT || n < 1 || n > UINT32_MAX - 1)
		return err_set(
		    err, ERR_CONFIG, "started as root: config must hold \"%s\" over 0", key);
	*ret = (uid_t)n;
	return 0;
}

static int
log_level_read(const struct json *config, enum log_level *ret, struct err *err)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	const struct json *v = json_get(config, "log_level");

	*ret = LOG_INFO_;
	if (v == NULL)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (str_eqz(json_str(v), names[i])) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return err_set(err, ERR_CONFIG, "log_level is \"%.*s\", must be error, warn, info or debug",
	    STR_ARG(json_str(v)));
}

static int
config_apply(struct proc *p, const struct json *config, struct err *err)
{
	enum log_level level;
	int rc = log_level_read(config, &level, err);

	if (rc != 0)
		return rc;
	log_init(p->ops->name, level);
	if (geteuid() == 0) {
		rc = id_read(config, "uid", &p->uid, err);
		if (rc == 0)
			rc = id_read(config, "gid", &p->gid, err);
		if (rc != 0)
			return rc;
	}
	return p->ops->config != NULL ? p->ops->config(p->arg, config, err) : 0;
}

static int
on_config(struct proc *p, struct rd *body, int *fds UNUSED, struct err *err)
{
	uint32_t version = rd_u32(body);
	struct str text = rd_lstr(body);
	AUTO(json) struct json_doc *doc = NULL;
	int rc;

	if (version != IPC_VERSION)
		return err_set(err, ERR_PROTOCOL, "wire version is %u, this program speaks %d",
		    version, IPC_VERSION);
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed");
	rc = json_parse(text, "config", &doc, err);
	if (rc != 0)
		return rc;
	p->state = CONFIGURED;
	return config_apply(p, json_root(doc), err);
}

/* Directories handed over are all that Landlock leaves open. */
static int
landlock_note(struct proc *p, int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "fstat");
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (p->state == SERVING)
		return err_set(err, ERR_PROTOCOL, "a directory cannot be added once confined");
	return proc_landlock_allow(p->ruleset, fd, !p->ops->dirs_read_only, err);
}

static int
fd_give(struct proc *p, struct str name, int fd, struct err *err)
{
	if (p->ops->fd == NULL) {
		(void)close(fd);
		return err_set(err, ERR_PROTOCOL, "this program takes no descriptor");
	}
	return p->ops->fd(p->arg, name, fd, err);
}

/* "vault: not sealed ..." names its file already. */
static int
err_name_once(struct err *err, struct str name)
{
	AUTO_FREE char *prefix = xasprintf("%.*s:", STR_ARG(name));

	return str_has_prefix(str_z(err->msg), prefix) ? err->code
						       : err_wrap(err, "%.*s", STR_ARG(name));
}

static int
on_fd(struct proc *p, struct rd *body, int *fds, struct err *err)
{
	struct str name = rd_lstr(body);
	int rc;

	if (!rd_end(body) || name.n == 0)
		return err_set(err, ERR_PROTOCOL, "malformed");
	rc = landlock_note(p, fds[0], err);
	if (rc == 0)
		rc = fd_give(p, name, TAKE_FD(fds[0]), err);
	if (rc == 0 || p->state != SERVING)
		return rc != 0 ? err_name_once(err, name) : 0;
	/* A reload that fails must not take down what works. */
	(void)err_name_once(err, name);
	log_error("%s; the old one stays", err->msg);
	err_clear(err);
	return 0;
}

static int
wire_give(struct proc *p, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	if (p->ops->wire == NULL) {
		(void)close(fd);
		return err_set(err, ERR_PROTOCOL, "this program takes no wire");
	}
	return p->ops->wire(p->arg, peer, run, fd, err);
}

static int
on_wire(struct proc *p, struct rd *body, int *fds, struct err *err)
{
	enum ipc_role peer = (enum ipc_role)rd_u8(body);
	struct str run = rd_lstr(body);
	struct held_wire *h = &p->held[p->nheld];

	if (!rd_end(body) || run.n > RUN_MAX)
		return err_set(err, ERR_PROTOCOL, "malformed");
	wire_found(p, peer);
	if (p->state == SERVING)
		return wire_give(p, peer, run, TAKE_FD(fds[0]), err);
	/* Nothing of a peer is read before we are confined. */
	if (p->nheld == HELD_WIRES_MAX)
		return err_set(err, ERR_PROTOCOL, "more than %d wires before P_GO", HELD_WIRES_MAX);
	*h = (struct held_wire){.peer = peer, .fd = TAKE_FD(fds[0])};
	if (run.n != 0)
		memcpy(h->run, run.p, run.n);
	p->nheld++;
	return 0;
}

static int
confine(struct proc *p, struct err *err)
{
	int rc = 0;

	if (p->uid != 0)
		rc = proc_become(p->uid, p->gid, err);
	if (rc == 0)
		rc = proc_drop_caps(err);
	if (rc == 0)
		rc = proc_harden(err);
	if (rc == 0)
		rc = proc_landlock_enforce(p->ruleset, err);
	if (rc != 0)
		return rc;
	(void)close(TAKE_FD(p->ruleset));
	return proc_seccomp(p->ops->syscalls, err);
}

static int
on_go(struct proc *p, struct rd *body UNUSED, int *fds UNUSED, struct err *err)
{
	int rc = p->ops->go != NULL ? p->ops->go(p->arg, err) : 0;

	if (rc == 0)
		rc = confine(p, err);
	if (rc != 0)
		return rc;
	p->state = SERVING;
	for (size_t i = 0; rc == 0 && i < p->nheld; i++)
		rc = wire_give(
		    p, p->held[i].peer, str_z(p->held[i].run), TAKE_FD(p->held[i].fd), err);
	if (rc == 0 && p->ops->serve != NULL)
		rc = p->ops->serve(p->arg, err);
	if (rc == 0)
		ipc_send(p->parent, MSG_C_READY, NULL, NULL, 0);
	return rc;
}

static int
on_stop(struct proc *p, struct rd *body UNUSED, int *fds UNUSED, struct err *err UNUSED)
{
	if (p->ops->stop != NULL && p->state == SERVING)
		p->ops->stop(p->arg);
	else
		loop_stop(p->loop, 0);
	return 0;
}

static const struct {
	uint16_t type;
	unsigned states; /* bits of enum state */
	int (*fn)(struct proc *p, struct rd *body, int *fds, struct err *err);
} messages[] = {
    {MSG_P_CONFIG, 1u << START, on_config},
    {MSG_P_FD, 1u << CONFIGURED | 1u << SERVING, on_fd},
    {MSG_P_WIRE, 1u << CONFIGURED | 1u << SERVING, on_wire},
    {MSG_P_GO, 1u << CONFIGURED, on_go},
    {MSG_P_STOP, 1u << START | 1u << CONFIGURED | 1u << SERVING, on_stop},
};

static int
message(struct proc *p, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
		if (messages[i].type != type)
			continue;
		if ((messages[i].states & 1u << p->state) == 0)
			return err_set(err, ERR_PROTOCOL, "not in state %d", (int)p->state);
		return messages[i].fn(p, body, fds, err);
	}
	if (p->state != SERVING || p->ops->parent_msg == NULL)
		return err_set(err, ERR_PROTOCOL, "not expected here");
	return p->ops->parent_msg(p->arg, w, type, body, fds, nfds, err);
}

/*
 * The parent is trusted, so whatever fails here is ours to report, and the end: it restarts us.
 * The name of the message says something only where the message itself was wrong.
 */
static int
on_parent_msg(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	if (message(arg, w, type, body, fds, nfds, err) == 0)
		return 0;
	if (err->msg[0] == '\0')
		(void)err_set(err, ERR_INTERNAL, "failed without a reason");
	if (err->code == ERR_PROTOCOL || err->code == ERR_INTERNAL)
		(void)err_wrap(err, "%s", ipc_msg_name(type));
	fatal("%s", err->msg);
}

static bool
connects(enum ipc_role role)
{
	return role == IPC_ROLE_UPSTREAM || role == IPC_ROLE_COURIER;
}

int
proc_main(const struct proc_ops *ops, struct loop *loop, void *arg)
{
	struct err err = {0};
	int type = 0, rc;
	socklen_t len = sizeof(type);

	log_init(ops->name, LOG_INFO_);
	if (getsockopt(PROC_PARENT_FD, SOL_SOCKET, SO_TYPE, &type, &len) != 0 ||
	    type != SOCK_STREAM || fcntl(PROC_PARENT_FD, F_SETFD, FD_CLOEXEC) != 0)
		fatal(
		    "this program is started by cofferdam-broker (descriptor %d must be its wire)",
		    PROC_PARENT_FD);
	(void)signal(SIGPIPE, SIG_IGN);
	self = (struct proc){.ops = ops, .loop = loop, .arg = arg, .ruleset = -1};
	/* Before the first secret arrives. */
	if (proc_harden(&err) != 0 ||
	    proc_landlock_open(connects(ops->self), &self.ruleset, &err) != 0)
		fatal_err(&err);
	self.parent = ipc_new(
	    loop, PROC_PARENT_FD, ops->self, IPC_ROLE_PARENT, on_parent_msg, on_parent_gone, &self);
	log_set_sink(log_to_parent, &self);
	rc = loop_run(loop);
	/* The wire stays open until the process ends: main() may still have something to say. */
	return rc;
}
