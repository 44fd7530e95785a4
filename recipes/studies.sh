#!/usr/bin/env bash
# Tables 2 and 3 and Figures 1 and 2 of the paper. Usage: recipes/studies.sh DATA RUNS RESULTS [PATTERN]
# DATA as for the other recipes. RUNS contains the runs of recipes/tasks.sh; those of the studies are added, in folders of their
# own. RESULTS gets weights.json and weights.png. Two studies in parallel, one thread each; the same command resumes. PATTERN is a regular
# expression that selects studies by name.
set -euo pipefail
data=$1 runs=$2 results=$3 pattern=${4:-.}
export OMP_NUM_THREADS=1

glove="--vectors $data/vectors/glove.6B.100d.task.txt.bz2"
snli="$data/nli/snli"
snli="--train $snli/snli_train_subset.tsv.xz --dev $snli/snli_1.0_dev.jsonl.gz --test $snli/snli_1.0_test.jsonl.gz $glove"
squad="--train $data/qa/squad/train-v1.1.subset44.json.gz --test $data/qa/squad/dev-v1.1.json.gz $glove"
srl="$data/srl/ewt-propbank/ewt"
srl="--train $srl.train.gold_conll.xz --dev $srl.dev.gold_conll.xz --test $srl.test.gold_conll.xz $glove"

# The tables use parts of the training data: all of it would take a day. The learning curves use early stopping, and choose the
# dropout on the dev data for every part, with and without ELMo.
choose="--choose dropout=0.2,0.5"
{
  echo "sample-efficiency srl $srl -o $runs/less-srl --fractions 0.01,0.03,0.1,0.3,1 --epochs 20 --patience 3 $choose"
  echo "sample-efficiency snli $snli -o $runs/less-snli --fractions 0.01,0.03,0.1,0.3,1 --epochs 12 --patience 2 $choose"
  echo "ablate snli $snli -o $runs/ablate-snli --train-fraction 0.1 --epochs 8 --patience 2"
  echo "ablate srl $srl -o $runs/ablate-srl --train-fraction 0.25 --epochs 10"
  echo "ablate squad $squad -o $runs/ablate-squad --train-fraction 0.25 --epochs 8"
} | grep -E -- "-o [^ ]*/[^ /]*($pattern)" | xargs -P 2 -I{} sh -c "elmo {} --seeds 0,1 --threads 1 --quiet"

mkdir -p "$results"
elmo task weights "$runs"/*-elmo-* -o "$results/weights.png" -o "$results/weights.json" --overwrite
