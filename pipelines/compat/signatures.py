"""What Beam finds out of steps by looking at their code, found out once in a job.

Whenever it makes, checks, writes down or starts a step it looks through the arguments of all its
methods, some thirty, for state and timers: 1,300 times in a plan of ten metrics, 0.9 CPU seconds,
and 0.1 in a single histogram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import ismethod
from threading import Lock
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import execution
from apache_beam.transforms import core, userstate

from mechanisms.compat.switch import on

Finder = Callable[..., Any]


@contextmanager
def kept() -> Iterator[None]:
    """Have Beam remember what it finds, meanwhile."""
    _JOBS.begin()
    try:
        yield
    finally:
        _JOBS.end()


def _of_stage(build: Finder) -> Finder:
    """Beam's description of a stage for its worker, with the collections of that stage alone.

    Beam copies those of all stages into each: of a plan of N metrics N^2, 2,400 times 484 of 40.
    """

    @wraps(build)
    def built(manager: Any) -> Any:
        whole = manager.execution_context.pipeline_components
        steps = manager.stage.transforms
        named = {name for s in steps for name in (*s.inputs.values(), *s.outputs.values())}
        known = {name: whole.pcollections[name] for name in named if name in whole.pcollections}
        parts = ("coders", "windowing_strategies", "environments")
        own = SimpleNamespace(pcollections=known, **{part: getattr(whole, part) for part in parts})
        return build(
            SimpleNamespace(
                bundle_uid=manager.bundle_uid,
                stage=manager.stage,
                execution_context=SimpleNamespace(pipeline_components=own),
                state_api_service_descriptor=manager.state_api_service_descriptor,
                data_api_service_descriptor=manager.data_api_service_descriptor,
            )
        )

    return built


@dataclass
class _Jobs:
    """Those that run at once in this process, which may end in any order: the last one forgets."""

    running: int = 0
    usual: list[tuple[Any, str, Finder]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Put what remembers in the place of Beam's own, as far as this version of it has that."""
        with self.lock:
            self.running += 1
            for module, name, made in _INSTEAD if on() and self.running == 1 else ():
                if finder := getattr(module, name, None):
                    self.usual.append((module, name, finder))
                    setattr(module, name, made(finder))

    def end(self) -> None:
        """Give Beam its own back, and forget, if no other job runs."""
        with self.lock:
            self.running -= 1
            while self.usual and not self.running:
                setattr(*self.usual.pop())


_JOBS = _Jobs()


def _function(method: Any) -> Any:
    """What a method is bound from. Of lambdas each pipeline has its own: they are not kept."""
    function = method.__func__ if ismethod(method) else None
    return function if isinstance(function, FunctionType) else None


def _class(step: Any) -> Any:
    """Where its methods are from, unless it wraps a function, or methods of others, with theirs."""
    kind: Any = type(step)
    # Beam looks at bound methods alone: a function that is wrapped as it is is none of them.
    wraps = kind is core.CallableWrapperDoFn and isinstance(step.process, FunctionType)
    looks = hasattr(step, "_inspect_process") and not wraps
    if looks or any(map(ismethod, vars(step).values())):
        return None
    if kind not in _PLAIN:
        _PLAIN[kind] = _plain(kind)
    return kind if _PLAIN[kind] else None


# Weak keys: Beam makes classes of its own for each job, six of them for each window of a stream.
_PLAIN: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _plain(kind: Any) -> bool:
    """Whether the methods of its steps are those that it defines, and none that another step has.

    Beam's own steps that catch failures answer with whatever the step has that they wrap.
    """
    parts = [part for base in kind.__mro__ if base is not object for part in vars(base).items()]
    if {"__getattribute__", "__getattr__"} & {name for name, _ in parts}:
        return False
    shown = (part for name, part in parts if name[0] != "_" and hasattr(type(part), "__get__"))
    return all(isinstance(part, (FunctionType, classmethod, staticmethod)) for part in shown)


def _kept(find: Finder, key: Callable[[Any], Any]) -> Finder:
    """The same, found once for each key; lists and sets are copied."""
    known: dict[Any, Any] = {}

    @wraps(find)
    def remembered(argument: Any, *others: Any, **named: Any) -> Any:
        place = None if others or named else key(argument)
        if place is None:
            return find(argument, *others, **named)
        if place not in known:
            known[place] = find(argument)
        result = known[place]
        return tuple(map(copy, result)) if isinstance(result, tuple) else result

    return remembered


_INSTEAD: tuple[tuple[Any, str, Callable[[Finder], Finder]], ...] = (
    (core, "get_function_args_defaults", partial(_kept, key=_function)),
    (core, "_check_fn_use_yield_and_return", partial(_kept, key=_function)),
    (userstate, "get_dofn_specs", partial(_kept, key=_class)),
    (execution.BundleContextManager, "_build_process_bundle_descriptor", _of_stage),
)


class ViewedOptions(PipelineOptions):
    """Options that keep the views Beam takes of them; all views share one dictionary of values.

    Beam asks for the group about types several times a step, and builds a parser for it every time:
    in a plan of ten metrics thousands of parsers, a tenth of what the whole run costs.

    >>> from apache_beam.options.pipeline_options import StandardOptions
    >>> options = ViewedOptions(["--runner=FnApiRunner"])
    >>> options.view_as(StandardOptions) is options.view_as(StandardOptions)
    True
    """

    def view_as(self, cls: type[PipelineOptions]) -> Any:
        """The options of one group, and what is set in it holds for all.

        Args:
            cls: the group's class.
        """
        if not on():
            return super().view_as(cls)
        # Beam's options refuse attributes of their own.
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
