/*
 * Answers core's questions in cofferdam-parser. The text is the agent's, and libpg_query is a
 * large foreign parser in this address space: each question runs against a clock that kills
 * the process, under limits of stack and memory, with no descriptor but the two wires and the
 * sealed body that is asked about. A death is an answer too: core refuses the text. Never keep
 * anything of one question for the next.
 */
#include "broker/parser_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
	sigset_t clocks;

	(void)sigemptyset(&clocks);
	(void)sigaddset(&clocks, SIGPROF);
	(void)sigaddset(&clocks, SIGALRM);
	if (sigaction(SIGPROF, &dfl, NULL) != 0 || sigaction(SIGALRM, &dfl, NULL) != 0 ||
	    sigprocmask(SIG_UNBLOCK, &clocks, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "SIGPROF, SIGALRM");
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
clock_set(__itimer_which_t which, unsigned ms, struct err *err)
{
	struct itimerval t = {
	    .it_value = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000}};

	if (setitimer(which, &t, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "setitimer %u ms", ms);
	return 0;
}

/* What a text costs is time of the processor: on a busy machine the rest of the time is others'. */
int
parser_clock(unsigned ms, struct err *err)
{
	int rc = clock_set(ITIMER_PROF, ms, err);

	return rc != 0 ? rc : clock_set(ITIMER_REAL, ms > 0 ? PARSER_STALL_MS : 0, err);
}

struct question {
	uint64_t id;
	uint8_t dialect;
	struct str text; /* or what a body holds */
	struct str content_type;
	bool body;
};

typedef int text_facts(struct str text, struct buf *ret_json, struct err *err);
typedef int body_facts(
    struct str content_type, struct str body, struct buf *ret_json, struct err *err);

/* Whose messages have one form each. */
static int
git(struct str content_type UNUSED, struct str body, struct buf *ret_json, struct err *err)
{
	return facts_git(body, ret_json, err);
}

static int
mcp(struct str content_type UNUSED, struct str body, struct buf *ret_json, struct err *err)
{
	return facts_mcp(body, ret_json, err);
}

static int
facts(const struct question *q, struct buf *out, struct err *err)
{
	static const struct {
		text_facts *text;
		body_facts *body;
	} dialects[] = {
	    [PARSER_DIALECT_POSTGRESQL] = {facts_sql, NULL},
	    [PARSER_DIALECT_GRAPHQL] = {facts_graphql_query, facts_graphql_body},
	    [PARSER_DIALECT_FORM] = {NULL, facts_form},
	    [PARSER_DIALECT_K8S] = {NULL, facts_k8s},
	    [PARSER_DIALECT_GIT] = {NULL, git},
	    [PARSER_DIALECT_AWS] = {facts_aws_query, facts_aws_body},
	    [PARSER_DIALECT_MCP] = {NULL, mcp},
	    [PARSER_DIALECT_REDIS] = {facts_redis, NULL},
	    [PARSER_DIALECT_COUNT] = {facts_sql_count, NULL},
	};

	if (q->dialect < ARRAY_LEN(dialects) && q->body && dialects[q->dialect].body != NULL)
		return dialects[q->dialect].body(q->content_type, q->text, out, err);
	if (q->dialect < ARRAY_LEN(dialects) && !q->body && dialects[q->dialect].text != NULL)
		return dialects[q->dialect].text(q->text, out, err);
	return err_set(err, ERR_UNSUPPORTED, "dialect %u is not known", q->dialect);
}

/* Against the clock; X_FACTS goes out. */
static int
answer(struct ipc *w, const struct question *q, struct err *err)
{
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX + ERR_MSG_MAX);
	AUTO_BUF struct buf msg = BUF(1 << 17);
	struct err why = {0};
	int rc = parser_clock(q->body ? PARSER_BODY_MS : PARSER_TEXT_MS, err), got;

	if (rc != 0)
		return rc;
	got = facts(q, &out, &why);
	rc = parser_clock(0, err);
	if (rc != 0)
		return rc;
	if (got != 0) {
		buf_reset(&out);
		buf_put_z(&out, why.msg);
	}
	buf_u64(&msg, q->id);
	buf_u8(&msg, got == 0		      ? PARSER_OK
		     : got == ERR_TOO_COMPLEX ? PARSER_TOO_COMPLEX
					      : PARSER_INVALID);
	buf_lstr(&msg, buf_str(&out));
	ipc_send(w, MSG_X_FACTS, &msg, NULL, 0);
	return 0;
}

static int
ask_text(struct ipc *w, struct rd *body, struct err *err)
{
	struct question q = {.id = rd_u64(body)};

	q.dialect = rd_u8(body);
	q.text = rd_lstr(body);
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed question");
	return answer(w, &q, err);
}

/* Sealed, so that what is read here is what will be sent. */
static int
body_read(int fd, uint64_t length, struct buf *out, struct err *err)
{
	const int want = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	size_t n = 0;
	uint8_t *p;

	if (seals < 0 || (seals & want) != want)
		return err_set(err, ERR_PROTOCOL, "a body is not sealed");
	if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size != length)
		return err_set(err, ERR_PROTOCOL, "a body is not as long as core says");
	p = buf_grow(out, (size_t)length);
	if (p == NULL)
		return err_set(err, ERR_PROTOCOL, "a body is over %zu bytes", FACTS_FORM_MAX);
	while (n < length) {
		ssize_t got = pread(fd, p + n, (size_t)length - n, (off_t)n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading a body");
		n += (size_t)got;
	}
	return 0;
}

static int
ask_body(struct ipc *w, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	AUTO_BUF struct buf content = BUF(FACTS_FORM_MAX);
	struct question q = {.id = rd_u64(body), .body = true};
	uint64_t length;
	int rc;

	q.dialect = rd_u8(body);
	q.content_type = rd_lstr(body);
	length = rd_u64(body);
	if (!rd_end(body) || nfds != 1)
		return err_set(err, ERR_PROTOCOL, "malformed question");
	rc = body_read(fds[0], length, &content, err);
	if (rc != 0)
		return rc;
	q.text = buf_str(&content);
	return answer(w, &q, err);
}

int
parser_ask(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	(void)arg;
	if (type == MSG_X_ASK)
		return ask_text(w, body, err);
	if (type == MSG_X_BODY)
		return ask_body(w, body, fds, nfds, err);
	return err_set(err, ERR_PROTOCOL, "%s is no question", ipc_msg_name(type));
}
