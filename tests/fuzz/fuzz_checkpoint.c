/* Signed notes, checkpoints, key files, handovers of keys, frames: from anybody, in any form. */
#include <assert.h>
#include <stdlib.h>

#include "audit/blob.h"
#include "audit/checkpoint.h"
#include "audit/handover.h"

#include "common/banned.h"

#define KEY "broker.example/test+8cb22760+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf again = BUF(CHECKPOINT_MAX);
	struct str text = str_mem(data, size);
	const struct vkey *key;
	struct checkpoint cp;
	struct handover h;
	struct vkeys keys;
	struct hash ct;
	size_t n;

	assert(vkeys_parse(STR(KEY), "key", &keys, NULL) == 0);
	if (checkpoint_open(text, &keys, &cp, &key, NULL) == 0) {
		checkpoint_text(&again, &cp);
		assert(again.n < size && memcmp(again.p, data, again.n) == 0);
	}
	buf_reset(&again);
	if (checkpoint_parse_text(text, &cp, NULL) == 0) {
		checkpoint_text(&again, &cp); /* one spelling only */
		assert(str_eq(buf_str(&again), text));
	}
	(void)vkeys_parse(text, "fuzz", &keys, NULL);
	buf_reset(&again);
	if (handover_open(text, &h, NULL) == 0) {
		handover_text(&again, &h);
		assert(again.n < size && memcmp(again.p, data, again.n) == 0);
	}
	assert(blob_frame_find(text) <= size);
	if (blob_frame_check(text, &n, &ct, NULL) == 0)
		assert(n <= size);
	return 0;
}
