/*
 * For tests: a keeper's caller on the command line (agent/keeper.h). `start` holds what it starts
 * until its standard input ends; the others connect to it by its id.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/keeper.h"

#include "common/banned.h"

static int
fail(const struct err *e)
{
	printf("error %d %s\n", e->code, e->msg);
	return 1;
}

static uint32_t
number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 10);
}

static int
start(char **v, int n)
{
	const char *env[] = {"GIVEN=by the caller", NULL};
	struct keeper_ask a = {.socket = v[0],
	    .agent = "tool",
	    .task = "a test",
	    .as = KEEPER_SELF,
	    .env = env,
	    .time_s = number(v[1]),
	    .time_pauses = strcmp(v[2], "pause") == 0,
	    .narrow = n > 3,
	    .allow = (const char *const *)&v[3],
	    .nallow = n > 3 && strcmp(v[3], "-") != 0 ? (size_t)(n - 3) : 0};
	AUTO(keeper) struct keeper *k = NULL;
	struct err e = {0};
	int life[2];
	char c;

	if (pipe(life) != 0 || keeper_start(&a, life[0], &k, &e) != 0)
		return fail(&e);
	printf("%s %s %s %d\n", keeper_id(k), keeper_run(k), keeper_owner(k), keeper_pid(k));
	(void)fflush(stdout);
	while (read(0, &c, 1) > 0)
		continue;
	return 0;
}

static int
show(struct keeper_stream *s)
{
	struct keeper_event ev;
	struct err e = {0};

	for (;;) {
		if (keeper_next(s, 60000, &ev, &e) != 0)
			return fail(&e);
		switch (ev.type) {
		case KEEPER_STARTED: printf("started %u\n", ev.number); break;
		case KEEPER_OUTPUT: printf("%u:%.*s\n", ev.number, STR_ARG(ev.bytes)); break;
		case KEEPER_DISPLAY:
			printf("display %u %.*s\n", ev.number, STR_ARG(ev.bytes));
			break;
		case KEEPER_FAILED:
			printf("failed %d %.*s\n", ev.code, STR_ARG(ev.bytes));
			return 1;
		case KEEPER_ENDED:
			printf("ended %s %d cell %u %.*s: %.*s\n", sandbox_cause_name(ev.cause),
			    ev.value, ev.end, STR_ARG(ev.name), STR_ARG(ev.error));
			return 0;
		}
		(void)fflush(stdout);
	}
}

static int
call(struct keeper *k, const char *what, char **v, struct buf *text, struct keeper_stream **s,
    struct err *e)
{
	struct sandbox_exec x = {
	    .argv = v, .pipe_stdin = strcmp(what, "cat") == 0, .background = true};
	char id[KEEPER_ID_MAX + 1];

	if (strcmp(what, "run") == 0 || strcmp(what, "cat") == 0)
		return keeper_program(k, &x, "l", s, e);
	if (strcmp(what, "attach") == 0)
		return keeper_attach(k, number(v[0]), s, e);
	if (strcmp(what, "context") == 0) {
		int rc = keeper_context_open(k, v[0], NULL, id, s, e);

		if (rc == 0)
			printf("%s\n", id);
		return rc;
	}
	if (strcmp(what, "cell") == 0)
		return keeper_cell(k, v[0], str_z(v[1]), number(v[2]), s, e);
	if (strcmp(what, "state") == 0)
		return keeper_state(k, text, e);
	if (strcmp(what, "programs") == 0)
		return keeper_programs(k, text, e);
	if (strcmp(what, "contexts") == 0)
		return keeper_contexts(k, text, e);
	if (strcmp(what, "input") == 0)
		return keeper_input(k, number(v[0]), str_z(v[1]), v[2] != NULL, e);
	if (strcmp(what, "signal") == 0)
		return keeper_signal(k, number(v[0]), (int)number(v[1]), e);
	if (strcmp(what, "restart") == 0)
		return keeper_context_restart(k, v[0], e);
	if (strcmp(what, "close") == 0)
		return keeper_context_close(k, v[0], e);
	if (strcmp(what, "pause") == 0)
		return keeper_pause(k, e);
	if (strcmp(what, "resume") == 0)
		return keeper_resume(k, number(v[0]), e);
	if (strcmp(what, "time") == 0)
		return keeper_time(k, number(v[0]), false, e);
	if (strcmp(what, "narrow") == 0)
		return keeper_narrow(k, (const char *const *)v, 1, e);
	if (strcmp(what, "note") == 0)
		return keeper_event(k, "note", STR("{\"by\":\"tool\"}"), str_z(v[0]), e);
	return keeper_end(k, "done", "told to", e);
}

int
main(int argc, char **argv)
{
	AUTO(keeper) struct keeper *k = NULL;
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	AUTO_BUF struct buf text = BUF(1 << 22);
	struct err e = {0};

	if (argc > 4 && strcmp(argv[1], "start") == 0)
		return start(argv + 2, argc - 2);
	if (argc < 3 || keeper_open(argv[2], &k, &e) != 0 ||
	    call(k, argv[1], argv + 3, &text, &s, &e) != 0)
		return fail(&e);
	if (s != NULL)
		return show(s);
	printf("%.*s\n", (int)text.n, (const char *)text.p);
	return 0;
}
