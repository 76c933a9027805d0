#!/usr/bin/env bash
# Runs the tests of what is written in C with the address and undefined-behavior sanitizers.
#   tests/sanitize.sh [PYTHON [recorder]]      an interpreter that has fxtio and its test extra; only the recorder
#   tests/sanitize.sh threads                  with the thread sanitizer: threads without an interpreter, tests/threads
#   tests/sanitize.sh modules [recorder]       prints the modules with the tests that run here
#   tests/sanitize.sh left-out                 prints the tests of these modules that do not
# The child processes that tests start are sanitized, too: they inherit what is exported here.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python}

kernels=(
  tests/packages/{native,dcpi,uftrace}/test_kernels.py tests/packages/native/test_messages.py tests/packages/codec/test_columns.py
  tests/packages/mono/test_codec.py tests/packages/mono/test_bad.py tests/packages/exchange/test_chrome.py
)
recorder=(tests/packages/tracer/test_*.py)
# What cannot be sanitized, or says nothing of memory and takes long.
left_out=(
  "tests/packages/exchange/test_chrome.py::test_objects_that_are_walked_and_those_decoded_by_themselves_are_the_same[10000]" # long
  "tests/packages/exchange/test_chrome.py::test_objects_that_are_walked_and_those_decoded_by_themselves_are_the_same[1000]" # the same
  tests/packages/tracer/test_conditions.py                                  # what becomes of the file
  tests/packages/tracer/test_crash.py                                       # the same, and faults that the sanitizer reports
  tests/packages/tracer/test_leaks.py                                       # counts what Python's own allocator gives
  tests/packages/tracer/test_extremes.py::test_forty_thousand_functions     # long
  tests/packages/tracer/test_extremes.py::test_many_recordings              # how much memory is used: what is freed is kept
  tests/packages/tracer/test_extremes.py::test_threads_with_a_small_stack   # sanitized frames do not fit into 64 KiB
  tests/packages/tracer/test_flight.py::test_dumps_while_threads_record     # long, and what becomes of the files
  tests/packages/tracer/test_flight.py::test_killed_during_a_dump           # the same
  tests/packages/tracer/test_greenlets.py                                   # throws in C++, unknown to a runtime loaded first
  tests/packages/tracer/test_loops.py::test_planted_blocks                  # what lasts how long
  tests/packages/tracer/test_loops.py::test_a_thousand_planted_blocks       # the same
  tests/packages/tracer/test_missing.py                                     # without the recorder
  tests/packages/tracer/test_endings.py::test_a_killed_recording_is_found_by_its_final_name # what becomes of the file
  tests/packages/tracer/test_options.py::test_an_option_that_makes_no_sense_is_refused      # records nothing
  tests/packages/tracer/test_options.py::test_a_recording_for_which_there_is_no_memory_keeps_no_file_open # asks for 4 TiB
  tests/packages/tracer/test_options.py::test_other_names_of_traces_are_accepted            # what becomes of the file
  tests/packages/tracer/test_order.py::test_a_killed_recording_opens_in_order               # the same
  tests/packages/tracer/test_order.py::test_perfetto                        # others read the file
  tests/packages/tracer/test_order.py::test_pypi_fxt                        # the same
  tests/packages/tracer/test_order.py::test_recover_without_the_extension   # without the recorder
  tests/packages/tracer/test_perfetto.py::test_the_clock_is_right_over_time # waits
  tests/packages/tracer/test_recorder.py::test_the_limit_holds              # what becomes of the file
)

case $python in
modules)
  if [ "${2:-}" != recorder ]; then printf '%s\n' "${kernels[@]}"; fi
  printf '%s\n' "${recorder[@]}"
  exit
  ;;
left-out)
  printf '%s\n' "${left_out[@]}"
  exit
  ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ "$python" = threads ]; then
  tests/threads/build gcc -g -fsanitize=thread -o "$scratch/stress"
  TSAN_OPTIONS=halt_on_error=1 "$scratch/stress"
  exit
fi

cp -r fxtio pyproject.toml "$scratch/"
find "$scratch" -name '*.so' -delete
cp -r --parents tests/conftest.py tests/support tests/oracle tests/judges tests/corpus "${kernels[@]}" "${recorder[@]}" \
  "$scratch/"
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')

build() { # NAME SOURCE...
  gcc -g1 -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -shared -fPIC \
    -Wall -Wextra -Werror -I"$include" "${@:2}" -o "$scratch/fxtio/_native/$1$suffix"
}
build _kernels "$scratch"/fxtio/_native/*.c
build _recorder "$scratch"/fxtio/_native/recorder/*.c
gcc -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC tests/support/calm_fork.c -o "$scratch/calm_fork.so"

cd "$scratch"
# The interpreter itself is not built with the sanitizer, so its runtime is loaded first; its own leaks are not ours.
# Of each allocation four frames are kept, and not thirty: finding them took a quarter of the time.  Of freed memory
# 128 MB are kept from being used again: it is never used again before that, so a process grows until then.
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $scratch/calm_fork.so"
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=4:quarantine_size_mb=128
export UBSAN_OPTIONS=print_stacktrace=1
export PYTHONPATH="$scratch" PYTHONSAFEPATH= PYTEST_ADDOPTS= FXTIO_TEST_INSTALLED= FXTIO_EXPECT_KERNELS=
"$python" - <<'P'
import os, subprocess, sys
import fxtio._native as native
from fxtio.tracer.backend import recorder
here = os.getcwd() + os.sep
assert native.IMPLEMENTATION == "c" and native.__file__.startswith(here), native.__file__
assert recorder.__file__.startswith(here), recorder
source = "from fxtio.tracer.backend import recorder; print(recorder.__file__, 'libasan' in open('/proc/self/maps').read())"
child = subprocess.run([sys.executable, "-P", "-c", source], check=True, capture_output=True, text=True).stdout
assert child == f"{recorder.__file__} True\n", child
P

run=("$python" -m pytest -q -p no:cacheprovider -n0 --hypothesis-seed=0)
if [ "${2:-}" != recorder ]; then
  "${run[@]}" "${left_out[@]/#/--deselect=}" "${kernels[@]}"
fi

# Python's own allocator would give the memory of an object that is gone to the next one, and nothing would be seen.
PYTHONMALLOC=malloc "${run[@]}" "${left_out[@]/#/--deselect=}" "${recorder[@]}"
