"""What a command leaves unimported of that which Beam and Arrow import in case somebody has it.

Beam registers types of pandas and torch, and sources and sinks of Google's services and MongoDB,
where their packages are installed: 0.8 of the 1.4 CPU seconds that its import takes, for a job that
reads and writes local files with the local runner. It tries each package and goes on without it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard

from mechanisms import plug_ins
from mechanisms.compat.switch import on

# Absent while Beam is imported: packages, and the part of Beam that needs Google's.
_OPTIONAL = (
    "absl", "bson", "pandas", "pymongo", "torch", "google.cloud.", "apitools", "apache_beam.io.gcp",
)  # fmt: skip

# Executed when something of them is asked for: what scipy copies of numpy's names, and what others
# have for other jobs. None whose parts somebody imports before itself.
_LATER = {
    "dateutil.parser", "grpc.aio", "httplib2", "numpy.char", "numpy.ctypeslib", "numpy.f2py",
    "numpy.rec", "numpy.testing", "pydoc", "yaml",
}  # fmt: skip

# Beam asks IPython, half a second to import, whether a pipeline runs in a notebook.
_NOTEBOOK = "IPython"

# Words for Beam that change neither its runner nor its file systems.
_LOCAL = "--direct_"


def begin() -> None:
    """Leave out what a command on local files needs not, from now on; of a process of ours alone.

    A notebook, or somebody's own pipeline, is never told so. What is imported already stays.
    """
    if on() and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def end() -> None:
    """Have Beam import all there is: for another runner, or a source that only then is there.

    Without effect once Beam is imported.
    """
    with contextlib.suppress(ValueError):
        sys.meta_path.remove(_FINDER)


def end_unless_local(beam_arguments: Sequence[str]) -> None:
    """Have Beam import all there is if any option is for it, but those of its local runner.

    Args:
        beam_arguments: what is for Beam.
    """
    flags = [word for word in beam_arguments if word.startswith("-")]
    if not all(flag.startswith(_LOCAL) for flag in flags):
        end()


class _SparingFinder(MetaPathFinder):
    """Finds Beam and Arrow as Python would, and nothing optional while they are executed.

    Packages that are in use stay: Python looks for none of them again.
    """

    def __init__(self) -> None:
        self._executed = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _NOTEBOOK or (self._executed and name.startswith(_OPTIONAL)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        finish = _FINISH.get(name)
        if name not in _LATER and finish is None:
            return None
        if plug_ins.of_others():  # which may count on all of it
            end()
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        if finish is None:
            spec.loader = _LookUpLoader(spec.loader)
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self._executed += 1
            try:
                with _stand_ins() if name == "apache_beam" else contextlib.nullcontext():
                    execute(module)
                finish()
            finally:
                self._executed -= 1

        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - of this one module
        return spec


_FINDER = _SparingFinder()


class _LookUpLoader(Loader):
    """Executes a module when one of its names is looked up, once, whichever threads look.

    Python's own LazyLoader executes it for its `__dict__` already, which is read of every module
    there is to size what a job caches, and lets a second thread see half of it before 3.12.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader, self._lock, self._begun = loader, threading.RLock(), False

    def exec_module(self, module: ModuleType) -> None:
        def look_up(name: str) -> Any:
            if name.startswith("__") and name != "__all__":  # what is asked of any object
                raise AttributeError(name)
            with self._lock:
                if not self._begun:
                    self._begun = True
                    self._loader.exec_module(module)
                if name in vars(module):
                    return vars(module)[name]
                if vars(module)["__getattr__"] is look_up:
                    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
                return getattr(module, name)  # of its own such function

        vars(module)["__getattr__"] = look_up


def _finish_arrow() -> None:
    """Have Arrow look for pandas now, for it looks once; it looks again where it has to make some.

    It would at the first list that becomes an array, in case that is a series.
    """
    import pyarrow as pa

    if "pandas" not in sys.modules:
        pa.array([])


def _finish_beam() -> None:
    """Have Google's storage ready at the first of its names."""
    from apache_beam.io.filesystems import FileSystems

    known = FileSystems.get_filesystem

    def get_filesystem(path: str) -> object:
        if FileSystems.get_scheme(path) == "gs":
            _import_storage()
        return known(path)

    setattr(FileSystems, "get_filesystem", staticmethod(get_filesystem))  # noqa: B010


def _import_storage() -> None:
    """What Beam would have of Google's storage, had it imported all there is."""
    # Which errors are worth another attempt: Beam knows by what it could import.
    with contextlib.suppress(ImportError):
        from apache_beam.utils import retry
        from apitools.base.py.exceptions import HttpError
        from google.api_core.exceptions import GoogleAPICallError

        retry.HttpError, retry.GoogleAPICallError = HttpError, GoogleAPICallError
    with contextlib.suppress(ImportError):  # Beam says what to install
        import_module("apache_beam.io.gcp.gcsfilesystem")


def _is_subhint(hint: object, superhint: object) -> bool:
    """Beartype's answer: its 300 modules are imported with the first question that needs them."""
    if _is_plain(hint) and _is_plain(superhint):  # as of blocks and bytes
        return issubclass(hint, superhint)
    from beartype import door, roar

    try:
        return door.is_subhint(hint, superhint)
    except roar.BeartypeDoorException:  # as Beam answers
        return False


def _is_plain(hint: object) -> TypeGuard[type]:
    """Whether a hint is a class, and no generic one."""
    return type(hint) is type and getattr(hint, "__orig_bases__", (NamedTuple,)) == (NamedTuple,)


# Modules that Beam takes names of, and mostly uses none: what they are while it is imported.
_STAND_INS: dict[str, dict[str, object]] = {
    "beartype.door": {"is_subhint": _is_subhint},
    "beartype.roar": {"BeartypeDoorException": ()},  # none reaches Beam
}


@contextlib.contextmanager
def _stand_ins() -> Iterator[None]:
    """Have them meanwhile; what is in use stays."""
    added = [name for name in _STAND_INS if name not in sys.modules]
    for name in added:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(_STAND_INS[name])
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


class _EmptyDocstring(defaultdict[str, list[Any]]):
    """A docstring with nothing in it."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(list)

    def __str__(self) -> str:
        return "\n"


# Who parses docstrings of functions and writes them anew, which nobody reads.
_DOCS = {"pyarrow.vendored.docscrape": "NumpyDocString", "scipy._lib._docscrape": "FunctionDoc"}


def _finish_docstrings() -> None:
    for module in _DOCS.keys() & sys.modules.keys():
        setattr(sys.modules[module], _DOCS[module], _EmptyDocstring)


_FINISH: dict[str, Callable[[], None]] = {
    "apache_beam": _finish_beam,
    "pyarrow": _finish_arrow,
    **dict.fromkeys(_DOCS, _finish_docstrings),
}
