from __future__ import annotations

import pytest
from temporalio.service import RPCError, RPCStatusCode

from adapter.engine.unreachable import reason_of

CLIENT = "Failed client connect: Server connection error: tonic::transport::Error(Transport, "


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (
            f'{CLIENT}ConnectError(ConnectError("tcp connect error", 127.0.0.1:1, Os {{ code: 111,'
            ' kind: ConnectionRefused, message: "Connection refused" }})))',
            "the connection was refused",
        ),
        (f'{CLIENT}ConnectError(ConnectError("dns error", Custom {{}})))', "the name of the host"),
        ("invalid target URL: empty host", "it is no address like host:port"),
        (f'{CLIENT}hyper::Error(Canceled, "connection closed")))', "it does not speak"),
        ("something new", "it did not answer"),
        ("", "it did not answer"),
    ],
)
def test_what_the_client_says_becomes_a_short_reason(told: str, reason: str) -> None:
    assert reason_of(RuntimeError(told)).startswith(reason)


def test_a_server_that_is_silent_did_not_answer_in_time() -> None:
    assert reason_of(TimeoutError()) == "it did not answer in time"


def test_what_a_server_says_is_told() -> None:
    error = RPCError("namespace is gone", RPCStatusCode.NOT_FOUND, b"")

    assert reason_of(error) == "not found: namespace is gone"
