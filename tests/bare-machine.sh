#!/bin/sh
# Runs ./musubi on a Debian with nothing in it but what debootstrap's smallest variant makes: no git, no sudo, no
# certificates, no compiler. Needs root, the network and some gigabytes in $TMPDIR. Not run by default:
#     ./musubi test bare
# With words after it, runs `./musubi WORDS` there instead of the tests; MUSUBI_BARE names a folder to keep and use
# again.
set -eu
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
if [ "$(id -u)" != 0 ]; then echo "a bare machine needs root, for debootstrap and chroot" >&2; exit 1; fi
command -v debootstrap >/dev/null || { echo "a bare machine needs the package debootstrap" >&2; exit 1; }

root=${MUSUBI_BARE:-$(mktemp -d "${TMPDIR:-/tmp}/musubi-bare.XXXXXX")}
leave() {
    status=$?
    for mounted in dev/pts dev proc; do umount "$root/$mounted" 2>/dev/null || :; done
    # Nothing of the host is removed by mistake: a mount that would not go away keeps the folder.
    if [ -z "${MUSUBI_BARE:-}" ] && ! grep -q " $root/" /proc/mounts; then rm -rf "$root"; fi
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

if [ ! -e "$root/etc/debian_version" ]; then
    debootstrap --variant=minbase bookworm "$root" "${MUSUBI_MIRROR:-http://deb.debian.org/debian}"
fi
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
# How this host's own network is reached (a proxy, its certificate) is no part of what is tested.
if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share"; cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
[ ! -e /etc/apt/apt.conf ] || cp /etc/apt/apt.conf "$root/etc/apt/"

# A path with a space in it, and the files that are in the repository, without what was built.
copy="$root/home/a user/musubi"
rm -rf "$copy"; mkdir -p "$copy"
(cd "$top" && tar cf - --exclude=./target --exclude=./.git --exclude=./out .) | tar xf - -C "$copy"
if [ "$#" = 0 ]; then set -- test; fi
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    /bin/sh -c 'cd / && exec "$0" "$@"' "/home/a user/musubi/musubi" "$@"
