"""Requests and answers of the API, as its OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from elmokit.embed.layer_choice import LayerName

Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]
Text = str | list[str]
Texts = Annotated[
    str | list[Text],
    Field(
        validation_alias=AliasChoices("texts", "inputs"),
        description="Texts or lists of tokens; also a single text. `inputs` is an alias.",
        examples=[["I will buy you a present.", ["Live", "in", "the", "present"]]],
    ),
]
LayerChoice = LayerName | Annotated[int, Field(ge=0, le=100)] | list[Finite]
Encoding = Literal["float", "base64"]
Top = Annotated[int, Field(ge=1, le=1000, description="Number of results.")]
Word = Annotated[str, Field(min_length=1, max_length=1000)]
Line = Annotated[str, Field(max_length=100_000)]


class Request(BaseModel):
    """A request; unknown fields are refused, since a misspelled one would be ignored silently."""

    model_config = ConfigDict(extra="forbid", strict=False)


class Mix(BaseModel):
    """Scalar mix of the layers: gamma * sum_j softmax(weights)_j h_j (Peters et al. 2018, equation 1)."""

    model_config = ConfigDict(extra="forbid")

    weights: list[Finite] = Field(description="One weight per layer, before the softmax.")
    gamma: Finite = 1.0


class TextsRequest(Request):
    """Texts or lists of tokens."""

    texts: Texts
    tokenizer: Literal["words", "han", "spaces"] | None = Field(
        None, description="Tokenizer of texts; default: the server's."
    )


class EmbedRequest(TextsRequest):
    """One vector per text."""

    layers: LayerChoice = Field(
        "average", description="Layers: top, average, the number of a layer, or one weight per layer."
    )
    mix: Mix | None = Field(None, description="Scalar mix of the layers, instead of `layers`.")
    pooling: Literal["mean", "max"] = Field("mean", description="Mean or maximum over the tokens.")
    punctuation: bool = Field(True, description="Whether tokens without a letter or digit count.")
    normalize: bool = Field(True, description="Whether vectors are scaled to length 1.")
    truncate: bool = Field(False, description="Accepted for clients of text-embeddings-inference. Nothing is cut off.")
    encoding_format: Encoding = Field("float", description="base64: little-endian float32.")


class EmbedAllRequest(TextsRequest):
    """Vectors of every token."""

    layers: LayerChoice = Field(
        "all", description="Layers: all, top, average, the number of a layer, or one weight per layer."
    )
    mix: Mix | None = Field(None, description="Scalar mix of the layers, instead of `layers`.")
    select: list[list[int] | None] | None = Field(
        None, description="For each text, the numbers of the tokens whose vectors are wanted; null is all."
    )
    encoding_format: Encoding = Field("float", description="base64: little-endian float32 of the shape in `shape`.")


class OpenAIRequest(BaseModel):
    """A request as OpenAI's API defines it; other fields are ignored."""

    input: str | list[str] = Field(description="A text, or several; token numbers are not supported.")
    model: str = Field("", description="Any name; the response names the served model.")
    encoding_format: Encoding = "float"
    dimensions: int | None = Field(None, description="If given, the dimension of the model.")
    user: str | None = None


class PredictRequest(Request):
    """A part of a sentence."""

    text: Text
    direction: Literal["forward", "backward", "gap"] = "forward"
    gap: str | None = Field(None, max_length=100, description="Marker of the gap; default: ___.")
    top: Top = 10


class NeighborsRequest(Request):
    """A word, alone or in its sentence."""

    word: Word
    text: Line | None = Field(None, description="Sentence with the word: its neighbors in the server's index.")
    same_word: bool = Field(False, description="With `text`: only occurrences of the same word.")
    top: Top = 10


class CompareRequest(Request):
    """A word in two sentences."""

    texts: Annotated[list[Line], Field(min_length=2, max_length=2)]
    words: Annotated[list[Word], Field(min_length=1, max_length=2)] = Field(
        description="A token of both sentences; or two, one of each. `word#2` is its second occurrence."
    )


class ExplainRequest(Request):
    """A word."""

    word: Word


class OccurrencesRequest(Request):
    """A word of the corpus that is indexed."""

    word: Word
    limit: Annotated[int, Field(ge=1, le=10_000)] = 200


class ProjectRequest(TextsRequest):
    """One token per text, to be put on a map."""

    select: list[Annotated[list[int], Field(min_length=1, max_length=1)]]
    weights: list[Finite] = Field(description="One per layer, after the softmax.")
    gamma: Finite = 1.0
    method: Literal["pca", "umap"] | None = Field(None, description="Default: UMAP where it is installed.")


class TaskRequest(Request):
    """A line as `elmo task NAME predict` reads it, or several."""

    text: str | None = None
    texts: list[str] | None = None


class TokenizedText(BaseModel):
    """Tokens of a text."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None = Field(description="Start and end in code points; null for given tokens.")


class EmbeddedText(TokenizedText):
    """Tokens with their vectors."""

    shape: tuple[int, int, int] = Field(description="Layers, tokens, dimensions.")
    vectors: Any = Field(description="Nested lists, or base64.")


class Prediction(BaseModel):
    """A word and its probability."""

    word: str
    probability: float


class NeighborList(BaseModel):
    """Nearest words."""

    source: str
    neighbors: list[dict[str, Any]]


class ErrorAnswer(BaseModel):
    """An error and its remedy."""

    error: str
    error_type: str
