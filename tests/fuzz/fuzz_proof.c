/* Proofs of single records come from anybody: no file but a proof is one. */
#include <assert.h>
#include <stdlib.h>

#include "audit/proof.h"

#include "common/banned.h"

#define KEY "broker.example/test+8cb22760+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX + 2);
	struct vkeys keys;
	struct proof p;

	assert(vkeys_parse(STR(KEY), "key", &keys, NULL) == 0);
	if (proof_open(str_mem(data, size), &keys, &body, &p, NULL) == 0)
		assert(p.record.seq < p.cp.size && str_eq(p.record.body, buf_str(&body)));
	return 0;
}
