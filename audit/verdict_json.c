/*
 * A verdict for programs: what verdict_put() says to people, as one canonical JSON object. Runs in
 * the command line. Trusts no text in it: bytes that are no UTF-8 are replaced.
 */
#include <stdio.h>

#include "audit/verdict.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/json_scan.h"

#include "common/banned.h"

static void
put_u64(struct jcs *j, const char *key, uint64_t v)
{
	jcs_int(j, key, v <= (uint64_t)JSON_INT_MAX ? (int64_t)v : JSON_INT_MAX);
}

static void
put_text(struct jcs *j, const char *key, const char *text)
{
	if (text[0] != '\0')
		jcs_str_lossy(j, key, str_z(text));
}

static void
put_adopted(struct jcs *j, const struct verdict *v)
{
	jcs_array(j, "adopted");
	for (size_t i = 0; i < v->nadopted; i++) {
		jcs_open(j, NULL);
		put_u64(j, "first", v->adopted[i].first);
		put_u64(j, "records", v->adopted[i].n);
		put_u64(j, "seq", v->adopted[i].seq);
		jcs_close(j);
	}
	jcs_array_end(j);
	put_u64(j, "adopted_more", v->more_adopted);
}

static void
put_findings(struct jcs *j, const struct verdict *v)
{
	jcs_array(j, "findings");
	for (size_t i = 0; i < v->nfaults; i++) {
		const struct log_fault *f = &v->faults[i];

		jcs_open(j, NULL);
		jcs_z(j, "kind", log_kind_name(f->kind));
		put_u64(j, "last", f->last);
		put_u64(j, "seq", f->seq);
		jcs_str_lossy(j, "text", str_z(f->text));
		jcs_close(j);
	}
	jcs_array_end(j);
	put_u64(j, "findings_more", v->more);
}

static void
put_pruned(struct jcs *j, const struct verdict *v)
{
	if (v->pruned == 0)
		return;
	jcs_open(j, "pruned");
	put_text(j, "at", v->pruned_at);
	put_text(j, "by", v->pruned_by);
	put_u64(j, "kept", v->kept);
	put_u64(j, "to", v->pruned);
	jcs_close(j);
}

static void
put_resumed(struct jcs *j, const struct verdict *v)
{
	if (v->resumed == 0 && v->unlike == 0)
		return;
	jcs_open(j, "resume");
	put_u64(j, "at", v->resumed != 0 ? v->resumed : v->unlike);
	jcs_bool(j, "resumed", v->resumed != 0);
	jcs_close(j);
}

static void
put_signed(struct jcs *j, const struct verdict *v)
{
	AUTO_BUF struct buf root = BUF(64);

	if (v->verified == 0)
		return;
	enc_base64(&root, str_mem(v->root.b, HASH_LEN));
	jcs_str(j, "root", buf_str(&root));
}

static void
put_witnessed(struct jcs *j, const struct verdict *v)
{
	jcs_array(j, "witnessed");
	for (size_t i = 0; i < v->nwitnessed; i++) {
		const struct witnessed *w = &v->witnessed[i];

		jcs_open(j, NULL);
		jcs_str_lossy(j, "name", str_z(w->name));
		jcs_bool(j, "own_word", v->own_word);
		put_u64(j, "size", w->size);
		put_u64(j, "time", w->time_s);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
put_deep(struct jcs *j, struct str lines)
{
	struct str line;

	jcs_array(j, "deep");
	while (str_cut(&lines, '\n', &line))
		jcs_str_lossy(j, NULL, line);
	jcs_array_end(j);
}

void
verdict_put_json(struct buf *out, const struct verdict *v, struct str deep)
{
	static const char *const words[] = {"verified", "tamper", "config", "open"};
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_adopted(&j, v);
	put_u64(&j, "blobs", v->blobs);
	put_u64(&j, "checkpoints", v->heads);
	put_text(&j, "config", v->config);
	if (deep.n != 0)
		put_deep(&j, deep);
	put_u64(&j, "erased_by", v->erasures);
	put_u64(&j, "erased_runs", v->erased);
	put_findings(&j, v);
	put_text(&j, "last_record", v->time);
	put_u64(&j, "not_looked_into", v->unread);
	put_text(&j, "origin", v->origin);
	put_pruned(&j, v);
	put_u64(&j, "records", v->size);
	put_resumed(&j, v);
	put_signed(&j, v);
	put_u64(&j, "torn", v->torn);
	put_u64(&j, "unsigned", v->size > v->verified ? v->size - v->verified : 0);
	jcs_z(&j, "verdict", words[verdict_status(v)]);
	put_u64(&j, "verified", v->verified);
	put_witnessed(&j, v);
	jcs_close(&j);
	buf_put_c(out, '\n');
}
