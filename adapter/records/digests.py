"""The digests by which waits find events: computed in SQL on both sides, from the same text.

A set of fields F gives an event the digest ``md5(key, newline, the object of those fields)``, if
its payload has them all; a wait's digest is made of its key and its whole match
(``EVENT_WAIT_DIGEST``), so the two are equal when key and values are.
"""

from __future__ import annotations


def digests_of(fields_table: str, *, key: str, payload: str, when: str = "true") -> str:
    """Returns a subquery with the digests of one event, ``digests``, and their ``epoch``.

    It always gives one row. An event whose key nobody waits for has no digests and epoch 0.

    Args:
        fields_table: The name of ``workflow_event_fields``.
        key: SQL for the event's key.
        payload: SQL for its payload, a ``jsonb`` object.
        when: SQL; where it is false, nothing is computed.
    """
    return f"""
SELECT coalesce(max(f.epoch), 0) AS epoch,
  coalesce(array_agg(DISTINCT md5({key}::text || chr(10) || o.fields::text)::uuid)
    FILTER (WHERE o.complete), '{{}}') AS digests
FROM {fields_table} f
CROSS JOIN LATERAL (
  SELECT coalesce(jsonb_object_agg(n.name, {payload} -> n.name), '{{}}') AS fields,
    jsonb_exists_all({payload}, f.fields) AS complete
  FROM unnest(f.fields) AS n(name)) o
WHERE f.event_key = {key} AND {when}"""
