/* What really holds for pid 1, read back from the kernel. */
#ifndef INIT_MEASURE_H
#define INIT_MEASURE_H

#include <stdbool.h>

#include "agent/sandbox/init/init_text.h"

/*
 * Members of a JSON object for INSIDE_READY, or false and in *ret which row is not what it must
 * be. Signals that whoever started this ignores get their default back. landlock: Landlock must be
 * there.
 */
bool measure(bool landlock, struct text *ret);

#endif
