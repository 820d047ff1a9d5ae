"""What Avro's schemas say of columns: Arrow's types, and how values become ones of these.

A logical type that is not known here, or does not fit what it stands on, is nothing but what it
stands on, as Avro's specification wants it (Apache Avro 1.12, "Logical Types").
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.files.format import Mangled

_MOST_FIELDS = 100_000  # of a row, those of records within counted as often as they are there
_DIGITS = 76  # that Arrow's decimals have at the most

OTHER = pa.struct([])  # records, maps and the like: there, and of no use


class Kind(NamedTuple):
    """What a column holds.

    Attributes:
        type: Arrow's.
        made: takes a value, which is not null, to one of it; None if it is one.
        broad: whether one value may be as long as a block: one of which nobody asks is not read.
    """

    type: pa.DataType
    made: Callable[[Any], Any] | None = None
    broad: bool = False


class Size(NamedTuple):
    """What one value takes.

    Attributes:
        least: bytes, at the least; 0 or more.
        fields: that are looked at for each.
    """

    least: int
    fields: int


_PLAIN = {
    "string": Kind(pa.string()), "bytes": Kind(pa.binary()), "int": Kind(pa.int32()),
    "long": Kind(pa.int64()), "float": Kind(pa.float32()), "double": Kind(pa.float64()),
    "boolean": Kind(pa.bool_()), "null": Kind(pa.null()),
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{name}"): pa.timestamp(unit, None if local else "UTC")
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
_SIZES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8}
_WITHIN = {"array": "items", "map": "values"}
_SAID = "said by the file"  # what `logicalType` is called here: fastavro shall not act upon it


def unsaid(written: Any) -> Any:
    """A schema whose logical types stand under a name that means nothing to fastavro."""
    if isinstance(written, list):
        return [unsaid(part) for part in written]
    if not isinstance(written, dict):
        return written
    known = {_SAID if key == "logicalType" else key: part for key, part in written.items()}
    for key in ("type", "items", "values", "fields"):
        if key in known:
            known[key] = unsaid(known[key])
    known.pop("aliases", None)
    return known


class Names:
    """The types of a schema that have names, of one that fastavro has parsed."""

    def __init__(self, schema: Any) -> None:
        self._known: dict[str, Any] = {}
        for part in _parts(schema):
            if isinstance(part, dict) and "name" in part and part["type"] in _NAMED:
                self._known[part["name"]] = part
        self._sizes: dict[str, Size] = {}
        self._open: set[str] = set()

    def named(self, name: str) -> Any:
        """A type that has a name."""
        return self._known[name]

    def kind(self, written: Any) -> Kind:
        """What a column of such a type holds; what may be null beside it has the other's."""
        if isinstance(written, list):
            return _united([self.kind(part) for part in written if part != "null"])
        if isinstance(written, str):
            named = self._known.get(written)
            return self.kind(named) if named is not None else _PLAIN.get(written, Kind(OTHER))
        if isinstance(written["type"], (dict, list)):
            return self.kind(written["type"])
        return self._kind(written)

    def _kind(self, written: Any) -> Kind:
        name, said = written["type"], written.get(_SAID)
        if name == "array":
            items = self.kind(written["items"])
            flat = items.type != OTHER and not pa.types.is_nested(items.type)
            made = items.made
            if not flat or made is not None:
                return Kind(OTHER, broad=True)
            return Kind(pa.list_(items.type), broad=True)
        if name == "enum":
            return _PLAIN["string"]
        if said == "decimal" and name in ("bytes", "fixed"):
            return _decimal(written) or Kind(pa.binary())
        if name == "fixed":
            return Kind(pa.binary())
        if isinstance(said, str) and (name, said) in _LOGICAL:
            return Kind(_LOGICAL[name, said])
        return _PLAIN.get(name) or self._other(name)

    def _other(self, name: str) -> Kind:
        return self.kind(name) if name in self._known else Kind(OTHER, broad=True)

    def require_bounded(self, column: str, written: Any) -> int:
        """How many fields a value has; refuse what could be any size for its bytes.

        Raises:
            Mangled: it holds arrays or maps of what takes no bytes, itself, or too many fields.
        """
        try:
            return self._size(written).fields
        except _BombError as error:
            raise Mangled(f"column {column!r} holds {error}") from None

    def takes_bytes(self, written: Any) -> bool:
        """Whether each value takes a byte at the least."""
        return self._size(written).least > 0

    def _size(self, written: Any) -> Size:
        if isinstance(written, list):
            sizes = [self._size(part) for part in written]
            return _bounded(1 + min((s.least for s in sizes), default=0), sizes)
        if isinstance(written, str):
            named = self._known.get(written)
            return self._named(named) if named is not None else Size(_SIZES.get(written, 1), 1)
        named = written["type"] in _NAMED
        return self._named(written) if named else self._nameless(written)

    def _nameless(self, written: Any) -> Size:
        name = written["type"]
        if name not in _WITHIN:
            return self._size(name)
        inner = self._size(written[_WITHIN[name]])
        # A key of a map takes a byte, but fields of no size would be as many as somebody likes.
        if not inner.least:
            raise _BombError(f"{name}s of what takes no bytes, so that nothing bounds its length")
        return Size(1, 1 + inner.fields)

    def _named(self, written: Any) -> Size:
        name = written["name"]
        if name in self._open:
            raise _BombError("records that hold themselves, which its reader follows to any depth")
        if name not in self._sizes:
            self._open.add(name)
            self._sizes[name] = self._of_named(written)
            self._open.discard(name)
        return self._sizes[name]

    def _of_named(self, written: Any) -> Size:
        if written["type"] == "fixed":
            return Size(written["size"], 1)
        if written["type"] == "enum":
            return Size(1, 1)
        sizes = [self._size(field["type"]) for field in written["fields"]]
        return _bounded(sum(size.least for size in sizes), sizes)

    def chosen(self, schema: Any, columns: set[str]) -> Any:
        """The schema of some columns alone, each named type defined where it is met first."""
        seen: set[str] = set()
        fields = [f for f in schema["fields"] if f["name"] in columns]
        return {
            "type": "record",
            "name": schema["name"],
            "fields": [{"name": f["name"], "type": self._defined(f["type"], seen)} for f in fields],
        }

    def _defined(self, written: Any, seen: set[str]) -> Any:
        if isinstance(written, list):
            return [self._defined(part, seen) for part in written]
        if isinstance(written, dict) and "name" not in written:
            within = {key: self._defined(written[key], seen) for key in _INNER if key in written}
            return {**written, **within}
        name = written if isinstance(written, str) else written["name"]
        if name not in self._known or name in seen:
            return name
        seen.add(name)
        return self._known[name]


_NAMED = ("record", "error", "enum", "fixed")
_INNER = ("items", "values", "type")


class _BombError(Exception):
    """What a schema allows that no bytes bound."""


def _bounded(least: int, sizes: list[Size]) -> Size:
    fields = 1 + sum(size.fields for size in sizes)
    if fields > _MOST_FIELDS:
        raise _BombError(f"records within records of more than {_MOST_FIELDS:,} fields")
    return Size(least, fields)


def _parts(written: Any) -> Iterator[Any]:
    """A schema and all within it."""
    yield written
    if isinstance(written, list):
        for part in written:
            yield from _parts(part)
    elif isinstance(written, dict):
        for key in _INNER:
            if key in written:
                yield from _parts(written[key])
        for field in written.get("fields", ()):
            yield from _parts(field["type"])


def _united(kinds: list[Kind]) -> Kind:
    """What holds the values of several types: of numbers the wider, of others the one they are."""
    if not kinds:
        return _PLAIN["null"]
    if len({kind.type for kind in kinds}) == 1:
        same = len({kind.made for kind in kinds}) == 1
        return kinds[0] if same else Kind(OTHER, broad=True)
    if all(pa.types.is_integer(kind.type) for kind in kinds):
        return _PLAIN["long"]
    if all(pa.types.is_integer(kind.type) or pa.types.is_floating(kind.type) for kind in kinds):
        return Kind(pa.float64(), float)
    return Kind(OTHER, broad=any(kind.broad for kind in kinds))


def _decimal(written: Any) -> Kind | None:
    """A decimal; None of one that is none: it is its bytes then."""
    digits, scale = written.get("precision"), written.get("scale", 0)
    if not (type(digits) is int and type(scale) is int and 0 <= scale <= digits <= _DIGITS):
        return None
    if digits < 1 or (written["type"] == "fixed" and written["size"] < 1):
        return None
    wide = pa.decimal128 if digits <= 38 else pa.decimal256
    return Kind(wide(digits, scale), _Decimals(digits, scale))


@dataclass(frozen=True)
class _Decimals:
    """Bytes, the highest first, to a number of so many digits; None of one that has more."""

    digits: int
    scale: int

    def __call__(self, content: bytes) -> Decimal | None:
        number = int.from_bytes(content, "big", signed=True)
        if not abs(number) < 10**self.digits:
            return None
        return Decimal(f"{number}E-{self.scale}")
