#!/bin/sh
# Every bit and byte of a log damaged, each time verified from a head in its midst as well.
set -eu
cd "$(dirname "$0")/../system"
RESUME_DAMAGE="${RESUME_DAMAGE:-flip zero remove insert cut sector}" exec ./35-verify-resume.t
