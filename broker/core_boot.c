/*
 * How core comes up (process: core): configuration and keys by descriptor before it is confined,
 * wires from the parent then and later. A wire that goes refuses what was in flight on it; the
 * parent brings a new one. Without writer, policy or upstream nothing passes.
 */
#include "broker/core_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/rates.h"
#include "broker/core_approve.h"
#include "broker/core_ca.h"
#include "broker/core_console.h"
#include "broker/core_cred.h"
#include "broker/core_data.h"
#include "broker/core_doubt.h"
#include "broker/core_erase.h"
#include "broker/core_facts.h"
#include "broker/core_lift.h"
#include "broker/core_live.h"
#include "broker/core_login.h"
#include "broker/core_patch.h"
#include "broker/core_peer.h"
#include "broker/core_pg.h"
#include "broker/core_policy.h"
#include "broker/core_run.h"
#include "broker/core_sign.h"
#include "broker/core_table.h"
#include "common/acceptor.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define PEM_MAX ((size_t)65536)

struct core *
core_new(struct loop *loop)
{
	struct core *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->origin = xstrdup("");
	c->uid = geteuid();
	c->control_fd = c->agent_fd = c->blobkeys_fd = c->passwd_fd = c->vault_fd = -1;
	c->parent = (struct core_peer){.core = c, .role = IPC_ROLE_PARENT, .state = CORE_S_OPEN};
	TAILQ_INIT(&c->agents);
	TAILQ_INIT(&c->people);
	TAILQ_INIT(&c->runs);
	TAILQ_INIT(&c->lifts);
	TAILQ_INIT(&c->kept);
	TAILQ_INIT(&c->tickets);
	TAILQ_INIT(&c->unsent);
	TAILQ_INIT(&c->unwitnessed);
	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++) {
		LIST_INIT(&c->conns[i]);
		LIST_INIT(&c->https[i]);
	}
	buf_init(&c->doubt, (size_t)32 << 20);
	buf_init(&c->doubt_more, (size_t)32 << 20);
	buf_init(&c->not_sent, (size_t)1 << 20);
	c->rates = rates_new();
	c->desk = core_desk_new();
	return c;
}

static void
fd_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void
core_free(struct core *c)
{
	struct core_kept *k;

	if (c == NULL)
		return;
	c->live = false;
	while (!TAILQ_EMPTY(&c->runs))
		core_run_free(TAILQ_FIRST(&c->runs));
	core_lift_free_all(c);
	core_lift_sign_free(c);
	core_doubt_reset(c);
	free(c->log_damage);
	core_erase_free(c);
	while (!TAILQ_EMPTY(&c->agents))
		core_peer_free(TAILQ_FIRST(&c->agents));
	while (!TAILQ_EMPTY(&c->people))
		core_peer_free(TAILQ_FIRST(&c->people));
	while ((k = TAILQ_FIRST(&c->kept)) != NULL) {
		TAILQ_REMOVE(&c->kept, k, link);
		(void)close(k->fd);
		free(k);
	}
	core_record_free_all(c);
	core_wires_free(c);
	core_desk_free(c->desk);
	acceptor_free(c->control_acceptor);
	acceptor_free(c->agent_acceptor);
	fd_close(&c->control_fd);
	fd_close(&c->agent_fd);
	fd_close(&c->blobkeys_fd);
	fd_close(&c->passwd_fd);
	fd_close(&c->vault_fd);
	core_policy_free(c);
	rates_free(c->rates);
	core_logins_free(c->logins);
	vault_free(c->vault);
	secret_free(c->vault_key);
	secret_free(c->fp_key);
	secret_free(c->policy_blob_key);
	core_ca_free(c->ca);
	buf_free(&c->doubt);
	buf_free(&c->doubt_more);
	buf_free(&c->not_sent);
	secret_free(c->ca_key);
	free(c->ca_pem);
	free(c->origin);
	free(c);
}

/* --- configuration and descriptors ----------------------------------------------- */

int
core_boot_config(void *arg, const struct json *config, struct err *err)
{
	struct core *c = arg;
	struct str origin = json_str(json_get(config, "origin"));

	if (origin.n == 0 || origin.n > 200)
		return err_set(err, ERR_CONFIG, "origin must be 1 to 200 bytes");
	free(c->origin);
	c->origin = str_dup(origin);
	return core_desk_origin(c->desk, json_str(json_get(config, "console")), err);
}

int
core_boot_read(int fd, size_t max, const char *what, struct buf *b, struct err *err)
{
	off_t at = 0;

	for (;;) {
		uint8_t chunk[16384];
		ssize_t k = pread(fd, chunk, sizeof(chunk), at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading %s", what);
		if (k == 0)
			break;
		buf_put(b, chunk, (size_t)k);
		explicit_bzero(chunk, sizeof(chunk));
		at += k;
		if (buf_over(b))
			return err_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", what, max);
	}
	return 0;
}

static int
take_vault(struct core *c, int fd, struct err *err)
{
	int rc = core_cred_load(c, fd, err);

	if (rc == 0)
		core_patch_vault(c);
	return rc;
}

/* The key may come after the vault: the vault's descriptor is kept until then. */
static int
take_vault_key(struct core *c, int fd, struct err *err)
{
	struct secret *key = NULL;
	int rc = secret_read_fd(fd, VAULT_KEY_LEN, &key, err);

	if (rc != 0)
		return err_wrap(err, "keys/vault.key");
	core_cred_key(c, key);
	return 0;
}

/* Key and certificate belong together: the first that comes waits for the other. */
static int
take_ca_key(struct core *c, int fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(PEM_MAX);
	int rc = core_boot_read(fd, PEM_MAX, "keys/ca/key.pem", &b, err);

	if (rc != 0)
		return rc;
	secret_free(c->ca_key);
	c->ca_key = secret_copy(buf_str(&b));
	return 0;
}

static int
take_ca_cert(struct core *c, int fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(PEM_MAX);
	int rc = core_boot_read(fd, PEM_MAX, "keys/ca/cert.pem", &b, err);

	if (rc != 0)
		return rc;
	free(c->ca_pem);
	c->ca_pem = buf_dup_z(&b);
	return 0;
}

int
core_boot_fd(void *arg, struct str name, int fd, struct err *err)
{
	struct core *c = arg;
	AUTO_FD int own = fd;
	static const struct {
		const char *name;
		int (*fn)(struct core *c, int fd, struct err *err);
	} read_now[] = {{"policy", core_policy_take}, {"policy-before", core_policy_take_before},
	    {"policy-signatures", core_policy_take_signatures}, {"vault-key", take_vault_key},
	    {"ca-key", take_ca_key}, {"ca-cert", take_ca_cert}};
	struct {
		const char *name;
		int *at;
	} kept[] = {{"control", &c->control_fd}, {"agent", &c->agent_fd},
	    {"blob-keys", &c->blobkeys_fd}, {"vault", &c->vault_fd}};

	for (size_t i = 0; i < ARRAY_LEN(read_now); i++)
		if (str_eqz(name, read_now[i].name))
			return read_now[i].fn(c, own, err);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (!str_eqz(name, kept[i].name))
			continue;
		fd_close(kept[i].at);
		*kept[i].at = TAKE_FD(own);
		/* A vault that comes later replaces the one in use. */
		return kept[i].at == &c->vault_fd && c->serving ? take_vault(c, c->vault_fd, err)
								: 0;
	}
	return err_set(err, ERR_CONFIG, "descriptor \"%.*s\" is not known", STR_ARG(name));
}

static int
policy_key(struct core *c, struct err *err)
{
	int rc = core_run_key(c, CORE_POLICY_KID, false, &c->policy_blob_key, err);

	return rc == ERR_NOT_FOUND
		   ? core_run_key(c, CORE_POLICY_KID, true, &c->policy_blob_key, err)
		   : rc;
}

int
core_boot_go(void *arg, struct err *err)
{
	struct core *c = arg;
	int rc;

	if (c->vault_fd < 0 || c->ca_key == NULL || c->ca_pem == NULL || c->blobkeys_fd < 0)
		return err_set(err, ERR_CONFIG,
		    "vault, CA key, CA certificate or blob key directory is missing");
	rc = take_vault(c, c->vault_fd, err);
	if (rc == 0)
		rc = core_ca_load(secret_str(c->ca_key), str_z(c->ca_pem), &c->ca, err);
	if (rc != 0)
		return rc;
	secret_free(c->ca_key);
	c->ca_key = NULL;
	c->passwd_fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	if (c->passwd_fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "/etc/passwd");
	return core_logins_read(c->passwd_fd, &c->logins, err);
}

/* Confined, as its own user: the directory of blob keys may be its own only. */
int
core_boot_serve(void *arg, struct err *err)
{
	struct core *c = arg;
	int rc = c->policy_blob_key == NULL ? policy_key(c, err) : 0;

	if (rc != 0)
		return rc;
	c->serving = true;
	core_boot_policy(c);
	core_peer_listen(c);
	return 0;
}

#define STOP_TURN_MS 50
#define STOP_TURNS 60

/* The last records are given time to become durable; what is not then is in doubt at the next
 * start. */
static void
stopping(void *arg)
{
	struct core *c = arg;

	if (TAILQ_EMPTY(&c->tickets) || ++c->stop_turns > STOP_TURNS)
		loop_stop(c->loop, 0);
	else
		(void)loop_timer_add(c->loop, STOP_TURN_MS, stopping, c);
}

void
core_boot_stop(void *arg)
{
	struct core *c = arg;

	acceptor_free(c->control_acceptor);
	acceptor_free(c->agent_acceptor);
	c->control_acceptor = c->agent_acceptor = NULL;
	c->serving = false;
	stopping(c);
}

int
core_boot_parent_msg(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds,
    size_t nfds, struct err *err)
{
	struct core *c = arg;

	c->parent.wire = w;
	return core_table_dispatch(&c->parent, w, type, body, fds, nfds, err);
}
