"""``did you mean``: the known word closest to one that is not known."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_LONGEST = 64


class Suggester:
    """Suggests from one set of known words.

    Only the first few questions are answered: comparing is slow, and a document that gets hundreds
    of names wrong needs no hints.

    Args:
        known: The words to choose from; it is looked at only when asked.
        most: How many questions are answered.
    """

    def __init__(self, known: Collection[str], most: int = 25) -> None:
        self._known = known
        self._left = most

    def closest(self, word: str) -> str:
        """``(did you mean 'x'?)`` with a space before it, or nothing."""
        if self._left <= 0 or len(word) > _LONGEST:
            return ""
        self._left -= 1
        close = get_close_matches(word, self._known, n=1)
        return f" (did you mean {close[0]!r}?)" if close else ""
