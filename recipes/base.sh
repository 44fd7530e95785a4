#!/usr/bin/env bash
# Train the packaged model: that of the release before, made wider, on more text. Arguments: folder of mixed shards
# (recipes/mix_corpus.py), held-out text, run folder, and more flags of `elmo pretrain`, such as --precision bfloat16 on a CPU
# that has it. The same command resumes after an interruption. The run is open-ended: stop it with Ctrl-C at any time, then run
# recipes/base_end.sh to decay the learning rate and write the model.
set -euo pipefail
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
torchrun --nproc-per-node 2 -m elmokit pretrain --train "$1/train-*.txt" --heldout "$2" -o "$3" --preset base --grow base \
  --epochs 100 --decay none --learning-rate 0.002 --warm-up 200 --heldout-every 1000 --checkpoint-every 200 --threads 1 --resume "${@:4}"
