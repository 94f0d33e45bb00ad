//===- Stream.cpp - Streams, events and graphs ----------------------------===//
#include "cuda/Driver.h"

using namespace kvc::sim;
using namespace kvc::sim::cuda;

Stream *kvc::sim::cuda::streamOf(Context &context, Stream *stream) {
  // 0, 1 and 2 stand for the default streams.
  if (reinterpret_cast<uintptr_t>(stream) <= 2) {
    return &context.nullStream;
  }
  return isIn(context.streams, stream) ? stream : nullptr;
}

Result kvc::sim::cuda::enqueue(Context &context, Stream *stream, std::function<Result()> work) {
  Stream *known = streamOf(context, stream);
  if (!known) {
    return error(InvalidHandle, "expects a stream of this context");
  }
  if (known->capture) {
    if (known->captureIsInvalid) {
      return error(StreamCaptureInvalidated, "expects a capture that no other call has spoiled");
    }
    known->capture->work.push_back(std::move(work));
    return Success;
  }
  if (known == &context.nullStream) {
    // The default stream waits for all streams that do not opt out of it.
    for (const auto &other : context.streams) {
      if (other->capture && !(other->flags & StreamNonBlocking)) {
        other->captureIsInvalid = true;
        return error(StreamCaptureImplicit, "expects no work in the default stream while a blocking stream captures");
      }
    }
  }
  return work();
}

Result kvc::sim::cuda::refuseWhileCapturing(Context &context, const char *what) {
  for (const auto &stream : context.streams) {
    const bool forbids = stream->captureMode == CaptureGlobal || (stream->captureMode == CaptureThreadLocal &&
                                                                  stream->captureThread == std::this_thread::get_id());
    if (stream->capture && forbids) {
      stream->captureIsInvalid = true;
      return error(StreamCaptureUnsupported, fmt::format("expects no {} while a stream captures", what));
    }
  }
  return Success;
}

template <typename F> static int withStream(Stream *stream, F f) {
  return withContext([&](Context &context) -> Result {
    Stream *known = streamOf(context, stream);
    if (!known) {
      return error(InvalidHandle, "expects a stream of this context");
    }
    return f(context, *known);
  });
}

// Streams -------------------------------------------------------------------------------------------------------------

KVCSIM_API cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return withContext([&](Context &context) {
    auto created = std::make_unique<Stream>();
    created->context = &context;
    created->flags = flags;
    created->priority = priority;
    *stream = addTo(context.streams, std::move(created));
    return Success;
  });
}

KVCSIM_API cuStreamCreate(Stream **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

KVCSIM_API cuStreamDestroy_v2(Stream *stream) {
  return withContext([&](Context &context) -> Result {
    return removeFrom(context.streams, stream) ? Success : error(InvalidHandle, "expects a stream of this context");
  });
}

static Result refuseCapture(Stream &stream, const char *what) {
  if (!stream.capture) {
    return Success;
  }
  stream.captureIsInvalid = true;
  return error(StreamCaptureUnsupported, fmt::format("expects no {} of a stream that captures", what));
}

KVCSIM_API cuStreamSynchronize(Stream *stream) {
  return withStream(stream, [](Context &, Stream &known) { return refuseCapture(known, "synchronisation"); });
}

KVCSIM_API cuStreamQuery(Stream *stream) {
  return withStream(stream, [](Context &, Stream &known) { return refuseCapture(known, "query"); });
}

KVCSIM_API cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  return withStream(stream, [&](Context &context, Stream &) -> Result {
    return isIn(context.events, event) ? Success : error(InvalidHandle, "expects an event of this context");
  });
}

KVCSIM_API cuStreamGetCtx(Stream *stream, Context **context) {
  return withStream(stream, [&](Context &current, Stream &) {
    *context = &current;
    return Success;
  });
}

KVCSIM_API cuStreamGetFlags(Stream *stream, unsigned *flags) {
  return withStream(stream, [&](Context &, Stream &known) {
    *flags = known.flags;
    return Success;
  });
}

KVCSIM_API cuStreamGetPriority(Stream *stream, int *priority) {
  return withStream(stream, [&](Context &, Stream &known) {
    *priority = known.priority;
    return Success;
  });
}

// Events --------------------------------------------------------------------------------------------------------------

KVCSIM_API cuEventCreate(Event **event, unsigned flags) {
  return withContext([&](Context &context) {
    auto created = std::make_unique<Event>();
    created->context = &context;
    *event = addTo(context.events, std::move(created));
    return Success;
  });
}

template <typename F> static int withEvent(Event *event, F f) {
  return withContext([&](Context &context) -> Result {
    if (!isIn(context.events, event)) {
      return error(InvalidHandle, "expects an event of this context");
    }
    return f(context);
  });
}

KVCSIM_API cuEventDestroy_v2(Event *event) {
  return withEvent(event, [&](Context &context) {
    removeFrom(context.events, event);
    return Success;
  });
}

KVCSIM_API cuEventRecord(Event *event, Stream *stream) {
  return withEvent(event, [&](Context &context) {
    return enqueue(context, stream, [event, &context] {
      if (isIn(context.events, event)) {
        event->recorded = true;
        event->time = std::chrono::steady_clock::now();
      }
      return Success;
    });
  });
}

KVCSIM_API cuEventSynchronize(Event *event) {
  return withEvent(event, [](Context &context) { return refuseWhileCapturing(context, "wait for an event"); });
}

KVCSIM_API cuEventQuery(Event *event) {
  return withEvent(event, [](Context &context) { return refuseWhileCapturing(context, "query of an event"); });
}

static int elapsed(float *milliseconds, Event *from, Event *to) {
  return withEvent(from, [&](Context &context) -> Result {
    if (!isIn(context.events, to) || !from->recorded || !to->recorded) {
      return error(InvalidHandle, "expects two events that were recorded");
    }
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return Success;
  });
}
/// The time that the simulation took, not what the device would.
KVCSIM_API cuEventElapsedTime(float *milliseconds, Event *from, Event *to) { return elapsed(milliseconds, from, to); }
KVCSIM_API cuEventElapsedTime_v2(float *milliseconds, Event *from, Event *to) {
  return elapsed(milliseconds, from, to);
}

// Graphs --------------------------------------------------------------------------------------------------------------

KVCSIM_API cuStreamBeginCapture_v2(Stream *stream, int mode) {
  return withStream(stream, [&](Context &context, Stream &known) -> Result {
    if (&known == &context.nullStream) {
      return error(StreamCaptureUnsupported, "expects a stream that is not the default stream");
    }
    if (known.capture) {
      return error(StreamCaptureUnsupported, "expects a stream that does not capture yet");
    }
    if (mode < CaptureGlobal || mode > CaptureRelaxed) {
      return error(InvalidValue, fmt::format("expects a mode of capture of 0 to 2, but got {}", mode));
    }
    known.capture = std::make_unique<Graph>();
    known.captureMode = CaptureMode(mode);
    known.captureThread = std::this_thread::get_id();
    known.captureIsInvalid = false;
    return Success;
  });
}

KVCSIM_API cuStreamEndCapture(Stream *stream, Graph **graph) {
  return withStream(stream, [&](Context &context, Stream &known) -> Result {
    if (!known.capture) {
      return error(StreamCaptureUnmatched, "expects a stream that captures");
    }
    *graph = nullptr;
    if (known.captureMode != CaptureRelaxed && known.captureThread != std::this_thread::get_id()) {
      known.captureIsInvalid = true;
      return error(StreamCaptureWrongThread, "expects the thread that began the capture");
    }
    std::unique_ptr<Graph> captured = std::move(known.capture);
    if (known.captureIsInvalid) {
      return error(StreamCaptureInvalidated, "expects a capture that no other call has spoiled");
    }
    *graph = addTo(context.graphs, std::move(captured));
    return Success;
  });
}

KVCSIM_API cuStreamIsCapturing(Stream *stream, int *status) {
  return withStream(stream, [&](Context &, Stream &known) {
    // 1: active, 2: spoiled.
    *status = known.capture ? 1 + known.captureIsInvalid : 0;
    return Success;
  });
}

KVCSIM_API cuGraphInstantiateWithFlags(GraphExec **exec, Graph *graph, unsigned long long flags) {
  return withContext([&](Context &context) -> Result {
    if (!isIn(context.graphs, graph)) {
      return error(InvalidHandle, "expects a graph of this context");
    }
    auto created = std::make_unique<GraphExec>();
    created->work = graph->work;
    *exec = addTo(context.graphExecs, std::move(created));
    return Success;
  });
}

KVCSIM_API cuGraphLaunch(GraphExec *exec, Stream *stream) {
  return withStream(stream, [&](Context &context, Stream &known) -> Result {
    if (!isIn(context.graphExecs, exec)) {
      return error(InvalidHandle, "expects an instantiated graph of this context");
    }
    if (known.capture) {
      return error(StreamCaptureUnsupported, "expects a stream that does not capture");
    }
    for (const auto &work : exec->work) {
      const Result result = work();
      if (result != Success || context.failed != Success) {
        return result;
      }
    }
    return Success;
  });
}

KVCSIM_API cuGraphUpload(GraphExec *exec, Stream *stream) {
  return withStream(stream, [&](Context &context, Stream &) -> Result {
    return isIn(context.graphExecs, exec) ? Success
                                          : error(InvalidHandle, "expects an instantiated graph of this context");
  });
}

KVCSIM_API cuGraphDestroy(Graph *graph) {
  return withContext([&](Context &context) -> Result {
    return removeFrom(context.graphs, graph) ? Success : error(InvalidHandle, "expects a graph of this context");
  });
}

KVCSIM_API cuGraphExecDestroy(GraphExec *exec) {
  return withContext([&](Context &context) -> Result {
    return removeFrom(context.graphExecs, exec) ? Success
                                                : error(InvalidHandle, "expects an instantiated graph of this context");
  });
}
