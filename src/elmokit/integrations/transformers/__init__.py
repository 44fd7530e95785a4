"""Hugging Face transformers: ELMo as configuration, models and tokenizer.

    import elmokit.integrations.transformers  # registers the classes with AutoModel, AutoTokenizer and AutoConfig
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

`elmo convert MODEL folder --to transformers` writes the folder, as do `save_folder` and `save_pretrained`.
"""

from elmokit.errors import MissingExtraError

try:
    import transformers
except ImportError:
    raise MissingExtraError("elmokit.integrations.transformers", "transformers") from None

if int(transformers.__version__.split(".")[0]) < 5:
    raise MissingExtraError(f"transformers 5, where {transformers.__version__} is installed,", "transformers")

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)
from transformers.models.auto import modeling_auto

from elmokit.integrations.transformers.config import ElmoConfig
from elmokit.integrations.transformers.folder import save_folder
from elmokit.integrations.transformers.model import (
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
)
from elmokit.integrations.transformers.tokenizer import ElmoTokenizer

__all__ = [
    "ElmoConfig",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
    "save_folder",
]


def _register() -> None:
    kind = ElmoConfig.model_type
    AutoConfig.register(kind, ElmoConfig, exist_ok=True)
    AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
    AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
    AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
    AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
    # Pipelines compare class names with these tables, and log an error about a class that is registered only.
    modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES[kind] = ElmoForTokenClassification.__name__
    modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES[kind] = ElmoForSequenceClassification.__name__


_register()
