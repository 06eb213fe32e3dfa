"""Commands by the thousand to one instance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.survival.bed import PATIENCE
from tests.survival.graphs import ASKED, CHAIN
from tests.survival.records import assert_sound
from tests.survival.scale import scaled

if TYPE_CHECKING:
    from tests.survival.bed import Bed

SECONDS = scaled(4, 60)
BATCH, BATCHES_A_SECOND = 50, 20
SOON = 10.0

COMMANDS = f"""
INSERT INTO workflow_inbox (instance_id, kind, payload)
SELECT i.id, CASE mod(n, 2) WHEN 1 THEN 'pause' ELSE 'resume' END, '{{}}'
FROM workflow_instances i, generate_series(1, {BATCH}) n WHERE i.ulid = %s"""


@pytest.mark.timeout(scaled(180, 900))
def test_a4_b11_a_thousand_commands_a_second_to_one_instance_hold_up_neither_it_nor_others(
    bed: Bed,
) -> None:
    bed.publish(ASKED, CHAIN)
    # Runs of the driver end many times in the flood, as those of a longer one do.
    bed.start(2, odd="brief")
    flooded = bed.almanac.start("chain").ulid
    other = bed.almanac.start("asked").ulid
    bed.reaches(flooded, "running")
    bed.reaches(other, "waiting")

    began = time.monotonic()
    for n in range(SECONDS * BATCHES_A_SECOND):
        time.sleep(max(0.0, began + n / BATCHES_A_SECOND - time.monotonic()))
        bed.rows(f"{COMMANDS} RETURNING 1", flooded)
        if n == SECONDS * BATCHES_A_SECOND // 2:
            bed.almanac.signal(other, "on")
    done = bed.value(STEPS, flooded)
    bed.until(APPLIED, deadline=SOON)
    bed.until(f"SELECT ({STEPS}) > %s", flooded, done, deadline=SOON)
    bed.almanac.cancel(flooded)
    bed.all_end(PATIENCE)

    assert done > 0
    assert bed.statuses() == {"cancelled": 1, "completed": 1}
    took = "SELECT extract(epoch FROM b.applied_at - b.created_at)::float8 AS took"
    (signal,) = bed.rows(f"{took} FROM workflow_inbox b WHERE kind = 'signal'")
    assert signal["took"] < SOON
    sent = bed.value("SELECT count(*) FROM workflow_inbox WHERE kind IN ('pause', 'resume')")
    assert sent == SECONDS * BATCH * BATCHES_A_SECOND
    assert_sound(bed)


STEPS = """
SELECT count(*) FROM workflow_step_runs s JOIN workflow_instances i ON i.id = s.instance_id
WHERE i.ulid = %s AND s.node_id = 'one' AND s.status = 'succeeded'"""
APPLIED = "SELECT NOT EXISTS (SELECT FROM workflow_inbox WHERE applied_at IS NULL)"


def test_signals_beyond_those_that_an_instance_keeps_are_refused(bed: Bed) -> None:
    bed.publish(ASKED)
    bed.start()
    ulid = bed.almanac.start("asked").ulid
    bed.reaches(ulid, "waiting")

    bed.rows(SIGNALS, KEPT + 1, ulid)
    bed.until(APPLIED)
    bed.almanac.cancel(ulid)
    bed.reaches(ulid, "cancelled")

    results = bed.rows("SELECT result FROM workflow_inbox WHERE kind = 'signal' ORDER BY id")
    assert [row["result"]["status"] for row in results] == [*["done"] * KEPT, "refused"]
    assert results[-1]["result"]["reason"] == "too_many_signals"


KEPT = 10_000
SIGNALS = """
INSERT INTO workflow_inbox (instance_id, kind, payload)
SELECT i.id, 'signal', '{"name": "noise", "payload": {}}'
FROM generate_series(1, %s) n, workflow_instances i WHERE i.ulid = %s RETURNING 1"""
