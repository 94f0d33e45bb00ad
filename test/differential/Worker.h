//===- Worker.h - Runs jobs in processes of their own -----------*- C++ -*-===//
//
// A kernel that crashes must not end the suite: each worker is a process. It takes one job, a line of text, and
// answers in lines.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_WORKER_H
#define KVC_TEST_DIFFERENTIAL_WORKER_H

#include <functional>
#include <string>
#include <vector>

namespace kvc::differential {

/// Does one job; `answer` sends a line (without line breaks) at once.
using Work = std::function<void(const std::string &job, const std::function<void(const std::string &)> &answer)>;

/// Gets the lines that a job answered, and when it is over: how the process died, or nothing when it did not.
struct Listener {
  std::function<void(size_t job, const std::string &line)> answered;
  std::function<void(size_t job, const std::string &death)> finished;
};

/// Runs all jobs on `processes` workers, each made by fork and told `start` to make its `Work`. Must be called while
/// the process has one thread.
void runJobs(const std::vector<std::string> &jobs, int processes, const std::function<Work()> &start,
             const Listener &listener);

/// What `work` gives in a process of its own, which leaves nothing behind. `death`: how it died, or nothing.
std::string answerOfChild(const std::function<std::string()> &work, std::string &death);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_WORKER_H
