/* The OCI back ends' place in the table of a build without them. Runs in the supervisor. */
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

const struct backend backend_crun = {.name = "crun", .start = start, .end = end};
const struct backend backend_runc = {.name = "runc", .start = start, .end = end};
const struct backend backend_runsc = {.name = "runsc", .start = start, .end = end};
