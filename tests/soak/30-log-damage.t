#!/bin/sh
# Every bit and byte of a log with more segments, checkpoints and packs.
set -eu
cd "$(dirname "$0")/../system"
DAMAGE_RECORDS="${DAMAGE_RECORDS:-24}" exec ./30-log-damage.t
