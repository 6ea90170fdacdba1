/* The end of the notifications in a build without the filter. Runs in the supervisor. */
#include "agent/sandbox/filter.h"

#include "common/banned.h"

struct filter_counts *
filter_counts_new(void)
{
	return NULL;
}

void
filter_counts_free(struct filter_counts *c UNUSED)
{
}

bool
filter_notify_turn(int listener UNUSED, struct filter_counts *c UNUSED, unsigned max UNUSED)
{
	return false;
}

void
filter_counts_json(struct filter_counts *c UNUSED, bool reset UNUSED, struct buf *out)
{
	buf_put_z(out, "[]");
}
