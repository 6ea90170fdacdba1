#!/bin/bash
# shellcheck disable=SC2016,SC2086  # apt's $(NAME) fields; goals are words
# `make fresh`: a minimal Debian 12 root made by debootstrap, entered by pivot_root in a mount
# and pid namespace of its own (user namespaces cannot be made inside a chroot), where `make
# check` and `make demo` run from a clean clone of HEAD. Needs root. FRESH="check demo" picks.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "make fresh: must be root (debootstrap, mounts)" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap

top=$PWD
root=$top/build/fresh
goals=${FRESH:-check demo}
# The mirror this machine's own apt uses for Debian 12.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "Debian" && $2 == "bookworm" { print $3; exit }')
[ -n "$mirror" ] || { echo "make fresh: apt names no Debian 12 mirror" >&2; exit 1; }

rm -rf --one-file-system "$root"
mkdir -p "$root"
echo "== debootstrap (minbase and make) into ${root#"$top"/}"
debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$root" "$mirror" \
	>"$top/build/fresh-debootstrap.log" 2>&1 || { tail -20 "$top/build/fresh-debootstrap.log"; exit 1; }
{
	echo "deb $mirror bookworm main"
	apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "Debian" && $2 ~ /^bookworm-/ { print "deb", $3, $2, "main" }' | sort -u
} >"$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
cp /etc/hosts "$root/etc/hosts"
# What this machine trusts besides the public authorities: its way to a registry may need it.
cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
git clone -q --no-hardlinks "$top" "$root/src"

cat >"$root/enter" <<'IN'
#!/bin/sh
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
unset BUILD MODE MAKEFLAGS MAKELEVEL
update-ca-certificates >/dev/null 2>&1
cd /src
for goal in "$@"; do
	echo "== make $goal in the fresh root"
	make "$goal"
done
echo "== left running: $(ps -e -o comm= 2>/dev/null | grep -E 'cofferdam|postgres' || echo nothing)"
IN
chmod +x "$root/enter"
exec unshare --mount --pid --fork --kill-child --propagation private bash -euc '
	root=$1; shift
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
	mkdir -p "$root/.old"
	cd "$root"
	pivot_root . .old
	umount -l /.old
	exec /enter "$@"
' fresh "$root" $goals
