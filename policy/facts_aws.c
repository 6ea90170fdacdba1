/*
 * Bodies of AWS requests to facts: forms of the query protocol, JSON. Runs in cofferdam-parser
 * alone, on bytes that the agent chose. Says which action a form names, how often, what it is done
 * to, and which accounts stand in it.
 */
#include "policy/facts.h"

#include "common/jcs.h"
#include "policy/webform.h"

#include "common/banned.h"

#define NAMES_MAX 64
#define NAME_MAX_ ((size_t)256)
#define PARAMETERS_MAX 10000

struct list {
	size_t n;
	char text[NAMES_MAX][NAME_MAX_ + 1];
};

struct found {
	struct list accounts, actions, flags, names;
	bool odd, over;
	unsigned seen;
};

static void
add(struct found *f, struct list *l, struct str s)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eqz(s, l->text[i]) && l != &f->actions)
			return;
	if (l->n == NAMES_MAX || s.n > NAME_MAX_ || memchr(s.p, '\0', s.n) != NULL) {
		f->over = true;
		return;
	}
	memcpy(l->text[l->n], s.p, s.n);
	l->text[l->n++][s.n] = '\0';
}

/* arn:PARTITION:SERVICE:REGION:ACCOUNT:... anywhere in a value. */
static void
accounts(struct found *f, struct str s)
{
	for (size_t i = 0; i + 4 < s.n; i++) {
		struct str rest = str_mem(s.p + i, s.n - i), part;
		unsigned colons = 0;

		if (!str_has_prefix(rest, "arn:"))
			continue;
		while (colons < 5 && str_cut(&rest, ':', &part))
			colons++;
		if (colons == 5 && part.n == 12)
			add(f, &f->accounts, part);
	}
}

/* Members that say what it is done to. */
static bool
is_identifier(struct str key)
{
	static const char *const ends[] = {"Identifier", "Name", "Id", "Arn", "ARN", "Url",
	    "Identifiers", "Names", "Ids", "Arns", "ResourceName", "Bucket", "Key"};

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_has_suffix(key, ends[i]))
			return true;
	return false;
}

/* 1 and more, in plain digits. */
static bool
is_count(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n != 0 && s.p[0] != '0';
}

/* A signature in the parameters, which a service may take for the request's. */
static bool
is_of_signature(struct str key)
{
	static const char *const names[] = {"AWSAccessKeyId", "Signature", "SignatureVersion",
	    "SignatureMethod", "SecurityToken", "X-Amz-Algorithm", "X-Amz-Credential",
	    "X-Amz-Signature", "X-Amz-Security-Token"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_ieqz(key, names[i]))
			return true;
	return false;
}

/* What of a parameter's value makes another action of it. */
static void
flag(struct found *f, struct str key, struct str value)
{
	if (str_eqz(key, "MasterUserPassword"))
		add(f, &f->flags, key);
	/* A service reads more spellings than one; only what is surely harmless is. */
	if (str_eqz(key, "BackupRetentionPeriod") && !is_count(value))
		add(f, &f->flags, STR("BackupRetentionPeriod=0"));
	if (str_eqz(key, "DeletionProtection") && !str_ieqz(value, "true"))
		add(f, &f->flags, STR("DeletionProtection=false"));
	if (str_eqz(key, "PubliclyAccessible") && !str_ieqz(value, "false"))
		add(f, &f->flags, STR("PubliclyAccessible=true"));
}

/* --- forms ------------------------------------------------------------------------------- */

/* "InstanceId.1" and "Filter.1.Value.2" less their numbers. */
static struct str
stem(struct str key)
{
	size_t end = key.n;

	for (;;) {
		size_t i = end;

		while (i > 0 && key.p[i - 1] >= '0' && key.p[i - 1] <= '9')
			i--;
		if (i == end || i == 0 || key.p[i - 1] != '.')
			return str_mem(key.p, end);
		end = i - 1;
	}
}

static void
parameter(struct found *f, struct str key, struct str value)
{
	if (str_ieqz(key, "Action")) {
		f->odd = f->odd || !str_eqz(key, "Action");
		add(f, &f->actions, value);
		return;
	}
	f->odd = f->odd || is_of_signature(key);
	accounts(f, value);
	flag(f, key, value);
	/* Only of the request itself: what stands deeper says how, or which to leave out. */
	key = stem(key);
	if (value.n != 0 && memchr(key.p, '.', key.n) == NULL && is_identifier(key))
		add(f, &f->names, value);
}

static int
read_form(struct found *f, struct str form, struct err *err)
{
	struct str name, value;

	while (webform_next(&form, &name, &value)) {
		AUTO_BUF struct buf n = BUF(65536);
		AUTO_BUF struct buf v = BUF((size_t)1 << 20);

		if (++f->seen > PARAMETERS_MAX)
			return err_set(err, ERR_TOO_COMPLEX, "over %d parameters", PARAMETERS_MAX);
		if (!webform_decode(name, &n) || !webform_decode(value, &v))
			return err_set(err, ERR_SYNTAX, "a parameter is malformed");
		if (buf_over(&n) || buf_over(&v))
			return err_set(err, ERR_TOO_COMPLEX, "a parameter is too long");
		parameter(f, buf_str(&n), buf_str(&v));
	}
	return 0;
}

/* --- JSON -------------------------------------------------------------------------------- */

/* Nesting is bounded by the reader of JSON. */
static void
read_strings(struct found *f, const struct json *v)
{
	if (json_type(v) == JSON_STRING)
		accounts(f, json_str(v));
	if (json_type(v) != JSON_ARRAY && json_type(v) != JSON_OBJECT)
		return;
	for (size_t i = 0; i < json_count(v); i++)
		read_strings(f, json_at(v, i));
}

static void
read_member(struct found *f, struct str key, const struct json *v)
{
	if (json_type(v) == JSON_BOOL)
		flag(f, key, json_bool(v) ? STR("true") : STR("false"));
	if (json_type(v) == JSON_INT)
		flag(f, key, json_int(v) <= 0 ? STR("0") : STR("1"));
	if (json_type(v) == JSON_STRING)
		flag(f, key, json_str(v));
	if (!is_identifier(key))
		return;
	if (json_type(v) == JSON_STRING && json_str(v).n != 0)
		add(f, &f->names, json_str(v));
	for (size_t i = 0; json_type(v) == JSON_ARRAY && i < json_count(v); i++)
		if (json_type(json_at(v, i)) == JSON_STRING)
			add(f, &f->names, json_str(json_at(v, i)));
}

static int
read_json(struct found *f, struct str body, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	int rc = json_parse_numbers(body, "body", &doc, err);
	const struct json *root;

	if (rc != 0)
		return rc;
	root = json_root(doc);
	if (json_type(root) != JSON_OBJECT)
		return err_set(err, ERR_SYNTAX, "no object");
	read_strings(f, root);
	for (size_t i = 0; i < json_count(root); i++)
		read_member(f, json_key(root, i), json_at(root, i));
	return 0;
}

/* --- the whole --------------------------------------------------------------------------- */

static void
put(struct jcs *j, const char *key, const struct list *l)
{
	jcs_array(j, key);
	for (size_t i = 0; i < l->n; i++)
		jcs_str_lossy(j, NULL, str_z(l->text[i]));
	jcs_array_end(j);
}

static int
emit(const struct found *f, struct buf *ret_json, struct err *err)
{
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX);
	struct jcs j;

	if (f->over)
		return err_set(err, ERR_TOO_COMPLEX,
		    "it names over %d things, or one over %zu bytes", NAMES_MAX, NAME_MAX_);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_open(&j, "aws");
	put(&j, "accounts", &f->accounts);
	put(&j, "actions", &f->actions);
	put(&j, "flags", &f->flags);
	put(&j, "names", &f->names);
	jcs_bool(&j, "odd", f->odd);
	jcs_close(&j);
	jcs_close(&j);
	if (buf_over(&out))
		return err_set(err, ERR_TOO_COMPLEX, "what it names is too long to be told");
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}

int
facts_aws_query(struct str query, struct buf *ret_json, struct err *err)
{
	static struct found f; /* large; one process, one question at a time */
	int rc;

	f = (struct found){.odd = false};
	rc = read_form(&f, query, err);
	return rc == 0 ? emit(&f, ret_json, err) : rc;
}

int
facts_aws_body(struct str content_type, struct str body, struct buf *ret_json, struct err *err)
{
	static struct found f;
	struct media_type m = media_type_parse(content_type);
	bool json =
	    memmem(content_type.n != 0 ? content_type.p : "", content_type.n, "json", 4) != NULL;
	int rc;

	f = (struct found){.odd = false};
	if (body.n > FACTS_AWS_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "over %zu bytes", FACTS_AWS_MAX);
	if (json)
		rc = read_json(&f, body, err);
	else if (m.media == MEDIA_FORM && !m.odd)
		rc = read_form(&f, body, err);
	else
		rc = err_set(err, ERR_SYNTAX, "its Content-Type is neither JSON nor a form");
	return rc == 0 ? emit(&f, ret_json, err) : rc;
}
