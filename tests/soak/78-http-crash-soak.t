#!/bin/sh
# Four thousand exchanges while processes are killed.
set -eu
cd "$(dirname "$0")/../system"
export SOAK_ACTIONS="${SOAK_ACTIONS:-4000}" SOAK_SECONDS="${SOAK_SECONDS:-900}"
exec ./78-http-crash-soak.t
