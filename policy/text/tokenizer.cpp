// Encoding and decoding with loaded tables.
#include "policy/text/tokenizer.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "policy/text/normalise.hpp"
#include "policy/text/tokenizer_tables.hpp"

namespace quern::policy {

namespace {

constexpr std::size_t max_tokenizer_bytes = 256U << 20U;

/// Recently split words and their tokens. One a thread, so that no lock is needed; emptied when
/// full or when the thread turns to another tokenizer.
class word_cache {
 public:
  const std::vector<token_id>* find(std::uint64_t owner, std::string_view word) {
    if (owner != owner_) {
      words_.clear();
      owner_ = owner;
    }
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }
  void insert(std::string_view word, const std::vector<token_id>& tokens) {
    if (word.size() > max_word) return;
    if (words_.size() >= max_words) words_.clear();
    words_.emplace(word, tokens);
  }

 private:
  static constexpr std::size_t max_words = 10'000;
  static constexpr std::size_t max_word = 64;
  std::uint64_t owner_ = 0;
  std::unordered_map<std::string, std::vector<token_id>, text_hash, std::equal_to<>> words_;
};

thread_local word_cache cache;

void append(std::vector<token_id>& out, const std::vector<token_id>& tokens) {
  out.insert(out.end(), tokens.begin(), tokens.end());
}

void encode_word(const tokenizer_tables& tables, std::string_view word,
                 std::vector<token_id>& out) {
  if (const auto* known = cache.find(tables.instance, word)) return append(out, *known);
  std::vector<token_id> tokens;
  const auto whole = tables.ignore_merges ? tables.base_ids.find(word) : tables.base_ids.end();
  if (whole != tables.base_ids.end()) {
    tokens.push_back(whole->second);
  } else {
    tokens.reserve(word.size());
    for (const char byte : word)
      tokens.push_back(tables.byte_ids[static_cast<std::uint8_t>(byte)]);
    tables.merges.apply(tokens);
  }
  cache.insert(word, tokens);
  append(out, tokens);
}

void encode_plain(const tokenizer_tables& tables, std::string_view text,
                  std::vector<token_id>& out) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = next_piece(tables.pattern, text, at);
    encode_word(tables, text.substr(at, size), out);
    at += size;
  }
}

/// Cuts the added tokens out and hands what lies between them to `rest`. A special token that is
/// not allowed still ends the search at its end, as in `tokenizers`: nothing is found inside it.
template <class Rest>
void split_added(const added_token_set& set, std::string_view text, bool allow_special,
                 std::vector<token_id>& out, Rest rest) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size() && !set.empty();) {
    const added_token* found = set.match(text, at);
    if (found == nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = at + found->content.size();
    if (!found->special || allow_special) {
      if (at > begin) rest(text.substr(begin, at - begin));
      out.push_back(found->id);
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) rest(text.substr(begin));
}

}  // namespace

base::expected<tokenizer> tokenizer::parse(std::string_view json_text) {
  QUERN_TRY(auto tables, parse_tokenizer_tables(json_text));
  return tokenizer(std::make_shared<const tokenizer_tables>(std::move(tables)));
}

base::expected<tokenizer> tokenizer::load(const std::filesystem::path& dir) {
  const auto file = dir / "tokenizer.json";
  QUERN_TRY(const auto text, base::read_file(file, max_tokenizer_bytes));
  auto result = parse(text);
  if (!result) return base::in_context(file.string(), result.error());
  return result;
}

std::vector<token_id> tokenizer::encode(std::string_view text,
                                        const encode_options& options) const {
  const tokenizer_tables& tables = *tables_;
  std::vector<token_id> out;
  out.reserve(text.size() / 3 + 4);
  if (options.add_special) append(out, tables.prefix);
  split_added(tables.added_raw, text, options.allow_special, out, [&](std::string_view raw) {
    const std::string normalised = tables.nfc ? normalise_nfc(raw) : std::string(raw);
    split_added(tables.added_normalised, normalised, options.allow_special, out,
                [&](std::string_view plain) { encode_plain(tables, plain, out); });
  });
  if (options.add_special) append(out, tables.suffix);
  return out;
}

std::string tokenizer::decode(std::span<const token_id> ids, bool skip_special) const {
  std::string out;
  for (const token_id id : ids)
    if (!skip_special || !is_special(id)) out.append(token_bytes(id));
  return out;
}

std::string_view tokenizer::token_bytes(token_id id) const {
  const auto index = static_cast<std::size_t>(id);
  if (id < 0 || index >= tables_->bytes.size()) return {};
  return tables_->bytes[index];
}

token_id tokenizer::vocab_size() const {
  return static_cast<token_id>(tables_->bytes.size());
}

std::optional<token_id> tokenizer::find(std::string_view content) const {
  for (const auto* ids : {&tables_->added_ids, &tables_->base_ids}) {
    const auto found = ids->find(content);
    if (found != ids->end()) return found->second;
  }
  return std::nullopt;
}

bool tokenizer::is_special(token_id id) const {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < tables_->special.size() && tables_->special[index];
}

void added_token_set::insert(added_token token) {
  auto& bucket = by_first_byte_[static_cast<std::uint8_t>(token.content.front())];
  const auto at = std::find_if(bucket.begin(), bucket.end(), [&](const added_token& other) {
    return other.content.size() < token.content.size();
  });
  bucket.insert(at, std::move(token));
  ++count_;
}

const added_token* added_token_set::match(std::string_view text, std::size_t at) const {
  const std::string_view rest = text.substr(at);
  for (const auto& token : by_first_byte_[static_cast<std::uint8_t>(rest.front())])
    if (rest.starts_with(token.content)) return &token;
  return nullptr;
}

}  // namespace quern::policy
