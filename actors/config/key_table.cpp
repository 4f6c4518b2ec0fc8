#include "actors/config/key_table.hpp"

#include <fmt/ranges.h>

#include "env/task/lane.hpp"

namespace quern::actors {
namespace {

using keys = std::vector<config_key>;
using words = std::vector<std::string_view>;
using place = std::variant<bool*, std::int64_t*, double*, std::string*>;

template <class Access>
void number(keys& table, std::string path, key_class changes, double low, double high,
            std::string_view why, Access access) {
  table.push_back({std::move(path), changes, low, high, {}, why, [access](run_config& c) {
                     return place(&access(c));
                   }});
}

template <class Access>
void text(keys& table, std::string path, key_class changes, words choices, std::string_view why,
          Access access) {
  table.push_back({std::move(path), changes, 0, 0, std::move(choices), why,
                   [access](run_config& c) { return place(&access(c)); }});
}

#define QUERN_NUMBER(field, changes, low, high, why)     \
  number(                                                \
      table, #field, key_class::changes, low, high, why, \
      [](run_config & c) -> auto& { return c.field; })
#define QUERN_TEXT(field, changes, choices, why)       \
  text(                                                \
      table, #field, key_class::changes, choices, why, \
      [](run_config & c) -> auto& { return c.field; })
#define QUERN_WORDS(...) (words{__VA_ARGS__})

std::string_view of_all_lanes() {
  static const std::string text = [] {
    std::vector<std::string> all;
    for (const env::lane* one : env::all_lanes())
      all.push_back(fmt::format("{} ({})", one->name, one->summary));
    return fmt::format("what candidates are written in and run on: {}", fmt::join(all, ", "));
  }();
  return text;
}

void run_and_policy(keys& table) {
  QUERN_TEXT(run.name, fixed, {}, "names the run in tables and logs");
  QUERN_TEXT(run.folder, fixed, {},
             "where everything about the run is kept; empty: runs/NAME in the current folder");
  QUERN_NUMBER(run.seed, fixed, 0, 9e15, "address of every random number of the run");
  QUERN_NUMBER(run.max_time_s, resume, 0, 1e8,
               "the run stops with a checkpoint after this time; 0: no limit");
  QUERN_NUMBER(run.budget_evaluations, resume, 1, 1e9,
               "stage search: samples that are judged in all, then the run ends; those that the "
               "evaluators fail to judge do not count, nor do kernels of replay.seed_variants");
  QUERN_TEXT(
      stage, fixed, QUERN_WORDS("sft", "self_train", "contrastive", "search"),
      "supervised fine-tuning on verified variants; self-training on own successes (reward 1 "
      "or 0, no baseline); contrastive RL; search: prompts with exemplars as in contrastive RL, by "
      "a policy that never changes: no learner, no key of learner.* is read");
  QUERN_TEXT(
      policy.model, fixed, {},
      "Hugging Face folder of the first weights; a name without a leading / is looked for "
      "here, then in Quern's own data; stage sft makes a fresh model and does not read it, and "
      "of several stages each after the first begins with the model of the one before it");
  QUERN_TEXT(policy.engine, fixed, QUERN_WORDS("own", "recorded"),
             "where completions come from; own: the policy samples them; recorded: those of "
             "policy.recorded are played, with log-probs by the policy's current weights; nothing "
             "is drawn then, and policy.temperature is what log-probs are at (stage sft reads "
             "neither)");
  QUERN_TEXT(policy.recorded, fixed, {},
             "file of completions by task or prompt (docs/formats/recorded.md), for policy.engine: "
             "recorded; the run keeps a copy, which a resume plays");
  QUERN_TEXT(policy.template_name, fixed, {}, "prompt template, a file in env/prompts");
  QUERN_NUMBER(policy.max_prompt_tokens, fixed, 16, 1e6,
               "of the policy's tokenizer; a longer prompt loses its exemplars, and a task whose "
               "bare prompt is longer is refused before the run begins");
  QUERN_NUMBER(policy.max_new_tokens, resume, 1, 1e6,
               "longer completions are cut and malformed; with policy.max_prompt_tokens at most "
               "the positions of the model");
  QUERN_NUMBER(policy.temperature, fixed, 0.01, 10,
               "of sampling; the learner divides by it too, so that ratios are right: fixed, since "
               "samples that wait for the learner carry log-probs at it");
  QUERN_NUMBER(policy.layers, fixed, 1, 1000, "of a fresh model (stage sft)");
  QUERN_NUMBER(policy.width, fixed, 8, 65536, "of a fresh model: size of the residual stream");
  QUERN_NUMBER(policy.heads, fixed, 1, 1024, "of a fresh model: query heads");
  QUERN_NUMBER(policy.kv_heads, fixed, 1, 1024, "of a fresh model: key and value heads");
  QUERN_NUMBER(policy.head_width, fixed, 2, 1024, "of a fresh model");
  QUERN_NUMBER(policy.mlp_width, fixed, 8, 1e6, "of a fresh model");
  QUERN_NUMBER(policy.vocabulary, fixed, 260, 1e6,
               "of a fresh model: entries of the byte-level tokenizer trained on its corpus");
}

void tasks_and_env(keys& table) {
  QUERN_TEXT(tasks.source, fixed, QUERN_WORDS("generated", "suite"),
             "tasks drawn from the grammar of compositions, or the files of a suite");
  QUERN_TEXT(
      tasks.suite, fixed, {},
      "folder of the suite, a task file, or tasks of others in a form that the lane reads, such as "
      "kernelbench:1 (source: suite)");
  QUERN_TEXT(tasks.kernelbench, fixed, {},
             "folder of KernelBench's tree, where tasks.suite names it; empty: the variable "
             "KERNELBENCH");
  QUERN_NUMBER(tasks.seed, fixed, 0, 9e15, "address of the generated tasks");
  QUERN_NUMBER(tasks.count, fixed, 1, 5000,
               "generated tasks that are trained on; each takes a few ms at every start");
  QUERN_NUMBER(tasks.held_out_count, fixed, 0, 5000,
               "generated tasks of held-out compositions, for the evaluation set only");
  QUERN_NUMBER(tasks.held_out_skip, fixed, 0, 5000,
               "held-out compositions that are passed over before those are drawn: a later set, of "
               "which none has the steps of one that was passed over, whatever its constants");
  QUERN_NUMBER(tasks.held_out_share, fixed, 0, 0.9,
               "share of all compositions that is held out, by hash of the canonical form");
  QUERN_NUMBER(tasks.held_out_seed, fixed, 0, 9e15,
               "which compositions are held out; a corpus and its runs must agree");
  QUERN_TEXT(
      tasks.held_out_families, fixed, {},
      "families held out as a whole, with commas between (quern tasks generate names them); a "
      "corpus and its runs must agree");
  QUERN_NUMBER(tasks.corpus_tasks, fixed, 1, 1e7, "stage sft: generated tasks of the corpus");
  QUERN_NUMBER(tasks.corpus_variants, fixed, 1, 64, "stage sft: corpus records of a task");
  QUERN_NUMBER(tasks.corpus_wrong_share, fixed, 0, 0.95,
               "stage sft: share of wrong variants; the policy must have something left to learn");
  QUERN_NUMBER(tasks.corpus_exemplars_share, fixed, 0, 1,
               "stage sft: share of the tasks of which every second record shows kernels: 1 makes "
               "half of the records show some");
  QUERN_NUMBER(tasks.corpus_comparing_share, fixed, 0, 1,
               "stage sft: share of the records with exemplars whose answer follows from them and, "
               "where a faster kernel is known, improves on them; it is right, whatever "
               "corpus_wrong_share is. More kernels of a task are measured for it, and where all "
               "are alike a record shows none");
  QUERN_NUMBER(tasks.corpus_wrong_shown_share, fixed, 0, 1,
               "stage sft: share of the comparing records in which one of the kernels shown is "
               "wrong, with its verdict beside a score of 0; none is where "
               "replay.exemplars_shown is 1");
  QUERN_NUMBER(tasks.corpus_part_s, resume, 0, 1e8,
               "stage sft: the run pauses after so many seconds of making the corpus, and a resume "
               "goes on with it; 0: no limit");
  QUERN_TEXT(tasks.corpus_folder, fixed, {},
             "stage sft: where the corpus is kept; empty: corpus/ in the run's folder");
  QUERN_TEXT(env.lane, fixed, env::lane_names(), of_all_lanes());
  QUERN_TEXT(
      env.sandbox, resume, QUERN_WORDS("required", "best_effort"),
      "required: refuse to run where a needed layer is missing (lanes on a GPU need control "
      "groups, quern doctor names what is missing); best_effort: run with what the host has and "
      "record it in every verdict");
  QUERN_TEXT(
      env.protocol, fixed,
      QUERN_WORDS("paired/1", "cost_model/1", "cuda_l1_train/1", "cuda_l1_report/1",
                  "kernelbench/1"),
      "how time is measured; cost_model/1 replaces only the time by a documented function of "
      "task and source, for runs that must repeat; those of the papers are for lanes on a GPU and "
      "take env.time_budget_s, where the papers have 30 and 20 minutes");
  QUERN_TEXT(
      env.baseline, fixed,
      QUERN_WORDS("task", "eager", "graph", "compile", "plain", "reduce-overhead", "max-autotune"),
      "what speed-up is over: task (what its file says), the reference by ATen, the same "
      "under a CUDA graph, by torch.compile (needs Python with torch), or the plain kernel; "
      "reduce-overhead and max-autotune are modes of torch.compile, for modules on a "
      "GPU");
  QUERN_NUMBER(
      env.time_budget_s, resume, 0.05, 3600,
      "seconds of measuring one candidate; one that is noisy is measured up to four times as long");
  QUERN_NUMBER(
      env.precision, resume, 0.001, 0.06,
      "measuring ends before the budget once both half-widths of ln(speed-up) are this small, "
      "for 95 %");
  QUERN_NUMBER(env.noise_limit, resume, 0.01, 0.5,
               "half-width of its interval above which a measurement is noisy: measured again, "
               "then dropped");
  QUERN_NUMBER(env.evidence_share, resume, 0, 1,
               "modules on a GPU: share of evaluations that end with a profiled call in a process "
               "of its own, whose evidence is in the verdict; all do where the suite has "
               "by_evidence");
  QUERN_NUMBER(env.max_attempts, resume, 1, 20,
               "evaluations of a sample that end alike (noise, a lost host) before it is dropped; "
               "after a fault of hosts they wait for up to 30 s in all; "
               "an invalid reference and an unconfirmed claim are tried again once at most");
  QUERN_NUMBER(env.evaluators, resume, 0, 1024,
               "evaluator hosts started with the run; others may join at env.bind");
  QUERN_TEXT(env.evaluator_hosts, resume, {},
             "names of the hosts where these are started, in turn, with commas between; empty: "
             "here; key pairs are made in the run's folder");
  QUERN_TEXT(env.device, fixed, QUERN_WORDS("lane", "gpu"),
             "what candidates are measured on: lane (what their lane has: a core, or a GPU), or "
             "gpu, for a lane of cores that can be judged on the GPUs of env.gpus, too");
  QUERN_TEXT(env.gpus, resume, {},
             "on GPUs: those of their host that measure, 0,1,...; evaluator hosts take them in "
             "turn, one GPU each");
  QUERN_TEXT(
      env.device_class, fixed, {},
      "on GPUs: class of the GPUs that measure, as quern doctor tells it; empty: that of the first "
      "of env.gpus");
  QUERN_NUMBER(env.core, resume, -1, 4095, "core that measures; -1: the first that is free");
  QUERN_NUMBER(env.static_screen, resume, 0, 1, "refuse sources by rule before they are compiled");
  QUERN_NUMBER(
      env.host_entry, fixed, 0, 1,
      "lanes that can do without host code of candidates: whether these may have it, in a "
      "process of their own, where the suite allows it, too; off: what has no launch plan gets no "
      "reward, and nothing of a candidate ever shares a process with what measures it");
  QUERN_TEXT(env.bind, resume, {},
             "tcp://ADDRESS:PORT where evaluator hosts of other machines connect; empty: none");
  QUERN_TEXT(env.keys, resume, {}, "key pair of this run (quern keys makes one); for env.bind");
  QUERN_TEXT(env.hosts, resume, {},
             "public keys of the hosts that may connect: a file with one a line, or a folder of "
             "the FILE.pub that quern keys makes; for env.bind");
}

void method(keys& table) {
  QUERN_TEXT(replay.exemplars, resume, QUERN_WORDS("bucket", "island", "random", "none"),
             "how prior variants with scores are chosen for a prompt");
  QUERN_TEXT(
      replay.exemplar_schedule, resume, {},
      "which variants they are chosen from, as SOURCE,SOURCE:STEP,... with rising steps: all, "
      "seeds (of replay.seed_variants), own (written by the policy) or best (the highest "
      "buckets of own); a task with fewer than replay.exemplars_shown of them shows any. "
      "Example: seeds,own:4,best:12");
  QUERN_NUMBER(replay.exemplars_shown, fixed, 1, 16,
               "variants that a prompt shows; where a task has fewer with scores, its prompts show "
               "none. A corpus of stage sft shows as many");
  QUERN_NUMBER(replay.without_exemplars_share, resume, 0, 1, "share of prompts without exemplars");
  QUERN_NUMBER(replay.buckets, resume, 2, 1000, "score buckets of a task");
  QUERN_NUMBER(replay.bucket_temperature, resume, 0.001, 1000, "of the softmax over bucket means");
  QUERN_NUMBER(replay.bucket_width, resume, 0.01, 100, "width of a score bucket, in speed-up");
  QUERN_NUMBER(replay.seed_variants, fixed, 0, 64,
               "variants from the grammar, measured here, that the archive of a task begins with");
  QUERN_TEXT(
      algorithm.preset, fixed,
      QUERN_WORDS("group_normalised", "group_centred", "reinforce", "group_smoothed"),
      "a name fixes the whole formula: quern explain loss PRESET prints it; reinforce is the "
      "default of stage self_train");
  QUERN_TEXT(algorithm.reward, fixed, {},
             "named function of verdicts: quern explain rewards; correct/1 is the default of stage "
             "self_train");
  QUERN_NUMBER(algorithm.group_size, fixed, 2, 1024, "samples of one prompt");
  QUERN_NUMBER(algorithm.groups_per_step, fixed, 1, 1024, "groups of one optimiser step");
  // Ranges of the formula are those of policy/loss/preset.cpp; a test compares them.
  QUERN_NUMBER(algorithm.clip_low, resume, 0, 1, "ratio clip below 1");
  QUERN_NUMBER(algorithm.clip_high, resume, 0, 2,
               "ratio clip above 1; a negative advantage never weighs more than 3 times itself");
  QUERN_NUMBER(algorithm.kl_weight, fixed, 0, 10,
               "weight of the KL term (preset group_smoothed, whose default is 0.01)");
  QUERN_NUMBER(
      algorithm.importance_cap, resume, 1, 100,
      "cap of the truncated importance weight between generator and learner (preset reinforce)");
  QUERN_NUMBER(algorithm.negative_scale, resume, 0, 1,
               "negative advantages are multiplied by this; 0: learn from successes only");
  QUERN_NUMBER(learner.steps, resume, 0, 1e9, "optimiser steps of the run");
  QUERN_NUMBER(learner.learning_rate, resume, 0, 1,
               "after warm-up; a small policy is ruined within two steps by one too large");
  QUERN_NUMBER(learner.warmup_steps, resume, 0, 1e6,
               "AdamW's first steps move every weight by the whole learning rate: begin small");
  QUERN_TEXT(learner.schedule, resume, QUERN_WORDS("constant", "linear", "cosine"),
             "of the learning rate after warm-up");
  QUERN_NUMBER(learner.weight_decay, resume, 0, 1, "decoupled");
  QUERN_NUMBER(learner.max_grad_norm, resume, 0.001, 1e6, "gradients are scaled down to this norm");
  QUERN_NUMBER(learner.micro_batch_tokens, resume, 64, 1e8,
               "tokens of one backward pass; changes memory, not results");
  QUERN_NUMBER(learner.threads, resume, 1, 256,
               "cores of the learner on a CPU; on a GPU 1: each thread has gradients and "
               "activations of its own there, and all wait for the one GPU");
  QUERN_TEXT(learner.device, resume, QUERN_WORDS("auto", "cpu", "cuda"),
             "auto: stage sft takes a GPU where there is one, the other stages the CPU; cuda "
             "without a GPU is an error");
  QUERN_TEXT(learner.precision, fixed, QUERN_WORDS("float32", "bfloat16"),
             "of weights and activations; master weights, gradients, moments and log-probs are "
             "float32 either way; bfloat16 is for GPUs, on a CPU it is computed slowly");
  QUERN_NUMBER(learner.ranks, resume, 1, 64,
               "processes of the learner, one GPU each on cuda; they share each batch and the "
               "optimiser's state (ZeRO-1)");
  QUERN_TEXT(learner.hosts, resume, {},
             "names of the hosts where the ranks are, one a rank, with commas between; the value "
             "of cluster.address is this machine; empty: all are here; stage sft is always here");
  QUERN_TEXT(
      learner.devices, resume, {},
      "GPUs of the ranks on cuda, by the numbers of their hosts, here within "
      "CUDA_VISIBLE_DEVICES if that is set: 0,1,...; empty: the first rank of a host has its "
      "GPU 0 and so on");
  QUERN_TEXT(learner.recompute, resume, QUERN_WORDS("none", "mlp", "full"),
             "what the backward pass computes again instead of keeping it: less memory, more time, "
             "the same results");
  QUERN_NUMBER(learner.loss_chunk, resume, 1, 1e6,
               "rows of logits that exist at once; changes memory, not results");
  QUERN_NUMBER(
      learner.rank_deadline_s, resume, 0.5, 600,
      "a rank that gives no sign of life for so long, or does not move while others wait "
      "for it, has failed: all start again from the last checkpoint; longer than a GPU takes "
      "for the forward pass of a micro-batch, and the network for one tensor's gradients");
  QUERN_NUMBER(learner.batch_samples, fixed, 1, 1e6, "stage sft: samples of an optimiser step");
  QUERN_NUMBER(learner.permute_rewards, fixed, 0, 1,
               "shuffle rewards inside a batch: a control that must not learn");
}

void system(keys& table) {
  QUERN_NUMBER(actors.staleness, fixed, 0, 1000,
               "optimiser steps by which the oldest token of a sample may be behind; a hard bound");
  QUERN_TEXT(actors.stale_groups, resume, QUERN_WORDS("drop", "wait", "mask_tokens"),
             "what becomes of a group that is more than actors.staleness steps behind; drop: it is "
             "dropped; wait: the learner takes no step that would make a group under way too old, "
             "and waits for that group; mask_tokens: its tokens that are too old are not trained, "
             "and a sample without any other token is dropped");
  QUERN_NUMBER(actors.generators, resume, 1, 64,
               "processes that generate, all on one host; several on the CPU only: each has "
               "actors.generator_threads cores and memory of its own");
  QUERN_TEXT(actors.generator_host, resume, {},
             "name of the host where the generators are; empty: here");
  QUERN_NUMBER(
      actors.generator_threads, resume, 1, 1024,
      "cores of the generator; with several, samples on a CPU may depend in their last bits on "
      "what else is in the batch");
  QUERN_TEXT(actors.generator_device, resume, QUERN_WORDS("cpu", "cuda"),
             "what the generator computes on; cuda without a GPU is an error");
  QUERN_NUMBER(
      actors.generator_gpu, resume, 0, 63,
      "its GPU on cuda; where evaluators of the run measure on the same one, each has it by "
      "turns");
  QUERN_TEXT(actors.generator_precision, resume, QUERN_WORDS("float32", "bfloat16"),
             "of the generator on cuda; the learner corrects what lower precision changes");
  QUERN_NUMBER(
      actors.exact, fixed, 0, 1,
      "exact mode: samples do not depend in a bit on what else is generated, and the learner takes "
      "its log-probs from passes like the generator's, so that both agree to the bit at equal "
      "weights; many times slower, to tell rounding from errors");
  QUERN_TEXT(
      actors.weights, resume, QUERN_WORDS("auto", "memory", "link"),
      "how new weights reach a generator: memory: files in shared memory; link: from arena to "
      "arena, by NCCL between two GPUs, on the CPU through sockets; auto: link where rank 0 of "
      "the learner and the generator have different GPUs, or one of them lives on another host, "
      "else memory");
  QUERN_NUMBER(actors.lease_s, resume, 1, 86400,
               "seconds that an evaluator host may keep a job; "
               "then this attempt counts as failed");
  QUERN_NUMBER(actors.heartbeat_s, resume, 0.05, 60,
               "seconds between heartbeats of control and an evaluator host; five missed ones mean "
               "that the other side is gone. Generator and learner have heartbeats of their own, "
               "which no key changes");
  QUERN_NUMBER(actors.restarts, resume, 0, 1000,
               "restarts of one process within restart_window_s; those of the learner without a "
               "step in between, and of stage sft without a new checkpoint, whatever time they "
               "take; an evaluator beyond it is set aside, tried again after pauses");
  QUERN_NUMBER(
      actors.restart_window_s, resume, 1, 86400,
      "beyond the limit the run stops, resumable; for want of evaluators, after 10 minutes "
      "without any");
  QUERN_TEXT(cluster.launch, resume, {},
             "how a process is started on another host: a command of this machine with {host} in "
             "it, such as ssh -o BatchMode=yes {host}, which passes standard input and output on; "
             "the words of the process follow, or stand for {command} as one text for a shell "
             "(ssh gets the text in any case)");
  QUERN_TEXT(cluster.address, resume, {},
             "address or name of this machine by which the other hosts reach it; what control "
             "listens on where a role is elsewhere. The network must be one that can be trusted, "
             "and the run's folder and this build be at the same paths on every host");
  QUERN_NUMBER(storage.checkpoint_every_steps, resume, 1, 1e6,
               "a crash costs the steps since the last one");
  QUERN_NUMBER(storage.keep_checkpoints, resume, 2, 1000,
               "newest ones that stay; the last of them is where a resume goes on");
  QUERN_NUMBER(storage.shard_mb, resume, 1, 1e6,
               "largest file of weights, in MB; more of them go into several");
  QUERN_NUMBER(
      observe.evaluation_set, fixed, 0, 1,
      "compare the first and the last weights on an evaluation set: same prompts, same seeds");
  QUERN_NUMBER(observe.evaluation_set_train, fixed, 0, 1e5,
               "prompts of the evaluation set from training tasks");
  QUERN_NUMBER(observe.evaluation_set_held_out, fixed, 0, 1e5,
               "prompts from held-out compositions");
  QUERN_NUMBER(
      observe.evaluation_set_exemplars_share, fixed, 0, 1,
      "share of the evaluation set's prompts that show exemplars, evenly spread; none where "
      "replay.exemplars is none");
  QUERN_NUMBER(
      observe.evaluation_set_exemplars_fastest, fixed, 0, 1,
      "measure all replay.seed_variants of a task that the evaluation set shows exemplars of, and "
      "show the fastest; off: the evaluation set measures replay.exemplars_shown of them and shows "
      "these");
  QUERN_NUMBER(
      observe.evaluation_set_swapped, fixed, 0, 1,
      "ask each prompt of the evaluation set that shows exemplars once more with those of another "
      "task: a control, which tells whether they are read");
  QUERN_NUMBER(observe.evaluation_set_seed, fixed, 0, 9e15,
               "address of the evaluation set's random numbers");
  QUERN_TEXT(
      observe.prometheus, resume, {},
      "ADDRESS:PORT where Prometheus finds the numbers of the run while it goes, at /metrics "
      "(docs/formats/metrics.md); without an address only this machine reaches it, port 0 is "
      "any that is free; empty: nothing is served");
  QUERN_TEXT(observe.log_level, resume, QUERN_WORDS("debug", "info", "warning", "error"),
             "lines below it are not written by any process of the run");
}

}  // namespace

std::string_view to_string(key_class value) {
  switch (value) {
    case key_class::fixed:
      return "fixed";
    case key_class::resume:
      return "resume";
  }
  return "fixed";
}

const std::vector<config_key>& config_keys() {
  static const keys table = [] {
    keys made;
    run_and_policy(made);
    tasks_and_env(made);
    method(made);
    system(made);
    return made;
  }();
  return table;
}

}  // namespace quern::actors
