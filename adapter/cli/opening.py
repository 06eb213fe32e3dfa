"""What all commands share: the settings of this call and the options that several of them take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from adapter.cli.failures import invalid_settings
from adapter.settings import Settings

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac


@dataclass(slots=True)
class Globals:
    """The options before the command."""

    database_url: str | None = None
    temporal_address: str | None = None


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A module that registers actions, by its dotted name; may be given more than once.",
    ),
]
SkipActions = Annotated[
    bool,
    typer.Option("--skip-actions", help="Do not check that actions are registered."),
]
Owner = Annotated[
    str | None, typer.Option(metavar="TYPE:ID", help="Whose it is; none: the whole application's.")
]


def settings_of(ctx: typer.Context, **given: Any) -> Settings:
    """Returns the settings: options, then ``ALMANAC_*`` variables, then defaults.

    Raises:
        Misconfigured: ``invalid_settings``.
    """
    options = ctx.obj if isinstance(ctx.obj, Globals) else Globals()
    values: dict[str, Any] = {
        "database_url": options.database_url,
        "temporal_address": options.temporal_address,
        **given,
    }
    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise invalid_settings(error) from None


def open_almanac(ctx: typer.Context) -> Almanac:
    """Returns the SDK for the settings of this call."""
    from adapter.client.almanac import Almanac

    return Almanac(settings_of(ctx))
