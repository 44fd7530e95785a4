#!/usr/bin/env bash
# All six tasks with and without ELMo, as in docs/tasks.md. Usage: recipes/tasks.sh DATA RUNS [PATTERN]
# DATA contains ner/, sst/, nli/, qa/, srl/, coref/ and vectors/; RUNS gets one folder per run. Two runs in parallel, one thread
# each. Complete runs are skipped and interrupted ones resumed, so the command can be repeated.
# PATTERN is a regular expression that selects runs by name.
set -euo pipefail
data=$(realpath "$1") runs=$2 pattern=${3:-.}
export OMP_NUM_THREADS=1
mkdir -p "$runs"

one() {  # NAME TASK SEED FLAGS...: without and with ELMo, otherwise identical
  local name=$1 task=$2 seed=$3
  shift 3
  echo "$task train -o $runs/$name-baseline-$seed --no-elmo --seed $seed $*"
  echo "$task train -o $runs/$name-elmo-$seed --seed $seed $*"
}

# Vectors of 50 dimensions: the file of 100-dimensional ones has none for numbers and the commonest words, such as "a" and "'s",
# which are 10 to 19% of the tokens.
# ner is better with them nonetheless, on dev and without ELMo.
glove="--vectors $data/vectors/glove.6B.50d.task.txt.bz2"
glove100="--vectors $data/vectors/glove.6B.100d.task.txt.bz2"
ner="--train $data/ner/conll2003/eng.train.gz --dev $data/ner/conll2003/eng.testa --test $data/ner/conll2003/eng.testb"
sst="--train $data/sst/train.txt.gz --dev $data/sst/dev.txt --test $data/sst/test.txt"
snli="$data/nli/snli"
snli="--train $snli/snli_train_subset.tsv.xz --dev $snli/snli_1.0_dev.jsonl.gz --test $snli/snli_1.0_test.jsonl.gz"
squad="$data/qa/squad"
squad="--train $squad/train-v1.1.subset44.json.gz --train $squad/train-v1.1.extra.json.gz --test $squad/dev-v1.1.json.gz"
srl="$data/srl/ewt-propbank/ewt"
srl="--train $srl.train.gold_conll.xz --dev $srl.dev.gold_conll.xz --test $srl.test.gold_conll.xz"
coref="$data/coref/ontogum"
coref="--train $coref/train.conll.xz --dev $coref/dev.conll.xz --test $coref/test.conll.xz"

# Fewer epochs than the defaults, to save time. A run of ner takes about 5 minutes, of sst and coref 10, of srl 25 to 30; those of the first
# seed come first.
for seed in 0 1 2; do
  one ner ner $seed $ner $glove100 --epochs 10 --learning-rate 0.002 --decay linear
  one sst sst $seed $sst $glove --phrases --epochs 3 --decay linear
  one snli snli $seed $snli $glove --epochs 6 --decay linear
  one srl srl $seed $srl $glove --epochs 10
  if [ "$seed" -lt 2 ]; then
    one coref coref $seed $coref $glove --epochs 20 --patience 8
    one squad squad $seed $squad $glove --epochs 8 --character-filters 100 --character-width 5  # the published network has them
  fi
done | grep -E -- "-o [^ ]*/[^ /]*($pattern)[^ /]*( |$)" | xargs -P 2 -I{} sh -c "elmo task {} --threads 1 --quiet --resume"
