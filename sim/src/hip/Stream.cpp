//===- Stream.cpp - Streams and events of the HIP interface ---------------===//
#include "hip/Runtime.h"

using namespace kvc::sim;
using namespace kvc::sim::hip;

bool kvc::sim::hip::isStream(const Device &device, const Stream *stream) {
  // 0, 1 and 2 stand for the default streams.
  return reinterpret_cast<uintptr_t>(stream) <= 2 || isIn(device.streams, stream);
}

template <typename F> static int withStream(const Stream *stream, F f) {
  return withDevice([&](Device &device) -> Result {
    return isStream(device, stream) ? f(device) : error(InvalidHandle, "expects a stream of this device");
  });
}

KVCSIM_API hipStreamCreateWithFlags(Stream **stream, unsigned flags) {
  return withDevice([&](Device &device) {
    auto created = std::make_unique<Stream>();
    created->flags = flags;
    *stream = addTo(device.streams, std::move(created));
    return Success;
  });
}
KVCSIM_API hipStreamCreate(Stream **stream) { return hipStreamCreateWithFlags(stream, 0); }
KVCSIM_API hipStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return hipStreamCreateWithFlags(stream, flags);
}
KVCSIM_API hipStreamDestroy(Stream *stream) {
  return withDevice([&](Device &device) -> Result {
    return removeFrom(device.streams, stream) ? Success : error(InvalidHandle, "expects a stream of this device");
  });
}
KVCSIM_API hipStreamSynchronize(Stream *stream) {
  return withStream(stream, [](Device &) { return Success; });
}
KVCSIM_API hipStreamQuery(Stream *stream) {
  return withStream(stream, [](Device &) { return Success; });
}
KVCSIM_API hipStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  return withStream(stream, [&](Device &device) -> Result {
    return isIn(device.events, event) ? Success : error(InvalidHandle, "expects an event of this device");
  });
}
KVCSIM_API hipLaunchHostFunc(Stream *stream, void (*function)(void *), void *data) {
  return withStream(stream, [&](Device &) {
    function(data);
    return Success;
  });
}

// Events --------------------------------------------------------------------------------------------------------------

KVCSIM_API hipEventCreateWithFlags(Event **event, unsigned flags) {
  return withDevice([&](Device &device) {
    *event = addTo(device.events, std::make_unique<Event>());
    return Success;
  });
}
KVCSIM_API hipEventCreate(Event **event) { return hipEventCreateWithFlags(event, 0); }

template <typename F> static int withEvent(Event *event, F f) {
  return withDevice([&](Device &device) -> Result {
    return isIn(device.events, event) ? f(device) : error(InvalidHandle, "expects an event of this device");
  });
}
KVCSIM_API hipEventDestroy(Event *event) {
  return withEvent(event, [&](Device &device) {
    removeFrom(device.events, event);
    return Success;
  });
}
KVCSIM_API hipEventRecord(Event *event, Stream *stream) {
  return withEvent(event, [&](Device &device) -> Result {
    if (!isStream(device, stream)) {
      return error(InvalidHandle, "expects a stream of this device");
    }
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    return Success;
  });
}
KVCSIM_API hipEventSynchronize(Event *event) {
  return withEvent(event, [](Device &) { return Success; });
}
KVCSIM_API hipEventQuery(Event *event) {
  return withEvent(event, [](Device &) { return Success; });
}
/// The time that the simulation took, not what the device would.
KVCSIM_API hipEventElapsedTime(float *milliseconds, Event *from, Event *to) {
  return withEvent(from, [&](Device &device) -> Result {
    if (!isIn(device.events, to) || !from->recorded || !to->recorded) {
      return error(InvalidHandle, "expects two events that were recorded");
    }
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return Success;
  });
}
