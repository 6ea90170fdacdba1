/*
 * What children tell the parent: one table. A child may be taken over, so every message
 * is bounded and nothing in it names a file, a program or a process; an error ends that
 * child (and it is started again), never the parent.
 */
#include <string.h>

#include "broker/broker_parent.h"

#include "common/log.h"

#include "common/banned.h"

#define LOG_BURST 1000
#define LOG_PER_SECOND 100

static int
malformed(struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "malformed");
}

static int
run_read(struct rd *body, struct str *ret, struct err *err)
{
	*ret = rd_lstr(body);
	if (ret->n == 0 || ret->n > BROKER_RUN_MAX || !str_is_ascii_print(*ret))
		return err_set(
		    err, ERR_PROTOCOL, "run must be 1 to %d printable characters", BROKER_RUN_MAX);
	return 0;
}

static int
on_ready(struct child *c, struct rd *body UNUSED, int *fds UNUSED, struct err *err UNUSED)
{
	static const enum ipc_role all[] = {
	    IPC_ROLE_WRITER, IPC_ROLE_UPSTREAM, IPC_ROLE_CORE, IPC_ROLE_FRONT, IPC_ROLE_CONSOLE};
	struct broker *b = c->b;
	size_t n = ARRAY_LEN(all) - (b->config.console.origin == NULL);

	c->ready = true;
	log_debug("%s is ready", c->name);
	for (size_t i = 0; i < n; i++) {
		const struct child *other = broker_child_find(b, all[i], STR(""));

		if (other == NULL || !other->ready)
			return 0;
	}
	if (!b->announced && !b->stopping) {
		b->announced = true;
		log_info("ready: %s", b->state.path);
		broker_notify("READY=1");
	}
	return 0;
}

/* A child gone wild must not fill the disk of whoever keeps our standard error. */
static bool
log_allowed(struct child *c)
{
	uint64_t now = loop_now_ms(c->b->loop);
	uint64_t more = (now - c->log_time) * LOG_PER_SECOND / 1000;

	if (c->log_time == 0 || more >= LOG_BURST) {
		c->log_tokens = LOG_BURST;
		c->log_time = now;
	} else if (more != 0) {
		c->log_tokens += (unsigned)more;
		if (c->log_tokens > LOG_BURST)
			c->log_tokens = LOG_BURST;
		c->log_time = now;
	}
	if (c->log_tokens == 0) {
		c->log_dropped++;
		return false;
	}
	c->log_tokens--;
	if (c->log_dropped != 0)
		log_warn("%u lines of %s were dropped", c->log_dropped, c->name);
	c->log_dropped = 0;
	return true;
}

static int
on_log(struct child *c, struct rd *body, int *fds UNUSED, struct err *err)
{
	unsigned level = rd_u8(body);
	struct str line = rd_lstr(body);

	if (!rd_end(body))
		return malformed(err);
	if (log_allowed(c))
		log_foreign(c->name, level, line);
	return 0;
}

static int
on_keep(struct child *c, struct rd *body, int *fds, struct err *err)
{
	struct str run;
	uint32_t index;
	int rc = run_read(body, &run, err);

	if (rc != 0)
		return rc;
	index = rd_u32(body);
	if (!rd_end(body))
		return malformed(err);
	return broker_keep(c->b, run, index, TAKE_FD(fds[0]), err);
}

static int
on_drop(struct child *c, struct rd *body, int *fds UNUSED, struct err *err)
{
	struct str run;
	int rc = run_read(body, &run, err);

	if (rc != 0)
		return rc;
	if (!rd_end(body))
		return malformed(err);
	broker_keep_drop(c->b, run, NULL);
	return 0;
}

static int
on_drop_one(struct child *c, struct rd *body, int *fds UNUSED, struct err *err)
{
	struct str run;
	uint32_t index;
	int rc = run_read(body, &run, err);

	if (rc != 0)
		return rc;
	index = rd_u32(body);
	if (!rd_end(body))
		return malformed(err);
	broker_keep_drop(c->b, run, &index);
	return 0;
}

static int
on_parser(struct child *c, struct rd *body, int *fds UNUSED, struct err *err)
{
	AUTO_FREE char *z = NULL;
	struct child *parser;
	struct str run;
	int rc = run_read(body, &run, err);

	if (rc != 0)
		return rc;
	if (!rd_end(body))
		return malformed(err);
	if (broker_child_find(c->b, IPC_ROLE_PARSER, run) != NULL)
		return err_set(err, ERR_EXISTS, "run %.*s has a parser", STR_ARG(run));
	if (c->b->parsers_n == BROKER_PARSERS_MAX)
		return err_set(err, ERR_TOO_LARGE, "at most %d parsers", BROKER_PARSERS_MAX);
	z = str_dup(run);
	parser = broker_child_new(c->b, IPC_ROLE_PARSER, z, err);
	if (parser == NULL)
		return err->code;
	c->b->parsers_n++;
	broker_child_start(parser);
	return 0;
}

static int
on_parser_end(struct child *c, struct rd *body, int *fds UNUSED, struct err *err)
{
	struct child *parser;
	struct str run;
	int rc = run_read(body, &run, err);

	if (rc != 0)
		return rc;
	if (!rd_end(body))
		return malformed(err);
	parser = broker_child_find(c->b, IPC_ROLE_PARSER, run);
	if (parser != NULL)
		broker_child_doom(parser);
	return 0;
}

/* Who may send what was checked against ipc_msg.tbl. */
static const struct {
	uint16_t type;
	int (*fn)(struct child *c, struct rd *body, int *fds, struct err *err);
} messages[] = {
    {MSG_C_READY, on_ready},
    {MSG_C_LOG, on_log},
    {MSG_K_KEEP, on_keep},
    {MSG_K_DROP, on_drop},
    {MSG_K_DROP_ONE, on_drop_one},
    {MSG_K_PARSER, on_parser},
    {MSG_K_PARSER_END, on_parser_end},
};

int
broker_msg(struct child *c, uint16_t type, struct rd *body, int *fds, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].type == type)
			return messages[i].fn(c, body, fds, err);
	return err_set(err, ERR_PROTOCOL, "not expected by the parent");
}
