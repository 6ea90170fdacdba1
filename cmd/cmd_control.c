/*
 * The command line's side of the control socket. Runs as the person. The broker is trusted to
 * say what is pending, not with the person's terminal: its texts are encoded before printing.
 */
#include "cmd/cmd_control.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd_file.h"
#include "cmd/cmd_via.h"
#include "common/ipc.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CALL_MS 60000

static int
receive(int fd, struct buf *body, struct err *err)
{
	int fds[IPC_FDS_MAX];
	size_t nfds = 0;
	uint16_t type = 0;
	int rc =
	    ipc_sync_recv(fd, IPC_ROLE_CLI, IPC_ROLE_CORE, CALL_MS, &type, body, fds, &nfds, err);

	for (size_t i = 0; i < nfds; i++)
		(void)close(fds[i]);
	if (rc != 0)
		return rc;
	if (type != MSG_Q_REPLY)
		return err_set(err, ERR_PROTOCOL, "the broker answered with message %u", type);
	return 0;
}

/* Table codes only: what else a peer claims is an internal error. */
static int
code_of(uint32_t wire)
{
	int code = wire <= 1000 ? -(int)wire : ERR_INTERNAL;

	return code < 0 ? code : ERR_INTERNAL;
}

static int
dup_fd(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* The connection stays open in *ret_fd, which the caller closes, unless that is NULL. */
static int
call(const char *state, const char *verb, struct str args, struct json_doc **ret, int *ret_fd,
    struct err *err)
{
	AUTO_FREE char *path =
	    xasprintf("%s/run/control.sock", state != NULL ? state : CMD_STATE_DEFAULT);
	AUTO_BUF struct buf out = BUF(1 << 18);
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	AUTO_FREE char *text = NULL;
	AUTO_FD int own = -1;
	int fd = -1;
	struct rd r;
	struct str result;
	uint32_t code;
	int rc = via_is(state) ? via_connect(state, &fd, err) : ipc_connect(path, &own, err);

	if (rc != 0)
		return via_is(state) ? rc : err_wrap(err, "no broker answers at %s", path);
	if (own >= 0)
		fd = own;
	buf_u32(&out, IPC_VERSION);
	buf_lz(&out, verb);
	buf_lstr(&out, args);
	if (buf_over(&out))
		return err_set(err, ERR_TOO_LARGE, "the call is over %zu bytes", out.max);
	rc = ipc_sync_send(fd, IPC_ROLE_CLI, IPC_ROLE_CORE, MSG_Q_CALL, &out, NULL, 0, err);
	if (rc == 0)
		rc = receive(fd, &in, err);
	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&in));
	code = rd_u32(&r);
	result = rd_lstr(&r);
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "the broker's answer is malformed");
	if (code == 0) {
		if (ret_fd != NULL)
			*ret_fd = own >= 0 ? TAKE_FD(own) : dup_fd(fd);
		return json_parse(result, "the broker's answer", ret, err);
	}
	text = log_vis(result);
	return err_set(err, code_of(code), "%s", text);
}

int
control_call(
    const char *state, const char *verb, struct str args, struct json_doc **ret, struct err *err)
{
	return call(state, verb, args, ret, NULL, err);
}

int
control_stay(const char *state, const char *verb, struct str args, struct json_doc **ret,
    int *ret_fd, struct err *err)
{
	return call(state, verb, args, ret, ret_fd, err);
}

int
control_sign(
    const char *state, const char *verb, struct str args, struct json_doc **ret, struct err *err)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	int rc = control_call(state, verb, args, ret, err);

	for (int i = 0; rc == ERR_BUSY && i < 200; i++) {
		(void)nanosleep(&pause, NULL);
		rc = control_call(state, verb, args, ret, err);
	}
	return rc;
}

char *
control_text(const struct json *o, const char *key)
{
	return log_vis(json_str(json_get(o, key)));
}

char *
control_list(const struct json *o, const char *key)
{
	const struct json *a = json_get(o, key);
	AUTO_BUF struct buf b = BUF(65536);

	for (size_t i = 0; i < json_count(a); i++) {
		if (i != 0)
			buf_put_z(&b, ", ");
		buf_put_str(&b, json_str(json_at(a, i)));
	}
	return log_vis(buf_str(&b));
}
