"""Perplexity on the dev text of each task, before and after fine-tuning the biLM on its training text.

    python benchmarks/finetuning.py --data DATA --folder tuned/    writes docs/results/finetuning.json

One epoch with the defaults of `elmo finetune`, as in the paper. DATA contains `ner`, `sst`, `nli`, `qa`, `srl` and
`coref`. The fine-tuned models stay in --folder (tuned/ner/model), for `elmo task NAME train --model`; complete ones are
not trained again. Labels are not used. Every distinct sentence counts once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import results as files

from elmokit import weights
from elmokit.pretrain.perplexity import perplexity
from elmokit.tasks.runs.task_model import distinct_sentences
from elmokit.tasks.shared.task_registry import get_task

# training files and dev file; without a dev file a part of the training data is held out, as `elmo task` does
FILES: dict[str, tuple[tuple[str, ...], str | None]] = {
    "ner": (("ner/conll2003/eng.train.gz",), "ner/conll2003/eng.testa"),
    "sst": (("sst/train.txt.gz",), "sst/dev.txt"),
    "srl": (("srl/ewt-propbank/ewt.train.gold_conll.xz",), "srl/ewt-propbank/ewt.dev.gold_conll.xz"),
    "coref": (("coref/ontogum/train.conll.xz",), "coref/ontogum/dev.conll.xz"),
    "squad": (("qa/squad/train-v1.1.subset44.json.gz", "qa/squad/train-v1.1.extra.json.gz"), None),
    "snli": (("nli/snli/snli_train_subset.tsv.xz",), "nli/snli/snli_1.0_dev.jsonl.gz"),
}


def write_texts(name: str, data: Path, folder: Path) -> tuple[Path, Path]:
    """Training and dev text of a task, one tokenized sentence per line."""
    task = get_task(name)
    train, dev = FILES[name]
    examples = [example for file in train for example in task.read(data / file)]
    if dev is None:
        examples, held = task.hold_out(examples, task.settings())
    else:
        held = task.read(data / dev)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.txt", folder / "dev.txt"
    for path, part in zip(paths, (examples, held), strict=True):
        path.write_text("".join(f"{line}\n" for line in distinct_sentences(task, part)), encoding="utf-8")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--folder", type=Path, required=True, help="for texts and fine-tuned models")
    parser.add_argument("--model", default="base", help="model to fine-tune; by default the packaged one")
    parser.add_argument("--tasks", default=",".join(FILES), help="by default %(default)s")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/finetuning.json")
    arguments, flags = parser.parse_known_args()  # other flags go to `elmo finetune`
    chosen = arguments.tasks.split(",")
    if wrong := [name for name in chosen if name not in FILES]:
        parser.error(f"--tasks: expected some of {', '.join(FILES)}, found {wrong[0]!r}")
    model = weights.load(arguments.model)
    rows = files.earlier("finetuning", arguments.output, model=model).get("tasks", {})
    parent = arguments.folder / "parent"  # `elmo finetune --resume` compares settings, but not the model it began with
    if parent.exists() and parent.read_text() != model.fingerprint:
        parser.error(f"--folder: {arguments.folder} has another model, fine-tuned; choose another folder")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    parent.write_text(model.fingerprint)
    for name in chosen:
        folder = arguments.folder / name
        train, dev = write_texts(name, arguments.data, folder)
        command = ["-m", "elmokit", "finetune", arguments.model, "--train", str(train), "--heldout", str(dev)]
        subprocess.run([sys.executable, *command, "-o", str(folder / "model"), "--resume", *flags], check=True)
        lines = dev.read_text(encoding="utf-8").splitlines()
        before, after = (perplexity(one, lines) for one in (model, weights.load(folder / "model")))
        rows[name] = {
            "before": before.mean,
            "after": after.mean,
            "training_sentences": sum(1 for _ in train.open(encoding="utf-8")),
            "dev_tokens": before.tokens,
            "out_of_vocabulary": before.out_of_vocabulary,
        }
        print(f"{name:<8}{before.mean:8.1f} -> {after.mean:6.1f}", flush=True)
        used = [arguments.data / file for task in rows for file in (*FILES[task][0], FILES[task][1]) if file]
        files.write("finetuning", {"tasks": rows}, files=used, model=model, output=arguments.output)


if __name__ == "__main__":
    main()
