/*
 * The secrets that one exchange may give back, made ready to be looked for: never changed
 * afterwards, shared by the exchanges that look for the same ones, and kept a while for the next.
 * While no exchange holds it, the memory of its secrets cannot be read.
 */
#ifndef BROKER_UPSTREAM_SCRUB_SET_H
#define BROKER_UPSTREAM_SCRUB_SET_H

#include "common/secret.h"
#include "common/buf.h"

#define UPSTREAM_SCRUB_SHORT 6
#define UPSTREAM_SECRET_MAX ((size_t)8192)
#define UPSTREAM_OTHERS_MAX 32 /* secrets of an exchange besides the one that goes out */
/* The one that goes out has up to four parts (of AWS: key, token, id, derived key); and a proxy's.
 */
#define SCRUB_SECRETS_MAX (UPSTREAM_OTHERS_MAX + 5)
#define SCRUB_PLACEHOLDER_MAX 64 /* what is longer is cut */
#define SCRUB_SETS_MAX 16	 /* kept */
#define SCRUB_SETS_IDLE_MS 60000

struct scrub_secret {
	struct str secret, user, placeholder; /* secret: 1 to UPSTREAM_SECRET_MAX bytes */
	bool basic;			      /* the base64 of user:secret is one more form */
};

struct scrub_set;
/* 1 to SCRUB_SECRETS_MAX of them, copied into guarded memory. The caller holds the set. */
struct scrub_set *scrub_set_new(const struct scrub_secret *s, size_t n);
struct scrub_set *scrub_set_hold(struct scrub_set *set); /* once more, of one that is held */
void scrub_set_drop(struct scrub_set *set);		 /* NULL is fine */

struct scrub_sets;
struct scrub_sets *scrub_sets_new(void);
void scrub_sets_free(struct scrub_sets *c); /* NULL is fine; what is held lives on */
/* The set of just these; the caller holds it. */
struct scrub_set *scrub_sets_get(struct scrub_sets *c, const struct scrub_secret *s, size_t n);
/* Forgets what nobody holds and nobody has asked for since the last sweep. Returns how many stay.
 */
size_t scrub_sets_sweep(struct scrub_sets *c);

#endif
