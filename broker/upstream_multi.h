/* libcurl's multi interface on our loop; of upstream and of the courier. */
#ifndef BROKER_UPSTREAM_MULTI_H
#define BROKER_UPSTREAM_MULTI_H

#include <curl/curl.h>

#include "common/err.h"
#include "common/loop.h"

/* A transfer has ended; `private` is its CURLOPT_PRIVATE. Outside libcurl's callbacks. */
typedef void multi_done_fn(void *private, CURLcode result);

struct multi {
	CURLM *curl;
	struct loop *loop;
	struct loop_timer *timer;
	multi_done_fn *done;
};
/* After curl_global_init. At most `idle` connections are kept for later transfers. */
int multi_init(struct multi *m, struct loop *loop, multi_done_fn *done, long idle, struct err *err);
/* No transfer may be in it any more. */
void multi_free(struct multi *m);

#endif
