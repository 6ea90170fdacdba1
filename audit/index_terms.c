/*
 * Terms of records. Runs in the command line. Reads canonical JSON that was checked; nothing here
 * opens sealed content, so an index knows no more than the log's own lines.
 */
#include "audit/index_terms.h"

#include "common/banned.h"

static const char *const kind_names[] = {
#define X(name, word) word,
    INDEX_KINDS(X)
#undef X
};

/* docs/format-log.md, section 7. A path goes through each element of the arrays on its way. */
static const struct {
	enum index_kind kind;
	const char *path[4];
} places[] = {
    {INDEX_RUN, {"parent"}},
    {INDEX_AGENT, {"agent"}},
    {INDEX_AGENT, {"request", "input", "agent"}},
    {INDEX_PERSON, {"owner"}},
    {INDEX_PERSON, {"request", "input", "owner"}},
    {INDEX_PERSON, {"person"}},
    {INDEX_PERSON, {"signer"}},
    {INDEX_PERSON, {"by"}},
    {INDEX_PERSON, {"login"}},
    {INDEX_PERSON, {"decision", "grants", "person"}},
    {INDEX_TARGET, {"target"}},
    {INDEX_TARGET, {"request", "target"}},
    {INDEX_TARGET, {"targets", "target"}},
    {INDEX_TARGET, {"gone"}},
    {INDEX_EFFECT, {"effects"}},
    {INDEX_EFFECT, {"request", "effects"}},
    {INDEX_VERDICT, {"decision", "verdict"}},
    {INDEX_RULE, {"rule"}},
    {INDEX_RULE, {"decision", "rules"}},
    {INDEX_STATUS, {"status"}},
    {INDEX_ACTION, {"action"}},
    {INDEX_ACTION, {"first"}},
    {INDEX_ACTION, {"request", "cancels"}},
    {INDEX_ID, {"id"}},
    {INDEX_ID, {"decision", "approval"}},
};

const char *
index_kind_name(enum index_kind k)
{
	return kind_names[k];
}

static void
take_path(const struct canon_node *v, const char *const *path, const char *const *end,
    enum index_kind kind, index_term_fn *fn, void *arg)
{
	if (v == NULL)
		return;
	if (v->type == CANON_ARRAY) {
		const struct canon_node *e = canon_first(v);

		for (size_t i = 0; i < v->count; i++, e = canon_behind(e))
			if (e->type != CANON_ARRAY)
				take_path(e, path, end, kind, fn, arg);
	} else if (path < end && *path != NULL) {
		if (v->type == CANON_OBJECT)
			take_path(canon_member(v, *path), path + 1, end, kind, fn, arg);
	} else if (v->type == CANON_STRING && v->text.n != 0) {
		fn(arg, kind, v->text);
	}
}

static bool
is_word_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || (c & 0x80) != 0;
}

static bool
is_word(struct str s)
{
	if (s.n > INDEX_WORD_MAX)
		return false;
	if (s.n < 32)
		return true;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return true;
	return false;
}

void
index_words(struct str text, index_term_fn *fn, void *arg)
{
	size_t i = 0;

	while (i < text.n) {
		size_t from = i;

		while (i < text.n && is_word_byte(text.p[i]))
			i++;
		if (i > from && is_word(str_mem(text.p + from, i - from)))
			fn(arg, INDEX_TEXT, str_mem(text.p + from, i - from));
		i += i == from;
	}
}

/* Texts that are keys, signatures and frames in another coding. */
static bool
is_coded(struct str key)
{
	return str_eqz(key, "signature") || str_eqz(key, "show_frame") || str_eqz(key, "frame") ||
	       str_eqz(key, "vkey");
}

void
index_terms(const struct record *r, struct canon_tree *t, index_term_fn *fn, void *arg)
{
	const struct canon_node *data = canon_tree_set(t, r->data);

	if (r->run.n != 0)
		fn(arg, INDEX_RUN, r->run);
	fn(arg, INDEX_TYPE, r->type);
	fn(arg, INDEX_SRC, r->src);
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		take_path(data, places[i].path, places[i].path + ARRAY_LEN(places[i].path),
		    places[i].kind, fn, arg);
	for (uint32_t i = 0; i < data->size; i++)
		if (data[i].type == CANON_STRING && !is_coded(data[i].key))
			index_words(data[i].text, fn, arg);
}

static uint8_t
fold(enum index_kind kind, char c)
{
	return (uint8_t)(kind == INDEX_TEXT && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

uint64_t
index_term_hash(enum index_kind kind, struct str value)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)kind; /* FNV-1a */

	h *= UINT64_C(0x100000001b3);
	for (size_t i = 0; i < value.n; i++)
		h = (h ^ fold(kind, value.p[i])) * UINT64_C(0x100000001b3);
	h ^= h >> 32; /* the low bits choose a slot */
	return h;
}

bool
index_term_eq(enum index_kind kind, struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (fold(kind, a.p[i]) != fold(kind, b.p[i]))
			return false;
	return true;
}
