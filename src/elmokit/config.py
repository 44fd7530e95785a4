"""Model configuration: frozen dataclasses, read from and written to the published `options.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from elmokit.disk.json_file import parse_json
from elmokit.errors import ConfigError, FormatError

State = Literal["reset", "warm", "carry"]
IndependentState = Literal["reset", "warm"]  # those where a sentence's vectors depend on that sentence alone
Activation = Literal["relu", "tanh"]
Alphabet = Literal["bytes", "code points"]

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_TOKENIZER = re.compile(
    r"words|han|spaces|spacy:[a-z]{2,3}"
)  # options may come from untrusted files: no other name is accepted
N_BYTE_IDS = 262  # 256 bytes, five special ids, and 0 for padding tokens
MAX_CHARACTERS = 4096  # maximum ids per token: bounds memory, because no weight shape limits this number


@dataclass(frozen=True)
class CharCnnConfig:
    """Character CNN of the token encoder: embedding, convolutions, max-pooling, highway layers."""

    embedding_dim: int = 16  # size of a character vector
    filters: tuple[tuple[int, int], ...] = PUBLISHED_FILTERS  # (width, count) of each convolution
    n_highway: int = 2  # highway layers after the pooling
    activation: Activation = "relu"  # after the pooling; highways always use relu
    max_characters: int = 50  # ids per token, word boundaries included
    alphabet: Alphabet = "bytes"  # UTF-8 bytes (published) or code points (ELMoForManyLangs)
    n_characters: int = N_BYTE_IDS  # rows of the character table

    def __post_init__(self) -> None:
        _require(self.embedding_dim > 0, "char_cnn.embedding.dim", "a positive integer", self.embedding_dim)
        _require(
            bool(self.filters) and all(width > 0 and count > 0 for width, count in self.filters),
            "char_cnn.filters",
            "a list of [width, count] pairs of positive integers",
            self.filters,
        )
        _require(self.n_highway >= 0, "char_cnn.n_highway", "0 or more", self.n_highway)
        _require(
            self.activation in get_args(Activation),
            "char_cnn.activation",
            " or ".join(get_args(Activation)),
            self.activation,
        )
        widest = max(width for width, _ in self.filters)
        _require(
            max(3, widest) <= self.max_characters <= MAX_CHARACTERS,
            "char_cnn.max_characters_per_token",
            f"at least {max(3, widest)} (the widest filter), at most {MAX_CHARACTERS}",
            self.max_characters,
        )
        _require(
            self.alphabet in get_args(Alphabet), "char_cnn.alphabet", " or ".join(get_args(Alphabet)), self.alphabet
        )

    @property
    def n_filters(self) -> int:
        """Length of the pooled character vector, F."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class LstmConfig:
    """Stacks of LSTM layers with projection, one per direction."""

    dim: int = 4096  # cells, C
    projection_dim: int = 512  # size of a token vector and of an LSTM output, D
    n_layers: int = 2  # LSTM layers per direction, L
    cell_clip: float | None = 3.0  # clip |c| to this; None is off
    proj_clip: float | None = 3.0  # clip the projected output to this; None is off
    skip_connections: bool = True  # add a layer's input to its output, from the second layer on

    def __post_init__(self) -> None:
        _require(self.dim > 0, "lstm.dim", "a positive integer", self.dim)
        _require(self.projection_dim > 0, "lstm.projection_dim", "a positive integer", self.projection_dim)
        _require(self.n_layers > 0, "lstm.n_layers", "a positive integer", self.n_layers)
        _require(
            self.projection_dim <= self.dim,
            "lstm.projection_dim",
            f"at most lstm.dim = {self.dim} (without a projection the two are equal)",
            self.projection_dim,
        )
        for name in ("cell_clip", "proj_clip"):
            clip = getattr(self, name)
            _require(clip is None or clip > 0, f"lstm.{name}", "a positive number, or null for none", clip)

    @property
    def has_projection(self) -> bool:
        """Whether D < C; if D = C, an LSTM's output is its hidden vector, and `proj_clip` has no effect."""
        return self.projection_dim < self.dim


@dataclass(frozen=True)
class ModelConfig:
    """Configuration of a biLM. Its input is characters, a word table, or both."""

    lstm: LstmConfig = field(default_factory=LstmConfig)
    char_cnn: CharCnnConfig | None = field(default_factory=CharCnnConfig)
    n_words: int = 0  # rows of the word table; 0 is none
    word_dim: int = 0  # columns of the word table
    state: State = "warm"  # default state policy: the initial state of a sentence
    tokenizer: str | None = None  # tokenizer of raw text: words, han, spaces, spacy:xx; None if the options name none
    extra: Mapping[str, Any] = field(default_factory=dict)  # other top-level options, preserved

    @property
    def default_tokenizer(self) -> str:
        """Tokenizer of raw text, where no other is asked for: the model's own, or that of English."""
        return self.tokenizer or "words"

    @property
    def corpus_tokenizer(self) -> str:
        """Default tokenizer of a corpus: spaces instead of words, because corpora are usually tokenized."""
        return "spaces" if self.default_tokenizer == "words" else self.default_tokenizer

    def __post_init__(self) -> None:
        _require(
            self.tokenizer is None or (isinstance(self.tokenizer, str) and bool(_TOKENIZER.fullmatch(self.tokenizer))),
            "elmokit.tokenizer",
            "words, han, spaces or spacy: with a language code",
            self.tokenizer,
        )
        _require(
            self.char_cnn is not None or self.n_words > 0, "char_cnn", "present, unless there is a word table", None
        )
        _require(self.state in get_args(State), "elmokit.state", ", ".join(get_args(State)), self.state)
        _require(
            self.has_token_projection or self.token_dim == self.lstm.projection_dim,
            "lstm.projection_dim",
            f"the size of a token, {self.token_dim}",
            self.lstm.projection_dim,
        )

    @property
    def token_dim(self) -> int:
        """Size of a token's features before the projection to D: word columns first, then filters."""
        return (self.word_dim if self.n_words else 0) + (self.char_cnn.n_filters if self.char_cnn else 0)

    @property
    def has_token_projection(self) -> bool:
        """Whether token features are projected to D: those of a character CNN that do not have D dimensions already."""
        return self.char_cnn is not None and self.token_dim != self.lstm.projection_dim

    @property
    def n_vectors(self) -> int:
        """Layers per token: L + 1."""
        return self.lstm.n_layers + 1

    @property
    def vector_dim(self) -> int:
        """Length of a layer's vector: 2 D."""
        return 2 * self.lstm.projection_dim

    def to_options(self) -> dict[str, Any]:
        """The published `options.json`, with our own settings under `elmokit`."""
        options = dict(self.extra)
        lstm = asdict(self.lstm)
        lstm["use_skip_connections"] = lstm.pop("skip_connections")
        options["lstm"] = lstm
        ours: dict[str, Any] = {"state": self.state}
        if self.tokenizer is not None:
            ours["tokenizer"] = self.tokenizer
        if self.char_cnn is not None:
            options["char_cnn"] = {
                "embedding": {"dim": self.char_cnn.embedding_dim},
                "filters": [list(pair) for pair in self.char_cnn.filters],
                "n_highway": self.char_cnn.n_highway,
                "activation": self.char_cnn.activation,
                "max_characters_per_token": self.char_cnn.max_characters,
                "n_characters": self.char_cnn.n_characters,
            }
            ours["alphabet"] = self.char_cnn.alphabet
        if self.n_words:
            ours["n_words"], ours["word_dim"] = self.n_words, self.word_dim
        options["elmokit"] = ours
        return options

    @classmethod
    def from_options(cls, options: Mapping[str, Any], *, n_words: int = 0) -> ModelConfig:
        """Read the published keys; unknown ones are kept, unused. `n_words`: rows of a word table in the weights."""
        if not isinstance(options, Mapping):
            raise ConfigError(f"options: expected a JSON object, found {type(options).__name__}")
        lstm = _section(options, "lstm")
        ours = _section(options, "elmokit", required=False)
        projection_dim = _integer(lstm, "lstm", "projection_dim", 512)
        char_cnn = None
        if "char_cnn" in options:
            section = _section(options, "char_cnn")
            alphabet = ours.get("alphabet", "bytes")
            char_cnn = CharCnnConfig(
                embedding_dim=_integer(_section(section, "embedding", required=False), "char_cnn.embedding", "dim", 16),
                filters=_filters(section.get("filters", PUBLISHED_FILTERS)),
                n_highway=_integer(section, "char_cnn", "n_highway", 0),
                activation=section.get("activation", "relu"),
                max_characters=_integer(section, "char_cnn", "max_characters_per_token", 50),
                alphabet=alphabet,
                # 261 and 262 only distinguish training from inference files: the byte table is the same
                n_characters=N_BYTE_IDS if alphabet == "bytes" else _integer(section, "char_cnn", "n_characters", None),
            )
        words = n_words or _integer(ours, "elmokit", "n_words", 0)
        return cls(
            lstm=LstmConfig(
                dim=_integer(lstm, "lstm", "dim", 4096),
                projection_dim=projection_dim,
                n_layers=_integer(lstm, "lstm", "n_layers", 1),
                cell_clip=_number(lstm, "lstm", "cell_clip"),
                proj_clip=_number(lstm, "lstm", "proj_clip"),
                skip_connections=_flag(lstm, "lstm", "use_skip_connections"),
            ),
            char_cnn=char_cnn,
            n_words=words,
            word_dim=_integer(ours, "elmokit", "word_dim", projection_dim) if words else 0,
            state=ours.get("state", "warm"),
            tokenizer=ours.get("tokenizer"),
            extra={key: value for key, value in options.items() if key not in ("lstm", "char_cnn", "elmokit")},
        )

    @classmethod
    def from_json(cls, text: str | bytes, *, n_words: int = 0) -> ModelConfig:
        """Read the text of an `options.json`."""
        try:
            options = parse_json(text, "options")
        except FormatError as error:
            raise ConfigError(f"{error} in {str(text[:20])!r}") from None
        return cls.from_options(options, n_words=n_words)


def _require(holds: bool, name: str, expected: str, actual: object) -> None:
    if not holds:
        raise ConfigError(f"{name}: expected {expected}, found {actual!r}")


def _section(options: Mapping[str, Any], name: str, *, required: bool = True) -> Mapping[str, Any]:
    section = options.get(name, None if required else {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"options: expected an object under {name!r}, found {section!r}")
    return section


def _integer(section: Mapping[str, Any], path: str, name: str, default: int | None) -> int:
    value = section.get(name, default)
    if not _is_whole(value):
        raise ConfigError(f"{path}.{name}: expected an integer, found {value!r}")
    return int(value)


def _is_whole(value: Any) -> bool:
    """Whether a value is an integer of plausible size, also if written as 3.0."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and abs(value) < 2**53 and value == int(value)


def _flag(section: Mapping[str, Any], path: str, name: str) -> bool:
    value = section.get(name)
    _require(value in (True, False, None), f"{path}.{name}", "true or false", value)
    return bool(value)


def _number(section: Mapping[str, Any], path: str, name: str) -> float | None:
    value = section.get(name)
    if value is None or value == 0:  # both mean "no clip"
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ConfigError(f"{path}.{name}: expected a number or null, found {value!r}")
    return float(value)


def _filters(value: object) -> tuple[tuple[int, int], ...]:
    try:
        pairs = [(width, count) for width, count in value]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(_is_whole(width) and _is_whole(count) for width, count in pairs):
        raise ConfigError(f"char_cnn.filters: expected a list of [width, count] pairs of integers, found {value!r}")
    return tuple((int(width), int(count)) for width, count in pairs)
