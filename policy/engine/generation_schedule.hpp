// What a generator with a paged KV store does next: who gets a slot, which stretches of prompts are
// computed, who decodes, who gives its pages back. Decides only, in numbers of tokens; whoever
// computes tells it what has ended. Not thread-safe.
//
// A sequence is its tokens, prompt or sampled alike: whoever has lost its pages computes them again
// from its tokens, like a longer prompt. Groups are admitted in order of submission; the oldest
// sequence never loses its pages to a younger one, so something always gets done.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/engine/page_book.hpp"

namespace quern::policy {

struct schedule_limits {
  std::int32_t slots = 32;          ///< sequences in the store at once
  std::int32_t pages = 0;           ///< of the store: at least those of one full sequence
  std::int32_t page_size = 64;      ///< positions
  std::int32_t prompt_rows = 4096;  ///< prompt tokens computed in one step
  /// Above 0: prompt tokens and decoding sequences together are at most so many rows of one pass,
  /// and sequences are served in turn. 0: everybody decodes in every step.
  std::int32_t shared_rows = 0;
};

/// A sequence as it is handed in: `tokens` so far, `most` at which it is full.
struct scheduled_sequence {
  std::uint64_t serial = 0;
  std::int64_t tokens = 0, most = 0;
};

/// Positions [begin, end) of a sequence are to be computed; if `last`, a token is sampled from the
/// last of them, for this sequence and for all `members` (which share its pages from then on).
struct prompt_chunk {
  std::uint64_t serial = 0;
  std::int32_t slot = 0;
  std::int64_t begin = 0, end = 0;
  bool last = false;
  struct member {
    std::uint64_t serial = 0;
    std::int32_t slot = 0;
  };
  std::vector<member> members;
};

/// A sequence's newest token, at `position`, is fed and the next one sampled.
struct decode_row {
  std::uint64_t serial = 0;
  std::int32_t slot = 0;
  std::int64_t position = 0;
};

/// Copies come after the chunks and before the rows that decode; rows of this step are not those of
/// chunks of this step.
struct schedule_step {
  std::vector<prompt_chunk> chunks;
  std::vector<page_copy> copies;
  std::vector<decode_row> rows;
  std::vector<std::uint64_t> preempted;
  bool empty() const { return chunks.empty() && rows.empty(); }
};

class generation_schedule {
 public:
  explicit generation_schedule(const schedule_limits& limits);

  /// Queues a group: sequences of equal tokens, at most `slots` of them, each below its `most`.
  void add(std::span<const scheduled_sequence> group);
  /// The next step. Tokens that it samples count as the sequence's at once, though they are not
  /// known yet: who is full stays, with its pages, until it is finished.
  schedule_step next();
  /// Ended, cancelled or known to be full. A member that waited for this one's prompt goes on with
  /// what is computed of it. False: no such sequence.
  bool finish(std::uint64_t serial);

  /// Everybody gives its pages back and computes its tokens again, all of which are known.
  void restart();

  const page_book& book() const { return book_; }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  /// Sequences that have a slot.
  std::size_t running() const { return running_.size(); }
  std::int64_t preemptions() const { return preemptions_; }

 private:
  struct entry {
    scheduled_sequence sequence;
    std::int64_t computed = 0;  ///< positions in the store
    std::int32_t slot = -1;
    std::uint64_t group = 0;
    bool waits = false;          ///< for its group's prompt
    std::uint64_t admitted = 0;  ///< order of admission
    bool held = false;           ///< has a chunk in the step that is being planned: keeps its pages
    bool full() const { return sequence.tokens >= sequence.most; }
    bool decodes() const { return !waits && computed + 1 == sequence.tokens && fed; }
    bool fed = false;  ///< its prompt is complete: it decodes
  };
  using entries = std::list<entry>;

  void admit();
  void plan_rows(schedule_step& step, std::int32_t& room);
  void plan_chunks(schedule_step& step, std::int32_t& room);
  void plan_in_turn(schedule_step& step);
  bool plan_row(entries::iterator who, schedule_step& step);
  void plan_chunk(entries::iterator who, std::int32_t& room, schedule_step& step);
  void fan_out(entries::iterator leader, prompt_chunk& chunk, schedule_step& step);
  bool make_room(entries::iterator who, schedule_step& step);
  void preempt(entries::iterator who, schedule_step& step);
  void give_back(entry& e);
  entries::iterator find_running(std::uint64_t serial);
  void leave(entries::iterator who);
  entries::iterator heir_of(const entry& leader);

  schedule_limits limits_;
  page_book book_;
  std::vector<std::int32_t> free_slots_;
  entries running_;
  std::unordered_map<std::uint64_t, entries::iterator> running_by_serial_;
  std::deque<std::vector<entry>> waiting_;
  std::uint64_t next_group_ = 0, admissions_ = 0;
  std::int64_t preemptions_ = 0;
};

}  // namespace quern::policy
