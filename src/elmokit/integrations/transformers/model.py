"""ELMo as models of transformers: vectors, token classification, sequence classification."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput, TokenClassifierOutput

from elmokit.embed.engine import Engine
from elmokit.embed.word_reader import WordReader
from elmokit.errors import InputError
from elmokit.integrations.transformers.config import ElmoConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.initialize import initialize
from elmokit.nn.padded import TokenIds, read_padded
from elmokit.nn.scalar_mix import ScalarMix
from elmokit.nn.state import BiLMState
from elmokit.nn.state_policy import POLICIES
from elmokit.weights.locate import ModelName, load
from elmokit.weights.model import Model

_INITIALIZED = "_is_hf_initialized"  # the mark of transformers on tensors that came from a checkpoint


class ElmoPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """Loading, saving and weight initialization of the ELMo models."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    input_modalities: ClassVar[str] = "text"

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Fill parameters that no checkpoint filled: the biLM as a whole, then every other module."""
        for module in self.modules():
            if isinstance(module, BiLM):
                _initialize_missing(module)
        super().initialize_weights()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, ScalarMix):
            init.zeros_(module.scalars)
            init.ones_(module.gamma)
        elif isinstance(module, ElmoModel):
            for buffer in module.buffers(recurse=False):
                init.zeros_(buffer)
        elif isinstance(module, nn.Linear):
            super()._init_weights(module)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoModel") -> None:
        """Do nothing: `auto_map` names the classes already, and their source stays in elmokit."""


class ElmoModel(ElmoPreTrainedModel):
    """The vectors of every token, and the layers that they are mixed from.

    `last_hidden_state` (B, T, 2D) is the learned mix of the layers: their average until it is trained, as
    `Elmo.embed` gives it. `hidden_states`, if asked for, are the layers 0 to L, each (B, T, 2D). Padding is zero.

    Every sentence starts from the state that the model's options name: zero, or one fixed state.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        shape = config.shape
        self.bilm = optimize_(BiLM(config=shape))  # fast forms have the same parameters, and can be trained
        self.mix = ScalarMix(n_layers=shape.n_vectors)
        self.has_fixed_start = POLICIES[shape.state].fixed_start
        if self.has_fixed_start:
            n = 2 * shape.lstm.n_layers
            self.register_buffer("initial_output", torch.zeros(n, shape.lstm.projection_dim))
            self.register_buffer("initial_cell", torch.zeros(n, shape.lstm.dim))
        self.post_init()

    @classmethod
    def from_elmokit(cls, model: ModelName | Model | None = None, **kwargs: Any) -> ElmoModel:
        """Load a model of any format that elmokit reads; None is the packaged model. kwargs: of `ElmoConfig`."""
        loaded = model if isinstance(model, Model) else load(model)
        network = cls(ElmoConfig.of_model(loaded, **kwargs))
        network.bilm.load_state_dict(loaded.bilm.state_dict())
        if network.has_fixed_start:
            network._fill_initial_state(loaded)
        network.eval()
        return network

    @torch.no_grad()
    def _fill_initial_state(self, model: Model) -> None:
        engine = Engine(self.bilm, WordReader(model), state=self.config.shape.state)
        with engine.guard, torch.inference_mode():
            state = engine.policy.start(torch.zeros(1, dtype=torch.long))
        tensors = [tensor[0].clone() for tensor in state.tensors()]
        self.initial_output.copy_(torch.stack(tensors[::2]))
        self.initial_cell.copy_(torch.stack(tensors[1::2]))

    def forward(
        self,
        input_ids: Tensor | None = None,
        char_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput | tuple[Any, ...]:
        """Read a batch of sentences, as `ElmoTokenizer` prepares them.

        input_ids: (B, T) word ids, which only models with a word table read. char_ids: (B, T, M) character ids, which
        all others read. attention_mask: (B, T), 1 at tokens; padding comes after them and changes nothing.
        """
        ids, mask = self._read_inputs(input_ids, char_ids, attention_mask)
        trainable = any(parameter.requires_grad for parameter in self.bilm.parameters())
        with torch.set_grad_enabled(trainable and torch.is_grad_enabled()):
            read = read_padded(self.bilm, ids, mask, self._marks(mask.device), self._initial_state(len(mask)))
        layers, _ = read.without_marks()  # (L + 1, B, T, 2D)
        mixed = self.mix(layers, mask)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutput(last_hidden_state=mixed, hidden_states=layers.unbind(0) if wanted else None)
        return output if _as_dict(self.config, return_dict) else output.to_tuple()

    def _read_inputs(
        self, input_ids: Tensor | None, char_ids: Tensor | None, attention_mask: Tensor | None
    ) -> tuple[TokenIds, Tensor]:
        shape, words = self.config.shape, None
        if shape.n_words:
            if input_ids is None:
                raise InputError("input_ids: expected word ids (B, T), as this model has a word table, found None")
            # the tokenizer's own tokens, as its padding, have no row in the table
            words = torch.where(input_ids < shape.n_words, input_ids, self.config.unknown_word or 0)
        if shape.char_cnn is None:
            char_ids = None
        else:
            width = shape.char_cnn.max_characters
            if char_ids is None:
                raise InputError("char_ids: expected character ids (B, T, M), found None; ElmoTokenizer gives them")
            if char_ids.dim() == 2 and not char_ids.numel():  # a batch without a token
                char_ids = char_ids.reshape(len(char_ids), 0, width)
            if char_ids.dim() != 3 or char_ids.shape[-1] != width:
                raise InputError(f"char_ids: expected shape (B, T, {width}), found {tuple(char_ids.shape)}")
        if attention_mask is not None:
            mask = attention_mask.bool()
        elif char_ids is not None:
            mask = (char_ids > 0).any(dim=-1)
        else:
            assert input_ids is not None
            mask = torch.ones_like(input_ids, dtype=torch.bool)
        return TokenIds(char_ids, words), mask

    def _marks(self, device: torch.device) -> TokenIds:
        """Ids of both sentence marks, (2, ...). Not a buffer: transformers creates models without storage."""
        shape, characters, words = self.config.shape, None, None
        if shape.char_cnn is not None:
            ids = torch.tensor(self.config.mark_characters, device=device)
            characters = ids.new_full((2, shape.char_cnn.max_characters), self.config.padding_character)
            characters[:, : ids.shape[1]] = ids
        if shape.n_words:
            words = torch.tensor(self.config.mark_words, device=device)
        return TokenIds(characters, words)

    def _initial_state(self, n: int) -> BiLMState | None:
        if not self.has_fixed_start:
            return None
        pairs = zip(self.initial_output.unsqueeze(1), self.initial_cell.unsqueeze(1), strict=True)
        return BiLMState.from_tensors([tensor for pair in pairs for tensor in pair]).expand(n)


class _ElmoClassifier(ElmoPreTrainedModel):
    """ELMo, dropout and a linear layer, as both classifiers have them."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class ElmoForTokenClassification(_ElmoClassifier):
    """A linear classifier over the vectors of tokens, after dropout."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        char_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> TokenClassifierOutput | tuple[Any, ...]:
        """Logits (B, T, labels), and the loss if labels (B, T) are given; -100 is no label. Others: `ElmoModel`."""
        read = self.elmo(input_ids, char_ids, attention_mask, output_hidden_states, True)
        logits = self.classifier(self.dropout(read.last_hidden_state))
        loss = None if labels is None else self.loss_function(logits, labels, self.config)
        output = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=read.hidden_states)
        return output if _as_dict(self.config, return_dict) else output.to_tuple()


class ElmoForSequenceClassification(_ElmoClassifier):
    """A linear classifier, or a regression, over the mean vector of a text's tokens, after dropout."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        char_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        """Logits (B, labels), and the loss if labels are given: (B,), or (B, labels) of several labels per text."""
        read = self.elmo(input_ids, char_ids, attention_mask, output_hidden_states, True)
        vectors = read.last_hidden_state  # zero at padding
        if attention_mask is None:
            _, attention_mask = self.elmo._read_inputs(input_ids, char_ids, None)
        counts = attention_mask.sum(dim=1, keepdim=True).clamp(min=1)
        logits = self.classifier(self.dropout(vectors.sum(dim=1) / counts))
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        output = SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=read.hidden_states)
        return output if _as_dict(self.config, return_dict) else output.to_tuple()


def _as_dict(config: ElmoConfig, return_dict: bool | None) -> bool:
    return bool(config.return_dict if return_dict is None else return_dict)


def _initialize_missing(bilm: BiLM) -> None:
    """Initialize the parameters that did not come from a checkpoint."""
    missing = {name: p for name, p in bilm.named_parameters() if not getattr(p, _INITIALIZED, False)}
    if not missing:
        return
    fresh = BiLM(config=bilm.config)
    initialize(fresh)
    for name, parameter in missing.items():
        parameter.copy_(fresh.get_parameter(name))
        setattr(parameter, _INITIALIZED, True)
