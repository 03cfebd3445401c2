# Runs every model of a directory by ONNX Runtime and prints, for each, how far its logits are from
# those that are expected: the largest difference over the larger of 1 and the largest logit.
import pathlib
import sys

import numpy
import onnxruntime

try:
    import onnx
except ImportError:
    onnx = None

for model in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    if onnx:
        onnx.checker.check_model(str(model), full_check=True)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (declared,) = session.get_inputs()
    inputs = numpy.load(model.with_suffix(".input.npy"))
    expected = numpy.load(model.with_suffix(".logits.npy"))
    if declared.shape[1:] != list(inputs.shape[1:]):
        raise SystemExit(f"{model.name}: the model declares {declared.shape}, the input is {inputs.shape}")
    (logits,) = session.run(["logits"], {declared.name: inputs})
    scale = max(1, numpy.abs(expected).max())
    print(model.stem, declared.name, numpy.abs(logits - expected).max() / scale, numpy.abs(expected).max())
