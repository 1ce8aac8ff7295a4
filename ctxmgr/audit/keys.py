"""Ed25519 keys that sign checkpoints. Reads and writes key files.

Needs the package ``cryptography``, which the extra ``ctxmgr-agent[audit]`` installs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Denied, ExtraMissing, Incorrect, NotFound, Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES_MAX: Final = 4_096
"""A PEM file of an Ed25519 key has 119 bytes."""


class SigningKey:
    """A private key. ``public`` is the key that its signatures are verified with, in hex."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.public: Final = private.public_key().public_bytes_raw().hex()

    def sign(self, content: bytes) -> str:
        """Return the signature of the bytes, in hex."""
        return self._private.sign(content).hex()


def create_key(path: Path) -> SigningKey:
    """Create a key and store it for this user alone; ``Incorrect`` if the file exists."""
    with _requires_cryptography():
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    private = ed25519.Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Incorrect(f"{path} exists already; a key is never overwritten") from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    return SigningKey(private)


def load_key(path: Path) -> SigningKey:
    """Read a key; ``NotFound`` if there is none, ``Denied`` if others can read it."""
    with _requires_cryptography():
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Denied(f"{path} can be read by other users: chmod 600 it")
            pem = file.read(KEY_BYTES_MAX)
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist: give the signing key with --key") from None
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}") from error
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Incorrect(f"{path} is not a private key: {error}") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise Incorrect(f"{path} is not an Ed25519 key")
    return SigningKey(private)


def is_signed(content: bytes, signature: str, *, public_key: str) -> bool:
    """Return whether the signature of the bytes is valid; any malformed one is not."""
    with _requires_cryptography():
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


@contextmanager
def _requires_cryptography() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise ExtraMissing(extra="audit") from error
