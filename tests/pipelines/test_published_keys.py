"""The signed list of keys: one for all devices, never another key, and forgotten seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mechanisms.wire.oblivious import Evaluator
from mechanisms.wire.sealing import create_key, public_key
from pipelines.errors import RequestError
from pipelines.parties.window_keys import LIST, SIGNER, KeyFolder
from pipelines.releases.key_list import (
    KeyList,
    WindowKey,
    published_key,
    read_list,
    signed,
    verified,
)

SIGNING = Ed25519PrivateKey.from_private_bytes(bytes(32))
MARK = bytes(range(16))


def window_key(public: int = 1, window: str = "d1", mark: bytes = MARK) -> WindowKey:
    fingerprint, key = mark.hex(), bytes([public]).hex() * 32
    return WindowKey(window=window, fingerprint=fingerprint, role="issuer", public=key)


def listed(*keys: WindowKey) -> KeyList:
    return KeyList(keys=keys)


def test_a_list_comes_back_as_it_was_signed_and_is_json_for_anybody() -> None:
    keys = listed(window_key(), window_key(2, "d2", bytes(16)))
    content = signed(keys, SIGNING)
    assert verified(content, SIGNING.public_key()) == keys
    document = json.loads(content)
    assert document["format"] == 1
    assert document["keys"][0]["public"] == "01" * 32
    assert published_key(keys, MARK, "issuer", "d1") == b"\1" * 32
    # Whoever writes it otherwise has signed the same: it is the canonical form that counts.
    shuffled = json.dumps({name: document[name] for name in reversed(document)}, indent=3)
    assert verified(shuffled.encode(), SIGNING.public_key()) == keys


def test_what_was_changed_or_is_anothers_is_refused() -> None:
    content = signed(listed(window_key()), SIGNING)
    document = json.loads(content)
    changed = [
        content.replace(b'"01', b'"02'),
        json.dumps(document | {"signature": "00" * 64}).encode(),
        json.dumps(document | {"signature": None}).encode(),
        json.dumps({"format": 1, "keys": document["keys"]}).encode(),
        json.dumps(document | {"keys": []}).encode(),
        json.dumps(document | {"more": 1}).encode(),
    ]
    for each in changed:
        with pytest.raises(RequestError, match="is not signed by --signer"):
            verified(each, SIGNING.public_key())
    other = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32).public_key()
    with pytest.raises(RequestError, match="is not signed by --signer"):
        verified(content, other)
    for odd in (b"", b"[]", b"\xff", b'{"format": 2}'):
        with pytest.raises(RequestError, match="--keys"):
            verified(odd, SIGNING.public_key())
    twice = signed(listed(window_key(), window_key(2)), SIGNING)
    with pytest.raises(RequestError, match="has another key of window d1 than before: use none"):
        verified(twice, SIGNING.public_key())


def test_one_key_of_two_windows_or_roles_is_refused(tmp_path: Path) -> None:
    """A token of one would be good in the other, and known there again."""
    mine = window_key()
    for other, line in (
        (window_key(window="d2", mark=bytes(16)), "as issuer key of window d2"),
        (mine.model_copy(update={"role": "queries"}), "as queries key of window d1"),
    ):
        with pytest.raises(RequestError, match=f"one key as issuer key of window d1 and {line}"):
            verified(signed(listed(mine, other), SIGNING), SIGNING.public_key())
        # Also if they come one after the other.
        KeyFolder(str(tmp_path))._signer()
        files, seen = [str(tmp_path / name) for name in (LIST, SIGNER)], tmp_path / "seen.json"
        for key in (mine, other):
            (tmp_path / LIST).write_bytes(signed(listed(key), KeyFolder(str(tmp_path))._signer()))
            if key is mine:
                read_list(*files, str(seen))
        before = seen.read_bytes()
        with pytest.raises(RequestError, match=r"what this device has seen .* have one key as"):
            read_list(*files, str(seen))
        assert seen.read_bytes() == before


def test_a_device_that_has_seen_another_key_refuses_the_list(tmp_path: Path) -> None:
    """Who signs may try: a key of one's own is known by its tokens wherever they are spent."""
    KeyFolder(str(tmp_path)).published()
    folder, seen = KeyFolder(str(tmp_path)), str(tmp_path / "seen.json")
    folder.make("d1", MARK, "issuer")
    names = [str(tmp_path / name) for name in (LIST, SIGNER)]
    first = read_list(*names, seen)
    folder.make("d2", bytes(16), "issuer")
    both = read_list(*names, seen)  # it may grow
    assert first.keys == both.keys[:1]
    own = first.keys[0].model_copy(update={"public": "00" * 32})
    (tmp_path / LIST).write_bytes(signed(listed(own), folder._signer()))
    before = Path(seen).read_bytes()
    with pytest.raises(RequestError, match="have another key of window d1 than before"):
        read_list(*names, seen)
    assert Path(seen).read_bytes() == before
    (tmp_path / LIST).write_bytes(signed(listed(), folder._signer()))
    assert read_list(*names, seen) == listed()  # it may shrink, and what was seen stays
    (tmp_path / LIST).write_bytes(signed(listed(own), folder._signer()))
    with pytest.raises(RequestError, match="another key"):
        read_list(*names, seen)
    Path(seen).write_bytes(before[:-9])
    with pytest.raises(RequestError, match="--seen-keys"):
        read_list(*names, seen)


def test_a_window_has_one_key_and_forgetting_destroys_it(tmp_path: Path) -> None:
    folder = KeyFolder(str(tmp_path / "party"))
    for _ in range(2):  # once
        folder.make("d1", MARK, "strings")
    (key,) = folder.published().keys
    seed = folder.of_window(MARK, "strings.seed")
    assert key.public == Evaluator(seed.read_bytes(), b"hushbeam strings").public.hex()
    assert {p.stat().st_mode & 0o777 for p in folder.path.glob("*.seed")} == {0o600}
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.of_window(MARK, "spent").write_bytes(b"whatever is kept of the window")
    folder.make("d2", bytes(16), "strings")
    with pytest.raises(RequestError, match="of another plan"):
        folder.make("d1", b"\1" * 16, "strings")
    assert folder.forget("d1") == 2
    assert not [*folder.path.glob(f"{MARK.hex()}*")]
    assert folder.of_window(bytes(16), "strings.seed").exists()
    assert folder.published().of(MARK, "strings") == key  # that it was is no secret
    with pytest.raises(RequestError, match="a window that was forgotten has none"):
        folder.evaluator(MARK, "strings")
    with pytest.raises(RequestError, match="a window has one key, ever"):
        folder.make("d1", MARK, "strings")
    with pytest.raises(RequestError, match="no window d9"):
        folder.forget("d9")


def test_a_file_of_another_key_is_said_in_one_line(tmp_path: Path) -> None:
    folder = KeyFolder(str(tmp_path))
    folder.make("d1", MARK, "issuer")
    name = create_key(tmp_path).hex()
    other, secret = (str(tmp_path / f"{name}.{half}.pem") for half in ("public", "private"))
    private, garbage = tmp_path / "signing.private.pem", tmp_path / "garbage"
    garbage.write_bytes(b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----")
    for signer, line in (
        (str(private), "holds a private key, which stays with its owner: name the .public.pem"),
        (other, "holds no Ed25519 public key"),
        (str(garbage), "holds no Ed25519 public key"),
        (str(tmp_path), "cannot be read"),
    ):
        with pytest.raises(RequestError, match=f"--signer: {signer} {line}") as refused:
            read_list(str(tmp_path / LIST), signer)
        assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="holds a private key, which stays with the collector"):
        public_key(Path(secret).read_bytes())
    private.write_bytes(b"x")
    with pytest.raises(RequestError, match="holds no Ed25519 private key: restore it from a copy"):
        folder.make("d2", MARK, "issuer")
