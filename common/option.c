/*
 * Reads command lines by tables (any program that a person starts; it runs as that person). They
 * come from them, or from a file of theirs: what no row names, and a number outside its limits, is
 * refused and said, never passed over.
 */
#include "common/option.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/str.h"
#include "common/xalloc.h"

#include "common/banned.h"

static bool
is_word(const struct option_row *r)
{
	return (r->kind & OPTION_WORD) != 0;
}

static bool
is_of(const struct option_row *r, unsigned groups)
{
	unsigned own = r->kind >> 8;

	return own == 0 || (own & groups) != 0;
}

bool
option_counts(const struct option_line *l, const struct option_row *r)
{
	return is_of(r, l->groups);
}

static bool
takes_value(const struct option_row *r)
{
	return OPTION_KIND(r) != OPTION_FLAG && (r->kind & OPTION_BARE) == 0;
}

int
option_number(const struct option_row *r, const char *value, uint64_t *ret, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(value));
	uint64_t v;

	if (!str_to_u64(str_z(value), UINT64_MAX, &v) || v < r->min || v > r->max)
		return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, is \"%s\"",
		    r->name, (unsigned long long)r->min, (unsigned long long)r->max, vis);
	*ret = v;
	return 0;
}

int
option_add(const struct option_row *r, const char **list, size_t *n, size_t max, const char *value,
    struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(value));

	if (*n >= max)
		return err_set(err, ERR_INVALID,
		    "%s may be given %zu times at most; \"%s\" is one "
		    "more",
		    r->name, max, vis);
	list[(*n)++] = value;
	return 0;
}

static int
put(struct option_line *l, const struct option_row *r, const char *value, struct err *err)
{
	void *field = (char *)l->into + r->at;
	uint64_t v = 0;
	int rc = 0;

	switch (OPTION_KIND(r)) {
	case OPTION_TEXT: *(const char **)field = value; break;
	case OPTION_NUMBER: rc = option_number(r, value, field, err); break;
	case OPTION_NUMBER32:
		if ((rc = option_number(r, value, &v, err)) == 0)
			*(uint32_t *)field = (uint32_t)v;
		break;
	case OPTION_FLAG: *(bool *)field = true; break;
	default: rc = l->own(l->into, r, value, err); break;
	}
	if (rc == 0)
		l->seen |= UINT64_C(1) << (r - l->rows);
	return rc;
}

/* By its whole name, or by a beginning that leads to one member alone. */
static const struct option_row *
row_find(const struct option_line *l, struct str name)
{
	const struct option_row *found = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const struct option_row *r = &l->rows[i];

		if (is_word(r) || !option_counts(l, r))
			continue;
		if (str_eqz(name, r->name))
			return r;
		if (!l->beginnings || name.n < 3 || strncmp(r->name, name.p, name.n) != 0)
			continue;
		if (found != NULL && (found->at != r->at || OPTION_KIND(found) != OPTION_KIND(r)))
			return NULL;
		found = r;
	}
	return found;
}

static int
option_take(struct option_line *l, int argc, char **argv, int *i, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(argv[*i]));
	struct str rest = str_z(argv[*i]), name = rest;
	bool joined = str_cut(&rest, '=', &name);
	const struct option_row *r = row_find(l, name);

	if (r == NULL)
		return err_set(err, ERR_INVALID, "\"%s\" is not an option here; see --help", vis);
	if (!takes_value(r))
		return joined ? err_set(err, ERR_INVALID, "%s takes no value, is \"%s\"", r->name,
				    strchr(vis, '=') + 1)
			      : put(l, r, "", err);
	if (!joined && *i + 1 >= argc)
		return err_set(err, ERR_INVALID, "%s wants a value: %s", r->name, r->arg);
	return put(l, r, joined ? rest.p : argv[++*i], err);
}

static int
word_take(struct option_line *l, const char *word, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(word));

	for (size_t i = 0; i < l->n; i++)
		if (is_word(&l->rows[i]) && option_counts(l, &l->rows[i]) &&
		    ((l->seen >> i & 1) == 0 || (l->rows[i].kind & OPTION_MANY) != 0))
			return put(l, &l->rows[i], word, err);
	return err_set(err, ERR_INVALID, "\"%s\" is a word too many", vis);
}

/* "-1" is a word where one may be a number: perhaps a wrong one. */
static bool
is_option(const struct option_line *l, const char *arg)
{
	if (arg[0] != '-' || arg[1] == '\0' || arg[1] < '0' || arg[1] > '9')
		return arg[0] == '-' && arg[1] != '\0';
	for (size_t i = 0; i < l->n; i++)
		if (is_word(&l->rows[i]) && option_counts(l, &l->rows[i]) &&
		    OPTION_KIND(&l->rows[i]) != OPTION_TEXT)
			return false;
	return true;
}

int
option_read(struct option_line *l, int argc, char **argv, struct err *err)
{
	bool words = false;

	for (int i = 1; i < argc; i++) {
		int rc = 0;

		if (words || !is_option(l, argv[i]))
			rc = word_take(l, argv[i], err);
		else if (strcmp(argv[i], "--") != 0)
			rc = option_take(l, argc, argv, &i, err);
		else if (l->after == NULL)
			words = true;
		else if (i + 1 == argc)
			rc = err_set(err, ERR_INVALID, "no command after --");
		else {
			*l->after = &argv[i + 1];
			return 0;
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

void
option_help(const struct option_row *rows, size_t n, unsigned groups)
{
	for (const struct option_row *r = rows; r < rows + n; r++) {
		AUTO_FREE char *left = xasprintf("%s %s", r->name, r->arg != NULL ? r->arg : "");
		bool needed = !is_word(r) && (r->kind & OPTION_NEEDED) != 0;

		if (is_of(r, groups) && r->what != NULL)
			(void)printf("  %-26s %s%s\n", left, r->what, needed ? " (needed)" : "");
	}
	(void)printf("  %-26s print this\n", "--help");
}
