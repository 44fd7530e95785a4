"""Version of AllenNLP that the drop-in follows."""

VERSION = __version__ = "2.10.1"
