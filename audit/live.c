/*
 * Which records are live. Runs in the writer. Records were checked before they came here; a record
 * whose `data` lacks what is looked for is simply not live.
 */
#include "audit/live.h"

#include "audit/canon.h"
#include "audit/outcome.h"
#include "audit/rates.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

enum kind { POLICY, RUN, TARGETS, ACTION, LIFT, DOUBT, REFUSED, PAUSE, ALARM };

struct node {
	struct node *prev, *next; /* by age */
	struct node *same;	  /* next of the bucket */
	enum kind kind;
	uint32_t mix;
	char *key; /* id of the run, the action, the freeze, ... */
	char *body;
	size_t body_len;
	struct hash root;
};

struct live {
	struct node *first, *last;
	struct node **bucket;
	size_t buckets, count, doubts; /* buckets is a power of two */
	struct rates *rates;
	int64_t last_us;
};

struct live *
live_new(void)
{
	struct live *l = xcalloc(1, sizeof(*l));

	l->buckets = 64;
	l->bucket = xcalloc(l->buckets, sizeof(struct node *));
	l->rates = rates_new();
	return l;
}

/* FNV-1a: keys are made by core, not chosen by anybody. */
static uint32_t
mix(enum kind kind, struct str key)
{
	uint32_t h = 2166136261u ^ (uint32_t)kind;

	for (size_t i = 0; i < key.n; i++)
		h = (h ^ (uint8_t)key.p[i]) * 16777619u;
	return h;
}

static void
grow(struct live *l)
{
	free(l->bucket);
	l->buckets *= 2;
	l->bucket = xcalloc(l->buckets, sizeof(struct node *));
	for (struct node *n = l->first; n != NULL; n = n->next) {
		struct node **b = &l->bucket[n->mix & (l->buckets - 1)];

		n->same = *b;
		*b = n;
	}
}

static void
add_body(struct live *l, enum kind kind, struct str key, struct str body, const struct hash *root)
{
	struct node *n = xcalloc(1, sizeof(*n));
	struct node **b;

	n->kind = kind;
	l->doubts += kind == DOUBT;
	n->mix = mix(kind, key);
	n->key = str_dup(key);
	n->body = str_dup(body);
	n->body_len = body.n;
	n->root = *root;
	n->prev = l->last;
	*(l->last != NULL ? &l->last->next : &l->first) = n;
	l->last = n;
	if (++l->count > l->buckets) {
		grow(l); /* takes n along */
		return;
	}
	b = &l->bucket[n->mix & (l->buckets - 1)];
	n->same = *b;
	*b = n;
}

static void
add(struct live *l, enum kind kind, struct str key, const struct record *r,
    const struct tree_range *tree)
{
	struct hash root = tree_root(tree);

	add_body(l, kind, key, r->body, &root);
}

static void
node_free(struct node *n)
{
	free(n->key);
	free(n->body);
	free(n);
}

/* The node that the link of its bucket points at. */
static void
take_out(struct live *l, struct node **p)
{
	struct node *n = *p;

	*p = n->same;
	*(n->prev != NULL ? &n->prev->next : &l->first) = n->next;
	*(n->next != NULL ? &n->next->prev : &l->last) = n->prev;
	l->count--;
	l->doubts -= n->kind == DOUBT;
	node_free(n);
}

static void
drop(struct live *l, enum kind kind, struct str key)
{
	uint32_t m = mix(kind, key);
	struct node **p = &l->bucket[m & (l->buckets - 1)];

	while (*p != NULL) {
		struct node *n = *p;

		if (n->mix != m || n->kind != kind || !str_eqz(key, n->key)) {
			p = &n->same;
			continue;
		}
		take_out(l, p);
	}
}

void
live_free(struct live *l)
{
	if (l == NULL)
		return;
	while (l->first != NULL) {
		struct node *n = l->first;

		l->first = n->next;
		node_free(n);
	}
	rates_free(l->rates);
	free(l->bucket);
	free(l);
}

size_t
live_count(const struct live *l)
{
	return l->count;
}

/* What was let through counts from when it was judged. */
static void
count(struct live *l, const struct record *r)
{
	struct str decision = canon_get(r->data, "decision"), list = canon_get(decision, "counted");
	struct str input = canon_get(canon_get(r->data, "request"), "input");
	uint64_t n;
	int64_t at;

	if (list.n == 0 || clock_parse(canon_plain(canon_get(decision, "at")), &at, NULL) != 0)
		return;
	if (!canon_u64(canon_get(input, "statements"), &n) || n == 0)
		n = 1;
	l->last_us = at > l->last_us ? at : l->last_us;
	rates_counted(l->rates, list, at, n < UINT32_MAX ? (unsigned)n : UINT32_MAX);
}

/*
 * Freezes, exceptions and break-glass live until their end. What was rejected is not kept: anybody
 * at the control socket could make the set grow with it.
 */
static bool
live_lift(struct live *l, const struct record *r, const struct tree_range *tree)
{
	static const char *const kinds[] = {"freeze.", "exception.", "breakglass."};
	struct str id = canon_plain(canon_get(r->data, "id")), what = r->type;
	size_t i = 0;

	while (i < ARRAY_LEN(kinds) && !str_has_prefix(r->type, kinds[i]))
		i++;
	if (i == ARRAY_LEN(kinds))
		return false;
	what.p += strlen(kinds[i]);
	what.n -= strlen(kinds[i]);
	if (id.n == 0 || str_eqz(what, "rejected"))
		return true;
	if (str_eqz(what, "end"))
		drop(l, LIFT, id);
	else
		add(l, LIFT, id, r, tree);
	return true;
}

/* --- what was refused ------------------------------------------------------------------- */

/* The oldest one of a run, if there are so many. */
static void
drop_oldest(struct live *l, enum kind kind, struct str key, size_t most)
{
	uint32_t m = mix(kind, key);
	struct node **last = NULL;
	size_t n = 0;

	/* Of a bucket the newest stands first. */
	for (struct node **p = &l->bucket[m & (l->buckets - 1)]; *p != NULL; p = &(*p)->same) {
		if ((*p)->mix != m || (*p)->kind != kind || !str_eqz(key, (*p)->key))
			continue;
		last = p;
		n++;
	}
	if (n >= most)
		take_out(l, last);
}

static void
put_raw(struct jcs *j, const char *key, struct str value)
{
	if (value.n != 0)
		jcs_raw(j, key, value);
}

/*
 * What links the tries of a run, and no more of the action: it can be large, and core asks for
 * nothing else.
 */
static void
live_refused(struct live *l, const struct record *r)
{
	static const struct hash none;
	struct str decision = canon_get(r->data, "decision"), name;
	struct str verdict = canon_plain(canon_get(decision, "verdict"));
	struct str request = canon_get(r->data, "request");
	struct str names = canon_get(canon_get(request, "input"), "relations");
	AUTO_BUF struct buf b = BUF(LIVE_REFUSED_MAX);
	struct jcs j;
	size_t at = 0;

	if (r->run.n == 0 || verdict.n == 0 || str_eqz(verdict, "allow"))
		return;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_open(&j, "data");
	put_raw(&j, "approval", canon_get(decision, "approval"));
	put_raw(&j, "attempt", canon_get(decision, "attempt"));
	jcs_array(&j, "relations");
	for (size_t i = 0; i < LIVE_REFUSED_NAMES && canon_next(names, &at, &name); i++)
		jcs_raw(&j, NULL, name);
	jcs_array_end(&j);
	put_raw(&j, "target", canon_get(request, "target"));
	jcs_str(&j, "verdict", verdict);
	jcs_close(&j);
	jcs_str(&j, "run", r->run);
	jcs_int(&j, "seq", (int64_t)r->seq);
	jcs_z(&j, "type", "refused");
	jcs_close(&j);
	if (buf_over(&b))
		return;
	drop_oldest(l, REFUSED, r->run, LIVE_REFUSED_RUN);
	add_body(l, REFUSED, r->run, buf_str(&b), &none);
}

/* In doubt until a person has settled it; of very many, the newest. */
static void
live_outcome(struct live *l, const struct record *r, const struct tree_range *tree)
{
	struct str id = canon_plain(canon_get(r->data, "action"));
	struct node *n;

	drop(l, ACTION, id);
	if (id.n == 0 || !outcome_in_doubt(r->data))
		return;
	drop(l, DOUBT, id);
	n = l->first;
	while (l->doubts >= LIVE_DOUBTS_MAX && n != NULL && n->kind != DOUBT)
		n = n->next;
	if (l->doubts >= LIVE_DOUBTS_MAX && n != NULL) {
		AUTO_FREE char *oldest = str_dup(str_z(n->key));

		drop(l, DOUBT, str_z(oldest));
	}
	add(l, DOUBT, id, r, tree);
}

void
live_record(struct live *l, const struct record *r, const struct tree_range *tree)
{
	if (str_eqz(r->type, "action")) {
		struct str id = canon_plain(canon_get(r->data, "action"));

		if (id.n != 0 && str_eqz(canon_get(canon_get(r->data, "dispatch"), "sent"), "true"))
			add(l, ACTION, id, r, tree);
		count(l, r);
		live_refused(l, r);
	} else if (str_eqz(r->type, "outcome")) {
		live_outcome(l, r, tree);
	} else if (str_eqz(r->type, "outcome.settled")) {
		drop(l, DOUBT, canon_plain(canon_get(r->data, "action")));
	} else if (str_eqz(r->type, "policy.load")) {
		drop(l, POLICY, STR("policy"));
		add(l, POLICY, STR("policy"), r, tree);
		drop(l, POLICY, STR("unload"));
	} else if (str_eqz(r->type, "policy.unload")) {
		drop(l, POLICY, STR("unload"));
		add(l, POLICY, STR("unload"), r, tree);
	} else if (live_lift(l, r, tree) || r->run.n == 0) {
		return;
	} else if (str_eqz(r->type, "run.end")) {
		drop(l, RUN, r->run);
		drop(l, TARGETS, r->run);
		drop(l, REFUSED, r->run);
		drop(l, PAUSE, r->run);
		drop(l, ALARM, r->run);
	} else if (str_eqz(r->type, "run.alarm")) {
		drop_oldest(l, ALARM, r->run, LIVE_ALARMS_RUN);
		add(l, ALARM, r->run, r, tree);
	} else if (str_eqz(r->type, "run.pause") || str_eqz(r->type, "run.resume")) {
		drop(l, PAUSE, r->run);
		add(l, PAUSE, r->run, r, tree);
	} else if (str_eqz(r->type, "run.targets")) {
		drop(l, TARGETS, r->run);
		add(l, TARGETS, r->run, r, tree);
	} else if (str_eqz(r->type, "run.start") || str_eqz(r->type, "run.message") ||
		   str_eqz(r->type, "run.stop") ||
		   (str_has_prefix(r->type, "approval.") &&
		       !str_eqz(r->type, "approval.mismatch"))) {
		add(l, RUN, r->run, r, tree);
	}
}

struct each {
	live_fn *fn;
	void *arg;
};

static void
each_rate(void *arg, struct str body)
{
	static const struct hash none;
	struct each *e = arg;

	e->fn(e->arg, body, &none);
}

void
live_each(const struct live *l, live_fn *fn, void *arg)
{
	struct each e = {fn, arg};

	for (const struct node *n = l->first; n != NULL; n = n->next)
		fn(arg, str_mem(n->body, n->body_len), &n->root);
	rates_tell(l->rates, l->last_us, each_rate, &e);
}

/* --- kept for the next start ------------------------------------------------------------ */

static void
save_rate(void *arg, struct str body)
{
	struct buf *out = arg;

	buf_u8(out, 1);
	buf_lstr(out, body);
}

bool
live_save(const struct live *l, struct buf *out)
{
	buf_u64(out, (uint64_t)l->last_us);
	buf_u64(out, l->count);
	for (const struct node *n = l->first; n != NULL; n = n->next) {
		buf_u8(out, (uint8_t)n->kind);
		buf_lz(out, n->key);
		buf_lstr(out, str_mem(n->body, n->body_len));
		buf_put(out, n->root.b, HASH_LEN);
	}
	rates_tell(l->rates, l->last_us, save_rate, out);
	buf_u8(out, 0);
	return rates_whole(l->rates, l->last_us);
}

static bool
restore_rate(struct live *l, struct str body)
{
	AUTO(json) struct json_doc *doc = NULL;

	return json_parse(body, "rate", &doc, NULL) == 0 &&
	       rates_told(l->rates, json_get(json_root(doc), "data"));
}

bool
live_restore(struct live *l, struct rd *in)
{
	int64_t last_us = (int64_t)rd_u64(in);
	uint64_t n = rd_u64(in);
	bool ok = true;

	for (uint64_t i = 0; i < n; i++) {
		uint8_t kind = rd_u8(in);
		struct str key = rd_lstr(in), body = rd_lstr(in), at = rd_bytes(in, HASH_LEN);
		struct hash root;

		ok = kind <= ALARM && !in->bad;
		if (!ok)
			break;
		memcpy(root.b, at.p, HASH_LEN);
		add_body(l, (enum kind)kind, key, body, &root);
	}
	while (ok && !in->bad && rd_u8(in) == 1)
		ok = restore_rate(l, rd_lstr(in));
	l->last_us = last_us;
	return ok && rd_end(in);
}
