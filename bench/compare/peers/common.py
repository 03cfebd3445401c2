"""What the peers share: networks, a batch, the command line and the clock."""
import argparse
import json
import resource
import statistics
import sys
import time
from math import prod

import numpy as np

# The networks of package nn, a word a layer: conv<out>x<kernel> with /stride and +padding, sconv the same with standardized
# kernels, norm<groups>, pool<size>/<stride>, mean over the image, fc<out>, relu, flat. keep puts a copy of a value aside, swap
# goes on with that one, and add adds it. wide<out>/<stride> is a block of many words: see wide.
NETWORKS = {
    "mlp-mnist": ((1, 28, 28), "flat fc1000 relu fc10"),
    "mlp-fmnist": ((1, 28, 28), "flat fc256 relu fc256 relu fc10"),
    "cnn-mnist": ((1, 28, 28), "conv6x5 relu pool2/2 conv16x5 relu pool2/2 flat fc256 relu fc128 relu fc10"),
    "mnist-tf": ((1, 28, 28), "conv16x8/2+3 relu pool2/1 conv32x4/2 relu pool2/1 flat fc32 relu fc10"),
    "cifar-small": ((3, 32, 32), "conv32x3+1 relu conv32x3+1 relu pool2/2 conv64x3+1 relu conv64x3+1 relu pool2/2 "
                                 "conv128x3+1 relu conv128x3+1 relu pool2/2 flat fc128 relu fc10"),
    "cifar-paper": ((3, 32, 32), "conv32x3+1 relu conv64x3+1 relu pool2/2 conv128x3+1 relu conv128x3+1 relu pool2/2 "
                                 "conv256x3+1 relu conv256x3+1 relu pool2/2 flat fc1024 relu fc512 relu fc10"),
    "resnet-small": ((3, 32, 32), "conv16x3+1 keep relu norm2 conv32x3/2+1 relu norm4 conv32x3+1 swap relu norm2 conv32x1/2 add "
                                  "keep relu norm4 conv64x3/2+1 relu norm8 conv64x3+1 swap relu norm4 conv64x1/2 add "
                                  "keep relu norm8 conv64x3+1 relu norm8 conv64x3+1 add "
                                  "keep relu norm8 conv128x3/2+1 relu norm16 conv128x3+1 swap relu norm8 conv128x1/2 add "
                                  "relu norm16 mean flat fc10"),
    "wrn-16-4": ((3, 32, 32), "sconv16x3+1 wide64/1 wide64/1 wide128/2 wide128/1 wide256/2 wide256/1 relu norm16 mean flat fc10"),
    "wrn-40-4": ((3, 32, 32), "sconv16x3+1 wide64/1 wide64/1 wide64/1 wide64/1 wide64/1 wide64/1 "
                              "wide128/2 wide128/1 wide128/1 wide128/1 wide128/1 wide128/1 "
                              "wide256/2 wide256/1 wide256/1 wide256/1 wide256/1 wide256/1 relu norm16 mean flat fc10"),
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
        self.kind = next(k for k in ("sconv", "conv", "norm", "pool", "mean", "fc", "relu", "flat", "keep", "swap", "add") if word.startswith(k))
        text = word[len(self.kind):]
        text, _, padding = text.partition("+")
        text, _, stride = text.partition("/")
        self.padding, self.stride = int(padding or 0), int(stride or 1)
        self.tensors = []  # shapes, in PyTorch's layout: a weight, a bias, and of standardized kernels a gain
        if self.kind in ("conv", "sconv"):
            out, self.size = map(int, text.split("x"))
            self.tensors = [(out, shape[0], self.size, self.size), (out,)] + [(out,)] * (self.kind == "sconv")
            self.after = (out, *map(self._slide, shape[1:]))
        elif self.kind == "norm":
            self.groups = int(text)
            self.tensors = [(shape[0],), (shape[0],)]
        elif self.kind == "pool":
            self.size = int(text)
            self.after = (shape[0], *map(self._slide, shape[1:]))
        elif self.kind == "mean":
            self.after = (shape[0], 1, 1)
        elif self.kind == "fc":
            self.tensors = [(int(text), *shape), (int(text),)]
            self.after = (int(text),)
        elif self.kind == "flat":
            self.after = (prod(shape),)

    def _slide(self, length):
        return (length + 2 * self.padding - self.size) // self.stride + 1

    def initial(self, random):
        """Uniform He weights, zero biases, scales and gains of one."""
        if not self.tensors:
            return []
        first = np.ones(self.tensors[0], np.float32)
        if len(first.shape) > 1:
            bound = (6 / prod(first.shape[1:])) ** 0.5
            first = random.uniform(-bound, bound, first.shape).astype(np.float32)
        return [first, np.zeros(self.tensors[1], np.float32)] + [np.ones(gain, np.float32) for gain in self.tensors[2:]]


EPSILON = 1e-5  # of normalizations
FLOOR = 1e-4  # of a standardized kernel's variance, times its size


def wide(word, channels):
    """The words of a block of a wide residual network."""
    out, _, stride = word.removeprefix("wide").partition("/")
    strided = f"/{stride}" if stride != "1" else ""
    words = f"keep relu norm16 sconv{out}x3{strided}+1 relu norm16 sconv{out}x3+1 "
    if int(out) != channels:
        words += f"swap relu norm16 sconv{out}x1{strided} "
    return words + "add"


def layers(model):
    shape, words = NETWORKS[model]
    words, kept = words.split(), []
    while words:
        word = words.pop(0)
        if word.startswith("wide"):
            words = wide(word, shape[0]).split() + words
            continue
        layer = Layer(word, shape)
        if layer.kind == "keep":
            kept.append(shape)
        elif layer.kind == "swap":
            layer.after, kept[-1] = kept[-1], shape
        elif layer.kind == "add":
            assert kept.pop() == shape, model
        yield layer
        shape = layer.after


def run(layers, value, apply):
    """What layers make of a value, where apply is what one does by itself."""
    kept = []
    for layer in layers:
        if layer.kind == "keep":
            kept.append(value)
        elif layer.kind == "swap":
            value, kept[-1] = kept[-1], value
        elif layer.kind == "add":
            value = value + kept.pop()
        else:
            value = apply(layer, value)
    return value


def initial(model):
    """The tensors of each layer that has some, in PyTorch's layout."""
    random = np.random.default_rng(1)
    return [layer.initial(random) for layer in layers(model) if layer.tensors]


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


# How many steps are asked of a GPU before its work is waited for: as many as privgrad's own bench step asks for.
TOGETHER = 32


def waited(step, wait):
    """How long a step with its wait takes."""
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def timed(step, wait, seconds, most=TOGETHER):
    """Seconds a step, the median, and how many were timed: up to so many between two waits, after a warm-up of a tenth. Of
    steps that take long, for which a wait is nothing, fewer."""
    times, together = [], max(1, min(most, int(seconds / waited(step, wait))))
    began = time.perf_counter()
    while True:
        start = time.perf_counter()
        for _ in range(together):
            step()
        wait()
        took = time.perf_counter() - start
        if time.perf_counter() - began > seconds / 10:
            times.append(took / together)
        if len(times) >= 3 and time.perf_counter() - began > seconds:
            return statistics.median(times), together * len(times)


def report(o, peer, version, step, wait, device_bytes, form=None):
    """Times step and prints one line of JSON. What a GPU does a step only asks for, and wait waits for it. device_bytes gives
    the most memory taken on a GPU, None without one. form says which of several ways the step is done."""
    began = time.perf_counter()
    for _ in range(2):  # compiles, where there is something to compile
        waited(step, wait)
    warm = time.perf_counter()
    seconds, count = timed(step, wait, o.seconds, TOGETHER if o.device == "cuda" else 1)
    result = {
        "peer": peer, "version": version, "mode": o.mode, "model": o.model, "batch": o.batch, "device": o.device, "precision": o.precision, "threads": o.threads,
        "parameters": sum(t.size for tensors in initial(o.model) for t in tensors),
        "steps_timed": count, "step_seconds_median": seconds, "warm_up_seconds": warm - began,
    }
    if o.device == "cuda":
        result["step_seconds_waited_median"] = timed(step, wait, o.seconds / 2, 1)[0]
    if form:
        result["form"] = form
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result["peak_rss_bytes"] = kilobytes if sys.platform == "darwin" else kilobytes * 1024
    result["peak_device_bytes"] = device_bytes()
    print(json.dumps(result), flush=True)
