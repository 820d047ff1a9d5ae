"""A function for every kind of metric, made of what the kind says of its options."""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter, Signature
from typing import Any

from hushbeam.calls import HANDED_OVER, called, warn
from hushbeam.frames import Handed
from hushbeam.releases import Release
from pipelines.errors import FailedError, RequestError
from pipelines.ledger.paying import Payment
from pipelines.metrics import registry
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import description, type_of, undashed
from pipelines.request.requests import request

_WIDTH = 100

# What every function takes beside its kind's options: (default, what it is).
_BESIDE: dict[str, tuple[Any, str]] = {
    "ledger": (None, "what is paid to, a file or gs://BUCKET/ledger.json; it needs an output"),
    "population": (None, "whose budget of the ledger it is"),
    "beam": ((), "options for Beam, as on its command lines: ['--runner=DataflowRunner', ...]"),
    "debug": (False, "show Beam's log and exceptions of other packages, which may quote the data"),
}
_INPUT = "paths or globs, or a pyarrow table, a pandas or a polars frame"
_OUTPUT = "a new folder, local or gs:// (default: one that is removed with the release's object)"
_ENDING = """\
Returns:
    The release: its `table`, `statement`, `page` and `plot`.

Raises:
    RequestError: the request or its input is wrong.
    WithheldError: nothing is published: {withheld}.
    FailedError: the job ended without a release."""

Publish = Callable[..., Release]


def functions() -> list[str]:
    """What the functions are called."""
    return [name.replace("-", "_") for name in registry.names()]


def function(name: str) -> Publish:
    """The function that publishes a kind of metric.

    Args:
        name: as in `functions`.

    Raises:
        AttributeError: no kind has that name; with what may have been meant.
    """
    kinds = dict(zip(functions(), registry.names(), strict=True))
    if name not in kinds:
        raise AttributeError(f"hushbeam has no {name!r}{_meant(name, kinds)}")
    kind = kinds[name]

    def publish(input: Any, **request: Any) -> Release:
        options = registry.options(kind)
        require_known(name, options, request)
        return published(kind, options, {"input": input, **request})

    publish.__name__ = publish.__qualname__ = name
    publish.__module__ = "hushbeam"
    try:
        options = registry.options(kind)
    except RequestError as error:  # a stranger's, which says so when it is called
        publish.__doc__ = str(error)
    else:
        publish.__doc__ = _doc(options)
        publish.__signature__ = _signature(options)  # type: ignore[attr-defined]
    return publish


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, [*known], 1)
    return f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(sorted(known))}"


def require_known(name: str, options: type[ReleaseOptions], request: Mapping[str, Any]) -> None:
    """Refuse what a function does not take; with what may have been meant."""
    known = {*options.model_fields, *_BESIDE}
    for option in request:
        if option not in known:
            raise RequestError(f"{name} has no option {option!r}{_meant(option, known)}")


def _signature(options: type[ReleaseOptions]) -> Signature:
    said = [Parameter("input", Parameter.POSITIONAL_OR_KEYWORD, annotation=Any)]
    for name, field in options.model_fields.items():
        if name == "input":
            continue
        usual = None if name == "output" else field.get_default(call_default_factory=True)
        default = Parameter.empty if field.is_required() and name != "output" else usual
        kind = field.annotation if name != "output" else str | None
        said.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    said += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, (default, _) in _BESIDE.items()
    ]
    return Signature(said, return_annotation=Release)


def _doc(options: type[ReleaseOptions]) -> str:
    about = {name: undashed(str(description(f))) for name, f in options.model_fields.items()}
    about |= {"input": _INPUT, "output": _OUTPUT}
    about |= {name: words for name, (_, words) in _BESIDE.items()}
    lines = [_filled(f"{name}: {words}", 4, 8) for name, words in about.items()]
    ending = _ENDING.format(withheld=options.withheld)
    return "\n".join([_filled(undashed(options.description)), "", "Args:", *lines, "", ending])


def _filled(text: str, first: int = 0, others: int = 0) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=" " * first, subsequent_indent=" " * others,
        break_on_hyphens=False,
    )  # fmt: skip


def published(kind: str, options: type[ReleaseOptions], values: dict[str, Any]) -> Release:
    """Publish, and open what was published."""
    beside = {name: values.pop(name, default) for name, (default, _) in _BESIDE.items()}
    around = None
    if values.get("output") is None:
        if beside["ledger"] is not None:
            raise RequestError("output is missing: what was paid for is kept in a folder of yours")
        around = tempfile.mkdtemp(prefix="hushbeam-")
        values["output"] = os.path.join(around, "release")
    try:
        with Handed() as handed, called(handed.named, beside["debug"]) as cautions:
            said = words(options, values, handed)
            wanted = " ".join(str(said[name]) for name in said.keys() - {"output"})
            log = {"input": handed.log(values["input"], wanted)}
            checked = request(options, said | log)
            _publish(kind, checked, [*beside["beam"]], _payment(beside), handed)
        warn(cautions, 3)
        release = Release(checked.output)
    except BaseException:
        if around is not None:
            shutil.rmtree(around, ignore_errors=True)
        raise
    return release if around is None else release.removed_with(around)


def _publish(
    kind: str, options: ReleaseOptions, beam: list[str], payment: Payment | None, handed: Handed
) -> None:
    from pipelines.jobs.run import beam_options, runs_here
    from pipelines.releases.release import holds_release

    if handed.any and not runs_here(beam_options(beam)):
        raise RequestError(
            "input: what is handed over in memory stays on this machine; write it where the "
            "workers of another runner can read it, and give its path"
        )
    registry.publisher(options)(kind, options, beam, payment)
    if not holds_release(options.output):
        raise FailedError(HANDED_OVER)


def _payment(beside: Mapping[str, Any]) -> Payment | None:
    ledger, population = beside["ledger"], beside["population"]
    if ledger is None and population is None:
        return None
    if ledger is None or population is None:
        missing = "ledger" if ledger is None else "population"
        raise RequestError(
            f"{missing} is missing: a release is paid for out of the budget of a population in a "
            "ledger"
        )
    return Payment(os.fspath(ledger), population)


def words(
    options: type[ReleaseOptions], request: Mapping[str, Any], handed: Handed
) -> dict[str, Any]:
    """What was asked in Python's types, in those of the options: texts as on a command line.

    Args:
        options: of the kind.
        request: option -> what was said; the log is left out.
        handed: takes what is handed over in memory.

    Raises:
        RequestError: data stand in the place of words.
    """
    said: dict[str, Any] = {}
    for name, value in request.items():
        if name == "input" or value is None:
            continue
        _require_said(name, value, name in options.files)
        several = type_of(options.model_fields[name])[0] is tuple
        if name in options.logs:
            said[name] = tuple(
                f"{key}={handed.log(one, name=f'{name}-{place}')[0]}"
                for place, (key, one) in enumerate(value.items())
            )
        elif name in options.files:
            said[name] = _declared(name, value, several, handed)
        elif several:
            said[name] = _several(value)
        else:
            said[name] = _word(value)
    return said


def _require_said(name: str, value: Any, declares: bool) -> None:
    """Refuse what holds data in the place of words; an error would quote it."""
    of_frame = hasattr(value, "dtype") and getattr(value, "shape", ()) != ()
    if hasattr(value, "meta") or (of_frame and not declares):  # polars' expressions have `meta`
        raise RequestError(
            f"{name}: {type(value).__name__} of a frame in the place of words: write what is meant "
            "as text, such as where='seconds > 5'"
        )


def _declared(name: str, value: Any, several: bool, handed: Handed) -> Any:
    """Declared values, and the column before them where there are several columns."""
    if isinstance(value, Mapping):
        return tuple(
            column if one is None else f"{column}={handed.values(name, one)}"
            for column, one in value.items()
        )
    return _several(value) if several else handed.values(name, value)


def _several(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return (value,) if isinstance(value, str) else tuple(value)


def _word(value: Any) -> Any:
    """A path is its text."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value
