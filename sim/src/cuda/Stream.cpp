//===- Stream.cpp - Streams, events and graphs of the CUDA interface ------===//
#include "cuda/Driver.h"

using namespace kvc::sim;
using namespace kvc::sim::cuda;

// Streams -------------------------------------------------------------------------------------------------------------

KVCSIM_API cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return withContext([&](Context &context) { return context.streams.create(stream, flags, priority); });
}
KVCSIM_API cuStreamCreate(Stream **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
KVCSIM_API cuStreamDestroy_v2(Stream *stream) {
  return withContext([&](Context &context) { return context.streams.destroy(stream); });
}
KVCSIM_API cuStreamSynchronize(Stream *stream) {
  return withContext([&](Context &context) { return context.streams.refuseOf(stream, "synchronisation"); });
}
KVCSIM_API cuStreamQuery(Stream *stream) {
  return withContext([&](Context &context) { return context.streams.refuseOf(stream, "query"); });
}
KVCSIM_API cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  return withContext([&](Context &context) { return context.streams.waitFor(stream, event); });
}

template <typename F> static int withStream(Stream *stream, F f) {
  return withContext([&](Context &context) -> Result {
    const Stream *known = context.streams.find(stream);
    if (!known) {
      return error(InvalidHandle, "expects a stream of this context");
    }
    f(context, *known);
    return Success;
  });
}
KVCSIM_API cuStreamGetCtx(Stream *stream, Context **context) {
  return withStream(stream, [&](Context &current, const Stream &) { *context = &current; });
}
KVCSIM_API cuStreamGetFlags(Stream *stream, unsigned *flags) {
  return withStream(stream, [&](Context &, const Stream &known) { *flags = known.flags; });
}
KVCSIM_API cuStreamGetPriority(Stream *stream, int *priority) {
  return withStream(stream, [&](Context &, const Stream &known) { *priority = known.priority; });
}

// Events --------------------------------------------------------------------------------------------------------------

KVCSIM_API cuEventCreate(Event **event, unsigned flags) {
  return withContext([&](Context &context) { return context.streams.create(event); });
}
KVCSIM_API cuEventDestroy_v2(Event *event) {
  return withContext([&](Context &context) { return context.streams.destroy(event); });
}
KVCSIM_API cuEventRecord(Event *event, Stream *stream) {
  return withContext([&](Context &context) { return context.streams.record(event, stream); });
}
KVCSIM_API cuEventSynchronize(Event *event) {
  return withContext([&](Context &context) { return context.streams.refuseOf(event, "wait for an event"); });
}
KVCSIM_API cuEventQuery(Event *event) {
  return withContext([&](Context &context) { return context.streams.refuseOf(event, "query of an event"); });
}
KVCSIM_API cuEventElapsedTime(float *milliseconds, Event *from, Event *to) {
  return withContext([&](Context &context) { return context.streams.elapsed(milliseconds, from, to); });
}
KVCSIM_API cuEventElapsedTime_v2(float *milliseconds, Event *from, Event *to) {
  return cuEventElapsedTime(milliseconds, from, to);
}

// Graphs --------------------------------------------------------------------------------------------------------------

KVCSIM_API cuStreamBeginCapture_v2(Stream *stream, int mode) {
  return withContext([&](Context &context) { return context.streams.beginCapture(stream, mode); });
}
KVCSIM_API cuStreamEndCapture(Stream *stream, Graph **graph) {
  return withContext([&](Context &context) { return context.streams.endCapture(stream, graph); });
}
KVCSIM_API cuStreamIsCapturing(Stream *stream, int *status) {
  return withContext([&](Context &context) { return context.streams.isCapturing(stream, status); });
}
KVCSIM_API cuGraphInstantiateWithFlags(GraphExec **exec, Graph *graph, unsigned long long flags) {
  return withContext([&](Context &context) { return context.streams.instantiate(exec, graph); });
}
KVCSIM_API cuGraphLaunch(GraphExec *exec, Stream *stream) {
  return withContext([&](Context &context) {
    return context.streams.launch(exec, stream, [&] { return context.failed != Success; });
  });
}
KVCSIM_API cuGraphUpload(GraphExec *exec, Stream *stream) {
  return withContext([&](Context &context) -> int {
    return context.streams.find(stream) ? context.streams.check(exec)
                                        : error(InvalidHandle, "expects a stream of this context");
  });
}
KVCSIM_API cuGraphDestroy(Graph *graph) {
  return withContext([&](Context &context) { return context.streams.destroy(graph); });
}
KVCSIM_API cuGraphExecDestroy(GraphExec *exec) {
  return withContext([&](Context &context) { return context.streams.destroy(exec); });
}
