// The law of samples once more, as plainly as it can be said: what the ledger is compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace quern::test {

struct model_sample {
  std::string state = "issued";
  std::int64_t v_max = 0;
  std::int64_t step = 0;
  std::set<std::int64_t> attempts;  ///< of the current incarnation
};

/// Answers to what each operation should do; `ok` operations change the model.
class law_model {
 public:
  std::map<std::int64_t, model_sample> samples;
  std::int64_t incarnation = 0;
  std::int64_t version = 0;
  std::vector<std::int64_t> checkpoints;  ///< that survive, ascending

  void issue(std::int64_t first, int size) {
    for (int k = 0; k < size; ++k)
      samples[first + k] = {};
  }

  /// "accepted", "late", "stale" or "error".
  std::string generated(std::int64_t id, std::int64_t asked_in, std::int64_t v_max) {
    const std::string answer = arrival(id, asked_in, "issued");
    if (answer != "accepted") return answer;
    samples[id].state = "generated";
    samples[id].v_max = v_max;
    return answer;
  }

  std::string evaluated(std::int64_t id, std::int64_t asked_in, std::int64_t attempt, bool counts) {
    std::string answer = arrival(id, asked_in, "generated");
    if (answer != "accepted") return answer;
    if (!samples[id].attempts.insert(attempt).second) return "late";
    if (counts) samples[id].state = "evaluated";
    return answer;
  }

  bool admit(const std::vector<std::int64_t>& ids) { return move(ids, "evaluated", "admitted"); }

  bool consume(const std::vector<std::int64_t>& ids, std::int64_t step) {
    if (step != version + 1 || ids.empty()) return false;
    for (const std::int64_t id : ids) {
      if (samples.contains(id) && samples[id].v_max >= step) return false;
    }
    if (!move(ids, "admitted", "consumed")) return false;
    for (const std::int64_t id : ids)
      samples[id].step = step;
    version = step;
    return true;
  }

  bool checkpoint(std::int64_t of) {
    if (of > version || of < 0 || (!checkpoints.empty() && of <= checkpoints.back())) return false;
    checkpoints.push_back(of);
    for (auto& [id, sample] : samples) {
      if (sample.state == "consumed" && sample.step <= of) sample.state = "trained";
    }
    return true;
  }

  bool drop(const std::vector<std::int64_t>& ids) {
    std::set<std::int64_t> seen;
    for (const std::int64_t id : ids) {
      if (!samples.contains(id) || !seen.insert(id).second) return false;
      const std::string& state = samples[id].state;
      if (state == "consumed" || state == "trained" || state == "dropped") return false;
    }
    for (const std::int64_t id : ids)
      samples[id].state = "dropped";
    return true;
  }

  bool open_incarnation(std::int64_t from, const std::set<std::int64_t>& unreadable) {
    const bool known = std::count(checkpoints.begin(), checkpoints.end(), from) > 0;
    if (from != 0 && !known) return false;
    ++incarnation;
    version = from;
    std::erase_if(checkpoints, [&](std::int64_t each) { return each > from; });
    for (auto& [id, sample] : samples) {
      sample.attempts.clear();
      if (sample.state == "issued" || sample.state == "dropped") continue;
      if ((sample.state == "consumed" || sample.state == "trained") && sample.step > from) {
        sample.state = "admitted";
      }
      if (sample.state == "trained") continue;
      if (sample.v_max > from || unreadable.contains(id)) sample.state = "issued";
    }
    return true;
  }

 private:
  std::string arrival(std::int64_t id, std::int64_t asked_in, const std::string& wanted) {
    static const std::vector<std::string> order = {"issued",   "generated", "evaluated", "admitted",
                                                   "consumed", "trained",   "dropped"};
    if (incarnation == 0 || asked_in > incarnation || asked_in < 1) return "error";
    if (asked_in < incarnation) return "stale";
    if (!samples.contains(id)) return "error";
    const auto place = [&](const std::string& state) {
      return std::find(order.begin(), order.end(), state) - order.begin();
    };
    if (place(samples[id].state) < place(wanted)) return "error";
    return samples[id].state == wanted ? "accepted" : "late";
  }

  bool move(const std::vector<std::int64_t>& ids, const std::string& from, const std::string& to) {
    std::set<std::int64_t> seen;
    for (const std::int64_t id : ids) {
      if (!samples.contains(id) || samples[id].state != from || !seen.insert(id).second) {
        return false;
      }
    }
    for (const std::int64_t id : ids)
      samples[id].state = to;
    return true;
  }
};

}  // namespace quern::test
