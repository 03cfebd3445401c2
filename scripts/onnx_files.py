#!/usr/bin/env python3
"""Writes networks as other programs export them: FOLDER/NAME.onnx, and FOLDER/NAME.json with what the program that made the network finds
for two records. A record is named by its number: its values are those of pattern() below, so that the test makes them, too. What Python
lacks is left out, and said. PyTorch writes each network by both of its exporters.

    pip install torch onnx onnxscript onnxruntime scikit-learn skl2onnx tensorflow tf2onnx
    python3 scripts/onnx_files.py internal/onnx/lower/testdata        # narrow networks, which are test data
    python3 scripts/onnx_files.py FOLDER --full                       # networks of full width
"""
import argparse
import importlib.util
import json
import os
import pathlib
import sys
import warnings

import numpy as np

from models_golden import pattern

RECORDS = [3, 8]
warnings.filterwarnings("ignore")


def records(shape, numbers=RECORDS):
    """Values between -2 and 2, which float32 holds exactly. An image is of channels, rows and columns."""
    n = int(np.prod(shape))
    return np.stack([(np.floor(pattern(i, n) / 16) / 64 - 2).reshape(shape) for i in numbers]).astype(np.float32)


def describe(folder, name, shape, kind, values, **more):
    """kind says what the values of each record are: logits, or probabilities."""
    rows = [[float(f"{v:.12g}") for v in row] for row in np.asarray(values, np.float64).reshape(len(RECORDS), -1)]
    text = json.dumps({"records": RECORDS, "shape": list(shape), kind: rows, **more})
    (folder / f"{name}.json").write_text(text + "\n")


def strip(path):
    """Takes out what exporters say of the program that they ran: it names folders, and takes more room than the network."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    for part in *model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output:
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    path.write_bytes(model.SerializeToString(deterministic=True))


# PyTorch ------------------------------------------------------------------------------------------------------------------


def torch_networks(full):
    """The networks by name: the module, the shape of a record, and whether records have a length of their own in the file."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    scale = lambda wide, narrow: wide if full else narrow

    class Block(nn.Module):
        def __init__(self, norm, before, after, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.norm1 = norm(after)
            self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.norm2 = norm(after)
            self.short = nn.Sequential()
            if stride > 1 or before != after:
                self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), norm(after))

        def forward(self, x):
            h = F.relu(self.norm1(self.conv1(x)))
            return F.relu(self.norm2(self.conv2(h)) + self.short(x))

    class ResNet18(nn.Module):
        def __init__(self, norm):
            super().__init__()
            widths = scale([64, 128, 256, 512], [2, 2, 4, 4])
            self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
            self.norm1 = norm(widths[0])
            blocks, before = [], widths[0]
            for i, after in enumerate(widths):
                blocks += [Block(norm, before, after, 2 if i else 1), Block(norm, after, after, 1)]
                before = after
            self.blocks = nn.Sequential(*blocks)
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(before, 10)

        def forward(self, x):
            h = self.blocks(F.relu(self.norm1(self.conv1(x))))
            return self.fc(torch.flatten(self.pool(h), 1))

    def vgg11():
        layers, before = [], 3
        for after in scale([64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0], [2, 0, 3, 0, 4, 4, 0, 4, 4, 0, 4, 4, 0]):
            if after == 0:
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
            before = after
        hidden = scale(4096, 12)
        head = [nn.Linear(before, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, 1000)]
        head[-1] = nn.Linear(hidden, 10)  # as one takes a network to other classes
        return nn.Sequential(nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Sequential(*head))

    def cnn():
        a, b = scale((32, 64), (3, 5))
        return nn.Sequential(nn.Conv2d(1, a, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(a, b, 3, stride=2), nn.Tanh(), nn.AvgPool2d(2),
                             nn.Flatten(), nn.Linear(9 * b, 10))

    def mlp():
        n = scale(256, 12)
        return nn.Sequential(nn.Linear(20, n), nn.LayerNorm(n), nn.GELU(), nn.Linear(n, n), nn.LayerNorm(n), nn.GELU(), nn.Linear(n, 3))

    def mobile():
        n, layers = scale(32, 4), []
        for before, after, stride in (n, 2 * n, 1), (2 * n, 4 * n, 2), (4 * n, 4 * n, 1):
            layers += [nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False), nn.BatchNorm2d(before), nn.ReLU6(),
                       nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU6()]
        return nn.Sequential(nn.Conv2d(3, n, 3, 2, 1, bias=False), nn.BatchNorm2d(n), nn.ReLU6(), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(4 * n, 10))

    groups = lambda n: nn.GroupNorm(min(n // 2, 32), n)
    image = (3, 32, 32)
    return {
        "cnn": (cnn, (1, 28, 28), "one"), "resnet18-group": (lambda: ResNet18(groups), image, "many"),
        "resnet18-batch": (lambda: ResNet18(nn.BatchNorm2d), image, "many"), "vgg11": (vgg11, image, "one"),
        "mlp": (mlp, (20,), "many"), "mobile": (mobile, image, "many"),
    }


def make(network, name):
    """A network with weights that look random, and statistics and scales of norms that are no defaults, in the mode of inference."""
    import torch

    torch.manual_seed(sum(map(ord, name)))
    net = network()
    with torch.no_grad():
        for m in net.modules():
            if hasattr(m, "running_mean"):
                m.running_mean.uniform_(-0.3, 0.3)
                m.running_var.uniform_(0.5, 2)
            if "Norm" in type(m).__name__:
                m.weight.uniform_(0.5, 1.5)
                m.bias.uniform_(-0.3, 0.3)
    return net.eval()


# How a network is exported: by which exporter, and what it is told. Both put a batch norm into the convolution before it, unless they are
# told not to; sets of operations before 17 have no layer norm, and those before 20 no GELU.
def ways(name):
    import torch

    yield "script", False, {}
    if "batch" not in name:
        yield "dynamo", True, {}
    if "batch" in name:
        yield "kept-script", False, {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
        yield "kept-dynamo", True, {"optimize": False}
    if name == "mlp":
        yield "script-13", False, {"opset_version": 13}
        yield "dynamo-18", True, {"opset_version": 18}
    if name == "cnn":
        yield "dynamo-23", True, {"opset_version": 23}


def by_torch(folder, full):
    import torch

    for name, (network, shape, length) in torch_networks(full).items():
        net = make(network, name)
        with torch.no_grad():
            logits = net.double()(torch.from_numpy(records(shape)).double())
        net.float()
        example = (torch.from_numpy(records(shape))[:1 if length == "one" else 2],)
        for way, dynamo, more in ways(name):
            path = folder / f"{name}-{way}.onnx"
            if dynamo:
                more |= {"dynamic_shapes": None if length == "one" else ({0: torch.export.Dim("N")},), "external_data": name == "mlp"}
            else:
                more |= {"input_names": ["input"], "output_names": ["output"], "dynamic_axes": {} if length == "one" else {"input": {0: "N"}, "output": {0: "N"}}}
            torch.onnx.export(net, example, str(path), dynamo=dynamo, verbose=False, **more)
            strip(path)
            describe(folder, path.stem, shape, "logits", logits, producer=f"torch {torch.__version__}")


# Others -------------------------------------------------------------------------------------------------------------------


def by_keras(folder, full):
    os.environ["KERAS_BACKEND"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "tensorflow", "3"
    import keras
    import tensorflow
    import tf2onnx

    keras.utils.set_random_seed(5)
    a, b = (32, 64) if full else (3, 4)
    layers = keras.layers
    net = keras.Sequential([
        keras.Input((12, 10, 3)), layers.Conv2D(a, 3, padding="same", activation="relu"), layers.MaxPooling2D(), layers.Conv2D(b, 3, activation="relu"),
        layers.AveragePooling2D(2), layers.Flatten(), layers.Dropout(0.5), layers.Dense(7, activation="tanh"), layers.Dense(4, activation="softmax")])
    shape = (3, 12, 10)
    x = records(shape).transpose(0, 2, 3, 1)
    run = tensorflow.function(lambda x: net(x, training=False), input_signature=[tensorflow.TensorSpec((None, 12, 10, 3), tensorflow.float32, name="x")])
    tf2onnx.convert.from_function(run, input_signature=run.input_signature, opset=17, output_path=str(folder / "keras.onnx"))
    describe(folder, "keras", shape, "probabilities", net(x, training=False).numpy(), producer=f"keras {keras.__version__}, tf2onnx {tf2onnx.__version__}")


def by_sklearn(folder, full):
    import sklearn
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier

    for name, classes, activation in ("sklearn-2", 2, "relu"), ("sklearn-10", 10, "tanh"):
        random = np.random.default_rng(classes)
        x = random.standard_normal((200, 8)).astype(np.float32)
        y = np.argmax(x @ random.standard_normal((8, classes)), 1)
        net = MLPClassifier((64, 32) if full else (6, 5), activation=activation, random_state=0, max_iter=20).fit(x, y)
        model = to_onnx(net, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        describe(folder, name, (8,), "probabilities", net.predict_proba(records((8,))), producer=f"scikit-learn {sklearn.__version__}")


# What each part needs.
PARTS = {"torch": (by_torch, ["torch", "onnx", "onnxscript"]), "keras": (by_keras, ["keras", "tensorflow", "tf2onnx"]), "sklearn": (by_sklearn, ["sklearn", "skl2onnx"])}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--full", action="store_true", help="full width")
    chosen = arguments.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for part, (write, needs) in PARTS.items():
        lacks = [m for m in needs if not importlib.util.find_spec(m)]
        if lacks:
            print(f"{part}: left out, Python lacks {', '.join(lacks)}", file=sys.stderr)
            continue
        write(chosen.folder, chosen.full)


if __name__ == "__main__":
    main()
