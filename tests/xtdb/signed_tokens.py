"""A key set and tokens signed with it, without a library; fixed values, nothing secret. Pure."""

import base64
import hashlib
import json
from typing import Final

# Two Mersenne primes make an RSA key that fits into a line.
_P: Final = 2**1279 - 1
_Q: Final = 2**2203 - 1
_MODULUS: Final = _P * _Q
_EXPONENT: Final = 65537
_SHA256_PREFIX: Final = bytes.fromhex("3031300d060960864801650304020105000420")


def jwks_setting() -> str:
    """The setting that makes a server require these tokens."""
    key = {"kty": "RSA", "kid": "k1", "n": _number(_MODULUS), "e": _number(_EXPONENT)}
    return "{:jwks " + json.dumps(json.dumps({"keys": [key]})) + "}"


def token(claims: dict[str, object]) -> str:
    """Return a token with these claims, signed with RS256."""
    head = json.dumps({"alg": "RS256", "kid": "k1"}).encode()
    signed = f"{_text(head)}.{_text(json.dumps(claims).encode())}"
    return f"{signed}.{_text(_signature(signed.encode()))}"


def _signature(message: bytes) -> bytes:
    size = (_MODULUS.bit_length() + 7) // 8
    digest = _SHA256_PREFIX + hashlib.sha256(message).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    private = pow(_EXPONENT, -1, (_P - 1) * (_Q - 1))
    return pow(int.from_bytes(padded, "big"), private, _MODULUS).to_bytes(size, "big")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(number: int) -> str:
    return _text(number.to_bytes((number.bit_length() + 7) // 8, "big"))
