/*
 * Profiles of agents that people already use: what one must be told to find the broker where it
 * expects its provider. A profile adds variables and files inside a sandbox and nothing else: it
 * names no target, no path of the host, no effect, and no secret. docs/wrapped-agents.md.
 */
#ifndef AGENT_PROFILE_H
#define AGENT_PROFILE_H

#include "common/buf.h"
#include "common/err.h"

#define PROFILE_SIZE_MAX ((size_t)256 << 10)
#define PROFILE_NAME_MAX 64
#define PROFILE_VARS_MAX 64
#define PROFILE_FILES_MAX 16
#define PROFILE_COMMANDS_MAX 8
#define PROFILE_TEXT_MAX ((size_t)64 << 10)
#define PROFILE_HOME "/tmp/home"
#define PROFILE_SUFFIX ".json"

enum profile_provider { PROFILE_ANTHROPIC, PROFILE_OPENAI, PROFILE_GOOGLE, PROFILE_PROVIDERS };
const char *profile_provider_name(enum profile_provider p);

/* Of a variable, or of a file below the home. Its text may hold "${PROVIDER.PART}". */
struct profile_item {
	char *name, *text;
};

struct profile {
	char *name, *about;
	char *path;  /* the file that it was read from */
	bool theirs; /* of the person's own directory */
	char *commands[PROFILE_COMMANDS_MAX];
	size_t ncommands;
	bool speaks[PROFILE_PROVIDERS]; /* one of these must be there; none: it needs no model */
	struct profile_item vars[PROFILE_VARS_MAX], files[PROFILE_FILES_MAX];
	size_t nvars, nfiles;
};

/*
 * Strict: an unknown or doubled key, a variable that says how programs start or what they trust, a
 * path that leaves the home, a template that does not exist, and what looks like a key are errors
 * with `where`:line:column.
 */
int profile_parse(struct str text, const char *where, struct profile **ret, struct err *err);
void profile_free(struct profile *p);
DEFINE_AUTO(profile, struct profile, profile_free)

/*
 * A template's next part: *ret_text before it, then the provider and which part of it ("url",
 * "host", "key", "key.end"). False: *s holds no more, *ret_text is the rest. ERR_SYNTAX in *ret_rc
 * when "${" begins no such template.
 */
enum profile_part { PROFILE_URL, PROFILE_HOST, PROFILE_KEY, PROFILE_KEY_END, PROFILE_PARTS };
bool profile_template_next(struct str *s, struct str *ret_text, enum profile_provider *ret_provider,
    enum profile_part *ret_part, int *ret_rc);

#endif
