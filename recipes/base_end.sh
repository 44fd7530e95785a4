#!/usr/bin/env bash
# End the run of recipes/base.sh: a branch whose learning rate decays to zero over the last fifth. Arguments: run folder, which
# is left unchanged, and branch folder. The same command resumes after an interruption.
set -euo pipefail
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
torchrun --nproc-per-node 2 -m elmokit pretrain --branch "$1" --decay-now 0.2 -o "$2" --threads 1 --resume
elmo convert "$2" "$2-half" --to native --half --overwrite
