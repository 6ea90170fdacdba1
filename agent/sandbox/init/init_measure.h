/* What really holds for pid 1, read back from the kernel. */
#ifndef INIT_MEASURE_H
#define INIT_MEASURE_H

#include <stdbool.h>

#include "agent/sandbox/init/init_text.h"

/*
 * Members of a JSON object for INSIDE_READY, or false and in *ret which row is not what it must
 * be. Signals that whoever started this ignores get their default back.
 */
enum walls {
	WALLS_OURS = 0, /* Landlock must be there */
	WALLS_LESS,	/* the kernel may lack it */
	WALLS_OCI,	/* another run time's: it has none */
	WALLS_GVISOR,	/* the same, and a kernel that says less of itself */
};
bool measure(enum walls w, struct text *ret);

#endif
