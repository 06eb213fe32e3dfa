"""Almanac on Temporal: the driver workflow, its activities, the relay, the worker."""
