# Golden models: tiny random policies of each family as transformers writes them, with its logits and
# greedy tokens. Norms and biases are random too, so that none of them can be left out unnoticed.
import json
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
SMALL = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=256,
    bos_token_id=1,
    attn_implementation="eager",
)

# name -> (configuration class, arguments, changes to what is written)
MODELS = {
    "qwen2_tied": (Qwen2Config, dict(vocab_size=304, num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, eos_token_id=2,
                                     rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), {}),
    "qwen2_old_keys": (Qwen2Config, dict(vocab_size=300, num_key_value_heads=4, rms_norm_eps=1e-5, tie_word_embeddings=False, eos_token_id=2,
                                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
                       dict(old_keys=True, extra={"sliding_window": 32, "use_sliding_window": False, "max_window_layers": 1})),
    "qwen3_wide_heads": (Qwen3Config, dict(vocab_size=304, num_key_value_heads=2, head_dim=24, rms_norm_eps=1e-6, tie_word_embeddings=True, eos_token_id=[2, 3],
                                           rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), {}),
    "qwen3_old_keys": (Qwen3Config, dict(vocab_size=291, num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=False, eos_token_id=2,
                                         rope_parameters={"rope_type": "default", "rope_theta": 5000.0}), dict(old_keys=True)),
    "qwen3_bfloat16": (Qwen3Config, dict(vocab_size=304, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True, eos_token_id=2,
                                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), dict(dtype=torch.bfloat16)),
    "llama3_sharded": (LlamaConfig, dict(vocab_size=304, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-5, tie_word_embeddings=True, eos_token_id=2,
                                         rope_parameters={**LLAMA3_ROPE, "rope_theta": 500000.0}), dict(max_shard_size="60KB")),
    "llama3_old_keys": (LlamaConfig, dict(vocab_size=304, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False, eos_token_id=2,
                                          rope_parameters={**LLAMA3_ROPE, "rope_theta": 10000.0}),
                        dict(old_keys=True, eos_list=[2, 5, 7], extra={"head_dim": None, "pretraining_tp": 1, "mlp_bias": False})),
}
PROMPT_LENGTHS = (1, 6, 23, 48)
GREEDY_TOKENS = 64


def randomise(model, generator, dtype):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_(1.0 + 0.2 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed_tokens" in name or "lm_head" in name:
                parameter.copy_(0.5 * noise)
            elif "o_proj" in name or "down_proj" in name:  # loud, or a tied model would only repeat its last token
                parameter.copy_(3.0 * noise / parameter.shape[-1] ** 0.5)
            else:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            parameter.copy_(parameter.to(dtype))  # only parameters: model.to(bfloat16) would round the rotary table too


def to_old_keys(config):
    """The form that transformers 4 wrote."""
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config["transformers_version"] = "4.46.0"
    return config


def greedy(model, prompt):
    """Plain arg max over full forward passes; also the smallest lead of the best logit over the second."""
    tokens, lead = list(prompt), float("inf")
    for _ in range(GREEDY_TOKENS):
        logits = model(torch.tensor([tokens])).logits[0, -1]
        best = torch.topk(logits, 2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
    return tokens[len(prompt):], lead


def attention_backends(target, prompts):
    """What the logits of eager and sdpa differ by for all prompts, the unit of the tests' bounds: at most, and root
    mean square. The first is of a few values and changes by a third from processor to processor, the second hardly."""
    eager, sdpa = (AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32, attn_implementation=name).eval()
                   for name in ("eager", "sdpa"))
    with torch.no_grad():
        apart = torch.cat([(sdpa(tokens).logits - eager(tokens).logits).flatten()
                           for tokens in (torch.tensor([prompt]) for prompt in prompts)])
    return {"attention_backends": apart.abs().max().item(), "attention_backends_rms": apart.square().mean().sqrt().item()}


def make_model(folder, name):
    config_class, arguments, changes = MODELS[name]
    generator = torch.Generator().manual_seed(1000 + list(MODELS).index(name))
    dtype = changes.get("dtype", torch.float32)
    config = config_class(**{**SMALL, **arguments})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    target = folder / name
    shutil.rmtree(target, ignore_errors=True)
    while True:  # until the greedy tokens vary and none of them is a close choice that rounding could turn
        randomise(model, generator, dtype)
        prompts = [torch.randint(0, config.vocab_size, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
        with torch.no_grad():
            runs = [greedy(model, prompt) for prompt in prompts[1:3]]
        if min(lead for _, lead in runs) > 2e-3 and min(len(set(tokens)) for tokens, _ in runs) > 12:
            break
    with torch.no_grad():
        logits = {f"logits.{i}": model(torch.tensor([prompt])).logits[0].contiguous() for i, prompt in enumerate(prompts)}

    model.generation_config.bos_token_id = 1
    model.to(dtype).save_pretrained(target, max_shard_size=changes.get("max_shard_size", "5GB"))
    written = json.loads((target / "config.json").read_text())
    if changes.get("old_keys"):
        written = to_old_keys(written)
    written.update(changes.get("extra", {}))
    (target / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    if "eos_list" in changes:
        generation = json.loads((target / "generation_config.json").read_text())
        generation["eos_token_id"] = changes["eos_list"]
        (target / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")

    again = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for i, prompt in enumerate(prompts):
            difference = (again(torch.tensor([prompt])).logits[0] - logits[f"logits.{i}"]).abs().max().item()
            assert difference < 1e-5, f"{name}: reloaded logits differ by {difference}"
    save_file(logits, target / "expected.safetensors")
    expected = {
        **attention_backends(target, prompts),
        "prompts": prompts,
        "greedy": [{"prompt": prompt, "tokens": tokens} for prompt, (tokens, _) in zip(prompts[1:3], runs)],
        "parameters": sum(p.numel() for p in model.parameters()),
        "tensors": sorted(name for file in target.glob("model*.safetensors") for name in load_file(file)),
    }
    (target / "expected.json").write_text(json.dumps(expected) + "\n")


def make_models(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        make_model(folder, name)
        print(f"goldens: model {name}")


def measure_backends(folder):
    """attention_backends of the models that are there, on this processor; the larger largest difference stays."""
    for name in MODELS:
        file = folder / name / "expected.json"
        expected = json.loads(file.read_text())
        seen = attention_backends(folder / name, expected["prompts"])
        seen["attention_backends"] = max(seen["attention_backends"], expected["attention_backends"])
        file.write_text(json.dumps({**seen, **{key: expected[key] for key in expected if key not in seen}}) + "\n")
        print(f"goldens: model {name}: back-ends differ by {seen['attention_backends']:.2e}, rms {seen['attention_backends_rms']:.2e}")
