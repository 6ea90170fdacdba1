/* Effects: what an action does, from one closed list. A set is a bit mask; empty means nothing was
 * understood. */
#ifndef POLICY_EFFECT_H
#define POLICY_EFFECT_H

#include "common/buf.h"
#include "common/jcs.h"

enum {
#define X(name, bit) EFFECT_##name = 1u << (bit),
#include "policy/effect.tbl"
#undef X
};
#define EFFECT_COUNT 17
#define EFFECT_SET_DATA ((uint32_t)(EFFECT_read | EFFECT_txn))
#define EFFECT_SET_CHANGE ((uint32_t)(EFFECT_write | EFFECT_schema))
#define EFFECT_SET_DESTRUCTIVE \
	((uint32_t)(EFFECT_delete | EFFECT_bulk | EFFECT_drop | EFFECT_overwrite | EFFECT_disrupt))
#define EFFECT_SET_ESCAPE                                                                    \
	((uint32_t)(EFFECT_session | EFFECT_exec | EFFECT_priv | EFFECT_net | EFFECT_audit | \
		    EFFECT_secret | EFFECT_opaque | EFFECT_invalid))

/* One effect or built-in set ("delete", "@data"); 0 if unknown. */
uint32_t effect_parse(struct str name);
const char *effect_name(unsigned bit); /* 0..16 */
/* Names of a set, sorted by name, joined by ' '. */
void effect_put(struct buf *out, uint32_t set);
void effect_jcs(
    struct jcs *j, const char *key, uint32_t set); /* array of names sorted by byte order */
/* From a JSON array of plain names; false if any is unknown. */
bool effect_from_json(const struct json *array, uint32_t *ret);

#endif
