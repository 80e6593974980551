#!/bin/bash
# A plain shell loop: N background processes, until it is stopped.
#
#     bash loop.sh N FOLDER COMMAND...
#
# {member} in COMMAND becomes 0, 1, ... A process that ends is started again. FOLDER gets what a script
# counts itself (SLOT.RUN), its output (SLOT.out), when its processes ended (SLOT.ends) and, where one
# fails, its status (SLOT.failed).
set -u
export LC_ALL=C
n=$1 folder=$2
shift 2

slot() {
    local slot=$1 run=0
    shift
    while :; do
        TRUTH_LOG="$folder/$slot.$run" "$@" >"$folder/$slot.out" 2>&1 || {
            echo "$?" >"$folder/$slot.failed"
            return
        }
        echo "$EPOCHREALTIME" >>"$folder/$slot.ends"
        run=$((run + 1))
    done
}

for ((i = 0; i < n; i++)); do
    slot "$i" "${@//\{member\}/$i}" &
done
wait
