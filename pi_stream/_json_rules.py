"""The rules of :mod:`pi_stream.serialization`, one section for each kind of thing, as hooks for a cattrs converter.

A *reader* makes an object of a JSON value, a *writer* makes a JSON value of an object. Those for classes, unions and
collections are made once per type, on first use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs
from cattrs import BaseValidationError, Converter, StructureHandlerNotFoundError, cols
from cattrs.errors import AttributeValidationNote, IterableValidationNote
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from pi_stream.exceptions import ConfigError
from pi_stream.messages import (
    AssistantMessage,
    Context,
    CustomMessage,
    JsonObject,
    Message,
    UnknownContent,
    now_ms,
    role_class,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions

Reader = Callable[[Any, Any], Any]
"""Makes an object of a JSON value; cattrs passes the type as second argument."""
Writer = Callable[[Any], Any]


# --- names ------------------------------------------------------------------------------------------------------------


def camel_case(name: str) -> str:
    """``cache_write_1h`` to ``cacheWrite1h``: every part but the first gets its first character raised, no other."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def snake_case(name: str) -> str:
    """``supportsStore`` to ``supports_store``."""
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


# --- what is wrong, and where -----------------------------------------------------------------------------------------


class Invalid(Exception):
    """A JSON value that is not allowed. ``step`` leads from the value being read to the one at fault."""

    def __init__(self, reason: str, step: str = "") -> None:
        super().__init__(reason)
        self.step = step


_WORDS: Final[Mapping[type, str]] = {
    NoneType: "null",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _mismatch(expected: str, value: Any, step: str = "") -> Invalid:
    kind = type(value)
    seen = json.dumps(value) if kind in (NoneType, bool, float) else _WORDS.get(kind, kind.__name__)
    return Invalid(f"expected {expected}, not {seen}", step)


def _not_one_of(allowed: Iterable[Any], value: Any, step: str = "") -> Invalid:
    names = ", ".join(json.dumps(each) for each in allowed)
    return Invalid(f"expected one of {names}, not {json.dumps(value)[:80]}", step)


def _any_of(kinds: Container[type]) -> str:
    return " or ".join(word for kind, word in _WORDS.items() if kind in kinds)


def _step(note: object) -> str:
    """The piece of a JSON path that a note of cattrs stands for."""
    if isinstance(note, AttributeValidationNote):
        return f".{camel_case(note.name)}"
    if not isinstance(note, IterableValidationNote):
        return ""
    index = note.index
    return f".{index}" if isinstance(index, str) and index.isidentifier() else f"[{json.dumps(index)}]"


def problems(error: BaseException, path: str = "$") -> Iterator[tuple[str, str]]:
    """Walk the tree of errors that cattrs collected: JSON path and reason of every leaf."""
    step = "".join(map(_step, getattr(error, "__notes__", ())))
    if isinstance(error, BaseValidationError):
        for each in error.exceptions:
            yield from problems(each, path + step)
    elif isinstance(error, KeyError) and step:
        yield path, f"missing key {json.dumps(step[1:])}"
    else:
        yield path + step + getattr(error, "step", ""), str(error)


# --- plain values -----------------------------------------------------------------------------------------------------


def exactly(kind: type) -> Reader:
    """A reader of values of just this type: True is no integer. An application's own subclass, an enum, is made."""
    expected = _WORDS[kind]

    def read(value: Any, cls: Any) -> Any:
        if type(value) is kind:
            return value if cls is kind else cls(value)
        raise _mismatch(expected, value)

    return read


def read_number(value: Any, _: Any) -> int | float:
    """A whole number stays the int it was, so that it is written as it was read."""
    if type(value) is float or type(value) is int:
        return value
    raise _mismatch("a number", value)


def is_literal(cls: Any) -> bool:
    return get_origin(cls) is Literal


def literal_reader(cls: Any) -> Reader:
    allowed = get_args(cls)
    kinds = {type(each) for each in allowed}  # by type as well, since False equals 0

    def read(value: Any, _: Any) -> Any:
        if type(value) in kinds and value in allowed:
            return value
        raise _not_one_of(allowed, value) if type(value) in kinds else _mismatch(_any_of(kinds), value)

    return read


# --- arrays and mappings ----------------------------------------------------------------------------------------------


def is_array(cls: Any) -> bool:
    """A list, or a tuple of any length: both are JSON arrays."""
    return get_origin(cls) is list or (get_origin(cls) is tuple and get_args(cls)[1:] == (...,))


def array_reader(cls: Any, converter: Converter) -> Reader:
    make = cols.list_structure_factory if get_origin(cls) is list else cols.homogenous_tuple_structure_factory
    read_items = make(cls, converter)

    def read(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise _mismatch("a list", value)
        return read_items(value, cls)

    return read


def array_writer(cls: Any, converter: Converter) -> Writer:
    return cols.iterable_unstructure_factory(cls, converter, unstructure_to=list)


def is_mapping(cls: Any) -> bool:
    return get_origin(cls) in (dict, Mapping)


def mapping_reader(cls: Any, converter: Converter) -> Reader:
    """User data is the object it was; values of a type of ours are read one by one."""
    read_items: Reader = cols.mapping_structure_factory(cls, converter, dict)
    is_user_data = get_args(cls)[1] is Any

    def read(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        return value if is_user_data else read_items(value, cls)

    return read


def mapping_writer(cls: Any, converter: Converter) -> Writer:
    if converter.get_unstructure_hook(get_args(cls)[1]) is not identity:
        return cols.mapping_unstructure_factory(cls, converter, unstructure_to=dict)
    return identity if get_origin(cls) is dict else dict


# --- unions -----------------------------------------------------------------------------------------------------------


def is_union(cls: Any) -> bool:
    """A union whose members differ in their JSON; one with Any is no better than Any."""
    return (isinstance(cls, UnionType) or get_origin(cls) is Union) and Any not in get_args(cls)


def _json_kinds(cls: Any) -> set[type]:
    """The kinds of JSON value that this type is read from."""
    if is_literal(cls):
        return {type(value) for value in get_args(cls)}
    if is_array(cls):
        return {list}
    if is_mapping(cls) or attrs.has(cls):
        return {dict}
    # What JSON has no kind for, an application's enum or date, is written as a string.
    kind = next((kind for kind in _WORDS if isinstance(cls, type) and issubclass(cls, kind)), str)
    return {int, float} if kind is float else {kind}


def union_reader(cls: Any, converter: Converter) -> Reader:
    """The kind of the JSON value decides who reads it; among objects, their tag does."""
    members: dict[type, list[Any]] = {}
    for member in get_args(cls):
        for kind in _json_kinds(member):
            members.setdefault(kind, []).append(member)
    readers = {kind: (_member_reader(cls, some, converter), some[0]) for kind, some in members.items()}
    expected = _any_of(readers)

    def read(value: Any, _: Any) -> Any:
        found = readers.get(type(value))
        if found is None:
            raise _mismatch(expected, value)
        reader, member = found
        return reader(value, member)

    return read


def _member_reader(union: Any, members: Sequence[Any], converter: Converter) -> Reader:
    """Reads the members of a union that share a kind of JSON value: one, or classes with a tag."""
    if len(members) == 1:
        return converter.get_structure_hook(members[0])
    # A message may be one of an application, and a block one of a newer version: they are kept whole.
    whole = next((cls for cls in members if cls in (UnknownContent, CustomMessage)), None)
    if union == Message:
        whole = CustomMessage
    tags = {cls: _tag(cls) if attrs.has(cls) else None for cls in members if cls is not whole}
    keys = {tag and tag[0] for tag in tags.values()}
    key = keys.pop()
    if key is None or keys:
        raise StructureHandlerNotFoundError("its members cannot be told apart", union)
    readers = {tag[1]: converter.get_structure_hook(cls) for cls, tag in tags.items() if tag}

    def read(data: JsonObject, _: Any) -> Any:
        tag = _own_tag(data, key)
        reader = readers.get(tag)
        if reader is not None:
            return reader(data, union)
        if whole is None:
            raise _not_one_of(readers, tag, f".{key}")
        return converter.structure(data, role_class(tag) or whole if whole is CustomMessage else whole)

    return read


def union_writer(cls: Any, converter: Converter) -> Writer:
    writers = {converter.get_unstructure_hook(member) for member in get_args(cls)}
    return identity if writers == {identity} else converter.unstructure


# --- objects kept whole -----------------------------------------------------------------------------------------------


def _own_tag(data: Any, key: str) -> str:
    if type(data) is not dict:
        raise _mismatch("an object", data)
    if key not in data:
        raise Invalid(f"missing key {json.dumps(key)}")
    tag = data[key]
    if type(tag) is not str:
        raise _mismatch("a string", tag, f".{key}")
    return tag


def whole_reader(cls: type, key: str) -> Reader:
    """Reads an object that nobody knows: its tag, and all of it as it is."""
    return lambda data, _: cls(_own_tag(data, key), data)


def whole_writer(key: str) -> Writer:
    return lambda obj: {key: getattr(obj, key), **obj.data}


# --- objects ----------------------------------------------------------------------------------------------------------

_LEFT_OUT: Final[Mapping[type, frozenset[str]]] = {
    StreamOptions: frozenset({"api_key", "on_request", "on_response", "on_chunk"}),
}
"""Attributes that are no part of the JSON: a secret, and what JSON cannot hold."""


def _tag(cls: type) -> tuple[str, str] | None:
    """Key and value that tell the objects of a class apart, if it has them: ``("role", "user")``."""
    attributes = attrs.fields_dict(cls)
    for key in ("role", "type"):
        value = attributes[key].default if key in attributes else getattr(cls, key, None)
        if isinstance(value, str):
            return key, value
    return None


def _fields(cls: type) -> dict[str, Any]:
    """JSON key to attribute, for all attributes that stand in the JSON beside the tag."""
    hidden = {"extra", *(_tag(cls) or ())[:1], *_LEFT_OUT.get(cls, ())}
    shown = [each for each in attrs.fields(cls) if each.init and each.name not in hidden]
    return {camel_case(attribute.name): attribute for attribute in shown}


def _default(attribute: Any) -> Any:
    """The value of an attribute whose key is absent. A time is 0 then: when the object was loaded says nothing."""
    default = attribute.default
    if not isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return default
    return 0 if default.factory is now_ms else default.factory()


def _overrides(cls: type, converter: Converter) -> dict[str, Any]:
    """How cattrs treats each attribute; those that are no fields are left to this module."""
    try:
        attrs.resolve_types(cls)
    except NameError as error:
        raise ConfigError(
            f"the attribute types of {cls.__name__} must be known at run time: {error}"
        ) from error
    overrides = dict.fromkeys(attrs.fields_dict(cls), override(omit=True))
    for key, attribute in _fields(cls).items():
        overrides[attribute.name] = override(rename=key, omit_if_default=attribute.default is None)
    if cls is Context:  # typed Any, since applications bring their own classes of messages
        read = converter.get_structure_hook(list[Message])
        overrides["messages"] = override(struct_hook=read, unstruct_hook=converter.unstructure)
    if cls is Model:
        compat = override(omit_if_default=True, struct_hook=_read_compat, unstruct_hook=_write_compat)
        overrides["compat"] = compat
    return overrides


def _read_compat(value: Any, _: Any) -> JsonObject:
    if type(value) is not dict:
        raise _mismatch("an object", value)
    return {snake_case(key): flag for key, flag in value.items()}


def _write_compat(value: JsonObject) -> JsonObject:
    return {camel_case(key): flag for key, flag in value.items()}


def object_reader(cls: type, converter: Converter) -> Reader:
    """Reads the objects of one attrs class. Most are complete and hold nothing unknown: cattrs' function makes them."""
    fields = _fields(cls)
    key, tag = _tag(cls) or ("", "")
    known = frozenset([*fields, key] if tag else fields)
    nullable = {k for k, attribute in fields.items() if attribute.default is None}
    if cls is AssistantMessage:
        nullable.add("content")  # old sessions have null for an answer without content
    usual = {k: each.name for k, each in fields.items() if each.default not in (None, attrs.NOTHING)}
    times = {k: 0 for k, attribute in fields.items() if attribute.default == attrs.Factory(now_ms)}
    has_extra, has_absent = (name in attrs.fields_dict(cls) for name in ("extra", "_absent"))
    make: Reader = make_dict_structure_fn(cls, converter, **_overrides(cls, converter))

    def read(data: Any, _: Any) -> Any:
        if type(data) is not dict:
            raise _mismatch("an object", data)
        if tag and data.get(key) != tag:
            raise _not_one_of([tag], _own_tag(data, key), f".{key}")
        if known.issuperset(data) and data.keys() >= usual.keys() and None not in data.values():
            return make(data, cls)
        return read_unusual(data)

    def read_unusual(data: JsonObject) -> Any:
        extra = {k: v for k, v in data.items() if k not in known or (v is None and k in nullable)}
        plain = {k: v for k, v in data.items() if k not in extra}
        obj: Any = make(times | plain, cls)
        if has_absent:
            obj._absent.update(name for k, name in usual.items() if k not in plain)
        if has_extra:
            obj.extra.update(extra)
        elif not tag and not known.issuperset(extra):
            raise Invalid(f"unknown keys {json.dumps([k for k in extra if k not in known])}")
        return obj

    return read


def object_writer(cls: type, converter: Converter) -> Writer:
    """Writes the objects of one attrs class: its tag, what cattrs' function makes of it, and what it kept."""
    tag = _tag(cls)
    head = {tag[0]: tag[1]} if tag else {}
    make: Writer = make_dict_unstructure_fn(cls, converter, **_overrides(cls, converter))
    fields = {attribute.name: (key, attribute) for key, attribute in _fields(cls).items()}
    has_extra, has_absent = (name in attrs.fields_dict(cls) for name in ("extra", "_absent"))

    def write(obj: Any) -> JsonObject:
        data: JsonObject = head | make(obj)
        if has_absent:
            for name in obj._absent:
                key, attribute = fields[name]
                if getattr(obj, name) == _default(attribute):
                    del data[key]
        if has_extra:
            for key, value in obj.extra.items():
                data.setdefault(key, value)
        return data

    return write
