/*
 * What a server shows of a thing before people are asked to change it: read from its answer, as
 * words that people sign, and put into the request as a condition. Pure; linked by core.
 */
#ifndef POLICY_LOOK_H
#define POLICY_LOOK_H

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"

#define LOOK_WORD_MAX ((size_t)200) /* bytes of an ETag, a uid, a resourceVersion */
#define LOOK_REFS_MAX 64	    /* commands of a push that are held against the server's list */

/* Strong, printable, of at most LOOK_WORD_MAX bytes (RFC 9110 8.8.3): fit for If-Match. */
bool look_etag_is_strong(struct str etag);

/* metadata.uid and metadata.resourceVersion of one object. ERR_SYNTAX: it has not both of them in
 * plain characters. */
int look_k8s(struct str json, struct buf *ret_uid, struct buf *ret_version, struct err *err);
/*
 * DeleteOptions with these preconditions: `body` as it came with one member more, in front of the
 * others; empty: one of its own. ERR_EXISTS: it has preconditions already. ERR_SYNTAX: no object.
 */
int look_k8s_bind(
    struct str body, struct str uid, struct str version, struct buf *out, struct err *err);

/*
 * The server's list of refs (git/git gitprotocol-http: info/refs of git-receive-pack) against the
 * commands of a push, as facts have them (policy/facts.h). *ret_ref: the first ref whose old id is
 * not what the server says, borrowed; NULL-length: all agree. ERR_SYNTAX: no such list;
 * ERR_TOO_COMPLEX: more than LOOK_REFS_MAX commands.
 */
int look_git(struct str list, const struct json *commands, struct str *ret_ref, struct err *err);

/* Words that bind: the thing must still be so when the action is used. The part of them that must
 * be equal then; empty: they bind nothing ("none", "failed=...", or not as the agent had said). */
struct str look_bound(struct str words);
/* Of words "KEY=VALUE ..." the value behind that key, to the next space; empty: it is not there. */
struct str look_word(struct str words, const char *key);

#endif
