// One sample of a run with all that belongs to it, for a person or a program.
#pragma once

#include <optional>
#include <string>

#include "actors/messages.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/blobs.hpp"
#include "storage/sample_reader.hpp"

namespace quern::actors {

/// What could not be read of blobs is an error in its place: the rest is shown.
struct sample_view {
  storage::sample_record record;
  base::expected<std::string> prompt;
  /// Tokens and the completion; nothing while it is not generated.
  std::optional<base::expected<generated_sample>> answer;
};

/// `sample_reader::sample`, but the error of a sample that is not there names those that are.
base::expected<storage::sample_record> find_sample(const storage::sample_reader& reader,
                                                   std::int64_t id);

/// Errors: those of `find_sample`.
base::expected<sample_view> view_sample(const storage::sample_reader& reader,
                                        const storage::blob_store& blobs, std::int64_t id);

/// Facts, prompt and completion. The last two are as they were written: whoever prints them to a
/// terminal makes them printable.
std::string view_text(const sample_view& sample);
/// docs/formats/show.md.
base::ordered_json view_json(const sample_view& sample);

}  // namespace quern::actors
