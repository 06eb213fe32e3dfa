"""The tokens of those who write: who ran a step, and who wrote an entry of the journal.

A turn that meets another turn's entry ends; one that meets the entry of a queued step goes on from
there, since that step only reports on itself. So their tokens look different: 26 characters both,
a turn's is a ULID, which never begins with the letter that a queued step's does.
"""

from __future__ import annotations

STEP = "Q"


def step_token(token: str) -> str:
    """Makes a token of a queued step's activity out of a fresh one."""
    return STEP + token[1:]


def is_step_token(token: str) -> bool:
    """Whether it is a queued step's."""
    return token.startswith(STEP)
