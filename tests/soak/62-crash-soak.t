#!/bin/sh
# Fifty thousand statements while processes are killed.
set -eu
cd "$(dirname "$0")/../system"
export SOAK_ACTIONS="${SOAK_ACTIONS:-50000}" SOAK_SECONDS="${SOAK_SECONDS:-900}"
exec ./62-crash-soak.t
