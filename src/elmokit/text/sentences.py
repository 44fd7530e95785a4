"""Sentence splitting and abbreviation detection for English."""

# ruff: noqa: SIM905 - word lists read best as words

from __future__ import annotations

import re

# Abbreviations. Those that are also common words ("in.", "may.", "sun.") are left out on purpose.
_TITLES = frozenset(
    """adm amb attys brig capt cmdr col cpl dr drs gen gov hon lt maj messrs mlle mme mr mrs ms msgr pres prof pvt rep
    reps rev sen sens sgt supt""".split()
)  # followed by a name: never the end of a sentence
_BEFORE_NUMBERS = frozenset("ch eq fig figs no nos para pp sec vol vols".split())  # abbreviations only before a number
_OTHERS = frozenset(
    """al approx apr assn assoc aug ave bldg blvd bros ca cf co corp dec dept ed eds esp esq est etc feb fl ft inc intl
    jan jr lb lbs ltd mfg mt mts nov oct oz rd sep sept sp spp sq sr ssp st ste subsp univ viz vs""".split()
)
# After an ambiguous abbreviation, one of these words indicates that a new sentence starts.
_STARTERS = frozenset(
    """A After All Although An And As At But By For From He Her His How However I If In It Its My No On Our She Since
    So Some That The Their Then There These They This Those To We What When Where While Who Why With Yes
    You Your""".split()
)
_DOTTED = re.compile(r"(?:\A|-)(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}\Z")
_END = re.compile(
    r"""
      (?P<mark> [.!?…](?:[ ]?[.!?…])*+ ) (?P<close> ["'’”»)\]}]*+ )
    | [。！？]+[」』）”]*
    | \n[^\S\n]*\n                                    # a blank line
    """,
    re.VERBOSE,
)
_NEXT_WORD = re.compile(r"""\s*["'‘“«(\[{]*(\w{0,12})""")


def is_dotted(word: str) -> bool:
    """Whether a word, without its last dot, is an abbreviation with dots inside: U.S, e.g, Ph.D, pro-U.S."""
    return "." in word and _DOTTED.search(word) is not None


def is_abbreviation(word: str, after: str) -> bool:
    """Whether the dot after a word belongs to it: an initial or an abbreviation. `after`: the text after the dot."""
    lower = word.lower()
    if lower in _BEFORE_NUMBERS:
        return after.lstrip()[:1].isdigit()
    return (len(word) == 1 and word.isalpha()) or lower in _TITLES or lower in _OTHERS


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Sentence spans of a text, without surrounding white space. A blank line always ends a sentence."""
    spans = []
    start = 0
    for match in _END.finditer(text):
        if match["mark"] is None or _ends_sentence(text, start, match):
            spans.append(_stripped(text, start, match.end()))
            start = match.end()
    spans.append(_stripped(text, start, len(text)))
    return [(first, last) for first, last in spans if first < last]


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the punctuation of a match ends the sentence that starts at `start`."""
    if not text[match.end() : match.end() + 1].isspace():
        return False
    following = _NEXT_WORD.match(text, match.end())
    next_word = following[1] if following else ""
    if match["mark"] != "." or match["close"]:
        return not next_word[:1].islower()  # "Really?" he asked.
    before = text[max(start, match.start() - 24) : match.start()]
    word = "" if not before or before[-1].isspace() else before.split()[-1].lstrip("\"'‘“«([{")
    if word.lower() in _TITLES or (word.isdigit() and before.strip() == word):  # "1." starts a list item
        return False
    if is_dotted(word) or is_abbreviation(word, text[match.end() : match.end() + 2]):
        return next_word in _STARTERS
    return True


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Span without leading and trailing white space."""
    sentence = text[start:end]
    return start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())
