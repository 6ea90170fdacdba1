/*
 * From options to a sandbox, and to one that is there (the command line, as the person who types
 * it). Directories that hold keys are refused here, before anything is built.
 */
#include "agent/sandbox/cli.h"

#include <string.h>

#include "common/log.h"

#include "common/banned.h"

int
cli_fail(const struct err *e)
{
	log_error("%s", e->msg);
	return e->code == ERR_INVALID ? CLI_USAGE : CLI_FAILED;
}

bool
cli_has_spec(const struct cli *c)
{
	static const struct sandbox_limits none;
	const char *const texts[] = {
	    c->workspace, c->overlay, c->image, c->backend, c->state, c->socket};
	bool any = memcmp(&c->limits, &none, sizeof(none)) != 0 || c->binds.n != 0 ||
		   c->nlabels != 0 || c->may_lack != 0 || c->workspace_unsafe || c->level ||
		   c->spare_s != 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		any = any || texts[i] != NULL;
	return any;
}

static struct sandbox_spec
spec_of(const struct cli *c, const char *name)
{
	return (struct sandbox_spec){.limits = c->limits,
	    .name = name,
	    .backend = c->backend,
	    .image = c->image,
	    .labels = c->labels,
	    .workspace = c->overlay != NULL ? c->overlay : c->workspace,
	    .overlay = c->overlay != NULL,
	    .binds = c->binds.at,
	    .nbinds = c->binds.n,
	    .env = c->env,
	    .may_lack = c->may_lack};
}

static int
guard(const struct cli *c, struct sandbox_workspace *ret, struct err *err)
{
	const struct sandbox_guard g = {.workspace = c->overlay != NULL ? c->overlay : c->workspace,
	    .workspace_option = c->overlay != NULL ? "--overlay" : "--workspace",
	    .image = c->image,
	    .binds = c->binds.at,
	    .nbinds = c->binds.n,
	    .state = c->state,
	    .socket = c->socket,
	    .unsafe = c->workspace_unsafe};

	if (c->overlay != NULL && c->workspace != NULL)
		return err_set(err, ERR_INVALID, "--workspace and --overlay: give one");
	return sandbox_workspace_check(&g, ret, err);
}

static int
build(const struct cli *c, const struct sandbox_spec *spec, bool here, struct sandbox **ret,
    struct err *err)
{
	if (!here)
		return sandbox_create(spec, ret, err);
	return c->spare_s != 0 ? sandbox_create_spare(spec, (uint32_t)c->spare_s, ret, err)
			       : sandbox_create_once(spec, ret, err);
}

int
cli_create(const struct cli *c, const char *name, bool here, struct sandbox **ret, char **ret_level)
{
	struct sandbox_spec spec = spec_of(c, name);
	struct sandbox_bind binds[SANDBOX_BINDS_MAX];
	AUTO_WORKSPACE struct sandbox_workspace ws = {0};
	AUTO_FREE char *warning = NULL;
	struct err e = {0};

	/* As it was given: the real paths behind it have no dots and are never relative. */
	if (sandbox_spec_check(&spec, &e) != 0 || guard(c, &ws, &e) != 0)
		return cli_fail(&e);
	sandbox_workspace_apply(&ws, binds, &spec);
	if ((warning = sandbox_workspace_warning(&ws)) != NULL)
		log_warn("%s", warning);
	if (build(c, &spec, here, ret, &e) != 0) {
		log_error("%s", e.msg);
		return e.code == ERR_INVALID || e.code == ERR_EXISTS ? CLI_USAGE : CLI_UNAVAILABLE;
	}
	*ret_level = sandbox_workspace_level(&ws, sandbox_level(*ret));
	return CLI_OK;
}

int
cli_attach(const char *name, struct sandbox **ret)
{
	struct err e = {0};

	return sandbox_attach(name, ret, &e) == 0 ? CLI_OK : cli_fail(&e);
}
