// The corpus of fine-tuning: its records, the vocabulary that is trained on them, and their order.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "actors/workers/sft_worker.hpp"
#include "base/random.hpp"
#include "policy/text/bpe_trainer.hpp"
#include "storage/jsonl.hpp"

namespace quern::actors {
namespace {

/// Records that the vocabulary is trained on: more of them change nothing but the time it takes.
constexpr std::size_t vocabulary_records = 3000;

}  // namespace

base::expected<std::vector<corpus_text>> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<corpus_text> records;
  for (const std::filesystem::path& file : files) {
    const auto take = [&](const base::json& line) -> base::status {
      if (!line.contains("prompt")) return {};
      QUERN_TRY(std::string prompt, base::get<std::string>(line, "prompt"));
      QUERN_TRY(std::string completion, base::get<std::string>(line, "completion"));
      records.push_back({std::move(prompt), std::move(completion)});
      return {};
    };
    if (auto read = storage::read_jsonl(file, take); !read) {
      return base::in_context(file.string(), std::move(read).error());
    }
  }
  if (records.empty()) {
    return base::fail(base::errc::not_found,
                      "no record of a corpus in {}: make it with quern train (stage sft)",
                      folder.string());
  }
  return records;
}

base::expected<std::string> make_vocabulary(const run_config& config,
                                            const std::vector<corpus_text>& records) {
  std::vector<std::string_view> texts;
  const std::size_t stride = std::max<std::size_t>(1, records.size() / vocabulary_records);
  for (std::size_t i = 0; i < records.size(); i += stride) {
    texts.push_back(records[i].prompt);
    texts.push_back(records[i].completion);
  }
  policy::bpe_training options;
  options.vocab_size = config.policy.vocabulary;
  options.special_tokens = {end_of_text};
  return policy::train_bpe(texts, options);
}

std::vector<std::size_t> batch_of_step(std::uint64_t seed, std::int64_t step, std::int64_t batch,
                                       std::size_t records) {
  std::vector<std::size_t> chosen;
  std::vector<std::size_t> order(records);
  std::int64_t shuffled_pass = -1;
  for (std::int64_t k = step * batch; k < (step + 1) * batch; ++k) {
    const std::int64_t pass = k / static_cast<std::int64_t>(records);
    if (pass != shuffled_pass) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      base::random_stream random(seed, "corpus pass", {static_cast<std::uint64_t>(pass)});
      for (std::size_t i = records; i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
      shuffled_pass = pass;
    }
    chosen.push_back(order[static_cast<std::size_t>(k) % records]);
  }
  return chosen;
}

}  // namespace quern::actors
