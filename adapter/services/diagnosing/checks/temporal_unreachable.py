"""Temporal answers."""

from adapter.services.diagnosing.check import TEMPORAL, Check

CHECK = Check(
    "temporal_unreachable",
    severity="error",
    meaning="Temporal does not answer: commands are accepted, but nothing begins.",
    command="check ALMANAC_TEMPORAL_ADDRESS and the server; then almanac doctor",
    find=None,
    needs=frozenset(),
    provides=TEMPORAL,
)
