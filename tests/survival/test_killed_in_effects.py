"""Workers that are killed between an effect on the world and the note of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.eventually import eventually
from tests.survival.bed import PATIENCE
from tests.survival.graphs import single
from tests.survival.records import assert_sound

if TYPE_CHECKING:
    from tests.survival.bed import Bed

EFFECTS = ("run", "fail", "held")


def test_a8_an_effect_in_which_its_worker_died_happens_as_often_as_was_asked_for(bed: Bed) -> None:
    bed.publish(single("run", "slow.run"), single("fail", "slow.fail"), single("book", "held.book"))
    (victim,) = bed.start()
    for key in ("run", "fail", "book"):
        bed.almanac.start(key)

    def all_began() -> None:
        assert all(bed.effects(word) for word in EFFECTS)

    eventually(all_began, PATIENCE)
    victim.kill()
    bed.go()
    bed.start()
    bed.all_end(PATIENCE)

    assert bed.statuses() == {"completed": 3}
    effects = {word: bed.effects(word) for word in EFFECTS}
    # At least once, at most once, and in a transaction exactly once, whatever was tried.
    assert {word: len(keys) for word, keys in effects.items()} == {"run": 2, "fail": 1, "held": 2}
    assert bed.value("SELECT count(*) FROM booked") == 1
    # A receiver that dedupes was given one key both times.
    assert len(set(effects["run"])) == 1
    assert len(list((bed.directory / "received").iterdir())) == 2
    attempts = bed.rows(
        "SELECT d.key, array_agg(concat_ws(' ', s.status, s.error_code) ORDER BY s.attempt) AS runs"
        " FROM workflow_step_runs s JOIN workflow_instances i ON i.id = s.instance_id"
        " JOIN workflow_definitions d ON d.id = i.definition_id"
        " WHERE s.node_id LIKE '%one' GROUP BY 1 ORDER BY 1"
    )
    assert {row["key"]: row["runs"] for row in attempts} == {
        "book": ["lost worker_lost", "succeeded"],
        "fail": ["lost worker_lost", "failed effect_uncertain"],
        "run": ["lost worker_lost", "succeeded"],
    }
    assert_sound(bed)
