"""Model files: format detection, reading and writing. One table per foreign format serves both directions."""

from elmokit.weights.locate import load
from elmokit.weights.model import MixWeights, Model
from elmokit.weights.native import save

__all__ = ["MixWeights", "Model", "load", "save"]
