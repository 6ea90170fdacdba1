/* multipart/form-data (RFC 7578), read as it comes, any cut of the stream with the same result. */
#ifndef AGENT_E2B_MULTIPART_H
#define AGENT_E2B_MULTIPART_H

#include "common/buf.h"
#include "common/err.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 5.1.1 */
#define MULTIPART_HEAD_MAX ((size_t)8192)
#define MULTIPART_PARTS_MAX 1000

struct multipart_ops {
	/* name and filename as they were sent, %22, %0D and %0A decoded; a filename that is not
	 * there is NULL.p. */
	int (*begin)(void *arg, struct str name, struct str filename, struct err *err);
	int (*data)(void *arg, struct str bytes, struct err *err);
	int (*end)(void *arg, struct err *err); /* of the part */
};

struct multipart {
	const struct multipart_ops *ops;
	void *arg;
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF -- boundary NUL */
	size_t ndelimiter;
	int state;
	size_t matched; /* of the delimiter */
	struct buf line, head;
	unsigned parts;
};

/* ERR_INVALID: not multipart/form-data, or no boundary. */
int multipart_init(struct multipart *m, struct str content_type, const struct multipart_ops *ops,
    void *arg, struct err *err);
void multipart_free(struct multipart *m);
#define AUTO_MULTIPART __attribute__((cleanup(multipart_free)))
/* ERR_SYNTAX, ERR_TOO_LARGE; or what an op returned. */
int multipart_feed(struct multipart *m, struct str bytes, struct err *err);
/* The stream has ended: ERR_SYNTAX unless the last delimiter was there. */
int multipart_end(const struct multipart *m, struct err *err);

#endif
