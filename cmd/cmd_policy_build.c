/*
 * `cofferdam policy build`. Runs as the operator. What build writes is all that
 * core will ever load: it stands under its own digest, complete and synced, before `active`
 * names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/xalloc.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define HORIZON_S ((int64_t)30 * 86400)

static void
print_warnings(const struct policy_file *f)
{
	policy_print(stderr, buf_str(&f->warnings));
}

/* A calendar that runs out freezes everything that depends on it: say so in time. */
static void
print_horizons(const struct policy_file *f, const char *path)
{
	int64_t now = clock_wall_us() / 1000000;

	for (size_t i = 0; i < policy_calendar_count(f->policy); i++) {
		struct policy_calendar c = policy_calendar_at(f->policy, i);
		char until[CLOCK_TEXT_SIZE];

		clock_format_s(c.valid_to * 1000000, until);
		if (c.valid_to < now + HORIZON_S)
			(void)fprintf(stderr,
			    "%s: warning: calendar %.*s is valid until %s only; after that it "
			    "counts as frozen\n",
			    path, STR_ARG(c.id), until);
	}
}

/* A policy that does not keep its own theorems is not built. */
static int
check_theorems(struct policy_file *f, const char *path, struct err *err)
{
	AUTO(policy_review) struct policy_review *r = NULL;
	struct policy_theorems t = {0};
	int rc;

	if (policy_docs_count(&f->docs, "prove") == 0)
		return 0;
	rc = policy_review_new(f->policy, f->parts, f->nparts, clock_wall_us() / 1000000, &r, err);
	if (rc == 0)
		rc = policy_check_theorems(r, path, &t, err);
	if (rc != 0)
		return err_wrap(err, "%s: theorems", path);
	if (t.failed != 0)
		return err_set(err, ERR_INVALID,
		    "%s: %zu of %zu theorems do not hold, the first is %.*s: not built", path,
		    t.failed, t.n, STR_ARG(t.first));
	return 0;
}

/* --- build --------------------------------------------------------------------------- */

int
policy_active_load(const char *dir, struct policy **ret, struct err *err)
{
	AUTO_FREE char *path = NULL, *active = xasprintf("%s/active", dir);
	AUTO_BUF struct buf hex = BUF(100);
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	struct hash h;
	int rc;

	if (access(active, F_OK) != 0 && errno == ENOENT)
		return 0;
	rc = file_read(AT_FDCWD, active, &hex, err);
	if (rc != 0)
		return rc;
	if (!hash_from_hex(str_trim(buf_str(&hex)), &h))
		return err_set(err, ERR_CONFIG, "%s does not hold a digest", active);
	path = xasprintf("%s/%.*s.json", dir, STR_ARG(str_trim(buf_str(&hex))));
	rc = file_read(AT_FDCWD, path, &text, err);
	if (rc == 0 && (rc = policy_load(buf_str(&text), ret, err)) != 0)
		return err_wrap(err, "%s", path);
	if (rc == 0 && !hash_eq(policy_digest(*ret), &h))
		return err_set(err, ERR_TAMPER, "%s does not have the digest of its name", path);
	return rc;
}

/*
 * A serial only rises, so that an old bundle cannot quietly come back. What is active but cannot
 * be read has no serial: building is the way to repair it, so that is said and goes on.
 */
static int
check_active(const char *dir, const struct policy *p, unsigned *ret_owners, struct err *err)
{
	AUTO(policy) struct policy *old = NULL;
	struct err why = {0};

	*ret_owners = 0;
	if (policy_active_load(dir, &old, &why) != 0) {
		(void)fprintf(stderr, "cofferdam: warning: ");
		policy_print(stderr, str_z(why.msg));
		(void)fprintf(stderr,
		    "\ncofferdam: warning: the active policy cannot be read, so the serial %lld is "
		    "compared with nothing: see that it is the newest\n",
		    (long long)policy_serial(p));
		return 0;
	}
	if (old == NULL || hash_eq(policy_digest(old), policy_digest(p)))
		return 0;
	if (policy_serial(p) <= policy_serial(old))
		return err_set(err, ERR_INVALID,
		    "serial must be over %lld, the active policy's, is %lld",
		    (long long)policy_serial(old), (long long)policy_serial(p));
	if (policy_owners(old) != NULL)
		*ret_owners = policy_owners(old)->count;
	return 0;
}

int
policy_active_write(int dirfd, const struct policy *p, struct err *err)
{
	char line[HASH_HEX_SIZE + 1];

	hash_hex(policy_digest(p), line);
	line[HASH_HEX_SIZE - 1] = '\n';
	return file_replace(dirfd, "active", str_mem(line, HASH_HEX_SIZE), 0600, err);
}

/*
 * Under its own digest, and named in `active` unless the active one's owners must sign first
 * (*ret_owners: how many; 0: it is active).
 */
static int
bundle_write(const char *dir, const struct policy *p, struct str bundle, unsigned *ret_owners,
    struct err *err)
{
	AUTO_FD int dirfd = -1;
	AUTO_FREE char *name = NULL;
	char hex[HASH_HEX_SIZE];
	int rc;

	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return err_sys(err, ERR_CONFIG, errno, "%s", dir);
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", dir);
	rc = check_active(dir, p, ret_owners, err);
	if (rc != 0)
		return rc;
	hash_hex(policy_digest(p), hex);
	name = xasprintf("%s.json", hex);
	rc = file_replace(dirfd, name, bundle, 0600, err);
	return rc == 0 && *ret_owners == 0 ? policy_active_write(dirfd, p, err) : rc;
}

static void
print_owners(const struct policy *p, unsigned owners)
{
	char hex[HASH_HEX_SIZE];

	if (owners == 0)
		return;
	hash_hex(policy_digest(p), hex);
	(void)printf("not active yet: %u of the active policy's owners must sign it:\n"
		     "  cofferdam policy sign %s --as NAME\n  cofferdam policy activate %s\n",
	    owners, hex, hex);
}

struct build_args {
	const char *file, *output, *state; /* neither of the last two: to stdout */
};

#define AT(f) offsetof(struct build_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL, ARG_POLICY_IS},
    {"--output", OPTION_TEXT, AT(output), 0, 0, "DIR",
	"write DIR/<digest>.json and DIR/active; also -o"},
    {"-o", OPTION_TEXT, AT(output), 0, 0, "DIR", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", "the same in DIR/policy, where a broker looks"},
};

int
policy_build_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	AUTO_FREE char *dir = NULL;
	struct build_args a = {0};
	unsigned owners = 0;
	struct err err = {0};

	if (!ARGS_READ("policy build", rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.output != NULL && a.state != NULL)
		return args_wrong("policy build", "--output and --state: give one of them");
	dir = a.state != NULL	 ? xasprintf("%s/policy", a.state)
	      : a.output != NULL ? xstrdup(a.output)
				 : NULL;
	if (policy_file_open(a.file, POLICY_FILE_CA, &f, &err) != 0)
		return policy_fail(&err);
	print_warnings(&f);
	print_horizons(&f, a.file);
	if (check_theorems(&f, a.file, &err) != 0)
		return policy_fail(&err);
	if (policy_bundle(f.policy, &bundle, &err) != 0)
		return policy_fail(&err);
	if (dir == NULL) {
		if (file_write_all(STDOUT_FILENO, buf_str(&bundle)) != 0) {
			(void)err_sys(&err, ERR_SYSTEM, errno, "stdout");
			return policy_fail(&err);
		}
		return CMD_OK;
	}
	if (bundle_write(dir, f.policy, buf_str(&bundle), &owners, &err) != 0)
		return policy_fail(&err);
	policy_summary_print(&f);
	print_owners(f.policy, owners);
	return CMD_OK;
}
