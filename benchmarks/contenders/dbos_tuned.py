"""DBOS with the fastest settings that keep its guarantees, chosen by measuring.

No ping before each use of a pooled connection, and few executor threads: its writes are synchronous
code in threads, so that more of them only compete for the interpreter.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from benchmarks.contenders import dbos_steps

POOL: Final = 20
EXECUTOR_THREADS: Final = 8


class Contestant(dbos_steps.Contestant):
    """The same chain of the same steps."""

    settings: ClassVar[dict[str, Any]] = {
        **dbos_steps.AS_IT_COMES,
        "sys_db_pool_size": POOL,
        "db_engine_kwargs": {"pool_pre_ping": False},
        "max_executor_threads": EXECUTOR_THREADS,
        "enable_otlp": False,
    }
