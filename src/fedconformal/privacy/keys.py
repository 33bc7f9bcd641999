"""Private keys of 32 bytes: Ed25519 signs, X25519 agrees with a neighbour on a secret. `repr` hides them."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import msgspec

from fedconformal.errors import InputError, requires_extra

Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class SecretKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, dict=True):
    """A private key; the object that uses it is made once, as that takes as long as a signature."""

    kind: ClassVar[str]

    raw: Key

    @classmethod
    def new(cls) -> Self:
        """Make a key."""
        return cls(_private(cls.kind).generate().private_bytes_raw())

    @cached_property
    def _key(self) -> Any:
        return _private(self.kind).from_private_bytes(self.raw)

    @property
    def public(self) -> bytes:
        """The public key."""
        return bytes(self._key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        """Hide the key."""
        return f"{type(self).__name__}(...)"


def _private(kind: str) -> Any:
    with requires_extra("secure"):
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    return ed25519.Ed25519PrivateKey if kind == "Ed25519" else x25519.X25519PrivateKey


class SigningKey(SecretKey, frozen=True):
    """An Ed25519 key.

    >>> key = SigningKey.new()
    >>> key, is_signed(b"data", key.sign(b"data"), key.public), is_signed(b"other", key.sign(b"data"), key.public)
    (SigningKey(...), True, False)
    """

    kind = "Ed25519"

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        return bytes(self._key.sign(data))


class MaskingKey(SecretKey, frozen=True):
    """An X25519 key.

    >>> one, other = MaskingKey.new(), MaskingKey.new()
    >>> one.agreed_with(other.public) == other.agreed_with(one.public)
    True
    """

    kind = "X25519"

    def agreed_with(self, public: bytes) -> bytes:
        """Return the shared secret; refused if anybody could know it."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return bytes(self._key.exchange(X25519PublicKey.from_public_bytes(public)))
        except ValueError:
            raise InputError("a public key for masks is of small order, and hides nothing: make a new one") from None


def is_signed(data: bytes, signature: bytes, public: bytes) -> bool:
    """Tell whether the owner of an Ed25519 key signed this."""
    with requires_extra("secure"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
