"""The embedded model in PyTorch: a small network of the Qwen 3.5 architecture, and the block quantisation it is trained for.

Parameter names and shapes are those of the published text model (transformers' Qwen3_5ForCausalLM), so that its code can run
the same weights: `scripts/train-embedded.py --check` does that and compares. Written for training in batches of short texts:
no cache, padding on the right only.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

# Every input width is a multiple of 256, the length of a Q4_K block: no row needs padding. Key heads are fewer than value heads
# so that engines are tested with the two kinds apart.
CONFIG = dict(layers=8, hidden=256, ffn=1024, heads=4, kv_heads=2, head_dim=64, k_heads=2, v_heads=4, k_dim=64, v_dim=64,
              conv=4, vocab=4096, theta=1e7, rotary=16, mrope=(3, 3, 2), eps=1e-6, max_ctx=2048, interval=4)


def layer_types(c):
    return ["full_attention" if (i + 1) % c["interval"] == 0 else "linear_attention" for i in range(c["layers"])]


# ---- storage types: what a weight becomes when it is stored, as float32 values and as the integers of its blocks ----
def f16(x):
    return x.half().float()


def q4k_parts(w):
    """Q4_K of w [rows, k], for each of its [rows, k / 256] blocks: d, dmin [1] (f16 values), scales, minima [8], q [8, 32]."""
    x = w.float().reshape(w.shape[0], -1, 8, 32)
    low = x.amin(-1).clamp(max=0)
    step = (x.amax(-1) - low) / 15
    d, dmin = f16(step.amax(-1, keepdim=True) / 63), f16(-low.amin(-1, keepdim=True) / 63)
    sc = torch.where(d > 0, step / d.clamp(min=1e-30), 0).round().clamp(0, 63)
    mn = torch.where(dmin > 0, -low / dmin.clamp(min=1e-30), 0).round().clamp(0, 63)
    scale, offset = (d * sc).unsqueeze(-1), (dmin * mn).unsqueeze(-1)
    q = torch.where(scale > 0, (x + offset) / scale.clamp(min=1e-30), 0).round().clamp(0, 15)
    return d, dmin, sc, mn, q


def q4k(w):
    d, dmin, sc, mn, q = q4k_parts(w)
    return ((d * sc).unsqueeze(-1) * q - (dmin * mn).unsqueeze(-1)).reshape(w.shape)


def q8_parts(w):
    x = w.float().reshape(w.shape[0], -1, 32)
    d = f16(x.abs().amax(-1, keepdim=True) / 127)
    return d, torch.where(d > 0, x / d.clamp(min=1e-30), 0).round().clamp(-127, 127)


def q8(w):
    d, q = q8_parts(w)
    return (d * q).reshape(w.shape)


STORED = {"Q4_K_M": q4k, "Q8_0": q8, "F16": f16, "F32": lambda x: x.float()}


def storage_type(name):
    """Storage type of a parameter, by its name: as in the published artifacts of this family, but for the head."""
    if name == "lm_head.weight":
        return "Q8_0"
    if name.endswith(("A_log", "linear_attn.norm.weight")):
        return "F32"
    if name.endswith("_proj.weight") or name.endswith(("in_proj_qkv.weight", "in_proj_z.weight")):
        return "Q4_K_M"
    return "F16"  # embedding, norms, conv1d, dt_bias, in_proj_a, in_proj_b


class Stored(nn.Module):
    """Holds one weight. With `qat` set, the forward pass sees it as it will be stored; gradients pass straight through."""
    qat = False

    def __init__(self, *shape, dtype="F16", std=0.02):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(*shape) * std if std else torch.zeros(*shape))
        self.dtype = dtype

    def stored(self, dtype=None):
        w = self.weight
        return STORED[dtype or self.dtype](w.detach()) + (w - w.detach()) if Stored.qat else w

    def forward(self, x):
        return F.linear(x, self.stored().to(x.dtype))


def rms(x, eps):
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


class Norm(Stored):  # stored zero-centred: the factor is 1 + weight
    def __init__(self, n, eps):
        super().__init__(n, std=0)
        self.eps = eps

    def forward(self, x):
        return (rms(x, self.eps) * (1 + self.stored())).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, d, out = c["hidden"], c["head_dim"], 0.02 / math.sqrt(2 * c["layers"])
        self.c = c
        self.q_proj = Stored(2 * c["heads"] * d, h, dtype="Q4_K_M")  # per head d query rows, then d gate rows
        self.k_proj = Stored(c["kv_heads"] * d, h, dtype="Q4_K_M")
        self.v_proj = Stored(c["kv_heads"] * d, h, dtype="Q4_K_M")
        self.o_proj = Stored(h, c["heads"] * d, dtype="Q4_K_M", std=out)
        self.q_norm, self.k_norm = Norm(d, c["eps"]), Norm(d, c["eps"])

    def forward(self, x, cos, sin):
        c, (b, s, _) = self.c, x.shape
        q, gate = self.q_proj(x).view(b, s, c["heads"], 2, c["head_dim"]).unbind(3)
        k = self.k_proj(x).view(b, s, c["kv_heads"], c["head_dim"])
        v = self.v_proj(x).view(b, s, c["kv_heads"], c["head_dim"])
        q, k = rope(self.q_norm(q), cos, sin), rope(self.k_norm(k), cos, sin)
        group = c["heads"] // c["kv_heads"]
        q, k, v = q.transpose(1, 2), k.transpose(1, 2).repeat_interleave(group, 1), v.transpose(1, 2).repeat_interleave(group, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj((o * torch.sigmoid(gate)).reshape(b, s, -1))


def rope(x, cos, sin):
    n = cos.shape[-1]
    a, b, rest = x[..., :n].float(), x[..., n:2 * n].float(), x[..., 2 * n:]
    return torch.cat(((a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype), rest), -1)


def l2(x):
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def delta_rule(q, k, v, g, beta, chunk=64):
    """Gated delta rule in chunks, float32. q, k [b, s, h, dk], v [b, s, h, dv], g, beta [b, s, h] -> [b, s, h, dv]."""
    b, s, h, dv = v.shape
    chunk = min(chunk, s)
    pad = -s % chunk
    q, k, v, g, beta = (t.float().transpose(1, 2) for t in (q, k, v, g, beta))
    q, k = l2(q) / math.sqrt(q.shape[-1]), l2(k)
    q, k, v = (F.pad(t, (0, 0, 0, pad)).reshape(b, h, -1, chunk, t.shape[-1]) for t in (q, k, v))
    g, beta = (F.pad(t, (0, pad)).reshape(b, h, -1, chunk, 1) for t in (g, beta))
    G = g.cumsum(3)
    upper = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu(1)
    D = (G - G.transpose(3, 4)).masked_fill(upper, float("-inf")).exp()
    A = beta * (k @ k.transpose(3, 4)) * D  # its diagonal is not read: the system is unit triangular
    UP = torch.linalg.solve_triangular(A, torch.cat((beta * v, beta * G.exp() * k), -1), upper=False, unitriangular=True)
    U, P = UP[..., :dv], UP[..., dv:]
    within, qg = (q @ k.transpose(3, 4)) * D, G.exp() * q
    last = G[:, :, :, -1:]
    kg = ((last - G).exp() * k).transpose(3, 4)
    M, out = None, []
    for i in range(q.shape[2]):
        R = U[:, :, i] if M is None else U[:, :, i] - P[:, :, i] @ M
        o = within[:, :, i] @ R
        out.append(o if M is None else o + qg[:, :, i] @ M)
        M = kg[:, :, i] @ R if M is None else last[:, :, i].exp() * M + kg[:, :, i] @ R
    return torch.cat(out, 2)[:, :, :s].transpose(1, 2)


class LinearAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, kd, vd = c["hidden"], c["k_heads"] * c["k_dim"], c["v_heads"] * c["v_dim"]
        self.c, self.kd, self.vd = c, kd, vd
        self.in_proj_qkv = Stored(2 * kd + vd, h, dtype="Q4_K_M")
        self.in_proj_z = Stored(vd, h, dtype="Q4_K_M")
        self.in_proj_b, self.in_proj_a = Stored(c["v_heads"], h), Stored(c["v_heads"], h)
        self.out_proj = Stored(h, vd, dtype="Q4_K_M", std=0.02 / math.sqrt(2 * c["layers"]))
        self.conv1d = Stored(2 * kd + vd, 1, c["conv"], std=0.3)
        self.A_log = nn.Parameter(torch.linspace(0.05, 4, c["v_heads"]).log())  # from slow to fast forgetting
        self.dt_bias = nn.Parameter(torch.full((c["v_heads"],), -3.0))
        self.norm = Stored(c["v_dim"], dtype="F32", std=0)
        self.norm.weight.data.fill_(1)

    def forward(self, x, *_):
        c, (b, s, _) = self.c, x.shape
        u = self.in_proj_qkv(x)
        w = self.conv1d.stored().to(u.dtype)  # [channels, 1, taps]; the last tap is the current token
        u = F.silu(F.conv1d(F.pad(u.transpose(1, 2), (c["conv"] - 1, 0)), w, groups=w.shape[0]).transpose(1, 2))
        q, k, v = u.split((self.kd, self.kd, self.vd), -1)
        r = c["v_heads"] // c["k_heads"]
        q = q.reshape(b, s, c["k_heads"], c["k_dim"]).repeat_interleave(r, 2)
        k = k.reshape(b, s, c["k_heads"], c["k_dim"]).repeat_interleave(r, 2)
        bias = f16(self.dt_bias.detach()) + (self.dt_bias - self.dt_bias.detach()) if Stored.qat else self.dt_bias
        with torch.autocast(x.device.type, enabled=False):
            beta = torch.sigmoid(self.in_proj_b(x.float()))
            g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x.float()) + bias)
            o = delta_rule(q, k, v.reshape(b, s, c["v_heads"], c["v_dim"]), g, beta)
            z = self.in_proj_z(x).view(b, s, c["v_heads"], c["v_dim"]).float()
            o = rms(o, c["eps"]) * self.norm.stored() * F.silu(z)
        return self.out_proj(o.reshape(b, s, -1).to(x.dtype))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (Stored(c["ffn"], c["hidden"], dtype="Q4_K_M") for _ in range(2))
        self.down_proj = Stored(c["hidden"], c["ffn"], dtype="Q4_K_M", std=0.02 / math.sqrt(2 * c["layers"]))

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c, kind):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(c["hidden"], c["eps"]), Norm(c["hidden"], c["eps"])
        self.kind = kind
        if kind == "full_attention":
            self.self_attn = Attention(c)
        else:
            self.linear_attn = LinearAttention(c)
        self.mlp = Mlp(c)
        self.drop = nn.Dropout(c.get("dropout", 0))  # in training only

    def forward(self, x, cos, sin):
        mixer = self.self_attn if self.kind == "full_attention" else self.linear_attn
        x = x + self.drop(mixer(self.input_layernorm(x), cos, sin))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = Stored(c["vocab"], c["hidden"])
        self.layers = nn.ModuleList(Layer(c, kind) for kind in layer_types(c))
        self.norm = Norm(c["hidden"], c["eps"])


class Model(nn.Module):
    """Embedding and head share one weight; it is stored twice, as F16 for the embedding and as Q8_0 for the head."""

    def __init__(self, c):
        super().__init__()
        self.c, self.model = c, Body(c)
        n = c["rotary"] // 2
        freqs = 1.0 / c["theta"] ** (torch.arange(n, dtype=torch.float64) / n)
        angles = torch.outer(torch.arange(c["max_ctx"], dtype=torch.float64), freqs).float()
        self.register_buffer("cos", angles.cos().unsqueeze(1), persistent=False)  # [position, 1, n]
        self.register_buffer("sin", angles.sin().unsqueeze(1), persistent=False)

    def hidden(self, ids):
        x = F.embedding(ids, self.model.embed_tokens.stored())
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for layer in self.model.layers:
            x = layer(x, self.cos[: ids.shape[1]], self.sin[: ids.shape[1]])
        return self.model.norm(x)

    def head(self, h):
        return F.linear(h, self.model.embed_tokens.stored("Q8_0").to(h.dtype)).float()

    def forward(self, ids):
        return self.head(self.hidden(ids))

    def tensors(self):
        """Name -> float32 tensor, the head included."""
        out = {k: v.detach().float().cpu() for k, v in self.state_dict().items()}
        out["lm_head.weight"] = out["model.embed_tokens.weight"]
        return out


def published_model(c, tensors):
    """The published code over the same weights (float32, CPU)."""
    from transformers import Qwen3_5TextConfig, Qwen3_5ForCausalLM
    config = Qwen3_5TextConfig(
        vocab_size=c["vocab"], hidden_size=c["hidden"], intermediate_size=c["ffn"], num_hidden_layers=c["layers"],
        num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"], head_dim=c["head_dim"], hidden_act="silu",
        max_position_embeddings=c["max_ctx"], rms_norm_eps=c["eps"], attention_bias=False, tie_word_embeddings=False,
        linear_conv_kernel_dim=c["conv"], linear_key_head_dim=c["k_dim"], linear_value_head_dim=c["v_dim"],
        linear_num_key_heads=c["k_heads"], linear_num_value_heads=c["v_heads"], layer_types=layer_types(c),
        rope_parameters=dict(rope_type="default", rope_theta=c["theta"], partial_rotary_factor=c["rotary"] / c["head_dim"],
                             mrope_section=list(c["mrope"]), mrope_interleaved=True))
    model = Qwen3_5ForCausalLM(config).float().eval()
    left = model.load_state_dict(tensors, strict=False)
    if left.missing_keys or left.unexpected_keys:
        raise SystemExit(f"the published model has other tensors: {left}")
    return model
