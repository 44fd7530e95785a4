"""Find the sentences that use a word in the same sense.

    python examples/word_senses.py
    python examples/word_senses.py "The play was a great success in London ." play

The corpus is examples/senses.txt: six ambiguous words in ten sentences each.
"""

import sys
from pathlib import Path

import numpy as np

from elmokit import Elmo

sentence, word = sys.argv[1:] or ("We swam to the other bank .", "bank")
corpus = (Path(__file__).parent / "senses.txt").read_text().splitlines()

elmo = Elmo.from_pretrained()
(query,) = elmo.embed([sentence])
others = [s for s in elmo.embed(corpus, tokenizer="spaces") if s.tokens.count(word) == 1]
if not others:
    sys.exit(f"{word!r} is not in senses.txt; try bank, match, play, present, rock or season")

# layer 0 knows the word alone, so that all its occurrences are equal there; the upper layers know the sentence
vectors = np.stack([other.layers[1:, other.place_of(word)].mean(axis=0) for other in others])
mine = query.layers[1:, query.place_of(word)].mean(axis=0)
cosines = elmo.similarity(mine[None], vectors)[0]

print(f"{sentence}\n")
for k in np.argsort(-cosines)[:5]:
    print(f"{cosines[k]:.2f}  {' '.join(others[k].tokens)}")
