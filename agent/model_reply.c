/*
 * Blocks of a model's answer (process: cofferdam-agent). Sizes are limited here, since a server
 * may stream for ever; what the blocks mean is the providers' and the loop's business.
 */
#include "agent/model_reply.h"

#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
reply_init(struct reply *r)
{
	*r = (struct reply){0};
}

static void
block_free(struct reply_block *b)
{
	buf_free(&b->text);
	buf_free(&b->signature);
	free(b->id);
	free(b->name);
}

void
reply_free(struct reply *r)
{
	for (size_t i = 0; i < r->n; i++)
		block_free(&r->blocks[i]);
	free(r->blocks);
	free(r->error_type);
	free(r->error_text);
	*r = (struct reply){0};
}

struct reply_block *
reply_find(struct reply *r, int64_t index)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->blocks[i].index == index)
			return &r->blocks[i];
	return NULL;
}

int
reply_block(
    struct reply *r, enum reply_kind kind, int64_t index, struct reply_block **ret, struct err *err)
{
	for (size_t i = 0; index >= 0 && i < r->n; i++)
		if (r->blocks[i].index == index && r->blocks[i].kind == kind) {
			*ret = &r->blocks[i];
			return 0;
		}
	if (r->n == REPLY_BLOCKS_MAX)
		return err_set(err, ERR_TOO_LARGE, "the model's answer has more than %d blocks",
		    REPLY_BLOCKS_MAX);
	r->blocks = xreallocarray(r->blocks, r->n + 1, sizeof(*r->blocks));
	r->blocks[r->n] = (struct reply_block){.kind = kind,
	    .index = index,
	    .text = BUF(REPLY_BYTES_MAX),
	    .signature = BUF(REPLY_BYTES_MAX)};
	*ret = &r->blocks[r->n++];
	return 0;
}

int
reply_add(struct reply *r, struct buf *to, struct str more, struct err *err)
{
	r->bytes += more.n;
	buf_put_str(to, more);
	if (buf_over(to))
		return err_set(err, ERR_TOO_LARGE,
		    "a block of the model's answer is over %zu bytes", REPLY_BYTES_MAX);
	return 0;
}

void
reply_set(char **field, struct str value)
{
	if (value.n == 0 || (*field != NULL && **field != '\0'))
		return;
	free(*field);
	*field = str_dup(value);
}

void
reply_error(struct reply *r, struct str type, struct str text)
{
	reply_set(&r->error_type, type.n != 0 ? type : STR("error"));
	reply_set(
	    &r->error_text, text.n != 0 ? text : STR("the model's stream ended with an error"));
}

static bool
is_object(struct str text)
{
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored;

	return json_parse_numbers(text, "arguments", &d, &ignored) == 0 &&
	       json_type(json_root(d)) == JSON_OBJECT;
}

void
reply_drop_halves(struct reply *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct reply_block *b = &r->blocks[i];

		if ((b->kind == REPLY_TOOL && !is_object(buf_str(&b->text))) ||
		    (b->kind == REPLY_THINKING && b->signature.n == 0))
			block_free(b);
		else
			r->blocks[n++] = *b;
	}
	r->n = n;
}

void
reply_name_calls(struct reply *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct reply_block *b = &r->blocks[i];

		if (b->kind != REPLY_TOOL)
			continue;
		if (b->id == NULL)
			b->id = xasprintf("call_%zu", i + 1);
		if (b->name == NULL)
			b->name = xstrdup("unnamed");
	}
}
