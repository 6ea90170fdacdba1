#!/bin/sh
# Calendars against the C library in every zone, at every clock change and on every day of a century.
cd "$(dirname "$0")/../.." || exit 1
CALENDAR_ZONES=all CMOCKA_MESSAGE_OUTPUT=TAP exec "$BUILD/t_calendar_glibc"
