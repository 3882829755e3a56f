#!/usr/bin/env bash
# Builds the libcurl that wheels carry, from this distribution's source with its security patches: HTTP over TLS
# and nothing else, with OpenSSL inside, so that it needs the C library alone.
#
#   libcurl.sh FOLDER    leaves FOLDER/libcurl.so.4, unless it is there
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
[[ -e $folder/libcurl.so.4 ]] && exit 0

. /etc/os-release
find_mirror() { # apt knows it once it has read its lists
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" | sort -u | head -n 1
}
mirror=$(find_mirror)
if [[ -z $mirror ]]; then
  if [[ $(id -u) == 0 ]]; then apt-get -q update; else sudo -n apt-get -q update; fi
  mirror=$(find_mirror)
fi
apt=(-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$folder/lists" -o APT::Sandbox::User=root)
mkdir -p "$folder/lists/partial"
for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-updates"; do
  echo "deb-src $mirror $suite main"
done >"$folder/sources.list"
cd "$folder"
apt-get -q "${apt[@]}" update
apt-get -q "${apt[@]}" source --download-only curl

rm -rf source && mkdir source
tar -xf curl_*.orig.tar.gz -C source --strip-components=1
tar -xf curl_*.debian.tar.xz -C source
while read -r patch; do
  [[ -z $patch || $patch == \#* ]] || patch -s -p1 -d source <"source/debian/patches/$patch"
done <source/debian/patches/series

options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DBUILD_CURL_EXE=OFF -DHTTP_ONLY=ON
  -DCURL_USE_OPENSSL=ON -DOPENSSL_USE_STATIC_LIBS=TRUE -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
  -DCURL_CA_FALLBACK=ON -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DCURL_USE_LIBSSH2=OFF
  -DCURL_USE_LIBPSL=OFF -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF)
# Its own OpenSSL must not be mixed up with one that the program has loaded.
cmake -G Ninja -S source -B build "${options[@]}" "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-Bsymbolic -static-libgcc"
cmake --build build -j "${jobs:-2}"
strip -o new.so build/lib/libcurl.so.4
mv new.so libcurl.so.4
