/*
 * Names of what a request touches. Linked into core and the command line; pure. Must never lose a
 * name in silence: what does not fit is said to be over.
 */
#include "policy/resource.h"

#include "common/banned.h"

void
resources_add(struct resources *r, const struct str *parts, size_t n)
{
	size_t len = 0, at = r->used;
	struct str name;

	for (size_t i = 0; i < n; i++)
		len += parts[i].n;
	if (r->n == RESOURCES_MAX || len > RESOURCES_TEXT_MAX - at) {
		r->over = true;
		return;
	}
	for (size_t i = 0; i < n; at += parts[i].n, i++)
		if (parts[i].n != 0)
			memcpy(r->text + at, parts[i].p, parts[i].n);
	name = str_mem(r->text + r->used, len);
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(name, str_mem(r->text + r->at[i], r->len[i])))
			return;
	r->at[r->n] = r->used;
	r->len[r->n++] = (uint16_t)len;
	r->used = (uint16_t)at;
}

size_t
resources_list(const struct resources *r, struct str out[RESOURCES_MAX])
{
	for (size_t i = 0; i < r->n; i++)
		out[i] = str_mem(r->text + r->at[i], r->len[i]);
	return r->n;
}

/* Which ends of the pattern the first i bytes of the name can lead to: one row for each i. */
bool
resource_overlaps(struct str pattern, struct str name)
{
	bool row[RESOURCES_TEXT_MAX + 1] = {true}, left, star;

	if (pattern.n > RESOURCES_TEXT_MAX)
		return true;
	for (size_t k = 0; k < pattern.n; k++)
		row[k + 1] = row[k] && pattern.p[k] == '*';
	for (size_t i = 0; i < name.n; i++) {
		bool any = name.p[i] == '*';

		left = row[0];
		row[0] = left && any;
		for (size_t k = 0; k < pattern.n; k++) {
			bool was = row[k + 1];

			star = pattern.p[k] == '*';
			/* Either star may stand for nothing, or for one more. */
			if (any)
				row[k + 1] = was || row[k];
			else if (star)
				row[k + 1] = row[k] || was;
			else
				row[k + 1] = left && pattern.p[k] == name.p[i];
			left = was;
		}
	}
	return row[pattern.n];
}
