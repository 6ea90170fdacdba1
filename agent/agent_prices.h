/* What models cost and how much they take, by a file of the person's (docs/agent.md). */
#ifndef AGENT_AGENT_PRICES_H
#define AGENT_AGENT_PRICES_H

#include "common/err.h"
#include "common/str.h"

#define PRICES_FILE "/etc/cofferdam/agent.json"

/* Millionths of the currency for a million tokens, which is the currency's price of one, times
 * 1e12. */
struct prices {
	bool known;
	uint64_t input, output, cache_read, cache_write;
	uint64_t context; /* tokens; 0: not said */
	char currency[9];
};

/*
 * Of "PROVIDER:NAME". path NULL: PRICES_FILE, if it is there. ERR_SYNTAX, ERR_INVALID name file and
 * place. A model that the file does not have: known is false.
 */
int prices_read(const char *path, const char *model, struct prices *ret, struct err *err);
/* The same from text. */
int prices_parse(
    struct str text, const char *name, const char *model, struct prices *ret, struct err *err);
/* "2.5" to 2500000; at most six decimals, below a million. */
bool prices_amount(struct str s, uint64_t *ret);
/* 2500000 to "2.5"; the caller frees. */
char *prices_words(uint64_t millionths, const char *currency);

#endif
