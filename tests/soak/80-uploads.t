#!/bin/sh
# A hundred uploads at once, of 300 MB each.
set -eu
cd "$(dirname "$0")/../system"
export UPLOAD_MB="${UPLOAD_MB:-300}"
exec ./80-uploads.t
