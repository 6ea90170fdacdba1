/*
 * Answers core's questions in cofferdam-parser. The text is the agent's, and libpg_query is a
 * large foreign parser in this address space: each question runs against a clock that kills
 * the process, under limits of stack and memory, with no descriptor but the two wires. A death
 * is an answer too: core refuses the text. Never keep anything of one question for the next.
 */
#include "broker/parser_ask.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "policy/facts.h"

#include "common/banned.h"

static int
limit_set(int resource, const char *name, rlim_t soft, rlim_t hard, struct err *err)
{
	struct rlimit l = {.rlim_cur = soft, .rlim_max = hard};

	if (setrlimit((__rlimit_resource_t)resource, &l) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s %ju", name, (uintmax_t)soft);
	return 0;
}

/*
 * The main thread's stack grows up to the soft limit of the moment, and the kernel leaves at
 * least 128 MiB of room for that. Measured: 64 KiB of text need less than 5 MiB.
 */
int
parser_limits_early(struct err *err)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	struct rlimit l;
	sigset_t alarm_only;

	(void)sigemptyset(&alarm_only);
	(void)sigaddset(&alarm_only, SIGALRM);
	if (sigaction(SIGALRM, &dfl, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &alarm_only, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "SIGALRM");
	if (getrlimit(RLIMIT_STACK, &l) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_STACK");
	if (l.rlim_max < PARSER_STACK_LEAST)
		return err_set(err, ERR_SYSTEM, "RLIMIT_STACK is %ju at most, must be %zu or more",
		    (uintmax_t)l.rlim_max, PARSER_STACK_LEAST);
	return limit_set(RLIMIT_STACK, "RLIMIT_STACK",
	    l.rlim_max < PARSER_STACK ? l.rlim_max : PARSER_STACK, l.rlim_max, err);
}

int
parser_limits(struct err *err)
{
	int rc = limit_set(RLIMIT_CPU, "RLIMIT_CPU", PARSER_CPU_S, PARSER_CPU_S, err);

#ifndef MODE_SANITIZED /* the sanitizers map terabytes of shadow */
	if (rc == 0)
		rc = limit_set(RLIMIT_AS, "RLIMIT_AS", PARSER_MEMORY, PARSER_MEMORY, err);
#endif
	return rc;
}

static int
clock_set(unsigned ms, struct err *err)
{
	struct itimerval t = {.it_value = {.tv_usec = (suseconds_t)ms * 1000}};

	if (setitimer(ITIMER_REAL, &t, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "setitimer %u ms", ms);
	return 0;
}

/* Facts or a reason in *out; the status of X_FACTS. */
static uint8_t
classify(uint8_t dialect, struct str text, struct buf *out)
{
	struct err err = {0};
	int rc = dialect != PARSER_DIALECT_POSTGRESQL
		     ? err_set(&err, ERR_UNSUPPORTED, "dialect %u is not known", dialect)
		     : facts_sql(text, out, &err);

	if (rc == 0)
		return PARSER_OK;
	buf_reset(out);
	buf_put_z(out, err.msg);
	return rc == ERR_TOO_COMPLEX ? PARSER_TOO_COMPLEX : PARSER_INVALID;
}

int
parser_ask(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	AUTO_BUF struct buf answer = BUF(FACTS_JSON_MAX + ERR_MSG_MAX);
	AUTO_BUF struct buf msg = BUF(1 << 17);
	uint64_t id = rd_u64(body);
	uint8_t dialect = rd_u8(body);
	struct str text = rd_lstr(body);
	uint8_t status;
	int rc;

	(void)arg;
	(void)fds;
	(void)nfds;
	if (type != MSG_X_ASK || !rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed question");
	rc = clock_set(PARSER_WALL_MS, err);
	if (rc != 0)
		return rc;
	status = classify(dialect, text, &answer);
	rc = clock_set(0, err);
	if (rc != 0)
		return rc;
	buf_u64(&msg, id);
	buf_u8(&msg, status);
	buf_lstr(&msg, buf_str(&answer));
	ipc_send(w, MSG_X_FACTS, &msg, NULL, 0);
	return 0;
}
