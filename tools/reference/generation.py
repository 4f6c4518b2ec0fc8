#!/usr/bin/env python3
"""What tools/generation_beside_transformers does, where this Python has torch and transformers; exit 77 where not.

bench_generate decodes around a mean context, prompts before the clock starts. transformers' generate() has no such
moment, so it is asked twice, for all tokens and for one: the difference is decoding alone. Its prompts are
as long that the mean context is the same.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import transformers
except ImportError as error:
    print(f"generation.py: {sys.executable} cannot import torch and transformers ({error})", file=sys.stderr)
    sys.exit(77)

# Tokens that are generated before the clock starts: by transformers in a call of their own, by bench_generate in each
# sequence.
WARM_UP = 8
OUR_WARM_UP = 32


def our_rates(options, model, config_file):
    """Tokens a second of decoding by batch; the model's config.json goes to the file."""
    program = options.build / "bin" / "bench_generate"
    run = subprocess.run([program, "--model", model, "--only", "decode", "--context", str(options.context), "--decode",
                          str(options.new), "--config", config_file, "--batch", *map(str, options.batch)],
                         stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"generation.py: bench_generate ended with {run.returncode}")
    report = json.loads(run.stdout[run.stdout.index("\n[") + 1:])
    return {line["batch"]: line["tokens_per_s"] for line in report}


def make_model(config_file, device):
    """With random weights, bfloat16."""
    config = transformers.AutoConfig.from_pretrained(config_file)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    # Every sequence goes on to its last token, whatever is sampled.
    model.generation_config = transformers.GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                                                            eos_token_id=None, pad_token_id=0)
    return model.eval()


def seconds_for(model, prompts, tokens):
    def wait():
        if prompts.is_cuda:
            torch.cuda.synchronize()
    wait()
    begun = time.monotonic()
    with torch.inference_mode():
        out = model.generate(prompts, attention_mask=torch.ones_like(prompts), min_new_tokens=tokens,
                             max_new_tokens=tokens)
    wait()
    if out.shape[1] != prompts.shape[1] + tokens:
        sys.exit(f"generation.py: {out.shape[1] - prompts.shape[1]} tokens were generated, {tokens} were asked for")
    return time.monotonic() - begun


def their_rates(options, model, batch, device):
    """Tokens a second of decoding alone, and with the prompts."""
    length = options.context - options.new // 2
    draw = torch.Generator(device="cpu").manual_seed(7)
    prompts = torch.randint(5, model.config.vocab_size - 300, (batch, length), generator=draw).to(device)
    seconds_for(model, prompts, WARM_UP)
    whole, first = seconds_for(model, prompts, options.new), seconds_for(model, prompts, 1)
    return batch * (options.new - 1) / max(whole - first, 1e-9), batch * options.new / whole


def numbers(text):
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers from 1 on; say 1,64,256")
    return found


def main():
    parser = argparse.ArgumentParser(prog="generation_beside_transformers", allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", default="0.5B,1.5B")
    parser.add_argument("--batch", type=numbers, default=[1, 64, 256])
    parser.add_argument("--context", type=int, default=576)
    parser.add_argument("--new", type=int, default=128)
    options = parser.parse_args()
    if options.new < 8 or options.context <= options.new // 2 + OUR_WARM_UP:
        parser.error(f"--context {options.context} --new {options.new}: at least 8 new tokens, and a context of more "
                     f"than half of them and {OUR_WARM_UP}")
    if not torch.cuda.is_available():
        sys.exit("generation.py: PyTorch finds no GPU here")
    transformers.logging.set_verbosity_error()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"mean context {options.context}", flush=True)
    slower = 0
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            config_file = pathlib.Path(folder) / "config.json"
            ours = our_rates(options, model, config_file)
            theirs = make_model(config_file, "cuda")
        for batch in options.batch:
            decoding, whole = their_rates(options, theirs, batch, "cuda")
            met = ours[batch] >= decoding
            slower += not met
            print(f"{'  ' if met else '**'} {model}, batch {batch:>3}: {ours[batch]:>9,.0f} tok/s, transformers {decoding:>7,.0f}: "
                  f"x{ours[batch] / decoding:.1f}; transformers with its prompts {whole:>7,.0f}", flush=True)
        del theirs
        torch.cuda.empty_cache()
    print(f"{slower} of {len(options.models.split(',')) * len(options.batch)} slower than transformers")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
