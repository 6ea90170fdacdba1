/* Requests to switch protocols: which of them a target lets pass, and what they do. Pure. */
#ifndef POLICY_EFFECTS_UPGRADE_H
#define POLICY_EFFECTS_UPGRADE_H

#include "policy/effects_http.h"

/*
 * NULL: none that the target says anything of: then a request with an Upgrade field is opaque, and
 * *ret_why, static, is for people.
 */
const struct policy_upgrade *effects_upgrade(
    const struct policy_target *t, const struct http_request *r, const char **ret_why);

#endif
