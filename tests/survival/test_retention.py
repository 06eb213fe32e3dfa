"""What the documented retention deletes while commands come in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg

from tests.docs.pages import read_page
from tests.survival.bed import PATIENCE
from tests.survival.graphs import BRIEF

if TYPE_CHECKING:
    from tests.survival.bed import Bed

OLD = "UPDATE workflow_instances SET ended_at = now() - interval '1 year', status = 'failed'"
ARRIVES = """
INSERT INTO workflow_inbox (instance_id, kind, payload)
SELECT id, 'retry', '{}' FROM workflow_instances WHERE ulid = %s"""


def test_b18_no_accepted_command_is_deleted_with_its_instance(bed: Bed) -> None:
    page = read_page("docs/operations.md")
    (block,) = re.findall(r"^```sql\n(.*?)^```", page.section("Retention"), re.M | re.S)
    begin, choose, delete, commit, *_ = [f"{part};".encode() for part in block.split(";")]
    bed.publish(BRIEF)
    bed.start()
    uncommitted, unseen, late, old = (bed.almanac.start("brief").ulid for _ in range(4))
    bed.all_end(PATIENCE)
    bed.execute(OLD)
    url = bed.settings.database_url or ""
    bed.workers[0].stop()

    with psycopg.connect(url) as caller, psycopg.connect(url, autocommit=True) as prune:
        caller.execute(ARRIVES.encode(), [uncommitted])
        prune.execute(begin)
        prune.execute(choose)
        # Committed before its instance was locked, after the choice began to look.
        with psycopg.connect(url) as other:
            other.execute("SET session_replication_role = replica")
            other.execute(ARRIVES.encode(), [unseen])
        prune.execute(delete)
        caller.commit()
        prune.execute(commit)
        with psycopg.connect(url) as other:
            assert other.execute(ARRIVES.encode(), [late]).rowcount == 0

    left = {row["ulid"] for row in bed.rows("SELECT ulid FROM workflow_instances")}
    assert left == {uncommitted, unseen}
    assert old not in left
    assert bed.value("SELECT count(*) FROM workflow_inbox WHERE kind = 'retry'") == 2
