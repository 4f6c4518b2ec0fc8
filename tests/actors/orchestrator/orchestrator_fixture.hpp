// A small run for tests of its head: configuration, tasks, and a model that has a tokenizer alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/orchestrator/orchestrator.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

inline actors::run_config small_run() {
  actors::run_config config;
  config.tasks.count = 3;
  config.tasks.held_out_count = 0;
  config.algorithm.group_size = 4;
  config.algorithm.groups_per_step = 2;
  config.learner.steps = 5;
  config.storage.checkpoint_every_steps = 2;
  config.replay.without_exemplars_share = 0.5;
  config.replay.seed_variants = 2;
  return config;
}

/// The orchestrator reads a model's tokenizer, never its weights.
inline std::filesystem::path fake_model(const std::filesystem::path& root) {
  REQUIRE(base::make_folders(root / "model"));
  REQUIRE(base::write_file_atomic(root / "model/config.json", "{}"));
  std::filesystem::copy(source_dir() / "policy/demo/tokenizer.json", root / "model");
  return root / "model";
}

inline base::hash128 weights_of(actors::weights_version version) {
  return base::xxh128("weights " + std::to_string(version));
}

struct fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  actors::run_config config = small_run();
  std::optional<actors::task_book> tasks;
  fixture() {
    config.policy.model = fake_model(folder.path()).string();
    auto made = actors::task_book::make(config);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    tasks.emplace(std::move(*made));
  }
};

}  // namespace quern::test
