#!/usr/bin/env bash
# Train the small Korean or Chinese model of languages/. Usage: recipes/languages.sh LANGUAGE DATA OUT [FLAGS...]
# LANGUAGE is ko or zh; DATA contains lm-LANGUAGE/ and lm2-LANGUAGE/; FLAGS go to `elmo pretrain`, such as --precision bfloat16 on a
# CPU that has it. OUT gets LANGUAGE-text/ (mixed shards and held-out texts), LANGUAGE-run/ and LANGUAGE/, the model in half
# precision. The same command resumes after an interruption.
# Korean words are split at spaces and punctuation. Chinese is read character by character: this needs no dictionary, and the text is
# partly Traditional and partly Simplified.
set -euo pipefail
language=$1 data=$2 out=$3
here=$(dirname "$0")
declare -A tokenizers=([ko]=words [zh]=han) sizes=([ko]=30003 [zh]=10003) epochs=([ko]=2 [zh]=1.5)
[ -n "${tokenizers[$language]:-}" ] || { echo "expected ${!tokenizers[*]}, found $language: add its tokenizer, size and epochs here" >&2; exit 2; }
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE

text=$out/$language-text
if [ ! -d "$text" ]; then
  rm -rf "$text.new"
  python "$here/mix_corpus.py" "$data/lm-$language"/train-*.txt.xz "$data/lm2-$language"/train-*.txt.xz -o "$text.new" --heldout-tokens 80000
  mv "$text.new" "$text"
fi
torchrun --nproc-per-node 2 -m elmokit pretrain --train "$text/train-*.txt" --heldout "$text/heldout-dev.txt" -o "$out/$language-run" \
  --preset light --options "$here/languages/$language.json" --tokenizer "${tokenizers[$language]}" \
  --vocabulary-size "${sizes[$language]}" --epochs "${epochs[$language]}" --hold 0.4 --heldout-every 500 --threads 1 --resume "${@:4}"
elmo convert "$out/$language-run" "$out/$language" --to native --half --overwrite
elmo perplexity "$out/$language" "$text/heldout-test.txt" --tokenizer "${tokenizers[$language]}" -o "$out/$language-perplexity.json" --overwrite
