#!/bin/sh
# A million records of 64 producers, and everything else of that test.
LOG_RECORDS=${LOG_RECORDS:-1000000} exec "$(dirname "$0")/../system/32-log-writer.t"
