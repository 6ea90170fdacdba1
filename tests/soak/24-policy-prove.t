#!/bin/sh
# Two thousand random policies: z3 says the same of each.
set -eu
cd "$(dirname "$0")/../system"
export PROVE_ROUNDS="${PROVE_ROUNDS:-2000}" PROVE_SEED="${PROVE_SEED:-1}"
exec ./24-policy-prove.t
