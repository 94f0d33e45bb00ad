//===- Worker.cpp - Runs jobs in processes of their own -------------------===//
#include "Worker.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kvc::differential;

static constexpr const char *endOfJob = "end";

static bool writeAll(int file, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) {
      return false;
    }
    done += n > 0 ? n : 0;
  }
  return true;
}

/// The loop of a worker: a job per line until the end of input.
[[noreturn]] static void serve(int input, int output, const std::function<Work()> &start) {
  Work work = start();
  FILE *jobs = fdopen(input, "r");
  char *line = nullptr;
  size_t room = 0;
  for (ssize_t n; (n = getline(&line, &room, jobs)) > 0;) {
    work(std::string(line, n - 1), [&](const std::string &answer) { writeAll(output, answer + "\n"); });
    writeAll(output, std::string(endOfJob) + "\n");
  }
  // Without destructors and buffers of the parent.
  _exit(0);
}

namespace {
struct Process {
  pid_t id = -1;
  int input = -1, output = -1; // what the parent writes to, and reads from
  std::string pending;
  std::optional<size_t> job;
};
} // namespace

static Process launch(const std::function<Work()> &start, const std::vector<Process> &others) {
  int down[2], up[2];
  if (pipe(down) || pipe(up)) {
    std::perror("kvc-differential: pipe");
    std::exit(1);
  }
  Process process;
  process.id = fork();
  if (process.id < 0) {
    std::perror("kvc-differential: fork");
    std::exit(1);
  }
  if (process.id == 0) {
    // Ends of other workers' pipes would keep them open.
    for (const Process &other : others) {
      close(other.input);
      close(other.output);
    }
    close(down[1]);
    close(up[0]);
    serve(down[0], up[1], start);
  }
  close(down[0]);
  close(up[1]);
  process.input = down[1];
  process.output = up[0];
  return process;
}

/// How a process died.
static std::string deathOf(int status) {
  if (WIFSIGNALED(status)) {
    return std::string("ended by signal ") + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
           ")";
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

/// Waits for a process; how it died.
static std::string reap(Process &process) {
  close(process.input);
  close(process.output);
  int status = 0;
  waitpid(process.id, &status, 0);
  process.id = -1;
  return deathOf(status);
}

std::string kvc::differential::answerOfChild(const std::function<std::string()> &work, std::string &death) {
  int up[2];
  const bool open = pipe(up) == 0;
  const pid_t child = open ? fork() : -1;
  if (child < 0) {
    std::perror("kvc-differential: fork");
    std::exit(1);
  }
  if (child == 0) {
    writeAll(up[1], work());
    _exit(0);
  }
  close(up[1]);
  std::string answer;
  char buffer[1 << 12];
  for (ssize_t n; (n = read(up[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);) {
    answer.append(buffer, n > 0 ? n : 0);
  }
  close(up[0]);
  int status = 0;
  waitpid(child, &status, 0);
  death = status == 0 ? "" : deathOf(status);
  return answer;
}

void kvc::differential::runJobs(const std::vector<std::string> &jobs, int processes, const std::function<Work()> &start,
                                const Listener &listener) {
  std::signal(SIGPIPE, SIG_IGN);
  size_t next = 0, over = 0;
  std::vector<Process> pool;
  auto feed = [&](Process &process) {
    process.job.reset();
    if (next < jobs.size()) {
      process.job = next++;
      writeAll(process.input, jobs[*process.job] + "\n");
    }
  };
  for (int i = 0; i < processes && next < jobs.size(); ++i) {
    pool.push_back(launch(start, pool));
    feed(pool.back());
  }
  while (over < jobs.size()) {
    std::vector<pollfd> waiting;
    for (const Process &process : pool) {
      waiting.push_back({process.output, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      continue; // a signal
    }
    for (size_t i = 0; i < pool.size(); ++i) {
      if (!waiting[i].revents) {
        continue;
      }
      Process &process = pool[i];
      char buffer[1 << 14];
      const ssize_t n = read(process.output, buffer, sizeof buffer);
      if (n > 0) {
        process.pending.append(buffer, n);
      }
      for (size_t end; (end = process.pending.find('\n')) != std::string::npos;) {
        const std::string line = process.pending.substr(0, end);
        process.pending.erase(0, end + 1);
        if (line == endOfJob) {
          listener.finished(*process.job, "");
          ++over;
          feed(process);
        } else if (process.job) {
          listener.answered(*process.job, line);
        }
      }
      if (n == 0 || (n < 0 && errno != EINTR)) {
        const std::optional<size_t> job = process.job;
        const std::string death = reap(process);
        if (job) {
          listener.finished(*job, death);
          ++over;
        }
        std::vector<Process> others;
        for (const Process &other : pool) {
          if (other.id >= 0) {
            others.push_back(other);
          }
        }
        process = launch(start, others);
        feed(process);
      }
    }
  }
  for (Process &process : pool) {
    reap(process);
  }
}
