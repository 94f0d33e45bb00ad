//===- Stream.cpp - Streams, events and graphs of the HIP interface -------===//
#include "hip/Runtime.h"

using namespace kvc::sim;
using namespace kvc::sim::hip;

// Streams -------------------------------------------------------------------------------------------------------------

KVCSIM_API hipStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return withDevice([&](Device &device) { return device.streams.create(stream, flags, priority); });
}
KVCSIM_API hipStreamCreateWithFlags(Stream **stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}
KVCSIM_API hipStreamCreate(Stream **stream) { return hipStreamCreateWithFlags(stream, 0); }
KVCSIM_API hipStreamDestroy(Stream *stream) {
  return withDevice([&](Device &device) { return device.streams.destroy(stream); });
}
KVCSIM_API hipStreamSynchronize(Stream *stream) {
  return withDevice([&](Device &device) { return device.streams.refuseOf(stream, "synchronisation"); });
}
KVCSIM_API hipStreamQuery(Stream *stream) {
  return withDevice([&](Device &device) { return device.streams.refuseOf(stream, "query"); });
}
KVCSIM_API hipStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  return withDevice([&](Device &device) { return device.streams.waitFor(stream, event); });
}
KVCSIM_API hipLaunchHostFunc(Stream *stream, void (*function)(void *), void *data) {
  return withDevice([&](Device &device) {
    return device.streams.enqueue(stream, [function, data] {
      function(data);
      return Success;
    });
  });
}

// Events --------------------------------------------------------------------------------------------------------------

KVCSIM_API hipEventCreateWithFlags(Event **event, unsigned flags) {
  return withDevice([&](Device &device) { return device.streams.create(event); });
}
KVCSIM_API hipEventCreate(Event **event) { return hipEventCreateWithFlags(event, 0); }
KVCSIM_API hipEventDestroy(Event *event) {
  return withDevice([&](Device &device) { return device.streams.destroy(event); });
}
KVCSIM_API hipEventRecord(Event *event, Stream *stream) {
  return withDevice([&](Device &device) { return device.streams.record(event, stream); });
}
KVCSIM_API hipEventSynchronize(Event *event) {
  return withDevice([&](Device &device) { return device.streams.refuseOf(event, "wait for an event"); });
}
KVCSIM_API hipEventQuery(Event *event) {
  return withDevice([&](Device &device) { return device.streams.refuseOf(event, "query of an event"); });
}
KVCSIM_API hipEventElapsedTime(float *milliseconds, Event *from, Event *to) {
  return withDevice([&](Device &device) { return device.streams.elapsed(milliseconds, from, to); });
}

// Graphs --------------------------------------------------------------------------------------------------------------

KVCSIM_API hipStreamBeginCapture(Stream *stream, int mode) {
  return withDevice([&](Device &device) { return device.streams.beginCapture(stream, mode); });
}
KVCSIM_API hipStreamEndCapture(Stream *stream, Graph **graph) {
  return withDevice([&](Device &device) { return device.streams.endCapture(stream, graph); });
}
KVCSIM_API hipStreamIsCapturing(Stream *stream, int *status) {
  return withDevice([&](Device &device) { return device.streams.isCapturing(stream, status); });
}
KVCSIM_API hipGraphInstantiateWithFlags(GraphExec **exec, Graph *graph, unsigned long long flags) {
  return withDevice([&](Device &device) { return device.streams.instantiate(exec, graph); });
}
KVCSIM_API hipGraphInstantiate(GraphExec **exec, Graph *graph, void **node, char *log, size_t bytes) {
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}
KVCSIM_API hipGraphLaunch(GraphExec *exec, Stream *stream) {
  return withDevice(
      [&](Device &device) { return device.streams.launch(exec, stream, [&] { return device.failed != Success; }); });
}
KVCSIM_API hipGraphDestroy(Graph *graph) {
  return withDevice([&](Device &device) { return device.streams.destroy(graph); });
}
KVCSIM_API hipGraphExecDestroy(GraphExec *exec) {
  return withDevice([&](Device &device) { return device.streams.destroy(exec); });
}
