"""The base class of commands and their parts."""

from __future__ import annotations

import msgspec


class Stored(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of everything in the log. A field added by a newer version must not be ignored: members
    that know it would act on it, and this one would not."""
