"""Token and Vocabulary of `allennlp.data`, as far as code around ELMo uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

DEFAULT_PADDING_TOKEN, DEFAULT_OOV_TOKEN = "@@PADDING@@", "@@UNKNOWN@@"
DEFAULT_NON_PADDED_NAMESPACES = ("*tags", "*labels")


@dataclass(frozen=True)
class Token:
    """A word of a text."""

    text: str | None = None
    idx: int | None = None  # start offset in the text
    lemma_: str | None = None
    pos_: str | None = None
    tag_: str | None = None
    dep_: str | None = None
    ent_type_: str | None = None
    text_id: int | None = None
    type_id: int | None = None
    idx_end: int | None = None

    def ensure_text(self) -> str:
        """The text; raises a ValueError if it is None."""
        if self.text is None:
            raise ValueError("Token: expected a text, found None")
        return self.text

    def __str__(self) -> str:
        """The text."""
        return self.text or ""


class Vocabulary:
    """Word ids by namespace. Ids 0 and 1 are padding and unknown words, except for labels and tags."""

    def __init__(
        self,
        counter: Mapping[str, Mapping[str, int]] | None = None,
        min_count: Mapping[str, int] | None = None,
        *,
        non_padded_namespaces: Iterable[str] = DEFAULT_NON_PADDED_NAMESPACES,
    ) -> None:
        """counter: word counts by namespace; frequent words come first.

        min_count: words with fewer occurrences are left out, by namespace. non_padded_namespaces: namespaces without
        padding and unknown words, by name or, as in "*tags", by ending.
        """
        self._non_padded = tuple(non_padded_namespaces)
        self._ids: dict[str, dict[str, int]] = {}  # namespace -> word -> id
        self._words: dict[str, list[str]] = {}  # the same by id
        for namespace, counts in (counter or {}).items():
            for word, count in sorted(counts.items(), key=lambda item: -item[1]):
                if count >= (min_count or {}).get(namespace, 1):
                    self.add_token_to_namespace(word, namespace)

    @classmethod
    def from_instances(cls, instances: Iterable[Any], **settings: Any) -> Self:
        """Vocabulary of the tokens in instances; settings: those of the constructor."""
        counter: dict[str, dict[str, int]] = {}
        for instance in instances:
            instance.count_vocab_items(counter)
        return cls(counter, **settings)

    def _namespace(self, namespace: str) -> dict[str, int]:
        if namespace not in self._ids:
            bare = any(
                namespace.endswith(name[1:]) if name.startswith("*") else namespace == name for name in self._non_padded
            )
            words = [] if bare else [DEFAULT_PADDING_TOKEN, DEFAULT_OOV_TOKEN]
            self._words[namespace], self._ids[namespace] = words, {word: k for k, word in enumerate(words)}
        return self._ids[namespace]

    def add_token_to_namespace(self, token: str, namespace: str = "tokens") -> int:
        """Add a word if it is new; returns its id."""
        ids = self._namespace(namespace)
        if token not in ids:
            ids[token] = len(ids)
            self._words[namespace].append(token)
        return ids[token]

    def add_tokens_to_namespace(self, tokens: Iterable[str], namespace: str = "tokens") -> list[int]:
        """Add words; returns their ids."""
        return [self.add_token_to_namespace(token, namespace) for token in tokens]

    def get_token_to_index_vocabulary(self, namespace: str = "tokens") -> dict[str, int]:
        """Word to id."""
        return dict(self._namespace(namespace))

    def get_index_to_token_vocabulary(self, namespace: str = "tokens") -> dict[int, str]:
        """Id to word."""
        return {k: word for word, k in self._namespace(namespace).items()}

    def get_token_index(self, token: str, namespace: str = "tokens") -> int:
        """Id of a word, or of the unknown word."""
        ids = self._namespace(namespace)
        return ids[token] if token in ids else ids[DEFAULT_OOV_TOKEN]

    def get_token_from_index(self, index: int, namespace: str = "tokens") -> str:
        """Word of an id."""
        self._namespace(namespace)
        return self._words[namespace][index]

    def get_vocab_size(self, namespace: str = "tokens") -> int:
        """Number of ids."""
        return len(self._namespace(namespace))
