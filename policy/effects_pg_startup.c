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
static int
assignment(struct str text, struct buf *name, struct buf *value)
{
	struct str head;

	if (!str_cut(&text, '=', &head) || head.n == 0)
		return -1;
	buf_reset(name);
	buf_reset(value);
	for (size_t i = 0; i < head.n; i++) {
		if (head.p[i] == '-')
			buf_put_c(name, '_');
		else
			buf_put_c(name, head.p[i]);
	}
	buf_put_str(value, text);
	return buf_over(name) || buf_over(value) ? -1 : 1;
}

int
effects_pg_option(struct str *rest, struct buf *name, struct buf *value)
{
	AUTO_BUF struct buf word = BUF(1 << 16);
	struct str w;

	if (!option_word(rest, &word))
		return 0;
	w = buf_str(&word);
	if (buf_over(&word))
		return -1;
	if (str_eqz(w, "-c")) {
		if (!option_word(rest, &word) || buf_over(&word))
			return -1;
		return assignment(buf_str(&word), name, value);
	}
	if (str_has_prefix(w, "-c") || str_has_prefix(w, "--"))
		return assignment(str_mem(w.p + 2, w.n - 2), name, value);
	return -1;
}

static uint32_t
options_effects(struct str options)
{
	AUTO_BUF struct buf name = BUF(256);
	AUTO_BUF struct buf value = BUF(1 << 16);
	uint32_t effects = EFFECT_read;
	int r;

	while ((r = effects_pg_option(&options, &name, &value)) > 0)
		effects |= setting_effects(buf_str(&name), buf_str(&value));
	return r < 0 || (effects & EFFECT_session) != 0 ? EFFECT_session : effects;
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
