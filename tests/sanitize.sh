#!/usr/bin/env bash
# Runs the tests of the C kernels with the address and undefined-behavior sanitizers.
#   tests/sanitize.sh [PYTHON]      an interpreter that has fxtio and its test extra
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tests"
cp -r fxtio "$scratch/"
find "$scratch" -name '*.so' -delete
cp -r tests/conftest.py tests/support tests/test_kernels.py tests/test_columns.py "$scratch/tests/"
cp -r tests/oracle tests/judges tests/corpus "$scratch/tests/"
cp pyproject.toml "$scratch/"
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
gcc -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -shared -fPIC \
    -Wall -Wextra -Werror -I"$include" "$scratch/fxtio/_native/kernels.c" -o "$scratch/fxtio/_native/_kernels$suffix"
cd "$scratch"
# The interpreter itself is not built with the sanitizer, so its runtime is loaded first; its own leaks are not ours.
export LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$scratch" PYTHONSAFEPATH=
export PYTEST_ADDOPTS= FXTIO_TEST_INSTALLED= FXTIO_EXPECT_KERNELS=
"$python" - <<'P'
import fxtio._native as native
assert native.IMPLEMENTATION == "c" and native.__file__.startswith(__import__("os").getcwd()), native.__file__
P
"$python" -m pytest -q -p no:cacheprovider tests/test_kernels.py tests/test_columns.py
