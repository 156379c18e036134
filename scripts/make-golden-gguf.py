#!/usr/bin/env python3
"""Write tests/golden/NAME/model.gguf: the weights of model.safetensors in the layout GGUF files of that architecture have.

usage: scripts/make-golden-gguf.py [NAME...]        (llama qwen3_5; needs numpy and gguf from PyPI)

The two layouts differ in names, and in what converters do to the values: llama's q and k rows are reordered for interleaved
rope; Qwen 3.5's norms get their 1 added, its value heads go from grouped to interleaved order, A_log becomes -exp(A_log).
Matrices stay bfloat16, bit for bit; vectors become float32. Unit tests compare both files' logits.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
LLAMA = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
         "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
         "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
         "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
         "mlp.down_proj.weight": "ffn_down.weight"}
QWEN = {**LLAMA, "post_attention_layernorm.weight": "post_attention_norm.weight",
        "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
        "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
        "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
        "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
        "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight"}
TOP = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}


def read_safetensors(path):
    """name -> float32 array; bfloat16 and float32 only."""
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + size + o for o in t["data_offsets"])
        raw = data[first:last]
        flat = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32) if t["dtype"] == "BF16" else \
            np.frombuffer(raw, "<f4")
        out[name] = flat.reshape(t["shape"])
    return out


def interleave_rope_rows(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def interleave_value_heads(w, axis, k_heads, v_heads, size):
    """Value head i * r + j (of key head i) moves to place j * k_heads + i; each is `size` long on that axis."""
    shape = w.shape
    w = w.reshape(shape[:axis] + (k_heads, v_heads // k_heads, size) + shape[axis + 1:])
    return w.swapaxes(axis, axis + 1).reshape(shape)


def convert_llama(role, w, c):
    if role.endswith(("q_proj.weight", "k_proj.weight")):
        return interleave_rope_rows(w, c["num_attention_heads" if "q_proj" in role else "num_key_value_heads"])
    return w


def convert_qwen(role, w, c):
    k, v, dv = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_value_head_dim"]
    keys = 2 * k * c["linear_key_head_dim"]
    name = role.removeprefix("linear_attn.")
    if name in ("in_proj_qkv.weight", "conv1d.weight"):
        w = w.squeeze(1) if name.startswith("conv1d") else w
        return np.concatenate([w[:keys], interleave_value_heads(w[keys:], 0, k, v, dv)])
    if name == "in_proj_z.weight":
        return interleave_value_heads(w, 0, k, v, dv)
    if name == "out_proj.weight":
        return interleave_value_heads(w, 1, k, v, dv)
    if name in ("in_proj_a.weight", "in_proj_b.weight", "dt_bias"):
        return interleave_value_heads(w, 0, k, v, 1)
    if name == "A_log":
        return -np.exp(interleave_value_heads(w, 0, k, v, 1))
    if role.endswith("norm.weight") and role != "linear_attn.norm.weight":
        return w + np.float32(1)
    return w


def write_keys(out, arch, c):
    def put(key, value):
        (out.add_float32 if isinstance(value, float) else out.add_uint32)(f"{arch}.{key}", value)

    rope = c.get("rope_parameters", c)
    put("block_count", c["num_hidden_layers"])
    put("context_length", c["max_position_embeddings"])
    put("embedding_length", c["hidden_size"])
    put("feed_forward_length", c["intermediate_size"])
    put("attention.head_count", c["num_attention_heads"])
    put("attention.head_count_kv", c["num_key_value_heads"])
    put("attention.key_length", c["head_dim"])
    put("attention.value_length", c["head_dim"])
    put("attention.layer_norm_rms_epsilon", float(c["rms_norm_eps"]))
    put("rope.freq_base", float(rope["rope_theta"]))
    put("rope.dimension_count", int(c["head_dim"] * rope.get("partial_rotary_factor", 1)))
    put("vocab_size", c["vocab_size"])
    if arch == "qwen35":
        put("full_attention_interval", c["full_attention_interval"])
        put("ssm.conv_kernel", c["linear_conv_kernel_dim"])
        put("ssm.state_size", c["linear_key_head_dim"])
        put("ssm.group_count", c["linear_num_key_heads"])
        put("ssm.time_step_rank", c["linear_num_value_heads"])
        put("ssm.inner_size", c["linear_num_value_heads"] * c["linear_value_head_dim"])
    out.add_uint32("tokenizer.ggml.eos_token_id", c["eos_token_id"])


def write(name):
    folder = GOLDEN / name
    config = json.loads((folder / "config.json").read_text())
    c = config.get("text_config", config)
    arch, roles, convert = ("llama", LLAMA, convert_llama) if name == "llama" else ("qwen35", QWEN, convert_qwen)
    out = gguf.GGUFWriter(folder / "model.gguf", arch)
    write_keys(out, arch, c)
    for full, w in read_safetensors(folder / "model.safetensors").items():
        short = full.removeprefix("model.").removeprefix("language_model.")
        if short.startswith("layers."):
            _, layer, role = short.split(".", 2)
            target, w = f"blk.{layer}.{roles[role]}", convert(role, w, c)
        else:
            target, w = TOP[short], w + np.float32(1) if arch == "qwen35" and short == "norm.weight" else w
        if w.ndim == 1 or "conv1d" in target:
            out.add_tensor(target, np.ascontiguousarray(w, dtype=np.float32))
        else:
            bits = (np.ascontiguousarray(w).view(np.uint32) >> 16).astype(np.uint16)
            out.add_tensor(target, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


for wanted in sys.argv[1:] or ("llama", "qwen3_5"):
    write(wanted)
