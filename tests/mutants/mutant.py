"""What a planted bug is, and how it is put into a copy of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


class AnchorError(Exception):
    """The text that a mutant replaces is not where it was: the mutant has to be anchored anew."""


@dataclass(frozen=True, eq=False)
class Mutant:
    """A bug.

    Attributes:
        name: of it, in words with dashes.
        wrong: what goes wrong, in a sentence.
        file: that is changed, from the root of the repository.
        before: text that occurs in it exactly once; short, and such that few changes touch it.
        after: what takes its place.
        tests: files or tests that ought to know.
        adds: new files, path -> text.
        known_by: what the name of a test has to contain that may know it; any, if empty.
    """

    name: str
    wrong: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    adds: Mapping[str, str] = field(default_factory=dict)
    known_by: str = ""

    def planted(self, root: Path) -> dict[Path, str]:
        """The files that the bug changes or adds, as they read with it.

        Args:
            root: of the tree.

        Raises:
            AnchorError: the file, or the text, is not there, or there more than once.
        """
        path = root / self.file
        if not path.is_file():
            raise AnchorError(f"{self.file} is no more")
        text = path.read_text()
        if (times := text.count(self.before)) != 1:
            raise AnchorError(f"{self.file} holds {self.before!r} {times} times")
        new = {root / name: content for name, content in self.adds.items()}
        return {path: text.replace(self.before, self.after), **new}
