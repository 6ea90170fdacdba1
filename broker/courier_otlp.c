/*
 * Logs of OpenTelemetry (OTLP over HTTP, JSON encoding). Runs in the courier. Many records go in
 * one request; a receiver that cannot take it gets fewer, and only a record that is refused by
 * itself is passed over. What an answer says is a number and words for people.
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/export.h"
#include "broker/courier.h"
#include "common/clock.h"
#include "common/http.h"

#include "common/banned.h"

#define BATCH_RECORDS 500
#define BATCH_BYTES ((size_t)1 << 20)

static int
put_one(struct hook *h, struct canon_tree *tree, uint64_t *ret_seq, struct err *err)
{
	struct export_opts o = {.origin = str_z(h->c->origin), .text = h->conf->text};
	struct str body = rd_lstr(&h->at);
	struct hash leaf = record_leaf(body);
	struct record r;
	struct export e = {.o = &o, .r = &r, .leaf = &leaf};
	int rc = record_parse(body, &r, err);

	if (rc == 0 && (r.seq < h->next || !webhook_wants(h->conf, r.type)))
		rc = err_set(err, ERR_PROTOCOL, "record %" PRIu64 " of type %.*s was not asked for",
		    r.seq, STR_ARG(r.type));
	if (rc != 0)
		return rc;
	e.data = canon_tree_set(tree, r.data);
	export_otlp_record(&e, h->batch_n != 0, &h->body);
	*ret_seq = r.seq;
	return 0;
}

int
courier_otlp_put(struct hook *h, struct err *err)
{
	struct export_opts o = {.origin = str_z(h->c->origin)};
	AUTO(canon_tree) struct canon_tree *tree = canon_tree_new();
	int rc = 0;

	h->batch = h->at;
	h->batch_left = h->left;
	h->batch_n = 0;
	buf_reset(&h->body);
	export_otlp_head(&o, &h->body);
	while (rc == 0 && h->left != 0 && h->batch_n < h->batch_max && h->batch_n < BATCH_RECORDS &&
	       h->body.n < BATCH_BYTES) {
		uint64_t seq = 0;

		rc = put_one(h, tree, &seq, err);
		h->left--;
		h->seq = h->batch_n == 0 ? seq : h->seq;
		h->through = seq;
		h->batch_n++;
	}
	export_otlp_tail(&h->body);
	if (rc == 0 && buf_over(&h->body))
		rc = err_set(err, ERR_TOO_LARGE, "over %zu bytes to send", h->body.max);
	return rc;
}

uint64_t
courier_otlp_refused(const struct hook *h, char out[COURIER_WHY_MAX])
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf why = BUF(COURIER_WHY_MAX);
	const struct json *part, *rejected;
	struct str text = str_trim(buf_str(&h->answer)), said;
	uint64_t n = 0;

	/* Of a binary or empty answer the status is all there is. */
	if (text.n == 0 || json_parse(text, "answer", &doc, NULL) != 0)
		return 0;
	part = json_get(json_root(doc), "partialSuccess");
	rejected = json_get(part, "rejectedLogRecords"); /* an int64: a string, or a number */
	if (json_type(rejected) == JSON_INT && json_int(rejected) > 0)
		n = (uint64_t)json_int(rejected);
	else if (!str_to_u64(json_str(rejected), INT64_MAX, &n))
		n = 0;
	if (n == 0)
		return 0;
	n = n < h->batch_n ? n : h->batch_n;
	said = json_str(json_get(part, "errorMessage"));
	buf_printf(&why, "%" PRIu64 " of %u records were refused: ", n, h->batch_n);
	export_words(&why, said, COURIER_WHY_MAX - why.n - 8);
	(void)snprintf(out, COURIER_WHY_MAX, "%.*s", STR_ARG(buf_str(&why)));
	return n;
}

/* Of all answers these alone are about what was sent, not about when or by whom. */
static bool
is_about_content(const struct hook *h)
{
	return h->http_status == 400 || h->http_status == 413 || h->http_status == 422;
}

bool
courier_otlp_split(struct hook *h)
{
	if (!is_about_content(h) || h->batch_n <= 1)
		return false;
	h->batch_max = h->batch_n / 2;
	h->at = h->batch;
	h->left = h->batch_left;
	return true;
}

bool
courier_otlp_hopeless(const struct hook *h)
{
	int64_t limit = h->conf->retry_for_s;

	return (is_about_content(h) && h->batch_n == 1) ||
	       (limit != 0 && clock_wall_us() - h->since_us >= limit * 1000000);
}

int
courier_header_parse(struct str line, struct secret **ret, struct err *err)
{
	struct str s = str_trim(line), rest = s, name;

	if (!str_cut(&rest, ':', &name) || !http_is_token(name) || str_trim(rest).n == 0 ||
	    !str_is_ascii_print(s))
		return err_set(err, ERR_CONFIG,
		    "a header file has one line, as \"Authorization: Bearer TOKEN\"");
	*ret = secret_copy(s);
	return 0;
}
