/* Inside of a set, for upstream_scrub.c and upstream_scrub_set.c alone. */
#ifndef BROKER_UPSTREAM_SCRUB_INT_H
#define BROKER_UPSTREAM_SCRUB_INT_H

#include <sys/queue.h>

#include "broker/upstream_scrub_form.h"
#include "common/hash.h"

enum decoder_kind { DECODE_NONE = 0, DECODE_PERCENT, DECODE_FORM, DECODE_JSON, DECODERS };

struct scrub_mark {
	uint8_t p[SCRUB_PLACEHOLDER_MAX];
	size_t n;
};

struct scrub_set {
	TAILQ_ENTRY(scrub_set) link;
	struct scrub_sets *sets; /* NULL: kept by nobody */
	struct hash key;
	size_t held;
	bool asked; /* since the last sweep */

	struct secret *forms;
	struct needle needle[SCRUB_SECRETS_MAX * FORMS_MAX];
	size_t nneedles;
	uint16_t first[257]; /* by byte: where in order[] the needles stand that begin with it */
	uint16_t *order;
	size_t ring;	     /* over the length of each */
	bool spaces;	     /* in some secret */
	bool begins[256];    /* anything */
	uint8_t pairs[8192]; /* a bit for each two bytes that can go on from there */
	struct scrub_mark mark[SCRUB_SECRETS_MAX];
};

#endif
