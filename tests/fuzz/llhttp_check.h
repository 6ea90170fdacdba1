/*
 * Our request reader beside llhttp, Node's, from Debian's source and in its strict mode. Test code.
 */
#ifndef TESTS_FUZZ_LLHTTP_CHECK_H
#define TESTS_FUZZ_LLHTTP_CHECK_H

#include "common/http.h"

/* What is compared; also what a test of the test may twist in our reading. */
enum llhttp_fact {
	LLHTTP_NOTHING,
	LLHTTP_METHOD,
	LLHTTP_TARGET,
	LLHTTP_FIELDS,
	LLHTTP_FRAMING,
	LLHTTP_BODY,
	LLHTTP_KEEP_ALIVE,
	LLHTTP_END,
	LLHTTP_FACTS
};

struct llhttp_result {
	bool head;	     /* we accepted the head */
	bool ended;	     /* and the body to its end */
	size_t end;	     /* there */
	bool more;	     /* another request may follow on the connection */
	const char *differs; /* NULL, or what llhttp says otherwise */
};

/* Reads the first request in `in` with both. */
void llhttp_check(struct str in, enum llhttp_fact twist, struct llhttp_result *ret);

#endif
