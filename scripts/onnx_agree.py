#!/usr/bin/env python3
"""Trains every network of FOLDER, which scripts/onnx_files.py wrote, for two private steps, and exports it. ONNX Runtime must give the
exported model the probabilities that `privgrad predict` gives. Grouped convolutions are frozen.

    pip install numpy onnxruntime
    python3 scripts/onnx_agree.py FOLDER bin/privgrad
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

RECORDS, TESTS = 24, 2
TOLERANCE = 1e-4  # of float32 probabilities behind at most 20 layers


def privgrad(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(done.args)}: {done.stderr}")
    return done.stdout


def flags(program, path):
    """What a network needs besides: no batch normalization, and no grouped convolution among what trains."""
    if "kept" in path.stem:
        return ["--batchnorm", "group"]
    if "mobile" not in path.stem:
        return []
    layers = json.loads(privgrad(program, "info", "--network", path, "--json"))["layers"]
    pool = [layer["node"] for layer in layers if layer["op"] in ("GlobalAveragePool", "ReduceMean")][-1]
    return ["--weights-are-public", "--freeze", pool]


def softmax(logits):
    if logits.shape[1] == 1:  # of the second of two classes
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def check(program, path, folder):
    told = json.loads(path.with_suffix(".json").read_text())
    shape = [1] * (3 - len(told["shape"])) + told["shape"]
    classes = len((told.get("logits") or told["probabilities"])[0])
    random = np.random.default_rng(1)
    x, tests = (random.integers(0, 256, (n, *shape), dtype=np.uint8) for n in (RECORDS, TESTS))
    np.savez(folder / "data.npz", x_train=x, y_train=random.integers(0, classes, RECORDS), x_test=tests, y_test=random.integers(0, classes, TESTS))
    np.save(folder / "tests.npy", tests)
    run, exported = folder / path.stem, folder / "exported.onnx"
    privgrad(
        program, "train", "--network", path, *flags(program, path), "--data", f"npz:{folder / 'data.npz'}", "--image-size", "x".join(map(str, shape)),
        "--class-names", ",".join(map(str, range(classes))), "--public-n", RECORDS, "--delta", 1e-4, "--noise-multiplier", 1,
        "--batch", 8, "--steps", 2, "--lr", 1e-3, "--test-is-public", "--out", run, "--json",
    )
    privgrad(program, "export", run, "--onnx", exported, "--force")
    predicted = json.loads(privgrad(program, "predict", run, folder / "tests.npy", "--json"))
    session = onnxruntime.InferenceSession(exported)
    logits = np.concatenate([session.run(["logits"], {"image": record[None]})[0] for record in tests])
    return np.abs(softmax(logits) - np.array([p["probabilities"] for p in predicted])).max()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("program")
    a = p.parse_args()
    far = 0
    for path in sorted(a.folder.glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            off = check(a.program, path, pathlib.Path(folder))
        print(f"{path.stem}: {off:.1e} off", flush=True)
        far = max(far, off)
    if not far <= TOLERANCE:
        sys.exit(f"the exported models are up to {far:.1e} off, more than {TOLERANCE}")


if __name__ == "__main__":
    main()
