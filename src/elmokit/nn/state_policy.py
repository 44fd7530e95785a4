"""State policies: the initial LSTM state of a sentence.

To add a policy, write a class here, enter it in `POLICIES`, and add its name to `State` in `elmokit.config`, and to
`IndependentState` if it is independent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from elmokit.config import State
from elmokit.nn.bilm import BiLM
from elmokit.nn.state import BiLMState

WarmUp = Callable[[BiLMState], BiLMState]  # reads a fixed text from a state of one row, and returns the state after it


class StatePolicy(ABC):
    """Gives every sentence its initial state, and sees its final one."""

    independent: ClassVar[bool]  # whether a sentence's vectors depend on that sentence alone
    fixed_start: ClassVar[bool] = False  # whether all sentences start from the same nonzero state
    description: ClassVar[str]
    carried: BiLMState | None = None  # state carried from batch to batch, one row per sentence of a batch

    def __init__(self, bilm: BiLM, warm_up: WarmUp | None = None) -> None:
        self._bilm, self._warm_up = bilm, warm_up

    @abstractmethod
    def start(self, rows: Tensor) -> BiLMState:
        """The initial state of the sentences in these rows of the batch, (n,), in this order."""

    def end(self, rows: Tensor, state: BiLMState) -> None:  # noqa: B027 (most policies have nothing to keep)
        """Take note of the final state of the same sentences."""


class Reset(StatePolicy):
    """Zero: for models that were trained on single sentences, as ours are."""

    independent = True
    description = "zero at the start of every sentence"

    def start(self, rows: Tensor) -> BiLMState:
        """Zero."""
        return self._bilm.zero_state(len(rows))


class Warm(StatePolicy):
    """The state after a short fixed text: for published weights, whose state was never zero in training."""

    independent = True
    fixed_start = True
    description = "one fixed state at the start of every sentence"
    _fixed: BiLMState | None = None

    def start(self, rows: Tensor) -> BiLMState:
        """The same for all sentences; the text is read once."""
        if self._fixed is None:
            if self._warm_up is None:
                raise ValueError("warm_up: expected a function that reads the warm-up text, found None")
            self._fixed = self._warm_up(self._bilm.zero_state(1))
        return self._fixed.expand(len(rows))


class Carry(StatePolicy):
    """The state after the sentence that the same row of the batch read before: what the published code did."""

    independent = False
    description = "carried from sentence to sentence"

    def start(self, rows: Tensor) -> BiLMState:
        """Final state of these rows in the last batch; zero for new rows."""
        if self.carried is None:
            self.carried = self._bilm.zero_state(0)
        self.carried = self.carried.pad(int(rows.max()) + 1)
        return self.carried.rows(rows)

    def end(self, rows: Tensor, state: BiLMState) -> None:
        """Keep it for the next batch."""
        assert self.carried is not None, "end before start"
        self.carried.put(rows, state)


POLICIES: dict[State, type[StatePolicy]] = {"reset": Reset, "warm": Warm, "carry": Carry}
INDEPENDENT_STATES = tuple(name for name, policy in POLICIES.items() if policy.independent)
