"""Workers and relays that stand still and go on, and clocks that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.eventually import eventually
from tests.survival.bed import PATIENCE
from tests.survival.graphs import ASKED, LOAD, single
from tests.survival.load import begin, differences
from tests.survival.records import assert_sound
from tests.survival.scale import scaled

if TYPE_CHECKING:
    from tests.survival.bed import Bed

INSTANCES = scaled(6, 50)


def test_a12_a_worker_that_stood_still_past_its_lease_changes_nothing_when_it_goes_on(
    bed: Bed,
) -> None:
    bed.publish(single("held", "held"), single("book", "held.book"), LOAD)
    (zombie,) = bed.start()
    held = bed.almanac.start("held").ulid
    bed.almanac.start("book")

    def both_began() -> None:
        assert len(bed.effects("held")) == 2

    eventually(both_began, PATIENCE)
    begin(bed, "rough", range(INSTANCES))
    bed.until("SELECT count(*) > 3 FROM workflow_step_runs WHERE status = 'running'")
    zombie.stall()
    (heir,) = bed.start()

    def both_began_again() -> None:
        assert len(bed.effects("held")) == 4

    eventually(both_began_again, PATIENCE)
    bed.go()
    bed.reaches(held, "completed")
    before = bed.rows("SELECT * FROM workflow_step_runs WHERE node_id LIKE '%one' ORDER BY id")
    zombie.go_on()

    def woke() -> None:
        assert len(bed.effects("freed")) == 2

    eventually(woke, PATIENCE)
    bed.up(zombie)
    bed.all_end(PATIENCE)

    query = "SELECT * FROM workflow_step_runs WHERE node_id LIKE '%one' ORDER BY id"
    by_node = {row["id"]: row["status"] for row in bed.rows(query)}
    assert by_node == {row["id"]: row["status"] for row in before}
    assert sorted(by_node.values()) == ["lost", "lost", "succeeded", "succeeded"]
    (output,) = bed.rows(
        "SELECT output FROM workflow_step_runs WHERE node_id = 'one' AND status = 'succeeded'"
    )
    assert output["output"] == heir.process.pid
    assert {row["pid"] for row in bed.rows(BOOKED_BY)} == {str(heir.process.pid)}
    assert_sound(bed)
    zombie.stop()


BOOKED_BY = "SELECT pid FROM booked WHERE key LIKE '%booked_one%'"


def test_a4c_a_relay_that_stalls_with_claims_in_hand_keeps_no_command_and_repeats_none(
    bed: Bed,
) -> None:
    bed.publish(ASKED)
    (worker,) = bed.start()
    ulid = bed.almanac.start("asked").ulid
    bed.reaches(ulid, "waiting")
    worker.stop()
    bed.almanac.pause(ulid)
    stalled = bed.launch("stalling")
    bed.until("SELECT bool_and(poked_at IS NOT NULL) FROM workflow_inbox")

    def stopped() -> None:
        assert stalled.stands_still

    eventually(stopped, PATIENCE)
    bed.start()
    bed.reaches(ulid, "paused")
    bed.almanac.resume(ulid)
    bed.reaches(ulid, "waiting")
    stalled.go_on()
    bed.up(stalled)
    bed.almanac.signal(ulid, "on")
    bed.all_end(PATIENCE)

    kinds = bed.rows("SELECT kind FROM workflow_journal ORDER BY seq")
    assert [row["kind"] for row in kinds if row["kind"] in ("paused", "resumed")] == [
        "paused",
        "resumed",
    ]
    assert_sound(bed)


def test_b12_workers_whose_clocks_are_wrong_by_an_hour_leave_the_rows_of_one_that_is_right(
    bed: Bed,
) -> None:
    bed.publish(LOAD)
    (right,) = bed.start()
    calm = begin(bed, "calm", range(2 * INSTANCES))
    bed.all_end(PATIENCE)
    # Those that the other workers go on with.
    rough = begin(bed, "rough", range(INSTANCES))
    bed.until("SELECT count(*) > 3 FROM workflow_step_runs WHERE status = 'running'")
    right.kill()
    odd = [*bed.start(odd="fast"), *bed.start(odd="slow")]
    rough += begin(bed, "rough", range(INSTANCES, 2 * INSTANCES))
    bed.all_end(PATIENCE)

    assert [round(bed.value(AHEAD, worker.name)) for worker in odd] == [1, -1]
    assert bed.statuses() == {"completed": 4 * INSTANCES}
    assert bed.value(f"SELECT bool_and({TIMELY}) FROM workflow_journal")
    recorded = assert_sound(bed)
    assert differences(recorded, rough, calm) == []
    for worker in odd:
        worker.stop()


AHEAD = """
SELECT extract(epoch FROM (details ->> 'clock')::timestamptz - seen_at)::float8 / 3600
FROM workflow_workers WHERE name = %s"""
TIMELY = "at < clock_timestamp() AND at > clock_timestamp() - interval '30 min'"
