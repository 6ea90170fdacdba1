/*
 * Names of what one request touches, for the condition key "resource". Every kind of target has a
 * form of its own (docs/format-policy.md 4); a '*' in one stands for any run of bytes: a
 * collection, or what was not told. Plain values, so that whoever holds a view holds its names.
 */
#ifndef POLICY_RESOURCE_H
#define POLICY_RESOURCE_H

#include "common/str.h"

#define RESOURCES_MAX 64 /* as FACTS_RELATIONS_MAX */
#define RESOURCES_TEXT_MAX ((size_t)4096)

struct resources {
	uint16_t n, used;
	bool over; /* not all are here: the request counts as opaque */
	uint16_t at[RESOURCES_MAX], len[RESOURCES_MAX];
	char text[RESOURCES_TEXT_MAX];
};
/* The parts as one name; one that is there already is not added again. */
void resources_add(struct resources *r, const struct str *parts, size_t n);
#define RESOURCES_ADD(r, ...)                                 \
	resources_add((r), (const struct str[]){__VA_ARGS__}, \
	    sizeof((const struct str[]){__VA_ARGS__}) / sizeof(struct str))
/* Borrowed from r. Returns how many. */
size_t resources_list(const struct resources *r, struct str out[RESOURCES_MAX]);
/* Is there a name that both stand for? '*' is any run of bytes in either. */
bool resource_overlaps(struct str pattern, struct str name);

#endif
