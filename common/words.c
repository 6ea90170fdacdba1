/* Quoting and its reverse; nothing is expanded, and nothing executed. */
#include "common/words.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* None of them means anything to a shell, wherever it stands. */
#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./-"

static void
quote(struct buf *out, const char *word)
{
	if (word[0] != '\0' && word[strspn(word, PLAIN)] == '\0') {
		buf_put_z(out, word);
		return;
	}
	buf_put_c(out, '\'');
	for (; *word != '\0'; word++)
		if (*word == '\'')
			buf_put_z(out, "'\\''");
		else
			buf_put_c(out, *word);
	buf_put_c(out, '\'');
}

size_t
words_quote(struct buf *out, char *const *argv)
{
	size_t n = 0;

	for (; argv[n] != NULL; n++) {
		if (n != 0)
			buf_put_c(out, ' ');
		quote(out, argv[n]);
	}
	return n;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* One word from s->p on, which is not blank. False: its quote does not end. */
static bool
word_take(struct str *s, struct buf *word)
{
	bool quoted = false;

	for (; s->n != 0 && (quoted || !is_blank(s->p[0])); *s = str_mem(s->p + 1, s->n - 1)) {
		char c = s->p[0];

		if (c == '\'') {
			quoted = !quoted;
			continue;
		}
		if (c == '\\' && !quoted) {
			if (s->n == 1)
				return false;
			*s = str_mem(s->p + 1, s->n - 1);
		}
		buf_put_c(word, s->p[0]);
	}
	return !quoted;
}

int
words_split(struct str line, char ***ret, struct err *err)
{
	AUTO(words) char **argv = xcalloc(1, sizeof(*argv));
	size_t n = 0, room = 1;

	if (line.n != 0 && memchr(line.p, '\0', line.n) != NULL)
		return err_set(err, ERR_SYNTAX, "a command line has a NUL byte");
	for (;;) {
		AUTO_BUF struct buf word = BUF(line.n + 1);

		while (line.n != 0 && is_blank(line.p[0]))
			line = str_mem(line.p + 1, line.n - 1);
		if (line.n == 0)
			break;
		if (!word_take(&line, &word))
			return err_set(err, ERR_SYNTAX,
			    "word %zu of a command line has a quote or \\ that does not end",
			    n + 1);
		if (n + 1 == room)
			argv = xreallocarray(argv, room *= 2, sizeof(*argv));
		argv[n++] = str_dup(buf_str(&word));
		argv[n] = NULL;
	}
	*ret = TAKE_PTR(argv);
	return 0;
}

void
words_free(char **argv)
{
	for (size_t i = 0; argv != NULL && argv[i] != NULL; i++)
		free(argv[i]);
	free(argv);
}
