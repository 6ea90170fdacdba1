/* Base URL of a provider's API. */
#ifndef AGENT_MODEL_URL_H
#define AGENT_MODEL_URL_H

#include "common/err.h"

struct model_url {
	char *authority; /* for Host: the port stands there unless it is 443 of https */
	char *path;	 /* "" or "/x/y", no slash at its end */
};

/*
 * http(s)://HOST[:PORT][/PATH]; no user, query or fragment; path segments of [A-Za-z0-9._~-], not
 * "." or "..". ERR_INVALID names --base-url. The broker knows the target by host and port.
 */
int model_url_parse(const char *text, struct model_url *ret, struct err *err);
void model_url_free(struct model_url *u);

#endif
