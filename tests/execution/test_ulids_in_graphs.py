from __future__ import annotations

from typing import TYPE_CHECKING

from tests.execution.runtime import chain

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime

WATCH = {"id": "ready", "type": "wait_for", "config": {"instances": "${ trigger.other }"}}


async def test_a_ulid_of_a_payload_may_be_in_lower_case(runtime: Runtime) -> None:
    other = await runtime.ran(chain({"id": "end", "type": "end"}))

    ulid = await runtime.ran(chain(WATCH), {"other": other.lower()})

    (opened,) = [r for r in await runtime.rows("journal", ulid) if r["kind"] == "wait_opened"]
    assert opened["data"]["instances"] == [other]


async def test_what_has_no_upper_case_of_that_length_is_no_ulid(runtime: Runtime) -> None:
    ulid = await runtime.ran(chain(WATCH), {"other": "ß" * 26})

    assert (await runtime.instance(ulid))["failure_code"] == "wait_unsatisfiable"
