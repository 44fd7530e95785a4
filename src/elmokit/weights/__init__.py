"""Model files: found, recognised, read and written. A foreign format is one table of names, read in both directions."""

from elmokit.weights.locate import load
from elmokit.weights.model import MixWeights, Model
from elmokit.weights.native import save

__all__ = ["MixWeights", "Model", "load", "save"]
