/*
 * `cofferdam attach`: a run's stream, from a short backlog on, for its owner and for whom the
 * policy lets watch. Runs as the person. What it prints was written by models, code and strangers,
 * and goes to the terminal encoded; with --json as it came.
 */
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "common/ipc.h"
#include "common/jcs.h"
#include "common/stream.h"

#include "common/banned.h"

struct attach_args {
	const char *state, *run;
	bool json;
};

#define AT(f) offsetof(struct attach_args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, "one JSON object a line, as docs/runs.md says"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static bool
show(const struct attach_args *a, const struct stream_look *look, struct str text, bool *over,
    struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf out = BUF((size_t)1 << 20);
	struct str type;

	if (json_parse(text, "the broker's event", &doc, err) != 0)
		return false;
	type = json_str(json_get(json_root(doc), "type"));
	*over = str_eqz(type, "stream.end");
	if (a->json) {
		buf_put_str(&out, text);
		buf_put_c(&out, '\n');
	} else {
		stream_event(look, json_root(doc), &out);
	}
	return fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0;
}

static int
follow(const struct attach_args *a, int fd, struct err *err)
{
	const struct stream_look look = {.colour = stream_colour(STDOUT_FILENO), .run = a->run};
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	bool over = false;

	while (!over) {
		int fds[IPC_FDS_MAX];
		size_t nfds = 0;
		uint16_t type = 0;
		struct rd r;
		struct str text;
		int rc =
		    ipc_sync_recv(fd, IPC_ROLE_CLI, IPC_ROLE_CORE, -1, &type, &in, fds, &nfds, err);

		if (rc != 0)
			return rc;
		r = rd_init(buf_str(&in));
		text = rd_lstr(&r);
		if (type != MSG_Q_EVENT || !rd_end(&r))
			return err_set(
			    err, ERR_PROTOCOL, "the broker answered with message %u", type);
		if (!show(a, &look, text, &over, err))
			return 0; /* nobody reads any more */
	}
	return 0;
}

int
cmd_attach(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(4096);
	struct attach_args a = {0};
	AUTO_FD int fd = -1;
	struct err err;
	struct jcs j;

	if (!ARGS_READ("attach", rows, argc, argv, &a))
		return CMD_USAGE;
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "run", str_z(a.run));
	jcs_close(&j);
	if (control_stay(a.state, "run-watch", buf_str(&args), &doc, &fd, &err) != 0 ||
	    follow(&a, fd, &err) != 0)
		return cmd_fail(&err);
	return CMD_OK;
}
