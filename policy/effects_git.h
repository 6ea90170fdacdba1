/* git over smart HTTP (git/git gitprotocol-http, gitprotocol-pack) to effects. Pure. */
#ifndef POLICY_EFFECTS_GIT_H
#define POLICY_EFFECTS_GIT_H

#include "policy/effects_http.h"

/* By the head. A push is opaque until its commands are judged; its resource is "REPOSITORY:*". */
void effects_git(const struct policy_target *t, const struct http_request *r, struct http_view *v);

/* What is known of one command's objects: only who has looked into the pack can say. */
enum git_ancestor { GIT_UNKNOWN = 0, GIT_FORWARD, GIT_FORCED };
struct git_seen {
	enum git_ancestor ancestor;
	bool looked; /* paths are all that it changes */
	size_t npaths;
	const struct str *paths;
};
/*
 * The commands of a push (policy/facts.h), one of `seen` for each; NULL: nothing is known. Sets the
 * effects anew and names the refs; not of the closed form: opaque.
 */
void effects_git_push(const struct policy_target *t, const struct json *facts,
    const struct git_seen *seen, size_t nseen, struct http_view *v);

#endif
