// Batched sampling with a KV cache. Random numbers are addressed by (seed, request id, token
// index).
//
// On the host every forward pass works on exactly `rows` rows (padding included), each row one
// token of one sequence at one position, prompt or completion alike; so a sequence's tokens and
// log-probs do not depend on what else is in the batch, as long as operators have one thread
// (set_threads): several share out the rows, and on some CPUs the last row of a share differs in
// its last bit from the same row elsewhere. On a GPU the cache is in pages, prompts are
// computed in chunks, decoding runs in CUDA graphs with the sampling in them, and results are read
// a step late; there the batch decides bits unless `exact` is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/parallel.hpp"

namespace quern::policy {

struct generation_request {
  std::uint64_t id =
      0;  ///< unique among requests in flight; part of the address of the random numbers
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int32_t max_tokens = 256;
  double temperature = 1;  ///< above 0; ignored when greedy
  std::uint64_t seed = 0;
  std::vector<std::int32_t> stop_ids;  ///< besides the model's end tokens; any of them ends the
                                       ///< completion and belongs to it
  bool greedy = false;                 ///< highest logit, lowest id among equals
  bool ignore_eos =
      false;  ///< the model's end tokens do not end the completion (stop_ids still do)
  /// Not empty: the completion, whose log-probs are asked for. Nothing is drawn, and nothing but
  /// its length ends it: max_tokens, stop_ids and ignore_eos are not looked at.
  std::vector<std::int32_t> given;
};

/// `length`: max_tokens, or the model's positions or the cache's capacity ran out. A truncated
/// completion has no end token.
enum class finish_reason { stop, length, cancelled };
std::string_view to_string(finish_reason reason);

/// Tokens from `first` up to the next segment were sampled by this version.
struct version_segment {
  std::int32_t first = 0;
  std::int64_t version = 0;
  base::hash128 weights;
  bool operator==(const version_segment&) const = default;
};

struct generation_result {
  std::uint64_t id = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float>
      log_probs;  ///< at the sampling temperature (greedy: 1): what importance ratios are made of
  std::vector<float> raw_log_probs;  ///< at temperature 1
  std::vector<version_segment> segments;
  finish_reason reason = finish_reason::stop;
};

/// `paged`: pages, graphs and sampling on the device (on the CPU: with scalar kernels, for tests).
/// `slots`: everything in one cache, on whatever LibTorch runs. `automatic`: paged on a GPU for
/// which there are kernels.
enum class generation_method { automatic, slots, paged };

struct generator_options {
  /// Of every forward pass: fixed; with the number of threads it decides bits. Paged: only if
  /// exact.
  std::int32_t rows = 16;
  std::int32_t slots = 32;    ///< sequences in the cache at once; more wait in order of submission
  std::int32_t capacity = 0;  ///< positions of one slot; 0: the model's max_positions
  std::int64_t valid_tokens = 0;  ///< ids from here on are padding and never sampled; 0: none

  /// Where to generate; unset: where the initial weights are.
  std::optional<at::Device> device;
  generation_method method = generation_method::automatic;
  // The rest is for the paged method.
  /// A sequence's bits do not depend on what else is in the batch (slots: always so): every pass
  /// has `rows` rows of single tokens, prompts too. New weights compute what is in the cache again
  /// (both methods), so that every log-prob is what its version gives from the first token on.
  bool exact = false;
  bool full_precision = false;   ///< float32; otherwise bfloat16 on a GPU
  std::int64_t cache_bytes = 0;  ///< of all pages; 0: for all slots, at most 80 % of what is free
  /// Of the device's memory, for others that may not have taken theirs yet: not counted as free.
  std::int64_t leave_bytes = 0;
  std::int32_t page = 64;  ///< positions of a page
  bool graphs = true;      ///< false: passes go kernel by kernel, as where none can be captured
  std::int32_t prompt_rows = 4096;  ///< prompt tokens of a pass
};

struct generator_counters {
  std::int64_t forward_passes = 0, prompt_rows = 0, sampled_tokens = 0, padded_rows = 0;
  std::int64_t preemptions = 0;  ///< sequences that gave their pages back to be computed again
  std::int64_t graphs = 0;       ///< captured
  /// Over all steps with something to do: pages of the KV cache (where it has none, slots) that
  /// sequences held, and how many there are.
  std::int64_t cache_held = 0, cache_room = 0;
};

class generation_engine;

/// One thread. Weights: two arenas; `announce` names what is coming, the caller writes `staging()`
/// (an arena like the initial one, on its device), `commit` checks the hash and flips; a paged
/// generator copies instead, rounding where it generates in bfloat16, since its graphs hold
/// addresses: milliseconds, between two steps. Running sequences go on with their cache and their
/// next token carries the new version.
class generator {
 public:
  /// Copies the arena's weights as `version`.
  static base::expected<generator> make(const parameter_arena& initial, std::int64_t version,
                                        const generator_options& options = {},
                                        const parallel_context& context = {});
  /// The same, of an arena that nobody needs any more: the next weights land in it, so that there
  /// are two copies in all and not three.
  static base::expected<generator> make(parameter_arena&& initial, std::int64_t version,
                                        const generator_options& options = {},
                                        const parallel_context& context = {});
  /// With an engine from elsewhere, which has these weights: what a server of another make is
  /// adapted by. Weights arrive as with the own engines, and `install` takes them to it.
  static base::expected<generator> make(const parameter_arena& initial, std::int64_t version,
                                        const generator_options& options,
                                        std::unique_ptr<generation_engine> engine);
  generator(generator&&) noexcept;
  generator& operator=(generator&&) noexcept;
  ~generator();

  /// Queues requests. Neighbours with equal prompts are a group: its prompt is computed once.
  /// Refused as a whole: a bad value, an id in flight, a prompt that leaves no room for one token.
  base::status submit(std::span<const generation_request> requests);
  /// The request ends with what it has (reason cancelled) at the next step; not_found if it is not
  /// in flight.
  base::status cancel(std::uint64_t id);
  /// One forward pass (paged: one of prompts and one of decoding). Returns the sequences of which
  /// it is known now that they have ended; empty when idle. Throws where the device fails.
  std::vector<generation_result> step();
  /// Steps until nothing is in flight.
  std::vector<generation_result> run();
  bool idle() const;
  std::size_t in_flight() const;

  /// Refuses a version that is not above the current one, unless the run went back to a checkpoint
  /// (`rollback`). A second announce replaces the first.
  base::status announce(std::int64_t version, const base::hash128& hash, bool rollback = false);
  /// Where weights may be written ahead of their announcement, by any thread, up to the next
  /// commit; after that it may be another arena.
  parameter_arena landing() const;
  /// Where the announced weights are to be written; conflict without an announcement.
  base::expected<parameter_arena> staging();
  /// Between two steps: checks the staged weights' hash, then flips. On a mismatch (corrupt) the
  /// old version stays and the announcement is void. `known`: their hash, where another thread has
  /// computed it, so that no step waits for that.
  base::status commit(std::optional<base::hash128> known = std::nullopt);
  void abort();

  std::int64_t version() const;
  const base::hash128& weights_hash() const;
  const generator_counters& counters() const;

 private:
  struct state;
  static base::expected<std::unique_ptr<state>> prepare(const parameter_arena& initial,
                                                        parameter_arena landing,
                                                        std::int64_t version,
                                                        const generator_options& options);
  explicit generator(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

/// What a generator's engine needs of a request beside the model: ids below `vocabulary`, prompts
/// shorter than `capacity`, given completions in it too.
base::status check_request(const generation_request& request, std::int64_t vocabulary,
                           std::int64_t capacity);

}  // namespace quern::policy
