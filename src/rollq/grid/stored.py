"""The base of commands, and of what stands in them."""

from __future__ import annotations

import msgspec


class Stored(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of what the log holds. A field that a newer version appended must not be skipped: the
    members that know it would act on it, and this one would not."""
