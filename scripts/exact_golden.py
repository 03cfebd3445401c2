#!/usr/bin/env python3
"""Prints internal/exact/testdata/normals.json: rounded normals from first principles.

    python3 -m pip install cryptography==48.0.0 mpmath==1.3.0
    python3 scripts/exact_golden.py >internal/exact/testdata/normals.json

Nothing is shared with the Go code: keystreams are of another library, and the inverse of the normal's tail is found from
all 575 digits of every draw by an arbitrary-precision library.
"""
import hashlib
import json

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from mpmath import erfc, exp, mp, mpf, pi, sqrt

mp.prec = 1400
KEY = hashlib.sha256(b"privgrad stream key from seed, not private\0" + (1).to_bytes(8, "little") + b"golden").digest()


def keystream(cipher, step, tensor, block, size):
    """size bytes from a block of (step, tensor) on."""
    if cipher == "AES-256-CTR":
        counter = step.to_bytes(8, "big") + tensor.to_bytes(4, "big") + block.to_bytes(4, "big")
        c = Cipher(algorithms.AES(KEY), modes.CTR(counter))
    else:
        nonce = block.to_bytes(4, "little") + tensor.to_bytes(4, "little") + step.to_bytes(8, "little")
        c = Cipher(algorithms.ChaCha20(KEY, nonce), mode=None)
    return c.encryptor().update(bytes(size))


def draw(cipher, scale, step, tensor, i):
    size = 16 if cipher == "AES-256-CTR" else 64
    block, rest = divmod(8 * i, size)
    word = int.from_bytes(keystream(cipher, step, tensor, block, size)[rest:rest + 8], "little")
    more = keystream(cipher, step, tensor + 2**31, 64 // size * i, 64)
    v = mpf((word % 2**63) << 512 | int.from_bytes(more, "big")) / mpf(2) ** 575
    low, high = mpf(0), mpf(14)  # erfc(z/√2) falls
    for _ in range(60):
        z = (low + high) / 2
        low, high = (z, high) if erfc(z / sqrt(mpf(2))) > v else (low, z)
    for _ in range(6):  # Newton's method
        z += (erfc(z / sqrt(mpf(2))) - v) * sqrt(2 * pi) * exp(z * z / 2) / 2
    k = int(mp.floor(scale * z + mpf(1) / 2))
    return -k if word >> 63 else k


cases = []
for cipher in ("AES-256-CTR", "ChaCha20"):
    for scale in (0.5, 3.0, 1179648.0, 268435456.0, 1099511627776.0):
        for first in (0, 2**30 - 5):
            numbers = range(first, first + 5 if first else 24)
            cases.append({"cipher": cipher, "scale": scale, "step": 2**40 + 7, "tensor": 2**31 - 3, "first": first,
                          "draws": [draw(cipher, mpf(scale), 2**40 + 7, 2**31 - 3, i) for i in numbers]})
print("[\n " + ",\n ".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
