"""The settings of one Almanac: read from arguments and ``ALMANAC_*`` variables, checked at boot.

Nested settings take a double underscore: ``ALMANAC_TABLES__INSTANCES=my_instances``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PrimaryKeyType = Literal["bigint", "uuid", "ulid"]
MorphKeyType = Literal["bigint", "uuid", "ulid", "string"]
TableName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,40}$")]


MIN_LEASE = timedelta(seconds=5)
"""No lease is shorter: a dead worker has to be known as dead when its leases end."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableNames(_Group):
    """The names of the tables; fixed once the migrations have run."""

    definitions: TableName = "workflow_definitions"
    versions: TableName = "workflow_versions"
    instances: TableName = "workflow_instances"
    step_runs: TableName = "workflow_step_runs"
    waits: TableName = "workflow_waits"
    escalations: TableName = "workflow_escalations"
    idempotency_keys: TableName = "workflow_idempotency_keys"
    dry_runs: TableName = "workflow_dry_runs"
    journal: TableName = "workflow_journal"
    inbox: TableName = "workflow_inbox"
    events: TableName = "workflow_events"
    event_fields: TableName = "workflow_event_fields"
    workers: TableName = "workflow_workers"
    step_progress: TableName = "workflow_step_progress"

    @model_validator(mode="after")
    def _distinct(self) -> TableNames:
        names = list(self.model_dump().values())
        if len(set(names)) != len(names):
            raise ValueError("two tables have the same name")
        return self


class Limits(_Group):
    """Bounds that keep one instance from harming the others; a graph may only lower them."""

    max_steps: int = Field(10_000, ge=1, le=99_999, description="step runs of one instance")
    max_output_bytes: int = Field(256 * 1024, ge=1024, le=1024 * 1024)
    max_state_bytes: int = Field(1024 * 1024, ge=1024, le=8 * 1024 * 1024)
    max_graph_bytes: int = Field(512 * 1024, ge=1024, le=4 * 1024 * 1024)
    max_payload_bytes: int = Field(256 * 1024, ge=1024, le=1024 * 1024)
    max_items: int = Field(10_000, ge=1, le=100_000, description="items of one node")
    max_depth: int = Field(
        10, ge=0, le=100, description="instances above one that start_workflow starts"
    )
    max_started: int = Field(
        1_000, ge=0, le=100_000, description="instances that one instance starts"
    )


class StepsInput(_Group):
    """How much of a step's resolved config is kept in ``workflow_step_runs.input``."""

    max_bytes: int = Field(64 * 1024, ge=0)


class Idempotency(_Group):
    """How long a start key is remembered."""

    ttl: timedelta = timedelta(days=30)


class Prune(_Group):
    """How long ended rows are kept."""

    instances_after: timedelta = timedelta(days=90)
    dry_runs_after: timedelta = timedelta(days=30)
    events_after: timedelta = timedelta(days=30)


class Worker(_Group):
    """How one worker process works."""

    connections: int = Field(
        16, ge=1, le=200, description="database connections of the turns; commits share the disk"
    )
    turns: int = Field(
        50, ge=1, le=1_000, description="turns under way, those that wait for handlers included"
    )
    transactions: int = Field(
        8,
        ge=1,
        le=200,
        description="connections of transactional handlers: of plain ones, and of each loop",
    )
    stretch: timedelta = Field(timedelta(seconds=1), description="how long one turn may go on")
    relay_interval: timedelta = timedelta(milliseconds=50)
    sweep_interval: timedelta = timedelta(seconds=60)
    steps: int = Field(
        20, ge=1, le=1_000, description="queued steps under way, for each task queue"
    )
    queues: tuple[str, ...] | None = Field(
        None, description="task queues to take queued steps from; by default all that actions name"
    )
    lease: timedelta = Field(
        timedelta(seconds=10),
        ge=MIN_LEASE,
        description="after which a queued step is lost whose worker gives no sign of life",
    )
    grace: timedelta = Field(
        timedelta(seconds=1),
        ge=timedelta(0),
        description="what a stopping worker leaves queued steps before it asks them to stop",
    )
    shutdown: timedelta = Field(
        timedelta(seconds=30),
        ge=timedelta(0),
        description="after which a stopping worker leaves steps behind that do not stop",
    )
    cache_instances: int = Field(2_000, ge=0, description="folded states kept in memory")


class Settings(BaseSettings):
    """All settings; ``Settings()`` reads the environment, arguments win over it.

    Raises:
        pydantic.ValidationError: An unknown or malformed setting.
    """

    model_config = SettingsConfigDict(
        env_prefix="ALMANAC_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    database_url: str | None = Field(None, description="a libpq URL: postgresql://user@host/db")
    temporal_address: str | None = Field(None, description="host:port of the Temporal frontend")
    temporal_namespace: str = "default"
    valkey_url: str | None = None
    task_queue: str = "almanac"
    tables: TableNames = TableNames()
    primary_key_type: PrimaryKeyType = "bigint"
    owner_key_type: MorphKeyType = "bigint"
    subject_key_type: MorphKeyType = "bigint"
    key_type: MorphKeyType = "bigint"
    limits: Limits = Limits()
    steps_input: StepsInput = StepsInput()
    idempotency: Idempotency = Idempotency()
    prune: Prune = Prune()
    worker: Worker = Worker()

    @field_validator("database_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must be a plain libpq URL that begins with postgresql://")
        return value
