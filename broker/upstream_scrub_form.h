/* The forms in which a secret may come back, for upstream_scrub.c alone. */
#ifndef BROKER_UPSTREAM_SCRUB_FORM_H
#define BROKER_UPSTREAM_SCRUB_FORM_H

#include "common/secret.h"

enum fold { FOLD_NONE = 0, FOLD_HEX, FOLD_BASE64 };

struct needle {
	const uint8_t *p; /* folded */
	size_t n;
	enum fold fold;
	bool escaped;	  /* looked for behind every decoder, not only in the text as it stands */
	uint16_t *border; /* of each prefix, its longest proper prefix that is a suffix too */
};

#define NEEDLES_MAX 7
/* Fills n[NEEDLES_MAX]; their bytes are in *ret_forms, guarded. Returns how many. */
size_t needles_make(
    struct str secret, bool basic, struct str user, struct needle *n, struct secret **ret_forms);
void needle_free(struct needle *n);
/* Both alphabets of base64 and both cases of hex as one. */
uint8_t needle_fold(enum fold fold, uint8_t c);

#endif
