"""Sentences are plain: no pattern that readers stumble over stands in docs, pages, help or errors.

A machine sees private words, a few inversions and relative clauses that only pad a noun, and
headings that are questions. It does not see the rest of what plain words ask for: whether a
sentence is active and has at most 25 words, whether a first sentence is a riddle or says who needs
the page, verbs that stand for nouns within a sentence, most relative clauses (`of which` and `of
whom` are often right), most negations of negations, whether a paragraph has one idea, and a private
word that is also an everyday one (`cut`, `witness`, `price`). Docstrings and comments are not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("mechanisms", "transforms", "pipelines", "hushbeam")

_BEGIN = r"(?:^|(?<=[.:;!?] ))"
_PARTICIPLE = (
    r"(?:Assumed|Charged|Counted|Covered|Drawn|Hidden|Known|Promised|Protected|Published|Sent|Told)"
)
PATTERNS = {
    "a participle in front of its subject": (
        rf"{_BEGIN}(?:Not )?{_PARTICIPLE} (?:is|are|was|were) (?!as\b)|\b[Pp]rotected (?:is|are)\b"
    ),
    "a condition without `if`": (
        rf"{_BEGIN}(?:Is|Are|Was|Were) (?:it|they|there|this|that|the|a|an|any|no)\b[^.;:?]*, "
        r"[^.;:?]*[.;]|\b[Hh]ad (?:any one|all that)\b"
    ),
    "a clause that packs a noun": (
        r"\b(?:that|which|who) (?:is|are) there\b(?! (?:are|to|for)\b)"
        r"|\bof (?:which|whom) there (?:is|are)\b|\bwhat (?:is|was) asked\b"
        r"|\bof those whose\b"
    ),
    "a negation of a negation": (
        r"\b(?:[Nn]othing|[Nn]obody|[Nn]one) (?:that|which|who) (?:[\w' ]{1,30} )?"
        r"(?:is|are|does|do|has|have|can) not\b|\bnot without\b"
    ),
    "a riddle": r"\b[Tt]he whole in one\b|\bcosts? what (?:it|they) costs?\b",
    "verbs for a price": r"\bwhat (?:it|that|this) costs\b|\bat one price\b|\bat the price of\b",
    "malicious clients": r"\b[Ll]iars?\b",
    "stochastic rounding, a random draw": r"\bby a (?:coin|die)\b",
    "synthetic records; other": r"\bmade people\b|\bstrangers?\b",
    "the resolved plan; reached": (
        r"\b(?:plan|design|[Ii]t|time|clock) has come to\b|\bhas come to it\b"
    ),
    "atomically": r"\bwhole or not at all\b",
    "truncated": r"\bnot what was cut\b|\bcut to 0 \.\. 1|\bgradients are cut\b",
    "the job sees exact numbers": r"\bcome exactly to\b",
    "no exact counts are published": r"\bis published here as it is\b",
    "verify against": r"\bhold it against its witness\b",
    "cannot compare; no such column": r"\btwo of a kind are needed\b|\bno one column\b",
    "unknown option": r"\b[Nn]either hushbeam nor Beam\b",
    "shell completion; compare and audit": r"\btype less\b|\band doubt it\b",
    "rows that do not match": r"\bwho fails\b",
}
_QUESTION = re.compile(r"(?:What|Who|Whom|Which|Where|When|Why|How|If|Is|Are|Does|Do)\b")
_CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`|\"[^\"\n]*\"|<!--.*?-->", re.DOTALL | re.MULTILINE)


def wrong(text: str) -> Iterator[str]:
    """What readers stumble over in a text without code."""
    spaced = " ".join(text.split())
    for name, pattern in PATTERNS.items():
        for place in re.finditer(pattern, spaced):
            yield f"{name}: {spaced[max(0, place.start() - 30) : place.end() + 30]!r}"


def paragraphs(page: str) -> list[str]:
    """Of Markdown, without code and quotations."""
    return re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?)", _CODE.sub("CODE", page))


def questions(page: str) -> list[str]:
    """Headings that are none: noun phrases are."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("CODE", page), re.MULTILINE)
    return [heading for heading in headings if _QUESTION.match(heading)]


def sentences(tree: ast.AST) -> Iterator[str]:
    """String literals of several words that are no docstrings; what is put in is `IT`."""
    skipped = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "IT" for p in node.values)
            text = "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if text.count(" ") > 1:
            yield re.sub(r"`[^`]*`|\{[^{}]*\}|--[\w-]+", "IT", text)


DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docs_are_plain(path: Path) -> None:
    page = path.read_text("utf-8")
    assert [text for part in paragraphs(page) for text in wrong(part)] == []
    assert questions(page) == []


@pytest.mark.parametrize("package", PRODUCT)
def test_help_errors_and_words_of_pages_are_plain(package: str) -> None:
    """Help, descriptions of commands, errors, and what statements and pages say: all literals."""
    texts = (
        (path.relative_to(ROOT).as_posix(), text)
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in sentences(ast.parse(path.read_text("utf-8")))
    )
    assert [(file, said) for file, text in texts for said in wrong(text)] == []


@pytest.mark.parametrize("ending", ["html", "js"])
def test_pages_are_plain(ending: str) -> None:
    files = [path for package in PRODUCT for path in sorted((ROOT / package).rglob(f"*.{ending}"))]
    assert files
    texts = ((path.name, re.sub(r"<[^>]+>", " ", path.read_text("utf-8"))) for path in files)
    assert [(file, said) for file, text in texts for said in wrong(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Protected is which value any one row has.",
        "Not protected is whether it has one.",
        "Counted are users with a row.",
        "Run it. Is it older, the changes since are lost.",
        "For who sees it: had any one row's value been another, it would change.",
        "A file that is there is kept.",
        "Strings of which there are too many.",
        "The file says what was asked.",
        "The users of those whose values changed.",
        "It tells nothing that is not sent.",
        "The whole in one table.",
        "Thirty days cost what they cost.",
        "What liars do is bounded.",
        "Numbers are rounded by a coin.",
        "Rows of made people.",
        "What the plan has come to is hashed.",
        "A folder that is written whole or not at all.",
        "The noise of the dummies; not what was cut.",
        "Numbers come exactly to the job.",
        "Nothing is published here as it is.",
        "two of a kind are needed",
        "it has no one column of that name",
    ],
)
def test_such_sentences_are_noticed(text: str) -> None:
    assert len([*wrong(text)]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The promise covers which value any one row has.",
        "The witness is published as it is.",
        "If it is older, later changes are lost.",
        "It says that there is a row, and which there are to choose from.",
        "It says who is there to sign.",
        "Values known are as many as values sent.",
        "Is it older? Then later changes are lost.",
    ],
)
def test_plain_sentences_are_let_be(text: str) -> None:
    assert not [*wrong(text)]


def test_code_quotations_and_names_of_options_are_let_be() -> None:
    page = '# How\n\n```sh\n# What liars do\n```\n`liars` in "Liars and coins", which cost nothing.'
    assert not [text for part in paragraphs(page) for text in wrong(part)]
    assert questions(page) == ["How"]
    code = 'f"run --liars 0.1 and {liars} more"\ndef f(): "What liars do to it"\nprint("is a liar")'
    assert [*map(str.strip, sentences(ast.parse(code)))] == ["run IT 0.1 and IT more", "is a liar"]


def long_lines(text: str) -> list[int]:
    """The numbers of lines beyond 100 characters, but for tables, code and what is one link."""
    code, long = False, []
    for number, line in enumerate(text.splitlines(), 1):
        code ^= (fence := line.lstrip().startswith("```"))
        bare = re.sub(r"\]\([^)]*\)|<http[^>]*>", "", line)
        apart = code or fence or line.startswith(("|", "    ", "<")) or len(bare.split()) < 4
        if len(line) > 100 and not apart:
            long.append(number)
    return long


@pytest.mark.parametrize("words", ["a " * 51, "* [a link](to/a/page.md) and " + "more " * 16])
def test_a_long_line_is_seen(words: str) -> None:
    assert long_lines(f"# A\n\n{words}\n") == [3]
    assert long_lines(f"```\n{words}\n```\n| {words} |\n") == []


def test_lines_of_documents_are_no_longer_than_those_of_code() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").glob("*/*.md")]
    pages += [*(ROOT / "clients").glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    pages += (ROOT / "examples").rglob("*.md")
    long = {str(page.relative_to(ROOT)): long_lines(page.read_text("utf-8")) for page in pages}
    assert {name: lines for name, lines in long.items() if lines} == {}
