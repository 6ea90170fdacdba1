/*
 * Reads a call (process: cofferdam-agent). It comes from a model: nothing of it is done here, and
 * what is wrong with it is told back, so that the model can mend it.
 */
#include "agent/model_call.h"

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define NAME_SHOWN 80

void
model_call_read(struct str name, struct str args, struct model_call *c, struct json_doc **ret_args)
{
	struct err e = {0};

	*c = (struct model_call){.tool = tool_find(name)};
	*ret_args = NULL;
	if (c->tool == NULL) {
		AUTO_FREE char *names = tool_names();
		AUTO_FREE char *said =
		    log_vis(str_mem(name.p, name.n < NAME_SHOWN ? name.n : NAME_SHOWN));

		c->fault = xasprintf("there is no tool \"%s\"; there are: %s", said, names);
		return;
	}
	if (json_parse_numbers(args.n != 0 ? args : STR("{}"), "arguments", ret_args, &e) != 0)
		c->fault = xasprintf("%s: the arguments are no JSON: %s", c->tool->name, e.msg);
	else
		c->fault = tool_args_read(c->tool, json_root(*ret_args), &c->args);
}

void
model_call_drop(struct model_call *c, struct json_doc **args)
{
	cleanup_free_ptr(&c->fault);
	json_free(*args);
	*args = NULL;
}
