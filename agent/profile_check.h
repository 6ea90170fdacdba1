/* What may stand in a profile, by itself: names, paths, texts. */
#ifndef AGENT_PROFILE_CHECK_H
#define AGENT_PROFILE_CHECK_H

#include "common/str.h"

bool profile_check_name(struct str s);
bool profile_check_path(struct str s); /* relative, below the home */
/* NULL, or why not, as what follows the name: a template that is none, or what looks like a key. */
const char *profile_check_text(struct str s);
/* The same of a variable: also its name, and that one for a key holds nothing but a template. */
const char *profile_check_variable(struct str name, struct str value);

#endif
