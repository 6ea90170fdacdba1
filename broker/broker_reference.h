/* "references" of broker.json: directories that policies may give to runs, to be read. */
#ifndef BROKER_BROKER_REFERENCE_H
#define BROKER_BROKER_REFERENCE_H

#include "common/json.h"

#define BROKER_REFERENCES_MAX 64

struct broker_reference {
	char *name, *path; /* path: absolute */
};
struct broker_references {
	struct broker_reference v[BROKER_REFERENCES_MAX];
	size_t n;
};

/* {"NAME": "/DIR"}. ERR_CONFIG; what was read so far is the caller's to free. */
int broker_references_parse(const struct json_doc *doc, const struct json *v,
    struct broker_references *ret, struct err *err);
void broker_references_free(struct broker_references *r);
/*
 * The directory, to be handed on. ERR_CONFIG: it is none, is reached through a link, or is, holds
 * or lies in the state directory `state`, where the keys are.
 */
int broker_reference_open(
    const struct broker_reference *r, const char *state, int *ret_fd, struct err *err);
/* All of them, before anything is started. */
int broker_references_check(const struct broker_references *r, const char *state, struct err *err);

#endif
