"""The five fields of cron, as far as a plan has to know that they mean something."""

from __future__ import annotations

import re

# field -> its least and largest number, and the names that stand for numbers from the least on.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    (
        "month", 1, 12,
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ),
    ("day of the week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)  # fmt: skip
_ITEM = re.compile(r"(?:\*|(?P<first>\w{1,3})(?:-(?P<last>\w{1,3}))?)(?:/(?P<step>[0-9]{1,3}))?")


def require_schedule(written: str) -> None:
    """Refuse what no cron understands.

    Args:
        written: minute, hour, day of the month, month, day of the week.

    Raises:
        ValueError: there are not five fields, or one of them says what does not exist.

    >>> require_schedule("*/15 6-22 1,15 * mon-fri")
    """
    fields = written.split()
    if len(fields) != len(_FIELDS):
        raise ValueError("five fields are needed, as in '0 3 * * *' for three every night")
    for text, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        if not all(_means(item, low, high, names) for item in text.lower().split(",")):
            raise ValueError(
                f"the {name} must be *, numbers in {low} .. {high}, ranges or steps of them, as in "
                f"'0 3 * * *' for three every night, not {text!r}"
            )


def _means(item: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    """Whether an item is *, a number or a range, perhaps with a step."""
    match = _ITEM.fullmatch(item)
    if match is None:
        return False
    step, ends = match["step"], [end for end in match.group("first", "last") if end is not None]
    numbers = [_number(end, low, names) for end in ends]
    stepped = step is None or (1 <= int(step) <= high and len(ends) != 1)
    within = all(number is not None and low <= number <= high for number in numbers)
    return stepped and within and numbers == sorted(numbers, key=lambda number: number or 0)


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    """A number, or what a name stands for."""
    if text in names:
        return low + names.index(text)
    return int(text) if text.isascii() and text.isdigit() else None
