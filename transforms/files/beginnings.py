"""What a file is by its first bytes, where its name says nothing, or something else."""

from __future__ import annotations

from transforms.files.systems import UNCOMPRESSED, FileSystems

_LONGEST = 16

# First bytes -> what begins with them.
_BEGINNINGS = {
    b"PAR1": "Parquet", b"PARE": "Parquet with an encrypted footer", b"ORC": "ORC",
    b"Obj\x01": "Avro", b"ARROW1": "Arrow", b"\xff\xff\xff\xff": "Arrow",
    b"FEA1": "Feather of version 1", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\xfd7zXZ\x00": "xz", b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy", b"SQLite format 3\x00": "SQLite", b"%PDF": "PDF",
}  # fmt: skip


def begins_like(path: str) -> str:
    """The format, packer or program whose first bytes a file has; empty if it is none of these."""
    try:
        with FileSystems.open(path, compression_type=UNCOMPRESSED) as stream:
            start = stream.read(_LONGEST)
    except Exception:  # whoever reads the file says why
        return ""
    return next((name for begin, name in _BEGINNINGS.items() if start.startswith(begin)), "")
