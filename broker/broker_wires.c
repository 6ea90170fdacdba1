/*
 * What each child is given: its view of the configuration, its descriptors, its wires.
 * Two tables say it all: a wire or a file that is not in them does not exist for a child.
 * Runs in the parent at each start of a child; the wires of its live peers are replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/broker_parent.h"
#include "broker/broker_webhook.h"

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* Who may talk to whom. Core and parser: one wire for each run. */
static const struct {
	enum ipc_role a, b;
} peers[] = {
    {IPC_ROLE_FRONT, IPC_ROLE_CORE},
    {IPC_ROLE_CORE, IPC_ROLE_WRITER},
    {IPC_ROLE_CORE, IPC_ROLE_UPSTREAM},
    {IPC_ROLE_UPSTREAM, IPC_ROLE_FRONT},
    {IPC_ROLE_UPSTREAM, IPC_ROLE_WRITER},
    {IPC_ROLE_CORE, IPC_ROLE_PARSER},
    {IPC_ROLE_CONSOLE, IPC_ROLE_CORE},
    {IPC_ROLE_COURIER, IPC_ROLE_WRITER},
};

/* Who gets which file or directory of the state. Front, parser and console: none; upstream one
 * only in the broker of a rerun. */
static const struct {
	enum ipc_role role;
	int flags;
	const char *name, *path;
	bool may_lack; /* there only in some states */
} files[] = {
    {IPC_ROLE_CORE, O_RDONLY, "vault", "vault", false},
    {IPC_ROLE_CORE, O_RDONLY, "ca-key", "keys/ca/key.pem", false},
    {IPC_ROLE_CORE, O_RDONLY, "ca-cert", "keys/ca/cert.pem", false},
    {IPC_ROLE_CORE, O_RDONLY | O_DIRECTORY, "blob-keys", "keys/blob", false},
    {IPC_ROLE_WRITER, O_RDONLY | O_DIRECTORY, "log", "log", false},
    {IPC_ROLE_WRITER, O_RDONLY, "log-key", "keys/log/seed", false},
    {IPC_ROLE_WRITER, O_RDONLY, "log-vkey", "keys/log/vkey", false},
    {IPC_ROLE_WRITER, O_RDONLY, "log-handover", "keys/log/handover", true},
    {IPC_ROLE_COURIER, O_RDONLY | O_DIRECTORY, "courier", "courier", false},
    {IPC_ROLE_UPSTREAM, O_RDONLY, "answers", "answers", true},
};

/* Configuration strings were checked to need no escape (broker_config.c); a path was not. */
static void
put_json_str(struct buf *b, const char *z)
{
	buf_put_c(b, '"');
	for (; *z != '\0'; z++) {
		if (*z == '"' || *z == '\\')
			buf_put_c(b, '\\');
		if ((unsigned char)*z < 0x20)
			buf_printf(b, "\\u%04x", (unsigned)*z);
		else
			buf_put_c(b, *z);
	}
	buf_put_c(b, '"');
}

static void
put_witness_keys(struct buf *b, const struct webhooks *witnesses)
{
	for (size_t i = 0; i < witnesses->n; i++) {
		buf_put_z(b, i == 0 ? ",\"witnesses\":[" : ",");
		put_json_str(b, witnesses->v[i].key);
	}
	buf_put_c(b, ']');
}

static void
send_config(struct child *c)
{
	const struct broker *b = c->b;
	AUTO_BUF struct buf json = BUF((size_t)128 << 10);
	AUTO_BUF struct buf body = BUF((size_t)129 << 10);

	buf_printf(&json, "{\"name\":\"%s\",\"origin\":", c->name);
	put_json_str(&json, b->config.origin);
	if (b->config.clock != NULL)
		buf_printf(&json, ",\"clock\":\"%s\"", b->config.clock);
	buf_printf(&json, ",\"log_level\":\"%s\"", b->config.log_level);
	if (c->role == IPC_ROLE_CORE) {
		AUTO_FREE char *dir = xstrdup(c->path);

		*strrchr(dir, '/') = '\0';
		buf_put_z(&json, ",\"programs\":");
		put_json_str(&json, dir);
	}
	if ((c->role == IPC_ROLE_CORE || c->role == IPC_ROLE_CONSOLE ||
		c->role == IPC_ROLE_COURIER) &&
	    b->config.console.origin != NULL) {
		buf_put_z(&json, ",\"console\":");
		put_json_str(&json, b->config.console.origin);
		buf_printf(&json, ",\"console_tls\":%s",
		    b->config.console.cert != NULL ? "true" : "false");
	}
	if (c->role == IPC_ROLE_COURIER)
		buf_printf(&json, ",\"webhooks\":%s,\"witnesses\":%s",
		    b->config.webhooks_json != NULL ? b->config.webhooks_json : "[]",
		    b->config.witnesses_json != NULL ? b->config.witnesses_json : "[]");
	if (c->role == IPC_ROLE_WRITER && b->config.witnesses.n != 0)
		put_witness_keys(&json, &b->config.witnesses);
	if (b->ids.root)
		buf_printf(
		    &json, ",\"uid\":%u,\"gid\":%u", b->ids.uid[c->role], b->ids.gid[c->role]);
	buf_put_c(&json, '}');
	if (buf_over(&json))
		fatal("configuration of %s is over %zu bytes", c->name, json.max);
	buf_u32(&body, IPC_VERSION);
	buf_lstr(&body, buf_str(&json));
	ipc_send(c->wire, MSG_P_CONFIG, &body, NULL, 0);
}

static void
send_fd(struct child *c, const char *name, int fd)
{
	AUTO_BUF struct buf body = BUF(256);

	buf_lz(&body, name);
	ipc_send(c->wire, MSG_P_FD, &body, &fd, 1);
}

/*
 * The files of a child, or only the one of that name. One that is missing now is said here,
 * and refused by the child that needs it.
 */
static void
send_files(struct child *c, const char *only)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		AUTO_FD int fd = -1;
		struct err err = {0};

		if (files[i].role != c->role || (only != NULL && strcmp(files[i].name, only) != 0))
			continue;
		if (files[i].may_lack && !broker_state_has(&c->b->state, files[i].path))
			continue;
		if (broker_state_file(&c->b->state, files[i].path, files[i].flags, &fd, &err) != 0)
			log_error("%s for %s: %s", files[i].name, c->name, err.msg);
		else
			send_fd(c, files[i].name, fd);
	}
}

/* To take the policy away is said to core as well: a bundle of no bytes. */
static void
send_no_policy(struct child *core)
{
	AUTO_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	log_warn("no policy is active: everything is refused");
	if (fd < 0)
		fatal("/dev/null: %s", strerror(errno));
	send_fd(core, "policy", fd);
}

/* Before the bundle that they are of. */
static void
send_signatures(struct child *core)
{
	AUTO_FD int signatures = -1, before = -1;
	struct err err = {0};

	if (broker_state_policy_signed(&core->b->state, &signatures, &before, &err) != 0)
		log_error("%s", err.msg); /* core refuses the bundle, if it needs them */
	if (before >= 0)
		send_fd(core, "policy-before", before);
	if (signatures >= 0)
		send_fd(core, "policy-signatures", signatures);
}

static void
send_policy(struct child *core)
{
	AUTO_FD int fd = -1;
	struct err err = {0};
	int rc = broker_state_policy(&core->b->state, &fd, &err);

	if (rc == 0)
		send_signatures(core);
	if (rc == 0)
		send_fd(core, "policy", fd);
	else if (rc == ERR_NOT_FOUND)
		send_no_policy(core);
	else
		log_error("%s", err.msg); /* the one in force stays */
}

/* Its certificate is the operator's, and its key the one secret that it has. */
static void
send_certificate(struct child *console)
{
	const struct broker_console *k = &console->b->config.console;
	AUTO_FD int cert = -1, key = -1;
	struct err err = {0};

	if (k->cert == NULL)
		return;
	if (broker_console_files(k, &cert, &key, &err) != 0) {
		log_error("console: %s", err.msg);
		return;
	}
	send_fd(console, "tls-key", key);
	send_fd(console, "tls-cert", cert);
}

static void
send_console_only(struct child *console)
{
	send_fd(console, "listen", console->b->console);
	send_certificate(console);
}

void
broker_wires_reload(struct broker *b)
{
	struct child *core = broker_child_find(b, IPC_ROLE_CORE, STR(""));
	struct child *console = broker_child_find(b, IPC_ROLE_CONSOLE, STR(""));

	if (console != NULL && console->wire != NULL)
		send_certificate(console);

	/* One that is starting gets the newest anyway. */
	if (core == NULL || core->wire == NULL)
		return;
	send_files(core, "vault");
	send_policy(core);
}

static void
send_core_only(struct child *core)
{
	struct broker *b = core->b;

	/* The offset is shared with the core before this one. */
	(void)lseek(b->vault_key, 0, SEEK_SET);
	send_fd(core, "vault-key", b->vault_key);
	send_fd(core, "control", b->control);
	send_fd(core, "agent", b->agent);
	send_policy(core);
}

/* Secrets, addresses and CAs of its webhooks and witnesses: "secret:NAME", "witness-ca:NAME", ...
 */
static void
send_courier_files(struct child *courier, const struct webhooks *w)
{
	for (size_t i = 0; i < w->n * BROKER_WEBHOOK_FILES; i++) {
		AUTO_FREE char *name = NULL;
		AUTO_FD int fd = -1;
		struct err err = {0};

		if (broker_webhook_file(&courier->b->state, w, i, &name, &fd, &err) != 0)
			log_error("%s", err.msg); /* it sends nothing there, and says so */
		else if (fd >= 0)
			send_fd(courier, name, fd);
	}
}

static void
send_courier_only(struct child *courier)
{
	send_courier_files(courier, &courier->b->config.webhooks);
	send_courier_files(courier, &courier->b->config.witnesses);
}

static void
send_references(struct child *upstream)
{
	const struct broker_references *r = &upstream->b->config.references;

	for (size_t i = 0; i < r->n; i++) {
		AUTO_FREE char *name = xasprintf("reference:%s", r->v[i].name);
		AUTO_FD int fd = -1;
		struct err err = {0};

		if (broker_reference_open(&r->v[i], upstream->b->state.path, &fd, &err) != 0)
			log_error("%s", err.msg); /* what asks for it is refused */
		else
			send_fd(upstream, name, fd);
	}
}

static void
send_wire(struct child *to, enum ipc_role peer, const char *run, int fd)
{
	AUTO_BUF struct buf body = BUF(256);

	buf_u8(&body, (uint8_t)peer);
	buf_lz(&body, run);
	ipc_send(to->wire, MSG_P_WIRE, &body, &fd, 1);
}

static void
wire_pair(struct child *a, struct child *b)
{
	const char *run = a->run[0] != '\0' ? a->run : b->run;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
		fatal("socketpair: %s", strerror(errno));
	send_wire(a, b->role, run, sv[0]);
	send_wire(b, a->role, run, sv[1]);
	(void)close(sv[0]);
	(void)close(sv[1]);
}

static void
send_wires(struct child *c)
{
	for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
		enum ipc_role other = peers[i].a == c->role   ? peers[i].b
				      : peers[i].b == c->role ? peers[i].a
							      : IPC_ROLE_NONE;
		struct child *peer =
		    other != IPC_ROLE_NONE ? broker_child_find(c->b, other, STR("")) : NULL;

		/* One that is not there makes the pair itself when it comes. */
		if (peer != NULL && peer->wire != NULL)
			wire_pair(c, peer);
	}
}

void
broker_wires_configure(struct child *c)
{
	send_config(c);
	send_files(c, NULL);
	if (c->role == IPC_ROLE_CORE)
		send_core_only(c);
	if (c->role == IPC_ROLE_CONSOLE)
		send_console_only(c);
	if (c->role == IPC_ROLE_COURIER)
		send_courier_only(c);
	if (c->role == IPC_ROLE_UPSTREAM && !broker_state_has(&c->b->state, "answers"))
		send_references(c);
	send_wires(c);
	ipc_send(c->wire, MSG_P_GO, NULL, NULL, 0);
	if (c->role == IPC_ROLE_CORE)
		broker_keep_send(c->b, c->wire);
}
