/*
 * What people must be shown before they are asked (process: core). Where a rule says that its
 * preview is required and the target cannot be asked, nobody is: the action is refused, and says
 * why. Without a word of the target there is no preview; one that failed is none.
 */
#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_decide.h"
#include "common/xalloc.h"
#include "policy/policy.h"

#include "common/banned.h"

/* "failed=time", "plan-rows=3 count-failed=57014" */
static bool
has_failed(struct str preview)
{
	return memmem(preview.p, preview.n, "failed=", strlen("failed=")) != NULL ||
	       str_has_prefix(preview, "refs=not-known");
}

static char *
not_asked(const struct core_from *f)
{
	const struct policy *p = f->run->core->policy;
	struct str id = str_z(core_from_target(f));
	const struct policy_target *t = p != NULL ? policy_target(p, id) : NULL;

	if (t == NULL || t->preview == PREVIEW_NONE)
		return xasprintf("target %.*s has no \"preview\" in the policy", STR_ARG(id));
	if (f->pg != NULL)
		return xstrdup("only one change of rows, alone and outside a transaction, has one");
	return xstrdup(t->kind == TARGET_GIT   ? "only a push has one"
		       : t->kind == TARGET_K8S ? "only PUT, PATCH and DELETE of one object have one"
					       : "only PUT, PATCH and DELETE have one");
}

/* Why there is none; NULL: there is. */
static char *
missing(const struct core_from *f, const struct core_request *rq)
{
	struct str preview = str_z(rq->preview != NULL ? rq->preview : "");

	if (preview.n == 0)
		return not_asked(f);
	if (str_eqz(preview, "none"))
		return xstrdup(
		    "the target has no such thing, or says nothing that would tell it from "
		    "another");
	if (has_failed(preview))
		return xasprintf("asked for it, the target gave: %.*s", STR_ARG(preview));
	return NULL;
}

void
core_decide_shown(const struct core_from *f, struct core_action *a)
{
	if (!a->d.preview || !a->request_new || !core_request_open(a->request))
		return;
	a->unshown = missing(f, a->request);
	if (a->unshown == NULL)
		return;
	core_approve_state(a->request, CORE_RQ_VOID, "not_recorded");
	a->request = NULL;
	a->request_new = false;
	core_decide_words(f, a);
}
