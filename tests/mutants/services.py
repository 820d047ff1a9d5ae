"""Bugs of services and of what devices pay with: posts lost, taken twice, or traced."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SERVE = ("tests/pipelines/test_serve.py",)
_KEYS = ("tests/pipelines/test_published_keys.py",)
_ASKING = "pipelines/parties/asking_parties.py"
_TOKENS = ("tests/end_to_end/test_parties_tokens.py",)
_FILES = ("tests/end_to_end/test_party_files.py",)
_WINDOW, _APPLICATION = "pipelines/serve/window.py", "pipelines/serve/application.py"

MUTANTS = (
    Mutant(
        "token-pays-for-anything",
        "A token that was spent is taken again for other bytes, and answered as if they were kept.",
        _WINDOW,
        "return KEPT if spent[0] == post.body else CONFLICT, 0",
        "return KEPT, 0",
        _SERVE,
    ),
    Mutant(
        "tokens-are-not-spent",
        "No token is written down: each pays for as many reports as its device likes.",
        _WINDOW,
        "database.execute(_SPEND, (post.token, post.body))",
        "pass",
        _SERVE,
    ),
    Mutant(
        "full-windows-forget",
        "What was kept is refused when it comes again, for the window has filled up since.",
        _WINDOW,
        "room < len(digests) - known",
        "room < len(digests)",
        _SERVE,
    ),
    Mutant(
        "windows-begin-anew",
        "A window whose file has gone is opened again, with no token spent.",
        _WINDOW,
        "if claim is not None and claim.exists():",
        "if claim is not None and not path.parent.exists():",
        _SERVE,
    ),
    Mutant(
        "copies-are-opened",
        "A copy of a window is opened in its place, and takes tokens that were spent since.",
        _WINDOW,
        "if claim.read_text() != place:",
        "if not claim.exists():",
        _SERVE,
    ),
    Mutant(
        "copies-take-tokens",
        "A restored copy of a window takes tokens that were spent since.",
        _WINDOW,
        "{self.path.stat().st_ino}",
        "0",
        _SERVE,
    ),
    Mutant(
        "closed-windows-take-more",
        "A post is kept after its window has landed: it is answered for, and never shuffled.",
        _WINDOW,
        "return [CLOSED] * len(posts)",
        "pass",
        _SERVE,
    ),
    Mutant(
        "tokens-outlive-their-window",
        "What was spent is still there once the window is closed.",
        _WINDOW,
        'database.execute("DELETE FROM spent")',
        "pass",
        _SERVE,
    ),
    Mutant(
        "seen-before-it-is-synced",
        "Posts are answered while a loss of power could still take them.",
        _WINDOW,
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        ("tests/pipelines/test_serve_killed.py::test_commits_are_synced_before_they_are_seen",),
    ),
    Mutant(
        "any-token-will-do",
        "Tokens are not held against the issuer's key of the window.",
        _APPLICATION,
        "if len(token) != TOKEN or not window.issuer.valid(token):",
        "if len(token) != TOKEN:",
        _SERVE,
    ),
    Mutant(
        "one-token-many-reports",
        "A file of many reports is paid for by one token.",
        _APPLICATION,
        "if len(records) != 1:",
        "if not records:",
        _SERVE,
    ),
    Mutant(
        "tokens-without-end",
        "The issuer evaluates as many elements as a device sends.",
        _APPLICATION,
        "if not 0 < len(elements) <= window.terms.elements:",
        "if not elements:",
        _SERVE,
    ),
    Mutant(
        "issuer-keeps-names",
        "The issuer keeps a digest of credentials, from which fetchers can be looked up.",
        _APPLICATION,
        'payer = digest(window.issuer.output(b"device" + credential))',
        "payer = digest(credential)",
        _SERVE,
    ),
    Mutant(
        "metrics-count-people",
        "Counts of a closed window are shown although its release hides who takes part.",
        _APPLICATION,
        "if closed and terms.published:",
        "if closed:",
        _SERVE,
    ),
    Mutant(
        "list-is-not-signed",
        "A list of keys is believed whoever has signed it: each device can be given its own.",
        "pipelines/releases/key_list.py",
        "signer.verify(bytes.fromhex(str(signature)), _PURPOSE + canonical(document))",
        "bytes.fromhex(str(signature))",
        _KEYS,
    ),
    Mutant(
        "keys-may-change",
        "A window's key is replaced by another one, and the device that has seen it says nothing.",
        "pipelines/releases/key_list.py",
        "joined.setdefault((key.fingerprint, key.role), key).public != key.public",
        "joined.setdefault((key.fingerprint, key.role), key) is None",
        _KEYS,
    ),
    Mutant(
        "one-key-for-all-windows",
        "Two windows have one key: a token of the first is good in the second, and known again.",
        "pipelines/releases/key_list.py",
        "(owner.fingerprint, owner.role) != (key.fingerprint, key.role)",
        "owner is None",
        _KEYS,
    ),
    Mutant(
        "redirects-are-followed",
        "Whoever redirects a device gets its token or credential, and the report becomes a GET.",
        _ASKING,
        "build_opener(_Staying)",
        "build_opener()",
        _TOKENS,
    ),
    Mutant(
        "portals-keep-reports",
        "A page that a portal answers with counts as a report that is kept.",
        _ASKING,
        "if response.status != answer:",
        "if response.status >= 300:",
        _TOKENS,
    ),
    Mutant(
        "endpoints-keep-senders",
        "The endpoint's file says from which address each report has come.",
        _APPLICATION,
        "post = Post(token, digest(body), ",
        "post = Post(token, digest(str(request.client).encode()), ",
        _FILES,
    ),
    Mutant(
        "queries-keep-senders",
        "The party of strings notes who has asked in place of the token that has paid.",
        _APPLICATION,
        "self._evaluated(request, window, _paid(request, window))",
        "self._evaluated(request, window, digest(str(request.client).encode()))",
        _FILES,
    ),
)
