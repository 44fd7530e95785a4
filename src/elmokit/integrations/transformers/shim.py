"""The file in a model folder from which transformers loads the classes when they are not registered."""

from __future__ import annotations

import os
from pathlib import Path

MODULE = "modeling_elmo"  # auto_map refers to classes as module.class
SHIM = f"{MODULE}.py"

CODE = '''\
"""Classes of this model, from the package elmokit: pip install 'elmokit[transformers]'"""

try:
    from elmokit.integrations.transformers import (
        ElmoConfig,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoModel,
        ElmoTokenizer,
    )
except ImportError as error:
    raise ImportError(
        "This model needs elmokit with its extra for transformers: pip install 'elmokit[transformers]'"
    ) from error
'''


def write_shim(folder: str | os.PathLike[str]) -> Path:
    """Write the file into a folder."""
    path = Path(folder) / SHIM
    path.write_text(CODE, encoding="utf-8", newline="\n")
    return path
