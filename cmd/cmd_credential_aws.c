/*
 * `cofferdam credential` for kind aws: an access key as people have it, in one line or in several,
 * as the two or three words that the vault keeps. Runs as the operator. The words stay in guarded
 * memory and are never printed.
 */
#include <string.h>

#include "cmd/cmd_credential.h"

#include "common/banned.h"

enum { WORD_ID = 0, WORD_KEY, WORD_TOKEN, WORDS };

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
next_word(struct str *s, struct str *ret)
{
	while (s->n != 0 && is_blank(s->p[0])) {
		s->p++;
		s->n--;
	}
	*ret = str_mem(s->p, 0);
	while (s->n != 0 && !is_blank(s->p[0])) {
		s->p++;
		s->n--;
		ret->n++;
	}
	return ret->n != 0;
}

/* AWS_ACCESS_KEY_ID=... and the like say by themselves which one they are. */
static int
named(struct str word, struct str *ret_value)
{
	static const char *const names[WORDS] = {
	    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};
	struct str name;

	*ret_value = word;
	if (!str_cut(ret_value, '=', &name))
		return -1;
	for (int i = 0; i < WORDS; i++)
		if (str_ieqz(name, names[i]))
			return i;
	return -1;
}

static int
take(struct str words[WORDS], int at, struct str value, struct err *err)
{
	if (at >= WORDS || words[at].n != 0)
		return err_set(err, ERR_INVALID,
		    "an access key is its id, its secret key and, if there is one, its session "
		    "token: there are more words than that");
	words[at] = value;
	return 0;
}

int
cred_aws_secret(const struct secret *raw, struct secret **ret, struct err *err)
{
	struct str rest = secret_str(raw), word, value, words[WORDS] = {STR(""), STR(""), STR("")};
	AUTO(secret) struct secret *room = secret_new(rest.n + WORDS);
	uint8_t *p = secret_bytes(room);
	size_t n = 0;
	int at = 0, which, rc = 0;

	while (rc == 0 && next_word(&rest, &word)) {
		if (str_eqz(word, "export"))
			continue;
		which = named(word, &value);
		rc = which >= 0 ? take(words, which, value, err) : take(words, at++, word, err);
	}
	if (rc == 0 && (words[WORD_ID].n == 0 || words[WORD_KEY].n == 0))
		rc = err_set(err, ERR_INVALID,
		    "kind aws needs an access key's id and its secret key (and its session token, "
		    "if there is one), with blanks or line feeds between them");
	for (int i = 0; rc == 0 && i < WORDS && words[i].n != 0; i++) {
		if (i != 0)
			p[n++] = ' ';
		memcpy(p + n, words[i].p, words[i].n);
		n += words[i].n;
	}
	if (rc == 0)
		*ret = secret_copy(str_mem(p, n));
	return rc;
}

/* What an account may ask of a service that says whether its key is good, and changes nothing. */
bool
cred_aws_probe(struct str host, const char **ret_path, const char **ret_target)
{
	static const struct {
		const char *label, *path, *target; /* target: of the JSON protocol */
	} probes[] = {
	    {"s3", "/", NULL},
	    {"sts", "/?Action=GetCallerIdentity&Version=2011-06-15", NULL},
	    {"iam", "/?Action=ListUsers&MaxItems=1&Version=2010-05-08", NULL},
	    {"ec2", "/?Action=DescribeRegions&Version=2016-11-15", NULL},
	    {"rds", "/?Action=DescribeDBInstances&MaxRecords=20&Version=2014-10-31", NULL},
	    {"dynamodb", "/", "DynamoDB_20120810.ListTables"},
	};
	struct str label;

	if (!str_cut(&host, '.', &label))
		label = host;
	for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
		if (!str_eqz(label, probes[i].label))
			continue;
		*ret_path = probes[i].path;
		*ret_target = probes[i].target;
		return true;
	}
	return false;
}
