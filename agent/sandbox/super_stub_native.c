/* The native back end's place in the table of a build without it. Runs in the supervisor. */
#include "agent/sandbox/backend.h"

#include "common/banned.h"

static int
start(const struct super_spec *s UNUSED, struct backend_box *b UNUSED, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "sandbox: this back end is not built");
}

static void
end(struct backend_box *b UNUSED)
{
}

const struct backend backend_native = {.name = "native", .start = start, .end = end};
