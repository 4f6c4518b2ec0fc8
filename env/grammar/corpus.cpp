// From a plan to records: draw, judge, write down.
#include "env/grammar/corpus.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/random.hpp"
#include "env/grammar/comparison.hpp"

namespace quern::env {

namespace {

/// Draws that are tried until one is new in its task.
constexpr std::uint64_t most_draws = 16;
/// Variants that are timed for each that is wanted, until so many are ok.
constexpr std::int64_t draws_per_exemplar = 3;
/// Draws that are tried until one is wrong, as it is meant to be.
constexpr int most_wrong_draws = 3;
/// Comparisons that are drawn until one is new in its task. The same kernels in another order are
/// another one: what leads is to be found at each place.
constexpr int most_comparisons = 8;
/// As env.evaluators.
constexpr std::int64_t most_shards = 1024;

std::string source_hash_of(const verdict& judged, const kernel_variant& variant) {
  return judged.source.empty() ? base::to_hex(base::xxh128(variant.source)) : judged.source;
}

/// How comparisons of a task are chosen. 1: each has an answer of its own; 2: one answer may follow
/// from several, and a wrong kernel may be shown.
constexpr int comparisons_form = 2;

/// Where nothing is compared, or one kernel is shown, the share means nothing: such corpora are the
/// same.
double wrong_shown_of(const corpus_plan& plan) {
  return plan.comparing_share > 0 && plan.exemplars_shown > 1 ? plan.wrong_shown_share : 0;
}

/// What a person chooses of a plan, and what an earlier build would do otherwise.
base::json chosen_of(const corpus_plan& plan) {
  base::json chosen = {{"seed", plan.seed},
                       {"tasks", plan.tasks},
                       {"samples_per_task", plan.samples_per_task},
                       {"wrong_share", fmt::format("{}", plan.wrong_share)},
                       {"exemplar_task_share", fmt::format("{}", plan.exemplar_task_share)},
                       {"exemplars_shown", plan.exemplars_shown},
                       {"comparing_share", fmt::format("{}", plan.comparing_share)},
                       {"wrong_shown_share", fmt::format("{}", wrong_shown_of(plan))},
                       {"lane", plan.task.lane->name}};
  if (plan.comparing_share > 0) chosen["comparisons_form"] = comparisons_form;
  return chosen;
}

/// The first key of which two shards of one corpus say different things; empty: none.
std::string difference_of(const base::json& one, const base::json& other) {
  for (const base::json* header : {&one, &other})
    for (const auto& [key, value] : header->items()) {
      // GPUs of one host may be of several classes.
      if (key == "shard" || key == "device_class") continue;
      const base::json first = header_value(one, key), second = header_value(other, key);
      if (!first.is_null() && !second.is_null() && first != second) return key;
    }
  return {};
}

/// A file's header; null: it has none, or not a whole one yet. Counts its records.
base::expected<base::json> look_at_shard(const std::filesystem::path& file, std::int64_t& records) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return base::fail_errno("reading " + file.string());
  base::json header;
  bool first = true;
  // In a text quotes have a backslash before them, so that these are keys.
  for (std::string line; std::getline(in, line) && !in.eof(); first = false) {
    if (first && line.find("\"quern_corpus\":") != line.npos) {
      auto parsed = base::parse_json(line);
      if (!parsed) return base::in_context(file.string(), std::move(parsed).error());
      header = std::move(*parsed);
    } else if (line.find("\"prompt\":") != line.npos) {
      ++records;
    }
  }
  return header;
}

}  // namespace

base::status validate(const corpus_plan& plan) {
  const auto share = [](std::string_view name, double value) -> base::status {
    if (value >= 0 && value <= 1) return {};
    return base::fail(base::errc::invalid_argument, "{} is {}, it must be from 0 to 1", name,
                      value);
  };
  if (plan.task.lane == nullptr || plan.task.lane->grammar == nullptr)
    return base::fail(base::errc::invalid_argument,
                      "a corpus is made of generated tasks, and {} has no grammar of tasks",
                      plan.task.lane == nullptr ? "no lane" : plan.task.lane->name);
  QUERN_CHECK(share("wrong_share", plan.wrong_share));
  QUERN_CHECK(share("exemplar_task_share", plan.exemplar_task_share));
  QUERN_CHECK(share("comparing_share", plan.comparing_share));
  QUERN_CHECK(share("best_shown_share", plan.best_shown_share));
  QUERN_CHECK(share("wrong_shown_share", plan.wrong_shown_share));
  if (plan.exemplars_shown < 1)
    return base::fail(base::errc::invalid_argument, "exemplars_shown is {}, it must be at least 1",
                      plan.exemplars_shown);
  if (plan.tasks < 1)
    return base::fail(base::errc::invalid_argument, "tasks is {}, it must be at least 1",
                      plan.tasks);
  if (plan.samples_per_task < 1 || plan.samples_per_task > 1000)
    return base::fail(base::errc::invalid_argument,
                      "samples_per_task is {}, it must be from 1 to 1000", plan.samples_per_task);
  if (plan.shards < 1 || plan.shard < 0 || plan.shard >= plan.shards)
    return base::fail(base::errc::invalid_argument, "shard {} of {}: it must be from 0 to {}",
                      plan.shard, plan.shards, plan.shards - 1);
  if (plan.held_out.per_mille < 0 || plan.held_out.per_mille >= 1000)
    return base::fail(
        base::errc::invalid_argument,
        "held_out.per_mille is {}, it must be from 0 to 999: something has to be left",
        plan.held_out.per_mille);
  return validate(plan.limits);
}

base::json header_of(const corpus_plan& plan, const prompt_template& form) {
  base::json families = base::json::array();
  for (const auto& [name, weight] : plan.limits.families)
    families.push_back(fmt::format("{} {}", name, weight));
  base::json skeletons = base::json::array();
  for (const base::hash128& hash : plan.held_out.skeletons)
    skeletons.push_back(base::to_hex(hash));
  const draw_limits& limits = plan.limits;
  base::json header = chosen_of(plan);
  header.update({{"best_shown_share", fmt::format("{}", plan.best_shown_share)},
                 {"spare_scores", plan.spare_scores},
                 {"exemplar_protocol", plan.exemplar_protocol},
                 {"plain_us", fmt::format("{}", plain_us_of(plan.task))},
                 {"limits",
                  {limits.min_before, limits.max_before, limits.max_after, limits.min_steps,
                   limits.max_steps}},
                 {"least_plain_ns", fmt::format("{}", limits.least_plain_ns)},
                 {"families", families},
                 {"held_out_salt", plan.held_out.salt},
                 {"held_out_per_mille", plan.held_out.per_mille},
                 {"held_out_families", plan.held_out.families},
                 {"held_out_skeletons", skeletons},
                 {"template", base::to_hex(form.hash())},
                 {"shard", plan.shard},
                 {"shards", plan.shards}});
  return header;
}

std::string shard_file(int shard) {
  return fmt::format("corpus-{:03}.jsonl", shard);
}

base::expected<corpus_survey> survey_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  corpus_survey found;
  std::map<std::int64_t, std::string> shards;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.filename().string();
    const std::int64_t before = found.records;
    QUERN_TRY(const base::json header, look_at_shard(file, found.records));
    if (header.is_null()) {
      if (found.records > before) found.foreign = name;
      continue;
    }
    const std::int64_t shard = header.value("shard", std::int64_t{0});
    const std::int64_t count = header.value("shards", std::int64_t{1});
    if (count < 1 || shard < 0 || shard >= count || count > most_shards)
      return base::fail(base::errc::corrupt,
                        "{}: its header says shard {} of {}, it must be from 0 to below a count of "
                        "at most {}: remove it",
                        file.string(), shard, count, most_shards);
    if (found.shards == 0) {
      found.shards = static_cast<int>(count);
      found.header = header;
      found.first = name;
    } else if (const std::string key = difference_of(found.header, header); !key.empty()) {
      return base::fail(base::errc::conflict,
                        "{} was begun with {} = {}, {} beside it with {}: they are of different "
                        "corpora and may hold the same tasks; move the one that does not belong "
                        "here to another folder",
                        file.string(), key, base::dump(header_value(header, key)), found.first,
                        base::dump(header_value(found.header, key)));
    }
    if (const auto [same, is_new] = shards.emplace(shard, name); !is_new)
      return base::fail(base::errc::conflict,
                        "{} is shard {} of {}, as {} beside it is: its records would be learnt "
                        "twice; move one of the two to another folder",
                        file.string(), shard, count, same->second);
    if (name != shard_file(static_cast<int>(shard))) found.foreign = name;
  }
  return found;
}

base::status check_corpus(const corpus_survey& found, const std::filesystem::path& folder,
                          const corpus_plan& plan) {
  if (!found.foreign.empty())
    return base::fail(base::errc::conflict,
                      "{} is no file of a corpus that is made here (they are called {} and so on): "
                      "move it to another folder; with env.evaluators = 0 the files that are there "
                      "are taken as they are",
                      (folder / found.foreign).string(), shard_file(0));
  const base::json chosen = chosen_of(plan);
  for (const auto& [key, value] : chosen.items())
    if (const base::json begun = header_value(found.header, key);
        !begun.is_null() && begun != value)
      return base::fail(base::errc::conflict,
                        "{}: the corpus was begun with {} = {}, the run has {}: use the old "
                        "settings or another tasks.corpus_folder",
                        (folder / found.first).string(), key, base::dump(begun), base::dump(value));
  return {};
}

/// One task on its way.
struct corpus_maker::work {
  std::int64_t index = 0;
  composition_probe probe;
  variant_supply supply;
  std::shared_ptr<const task> subject;
  std::string id;
  corpus_counts counts;
  std::vector<corpus_record> records;
  std::unordered_set<std::string> taken;                   ///< sources that are in records
  std::unordered_map<std::string, std::string> exemplars;  ///< source to its hash
  /// Of comparing records: sources of what is shown, in order, then that of the answer.
  std::set<std::vector<std::string>> compared;

  work(std::int64_t k, composition_probe tried, task made)
      : index(k),
        probe(std::move(tried)),
        supply(probe, *made.lane->grammar()),
        subject(std::make_shared<task>(std::move(made))),
        id(task_id(*subject)) {}
};

corpus_maker::corpus_maker(corpus_plan plan, const prompt_template& form, prompt_facts facts,
                           corpus_file file, corpus_judge& judge)
    : plan_(std::move(plan)),
      form_(&form),
      facts_(std::move(facts)),
      file_(std::move(file)),
      judge_(&judge),
      next_(file_.counts().next_task) {}

base::expected<corpus_maker> corpus_maker::open(corpus_plan plan, const prompt_template& form,
                                                prompt_facts facts,
                                                const std::filesystem::path& file,
                                                corpus_judge& judge) {
  QUERN_CHECK(validate(plan));
  base::json header = header_of(plan, form);
  header["device_class"] = facts.device_class;
  QUERN_TRY(auto opened, corpus_file::open(file, header));
  return corpus_maker(std::move(plan), form, std::move(facts), std::move(opened), judge);
}

base::expected<std::vector<scored_variant>> corpus_maker::score_exemplars(work& at) {
  std::vector<scored_variant> scored;
  const auto key = static_cast<std::uint64_t>(at.index);
  base::random_stream random(plan_.seed, "exemplar task", {key});
  if (!random.chance(plan_.exemplar_task_share)) return scored;
  const std::int64_t wanted = wanted_scores();
  for (std::int64_t k = 0; k < draws_per_exemplar * wanted && std::ssize(scored) < wanted; ++k) {
    kernel_variant variant = at.supply.draw(plan_.seed, random.next_u64(), 0);
    if (at.exemplars.contains(variant.source)) continue;
    QUERN_TRY(const verdict judged,
              judge_->judge(at.subject, variant.source, plan_.exemplar_protocol));
    if (judged.kind != verdict_kind::ok || !judged.speedup_e2) continue;
    at.exemplars[variant.source] = source_hash_of(judged, variant);
    scored.push_back({std::move(variant), *judged.speedup_e2});
  }
  if (std::ssize(scored) < plan_.exemplars_shown) scored.clear();
  return scored;
}

corpus_record corpus_maker::record_of(const work& at, std::int64_t item,
                                      const kernel_variant& variant) const {
  corpus_record record;
  record.item = item;
  record.task = at.id;
  record.composition = to_text(at.probe.subject());
  record.style = variant.style;
  record.error = name_of(variant.error);
  return record;
}

void corpus_maker::add_record(work& at, corpus_record record, kernel_variant variant,
                              std::span<const scored_variant> shown, std::string analysis) {
  std::vector<exemplar> exemplars;
  for (const scored_variant& one : shown) {
    const bool is_right = one.verdict == verdict_kind::ok;
    exemplars.push_back(
        {one.variant.source, one.speedup_e2, is_right ? std::string_view() : name_of(one.verdict)});
    record.exemplars.push_back(at.exemplars[one.variant.source]);
    record.scores.push_back(one.speedup_e2);
  }
  record.prompt = render_prompt(*form_, *at.subject, exemplars, facts_);
  record.completion = completion_text(std::move(analysis), variant, at.subject->lane->fence);
  at.records.push_back(std::move(record));
  at.taken.insert(std::move(variant.source));
  ++at.counts.records;
  at.counts.showing += shown.empty() ? 0 : 1;
}

bool corpus_maker::compares(std::int64_t item) const {
  base::random_stream random(plan_.seed, "comparing sample", {static_cast<std::uint64_t>(item)});
  return random.chance(plan_.comparing_share);
}

base::random_stream corpus_maker::wrong_draws(std::int64_t item) const {
  return base::random_stream(plan_.seed, "wrong exemplar", {static_cast<std::uint64_t>(item)});
}

base::expected<std::optional<scored_variant>> corpus_maker::draw_wrong(work& at,
                                                                       std::int64_t item) {
  base::random_stream random = wrong_draws(item);
  if (!random.chance(wrong_shown_of(plan_))) return std::nullopt;
  for (int k = 0; k < most_wrong_draws; ++k) {
    kernel_variant variant = at.supply.draw(plan_.seed, random.next_u64(), 1);
    if (variant.intended_correct) continue;
    QUERN_TRY(const verdict judged, judge_->judge(at.subject, variant.source, ""));
    if (!judges_candidate(judged.kind) || judged.kind == verdict_kind::ok) continue;
    at.exemplars[variant.source] = source_hash_of(judged, variant);
    return scored_variant{std::move(variant), 0, judged.kind};
  }
  return std::nullopt;
}

base::expected<bool> corpus_maker::add_comparing(work& at, std::int64_t item,
                                                 std::span<const scored_variant> scored) {
  base::random_stream random(plan_.seed, "comparison", {static_cast<std::uint64_t>(item)});
  const bool shows_best = random.chance(plan_.best_shown_share);
  const auto whole = static_cast<std::size_t>(plan_.exemplars_shown);
  // Kernels that are too much alike need no wrong one either.
  base::random_stream first = random;
  if (!draw_comparison(scored, whole, shows_best, first)) return false;
  QUERN_TRY(const std::optional<scored_variant> wrong, draw_wrong(at, item));
  for (int k = 0; k < most_comparisons; ++k) {
    const auto drawn = draw_comparison(scored, whole - (wrong ? 1 : 0), shows_best, random);
    if (!drawn) return false;
    std::vector<scored_variant> shown;
    for (const std::size_t place : drawn->shown)
      shown.push_back(scored[place]);
    if (wrong)
      shown.insert(shown.begin() + static_cast<std::ptrdiff_t>(random.below(shown.size() + 1)),
                   *wrong);
    const kernel_variant& answer = scored[drawn->answer].variant;
    std::vector<std::string> sources;
    for (const scored_variant& one : shown)
      sources.push_back(one.variant.source);
    sources.push_back(answer.source);
    if (!at.compared.insert(std::move(sources)).second) continue;
    corpus_record record = record_of(at, item, answer);
    record.source_hash = at.exemplars[answer.source];
    record.verdict = name_of(verdict_kind::ok);
    add_record(at, std::move(record), answer, shown,
               comparing_line(shown, answer, drawn->improves));
    ++at.counts.comparing;
    at.counts.best_shown += shows_best ? 1 : 0;
    at.counts.wrong_shown += wrong ? 1 : 0;
    return true;
  }
  return false;
}

base::status corpus_maker::add_sample(work& at, int sample,
                                      const std::vector<scored_variant>& scored) {
  const std::int64_t item = at.index * plan_.samples_per_task + sample;
  bool shows = sample % 2 == 1 && !scored.empty();
  if (shows && compares(item)) {
    QUERN_TRY(const bool added, add_comparing(at, item, scored));
    if (added) return {};
    shows = false;
  }
  const auto shown = std::span<const scored_variant>(scored).first(
      shows ? static_cast<std::size_t>(plan_.exemplars_shown) : 0);
  // An exemplar is never the answer to a prompt that shows it.
  const auto is_stale = [&](const kernel_variant& variant) {
    return at.taken.contains(variant.source) ||
           std::ranges::any_of(shown, [&](const scored_variant& one) {
             return one.variant.source == variant.source;
           });
  };
  const auto draw = [&](std::uint64_t attempt) {
    const auto address = static_cast<std::uint64_t>(item) * most_draws + attempt;
    return at.supply.draw(plan_.seed, address, plan_.wrong_share);
  };
  kernel_variant variant = draw(0);
  for (std::uint64_t k = 1; is_stale(variant) && k < most_draws; ++k)
    variant = draw(k);
  if (is_stale(variant)) return {};

  QUERN_TRY(const verdict judged, judge_->judge(at.subject, variant.source, ""));
  if (!judges_candidate(judged.kind)) {
    ++at.counts.dropped;
    return {};
  }
  const bool is_right = judged.kind == verdict_kind::ok;
  if (is_right != variant.intended_correct) {
    ++at.counts.unexpected;
    return {};
  }
  corpus_record record = record_of(at, item, variant);
  record.source_hash = source_hash_of(judged, variant);
  record.verdict = name_of(judged.kind);
  std::string analysis = analysis_line(at.probe.subject(), shown);
  add_record(at, std::move(record), std::move(variant), shown, std::move(analysis));
  if (!is_right) ++at.counts.wrong;
  return {};
}

void corpus_maker::announce(const work& of) {
  base::random_stream random(plan_.seed, "exemplar task", {static_cast<std::uint64_t>(of.index)});
  const bool scores = random.chance(plan_.exemplar_task_share);
  if (scores)
    for (std::int64_t k = 0; k < wanted_scores(); ++k)
      judge_->announce(of.subject, of.supply.draw(plan_.seed, random.next_u64(), 0).source);
  for (int sample = 0; sample < plan_.samples_per_task; ++sample) {
    const std::int64_t item = of.index * plan_.samples_per_task + sample;
    // One that compares has an answer that was announced, and may show a wrong kernel.
    if (scores && sample % 2 == 1 && compares(item)) {
      base::random_stream wrong = wrong_draws(item);
      if (wrong.chance(wrong_shown_of(plan_)))
        judge_->announce(of.subject, of.supply.draw(plan_.seed, wrong.next_u64(), 1).source);
      continue;
    }
    const auto first = static_cast<std::uint64_t>(item) * most_draws;
    judge_->announce(of.subject, of.supply.draw(plan_.seed, first, plan_.wrong_share).source);
  }
}

base::status corpus_maker::begin_next() {
  while (next_ % plan_.shards != plan_.shard)
    ++next_;
  if (next_ >= plan_.tasks) return {};
  composition_probe drawn = draw_tried(plan_.seed, static_cast<std::uint64_t>(next_), plan_.limits);
  std::shared_ptr<work> made;
  if (!is_held_out(drawn.subject(), plan_.held_out)) {
    QUERN_TRY(task subject, make_task(drawn, plan_.task));
    made = std::make_shared<work>(next_, std::move(drawn), std::move(subject));
    if (judge_->look_ahead() > 0) announce(*made);
  }
  begun_.push_back(std::move(made));
  ++next_;
  return {};
}

base::expected<bool> corpus_maker::step() {
  const auto wanted = static_cast<std::size_t>(1 + judge_->look_ahead());
  for (std::size_t before = begun_.size() + 1; begun_.size() < wanted && begun_.size() != before;) {
    before = begun_.size();
    QUERN_CHECK(begin_next());
  }
  if (begun_.empty()) return false;
  corpus_counts counts = file_.counts();
  std::int64_t index = counts.next_task;
  while (index % plan_.shards != plan_.shard)
    ++index;
  counts.next_task = index + 1;
  if (!begun_.front()) {
    ++counts.skipped_tasks;
    QUERN_CHECK(file_.append({}, counts));
    begun_.pop_front();
    return true;
  }
  work& at = *begun_.front();
  // What an attempt that failed has left is of no use.
  at.counts = counts;
  at.records.clear();
  at.taken.clear();
  at.compared.clear();
  at.exemplars.clear();
  QUERN_TRY(const auto scored, score_exemplars(at));
  for (int sample = 0; sample < plan_.samples_per_task; ++sample)
    QUERN_CHECK(add_sample(at, sample, scored));
  ++(at.records.empty() ? at.counts.skipped_tasks : at.counts.tasks);
  QUERN_CHECK(file_.append(at.records, at.counts));
  begun_.pop_front();
  return true;
}

}  // namespace quern::env
