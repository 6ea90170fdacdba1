#!/bin/sh
# Four thousand exchanges, three hundred kills: three minutes.
set -eu
cd "$(dirname "$0")/../system"
export SOAK_ACTIONS="${SOAK_ACTIONS:-4000}" SOAK_KILLS="${SOAK_KILLS:-300}" SOAK_SECONDS="${SOAK_SECONDS:-900}"
exec ./78-http-crash-soak.t
