/*
 * What a witness keeps of requests that it refused. Runs in cofferdam-witness. Whoever can reach it
 * can send an honest head with a proof of junk, as often as they like: what such a request may say
 * against a log has few slots of its own, which give way in turn, and none of them is ever taken
 * from what the log's key proves.
 */
#include "audit/witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/segment.h"
#include "common/log.h"

#include "common/banned.h"

#define TELL_EVERY_S 60
#define NAME_SIZE 32

/* Where the slots of one kind are, and what was found in them. */
struct slots {
	const char *prefix;
	unsigned max;
	bool has;	      /* the same head is kept already */
	char name[NAME_SIZE]; /* the first that is free; empty: none is */
};

/* What the log signed, of a request. */
static bool
head_of(struct str body, struct str *ret)
{
	struct cosign_request rq;
	struct str sigs;

	return cosign_request_parse(body, &rq, NULL) == 0 && cosign_note_split(rq.note, ret, &sigs);
}

/* False: this slot is free. */
static bool
look_at(struct slots *s, int dir, const char *name, struct str head)
{
	AUTO_BUF struct buf had = BUF(COSIGN_REQUEST_MAX);
	struct err err = {0};
	struct str its;
	int rc = log_read_file(dir, name, &had, &err);

	if (rc == 0 && head_of(buf_str(&had), &its) && str_eq(its, head))
		s->has = true;
	return rc != ERR_NOT_FOUND;
}

static void
name_of(char name[NAME_SIZE], const char *prefix, unsigned i)
{
	(void)snprintf(name, NAME_SIZE, "%s%02u", prefix, i);
}

static void
look(struct slots *s, int dir, struct str head)
{
	for (unsigned i = 0; i < s->max && !s->has; i++) {
		char name[NAME_SIZE];

		name_of(name, s->prefix, i);
		if (!look_at(s, dir, name, head) && s->name[0] == '\0')
			memcpy(s->name, name, sizeof(name));
	}
}

static void
tell(struct witness_told *t, uint64_t now_s, const char *origin, const char *why, const char *what)
{
	if (t->at_s != 0 && now_s >= t->at_s && now_s - t->at_s < TELL_EVERY_S) {
		t->more++;
		return;
	}
	log_error(
	    "%s: %s%s (%" PRIu64 " more since the last such line)", origin, why, what, t->more);
	*t = (struct witness_told){.at_s = now_s};
}

void
witness_keep(struct witness *w, const char *origin, int dir, struct str body,
    enum cosign_evidence what, const char *why, uint64_t now_s)
{
	struct witness_kept *k = &w->kept[hash_sha256(str_z(origin)).b[0]];
	bool proven = what == COSIGN_PROVEN, full;
	struct slots s = {.prefix = "evidence-unproven-", .max = WITNESS_UNPROVEN_MAX};
	struct str head;
	struct err err = {0};

	if (proven)
		s = (struct slots){.prefix = "evidence-", .max = WITNESS_PROVEN_MAX};
	if (!head_of(body, &head))
		return; /* it was judged: it is a note */
	look(&s, dir, head);
	if (s.has)
		return;
	full = s.name[0] == '\0';
	if (proven && full) {
		tell(&k->unkept, now_s, origin, why, "; NOT KEPT: all evidence-NN are taken");
		return;
	}
	if (full) /* by number, from 0 on after a start: times of files may be the same */
		name_of(s.name, s.prefix, k->turn++ % WITNESS_UNPROVEN_MAX);
	if (witness_put_file(dir, s.name, body, &err) != 0)
		tell(&k->unkept, now_s, origin, "evidence cannot be kept: ", err.msg);
	else if (proven)
		log_error("%s: %s; kept as %s", origin, why, s.name);
	else
		tell(&k->unproven, now_s, origin, why,
		    full ? "; kept in the place of another that is not proven"
			 : "; kept, not proven");
}
