/* A run that goes on at a head says what one from the beginning says, which holds that head as a
 * pin: in everything but that it went on. */
#ifndef FUZZ_RESUME_SAME_H
#define FUZZ_RESUME_SAME_H

#include <stdlib.h>
#include <string.h>

#include "audit/verify.h"
#include "common/xalloc.h"

/* NULL: they say the same; else both, the caller's. *ret_resumed: it did not begin anew. */
static inline char *
resume_differs(int logdir, const struct vkeys *keys, const struct pin *at, bool *ret_resumed)
{
	const struct pin twice[] = {*at, *at};
	const struct verify_ask went_on = {.resume = at};
	AUTO_BUF struct buf on = BUF((size_t)1 << 20), whole = BUF((size_t)1 << 20);
	struct verdict *v = xcalloc(3, sizeof(*v));
	char *ret = NULL;
	int rc[3];

	rc[0] = verify_log_asked(logdir, keys, &went_on, &v[0], NULL);
	rc[1] = verify_log(logdir, keys, twice, 1, &v[1], NULL);
	rc[2] = verify_log(logdir, keys, twice, 2, &v[2], NULL);
	*ret_resumed = v[0].resumed != 0;
	v[0].resumed = v[0].unlike = 0;
	v[1].heads -= v[2].heads - v[1].heads; /* the pin's own, if it held */
	verdict_put_json(&on, &v[0], STR(""));
	verdict_put_json(&whole, &v[1], STR(""));
	if (rc[0] != rc[1] || !str_eq(buf_str(&on), buf_str(&whole)))
		ret = xasprintf("resumed at %llu: %d %.*swhole: %d %.*s",
		    (unsigned long long)at->cp.size, rc[0], STR_ARG(buf_str(&on)), rc[1],
		    STR_ARG(buf_str(&whole)));
	free(v);
	return ret;
}

#endif
