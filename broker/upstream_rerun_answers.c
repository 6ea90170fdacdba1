/*
 * The recorded answers (upstream, started as cofferdam-rerun): read once, before the process
 * confines itself, then served each one time. They were made by `replay rerun` out of a log that
 * verified.
 */
#include "broker/upstream_rerun.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct rerun_answers {
	struct buf file;
	struct rerun_entry *v;
	size_t n;
};

static int
read_all(int fd, struct buf *b, struct err *err)
{
	for (;;) {
		uint8_t *room = buf_grow(b, 65536);
		ssize_t k;

		if (room == NULL)
			return err_set(err, ERR_TOO_LARGE, "answers are over %zu bytes", b->max);
		k = read(fd, room, 65536);
		b->n -= 65536 - (k > 0 ? (size_t)k : 0);
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "answers");
		if (k == 0)
			return 0;
	}
}

static bool
entry_read(struct str s, struct rerun_entry *e)
{
	struct rd r = rd_init(s);
	struct str sent;

	*e = (struct rerun_entry){.kind = (enum rerun_kind)rd_u8(&r)};
	e->host = rd_lstr(&r);
	e->port = rd_u32(&r);
	e->how = (enum rerun_how)rd_u8(&r);
	e->sent_known = rd_u8(&r) == 1;
	sent = rd_bytes(&r, HASH_LEN);
	if (!r.bad)
		memcpy(e->sent.b, sent.p, HASH_LEN);
	e->match = rd_lstr(&r);
	e->ok = rd_u8(&r) == 1;
	e->rows = rd_u64(&r);
	e->tag = rd_lstr(&r);
	e->sqlstate = rd_lstr(&r);
	e->message = rd_lstr(&r);
	e->detail = rd_lstr(&r);
	e->hint = rd_lstr(&r);
	e->http_status = rd_u16(&r);
	e->nfields = rd_u32(&r);
	e->fields = rd_lstr(&r);
	e->answer = rd_lstr(&r);
	return rd_end(&r) && e->kind >= RERUN_CONNECT && e->kind <= RERUN_HTTP &&
	       e->how >= RERUN_ANSWERED && e->how <= RERUN_MISSING;
}

int
rerun_answers_read(int fd, struct rerun_answers **ret, struct err *err)
{
	AUTO_FD int own = fd;
	struct rerun_answers *a = xcalloc(1, sizeof(*a));
	struct rd r;
	int rc;

	buf_init(&a->file, RERUN_BYTES_MAX);
	rc = read_all(own, &a->file, err);
	r = rd_init(buf_str(&a->file));
	if (rc == 0 && !str_eqz(rd_bytes(&r, strlen(RERUN_MAGIC)), RERUN_MAGIC))
		rc = err_set(err, ERR_PROTOCOL, "answers are of another form");
	while (rc == 0 && !r.bad && r.n != 0) {
		a->v = xreallocarray(a->v, a->n + 1, sizeof(*a->v));
		if (!entry_read(rd_lstr(&r), &a->v[a->n++]))
			rc = err_set(err, ERR_PROTOCOL, "answer %zu is malformed", a->n);
	}
	if (rc != 0) {
		rerun_answers_free(a);
		return rc;
	}
	*ret = a;
	return 0;
}

void
rerun_answers_free(struct rerun_answers *a)
{
	if (a == NULL)
		return;
	buf_free(&a->file);
	free(a->v);
	free(a);
}

struct rerun_entry *
rerun_answers_next(struct rerun_answers *a, enum rerun_kind kind, struct str host, uint32_t port,
    bool (*is)(const void *arg, const struct rerun_entry *e), const void *arg)
{
	for (size_t i = 0; a != NULL && i < a->n; i++) {
		struct rerun_entry *e = &a->v[i];

		if (e->served || e->kind != kind || e->port != port || !str_ieq(e->host, host) ||
		    !is(arg, e))
			continue;
		e->served = true;
		return e;
	}
	return NULL;
}
