/*
 * The operational log (not the decision log). Lines are vis-encoded (no control
 * character, no invalid UTF-8 leaves the process) and cut at LOG_LINE_MAX; the parent
 * writes to standard error, a child hands its lines to the parent by a sink.
 * Never pass a secret. errno is preserved.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"

#define LOG_LINE_MAX 2048

enum log_level { LOG_ERROR_ = 0, LOG_WARN_ = 1, LOG_INFO_ = 2, LOG_DEBUG_ = 3 };

/* `name` (borrowed for ever) stands before each line, e.g. "front". */
void log_init(const char *name, enum log_level max);
typedef void log_sink_fn(void *arg, enum log_level level, struct str line);
/* NULL: back to standard error. */
void log_set_sink(log_sink_fn *fn, void *arg);
/* A line that another process made: checked, encoded and tagged with its name. */
void log_foreign(const char *name, unsigned level, struct str line);

void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Log as error, then _exit(1). */
void fatal(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
void fatal_err(const struct err *err) __attribute__((noreturn));
/* Encode s for a terminal or a log line: controls, DEL, C1, bidi and invalid bytes become \xNN.
 * Caller frees. */
char *log_vis(struct str s);

#endif
