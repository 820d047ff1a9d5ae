"""What studies ask: options with their limits, their defaults and what the command line says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from pipelines.request.options import description, flag, option
from pipelines.request.requests import Epsilon, Whole

Delta = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Ascending = AfterValidator(lambda values: tuple(sorted(set(values))))
Once = AfterValidator(lambda values: tuple(dict.fromkeys(values)))

Epsilons = Annotated[
    tuple[Epsilon, ...],
    option("privacy losses to compare at", metavar="E", min_length=1),
    Ascending,
]
Deltas = Annotated[tuple[Delta, ...], Field(min_length=1), Ascending]
Names = Annotated[
    tuple[str, ...],
    option("names of systems or of sets of them; see below", metavar="NAME", min_length=1),
]
Texts = Annotated[tuple[str, ...], option("populations; see below", metavar="DATA", min_length=1)]
Times = Annotated[
    Whole, option("simulated releases of each setting", metavar="N", ge=1, le=1_000_000)
]
Sizes = Annotated[tuple[Whole, ...], Ascending]
Ns = Annotated[
    Sizes,
    option(
        "numbers of users, in place of those in --data; of a file, as many rows are chosen, always "
        "the same ones",
        metavar="N",
    ),
]


class Options(BaseModel):
    """What every study asks.

    Results do not depend on what is excluded: a study that was begun goes on under another value of
    it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    systems: Names
    data: Texts
    repetitions: Times = 10
    seed: Whole = option("of the simulations", 0, metavar="SEED")
    output: str = option(
        "a local folder, new or begun", metavar="FOLDER", min_length=1, exclude=True
    )
    jobs: Whole | None = option(
        "processes (default: as many as there are cores)", None, metavar="N", ge=1, le=1024,
        exclude=True,
    )  # fmt: skip


class EpsilonOptions(Options):
    """What studies ask that compare systems along epsilon."""

    epsilons: Epsilons


def add_options(parser: Any, studies: Mapping[str, type[Options]]) -> None:
    """Add the options of one study, or of several that one command offers, each option once.

    Args:
        parser: of the command.
        studies: name -> its options. An option is required if all studies require it.
    """
    for name in dict.fromkeys(name for kind in studies.values() for name in kind.model_fields):
        fields = {study: kind.model_fields.get(name) for study, kind in studies.items()}
        known = {study: field for study, field in fields.items() if field is not None}
        texts: dict[str, list[str]] = {}
        for study, field in known.items():
            texts.setdefault(f"{description(field)}{_default(field)}", []).append(study)
        everywhere = len(known) == len(studies)
        parser.add_argument(
            flag(name),
            required=everywhere and all(field.is_required() for field in known.values()),
            help="; ".join(
                text if everywhere and len(texts) == 1 else f"of {' and '.join(some)}: {text}"
                for text, some in texts.items()
            ),
            **_shape(next(iter(known.values()))),
        )


def _shape(field: FieldInfo) -> dict[str, Any]:
    """How many words follow an option, and which."""
    kinds = [field.annotation, *get_args(field.annotation)]
    if field.annotation is bool:
        return {"action": "store_true", "default": None}
    if get_origin(field.annotation) is Literal:
        return {"choices": get_args(field.annotation)}
    metavar = description(field).metavar
    several = any(get_origin(kind) is tuple for kind in kinds)
    return {"nargs": "+", "metavar": metavar} if several else {"metavar": metavar}


def _default(field: FieldInfo) -> str:
    """What holds if nothing is said; nothing where that goes without saying."""
    if field.is_required() or field.default in (None, ()) or field.default is False:
        return ""
    several = isinstance(field.default, tuple)
    return f" (default: {' '.join(map(str, field.default)) if several else field.default})"
