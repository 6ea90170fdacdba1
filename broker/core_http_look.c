/*
 * Looks (process: core). Before people are asked about a change, and again when it is used, the
 * target is asked what the thing is now: a HEAD for its ETag, the object's metadata, the list of
 * refs. It is the broker's own GET or HEAD, recorded before it goes out, only where the run itself
 * may read that, bounded in time and size; no byte of its answer reaches the client.
 */
#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_http_data.h"
#include "common/httplease.h"
#include "common/xalloc.h"
#include "policy/effects_k8s_path.h"
#include "policy/look.h"

#include "common/banned.h"

#define LOOK_MS 5000
#define SAYS_MAX 480 /* a field of the statement has 512 */
#define METADATA \
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.5"

enum what { LOOK_ETAG, LOOK_OBJECT, LOOK_REFS };

struct core_look {
	struct core_http *h;
	enum what what;
	struct str method;
	struct buf target;
	struct http_field fields[2];
	struct hash sent; /* as it is leased */
	struct core_ticket *ticket;
	struct loop_timer *timer;
	bool leased, over;
	char *etag;
	struct buf content;
};

void
core_http_look_free(struct core_look *k)
{
	if (k == NULL)
		return;
	if (k->leased)
		core_http_abort_look(k->h);
	core_record_forget(k->ticket);
	loop_timer_del(k->timer);
	buf_free(&k->target);
	buf_free(&k->content);
	free(k->etag);
	free(k);
}

void
core_http_look_end(struct core_http *h, struct str says)
{
	h->saw = str_dup(says);
	core_http_look_free(TAKE_PTR(h->look));
	core_http_step(h);
}

/* --- what is looked at ----------------------------------------------------------- */

static bool
method_is(const struct core_http *h, const char *a, const char *b, const char *c)
{
	struct str m = h->req->method;

	return str_eqz(m, a) || str_eqz(m, b) || str_eqz(m, c);
}

static bool
is_object(const struct core_http *h)
{
	struct k8s_path p = k8s_path_parse(h->req->path);

	return p.place == K8S_RESOURCE && p.name.n != 0 && !p.watch &&
	       (p.sub.n == 0 || str_eqz(p.sub, "scale") || str_eqz(p.sub, "status")) &&
	       method_is(h, "PUT", "PATCH", "DELETE");
}

/* False: there is nothing of the kind to look at. */
static bool
plan(struct core_look *k, enum target_kind kind)
{
	const struct core_http *h = k->h;
	struct str path = h->req->path;
	static const char push[] = "git-receive-pack";

	k->fields[0] = (struct http_field){STR("Accept"), STR("*/*")};
	k->fields[1] = (struct http_field){STR("Accept-Encoding"), STR("identity")};
	k->method = STR("GET");
	if (kind == TARGET_GIT) {
		if (!core_http_by_facts(h) || !str_has_suffix(path, push))
			return false;
		k->what = LOOK_REFS;
		buf_put_str(&k->target, str_mem(path.p, path.n - strlen(push)));
		buf_put_z(&k->target, "info/refs?service=git-receive-pack");
		return true;
	}
	if (kind == TARGET_K8S) {
		k->what = LOOK_OBJECT;
		k->fields[0].value = STR(METADATA);
		buf_put_str(&k->target, path);
		return is_object(h);
	}
	k->what = LOOK_ETAG;
	k->method = STR("HEAD");
	buf_put_str(&k->target, buf_str(&h->target));
	return kind == TARGET_HTTP && h->view.api == HTTP_API_NONE &&
	       method_is(h, "PUT", "PATCH", "DELETE");
}

/* Only what the run itself could read now, by the same judge. */
static bool
permitted(const struct core_look *k, const struct policy_target *t)
{
	bool v6 = strchr(k->h->host, ':') != NULL;
	AUTO_FREE struct http_request *r = xcalloc(1, sizeof(*r));
	AUTO_FREE struct http_view *v = xcalloc(1, sizeof(*v));
	AUTO_BUF struct buf head = BUF(HTTP_HEAD_MAX);
	struct err err;

	buf_printf(
	    &head, "%.*s %.*s HTTP/1.1\r\n", STR_ARG(k->method), STR_ARG(buf_str(&k->target)));
	buf_printf(&head, v6 ? "Host: [%s]:%u\r\n\r\n" : "Host: %s:%u\r\n\r\n", k->h->host,
	    (unsigned)k->h->port);
	if (http_request_parse(buf_str(&head), r, &err) != 0)
		return false;
	effects_http(t, r, v);
	return v->effects == EFFECT_read && v->fault == NULL && !v->body_wanted &&
	       !v->query_wanted && core_http_verdict(k->h, v) == VERDICT_ALLOW;
}

/* --- on its way ------------------------------------------------------------------ */

static void
on_time(void *arg)
{
	struct core_look *k = arg;

	k->timer = NULL;
	core_http_look_end(k->h, STR("failed=time"));
}

static void
recorded(void *arg, const struct core_ack *ack)
{
	struct core_look *k = arg;
	struct core_http *h = k->h;
	struct err err = {.code = ack->code};

	k->ticket = NULL;
	if (err.code == 0)
		(void)core_http_lease_look(
		    h, k->method, buf_str(&k->target), k->fields, ARRAY_LEN(k->fields), &err);
	if (err.code != 0) {
		core_http_look_end(h, STR("failed=not-asked"));
		return;
	}
	k->leased = true;
	k->timer = loop_timer_add(h->from.run->core->loop, LOOK_MS, on_time, k);
}

static bool
record(struct core_look *k, const struct core_request *rq)
{
	const struct core_http *h = k->h;
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf path = BUF(2 * HTTP_TARGET_MAX);
	struct jcs j;

	core_http_mask_target(h, buf_str(&k->target), &path);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", h->next);
	if (rq != NULL)
		jcs_z(&j, "id", rq->id);
	jcs_str(&j, "method", k->method);
	jcs_z(&j, "origin", "broker");
	jcs_str_lossy(&j, "path", buf_str(&path));
	jcs_hex(&j, "sent", k->sent.b, HASH_LEN);
	jcs_z(&j, "target", h->from.target->id);
	jcs_close(&j);
	k->ticket = core_record(h->from.run->core,
	    &(struct core_append){
		.type = "preview", .run = h->from.run->id, .data = &b, .fn = recorded, .arg = k});
	return k->ticket != NULL;
}

/* People are to be asked about it, or have signed what the target showed. */
static bool
wanted(const struct core_http *h, const struct core_request **ret_rq)
{
	struct digest_parts parts;
	struct hash digest;

	if (core_http_verdict(h, &h->view) != VERDICT_NEEDS_APPROVAL)
		return false;
	digest = core_http_digest(h, &parts);
	*ret_rq = core_approve_find(h->from.run, &digest);
	return *ret_rq == NULL || (core_request_armed(*ret_rq) && (*ret_rq)->preview != NULL &&
				      look_bound(str_z((*ret_rq)->preview)).n != 0);
}

static struct core_look *
look_new(struct core_http *h)
{
	struct core_look *k = xcalloc(1, sizeof(*k));

	k->h = h;
	buf_init(&k->target, HTTP_TARGET_MAX + 64);
	buf_init(&k->content, (size_t)1 << 20);
	return k;
}

bool
core_http_look_begin(struct core_http *h)
{
	const struct policy_target *t = core_http_policy(h);
	const struct core_request *rq = NULL;
	struct core_look *k;

	if (h->saw != NULL || h->why != NULL || h->req == NULL || t == NULL ||
	    t->preview != PREVIEW_LOOK || h->view.fault != NULL || !wanted(h, &rq))
		return false;
	k = look_new(h);
	if (!plan(k, t->kind)) {
		core_http_look_free(k);
		return false;
	}
	if (!permitted(k, t)) {
		core_http_look_free(k);
		h->saw = xstrdup("failed=not-permitted");
		return false;
	}
	k->sent = http_lease_hash(k->method, buf_str(&k->target), k->fields, ARRAY_LEN(k->fields));
	h->policy = *policy_digest(h->from.run->core->policy);
	h->phase = CORE_HTTP_LOOK;
	h->look = k;
	core_id(h->next, "a-");
	if (record(k, rq))
		return true;
	h->look = NULL;
	core_http_look_free(k);
	h->saw = xstrdup("failed=not-asked");
	return false;
}

/* --- what it says ---------------------------------------------------------------- */

/* Its own condition goes out as it is: a second one would not make the first one narrower. */
static bool
has_condition(const struct core_http *h)
{
	static const char *const names[] = {
	    "If-Match", "If-None-Match", "If-Unmodified-Since", "If-Modified-Since", "If-Range"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (http_field_find(h->fields, h->nfields, names[i]) != NULL)
			return true;
	return h->nfields + 2 > HTTP_FIELDS_MAX;
}

static void
say_etag(const struct core_look *k, struct buf *b)
{
	struct str etag = str_z(k->etag);

	if (!look_etag_is_strong(etag))
		buf_put_z(b, "none");
	else
		buf_printf(b, "%s=%.*s", has_condition(k->h) ? "etag" : "if-match", STR_ARG(etag));
}

/* A DeleteOptions in JSON, or none, takes preconditions. */
static bool
takes_preconditions(const struct core_http *h)
{
	AUTO_BUF struct buf out = BUF(CORE_HTTP_INLINE_MAX);
	const struct http_field *f = http_field_find(h->fields, h->nfields, "Content-Type");
	struct err err;

	if (!str_eqz(h->req->method, "DELETE") || !h->in_hand ||
	    (f != NULL && !str_has_prefix(f->value, "application/json")))
		return false;
	return look_k8s_bind(h->bytes, STR("u"), STR("1"), &out, &err) == 0 &&
	       out.n + 2 * LOOK_WORD_MAX < out.max;
}

static void
say_object(const struct core_look *k, struct buf *b)
{
	AUTO_BUF struct buf uid = BUF(LOOK_WORD_MAX);
	AUTO_BUF struct buf version = BUF(LOOK_WORD_MAX);
	struct err err;

	if (look_k8s(buf_str(&k->content), &uid, &version, &err) != 0)
		buf_put_z(b, "failed=malformed");
	else
		buf_printf(b,
		    takes_preconditions(k->h) ? "preconditions=uid:%.*s,resource-version:%.*s"
					      : "uid=%.*s resource-version=%.*s",
		    STR_ARG(buf_str(&uid)), STR_ARG(buf_str(&version)));
}

/* "PACK", u32 version, u32 objects (git/git gitformat-pack). */
static void
say_pack(const struct core_http *h, const struct json *git, struct buf *b)
{
	const struct json *pack = json_get(git, "pack");
	int64_t end = json_int(json_get(git, "end"));
	struct rd r = rd_init(h->bytes);

	buf_put_z(b, " commits=");
	(void)rd_bytes(&r, end > 0 ? (size_t)end : 0);
	if (!r.bad && r.n == 0) {
		buf_put_z(b, "0"); /* it deletes alone, or names what is there */
		return;
	}
	(void)rd_u64(&r);
	if (pack == NULL)
		buf_put_z(b, "not-known");
	else
		buf_printf(b, "%s%lld", json_bool(json_get(pack, "exact")) ? "" : "at-least-",
		    (long long)json_int(json_get(pack, "commits")));
	buf_printf(b, " objects=%u", (unsigned)rd_u32(&r));
}

static void
say_refs(const struct core_look *k, struct buf *b)
{
	const struct json *git = json_get(json_root(k->h->facts->doc), "git");
	struct str ref;
	struct err err;
	int rc = look_git(buf_str(&k->content), json_get(git, "commands"), &ref, &err);

	if (rc != 0)
		buf_put_z(b, rc == ERR_TOO_COMPLEX ? "refs=not-known" : "failed=malformed");
	else if (ref.n == 0)
		buf_put_z(b, "refs=as-said");
	else
		buf_put_z(b, "refs=changed");
	if (rc == 0 || rc == ERR_TOO_COMPLEX)
		say_pack(k->h, git, b);
}

static void
say(const struct core_look *k, const struct core_http_done *d, struct buf *b)
{
	if (k->over)
		buf_put_z(b, "failed=too-large");
	else if (d->status != 1)
		buf_put_z(b, "failed=no-answer");
	else if (d->http_status == 404 && k->what != LOOK_REFS)
		buf_put_z(b, "none"); /* there is no such thing yet, or any more */
	else if (d->http_status != 200)
		buf_printf(b, "failed=status-%u", (unsigned)d->http_status);
	else if (k->what == LOOK_ETAG)
		say_etag(k, b);
	else if (k->what == LOOK_OBJECT)
		say_object(k, b);
	else
		say_refs(k, b);
}

int
core_http_on_looked(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);
	struct str etag = rd_lstr(body);
	uint8_t over = rd_u8(body);
	struct str content = rd_lstr(body);
	struct core_http *h;

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || act < CORE_LOOK_BIT || over > 1)
		return err_set(err, ERR_PROTOCOL, "UH_LOOKED is malformed");
	h = core_http_by_id(p->core, conn, act & ~CORE_LOOK_BIT);
	if (h == NULL || h->look == NULL || !h->look->leased || h->look->etag != NULL)
		return 0; /* of one that core has ended */
	h->look->etag = str_dup(etag);
	h->look->over = over == 1;
	buf_put_str(&h->look->content, content);
	return 0;
}

int
core_http_look_done(struct core_http *h, const struct core_http_done *d, struct err *err)
{
	struct core_look *k = h->look;
	AUTO_BUF struct buf b = BUF(SAYS_MAX);

	if (k == NULL || !k->leased)
		return 0; /* of one that core has ended */
	k->leased = false;
	if (k->etag == NULL || (d->status != 5 && !hash_eq(&d->head, &k->sent))) {
		core_http_look_end(h, STR("failed=not-asked"));
		return err_set(err, ERR_TAMPER,
		    "connection %llu: upstream looked at another thing than was leased",
		    (unsigned long long)h->from.id);
	}
	say(k, d, &b);
	if (buf_over(&b)) {
		buf_reset(&b);
		buf_put_z(&b, "failed=too-large");
	}
	core_http_look_end(h, buf_str(&b));
	return 0;
}

/* --- what it binds --------------------------------------------------------------- */

int
core_http_look_differs(const struct core_http *h, const struct core_action *a)
{
	struct str signed_ = look_bound(str_z(a->preview != NULL ? a->preview : ""));
	struct str saw = str_z(h->saw != NULL ? h->saw : "");

	if (signed_.n == 0 || str_eq(signed_, look_bound(saw)))
		return 0;
	return saw.n == 0 || str_has_prefix(saw, "failed=") ? -1 : 1;
}

struct str
core_http_look_condition(const struct core_action *a)
{
	struct str words = str_z(a->consume && a->preview != NULL ? a->preview : "");

	if (str_has_prefix(words, "if-match=") || str_has_prefix(words, "preconditions="))
		return words;
	return STR_NONE;
}

static void
field_add(struct core_http *h, struct str name, struct str value)
{
	h->fields[h->nfields++] = (struct http_field){name, value};
}

void
core_http_look_bind(struct core_http *h)
{
	struct str words = core_http_look_condition(h->a), etag = look_word(words, "if-match");

	if (etag.n != 0)
		field_add(h, STR("If-Match"), etag);
	else if (words.n != 0 && http_field_find(h->fields, h->nfields, "Content-Type") == NULL)
		field_add(h, STR("Content-Type"), STR("application/json"));
}

/* "uid:U,resource-version:V" */
static bool
preconditions(const struct core_action *a, struct str *uid, struct str *version)
{
	struct str words = look_word(core_http_look_condition(a), "preconditions"), key;

	return str_cut(&words, ',', uid) && str_cut(uid, ':', &key) && str_cut(&words, ':', &key) &&
	       (*version = words, true);
}

int
core_http_look_bind_body(struct core_http *h, struct err *err)
{
	AUTO_BUF struct buf out = BUF(CORE_HTTP_INLINE_MAX);
	struct str uid, version;
	int rc;

	if (!preconditions(h->a, &uid, &version))
		return 0;
	rc = look_k8s_bind(h->bytes, uid, version, &out, err);
	if (rc != 0 || buf_over(&out))
		return rc != 0 ? rc : err_set(err, ERR_TOO_LARGE, "its preconditions do not fit");
	core_http_body_replace(h, buf_str(&out));
	return 0;
}
