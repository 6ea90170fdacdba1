/*
 * HTTP requests to effects, by tables alone. Linked into core and the command line; pure. Must
 * never call a request harmless because its method says so where something else says otherwise.
 */
#include "policy/effects_http.h"

#include "common/banned.h"

const char *
http_api_name(enum http_api a)
{
	switch (a) {
	case HTTP_API_NONE: return "none";
	case HTTP_API_GRAPHQL: return "graphql";
	case HTTP_API_FORM: return "form";
	case HTTP_API_MODEL: return "model";
	}
	return "none";
}

void
effects_http(const struct policy_target *t, const struct http_request *r, struct http_view *ret)
{
	(void)t;
	(void)r;
	*ret = (struct http_view){.effects = EFFECT_opaque, .statements = 1};
}

void
effects_http_fault(struct str method_claim, struct http_view *ret)
{
	(void)method_claim;
	*ret = (struct http_view){.effects = EFFECT_invalid, .statements = 1};
}

void
effects_http_body(const struct policy_target *t, enum http_api api, const struct json *facts,
    struct http_view *view)
{
	(void)t;
	(void)api;
	(void)facts;
	view->effects |= EFFECT_opaque;
}

void
effects_http_body_fault(const char *why, struct http_view *view)
{
	view->effects |= EFFECT_invalid;
	view->fault = why;
}
