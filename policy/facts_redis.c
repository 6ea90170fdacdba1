/*
 * Redis commands to facts: arrays of bulk strings (RESP), one or, of a transaction, several. Runs
 * in cofferdam-parser alone, on bytes that the agent chose. Inline commands are refused: their
 * quoting has readers that differ.
 */
#include "policy/facts.h"

#include "common/jcs.h"

#include "common/banned.h"

#define WORD_SHOWN ((size_t)128) /* of a longer one its start, and "*" */

static int
bad(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "redis: %s", what);
}

/* "*3\r\n", "$5\r\n": digits without sign or leading zeros, as clients write them. */
static bool
take_count(struct str *s, char mark, uint64_t max, uint64_t *ret)
{
	struct str line;

	if (s->n == 0 || s->p[0] != mark || !str_cut(s, '\n', &line) || line.n < 3 ||
	    line.p[line.n - 1] != '\r')
		return false;
	return str_to_u64(str_mem(line.p + 1, line.n - 2), max, ret);
}

/* Keys may hold any bytes; what cannot be told as text stands for anything. */
static void
put_word(struct jcs *j, struct str s)
{
	AUTO_BUF struct buf b = BUF(WORD_SHOWN + 8);
	bool text = str_is_utf8(s);

	for (size_t i = 0; i < s.n; i++)
		text = text && (uint8_t)s.p[i] >= 0x20 && s.p[i] != 0x7f;
	if (!text) {
		jcs_z(j, NULL, "*");
		return;
	}
	if (s.n <= WORD_SHOWN) {
		jcs_str(j, NULL, s);
		return;
	}
	s.n = WORD_SHOWN;
	while (s.n != 0 && !str_is_utf8(s))
		s.n--;
	buf_put_str(&b, s);
	buf_put_c(&b, '*');
	jcs_str(j, NULL, buf_str(&b));
}

static int
read_command(struct str *s, struct jcs *j, struct err *err)
{
	uint64_t words, len;

	if (!take_count(s, '*', FACTS_REDIS_WORDS_MAX, &words) || words == 0)
		return bad(err, "no array of bulk strings, or one of too many");
	jcs_array(j, NULL);
	for (uint64_t i = 0; i < words; i++) {
		if (!take_count(s, '$', FACTS_REDIS_MAX, &len))
			return bad(err, "a word without a length");
		if (s->n < len + 2 || s->p[len] != '\r' || s->p[len + 1] != '\n')
			return bad(err, "a word that is not as long as it says");
		put_word(j, str_mem(s->p, (size_t)len));
		*s = str_mem(s->p + len + 2, s->n - (size_t)len - 2);
	}
	jcs_array_end(j);
	return 0;
}

int
facts_redis(struct str bytes, struct buf *ret_json, struct err *err)
{
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX);
	struct jcs j;
	int rc = 0;

	if (bytes.n > FACTS_REDIS_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "redis: over %zu bytes", FACTS_REDIS_MAX);
	if (bytes.n == 0)
		return bad(err, "no command");
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_array(&j, "redis");
	while (rc == 0 && bytes.n != 0)
		rc = read_command(&bytes, &j, err);
	if (rc != 0)
		return rc;
	jcs_array_end(&j);
	jcs_close(&j);
	if (buf_over(&out))
		return err_set(err, ERR_TOO_COMPLEX, "redis: its commands are too long to be told");
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}
