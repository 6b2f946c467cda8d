"""The accounts of a group that strangers try to get into."""

from __future__ import annotations

import hashlib
from typing import Final

from rollq.base.access_rules import Account, TokenHash
from rollq.security.secret import Secret
from rollq.security.signing import read_key

GROUP: Final = "g1"
_SECRET: Final = "0123456789abcdef" * 3
TOKEN: Final = f"rollq_ann_{_SECRET}".encode()
# Of no use to anybody: the same in every run, so that a finding can be replayed.
KEY_FILE: Final = b"""# account: bob
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
"""
KEY: Final = read_key(Secret(KEY_FILE))
ACCOUNTS: Final = {
    "ann": Account("ann", tokens=(TokenHash("1", hashlib.sha256(_SECRET.encode()).digest()),)),
    "bob": Account("bob", public_keys=(KEY.public,)),
}
