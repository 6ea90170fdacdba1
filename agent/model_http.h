/* One POST over a stream socket, its answer taken as it comes. */
#ifndef AGENT_MODEL_HTTP_H
#define AGENT_MODEL_HTTP_H

#include "common/http.h"

#define MODEL_HTTP_BODY_MAX ((size_t)1 << 16) /* kept of an answer that is no stream */

struct model_http {
	int (*connect)(void *arg, int *ret_fd, struct err *err);
	void *connect_arg;
	/* As in struct sandbox_exec: looked at while waiting; true ends the wait, ERR_STATE. */
	const int *watch_fd; /* NULL: none */
	bool (*watch)(void *arg);
	void *watch_arg;
	unsigned idle_ms; /* without a byte from the server: ERR_UNAVAILABLE; 0: ten minutes */
};

struct model_post {
	struct str host, path;
	const struct http_field *fields;
	size_t nfields;
	struct str body;   /* JSON */
	uint64_t until_us; /* of clock_boot_us: ERR_TIMEOUT */
	/* Bytes of a 200's event stream: 0 go on, 1 that is all, else the post's error. */
	int (*stream)(void *arg, struct str bytes, struct err *err);
	void *stream_arg;
};

struct model_http_answer {
	struct http_response head; /* borrows from head_bytes; status 0: none came */
	bool streamed;		   /* went to `stream` */
	struct buf head_bytes, body;
};

/*
 * 0: an answer, whole or until `stream` said that is all. ERR_UNAVAILABLE: no connection, or it
 * broke off before the answer's end. *ret is made by the call; free it in any case.
 */
int model_http_post(const struct model_http *h, const struct model_post *p,
    struct model_http_answer *ret, struct err *err);
void model_http_answer_free(struct model_http_answer *a);
#define AUTO_ANSWER __attribute__((cleanup(model_http_answer_free)))
/* Sleeps; ERR_STATE, ERR_TIMEOUT as above. */
int model_http_wait(const struct model_http *h, unsigned ms, uint64_t until_us, struct err *err);

#endif
