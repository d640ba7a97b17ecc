#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: builds the fuzzer and runs it for so long; fails where it finds something, and keeps the input.
set -euo pipefail
log=$(cmake --build "$1" --target kolo_network_fuzzer) || { echo "$log"; exit 1; }
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
KOLO_FUZZ_SEEDS=$corpus "$1/bin/kolo_network_fuzzer" -runs=0 "$corpus" 2>/dev/null # writes the seeds
"$1/bin/kolo_network_fuzzer" -max_total_time="$2" -max_len=20000 -rss_limit_mb=1024 -artifact_prefix="$1/" -print_final_stats=1 \
  "$corpus"
