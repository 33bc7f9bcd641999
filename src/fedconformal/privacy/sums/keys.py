"""The private keys of a sums session. A state holds them as bytes; the objects that use them are made once.

They are shown nowhere: `repr` hides them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import msgspec

from fedconformal._base.extras import needing
from fedconformal.privacy.sums.messages import Key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


class SigningKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, dict=True):
    """An Ed25519 key, for messages."""

    raw: Key

    @classmethod
    def new(cls) -> Self:
        """Make a key.

        >>> SigningKey.new()
        SigningKey(...)
        """
        with needing("secure"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        with needing("secure"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return Ed25519PrivateKey.from_private_bytes(self.raw)

    @property
    def public(self) -> bytes:
        """The public key."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        """Hide the key."""
        return "SigningKey(...)"


class MaskingKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, dict=True):
    """An X25519 key, to agree on masks with neighbours."""

    raw: Key

    @classmethod
    def new(cls) -> Self:
        """Make a key.

        >>> one, other = MaskingKey.new(), MaskingKey.new()
        >>> one.agreed_with(other.public) == other.agreed_with(one.public)
        True
        """
        with needing("secure"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @cached_property
    def _key(self) -> X25519PrivateKey:
        with needing("secure"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        return X25519PrivateKey.from_private_bytes(self.raw)

    @property
    def public(self) -> bytes:
        """The public key."""
        return self._key.public_key().public_bytes_raw()

    def agreed_with(self, public: bytes) -> bytes:
        """Return what only this site and the owner of the public key know; ValueError if anybody could know it."""
        with needing("secure"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        return self._key.exchange(X25519PublicKey.from_public_bytes(public))

    def __repr__(self) -> str:
        """Hide the key."""
        return "MaskingKey(...)"
