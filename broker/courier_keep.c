/*
 * What the courier keeps in its own directory: where each webhook is, durably, and how it fares,
 * for `cofferdam status`. Runs in the courier. Cursors are behind what was delivered by a moment at
 * most: a crash makes a few deliveries come twice, under the same id, and never not at all.
 */
#include "broker/courier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jcs.h"
#include "common/log.h"

#include "common/banned.h"

#define SAVE_MS 100
#define STATUS_MS 250
#define STATUS_IDLE_MS 30000 /* written again though nothing changed: that it is alive */
#define FILE_MAX ((size_t)64 << 10)

/* --- text ------------------------------------------------------------------------------------- */

void
courier_cursors_put(const struct courier *c, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "origin", c->origin);
	jcs_z(&j, "schema", "cofferdam-courier/1");
	jcs_array(&j, "webhooks");
	for (size_t i = 0; i < c->nhooks; i++) {
		const struct hook *h = &c->hooks[i];

		if (h->next == COURIER_START)
			continue;
		jcs_open(&j, NULL);
		jcs_z(&j, "name", h->conf->name);
		jcs_int(&j, "next", (int64_t)h->next);
		jcs_int(&j, "since", h->since_us);
		jcs_int(&j, "whole_from", (int64_t)h->whole_from);
		jcs_close(&j);
	}
	jcs_array_end(&j);
	jcs_close(&j);
}

static void
cursor_read(struct courier *c, const struct json *v)
{
	int64_t next = json_int(json_get(v, "next")), from = json_int(json_get(v, "whole_from"));
	int64_t since = json_int(json_get(v, "since"));

	for (size_t i = 0; i < c->nhooks; i++) {
		struct hook *h = &c->hooks[i];

		if (!str_eqz(json_str(json_get(v, "name")), h->conf->name) || next < 0 ||
		    from < 0 || from > next)
			continue;
		h->next = (uint64_t)next;
		h->whole_from = (uint64_t)from;
		h->since_us = since > 0 && since <= clock_wall_us() ? since : 0;
	}
}

int
courier_cursors_read(struct courier *c, struct str text, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *list;
	int rc = json_parse(text, "cursors", &doc, err);

	if (rc != 0)
		return rc;
	if (!str_eqz(json_str(json_get(json_root(doc), "origin")), c->origin)) {
		log_warn("cursors are of another log: webhooks begin anew");
		return 0;
	}
	list = json_get(json_root(doc), "webhooks");
	for (size_t i = 0; i < json_count(list); i++)
		cursor_read(c, json_at(list, i));
	return 0;
}

static const char *
state_name(enum courier_state s)
{
	switch (s) {
	case HOOK_IDLE:
	case HOOK_ASKED: return "idle";
	case HOOK_SENDING: return "sending";
	case HOOK_WAITING: return "waiting";
	case HOOK_BROKEN: break;
	}
	return "broken";
}

static void
put_status(struct jcs *j, const struct hook *h)
{
	const struct hook_count *n = &h->count;

	jcs_open(j, NULL);
	jcs_int(j, "delivered", (int64_t)n->delivered);
	jcs_time_known(j, "delivered_at", n->delivered_us);
	jcs_z(j, "error", n->why);
	jcs_time_known(j, "error_at", n->failed_us);
	jcs_int(j, "failed", (int64_t)n->failed);
	jcs_int(j, "given_up", (int64_t)n->given_up);
	jcs_z(j, "host", h->url.host);
	jcs_int(j, "lag",
	    h->next < h->c->size ? (int64_t)(h->c->size - h->next) : 0); /* COURIER_START: none */
	jcs_z(j, "name", h->conf->name);
	if (h->next != COURIER_START)
		jcs_int(j, "next", (int64_t)h->next);
	jcs_time_known(j, "since", h->since_us);
	jcs_z(j, "state", state_name(h->state));
	jcs_close(j);
}

void
courier_status_put(const struct courier *c, int64_t now_us, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_time_known(&j, "at", now_us);
	jcs_int(&j, "log_size", (int64_t)c->size);
	jcs_z(&j, "schema", "cofferdam-courier-status/1");
	jcs_array(&j, "webhooks");
	for (size_t i = 0; i < c->nhooks; i++)
		put_status(&j, &c->hooks[i]);
	jcs_array_end(&j);
	jcs_close(&j);
}

/* --- files ------------------------------------------------------------------------------------ */

static int
write_all(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(fd, s.p, s.n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		s = str_mem(s.p + k, s.n - (size_t)k);
	}
	return 0;
}

static int
replace(const struct courier *c, const char *name, struct str text, bool durable, struct err *err)
{
	AUTO_FD int fd =
	    openat(c->dir, ".tmp", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || write_all(fd, text) != 0 || (durable && fdatasync(fd) != 0) ||
	    renameat(c->dir, ".tmp", c->dir, name) != 0 || (durable && fsync(c->dir) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "courier/%s", name);
	return 0;
}

static void
on_status(void *arg)
{
	struct courier *c = arg;
	AUTO_BUF struct buf b = BUF(FILE_MAX);
	struct err err = {0};

	courier_status_put(c, clock_wall_us(), &b);
	if (replace(c, "status.json", buf_str(&b), false, &err) != 0)
		log_error("%s", err.msg);
	c->status = loop_timer_add(c->loop, STATUS_IDLE_MS, on_status, c);
	c->status_idle = true;
}

int
courier_load(struct courier *c, struct err *err)
{
	AUTO_BUF struct buf text = BUF(FILE_MAX);
	AUTO_FD int fd = -1;
	ssize_t n;
	int rc;

	c->loaded = true;
	on_status(c); /* at once: what lies there is of the one before */
	fd = openat(c->dir, "cursors", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	n = fd >= 0 ? read(fd, buf_grow(&text, FILE_MAX), FILE_MAX) : -1;
	if (n < 0)
		return err_sys(err, ERR_SYSTEM, errno, "courier/cursors");
	rc = courier_cursors_read(c, str_mem(text.p, (size_t)n), err);
	if (rc != 0)
		return err_wrap(err, "courier/cursors cannot be read; without it nobody knows what "
				     "was delivered (take it away to begin anew)");
	return 0;
}

void
courier_save_now(struct courier *c)
{
	AUTO_BUF struct buf b = BUF(FILE_MAX);
	struct err err = {0};

	loop_timer_del(TAKE_PTR(c->save));
	courier_cursors_put(c, &b);
	if (replace(c, "cursors", buf_str(&b), true, &err) != 0)
		log_error("%s: after a restart deliveries may come twice", err.msg);
}

static void
on_save(void *arg)
{
	struct courier *c = arg;

	c->save = NULL;
	courier_save_now(c);
}

void
courier_save_soon(struct courier *c)
{
	if (c->save == NULL && c->loaded)
		c->save = loop_timer_add(c->loop, SAVE_MS, on_save, c);
}

void
courier_status_soon(struct courier *c)
{
	if (!c->loaded || (c->status != NULL && !c->status_idle))
		return;
	loop_timer_del(c->status);
	c->status_idle = false;
	c->status = loop_timer_add(c->loop, STATUS_MS, on_status, c);
}
