"""A drop-in for AllenNLP's ELMo: old code changes one import line.

    from allennlp.modules.elmo import Elmo, batch_to_ids           # before
    from elmokit.integrations.allennlp import Elmo, batch_to_ids   # now

Names, signatures, outputs and the state between calls are those of AllenNLP 2.10.1, for `ElmoEmbedder` of 0.9.0. So is
what old code reaches into: `elmo._elmo_lstm._elmo_lstm.stateful`, `._states` and `.reset_states()`, and
`elmo.scalar_mix_0.scalar_parameters`. Checkpoints of AllenNLP load. The network is that of `elmokit.nn`.
"""

from elmokit.integrations.allennlp.bilm import _ElmoBiLm, _ElmoCharacterEncoder
from elmokit.integrations.allennlp.elmo import Elmo, ElmoTokenEmbedder, ScalarMix
from elmokit.integrations.allennlp.embedder import ElmoEmbedder
from elmokit.integrations.allennlp.ids import add_sentence_boundary_token_ids, batch_to_ids, remove_sentence_boundaries

__all__ = [
    "Elmo", "ElmoEmbedder", "ElmoTokenEmbedder", "ScalarMix", "_ElmoBiLm", "_ElmoCharacterEncoder",
    "add_sentence_boundary_token_ids", "batch_to_ids", "remove_sentence_boundaries",
]  # fmt: skip
