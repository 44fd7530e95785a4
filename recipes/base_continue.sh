#!/usr/bin/env bash
# Continue the packaged model: a run from its weights, in which the learning rate rises again and then falls to zero. Arguments:
# folder of mixed shards (recipes/mix_corpus.py), held-out text, run folder, minutes of training, and more flags of `elmo pretrain`,
# such as --precision bfloat16. The same command resumes after an interruption, and may then name another number of minutes. The
# seed determines which shards are read first.
set -euo pipefail
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
torchrun --nproc-per-node 2 -m elmokit pretrain --train "$1/train-*.txt" --heldout "$2" -o "$3" --preset base --grow base \
  --minutes "$4" --decay linear --hold 0.15 --learning-rate 0.0018 --warm-up 100 --seed 5 --heldout-every 2500 --checkpoint-every 250 \
  --threads 1 --resume "${@:5}"
elmo convert "$3" "$3-half" --to native --half --overwrite
