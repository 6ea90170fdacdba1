/*
 * Fuzzed: H_ACT as core reads it from a front that may have been taken over: the head read again,
 * names, effects, credentials, what people are shown, the digest, the masked head. There is no log,
 * so each exchange ends refused. Whatever comes: no credential is in a masked head, and a masked
 * head is masked for good.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "broker/core_cred.h"
#include "broker/core_http.h"
#include "broker/core_run.h"
#include "broker/core_token.h"
#include "common/log.h"
#include "common/token.h"
#include "common/xalloc.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char policy_text[] =
    "{\"schema\":\"cofferdam-policy/"
    "1\",\"policy\":\"t\",\"serial\":1,\"clock\":\"trusted\",\"targets\":{"
    "\"api\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://"
    "api.test\",\"credential\":\"k\"},"
    "\"wild\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://*.ok.test\"}},"
    "\"people\":{\"bob\":{\"roles\":[\"dba\"],\"login\":[\"unix:bob\"],\"keys\":[\"ssh-ed25519 "
    "AAAAC3NzaC1lZDI1NTE5AAAAILpH5GOQOkbv+Izkwuz7RaLS6csr0NTsXK88X3PLqD+R\"]}},"
    "\"calendars\":{},\"rules\":["
    "{\"id\":\"all\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@destructive\"]}}},"
    "{\"id\":\"people\",\"require\":{\"effects\":{\"any\":[\"@destructive\"]}},"
    "\"approve\":[{\"role\":\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}]}";

static struct core *core;
static struct core_run *run;

static void
target(const char *id, const char *kind, const char *scheme, const char *host, uint32_t listener)
{
	core_run_target_add(run, &(struct core_target){.id = (char *)(uintptr_t)id,
				     .kind = (char *)(uintptr_t)kind,
				     .scheme = (char *)(uintptr_t)scheme,
				     .host = (char *)(uintptr_t)host,
				     .port = 443});
	run->targets[run->ntargets - 1].listener = listener;
}

static void
vault(void)
{
	struct vault_bind b = {.name = STR("k"),
	    .kind = STR("query"),
	    .scheme = STR("https"),
	    .host = STR("api.test"),
	    .field = STR("key"),
	    .port = 443};
	struct err err;

	core_cred_key(core, secret_new(VAULT_KEY_LEN));
	core->vault = vault_new();
	if (vault_put(core->vault, &b, secret_copy(STR("s3cr3t-s3cr3t")), &err) != 0)
		abort();
}

static void __attribute__((noreturn)) fail(const char *why)
{
	(void)fprintf(stderr, "set-up: %s\n", why);
	abort();
}

static void
setup(void)
{
	struct policy *p = NULL;
	struct err err;

	if (core != NULL)
		return;
	if (sodium_init() < 0)
		abort();
	log_init("fuzz", LOG_ERROR_);
	core = core_new(loop_new());
	if (policy_parse(str_z(policy_text), "p", NULL, NULL, &p, NULL, &err) != 0)
		fail(err.msg);
	core->policy = p;
	vault();
	run = xcalloc(1, sizeof(*run));
	run->core = core;
	run->state = CORE_RUN_LIVE;
	(void)memcpy(run->id, "r-fuzz", 7);
	run->agent = xstrdup("a");
	run->owner = xstrdup("bob");
	run->key = secret_new(BLOB_KEY_LEN);
	run->targets = xcalloc(CORE_SLOTS_MAX, sizeof(*run->targets));
	TAILQ_INIT(&run->requests);
	TAILQ_INIT(&run->asks);
	TAILQ_INSERT_TAIL(&core->runs, run, link);
	target("api", "http", "https", "api.test", 1);
	target("wild", "http", "https", "*.ok.test", 0);
	target("", "proxy", "", "proxy.cofferdam.internal", 2);
}

static void
masked(struct str head)
{
	AUTO_BUF struct buf once = BUF((size_t)4 << 20);
	AUTO_BUF struct buf twice = BUF((size_t)4 << 20);
	struct core_http h = {.from = {.run = run, .target = &run->targets[0]}, .fd = -1};
	struct str found;

	buf_init(&h.head, HTTP_HEAD_MAX);
	buf_put_str(&h.head, head);
	core_http_mask(&h, &once);
	/* A key in PEM is known by two words, which may come from two fields. */
	assert(!token_find(buf_str(&once), &found) || str_has_prefix(found, "-----BEGIN "));
	buf_free(&h.head);
	buf_init(&h.head, (size_t)4 << 20);
	buf_put_str(&h.head, buf_str(&once));
	core_http_mask(&h, &twice);
	buf_free(&h.head);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct core_peer front = {.role = IPC_ROLE_FRONT, .state = CORE_S_OPEN};
	AUTO_BUF struct buf b = BUF(1 << 18);
	uint8_t how = n != 0 ? data[0] : 0;
	struct str head =
	    n != 0 ? str_mem(data + 1, n - 1 < HTTP_HEAD_MAX ? n - 1 : HTTP_HEAD_MAX) : STR("");
	struct rd r;
	struct err err;

	setup();
	front.core = core;
	buf_u64(&b, 1);
	buf_u64(&b, 1);
	buf_u32(&b, (how & 1) != 0 ? 2 : 1);
	buf_u8(&b, 1);
	buf_lz(&b, (how & 2) != 0 ? "x.ok.test" : "api.test");
	buf_u32(&b, 443);
	buf_lz(&b, (how & 1) == 0 ? "" : (how & 2) != 0 ? "x.ok.test:443" : "api.test:443");
	buf_lz(&b, (how & 2) != 0 ? "x.ok.test" : "api.test");
	buf_lz(&b, (how & 4) != 0 ? "a fault" : "");
	buf_lstr(&b, head);
	buf_u8(&b, (how & 8) != 0 ? 1 : 0);
	buf_u64(&b, (how & 8) != 0 ? 2 : 0);
	buf_u8(&b, 0);
	buf_lz(&b, (how & 8) != 0 ? "{}" : "");
	r = rd_init(buf_str(&b));
	(void)core_http_on_act(&front, &r, NULL, 0, &err);
	core_http_end(run, NULL);
	core_facts_drop(run);
	masked(head);
	return 0;
}
