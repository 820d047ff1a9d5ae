"""Price and guarantee of every kind and form at several epsilons, as `check` says them.

What becomes of a kind's classes changes none of these numbers, or the commit says why:

    python -m tests.golden.prices    # rewrites what is expected
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.plan import check
from tests.contract import examples, forms, runs
from tests.contract.test_figures import asked
from tests.golden.comparison import layout

EXPECTED = Path(__file__).parent / "prices.json"
TIMES = 0.25, 1, 2
"""Of the epsilon of a form's example."""

_WINDOW = "2024-05-08"
_EXPECTED_OF = ("expected", "expected_of_parties")


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(kind, name of the form, what is asked of it) of every form that is served."""
    for kind in registry.names():
        for name in forms.offered(kind):
            form, options = asked(kind, name)
            if not form.refused:
                yield kind, name, options


def prices(kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Epsilon -> what a plan of this alone costs and can know.

    Args:
        kind: of the metric.
        name: of the form.
        options: of it.
    """
    files = "{window}.parquet" if name == forms.HORIZON else "log.parquet"
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        runs.write_inputs(place, examples.log())
        plan = place / "plan.yaml"
        for epsilon in (times * options["epsilon"] for times in TIMES):
            text = runs.plan(
                [("m", kind, options | {"epsilon": epsilon})],
                input=str(place / files), output=str(place / "out/{window}"),
            )  # fmt: skip
            plan.write_text(text.replace('"groups.txt"', json.dumps(str(place / "groups.txt"))))
            made[f"{epsilon:g}"] = _of(plan)
    return made


def _of(plan: Path) -> Any:
    """What `check` says of a plan's only metric; why it refuses, if it does."""
    try:
        said = check.summary(str(plan), _WINDOW)
    except RequestError as error:
        return str(error).partition(": ")[2][:60]
    (metric,) = said["metrics"]
    made: dict[str, Any] = {
        name: [guarantee["model"], guarantee["epsilon"], guarantee["delta"]]
        for name, guarantee in metric["guarantees"].items()
    }
    for name in _EXPECTED_OF:
        if metric[name] is not None:
            made[name] = [metric[name]["error"], metric[name]["bits"], *_errors(metric[name])]
    return made


def _errors(expected: dict[str, Any]) -> list[float]:
    """The numbers of what is said of an error, in their order."""
    inner = [expected["statement"] or {}]
    numbers = []
    while inner:
        part = inner.pop(0)
        inner += [value for value in part.values() if isinstance(value, dict)]
        numbers += [value for value in part.values() if isinstance(value, float)]
    return numbers


def main() -> None:
    """Make all that is said today what is expected."""
    made = {f"{kind}, {name}": prices(kind, name, options) for kind, name, options in cases()}
    EXPECTED.write_text(layout(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
