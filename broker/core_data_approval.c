/*
 * Data of the records about approvals (process: core), in the form of docs/format-log.md. Texts of
 * others were bounded before; what is sealed stands beside, in a blob.
 */
#include "broker/core_data.h"

#include "broker/core_http_data.h"
#include "broker/core_lift.h"
#include "broker/core_pg.h"
#include "broker/core_rate.h"

#include "common/banned.h"

void
core_data_request(
    struct buf *out, const struct core_request *rq, const struct blob_ref *show, struct str frame)
{
	AUTO_FREE struct str *rels = NULL;
	struct policy_input in = core_approve_input(rq, &rels);
	AUTO_BUF struct buf b64 = BUF(2 * CORE_SHOW_FRAME_MAX);
	AUTO_BUF struct buf parts = BUF(DIGEST_PARTS_HEX);
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	core_data_hash(&j, "action", &rq->action);
	jcs_str_lossy(&j, "agent", str_z(rq->run->agent));
	core_data_time(&j, "approve_by", rq->approve_by_us);
	if (rq->body) {
		core_data_count(&j, "body_bytes", rq->body_bytes);
		core_data_hash(&j, "body_sha256", &rq->body_sha256);
	}
	effect_jcs(&j, "effects", rq->effects);
	digest_parts_put(&parts, &rq->parts);
	jcs_str(&j, "fields", buf_str(&parts));
	jcs_z(&j, "first", rq->first);
	jcs_z(&j, "id", rq->id);
	core_data_input(&j, "input", &in);
	if (rq->max_rows >= 0)
		jcs_int(&j, "max_rows", rq->max_rows);
	core_data_time(&j, "not_before", rq->not_before_us);
	jcs_z(&j, "owner", rq->run->owner);
	core_data_hash(&j, "policy", &rq->policy);
	if (rq->preview != NULL)
		jcs_str_lossy(&j, "preview", str_z(rq->preview));
	jcs_z(&j, "rule", rq->rule);
	blob_ref_jcs(&j, "show", show);
	if (frame.n <= CORE_SHOW_FRAME_MAX) {
		enc_base64(&b64, frame);
		jcs_str(&j, "show_frame", buf_str(&b64));
	}
	policy_slots_jcs(&j, "slots", rq->slots, rq->nslots);
	if (rq->nsteps > 1) {
		jcs_array(&j, "steps");
		for (size_t i = 0; i < rq->nsteps; i++)
			core_data_hash(&j, NULL, &rq->steps[i]);
		jcs_array_end(&j);
	}
	jcs_z(&j, "target", rq->target);
	jcs_int(&j, "use_within", rq->use_within_s);
	if (rq->verify)
		jcs_bool(&j, "verify", true);
	jcs_int(&j, "within", rq->within_s);
	jcs_close(&j);
}

/* `key` sorts before or after "id" as it may. */
void
core_data_id(struct buf *out, const char *id, const char *key, const char *value)
{
	bool before = key != NULL && strcmp(key, "id") < 0;
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (before)
		jcs_z(&j, key, value);
	jcs_z(&j, "id", id);
	if (key != NULL && !before)
		jcs_z(&j, key, value);
	jcs_close(&j);
}

void
core_data_grant(struct buf *out, const struct core_data_grant *g)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	core_data_time(&j, "at", g->at_us);
	if (g->by->key.hardware) {
		jcs_int(&j, "counter", g->by->counter);
		jcs_int(&j, "flags", g->by->flags);
	}
	jcs_z(&j, "id", g->id);
	jcs_str(&j, "key", g->key);
	if (g->note.n != 0)
		jcs_str(&j, "note", g->note);
	jcs_str(&j, "person", g->person);
	if (g->reason.n != 0)
		jcs_str(&j, "reason", g->reason);
	jcs_str_lossy(&j, "role", g->role);
	jcs_str_lossy(&j, "signature", g->signature);
	core_data_hash(&j, "statement", &g->statement);
	jcs_close(&j);
}

void
core_data_rejected(
    struct buf *out, const char *id, struct str person, struct str key, const char *reason)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "id", id);
	if (key.n != 0)
		jcs_str_lossy(&j, "key", key);
	if (person.n != 0)
		jcs_str_lossy(&j, "person", person);
	jcs_z(&j, "reason", reason);
	jcs_close(&j);
}
