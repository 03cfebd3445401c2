"""What the peers share: networks, a batch, the command line and the clock."""
import argparse
import json
import resource
import statistics
import sys
import time
from math import prod

import numpy as np

# The networks of package nn, a word a layer: conv<out>x<kernel> with /stride and +padding, pool<size>/<stride>,
# fc<out>, relu, flat.
NETWORKS = {
    "mlp-mnist": ((1, 28, 28), "flat fc1000 relu fc10"),
    "mlp-fmnist": ((1, 28, 28), "flat fc256 relu fc256 relu fc10"),
    "cnn-mnist": ((1, 28, 28), "conv6x5 relu pool2/2 conv16x5 relu pool2/2 flat fc256 relu fc128 relu fc10"),
    "mnist-tf": ((1, 28, 28), "conv16x8/2+3 relu pool2/1 conv32x4/2 relu pool2/1 flat fc32 relu fc10"),
    "cifar-small": ((3, 32, 32), "conv32x3+1 relu conv32x3+1 relu pool2/2 conv64x3+1 relu conv64x3+1 relu pool2/2 "
                                 "conv128x3+1 relu conv128x3+1 relu pool2/2 flat fc128 relu fc10"),
    "cifar-paper": ((3, 32, 32), "conv32x3+1 relu conv64x3+1 relu pool2/2 conv128x3+1 relu conv128x3+1 relu pool2/2 "
                                 "conv256x3+1 relu conv256x3+1 relu pool2/2 flat fc1024 relu fc512 relu fc10"),
}
CLASSES = 10

# What every private step does.
CLIP = 1.0
NOISE_MULTIPLIER = 1.0
RATE = 0.05


class Layer:
    """One layer with the shapes before and after it, (channels, height, width) or (features,)."""

    def __init__(self, word, shape):
        self.before = self.after = shape
        self.kind = next(k for k in ("conv", "pool", "fc", "relu", "flat") if word.startswith(k))
        text = word[len(self.kind):]
        text, _, padding = text.partition("+")
        text, _, stride = text.partition("/")
        self.padding, self.stride = int(padding or 0), int(stride or 1)
        self.weight = None  # shape, in PyTorch's layout
        if self.kind == "conv":
            out, self.size = map(int, text.split("x"))
            self.weight = (out, shape[0], self.size, self.size)
            self.after = (out, *map(self._slide, shape[1:]))
        elif self.kind == "pool":
            self.size = int(text)
            self.after = (shape[0], *map(self._slide, shape[1:]))
        elif self.kind == "fc":
            self.weight = (int(text), *shape)
            self.after = (int(text),)
        elif self.kind == "flat":
            self.after = (prod(shape),)

    def _slide(self, length):
        return (length + 2 * self.padding - self.size) // self.stride + 1


def layers(model):
    shape, words = NETWORKS[model]
    for word in words.split():
        layer = Layer(word, shape)
        yield layer
        shape = layer.after


def initial(model):
    """[(weight, bias)] in PyTorch's layout: uniform He weights, zero biases."""
    random = np.random.default_rng(1)
    tensors = []
    for layer in layers(model):
        if layer.weight:
            bound = (6 / prod(layer.weight[1:])) ** 0.5
            tensors.append((random.uniform(-bound, bound, layer.weight).astype(np.float32),
                            np.zeros(layer.weight[0], np.float32)))
    return tensors


def batch(model, rows):
    """Pixels of random bytes, scaled to [-1, 1], channels first; random labels."""
    random = np.random.default_rng(2)
    pixels = random.integers(0, 256, (rows, *NETWORKS[model][0]), dtype=np.uint8)
    return pixels.astype(np.float32) / np.float32(127.5) - 1, random.integers(0, CLASSES, rows)


def options(description, modes):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--model", choices=NETWORKS, required=True)
    p.add_argument("--mode", choices=modes, required=True)
    p.add_argument("--batch", type=int, required=True, help="rows of every step")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--precision", choices=["float32", "tf32", "bf16"], default="float32", help="of matrix products; parameters and sums are float32")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--seconds", type=float, required=True, help="to measure for, after warming up")
    return p.parse_args()


def report(o, peer, version, step, device_bytes):
    """Times step, which returns when its work is done, and prints one line of JSON. device_bytes gives
    the most memory taken on a GPU, None without one."""
    began = time.perf_counter()
    step()  # compiles, where there is something to compile
    step()
    warm = time.perf_counter()
    while time.perf_counter() - warm < o.seconds / 10:
        step()
    times = []
    end = time.perf_counter() + o.seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({
        "peer": peer, "version": version, "mode": o.mode, "model": o.model, "batch": o.batch, "device": o.device, "precision": o.precision, "threads": o.threads,
        "parameters": sum(w.size + b.size for w, b in initial(o.model)),
        "steps_timed": len(times), "step_seconds_median": statistics.median(times), "warm_up_seconds": warm - began,
        "peak_rss_bytes": kilobytes if sys.platform == "darwin" else kilobytes * 1024,
        "peak_device_bytes": device_bytes(),
    }), flush=True)
