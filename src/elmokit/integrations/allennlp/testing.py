"""`AllenNlpTestCase`: base class of AllenNLP's own tests, for pytest."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch

requires_gpu = unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")


class AllenNlpTestCase:
    """Test case with a temporary folder `TEST_DIR` and the folder `FIXTURES_ROOT` of the fixtures.

    A subclass extends `setup_method` (AllenNLP 2) or `setUp` (0.9). The fixtures are searched in the working folder,
    where AllenNLP 2 and 0.9 have them; assign `AllenNlpTestCase.FIXTURES_ROOT` for another place.
    """

    TEST_DIR: Path
    PROJECT_ROOT = Path.cwd()
    FIXTURES_ROOT = PROJECT_ROOT / "test_fixtures"
    if not FIXTURES_ROOT.is_dir() and (PROJECT_ROOT / "allennlp" / "tests" / "fixtures").is_dir():
        FIXTURES_ROOT = PROJECT_ROOT / "allennlp" / "tests" / "fixtures"

    def setup_method(self, method: Any = None) -> None:
        """Called by pytest before a test."""
        self.setUp()

    def teardown_method(self, method: Any = None) -> None:
        """Called by pytest after a test."""
        self.tearDown()

    def setUp(self) -> None:
        """Make the temporary folder."""
        self.TEST_DIR = Path(tempfile.mkdtemp(prefix="allennlp_tests"))

    def tearDown(self) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self.TEST_DIR, ignore_errors=True)

    def __getattr__(self, name: str) -> Any:
        """The assert methods of unittest, which tests of 0.9 use."""
        if name.startswith(("assert", "fail")):
            return getattr(unittest.TestCase(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
