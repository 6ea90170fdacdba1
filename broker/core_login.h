/* Who a peer of a unix socket is: uid to login name, read from /etc/passwd through a kept
 * descriptor. */
#ifndef BROKER_CORE_LOGIN_H
#define BROKER_CORE_LOGIN_H

#include <sys/types.h>

#include "common/err.h"
#include "common/str.h"

#define LOGINS_MAX 65536
#define LOGINS_FILE_MAX ((size_t)8 << 20)

struct core_logins;

/* From the text of a passwd(5) file; lines that are not of its form are left out. */
struct core_logins *core_logins_parse(struct str passwd);
/* Reads fd from its start. */
int core_logins_read(int fd, struct core_logins **ret, struct err *err);
void core_logins_free(struct core_logins *l);
/* "unix:NAME" of the first line with that uid, as policies write it; NULL: nobody. */
const char *core_login(const struct core_logins *l, uid_t uid);

#endif
