/*
 * What may stand in a profile (process: cofferdam-agent). A guard against a profile that carries a
 * secret into a sandbox, or changes what programs there trust and how they start; the walls do not
 * rest on it. Pure.
 */
#include "agent/profile_check.h"

#include <string.h>

#include "common/token.h"
#include "agent/profile.h"
#include "agent/sandbox/sandbox_env.h"

#include "common/banned.h"

#define PATH_BYTES_MAX 255
#define WORD_LIKE_KEY 32 /* letters and digits in one word, both of them */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool
profile_check_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'z') &&
		    !(s.p[i] == '-' && i != 0))
			return false;
	return s.n != 0 && s.n <= PROFILE_NAME_MAX;
}

bool
profile_check_path(struct str s)
{
	struct str part;
	bool more;

	if (s.n == 0 || s.n > PATH_BYTES_MAX || !str_is_ascii_print(s))
		return false;
	do {
		more = str_cut(&s, '/', &part);
		if (!more)
			part = s;
		if (part.n == 0 || str_eqz(part, ".") || str_eqz(part, ".."))
			return false;
	} while (more);
	return true;
}

/* --- what looks like a key ------------------------------------------------------- */

static bool
is_uuid(struct str s)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (s.n < sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		char c = s.p[i], lower = (char)(c | 0x20);
		bool hex = is_digit(c) || (lower >= 'a' && lower <= 'f');

		if (form[i] == '-' ? c != '-' : !hex)
			return false;
	}
	return true;
}

/* Bytes of the word that s begins with, and whether it has letters and digits. */
static size_t
word_of(struct str s, bool *ret_both)
{
	bool digit = false, letter = false;
	size_t n = 0;

	while (n < s.n &&
	       (is_digit(s.p[n]) || is_letter(s.p[n]) || strchr("_+=", s.p[n]) != NULL) &&
	       s.p[n] != '\0') {
		digit = digit || is_digit(s.p[n]);
		letter = letter || is_letter(s.p[n]);
		n++;
	}
	*ret_both = digit && letter;
	return n;
}

static bool
has_key(struct str s)
{
	struct str found;
	bool both;

	if (token_find(s, &found))
		return true;
	for (size_t i = 0; i < s.n;) {
		struct str rest = str_mem(s.p + i, s.n - i);
		size_t n = word_of(rest, &both);

		if (is_uuid(rest) || (both && n >= WORD_LIKE_KEY))
			return true;
		i += n != 0 ? n : 1;
	}
	return false;
}

const char *
profile_check_text(struct str s)
{
	enum profile_provider provider;
	enum profile_part part;
	struct str text;
	bool more;
	int rc;

	if (memchr(s.p, '\0', s.n) != NULL)
		return "has a NUL byte";
	do {
		more = profile_template_next(&s, &text, &provider, &part, &rc);
		if (rc != 0)
			return "has a \"${\" that begins none of ${anthropic.url}, .host, .key, "
			       ".key.end, or the same of openai or google";
		if (has_key(text))
			return "holds what looks like a key: a profile has placeholders alone, as "
			       "${anthropic.key}; keys are the broker's (cofferdam credential add)";
	} while (more);
	return NULL;
}

/* --- variables ------------------------------------------------------------------- */

/* "OPENAI_API_KEY", "GITHUB_TOKEN"; not "MAX_TOKENS". */
static bool
names_key(struct str name)
{
	static const char *const words[] = {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD",
	    "PASSWD", "PASS", "CREDENTIAL", "CREDENTIALS"};
	struct str part;
	bool more;

	do {
		more = str_cut(&name, '_', &part);
		if (!more)
			part = name;
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (str_ieqz(part, words[i]))
				return true;
	} while (more);
	return false;
}

/* They say how programs start, whom they trust, or where they connect. */
static bool
is_taken(struct str name)
{
	static const char *const taken[] = {"PWD", "IFS", "ENV", "BASH_ENV", "NODE_OPTIONS",
	    "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERL5OPT", "RUBYOPT",
	    "JAVA_TOOL_OPTIONS", "NODE_TLS_REJECT_UNAUTHORIZED", "NODE_USE_ENV_PROXY",
	    "GIT_SSL_NO_VERIFY"};
	static const char *const prefixes[] = {"LD_", "COFFERDAM", "SSL_CERT_", "PG"};

	if (sandbox_env_is_own(name))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (str_eqz(name, taken[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_has_prefix(name, prefixes[i]))
			return true;
	return str_has_suffix(name, "_PROXY") || str_has_suffix(name, "_proxy") ||
	       str_has_suffix(name, "_CA_BUNDLE");
}

static bool
is_variable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_letter(s.p[i]) && s.p[i] != '_' && !(i != 0 && is_digit(s.p[i])))
			return false;
	return s.n != 0 && s.n <= PROFILE_NAME_MAX;
}

/* Exactly "${PROVIDER.key}". */
static bool
is_placeholder(struct str s)
{
	enum profile_provider provider;
	enum profile_part part;
	struct str text;
	int rc;

	return profile_template_next(&s, &text, &provider, &part, &rc) && text.n == 0 &&
	       part == PROFILE_KEY && s.n == 0;
}

const char *
profile_check_variable(struct str name, struct str value)
{
	if (!is_variable(name))
		return "is no name of a variable";
	if (is_taken(name))
		return "is the sandbox's or the plan's: a profile cannot change how programs "
		       "start, "
		       "whom they trust and where they connect";
	if (names_key(name) && value.n != 0 && !is_placeholder(value))
		return "says by its name that it is a key: it may hold nothing, or one placeholder "
		       "as \"${anthropic.key}\"";
	return NULL;
}
