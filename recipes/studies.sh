#!/usr/bin/env bash
# Tables 2 and 3 and Figures 1 and 2 of the paper on two tasks, then the report. Usage: recipes/studies.sh DATA RUNS RESULTS
# DATA as for the other recipes. RUNS contains the runs of recipes/tasks.sh; those of the studies are added. RESULTS contains the
# files of recipes/analyses.sh; report.html is added. The two tasks run in parallel, one thread each; the same command resumes.
set -euo pipefail
data=$1 runs=$2 results=$3
export OMP_NUM_THREADS=1

glove="--vectors $data/vectors/glove.6B.100d.task.txt.bz2"
sst="--train $data/sst/train.txt.gz --dev $data/sst/dev.txt --test $data/sst/test.txt $glove"
snli="$data/nli/snli"
snli="--train $snli/snli_train_subset.tsv.xz --dev $snli/snli_1.0_dev.jsonl.gz --test $snli/snli_1.0_test.jsonl.gz $glove"

# Small training subsets need many epochs, large ones few: the learning curves use early stopping instead of a decay.
sentiment() {
  elmo ablate sst $sst -o "$runs/ablate-sst" --epochs 8 --decay linear --threads 1 --quiet
  elmo sample-efficiency sst $sst -o "$runs/less-sst" --fractions 0.03,0.1,0.3,1 --epochs 25 --patience 5 --threads 1 --quiet
}
inference() {  # all 70,000 pairs would take hours: at most a tenth; ELMo where the ablation table is best
  elmo ablate snli $snli -o "$runs/ablate-snli" --train-fraction 0.1 --epochs 8 --patience 2 --threads 1 --quiet
  elmo sample-efficiency snli $snli -o "$runs/less-snli" --fractions 0.01,0.03,0.1 --elmo-at both --epochs 15 --patience 3 --threads 1 --quiet
}
sentiment &
inference
wait %1

elmo task weights "$runs"/*-elmo-* -o "$results/weights.png" -o "$results/weights.json"
elmo report "$results"/*.json "$results"/senses/*.json "$runs" "$runs/ablate-sst" "$runs/less-sst" "$runs/ablate-snli" "$runs/less-snli" \
  -o "$results/report.html"
