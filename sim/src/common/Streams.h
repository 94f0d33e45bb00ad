//===- Streams.h - Streams, events and graphs of a driver -------*- C++ -*-===//
//
// Vendors' drivers have them with the same rules, and with the same numbers of results, modes and flags. Work is done
// when it is asked for, or recorded where its stream captures a graph.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_STREAMS_H
#define KVCSIM_COMMON_STREAMS_H

#include "common/DriverOptions.h"
#include "common/Handles.h"

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace kvc::sim {

/// A call's work; what it returns is the call's result.
using Work = std::function<int()>;

struct Graph {
  std::vector<Work> work;
};
struct GraphExec {
  std::vector<Work> work;
};

enum CaptureMode : int { CaptureGlobal = 0, CaptureThreadLocal = 1, CaptureRelaxed = 2 };
constexpr unsigned StreamNonBlocking = 1;

struct Stream {
  unsigned flags = 0;
  int priority = 0;
  /// While it captures: what it has, how strict it is with other calls, who began it, and whether such a call has
  /// spoiled it.
  std::unique_ptr<Graph> capture;
  CaptureMode captureMode = CaptureGlobal;
  std::thread::id captureThread;
  bool captureIsInvalid = false;
};

struct Event {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

/// Those of one context (a device, where the interface has no contexts). The caller has the driver's lock. Every
/// function returns a result; the text of an error goes to `state`.
class Streams {
public:
  explicit Streams(DriverOptions &state) : state(state) {}

  /// Null (the default stream) or a stream; null for an invalid handle.
  Stream *find(Stream *handle);
  bool has(const Event *event) const { return isIn(events, event); }

  int create(Stream **stream, unsigned flags, int priority);
  int destroy(Stream *stream);
  /// Before the host waits for a stream, or asks about it.
  int refuseOf(Stream *stream, const char *what);
  int waitFor(Stream *stream, const Event *event);
  /// Does work now, or records it where the stream captures.
  int enqueue(Stream *stream, Work work);
  /// Before a call that is no part of a stream's work, and may not be made while one captures (but in relaxed mode, or,
  /// in thread-local mode, by other threads): it fails and spoils the capture.
  int refuseWhileCapturing(const char *what);

  int create(Event **event);
  int destroy(Event *event);
  int record(Event *event, Stream *stream);
  /// Before the host waits for an event, or asks about it.
  int refuseOf(const Event *event, const char *what);
  /// The time that the simulation took, not what the device would.
  int elapsed(float *milliseconds, const Event *from, const Event *to);

  int beginCapture(Stream *stream, int mode);
  int endCapture(Stream *stream, Graph **graph);
  int isCapturing(Stream *stream, int *status);
  int instantiate(GraphExec **exec, const Graph *graph);
  /// Ends where a kernel has failed, which `hasFailed` tells.
  int launch(const GraphExec *exec, Stream *stream, const std::function<bool()> &hasFailed);
  int check(const GraphExec *exec);
  int destroy(Graph *graph);
  int destroy(GraphExec *exec);

private:
  int error(int result, std::string text);

  DriverOptions &state;
  Stream defaultStream;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Graph> graphs;
  Handles<GraphExec> graphExecs;
};

} // namespace kvc::sim

#endif // KVCSIM_COMMON_STREAMS_H
