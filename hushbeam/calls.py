"""A job within somebody's Python: silent as the command, with its errors in a caller's words."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator

from pipelines.errors import Caution, FailedError, RequestError, WithheldError, stranger
from pipelines.request.answers import quiet
from pipelines.request.options import undashed

HANDED_OVER = (
    "the job was handed over to a service: once it has run, hushbeam.Release opens its folder"
)


@contextlib.contextmanager
def called(named: Callable[[str], str] = str, debug: bool = False) -> Iterator[list[str]]:
    """Nothing is shown meanwhile, and no exception quotes the data.

    Args:
        named: takes what is said to what a caller calls the things in it.
        debug: whether strangers' exceptions and Beam's log are let through, which may quote it.

    Yields:
        What there is to think over, once it is over; `warn` says it.

    Raises:
        RequestError, WithheldError, FailedError: as the command, options without dashes.
    """
    cautions: list[str] = []
    failure: Exception | None = None
    silence = contextlib.nullcontext() if debug else quiet()
    with silence, warnings.catch_warnings(record=True) as heard:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield cautions
        except (RequestError, WithheldError, FailedError) as error:
            failure = error
        except Exception as error:
            if debug:
                raise
            failure = stranger(error)
    said = (str(one.message) for one in heard if issubclass(one.category, Caution))
    cautions += [named(undashed(line)) for line in said]
    if failure is not None:  # out of sight of what it was made of, whose text may quote the data
        failure.args = (named(undashed(str(failure))),)
        raise failure from None


def warn(cautions: list[str], stacklevel: int) -> None:
    """Hand what is to be thought over to the caller's own warnings.

    Args:
        cautions: of `called`.
        stacklevel: as `warnings.warn` takes it, from the function that calls this one.
    """
    for line in cautions:
        warnings.warn(line, Caution, stacklevel=stacklevel + 1)
