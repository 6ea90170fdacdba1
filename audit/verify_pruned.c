/*
 * Prunes that are on the record. Runs in the verifier. That pruned records are those that were
 * signed, their leaf hashes show (chain.c); that nothing is missing of what was kept of them, only
 * the digest in the record of a prune, which counts when a head that holds covers it.
 */
#include "audit/verify_pruned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/canon.h"
#include "audit/pruned.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct prune_said {
	uint64_t seq, from, to;
	struct hash kept;
	char by[64], time[32];
};

void
prunes_record(struct prunes *p, const struct record *r)
{
	struct str kept = canon_get(r->data, "kept"), by = canon_plain(canon_get(r->data, "by"));
	struct prune_said s = {.seq = r->seq};

	if (!str_eqz(r->type, "log.prune") || !canon_u64(canon_get(r->data, "from"), &s.from) ||
	    !canon_u64(canon_get(r->data, "to"), &s.to) ||
	    !hash_from_hex(canon_plain(canon_get(kept, "sha256")), &s.kept))
		return;
	(void)snprintf(s.by, sizeof(s.by), "%.*s", STR_ARG(by));
	(void)snprintf(s.time, sizeof(s.time), "%.*s", STR_ARG(r->time));
	if ((p->n & (p->n - 1)) == 0) /* full at each power of two */
		p->said = xreallocarray(p->said, p->n != 0 ? p->n * 2 : 1, sizeof(*p->said));
	p->said[p->n++] = s;
}

int
prunes_check(const struct prunes *p, int logdir, uint64_t first, struct verdict *v, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r =
	    log_or_none(log_files_list(logdir, LOG_KEPT, LOG_LINES, LOG_PACK, &files, err), err);

	if (r != 0)
		return r;
	verdict_foreign(v, LOG_KEPT, &files);
	for (size_t i = 0; i < p->n; i++) {
		const struct prune_said *s = &p->said[i];
		AUTO_FREE char *by = log_vis(str_z(s->by));
		struct hash is;

		if (s->seq >= v->verified)
			continue; /* whoever can write there could have put it there */
		if ((r = kept_digest(logdir, s->from, s->to, &is, err)) != 0)
			return r;
		if (!hash_eq(&is, &s->kept))
			verdict_found(v, LOG_KIND_KEPT, s->from, s->to != 0 ? s->to - 1 : 0,
			    "what was kept of the records that record %" PRIu64
			    " says were pruned is not that any more",
			    s->seq);
		if (first == 0 || s->to < first)
			continue;
		(void)snprintf(v->pruned_by, sizeof(v->pruned_by), "%s", by);
		(void)snprintf(v->pruned_at, sizeof(v->pruned_at), "%s", s->time);
	}
	v->pruned = first;
	return 0;
}

void
prunes_free(struct prunes *p)
{
	free(p->said);
}
