"""Qwen2's decoder in plain PyTorch, over packed sequences, and the reading of its Hugging Face directory.

Written for comparison, so it shares nothing with the engine: gradients are autograd's, attention is
PyTorch's own, a sequence at a time. T: rows, that is tokens of all sequences of a pass; d: hidden size.
"""
import json
import struct

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
# Rows of logits at once: all of them would be gigabytes for a vocabulary of 150,000.
LOGIT_ROWS = 1024


def read_tensors(folder):
    """All tensors of the directory's safetensors files by name, as stored, on the host."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                content = bytearray(end - begin)
                file.seek(8 + size + begin)
                if file.readinto(content) != len(content):
                    raise ValueError(f"{path}: {name} is cut off")
                found[name] = torch.frombuffer(content, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
    return found


def rotate(x, cos, sin):
    """x: [T, heads, head size]; cos, sin: [T, 1, head size / 2], float32. Halves are rotated against each other."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Decoder:
    """`weights`: float32 masters by Hugging Face name. Computes in `dtype`, logits and loss in float32."""

    def __init__(self, folder, device, dtype):
        self.config = json.loads((folder / "config.json").read_text())
        if self.config["model_type"] != "qwen2" or self.config.get("rope_scaling"):
            raise ValueError(f"{folder}: only qwen2 without scaled rotary positions")
        self.dtype = dtype
        self.weights = {name: tensor.to(device, torch.float32).requires_grad_()
                        for name, tensor in read_tensors(folder).items()}
        c = self.config
        self.head_size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        theta = c.get("rope_theta") or c["rope_parameters"]["rope_theta"]
        powers = torch.arange(0, self.head_size, 2, dtype=torch.float64) / self.head_size
        self.frequencies = (theta ** -powers).to(device)  # [head size / 2]

    def cast(self, name):
        """Cast anew at each use: what several uses give back is then added up in float32."""
        return self.weights[name].to(self.dtype)

    def norm(self, x, name):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return wide.to(self.dtype) * self.cast(name)

    def project(self, x, name):
        bias = self.cast(name + ".bias") if name + ".bias" in self.weights else None
        return F.linear(x, self.cast(name + ".weight"), bias)

    def attention(self, x, name, cos, sin, lengths):
        """x: [T, d]; every sequence sees itself, causally."""
        c, rows = self.config, x.shape[0]
        group = c["num_attention_heads"] // c["num_key_value_heads"]
        q, k, v = (self.project(x, f"{name}.{part}_proj").view(rows, -1, self.head_size) for part in "qkv")
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        seen = []
        for parts in zip(*(t.transpose(0, 1)[None].split(lengths, dim=2) for t in (q, k, v))):
            seen.append(F.scaled_dot_product_attention(*parts, is_causal=True)[0].transpose(0, 1))
        return self.project(torch.cat(seen).reshape(rows, -1), f"{name}.o_proj")

    def hidden(self, tokens, lengths):
        """tokens: [T], sequences of `lengths` one after the other; returns [T, d]."""
        positions = torch.cat([torch.arange(n, device=tokens.device) for n in lengths])
        angles = (positions[:, None].double() * self.frequencies)[:, None]
        cos, sin = angles.cos().float(), angles.sin().float()
        x = F.embedding(tokens, self.cast("model.embed_tokens.weight"))
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            y = self.norm(x, f"{name}.input_layernorm.weight")
            x = x + self.attention(y, f"{name}.self_attn", cos, sin, lengths)
            y = self.norm(x, f"{name}.post_attention_layernorm.weight")
            y = F.silu(self.project(y, f"{name}.mlp.gate_proj")) * self.project(y, f"{name}.mlp.up_proj")
            x = x + self.project(y, f"{name}.mlp.down_proj")
        return self.norm(x, "model.norm.weight")

    def loss(self, tokens, mask, lengths):
        """Mean negative log-likelihood of all tokens whose mask is 1, each given those before it in its sequence.
        tokens, mask: [T]. The first token of a sequence is never predicted."""
        hidden, last = self.hidden(tokens, lengths), torch.tensor(lengths).cumsum(0) - 1
        predicts = mask.roll(-1)
        predicts[last.to(mask.device)] = False
        rows = predicts.nonzero()[:, 0]
        head = "lm_head.weight" if "lm_head.weight" in self.weights else "model.embed_tokens.weight"

        def chunk_loss(x, targets):
            return F.cross_entropy(F.linear(x.float(), self.cast(head).float()), targets, reduction="sum")

        return sum(checkpoint(chunk_loss, hidden[some], tokens[some + 1], use_reentrant=False)
                   for some in rows.split(LOGIT_ROWS)) / len(rows)
