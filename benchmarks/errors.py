"""Why a benchmark does not give a figure."""

from __future__ import annotations


class BenchmarkError(Exception):
    """The root: the message says what happened and what would help."""


class NotInstalled(BenchmarkError):
    """A contender cannot take part on this machine."""


class WrongResult(BenchmarkError):
    """A chain did not end with the sum of its steps: the figures would mean nothing."""


class NotDurable(BenchmarkError):
    """A server may lose what it has committed: its figures would mean nothing."""


class ContenderFailed(BenchmarkError):
    """A contender's process failed, ended or did not answer in time."""
