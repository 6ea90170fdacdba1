/*
 * The content of records about HTTP (process: core). What clients sent stands here lossily and cut:
 * path and names in clear, the query by its hash; the head in full is in the sealed blob.
 */
#include "broker/core_http_data.h"

#include <stdlib.h>

#include "broker/core_data.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define PATH_MAX_ ((size_t)4096)
#define TEXT_MAX ((size_t)512)

struct str
core_http_method(const struct core_http *h)
{
	return h->req != NULL ? h->req->method : http_method_claim(buf_str(&h->head));
}

static struct str
cut(struct str s, size_t max)
{
	return s.n < max ? s : str_mem(s.p, max);
}

static void
put_path(const struct core_http *h, struct jcs *j)
{
	AUTO_BUF struct buf b = BUF(2 * HTTP_TARGET_MAX);

	if (h->req == NULL)
		return;
	core_http_mask_target(h, h->req->path, &b);
	jcs_str_lossy(j, "path", cut(buf_str(&b), PATH_MAX_));
}

static void
put_hash(struct jcs *j, const char *key, const struct hash *h)
{
	jcs_hex(j, key, h->b, HASH_LEN);
}

/* Counts from another process: what a record cannot hold is shown as the largest it can. */
static void
put_count(struct jcs *j, const char *key, uint64_t n)
{
	const uint64_t max = (UINT64_C(1) << 53) - 1;

	jcs_int(j, key, (int64_t)(n < max ? n : max));
}

static void
put_text(struct jcs *j, const char *key, const char *z)
{
	if (z != NULL && z[0] != '\0')
		jcs_str_lossy(j, key, cut(str_z(z), TEXT_MAX));
}

/* --- request --------------------------------------------------------------------- */

void
core_http_data_facts(const struct core_http *h, struct jcs *j)
{
	jcs_open(j, "facts");
	jcs_open(j, "http");
	jcs_z(j, "api", http_api_name(h->view.api));
	if (h->facts != NULL && h->facts->status == CORE_FACTS_OK)
		jcs_raw(j, "body", str_z(h->facts->json));
	put_text(j, "fault", h->req == NULL ? h->why : h->view.fault);
	jcs_str_lossy(j, "method", core_http_method(h));
	put_path(h, j);
	jcs_close(j);
	jcs_close(j);
}

/* Of a head that was not well-formed: its second word, as it came. */
static void
put_raw_target(const struct core_http *h, struct jcs *j)
{
	AUTO_BUF struct buf b = BUF(2 * HTTP_HEAD_MAX);
	struct str rest = buf_str(&h->head), word;

	if (h->req != NULL || !str_cut(&rest, ' ', &word) || !str_cut(&rest, ' ', &word))
		return;
	core_http_mask_target(h, word, &b);
	jcs_str_lossy(j, "target", cut(buf_str(&b), PATH_MAX_));
}

static void
put_found(const struct core_http *h, struct jcs *j)
{
	const struct core_found *f = &h->found;

	if (f->what == CORE_FOUND_NONE)
		return;
	jcs_open(j, "found");
	if (f->bound != NULL) {
		jcs_z(j, "bound_to", f->bound);
		jcs_z(j, "credential", f->credential);
	}
	if (f->what == CORE_FOUND_FOREIGN)
		jcs_z(j, "fingerprint", f->fingerprint);
	jcs_str_lossy(j, "place", str_z(f->place));
	jcs_z(j, "what", f->what == CORE_FOUND_FOREIGN ? "credential_foreign" : "credential_scope");
	jcs_close(j);
}

/* The third name, where it is not the authority (NET-02 of the field cases). */
static void
put_host(const struct core_http *h, struct jcs *j)
{
	AUTO_FREE char *host = NULL;

	if (h->req == NULL || strcmp(h->req->host, h->host) == 0)
		return;
	host = h->req->port != 0 ? xasprintf("%s:%u", h->req->host, (unsigned)h->req->port)
				 : xstrdup(h->req->host);
	jcs_z(j, "host", host);
}

static const char *
via_name(enum core_http_via v)
{
	switch (v) {
	case CORE_VIA_DIRECT: return "direct";
	case CORE_VIA_PROXY: return "proxy";
	case CORE_VIA_LOOP: return "loop";
	}
	return "invalid";
}

void
core_http_data_request(const struct core_http *h, struct jcs *j)
{
	const struct policy_target *t = core_http_policy(h);
	struct hash query = {0};
	struct str protocol;

	jcs_open(j, "http");
	jcs_str_lossy(j, "authority", str_z(h->from.address));
	if (h->bound)
		jcs_bool(j, "body_bound", true);
	if (h->have_sha && h->body != CORE_BODY_NONE) {
		put_count(j, "body_bytes", h->length);
		put_hash(j, "body_sha256", &h->sha);
	}
	put_text(j, "connect", h->connect);
	put_found(h, j);
	put_host(h, j);
	put_path(h, j);
	if (h->req != NULL && h->req->has_query) {
		query = hash_sha256(h->req->query);
		put_hash(j, "query_sha256", &query);
	}
	if (h->act != 0)
		jcs_z(j, "scheme",
		    h->from.target != NULL ? h->from.target->scheme
		    : h->tls		   ? "https"
					   : "http");
	put_text(j, "sni", h->sni);
	if (h->status != 0)
		jcs_int(j, "status", h->status);
	put_raw_target(h, j);
	put_text(j, "title", h->title);
	if (h->view.upgrade && http_upgrade_asks(h->req, &protocol))
		jcs_str(j, "upgrade", protocol);
	if (t != NULL && t->via.n != 0)
		jcs_str(j, "upstream_proxy", t->via);
	jcs_z(j, "via", via_name(h->via));
	jcs_close(j);
}

/* --- outcome --------------------------------------------------------------------- */

const char *
core_http_status_name(const struct core_http_done *d)
{
	static const char *const names[] = {
	    "unknown", "ok", "lost", "broken", "body_differs", "not_sent"};

	if (d->status == 1 && d->http_status >= 400)
		return "error";
	return d->status < ARRAY_LEN(names) ? names[d->status] : "unknown";
}

/* The server was asked to do it only if the thing was still as people had been shown it. */
static void
put_condition(const struct core_http *h, const struct core_http_done *d, struct jcs *j)
{
	if (core_http_look_condition(h->a).n == 0 || d->status != 1)
		return;
	if (d->http_status == 412 || (d->http_status == 409 && h->view.api == HTTP_API_K8S))
		jcs_z(j, "condition", "failed");
	else if (d->http_status < 400)
		jcs_z(j, "condition", "held");
}

/* Why a stream ended: what core knows of it goes before what upstream saw. */
static void
put_ended(const struct core_http *h, const struct core_http_done *d, struct jcs *j)
{
	static const char *const words[CORE_ENDED_COUNT] = {
	    "", "server", "client", "silent", "limit", "protocol", "broker", "lost"};
	const char *why = core_http_stream_why(h);

	if (d->ended != CORE_ENDED_NONE && d->ended < CORE_ENDED_COUNT)
		jcs_z(j, "ended", why != NULL ? why : words[d->ended]);
}

void
core_http_data_outcome(const struct core_http *h, const struct core_http_done *d, struct buf *out)
{
	bool sent = d->status != 5;
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", h->a->id);
	jcs_int(&j, "action_seq", (int64_t)h->a->seq);
	if (d->answer != NULL)
		blob_ref_jcs(&j, "answer", d->answer);
	put_count(&j, "answer_bytes", d->answer_bytes);
	if (d->http_status != 0)
		put_hash(&j, "answer_sha256", &d->answer_sha);
	if (sent && (h->body != CORE_BODY_NONE || d->ended != CORE_ENDED_NONE)) {
		put_count(&j, "body_bytes", d->body_bytes);
		put_hash(&j, "body_sha256", &d->body_sha);
	}
	put_condition(h, d, &j);
	put_count(&j, "duration_us", clock_boot_us() - h->sent_us);
	put_ended(h, d, &j);
	if (d->http_status != 0)
		jcs_int(&j, "http_status", d->http_status);
	if (d->message.n != 0)
		jcs_str_lossy(&j, "message", cut(d->message, TEXT_MAX));
	if (d->peer.n != 0)
		jcs_str_lossy(&j, "peer", cut(d->peer, TEXT_MAX));
	if (d->peer_cert.n != 0)
		jcs_str_lossy(&j, "peer_cert", cut(d->peer_cert, TEXT_MAX));
	if (h->a->consume && h->a->preview != NULL)
		jcs_str_lossy(&j, "preview", str_z(h->a->preview));
	core_data_reads(&j, core_action_reads(h->a), core_http_status_name(d));
	if (d->reflected != 0)
		jcs_int(&j, "reflected_credential", d->reflected);
	if (sent)
		put_hash(&j, "sent", &d->head);
	else
		jcs_z(&j, "sent", "");
	jcs_z(&j, "status", core_http_status_name(d));
	jcs_close(&j);
}
