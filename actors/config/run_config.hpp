// The configuration of a run: every key with its default. One table (key_table.cpp) gives each its
// range, class and reason; reading, writing, `--set`, comparison and configs/reference.yaml all
// come from that table, so that they cannot differ.
#pragma once

#include <cstdint>
#include <string>

namespace quern::actors {

/// All keys, grouped as in the file. A plain value. Units stand in names.
struct run_config {
  struct {
    std::string name = "run";
    std::string folder = "";
    std::int64_t seed = 1;
    double max_time_s = 0;
    std::int64_t budget_evaluations = 256;
  } run;

  std::string stage = "contrastive";

  struct {
    std::string model = "policy/demo";
    std::string engine = "own";
    std::string recorded = "";
    std::string template_name = "contrastive_demo";
    std::int64_t max_prompt_tokens = 900;
    std::int64_t max_new_tokens = 420;
    double temperature = 1.0;
    std::int64_t layers = 6;
    std::int64_t width = 192;
    std::int64_t heads = 6;
    std::int64_t kv_heads = 2;
    std::int64_t head_width = 32;
    std::int64_t mlp_width = 512;
    std::int64_t vocabulary = 512;
  } policy;

  struct {
    std::string source = "generated";
    std::string suite = "";
    std::string kernelbench = "";
    std::int64_t seed = 1;
    std::int64_t count = 64;
    std::int64_t held_out_count = 32;
    std::int64_t held_out_skip = 0;
    double held_out_share = 0.1;
    std::int64_t held_out_seed = 7;
    std::string held_out_families = "";
    std::int64_t corpus_tasks = 6000;
    std::int64_t corpus_variants = 4;
    double corpus_wrong_share = 0.35;
    double corpus_exemplars_share = 0.5;
    double corpus_comparing_share = 0;
    double corpus_wrong_shown_share = 0;
    std::string corpus_folder = "";
    double corpus_part_s = 0;
  } tasks;

  struct {
    std::string lane = "cpp";
    std::string sandbox = "required";
    std::string protocol = "paired/1";
    std::string baseline = "task";
    double time_budget_s = 0.3;
    double precision = 0.02;
    double noise_limit = 0.06;
    double evidence_share = 0.02;
    std::int64_t max_attempts = 3;
    std::int64_t evaluators = 1;
    std::string evaluator_hosts = "";
    std::string device = "lane";
    std::string gpus = "0";
    std::string device_class = "";
    std::int64_t core = -1;
    bool static_screen = true;
    bool host_entry = false;
    std::string bind = "";
    std::string keys = "";
    std::string hosts = "";
  } env;

  struct {
    std::string exemplars = "bucket";
    std::string exemplar_schedule = "all";
    std::int64_t exemplars_shown = 2;
    double without_exemplars_share = 0.5;
    std::int64_t buckets = 7;
    double bucket_temperature = 1.0;
    double bucket_width = 0.5;
    std::int64_t seed_variants = 4;
  } replay;

  struct {
    std::string preset = "group_normalised";
    std::string reward = "speedup_capped/1";
    std::int64_t group_size = 8;
    std::int64_t groups_per_step = 2;
    double clip_low = 0.2;
    double clip_high = 0.2;
    double kl_weight = 0.0;
    double importance_cap = 2.0;
    double negative_scale = 1.0;
  } algorithm;

  struct {
    std::int64_t steps = 18;
    double learning_rate = 5e-5;
    std::int64_t warmup_steps = 4;
    std::string schedule = "constant";
    double weight_decay = 0.0;
    double max_grad_norm = 1.0;
    std::int64_t micro_batch_tokens = 8192;
    std::int64_t threads = 1;
    std::string device = "auto";
    std::string precision = "float32";
    std::int64_t ranks = 1;
    std::string hosts = "";
    std::string devices = "";
    std::string recompute = "none";
    std::int64_t loss_chunk = 1024;
    double rank_deadline_s = 5;
    std::int64_t batch_samples = 64;
    bool permute_rewards = false;
  } learner;

  struct {
    std::int64_t staleness = 2;
    std::string stale_groups = "drop";
    std::int64_t generators = 1;
    std::string generator_host = "";
    std::int64_t generator_threads = 1;
    std::string generator_device = "cpu";
    std::int64_t generator_gpu = 0;
    std::string generator_precision = "float32";
    bool exact = false;
    std::string weights = "auto";
    double lease_s = 60;
    double heartbeat_s = 1;
    std::int64_t restarts = 5;
    double restart_window_s = 60;
  } actors;

  struct {
    std::string launch = "";
    std::string address = "";
  } cluster;

  struct {
    std::int64_t checkpoint_every_steps = 4;
    std::int64_t keep_checkpoints = 2;
    std::int64_t shard_mb = 5000;
  } storage;

  struct {
    bool evaluation_set = true;
    std::int64_t evaluation_set_train = 128;
    std::int64_t evaluation_set_held_out = 64;
    double evaluation_set_exemplars_share = 0.5;
    bool evaluation_set_exemplars_fastest = false;
    bool evaluation_set_swapped = false;
    std::int64_t evaluation_set_seed = 99;
    std::string prometheus = "";
    std::string log_level = "info";
  } observe;
};

/// Whether the run searches with a policy that never changes: no learner, no checkpoints; it ends
/// when run.budget_evaluations are spent (decide/search_book.hpp).
inline bool is_search(const run_config& config) {
  return config.stage == "search";
}

}  // namespace quern::actors
