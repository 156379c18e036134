#!/usr/bin/env python3
"""Cut an RDRR model with one shard into several, so that tensors cross shards; write its piece index too.
usage: reshard.py FROM TO SHARD_BYTES sha256|blake3:PROGRAM pieces|tensors|none"""
import hashlib
import json
import os
import subprocess
import sys

source, target, size, algorithm, cuts = sys.argv[1:6]
size = int(size)
os.makedirs(target)
manifest = json.load(open(f"{source}/manifest.json"))
data = open(f"{source}/{manifest['shards'][0]['filename']}", "rb").read()


def digest(path, part):
    if algorithm == "sha256":
        return hashlib.sha256(part).hexdigest()
    return subprocess.run([algorithm.split(":")[1], "--print", "--blake3", path], capture_output=True, check=True).stdout[:64].decode()


manifest["shards"] = []
for i, at in enumerate(range(0, len(data), size)):
    name, part = f"shard_{i:05}.bin", data[at:at + size]
    with open(f"{target}/{name}", "wb") as f:
        f.write(part)
    manifest["shards"].append({"index": i, "filename": name, "size": len(part), "hash": digest(f"{target}/{name}", part), "offset": at})
manifest["hashAlgorithm"] = algorithm.split(":")[0]
starts = set()
for t in manifest["tensors"].values():
    at, left, spans = t.pop("offset"), t["size"], []
    t.pop("shard", None)
    starts |= {at, at + left}
    while left > 0:
        n = min(left, size - at % size)
        spans.append({"shardIndex": at // size, "offset": at % size, "size": n})
        at, left = at + n, left - n
    t["spans"] = spans
text = json.dumps(manifest)
with open(f"{target}/manifest.json", "w") as f:
    f.write(text)
tokenizer = open(f"{source}/tokenizer.json", "rb").read()
with open(f"{target}/tokenizer.json", "wb") as f:
    f.write(tokenizer)


def pieces(part, first):
    ends = sorted({0, len(part)} | ({s - first for s in starts if first < s < first + len(part)} if cuts == "tensors" else set()))
    for a, b in zip(ends, ends[1:]):
        for at in range(a, b, 4096 * 100):
            n = min(4096 * 100, b - at)
            yield {"offset": at, "size": n, "identity": "sha256:" + hashlib.sha256(part[at:at + n]).hexdigest()}


if cuts != "none":
    files = [{"path": s["filename"], "size": s["size"], "pieces": list(pieces(data[s["offset"]:s["offset"] + s["size"]], s["offset"]))}
        for s in manifest["shards"]]
    files.append({"path": "tokenizer.json", "size": len(tokenizer), "pieces": list(pieces(tokenizer, 1 << 60))})
    index = {"schema": "doppler.verified-pieces/v1", "manifestIdentity": "sha256:" + hashlib.sha256(text.encode()).hexdigest(),
        "maxPieceBytes": 4096 * 100, "files": files}
    with open(f"{target}/pieces.json", "w") as f:
        f.write(json.dumps(index, indent=2) + "\n")
