"""Almanac measured beside its peers: run ``python -m benchmarks --help``."""
