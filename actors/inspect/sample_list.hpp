// Samples of a run in a list, a line each or with what the model wrote, as text and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "actors/inspect/sample_choice.hpp"
#include "base/json.hpp"
#include "storage/blobs.hpp"

namespace quern::actors {

/// `texts`: where completions are read, which then stand below their lines; null: lines alone.
/// Samples in the order of issue stand in groups, each under a line of its own. On a terminal of
/// `width` cells (0: not known) that has room for two completions, those of a group stand side by
/// side below its lines. Completions are as the model wrote them: whoever prints them to a terminal
/// makes them printable.
std::string list_text(const chosen_samples& chosen, const storage::blob_store* texts,
                      std::size_t width = 0);

/// docs/formats/show.md.
base::ordered_json list_json(const chosen_samples& chosen, const storage::blob_store* texts);

/// What the model wrote in the last turn of a sample. Errors: not_found, there is none yet or its
/// blob is gone; those of blobs and of `decode_sample`.
base::expected<std::string> read_completion(const storage::sample_row& row,
                                            const storage::blob_store& texts);

/// The keys of a sample that a list and a single sample have in common.
base::ordered_json line_json(const storage::listed_sample& sample);

}  // namespace quern::actors
