#!/usr/bin/env bash
# Tables 2 and 3 and Figures 1 and 2 of the paper. Usage: recipes/studies.sh DATA RUNS RESULTS [PATTERN]
# DATA as for recipes/tasks.sh. RUNS contains its runs; those of the studies are added, in folders of their own. RESULTS gets weights.json
# and weights.png. Two studies in parallel, one thread each; the same command resumes. PATTERN is a regular expression that selects
# studies by name.
set -euo pipefail
data=$(realpath "$1") runs=$2 results=$3 pattern=${4:-.} failed=0
export OMP_NUM_THREADS=1

glove="--vectors $data/vectors/glove.6B.50d.task.txt.bz2"
snli="$data/nli/snli"
snli="--train $snli/snli_train_subset.tsv.xz --dev $snli/snli_1.0_dev.jsonl.gz --test $snli/snli_1.0_test.jsonl.gz $glove"
squad="--train $data/qa/squad/train-v1.1.subset44.json.gz --test $data/qa/squad/dev-v1.1.json.gz $glove"
srl="$data/srl/ewt-propbank/ewt"
srl="--train $srl.train.gold_conll.xz --dev $srl.dev.gold_conll.xz --test $srl.test.gold_conll.xz $glove"

# Figure 1: all of the data is what recipes/tasks.sh trains, with the same settings, so its complete runs are copied. Smaller parts
# choose their dropout on the dev data, with and without ELMo.
for task in srl snli; do
  for seed in 0 1; do
    for side in baseline elmo; do
      run=$runs/$task-$side-$seed copy=$runs/less-$task/$side-1-$seed
      if [ -e "$run/results.json" ] && [ ! -e "$copy" ]; then
        mkdir -p "$runs/less-$task"
        rm -rf "$copy.new"  # of an interrupted copy
        cp -r "$run" "$copy.new" && mv "$copy.new" "$copy"
      fi
    done
  done
done
fractions="--fractions 0.01,0.03,0.1,0.3,1 --choose-up-to 0.3"
{
  echo "sample-efficiency srl $srl -o $runs/less-srl $fractions --epochs 10 --choose dropout=0.1,0.3"
  echo "sample-efficiency snli $snli -o $runs/less-snli $fractions --epochs 6 --decay linear --choose dropout=0.2,0.5"
  # The tables use parts of the training data: all of it would take a day.
  echo "ablate snli $snli -o $runs/ablate-snli --train-fraction 0.1 --epochs 12 --decay linear --elmo-at both"
  echo "ablate srl $srl -o $runs/ablate-srl --train-fraction 0.25 --epochs 10"
  echo "ablate squad $squad -o $runs/ablate-squad --train-fraction 0.25 --epochs 8 --character-filters 100 --character-width 5"
} | grep -E -- "-o [^ ]*/[^ /]*($pattern)[^ /]*( |$)" | xargs -P 2 -I{} sh -c "elmo {} --seeds 0,1 --threads 1 --quiet" || failed=1

mkdir -p "$results"
complete=()
for run in "$runs"/*-elmo-[0-9]; do
  [ ! -e "$run/results.json" ] || complete+=("$run")
done
[ ${#complete[@]} = 0 ] || elmo task weights "${complete[@]}" -o "$results/weights.png" -o "$results/weights.json" --overwrite
exit "$failed"
