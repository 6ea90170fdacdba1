#!/bin/sh
# Ten thousand statements, three hundred kills: three minutes.
set -eu
cd "$(dirname "$0")/../system"
export SOAK_ACTIONS="${SOAK_ACTIONS:-10000}" SOAK_KILLS="${SOAK_KILLS:-300}" SOAK_SECONDS="${SOAK_SECONDS:-900}"
exec ./62-crash-soak.t
