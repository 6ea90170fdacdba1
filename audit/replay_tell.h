/*
 * One record in words: a title, further lines, whose content belongs to it and how that is to be
 * read. The terminal, the page and the report say the same, since all of them ask here.
 */
#ifndef AUDIT_REPLAY_TELL_H
#define AUDIT_REPLAY_TELL_H

#include "audit/record.h"

/* What of the decision path a record belongs to. */
enum replay_lane { LANE_LOG, LANE_MODEL, LANE_CODE, LANE_ACTION, LANE_APPROVAL, LANES };
/* How it is shown: TONE_CLAIM is what the agent says. */
enum replay_tone { TONE_PLAIN, TONE_CLAIM, TONE_ALLOW, TONE_WAIT, TONE_DENY, TONE_GAP };
/* What the content is. */
enum replay_as { AS_TEXT, AS_PARAMS, AS_HEAD, AS_PROMPT, AS_ANSWER };

struct told {
	enum replay_lane lane;
	enum replay_tone tone;
	unsigned depth;	   /* the agent's claims left, what the broker saw right of them */
	struct buf title;  /* one line, without LF */
	struct buf before; /* lines that stand above the content, each with LF */
	struct buf after;  /* and below it */
	struct str ref;	   /* of the content, borrowed from the record; none: empty */
	enum replay_as as;
};
void told_init(struct told *t);
void told_free(struct told *t);
/* Forgets what was told before. Title and lines hold nothing that log_vis would change. */
void replay_tell(const struct record *r, struct told *t);
const char *replay_lane_name(enum replay_lane lane);
/*
 * A record of no run that belongs to the path of every run which is alive when it is made: a policy
 * that comes or goes, freezes, what the log says of its own gaps, erasures.
 */
bool replay_around(const struct record *r);

#endif
