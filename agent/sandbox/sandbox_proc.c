/*
 * Programs that go on by themselves (any caller's process): requests about one of them by its
 * number. The supervisor keeps their output, so that they outlive who began them; what it gives
 * back of it was written by code that nobody trusts.
 */
#include "agent/sandbox/sandbox.h"

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_result.h"

#include "common/banned.h"

#define LOGS_PIECE ((uint32_t)256 << 10)
#define INPUT_PIECE ((size_t)64 << 10)
#define INPUT_MS 10000 /* without anything taken */

int
sandbox_spawn(struct sandbox *sb, const struct sandbox_exec *x, uint32_t *ret_proc, struct err *err)
{
	AUTO_STARTED struct client_started s = CLIENT_STARTED;
	int rc;

	client_leave(sb);
	if ((rc = client_start(sb, x, true, &s, err)) != 0)
		return rc;
	*ret_proc = s.proc;
	return 0;
}

int
sandbox_proc_list(struct sandbox *sb, struct buf *ret, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct str json;
	struct rd r;
	int rc = client_ask(sb, CALL_PROCS, NULL, &m, err);

	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	json = rd_lstr(&r);
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed list of programs");
	buf_put_str(ret, json);
	return 0;
}

int
sandbox_proc_logs(struct sandbox *sb, uint32_t proc, uint64_t from, uint32_t wait_ms,
    struct buf *ret, struct sandbox_logs *ret_at, struct err *err)
{
	AUTO_BUF struct buf b = BUF(64);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct sandbox_logs at;
	struct str bytes;
	uint32_t tag = 0;
	struct rd r;
	int rc;

	if (wait_ms > 60000)
		wait_ms = 60000;
	buf_u32(&b, proc);
	buf_u64(&b, from);
	buf_u32(&b, wait_ms);
	buf_u32(&b, LOGS_PIECE);
	if ((rc = client_send(sb, CALL_LOGS, &b, NULL, 0, &tag, err)) != 0 ||
	    (rc = client_answer(sb, tag, CALL_DONE, (int)wait_ms + CLIENT_ANSWER_MS, &m, err)) != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	at.first = rd_u64(&r);
	at.next = rd_u64(&r);
	at.running = rd_u8(&r) != 0;
	bytes = rd_lstr(&r);
	if (!rd_end(&r) || at.next - at.first != bytes.n)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed logs");
	buf_put_str(ret, bytes);
	*ret_at = at;
	return buf_over(ret) ? err_set(err, ERR_TOO_LARGE, "sandbox: logs over %zu bytes", ret->max)
			     : 0;
}

/* A request with nothing in its answer. */
static int
order(struct sandbox *sb, uint8_t type, const struct buf *b, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	return client_ask(sb, type, b, &m, err);
}

int
sandbox_proc_signal(struct sandbox *sb, uint32_t proc, int signal, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	if (signal < 1 || signal > 64)
		return err_set(
		    err, ERR_INVALID, "sandbox: signal must be from 1 to 64, is %d", signal);
	buf_u32(&b, proc);
	buf_u32(&b, (uint32_t)signal);
	return order(sb, CALL_SIGNAL, &b, err);
}

int
sandbox_proc_resize(
    struct sandbox *sb, uint32_t proc, uint16_t rows, uint16_t cols, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, proc);
	buf_u16(&b, rows);
	buf_u16(&b, cols);
	return order(sb, CALL_RESIZE, &b, err);
}

static int
proc_wait(struct sandbox *sb, uint32_t proc, uint32_t timeout_ms, struct sandbox_result *ret,
    struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	uint32_t tag = 0;
	struct rd r;
	int rc;

	if (timeout_ms > INT32_MAX - CLIENT_ANSWER_MS)
		timeout_ms = INT32_MAX - CLIENT_ANSWER_MS;
	buf_u32(&b, proc);
	buf_u32(&b, timeout_ms);
	if ((rc = client_send(sb, CALL_WAIT, &b, NULL, 0, &tag, err)) != 0 ||
	    (rc = client_answer(sb, tag, CALL_DONE, (int)timeout_ms + CLIENT_ANSWER_MS, &m, err)) !=
		0)
		return rc;
	r = rd_init(buf_str(&m.body));
	return client_end_read(&r, ret, err);
}

int
sandbox_proc_wait(struct sandbox *sb, uint32_t proc, uint32_t timeout_ms,
    struct sandbox_result *ret, struct err *err)
{
	int rc;

	sandbox_result_init(ret, 0, 0);
	rc = proc_wait(sb, proc, timeout_ms, ret, err);
	if (rc != 0)
		sandbox_result_free(ret);
	return rc;
}

/*
 * By its end, since the supervisor answers no KILL. One that has ended may have left something
 * (`background`), which is ended, too; the order is there before the answer to the one behind it.
 */
int
sandbox_proc_kill(struct sandbox *sb, uint32_t proc, struct err *err)
{
	struct client_started s = {.proc = proc};
	struct sandbox_result r;
	int rc = sandbox_proc_wait(sb, proc, 0, &r, err);

	if (rc == 0)
		sandbox_result_free(&r);
	if (rc != 0 && rc != ERR_TIMEOUT)
		return rc;
	client_kill(sb, &s, SANDBOX_KILLED);
	rc = sandbox_proc_wait(sb, proc, CLIENT_ANSWER_MS, &r, err);
	if (rc == 0)
		sandbox_result_free(&r);
	if (rc == ERR_NOT_FOUND)
		err_clear(err); /* it was there: nothing is left of it, and it is forgotten */
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

int
sandbox_proc_input(struct sandbox *sb, uint32_t proc, struct str bytes, bool close, struct err *err)
{
	int64_t until = wire_now_ms() + INPUT_MS;

	do {
		AUTO_BUF struct buf b = BUF(INPUT_PIECE + 64);
		AUTO_WIRE struct wire_msg m = WIRE_MSG;
		size_t n = bytes.n < INPUT_PIECE ? bytes.n : INPUT_PIECE;
		uint32_t taken;
		struct rd r;
		int rc;

		buf_u32(&b, proc);
		buf_u8(&b, close && n == bytes.n ? 1 : 0);
		buf_lstr(&b, str_mem(bytes.p, n));
		if ((rc = client_ask(sb, CALL_INPUT, &b, &m, err)) != 0)
			return rc;
		r = rd_init(buf_str(&m.body));
		taken = rd_u32(&r);
		if (!rd_end(&r) || taken > n)
			return err_set(err, ERR_PROTOCOL, "sandbox: malformed answer to input");
		bytes.p += taken;
		bytes.n -= taken;
		if (taken != 0)
			until = wire_now_ms() + INPUT_MS;
		else if (bytes.n != 0 && wire_now_ms() > until)
			return err_set(err, ERR_TIMEOUT,
			    "sandbox: program %u does not read its standard input (%zu bytes left)",
			    proc, bytes.n);
		else if (bytes.n != 0)
			(void)poll(NULL, 0, 10);
	} while (bytes.n != 0);
	return 0;
}
