"""Use cases: plain functions over a SQLAlchemy ``Connection`` or ``Session``.

Each joins the transaction of the connection that it is given and neither commits nor rolls back.
Nothing here talks to Temporal: a command is a row, and a worker's relay acts on it.
"""
