/*
 * Finds zone files. Runs in core before confinement and in the command line. The name
 * comes from a policy, so it is a plain IANA name below the root and nothing else; a zone
 * that is not there is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/tz.h"

#include "common/buf.h"
#include "common/log.h"

#include "common/banned.h"

#define TZ_ROOT "/usr/share/zoneinfo"
#define TZ_FILE_MAX ((size_t)256 << 10)
#define TZ_NAME_MAX 64

/* Components of letters, digits, '_', '+' and '-', that begin with a letter. */
static bool
is_zone_name(struct str s)
{
	bool start = true;

	if (s.n == 0 || s.n > TZ_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool alpha = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
		bool rest = (c >= '0' && c <= '9') || c == '_' || c == '+' || c == '-';

		if (c == '/' ? start : !alpha && (start || !rest))
			return false;
		start = c == '/';
	}
	return !start;
}

/*
 * Names below the root that are no zones: the data without and with leap seconds, the
 * machine's own zone, and "Factory", which is UTC under the name "not set".
 */
static bool
is_trap(struct str name)
{
	return str_has_prefix(name, "posix/") || str_has_prefix(name, "right/") ||
	       str_eqz(name, "localtime") || str_eqz(name, "posixrules") ||
	       str_eqz(name, "Factory");
}

static int
open_beneath(const char *root, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	AUTO_FD int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -1;
	return (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

static int
read_all(int fd, struct buf *out, struct err *err)
{
	struct stat st;
	uint8_t part[4096];

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_NOT_FOUND, "not a file");
	for (;;) {
		ssize_t k = read(fd, part, sizeof(part));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "read");
		if (k == 0)
			break;
		buf_put(out, part, (size_t)k);
		if (buf_over(out))
			return err_set(
			    err, ERR_TOO_LARGE, "file must be at most %zu bytes", out->max);
	}
	return 0;
}

int
tz_load(const char *root, struct str name, struct tz **ret, struct err *err)
{
	AUTO_FREE char *path = str_dup(name);
	AUTO_FREE char *shown = log_vis(name);
	AUTO_BUF struct buf file = BUF(TZ_FILE_MAX);
	AUTO_FD int fd = -1;

	if (!is_zone_name(name) || is_trap(name))
		return err_set(err, ERR_INVALID,
		    "time zone must be an IANA name such as \"Europe/London\", is \"%.80s\"",
		    shown);
	fd = open_beneath(root != NULL ? root : TZ_ROOT, path);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(err, ERR_NOT_FOUND, "time zone \"%s\" is not known here", path);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "time zone \"%s\"", path);
	if (read_all(fd, &file, err) != 0 || tz_parse(buf_str(&file), ret, err) != 0)
		return err_wrap(err, "time zone \"%s\"", path);
	return 0;
}

/* First line of a small file below the root; "" if there is none. */
static void
first_line(const char *root, const char *name, char out[64])
{
	AUTO_FD int fd = open_beneath(root, name);
	ssize_t n = fd >= 0 ? read(fd, out, 63) : 0;

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

void
tz_version(const char *root, char out[16])
{
	static const char prefix[] = "# version ";
	char line[64];
	const char *v = line;

	if (root == NULL)
		root = TZ_ROOT;
	first_line(root, "+VERSION", line);
	if (line[0] == '\0') {
		first_line(root, "tzdata.zi", line);
		v = strncmp(line, prefix, sizeof(prefix) - 1) == 0 ? line + sizeof(prefix) - 1 : "";
	}
	if (v[0] == '\0' || strlen(v) >= 16 || !str_is_ascii_print(str_z(v)))
		v = "unknown";
	memcpy(out, v, strlen(v) + 1);
}
