from __future__ import annotations

import pytest

from adapter.graph.validation import validate
from tests.execution.runtime import chain


@pytest.mark.parametrize("key", ["a\nb", "\u202e", "\x7f", "\u2028", "", "k" * 192])
def test_a_wait_for_an_event_that_nobody_could_emit_is_refused(key: str) -> None:
    document = chain({"id": "w", "type": "wait", "config": {"event": key}})
    found = [f for f in validate(document) if f.severity == "error"]
    assert [(f.pointer, f.code) for f in found] == [("/nodes/1/config/event", "invalid_field")]


def test_any_printable_key_will_do() -> None:
    document = chain({"id": "w", "type": "wait", "config": {"event": "Zahlung ✓ / 7"}})
    assert not [f for f in validate(document) if f.severity == "error"]
