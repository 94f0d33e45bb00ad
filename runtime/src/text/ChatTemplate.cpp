//===- ChatTemplate.cpp - Chat turns to one prompt ------------------------===//
//
// Evaluates the syntax tree of a chat template over a conversation.
//
//===----------------------------------------------------------------------===//
#include "text/ChatTemplate.h"

#include "text/ChatSyntax.h"
#include "text/ChatValues.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvc::text {

using namespace chat;

struct ChatTemplate::Program {
  std::vector<Node> nodes;
};

namespace {

constexpr size_t maxOutput = size_t(1) << 26;   ///< bytes, of the result and of any string
constexpr size_t maxElements = size_t(1) << 20; ///< of any list
constexpr int64_t maxSteps = 1'000'000;         ///< evaluations

class Evaluator {
public:
  explicit Evaluator(Map globals) { scopes.push_back(std::move(globals)); }

  Result<std::string> run(const std::vector<Node> &nodes) {
    KVC_RETURN_IF_ERROR(statements(nodes));
    return std::move(output);
  }

private:
  Status located(const Status &status, int line) const {
    return status.message().starts_with("chat template, ") ? status : error(status.code(), line, status.message());
  }

  Status step(int line) {
    return ++steps > maxSteps ? error(StatusCode::outOfRange, line, "expects an end, but the template works on")
                              : Status();
  }

  //===--------------------------------------------------------------------===//
  // Statements
  //===--------------------------------------------------------------------===//

  Status statements(const std::vector<Node> &nodes) {
    for (const Node &node : nodes) {
      KVC_RETURN_IF_ERROR(step(node.line));
      if (Status status = statement(node); !status.ok()) {
        return located(status, node.line);
      }
    }
    return {};
  }

  Status statement(const Node &node) {
    switch (node.kind) {
    case Node::Kind::text:
      return print(node.text, node.line);
    case Node::Kind::output: {
      KVC_ASSIGN_OR_RETURN(Value value, evaluate(*node.expr));
      KVC_ASSIGN_OR_RETURN(std::string text, value.print());
      return print(text, node.line);
    }
    case Node::Kind::branch: {
      KVC_ASSIGN_OR_RETURN(Value condition, evaluate(*node.expr));
      return statements(condition.truthy() ? node.body : node.other);
    }
    case Node::Kind::assign:
      return assign(node);
    case Node::Kind::loop:
      return loop(node);
    }
    return {};
  }

  Status print(const std::string &text, int line) {
    output += text;
    return output.size() > maxOutput ? error(StatusCode::outOfRange, line, "the output is too long") : Status();
  }

  Status assign(const Node &node) {
    KVC_ASSIGN_OR_RETURN(Value value, evaluate(*node.expr));
    if (node.attribute.empty()) {
      scopes.back()[node.text] = std::move(value);
      return {};
    }
    Value target = lookUp(node.text);
    if (!target.isMap() || std::ranges::find(namespaces, &target.map()) == namespaces.end()) {
      return {StatusCode::invalidArgument,
              fmt::format("expects a namespace as '{}', but got {}", node.text, target.typeName())};
    }
    // A namespace that holds itself would never be freed.
    if (value.isMap() || value.isList()) {
      return {StatusCode::unsupported,
              fmt::format("{} as '{}.{}' is not understood", value.typeName(), node.text, node.attribute)};
    }
    target.map()[node.attribute] = std::move(value);
    return {};
  }

  Status loop(const Node &node) {
    KVC_ASSIGN_OR_RETURN(Value iterated, evaluate(*node.expr));
    if (!iterated.isList()) {
      return {StatusCode::invalidArgument, fmt::format("expects a list to loop over, but got {}", iterated.typeName())};
    }
    List elements;
    if (node.condition) {
      for (const Value &element : iterated.list()) {
        KVC_RETURN_IF_ERROR(step(node.line));
        scopes.push_back({{node.text, element}});
        Result<Value> keep = evaluate(*node.condition);
        scopes.pop_back();
        KVC_RETURN_IF_ERROR(keep.status());
        if (keep->truthy()) {
          elements.push_back(element);
        }
      }
    } else {
      elements = iterated.list();
    }
    int64_t count = int64_t(elements.size());
    for (int64_t i = 0; i < count; ++i) {
      KVC_RETURN_IF_ERROR(step(node.line));
      auto info = std::make_shared<Map>(Map{{"index", i + 1},
                                            {"index0", i},
                                            {"revindex", count - i},
                                            {"revindex0", count - i - 1},
                                            {"first", i == 0},
                                            {"last", i + 1 == count},
                                            {"length", count}});
      if (i > 0) {
        info->emplace("previtem", elements[i - 1]);
      }
      if (i + 1 < count) {
        info->emplace("nextitem", elements[i + 1]);
      }
      scopes.push_back({{node.text, elements[i]}, {"loop", Value(std::move(info))}});
      Status status = statements(node.body);
      scopes.pop_back();
      KVC_RETURN_IF_ERROR(std::move(status));
    }
    return {};
  }

  //===--------------------------------------------------------------------===//
  // Expressions
  //===--------------------------------------------------------------------===//

  Value lookUp(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      if (auto it = scope->find(name); it != scope->end()) {
        return it->second;
      }
    }
    return {};
  }

  Result<Value> evaluate(const Expr &expr) {
    KVC_RETURN_IF_ERROR(step(expr.line));
    Result<Value> value = compute(expr);
    if (!value.ok()) {
      return located(value.status(), expr.line);
    }
    if (value->is<std::string>() && value->as<std::string>().size() > maxOutput) {
      return error(StatusCode::outOfRange, expr.line, "a string is too long");
    }
    if (value->isList() && value->list().size() > maxElements) {
      return error(StatusCode::outOfRange, expr.line, "a list is too long");
    }
    return value;
  }

  Result<std::vector<Value>> evaluateAll(std::span<const ExprPtr> exprs) {
    std::vector<Value> values;
    for (const ExprPtr &expr : exprs) {
      KVC_ASSIGN_OR_RETURN(Value value, evaluate(*expr));
      values.push_back(std::move(value));
    }
    return values;
  }

  Result<Value> compute(const Expr &expr) {
    using Kind = Expr::Kind;
    switch (expr.kind) {
    case Kind::undefined:
      return Value();
    case Kind::none:
      return Value(None());
    case Kind::boolean:
      return Value(expr.number != 0);
    case Kind::integer:
      return Value(expr.number);
    case Kind::string:
      return Value(expr.text);
    case Kind::name:
      return lookUp(expr.text);
    case Kind::call:
      return call(expr);
    case Kind::choice: {
      KVC_ASSIGN_OR_RETURN(Value condition, evaluate(*expr.operands[1]));
      return evaluate(*expr.operands[condition.truthy() ? 0 : 2]);
    }
    case Kind::binary:
      if (expr.text == "and" || expr.text == "or") {
        KVC_ASSIGN_OR_RETURN(Value left, evaluate(*expr.operands[0]));
        return left.truthy() == (expr.text == "or") ? Result<Value>(std::move(left)) : evaluate(*expr.operands[1]);
      }
      break;
    default:
      break;
    }
    KVC_ASSIGN_OR_RETURN(std::vector<Value> v, evaluateAll(expr.operands));
    switch (expr.kind) {
    case Kind::list:
      return Value(std::make_shared<List>(std::move(v)));
    case Kind::attribute:
      return member(v[0], Value(expr.text));
    case Kind::index:
      return member(v[0], v[1]);
    case Kind::slice:
      return slice(v[0], v[1], v[2]);
    case Kind::method:
      KVC_RETURN_IF_ERROR(noKeywords(expr));
      return applyMethod(expr.text, v[0], std::span(v).subspan(1));
    case Kind::filter:
      KVC_RETURN_IF_ERROR(noKeywords(expr));
      return applyFilter(expr.text, v[0], std::span(v).subspan(1));
    case Kind::test: {
      KVC_ASSIGN_OR_RETURN(bool holds, applyTest(expr.text, v[0]));
      return Value(holds);
    }
    case Kind::unary:
      if (expr.text == "not") {
        return Value(!v[0].truthy());
      }
      return applyBinary(expr.text, Value(int64_t(0)), v[0]);
    default: // binary
      return applyBinary(expr.text, v[0], v[1]);
    }
  }

  static Status noKeywords(const Expr &expr) {
    bool none = std::ranges::all_of(expr.keywords, [](const std::string &keyword) { return keyword.empty(); });
    return none ? Status()
                : Status(StatusCode::unsupported, fmt::format("keywords of '{}' are not understood", expr.text));
  }

  static Result<Value> member(const Value &value, const Value &key) {
    if (value.isMap() && key.is<std::string>()) {
      auto it = value.map().find(key.as<std::string>());
      return it == value.map().end() ? Value() : it->second;
    }
    if (value.isList() && key.is<int64_t>()) {
      int64_t size = int64_t(value.list().size()), i = key.as<int64_t>();
      i += i < 0 ? size : 0;
      return i >= 0 && i < size ? value.list()[i] : Value();
    }
    if (value.is<Undefined>() || value.is<None>()) {
      return Status(StatusCode::invalidArgument,
                    fmt::format("expects a list or a map before '{}', but got {}",
                                key.is<std::string>() ? key.as<std::string>() : "[]", value.typeName()));
    }
    return Value();
  }

  static Result<Value> slice(const Value &value, const Value &first, const Value &last) {
    if (!value.isList()) {
      return Status(StatusCode::unsupported, fmt::format("a slice of {} is not understood", value.typeName()));
    }
    const List &list = value.list();
    auto bound = [&](const Value &v, int64_t absent) {
      int64_t size = int64_t(list.size()), i = v.is<int64_t>() ? v.as<int64_t>() : absent;
      return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
    };
    int64_t begin = bound(first, 0), end = bound(last, int64_t(list.size()));
    return Value(std::make_shared<List>(list.begin() + begin, list.begin() + std::max(begin, end)));
  }

  Result<Value> call(const Expr &expr) {
    KVC_ASSIGN_OR_RETURN(std::vector<Value> arguments, evaluateAll(expr.operands));
    if (expr.text == "raise_exception" && arguments.size() == 1 && arguments[0].is<std::string>()) {
      return Status(StatusCode::invalidArgument,
                    "the template refuses the conversation: " + arguments[0].as<std::string>());
    }
    if (expr.text == "namespace") {
      auto members = std::make_shared<Map>();
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (expr.keywords[i].empty() || arguments[i].isMap() || arguments[i].isList()) {
          return Status(StatusCode::unsupported,
                        "expects 'name = value' with a plain value as arguments of 'namespace'");
        }
        (*members)[expr.keywords[i]] = std::move(arguments[i]);
      }
      namespaces.push_back(members.get());
      owned.push_back(members);
      return Value(std::move(members));
    }
    return Status(StatusCode::unsupported, fmt::format("the function '{}' is not understood", expr.text.substr(0, 40)));
  }

  std::vector<Map> scopes;
  std::vector<const Map *> namespaces;
  std::vector<std::shared_ptr<Map>> owned; ///< keeps the addresses in `namespaces` unique
  std::string output;
  int64_t steps = 0;
};

} // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  KVC_ASSIGN_OR_RETURN(std::vector<Node> nodes, parseTemplate(source));
  ChatTemplate result;
  result.program = std::make_shared<Program>(Program{std::move(nodes)});
  return result;
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  auto list = std::make_shared<List>();
  for (const ChatMessage &message : messages) {
    list->push_back(std::make_shared<Map>(Map{{"role", message.role}, {"content", message.content}}));
  }
  return Evaluator({{"messages", std::move(list)},
                    {"add_generation_prompt", options.addGenerationPrompt},
                    {"bos_token", options.bosToken},
                    {"eos_token", options.eosToken}})
      .run(program->nodes);
}

Result<Encoding> encodeChat(const Tokenizer &tokenizer, std::span<const ChatMessage> messages,
                            bool addGenerationPrompt) {
  if (tokenizer.chatTemplate().empty()) {
    return Status(StatusCode::unsupported, "expects a model with a chat template (key 'tokenizer.chat_template'), but "
                                           "got one without");
  }
  KVC_ASSIGN_OR_RETURN(ChatTemplate chatTemplate, ChatTemplate::parse(tokenizer.chatTemplate()));
  auto text = [&](std::optional<int32_t> id) { return id ? std::string(tokenizer.tokenText(*id)) : std::string(); };
  KVC_ASSIGN_OR_RETURN(std::string prompt, chatTemplate.render(messages, {.addGenerationPrompt = addGenerationPrompt,
                                                                          .bosToken = text(tokenizer.bos()),
                                                                          .eosToken = text(tokenizer.eos())}));
  // The template itself writes the BOS that the model wants.
  return tokenizer.encode(prompt, {.parseSpecial = true, .addBos = false});
}

} // namespace kvc::text
