# Runs a saved cnn-mnist with tanh by numpy alone, from the bytes of model.safetensors, and prints how far its logits are
# from those that are expected: the largest difference.
import json
import struct
import sys

import numpy

path, inputs, logits = sys.argv[1:]
with open(path, "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
about = head.pop("__metadata__")
tensors = {
    name: numpy.frombuffer(data[t["data_offsets"][0] : t["data_offsets"][1]], "<f4").reshape(t["shape"]).astype("f8")
    for name, t in head.items()
}
if about["format"] != "pt" or about["model"] != "cnn-mnist" or about["input"] != "x/127.5-1":
    raise SystemExit(f"metadata {about}")


def conv(x, name):
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (5, 5), (2, 3))
    return numpy.einsum("nchwij,ocij->nohw", windows, tensors[name + ".weight"]) + tensors[name + ".bias"][:, None, None]


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def dense(x, name):
    return x @ tensors[name + ".weight"].T + tensors[name + ".bias"]


x = numpy.load(inputs) / 127.5 - 1
x = pool(numpy.tanh(conv(x, "conv1")))
x = pool(numpy.tanh(conv(x, "conv2"))).reshape(len(x), -1)
x = dense(numpy.tanh(dense(numpy.tanh(dense(x, "fc1")), "fc2")), "fc3")
print(numpy.abs(x - numpy.load(logits)).max())
