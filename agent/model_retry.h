/* When a model's request is tried again, and after how long: the rule of the providers' own SDKs.
 */
#ifndef AGENT_MODEL_RETRY_H
#define AGENT_MODEL_RETRY_H

#include "common/http.h"

/* x-should-retry if it is there; else 408, 409, 429 and 500 and above. */
bool model_retry_is_due(const struct http_response *r);
/*
 * Milliseconds before try n + 2 (n from 0): what retry-after-ms, or else retry-after (seconds or an
 * IMF-fixdate), says, if that is positive and below 2^31; else 500 * 2^n, at most 8000, less up to
 * a quarter by `chance` (any number). r may be NULL: there was no answer. now_s is Unix time.
 */
uint32_t model_retry_wait_ms(
    const struct http_response *r, unsigned n, uint32_t chance, int64_t now_s);

#endif
