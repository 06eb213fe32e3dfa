"""The one version number of the interpreter, with the reason for each step it took.

An entry carries the number of the interpreter that wrote it. A process that meets a higher one
writes nothing for that instance (see ``adapter.records.load``), so that a rolling deployment never
lets old code decide over new entries.
"""

FIRST_LIGHT = 1
"""The first published form: one main line, actions, decisions, waits."""

CURRENT = FIRST_LIGHT
