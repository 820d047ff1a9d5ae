"""Seeds of repetitions depend on the setting, or, where they are paired, on its population."""

from __future__ import annotations

from hushbeam.studies.engine.cells import Cell, FigureLine


def test_repetitions_are_paired_across_settings() -> None:
    one, other = (
        Cell("x", FigureLine(name), epsilon, 1e-6, True)
        for name, epsilon in (("pm", 1.0), ("duchi", 2))
    )
    assert one.seed(0, 3) == other.seed(0, 3) != one.seed(0, 4)
    alone = Cell("x", one.line, 1.0, 1e-6)
    assert alone == one
    assert alone.seed(0, 3) != one.seed(0, 3)
