/*
 * Retries of model requests (process: cofferdam-agent). Pure: time and chance are handed in. A
 * request is safe to repeat, since nothing of an answer was acted on yet.
 */
#include "agent/model_retry.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

#include "common/banned.h"

#define DELAY_MAX INT32_MAX /* milliseconds */

static struct str
value_of(const struct http_response *r, const char *name)
{
	const struct http_field *f =
	    r != NULL ? http_field_find(r->fields, r->nfields, name) : NULL;

	return f != NULL ? f->value : STR_NONE;
}

bool
model_retry_is_due(const struct http_response *r)
{
	struct str said = value_of(r, "x-should-retry");

	if (str_eqz(said, "true") || str_eqz(said, "false"))
		return str_eqz(said, "true");
	return r->status == 408 || r->status == 409 || r->status == 429 || r->status >= 500;
}

/* "1.5" times `scale` to whole numbers; 0: not a positive decimal within bounds. */
static uint64_t
decimal(struct str s, uint64_t scale)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
		v = v * 10 + (uint64_t)(s.p[i] - '0') * scale;
		if (v > DELAY_MAX)
			return 0;
	}
	if (i == 0 || (i < s.n && s.p[i] != '.'))
		return 0;
	for (i++; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return 0;
		scale /= 10;
		v += (uint64_t)(s.p[i] - '0') * scale;
	}
	return v > DELAY_MAX ? 0 : v;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 5.6.7); 0: it is none. */
static int64_t
imf_date(struct str s)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char text[30], name[4] = "", zone[4] = "";
	int day, year, h, m, sec;
	const char *at;

	if (s.n != 29 || s.p[3] != ',')
		return 0;
	memcpy(text, s.p, 29);
	text[29] = '\0';
	if (sscanf(text + 4, " %2d %3s %4d %2d:%2d:%2d %3s", &day, name, &year, &h, &m, &sec,
		zone) != 7 ||
	    strcmp(zone, "GMT") != 0 || strlen(name) != 3)
		return 0;
	at = strstr(months, name);
	if (at == NULL || (at - months) % 3 != 0 || year < 1970 || year > 9999 || day < 1 ||
	    day > 31 || h < 0 || h > 23 || m < 0 || m > 59 || sec < 0 || sec > 60)
		return 0;
	return clock_days(year, (int)(at - months) / 3 + 1, day) * 86400 + h * 3600 + m * 60 + sec;
}

/* 0: the server does not say. */
static uint64_t
asked_ms(const struct http_response *r, int64_t now_s)
{
	struct str after = value_of(r, "retry-after");
	uint64_t ms = decimal(value_of(r, "retry-after-ms"), 1);
	int64_t date;

	if (ms == 0)
		ms = decimal(after, 1000);
	date = ms == 0 ? imf_date(after) : 0;
	if (date > now_s && date - now_s <= DELAY_MAX / 1000)
		ms = (uint64_t)(date - now_s) * 1000;
	return ms;
}

uint32_t
model_retry_wait_ms(const struct http_response *r, unsigned n, uint32_t chance, int64_t now_s)
{
	uint64_t ms = asked_ms(r, now_s);

	if (ms != 0)
		return (uint32_t)ms;
	ms = n < 4 ? 500ULL << n : 8000;
	return (uint32_t)(ms - ms * (chance % 1001) / 4000);
}
