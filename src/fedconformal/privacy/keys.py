"""Private keys of 32 bytes: Ed25519 signs, X25519 agrees with a neighbour on a secret. `repr` hides them.

A state holds the bytes; the object that uses them is made once, as that takes as long as a signature.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Annotated, Any, Self

import msgspec

from fedconformal.errors import InputError, requires_extra

Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class SecretKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, dict=True):
    """What both kinds have."""

    raw: Key

    @staticmethod
    def _library() -> Any:
        raise NotImplementedError

    @classmethod
    def new(cls) -> Self:
        """Make a key."""
        return cls(cls._library().generate().private_bytes_raw())

    @cached_property
    def _key(self) -> Any:
        return self._library().from_private_bytes(self.raw)

    @property
    def public(self) -> bytes:
        """The public key."""
        return bytes(self._key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        """Hide the key."""
        return f"{type(self).__name__}(...)"


class SigningKey(SecretKey, frozen=True):
    """An Ed25519 key.

    >>> key = SigningKey.new()
    >>> key, is_signed(b"data", key.sign(b"data"), key.public), is_signed(b"other", key.sign(b"data"), key.public)
    (SigningKey(...), True, False)
    """

    @staticmethod
    def _library() -> Any:
        with requires_extra("secure"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return Ed25519PrivateKey

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        return bytes(self._key.sign(data))


class MaskingKey(SecretKey, frozen=True):
    """An X25519 key.

    >>> one, other = MaskingKey.new(), MaskingKey.new()
    >>> one.agreed_with(other.public) == other.agreed_with(one.public)
    True
    """

    @staticmethod
    def _library() -> Any:
        with requires_extra("secure"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        return X25519PrivateKey

    def agreed_with(self, public: bytes) -> bytes:
        """Return what only this site and the owner of the public key know; refused if anybody could know it."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return bytes(self._key.exchange(X25519PublicKey.from_public_bytes(public)))
        except ValueError:
            raise InputError("a public key for masks is of small order, and hides nothing: make a new one") from None


def is_signed(data: bytes, signature: bytes, public: bytes) -> bool:
    """Tell whether the owner of an Ed25519 key signed this."""
    public_keys, wrong = _signatures()
    try:
        public_keys.from_public_bytes(public).verify(signature, data)
    except (wrong, ValueError):
        return False
    return True


@cache
def _signatures() -> tuple[Any, type[Exception]]:
    with requires_extra("secure"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    return Ed25519PublicKey, InvalidSignature
