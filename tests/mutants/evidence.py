"""Bugs of verification: a forged release, signed again, that passes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_VERIFY = ("tests/pipelines/test_verify.py",)
_DESIGNS = ("tests/mechanisms/test_designs.py",)
_PRICE, _WORDS, _RELEASE = (f"pipelines/verify/{name}.py" for name in ("price", "words", "release"))

MUTANTS = (
    Mutant(
        "a-whole-below-its-parts",
        "A release may promise less epsilon than one of its metrics alone.",
        _PRICE,
        "if any(one[name] is None or not one[name] <= promise[name] * _ROUNDED for one in claims):",
        "if any(one[name] is None for one in claims):",
        _VERIFY,
        known_by="no_more_than_its_metrics",
    ),
    Mutant(
        "one-price-for-two-releases",
        "Nobody asks which release a change of the log has paid for.",
        _RELEASE,
        "setdefault((ledger, number), own) != own:",
        "setdefault((ledger, number), own) != own and False:",
        _VERIFY,
        known_by="one_price_pays_for_one_release",
    ),
    Mutant(
        "one-price-for-two-draws",
        "A price is known by the statement, so that other figures under it cost nothing.",
        _RELEASE,
        "        return statements.read_file(folder, SIGNATURE)",
        "        return written",
        _VERIFY,
        known_by="one_price_pays_for_one_draw",
    ),
    Mutant(
        "laws-that-are-none",
        "A record's fields may be of any type: noise that is none costs nothing.",
        "mechanisms/designs.py",
        "        if not _is(part, types[name]):",
        "        if False:",
        _DESIGNS,
        known_by="fields_of_a_record",
    ),
    Mutant(
        "fields-of-a-record-by-default",
        "What a record leaves out is what its class has by default.",
        "mechanisms/designs.py",
        "    if parts.keys() != types.keys():",
        "    if parts.keys() - types.keys():",
        _DESIGNS,
        known_by="fields_of_a_record",
    ),
    Mutant(
        "a-report-as-it-is-said",
        "What a single report reveals is taken from the statement.",
        _PRICE,
        "    if not _report_met([_of_report(design)], local):",
        "    if False:",
        _VERIFY,
        known_by="beside_its_design",
    ),
    Mutant(
        "reports-of-one-metric",
        "A unit's reports of all metrics may reveal more than the whole says.",
        _PRICE,
        '    if not _report_met(reports, said["guarantees"]["local"]):',
        "    if False:",
        _VERIFY,
        known_by="reports_of_all_metrics",
    ),
    Mutant(
        "a-model-as-it-is-promised",
        "Noise of the central model may be promised as a shuffler's.",
        _PRICE,
        '    if _MODELS.index(promise["model"]) < _MODELS.index(model):',
        "    if False:",
        _VERIFY,
        known_by="beside_its_design",
    ),
    Mutant(
        "a-batch-of-any-size",
        "Fewer reports than a price counts on are no fault.",
        _PRICE,
        '        if not said["n"] >= design.n:',
        '        if not said["n"] >= 0:',
        _VERIFY,
        known_by="beside_its_design",
    ),
    Mutant(
        "no-words-of-a-promise",
        "A statement need not say in words what it promises in numbers.",
        _WORDS,
        "    missing = {*promises} - {*lines}",
        "    missing = set()",
        _VERIFY,
        known_by="no and promise and words",
    ),
    Mutant(
        "words-beside-the-promise",
        "A further line in words may promise whatever it likes.",
        _WORDS,
        "if _CLAIM.search(line) and line not in known]",
        "if False]",
        _VERIFY,
        known_by="contradicting",
    ),
    Mutant(
        "a-key-that-anybody-introduces",
        "Whoever writes that a key is the publisher's is believed.",
        "pipelines/releases/signature.py",
        "    return new if is_signed(_INTRODUCED + canonical(said), signature, keys) else None",
        "    return new",
        _VERIFY,
        known_by="introduced_by_the_old",
    ),
    Mutant(
        "a-head-of-the-log-itself",
        "A log is compared with its own head, and agrees.",
        "pipelines/verify/verify.py",
        "            seen = None\n",
        "            pass\n",
        _VERIFY,
        known_by="says_first",
    ),
)
