/*
 * Runs a fuzz target over files, without a fuzzer: `make check` replays each corpus with
 * it, under the sanitizers too. Test code; reads only the files it is given.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
replay_file(const char *path)
{
	static uint8_t data[8 << 20];
	FILE *f = fopen(path, "rbe");
	uint8_t *copy;
	size_t n;

	if (f == NULL) {
		(void)fprintf(stderr, "replay: %s: cannot open\n", path);
		return 1;
	}
	n = fread(data, 1, sizeof(data), f);
	(void)fclose(f);
	/* An exact-size heap copy, so that ASan sees a read past the end. */
	copy = malloc(n != 0 ? n : 1);
	if (copy == NULL)
		return 1;
	for (size_t i = 0; i < n; i++)
		copy[i] = data[i];
	(void)LLVMFuzzerTestOneInput(copy, n);
	free(copy);
	return 0;
}

int
main(int argc, char **argv)
{
	int bad = 0;

	for (int i = 1; i < argc; i++)
		bad |= replay_file(argv[i]);
	(void)printf("%d files\n", argc - 1);
	return bad;
}
