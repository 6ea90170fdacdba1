/*
 * One HTTP request to effects: by method, path, headers and, where they say so, by the facts that
 * the parser process found in the body. Pure; linked by core and the command line. What the method
 * claims stands beside whatever makes it doubtful, so that nothing widens what a policy permits.
 */
#ifndef POLICY_EFFECTS_HTTP_H
#define POLICY_EFFECTS_HTTP_H

#include "common/http.h"
#include "common/json.h"
#include "policy/policy.h"
#include "policy/resource.h"

enum http_api {
	HTTP_API_NONE = 0,
	HTTP_API_GRAPHQL, /* the body: X_BODY dialect 2; the query string: X_ASK dialect 2 */
	HTTP_API_FORM,	  /* the body: X_BODY dialect 3 */
	HTTP_API_MODEL,	  /* a known call of a model provider */
	HTTP_API_K8S,	  /* the body: X_BODY dialect 4 */
	HTTP_API_GIT,	  /* the start of the body, up to the end of the commands: dialect 5 */
	HTTP_API_AWS,	  /* the body: dialect 6; the query string: X_ASK dialect 6 */
	HTTP_API_MCP	  /* the body: dialect 7 */
};
#define HTTP_CLAIM_MAX ((size_t)128)
struct http_view {
	uint32_t effects; /* never 0 */
	enum http_api api;
	/*
	 * What must be judged before there is a verdict: the body, or the query string. Until then
	 * GraphQL is opaque; a form has the effects that it has without another method in it.
	 */
	bool body_wanted, query_wanted;
	bool anew;	     /* the effects are set anew by what the body says; else added to */
	bool start_wanted;   /* of the body its start is enough: FACTS_GIT_MAX bytes */
	const char *fault;   /* why it is invalid or opaque, for people; NULL: it is neither */
	unsigned statements; /* of GraphQL: operations; else 1 */
	char claims[2][HTTP_CLAIM_MAX + 1]; /* of MCP: what headers say of the message; "" none */
	uint32_t note; /* what the head says that the body is read by: each api has its own */
	bool deferred; /* it acts later */
	bool upgrade;  /* it asks for a protocol that the target lets pass */
	struct resources resources;
};
/* Of X_ASK and X_BODY; 0: its requests have no facts. */
uint8_t http_api_dialect(enum http_api a);
/* Bytes of a body that the parser looks at. */
size_t http_api_body_max(enum http_api a);
const char *http_api_name(enum http_api a); /* none, graphql, form, model, k8s, git, aws, mcp */

/* t NULL: a target that the policy does not have; judged by the method's own claim. */
void effects_http(
    const struct policy_target *t, const struct http_request *r, struct http_view *ret);
/* A request that is not well-formed: invalid, and what its method claims (it may be empty). */
void effects_http_fault(struct str method_claim, struct http_view *ret);
/*
 * Completes a view of effects_http by the facts of the body or, for GraphQL by GET, of the query
 * string (policy/facts.h). facts NULL, or not in the closed form: opaque. For HTTP_API_GRAPHQL the
 * effects are set anew, for HTTP_API_FORM they are added to; nothing else has facts.
 */
void effects_http_body(const struct policy_target *t, enum http_api api, const struct json *facts,
    struct http_view *view);
/* Adds a doubt: an effect, and why. The first reason stays. */
void effects_http_doubt(struct http_view *v, uint32_t effect, const char *why);
/* The parser found it invalid, or over a limit: invalid besides. `why` must outlive the view. */
void effects_http_body_fault(const char *why, struct http_view *view);

#endif
