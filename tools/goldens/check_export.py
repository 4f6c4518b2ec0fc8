# Loads an exported model directory with transformers and compares greedy tokens and their log-probs with DIR/expected.json.
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM

folder = pathlib.Path(sys.argv[1])
expected = json.loads((folder / "expected.json").read_text())
model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
missing = [f"{kind}: {names}" for kind, names in report.items() if names]
if missing:
    sys.exit(f"check_export: transformers reports {missing}")
tokens = expected["prompt"] + expected["tokens"]
with torch.no_grad():
    log_probs = torch.log_softmax(model.eval()(torch.tensor([tokens])).logits[0].double(), -1)
for i, (token, log_prob) in enumerate(zip(expected["tokens"], expected["log_probs"])):
    row = log_probs[len(expected["prompt"]) + i - 1]
    if int(row.argmax()) != token or abs(float(row[token]) - log_prob) > 1e-4:
        sys.exit(f"check_export: token {i} is {token} at {log_prob}, transformers says {int(row.argmax())} at {float(row[token])}")
print(f"check_export: {len(expected['tokens'])} tokens agree")
