"""A world without servers, by seed: a record in memory, workers that crash, clocks that jump."""
