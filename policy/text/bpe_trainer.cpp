// BPE training: count the words, then merge the most frequent pair again and again, touching only
// the words in which it occurs.
#include "policy/text/bpe_trainer.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

#include "base/json.hpp"
#include "policy/text/byte_level.hpp"

namespace quern::policy {

using base::errc;
using base::expected;
using base::fail;
using base::ordered_json;

namespace {

using token_pair = std::pair<std::int32_t, std::int32_t>;

struct pair_hash {
  std::size_t operator()(const token_pair& p) const {
    const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.first)) << 32U |
                     static_cast<std::uint32_t>(p.second);
    return std::hash<std::uint64_t>{}(key * 0x9e3779b97f4a7c15ULL);
  }
};

struct counted_word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

struct merge_candidate {
  std::int64_t count = 0;
  token_pair tokens;
  bool operator<(const merge_candidate& other) const {
    return count != other.count ? count < other.count : tokens > other.tokens;
  }
};

class trainer {
 public:
  trainer(std::span<const std::string_view> texts, const bpe_training& options)
      : options_(options) {
    for (int byte = 0; byte < 256; ++byte)
      add_token(std::string(1, static_cast<char>(byte)));
    std::map<std::string_view, std::int64_t> counts;
    for (const std::string_view text : texts)
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = next_piece(options.pattern, text, at);
        ++counts[text.substr(at, size)];
        at += size;
      }
    for (const auto& [text, count] : counts) {
      counted_word w{{}, count};
      for (const char byte : text)
        w.tokens.push_back(static_cast<std::uint8_t>(byte));
      words_.push_back(std::move(w));
    }
  }

  void run() {
    const auto target =
        static_cast<std::size_t>(options_.vocab_size) - options_.special_tokens.size();
    for (std::size_t i = 0; i < words_.size(); ++i)
      change_counts(i, 1);
    for (const auto& [tokens, count] : counts_)
      queue_.push({count, tokens});
    touched_.clear();
    while (bytes_.size() < target && !queue_.empty()) {
      const merge_candidate best = queue_.top();
      queue_.pop();
      const auto now = counts_.find(best.tokens);
      if (now == counts_.end() || now->second != best.count) continue;  // stale
      if (best.count < options_.min_count) break;
      merge_everywhere(best.tokens);
    }
  }

  const std::vector<std::string>& bytes() const { return bytes_; }
  const std::vector<token_pair>& merges() const { return merges_; }

 private:
  std::int32_t add_token(std::string bytes) {
    const auto id = static_cast<std::int32_t>(bytes_.size());
    const auto [at, fresh] = ids_.emplace(bytes, id);
    if (fresh) bytes_.push_back(std::move(bytes));
    return at->second;
  }

  const std::string& bytes_of(std::int32_t token) const {
    return bytes_[static_cast<std::size_t>(token)];
  }

  bool allowed(const token_pair& p) const {
    return bytes_of(p.first).size() + bytes_of(p.second).size() <=
           static_cast<std::size_t>(options_.max_token_bytes);
  }

  /// Adds (sign 1) or takes away (-1) the pairs of one word.
  void change_counts(std::size_t index, std::int64_t sign) {
    const counted_word& w = words_[index];
    for (std::size_t i = 0; i + 1 < w.tokens.size(); ++i) {
      const token_pair p{w.tokens[i], w.tokens[i + 1]};
      if (!allowed(p)) continue;
      counts_[p] += sign * w.count;
      if (sign > 0) words_of_[p].insert(index);
      touched_.insert(p);
    }
  }

  void merge_everywhere(const token_pair& p) {
    const std::int32_t made = add_token(bytes_of(p.first) + bytes_of(p.second));
    // A pair can come back when its parts arise in another way; its rank stays that of the first
    // time.
    if (merged_.insert(p).second) merges_.push_back(p);
    const auto places = std::move(words_of_[p]);
    touched_.clear();
    for (const std::size_t index : places) {
      change_counts(index, -1);
      merge_in(words_[index].tokens, p, made);
      change_counts(index, 1);
    }
    counts_.erase(p);
    words_of_.erase(p);
    for (const token_pair& changed : touched_) {
      const auto now = counts_.find(changed);
      if (now != counts_.end() && now->second > 0) queue_.push({now->second, changed});
    }
  }

  static void merge_in(std::vector<std::int32_t>& tokens, const token_pair& p, std::int32_t made) {
    std::size_t to = 0;
    for (std::size_t from = 0; from < tokens.size(); ++from) {
      const bool here =
          from + 1 < tokens.size() && tokens[from] == p.first && tokens[from + 1] == p.second;
      tokens[to++] = here ? made : tokens[from];
      if (here) ++from;
    }
    tokens.resize(to);
  }

  const bpe_training& options_;
  std::vector<counted_word> words_;
  std::vector<std::string> bytes_;  // by id
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<token_pair> merges_;
  std::set<token_pair> merged_;
  std::unordered_map<token_pair, std::int64_t, pair_hash> counts_;
  std::unordered_map<token_pair, std::set<std::size_t>, pair_hash> words_of_;
  std::set<token_pair> touched_;
  std::priority_queue<merge_candidate> queue_;
};

base::status check(const bpe_training& options) {
  const auto needed = static_cast<std::int64_t>(256 + options.special_tokens.size());
  if (options.vocab_size < needed || options.vocab_size > 1 << 20)
    return fail(errc::invalid_argument, "a vocabulary of {} entries; {} to {} are possible",
                options.vocab_size, needed, 1 << 20);
  if (options.max_token_bytes < 1 || options.min_count < 1)
    return fail(errc::invalid_argument, "max_token_bytes {} and min_count {} must be positive",
                options.max_token_bytes, options.min_count);
  std::set<std::string_view> seen;
  for (const auto& token : options.special_tokens)
    if (token.size() < 2 || !seen.insert(token).second)
      return fail(errc::invalid_argument, "special token '{}' is too short or there twice", token);
  if (options.begin_token && !seen.contains(*options.begin_token))
    return fail(errc::invalid_argument, "the begin token '{}' is not among the special tokens",
                *options.begin_token);
  return {};
}

ordered_json byte_level_json() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

ordered_json begin_json(const std::string& token, std::size_t id) {
  ordered_json begin{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  const auto text = [](const char* name) {
    return ordered_json{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  ordered_json known = ordered_json::object();
  known[token] = {
      {"id", token}, {"ids", ordered_json::array({id})}, {"tokens", ordered_json::array({token})}};
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({begin, text("A")})},
          {"pair", ordered_json::array({begin, text("A"), text("B")})},
          {"special_tokens", known}};
}

std::string to_json_text(const trainer& trained, const bpe_training& options) {
  ordered_json vocabulary = ordered_json::object();
  for (std::size_t id = 0; id < trained.bytes().size(); ++id)
    vocabulary[spell_bytes(trained.bytes()[id])] = id;
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : trained.merges())
    merges.push_back({spell_bytes(trained.bytes()[static_cast<std::size_t>(left)]),
                      spell_bytes(trained.bytes()[static_cast<std::size_t>(right)])});
  ordered_json added = ordered_json::array();
  ordered_json post_processor = byte_level_json();
  for (std::size_t i = 0; i < options.special_tokens.size(); ++i) {
    const std::size_t id = trained.bytes().size() + i;
    const std::string& token = options.special_tokens[i];
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    if (options.begin_token == token) post_processor = begin_json(token, id);
  }
  const ordered_json split{{"type", "Split"},
                           {"pattern", {{"Regex", pattern_text(options.pattern)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const ordered_json root{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level_json()})}}},
      {"post_processor", post_processor},
      {"decoder", byte_level_json()},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", merges}}}};
  return base::dump(root) + "\n";
}

}  // namespace

expected<std::string> train_bpe(std::span<const std::string_view> texts,
                                const bpe_training& options) {
  QUERN_CHECK(check(options));
  trainer work(texts, options);
  work.run();
  return to_json_text(work, options);
}

}  // namespace quern::policy
