/*
 * A command line by a table: "--name VALUE", "--name=VALUE", "--name" alone for a flag, and words.
 * What it comes to is a struct of the program's; a row says where in it. There is no other reader
 * of tables; cmd/cmd_args.h has what the rows of `cofferdam COMMAND` have in common.
 */
#ifndef COMMON_OPTION_H
#define COMMON_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum option_kind {
	OPTION_TEXT,	 /* const char *, argv's; the last one given counts */
	OPTION_NUMBER,	 /* uint64_t, from min to max */
	OPTION_NUMBER32, /* uint32_t, the same */
	OPTION_FLAG,	 /* bool; takes no value */
	OPTION_OWN	 /* this and those above it: by the program's own function */
};
/* Added to a kind, of which there are 16. */
#define OPTION_NEEDED 0x10u		  /* the program's own check: it must not be missing */
#define OPTION_BARE 0x20u		  /* an own kind that takes no value */
#define OPTION_WORD 0x40u		  /* a word, not an option; in the order of the rows */
#define OPTION_MANY 0x80u		  /* of words: all that come */
#define OPTION_OF(groups) ((groups) << 8) /* of these groups alone (24 bits), not everybody's */
#define OPTION_KIND(row) ((row)->kind & 0x0fu) /* without all that */

struct option_row {
	const char *name;
	unsigned kind;
	size_t at;
	uint64_t min, max;
	const char *arg, *what; /* for help; what NULL: not listed there */
};

struct option_line {
	const struct option_row *rows;
	size_t n;	     /* at most 64 */
	unsigned groups;     /* whose rows count besides everybody's */
	bool beginnings;     /* a name may be cut short where that leaves one member */
	char *const **after; /* what follows "--", not empty; NULL: "--" makes words of the rest */
	int (*own)(void *into, const struct option_row *r, const char *value, struct err *err);
	void *into;
	uint64_t seen; /* rows that were given, by number */
};

/*
 * Reads argv[1] to argv[argc - 1]; members stay as they are where nothing is given. ERR_INVALID
 * names the option, its value and what is wanted.
 */
int option_read(struct option_line *l, int argc, char **argv, struct err *err);
bool option_counts(const struct option_line *l, const struct option_row *r); /* by its groups */
/* The options with what they are, and --help. */
void option_help(const struct option_row *rows, size_t n, unsigned groups);

/* For own functions: a number as the row limits it; one more of at most max. */
int option_number(const struct option_row *r, const char *value, uint64_t *ret, struct err *err);
int option_add(const struct option_row *r, const char **list, size_t *n, size_t max,
    const char *value, struct err *err);

#endif
