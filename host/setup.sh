# Sourced by ./musubi when something is missing, or to list what there is (doctor).

# Prints a field of a package's line in host/packages.txt: proof, tested or why.
field() {
    while read -r _ package proof tested why; do
        if [ "$package" = "$2" ]; then
            case $1 in proof) echo "$proof" ;; tested) echo "$tested" ;; why) echo "$why" ;; esac
        fi
    done <"$top/host/packages.txt"
}

candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p'; }

# Debian has the compiler that browsers are built with, newer than the release's own, in its security archive only.
security_archive() {
    . /etc/os-release
    if [ "${ID:-}" != debian ]; then return 0; fi
    list=/etc/apt/sources.list.d/musubi-security.list
    say "rustc-web 1.96 is in Debian's security archive: adding it as $list"
    echo "deb http://deb.debian.org/debian-security ${VERSION_CODENAME}-security main" | $root tee "$list" >/dev/null
}

# Sets what apt-get is started by.
become_root() {
    root=
    if [ "$(id -u)" = 0 ]; then return 0; fi
    root=sudo
    command -v sudo >/dev/null
}

update() {
    say "updating apt's lists"
    $root apt-get update -q >&2 || { say "apt-get update failed"; exit 1; }
}

# Installs the packages named, after saying what and why; exits 1 where it cannot.
install() {
    say "missing on this machine:"
    for p in "$@"; do printf '    %-20s %s\n' "$p" "$(field why "$p")" >&2; done
    if ! command -v apt-get >/dev/null; then
        say "there is no apt here: please install these, or what they are called on this system"
        say "(the compiler can also be rustup's: rustup toolchain install 1.96 -c rust-src)"
        exit 1
    fi
    become_root || { say "not root, and there is no sudo; as root: apt-get install --no-install-recommends $*"; exit 1; }
    if ! find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 2>/dev/null | grep -q .; then update; fi
    case " $* " in *' rustc-web '*)
        minor=$(candidate rustc-web); minor=${minor#1.}; minor=${minor%%.*}
        if ! [ "${minor:-0}" -ge 96 ] 2>/dev/null; then security_archive; update; fi ;;
    esac
    # A fresh machine may be in the middle of its own upgrades: then we wait for apt's lock, at most 5 minutes.
    say "installing with apt: $*"
    $root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -q -y --no-install-recommends "$@" >&2 \
        || { update; $root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -q -y --no-install-recommends "$@" >&2; } \
        || { say "apt could not install them"; exit 1; }
}

kernels() { find "$top/target/musubi/peers" -name vmlinuz 2>/dev/null | sed 's|/vmlinuz$||; s|.*/||' | sort; }

# Prepares for measuring Linux beside: installs the packages named, and sees to it that apt knows the kernel, which the
# front tool fetches. Where that cannot be, the front tool goes on, with our own figures, and says so.
peer() {
    if [ $# != 0 ]; then (install "$@") || say "going on without: Linux cannot be measured"; fi
    if [ -n "$(kernels)" ] || [ -n "$(candidate linux-image-amd64)" ] || ! become_root; then return 0; fi
    (update) || say "going on without: apt does not know the kernel of Linux"
}

# Lists each needed thing; exits 1 if something is missing without which nothing runs. The rest is absent until the
# command that needs it installs it.
doctor() {
    outcome=0
    printf '%-9s %-20s %-8s %-34s %-10s %s\n' 'for' package state 'version here' tested why
    while read -r stage package proof tested why; do
        case $stage in ''|'#'*) continue ;; esac
        version=-
        if command -v dpkg-query >/dev/null; then
            version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null) || version=-
        fi
        if [ -z "$(missing "$stage" | sed -n "/^$package\$/p")" ]; then
            state=found
            if [ "$package" = rustc-web ] && [ -n "$RUSTC" ]; then
                version=$("$RUSTC" --version); version=${version#rustc }; version=${version%% *}
            fi
        else
            case $stage in build|boot) state=MISSING; outcome=1 ;; *) state=absent ;; esac
        fi
        printf '%-9s %-20s %-8s %-34s %-10s %s\n' "$stage" "$package" "$state" "${version:--}" "$tested" "$why"
    done <"$top/host/packages.txt"
    if [ -n "$RUSTC" ]; then echo "compiler: $RUSTC"; else echo "compiler: none that is fit (1.96 or later, with rust-src)"; fi
    found=$(kernels)
    if [ -n "$found" ]; then printf 'Linux to compare with: %s\n' $found
    else echo "Linux to compare with: not fetched yet (linux-image-amd64, 70 MB, by ./musubi bench NAME --peer linux)"; fi
    if grep -qsE '^flags.*\<(vmx|svm)\>' /proc/cpuinfo && [ -w /dev/kvm ]; then echo "accelerator: kvm"
    else echo "accelerator: tcg (the processor shows neither vmx nor svm, or /dev/kvm is not usable)"; fi
    exit "$outcome"
}
