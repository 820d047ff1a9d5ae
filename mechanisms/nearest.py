"""The name that was meant, where one was typed that nothing has."""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.7  # of 1: one letter of three wrong is not; two that changed places in a short word are


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word is most like; None if it is like none of them.

    >>> nearest("histgram", ["histogram", "mean"]), nearest("xyz", ["histogram", "mean"])
    ('histogram', None)
    """
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=_ALIKE)
    return by_lower[matches[0]] if matches else None


def meant(word: str, known: Iterable[str]) -> str:
    """The same as a question, to end a refusal with; empty if there is nothing to ask.

    >>> meant("orign", ["origin", "distance"])
    '; did you mean origin?'
    """
    name = nearest(word, known)
    return "" if name is None else f"; did you mean {name}?"
