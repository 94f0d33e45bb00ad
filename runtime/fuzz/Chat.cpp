//===- Chat.cpp - Fuzzer of chat templates --------------------------------===//
//
// The input is a template, as a model file brings one; it renders a short
// conversation.
//
//===----------------------------------------------------------------------===//
#include "text/ChatTemplate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto chat = kvc::text::ChatTemplate::parse({reinterpret_cast<const char *>(data), size});
  if (chat.ok()) {
    const kvc::text::ChatMessage messages[] = {{"system", "Be brief."}, {"user", "Hello"}};
    (void)chat->render(messages);
  }
  return 0;
}
