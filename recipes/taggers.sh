#!/usr/bin/env bash
# Train and pack the taggers of `elmo tag`. Usage: recipes/taggers.sh MODEL DATA OUT [FLAGS...]
# MODEL is the biLM exactly as it is packaged (src/elmokit/models/base): a tagger accepts no other one, nor the same one in another
# precision. DATA contains ner/conll2003, pos/ud-ewt and sst. OUT gets runs/ and taggers/; copy the latter to src/elmokit/models/.
# FLAGS go to every training, for a trial, such as: --train-fraction 0.1 --epochs 2
# Two runs in parallel, one thread each. Complete runs are skipped and interrupted ones resumed, so the command can be repeated.
# No static vectors and no word table: ELMo and a small encoder keep every tagger below 5 MB. Noisy copies of the sentences cost nothing
# on clean text, and bring much on misspelled text and on text in lower case.
set -euo pipefail
model=$1 data=$2 out=$3
shift 3
here=$(dirname "$0")
export OMP_NUM_THREADS=1
mkdir -p "$out/runs"

conll="$data/ner/conll2003"
ewt="$data/pos/ud-ewt/en_ewt-ud"
treebank="--train $ewt-train.conllu.xz --dev $ewt-dev.conllu.xz --test $ewt-test.conllu.xz"
common="--model $model --word-dim 0 --decay linear --noise 0.2 $*"
{
  echo "ner train -o $out/runs/ner --train $conll/eng.train.gz --dev $conll/eng.testa --test $conll/eng.testb" \
    "--hidden 200 --dropout 0.3 --learning-rate 0.002 --epochs 12 $common"
  echo "sst train -o $out/runs/sentiment --train $data/sst/train.txt.gz --dev $data/sst/dev.txt --test $data/sst/test.txt" \
    "--hidden 96 --phrases --epochs 3 $common"
  echo "pos train -o $out/runs/pos $treebank --hidden 150 --learning-rate 0.002 --epochs 8 $common"
  echo "upos train -o $out/runs/upos $treebank --hidden 150 --learning-rate 0.002 --epochs 8 $common"
} | xargs -P 2 -I{} sh -c "elmo task {} --threads 1 --quiet --resume"

for name in ner pos upos sentiment; do
  elmo task pack "$out/runs/$name" -o "$out/taggers/$name" --about "$here/taggers/$name.md" --overwrite
  size=$(du -sb "$out/taggers/$name" | cut -f1)
  if [ "$size" -gt 5000000 ]; then
    echo "$out/taggers/$name: $size bytes, more than 5 MB: train it with a smaller --hidden" >&2
    exit 1
  fi
done
