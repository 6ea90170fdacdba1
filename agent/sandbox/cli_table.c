/*
 * Tables for people (the command line, as the person who types it). What stands in a cell may be
 * the words of code inside: no byte of it reaches the terminal that is not printable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

#define CELL_MAX 60 /* bytes; the last column has another limit, or none */
#define FIT_MIN 20

struct cli_table {
	size_t columns, n;
	char **cells; /* by rows, the first has the heads */
};

struct cli_table *
cli_table_new(const char *const *heads)
{
	struct cli_table *t = xcalloc(1, sizeof(*t));

	while (heads[t->columns] != NULL)
		t->columns++;
	for (size_t i = 0; i < t->columns; i++)
		cli_table_cell(t, heads[i]);
	return t;
}

/* To so many bytes, not within a character. */
static void
cut(char *text, size_t max)
{
	size_t n = max - 3;

	if (strlen(text) <= max)
		return;
	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	memcpy(text + n, "...", 4);
}

void
cli_table_cell(struct cli_table *t, const char *text)
{
	char *vis = log_vis(str_z(text));

	if ((t->n + 1) % t->columns != 0)
		cut(vis, CELL_MAX);
	t->cells = xreallocarray(t->cells, t->n + 1, sizeof(*t->cells));
	t->cells[t->n++] = vis;
}

static int
width(const struct cli_table *t, size_t column)
{
	size_t w = 0;

	for (size_t i = column; i < t->n; i += t->columns)
		w = strlen(t->cells[i]) > w ? strlen(t->cells[i]) : w;
	return (int)w;
}

void
cli_table_print(struct cli_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		size_t column = i % t->columns;

		if (column + 1 == t->columns)
			(void)printf("%s\n", t->cells[i]);
		else
			(void)printf("%-*s  ", width(t, column), t->cells[i]);
	}
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

void
cli_table_print_fit(struct cli_table *t)
{
	struct winsize w = {0};
	size_t left = 0;

	if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 &&
	    w.ws_col != 0) {
		for (size_t i = 0; i + 1 < t->columns; i++)
			left += (size_t)width(t, i) + 2;
		left = w.ws_col > left + FIT_MIN ? w.ws_col - left : FIT_MIN;
		for (size_t i = t->columns - 1; i < t->n; i += t->columns)
			cut(t->cells[i], left);
	}
	cli_table_print(t);
}
