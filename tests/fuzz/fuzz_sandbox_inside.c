/*
 * Any bytes as the body of an order to pid 1 of a sandbox (INSIDE_SPAWN), read by its own code in
 * memory of the exact size: refused with a reason, or what was read makes the same bytes again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sandbox/init/init_order.h"
#include "common/buf.h"
#include "common/xalloc.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
put_z(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s) + 1);
}

static void
order_again(const struct order *o, const struct inside_spawn *s, struct buf *b)
{
	buf_put(b, s, sizeof(*s));
	put_z(b, o->cwd);
	for (size_t i = 0; i < s->argc; i++)
		put_z(b, o->argv[i]);
	for (size_t i = 0; i < s->envc; i++)
		put_z(b, o->env[i]);
	if (o->code_path != NULL) {
		put_z(b, o->code_path);
		buf_put(b, o->code, o->code_size);
	}
}

/* What its users count on: room before and behind the arguments, ends, a path where it belongs. */
static void
order_check(const struct order *o, const struct inside_spawn *s)
{
	assert(o->flags == s->flags && (o->flags & ~ORDER_FLAGS) == 0);
	assert(o->argc == s->argc && o->argc >= 1 && o->argc <= ORDER_ARGS_MAX);
	assert(o->argv[-1] == NULL && o->argv[o->argc] == NULL && o->argv[o->argc + 1] == NULL);
	assert(o->env[s->envc] == NULL && o->cwd[0] == '/');
	assert((o->code_path != NULL) == (s->code_size != 0));
	if (o->code_path != NULL) {
		const char *name = o->code_path + strlen(ORDER_CODE_DIR "/");

		assert(strncmp(o->code_path, ORDER_CODE_DIR "/", strlen(ORDER_CODE_DIR "/")) == 0);
		assert(strchr(name, '/') == NULL && strlen(name) <= ORDER_CODE_NAME_MAX);
		assert(name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inside_spawn s = {0};
	AUTO_FREE char *body = xmalloc(size != 0 ? size : 1);
	AUTO_FREE char **table = NULL;
	AUTO_BUF struct buf again = BUF(size + 1);
	const char *wrong;
	struct order o;
	size_t n;

	memcpy(body, data, size);
	memcpy(&s, body, size < sizeof(s) ? size : sizeof(s));
	n = order_pointers(&s, size, &wrong);
	assert((n == 0) == (wrong != NULL));
	if (n == 0)
		return 0;
	assert(n <= ORDER_ARGS_MAX + ORDER_ENV_MAX + 4);
	table = xcalloc(n, sizeof(*table));
	wrong = order_read(&s, body, size, table, &o);
	if (wrong != NULL) {
		assert(wrong[0] != '\0');
		return 0;
	}
	order_check(&o, &s);
	order_again(&o, &s, &again);
	assert(!buf_over(&again) && again.n == size && memcmp(again.p, data, size) == 0);
	return 0;
}
