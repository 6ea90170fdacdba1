/*
 * What all transfers of upstream share. Runs in upstream. All of libcurl's memory is wiped when it
 * is freed: copies of a request's head, with the credential in it, are in there.
 */
#include <stdlib.h>

#include "broker/upstream_http_int.h"

#include "common/banned.h"

/* --- memory ---------------------------------------------------------------------- */

/* In front of each block. */
union head {
	size_t n;
	max_align_t align;
};

static void *
wiping_malloc(size_t n)
{
	union head *p = n <= SIZE_MAX - sizeof(*p) ? malloc(sizeof(*p) + n) : NULL;

	if (p == NULL)
		return NULL;
	p->n = n;
	return p + 1;
}

static void
wiping_free(void *ptr)
{
	union head *p = ptr;

	if (p == NULL)
		return;
	p--;
	explicit_bzero(p + 1, p->n);
	free(p);
}

static void *
wiping_realloc(void *ptr, size_t n)
{
	void *to = wiping_malloc(n);
	size_t had = ptr != NULL ? ((union head *)ptr - 1)->n : 0;

	if (to == NULL)
		return NULL;
	if (had != 0)
		memcpy(to, ptr, had < n ? had : n);
	wiping_free(ptr);
	return to;
}

static void *
wiping_calloc(size_t count, size_t size)
{
	size_t n;
	void *p = __builtin_mul_overflow(count, size, &n) ? NULL : wiping_malloc(n);

	if (p != NULL)
		memset(p, 0, n);
	return p;
}

static char *
wiping_strdup(const char *z)
{
	size_t n = strlen(z) + 1;
	char *p = wiping_malloc(n);

	if (p != NULL)
		memcpy(p, z, n);
	return p;
}

/* --- life ------------------------------------------------------------------------ */

static void
on_done(void *exchange, CURLcode result)
{
	transfer_done(exchange, result);
}

int
transfers_init(struct upstream_http *h, struct err *err)
{
	if (curl_global_init_mem(CURL_GLOBAL_ALL, wiping_malloc, wiping_free, wiping_realloc,
		wiping_strdup, wiping_calloc) != CURLE_OK)
		return err_set(err, ERR_SYSTEM, "libcurl cannot start");
	return multi_init(&h->multi, h->hub->loop, on_done, UPSTREAM_HTTP_IDLE_CONNS, err);
}

void
transfers_free(struct upstream_http *h)
{
	multi_free(&h->multi);
	curl_global_cleanup();
}
