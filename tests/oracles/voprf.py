"""RFC 9497, ristretto255-SHA512 in the mode VOPRF, by integers of Python: slow, and nobody else's.

The group is RFC 9496's: Edwards points (x, y) over 2^255 - 19 as fractions X/Z, Y/Z.
"""

from __future__ import annotations

from hashlib import sha512

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
I = pow(2, (P - 1) // 4, P)  # noqa: E741 (a root of -1)
CONTEXT = b"OPRFV1-\x01-ristretto255-SHA512"

Point = tuple[int, int, int]
ZERO: Point = (0, 1, 1)


def sqrt_ratio(u: int, v: int) -> tuple[bool, int]:
    """Whether u / v is a square, and the even root of it, or of I u / v; section 4.2."""
    root = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    check = v * root * root % P
    square = check == u % P
    if check in (-u % P, -u * I % P):
        root = root * I % P
    return square or check == -u % P, even(root)


def even(number: int) -> int:
    """A number or its negative, whichever is even."""
    number %= P
    return P - number if number & 1 else number


def decode(data: bytes) -> Point:
    """Section 4.3.1."""
    s = int.from_bytes(data, "little")
    assert len(data) == 32
    assert s < P
    assert not s & 1
    u1, u2 = (1 - s * s) % P, (1 + s * s) % P
    v = (-D * u1 * u1 - u2 * u2) % P
    square, root = sqrt_ratio(1, v * u2 * u2)
    dx, dy = root * u2 % P, root * root * u2 * v % P
    x, y = even(2 * s * dx), u1 * dy % P
    assert square
    assert not x * y % P & 1
    assert y
    return x, y, 1


def encode(point: Point) -> bytes:
    """Section 4.3.2."""
    x, y, z = point
    t = x * y * pow(z, -1, P) % P
    u1, u2 = (z + y) * (z - y) % P, x * y % P
    _, root = sqrt_ratio(1, u1 * u2 * u2)
    d1, d2 = root * u1 % P, root * u2 % P
    inverse = d1 * d2 * t % P
    _, magic = sqrt_ratio(1, -1 - D)
    d = d2
    if t * inverse % P & 1:
        x, y, d = y * I % P, x * I % P, d1 * magic % P
    if x * inverse % P & 1:
        y = -y
    return even(d * (z - y)).to_bytes(32, "little")


def add(a: Point, b: Point) -> Point:
    """The complete law of twisted Edwards curves, a = -1."""
    x1, y1, z1 = a
    x2, y2, z2 = b
    z = z1 * z2 % P
    e = D * x1 * x2 * y1 * y2 % P
    f, g = (z * z - e) % P, (z * z + e) % P
    x = z * f * (x1 * y2 + y1 * x2) % P
    return x, z * g * (y1 * y2 + x1 * x2) % P, f * g % P


def times(scalar: int, point: Point) -> Point:
    """A multiple, by doubling."""
    result = ZERO
    for bit in bin(scalar % ORDER)[2:]:
        result = add(result, result)
        result = add(result, point) if bit == "1" else result
    return result


BASE = decode(bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"))


def expand(message: bytes, tag: bytes) -> bytes:
    """64 bytes by expand_message_xmd of RFC 9380, with SHA-512."""
    tag += bytes([len(tag)])
    first = sha512(bytes(128) + message + (64).to_bytes(2, "big") + b"\0" + tag).digest()
    return sha512(first + b"\1" + tag).digest()


def to_group(message: bytes) -> Point:
    """HashToGroup."""
    data = expand(message, b"HashToGroup-" + CONTEXT)
    return add(mapped(data[:32]), mapped(data[32:]))


def mapped(data: bytes) -> Point:
    """MAP of RFC 9496, section 4.3.4."""
    t = int.from_bytes(data, "little") % 2**255
    r = I * t * t % P
    u = (r + 1) * (1 - D * D) % P
    v = (-1 - r * D) * (r + D) % P
    square, s = sqrt_ratio(u, v)
    c = -1
    if not square:
        s, c = -even(s * t) % P, r
    n = (c * (r - 1) * (D - 1) ** 2 - v) % P
    # The RFC's SQRT_AD_MINUS_ONE is the odd root of -D - 1.
    _, even_root = sqrt_ratio(-D - 1, 1)
    w0, w1 = 2 * s * v % P, n * (P - even_root) % P
    w2, w3 = (1 - s * s) % P, (1 + s * s) % P
    x, y, z = w0 * w3 % P, w2 * w1 % P, w1 * w3 % P
    return x, y, z


def to_scalar(message: bytes, tag: bytes = b"HashToScalar-") -> int:
    """HashToScalar."""
    return int.from_bytes(expand(message, tag + CONTEXT), "little") % ORDER


def prefixed(*parts: bytes) -> bytes:
    """Each with its length before it."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def derived(seed: bytes, info: bytes) -> int:
    """DeriveKeyPair; the counter is 0 but with probability 2^-252."""
    return to_scalar(seed + prefixed(info) + b"\0", b"DeriveKeyPair")


def output(plain: bytes, element: Point) -> bytes:
    """The hash at the end of Finalize."""
    return sha512(prefixed(plain, encode(element)) + b"Finalize").digest()


def composites(public: bytes, elements: list[bytes], evaluated: list[bytes]) -> tuple[Point, Point]:
    """ComputeComposites."""
    seed = sha512(prefixed(public, b"Seed-" + CONTEXT)).digest()
    m = z = ZERO
    for place, (c, d) in enumerate(zip(elements, evaluated, strict=True)):
        text = prefixed(seed) + place.to_bytes(2, "big") + prefixed(c, d) + b"Composite"
        weight = to_scalar(text)
        m, z = add(m, times(weight, decode(c))), add(z, times(weight, decode(d)))
    return m, z


def challenge(public: bytes, *points: Point) -> int:
    """The hash that a proof answers."""
    return to_scalar(prefixed(public, *map(encode, points)) + b"Challenge")


def prove(key: int, elements: list[bytes], evaluated: list[bytes], drawn: int) -> bytes:
    """GenerateProof."""
    public = encode(times(key, BASE))
    m, z = composites(public, elements, evaluated)
    c = challenge(public, m, z, times(drawn, BASE), times(drawn, m))
    return b"".join(n.to_bytes(32, "little") for n in (c, (drawn - c * key) % ORDER))


def proved(public: bytes, elements: list[bytes], evaluated: list[bytes], proof: bytes) -> bool:
    """VerifyProof."""
    c, s = (int.from_bytes(proof[i : i + 32], "little") for i in (0, 32))
    m, z = composites(public, elements, evaluated)
    t2 = add(times(s, BASE), times(c, decode(public)))
    t3 = add(times(s, m), times(c, z))
    return c == challenge(public, m, z, t2, t3)
