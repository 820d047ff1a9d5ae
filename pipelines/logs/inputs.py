"""What a job reads, looked at before it runs: files, their columns, and the declared domain."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mechanisms.nearest import meant
from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution, Notice, RequestError, because, reason
from pipelines.logs.reading import wrong
from pipelines.releases import release
from pipelines.request.spans import seconds_of
from pipelines.storage.paths import DAY
from pipelines.storage.stores import require_reachable
from pipelines.wording import number_of
from transforms.columns import is_moment, type_name
from transforms.elements.progress import FILES, READ, ROWS
from transforms.encoders.domain import DeclaredValues, Domain, IntegerRange, integer_range
from transforms.encoders.sessions import Sessions
from transforms.encoders.users import UserDigest
from transforms.expressions.functions import FUNCTIONS
from transforms.expressions.parser import parse
from transforms.expressions.tree import ExpressionError
from transforms.expressions.view import View, ViewError, bind
from transforms.files.format import FileFacts
from transforms.files.kinds import (
    AS_WRITTEN,
    Agreed,
    alike,
    distinct,
    kind_of,
    of_log,
    of_some,
    shared,
)
from transforms.files.names import listed
from transforms.files.partitions import shown
from transforms.files.reading import PLAIN, Reading
from transforms.files.source import UnreadableError, begin, format_of, head, look, packed, tables
from transforms.files.systems import UNCOMPRESSED, File, FileSystems, compression_of, real_paths

if TYPE_CHECKING:
    from transforms.rows.telemetry import ReadTelemetry

LARGEST_DOMAIN_FILE = 1 << 28  # bytes
_LARGEST_DOMAIN = 1 << 24  # values; so many were seen to finish, in half a minute and 4 GB
_FOOTER_READERS = 16
# Files up to which all are looked at before a job begins; of more these, and the workers hold the
# others to them. Of a million in a bucket the footers alone would take hours; of 5,000 on a disk to
# read them twice takes a tenth of a count.
_ALL_FILES, _SOME_FILES = 1_000, 16

T = TypeVar("T")


@dataclass(frozen=True)
class Telemetry:
    """Files that were looked at: of Parquet and its like the footers, and all of a file of text.

    Attributes:
        files: every file, in a fixed order.
        counts: how many rows each of them holds.
        schemas: the columns of each file, and those that are derived of them; those that a job
            asks for are checked in all.
        reading: of text.
        missing: of several days that were looked for, those without a file of some pattern.
        heads: (file, its columns) where nobody reads the files, and their columns are known.
        agreed: as what columns are read that are laid out differently.
        patterns: that match the files, and no other twice, where these are too many for a graph.
    """

    files: tuple[str, ...]
    counts: RowCounts = field(hash=False)
    schemas: tuple[pa.Schema, ...]
    reading: Reading = PLAIN
    missing: tuple[str, ...] = ()
    agreed: Agreed = AS_WRITTEN
    heads: tuple[tuple[str, pa.Schema], ...] = ()
    patterns: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """For workers: of all files that are laid out alike one, for steps hold what they are of.

        The names of 5,000 files took each step that is pickled 0.1 s, and those of a million are
        more than a runner takes for a graph.
        """
        pairs = _alike(zip(self.files, self.schemas, strict=True))
        files, schemas = zip(*pairs, strict=True) if pairs else ((), ())
        return {**vars(self), "files": files, "schemas": schemas}

    @property
    def rows(self) -> int:
        """How many rows the files hold together; text is read for that, if nobody has yet."""
        return sum(self.counts.known)

    @property
    def about(self) -> int:
        """Roughly as many, for what costs nothing but time where it is wrong."""
        return sum(facts.rows for facts in self.counts.facts)

    def all_came(self, tallies: dict[str, int]) -> bool:
        """Whether as many rows came as the files hold, or their readers said.

        Args:
            tallies: of the job; what the readers said is taken out.
        """
        files, read = tallies.pop(FILES, 0), tallies.pop(READ, 0)
        came = tallies.get(ROWS, 0)
        if not self.counts.whole:
            return (files, read) == (self.counts.files, came)
        return self.unread or came == self.rows

    def whole(self, why: str) -> Telemetry:
        """The same with the columns that JSON has beyond the beginnings of its files.

        Args:
            why: they are needed, for whoever waits.
        """
        # A text with a header says its columns there.
        if self.counts.later is None or all(format_of(one).name == "CSV" for one in self.files):
            return self
        self.counts.count(why)
        pairs = zip(self.schemas, self.counts.facts, strict=True)
        return replace(self, schemas=tuple(_extended(seen, facts.schema) for seen, facts in pairs))

    def _later(self, column: str) -> Telemetry | None:
        """The same with its later columns, for one that is not seen; None if there are none."""
        whole = self.whole(f"column {column!r} is not at its beginning")
        return None if whole == self else whole

    @property
    def columns(self) -> tuple[tuple[str, pa.Schema], ...]:
        """(file, its columns) of the first of all files that are laid out alike."""
        return _alike((*zip(self.files, self.schemas, strict=True), *self.heads))

    @property
    def unseen(self) -> bool:
        """Whether nobody knows what columns there are."""
        return not (self.files or self.heads)

    @property
    def unread(self) -> bool:
        """Whether nobody has looked at the files, or ever will: a collector has none."""
        return not self.files

    def hint(self, column: str) -> str:
        """What to do where a column of text should hold something else; nothing of other files."""
        texts = all(format_of(file).text for file in (*self.files, *(f for f, _ in self.heads)))
        return f"; of a file of text say what it holds: --types {column}=float" if texts else ""

    def read(self, columns: Iterable[str]) -> ReadTelemetry:
        """From nothing to tables of the columns that are asked for."""
        from transforms.rows.telemetry import ReadTelemetry, splits

        named, counted = tuple(sorted(columns)), not self.counts.whole
        read = ReadTelemetry(self.files, named, self.reading, self.agreed, counted)
        if self.patterns:
            read = replace(
                read, files=self.patterns, matching=len(self.files), split=splits(self.files, named)
            )
        return read

    def changed(self, hidden: bool = False) -> str | None:
        """What is no more as it was when they were looked at; None if nothing can be told.

        Args:
            hidden: whether nobody is to learn how many rows there are.
        """
        if not self.counts.whole:
            return None
        try:
            rows = sum(_looked_at(file, self.reading).rows for file in self.files)
        except RequestError as error:
            return str(error).removeprefix("--input: ")
        if rows == self.rows:
            return None
        if hidden:
            return "they hold other rows than before"
        return f"they hold {number_of(rows, 'row')}, and held {self.rows:,} before"

    def seen(self, view: View) -> Telemetry:
        """The same with the columns that are derived.

        Raises:
            RequestError: an expression does not fit the columns of a file.
        """
        if not view:
            return self
        seen: dict[int, pa.Schema] = {}
        for file, schema in self.columns:
            try:
                seen[id(schema)] = view.schema(schema)
            except ViewError as error:
                late = None if error.unknown is None else self._later(error.unknown)
                if late is not None:
                    return late.seen(view)
                refused = wrong(error)
                if error.unknown is None:
                    raise refused from None
                near = meant(error.unknown, {name for name, _ in view.derived} - {error.name})
                there = near or f"; {listed(file, schema, self.reading, error.unknown)}"
                raise RequestError(f"{refused}{there}") from None
        return self._with(seen)

    def _with(self, columns: dict[int, pa.Schema]) -> Telemetry:
        """The same with other columns, by the objects of those before."""
        heads = tuple((file, columns[id(schema)]) for file, schema in self.heads)
        schemas = tuple(columns[id(schema)] for schema in self.schemas)
        return replace(self, schemas=schemas, heads=heads)

    def in_sessions(self, made: Sessions) -> Telemetry:
        """The same with the columns of sessions; refused if they are there, or no such moments."""
        kind = self.column_type(made.time, "--sessions")
        if not (self.unseen or is_moment(kind)):
            raise RequestError(
                f"--sessions: {made.time!r} holds {type_name(kind)}; moments are needed"
            )
        for _, own in self.columns:
            if taken := sorted({*own.names} & {*made.fields.names}):
                raise RequestError(f"--sessions: there is a column {taken[0]!r}: rename it")
        self.counts.count("sessions leave no reader's word of them")
        return self._with({id(own): pa.schema([*own, *made.fields]) for _, own in self.columns})

    def require_rows(self, rows: Iterable[tuple[str, str]]) -> None:
        """Hold expressions of rows against the columns.

        Args:
            rows: (where it stands, expression), parts before what they are parts of.

        Raises:
            RequestError: one does not fit; with its place.
        """
        kinds = {schema: file for file, schema in self.columns}
        for (place, text), (schema, file) in product(rows, kinds.items()):
            try:
                bind(parse(text), schema)
            except ExpressionError as error:
                head, _, rest = error.why.partition(": ")
                if error.unknown and (late := self._later(error.unknown)):
                    return late.require_rows(rows)
                why = rest if head in FUNCTIONS else error.why  # functions have other names in SQL
                if error.unknown:
                    why += f"; {listed(file, schema, self.reading, error.unknown)}"
                raise RequestError(f"{place}: {why}") from None

    def column_type(self, column: str, flag: str) -> pa.DataType:
        """The type of a column that every file must have; null if nobody has looked.

        Raises:
            RequestError: a file lacks it or has two of that name, or two files hold other things
                in it, as text in one and numbers in the other.
        """
        if self.unseen:
            return pa.null()
        kinds = []
        for file, schema in self.columns:
            if schema.get_field_index(column) < 0:  # none, or more than one
                if late := self._later(column):
                    return late.column_type(column, flag)
                has = "several columns" if column in schema.names else "no column"
                raise RequestError(
                    f"{flag}: {shown(file)} has {has} {column!r}; "
                    f"{listed(file, schema, self.reading, column)}"
                )
            kinds.append(schema.field(column).type)
        if len({*kinds}) > 1:
            files = [file for file, _ in self.columns]
            first, names = kinds[0], [kind_of(kind) for kind in kinds]
            unlike = (k for k, name in enumerate(names) if not alike(name, names[0]))
            other = next(unlike, next(k for k, kind in enumerate(kinds) if kind != first))
            raise RequestError(
                f"{flag}: column {column!r} holds {names[0]} ({first}) in {shown(files[0])} but "
                f"{names[other]} ({kinds[other]}) in {shown(files[other])}; write the files with "
                "one schema"
            )
        return kinds[0]


def _alike(pairs: Iterable[tuple[str, pa.Schema]]) -> tuple[tuple[str, pa.Schema], ...]:
    """(file, its columns) of the first of all files that share an object of columns."""
    first: dict[int, tuple[str, pa.Schema]] = {}
    for pair in pairs:
        first.setdefault(id(pair[1]), pair)
    return tuple(first.values())


def _extended(seen: pa.Schema, known: pa.Schema) -> pa.Schema:
    return pa.schema([*seen, *(field for field in known if field.name not in seen.names)])


@dataclass
class RowCounts:
    """How many rows files hold; of long texts about how many, until somebody needs the number.

    Copies of a `Telemetry` share one, so that no file is counted twice.

    Attributes:
        facts: what is known of each file.
        later: looks at all of each file; None where that was done at once.
        whole: whether all rows are counted by now.
        files: how many there are.
    """

    facts: list[FileFacts]
    later: Callable[[], list[FileFacts]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.whole, self.files = self.later is None, len(self.facts)

    def __getstate__(self) -> dict[str, Any]:
        """For workers: all files as one."""
        facts = FileFacts(sum(one.rows for one in self.facts), pa.schema([]), self.whole)
        return {"facts": [facts], "later": None, "whole": self.whole, "files": self.files}

    def count(self, why: str) -> None:
        """Count what is not counted yet.

        Args:
            why: that has to be, for whoever waits.

        Raises:
            RequestError: a file is not of the format of its name.
        """
        if not self.whole:
            if self.later is None:
                raise ValueError("rows are counted where a job is started, and by no worker")
            warnings.warn(f"all rows are counted first: {why}", Notice, stacklevel=2)
            self.facts, self.whole = self.later(), True

    @property
    def known(self) -> list[int]:
        """How many rows each file holds."""
        self.count("the design of the noise needs their number")
        return [facts.rows for facts in self.facts]


def of_rows(rows: int) -> RowCounts:
    """Of a number that is known."""
    return RowCounts([FileFacts(rows, pa.schema([]))])


UNREAD = Telemetry((), RowCounts([]), ())


def headed(patterns: tuple[str, ...], reading: Reading, beginnings: bool = False) -> Telemetry:
    """Files of which the columns alone are looked at, as far as they are here and say them.

    Args:
        patterns: files or globs; of those in a bucket nobody is asked.
        reading: of text.
        beginnings: whether the first rows are read where these alone say them, and not all.

    Raises:
        RequestError: a file is not of the format of its name.
    """
    try:
        files = [file for one in patterns if "://" not in one for file in _match(one)]
    except NoFilesError:
        return UNREAD
    heads = []
    for file in files:
        try:
            schema = head(file, reading)
        except UnreadableError as error:
            raise RequestError(f"--input: {error}") from None
        if schema is None and beginnings:
            schema = _begun(file, reading).schema
        heads += [] if schema is None else [(file, schema)]
    return replace(UNREAD, reading=reading, heads=tuple(heads))


class Request(Protocol):
    """Where a request reads and writes, and what tells its users apart."""

    @property
    def input(self) -> tuple[str, ...]: ...
    @property
    def output(self) -> str: ...
    @property
    def user_column(self) -> str | None: ...
    @property
    def reading(self) -> Reading: ...
    @property
    def view(self) -> View: ...


class Source(NamedTuple):
    """What a plan has settled before one of its metrics is prepared.

    Attributes:
        telemetry: the files, opened once for all metrics, or `UNREAD`; None to open what the
            metric's own options name.
        seed: what public randomness comes from, so that clients and collectors agree on it; None
            to draw it.
        paid: whether a ledger looks at where the release is to go: what it has paid for may stand
            there already.
    """

    telemetry: Telemetry | None = None
    seed: int | None = None
    paid: bool = False

    def open(self, request: Request, empty: bool = False, days: Sequence[str] = ()) -> Telemetry:
        """The files of a request, after a look at where its release is to go.

        Args:
            request: what is asked.
            empty: whether there may be no row in them.
            days: as of `open_days`, if it is about several.

        Raises:
            RequestError: the output is taken, there is no input, or no telling users apart; or an
                expression does not fit it.
        """
        telemetry = self.telemetry
        if telemetry is None:
            if not self.paid:
                release.require_vacant(request.output)
            telemetry = (
                open_days(request.input, days, request.reading)
                if days
                else open_telemetry(request.input, empty, request.reading)
            )
        if request.user_column is not None:
            check_user_column(telemetry, request.user_column)
        if (made := sessions_of(request)) is not None:
            telemetry = telemetry.in_sessions(made)
        view = request.view
        if view.where and getattr(request, "fill", None) is not None:
            raise RequestError(
                "--where: a row of which it does not hold would be reported as the value of "
                "--unusable fill, which it does not have: say hide, or count"
            )
        return telemetry.seen(view)

    def public_seed(self) -> int:
        """0 .. 2^63 - 1."""
        return int(SecureRandom().integers(1 << 63, 1)[0]) if self.seed is None else self.seed


ALONE = Source()


def sessions_of(request: Any) -> Sessions | None:
    """How a request cuts rows to sessions, if it does; it is refused where nobody is a user."""
    if (text := getattr(request, "sessions", None)) is None:
        return None
    if request.user_column is None:
        raise RequestError("--sessions: are of users: name the --user-column")
    time, _, span = (part.strip() for part in text.rpartition(","))
    try:
        return Sessions(time, seconds_of(span))
    except ValueError:
        raise RequestError("--sessions: a column and a span are needed: at,30min") from None


def open_telemetry(
    patterns: tuple[str, ...], empty: bool = False, reading: Reading = PLAIN, absent: bool = False
) -> Telemetry:
    """Find the files and look at them; of text alone is a row read, for its rows are counted.

    Args:
        patterns: files or globs, local or on a file system that Beam knows.
        empty: whether there may be no row in them: where nobody is to learn that nobody took part.
        reading: of text.
        absent: whether a glob may match nothing: where a calendar says which windows are released,
            so that one without files is no mistake in a name.

    Raises:
        RequestError: a pattern matches nothing, or a file is not of the format of its name.
    """
    # A file that is named twice, by whatever path, must not have its rows counted twice.
    matches = [file for pattern in patterns for file in _match(pattern, absent)]
    files = tuple(dict(zip(real_paths(matches), matches, strict=True)).values())
    if len(files) > _ALL_FILES:
        return _of_many(files, patterns if len(files) == len(matches) else (), reading)
    # What files of several formats agree on follows from all their columns.
    texts = all(format_of(file).text for file in files)
    looks = _in_threads(_begun if texts else _looked_at, files, reading)
    schemas = [*shared(look.schema for look in looks)]
    looks = [look._replace(schema=own) for look, own in zip(looks, schemas, strict=True)]
    later = partial(_in_threads, _looked_at, files, reading)
    counts = RowCounts(looks, None if all(look.whole for look in looks) else later)
    rows_of_files = [look.rows for look in looks]
    if not (sum(rows_of_files) or empty):
        raise RequestError(f"--input: no rows in {len(files)} file(s); there is nothing to count")
    agreed = of_log(schemas, rows_of_files)
    read = {id(schema): agreed.schema(schema) for schema in distinct(schemas)}
    own = tuple(read[id(schema)] for schema in schemas)
    return Telemetry(files, counts, own, reading, agreed=agreed)


def _of_many(files: tuple[str, ...], patterns: tuple[str, ...], reading: Reading) -> Telemetry:
    """Files of which the first, the last and some between are looked at.

    Args:
        files: all of them.
        patterns: that match each of them once; none to hand on the files.
        reading: of text.

    Raises:
        RequestError: as `open_telemetry`, of these files.
    """
    places = np.linspace(0, len(files) - 1, _SOME_FILES).astype(int)
    looks = _in_threads(_looked_at, [files[place] for place in places], reading)
    schemas, rows = [*shared(look.schema for look in looks)], [look.rows for look in looks]
    agreed = of_some(schemas, rows)
    read = [agreed.schema(schema) for schema in schemas]
    about = FileFacts(max(1, sum(rows) // len(rows)), read[0], whole=False)
    own = [read[0]] * len(files)
    for place, schema in zip(places.tolist(), shared(read), strict=True):
        own[place] = schema
    counts = RowCounts([about] * len(files), partial(_in_threads, _looked_at, files, reading))
    return Telemetry(files, counts, tuple(own), reading, agreed=agreed, patterns=patterns)


def open_days(
    patterns: tuple[str, ...], days: Sequence[str], reading: Reading = PLAIN
) -> Telemetry:
    """The files of several days, and which days lack some: a gap, and no day without rows.

    Args:
        patterns: as of `open_telemetry`; {day} stands for a day, of which a file of each of them is
            needed. Those without it hold all days.
        days: names of days, the newest first.
        reading: of text.

    Raises:
        RequestError: the newest day lacks one, or as `open_telemetry`.
    """
    dated = [pattern for pattern in patterns if DAY in pattern]
    files = {day: [one for p in dated if _stands(one := p.replace(DAY, day))] for day in days}
    # Those of whom one pattern alone tells would pass for absent where it has no file.
    missing = tuple(day for day in days if len(files[day]) < len(dated))
    lacking = (one for p in dated if (one := p.replace(DAY, days[0])) not in files[days[0]])
    if (none := next(lacking, None)) is not None:
        raise RequestError(
            f"--input: no file matches {none}: what is not there yet is no day on which nobody was "
            "active; run it when it is (a day without rows has a file without rows)"
        )
    whole = (pattern for pattern in patterns if pattern not in dated)
    telemetry = open_telemetry(
        (*whole, *(one for day in days for one in files[day])), True, reading
    )
    return replace(telemetry, missing=missing)


def _stands(pattern: str) -> bool:
    """Whether there are files of a pattern."""
    try:
        return bool(matched(pattern))
    except NoFilesError:
        return False


class NoFilesError(RequestError):
    """A path or glob names nothing."""


def matched(pattern: str) -> list[File]:
    """The files that a path or glob names, at least one.

    Raises:
        NoFilesError: there is none.
        RequestError: they cannot be looked for.
    """
    try:
        files: list[File] = FileSystems.named(pattern)
    except (OSError, ValueError) as error:
        raise RequestError(f"--input: cannot look for {pattern}: {reason(error)}") from None
    if not files:
        raise NoFilesError(f"--input: no file matches {pattern}")
    return files


def _match(pattern: str, absent: bool = False) -> list[str]:
    """The files of one pattern; of a glob there may be none, if a calendar says so."""
    if absent and set(pattern) & set("*?["):
        try:
            matched(pattern)
        except NoFilesError:
            warnings.warn(
                f"no file matches {pattern}: released as a log without rows", Caution, stacklevel=1
            )
            return []
    paths = sorted(entry.path for entry in matched(pattern))
    for file in paths:
        if "://" in file and set(file) & set("*?"):
            # Beam reads a name as a pattern, and cannot be told otherwise: it would read others.
            raise RequestError(f"--input: rename {shown(file)}: Beam takes * and ? for a pattern")
        codec = compression_of(file)
        if codec != UNCOMPRESSED and not packed(file):
            raise RequestError(
                f"--input: {shown(file)}: Beam takes this name for a {codec} file's and would "
                "unpack it; unpack it yourself, or give it a name that ends in .parquet"
            )
    return paths


def _in_threads(
    look: Callable[[str, Reading], T], files: Sequence[str], reading: Reading
) -> list[T]:
    """What there is to see of each file, by threads."""
    with ThreadPoolExecutor(_FOOTER_READERS) as pool:
        # Some files at a time: of small ones, handing each to a thread took longer than its footer.
        size = -(-len(files) // _FOOTER_READERS) or 1
        some = (files[start : start + size] for start in range(0, len(files), size))
        return [one for part in pool.map(partial(_all_of, look, reading), some) for one in part]


def _all_of(look: Callable[[str, Reading], T], reading: Reading, files: Sequence[str]) -> list[T]:
    return [look(file, reading) for file in files]


def _begun(file: str, reading: Reading) -> FileFacts:
    try:
        return begin(file, reading) or look(file, reading)
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None


def _looked_at(file: str, reading: Reading) -> FileFacts:
    try:
        return look(file, reading)
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None


def unreadable(
    path: str, columns: tuple[str, ...] | None = None, reading: Reading = PLAIN
) -> UnreadableError | None:
    """Why not all of a file can be read, its rows as well as its footer; None if it can.

    Args:
        path: of the file.
        columns: that matter, if not all do.
        reading: of text.
    """
    try:
        wanted = look(path, reading).schema.names if columns is None else columns
        for _ in tables(path, wanted, reading):
            pass
    except UnreadableError as error:
        return error
    return None


def read_domain(text: str, column: pa.DataType, other: bool, least: int = 2) -> Domain:
    """The declared domain of a column.

    Args:
        text: LOW..HIGH, a list of texts as JSON has it, or a file with one value a line.
        column: the type of the column it describes.
        other: whether values outside it share one more bin.
        least: how many values there must be.

    Raises:
        RequestError: the domain is malformed or does not fit the column.
    """
    bounds = integer_range(text)
    domain: Domain
    if bounds is not None:
        domain = IntegerRange(*bounds, other=other)
        if not bounds[0] <= bounds[1]:
            raise RequestError(f"--domain: {text} is empty: the first number must not be larger")
        if not all(-(1 << 62) <= bound <= 1 << 62 for bound in bounds):
            raise RequestError(f"--domain: {text} reaches beyond 62-bit integers")
    elif text.startswith("["):
        domain = DeclaredValues(written_out(text), other)
    else:
        domain = DeclaredValues(domain_lines(text), other)
    require_fitting(domain, column, least)
    return domain


def require_fitting(domain: Domain, column: pa.DataType, least: int = 1) -> None:
    """Refuse values that a column cannot hold, too few of them, or too many.

    Args:
        domain: the values.
        column: the type of the column.
        least: how many values there must be.

    Raises:
        RequestError: with what to do.
    """
    if not domain.size >= least:
        values = "value is" if least == 1 else "values are"
        raise RequestError(
            f"--domain: {domain.size or 'none'} declared, and at least {least} {values} needed"
        )
    if not domain.size <= _LARGEST_DOMAIN:
        raise RequestError(
            f"--domain: {domain.size:,} values are more than the {_LARGEST_DOMAIN:,} that can be "
            "counted; declare a coarser domain"
        )
    if not (pa.types.is_null(column) or domain.accepts(column)):
        text = "text (or integers, if every line is one and none comes twice)"
        if pa.types.is_boolean(column):
            text = "other lines than true and false"
        wanted = "integers" if pa.types.is_integer(domain.kind) else text
        raise RequestError(
            f"--domain: the column holds {type_name(column)}, but the domain declares {wanted}; "
            "choose a column of that type or declare the domain in the column's"
        )


def domain_lines(path: str) -> pa.Array:
    """(n,) the lines of a file of declared values, none blank and each of them once.

    Raises:
        RequestError: the file cannot be read, or has such lines.
    """
    require_reachable([path])
    try:
        with FileSystems.open(path) as stream:
            raw = stream.read(LARGEST_DOMAIN_FILE + 1)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"--domain: {path} is neither LOW..HIGH nor a file that can be read{because(error)}"
        ) from None
    if len(raw) > LARGEST_DOMAIN_FILE:
        raise RequestError(f"--domain: {path} is larger than {LARGEST_DOMAIN_FILE >> 20} MiB")
    if b"\r" in raw:  # as a text file is read
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = _lines(raw.removeprefix(b"\xef\xbb\xbf"), path)
    wrong = {1 + line: "is blank; remove it" for line in _blank(lines)}
    # Most files are sorted, which is seen thirty times as fast as that all lines differ.
    if not pc.all(pc.less(lines[:-1], lines[1:])).as_py():
        first = lines.dictionary_encode().indices.to_numpy()
        for line in np.flatnonzero(first != np.arange(len(lines)))[:1].tolist():
            wrong.setdefault(1 + line, f"repeats line {1 + first[line]}; keep one of them")
    for line in sorted(wrong)[:1]:
        raise RequestError(f"--domain: line {line} of {path} {wrong[line]}")
    return lines


def _lines(raw: bytes, path: str) -> pa.Array:
    """The lines of a text, of which the last one may lack its end."""
    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if data.size and not raw.endswith(b"\n"):
        ends = np.append(ends, data.size)
    offsets = np.append(0, ends - np.arange(ends.size)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw.replace(b"\n", b""))]
    lines = pa.Array.from_buffers(pa.string(), ends.size, buffers)
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        raise RequestError(f"--domain: {path} is not UTF-8 text") from None
    return lines


def _blank(lines: pa.Array) -> Iterator[int]:
    """Which lines are blank."""
    # Those that begin with one of "!-~" are none; most are told by that, in a tenth of the time.
    others = pc.or_(pc.less(lines, "!"), pc.greater_equal(lines, "\x7f"))
    places = pc.indices_nonzero(others)
    likely = pc.invert(pc.match_substring_regex(lines.take(places), "[!-~]"))
    for place in places.filter(likely).to_pylist():
        if not lines[place].as_py().strip():
            yield place


def written_out(text: str) -> tuple[str, ...]:
    """The values of a list that is written out.

    Raises:
        RequestError: it is none of different texts, each a line.
    """
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not (isinstance(values, list) and values and all(type(one) is str for one in values)):
        raise RequestError('--domain: a list of texts is needed, as in ["Oslo", "Bern"]')
    first: dict[str, int] = {}
    for place, value in enumerate(values, 1):
        wrong = "has a line break; write it as one line" * ("\n" in value)
        wrong = wrong if value.strip() else "is blank; remove it"
        wrong = wrong if _is_text(value) else "is no Unicode text"
        if first.setdefault(value, place) < place:
            wrong = f"repeats value {first[value]}; keep one of them"
        if wrong:
            raise RequestError(f"--domain: value {place} of the list {wrong}")
    return tuple(values)


def _is_text(value: str) -> bool:
    """Whether it can be written: half of a pair of surrogates cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def check_user_column(telemetry: Telemetry, column: str) -> None:
    """Refuse a user column that cannot tell users apart."""
    kind = telemetry.column_type(column, "--user-column")
    if not (telemetry.unseen or UserDigest.accepts(kind)):
        raise RequestError(
            f"--user-column: {column!r} holds {type_name(kind)}; integers or text are needed"
        )
