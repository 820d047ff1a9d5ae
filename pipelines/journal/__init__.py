"""Small facts that must not be lost or done twice: one append-only, fenced, signed journal."""
