#!/usr/bin/env python3
"""Write tests/golden/quants/: blocks of every storage type and their float32 values as the published gguf package decodes
them, and a small GGUF written by it. Needs: pip install gguf==0.19.0 (brings numpy).
usage: scripts/make-quant-golden.py [FOLDER]"""
import os
import sys

import numpy as np
import gguf
from gguf.quants import dequantize, quantize

TYPES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
BLOCKS = {256: 12, 32: 24, 1: 4096}


def finite_blocks(rng, qtype, blocks, size):
    """Random bytes, except that float16 fields are finite: any bit pattern a file may hold decodes to a number."""
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    fields = {"Q6_K": [208], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2]}.get(qtype.name, [0])
    for at in fields:
        half = rng.integers(0, 0x7C00, blocks, dtype=np.uint16) | (rng.integers(0, 2, blocks, dtype=np.uint16) << 15)
        raw[:, at:at + 2] = half.view(np.uint8).reshape(blocks, 2)
    return raw


def write_values(folder, rng):
    for name in TYPES:
        qtype = gguf.GGMLQuantizationType[name]
        values, size = gguf.GGML_QUANT_SIZES[qtype]
        if name == "F16":  # finite numbers, subnormal ones and zeros of both signs among them
            raw = rng.integers(0, 0x7C00, 1024, dtype=np.uint16) | (rng.integers(0, 2, 1024, dtype=np.uint16) << 15)
            raw[:8] = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF]
            blocks = raw.view(np.uint8).reshape(-1, 2)
        elif name == "BF16":
            blocks = (rng.standard_normal(1024).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1, 2)
        else:
            blocks = finite_blocks(rng, qtype, BLOCKS[values], size)
        blocks = np.ascontiguousarray(blocks)
        decoded = dequantize(blocks.reshape(1, -1), qtype).astype("<f4").reshape(-1)
        blocks.tofile(os.path.join(folder, f"{name}.blocks"))
        decoded.tofile(os.path.join(folder, f"{name}.f32"))


def write_gguf(folder, rng):
    w = gguf.GGUFWriter(os.path.join(folder, "small.gguf"), "llama")
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_uint64("t.u64", 2**63 + 5)
    w.add_int64("t.i64", -(2**62))
    w.add_float32("t.f32", 0.5)
    w.add_float64("t.f64", 0.1)
    w.add_bool("t.bool", True)
    w.add_string("t.string", "gr\u00fc\u00df")
    w.add_array("t.strings", ["a", "", "\u4f60\u597d"])
    w.add_array("t.ints", [-1, 0, 7])
    w.add_array("t.floats", [0.25, -8.0])
    w.add_array("t.bools", [True, False])
    w.add_tensor("dense.f32", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("dense.f16", np.arange(5, dtype=np.float16))
    w.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    x = rng.standard_normal((3, 64)).astype(np.float32)
    for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]:
        qtype = gguf.GGMLQuantizationType[name]
        w.add_tensor("quant." + name, quantize(x, qtype), raw_dtype=qtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    x.astype("<f4").tofile(os.path.join(folder, "small.x.f32"))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "quants")
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(1234)
    write_values(folder, rng)
    write_gguf(folder, rng)


if __name__ == "__main__":
    main()
