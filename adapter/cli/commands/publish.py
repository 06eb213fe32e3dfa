"""``almanac publish``: makes graph documents the current versions of their definitions."""

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from adapter.cli.handlers import NO_HANDLERS, import_handlers
from adapter.cli.inputs import read_file, read_reference
from adapter.cli.opening import AsJson, Imports, Owner, SkipActions, open_almanac
from adapter.cli.output import cell, print_json, stderr, stdout, table
from adapter.errors import InvalidDocument, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "publish"


def command(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON; - is stdin.")],
    owner: Owner = None,
    publisher: Annotated[
        str | None, typer.Option(metavar="TYPE:ID", help="Who publishes; kept in the version.")
    ] = None,
    expected_checksum: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKSUM",
            help="Publish only if the current version has this checksum; for one file.",
        ),
    ] = None,
    imports: Imports = None,
    skip_actions: SkipActions = False,
    as_json: AsJson = False,
) -> None:
    """Publishes graph documents: all of them or, when one is refused, none.

    New instances run the new version; running ones stay on theirs. A document that is current
    already changes nothing.

        almanac publish permits.json --import permits.actions
        almanac publish permits.json --import permits.actions --owner team:7
        almanac publish permits.json --skip-actions --expected-checksum 5f1d...
    """
    if expected_checksum is not None and len(files) > 1:
        raise InvalidInput("--expected-checksum goes with one file only", code="usage")
    import_handlers(imports or [])
    with open_almanac(ctx) as almanac:
        settings = almanac.settings
        owned = read_reference(owner, "owner", settings.owner_key_type)
        by = read_reference(publisher, "publisher", settings.key_type)
        documents = [read_file(file) for file in files]
        with almanac.transaction() as connection, stderr().status("Publishing"):
            published = []
            for file, document in zip(files, documents, strict=True):
                with _naming(file):
                    one = almanac.publish(
                        document,
                        owner=owned,
                        publisher=by,
                        expected_checksum=expected_checksum,
                        check_actions=not skip_actions,
                        connection=connection,
                    )
                published.append(one)
    if as_json:
        print_json([asdict(one) for one in published])
        return
    listed = table("key", "version", "", "checksum")
    for one in published:
        told = "published" if one.created else "was current already"
        listed.add_row(*(cell(part) for part in (one.key, one.number, told, one.checksum)))
    stdout().print(listed)
    for one in published:
        for warning in one.warnings:
            stderr().print(
                cell(f"warning {one.key}: {warning.pointer}: {warning.message}; {warning.remedy}")
            )


@contextmanager
def _naming(file: str) -> "Iterator[None]":
    """Has the refusal of a document say which file it is, and what to do about its actions."""
    try:
        yield
    except InvalidDocument as error:
        details = {**error.details, "file": file}
        errors = [f for f in error.details.get("findings", ()) if f["severity"] == "error"]
        if errors and all(finding["code"] == "unknown_action" for finding in errors):
            details["remedy"] = NO_HANDLERS
        raise InvalidDocument(error.message, **details) from error
