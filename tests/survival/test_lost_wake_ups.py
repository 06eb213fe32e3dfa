"""Workers and relays that die at any moment, and instances that must not be forgotten by them."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Self

import pytest

from tests.eventually import eventually
from tests.survival.bed import PATIENCE
from tests.survival.graphs import CALLED
from tests.survival.records import assert_sound
from tests.survival.scale import scaled

if TYPE_CHECKING:
    from tests.survival.bed import Bed, WorkerProcess

INSTANCES = scaled(60, 300)
KILLS = scaled(5, 30)
RUNS = scaled(1, 10)
IDLE = 10.0
"""Seconds that an instance may stand still although it has work."""

LONGEST = """
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - greatest(since, i.updated_at, %s))), 0)
  ::float8
FROM workflow_instances i JOIN (
  SELECT instance_id, created_at AS since FROM workflow_inbox WHERE applied_at IS NULL
  UNION ALL
  SELECT instance_id, updated_at FROM workflow_step_runs WHERE status IN ('scheduled', 'running')
  UNION ALL
  SELECT w.instance_id, e.created_at FROM workflow_waits w JOIN workflow_events e
    ON e.key = w.event_key AND e.payload @> w.match WHERE w.status = 'pending'
) work ON work.instance_id = i.id
WHERE i.ended_at IS NULL"""
"""How long ago the instance that has stood still longest did something, or could have."""


class Watch(threading.Thread):
    """Looks twice a second how long instances stand still while at least one worker lives."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self._bed = bed
        self._over = threading.Event()

    def run(self) -> None:
        served = self._bed.value("SELECT clock_timestamp()")
        while not self._over.wait(0.5):
            if not self._bed.working:
                served = self._bed.value("SELECT clock_timestamp()")
            self.longest = max(self.longest, self._bed.value(LONGEST, served))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def send_while_killing(bed: Bed, ulids: list[str], chance: random.Random) -> None:
    """Sends each instance what it waits for, in any order; a worker dies every second or two."""
    sent = [(n, part) for n in range(INSTANCES) for part in range(3)]
    chance.shuffle(sent)
    for kill in range(KILLS):
        portion = sent[kill::KILLS]
        pause = chance.uniform(1, 2) / len(portion)
        for n, part in portion:
            time.sleep(pause)
            if part == 0:
                bed.almanac.emit("go", {"run": "called", "n": n})
            else:
                bed.almanac.signal(ulids[n], "on", correlation=str(part))
        victim = chance.choice(two_that_work(bed))
        if chance.random() < 0.5:
            victim.kill()
        else:
            victim.kill_before_poke()


def two_that_work(bed: Bed) -> list[WorkerProcess]:
    """Has two workers live, however long it takes to start them."""

    def two() -> list[WorkerProcess]:
        while len(bed.living) < 2:
            bed.launch("dying")
        working = bed.working
        assert len(working) > 1
        return working

    return eventually(two, PATIENCE)


@pytest.mark.timeout(scaled(240, 600))
@pytest.mark.parametrize("seed", range(RUNS))
def test_b1_b8_no_instance_is_forgotten_while_workers_and_relays_die(bed: Bed, seed: int) -> None:
    chance = random.Random(seed)
    bed.publish(CALLED)
    for _ in range(2):
        bed.start(odd="dying")
    payloads = [{"run": "called", "n": n} for n in range(INSTANCES)]
    ulids = [started.ulid for started in bed.almanac.start_many("called", payloads)]
    bed.until("SELECT bool_and(status = 'waiting') FROM workflow_instances")
    with Watch(bed) as watch:
        send_while_killing(bed, ulids, chance)
        dead = [worker for worker in bed.workers if not worker.lives]
        # Those that are left may still die, and nobody would take their place.
        bed.launch()
        bed.all_end(PATIENCE)

    print(f"{len(dead)} died; the longest stood still for {watch.longest:.1f} s")
    assert len(dead) >= KILLS * 2 / 3
    assert bed.statuses() == {"completed": INSTANCES}
    assert watch.longest <= IDLE
    assert_sound(bed)
