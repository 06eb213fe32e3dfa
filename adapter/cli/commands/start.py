"""``almanac start``: starts instances of a published definition."""

import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapter.cli.failures import ENDED_BADLY
from adapter.cli.inputs import read_json, read_lines, read_reference, read_ttl, read_wait
from adapter.cli.opening import AsJson, Owner, open_almanac
from adapter.cli.output import cell, print_json, stderr, stdout, table
from adapter.cli.progress import in_batches
from adapter.cli.timeline import print_instance
from adapter.errors import AlmanacError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapter.client.almanac import Almanac
    from adapter.services.starting import Started

NAME = "start"


def command(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The definition's key.")],
    payload: Annotated[
        str | None,
        typer.Option("--payload", "-p", metavar="JSON", help="JSON, @FILE, or - for stdin."),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Start one instance for each line of JSON; - is stdin."),
    ] = None,
    owner: Owner = None,
    subject: Annotated[
        str | None, typer.Option(metavar="TYPE:ID", help="What the instance is about.")
    ] = None,
    starter: Annotated[str | None, typer.Option(metavar="TYPE:ID", help="Who starts it.")] = None,
    actor_mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="system, starter or owner; default: the version's."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The same key again gives the same instance."),
    ] = None,
    idempotency_ttl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the key is kept; default: the setting's."),
    ] = None,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wait for its end and show it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Starts an instance, or one for each line of a file (all of them or none).

    The row is written at once; a worker begins it. With --wait the ulid is printed before the
    waiting begins, the instance after it; the command ends with 7 when the instance fails or is
    cancelled, and with 5 when it has not ended in time. With --json only the instance is printed,
    and an error has the ulid in its details.

        almanac start permits --payload '{"case": "A-17"}'
        almanac start permits -p @case.json --idempotency-key A-17 --wait 30
        almanac start permits --lines cases.jsonl
    """
    read_wait(wait)
    with open_almanac(ctx) as almanac:
        settings = almanac.settings
        given: dict[str, Any] = {
            "owner": read_reference(owner, "owner", settings.owner_key_type),
            "starter": read_reference(starter, "starter", settings.key_type),
            "actor_mode": actor_mode,
        }
        about = read_reference(subject, "subject", settings.subject_key_type)
        if lines is not None:
            alone = (payload, subject, idempotency_key, idempotency_ttl, wait)
            if any(value is not None for value in alone):
                raise InvalidInput(
                    "--lines goes without --payload, --subject, --idempotency-key,"
                    " --idempotency-ttl and --wait",
                    code="usage",
                )
            _print_many(_start_lines(almanac, key, lines, given), as_json=as_json)
            return
        started = almanac.start(
            key,
            read_json(payload),
            subject=about,
            idempotency_key=idempotency_key,
            idempotency_ttl=read_ttl(idempotency_ttl),
            **given,
        )
        if wait is None:
            _print_one(started, as_json=as_json)
            return
        if not as_json:
            stdout().print(started.ulid)
            sys.stdout.flush()
        with _naming(started.ulid), stderr().status(f"Waiting for {started.ulid}"):
            view = almanac.wait(started.ulid, timeout=wait)
    print_instance(view, as_json=as_json)
    raise typer.Exit(0 if view.status == "completed" else ENDED_BADLY)


@contextmanager
def _naming(ulid: str) -> "Iterator[None]":
    """Has every error say which instance was started: it goes on all the same."""
    try:
        yield
    except AlmanacError as error:
        error.details = {**error.details, "ulid": ulid}
        raise
    except Exception as error:
        raise AlmanacError(f"{type(error).__name__}: {error}", ulid=ulid) from error


def _start_lines(almanac: "Almanac", key: str, path: str, given: dict[str, Any]) -> "list[Started]":
    payloads = [value for _, value in read_lines(path)]
    with almanac.transaction() as connection:
        return in_batches(
            "Starting",
            payloads,
            lambda batch: almanac.start_many(key, batch, connection=connection, **given),
        )


def _print_one(started: "Started", *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(started))
        return
    stdout().print(started.ulid)
    told = "started" if started.created else "this key had started it already"
    stderr().print(cell(f"{told}; see it with: almanac show {started.ulid}"))


def _print_many(started: "list[Started]", *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in started])
        return
    listed = table("ulid*")
    for one in started:
        listed.add_row(one.ulid)
    stdout().print(listed)
    stderr().print(f"{len(started)} started")
