"""A way to a server that can fall silent: sockets stay open, nothing gets through."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack
from typing import Self


class Proxy:
    """Forwards a port of this machine to another address until it is silenced."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open = ExitStack()
        self._silent = threading.Event()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        server = self._open.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = server.getsockname()[1]
        self._thread = threading.Thread(target=self._forward, args=(server,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._open.close()

    def silence(self) -> None:
        """Lets nothing through from now on."""
        self._silent.set()

    def _forward(self, server: socket.socket) -> None:
        peers: dict[socket.socket, socket.socket] = {}
        while not self._ended.is_set():
            ready = select.select([server, *peers], [], [], 0.02)[0]
            if self._silent.is_set():
                self._ended.wait()
                return
            for source in ready:
                if source is server:
                    near, far = server.accept()[0], socket.create_connection(self._target)
                    peers |= {near: far, far: near}
                    for one in (near, far):
                        self._open.enter_context(one)
                elif data := source.recv(65536):
                    peers[source].sendall(data)
                else:
                    del peers[peers.pop(source)]
