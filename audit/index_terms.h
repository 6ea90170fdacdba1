/*
 * What a record can be found by: values at named places of its data, and the words of its texts.
 * The index is built from these, and each hit is held against them again, by the same function.
 */
#ifndef AUDIT_INDEX_TERMS_H
#define AUDIT_INDEX_TERMS_H

#include "audit/canon_tree.h"
#include "audit/record.h"

/* X(name, word): numbers are part of the index's format. */
#define INDEX_KINDS(X)        \
	X(RUN, "run")         \
	X(TYPE, "type")       \
	X(SRC, "src")         \
	X(AGENT, "agent")     \
	X(PERSON, "person")   \
	X(TARGET, "target")   \
	X(EFFECT, "effect")   \
	X(VERDICT, "verdict") \
	X(RULE, "rule")       \
	X(STATUS, "status")   \
	X(ACTION, "action")   \
	X(ID, "id")           \
	X(TEXT, "text")

enum index_kind {
#define X(name, word) INDEX_##name,
	INDEX_KINDS(X)
#undef X
	    INDEX_NKINDS
};
const char *index_kind_name(enum index_kind k);

/* A value that lies in the record; the same one may come twice. */
typedef void index_term_fn(void *arg, enum index_kind kind, struct str value);
void index_terms(const struct record *r, struct canon_tree *t, index_term_fn *fn, void *arg);
/*
 * Words: letters and digits of ASCII, `_`, and all bytes above; case of ASCII does not matter.
 * None: words over INDEX_WORD_MAX bytes and hexadecimal ones of 32 digits and more (hashes).
 */
#define INDEX_WORD_MAX 64
void index_words(struct str text, index_term_fn *fn, void *arg);
/* 64 bits that stand for it in the index. Two may meet: a hit is only a place to look at. */
uint64_t index_term_hash(enum index_kind kind, struct str value);
bool index_term_eq(enum index_kind kind, struct str a, struct str b);

#endif
