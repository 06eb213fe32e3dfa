"""The servers that Almanac needs: embedded ones from PyPI packages, or real ones by address.

    with Stack() as stack:
        print(stack.database_url, stack.temporal_address)

Without a ``data_dir`` the data lie in a temporary directory and go with the stack; with one they
stay, and so do the ports. All servers listen on 127.0.0.1 only and end with the process that
started them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from adapter.errors import Conflict, Misconfigured, NotSupported
from temporal_workflows.dev import postgres, temporal, valkey
from temporal_workflows.dev.ports import remembered_ports
from temporal_workflows.dev.postgres import Postgres
from temporal_workflows.dev.temporal import NAMESPACE, Temporal
from temporal_workflows.dev.valkey import Valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Piece = Literal["postgres", "temporal", "valkey"]
PIECES: Final[tuple[Piece, ...]] = ("postgres", "temporal", "valkey")
VARIABLES: Final[Mapping[Piece, str]] = {
    "postgres": "ALMANAC_DATABASE_URL",
    "temporal": "ALMANAC_TEMPORAL_ADDRESS",
    "valkey": "ALMANAC_VALKEY_URL",
}
_FIND: Final[Mapping[Piece, Callable[[], Path]]] = {
    "postgres": postgres.find_binaries,
    "temporal": temporal.find_binary,
    "valkey": valkey.find_binary,
}


class Stack:
    """PostgreSQL, Temporal and Valkey, or some of them.

    Args:
        pieces: Which servers this stack has; all three when none is named.
        data_dir: Where their data stay; None for a temporary directory.
        ui: Whether Temporal's web console is served.
        durable: False spares PostgreSQL its fsync, for data that nobody will miss.
        addresses: Servers of somebody else's, by piece: used as they are, never started or stopped.
        namespace: The Temporal namespace; an embedded server has only "default".
        patience: Seconds to wait for the servers of a stack that has just ended on ``data_dir``.
    """

    def __init__(
        self,
        *pieces: Piece,
        data_dir: Path | str | None = None,
        ui: bool = False,
        durable: bool = True,
        addresses: Mapping[Piece, str] | None = None,
        namespace: str = NAMESPACE,
        patience: float = 15,
    ) -> None:
        if unknown := set(pieces) - set(PIECES):
            raise Misconfigured(
                f"No server is called {sorted(unknown)[0]!r}: choose among {', '.join(PIECES)}."
            )
        self.pieces = tuple(piece for piece in PIECES if not pieces or piece in pieces)
        self.addresses = dict(addresses or {})
        if namespace != NAMESPACE and "temporal" not in self.addresses:
            raise Misconfigured(
                f"An embedded Temporal server has only the namespace {NAMESPACE!r}. Set "
                "ALMANAC_TEMPORAL_ADDRESS too, or leave ALMANAC_TEMPORAL_NAMESPACE unset."
            )
        self.temporal_namespace = namespace
        self._data_dir = Path(data_dir).resolve() if data_dir is not None else None
        self._ui = ui
        self._durable = durable
        self._patience = patience
        self._running = contextlib.ExitStack()
        self._servers: dict[Piece, Postgres | Temporal | Valkey] = {}

    @classmethod
    def from_environment(
        cls,
        *pieces: Piece,
        data_dir: Path | str | None = None,
        ui: bool = False,
        durable: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> Stack:
        """A stack of the servers that ``ALMANAC_*`` names, embedded where it names none."""
        environ = os.environ if environ is None else environ
        addresses = {piece: environ[name] for piece, name in VARIABLES.items() if environ.get(name)}
        namespace = environ.get("ALMANAC_TEMPORAL_NAMESPACE") or NAMESPACE
        return cls(
            *pieces,
            data_dir=data_dir,
            ui=ui,
            durable=durable,
            addresses=addresses,
            namespace=namespace,
        )

    def start(self, *pieces: Piece) -> Self:
        """Starts the named pieces (all when none is named) that do not run, and waits for them.

        Raises:
            Unavailable: A server did not answer in time; the message ends with its log.
            Misconfigured: A server's package is not installed.
            Conflict: Another process uses the same ``data_dir``.
        """
        wanted = [piece for piece in pieces or self.pieces if self._is_embedded(piece)]
        if not wanted:
            return self
        try:
            if not self._servers:
                self._prepare()
            with ThreadPoolExecutor(len(wanted)) as together:
                list(together.map(lambda piece: self._servers[piece].start(), wanted))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the embedded servers cleanly, and removes the data if they were temporary."""
        servers, self._servers = list(self._servers.values()), {}
        if servers:
            with ThreadPoolExecutor(len(servers)) as together:
                list(together.map(lambda server: server.stop(), servers))
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def postgres(self) -> Postgres:
        """The embedded PostgreSQL server, to stop, kill or start by itself."""
        server = self._server("postgres")
        assert isinstance(server, Postgres)
        return server

    @property
    def temporal(self) -> Temporal:
        """The embedded Temporal server, to stop, kill or start by itself."""
        server = self._server("temporal")
        assert isinstance(server, Temporal)
        return server

    @property
    def valkey(self) -> Valkey:
        """The embedded Valkey server, to stop, kill or start by itself."""
        server = self._server("valkey")
        assert isinstance(server, Valkey)
        return server

    @property
    def database_url(self) -> str:
        """The libpq URL of the database."""
        return self.addresses.get("postgres") or self.postgres.url

    @property
    def temporal_address(self) -> str:
        """host:port of Temporal's frontend."""
        return self.addresses.get("temporal") or self.temporal.address

    @property
    def valkey_url(self) -> str:
        """The URL of the cache."""
        return self.addresses.get("valkey") or self.valkey.url

    def environment(self) -> dict[str, str]:
        """The ``ALMANAC_*`` variables that lead another process to the servers of this stack."""
        values: dict[Piece, str] = {}
        if "postgres" in self.pieces:
            values["postgres"] = self.database_url
        if "temporal" in self.pieces:
            values["temporal"] = self.temporal_address
        if "valkey" in self.pieces:
            values["valkey"] = self.valkey_url
        named = {VARIABLES[piece]: value for piece, value in values.items()}
        if "temporal" in self.pieces:
            named["ALMANAC_TEMPORAL_NAMESPACE"] = self.temporal_namespace
        return named

    def _is_embedded(self, piece: Piece) -> bool:
        if piece not in self.pieces:
            raise Misconfigured(f"This stack has no {piece}; it has {', '.join(self.pieces)}.")
        return piece not in self.addresses

    def _server(self, piece: Piece) -> Postgres | Temporal | Valkey:
        if not self._is_embedded(piece):
            raise NotSupported(
                f"The {piece} server is not this stack's own ({VARIABLES[piece]} is set), "
                "so it cannot be started or stopped here."
            )
        if piece not in self._servers:
            raise Misconfigured("The stack has not been started: call start() first.")
        return self._servers[piece]

    def _prepare(self) -> None:
        embedded = [piece for piece in self.pieces if piece not in self.addresses]
        for piece in embedded:
            # Before anything is made, so that nothing is left behind.
            _FIND[piece]()
        data_dir = self._data_dir or self._temporary_dir()
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = self._lock(data_dir)
        console = ["console"] if self._ui and "temporal" in embedded else []
        ports = remembered_ports(data_dir / "ports.json", [*embedded, *console])
        if "postgres" in embedded:
            self._servers["postgres"] = Postgres(
                data_dir / "postgres", ports["postgres"], durable=self._durable, held=lock
            )
        if "temporal" in embedded:
            self._servers["temporal"] = Temporal(
                data_dir / "temporal", ports["temporal"], ui_port=ports.get("console"), held=lock
            )
        if "valkey" in embedded:
            self._servers["valkey"] = Valkey(data_dir / "valkey", ports["valkey"], held=lock)

    def _temporary_dir(self) -> Path:
        data_dir = Path(tempfile.mkdtemp(prefix="almanac-")).resolve()
        # whoever runs PostgreSQL in root's place must be able to pass to its own, closed directory
        data_dir.chmod(0o711)
        self._running.callback(shutil.rmtree, data_dir, ignore_errors=True)
        return data_dir

    def _lock(self, data_dir: Path) -> int:
        """Takes the directory for this stack.

        The servers inherit the lock, so it is free again only when the last of them has ended: a
        stack that comes after a killed one waits for that, instead of starting a second server on
        the data.
        """
        import fcntl
        import time

        lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._running.callback(os.close, lock)
        until = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Conflict(
                        f"Another stack runs on {data_dir}.", code="directory_in_use"
                    ) from None
                time.sleep(0.05)
