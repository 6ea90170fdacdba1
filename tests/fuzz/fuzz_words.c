/*
 * Any bytes as a command line: words come out or it is refused, and the words, quoted, are those
 * words again.
 */
#include <assert.h>
#include <string.h>

#include "common/words.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(words) char **argv = NULL, **again = NULL;
	AUTO_BUF struct buf line = BUF(4 * size + 64);
	struct err err = {0};
	size_t n = 0;

	if (words_split(str_mem((const char *)data, size), &argv, &err) != 0) {
		assert(argv == NULL && err.code == ERR_SYNTAX && err.msg[0] != '\0');
		return 0;
	}
	n = words_quote(&line, argv);
	assert(!buf_over(&line));
	if (words_split(buf_str(&line), &again, &err) != 0)
		assert(false);
	for (size_t i = 0; i < n; i++)
		assert(strcmp(argv[i], again[i]) == 0);
	assert(again[n] == NULL);
	return 0;
}
