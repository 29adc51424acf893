#!/bin/sh
# What is kept between actions is Bazel's to decide, so dlbuild's own cache ends with the sandbox.
DLBUILD_CACHE_DIR="$PWD/.dlbuild-cache"
export DLBUILD_CACHE_DIR
exec "${DLBUILD_PYTHON:-python3}" -P -m dlbuild "$@"
