#!/bin/sh
# Runs a compile command; when it makes a precompiled header, writes a checksum of the preprocessed text beside it.
# A precompiled header holds absolute paths, so it is built in each checkout and never taken from ccache; ccache hashes
# the checksum (X.pch.sum) in its place, and the sources that use it hit in every checkout where that text is the same.
set -eu
"$@"
output=
previous=
for argument; do
  [ "$previous" != -o ] || output=$argument
  previous=$argument
done
case $output in
*.pch)
  "$@" -Wno-unused-command-line-argument -E -P -o "$output.text"
  sha256sum <"$output.text" >"$output.sum"
  rm "$output.text"
  ;;
esac
