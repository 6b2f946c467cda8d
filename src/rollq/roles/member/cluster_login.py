"""Login of a member at another member: the dialer's part of a login by `cluster`. Pure."""

from __future__ import annotations

from rollq.base.errors import ErrorCode, RemoteError
from rollq.security.cluster_key import LoginSide, LoginTerms, is_proof, key_id_of, prove
from rollq.wire.login_messages import CLUSTER, NONCE_BYTES, Login, LoginChallenge, LoginProof


class ClusterLogin:
    """Login of one link. The accepter proves the key first, so no proof goes to an impostor.

    Args:
        key: The cluster key.
        group: The group of the link.
        address: The dialed address.
        nonce: NONCE_BYTES random bytes.
    """

    is_challenged = True

    def __init__(self, key: bytes, group: str, address: str, nonce: bytes) -> None:
        self.first = Login(CLUSTER, key_id_of(key).hex(), nonce=nonce)
        self._key = key
        self._group = group
        self._address = address

    def prove(self, challenge: LoginChallenge) -> LoginProof:
        """The proof for a challenge.

        Raises:
            RemoteError: LOGIN_FAILED: the accepter did not prove the key.
        """
        terms = LoginTerms(self._group, self._address, self.first.nonce, challenge.nonce)
        is_whole = len(challenge.nonce) == NONCE_BYTES
        if not is_whole or not is_proof(challenge.proof, self._key, LoginSide.ACCEPTER, terms):
            raise RemoteError(
                ErrorCode.LOGIN_FAILED,
                f"the process at {self._address} does not prove the cluster key",
                "check the --address of that member, and which process listens there",
            )
        return LoginProof(prove(self._key, LoginSide.DIALER, terms))
