"""What Almanac asks of an engine: to look at an instance soon. Nothing else crosses this seam."""

from __future__ import annotations

from typing import Protocol


class Engine(Protocol):
    """Brings an instance to a worker's attention.

    Both calls may be repeated, merged, reordered or lost without harm: they carry no content. They
    raise ``Unavailable`` when the engine cannot be reached within their deadline.
    """

    async def start(self, ulid: str) -> None:
        """Sees to it that an execution of the instance exists; a poke if one does already."""
        ...

    async def poke(self, ulid: str) -> None:
        """Tells the instance's execution to look at its record; starts one if there is none."""
        ...
