#!/usr/bin/env python3
"""Record what the published implementation computes for a model folder: FOLDER/golden.json, read by tests/unit/golden.c.

usage: scripts/make-golden.py FOLDER [--prompt 5,9,12] [--steps 64] [--check]

FOLDER holds config.json and model.safetensors (tests/golden/llama, tests/golden/qwen3_5, or any checkpoint small enough to run
in float32 on the CPU). The prompt is that of an existing golden.json unless --prompt gives ids. --check writes nothing and
compares: every recorded number must come out again to 1e-3 of the largest magnitude, every id exactly. Needs torch and
transformers 5.17 from PyPI (CPU builds do).

Every tensor is recorded as shape, sum, sum of squares, largest magnitude, a sum weighted by position (so that shifted or
transposed data shows) and eight values of its first and last row.
"""
import argparse
import json
import pathlib
import sys

import torch
import transformers


def number(x):
    return float(f"{float(x):.9g}")


def summary(t):
    t = t.detach().double()
    flat = t.reshape(-1)
    weight = (torch.arange(flat.numel()) % 97 - 48).double() / 48
    rows = t.reshape(-1, t.shape[-1])
    return dict(shape=list(t.shape), sum=number(flat.sum()), sumsq=number((flat * flat).sum()), absmax=number(flat.abs().max()),
                wsum=number((flat * weight).sum()), first8=[number(x) for x in rows[0, :8]], last8=[number(x) for x in rows[-1, :8]])


def logits_summary(row):
    row = row.detach().float()
    value, index = row.topk(32)
    return dict(top_ids=index.tolist(), top_logits=[number(x) for x in value], argmax=int(index[0]), margin=number(value[0] - value[1]),
                logsumexp=number(row.double().logsumexp(-1)), sum=number(row.double().sum()), first8=[number(x) for x in row[:8]])


def watch(stack, seen):
    """Append (name, output) to `seen` whenever one of the recorded modules has run."""
    def tap(module, name):
        module.register_forward_hook(lambda _m, _i, out: seen.append((name, out[0] if isinstance(out, tuple) else out)))

    tap(stack.embed_tokens, "embed")
    for i, layer in enumerate(stack.layers):
        for part in ("self_attn", "linear_attn", "mlp"):
            if hasattr(layer, part):
                tap(getattr(layer, part), f"layer{i}.{part}")
        tap(layer, f"layer{i}")
    tap(stack.norm, "final_norm")


def cache_summary(cache):
    out = []
    for i, layer in enumerate(cache.layers):
        one = dict(layer=i)
        for name in ("keys", "values", "conv_states", "recurrent_states"):
            t = getattr(layer, name, None)
            t = t.get(0) if isinstance(t, dict) else t
            if torch.is_tensor(t) and t.numel():
                one[name] = summary(t)
        out.append(one)
    return out


def take(seen):
    rows = [dict(name=name, **summary(t)) for name, t in seen]
    seen.clear()
    return rows


@torch.no_grad()
def record(folder, prompt, steps):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    seen = []
    watch(model.model, seen)
    out = model(input_ids=torch.tensor([prompt]), use_cache=True)
    prefill = dict(logits_last=logits_summary(out.logits[0, -1]), logits_all=summary(out.logits),
                   argmax_per_position=out.logits[0].argmax(-1).tolist(), tensors=take(seen),
                   cache=cache_summary(out.past_key_values))
    decode, chosen = [], []
    for step in range(steps):
        chosen.append(int(out.logits[0, -1].argmax()))
        out = model(input_ids=torch.tensor([[chosen[-1]]]), past_key_values=out.past_key_values, use_cache=True)
        decode.append(dict(step=step, input_id=chosen[-1], position=len(prompt) + step, logits=logits_summary(out.logits[0, -1]),
                           tensors=take(seen)))
    return dict(format=1, compute_dtype="float32", torch=torch.__version__, transformers=transformers.__version__, prompt_ids=prompt,
                prefill=prefill, decode=decode, chosen_ids=chosen, next_id=int(out.logits[0, -1].argmax()))


def differences(old, new, path="", scale=None):
    """Paths where `new` lacks what `old` has, or differs by more than 1e-3 of the magnitude around it."""
    if isinstance(old, dict):
        scale = old.get("sumsq", 0) ** 0.5 if "sumsq" in old else scale
        for key in old:
            yield from differences(old[key], new.get(key), f"{path}.{key}", scale)
    elif isinstance(old, list):
        if not isinstance(new, list) or len(old) != len(new):
            yield path
        else:
            for i, (a, b) in enumerate(zip(old, new)):
                yield from differences(a, b, f"{path}[{i}]", scale)
    elif isinstance(old, float) and isinstance(new, (int, float)):
        bound = 1e-3 * max(abs(old), scale or 0, 20)  # 20: logits
        if "sum" in path.rsplit(".", 1)[-1]:
            bound *= 20
        if abs(old - new) > bound:
            yield f"{path}: {old} is now {new}"
    elif old != new:
        yield f"{path}: {old} is now {new}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--prompt", help="comma separated ids")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    path = args.folder / "golden.json"
    old = json.loads(path.read_text()) if path.exists() else None
    if not args.prompt and not old:
        sys.exit(f"{path} is not there: give the ids of a prompt by --prompt")
    prompt = [int(x) for x in args.prompt.split(",")] if args.prompt else old["prompt_ids"]
    new = record(args.folder, prompt, len(old["decode"]) if args.check and old else args.steps)
    if not args.check:
        path.write_text(json.dumps(new, indent=1) + "\n")
        return
    found = list(differences({k: old[k] for k in ("prompt_ids", "prefill", "decode", "chosen_ids", "next_id")}, new))
    print("\n".join(found[:20]) or f"{path}: all numbers come out again")
    sys.exit(bool(found))


main()
