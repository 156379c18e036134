#!/usr/bin/env python3
"""Train the embedded model and write it as an RDRR folder.

usage: train-embedded.py --out DIR [--init DIR] [--steps N] [--batch N] [--lr X] [--seed N] [--device cuda|cpu] [--smoke]
       train-embedded.py --check

The corpus is generated from scripts/embedded_knowledge.txt; nothing is downloaded. Needs torch, tokenizers and numpy from PyPI
(--check also transformers 5.17). With the defaults an H200 takes seven minutes; --smoke makes a useless model in a
minute on a CPU, to try the way through. The first part of the training uses full weights, the second sees them as they will be
stored (Q4_K, Q8_0, F16), so that storing them loses nothing. Then scripts/eval-embedded.py measures the answers.

--check compares the model of scripts/embedded_model.py with the published code of the architecture on random weights.
"""
import argparse
import math
import multiprocessing
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import embedded_corpus as corpus
import embedded_model as em
import embedded_rdrr as rdrr

MODEL_ID = "reploid-guide"
SMOKE = dict(layers=4, ffn=256)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", help="folder to write")
    p.add_argument("--steps", type=int, default=4600, help="optimiser steps (default %(default)s)")
    p.add_argument("--batch", type=int, default=512, help="texts a step (default %(default)s)")
    p.add_argument("--lr", type=float, default=2e-3, help="largest learning rate (default %(default)s)")
    p.add_argument("--dropout", type=float, default=0.05,
        help="share of each layer's output that training drops (default %(default)s)")
    p.add_argument("--qat", type=float, default=0.3, help="last part of the steps that sees stored weights (default %(default)s)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that generate text")
    p.add_argument("--init", help="go on from the weights and the tokenizer of this RDRR folder instead of from nothing")
    p.add_argument("--seconds", type=float, help="shorten the schedule so that the steps end about then")
    p.add_argument("--smoke", action="store_true", help="a tiny model, a few steps")
    p.add_argument("--check", action="store_true", help="compare with the published code and stop")
    a = p.parse_args()
    if not a.check and not a.out:
        p.error("--out DIR is needed")
    if a.smoke:
        a.steps, a.batch = min(a.steps, 12), min(a.batch, 16)
    return a


def check():
    torch.manual_seed(0)
    c = dict(em.CONFIG)
    model = em.Model(c)
    for p in model.parameters():  # norms and gates away from their start values too
        p.data = p.data * 2 if p.dim() > 1 else p.data + 0.3 * torch.randn_like(p)
    ids = torch.randint(0, c["vocab"], (2, 150))
    worst = 0.0
    for em.Stored.qat in (False, True):
        tensors = model.tensors()
        if em.Stored.qat:
            tensors = {k: em.STORED[em.storage_type(k)](v) for k, v in tensors.items()}
        with torch.no_grad():
            ours, theirs = model(ids), em.published_model(c, tensors)(ids).logits
        worst = max(worst, (ours - theirs).abs().max().item())
        print(f"stored weights: {em.Stored.qat}, logits std {theirs.std():.3f}, largest difference {worst:.2e}")
    if worst > 1e-3:
        raise SystemExit("the two implementations differ")


# ---- data: texts as token ids, made by many processes ----
def shard(job):
    tokenizer_json, seed, n, limit = job
    from tokenizers import Tokenizer
    tok, c, rng = Tokenizer.from_str(tokenizer_json), corpus.Corpus(), random.Random(seed)
    pairs = [c.example(rng) for _ in range(n)]
    prompts = tok.encode_batch([p for p, _ in pairs])
    answers = {a: tok.encode(a).ids for a in {a for _, a in pairs}}
    ids, lengths, starts = [], [], []
    for p, (_, a) in zip(prompts, pairs):
        if len(p.ids) + len(answers[a]) <= limit:
            ids += p.ids + answers[a]
            lengths.append(len(p.ids) + len(answers[a]))
            starts.append(len(p.ids))
    return np.array(ids, np.uint16), np.array(lengths, np.int64), np.array(starts, np.int64)


def make_data(tokenizer_json, n, seed, jobs, limit=320):
    per = 20000 if n >= 20000 else n
    work = [(tokenizer_json, seed * 1000003 + i, per, limit) for i in range(-(-n // per))]
    if jobs > 1:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            parts = pool.map(shard, work, chunksize=1)
    else:
        parts = [shard(w) for w in work]
    return tuple(torch.from_numpy(np.concatenate([p[i] for p in parts])) for i in range(3))


def batches(data, batch, seed, device):
    """Endless batches (ids, weight of each position as a target); texts of like length go together."""
    ids, lengths, starts = data
    offsets = torch.cumsum(lengths, 0) - lengths
    flat, g = ids.to(torch.int32).to(device), torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(lengths), generator=g)
        groups = []
        for part in order.split(batch * 32):
            part = part[lengths[part].argsort()]
            groups += [p for p in part.split(batch) if len(p) == batch or len(part) < batch]
        for i in torch.randperm(len(groups), generator=g).tolist():
            rows = groups[i]
            width = -(-int(lengths[rows].max()) // 16) * 16
            position = torch.arange(width, device=device)
            n, start, offset = (t[rows].to(device).unsqueeze(1) for t in (lengths, starts, offsets))
            x = flat[(offset + position).clamp(max=len(flat) - 1)].long()
            inside = position < n
            weight = torch.where(position >= start, 1.0, 0.05) * inside
            weight[:, 0] = 0  # nothing predicts the first token
            yield x * inside, weight


def train(model, data, a):
    device = torch.device(a.device)
    model.to(device).train()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    decay = [p for n, p in model.named_parameters() if p.dim() > 1 and "conv1d" not in n]
    rest = [p for n, p in model.named_parameters() if p.dim() <= 1 or "conv1d" in n]
    opt = torch.optim.AdamW([dict(params=decay, weight_decay=0.05), dict(params=rest, weight_decay=0.0)], lr=a.lr, betas=(0.9,
        0.97),
                            fused=device.type == "cuda")
    steps, began, source = a.steps, time.time(), batches(data, a.batch, a.seed, device)
    total, seen, step = torch.zeros((), device=device), 0, 0
    while step < steps:
        if a.seconds and step == 60:  # the pace is known: shorten the schedule where the time does not reach
            t0, s0 = time.time(), step
        if a.seconds and step == 160:
            torch.cuda.synchronize() if device.type == "cuda" else None
            pace = (time.time() - t0) / (step - s0)
            steps = min(steps, step + int((a.seconds - (time.time() - began)) / (pace * 1.03)))
            print(f"{pace * 1000:.0f} ms a step: {steps} steps", flush=True)
        em.Stored.qat = step >= steps * (1 - a.qat)
        warm = min(1.0, (step + 1) / 150)
        for group in opt.param_groups:
            group["lr"] = a.lr * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))
        x, weight = next(source)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            h = model.hidden(x[:, :-1])
            w = weight[:, 1:].reshape(-1)
            keep = w.nonzero().squeeze(1)
            logits = model.head(h.reshape(-1, h.shape[-1])[keep])
        loss = (F.cross_entropy(logits, x[:, 1:].reshape(-1)[keep], reduction="none") * w[keep]).sum() / w.sum()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.detach()
        seen += x.numel()
        step += 1
        if step % 100 == 0 or step == steps:
            n = step % 100 or 100
            print(f"step {step}/{steps} loss {total.item() / n:.4f} {seen / 1e6:.1f} M tokens {time.time() - began:.0f} s"
                  f"{' stored weights' if em.Stored.qat else ''}", flush=True)
            total.zero_()
    return model.cpu().eval()


def main():
    a = arguments()
    if a.check:
        return check()
    began = time.time()
    torch.manual_seed(a.seed)
    c = dict(em.CONFIG, dropout=a.dropout, **(SMOKE if a.smoke else {}))
    if a.init:
        _, start, tokenizer_json, _ = rdrr.read(a.init)
    else:
        tokenizer_json = corpus.train_tokenizer(corpus.Corpus(), c["vocab"]).to_str()
    print(f"tokenizer: {time.time() - began:.0f} s", flush=True)
    data = make_data(tokenizer_json, min(a.steps * a.batch, 1500000), a.seed, a.jobs)
    print(f"{len(data[1])} texts, {len(data[0]) / 1e6:.1f} M tokens, longest {int(data[1].max())}: {time.time() - began:.0f} s",
        flush=True)
    model = em.Model(c)
    if a.init:
        model.load_state_dict({k: v for k, v in start.items() if k != "lm_head.weight"})
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    train(model, data, a)
    identity = rdrr.write(a.out, c, model.tensors(), tokenizer_json, MODEL_ID)
    # What was written is what was trained: read back, every stored value is the one that the last steps saw.
    _, stored, _, _ = rdrr.read(a.out)
    for name, t in model.tensors().items():
        if not torch.equal(em.STORED[em.storage_type(name)](t), stored[name]):
            raise SystemExit(f"{name}: stored and read back it differs")
    size = sum(os.path.getsize(os.path.join(a.out, n)) for n in os.listdir(a.out))
    print(f"{a.out}: {identity}, {size / 1e6:.2f} MB, {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
