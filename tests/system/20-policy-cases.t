#!/bin/sh
# The judged cases that stand beside the design, through the real parser and the real engine.
set -u
cd "$(dirname "$0")/../.." || exit 1
exec "$BUILD/cofferdam" policy test --cases-policy tests/cases/policy-cases.json
