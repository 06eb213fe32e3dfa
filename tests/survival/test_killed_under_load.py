"""Workers that are killed at any moment, over and over, under load."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.eventually import eventually
from tests.survival.bed import PATIENCE
from tests.survival.graphs import ASKED, CAREFUL, CHAIN, LOAD
from tests.survival.load import begin, differences
from tests.survival.records import assert_sound
from tests.survival.scale import scaled

if TYPE_CHECKING:
    from tests.survival.bed import Bed, WorkerProcess

ROUNDS, A_ROUND = scaled((6, 7), (25, 8))
INSTANCES = ROUNDS * A_ROUND
CAREFUL_A_ROUND = 5
CAREFUL_ONES = ROUNDS * CAREFUL_A_ROUND
EACH = scaled(8, 30)
KILLS = scaled(4, 20)
WORKERS = scaled(2, 3)
SOON = 5.0
"""Seconds from a kill to the next step of every instance that it has hit."""


def kill_one(bed: Bed, chance: random.Random) -> WorkerProcess:
    """Kills a worker at a random moment at which it has steps in flight; others live."""
    time.sleep(chance.uniform(0, 0.7))

    def at_work() -> WorkerProcess:
        victims = [worker for worker in bed.living if bed.at_work(worker)]
        assert victims
        return chance.choice(victims)

    victim = eventually(at_work, PATIENCE)
    victim.kill()
    return victim


@pytest.mark.timeout(scaled(240, 1200))
def test_workers_killed_under_load_leave_the_rows_of_an_undisturbed_run(bed: Bed) -> None:
    bed.publish(LOAD, CAREFUL)
    bed.start(WORKERS)
    calm = begin(bed, "calm", range(INSTANCES))
    bed.all_end(scaled(90, 300))

    rough: list[str] = []
    killed: list[WorkerProcess] = []
    chance = random.Random(11)
    for n in range(ROUNDS):
        rough += begin(bed, "rough", range(n * A_ROUND, (n + 1) * A_ROUND))
        bed.almanac.start_many("careful", [{}] * CAREFUL_A_ROUND)
        killed.append(kill_one(bed, chance))
        bed.start()
    bed.all_end(scaled(90, 300))

    assert bed.hit(killed) >= KILLS
    assert bed.statuses() == {"completed": 2 * INSTANCES + CAREFUL_ONES}
    recorded = assert_sound(bed)
    assert differences(recorded, rough, calm) == []
    assert bed.value("SELECT count(*) FROM booked") == 4 * INSTANCES
    # At least once, and once for a receiver that dedupes.
    assert len(set(bed.effects("run"))) == 2 * INSTANCES
    assert len(list((bed.directory / "received").iterdir())) == 2 * INSTANCES
    careful = Counter(bed.effects("fail"))
    assert set(careful.values()) == {1}
    done = "SELECT idempotency_key FROM workflow_step_runs WHERE status = 'succeeded'"
    sure = {row["idempotency_key"] for row in bed.rows(f"{done} AND node_id = 'careful'")}
    assert sure <= set(careful)
    assert {row["error_code"] for row in bed.rows(UNSURE)} <= {"effect_uncertain"}
    assert len(sure) + len(bed.rows(UNSURE)) == CAREFUL_ONES


UNSURE = "SELECT error_code FROM workflow_step_runs WHERE node_id = 'careful' AND status = 'failed'"


def answered(bed: Bed, killed: float, ulids: list[str]) -> list[float]:
    """Seconds from the kill to the next step that began in each instance."""
    query = (
        "SELECT extract(epoch FROM min(j.at))::float8 - %s AS took, count(DISTINCT i.id) AS n"
        " FROM workflow_instances i LEFT JOIN workflow_journal j ON j.instance_id = i.id"
        " AND j.kind = 'step_started' AND j.at > to_timestamp(%s)"
        " WHERE i.ulid = ANY (%s) GROUP BY i.id"
    )

    def all_did() -> list[float]:
        took = [row["took"] for row in bed.rows(query, killed, killed, ulids)]
        assert None not in took
        return sorted(took)

    return eventually(all_did, PATIENCE)


def test_a15_instances_that_ran_or_waited_go_on_within_five_seconds_of_a_kill(bed: Bed) -> None:
    bed.publish(CHAIN, ASKED)
    workers = bed.start(2)
    running = [started.ulid for started in bed.almanac.start_many("chain", [{}] * EACH)]
    waiting = [started.ulid for started in bed.almanac.start_many("asked", [{}] * EACH)]
    bed.until(
        "SELECT count(*) FILTER (WHERE status = 'waiting') = %s AND count(*) FILTER (WHERE"
        " status = 'running' AND lock_version > 10) = %s FROM workflow_instances",
        EACH,
        EACH,
    )

    def at_work() -> WorkerProcess:
        busy = [worker for worker in workers if bed.at_work(worker)]
        assert busy
        return busy[0]

    # One relay may have begun all of them: the other worker would have nothing to lose.
    victim = eventually(at_work, PATIENCE)
    victim.kill()
    killed = bed.value("SELECT extract(epoch FROM clock_timestamp())::float8")
    for ulid in waiting:
        bed.almanac.signal(ulid, "on")
    took = {"ran": answered(bed, killed, running), "waited": answered(bed, killed, waiting)}

    assert {what: seconds[-1] for what, seconds in took.items() if seconds[-1] > SOON} == {}
    for ulid in running:
        bed.almanac.cancel(ulid)
    bed.all_end(PATIENCE)
    assert_sound(bed)
