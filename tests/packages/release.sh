#!/usr/bin/env bash
# The files of a release: made and signed with a key of the test's own in a clone, verified by whoever has the key, refused where a byte has
# changed, the key is another, or the tag is missing, of another commit or not signed.
#
#   tests/packages/release.sh WORK     WORK is a directory for what is made, which is removed in the end
set -euo pipefail
project=$(dirname "$(dirname "$(dirname "$(realpath -- "$0")")")")
mkdir -p -- "${1:?usage: $0 WORK}"
work=$(mktemp -d -p "$(realpath -- "$1")")
# gpg's agent wants a short path.
keys=$(mktemp -d)
others=$(mktemp -d)
end() {
    for home in "$keys" "$others"; do
        gpgconf --homedir "$home" --kill all || true
    done
    rm -rf -- "$work" "$keys" "$others"
}
trap end EXIT

fail() {
    echo "$0: $1" >&2
    exit 1
}

# refused TEXT COMMAND...: fails, and says that.
refused() {
    local text=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        fail "not refused: $*"
    fi
    grep -qF -- "$text" "$work/said" || { cat "$work/said" >&2; fail "refused for another reason than: $text"; }
    echo "refused: $text"
}

for home in "$keys" "$others"; do
    gpg --homedir "$home" --batch --quiet --passphrase '' --quick-generate-key 'Test of releases <release@example.invalid>' ed25519 sign never
done
export GNUPGHOME=$keys
git clone -q "$project" "$work/clone"
cd "$work/clone"
git config user.name Test
git config user.email release@example.invalid
tag=v$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

refused "there is no tag $tag" packaging/release "$work/out"
git tag "$tag"
refused "the tag $tag is not signed" packaging/release "$work/out"
git tag -d "$tag" >/dev/null
git tag -s -u release@example.invalid -m "$tag" "$tag"
git commit -q --allow-empty -m "After the release"
refused "$tag is another commit" packaging/release "$work/out"
git checkout -q "$tag"
echo >>README.md
refused "changes that are not committed" packaging/release "$work/out"
git checkout -q README.md

packaging/release "$work/out"
packaging/release --verify "$work/out"
GNUPGHOME=$others refused "is not signed by a key of this keyring" packaging/release --verify "$work/out"
# What is shipped with a notice is in a list, and the other way round but for what runs at build time alone.
while read -r crate; do
    grep -qF "pkg:cargo/$crate\"" "$work/out"/*.cdx.json || fail "$crate is in no list"
done < <(sed -n 's/^\([a-z0-9_-]*\) \([0-9][0-9.]*\), https.*/\1@\2/p' packaging/THIRD-PARTY-LICENSES)
packaging/sbom "$work/again"
cmp "$work/again"/*.libpmix.cdx.json "$work/out"/*.libpmix.cdx.json || fail "two lists of one commit differ"
printf x >>"$work/out"/*.pmixctl.cdx.json
refused "a file is not the one that was signed" packaging/release --verify "$work/out"
(cd "$work/out" && sha256sum ./*.xz ./*.json >SHA256SUMS)
refused "is not signed by a key of this keyring" packaging/release --verify "$work/out"
echo "a release was signed, verified, and refused where it was changed"
