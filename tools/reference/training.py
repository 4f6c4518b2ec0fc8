#!/usr/bin/env python3
"""Trains in plain PyTorch what bench_sft_loss trained, and compares the loss of every step.

  training.py --out FOLDER [--precision float32,bfloat16] [--device cpu] [--controls NAME,...] [--beside-itself]
                        [--threads 1] [--record FILE] [--build DIR [what bench_sft_loss takes]]

FOLDER/PRECISION is what bench_sft_loss wrote; with --build it is started first. Weights are float32
masters, cast to the precision for the forward pass; the optimiser is torch.optim.AdamW, gradients are
clipped by torch.nn.utils.clip_grad_norm_. A control is the same with a defect, and has to be seen:
no-mask (prompts are trained too), wrong-beta2 (0.999 as PyTorch has it), no-clip (gradients are not
clipped), mask-shift (the loss counts the tokens before the trained ones). --beside-itself trains once more in
PyTorch, with its attention written out as products and a softmax: what PyTorch differs from itself by. Exit: 0 when all figures are
met and every control is seen, 1 otherwise, 77 where this Python has no torch. --record keeps PyTorch's
losses for machines without it (tests/golden/policy/sft_loss.json; tests/tools/sft_loss_test.cpp has the
arguments).
"""
import argparse
import array
import json
import math
import pathlib
import subprocess
import sys
import time
import warnings

# torch says so where it is installed alone; nothing here needs it.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
try:
    import torch
except ImportError as error:
    print(f"training.py: {sys.executable} cannot import torch ({error})", file=sys.stderr)
    sys.exit(77)
from torch.nn.attention import SDPBackend, sdpa_kernel

from decoder import Decoder

WRITTEN_OUT = "written-out"
CONTROLS = ("no-mask", "wrong-beta2", "no-clip", "mask-shift")
WANTED_PERCENT = 1
# Agreement on a loss that stays as it is would say little.
WANTED_FALL_PERCENT = 20
MEAN_OF = 10


def read_steps(folder, lengths):
    """(tokens [T], mask [T], lengths) of each step, on the host."""
    tokens, mask = array.array("i"), array.array("B")
    tokens.frombytes((folder / "tokens.i32").read_bytes())
    mask.frombytes((folder / "loss_mask.u8").read_bytes())
    at = 0
    for of_step in lengths:
        end = at + sum(of_step)
        yield torch.tensor(tokens[at:end]), torch.tensor(mask[at:end], dtype=torch.bool), of_step
        at = end
    if at != len(tokens) or at != len(mask):
        raise ValueError(f"{folder}: {len(tokens)} tokens and {len(mask)} mask bytes, but sequences of {at}")


def learning_rate(options, step):
    """Of the step, from 1: linear warm-up, then a cosine down to the floor."""
    if step <= options["warmup_steps"]:
        return options["learning_rate"] * step / options["warmup_steps"]
    done = (step - options["warmup_steps"]) / (options["total_steps"] - options["warmup_steps"])
    floor = options["floor"]
    return options["learning_rate"] * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1, done))))


def make_optimizer(weights, options, control):
    """Weight decay on matrices only."""
    beta2 = 0.999 if control == "wrong-beta2" else options["beta2"]
    groups = [{"params": [w for w in weights if w.ndim > 1], "weight_decay": options["weight_decay"]},
              {"params": [w for w in weights if w.ndim == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(options["beta1"], beta2), eps=options["epsilon"])


def train(folder, device, control=None):
    """(loss, gradient norm before clipping) of each step; printed every 25 steps. `control`: a defect, or WRITTEN_OUT."""
    if control == WRITTEN_OUT:
        with sdpa_kernel(SDPBackend.MATH):
            return train_steps(folder, device, control)
    return train_steps(folder, device, control)


def train_steps(folder, device, control):
    header = json.loads((folder / "training.json").read_text())
    options = header["optimizer"]
    decoder = Decoder(folder / "model", device, getattr(torch, header["precision"]))
    weights = list(decoder.weights.values())
    optimizer = make_optimizer(weights, options, control)
    most = math.inf if control == "no-clip" or options["max_grad_norm"] == 0 else options["max_grad_norm"]
    results = []
    for tokens, mask, lengths in read_steps(folder, header["sequence_lengths"]):
        if control == "mask-shift":
            mask = mask.roll(-1)
        elif control == "no-mask":
            mask = torch.ones_like(mask)
        step = len(results) + 1
        tokens, mask = tokens.to(device, torch.int64), mask.to(device)
        mean = decoder.loss(tokens, mask, lengths)
        mean.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, most).item()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step)
        optimizer.step()
        optimizer.zero_grad()
        loss = mean.item()
        results.append((loss, norm))
        if step == 1 or step % 25 == 0 or step == header["steps"]:
            print(f"{control or 'PyTorch'}, step {step}: loss {loss:.4f}, gradient norm {norm:.3f}", flush=True)
    name = "pytorch" if control is None else control
    (folder / f"{name}.jsonl").write_text("".join(
        json.dumps({"step": i, "loss": loss, "grad_norm": norm}) + "\n" for i, (loss, norm) in enumerate(results, 1)))
    return results


def differences(ours, theirs):
    """Per cent of the second, a number a step."""
    return [100 * abs(a - b) / abs(b) if math.isfinite(a - b) else math.inf for a, b in zip(ours, theirs, strict=True)]


def moving_mean(values):
    """Of MEAN_OF steps, or of all where there are fewer."""
    wide = min(MEAN_OF, len(values))
    return [sum(values[i:i + wide]) / wide for i in range(len(values) - wide + 1)]


class Figures:
    """A line a figure, the wanted beside the reached; what is missed is marked."""

    def __init__(self):
        self.missed = 0

    def show(self, name, reached, wanted, of, at_most=True):
        met = reached <= wanted if at_most else reached >= wanted
        self.missed += not met
        sign, side = "  " if met else "**", "at most" if at_most else "at least"
        print(f"{sign} {name:<58} {side} {wanted:g} %: {reached:.3g} % (of {of})", flush=True)

    def tell(self, name, reached, of):
        print(f"   {name:<58} {reached:.3g} % (of {of})", flush=True)


def compare(figures, title, ours, theirs):
    (loss, norm), (wanted, wanted_norm) = zip(*ours), zip(*theirs)
    apart, steps = differences(loss, wanted), len(loss)
    figures.show(f"{title}: loss beside PyTorch's, largest difference", max(apart), WANTED_PERCENT, steps)
    figures.show(f"{title}: ... mean difference", sum(apart) / steps, WANTED_PERCENT, steps)
    smooth = differences(moving_mean(loss), moving_mean(wanted))
    figures.show(f"{title}: ... of means of {MEAN_OF}, largest", max(smooth), WANTED_PERCENT, len(smooth))
    norms = differences(norm, wanted_norm)
    figures.tell(f"{title}: gradient norm, mean difference", sum(norms) / steps, steps)
    figures.tell(f"{title}: gradient norm, largest difference", max(norms), steps)
    fall = moving_mean(loss)
    figures.show(f"{title}: the loss falls by", 100 * (1 - fall[-1] / fall[0]), WANTED_FALL_PERCENT, steps, at_most=False)


def tell_itself(figures, title, written_out, theirs):
    """What reordered sums alone come to, beside which the difference from the project's learner is read."""
    (loss, _), (other, _) = zip(*written_out), zip(*theirs)
    apart, smooth = differences(loss, other), differences(moving_mean(loss), moving_mean(other))
    figures.tell(f"{title}: PyTorch beside itself, largest difference", max(apart), len(apart))
    figures.tell(f"{title}: ... mean difference", sum(apart) / len(apart), len(apart))
    figures.tell(f"{title}: ... of means of {MEAN_OF}, largest", max(smooth), len(smooth))


def start_program(options, folder, precision, more):
    program = options.build / "bin" / "bench_sft_loss"
    code = subprocess.run([program, "--out", folder, "--precision", precision, "--device", options.device, *more]).returncode
    if code != 0:
        sys.exit(f"training.py: bench_sft_loss ended with {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--precision", default="float32,bfloat16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--controls", default="no-mask", help="of the first precision; none: ''")
    parser.add_argument("--beside-itself", action="store_true", help="PyTorch a second time, with attention written out")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU")
    parser.add_argument("--build", type=pathlib.Path, help="folder of the build whose bin/bench_sft_loss is started")
    parser.add_argument("--record", type=pathlib.Path, help="file for the losses of PyTorch, by precision or control")
    options, more = parser.parse_known_args()
    controls = [name for name in options.controls.split(",") if name]
    unknown = set(controls) - set(CONTROLS)
    if unknown:
        parser.error(f"no control {', '.join(sorted(unknown))}; known: {', '.join(CONTROLS)}")
    if more and not options.build:
        parser.error(f"{' '.join(more)}: only with --build")
    # cuDNN makes a plan for every length of a sequence.
    torch.backends.cuda.enable_cudnn_sdp(False)
    device = torch.device(options.device)
    if options.device == "cpu":
        # Operators of a tiny model are too short to be shared out.
        torch.set_num_threads(options.threads)

    runs, begun = [], time.monotonic()
    for number, precision in enumerate(options.precision.split(",")):
        folder = options.out / precision
        if options.build:
            start_program(options, folder, precision, more)
        lines = [json.loads(line) for line in (folder / "quern.jsonl").read_text().splitlines()]
        ours = [(line["loss"], line["grad_norm"]) for line in lines]
        theirs = train(folder, device)
        again = train(folder, device, WRITTEN_OUT) if options.beside_itself else None
        defects = [(name, train(folder, device, name)) for name in controls] if number == 0 else []
        runs.append((precision, ours, theirs, again, defects))
    figures = Figures()
    for precision, ours, theirs, again, defects in runs:
        compare(figures, precision, ours, theirs)
        if again:
            tell_itself(figures, precision, again, theirs)
        for name, others in defects:
            apart = differences([loss for loss, _ in ours], [loss for loss, _ in others])
            figures.show(f"{precision}: control {name}, largest difference", max(apart), WANTED_PERCENT, len(apart),
                         at_most=False)
    if options.record:
        kept = {name: [loss for loss, _ in steps] for precision, _, theirs, _, defects in runs
                for name, steps in [(precision, theirs), *defects]}
        options.record.write_text(json.dumps(kept) + "\n")
    print(f"{time.monotonic() - begun:.0f} s, {figures.missed} missed")
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
