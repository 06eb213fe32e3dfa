"""Which well-formed expressions may run: the rules of this project beyond those of CEL.

Loops nest at most three deep, the work is bounded, patterns are literal, map and filter go through
lists, and nothing constructs a protobuf message.
"""

from __future__ import annotations

from adapter.errors import ExpressionError
from adapter.graph.budgets import MAX_LOOPS_NESTED, allowance, loops_nested
from adapter.graph.reports import UNORDERED
from adapter.graph.syntax import Call, Comprehension, Constant, MapLiteral, Node, walk


def admit(tree: Node) -> float:
    """The weight of values that an expression can take without asking for its exact cost.

    Raises:
        ExpressionError: It may not run; ``details["reason"]`` is ``too_costly`` or ``unsupported``.
    """
    if loops_nested(tree) > MAX_LOOPS_NESTED:
        raise ExpressionError(
            f"The expression nests more than {MAX_LOOPS_NESTED} loops (all, exists, map, filter).",
            reason="too_costly",
        )
    for node in walk(tree):
        if problem := _unsupported(node):
            raise ExpressionError(f"{problem}.", reason="unsupported")
    affordable = allowance(tree)
    if not affordable:
        raise ExpressionError(
            "The expression may take more than about 100 ms even on small values.",
            reason="too_costly",
        )
    return affordable


def patterns_in(tree: Node) -> list[str]:
    """The regular expressions of an admitted tree."""
    return [
        node.arguments[-1].value
        for node in walk(tree)
        if isinstance(node, Call)
        and node.function == "matches"
        and isinstance(node.arguments[-1], Constant)
    ]


def _unsupported(node: Node) -> str | None:
    match node:
        case MapLiteral(message=str() as message) if message:
            return f"The expression constructs a {message}; only JSON values are supported"
        case Call("matches", (_, Constant(str()))):
            return None
        case Call("matches", _):
            return "The pattern of matches() must be a literal text"
        case Comprehension(source=MapLiteral()) if node.builds_list:
            return UNORDERED[0].upper() + UNORDERED[1:]
    return None
