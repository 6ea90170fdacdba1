/*
 * Names and sets of effects. Linked into core, the command line and every test; pure. An
 * unknown name is 0, and 0 never widens anything: callers treat it as an error.
 */
#include "policy/effect.h"

#include "common/banned.h"

static const char *const names[EFFECT_COUNT] = {
#define X(name, bit) [bit] = #name,
#include "policy/effect.tbl"
#undef X
};

/* Bits in byte order of their names. */
static const uint8_t sorted[EFFECT_COUNT] = {
    13, /* audit */
    5,	/* bulk */
    4,	/* delete */
    8,	/* disrupt */
    6,	/* drop */
    10, /* exec */
    16, /* invalid */
    12, /* net */
    15, /* opaque */
    7,	/* overwrite */
    11, /* priv */
    0,	/* read */
    3,	/* schema */
    14, /* secret */
    9,	/* session */
    1,	/* txn */
    2,	/* write */
};

static const struct {
	const char *name;
	uint32_t set;
} sets[] = {
    {"@data", EFFECT_SET_DATA},
    {"@change", EFFECT_SET_CHANGE},
    {"@destructive", EFFECT_SET_DESTRUCTIVE},
    {"@escape", EFFECT_SET_ESCAPE},
};

uint32_t
effect_parse(struct str name)
{
	for (unsigned i = 0; i < EFFECT_COUNT; i++)
		if (str_eqz(name, names[i]))
			return 1u << i;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (str_eqz(name, sets[i].name))
			return sets[i].set;
	return 0;
}

const char *
effect_name(unsigned bit)
{
	return bit < EFFECT_COUNT ? names[bit] : "opaque";
}

void
effect_put(struct buf *out, uint32_t set)
{
	const char *sep = "";

	for (size_t i = 0; i < EFFECT_COUNT; i++) {
		if ((set & 1u << sorted[i]) == 0)
			continue;
		buf_put_z(out, sep);
		buf_put_z(out, names[sorted[i]]);
		sep = " ";
	}
}

void
effect_jcs(struct jcs *j, const char *key, uint32_t set)
{
	jcs_array(j, key);
	for (size_t i = 0; i < EFFECT_COUNT; i++)
		if ((set & 1u << sorted[i]) != 0)
			jcs_z(j, NULL, names[sorted[i]]);
	jcs_array_end(j);
}

bool
effect_from_json(const struct json *array, uint32_t *ret)
{
	uint32_t set = 0;

	if (array == NULL || json_type(array) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_count(array); i++) {
		struct str name = json_str(json_at(array, i));
		uint32_t e = effect_parse(name);

		if (e == 0 || str_has_prefix(name, "@"))
			return false;
		set |= e;
	}
	*ret = set;
	return true;
}
