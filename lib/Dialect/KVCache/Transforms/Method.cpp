//===- Method.cpp - Finding, reading and checking KV methods --------------===//
#include "kvc/Dialect/KVCache/Transforms/Method.h"
#include "MethodFile.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>
#include <set>

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

std::vector<std::string> kvc::getMethodFolders() {
  void *here = reinterpret_cast<void *>(&getMethodFolders);
  // The program, and the library that this code is part of (a Python package); for a program dladdr gives argv[0] only.
  std::vector<std::string> files{fs::getMainExecutable(nullptr, here)};
  Dl_info info;
  SmallString<256> library;
  if (dladdr(here, &info) && !fs::real_path(info.dli_fname, library) && library != files[0]) {
    files.push_back(std::string(library));
  }
  std::vector<std::string> folders;
  for (StringRef file : files) {
    // Installed: bin/ or lib/ beside share/; built: build/bin or build/lib in the source tree; a package: beside it.
    for (StringRef relative : {"../share/kvc/methods", "../../methods", "methods"}) {
      SmallString<256> folder = path::parent_path(file);
      path::append(folder, relative);
      path::remove_dots(folder, /*remove_dot_dot=*/true);
      if (fs::is_directory(folder)) {
        folders.push_back(std::string(folder));
      }
    }
  }
  return folders;
}

std::vector<std::string> kvc::listMethods(ArrayRef<std::string> folders) {
  std::set<std::string> names;
  std::vector<std::string> all(folders.begin(), folders.end());
  llvm::append_range(all, getMethodFolders());
  for (const std::string &folder : all) {
    std::error_code error;
    for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
      if (path::extension(file->path()) == ".mlir") {
        names.insert(path::stem(file->path()).str());
      }
    }
  }
  return {names.begin(), names.end()};
}

/// The file of a method; empty when there is none.
static std::string findMethod(StringRef method, ArrayRef<std::string> folders) {
  if (method.ends_with(".mlir") || method.contains('/')) {
    return fs::is_regular_file(method) ? method.str() : "";
  }
  std::vector<std::string> all(folders.begin(), folders.end());
  llvm::append_range(all, getMethodFolders());
  for (const std::string &folder : all) {
    SmallString<256> file(folder);
    path::append(file, method + ".mlir");
    if (fs::is_regular_file(file)) {
      return std::string(file);
    }
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static constexpr StringLiteral methodAttr = "kvcache.method", docAttr = "kvcache.doc", paramsAttr = "kvcache.params",
                               derivedAttr = "kvcache.derived", cacheAttr = "kvcache.cache",
                               layersAttr = "kvcache.layers";

FailureOr<MethodFile> MethodFile::load(Location at, StringRef method, ArrayRef<std::string> folders) {
  std::string file = findMethod(method, folders);
  if (file.empty()) {
    return emitError(at) << "expects the name of a method (" << llvm::join(listMethods(folders), ", ")
                         << ") or the path of a method file, but got '" << method << "'",
           failure();
  }
  MethodFile result;
  result.id = path::stem(file).str();
  result.module = parseSourceFile<ModuleOp>(file, ParserConfig(at.getContext()));
  if (!result.module || failed(result.check())) {
    return failure();
  }
  return result;
}

/// The text of a string attribute of the module; empty when it is absent.
static FailureOr<std::string> textOf(ModuleOp module, StringRef name) {
  Attribute attr = module->getAttr(name);
  if (!attr) {
    return std::string();
  }
  auto text = dyn_cast<StringAttr>(attr);
  if (!text) {
    return emitError(module.getLoc()) << "expects a string as " << name << ", but got " << attr, failure();
  }
  return text.str();
}

LogicalResult MethodFile::check() {
  auto name = module->getOperation()->getAttrOfType<StringAttr>(methodAttr);
  if (!name || name.getValue() != id) {
    return emitError(location()) << "expects " << methodAttr << " = \"" << id
                                 << "\" in a method file, as the file is called, "
                                 << "but got " << (name ? name.str() : "none");
  }
  for (NamedAttribute attr : (*module)->getDiscardableAttrs()) {
    if (!llvm::is_contained({methodAttr, docAttr, paramsAttr, derivedAttr, cacheAttr, layersAttr},
                            attr.getName().getValue())) {
      return emitError(location()) << "expects " << methodAttr << ", " << docAttr << ", " << paramsAttr << ", "
                                   << cacheAttr << " or " << layersAttr << " as attributes of a method, but got "
                                   << attr.getName();
    }
  }
  FailureOr<std::string> cache = textOf(*module, cacheAttr), layers = textOf(*module, layersAttr);
  if (failed(cache) || failed(layers) || failed(textOf(*module, docAttr))) {
    return failure();
  }
  cacheText = *cache;
  layersText = *layers;
  bool any = false;
  for (Operation &op : *module->getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function) {
      return op.emitOpError() << "expects functions in a method";
    }
    if (function.isExternal() || !function.getBody().hasOneBlock()) {
      return function.emitOpError() << "expects a body of one block in a method";
    }
    any |= !function.isPrivate();
    if (!function.isPrivate() && failed(checkFunction(function))) {
      return failure();
    }
  }
  if (!any) {
    return emitError(location())
           << "expects a function @prefill, @decode or @step (both phases) in a method, but got none";
  }
  if (module->lookupSymbol("step") && module->lookupSymbol("prefill") && module->lookupSymbol("decode")) {
    return module->lookupSymbol("step")->emitError()
           << "expects no function @step beside both @prefill and @decode, as nothing would use it";
  }
  auto forbidden = module->walk([](AttendOp op) {
    op.emitOpError() << "expects an attention site in a model, but got one in a method";
    return WalkResult::interrupt();
  });
  return failure(forbidden.wasInterrupted() || failed(checkParameters()) || failed(checkLayers()));
}

LogicalResult MethodFile::checkFunction(func::FuncOp function) {
  if (!llvm::is_contained({"prefill", "decode", "step"}, function.getName())) {
    return function.emitError() << "expects @prefill, @decode, @step or a private function in a method, but got @"
                                << function.getName();
  }
  MLIRContext *context = function.getContext();
  auto site = [&](SiteRole role) -> Type { return SiteType::get(context, role); };
  auto want = FunctionType::get(
      context,
      {site(SiteRole::Q), site(SiteRole::K), site(SiteRole::V), site(SiteRole::Cache), BatchType::get(context)},
      {site(SiteRole::Out), site(SiteRole::Cache)});
  if (function.getFunctionType() != want) {
    return function.emitError() << "expects the type " << want << " of @" << function.getName() << ", but got "
                                << function.getFunctionType();
  }
  return success();
}

LogicalResult MethodFile::checkParameters() {
  Attribute attr = (*module)->getAttr(paramsAttr);
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(attr);
  if (attr && !dictionary) {
    return emitError(location()) << "expects a dictionary of names and default values as " << paramsAttr << ", but got "
                                 << attr;
  }
  for (NamedAttribute parameter : dictionary ? dictionary.getValue() : ArrayRef<NamedAttribute>()) {
    Attribute value = parameter.getValue();
    auto typed = dyn_cast<TypedAttr>(value);
    if (!isa<StringAttr>(value) && !(typed && (typed.getType().isInteger(64) || typed.getType().isF32()))) {
      return emitError(location()) << "expects a default of type i64 or f32 or a string for the parameter '"
                                   << parameter.getName().getValue() << "', but got " << value;
    }
    values[parameter.getName()] = {value};
  }

  attr = (*module)->getAttr(derivedAttr);
  dictionary = dyn_cast_or_null<DictionaryAttr>(attr);
  if (attr && !dictionary) {
    return emitError(location()) << "expects a dictionary of names and expressions as " << derivedAttr << ", but got "
                                 << attr;
  }
  for (NamedAttribute entry : dictionary ? dictionary.getValue() : ArrayRef<NamedAttribute>()) {
    auto text = dyn_cast<StringAttr>(entry.getValue());
    if (!text || values.contains(entry.getName())) {
      return emitError(location()) << "expects a string as the expression of '" << entry.getName().getValue()
                                   << "', which is no parameter yet, but got " << entry.getValue();
    }
    derived[entry.getName()] = text.str();
  }
  auto known = [&](StringRef name) { return values.contains(name) || derived.contains(name); };

  llvm::StringSet<> used;
  // In the body of a function.
  AttrTypeWalker walker;
  Operation *current = nullptr;
  bool bad = false;
  walker.addWalk([&](ParamAttr parameter) {
    used.insert(parameter.getName());
    if (!known(parameter.getName()) && !bad) {
      current->emitOpError() << "expects a parameter of the method, but got '" << parameter.getName() << "'";
      bad = true;
    }
  });
  (*module)->walk([&](Operation *op) {
    current = op;
    walker.walk(op->getAttrDictionary());
  });
  if (bad) {
    return failure();
  }
  // In the texts; an expression speaks of given parameters only.
  SmallVector<std::pair<StringRef, bool>> texts{{cacheText, true}, {layersText, true}};
  for (const auto &entry : derived) {
    texts.push_back({entry.getValue(), false});
  }
  for (auto [text, mayBeDerived] : texts) {
    while (true) {
      text = text.drop_until([](char c) { return c == '$'; });
      if (text.empty()) {
        break;
      }
      text = text.drop_front();
      StringRef name = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      if (!(mayBeDerived ? known(name) : values.contains(name))) {
        return emitError(location()) << "expects a parameter of the method after '$', but got '" << name << "'";
      }
      used.insert(name);
    }
  }
  for (const auto &value : values) {
    if (!used.contains(value.getKey())) {
      return emitError(location()) << "expects a use of the parameter '" << value.getKey() << "', but got none";
    }
  }
  for (const auto &entry : derived) {
    if (!used.contains(entry.getKey())) {
      return emitError(location()) << "expects a use of the parameter '" << entry.getKey() << "', but got none";
    }
  }
  return checkDerived(/*layers=*/1);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// `text` as a value of the type of `like`; null when it is none.
static Attribute parseValue(StringRef text, Attribute like) {
  if (isa<StringAttr>(like)) {
    return StringAttr::get(like.getContext(), text);
  }
  Builder b(like.getContext());
  if (isa<IntegerAttr>(like)) {
    int64_t value;
    return text.getAsInteger(10, value) ? Attribute() : b.getI64IntegerAttr(value);
  }
  double value;
  return text.getAsDouble(value) ? Attribute() : b.getF32FloatAttr(static_cast<float>(value));
}

static StringRef typeNameOf(Attribute value) {
  return isa<StringAttr>(value) ? "string" : isa<IntegerAttr>(value) ? "i64" : "f32";
}

/// The value of an integer expression (+ - * floordiv ceildiv mod, parentheses); null when it is none.
static Attribute evaluate(StringRef expression, MLIRContext *context) {
  // Affine maps are MLIR's notation for exactly these.
  ScopedDiagnosticHandler silent(context, [](Diagnostic &) { return success(); });
  auto attr = parseAttribute(("affine_map<() -> (" + expression + ")>").str(), context);
  auto map = dyn_cast_or_null<AffineMapAttr>(attr);
  if (!map || !map.getValue().isSingleConstant()) {
    return {};
  }
  return Builder(context).getI64IntegerAttr(map.getValue().getSingleConstantResult());
}

LogicalResult MethodFile::checkDerived(int64_t layers) const {
  for (const auto &entry : derived) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (!parameter(entry.getKey(), layer)) {
        return emitError(location()) << "expects an integer expression (+, -, *, floordiv, ceildiv, mod) for '"
                                     << entry.getKey() << "' of method '" << id << "', but got '"
                                     << expand(entry.getValue(), layer) << "'";
      }
    }
  }
  return success();
}

LogicalResult MethodFile::bind(Location at, ArrayRef<std::string> args, int64_t layers) {
  llvm::StringSet<> given;
  for (StringRef arg : args) {
    auto [name, text] = arg.split('=');
    if (!arg.contains('=')) {
      return emitError(at) << "expects name=value as an argument of method '" << id << "', but got '" << arg << "'";
    }
    auto found = values.find(name);
    if (found == values.end()) {
      SmallVector<StringRef> names(values.keys());
      llvm::sort(names);
      return emitError(at) << "expects a parameter of method '" << id << "' ("
                           << (names.empty() ? "it has none" : llvm::join(names, ", ")) << "), but got '" << name
                           << "'";
    }
    if (!given.insert(name).second) {
      return emitError(at) << "expects one value for the parameter '" << name << "' of method '" << id
                           << "', but got several";
    }
    const Attribute like = found->second.front();
    SmallVector<StringRef> texts{text};
    if (!isa<StringAttr>(like)) {
      texts.clear();
      text.split(texts, '/');
    }
    SmallVector<Attribute, 1> parsed;
    for (StringRef one : texts) {
      parsed.push_back(parseValue(one, like));
      if (!parsed.back()) {
        return emitError(at) << "expects a value of type " << typeNameOf(like) << " for the parameter '" << name
                             << "' of method '" << id << "', but got '" << one << "'";
      }
    }
    if (parsed.size() != 1 && static_cast<int64_t>(parsed.size()) != layers) {
      return emitError(at) << "expects one value, or one for each of the " << layers << " layers, for the parameter '"
                           << name << "' of method '" << id << "', but got " << parsed.size();
    }
    found->second = std::move(parsed);
  }
  return success(succeeded(checkLayers()) && succeeded(checkDerived(layers)) && succeeded(checkActs(layers)));
}

Attribute MethodFile::parameter(StringRef name, int64_t layer) const {
  if (auto expression = derived.find(name); expression != derived.end()) {
    return evaluate(expand(expression->second, layer), location().getContext());
  }
  auto found = values.find(name);
  if (found == values.end()) {
    return {};
  }
  return found->second.size() == 1 ? found->second.front() : found->second[layer];
}

std::string MethodFile::expand(StringRef text, int64_t layer) const {
  std::string result;
  while (!text.empty()) {
    StringRef plain = text.take_until([](char c) { return c == '$'; });
    result += plain;
    text = text.drop_front(plain.size());
    if (text.empty()) {
      break;
    }
    text = text.drop_front();
    StringRef name = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    text = text.drop_front(name.size());
    Attribute value = parameter(name, layer);
    if (auto string = dyn_cast<StringAttr>(value)) {
      result += string.getValue();
    } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
      result += std::to_string(integer.getInt());
    } else {
      result += std::to_string(cast<FloatAttr>(value).getValueAsDouble());
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Layers and phases
//===----------------------------------------------------------------------===//

/// `4`, `2..5`, `2..`, `..5`: the first and last layer; none when it is none of these.
static std::optional<std::pair<int64_t, int64_t>> parseRange(StringRef text) {
  std::pair<int64_t, int64_t> range{0, std::numeric_limits<int64_t>::max()};
  text = text.trim();
  size_t dots = text.find("..");
  StringRef first = text.take_front(dots).trim();
  StringRef last = dots == StringRef::npos ? first : text.drop_front(dots + 2).trim();
  if (text.empty() || (dots == StringRef::npos && first.empty()) ||
      (!first.empty() && first.getAsInteger(10, range.first)) ||
      (!last.empty() && last.getAsInteger(10, range.second)) || range.first < 0 || range.second < range.first) {
    return std::nullopt;
  }
  return range;
}

LogicalResult MethodFile::checkLayers() const {
  if (!(*module)->hasAttr(layersAttr)) {
    return success();
  }
  std::string text = expand(layersText, 0);
  for (StringRef part : llvm::split(text, ',')) {
    if (!parseRange(part)) {
      return emitError(location()) << "expects layers such as \"0, 2..5, 8..\" (first and last included) as "
                                   << layersAttr << " of method '" << id << "', but got '" << text << "'";
    }
  }
  return success();
}

LogicalResult MethodFile::checkActs(int64_t layers) const {
  if (llvm::any_of(llvm::seq(layers), [&](int64_t layer) { return actsOn(layer); })) {
    return success();
  }
  return emitError(location()) << "expects " << layersAttr << " of method '" << id
                               << "' to name some of the layers 0 to " << layers - 1 << " of the model, but got '"
                               << expand(layersText, 0) << "'";
}

bool MethodFile::actsOn(int64_t layer) const {
  if (layersText.empty()) {
    return true;
  }
  std::string text = expand(layersText, layer);
  return llvm::any_of(llvm::split(text, ','), [&](StringRef part) {
    auto range = parseRange(part);
    return range && range->first <= layer && layer <= range->second;
  });
}

func::FuncOp MethodFile::functionOf(StringRef phase) const {
  // lookupSymbol on the handle: the module is not changed.
  ModuleOp handle = *module;
  auto function = handle.lookupSymbol<func::FuncOp>(phase);
  return function ? function : handle.lookupSymbol<func::FuncOp>("step");
}
