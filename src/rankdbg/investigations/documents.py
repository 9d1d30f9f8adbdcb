"""Results as JSON documents, each with the name and version of its schema."""

from __future__ import annotations

from typing import Any


def json_text(kind: str, content: dict[str, Any]) -> str:
    import json

    # NaN is no JSON; as text it survives every reader.
    document = {"schema": f"rankdbg.{kind}/1", **content}
    return json.dumps(finite(document), indent=1, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """nan and infinities as text: JSON has none."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
