"""``ctx.once``: an effect on the world outside, and how often it may happen.

A claim is committed before the effect and its result after it. Where the result is missing and
the attempt that claimed is gone, nobody can know whether the effect happened; the caller says
beforehand what is worse then, twice or never.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from adapter.errors import InvalidInput, StepError
from adapter.execution.door import accept_output

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from concurrent.futures import Future

    from adapter.interpreter.state import Key
    from adapter.records.effects import Claimed, Effects

T = TypeVar("T")

IfUncertain = Literal["fail", "run"]

MAX_KEY = 500
"""Characters of a key."""

PATIENCE = 60.0
"""Seconds that a thread waits for the database; a worker that has stopped answers nothing."""

LOOK_AGAIN = 0.1
"""Seconds between two looks at a claim whose owner is at work."""


class EffectUncertain(StepError):
    """An effect began, and whether it happened cannot be known."""

    def __init__(self, message: str) -> None:
        super().__init__("effect_uncertain", message, retryable=False)


@dataclass(frozen=True, slots=True)
class Desk:
    """What the effects of one writer's handlers share.

    Attributes:
        loop: Where the pool's connections live.
        writer: The token under which the steps run.
    """

    pool: Any
    effects: Effects
    loop: asyncio.AbstractEventLoop
    writer: str
    max_bytes: int

    async def claim(self, digest: str, instance: Key, claim: Mapping[str, Any]) -> Claimed:
        """See ``Effects.claim``."""
        async with self.pool.acquire() as connection:
            return await self.effects.claim(connection, digest, instance, claim)

    async def replace(
        self, digest: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> bool:
        """See ``Effects.replace``."""
        async with self.pool.acquire() as connection:
            return await self.effects.replace(connection, digest, before, after)

    async def free(self, digest: str, claim: Mapping[str, Any]) -> None:
        """See ``Effects.free``."""
        async with self.pool.acquire() as connection:
            await self.effects.free(connection, digest, claim)

    def ask(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Has something done on the loop of the pool; from the handler's thread."""
        try:
            return asyncio.run_coroutine_threadsafe(question, self.loop)
        except RuntimeError:
            question.close()
            raise


@dataclass(slots=True)
class StepEffects:
    """The effects of one attempt.

    Attributes:
        seconds: How long it may wait for another claim's owner.
        active: Who is at work in this very attempt, by the digest of the effect.
    """

    desk: Desk
    ulid: str
    instance: Key
    step: Key
    node: str
    visit: int
    is_async: bool
    seconds: float
    active: dict[str, object] = field(default_factory=dict)

    def once(self, key: str, function: Callable[..., Any], if_uncertain: IfUncertain) -> Any:
        """The value, or for an async handler a coroutine that gives it."""
        given: Any = key
        if not isinstance(given, str) or not 0 < len(given) <= MAX_KEY:
            raise InvalidInput(f"ctx.once: the key is a text of 1 to {MAX_KEY} characters")
        if if_uncertain not in ("fail", "run"):
            raise InvalidInput(f"ctx.once: if_uncertain is 'fail' or 'run', not {if_uncertain!r}")
        if not self.is_async and inspect.iscoroutinefunction(function):
            raise InvalidInput(
                f"ctx.once: the effect {key!r} is async, and the handler is not: make it async, too"
            )
        effect = _Effect(self, key, function, if_uncertain)
        return effect.run_async() if self.is_async else effect.run()


class _Effect:
    def __init__(
        self,
        attempt: StepEffects,
        key: str,
        function: Callable[..., Any],
        if_uncertain: IfUncertain,
    ) -> None:
        self.attempt = attempt
        self.desk = attempt.desk
        self.key = key
        self.function = function
        self.if_uncertain = if_uncertain
        # Lengths keep parts apart that hold the separator.
        parts = (attempt.ulid, attempt.node, str(attempt.visit), key)
        text = "".join(f"{len(part)}:{part}" for part in parts)
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        # Kept beside the value, too: the digest does not tell whose effect it is.
        self.place = {
            "step": str(attempt.step),
            "node": attempt.node,
            "visit": attempt.visit,
            "name": _storable(key),
        }
        self.claim = {"claim": self.desk.writer, **self.place}
        self.until = time.monotonic() + attempt.seconds

    def run(self) -> Any:
        while (found := self._ask(self._try)) is None:
            time.sleep(LOOK_AGAIN)
        try:
            if "value" in found:
                return found["value"]
            value = self._accept(self._call())
            self._ask(lambda: self._keep(value))
        except StepError as error:
            told = error
            self._ask(lambda: self._gave_up(told))
            raise
        finally:
            self._leave()
        return value

    async def run_async(self) -> Any:
        # What is waited for may be another process, which sets no event here.
        while (found := await self._ask_async(self._try)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN)
        try:
            if "value" in found:
                return found["value"]
            value = self._call()
            if inspect.isawaitable(value):
                value = await value
            value = self._accept(value)
            # The effect has happened: a cancelled handler still keeps its result.
            await asyncio.shield(self._ask_async(lambda: self._keep(value)))
        except StepError as error:
            told = error
            await self._ask_async(lambda: self._gave_up(told))
            raise
        finally:
            self._leave()
        return value

    def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.desk.ask(question()).result(PATIENCE)

    def _ask_async(self, question: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Future[T]:
        return asyncio.wrap_future(self.desk.ask(question()))

    def _leave(self) -> None:
        if self.attempt.active.get(self.digest) is self:
            del self.attempt.active[self.digest]

    async def _try(self) -> Mapping[str, Any] | None:
        """As ``_claim``, one call of this attempt after the other."""
        if self.attempt.active.setdefault(self.digest, self) is not self:
            self._check_time()
            return None
        try:
            found = await self._claim()
        except BaseException:
            self._leave()
            raise
        if found is None:
            self._leave()
        return found

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise StepError("step_timed_out", f"the effect {self.key!r} is under way elsewhere")

    async def _claim(self) -> Mapping[str, Any] | None:
        """The value, or the claim once it is this attempt's; None to ask again later.

        Raises:
            EffectUncertain: A claim is left whose owner is gone.
            StepError: Its owner is at work still, and this attempt's time is over.
        """
        found = await self.desk.claim(self.digest, self.attempt.instance, self.claim)
        if found.new or "value" in found.result:
            return found.result
        mine = found.result == self.claim
        if found.alive and not mine:
            self._check_time()
            return None
        if self.if_uncertain == "fail":
            raise EffectUncertain(
                f"the effect {self.key!r} of node {self.attempt.node!r} began in step run"
                f" {found.result.get('step')}, and whether it happened cannot be known: find out,"
                " say it in workflow_idempotency_keys as docs/handlers.md shows, then:"
                f" almanac retry {self.attempt.ulid}"
            )
        if mine or await self.desk.replace(self.digest, found.result, self.claim):
            return self.claim
        return None

    def _call(self) -> Any:
        return self.function(self.digest) if _takes_key(self.function) else self.function()

    def _accept(self, value: Any) -> Any:
        try:
            return accept_output(self.attempt.node, value, self.desk.max_bytes)
        except StepError as error:
            raise Unkept(error) from error

    async def _keep(self, value: Any) -> None:
        await self.desk.replace(self.digest, self.claim, {"value": value, **self.place})

    async def _gave_up(self, error: StepError) -> None:
        """A failure that the effect tells itself says that it has not happened."""
        if not isinstance(error, EffectUncertain | Unkept):
            await self.desk.free(self.digest, self.claim)


class Unkept(StepError):
    """An effect has happened, and what it gave cannot be kept."""

    def __init__(self, error: StepError) -> None:
        super().__init__(error.code, f"ctx.once: {error.message}", retryable=False)


def _storable(key: str) -> str:
    """A key as PostgreSQL can keep it: without NUL and halves of surrogate pairs."""
    return key.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _takes_key(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter that must be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )
