#!/usr/bin/env python3
# Loads model directories that Quern wrote with transformers, and compares them with what Quern computes. Needs
# .venv-python (tools/setup.sh --python).
#
#   check_export.py DIR... [--expected FILE]
#
# DIR/expected.json, or FILE where it is given, holds what Quern says, all of it optional:
#   {"prompts": [[id, ...], ...], "logits": [[[float, ...] for each position], ...], "log_probs": [[float, ...], ...],
#    "greedy": [{"prompt": [...], "tokens": [...]}, ...], "strings": [text, ...], "ids": [[id, ...], ...], "tolerance": 1e-4}
# log_probs: of prompt[i] given prompt[:i], from i = 1 on. Logits may also stand in DIR/expected.safetensors as logits.N, as
# they do for the golden models. Exit 0: all agree; 1: something differs, which is printed.
import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

problems = []


def check(what, difference, tolerance):
    verdict = "ok" if difference <= tolerance else "DIFFERS"
    print(f"{what}: largest difference {difference:.3g} (limit {tolerance:g}) {verdict}")
    if verdict != "ok":
        problems.append(what)


def load_expected(folder, file):
    file = file or folder / "expected.json"
    expected = json.loads(file.read_text()) if file.exists() else {}
    tensors = folder / "expected.safetensors"
    if tensors.exists() and "logits" not in expected:
        stored = load_file(tensors)
        expected["logits"] = [stored[f"logits.{i}"] for i in range(len(stored))]
    return expected


def check_model(folder, expected):
    config_keys = json.loads((folder / "config.json").read_text())
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    model.eval()
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report.get(kind):
            problems.append(kind)
            print(f"{kind}: {sorted(map(str, report[kind]))[:5]}")
    print(f"model: {config_keys['model_type']}, {sum(p.numel() for p in model.parameters())} parameters")
    tolerance = expected.get("tolerance", 1e-4)
    with torch.no_grad():
        for i, prompt in enumerate(expected.get("prompts", [])):
            logits = model(torch.tensor([prompt])).logits[0]
            if i < len(expected.get("logits", [])):
                check(f"logits of prompt {i}", (logits - torch.as_tensor(expected["logits"][i])).abs().max().item(), tolerance)
            if i < len(expected.get("log_probs", [])) and len(prompt) > 1:
                chosen = logits[:-1].log_softmax(-1).gather(1, torch.tensor(prompt[1:])[:, None])[:, 0]
                check(f"log-probs of prompt {i}", (chosen - torch.tensor(expected["log_probs"][i])).abs().max().item(), tolerance)
        for i, case in enumerate(expected.get("greedy", [])):
            tokens = list(case["prompt"])
            for _ in case["tokens"]:
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
            different = sum(a != b for a, b in zip(tokens[len(case["prompt"]):], case["tokens"]))
            check(f"greedy tokens of prompt {i}", different, 0)
    return model


def check_tokenizer(folder, expected):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    print(f"tokenizer: {type(tokenizer).__name__}, {len(tokenizer)} tokens, end {tokenizer.eos_token!r}")
    for text, ids in zip(expected.get("strings", []), expected.get("ids", [])):
        if tokenizer(text)["input_ids"] != ids:
            problems.append("tokens")
            print(f"tokens of {text!r}: {tokenizer(text)['input_ids']}, expected {ids}")
    return tokenizer


# As people do it: all that the tokenizer gives goes to the model. transformers 4 refuses what the model does not take.
def check_generate(model, tokenizer):
    inputs = tokenizer("for (int i = 0; i < n; ++i)", return_tensors="pt")
    inputs["input_ids"] %= model.config.vocab_size  # the tokenizer of a golden model may know more tokens than the model
    print(f"inputs: {sorted(inputs)}")
    try:
        model.generate(**inputs, max_new_tokens=2, do_sample=False, pad_token_id=0)
    except ValueError as refused:
        problems.append("generate")
        print(f"generate: {refused}")


def main():
    parser = argparse.ArgumentParser(description="Compares what transformers makes of model directories with what Quern computes.")
    parser.add_argument("folders", metavar="DIR", nargs="+", type=pathlib.Path)
    parser.add_argument("--expected", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for folder in arguments.folders:
        expected = load_expected(folder, arguments.expected)
        model = check_model(folder, expected)
        if (folder / "tokenizer.json").exists():
            check_generate(model, check_tokenizer(folder, expected))
    if problems:
        sys.exit(f"check_export: differs in {', '.join(dict.fromkeys(problems))}")
    print("check_export: transformers agrees")


if __name__ == "__main__":
    main()
