#!/usr/bin/env python3
"""Measure the embedded model, and write the greedy answers that other engines are compared with.

usage: eval-embedded.py DIR [--questions N] [--show-wrong] [--device cuda|cpu]      share of questions answered word for word
       eval-embedded.py DIR --ask TEXT                                              one greedy answer
       eval-embedded.py DIR --golden FILE                                           tests/golden/embedded/golden.jsonl

DIR is the RDRR folder. Weights are decoded from its blocks to float32; every hash is checked on the way. Answers are greedy.
A question counts as right only when the whole answer is the expected one, to the last character and end token. Three sets:
held-out paraphrases (never in the training text, made by the grammar of the knowledge page), hand-written questions (the
`test:` lines, never trained on, worded apart from the grammar), and questions outside the toolkit, which are to be refused.

--golden runs the published code of the architecture (transformers 5.17, float32, CPU). A line a prompt: prompt_ids, ids (greedy),
gaps (best logit minus second best at every step), text, and top (the eight largest logits at three positions of the prompt, and
the sum of all).
"""
import argparse
import json
import os
import sys

import torch
from tokenizers import Tokenizer

import embedded_corpus as corpus
import embedded_model as em
import embedded_rdrr as rdrr

GOLDEN = ["how do I resume a download?", "How do I check that a file is intact?", "Which devices can be used?",
    "what is a piece index", "EXIT CODE 40", "no vulkan driver found, what now",
          "how do I run a model without a GPU", "Which option makes the answer repeatable?", "How do I list the devices?",
          "What does --mirror do?", "resume downlaod", "who are you?", "What is the capital of France?",
          "how do I resume a download and free disk space",
          "where are my models stored?", "Größe eines Stücks? 模型 🙂"]


def load(folder):
    c, tensors, tokenizer_json, manifest = rdrr.read(folder)
    return c, tensors, Tokenizer.from_str(tokenizer_json), manifest


def own_model(c, tensors, device):
    """scripts/embedded_model.py over the stored values: embedding and head differ by their storage type only."""
    model = em.Model(c)
    model.load_state_dict({k: v for k, v in tensors.items() if k != "lm_head.weight"})
    head = tensors["lm_head.weight"].to(device)
    model.head = lambda h: torch.nn.functional.linear(h, head)
    return model.to(device).eval()


@torch.no_grad()
def answers_exactly(model, tok, items, device, batch=128):
    """For each (prompt text, answer text): does greedy decoding give just that answer? One pass each, over prompt and answer."""
    rows = [(tok.encode(p).ids, tok.encode(a + "<|im_end|>").ids) for p, a in items]
    order, right = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1])), [False] * len(rows)
    for start in range(0, len(order), batch):
        part = order[start:start + batch]
        ids = torch.zeros(len(part), max(len(rows[i][0]) + len(rows[i][1]) for i in part), dtype=torch.long)
        for r, i in enumerate(part):
            ids[r, :len(rows[i][0]) + len(rows[i][1])] = torch.tensor(rows[i][0] + rows[i][1])
        h = model.hidden(ids.to(device))
        for r, i in enumerate(part):
            p, a = rows[i]
            best = model.head(h[r, len(p) - 1:len(p) + len(a) - 1]).argmax(-1).tolist()
            right[i] = best == a
    return right


@torch.no_grad()
def replies(model, tok, prompts, eos, limit=128):
    """Greedy answers as text, all prompts at once; every step recomputes the whole text."""
    rows, starts = [tok.encode(p).ids for p in prompts], [len(tok.encode(p).ids) for p in prompts]
    device = next(model.parameters()).device
    for _ in range(limit):
        open_rows = [i for i, r in enumerate(rows) if len(r) == starts[i] or r[-1] not in eos]
        if not open_rows:
            break
        ids = torch.zeros(len(open_rows), max(len(rows[i]) for i in open_rows), dtype=torch.long)
        for n, i in enumerate(open_rows):
            ids[n, :len(rows[i])] = torch.tensor(rows[i])
        last = torch.tensor([len(rows[i]) - 1 for i in open_rows], device=device)
        best = model.head(model.hidden(ids.to(device))[torch.arange(len(open_rows), device=device), last]).argmax(-1).tolist()
        for i, token in zip(open_rows, best):
            rows[i].append(token)
    return [tok.decode(r[n:], skip_special_tokens=True) for r, n in zip(rows, starts)]


def measure(model, tok, eos, device, per_fact, show):
    c, report = corpus.Corpus(), {}
    sets = {"held-out paraphrases": c.held_out(c.facts, per_fact),
            "hand-written questions": [x for x in c.written() if not x[0].name.startswith("exit ")],
            "outside questions": c.held_out([c.refusal], per_fact * 20)}
    for name, questions in sets.items():
        right = answers_exactly(model, tok, [(corpus.prompt_text(q), f.answer) for f, q in questions], device)
        report[name] = (sum(right), len(right))
        print(f"{name}: {sum(right)} of {len(right)} ({100 * sum(right) / max(1, len(right)):.1f} %)", flush=True)
        wrong = [x for x, ok in zip(questions, right) if not ok] if show else []
        for (fact, q), text in zip(wrong, replies(model, tok, [corpus.prompt_text(q) for _, q in wrong], eos)):
            print(f"  {fact.name}: {q}\n      {text}", flush=True)
    return report


@torch.no_grad()
def golden(c, tensors, tok, manifest, path):
    model, eos, cases = em.published_model(c, tensors), manifest["eos_token_id"], []
    for question in GOLDEN:
        prompt_ids = tok.encode(corpus.prompt_text(question)).ids
        x, cache, ids, gaps, top = torch.tensor([prompt_ids]), None, [], [], []
        while len(ids) < 160 and not (ids and ids[-1] in eos):
            out = model(x, past_key_values=cache, use_cache=True)
            if not ids:
                for position in sorted({0, len(prompt_ids) // 2, len(prompt_ids) - 1}):
                    value, index = out.logits[0, position].topk(8)
                    top.append(dict(position=position, ids=index.tolist(), logits=[round(v, 5) for v in value.tolist()],
                                    sum=round(out.logits[0, position].double().sum().item(), 3)))
            cache, (value, index) = out.past_key_values, out.logits[0, -1].topk(2)
            ids.append(int(index[0]))
            gaps.append(round(float(value[0] - value[1]), 4))
            x = index[:1].view(1, 1)
        cases.append(dict(prompt=question, prompt_ids=prompt_ids, ids=ids, gaps=gaps, text=tok.decode(ids,
            skip_special_tokens=True), top=top))
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(x, ensure_ascii=False) + "\n" for x in cases)
    for x in cases:
        print(f"{x['prompt']}\n    {x['text']}   [smallest gap {min(x['gaps'])}]")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("dir")
    p.add_argument("--questions", type=int, default=4, help="held-out questions a fact (default %(default)s)")
    p.add_argument("--show-wrong", action="store_true", help="print questions answered otherwise")
    p.add_argument("--ask", help="answer this question")
    p.add_argument("--golden", help="write the golden file")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = p.parse_args()
    c, tensors, tok, manifest = load(a.dir)
    if a.golden:
        return golden(c, tensors, tok, manifest, a.golden)
    model = own_model(c, tensors, a.device)
    if a.ask:
        print(replies(model, tok, [corpus.prompt_text(a.ask)], manifest["eos_token_id"])[0])
    else:
        report = measure(model, tok, manifest["eos_token_id"], a.device, a.questions, a.show_wrong)
        sys.exit(any(right < 0.9 * n for name, (right, n) in report.items() if name != "hand-written questions"))


if __name__ == "__main__":
    main()
