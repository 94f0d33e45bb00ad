//===- Streams.cpp - Streams, events and graphs of a driver ---------------===//
#include "common/Streams.h"

#include <fmt/format.h>

using namespace kvc::sim;

/// Numbers of both interfaces.
static constexpr int success = 0, invalidValue = 1, invalidHandle = 400, captureUnsupported = 900,
                     captureInvalidated = 901, captureUnmatched = 903, captureImplicit = 906, captureWrongThread = 908;

int Streams::error(int result, std::string text) {
  state.lastError = std::move(text);
  return result;
}

Stream *Streams::find(Stream *handle) {
  // 0, 1 and 2 stand for the default streams.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {
    return &defaultStream;
  }
  return isIn(streams, handle) ? handle : nullptr;
}

static constexpr char noStream[] = "expects a stream of this context";
static constexpr char noEvent[] = "expects an event of this context";
static constexpr char noGraph[] = "expects a graph of this context";
static constexpr char noExec[] = "expects an instantiated graph of this context";
static constexpr char spoiled[] = "expects a capture that no other call has spoiled";

// Streams -------------------------------------------------------------------------------------------------------------

int Streams::create(Stream **stream, unsigned flags, int priority) {
  auto created = std::make_unique<Stream>();
  created->flags = flags;
  created->priority = priority;
  *stream = addTo(streams, std::move(created));
  return success;
}

int Streams::destroy(Stream *stream) { return removeFrom(streams, stream) ? success : error(invalidHandle, noStream); }

int Streams::refuseOf(Stream *stream, const char *what) {
  Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  if (!known->capture) {
    return success;
  }
  known->captureIsInvalid = true;
  return error(captureUnsupported, fmt::format("expects no {} of a stream that captures", what));
}

int Streams::waitFor(Stream *stream, const Event *event) {
  if (!find(stream)) {
    return error(invalidHandle, noStream);
  }
  return has(event) ? success : error(invalidHandle, noEvent);
}

int Streams::enqueue(Stream *stream, Work work) {
  Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  if (known->capture) {
    if (known->captureIsInvalid) {
      return error(captureInvalidated, spoiled);
    }
    known->capture->work.push_back(std::move(work));
    return success;
  }
  if (known == &defaultStream) {
    // The default stream waits for all streams that do not opt out of it.
    for (const auto &other : streams) {
      if (other->capture && !(other->flags & StreamNonBlocking)) {
        other->captureIsInvalid = true;
        return error(captureImplicit, "expects no work in the default stream while a blocking stream captures");
      }
    }
  }
  return work();
}

int Streams::refuseWhileCapturing(const char *what) {
  for (const auto &stream : streams) {
    const bool forbids = stream->captureMode == CaptureGlobal || (stream->captureMode == CaptureThreadLocal &&
                                                                  stream->captureThread == std::this_thread::get_id());
    if (stream->capture && forbids) {
      stream->captureIsInvalid = true;
      return error(captureUnsupported, fmt::format("expects no {} while a stream captures", what));
    }
  }
  return success;
}

// Events --------------------------------------------------------------------------------------------------------------

int Streams::create(Event **event) {
  *event = addTo(events, std::make_unique<Event>());
  return success;
}

int Streams::destroy(Event *event) { return removeFrom(events, event) ? success : error(invalidHandle, noEvent); }

int Streams::record(Event *event, Stream *stream) {
  if (!has(event)) {
    return error(invalidHandle, noEvent);
  }
  return enqueue(stream, [event, this] {
    if (has(event)) {
      event->recorded = true;
      event->time = std::chrono::steady_clock::now();
    }
    return success;
  });
}

int Streams::refuseOf(const Event *event, const char *what) {
  return has(event) ? refuseWhileCapturing(what) : error(invalidHandle, noEvent);
}

int Streams::elapsed(float *milliseconds, const Event *from, const Event *to) {
  if (!has(from) || !has(to) || !from->recorded || !to->recorded) {
    return error(invalidHandle, "expects two events that were recorded");
  }
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return success;
}

// Graphs --------------------------------------------------------------------------------------------------------------

int Streams::beginCapture(Stream *stream, int mode) {
  Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  if (known == &defaultStream) {
    return error(captureUnsupported, "expects a stream that is not the default stream");
  }
  if (known->capture) {
    return error(captureUnsupported, "expects a stream that does not capture yet");
  }
  if (mode < CaptureGlobal || mode > CaptureRelaxed) {
    return error(invalidValue, fmt::format("expects a mode of capture of 0 to 2, but got {}", mode));
  }
  known->capture = std::make_unique<Graph>();
  known->captureMode = CaptureMode(mode);
  known->captureThread = std::this_thread::get_id();
  known->captureIsInvalid = false;
  return success;
}

int Streams::endCapture(Stream *stream, Graph **graph) {
  Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  if (!known->capture) {
    return error(captureUnmatched, "expects a stream that captures");
  }
  *graph = nullptr;
  if (known->captureMode != CaptureRelaxed && known->captureThread != std::this_thread::get_id()) {
    known->captureIsInvalid = true;
    return error(captureWrongThread, "expects the thread that began the capture");
  }
  std::unique_ptr<Graph> captured = std::move(known->capture);
  if (known->captureIsInvalid) {
    return error(captureInvalidated, spoiled);
  }
  *graph = addTo(graphs, std::move(captured));
  return success;
}

int Streams::isCapturing(Stream *stream, int *status) {
  const Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  // 1: active, 2: spoiled.
  *status = known->capture ? 1 + known->captureIsInvalid : 0;
  return success;
}

int Streams::instantiate(GraphExec **exec, const Graph *graph) {
  if (!isIn(graphs, graph)) {
    return error(invalidHandle, noGraph);
  }
  auto created = std::make_unique<GraphExec>();
  created->work = graph->work;
  *exec = addTo(graphExecs, std::move(created));
  return success;
}

int Streams::check(const GraphExec *exec) { return isIn(graphExecs, exec) ? success : error(invalidHandle, noExec); }

int Streams::launch(const GraphExec *exec, Stream *stream, const std::function<bool()> &hasFailed) {
  const Stream *known = find(stream);
  if (!known) {
    return error(invalidHandle, noStream);
  }
  if (int result = check(exec)) {
    return result;
  }
  if (known->capture) {
    return error(captureUnsupported, "expects a stream that does not capture");
  }
  for (const Work &work : exec->work) {
    const int result = work();
    if (result != success || hasFailed()) {
      return result;
    }
  }
  return success;
}

int Streams::destroy(Graph *graph) { return removeFrom(graphs, graph) ? success : error(invalidHandle, noGraph); }

int Streams::destroy(GraphExec *exec) { return removeFrom(graphExecs, exec) ? success : error(invalidHandle, noExec); }
