"""Where in its file each part of a plan stands, so that refusals can name the line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

Place = tuple[int | str, ...]  # keys and positions, from the outside in


@dataclass(frozen=True)
class SourceLines:
    """The lines of a file.

    Attributes:
        path: of the file.
        lines: (place, line) of every part, the file itself being the place ().

    >>> places = SourceLines.of("plan.yaml", yaml.compose("unit: row\\nmetrics:\\n- name: city\\n"))
    >>> places.where(("metrics", 0, "name")), places.where(("metrics", 0, "bounds"))
    ('plan.yaml, line 3', 'plan.yaml, line 3')
    """

    path: str
    lines: tuple[tuple[Place, int], ...]

    @classmethod
    def of(cls, path: str, root: yaml.Node) -> SourceLines:
        """The places of a document.

        Args:
            path: of the file.
            root: without aliases.
        """
        return cls(path, (((), root.start_mark.line + 1), *_inside((), root)))

    def where(self, place: Place) -> str:
        """The file and the line of a part, or of the nearest thing around it.

        Args:
            place: of the part.
        """
        known = dict(self.lines)
        around = (place[:end] for end in range(len(place), -1, -1))
        return f"{self.path}, line {next(known[place_] for place_ in around if place_ in known)}"


def _inside(place: Place, node: yaml.Node) -> Iterator[tuple[Place, int]]:
    """All parts of a node: in a mapping by the lines of their keys."""
    parts: list[tuple[Place, int, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [((*place, key.value), key.start_mark.line, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [((*place, i), child.start_mark.line, child) for i, child in enumerate(node.value)]
    for inner, line, value in parts:
        yield inner, line + 1
        yield from _inside(inner, value)
