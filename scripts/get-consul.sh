#!/usr/bin/env bash
# Puts Consul into .consul/, for tests: from Debian's suite bullseye, the last with a package of it. That suite gets
# lists of its own, so nothing else is ever installed from it, and the mirror is the one that apt already uses.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$PWD/.consul"
if [ -x "$folder/consul" ] || command -v consul >/dev/null; then exit 0; fi
command -v apt-get >/dev/null || { echo "no consul and no apt-get: install Consul 1.7 or later" >&2; exit 1; }

mirror=$(apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(SITE) $(REPO_URI)' |
  awk '$1 == "Packages" && $2 == "Debian" && $NF !~ /security/ { print $NF; exit }')
[ -n "$mirror" ] || { echo "apt uses no mirror of Debian: install Consul 1.7 or later" >&2; exit 1; }
rm -rf "$folder/apt"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror bullseye main" >"$folder/apt/sources.list"
apt=(
  apt-get
  -o "Dir::Etc::SourceList=$folder/apt/sources.list"
  -o Dir::Etc::SourceParts=-
  -o "Dir::State::Lists=$folder/apt/lists"
  -o "Dir::Cache=$folder/apt"
  -o APT::Sandbox::User=root
)
"${apt[@]}" -qq update
(cd "$folder/apt" && "${apt[@]}" -qq download consul)
dpkg-deb --fsys-tarfile "$folder"/apt/consul_*.deb | tar -x -C "$folder" --strip-components=3 ./usr/bin/consul
rm -rf "$folder/apt"
