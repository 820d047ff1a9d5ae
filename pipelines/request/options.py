"""How an option is described: once, for the command's page, the schema of plans and Beam YAML."""

from __future__ import annotations

import json
import re
from argparse import Action
from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType, NoneType
from typing import Any, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

# The headings of a command's page. What its subject is called is the command's own affair.
SUBJECT, PROMISE, RESULT = "", "what is promised", "what comes out"

_FLAG = re.compile(r"--[a-z][a-z-]*")
_WORD = re.compile(r"[^,\s](?:[^,]*[^,\s])?")  # which commas may stand around
_VALUES = "LOW..HIGH"  # in the name of what declares values
_SCALAR = {"type": ["string", "number"]}
_SCALARS = {"type": "array", "items": _SCALAR, "minItems": 1}


@dataclass(frozen=True)
class Description:
    """What people read about an option.

    Attributes:
        text: what it is, flags written as on the command line. A function where the text would take
            long to import; it is called when somebody reads it.
        group: the heading that it stands under.
        metavar: what its value is called; by default the option's name.
        hint: what to mind on a command line alone.
        repeated: whether several values are several options, and not several words of one.
        figure: whether it says what a figure is of, so that where it differs no figures can be
            compared; by default, whether it stands under the command's subject.
        positional: whether a command line names it by its place alone.
        essential: whether most people need it, so that the short help shows it. What is required
            is shown there anyway.
    """

    text: str | Callable[[], str]
    group: str = SUBJECT
    metavar: str | None = None
    hint: str = ""
    repeated: bool = False
    figure: bool | None = None
    positional: bool = False
    essential: bool = False

    @property
    def of_figure(self) -> bool:
        """`figure`, or its default."""
        return self.group == SUBJECT if self.figure is None else self.figure

    def __str__(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()

    def __call__(self, schema: dict[str, Any]) -> None:
        """Describe the option in a JSON Schema: pydantic asks for this when it makes one."""
        schema["description"] = undashed(str(self))
        shapes = schema.get("anyOf", [{"type": schema.get("type")}])
        if {"type": "array"} in shapes and self._named:
            one = [_SCALAR, *[_SCALARS] * self._listed, *[{"type": "null"}] * self._alone]
            listed = {"anyOf": one}
            of_mapping = {"type": "object", "additionalProperties": listed}
            of_list = {
                key: schema.pop(key) for key in ("type", "items", "minItems") & schema.keys()
            }
            schema["anyOf"] = [of_list, of_mapping]
        elif self._listed and any(shape.get("type") == "string" for shape in shapes):
            limits = {key: schema.pop(key) for key in ("type", "minLength") if key in schema}
            schema["anyOf"] = [*schema.get("anyOf", [limits]), _SCALARS]

    def typed(self, field: FieldInfo, value: Any) -> Any:
        """A value as a command line has it: YAML and Python write lists and mappings as such.

        Args:
            field: what this is the description of.
            value: as it was written; what is neither is returned as it is.

        Raises:
            ValueError: a command line would read something else than what was written.

        >>> bounds = option("the least and the largest", metavar="L,U")
        >>> bounds.annotation = str
        >>> description(bounds).typed(bounds, [0, 0.5])
        '0,0.5'
        """
        kind = type_of(field)[0]
        if kind is str and isinstance(value, list | tuple):
            return self._text(value)
        if kind is tuple and self._named and isinstance(value, dict):
            return tuple(self._pair(str(name), one) for name, one in value.items())
        return value

    @property
    def _named(self) -> bool:
        return "=" in (self.metavar or "")

    @property
    def _alone(self) -> bool:
        """Whether a name may stand without what is said of it."""
        return "[=" in (self.metavar or "")

    @property
    def _listed(self) -> bool:
        """Whether what is said may be a list: of values, or of numbers."""
        return _VALUES in (self.metavar or "") or "," in (self.metavar or "")

    def _pair(self, name: str, value: Any) -> str:
        if value is None and self._alone:
            return name
        text = self._text(value)
        if not isinstance(text, str | int | float):
            raise ValueError(f"{name} needs a text, or a list of them where it takes one")
        return f"{name}={text}"

    def _text(self, value: Any) -> Any:
        if not (self._listed and isinstance(value, list | tuple)):
            return value
        if _VALUES in str(self.metavar):
            # A fraction has lost how it was spelt, and a truth whether it was one.
            if not all(type(one) in (str, int) for one in value):
                raise ValueError("a list holds texts and whole numbers: put all else in quotes")
            return json.dumps([str(one) for one in value], ensure_ascii=False)
        words = [str(one) for one in value if isinstance(one, str | int | float)]
        if len(words) < len(value) or any(
            "," in word or word.strip() != word or not word for word in words
        ):
            raise ValueError("a list holds numbers, or names without commas and blanks around")
        return ",".join(words)


def option(
    text: str | Callable[[], str],
    default: Any | EllipsisType = ...,
    *,
    group: str = SUBJECT,
    metavar: str | None = None,
    hint: str = "",
    repeated: bool = False,
    figure: bool | None = None,
    positional: bool = False,
    essential: bool = False,
    **limits: Any,
) -> Any:
    """A field of an options class.

    Args:
        text: as all up to `essential`, see `Description`.
        default: where nobody says anything; without one the option is required.
        limits: what pydantic's `Field` takes: gt, le, min_length and so on.
    """
    described = Description(text, group, metavar, hint, repeated, figure, positional, essential)
    return Field(default, json_schema_extra=described, **limits)


def description(field: FieldInfo) -> Description:
    """What `option` declares of a field.

    Raises:
        TypeError: the field was made by pydantic's `Field`, and nobody knows what it is for.
    """
    extra: object = field.json_schema_extra
    if not isinstance(extra, Description):
        raise TypeError(f"an option without a description: {field!r}")
    return extra


def essential(action: Action) -> None:
    """Show an option of a command line in the short help, too."""
    vars(action)["essential"] = True


def is_essential(action: Action) -> bool:
    """Whether `essential` has been said of it."""
    return "essential" in vars(action)


def type_of(field: FieldInfo) -> tuple[Any, tuple[Any, ...]]:
    """The type of an option's values, and of what it is made; that it may be None is left out."""
    annotation = field.annotation
    if NoneType in get_args(annotation):
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    return get_origin(annotation) or annotation, get_args(annotation)


def flag(name: str) -> str:
    """An option as it is typed.

    >>> flag("min_reports")
    '--min-reports'
    """
    return "--" + name.replace("_", "-")


def undashed(text: str) -> str:
    """What is said of options on a command line, as a YAML file spells them.

    >>> undashed("--min-reports is missing")
    'min_reports is missing'
    """
    return _FLAG.sub(lambda match: match[0][2:].replace("-", "_"), text)
