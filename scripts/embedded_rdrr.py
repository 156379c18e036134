"""The embedded model as an RDRR folder: manifest.json, shard_00000.bin, tokenizer.json, pieces.json; written and read back.

The reader decodes the blocks from their definition, apart from the code that made them, so that a round trip checks both.
"""
import hashlib
import json
import os

import numpy as np
import torch

from embedded_model import f16, layer_types, q4k_parts, q8_parts, storage_type

SHARD, PIECE, MERKLE = 64 << 20, 4 << 20, 1 << 20
PREFIX = "model.language_model."
TEMPLATE_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")


def sha(data):
    return hashlib.sha256(data).hexdigest()


# ---- blocks ----
def q4k_bytes(w):
    d, dmin, sc, mn, q = (t.cpu().numpy() for t in q4k_parts(w))
    sc, mn, q = sc.astype(np.uint8), mn.astype(np.uint8), q.astype(np.uint8)
    low = sc[..., :4] | (sc[..., 4:] >> 4) << 6, mn[..., :4] | (mn[..., 4:] >> 4) << 6
    high = (sc[..., 4:] & 15) | (mn[..., 4:] & 15) << 4
    nibbles = q[..., 0::2, :] | q[..., 1::2, :] << 4
    parts = (d.astype("<f2").view(np.uint8), dmin.astype("<f2").view(np.uint8), *low, high, nibbles.reshape(*d.shape[:-1], 128))
    return np.concatenate(parts, -1).tobytes()


def q4k_values(data, shape):
    b = np.frombuffer(data, np.uint8).reshape(-1, 144)
    d, dmin = (b[:, i:i + 2].copy().view("<f2").astype(np.float32) for i in (0, 2))
    s, q = b[:, 4:16].astype(np.uint8), b[:, 16:].reshape(-1, 4, 32)
    sc = np.concatenate((s[:, :4] & 63, (s[:, 8:] & 15) | (s[:, :4] >> 6) << 4), 1).astype(np.float32)
    mn = np.concatenate((s[:, 4:8] & 63, (s[:, 8:] >> 4) | (s[:, 4:8] >> 6) << 4), 1).astype(np.float32)
    nibble = np.stack((q & 15, q >> 4), 2).reshape(-1, 8, 32).astype(np.float32)
    return ((d * sc)[:, :, None] * nibble - (dmin * mn)[:, :, None]).reshape(shape)


def q8_bytes(w):
    d, q = (t.cpu().numpy() for t in q8_parts(w))
    return np.concatenate((d.astype("<f2").view(np.uint8), q.astype(np.int8).view(np.uint8)), -1).tobytes()


def q8_values(data, shape):
    b = np.frombuffer(data, np.uint8).reshape(-1, 34)
    return (b[:, :2].copy().view("<f2").astype(np.float32) * b[:, 2:].view(np.int8).astype(np.float32)).reshape(shape)


ENCODE = {"Q4_K_M": q4k_bytes, "Q8_0": q8_bytes, "F16": lambda w: f16(w).numpy().astype("<f2").tobytes(),
          "F32": lambda w: w.float().numpy().astype("<f4").tobytes()}
DECODE = {"Q4_K_M": q4k_values, "Q8_0": q8_values, "F16": lambda b, s: np.frombuffer(b, "<f2").astype(np.float32).reshape(s),
          "F32": lambda b, s: np.frombuffer(b, "<f4").reshape(s).copy()}


# ---- manifest ----
def role_and_group(name):
    if name.startswith("model.layers."):
        layer = "layer." + name.split(".")[2]
        if name.endswith(("norm.weight",)):
            return "norm", layer
        return ("matmul" if "_proj" in name else "other"), layer
    return {"model.embed_tokens.weight": ("embedding", "embed"), "model.norm.weight": ("norm", "head"),
            "lm_head.weight": ("lm_head", "head")}[name]


def stored_name(name):
    return PREFIX + name.removeprefix("model.")


def merkle_root(data):
    nodes = [hashlib.sha256(data[i:i + MERKLE]).digest() for i in range(0, max(len(data), 1), MERKLE)]
    while len(nodes) > 1:
        if len(nodes) % 2:
            nodes.append(nodes[-1])
        nodes = [hashlib.sha256(a + b).digest() for a, b in zip(nodes[::2], nodes[1::2])]
    return "sha256:" + nodes[0].hex()


def execution():
    """The graph of the artifact format: which kernel does which step. Names and digests are labels, never a gate for loading."""
    def kernel(file, entry, **more):
        return dict(kernel=file, entry=entry, digest="sha256:" + "0" * 64, **more)
    kv = dict(precision={"kvDtype": "f32"})

    def layer(matmul, attention):
        return [["input_norm", "norm"],
                *([f"{p}_proj", matmul, "layer.{L}.self_attn.%s_proj" % p] for p in "qkv"), ["rope_q", "rope"], ["rope_k",
                "rope"],
                ["attention", attention], ["o_proj", matmul, "layer.{L}.self_attn.o_proj"], ["attn_residual", "add"],
                ["post_attn_norm", "norm"], ["gate_proj", matmul, "layer.{L}.mlp.gate_proj"],
                ["up_proj", matmul, "layer.{L}.mlp.up_proj"], ["activation", "silu"],
                ["down_proj", matmul, "layer.{L}.mlp.down_proj"], ["ffn_residual", "add"]]
    return dict(
        inlineKernelPath=True,
        kernels=dict(embed=kernel("gather_f16.wgsl", "main"), norm=kernel("rmsnorm.wgsl", "main"), rope=kernel("rope.wgsl",
        "main"),
                     gemv=kernel("fused_matmul_q4.wgsl", "main_gemv"), gemm=kernel("fused_matmul_q4_widetile.wgsl", "main"),
                     attn_d=kernel("attention_decode.wgsl", "main", **kv), attn_p=kernel("attention_streaming.wgsl", "main",
                     **kv),
                     add=kernel("residual.wgsl", "main"), silu=kernel("silu.wgsl", "main", constants={"HAS_GATE": True}),
                     head=kernel("matmul_q8.wgsl", "main_gemv"), head_p=kernel("matmul_q8.wgsl", "main"),
                     sample=kernel("sample.wgsl", "sample_single_pass")),
        preLayer=[["embed", "embed", "embed_tokens"]], decode=layer("gemv", "attn_d"), prefill=layer("gemm", "attn_p"),
        postLayer=[["final_norm", "norm"], ["lm_head", "head", "lm_head"], ["lm_head_prefill", "head_p", "lm_head"],
                   ["sample", "sample"]],
        policies=dict(unsupportedPrecision="error", dtypeTransition="require_cast_step", unresolvedKernel="error"))


def inference(c):
    none = dict.fromkeys
    return dict(
        schema="doppler.execution/v1",
        attention=dict(queryPreAttnScalar=c["head_dim"], attnLogitSoftcapping=None, slidingWindow=None, queryKeyNorm=True,
                       queryKeyNormType="rmsnorm", queryKeyNormAxis="head", valueNorm=False, causal=True, attentionBias=False,
                       attentionOutputGate=True),
        normalization=dict(rmsNormEps=c["eps"], rmsNormWeightOffset=True, postAttentionNorm=True, preFeedforwardNorm=False,
                           postFeedforwardNorm=False),
        ffn=dict(activation="silu", gatedActivation=True, branchMode="auto", useDoubleWideMlp=False, swigluLimit=None),
        rope=dict(ropeTheta=int(c["theta"]), mropeInterleaved=True, mropeSection=list(c["mrope"]),
                  partialRotaryFactor=c["rotary"] / c["head_dim"], ropeScalingFactor=1, ropeLocalScalingFactor=1,
                  **none(("ropeLocalTheta", "ropeLocalPartialRotaryFactor", "ropeFrequencyBaseDim", "ropeLocalFrequencyBaseDim",
                          "ropeScalingType", "ropeLocalScalingType", "yarnBetaFast", "yarnBetaSlow", "yarnOriginalMaxPos",
                          "ropeLocalYarnBetaFast", "ropeLocalYarnBetaSlow", "ropeLocalYarnOriginalMaxPos", "longropeShortFactor",
                          "longropeLongFactor", "longropeOriginalMaxPos"))),
        output=dict(finalLogitSoftcapping=None, tieWordEmbeddings=True, scaleEmbeddings=False, embeddingScale=None,
                    logitInputScale=1, embeddingTranspose=False, embeddingVocabSize=None, embeddingPostprocessor=None),
        layerPattern=dict(type="custom", globalPattern=None, period=None, offset=None, layerTypes=layer_types(c),
                          residualBranchScale=1),
        chatTemplate=dict(type="qwen", enabled=True, thinking=False),
        session=dict(
            compute=dict(defaults=none(("activationDtype", "mathDtype", "accumDtype", "outputDtype"), "f32")),
            kvcache=dict(kvDtype="f32", layout="contiguous", maxSeqLen=c["max_ctx"], pageSize=256,
                         tiering=dict(mode="off", hotWindow=256, coldPageSize=256, coldDtype="f16",
                                      compression=dict(mode="none", blockSize=1, bitWidth=4, prodMode=False),
                                      gating=dict(mode="auto", minAluBwRatio=0)),
                         quantization=dict(mode="none", bitWidth=4, prodMode=False)),
            decodeLoop=dict(batchSize=4, stopCheckMode="batch", readbackInterval=4, readbackMode="sequential",
                            submitLatencyThresholdMs=None, ringTokens=1, ringStop=1, ringStaging=1, disableCommandBatching=False),
            perLayerInputs=dict(materialization="auto", rowCache=dict(mode="lru", maxRows=1, maxBytes=1, decodedDtype="f32"),
                                prefetch=dict(mode="off", rowsAhead=1), gpuUpload=dict(mode="per_step_slices", stagingRows=1),
                                hotCache=dict(mode="off", maxTokens=1, maxBytes=1, outputDtype="f32")),
            speculation=dict(mode="self", tokens=1, verify="greedy", threshold=None, rollbackOnReject=True),
            prefillChunkSubmitMode="sync"),
        execution=execution())


def architecture(c):
    return dict(numLayers=c["layers"], hiddenSize=c["hidden"], intermediateSize=c["ffn"], numAttentionHeads=c["heads"],
                numKeyValueHeads=c["kv_heads"], headDim=c["head_dim"], vocabSize=c["vocab"], maxSeqLen=c["max_ctx"],
                linearNumKeyHeads=c["k_heads"], linearNumValueHeads=c["v_heads"], linearKeyHeadDim=c["k_dim"],
                linearValueHeadDim=c["v_dim"], linearConvKernelDim=c["conv"], linearNormMode="shared",
                **dict.fromkeys(("globalHeadDim", "hiddenSizePerLayerInput", "vocabSizePerLayerInput", "numKvSharedLayers")))


def pieces_of(data):
    return [dict(offset=i, size=len(data[i:i + PIECE]), identity="sha256:" + sha(data[i:i + PIECE])) for i in range(0, len(data),
        PIECE)]


def write(folder, c, tensors, tokenizer_json, model_id):
    """tensors: name (of the published model) -> float32; tokenizer_json: text. Returns the manifest's identity."""
    order = ["model.embed_tokens.weight"] + [n for n in tensors if n.startswith("model.layers.")] + ["model.norm.weight",
        "lm_head.weight"]
    blob, entries, roots = bytearray(), {}, {}
    for name in order:
        dtype, (role, group) = storage_type(name), role_and_group(name)
        data = ENCODE[dtype](tensors[name])
        entries[stored_name(name)] = dict(shard=0, offset=len(blob), size=len(data), shape=list(tensors[name].shape), dtype=dtype,
                                          role=role, group=group, **({"layout": "row"} if dtype[0] == "Q" else {}))
        roots[stored_name(name)] = merkle_root(data)
        blob += data
    blob, tokenizer = bytes(blob), tokenizer_json.encode()
    if len(blob) > SHARD:
        raise SystemExit("the model no longer fits one shard")
    ids = {t["content"]: t["id"] for t in json.loads(tokenizer_json)["added_tokens"]}
    manifest = dict(
        version=1, modelId=model_id, modelType="transformer", quantization="Q4_K_M",
        quantizationInfo=dict(weights="q4k", embeddings="f16", lmHead="q8_0", compute="f32", layout="row",
                              variantTag="q4k-ef16-hq8-af32"),
        artifactIdentity=dict(artifactCompleteness="complete", sourceCheckpointId=model_id, sourceFormat="pytorch",
                              modalitySet=["text"]),
        architecture=architecture(c), moeConfig=None, inference=inference(c),
        shards=[dict(index=0, filename="shard_00000.bin", size=len(blob), hash=sha(blob), offset=0)],
        tensors=entries, tensorCount=len(entries), totalSize=len(blob), hashAlgorithm="sha256",
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
        tokenizer=dict(type="bundled", file="tokenizer.json", vocabSize=c["vocab"], addBosToken=False),
        integrityExtensions=dict(contractVersion=1, blockMerkle=dict(blockSize=MERKLE, roots=roots)))
    manifest_bytes = (json.dumps(manifest, indent=1) + "\n").encode()
    index = dict(schema="doppler.verified-pieces/v1", manifestIdentity="sha256:" + sha(manifest_bytes), maxPieceBytes=PIECE,
                 files=[dict(path=n, size=len(d), pieces=pieces_of(d)) for n, d in (("shard_00000.bin", blob), ("tokenizer.json",
                 tokenizer))])
    os.makedirs(folder, exist_ok=True)
    for name, data in (("shard_00000.bin", blob), ("tokenizer.json", tokenizer), ("manifest.json", manifest_bytes),
                       ("pieces.json", (json.dumps(index, indent=2) + "\n").encode())):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    return index["manifestIdentity"]


def read(folder):
    """(config, tensors by published name as float32, tokenizer text, manifest); every hash is checked."""
    def load(name):
        with open(os.path.join(folder, name), "rb") as f:
            return f.read()

    def need(ok, what):
        if not ok:
            raise SystemExit(f"{folder}: {what}")
    manifest_bytes = load("manifest.json")
    m, index = json.loads(manifest_bytes), json.loads(load("pieces.json"))
    need(index["manifestIdentity"] == "sha256:" + sha(manifest_bytes), "pieces.json belongs to another manifest.json")
    files = {f["path"]: load(f["path"]) for f in index["files"]}
    for f in index["files"]:
        need(f["size"] == len(files[f["path"]]) and f["pieces"] == pieces_of(files[f["path"]]),
            f"{f['path']}: pieces do not match")
    shard = m["shards"][0]
    blob = files[shard["filename"]]
    need(len(m["shards"]) == 1 and shard["hash"] == sha(blob) and m["totalSize"] == shard["size"] == len(blob),
        "the shard does not match")
    tensors, used = {}, 0
    for name, t in m["tensors"].items():
        data = blob[t["offset"]:t["offset"] + t["size"]]
        need(t["offset"] == used, f"{name}: not adjacent to the tensor before it")
        need(merkle_root(data) == m["integrityExtensions"]["blockMerkle"]["roots"][name], f"{name}: Merkle root does not match")
        used += t["size"]
        short = name.removeprefix(PREFIX)
        tensors[short if short == "lm_head.weight" else "model." + short] = torch.from_numpy(DECODE[t["dtype"]](data, t["shape"]))
    need(used == len(blob), "bytes after the last tensor")
    a, i = m["architecture"], m["inference"]
    c = dict(layers=a["numLayers"], hidden=a["hiddenSize"], ffn=a["intermediateSize"], heads=a["numAttentionHeads"],
             kv_heads=a["numKeyValueHeads"], head_dim=a["headDim"], k_heads=a["linearNumKeyHeads"],
             v_heads=a["linearNumValueHeads"],
             k_dim=a["linearKeyHeadDim"], v_dim=a["linearValueHeadDim"], conv=a["linearConvKernelDim"], vocab=a["vocabSize"],
             theta=float(i["rope"]["ropeTheta"]), rotary=int(a["headDim"] * i["rope"]["partialRotaryFactor"]),
             mrope=tuple(i["rope"]["mropeSection"]), eps=i["normalization"]["rmsNormEps"], max_ctx=a["maxSeqLen"],
             interval=i["layerPattern"]["layerTypes"].index("full_attention") + 1)
    need(layer_types(c) == i["layerPattern"]["layerTypes"], "unexpected layer pattern")
    return c, tensors, files["tokenizer.json"].decode(), m
