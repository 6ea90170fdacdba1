/*
 * What a PostgreSQL start-up parameter does. Runs in core and the command line, on bytes the
 * client chose. Only the closed list is harmless: an unknown name is a session setting, and
 * a value is never dropped or mended, since the server would still see it.
 */
#include <ctype.h>

#include "policy/facts.h"
#include "policy/facts_pg.h"

#include "common/banned.h"

static const char *const harmless[] = {
#define X(name) name,
#include "policy/pg_settings.tbl"
#undef X
};

bool
facts_pg_setting_harmless(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (str_ieqz(name, harmless[i]))
			return true;
	return false;
}

/* The server compares encoding names by letters and digits alone, without case (encnames.c). */
static bool
encoding_is_utf8(struct str value)
{
	char name[16];
	size_t n = 0;

	for (size_t i = 0; i < value.n; i++) {
		if (!isalnum((unsigned char)value.p[i]))
			continue;
		if (n == sizeof(name))
			return false;
		name[n++] = (char)tolower((unsigned char)value.p[i]);
	}
	return str_eqz(str_mem(name, n), "utf8") || str_eqz(str_mem(name, n), "unicode");
}

bool
facts_pg_pinned_value(struct str name, struct str value)
{
	if (str_ieqz(name, "client_encoding"))
		return encoding_is_utf8(value);
	if (str_ieqz(name, "standard_conforming_strings"))
		return str_ieqz(value, "on") || str_ieqz(value, "true");
	return false;
}

static uint32_t
setting_effects(struct str name, struct str value)
{
	if (facts_pg_setting_harmless(name) || facts_pg_pinned_value(name, value))
		return EFFECT_read;
	return EFFECT_session;
}

/* The next word as pg_split_opts cuts it: white space ends it, a backslash keeps the next byte. */
static bool
option_word(struct str *s, struct buf *word)
{
	size_t i = 0;

	buf_reset(word);
	while (i < s->n && isspace((unsigned char)s->p[i]))
		i++;
	if (i == s->n)
		return false;
	for (; i < s->n && !isspace((unsigned char)s->p[i]); i++) {
		if (s->p[i] == '\\' && ++i == s->n)
			break;
		buf_put_c(word, s->p[i]);
	}
	*s = str_mem(s->p + i, s->n - i);
	return true;
}

/* "name=value", where ParseLongOption reads '-' in the name as '_'. */
static uint32_t
assignment_effects(struct str text)
{
	AUTO_BUF struct buf name = BUF(256);
	struct str head;

	if (!str_cut(&text, '=', &head))
		return EFFECT_session;
	for (size_t i = 0; i < head.n; i++)
		buf_put_c(&name, head.p[i] == '-' ? '_' : head.p[i]);
	return buf_over(&name) ? EFFECT_session : setting_effects(buf_str(&name), text);
}

static uint32_t
options_effects(struct str value)
{
	AUTO_BUF struct buf word = BUF(1 << 16);
	uint32_t effects = EFFECT_read;

	while (option_word(&value, &word)) {
		struct str w = buf_str(&word);

		if (buf_over(&word))
			return EFFECT_session;
		if (str_eqz(w, "-c")) {
			if (!option_word(&value, &word) || buf_over(&word))
				return EFFECT_session;
			effects |= assignment_effects(buf_str(&word));
		} else if (str_has_prefix(w, "-c") || str_has_prefix(w, "--")) {
			effects |= assignment_effects(str_mem(w.p + 2, w.n - 2));
		} else {
			return EFFECT_session;
		}
	}
	return (effects & EFFECT_session) != 0 ? EFFECT_session : effects;
}

uint32_t
effects_pg_startup(struct str key, struct str value)
{
	if (str_ieqz(key, "replication"))
		return EFFECT_opaque; /* another grammar, and the write-ahead log */
	if (str_ieqz(key, "options"))
		return options_effects(value);
	return setting_effects(key, value);
}
