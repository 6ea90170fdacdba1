/* What a witness is asked, and what it answers: both from anybody, in any form. */
#include <assert.h>
#include <stdlib.h>

#include "audit/cosign.h"

#include "common/banned.h"

#define LOG "log.test/a+2515d63a+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
as_request(struct str text)
{
	AUTO_BUF struct buf again = BUF(COSIGN_REQUEST_MAX);
	struct cosign_log log = {.origin = "log.test/a"};
	struct cosign_request rq;
	struct checkpoint cp;
	struct str origin;
	enum cosign_evidence evidence;

	if (cosign_request_parse(text, &rq, NULL) != 0)
		return;
	cosign_request_put(&again, rq.old, rq.proof, rq.nproof, rq.note);
	assert(buf_over(&again) || str_eq(buf_str(&again), text)); /* one spelling only */
	(void)cosign_origin(rq.note, &origin);
	assert(vkeys_parse(STR(LOG), "key", &log.keys, NULL) == 0);
	log.size = rq.old;
	if (cosign_judge(&log, &rq, &cp, &evidence, NULL) == COSIGN_OK)
		assert(cp.size >= log.size && evidence == COSIGN_NOTHING);
}

static void
as_answer(struct str text)
{
	struct cosigner c;
	struct str line;
	uint64_t n;

	memset(&c, 0, sizeof(c));
	memcpy(c.name, "w", 2);
	if (cosign_answer_parse(text, &c, STR("text\n"), &line, &n, NULL) == 0)
		abort(); /* a signature by a key of zeros */
	(void)cosign_conflict_parse(text, &n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_mem(data, size), a, b;
	struct cosigners keys;

	as_request(text);
	as_answer(text);
	(void)cosigners_parse(text, "fuzz", &keys, NULL);
	if (cosign_note_split(text, &a, &b))
		assert(a.n + 1 + b.n == size);
	return 0;
}
