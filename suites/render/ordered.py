"""Key order as content. A case is identified by canonical JSON, where keys are sorted, so order has no meaning there.

For a renderer it has: tools and template arguments are printed in the order of the request. So an object whose keys are
not in sorted order is kept in a case as ``{"~": [[key, value], ...]}`` and unpacked where it is used.
"""

from __future__ import annotations

from harness.records import Json

MARK = "~"


def pack(value: Json) -> Json:
    """Write the order of keys down wherever it is not the sorted one."""
    if isinstance(value, list):
        return [pack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == sorted(value) and MARK not in value:
        return {key: pack(item) for key, item in value.items()}
    return {MARK: [[key, pack(item)] for key, item in value.items()]}


def unpack(value: Json) -> Json:
    """Restore what :func:`pack` wrote.

    Raises ValueError for a marked object that is no list of pairs with different string keys.
    """
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: unpack(value[key]) for key in sorted(value)}
    pairs = value[MARK]
    if len(value) > 1 or not isinstance(pairs, list):
        raise ValueError(f"{MARK!r} marks an object with an order of its own, a list of pairs")
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(f"{MARK!r} needs [key, value] pairs")
    found = {key: unpack(item) for key, item in pairs}
    if len(found) < len(pairs):
        raise ValueError(f"{MARK!r} has a key twice")
    return found


def settle(value: Json) -> Json:
    """Sort the keys of an object and of all below it: for places where their order is of no interest."""
    if isinstance(value, list):
        return [settle(item) for item in value]
    return {key: settle(value[key]) for key in sorted(value)} if isinstance(value, dict) else value
