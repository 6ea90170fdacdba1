/*
 * `cofferdam policy sign` and `activate`. Sign runs as an owner, on their own machine if they like;
 * activate as the operator. Core checks all of this again, by what its log says: whoever writes the
 * state directory without these commands gains nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "cmd/cmd_sign.h"
#include "common/sig.h"
#include "common/xalloc.h"
#include "policy/succession.h"

#include "common/banned.h"

struct args {
	const char *bundle, *before, *person, *key, *state;
	char *dir; /* of the bundles; NULL with --before */
	bool yes;
	struct arg_many given; /* "PERSON=FILE" */
};

#define AT(f) offsetof(struct args, f)
enum { SIGN = 1, ACTIVATE = 2 };

static const struct option_row rows[] = {
    {"BUNDLE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(bundle), 0, 0, NULL,
	"its digest, or a file"},
    {"--as", OPTION_TEXT | OPTION_NEEDED | OPTION_OF(SIGN), AT(person), 0, 0, "PERSON",
	"who signs"},
    {"--key", OPTION_TEXT | OPTION_OF(SIGN), AT(key), 0, 0, "FILE", ARG_KEY_IS},
    {"--before", OPTION_TEXT | OPTION_OF(SIGN), AT(before), 0, 0, "BUNDLE",
	"the bundle before it, a file: the signature goes to standard output"},
    {"--yes", OPTION_FLAG | OPTION_OF(SIGN), AT(yes), 0, 0, NULL, "sign without being asked"},
    {"--signature", ARG_MANY | OPTION_OF(ACTIVATE), AT(given), 0, 0, "PERSON=FILE",
	"a signature that PERSON made elsewhere; may be repeated"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

struct step {
	struct policy *before, *next; /* before: NULL where none is active */
	struct buf bundle;	      /* next's bytes */
};

static void
step_free(struct step *s)
{
	policy_free(s->before);
	policy_free(s->next);
	buf_free(&s->bundle);
}
#define AUTO_STEP __attribute__((cleanup(step_free)))

/* A file of its own, or the digest of one in the directory. */
static int
bundle_read(
    const char *dir, const char *name, struct buf *text, struct policy **ret, struct err *err)
{
	struct str digest = str_z(name);
	AUTO_FREE char *path = NULL;
	struct hash h;
	int rc;

	if (str_has_prefix(digest, "sha256:"))
		digest = str_mem(digest.p + 7, digest.n - 7);
	if (dir != NULL && hash_from_hex(digest, &h))
		path = xasprintf("%s/%.*s.json", dir, STR_ARG(digest));
	rc = file_read(AT_FDCWD, path != NULL ? path : name, text, err);
	if (rc == 0 && (rc = policy_load(buf_str(text), ret, err)) != 0)
		return err_wrap(err, "%s", path != NULL ? path : name);
	if (rc == 0 && path != NULL && !hash_eq(policy_digest(*ret), &h))
		return err_set(err, ERR_TAMPER, "%s does not have the digest of its name", path);
	return rc;
}

static int
step_read(const struct args *a, struct step *s, struct err *err)
{
	AUTO_BUF struct buf before = BUF(JSON_SIZE_MAX);
	int rc;

	s->bundle = BUF(JSON_SIZE_MAX);
	rc = bundle_read(a->dir, a->bundle, &s->bundle, &s->next, err);
	if (rc == 0 && a->before != NULL)
		return bundle_read(NULL, a->before, &before, &s->before, err);
	return rc == 0 ? policy_active_load(a->dir, &s->before, err) : rc;
}

/* --- the file of signatures ------------------------------------------------------ */

static char *
signatures_name(const struct policy *next)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(policy_digest(next), hex);
	return xasprintf("%s.sig", hex);
}

/* Those of this step that are there already; of another step they are of no use. */
static int
signatures_read(int dirfd, const struct step *s, struct succession *ret, struct err *err)
{
	AUTO_FREE char *name = signatures_name(s->next);
	AUTO_BUF struct buf text = BUF(SUCCESSION_FILE_MAX);
	int rc;

	if (faccessat(dirfd, name, F_OK, 0) != 0 && errno == ENOENT) {
		*ret = (struct succession){0};
		rc = 0;
	} else {
		rc = file_read(dirfd, name, &text, err);
		if (rc == 0 && (rc = succession_parse(buf_str(&text), ret, err)) != 0)
			return err_wrap(err, "%s", name);
	}
	if (rc != 0)
		return rc;
	if (!hash_eq(&ret->before, policy_digest(s->before)))
		ret->n = 0;
	ret->before = *policy_digest(s->before);
	ret->bundle = *policy_digest(s->next);
	return 0;
}

/* In place of the same person's before. */
static int
signatures_add(struct succession *s, struct str person, struct str armored, struct err *err)
{
	size_t i = 0;

	while (i < s->n && !str_eq(s->sig[i].person, person))
		i++;
	if (i == SUCCESSION_SIGNATURES_MAX)
		return err_set(err, ERR_TOO_LARGE, "over %d signatures", SUCCESSION_SIGNATURES_MAX);
	s->sig[i] = (struct succession_signature){person, armored};
	if (i == s->n)
		s->n++;
	return 0;
}

static int
signatures_write(int dirfd, const struct step *s, const struct succession *all, struct err *err)
{
	AUTO_FREE char *name = signatures_name(s->next);
	AUTO_BUF struct buf text = BUF(SUCCESSION_FILE_MAX);

	succession_put(all, &text);
	return file_replace(dirfd, name, buf_str(&text), 0600, err);
}

static int
dir_open(const char *dir, int *ret, struct err *err)
{
	*ret = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret >= 0 ? 0 : err_sys(err, ERR_CONFIG, errno, "%s", dir);
}

/* --- sign ------------------------------------------------------------------------ */

static int
sign_keep(const struct args *a, const struct step *s, struct str armored, struct err *err)
{
	AUTO_SUCCESSION struct succession all = {0};
	AUTO_FD int dirfd = -1;
	struct err left = {0};
	int rc = dir_open(a->dir, &dirfd, err);

	if (rc == 0)
		rc = signatures_read(dirfd, s, &all, err);
	if (rc == 0)
		rc = signatures_add(&all, str_z(a->person), armored, err);
	if (rc == 0)
		rc = signatures_write(dirfd, s, &all, err);
	if (rc != 0)
		return rc;
	if (succession_check(s->before, s->next, all.sig, all.n, &left) == 0)
		(void)printf(
		    "signed; it can be activated: cofferdam policy activate %s\n", a->bundle);
	else
		(void)printf("signed; %s\n", left.msg);
	return 0;
}

static int
sign(const struct args *a, struct err *err)
{
	AUTO_STEP struct step s = {0};
	AUTO_BUF struct buf text = BUF(SUCCESSION_STATEMENT_MAX);
	AUTO_BUF struct buf armored = BUF(SIG_SSHSIG_MAX);
	struct succession_signature one;
	int rc = step_read(a, &s, err);

	if (rc != 0)
		return rc;
	if (s.before == NULL)
		return err_set(
		    err, ERR_INVALID, "no policy is active: the first one needs no signatures");
	succession_statement(s.next, policy_digest(s.before), str_z(a->person), &text);
	/* With --before the signature alone goes to standard output. */
	(void)fprintf(a->before != NULL ? stderr : stdout, "the text that is signed:\n%.*s",
	    STR_ARG(buf_str(&text)));
	rc = sign_ask("sign", a->person, a->yes, err);
	if (rc == 0)
		rc = sign_bytes_in(a->key, SUCCESSION_NAMESPACE, buf_str(&text), &armored, err);
	if (rc != 0)
		return rc;
	one = (struct succession_signature){str_z(a->person), buf_str(&armored)};
	rc = succession_counts(s.before, s.next, &one, err);
	if (rc != 0)
		return rc;
	if (a->before == NULL)
		return sign_keep(a, &s, buf_str(&armored), err);
	return file_write_all(STDOUT_FILENO, buf_str(&armored)) == 0
		   ? 0
		   : err_sys(err, ERR_SYSTEM, errno, "standard output");
}

/* --- activate -------------------------------------------------------------------- */

/* "alice=alice.sig"; the text is kept in *kept. */
static int
given_add(struct succession *all, const char *given, struct buf *kept, struct err *err)
{
	struct str file = str_z(given), person;

	if (!str_cut(&file, '=', &person) || person.n == 0 || file.n == 0)
		return err_set(
		    err, ERR_CONFIG, "--signature must be PERSON=FILE, is \"%s\"", given);
	{
		int rc = file_read(AT_FDCWD, file.p, kept, err);

		return rc == 0 ? signatures_add(all, person, buf_str(kept), err) : rc;
	}
}

static int
activate_signed(const struct args *a, const struct step *s, int dirfd, struct err *err)
{
	AUTO_SUCCESSION struct succession all = {0};
	struct buf kept[ARG_MANY_MAX];
	int rc = signatures_read(dirfd, s, &all, err);

	for (size_t i = 0; i < ARG_MANY_MAX; i++)
		kept[i] = BUF(SIG_SSHSIG_MAX);
	for (size_t i = 0; rc == 0 && i < a->given.n; i++)
		rc = given_add(&all, a->given.v[i], &kept[i], err);
	if (rc == 0)
		rc = succession_check(s->before, s->next, all.sig, all.n, err);
	if (rc == 0 && all.n != 0)
		rc = signatures_write(dirfd, s, &all, err);
	for (size_t i = 0; i < ARG_MANY_MAX; i++)
		buf_free(&kept[i]);
	return rc;
}

static int
activate(const struct args *a, struct err *err)
{
	AUTO_STEP struct step s = {0};
	AUTO_FREE char *name = NULL;
	AUTO_FD int dirfd = -1;
	char hex[HASH_HEX_SIZE];
	int rc = step_read(a, &s, err);

	if (rc == 0)
		rc = dir_open(a->dir, &dirfd, err);
	if (rc == 0 && s.before != NULL)
		rc = activate_signed(a, &s, dirfd, err);
	if (rc != 0)
		return rc;
	hash_hex(policy_digest(s.next), hex);
	name = xasprintf("%s.json", hex);
	rc = file_replace(dirfd, name, buf_str(&s.bundle), 0600, err);
	if (rc == 0)
		rc = policy_active_write(dirfd, s.next, err);
	if (rc == 0)
		(void)printf("active: policy %.*s serial %lld, sha256:%s\n",
		    STR_ARG(policy_name(s.next)), (long long)policy_serial(s.next), hex);
	return rc;
}

static int
command(bool signs, int argc, char **argv)
{
	const char *words = signs ? "policy sign" : "policy activate";
	AUTO_FREE char *key = sign_key_default(), *dir = NULL;
	struct args a = {.key = key};
	struct err err = {0};

	if (!args_read(words, rows, ARRAY_LEN(rows), signs ? SIGN : ACTIVATE, argc, argv, &a))
		return CMD_USAGE;
	if (a.before != NULL && a.state != NULL)
		return args_wrong(words, "--before and --state: give one of them");
	if (a.before == NULL)
		a.dir = dir = xasprintf("%s/policy", a.state != NULL ? a.state : CMD_STATE_DEFAULT);
	return (signs ? sign(&a, &err) : activate(&a, &err)) == 0 ? CMD_OK : policy_fail(&err);
}

int
policy_sign_main(int argc, char **argv)
{
	return command(true, argc, argv);
}

int
policy_activate_main(int argc, char **argv)
{
	return command(false, argc, argv);
}
