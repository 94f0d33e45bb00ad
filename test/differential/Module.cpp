//===- Module.cpp - The module of a kernel configuration ------------------===//
#include "Module.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace kvc::differential;
using llvm::StringRef;
using llvm::Twine;

StringRef kvc::differential::nameOf(Role role) {
  static constexpr llvm::StringLiteral names[] = {
      "cache", "prefix",      "batch",        "key",     "value",   "query",   "sink_logits", "capture",
      "tree",  "page_scores", "token_scores", "lengths", "dense_k", "dense_v", "source",      "destination"};
  return names[unsigned(role)];
}

StringRef kvc::differential::nameOf(ResultKind kind) {
  static constexpr llvm::StringLiteral names[] = {"cache", "out",      "lse",      "sum",    "max",   "count",
                                                  "rows",  "stored_k", "stored_v", "scores", "norms", "plane"};
  return names[unsigned(kind)];
}

//===----------------------------------------------------------------------===//
// Meaning of values
//===----------------------------------------------------------------------===//

static int64_t number(StringRef text) {
  int64_t value = 0;
  text.getAsInteger(10, value);
  return value;
}

/// A format in IR: `int4/channel` with groups of 16 is int4<group = 16, axis = channel>.
static std::string formatText(StringRef format, StringRef group, int64_t channels, int64_t page) {
  llvm::SmallVector<StringRef> parts;
  format.split(parts, '/');
  if (!parts[0].starts_with("int")) {
    return parts[0].str();
  }
  const bool channel = llvm::is_contained(parts, "channel");
  const int64_t size = group == "row" ? (channel ? page : channels) : number(group);
  std::string text = (parts[0] + "<group = " + Twine(size)).str();
  for (StringRef part : llvm::drop_begin(parts)) {
    text += part == "channel" ? ", axis = channel" : part == "symmetric" ? ", symmetric" : (", scale = " + part).str();
  }
  return text + ">";
}

/// Whether several tokens share a scale.
static bool isGroupOfTokens(StringRef format, StringRef group, int64_t page) {
  return format.contains("/channel") && (group == "row" ? page : number(group)) > 1;
}

static std::string ropeText(StringRef rope, int64_t dim) {
  const bool adjacent = rope == "append/adjacent";
  const int64_t dims = (adjacent ? dim / 2 : dim) & ~int64_t(1);
  return "<base = 10000.0 : f32, dims = " + std::to_string(dims) + ", pairing = " + (adjacent ? "adjacent" : "half") +
         ">";
}

Meaning::Meaning(const Config &config) {
  page = number(config[AxisPage]);
  auto [k, v] = config[AxisDim].split('x');
  dim = number(k);
  vDim = v.empty() ? dim : number(v);
  kvHeads = number(config[AxisHeads]);
  queryHeads = kvHeads * number(config[AxisGqa]);
  perHead = config[AxisTables] == "per_head";
  stored = config[AxisSlots] != "implicit";
  llvm::SmallVector<StringRef> ring;
  config[AxisSlots].split(ring, '/');
  if (ring.size() == 3) {
    window = number(ring[1]);
    sinks = number(ring[2]);
  }
  const StringRef op = config[AxisOp], selection = config[AxisSelection];
  minmax = op == "scores" || selection == "page" || op == "compact" || op == "rebase";
  score = op == "scores" || op == "accumulate" || op == "evict";
  norm = op == "scores" || op == "compact" || op == "fork";
  if (config[AxisMask].contains("window")) {
    maskWindow = 13;
  }
  keep = selection == "token" ? Keep{9, 2, 3} : Keep{3, 1, 1};

  std::string type = "!kvcache.cache<heads = " + std::to_string(kvHeads) + ", dim = " + std::to_string(dim) +
                     ", v_dim = " + std::to_string(vDim) + ", page = " + std::to_string(page);
  std::string rest = stored ? ", positions = stored" : "";
  rest += perHead ? ", tables = per_head" : "";
  if (window) {
    rest += ", window = " + std::to_string(window) + ", sinks = " + std::to_string(sinks);
  }
  if (config[AxisRope] == "load") {
    rest += ", rope = #kvcache.rope" + ropeText("load", dim);
  }
  llvm::SmallVector<StringRef> planes;
  for (auto [has, name] : {std::pair<bool, StringRef>{minmax, "minmax"}, {score, "score"}, {norm, "norm"}}) {
    if (has) {
      planes.push_back(name);
    }
  }
  if (!planes.empty()) {
    rest += ", planes = [" + llvm::join(planes, ", ") + "]";
  }
  bounds = config[AxisRope] != "load";
  auto [residual, exact] = config[AxisResidual].split('/');
  tailType = exact.empty() ? "f16" : exact.str();
  tail = residual != "0" || isGroupOfTokens(config[AxisK], config[AxisGroup], page) ||
         isGroupOfTokens(config[AxisV], config[AxisGroup], page);
  cacheType = type + ", k = " + formatText(config[AxisK], config[AxisGroup], dim, page) +
              ", v = " + formatText(config[AxisV], config[AxisGroup], vDim, page) + ", residual = " + residual.str() +
              ", tail = " + tailType + rest + ">";
  requantizedType = type + ", k = int8<group = " + std::to_string(dim) + ">, v = bf16" + rest + ">";
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Module::Module(const Config &config) : config(config), meaning(config) {
  const bool two = config[AxisSegments] == "2";
  const StringRef op = config[AxisOp];
  std::vector<Role> extras;
  if (config[AxisSelection] != "none") {
    extras.push_back(config[AxisSelection] == "page" ? Role::PageScores : Role::TokenScores);
  }
  if (config[AxisMask] == "causal/tree") {
    extras.push_back(Role::Tree);
  }
  if (config[AxisSinkLogits] == "yes") {
    extras.push_back(Role::SinkLogits);
  }
  if (config[AxisScore] == "capture") {
    extras.push_back(Role::Capture);
  }
  std::vector<ResultKind> results{ResultKind::Out};
  if (config[AxisReturns] != "out") {
    results.push_back(ResultKind::Lse);
  }
  if (StringRef stat = config[AxisReturns]; stat == "sum" || stat == "max" || stat == "count") {
    results.push_back(stat == "sum" ? ResultKind::Sum : stat == "max" ? ResultKind::Max : ResultKind::Count);
  }
  auto add = [&](FunctionKind kind, llvm::StringLiteral name, std::vector<Role> arguments,
                 std::vector<ResultKind> results, bool withExtras = false) {
    if (withExtras) {
      llvm::append_range(arguments, extras);
    }
    functions.push_back({kind, name, std::move(arguments), std::move(results)});
  };
  auto withPrefix = [&](std::vector<Role> roles) {
    if (two) {
      roles.insert(roles.begin(), Role::Prefix);
    }
    return roles;
  };
  add(FunctionKind::Append, "append", {Role::Cache, Role::Batch, Role::Key, Role::Value}, {ResultKind::Cache});
  add(FunctionKind::Attend, "attend", withPrefix({Role::Cache, Role::Batch, Role::Query}), results, true);
  std::vector<ResultKind> stepResults = results;
  stepResults.push_back(ResultKind::Cache);
  add(FunctionKind::Step, "step", withPrefix({Role::Cache, Role::Batch, Role::Key, Role::Value, Role::Query}),
      stepResults, true);
  if (two) {
    add(FunctionKind::AppendPrefix, "append_prefix", {Role::Prefix, Role::Batch, Role::Key, Role::Value},
        {ResultKind::Cache});
  }
  using Roles = std::vector<Role>;
  using Kinds = std::vector<ResultKind>;
  auto change =
      llvm::StringSwitch<std::pair<Roles, Kinds>>(op)
          .Case("rope", {{Role::Batch, Role::Query}, {ResultKind::Rows}})
          .Case("merge_states", {{Role::Cache, Role::Batch, Role::Query}, {ResultKind::Out, ResultKind::Lse}})
          .Case("scores",
                {{Role::Cache, Role::Batch, Role::Query},
                 {ResultKind::Scores, ResultKind::Norms, ResultKind::Plane, ResultKind::Scores, ResultKind::Norms}})
          .Case("truncate", {{Role::Cache, Role::Batch, Role::Lengths}, {ResultKind::Cache}})
          .Cases({"seal", "rebase"}, {{Role::Cache, Role::Batch}, {ResultKind::Cache}})
          .Case("fork", {{Role::Cache, Role::Source, Role::Destination}, {ResultKind::Cache}})
          .Case("import", {{Role::Cache, Role::Batch, Role::DenseK, Role::DenseV, Role::Lengths}, {ResultKind::Cache}})
          .Cases({"evict", "compact", "accumulate"},
                 {{Role::Cache, Role::Batch, Role::TokenScores}, {ResultKind::Cache}})
          .Case("requantize", {{Role::Cache, Role::Batch}, {ResultKind::StoredK, ResultKind::StoredV}})
          .Default({});
  if (op == "scores" && meaning.bounds) {
    change.second.push_back(ResultKind::Scores);
  }
  if (op != "none") {
    add(FunctionKind::Change, "change", change.first, change.second);
  }
  Roles dumpRoles{Role::Cache, Role::Batch};
  Kinds dumpKinds{ResultKind::StoredK, ResultKind::StoredV};
  if (meaning.minmax && meaning.bounds) {
    dumpRoles.push_back(Role::Query);
    dumpKinds.push_back(ResultKind::Scores);
  }
  if (meaning.score) {
    dumpKinds.push_back(ResultKind::Plane);
  }
  if (meaning.norm) {
    dumpKinds.push_back(ResultKind::Norms);
  }
  add(FunctionKind::Dump, "dump", dumpRoles, dumpKinds);
}

const Function *Module::find(FunctionKind kind) const {
  auto found = llvm::find_if(functions, [&](const Function &f) { return f.kind == kind; });
  return found == functions.end() ? nullptr : &*found;
}

static std::string tensor(std::initializer_list<int64_t> shape, StringRef element) {
  std::string text = "tensor<";
  for (int64_t extent : shape) {
    text += (extent < 0 ? "?" : std::to_string(extent)) + "x";
  }
  return text + element.str() + ">";
}

std::string Module::typeOf(Role role) const {
  const Meaning &m = meaning;
  switch (role) {
  case Role::Cache:
  case Role::Prefix:
    return m.cacheType;
  case Role::Batch:
    return "!kvcache.batch";
  case Role::Key:
    return tensor({-1, m.kvHeads, m.dim}, "f32");
  case Role::Value:
    return tensor({-1, m.kvHeads, m.vDim}, "f32");
  case Role::Query:
    return tensor({-1, m.queryHeads, m.dim}, "f32");
  case Role::SinkLogits:
    return tensor({m.queryHeads}, "f32");
  case Role::Capture:
    return "f32";
  case Role::Tree:
    return tensor({-1, -1}, "i8");
  case Role::PageScores:
  case Role::TokenScores:
    return tensor({-1, m.kvHeads, -1}, "f32");
  case Role::Lengths:
    return tensor({-1}, "i32");
  case Role::DenseK:
    return tensor({-1, -1, m.kvHeads, m.dim}, "f32");
  case Role::DenseV:
    return tensor({-1, -1, m.kvHeads, m.vDim}, "f32");
  case Role::Source:
  case Role::Destination:
    return "index";
  }
  return "";
}

std::string Module::typeOf(ResultKind kind) const {
  const Meaning &m = meaning;
  switch (kind) {
  case ResultKind::Cache:
    return m.cacheType;
  case ResultKind::Out:
    return tensor({-1, m.queryHeads, m.vDim}, "f32");
  case ResultKind::Lse:
    return tensor({-1, m.queryHeads}, "f32");
  case ResultKind::Rows:
    return tensor({-1, m.queryHeads, m.dim}, "f32");
  case ResultKind::StoredK:
    return tensor({-1, -1, m.kvHeads, m.dim}, "f32");
  case ResultKind::StoredV:
    return tensor({-1, m.kvHeads, -1, m.vDim}, "f32");
  default:
    return tensor({-1, m.kvHeads, -1}, "f32");
  }
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Writes operations with their types.
class Module::Writer {
public:
  Writer(const Module &module, const std::map<Role, std::string> &names, std::string &body, unsigned &next)
      : module(module), m(module.meaning), config(module.config), names(names), body(body), next(next) {}

  /// Empty for what the function does not take.
  std::string at(Role role) const {
    auto found = names.find(role);
    return found == names.end() ? "" : found->second;
  }
  const std::string &cacheType() const { return m.cacheType; }
  std::string scoresType() const { return module.typeOf(ResultKind::Scores); }

  std::vector<std::string> emit(const Twine &text, unsigned results = 1) {
    std::vector<std::string> made;
    for (unsigned i = 0; i < results; ++i) {
      made.push_back("%" + std::to_string(next++));
    }
    body += "  " + llvm::join(made, ", ") + " = " + text.str() + "\n";
    return made;
  }

  std::string append(Role cache) {
    std::string by =
        StringRef(config[AxisRope]).starts_with("append") ? " by " + ropeText(config[AxisRope], m.dim) : "";
    return emit("kvcache.append " + at(cache) + ", " + at(Role::Key) + ", " + at(Role::Value) + " at " +
                at(Role::Batch) + by + " : " + cacheType() + ", " + module.typeOf(Role::Key) + ", " +
                module.typeOf(Role::Value))[0];
  }

  std::string topk(StringRef unit, const std::string &scores, const std::string &cache, Keep keep) {
    return emit("kvcache.topk " + unit + " " + scores + ", " + cache + " at " + at(Role::Batch) + " {k = " +
                Twine(keep.k) + " : i64, first = " + Twine(keep.first) + " : i64, last = " + Twine(keep.last) +
                " : i64} : " + scoresType() + ", " + cacheType() + " -> !kvcache.selection<" + unit + ">")[0];
  }

  std::string score(StringRef kind, const std::string &cache, bool withQuery) {
    std::string query = withQuery ? at(Role::Query) + ", " : "",
                type = withQuery ? module.typeOf(Role::Query) + ", " : "";
    return emit("\"kvcache.score\"(" + query + cache + ", " + at(Role::Batch) + ") <{kind = #kvcache<score_kind " +
                kind + ">}> : (" + type + cacheType() + ", !kvcache.batch) -> " + scoresType())[0];
  }

  std::vector<std::string> exports(const std::string &cache, const std::string &type) {
    std::vector<std::string> made;
    for (auto [plane, layout, result] : {std::tuple<StringRef, StringRef, ResultKind>{"k", "nhd", ResultKind::StoredK},
                                         {"v", "hnd", ResultKind::StoredV}}) {
      made.push_back(emit("kvcache.export " + plane + " " + cache + " at " + at(Role::Batch) +
                          " {layout = #kvcache.dense_layout<" + layout + ">} : " + type + " -> " +
                          module.typeOf(result))[0]);
    }
    return made;
  }

  std::string region() const {
    const StringRef kind = config[AxisScore];
    if (kind == "none") {
      return "";
    }
    std::string ops =
        kind == "soft_cap" ? "%t = kvcache.soft_cap %s, 3.0\n"
        : kind == "alibi"  ? "%t = kvcache.alibi %s, %h, %qp, %kp of " + std::to_string(m.queryHeads) + " heads\n"
        : kind == "capture"
            // A product with the capture, a term of the entry and the distance, a clamp.
            ? "%i = arith.index_cast %e : index to i32\n    %f = arith.sitofp %i : i32 to f32\n"
              "    %d = arith.subi %qp, %kp : index\n    %j = arith.index_cast %d : index to i32\n"
              "    %g = arith.sitofp %j : i32 to f32\n    %c0 = arith.constant 0.01 : f32\n"
              "    %p = arith.mulf %s, %a : f32\n    %u = arith.mulf %g, %c0 : f32\n    %w = arith.subf %p, %u : f32\n"
              "    %x = arith.addf %w, %f : f32\n    %low = arith.constant -8.0 : f32\n"
              "    %t = arith.maximumf %x, %low : f32\n"
            // A score of -inf, which is not a mask.
            : "%two = arith.constant 2 : index\n    %zero = arith.constant 0 : index\n"
              "    %r = arith.remui %kp, %two : index\n    %even = arith.cmpi eq, %r, %zero : index\n"
              "    %low = arith.constant 0xFF800000 : f32\n    %t = arith.select %even, %low, %s : f32\n";
    return " score {\n  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index" +
           std::string(kind == "capture" ? ", %a: f32" : "") + "):\n    " + ops + "    kvcache.yield %t\n  }";
  }

  /// `mask` and `results` as in the axes.
  std::vector<std::string> attention(const std::string &cache, StringRef mask, llvm::ArrayRef<ResultKind> results,
                                     bool bare = false) {
    std::string text = "kvcache.attention " + at(Role::Query) + " over ", types = module.typeOf(Role::Query) + ", ";
    std::vector<std::string> attributes{"scale = " + llvm::formatv("{0:f6}", 1 / std::sqrt(double(m.dim))).str() +
                                        " : f32"};
    const bool two = config[AxisSegments] == "2" && !bare;
    if (two) {
      text += at(Role::Prefix) + ", ";
      types += cacheType() + ", ";
    }
    std::string selected;
    if (config[AxisSelection] != "none" && !bare) {
      const bool isPage = config[AxisSelection] == "page";
      selected = topk(config[AxisSelection], at(isPage ? Role::PageScores : Role::TokenScores), cache, m.keep);
    }
    text += cache + " at " + at(Role::Batch);
    types += cacheType() + ", !kvcache.batch";
    if (!selected.empty()) {
      text += " select " + selected;
      types += ", !kvcache.selection<" + config[AxisSelection].str() + ">";
      attributes.push_back(std::string("selected_segments = array<i64: ") + (two ? "1" : "0") + ">");
    }
    if (mask.contains("tree")) {
      text += " tree " + at(Role::Tree);
      types += ", " + module.typeOf(Role::Tree);
    }
    if (config[AxisSinkLogits] == "yes" && !bare) {
      text += " sink_logits " + at(Role::SinkLogits);
      types += ", " + module.typeOf(Role::SinkLogits);
    }
    if (config[AxisScore] == "capture" && !bare) {
      text += " capture " + at(Role::Capture);
      types += ", f32";
    }
    if (mask.contains("causal")) {
      attributes.push_back("causal");
    }
    if (mask.contains("window")) {
      attributes.push_back("window = " + std::to_string(*m.maskWindow) + " : i64");
    }
    if (mask.contains("sinks")) {
      attributes.push_back("sinks = 3 : i64");
    }
    std::string returns, resultTypes;
    for (ResultKind kind : results) {
      const bool isStat = kind == ResultKind::Sum || kind == ResultKind::Max || kind == ResultKind::Count;
      if (isStat) {
        const int64_t rows = kind == ResultKind::Sum ? 0 : kind == ResultKind::Max ? 3 : 5;
        attributes.push_back(
            ("stat = #kvcache.stat<" + nameOf(kind) + ">, stat_rows = " + Twine(rows) + " : i64").str());
      }
      const std::string comma = returns.empty() ? "" : ", ";
      returns += comma + (isStat ? "stats" : nameOf(kind).str());
      resultTypes += comma + module.typeOf(kind);
    }
    return emit(text + " returns (" + returns + ") {" + llvm::join(attributes, ", ") + "}" + (bare ? "" : region()) +
                    " : (" + types + ") -> (" + resultTypes + ")",
                results.size());
  }

  std::vector<std::string> change() {
    const StringRef op = config[AxisOp];
    const std::string &type = cacheType();
    const std::string batch = at(Role::Batch);
    if (op == "rope") {
      return emit("kvcache.rope " + at(Role::Query) + " at " + batch + " by " + ropeText("append", m.dim) + " : " +
                  module.typeOf(Role::Query));
    }
    const std::string cache = at(Role::Cache);
    if (op == "merge_states") {
      const ResultKind both[] = {ResultKind::Out, ResultKind::Lse};
      auto a = attention(cache, "causal", both, true), b = attention(cache, "none", both, true);
      return emit("kvcache.merge_states " + a[0] + ", " + a[1] + ", " + b[0] + ", " + b[1] + " : " +
                      module.typeOf(ResultKind::Out) + ", " + module.typeOf(ResultKind::Lse),
                  2);
    }
    if (op == "scores") {
      std::string dot = score("dot", cache, true), norm = score("key_norm", cache, false);
      std::vector<std::string> made{dot, norm, score("plane", cache, false),
                                    emit("kvcache.pool \"max\" " + dot + " {kernel = 5 : i64} : " + scoresType())[0],
                                    emit("kvcache.pool \"mean\" " + norm + " {kernel = 3 : i64} : " + scoresType())[0]};
      if (m.bounds) {
        made.push_back(score("bound", cache, true));
      }
      return made;
    }
    if (op == "truncate") {
      return emit("kvcache.truncate " + cache + " to " + at(Role::Lengths) + " at " + batch + " : " + type + ", " +
                  module.typeOf(Role::Lengths));
    }
    if (op == "seal") {
      return emit("kvcache.seal " + cache + " at " + batch + " : " + type);
    }
    if (op == "rebase") {
      return emit("kvcache.rebase " + cache + " at " + batch + " by " + ropeText("append", m.dim) + " : " + type);
    }
    if (op == "import") {
      return emit("kvcache.import " + cache + ", " + at(Role::DenseK) + ", " + at(Role::DenseV) + ", " +
                  at(Role::Lengths) + " at " + batch + " {layout = #kvcache.dense_layout<nhd>} : " + type + ", " +
                  module.typeOf(Role::DenseK) + ", " + module.typeOf(Role::DenseV) + ", " +
                  module.typeOf(Role::Lengths));
    }
    if (op == "evict") {
      return emit("kvcache.evict " + cache + " by " + at(Role::TokenScores) + " at " + batch +
                  " {budget = 11 : i64, first = 2 : i64, last = 4 : i64} : " + type + ", " + scoresType());
    }
    if (op == "compact") {
      std::string keep = topk("token", at(Role::TokenScores), cache, {10, 1, 3});
      return emit("kvcache.compact " + cache + " keep " + keep + " at " + batch + " : " + type +
                  ", !kvcache.selection<token>");
    }
    if (op == "accumulate") {
      return emit("kvcache.accumulate decay " + cache + ", " + at(Role::TokenScores) + " at " + batch +
                  " {decay = 0.75 : f32} : " + type + ", " + scoresType());
    }
    if (op == "requantize") {
      std::string to =
          emit("kvcache.requantize " + cache + " at " + batch + " : " + type + " to " + m.requantizedType)[0];
      return exports(to, m.requantizedType);
    }
    return emit("kvcache.fork " + cache + " from " + at(Role::Source) + " to " + at(Role::Destination) + " : " + type);
  }

  std::vector<std::string> dump() {
    std::string cache = at(Role::Cache);
    std::vector<std::string> made = exports(cache, cacheType());
    if (m.minmax && m.bounds) {
      made.push_back(score("bound", cache, true));
    }
    if (m.score) {
      made.push_back(score("plane", cache, false));
    }
    if (m.norm) {
      made.push_back(score("key_norm", cache, false));
    }
    return made;
  }

private:
  const Module &module;
  const Meaning &m;
  const Config &config;
  const std::map<Role, std::string> &names;
  std::string &body;
  unsigned &next;
};

std::vector<std::string> Module::emit(const Function &function, const std::map<Role, std::string> &names,
                                      std::string &body, unsigned &next) const {
  Writer writer(*this, names, body, next);
  switch (function.kind) {
  case FunctionKind::Append:
    return {writer.append(Role::Cache)};
  case FunctionKind::AppendPrefix:
    return {writer.append(Role::Prefix)};
  case FunctionKind::Attend:
    return writer.attention(writer.at(Role::Cache), config[AxisMask], function.results);
  case FunctionKind::Step: {
    std::string cache = writer.append(Role::Cache);
    auto made = writer.attention(cache, config[AxisMask], llvm::ArrayRef(function.results).drop_back());
    made.push_back(cache);
    return made;
  }
  case FunctionKind::Change:
    return writer.change();
  case FunctionKind::Dump:
    return writer.dump();
  }
  return {};
}

std::string Module::text() const {
  std::string text = "// Differential test: " + nameOf(config) + "\n";
  for (const Function &function : functions) {
    std::map<Role, std::string> names;
    std::string arguments, body, types;
    for (Role role : function.arguments) {
      names[role] = "%" + nameOf(role).str();
      arguments += (arguments.empty() ? "" : ", ") + names[role] + ": " + typeOf(role);
    }
    unsigned next = 0;
    std::vector<std::string> results = emit(function, names, body, next);
    for (auto [i, kind] : llvm::enumerate(function.results)) {
      types += (i ? ", " : "") + typeOf(kind);
    }
    text += "func.func @" + function.name.str() + "(" + arguments + ") -> (" + types + ") {\n" + body + "  return " +
            llvm::join(results, ", ") + " : " + types + "\n}\n";
  }
  return text;
}
