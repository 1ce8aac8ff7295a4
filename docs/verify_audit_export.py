"""Verify an export of a ctxmgr audit log: python verify_audit_export.py FOLDER [PUBLIC_KEY].

Needs Python 3.9 and, for signatures, the package cryptography. PUBLIC_KEY is the log's key as it
was given to you when the log was created; without it, the key in the export itself is used.
"""

import hashlib
import json
import sys
from pathlib import Path


def fail(place: str, reason: str) -> None:
    sys.exit(f"ALTERED {place}: {reason}")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


folder = Path(sys.argv[1])
about = json.loads((folder / "audit.json").read_bytes())
public_key = sys.argv[2] if len(sys.argv) > 2 else about["public_key"]
try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey, InvalidSignature = None, ValueError
signed, ends, first = {0: ("genesis", "genesis")}, {0: 0}, 1
before, checkpoints = "genesis", 0
for checkpoints, line in enumerate((folder / "checkpoints.jsonl").read_bytes().splitlines(), 1):
    place = f"checkpoint {checkpoints}"
    try:
        values = json.loads(line)
        body = line[: line.rindex(b',"signature":"')]
        if Ed25519PublicKey:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
            key.verify(bytes.fromhex(values["signature"]), body)
    except (InvalidSignature, ValueError):
        fail(place, "its signature is not valid")
    if (values["number"], values["log_id"]) != (checkpoints, about["log_id"]):
        fail(place, "it does not belong here")
    if values["prev_checkpoint_hash"] != before:
        fail(place, "it does not continue the previous one")
    before = digest(line)
    first = values["first_segment"]  # segments before it were removed, under this signature
    for point in values["points"]:
        ends[point["segment"]] = point["number"]
        signed[point["number"]] = (point["record_hash"], point["full_hash"])
number, lines = ends[first - 1], (folder / "records.jsonl").read_bytes().split(b"\n")
link = signed[number]
for line in lines[:-1]:
    number += 1
    place = f"record {number}"
    body, _, rest = line.rpartition(b',"full_hash":"')
    if rest != digest(body).encode() + b'"}':
        fail(place, "its bytes do not match its full_hash")
    values = json.loads(line)
    if values["number"] != number:
        fail(place, f"record {values['number']} stands in its place")
    if (values["prev_record_hash"], values["prev_full_hash"]) != link:
        fail(place, "it does not continue the previous record")
    text = f"{link[0]}:{values['session_id']}:{values['tick']}:{values['raw_content']}"
    if values["record_hash"] != digest(text.encode()):
        fail(place, "its content does not match its record_hash")
    link = (values["record_hash"], values["full_hash"])
    if signed.get(number, link) != link:
        fail(place, "it is not the record that was signed")
if lines[-1] or number < max(about["records"], *signed):
    fail(f"record {number + 1}", "the export ends before it")
if checkpoints < about["checkpoints"]:
    fail(f"checkpoint {checkpoints + 1}", "it was removed")
how = "signed" if Ed25519PublicKey else "checkpoints (signatures NOT verified)"
print(f"OK records up to {number}, {how} up to {max(signed)}, key {public_key}")
