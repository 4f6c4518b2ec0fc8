// A run's dispatching side for tests with real `quern evaluator` children on GPUs: a scheduler
// behind a gateway, jobs from the suites and candidates of the tree.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/gateway.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::test {

/// A candidate of tests/honest/cuda, tests/hostile/cuda or tests/honest/pytorch.
struct gpu_candidate {
  std::string file;
  std::string task;                ///< path of the task file; of a module's reference, NAME.py
  std::string form;                ///< of lane cuda
  std::vector<std::string> right;  ///< "ok", "hack:timing", …
  std::string lane = "cuda";
};

/// Of a manifest's candidates those of one suite (honest) or of these files (hostile).
std::vector<gpu_candidate> honest_candidates(const std::string& suite);
std::vector<gpu_candidate> hostile_candidates(const std::vector<std::string>& files);
/// Honest modules of lane pytorch by their names, TASK.STYLE.
std::vector<gpu_candidate> module_candidates(const std::vector<std::string>& names);

/// One evaluation as it ended.
struct gpu_answer {
  env::verdict judged;
  actors::device_key device;
  int attempts = 0;
  double device_wait_s = 0;  ///< for its turn on the GPU
};

class gpu_run final : public actors::gateway_events {
 public:
  /// `device_class`: of lane cuda on the hosts that will come; `recheck_above_e2`: of all jobs.
  gpu_run(std::string device_class, std::int64_t recheck_above_e2);

  base::status open();
  /// Starts `quern evaluator --gpus LIST` and `more` options, with its log in the fixture's folder.
  base::expected<base::subprocess> start_host(const std::string& gpus, const std::string& name,
                                              const std::vector<std::string>& more = {
                                                  "--time-budget", "0.15"});
  /// The last lines of all hosts' logs, for a failed test.
  [[nodiscard]] std::string logs() const;

  /// `round`: with another one the same candidate is another source, which no cache knows; 0 for a
  /// module.
  actors::sample_id submit(const gpu_candidate& candidate, int round = 0);
  void drain() { gateway_->drain_hosts(); }

  template <class F>
  bool wait(double seconds, F so_far) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), so_far);
  }

  /// Device class of each lane's jobs; set before the first is submitted.
  std::map<std::string, std::string> classes;

  // What happened; under the lock of `wait`, or when no host is there any more.
  std::map<actors::sample_id, gpu_candidate> jobs;
  std::map<actors::sample_id, gpu_answer> answers;
  std::map<actors::sample_id, int> accepted;
  std::map<actors::device_key, int, bool (*)(const actors::device_key&, const actors::device_key&)>
      sent;
  env::hello_message hello;  ///< of the host that joined last
  std::vector<actors::session_id> joined, lost, draining;
  std::vector<std::vector<env::quarantined_device>> quarantines;  ///< in order
  int returned_jobs = 0, retries = 0, exhausted = 0, claims = 0;
  int infra_errors = 0;  ///< attempts that failed on the machinery

  void host_joined(actors::session_id session, const env::hello_message& from) override;
  void credit(actors::session_id session, std::int64_t device, std::int64_t granted) override;
  void verdict(actors::session_id session, actors::lease_id lease,
               const std::string& text) override;
  void failed(actors::session_id session, actors::lease_id lease,
              const std::string& reason) override;
  void returned(actors::session_id session, actors::lease_id lease,
                const std::string& reason) override;
  void quarantined(actors::session_id session,
                   const std::vector<env::quarantined_device>& devices) override;
  void host_draining(actors::session_id session) override;
  void host_lost(actors::session_id session, const std::string& why) override;
  void host_left(actors::session_id session, const std::string& why) override;
  std::optional<std::string> task_text(const base::hash128& task) override;

 private:
  struct known_task {
    base::hash128 hash;
    std::string text;
  };
  const known_task& task_at(const std::string& path);
  void settle(actors::session_id session, actors::lease_id lease,
              const actors::lease_result& result, const std::string& text);
  void send_jobs();

  base::temp_folder folder_ = *base::temp_folder::make();
  base::steady_clock clock_;
  std::int64_t recheck_above_e2_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  actors::evaluation_scheduler scheduler_;
  std::map<std::string, known_task> tasks_;
  std::map<actors::session_id, std::vector<std::int64_t>> devices_;
  std::map<actors::lease_id, actors::device_key> holders_;
  std::map<actors::sample_id, std::string> sources_;
  actors::sample_id next_ = 0;
  std::vector<std::string> hosts_;
  std::unique_ptr<actors::gateway> gateway_;
};

/// "ok", "hack:timing".
std::string short_verdict(const env::verdict& v);
bool is_right(const env::verdict& v, const std::vector<std::string>& right);

}  // namespace quern::test
