"""The rules of a workflow: what happens next, decided without a clock, I/O or chance.

``decide`` turns what has happened into entries, ``apply`` folds entries into a state. Nothing here
may import SQLAlchemy, asyncpg, Temporal, a clock or a source of randomness: times, ids and random
numbers arrive as arguments, so the same question has the same answer everywhere.
"""
