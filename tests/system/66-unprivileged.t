#!/bin/sh
# The whole path as an ordinary user: the same test as 60-broker.t, run by somebody who is not root,
# with programs in a folder that user can read. (All processes then share one user; the sandbox's
# own test runs as an ordinary user by itself.)
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" != 0 ]; then
	exec "$here/60-broker.t"
fi
t=$(mktemp -d /tmp/cofferdam-user.XXXXXX) || exit 1
trap 'rm -rf "$t"' EXIT
mkdir -p "$t/tests" "$t/build" "$t/tmp"
cp "$BUILD"/cofferdam* "$BUILD/tool_hostrun" "$t/build/"
cp -r "$here/../lib" "$here/../system" "$here/../verify_log.py" "$t/tests/"
chown -R nobody: "$t"
chmod 755 "$t"
cd "$t" || exit 1
env -i PATH="$PATH" HOME="$t" TMPDIR="$t/tmp" BUILD="$t/build" \
	setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups -- "$t/tests/system/60-broker.t"
