/*
 * cofferdam-sandboxd: sandboxes for programs that are written for E2B's SDKs. A listener that forks
 * a worker for each connection, and a hub beside it; each sandbox is a run of the broker with a
 * keeper of its own. It holds no credential but its clients' API keys (their hashes), judges
 * nothing, and links neither policy nor broker. Started by the `cofferdam` command.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/streams.h"
#include "agent/e2b.h"

#include "common/banned.h"

static int
serve(struct e2b_config *c, struct err *err)
{
	AUTO(serve) struct serve *s = NULL;
	struct e2b_hub *h = NULL;
	int rc;

	if ((rc = e2b_config_load(c, err)) == 0 && (rc = serve_open(&c->serve, &s, err)) == 0 &&
	    (rc = e2b_hub_open(c, &h, err)) == 0) {
		(void)printf("listening at %s\n", serve_url(s));
		(void)fflush(stdout);
		rc = serve_run(s, e2b_serve, c, e2b_hub_hook(h), err);
	}
	e2b_hub_close(h);
	return rc;
}

int
main(int argc, char **argv)
{
	struct e2b_config c;
	struct err e = {0};
	int rc;

	streams_open();
	log_init("cofferdam-sandboxd", LOG_INFO_);
	(void)signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		e2b_options_help();
		return 0;
	}
	rc = e2b_options_parse(argc, argv, &c, &e);
	if (rc != 0) {
		log_error("%s", e.msg);
		return 2;
	}
	if ((rc = serve(&c, &e)) != 0)
		log_error("%s", e.msg);
	e2b_config_free(&c);
	return rc == 0 ? 0 : 1;
}
