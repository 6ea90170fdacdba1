#!/bin/sh
# 1,000 sandboxes in a row, and everything else of that test.
ROUNDS=${ROUNDS:-1000} exec "$(dirname "$0")/../system/48-sandbox-left.t"
