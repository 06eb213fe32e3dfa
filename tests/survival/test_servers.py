"""Servers that are stopped, killed, emptied or put back to an older state under load."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from adapter.errors import Conflict
from adapter.services.diagnosing import census
from tests.eventually import eventually
from tests.records.databases import fresh_database
from tests.survival.bed import PATIENCE, Bed, open_bed
from tests.survival.graphs import ASKED, BRIEF, KID, LOAD, MANY
from tests.survival.load import begin, differences
from tests.survival.records import assert_sound
from tests.survival.scale import LONG, scaled
from tests.survival.servers import (
    TEMPLATE,
    back_up,
    executions,
    own_servers,
    put_back,
    terminate,
    wipe,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from temporal_workflows.dev.stack import Stack

INSTANCES = scaled(12, 100)
STARTS = scaled(300, 10_000)
DOWN = scaled(1.5, 8.0)
A_MINUTE = 60.0

Ending = Literal["stop", "kill"]


@pytest.fixture(scope="module")
def servers() -> Iterator[Stack]:
    with own_servers() as stack:
        yield stack


@pytest.fixture
def own_bed(servers: Stack, tmp_path: Path) -> Iterator[Bed]:
    with (
        fresh_database(servers, template=TEMPLATE) as url,
        open_bed(url, servers.temporal_address, tmp_path) as bed,
    ):
        yield bed


@pytest.mark.timeout(scaled(180, 600))
@pytest.mark.parametrize("server", ["postgres", "temporal"])
def test_a_server_that_stops_and_one_that_dies_leave_the_rows_of_an_undisturbed_run(
    own_bed: Bed, servers: Stack, server: Literal["postgres", "temporal"]
) -> None:
    bed = own_bed
    bed.publish(LOAD)
    bed.start(2)
    calm = begin(bed, "calm", range(2 * INSTANCES))
    bed.all_end(PATIENCE)

    rough = begin(bed, "rough", range(INSTANCES))
    ended: Ending
    for ended in ("stop", "kill"):
        bed.until("SELECT count(*) > 5 FROM workflow_step_runs WHERE status = 'running'")
        getattr(getattr(servers, server), ended)()
        time.sleep(DOWN)
        getattr(servers, server).start()
        if ended == "stop":
            rough += begin(bed, "rough", range(INSTANCES, 2 * INSTANCES))
    bed.all_end(scaled(90, 300))

    assert bed.statuses() == {"completed": 4 * INSTANCES}
    assert len(bed.living) == 2
    recorded = assert_sound(bed)
    assert differences(recorded, rough, calm) == []
    assert set(bed.effects("run")) == {row["key"] for row in bed.rows(EFFECTS)}


EFFECTS = "SELECT idempotency_key AS key FROM workflow_step_runs WHERE node_id = 'effect'"


def in_the_midst(bed: Bed, count: int) -> tuple[list[str], list[str]]:
    """Instances in the midst of everything, and their children."""
    bed.publish(KID, MANY)
    payloads = [{"run": "m", "n": n} for n in range(count)]
    ulids = [started.ulid for started in bed.almanac.start_many("many", payloads)]
    bed.until(MIDST, ulids)
    kids = bed.rows("SELECT ulid FROM workflow_instances WHERE parent_instance_id IS NOT NULL")
    assert len(kids) == 2 * count
    return ulids, [row["ulid"] for row in kids]


MIDST = """
SELECT count(*) = 0 FROM unnest(%s::bpchar[]) u WHERE NOT EXISTS (
  SELECT FROM workflow_instances i JOIN workflow_step_runs s ON s.instance_id = i.id
  WHERE i.ulid = u GROUP BY i.id
  HAVING count(*) FILTER (WHERE s.status = 'retrying') = 1
    AND count(*) FILTER (WHERE s.status = 'waiting' AND s.node_id <> 'fork') = 4
    AND (SELECT count(*) FROM workflow_instances c WHERE c.parent_instance_id = i.id
      AND c.current_node_id = 'told' AND c.status = 'waiting') = 2)"""


def told_all(bed: Bed, ulids: list[str], kids: list[str], *, but: str = "") -> None:
    """Sends all that they wait for."""
    for n, ulid in enumerate(ulids):
        bed.almanac.emit("go", {"run": "m", "n": n})
        if ulid != but:
            bed.almanac.signal(ulid, "on")
    for kid in kids:
        with suppress(Conflict):  # It was cancelled with its parent.
            bed.almanac.signal(kid, "on")


@pytest.mark.timeout(scaled(180, 600))
def test_a17c_a19_b8c_instances_go_on_by_themselves_when_temporal_comes_back_empty(
    own_bed: Bed, servers: Stack
) -> None:
    bed = own_bed
    if LONG:
        del bed.more["WORKER__SWEEP_INTERVAL"]
    bed.start(2)
    count = scaled(2, 15)
    ulids, kids = in_the_midst(bed, 3 * count)
    paused, told, untold = ulids[:count], ulids[count : 2 * count], ulids[2 * count :]
    for ulid in paused:
        bed.almanac.pause(ulid)
    for ulid in paused:
        bed.reaches(ulid, "paused")
    servers.temporal.kill()
    cancelled = told.pop()
    bed.almanac.cancel(cancelled)
    for ulid in told:
        bed.almanac.signal(ulid, "on")
    for ulid in paused:
        bed.almanac.resume(ulid)

    wipe(servers)
    back = time.monotonic()
    bed.until(DONE, [*told, *untold, *paused], deadline=scaled(PATIENCE, 90))
    took = time.monotonic() - back
    told_all(bed, ulids, kids, but=cancelled)
    bed.all_end(PATIENCE)

    assert took < A_MINUTE
    # Temporal counts attempts from one again; the record does not.
    tries = "SELECT array_agg(status ORDER BY attempt) AS runs FROM workflow_step_runs"
    runs = bed.rows(f"{tries} WHERE node_id = 'retried' GROUP BY instance_id")
    assert sum(row["runs"] == ["failed", "succeeded"] for row in runs) == len(ulids) - 1
    assert bed.statuses("many") == {"completed": len(ulids) - 1, "cancelled": 1}
    assert_sound(bed)


DONE = """
SELECT count(*) = 0 FROM unnest(%s::bpchar[]) u WHERE NOT EXISTS (
  SELECT FROM workflow_instances i JOIN workflow_step_runs s ON s.instance_id = i.id
  WHERE i.ulid = u AND s.status = 'succeeded' AND NOT EXISTS (SELECT FROM workflow_inbox b
    WHERE b.instance_id = i.id AND b.applied_at IS NULL)
  GROUP BY i.id HAVING count(DISTINCT s.node_id) FILTER (
    WHERE s.node_id IN ('retried', 'slept', 'then')) = 3)"""
"""What was due has been done, and every command is applied."""


@pytest.mark.timeout(scaled(180, 600))
def test_a25_what_temporal_has_lost_is_named_by_doctor_and_rebuilt_on_request(
    own_bed: Bed, servers: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = own_bed
    if not LONG:
        monkeypatch.setattr(census, "SETTLED", 3)
    # So that nothing goes on by itself.
    bed.more["WORKER__SWEEP_INTERVAL"] = "PT1H"
    bed.publish(ASKED)
    bed.start(2)
    started = bed.almanac.start_many("asked", [{}] * scaled(10, 500))
    bed.until("SELECT bool_and(status = 'waiting') FROM workflow_instances")
    terminated = started[0].ulid
    terminate(bed.settings.temporal_address or "", terminated)

    def named() -> dict[str, int]:
        found = {one.code: one.count for one in bed.almanac.doctor().findings}
        assert found
        return found

    assert eventually(named, PATIENCE) == {"execution_terminated": 1}
    assert bed.almanac.rebuild(terminated).poked == 1
    wipe(servers)
    assert eventually(named, PATIENCE) == {"execution_missing": len(started)}
    assert bed.almanac.rebuild_all().poked == len(started)

    def healthy() -> None:
        assert bed.almanac.doctor().findings == ()

    eventually(healthy, PATIENCE)
    # Whoever has an execution is a wrong candidate: poking it changes nothing.
    before = bed.rows("SELECT ulid, lock_version FROM workflow_instances ORDER BY id")
    assert bed.almanac.rebuild(*(one.ulid for one in started)).poked == len(started)
    assert bed.rows("SELECT ulid, lock_version FROM workflow_instances ORDER BY id") == before
    for one in started:
        bed.almanac.signal(one.ulid, "on")
    bed.all_end(PATIENCE)
    assert bed.statuses() == {"completed": len(started)}
    assert_sound(bed)


@pytest.mark.timeout(scaled(180, 2400))
def test_starts_while_temporal_is_down_are_taken_and_done_when_it_is_back(
    own_bed: Bed, servers: Stack
) -> None:
    bed = own_bed
    bed.publish(BRIEF)
    bed.start(2)
    servers.temporal.kill()
    began = time.monotonic()
    for _ in range(STARTS // 100):
        bed.almanac.start_many("brief", [{}] * 100)
    print(f"{STARTS / (time.monotonic() - began):.0f} starts a second")
    dropped = bed.almanac.start("brief").ulid
    bed.almanac.cancel(dropped)
    bed.reaches(dropped, "cancelled")
    assert bed.statuses() == {"pending": STARTS, "cancelled": 1}

    servers.temporal.start()
    back = time.monotonic()
    bed.all_end(scaled(90, 1800))

    print(f"{STARTS / (time.monotonic() - back):.0f} ends a second")
    assert bed.statuses() == {"completed": STARTS, "cancelled": 1}
    assert_sound(bed)


@pytest.mark.timeout(scaled(180, 600))
def test_a11c_instances_go_on_from_what_an_older_backup_says(
    own_bed: Bed, servers: Stack, tmp_path: Path
) -> None:
    bed = own_bed
    bed.publish(LOAD)
    bed.start(2)
    calm = begin(bed, "calm", range(INSTANCES))
    bed.all_end(PATIENCE)

    rough = begin(bed, "rough", range(INSTANCES))
    bed.until("SELECT count(*) > 5 FROM workflow_step_runs WHERE status = 'running'")
    back_up(servers, tmp_path / "backup")
    gone = begin(bed, "gone", range(INSTANCES))
    bed.until("SELECT count(*) > %s FROM workflow_instances WHERE status = 'completed'", INSTANCES)
    put_back(servers, tmp_path / "backup")
    bed.all_end(scaled(90, 300))

    assert bed.statuses() == {"completed": 2 * INSTANCES}
    assert not bed.value("SELECT count(*) FROM workflow_instances WHERE ulid = ANY (%s)", gone)
    recorded = assert_sound(bed)
    assert differences(recorded, rough, calm) == []

    def none_runs() -> None:
        assert executions(bed.settings.temporal_address or "", bed.settings.task_queue) == []

    eventually(none_runs, PATIENCE)
