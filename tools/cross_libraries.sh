#!/usr/bin/env bash
# Fetches what the agent for another architecture is linked with from this system's package sources, without
# installing it: the system gets no second architecture from it. That is OpenSSL, and the compression libraries that
# newer distributions' OpenSSL needs.
#
#   cross_libraries.sh ARCHITECTURE FOLDER    arm64 or amd64; leaves FOLDER/include and FOLDER/lib, unless they are there
set -euo pipefail
architecture=$1
folder=$(mkdir -p "$2" && cd "$2" && pwd)
[[ -e $folder/lib ]] && exit 0
cd "$folder"
rm -rf package && mkdir -p lists/partial archives/partial package
apt=(-q -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "Dir::State::Lists=$folder/lists"
  -o "Dir::Cache=$folder" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update
apt-get "${apt[@]}" download libssl-dev zlib1g-dev libzstd-dev
for file in ./*.deb; do dpkg-deb -x "$file" package; done
# Some of the headers are in a folder of the architecture, where the compiler does not look.
mv package/usr/include/*-linux-gnu/openssl/* package/usr/include/openssl/
cp -f package/usr/include/*-linux-gnu/*.h package/usr/include/ 2>/dev/null || true
mkdir include && mv package/usr/include/openssl package/usr/include/*.h include/
mv package/usr/lib/*-linux-gnu lib
rm -rf package lists archives ./*.deb ./*.bin
