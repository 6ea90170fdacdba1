#!/bin/sh
# A log that is read four hundred times while it is written.
set -eu
cd "$(dirname "$0")/../system"
LIVE_ROUNDS="${LIVE_ROUNDS:-400}" exec ./30-log-live.t
