# Golden losses: every preset on small random batches in float64, gradients by PyTorch's autograd. Written from the
# formulas that `quern explain loss` prints, not from the code that computes them.
import json

import torch

BASE = {
    "anchor": "behaviour", "denominator": "tokens", "denominator_tokens": 0.0, "std_epsilon": 1e-4, "clip_low": 0.2, "clip_high": 0.2,
    "log_ratio_clamp": 10.0, "importance_cap": 2.0, "negative_ratio_cap": 3.0, "negative_scale": 1.0, "kl_coefficient": 0.0,
    "smoothing_clip": 0.0, "smoothing_block": 100,
}
GROUP_SMOOTHED = {"kl_coefficient": 0.01, "smoothing_clip": 1.5}
GROUP_CENTRED = {"denominator": "constant", "denominator_tokens": 16.0}
# name -> preset, parameters that differ, shape of the case
CASES = {
    "sft": ("sft", {}, {}),
    "sft_by_sequences": ("sft", {"denominator": "sequences"}, {}),
    "reinforce": ("reinforce", {}, {"binary": True}),
    "reinforce_negative_scaled": ("reinforce", {"negative_scale": 0.25, "importance_cap": 1.5}, {"shift": -1.0}),
    "group_normalised": ("group_normalised", {}, {}),
    "group_normalised_kl_clip_higher": ("group_normalised", {"clip_high": 0.28, "kl_coefficient": 0.05}, {}),
    "group_normalised_proximal": ("group_normalised", {"anchor": "proximal"}, {}),
    "group_normalised_proximal_kl": ("group_normalised", {"anchor": "proximal", "kl_coefficient": 0.2, "importance_cap": 5.0}, {}),
    "group_normalised_by_sequences": ("group_normalised", {"denominator": "sequences"}, {}),
    "group_normalised_negative_scaled": ("group_normalised", {"negative_scale": 0.2}, {}),
    "group_normalised_equal_group": ("group_normalised", {}, {"equal_group": True}),
    "group_centred": ("group_centred", GROUP_CENTRED, {}),
    "group_centred_kl": ("group_centred", {**GROUP_CENTRED, "kl_coefficient": 0.1}, {"equal_group": True}),
    "group_smoothed_before_first_block": ("group_smoothed", {**GROUP_SMOOTHED, "smoothing_block": 50}, {"history": 49}),
    "group_smoothed": ("group_smoothed", {**GROUP_SMOOTHED, "smoothing_block": 20}, {"history": 47}),
    "group_smoothed_equal_block": ("group_smoothed", {**GROUP_SMOOTHED, "smoothing_block": 10}, {"history": 10, "equal_history": True}),
}


def smooth(rewards, history, parameters):
    block = parameters["smoothing_block"]
    complete = len(history) // block
    if complete == 0:
        return rewards
    last = torch.tensor(history[(complete - 1) * block : complete * block], dtype=torch.float64)
    sigma = last.std(unbiased=False)
    if sigma < 1e-6:
        return rewards
    return torch.clamp((rewards - last.mean()) / sigma, -parameters["smoothing_clip"], parameters["smoothing_clip"])


def advantages_of(preset, rewards, groups, history, parameters):
    if preset == "sft":
        return torch.ones_like(rewards)
    values = smooth(rewards, history, parameters) if preset == "group_smoothed" else rewards
    result = values.clone()
    if preset != "reinforce":
        for group in groups:
            members = values[group]
            if len(group) < 2 or members.max() == members.min():
                result[group] = 0.0
            elif preset == "group_centred":
                result[group] = members - members.mean()
            else:
                result[group] = (members - members.mean()) / (members.std(unbiased=True) + parameters["std_epsilon"])
    return torch.where(result < 0, result * parameters["negative_scale"], result)


def token_loss(preset, parameters, log_prob, behaviour, proximal, reference, advantage):
    limit, cap = parameters["log_ratio_clamp"], parameters["importance_cap"]

    def ratio(difference):
        return torch.exp(torch.clamp(difference, -limit, limit))

    if preset == "sft":
        return -advantage * log_prob
    if preset == "reinforce":
        return -torch.clamp(ratio(log_prob - behaviour), max=cap).detach() * advantage * log_prob
    weight, anchor = torch.ones_like(log_prob), behaviour
    if parameters["anchor"] == "proximal":
        weight, anchor = torch.clamp(ratio(proximal - behaviour), max=cap), proximal
    r = ratio(log_prob - anchor)
    surrogate = torch.minimum(r * advantage, torch.clamp(r, 1 - parameters["clip_low"], 1 + parameters["clip_high"]) * advantage)
    surrogate = torch.where(advantage < 0, torch.maximum(surrogate, parameters["negative_ratio_cap"] * advantage), surrogate)
    loss = -weight * surrogate
    if parameters["kl_coefficient"] > 0:
        d = torch.clamp(reference - log_prob, -limit, limit)
        loss = loss + parameters["kl_coefficient"] * (torch.exp(d) - d - 1)
    return loss


def log_probs(generator, length, near=None):
    if near is None:
        return -3.0 * torch.rand(length, generator=generator, dtype=torch.float64) ** 2
    scale = torch.tensor([0.03, 0.3, 1.5, 14.0])[torch.multinomial(torch.tensor([4.0, 4.0, 2.0, 0.5]), length, True, generator=generator)]
    return near + scale * torch.randn(length, generator=generator, dtype=torch.float64)


def make_case(name, seed):
    preset, changes, shape = CASES[name]
    parameters = {**BASE, **changes}
    generator = torch.Generator().manual_seed(seed)

    def draw(count):
        return (3.0 * torch.rand(count, generator=generator, dtype=torch.float64) + shape.get("shift", 0.0)).tolist()

    groups = [[0, 1, 2, 3], [4, 5, 6], [7, 8], [9]]
    rewards = draw(10)
    if shape.get("binary"):
        rewards = [float(r > 1.5) for r in rewards]
    if shape.get("equal_group"):
        rewards[4:7] = [1.25] * 3
    history = [0.7] * shape.get("history", 0) if shape.get("equal_history") else draw(shape.get("history", 0))
    advantages = advantages_of(preset, torch.tensor(rewards, dtype=torch.float64), groups, history, parameters)

    sequences, losses, variables = [], [], []
    lengths = torch.randint(1, 9, (10,), generator=generator).tolist()
    masks = [(torch.rand(n, generator=generator) < 0.75).int().tolist() for n in lengths]
    for mask in masks:
        mask[-1] = 1
    trained = sum(map(sum, masks))
    for length, mask, advantage in zip(lengths, masks, advantages):
        log_prob = log_probs(generator, length)
        behaviour, proximal, reference = (log_probs(generator, length, log_prob) for _ in range(3))
        log_prob.requires_grad_(True)
        variables.append(log_prob)
        weight = {"tokens": 1 / trained, "sequences": 1 / (10 * sum(mask)), "constant": 1 / (10 * parameters["denominator_tokens"] or 1)}[parameters["denominator"]]
        losses.append((token_loss(preset, parameters, log_prob, behaviour, proximal, reference, advantage.expand(length)) * torch.tensor(mask) * weight).sum())
        sequences.append({"mask": mask, "log_prob": log_prob.tolist(), "behaviour_log_prob": behaviour.tolist(),
                          "proximal_log_prob": proximal.tolist(), "reference_log_prob": reference.tolist()})
    total = torch.stack(losses).sum()
    total.backward()
    for sequence, variable in zip(sequences, variables):
        sequence["gradient"] = variable.grad.tolist()
    return {"name": name, "preset": preset, "parameters": parameters, "history": history, "groups": groups, "rewards": rewards,
            "advantages": advantages.tolist(), "sequences": sequences, "loss": total.item()}


def make_losses(file):
    cases = [make_case(name, seed) for seed, name in enumerate(CASES)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
    print(f"goldens: {len(cases)} losses")
