"""What studies ask: options with their limits, their defaults and what the command line says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from pipelines.requests import Whole

Epsilon = Annotated[float, Field(gt=0, le=700)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Ascending = AfterValidator(lambda values: tuple(sorted(set(values))))
Once = AfterValidator(lambda values: tuple(dict.fromkeys(values)))

Epsilons = Annotated[tuple[Epsilon, ...], Field(min_length=1), Ascending]
Deltas = Annotated[tuple[Delta, ...], Field(min_length=1), Ascending]
Sizes = Annotated[tuple[Whole, ...], Ascending]
Ns = Annotated[
    Sizes,
    Field(
        title="N",
        description="numbers of users, in place of those in --data; of a file, as many rows are "
        "chosen, always the same ones",
    ),
]


class Options(BaseModel):
    """What every study asks.

    The title of a field is its placeholder on the command line, its description the help. Results
    do not depend on what is excluded: a study that was begun goes on under another value of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    unit: ClassVar[str] = "the release"  # of which privacy is wanted

    systems: tuple[str, ...] = Field(
        min_length=1, title="NAME", description="names of systems or of sets of them; see below"
    )
    data: tuple[str, ...] = Field(min_length=1, title="DATA", description="populations; see below")
    repetitions: Whole = Field(
        10, ge=1, le=1_000_000, title="N", description="simulated releases of each setting"
    )
    seed: Whole = Field(0, title="SEED", description="of the simulations")
    output: str = Field(
        min_length=1, exclude=True, title="FOLDER", description="a local folder, new or begun"
    )
    jobs: Whole | None = Field(
        None, ge=1, le=1024, exclude=True, title="N",
        description="processes (default: as many as there are cores)",
    )  # fmt: skip


class EpsilonOptions(Options):
    """What studies ask that compare systems along epsilon."""

    epsilons: Epsilons = Field(title="E", description="privacy losses of {unit}")


def add_options(parser: Any, studies: Mapping[str, type[Options]]) -> None:
    """Add the options of one study, or of several that one command offers, each option once.

    Args:
        parser: of the command.
        studies: name -> its options. An option is required if all studies require it.
    """
    for name in dict.fromkeys(name for kind in studies.values() for name in kind.model_fields):
        fields = [kind.model_fields.get(name) for kind in studies.values()]
        texts: dict[str, list[str]] = {}
        for (study, kind), field in zip(studies.items(), fields, strict=True):
            if field is not None:
                text = str(field.description).format(unit=kind.unit) + _default(field)
                texts.setdefault(text, []).append(study)
        said = [f"of {' and '.join(some)}: {text}" for text, some in texts.items()]
        everywhere = all(fields) and len(texts) == 1
        parser.add_argument(
            flag(name),
            required=all(field is not None and field.is_required() for field in fields),
            help=next(iter(texts)) if everywhere else "; ".join(said),
            **_shape(next(field for field in fields if field is not None)),
        )


def flag(name: str) -> str:
    """An option as people type it.

    >>> flag("max_messages")
    '--max-messages'
    """
    return "--" + name.replace("_", "-")


def _shape(field: FieldInfo) -> dict[str, Any]:
    """How many words follow an option, and which."""
    kinds = [field.annotation, *get_args(field.annotation)]
    if field.annotation is bool:
        return {"action": "store_true", "default": None}
    if get_origin(field.annotation) is Literal:
        return {"choices": get_args(field.annotation)}
    several = any(get_origin(kind) is tuple for kind in kinds)
    return {"nargs": "+", "metavar": field.title} if several else {"metavar": field.title}


def _default(field: FieldInfo) -> str:
    """What holds if nothing is said; nothing where that goes without saying."""
    if field.is_required() or field.default in (None, ()) or field.default is False:
        return ""
    several = isinstance(field.default, tuple)
    return f" (default: {' '.join(map(str, field.default)) if several else field.default})"
