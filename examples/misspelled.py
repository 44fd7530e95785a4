"""Look up misspelled words: ELMo reads characters, so that a typing error moves a vector only a little.

python examples/misspelled.py
python examples/misspelled.py enviroment
"""

import sys

from elmokit import Elmo

WORDS = ["government", "environment", "environmental", "definitely", "infinitely", "separate", "desperate", "receive"]
WORDS += ["believe", "tomorrow", "sorrow", "beautiful", "dutiful", "necessary", "secretary"]
misspelled = sys.argv[1:] or ["goverment", "enviroment", "definately", "seperate", "recieve", "tomorow", "beatiful"]

elmo = Elmo.from_pretrained()
# one word per text, and layer 0: nothing but the characters of the word
known = elmo.encode([[word] for word in WORDS], layers=0)
cosines = elmo.similarity(elmo.encode([[word] for word in misspelled], layers=0), known)
for word, row in zip(misspelled, cosines, strict=True):
    print(f"{word:14} {WORDS[row.argmax()]}")
