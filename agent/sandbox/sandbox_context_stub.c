/* Stands in until contexts are there. */
#include "agent/sandbox/sandbox.h"

#include "common/banned.h"

#define WEAK __attribute__((weak))

WEAK int
sandbox_context_open(struct sandbox *sb UNUSED, const char *language UNUSED, const char *cwd UNUSED,
    struct sandbox_context **ret UNUSED, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "sandbox: no contexts here");
}

WEAK int
sandbox_context_run(struct sandbox_context *c UNUSED, const struct sandbox_cell *cell UNUSED,
    struct sandbox_cell_result *ret UNUSED, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "sandbox: no contexts here");
}

WEAK void
sandbox_cell_free(struct sandbox_cell_result *r UNUSED)
{
}

WEAK void
sandbox_context_close(struct sandbox_context *c UNUSED)
{
}
