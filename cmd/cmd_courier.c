/*
 * What `cofferdam status` tells beside core: the courier, exports. Runs as the person. The file is
 * written by a process that talks to the outside: it is read as strictly as what comes from there,
 * and printed encoded.
 */
#include "cmd/cmd_courier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd_control.h"
#include "cmd/cmd_export_cursor.h"
#include "cmd/cmd_file.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define STATUS_MAX ((size_t)64 << 10)
#define OLD_US (INT64_C(90) * 1000000) /* it is written every 30 s at least */

int
courier_status_read(const char *state, struct json_doc **ret, struct err *err)
{
	AUTO_FREE char *path =
	    xasprintf("%s/courier/status.json", state != NULL ? state : CMD_STATE_DEFAULT);
	AUTO_BUF struct buf text = BUF(STATUS_MAX);
	AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n;

	*ret = NULL;
	/* Who may not look there may have the rest. */
	if (fd < 0 && (errno == ENOENT || errno == EACCES))
		return 0;
	n = fd >= 0 ? read(fd, buf_grow(&text, STATUS_MAX), STATUS_MAX) : -1;
	if (n < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	return json_parse(str_mem(text.p, (size_t)n), "courier/status.json", ret, err);
}

static void
print_webhook(const struct json *h)
{
	AUTO_FREE char *name = control_text(h, "name"), *host = control_text(h, "host"),
		       *state = control_text(h, "state"), *error = control_text(h, "error"),
		       *since = control_text(h, "since"), *at = control_text(h, "error_at");
	int64_t lag = json_int(json_get(h, "lag")), lost = json_int(json_get(h, "given_up"));

	(void)printf("webhook  %s, %s: %s, %" PRId64 " delivered", name, host, state,
	    json_int(json_get(h, "delivered")));
	if (lag != 0)
		(void)printf(", %" PRId64 " records behind", lag);
	if (lag != 0 && since[0] != '\0')
		(void)printf(" since %s", since);
	if (lost != 0)
		(void)printf(", %" PRId64 " given up", lost);
	if (error[0] != '\0')
		(void)printf("\n         %s%s%s", at, at[0] != '\0' ? ": " : "", error);
	(void)printf("\n");
}

void
courier_status_print(const struct json *status)
{
	const struct json *list = json_get(status, "webhooks");
	struct str at = json_str(json_get(status, "at"));
	int64_t us = 0;

	for (size_t i = 0; i < json_count(list); i++)
		print_webhook(json_at(list, i));
	if (status != NULL && (clock_parse(at, &us, NULL) != 0 || clock_wall_us() - us > OLD_US)) {
		AUTO_FREE char *z = log_vis(at);

		(void)printf("courier  has not been heard of since %s: nobody is told\n", z);
	}
}

int
courier_status_add(struct jcs *j, const struct json *core, const struct json *status,
    const char *state, struct err *err)
{
	static const char *const beside[] = {"courier", "exports"};
	size_t next = 0, n = json_count(core);
	int rc = 0;

	jcs_open(j, NULL);
	for (size_t i = 0; rc == 0 && i <= n; i++) {
		AUTO_FREE char *key = i < n ? str_dup(json_key(core, i)) : NULL;

		for (; rc == 0 && next < ARRAY_LEN(beside) &&
		       (key == NULL || strcmp(key, beside[next]) > 0);
		     next++) {
			if (next == 1)
				export_status_put(j, beside[next], state,
				    (uint64_t)json_int(json_get(core, "log_size")));
			else if (status != NULL)
				rc = jcs_value(j, beside[next], status, err);
		}
		if (rc == 0 && key != NULL)
			rc = jcs_value(j, key, json_at(core, i), err);
	}
	jcs_close(j);
	return rc;
}
