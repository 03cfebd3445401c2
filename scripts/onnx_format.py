#!/usr/bin/env python3
"""Writes internal/onnx/file/testdata with the package onnx: constants of every type that is read, in both forms and in a file
beside the model; attributes of every type; an input without a length; a graph that also declares its constants as inputs.

    pip install onnx
    python3 scripts/onnx_format.py internal/onnx/file/testdata
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

FLOATS = [1.5, -2.25, 0.0, 65504.0, 2.0**-24, -3.140625]  # all in float16; bfloat16 rounds the fourth
WHOLE = [0, 1, 127, -128, 5, -1]
TYPES = {
    T.FLOAT: FLOATS, T.FLOAT16: FLOATS, T.BFLOAT16: FLOATS, T.DOUBLE: FLOATS, T.INT8: WHOLE, T.UINT8: [abs(n) for n in WHOLE],
    T.INT32: [n << 20 for n in WHOLE], T.INT64: [n << 40 for n in WHOLE], T.BOOL: [n & 1 for n in WHOLE],
}


def constants():
    for kind, values in TYPES.items():
        name = T.DataType.Name(kind).lower()
        array = np.array(values).astype(h.tensor_dtype_to_np_dtype(kind)).reshape(2, 3)
        yield onnx.numpy_helper.from_array(array, name + "_raw")
        yield h.make_tensor(name + "_listed", kind, (2, 3), array.ravel().tolist())
    yield h.make_tensor("scalar", T.FLOAT, (), [7.0])
    yield h.make_tensor("empty", T.INT64, (0,), [])
    yield h.make_tensor("words", T.STRING, (2,), [b"no", b"yes"])


def model(graph, **more):
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 3)], ir_version=8,
                        producer_name="made by hand", producer_version="1", **more)


def types():
    branch = h.make_graph([h.make_node("Identity", ["x"], ["inner"])], "branch", [], [h.make_tensor_value_info("inner", T.FLOAT, None)])
    node = h.make_node("All", ["x", "", "scalar"], ["y", ""], name="all", domain="ai.onnx.ml", a_float=0.5, an_int=-3, a_text="valid", floats=[1.0, -2.0],
                       ints=[3, -4, 1 << 40], texts=["a", "b"], tensor=h.make_tensor("t", T.INT64, (2,), [8, -9]), graph=branch)
    nodes = [h.make_node("Relu", ["y"], ["z"], name="second"), node]  # in the wrong order
    inputs = [h.make_tensor_value_info("x", T.FLOAT, ["N", 3, None]), h.make_tensor_value_info("scalar", T.FLOAT, ())]
    no_tensor = h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, None)))
    outputs = [h.make_tensor_value_info("z", T.FLOAT, None), h.make_value_info("y", no_tensor)]
    return model(h.make_graph(nodes, "types", inputs, outputs, list(constants())))


def main(folder):
    onnx.save(types(), f"{folder}/types.onnx")
    rows = [c for c in constants() if c.HasField("raw_data")]
    beside = model(h.make_graph([h.make_node("Relu", ["x"], ["y"])], "beside", [h.make_tensor_value_info("x", T.FLOAT, ["N"])],
                                [h.make_tensor_value_info("y", T.FLOAT, ["N"])], rows))
    onnx.save(beside, f"{folder}/beside.onnx", save_as_external_data=True, location="beside.bin", size_threshold=0)


if __name__ == "__main__":
    main(sys.argv[1])
