#!/bin/sh
# Power cuts at three thousand places.
set -eu
cd "$(dirname "$0")/../system"
POWER_TRACES="${POWER_TRACES:-30}" POWER_CUTS="${POWER_CUTS:-100}" exec ./31-log-power.t
