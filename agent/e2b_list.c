/*
 * Which sandboxes there are, and what one is (process: a worker of cofferdam-sandboxd). Each key
 * sees its own: the hub gives no others.
 */
#include "agent/e2b.h"

#include <time.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define PAGE_MAX 100

struct state {
	struct json_doc *doc;
	bool paused;
	int64_t ends_at_ms, cpus, memory, disk;
};

static int
state_read(struct keeper *k, struct state *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	const struct json *o, *l;
	int rc = keeper_state(k, &b, err);

	if (rc != 0 || (rc = json_parse(buf_str(&b), "state", &ret->doc, err)) != 0)
		return rc;
	o = json_root(ret->doc);
	l = json_get(o, "limits");
	ret->paused = json_bool(json_get(o, "paused"));
	ret->ends_at_ms = json_int(json_get(o, "ends_at_ms"));
	ret->cpus = (json_int(json_get(l, "cpu_percent")) + 99) / 100;
	ret->memory = json_int(json_get(l, "memory_mib"));
	ret->disk = json_int(json_get(l, "workspace_mib"));
	return 0;
}

static void
info_put(struct jcs *j, const struct e2b_entry *e, const struct state *s)
{
	AUTO(json) struct json_doc *metadata = NULL, *network = NULL;
	struct err ignored = {0};

	jcs_open(j, NULL);
	jcs_z(j, "clientID", "cofferdam");
	jcs_int(j, "cpuCount", s->cpus);
	jcs_int(j, "diskSizeMB", s->disk);
	e2b_time_put(j, "endAt", s->ends_at_ms);
	jcs_z(j, "envdVersion", E2B_ENVD_VERSION);
	jcs_open(j, "lifecycle");
	jcs_bool(j, "autoResume", e->resumes);
	jcs_z(j, "onTimeout", e->pauses ? "pause" : "kill");
	jcs_close(j);
	jcs_int(j, "memoryMB", s->memory);
	if (json_parse(str_z(e->metadata), "metadata", &metadata, &ignored) == 0)
		(void)jcs_value(j, "metadata", json_root(metadata), &ignored);
	if (json_parse(str_z(e->network), "network", &network, &ignored) == 0 &&
	    json_count(json_root(network)) != 0)
		(void)jcs_value(j, "network", json_root(network), &ignored);
	jcs_z(j, "sandboxID", e->id);
	e2b_time_put(j, "startedAt", e->started_ms);
	jcs_z(j, "state", s->paused ? "paused" : "running");
	jcs_str_lossy(j, "templateID", str_z(e->template));
	jcs_close(j);
}

void
e2b_on_get(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	struct state s = {0};
	struct err e = {0};
	struct jcs j;

	if (e2b_hub_find(q->config, q->key, q->id, &q->entry, &e) != 0 ||
	    keeper_open(q->entry.id, &q->keeper, &e) != 0 || state_read(q->keeper, &s, &e) != 0) {
		e2b_answer_error(q, &e);
		return;
	}
	jcs_init(&j, &b);
	info_put(&j, &q->entry, &s);
	json_free(s.doc);
	e2b_answer_json(q, 200, &b);
}

/* --- lists ------------------------------------------------------------------------------------ */

struct filter {
	struct buf metadata, state, template, token;
	uint64_t limit, after;
	bool descending, has_state;
	int64_t started_after_ms;
};

static void
filter_free(struct filter *f)
{
	buf_free(&f->metadata);
	buf_free(&f->state);
	buf_free(&f->template);
	buf_free(&f->token);
}
#define AUTO_FILTER __attribute__((cleanup(filter_free)))

/* "2026-11-30T10:11:12.345Z" to ms; false: it is not that. */
static bool
time_read(struct str s, int64_t *ret_ms)
{
	struct tm tm = {0};
	int v[6], ms = 0;
	static const char seps[] = "--T::";

	for (size_t i = 0; i < 6; i++)
		if (!str_digits(&s, i == 0 ? 4 : 2, &v[i]) || (i < 5 && !str_skip(&s, seps[i])))
			return false;
	if (str_skip(&s, '.') && !str_digits(&s, 3, &ms))
		return false;
	if (!str_skip(&s, 'Z') || s.n != 0)
		return false;
	tm = (struct tm){.tm_year = v[0] - 1900,
	    .tm_mon = v[1] - 1,
	    .tm_mday = v[2],
	    .tm_hour = v[3],
	    .tm_min = v[4],
	    .tm_sec = v[5]};
	*ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return true;
}

static int
filter_read(struct e2b_request *q, struct filter *f, struct err *err)
{
	AUTO_BUF struct buf limit = BUF(32), order = BUF(16), after = BUF(64);

	f->limit = PAGE_MAX;
	(void)e2b_query(q, "metadata", &f->metadata);
	f->has_state = e2b_query(q, "state", &f->state);
	(void)e2b_query(q, "template", &f->template);
	(void)e2b_query(q, "order", &order);
	f->descending = str_eqz(buf_str(&order), "desc");
	if (e2b_query(q, "limit", &limit) &&
	    (!str_to_u64(buf_str(&limit), PAGE_MAX, &f->limit) || f->limit == 0))
		return err_set(err, ERR_INVALID, "limit must be from 1 to %d", PAGE_MAX);
	if (e2b_query(q, "nextToken", &f->token) &&
	    !str_to_u64(buf_str(&f->token), INT64_MAX, &f->after))
		return err_set(err, ERR_INVALID, "nextToken is not one of this server's");
	if (e2b_query(q, "startedAfter", &after) &&
	    !time_read(buf_str(&after), &f->started_after_ms))
		return err_set(
		    err, ERR_INVALID, "startedAfter must be as 2026-11-30T10:11:12.345Z");
	return 0;
}

/* "k=v&k2=v2", each part encoded once more. */
static bool
metadata_fits(const struct e2b_entry *e, struct str want)
{
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored = {0};
	struct str pair, key;

	if (want.n == 0)
		return true;
	if (json_parse(str_z(e->metadata), "metadata", &d, &ignored) != 0)
		return false;
	while (want.n != 0) {
		AUTO_BUF struct buf k1 = BUF(8192), v1 = BUF(8192), k = BUF(8192), v = BUF(8192);
		AUTO_FREE char *name = NULL;

		if (!str_cut(&want, '&', &pair)) {
			pair = want;
			want = STR_NONE;
		}
		if (!str_cut(&pair, '=', &key) || !e2b_unescape(key, true, &k1) ||
		    !e2b_unescape(pair, true, &v1) || !e2b_unescape(buf_str(&k1), false, &k) ||
		    !e2b_unescape(buf_str(&v1), false, &v))
			return false;
		name = buf_dup_z(&k);
		if (json_get(json_root(d), name) == NULL ||
		    !str_eq(json_str(json_get(json_root(d), name)), buf_str(&v)))
			return false;
	}
	return true;
}

static bool
state_fits(const struct filter *f, bool paused)
{
	struct str rest = buf_str(&f->state), one;

	if (!f->has_state)
		return true;
	while (rest.n != 0) {
		if (!str_cut(&rest, ',', &one)) {
			one = rest;
			rest = STR_NONE;
		}
		if (str_eqz(one, paused ? "paused" : "running"))
			return true;
	}
	return false;
}

static bool
entry_fits(const struct filter *f, const struct e2b_entry *e)
{
	return metadata_fits(e, buf_str(&f->metadata)) && e->started_ms >= f->started_after_ms &&
	       (f->template.n == 0 || str_eqz(buf_str(&f->template), e->template));
}

struct page {
	struct e2b_entry *e;
	size_t n;
};

static void
page_free(struct page *p)
{
	for (size_t i = 0; i < p->n; i++)
		e2b_entry_free(&p->e[i]);
	free(p->e);
}
#define AUTO_PAGE __attribute__((cleanup(page_free)))

/* All of the key's that fit, oldest first. */
static int
entries_read(struct e2b_request *q, const struct filter *f, struct page *p, struct err *err)
{
	uint64_t after = 0;

	for (;;) {
		struct e2b_entry e = {0};
		int rc = e2b_hub_next(q->config, q->key, after, &e, err);

		if (rc != 0)
			return rc == ERR_NOT_FOUND ? 0 : rc;
		after = e.serial;
		if (!entry_fits(f, &e)) {
			e2b_entry_free(&e);
			continue;
		}
		p->e = xreallocarray(p->e, p->n + 1, sizeof(*p->e));
		p->e[p->n++] = e;
	}
}

/* True: it is on the page. */
static bool
one_put(struct jcs *j, const struct filter *f, const struct e2b_entry *e)
{
	AUTO(keeper) struct keeper *k = NULL;
	struct state s = {0};
	struct err ignored = {0};
	bool fits;

	if ((f->after != 0 && (f->descending ? e->serial >= f->after : e->serial <= f->after)) ||
	    keeper_open(e->id, &k, &ignored) != 0 || state_read(k, &s, &ignored) != 0)
		return false;
	fits = state_fits(f, s.paused);
	if (fits)
		info_put(j, e, &s);
	json_free(s.doc);
	return fits;
}

void
e2b_on_list(struct e2b_request *q)
{
	AUTO_FILTER struct filter f = {
	    .metadata = BUF(16384), .state = BUF(256), .template = BUF(256), .token = BUF(64)};
	AUTO_PAGE struct page p = {0};
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX), next = BUF(64);
	struct err e = {0};
	struct jcs j;
	size_t n = 0, i;

	if (filter_read(q, &f, &e) != 0 || entries_read(q, &f, &p, &e) != 0) {
		e2b_answer_error(q, &e);
		return;
	}
	jcs_init(&j, &b);
	jcs_array(&j, NULL);
	for (i = 0; i < p.n && n < f.limit; i++) {
		const struct e2b_entry *one = &p.e[f.descending ? p.n - 1 - i : i];

		n += one_put(&j, &f, one);
		buf_reset(&next);
		buf_printf(&next, "%llu", (unsigned long long)one->serial);
	}
	jcs_array_end(&j);
	if (i < p.n)
		serve_field(q->conn, "X-Next-Token", buf_str(&next));
	e2b_answer_json(q, 200, &b);
}

/* --- metrics -------------------------------------------------------------------------------------
 */

static void
metrics_put(struct jcs *j, const struct json *o, int64_t cpus)
{
	const struct json *u = json_get(o, "usage");
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	jcs_array(j, NULL);
	jcs_open(j, NULL);
	jcs_int(j, "cpuCount", cpus);
	jcs_int(j, "cpuUsedPct", 0);
	jcs_int(j, "diskTotal", json_int(json_get(u, "disk_max_bytes")));
	jcs_int(j, "diskUsed", json_int(json_get(u, "disk_bytes")));
	jcs_int(j, "memCache", 0);
	jcs_int(j, "memTotal", json_int(json_get(json_get(o, "limits"), "memory_mib")) * (1 << 20));
	jcs_int(j, "memUsed", json_int(json_get(u, "memory_bytes")));
	e2b_time_put(j, "timestamp", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	jcs_int(j, "timestampUnix", now.tv_sec);
	jcs_close(j);
	jcs_array_end(j);
}

/* One sample, of now. */
void
e2b_on_metrics(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX), out = BUF(E2B_JSON_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct sandbox *sb = NULL;
	struct err e = {0};
	struct jcs j;
	int rc = e2b_hub_find(q->config, q->key, q->id, &q->entry, &e);

	if (rc == 0 && (rc = keeper_open(q->entry.id, &q->keeper, &e)) == 0)
		rc = keeper_sandbox(q->keeper, &sb, &e);
	if (rc == 0)
		rc = sandbox_inspect(sb, &b, &e);
	sandbox_detach(sb);
	if (rc == 0)
		rc = json_parse(buf_str(&b), "inspect", &d, &e);
	if (rc != 0) {
		e2b_answer_error(q, &e);
		return;
	}
	jcs_init(&j, &out);
	metrics_put(&j, json_root(d),
	    (json_int(json_get(json_get(json_root(d), "limits"), "cpu_percent")) + 99) / 100);
	e2b_answer_json(q, 200, &out);
}
