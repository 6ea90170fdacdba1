/*
 * For 94-serve.t: a program on common/serve.h whose handler says what it was asked, streams, counts
 * bodies, ends without an answer, or crashes. Arguments: LISTEN [CERT KEY [CLIENT-CA]]; TOKENS,
 * WORKERS and ALLOW_HOST in the environment. Its address goes to standard output.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/serve_guard.h"

#include "common/banned.h"

static struct serve_tokens *tokens;
static const char *hosts[2];

static void
count(struct serve_conn *c)
{
	AUTO_BUF struct buf out = BUF(256);
	struct err e = {0};
	unsigned long long n = 0;
	struct str part;
	int rc;

	do {
		rc = serve_body_next(c, &part, &e);
		n += part.n;
	} while (rc == 0);
	buf_printf(&out, "%llu %s\n", n, rc == 1 ? "whole" : e.msg);
	(void)serve_answer(c, rc == 1 ? 200 : 400, "text/plain", buf_str(&out), NULL);
}

static void
stream(struct serve_conn *c, bool whole)
{
	struct err e = {0};

	if (serve_stream(c, 200, "text/plain", &e) == 0 && serve_put(c, STR("one\n"), &e) == 0 &&
	    serve_put(c, STR("two\n"), &e) == 0 && whole)
		(void)serve_end(c, &e);
}

/* Until the client goes; standard error then says so. */
static void
wait_gone(struct serve_conn *c)
{
	struct err e = {0};

	if (serve_stream(c, 200, "text/plain", &e) != 0 || serve_put(c, STR("here\n"), &e) != 0)
		return;
	while (!serve_gone(c))
		(void)usleep(10000);
	log_info("the client has gone");
}

static void
echo(struct serve_conn *c)
{
	AUTO_BUF struct buf out = BUF(1 << 20), body = BUF(65536);
	const struct http_request *rq = serve_request(c);
	struct err e = {0};
	int rc = serve_body(c, 65536, &body, &e);
	const char *who = tokens != NULL ? serve_tokens_who(tokens, serve_bearer(c)) : NULL;

	if (rc != 0) {
		(void)serve_answer(c, (unsigned)err_http(rc), "text/plain", str_z(e.msg), NULL);
		return;
	}
	buf_printf(&out, "%.*s %.*s who=%s client=%s peer=%s body=%.*s\n", STR_ARG(rq->method),
	    STR_ARG(rq->path), who != NULL ? who : "-", serve_client(c), serve_peer(c),
	    STR_ARG(buf_str(&body)));
	serve_field(c, "X-Test", STR("yes"));
	(void)serve_answer(c, 200, "text/plain", buf_str(&out), NULL);
}

static void
handle(void *arg UNUSED, struct serve_conn *c)
{
	static const struct serve_guard guard = {.hosts = hosts};
	struct str path = serve_request(c)->path;
	struct err e = {0};
	unsigned status = serve_guard_check(&guard, c, &e);

	if (status != 0)
		(void)serve_answer(c, status, "text/plain", str_z(e.msg), NULL);
	else if (str_eqz(path, "/count"))
		count(c);
	else if (str_eqz(path, "/stream") || str_eqz(path, "/cut"))
		stream(c, str_eqz(path, "/stream"));
	else if (str_eqz(path, "/gone"))
		wait_gone(c);
	else if (str_eqz(path, "/crash"))
		(void)raise(SIGABRT);
	else if (!str_eqz(path, "/silent"))
		echo(c);
}

int
main(int argc, char **argv)
{
	AUTO(serve) struct serve *s = NULL;
	const char *workers = getenv("WORKERS"), *file = getenv("TOKENS");
	struct serve_config c = {.listen = argc > 1 ? argv[1] : ":0",
	    .option = "--listen",
	    .cert = argc > 3 ? argv[2] : NULL,
	    .key = argc > 3 ? argv[3] : NULL,
	    .client_ca = argc > 4 ? argv[4] : NULL,
	    .workers = workers != NULL ? (size_t)strtoul(workers, NULL, 10) : 0};
	struct err e = {0};

	log_init("serve_echo", LOG_INFO_);
	hosts[0] = getenv("ALLOW_HOST");
	if ((file != NULL && serve_tokens_load(file, &tokens, &e) != 0) ||
	    serve_open(&c, &s, &e) != 0)
		fatal_err(&e);
	(void)printf("%s\n", serve_url(s));
	(void)fflush(stdout);
	if (serve_run(s, handle, NULL, NULL, &e) != 0)
		fatal_err(&e);
	serve_tokens_free(tokens);
	return 0;
}
