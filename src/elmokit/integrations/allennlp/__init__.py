"""Drop-in replacement for AllenNLP's ELMo: change one import line, or none with `elmokit.compat`.

    from allennlp.modules.elmo import Elmo, batch_to_ids           # before
    from elmokit.integrations.allennlp import Elmo, batch_to_ids   # now

Names, signatures, outputs and carried state are those of AllenNLP 2.10.1, and of 0.9.0 for `ElmoEmbedder`. Modules,
parameters and `state_dict` have the same names too, so checkpoints are interchangeable.
"""

from elmokit.errors import ElmoError as ConfigurationError
from elmokit.integrations.allennlp.bilm import _ElmoBiLm
from elmokit.integrations.allennlp.characters import Highway, _ElmoCharacterEncoder
from elmokit.integrations.allennlp.elmo import Elmo, ElmoTokenEmbedder
from elmokit.integrations.allennlp.embedder import ElmoEmbedder
from elmokit.integrations.allennlp.encoder_base import _EncoderBase
from elmokit.integrations.allennlp.indexer import (
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    SingleIdTokenIndexer,
    TokenIndexer,
    batch_to_ids,
)
from elmokit.integrations.allennlp.lstm import ElmoLstm, LstmCellWithProjection
from elmokit.integrations.allennlp.mix import ScalarMix
from elmokit.integrations.allennlp.multilang import ElmoTokenEmbedderMultiLang
from elmokit.integrations.allennlp.params import Params
from elmokit.integrations.allennlp.pretrained import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmokit.integrations.allennlp.token_embedder import TokenEmbedder
from elmokit.integrations.allennlp.util import (
    add_sentence_boundary_token_ids,
    get_lengths_from_binary_sequence_mask,
    remove_sentence_boundaries,
    sort_batch_by_length,
)

__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "ConfigurationError",
    "ELMoCharacterMapper",
    "ELMoTokenCharactersIndexer",
    "Elmo",
    "ElmoEmbedder",
    "ElmoLstm",
    "ElmoTokenEmbedder",
    "ElmoTokenEmbedderMultiLang",
    "Highway",
    "LstmCellWithProjection",
    "Params",
    "ScalarMix",
    "SingleIdTokenIndexer",
    "TokenEmbedder",
    "TokenIndexer",
    "_ElmoBiLm",
    "_ElmoCharacterEncoder",
    "_EncoderBase",
    "add_sentence_boundary_token_ids",
    "batch_to_ids",
    "get_lengths_from_binary_sequence_mask",
    "remove_sentence_boundaries",
    "sort_batch_by_length",
]
