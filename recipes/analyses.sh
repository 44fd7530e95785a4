#!/usr/bin/env bash
# The analyses of docs/analyses.md. Usage: recipes/analyses.sh DATA RESULTS [MODEL]
# DATA contains wsd/, pos/, lm/ and vectors/; the JSON files for `elmo report` are written to RESULTS. Files that exist are kept, so
# the command can be repeated after an interruption.
set -euo pipefail
data=$1 results=$2
model=(${3:+--model "$3"})
examples=$(dirname "$0")/../examples
mkdir -p "$results/senses"

used=$(python -c 'import sys; from elmokit import weights; print(weights.load(sys.argv[1]).fingerprint)' "${3:-base}")
if [ -e "$results/model" ] && [ "$(cat "$results/model")" != "$used" ]; then
  echo "$results: has results of another model; choose another folder" >&2
  exit 2
fi
echo "$used" > "$results/model"

measure() {  # FILE ARGUMENTS...: unless the file is there already
  local file=$1
  shift
  [ -e "$file" ] || elmo "$@" "${model[@]}" -o "$file"
}

# The layer for sense lookup is chosen on held-out data: every tenth text of SemCor, with senses from the other texts.
split=$results/semcor
mkdir -p "$split"
for held in 0 1; do
  xz -dc "$data/wsd/semcor/semcor.data.xml.xz" | awk -v held=$held '
    /<text / { inside = 1; split($0, id, "\"d"); keep = (id[2] % 10 == 9) == held }
    !inside || keep
    /<\/text>/ { inside = 0 }' > "$split/$held.data.xml"
  xz -dc "$data/wsd/semcor/semcor.gold.key.txt.xz" | awk -v held=$held '(substr($1, 2, 3) % 10 == 9) == held' > "$split/$held.gold.key.txt"
done
measure "$split/held-out.json" wsd --train "$split/0.data.xml" --eval "$split/1.data.xml" \
  --wordnet "$data/wsd/wordnet-3.0/wordnet-3.0-dict.tar.xz" --layers 0,1,2,1-0,2-0,2-1,average
measure "$results/wsd.json" wsd --train "$data/wsd/semcor/semcor.data.xml.xz" --train-key "$data/wsd/semcor/semcor.gold.key.txt.xz" \
  --eval "$data/wsd/eval" --wordnet "$data/wsd/wordnet-3.0/wordnet-3.0-dict.tar.xz" --layers 0,1,2,2-1,average
for column in xpos upos; do
  measure "$results/probe-ewt-$column.json" probe --train "$data/pos/ud-ewt/en_ewt-ud-train.conllu.xz" \
    --test "$data/pos/ud-ewt/en_ewt-ud-test.conllu.xz" --column $column --control
done
measure "$results/probe-chunks.json" probe --train "$data/pos/conll2000/train.txt.gz" --test "$data/pos/conll2000/test.txt" --column 3
measure "$results/polysemy.json" polysemy
[ -e "$results/perplexity.json" ] ||
  elmo perplexity "${3:-base}" "$data/lm/heldout-test.txt.xz" -o "$results/perplexity.json"
measure "$results/compare.json" compare "I will buy you a present" "Live in the present , not the past" --word present
[ -e "$results/map-bank.json" ] || measure "$results/map-bank.json" map bank --corpus "$(dirname "$0")/../src/elmokit/serve/page/data/occurrences.tsv" --layer 2 \
  > "$results/map-bank.txt"

# Table 4 with sixty sentences of our own, which docs/report.md can reproduce in full
while IFS='|' read -r name word sentence; do
  measure "$results/senses/$name.json" neighbors --corpus "$examples/senses.txt" "$sentence" --word "$word" --layers 0,2 --quiet \
    --vectors "$data/vectors/glove.6B.50d.task.txt.bz2"
done <<'QUERIES'
play-drama|play|The actor was praised in the play .
play-game|play|The shortstop made a spectacular play on the ground ball .
present-gift|present|I will buy you a present .
present-now|present|Live in the present , not the past .
QUERIES
