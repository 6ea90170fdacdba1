/*
 * Reads messages from standard input, each behind its length as u32, and says of each what our
 * request reader and llhttp make of it: "refused", "cut" (accepted, more is needed or its body is
 * refused), "whole", or "differs WHAT". With a number as argument one fact of our reading is
 * twisted first, which shows that the comparison sees it. Test code.
 */
#include <stdio.h>

#include "tests/fuzz/llhttp_check.h"

#include "common/banned.h"

static void
one(struct str in, enum llhttp_fact twist)
{
	struct llhttp_result r;

	llhttp_check(in, twist, &r);
	if (r.differs != NULL)
		(void)printf("differs %s\n", r.differs);
	else
		(void)puts(!r.head ? "refused" : r.ended ? "whole" : "cut");
}

int
main(int argc, char **argv)
{
	AUTO_BUF struct buf in = BUF((size_t)64 << 20);
	uint64_t twist = LLHTTP_NOTHING;
	uint8_t chunk[16384];
	struct rd rd;
	size_t n;

	if (argc > 1 && !str_to_u64(str_z(argv[1]), LLHTTP_FACTS - 1, &twist))
		return 2;
	while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		buf_put(&in, chunk, n);
	rd = rd_init(buf_str(&in));
	while (!rd.bad && rd.n != 0) {
		struct str message = rd_lstr(&rd);
		char *copy = malloc(message.n != 0 ? message.n : 1);

		/* A copy of exactly its size, so that ASan sees a read past the end. */
		if (copy == NULL)
			return 2;
		(void)memcpy(copy, message.p, message.n);
		one((struct str){copy, message.n}, (enum llhttp_fact)twist);
		free(copy);
	}
	return rd.bad || buf_over(&in) ? 2 : 0;
}
