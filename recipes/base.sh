#!/usr/bin/env bash
# The model inside the package. Arguments: a folder with train-*.txt.xz and heldout-dev.txt.xz, and one for the run.
# One pass in about four hours on two cores. The same line again goes on after an interruption.
set -euo pipefail
export OMP_NUM_THREADS=1
torchrun --nproc-per-node 2 -m elmokit pretrain --train "$1/train-0*.txt.xz" --heldout "$1/heldout-dev.txt.xz" -o "$2" \
  --preset base --heldout-every 750 --checkpoint-every 200 --threads 1 --resume
elmo convert "$2" "$2-half" --to native --half --overwrite
