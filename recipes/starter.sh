#!/usr/bin/env bash
# The model inside the package. Arguments: a folder with train-*.txt.xz and heldout-dev.txt.xz, and one for the run.
set -euo pipefail
elmo pretrain --train "$1/train-0*.txt.xz" --heldout "$1/heldout-dev.txt.xz" -o "$2" --preset base \
  --vocabulary-size 20000 --loss sampled --n-samples 2048 --batch-tokens 1536 --minutes 28 --learning-rate 3e-3 \
  --heldout-every 4000
elmo convert "$2" "$2-half" --to native --half
