"""`hushbeam init`: a first plan for a log, from the names and types of its columns."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from pipelines.errors import DONE, Caution, RequestError, reason
from pipelines.plan.findings import Finding, findings, spelt
from pipelines.plan.sample import USER, Sample, guess, sampled, texts_of, within
from pipelines.request import answers
from pipelines.views.console import Screen
from transforms.columns import is_moment, is_numeric
from transforms.encoders.prefixes import accepts
from transforms.encoders.users import UserDigest
from transforms.files.reading import TYPES

_NO_NAME = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 64  # of a plan's names
_MOST = 8  # metrics of strings; a plan divides its epsilon among all that it has
_MANY = 0.5  # of a column's values that are written in a way of their own
_LONG = 2000  # signs of a column's name that an expression holds


def init(log: Sequence[str], output: str | None) -> int:
    """Write a draft for people to finish.

    Args:
        log: files, globs or folders.
        output: a new file, or None for the standard output.

    Raises:
        RequestError: the log cannot be read, or the file is there already.
    """
    sample = sampled(log)
    text = _text(log, sample)
    for finding in _findings(sample):
        warnings.warn(str(finding), Caution, stacklevel=1)
    if sample.encoding:
        line = f"text is not UTF-8: the draft reads it as {sample.encoding}, which is a guess"
        warnings.warn(line, Caution, stacklevel=1)
    if sample.twice:
        names = ", ".join(map(spelt, sample.twice))
        warnings.warn(f"{names}: the name of several columns, left out", Caution, stacklevel=1)
    if output is None:
        answers.tell(plan=text)
        print(text, end="")
        return DONE
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RequestError(f"--output: {output} is there already; name a new file") from None
    except OSError as error:
        raise RequestError(f"--output: cannot write {output}: {reason(error)}") from None
    answers.tell(output=output)
    to_do = text.count("TO DECIDE") + text.count("TO FINISH")
    Screen().say(
        f"{output}: {to_do} lines wait for what only people know (TO DECIDE, TO FINISH); then "
        f"`hushbeam check {output}`"
    )
    return DONE


def draft(log: tuple[str, ...]) -> str:
    """A plan in YAML: names and types of columns are in it, and nothing else of the log."""
    return _text(log, sampled(log))


def _text(log: Sequence[str], sample: Sample) -> str:
    return "\n".join(_lines(log, sample)) + "\n"


def _findings(sample: Sample) -> list[Finding]:
    """What is to be said of columns, before anything is asked of them."""
    names = sample.named
    return [one for name in names for one in findings(sample.rows.column(name), names[name])]


def _lines(log: Sequence[str], sample: Sample) -> Iterator[str]:
    columns, all_findings = sample.named, _findings(sample)
    user = next((name for name in columns if _is_user(name, sample)), None)
    types = _types(sample, columns, user)
    kinds = {
        said: TYPES[types[said]] if said in types else sample.rows.schema.field(name).type
        for name, said in columns.items()
    }
    yield "# A draft by `hushbeam init`: read each line, finish what is marked, `hushbeam check`."
    read: dict[str, Finding] = {}  # column -> how nearly all of it is read
    for finding in all_findings:
        if finding.share > _MANY and finding.derived not in kinds and _nameable(finding.column):
            read.setdefault(finding.column, finding)
        else:
            yield f"# TO DECIDE: {finding}"
    names, file = _Names(), os.path.basename(log[0].rstrip("/"))
    yield f"collection: {spelt(_Names().new(file.split('.')[0], 'log'))}"
    yield "version: 1"
    inputs = [one if "://" in one else os.path.abspath(one) for path in log for one in within(path)]
    yield f"input: [{', '.join(map(spelt, inputs))}]"
    yield "output: release"
    if sample.delimiter:
        yield f"delimiter: {spelt('tab' if sample.delimiter == chr(9) else sample.delimiter)}"
    if sample.encoding:
        yield f"encoding: {spelt(sample.encoding)}  # TO DECIDE: a guess, for it is not UTF-8"
    if sample.unnamed:
        yield "# TO DECIDE: the first line seems to be a row already; if so, name its columns here"
        yield f"header: [{', '.join(map(spelt, sample.header))}]"
    if types:
        said = ", ".join(f"{spelt(name)}: {kind}" for name, kind in types.items())
        yield f"types: {{{said}}}  # guessed from the first rows; all other columns are strings"
    if user is None:
        yield "unit: row  # TO DECIDE: where a person may have several rows, user and user_column"
    else:
        yield "unit: user"
        yield f"user_column: {spelt(columns[user])}"
    unit = "user" if user else "row"
    yield f"epsilon: 1.0  # TO DECIDE: what one release may reveal of a {unit}"
    kinds = {said: kind for said, kind in kinds.items() if said not in read} | {
        finding.derived: finding.kind for finding in read.values()
    }
    hours = _hours([said for said, kind in kinds.items() if is_moment(kind)], [*kinds, *read])
    if read or hours:
        yield "derive:"
        for finding in read.values():
            yield f"  {finding.line}  # TO DECIDE: {finding.words}"
        for moment, hour in hours.items():
            expression = spelt(f"hour(`{moment}`, 'UTC')")
            yield f"  {spelt(hour)}: {expression}  # TO DECIDE: the zone"
    yield "metrics:"
    yield f"  - {{name: {spelt(names.new(f'{unit}s', 'all'))}, kind: count}}"
    strings = 0
    for name, said in columns.items():
        if name == user:
            continue
        own = names.new(said, "column")
        said = read[said].derived if said in read else said
        kind = kinds[said]
        strings += accepts(kind) and not is_numeric(kind)
        yield from _metric(said, own, kind, hours.get(said), strings > _MOST)


def _is_user(name: str, sample: Sample) -> bool:
    """Whether a column seems to tell users apart."""
    return bool(USER.fullmatch(name)) and UserDigest.accepts(sample.rows.schema.field(name).type)


def _types(sample: Sample, columns: dict[str, str], user: str | None) -> dict[str, str]:
    """What columns of text seem to hold; users' ids stay as they are written."""
    if not sample.text:
        return {}
    types: dict[str, str] = {}
    for name, said in columns.items():
        texts = texts_of(sample.rows.column(name))
        # Of a name with an equals sign, or blanks around it, a plan can say no type.
        if texts is None or name == user or "=" in said or said != said.strip():
            continue
        kind = guess(texts)
        if kind is not None:
            types[said] = kind
    return types


def _nameable(column: str) -> bool:
    """Whether an expression can name a column."""
    return "`" not in column and len(column) <= _LONG and bool(column.strip())


def _hours(moments: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Column -> a name for the hour in it, of those that an expression can name."""
    named: dict[str, str] = {}
    for moment in moments:
        if not _nameable(moment):
            continue
        base = f"hour_of_{re.sub(r'[^A-Za-z0-9_]+', '_', moment)}"[:_LONGEST]
        count, name = 1, base
        while name in {*taken, *named.values()}:
            count += 1
            name = f"{base}_{count}"
        named[moment] = name
    return named


def _metric(
    column: str, name: str, kind: pa.DataType, hour: str | None, enough: bool
) -> Iterator[str]:
    """What can be asked of a column; what only people can say of it is left to them."""
    text, own = spelt(column), spelt(name)
    if is_moment(kind):
        if hour is not None:
            about = f"column: {spelt(hour)}, domain: 0..23"
            yield f"  - {{name: {own}, kind: histogram, {about}}}"
    elif is_numeric(kind):
        yield "  # TO FINISH: bounds are public knowledge, and never taken from the log"
        yield f"  # - {{name: {own}, kind: mean, column: {text}, bounds: [LEAST, MOST]}}"
    elif pa.types.is_boolean(kind):
        yield "  # TO FINISH: a file with the lines true and false"
        about = f"column: {text}, domain: truths.txt"
        yield f"  # - {{name: {own}, kind: histogram, {about}}}"
    elif accepts(kind):
        line = f"- {{name: {own}, kind: strings, column: {text}}}"
        if enough:
            yield "  # TO DECIDE: each further metric takes its share of epsilon"
            yield f"  # {line}"
        else:
            yield "  # If its values are known beforehand, a histogram with a domain tells more"
            yield f"  {line}"


class _Names:
    """Names as plans have them, none of them twice."""

    def __init__(self) -> None:
        self._taken = set[str]()

    def new(self, text: str, instead: str) -> str:
        """A name like a text, or like another where nothing of that is left."""
        base = _NO_NAME.sub("-", text.lower()).strip("-_")[:_LONGEST] or instead
        count, name = 1, base
        while name in self._taken:
            count += 1
            name = f"{base[: _LONGEST - 6]}-{count}"
        self._taken.add(name)
        return name
