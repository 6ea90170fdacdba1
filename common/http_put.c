/*
 * HTTP/1.1 messages, written. Runs in front, core, upstream and the agent's loop. Asserts on what
 * could end a line early: whoever writes a message must have read or made its parts by the rules.
 */
#include <assert.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/http.h"

#include "common/banned.h"

static void
put_line_end(struct buf *b)
{
	buf_put_z(b, "\r\n");
}

void
http_put_request(struct buf *b, struct str method, struct str target)
{
	assert(http_is_token(method) && target.n != 0 && str_is_ascii_print(target) &&
	       memchr(target.p, ' ', target.n) == NULL);
	buf_put_str(b, method);
	buf_put_c(b, ' ');
	buf_put_str(b, target);
	buf_put_z(b, " HTTP/1.1\r\n");
}

void
http_put_status(struct buf *b, unsigned status)
{
	assert(status >= 100 && status <= 999);
	buf_printf(b, "HTTP/1.1 %u %s\r\n", status, http_reason(status));
}

void
http_put_field(struct buf *b, struct str name, struct str value)
{
	assert(http_is_token(name) && http_is_value(value));
	buf_put_str(b, name);
	buf_put_z(b, ": ");
	buf_put_str(b, value);
	put_line_end(b);
}

void
http_put_end(struct buf *b)
{
	put_line_end(b);
}

void
http_put_chunk(struct buf *b, struct str content)
{
	if (content.n == 0)
		return;
	buf_printf(b, "%zx\r\n", content.n);
	buf_put_str(b, content);
	put_line_end(b);
}

void
http_put_last_chunk(struct buf *b)
{
	buf_put_z(b, "0\r\n\r\n");
}

static const struct {
	unsigned status;
	const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *
http_reason(unsigned status)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

void
http_date(int64_t s, char out[30])
{
	static const char *const day[] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
	static const char *const month[] = {
	    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	int year, mon, mday, in_day;
	int64_t days;

	s = s < 0 ? 0 : s > 253402300799 ? 253402300799 : s; /* 1970 to 9999 */
	days = s / 86400;
	in_day = (int)(s % 86400);
	clock_civil(days, &year, &mon, &mday);
	(void)snprintf(out, 30, "%s, %02d %s %04d %02d:%02d:%02d GMT", day[days % 7], mday,
	    month[mon - 1], year, in_day / 3600, in_day / 60 % 60, in_day % 60);
}
