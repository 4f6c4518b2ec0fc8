#include "actors/inspect/sample_view.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/inspect/sample_life.hpp"
#include "actors/inspect/sample_list.hpp"
#include "actors/inspect/sample_words.hpp"
#include "actors/orchestrator/sample_blob.hpp"

namespace quern::actors {
namespace {

/// The verdict that decided the sample, else the newest one since it was issued last.
std::optional<storage::stored_verdict> verdict_of(const storage::sample_record& record) {
  if (record.verdicts.empty()) return std::nullopt;
  for (const storage::stored_verdict& one : record.verdicts)
    if (one.id == record.row.verdict_id) return one;
  const storage::stored_verdict& last = record.verdicts.back();
  return last.row.incarnation >= record.row.incarnation ? std::optional(last) : std::nullopt;
}

storage::listed_sample line_of(const storage::sample_record& record) {
  return {record.row, record.group.seq, record.group.task, verdict_of(record)};
}

std::string fact(std::string_view name, std::string_view text) {
  return fmt::format("{:<10} {}\n", name, text);
}

std::string exemplars_text(const storage::sample_record& record) {
  if (record.group.exemplars.empty()) return "none: its prompt showed no kernel";
  std::vector<std::string> parts;
  for (const storage::variant& one : record.exemplars)
    parts.push_back(
        fmt::format("variant {} ({}, {})", one.id,
                    one.speedup_e2 ? speedup_text(*one.speedup_e2) : "no speed-up",
                    one.sample == 0 ? "brought along" : fmt::format("by sample {}", one.sample)));
  const std::size_t lost = record.group.exemplars.size() - record.exemplars.size();
  if (lost > 0) parts.push_back(fmt::format("{} that the archive does not know", lost));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string reward_text(const storage::sample_record& record) {
  if (!record.row.reward) return "none";
  double sum = 0;
  std::int64_t rewarded = 0;
  for (const storage::sample_row& one : record.group.samples) {
    sum += one.reward.value_or(0);
    rewarded += one.reward ? 1 : 0;
  }
  return fmt::format("{:.4f}; the mean of its group is {:.4f} ({})", *record.row.reward,
                     sum / static_cast<double>(rewarded), counted(rewarded, "sample"));
}

/// Tokens of each origin, in the order of `token_origin`.
std::array<std::int64_t, 3> tokens_by_origin(const generated_sample& answer) {
  std::array<std::int64_t, 3> tokens{};
  for (const token_segment& part : answer.segments)
    tokens.at(static_cast<std::size_t>(part.origin)) += part.length;
  return tokens;
}

std::string tokens_text(const generated_sample& answer) {
  const auto tokens = tokens_by_origin(answer);
  return fmt::format("{} of the prompt, {} of the model{}{}", tokens[0], tokens[1],
                     tokens[2] == 0 ? "" : fmt::format(", {} put in between turns", tokens[2]),
                     answer.truncated ? "; CUT OFF: it did not end by itself" : "");
}

std::string version_stretches(const storage::sample_row& row) {
  if (row.segments.empty()) return "none yet";
  std::vector<std::string> parts;
  for (const storage::segment& part : row.segments)
    parts.push_back(row.segments.size() == 1
                        ? fmt::format("{} for all tokens", part.version)
                        : fmt::format("{} from token {} on", part.version, part.first_token));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Of a kernel that is in the archive.
std::string kernel_text(const storage::sample_record& record) {
  const storage::variant& kernel = *record.kernel;
  if (kernel.sample == record.row.id) return fmt::format("variant {}", kernel.id);
  return fmt::format(
      "variant {}, which {} first", kernel.id,
      kernel.sample == 0 ? "was brought along" : fmt::format("sample {} wrote", kernel.sample));
}

std::string section(std::string_view name, const base::expected<std::string>& text) {
  if (!text) return fmt::format("\n--- {}: {} ---\n", name, text.error().message);
  return fmt::format("\n--- {} ---\n{}{}", name, *text, text->ends_with('\n') ? "" : "\n");
}

base::ordered_json exemplars_json(const storage::sample_record& record) {
  base::ordered_json shown = base::ordered_json::array();
  for (const std::int64_t id : record.group.exemplars) {
    base::ordered_json told = {{"variant", id}};
    const auto known = std::find_if(record.exemplars.begin(), record.exemplars.end(),
                                    [&](const storage::variant& one) { return one.id == id; });
    if (known != record.exemplars.end()) {
      told["sample"] = known->sample;
      if (known->speedup_e2) told["speedup_e2"] = *known->speedup_e2;
    }
    shown.push_back(std::move(told));
  }
  return shown;
}

base::ordered_json tokens_json(const sample_view& sample) {
  base::ordered_json told = base::ordered_json::object();
  if (sample.answer && *sample.answer) {
    const auto tokens = tokens_by_origin(**sample.answer);
    told = {{"prompt", tokens[0]},
            {"policy", tokens[1]},
            {"environment", tokens[2]},
            {"truncated", (*sample.answer)->truncated}};
  }
  base::ordered_json versions = base::ordered_json::array();
  for (const storage::segment& part : sample.record.row.segments)
    versions.push_back({{"first_token", part.first_token}, {"version", part.version}});
  told["versions"] = std::move(versions);
  return told;
}

}  // namespace

base::expected<storage::sample_record> find_sample(const storage::sample_reader& reader,
                                                   std::int64_t id) {
  auto record = reader.sample(id);
  if (record || record.error().code != base::errc::not_found) return record;
  QUERN_TRY(const std::int64_t last, reader.last_sample());
  if (last == 0)
    return base::fail(base::errc::not_found, "no sample {}: this run has issued none yet", id);
  return base::fail(base::errc::not_found, "no sample {}: this run has issued the samples 1 .. {}",
                    id, last);
}

base::expected<sample_view> view_sample(const storage::sample_reader& reader,
                                        const storage::blob_store& blobs, std::int64_t id) {
  QUERN_TRY(auto record, find_sample(reader, id));
  sample_view made{std::move(record), {}, std::nullopt};
  made.prompt = blobs.get(made.record.group.prompt_hash);
  if (made.record.row.tokens_hash) {
    const auto blob = blobs.get(*made.record.row.tokens_hash);
    made.answer = blob ? decode_sample(*blob)
                       : base::expected<generated_sample>(tl::make_unexpected(blob.error()));
  }
  return made;
}

std::string view_text(const sample_view& sample) {
  const storage::sample_record& record = sample.record;
  const auto verdict = verdict_of(record);
  std::string text = fmt::format("sample {}: member {} of {} of group {}, task {}\n\n",
                                 record.row.id, record.row.k + 1, record.group.samples.size(),
                                 record.group.id, record.group.task);
  text += fact("became", words_for_state(record.row));
  text += fact("verdict", verdict ? long_verdict(*verdict) : "none yet");
  text += fact("reward", reward_text(record));
  text += fact("versions", version_stretches(record.row));
  if (sample.answer && *sample.answer) text += fact("tokens", tokens_text(**sample.answer));
  text += fact("exemplars", exemplars_text(record));
  if (record.kernel) text += fact("kernel", kernel_text(record));
  text += section("prompt", sample.prompt);
  if (!sample.answer) return text + "\nno completion yet\n";
  const auto completion = sample.answer->map([](const generated_sample& one) { return one.text; });
  return text + section("completion", completion);
}

base::ordered_json view_json(const sample_view& sample) {
  const storage::sample_record& record = sample.record;
  base::ordered_json told = {{"quern_show", 2}};
  const storage::listed_sample line = line_of(record);
  told.update(line_json(line));
  told["group_size"] = record.group.samples.size();
  told["exemplars"] = exemplars_json(record);
  told["tokens"] = tokens_json(sample);
  if (record.kernel)
    told["kernel"] = {{"variant", record.kernel->id}, {"sample", record.kernel->sample}};
  if (line.verdict) {
    const auto whole = base::parse_json(line.verdict->row.json);
    if (whole) told["verdict_whole"] = *whole;
  }
  if (sample.prompt)
    told["prompt"] = *sample.prompt;
  else
    told["prompt_lost"] = sample.prompt.error().message;
  if (sample.answer && *sample.answer) told["text"] = (*sample.answer)->text;
  if (sample.answer && !*sample.answer) told["text_lost"] = sample.answer->error().message;
  told["life"] = to_json(life_of(record));
  return told;
}

}  // namespace quern::actors
