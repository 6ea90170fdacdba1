/* The forms in which a secret may come back, for upstream_scrub_set.c alone. */
#ifndef BROKER_UPSTREAM_SCRUB_FORM_H
#define BROKER_UPSTREAM_SCRUB_FORM_H

#include "broker/upstream_scrub_set.h"

enum fold { FOLD_NONE = 0, FOLD_HEX, FOLD_BASE64 };

struct needle {
	const uint8_t *p; /* folded */
	size_t n;
	enum fold fold;
	bool escaped;	  /* looked for behind every decoder, not only in the text as it stands */
	uint8_t owner;	  /* which of the secrets */
	uint16_t *border; /* of each prefix, its longest proper prefix that is a suffix too */
};

struct form {
	size_t from, to; /* in *all */
	enum fold fold;
	bool escaped;
};

#define FORMS_MAX 7 /* of one secret */
/* Appends the forms to *all and tells where they stand. Returns how many. */
size_t forms_put(struct buf *all, const struct scrub_secret *s, struct form f[FORMS_MAX]);
/* Its bytes stay in `all`. */
void needle_init(struct needle *n, const uint8_t *all, const struct form *f, uint8_t owner);
void needle_free(struct needle *n);
/* Both alphabets of base64 and both cases of hex as one. */
uint8_t needle_fold(enum fold fold, uint8_t c);

#endif
