"""Results of the paper: Peters et al., Deep contextualized word representations, NAACL 2018."""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "Peters et al., Deep contextualized word representations, NAACL 2018"


@dataclass(frozen=True)
class TaskScores:
    """A row of Table 1: test scores in percent."""

    name: str
    metric: str
    previous: str  # previous state of the art
    baseline: str
    elmo: str
    gain: str  # absolute / relative error reduction


TABLE_1 = {
    "squad": TaskScores("SQuAD", "F1", "84.4", "81.1", "85.8", "4.7 / 24.9%"),
    "snli": TaskScores("SNLI", "accuracy", "88.6", "88.0", "88.7 ± 0.17", "0.7 / 5.8%"),
    "srl": TaskScores("SRL", "span F1", "81.7", "81.4", "84.6", "3.2 / 17.2%"),
    "coref": TaskScores("Coref", "average F1", "67.2", "67.2", "70.4", "3.2 / 9.8%"),
    "ner": TaskScores("NER", "span F1", "91.93 ± 0.19", "90.15", "92.22 ± 0.10", "2.06 / 21%"),
    "sst": TaskScores("SST-5", "accuracy", "53.7", "51.4", "54.7 ± 0.5", "3.3 / 6.8%"),
}

TABLE_1_DATA = "SQuAD 1.1; SNLI; OntoNotes 5 for SRL and coreference; CoNLL-2003 for NER; SST-5"

# Dev scores; the rows are those of `elmokit.analysis.studies.ablation`.
TABLE_2 = {
    "squad": {
        "no ELMo": 80.8, "top layer": 84.7, "all layers, lambda 1": 85.0, "all layers, lambda 0.001": 85.2,
    },
    "snli": {"no ELMo": 88.1, "top layer": 89.1, "all layers, lambda 1": 89.3, "all layers, lambda 0.001": 89.5},
    "srl": {"no ELMo": 81.6, "top layer": 84.1, "all layers, lambda 1": 84.6, "all layers, lambda 0.001": 84.8},
}  # fmt: skip
TABLE_3 = {
    "squad": {"input": 85.1, "input and output": 85.6, "output": 84.8},
    "snli": {"input": 88.9, "input and output": 89.5, "output": 88.7},
    "srl": {"input": 84.7, "input and output": 84.3, "output": 80.9},
}

TABLE_4_WORD = "play"
TABLE_4_STATIC = (
    "playing", "game", "games", "played", "players", "plays", "player", "Play", "football", "multiplayer",
)  # fmt: skip
TABLE_4 = (
    "GloVe mixes all senses of the word. The biLM's nearest neighbors of a play in baseball are about sports, "
    "those of a play in a theater about the theater."
)

# F1 on the unified test sets; the paper's biLM has the layer names of `elmo wsd`.
TABLE_5 = {
    "first sense": 65.9, "Raganato et al. 2017": 69.9, "Iacobacci et al. 2016": 70.1, "CoVe, layer 1": 59.4,
    "CoVe, layer 2": 64.7, "layer 1": 67.4, "layer 2": 69.0,
}  # fmt: skip
# Accuracy on PTB tags, in percent.
TABLE_6 = {
    "Collobert et al. 2011": 97.3, "Ma and Hovy 2016": 97.6, "Ling et al. 2015": 97.8, "CoVe, layer 1": 93.3,
    "CoVe, layer 2": 92.8, "layer 1": 97.3, "layer 2": 96.8,
}  # fmt: skip

FIGURE_1_TASKS = ("snli", "srl")
FIGURE_1 = (
    "SRL without ELMo reaches its best dev score after 486 epochs; with ELMo it exceeds it after 10. With ELMo, 1% of "
    "the training data is about as good as 10% without (SNLI and SRL, 0.1% to 100% of the data)."
)
FIGURE_2 = (
    "At the input all tasks favor the first LSTM layer, coreference and SQuAD most; at the output the weights are "
    "more balanced."
)

PERPLEXITY = 39.7  # mean of forward and backward, on the test text of the 1 Billion Word Benchmark
# Dev perplexity before and after one epoch on the text of the task.
FINETUNING = {
    "snli": ("72.1", "16.8"),
    "ner": ("103.2", "46.3"),
    "squad": ("99.1 (passages), 158.2 (questions)", "43.5, 52.0"),
    "sst": ("131.5", "78.6"),
}
MODEL = {
    "parameters": "93.6 million",
    "shape": "2 layers per direction, 4096 cells, 512-d projections; 2048 character filters, 2 highways",
    "dimension per layer": "1024",
    "training text": "1 Billion Word Benchmark (news), 10 epochs",
    "state": "carried from sentence to sentence",
}
