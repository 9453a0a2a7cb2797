#!/usr/bin/env bash
# Puts servers that this release of Debian lacks into .servers/, for tests: Consul from the suite bullseye, the last
# with a package of it, and Valkey from the backports. Those suites get lists of their own, so nothing else is ever
# installed from them, and the mirror is the one that apt already uses. Where one cannot be had, its tests skip.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$PWD/.servers"
apt="$folder/apt"

# Usage: get PROGRAM SUITE PACKAGE...
get() (
  program=$1 suite=$2
  shift 2
  if [ -x "$folder/$program" ] || command -v "$program" >/dev/null; then exit 0; fi
  trap 'rm -rf "$apt"' EXIT
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
  own=(
    -o "Dir::Etc::SourceList=$apt/sources.list"
    -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$apt/lists"
    -o "Dir::Cache=$apt"
    -o APT::Sandbox::User=root
  )
  apt-get "${own[@]}" -qq update && cd "$apt" && apt-get "${own[@]}" -qq download "$@" &&
    for package in "$apt"/*.deb; do dpkg-deb --extract "$package" "$apt/files"; done &&
    mv "$apt"/files/usr/bin/* "$folder/" && "$folder/$program" --version >/dev/null
)

command -v apt-get >/dev/null || { echo "no apt-get: install consul and valkey-server" >&2; exit 1; }
mirror=$(apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(SITE) $(REPO_URI)' |
  awk '$1 == "Packages" && $2 == "Debian" && $NF !~ /security/ && !found++ { print $NF }')
[ -n "$mirror" ] || { echo "apt uses no mirror of Debian: install consul and valkey-server" >&2; exit 1; }
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
failed=0
get consul bullseye consul || { echo "Consul could not be fetched" >&2; failed=1; }
get valkey-server "$release-backports" valkey-server valkey-tools || { echo "Valkey could not be fetched" >&2; failed=1; }
exit "$failed"
