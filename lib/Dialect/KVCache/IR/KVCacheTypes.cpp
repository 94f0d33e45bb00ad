//===- KVCacheTypes.cpp - Types and attributes of the kvcache dialect ----===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <numeric>

using namespace mlir;
using namespace kvc::kvcache;

#include "KVCache/KVCacheEnums.cpp.inc"

//===----------------------------------------------------------------------===//
// RopeAttr
//===----------------------------------------------------------------------===//

/// `site`, or `base = B, dims = N, pairing = adjacent|half` in any order.
static ParseResult parseRopeParameters(AsmParser &parser, FloatAttr &base, int64_t &dims, Pairing &pairing) {
  dims = 0;
  pairing = Pairing::Adjacent;
  if (succeeded(parser.parseOptionalKeyword("site"))) {
    return success();
  }
  SMLoc loc = parser.getCurrentLocation();
  bool hasPairing = false;
  auto field = [&]() -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    StringRef key, value;
    if (parser.parseKeyword(&key) || parser.parseEqual()) {
      return failure();
    }
    if (key == "base") {
      return parser.parseAttribute(base);
    }
    if (key == "dims") {
      return parser.parseInteger(dims);
    }
    if (key != "pairing") {
      return parser.emitError(at) << "expects base, dims or pairing, but got '" << key << "'";
    }
    at = parser.getCurrentLocation();
    if (parser.parseKeyword(&value)) {
      return failure();
    }
    std::optional<Pairing> parsed = symbolizePairing(value);
    if (!parsed) {
      return parser.emitError(at) << "expects pairing adjacent, half or adjacent_to_half, but got '" << value << "'";
    }
    pairing = *parsed;
    hasPairing = true;
    return success();
  };
  if (parser.parseCommaSeparatedList(field)) {
    return failure();
  }
  if (!base || !hasPairing) {
    return parser.emitError(loc) << "expects base, dims and pairing of a rope, but got no "
                                 << (base ? "pairing" : "base");
  }
  return success();
}

static void printRopeParameters(AsmPrinter &printer, FloatAttr base, int64_t dims, Pairing pairing) {
  if (!base) {
    printer << "site";
    return;
  }
  printer << "base = " << base << ", dims = " << dims << ", pairing = " << stringifyPairing(pairing);
}

#define GET_ATTRDEF_CLASSES
#include "KVCache/KVCacheAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "KVCache/KVCacheTypes.cpp.inc"

void KVCacheDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "KVCache/KVCacheAttrs.cpp.inc"
      >();
}

void KVCacheDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "KVCache/KVCacheTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// FormatAttr
//===----------------------------------------------------------------------===//

static constexpr int64_t defaultGroup = 32;

FormatAttr FormatAttr::getByName(MLIRContext *context, StringRef name) {
  const FormatRow *row = lookupFormat(name);
  if (!row) {
    return {};
  }
  if (row->kind != FormatRow::Kind::Integer) {
    return get(context, row->name, 0, Axis::Token, false, Type(), false);
  }
  return get(context, row->name, defaultGroup, Axis::Token, false, Float16Type::get(context), false);
}

bool FormatAttr::isInteger() const { return lookupFormat(getName())->kind == FormatRow::Kind::Integer; }

int64_t FormatAttr::getBits() const { return lookupFormat(getName())->bits; }

FloatType FormatAttr::getFloatType() const {
  switch (lookupFormat(getName())->kind) {
  case FormatRow::Kind::F32:
    return Float32Type::get(getContext());
  case FormatRow::Kind::F16:
    return Float16Type::get(getContext());
  case FormatRow::Kind::BF16:
    return BFloat16Type::get(getContext());
  case FormatRow::Kind::Integer:
    break;
  }
  return {};
}

FailureOr<FormatAttr> FormatAttr::parseBare(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name)) {
    return failure();
  }
  FormatAttr base = getByName(parser.getContext(), name);
  if (!base) {
    auto diag = parser.emitError(loc) << "expects a storage format (";
    llvm::interleave(getFormatTable(), [&](const FormatRow &row) { diag << row.name; }, [&] { diag << ", "; });
    return diag << "), but got '" << name << "'", failure();
  }
  int64_t group = base.getGroup();
  Axis axis = base.getAxis();
  bool symmetric = base.getSymmetric(), hadamard = base.getHadamard();
  Type scale = base.getScale();
  if (succeeded(parser.parseOptionalLess())) {
    auto field = [&]() -> ParseResult {
      SMLoc fieldLoc = parser.getCurrentLocation();
      StringRef key;
      if (parser.parseKeyword(&key)) {
        return failure();
      }
      if (key == "symmetric" || key == "hadamard") {
        (key == "symmetric" ? symmetric : hadamard) = true;
        return success();
      }
      if (key == "group") {
        return failure(parser.parseEqual() || parser.parseInteger(group));
      }
      if (key == "scale") {
        return failure(parser.parseEqual() || parser.parseType(scale));
      }
      if (key == "axis") {
        StringRef value;
        if (parser.parseEqual() || parser.parseKeyword(&value)) {
          return failure();
        }
        std::optional<Axis> parsed = symbolizeAxis(value);
        if (!parsed) {
          return parser.emitError(fieldLoc) << "expects axis token or channel, but got '" << value << "'";
        }
        axis = *parsed;
        return success();
      }
      return parser.emitError(fieldLoc) << "expects group, axis, symmetric, scale or hadamard, but got '" << key << "'";
    };
    if (!base.isInteger()) {
      return parser.emitError(loc) << "expects no parameters of format '" << name << "'", failure();
    }
    if (parser.parseCommaSeparatedList(field) || parser.parseGreater()) {
      return failure();
    }
  }
  auto attr = getChecked([&] { return parser.emitError(loc); }, parser.getContext(), base.getName(), group, axis,
                         symmetric, scale, hadamard);
  if (!attr) {
    return failure();
  }
  return attr;
}

void FormatAttr::printBare(llvm::raw_ostream &os) const {
  FormatAttr base = getByName(getContext(), getName());
  os << getName();
  if (*this == base) {
    return;
  }
  os << '<';
  llvm::ListSeparator comma;
  if (getGroup() != base.getGroup()) {
    os << comma << "group = " << getGroup();
  }
  if (getAxis() != base.getAxis()) {
    os << comma << "axis = " << stringifyAxis(getAxis());
  }
  if (getSymmetric()) {
    os << comma << "symmetric";
  }
  if (getScale() != base.getScale()) {
    os << comma << "scale = " << getScale();
  }
  if (getHadamard()) {
    os << comma << "hadamard";
  }
  os << '>';
}

Attribute FormatAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess()) {
    return {};
  }
  FailureOr<FormatAttr> attr = parseBare(parser);
  if (failed(attr) || parser.parseGreater()) {
    return {};
  }
  return *attr;
}

void FormatAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBare(printer.getStream());
  printer << '>';
}

LogicalResult FormatAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name, int64_t group,
                                 Axis axis, bool symmetric, Type scale, bool) {
  // format_c1
  const FormatRow *row = lookupFormat(name);
  if (!row) {
    return emitError() << "expects a storage format of the table, but got '" << name << "'";
  }
  if (row->kind != FormatRow::Kind::Integer) {
    return success();
  }
  // format_c2
  if (group < 1 || group > 1024 || group % row->codesPerUnit) {
    return emitError() << "expects a group of 1 to 1024 that is a multiple of " << row->codesPerUnit
                       << " codes, but got " << group;
  }
  // format_c3
  if (!scale || !(scale.isF32() || scale.isF16() || scale.isBF16())) {
    return emitError() << "expects a scale of type f32, f16 or bf16, but got " << scale;
  }
  return success();
}

LogicalResult RopeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, FloatAttr base, int64_t dims,
                               Pairing) {
  if (!base && dims == 0) {
    return success(); // the placeholder of a method
  }
  // rope_attr_c1
  if (!base || !base.getValue().isFinite() || base.getValueAsDouble() <= 1.0) {
    return emitError() << "expects a finite rope base above 1, but got " << base;
  }
  // rope_attr_c2
  if (dims < 2 || dims % 2) {
    return emitError() << "expects an even number of rope dims of at least 2, but got " << dims;
  }
  return success();
}

LogicalResult ParamAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name) {
  // param_c1
  if (name.empty()) {
    return emitError() << "expects the name of a parameter, but got an empty one";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// EncodedAttr
//===----------------------------------------------------------------------===//

/// Elements in a block of a GGUF type; 0 for types that no weight may have.
static int64_t blockElements(StringRef encoding) {
  return llvm::StringSwitch<int64_t>(encoding)
      .Cases({"f32", "f16", "bf16"}, 1)
      .Cases({"q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}, 32)
      .Cases({"q4_k", "q5_k", "q6_k"}, 256)
      .Default(0);
}

LogicalResult EncodedAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name) {
  // encoded_c1
  if (!blockElements(name)) {
    return emitError()
           << "expects an encoding f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k or q6_k, but got '" << name
           << "'";
  }
  return success();
}

LogicalResult EncodedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                          llvm::function_ref<InFlightDiagnostic()> emitError) const {
  // encoded_c2
  if (!elementType.isF32()) {
    return emitError() << "expects elements of type f32 with an encoding, but got " << elementType;
  }
  // encoded_c3
  int64_t block = blockElements(getName());
  if (shape.empty() || ShapedType::isDynamic(shape.back()) || shape.back() % block) {
    return emitError() << "expects a last dimension that is a multiple of the " << block
                       << " elements of a block, but got "
                       << (shape.empty()                         ? "none"
                           : ShapedType::isDynamic(shape.back()) ? "?"
                                                                 : std::to_string(shape.back()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// CacheType
//===----------------------------------------------------------------------===//

int64_t CacheType::getSealGroup() const {
  int64_t group = 1;
  for (FormatAttr format : {getK(), getV()}) {
    if (format.isInteger() && format.getAxis() == Axis::Channel) {
      group = std::lcm(group, format.getGroup());
    }
  }
  return group;
}

int64_t CacheType::getTailSlots() const {
  int64_t group = getSealGroup();
  // Whole blocks of lanes on any machine, so that the ring can be laid out for them.
  constexpr int64_t granule = 64;
  return group == 1 && getResidual() == 0 ? 0 : llvm::alignTo(getResidual() + group, granule);
}

StringRef CacheType::getUnsupportedField() const {
  if (aliasesValues()) {
    return "v = alias";
  }
  if (getK().getHadamard() || getV().getHadamard()) {
    return "hadamard";
  }
  return getMeanPlane() ? "planes = [mean]" : "";
}

Type CacheType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  MLIRContext *context = parser.getContext();
  int64_t heads = 0, kDim = 0, vDim = 0, page = 0, residual = 0, window = 0, sinks = 0;
  FormatAttr k, v;
  int64_t valueFrom = -1;
  Type tail = Float16Type::get(context);
  bool stored = false, perHead = false, minmax = false, score = false, norm = false, mean = false;
  RopeAttr rope;

  auto choice = [&](StringRef no, StringRef yes, bool &into) -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    StringRef value;
    if (parser.parseKeyword(&value)) {
      return failure();
    }
    if (value != no && value != yes) {
      return parser.emitError(at) << "expects " << no << " or " << yes << ", but got '" << value << "'";
    }
    into = value == yes;
    return success();
  };
  auto format = [&](FormatAttr &into) -> ParseResult {
    FailureOr<FormatAttr> parsed = FormatAttr::parseBare(parser);
    if (failed(parsed)) {
      return failure();
    }
    into = *parsed;
    return success();
  };
  // `alias<from = N>`, or a format.
  auto values = [&]() -> ParseResult {
    valueFrom = -1;
    if (failed(parser.parseOptionalKeyword("alias"))) {
      return format(v);
    }
    v = {};
    return failure(parser.parseLess() || parser.parseKeyword("from") || parser.parseEqual() ||
                   parser.parseInteger(valueFrom) || parser.parseGreater());
  };
  auto plane = [&]() -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    StringRef value;
    if (parser.parseKeyword(&value)) {
      return failure();
    }
    bool *flag = llvm::StringSwitch<bool *>(value)
                     .Case("minmax", &minmax)
                     .Case("score", &score)
                     .Case("norm", &norm)
                     .Case("mean", &mean)
                     .Default(nullptr);
    if (!flag) {
      return parser.emitError(at) << "expects a plane minmax, mean, score or norm, but got '" << value << "'";
    }
    *flag = true;
    return success();
  };
  auto field = [&]() -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    StringRef key;
    if (parser.parseKeyword(&key) || parser.parseEqual()) {
      return failure();
    }
    int64_t *integer = llvm::StringSwitch<int64_t *>(key)
                           .Case("heads", &heads)
                           .Case("dim", &kDim)
                           .Case("v_dim", &vDim)
                           .Case("page", &page)
                           .Case("residual", &residual)
                           .Case("window", &window)
                           .Case("sinks", &sinks)
                           .Default(nullptr);
    if (integer) {
      return parser.parseInteger(*integer);
    }
    if (key == "k") {
      return format(k);
    }
    if (key == "v") {
      return values();
    }
    if (key == "tail") {
      return parser.parseType(tail);
    }
    if (key == "positions") {
      return choice("implicit", "stored", stored);
    }
    if (key == "tables") {
      return choice("per_sequence", "per_head", perHead);
    }
    if (key == "rope") {
      return parser.parseAttribute(rope);
    }
    if (key == "planes") {
      return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, plane);
    }
    return parser.emitError(at) << "expects a field of a cache type, but got '" << key << "'";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, field)) {
    return {};
  }
  if (vDim == 0) {
    vDim = kDim;
  }
  return getChecked([&] { return parser.emitError(loc); }, context, heads, kDim, vDim, page, k, valueFrom < 0 ? v : k,
                    residual, tail, stored, perHead, window, sinks, rope, minmax, score, norm, mean, valueFrom);
}

void CacheType::print(AsmPrinter &printer) const {
  llvm::raw_ostream &os = printer.getStream();
  os << "<heads = " << getHeads() << ", dim = " << getKDim();
  if (getVDim() != getKDim()) {
    os << ", v_dim = " << getVDim();
  }
  os << ", page = " << getPage() << ", k = ";
  getK().printBare(os);
  os << ", v = ";
  if (aliasesValues()) {
    os << "alias<from = " << getValueFrom() << '>';
  } else {
    getV().printBare(os);
  }
  if (getResidual()) {
    os << ", residual = " << getResidual();
  }
  if (!getTail().isF16()) {
    os << ", tail = " << getTail();
  }
  if (getStoredPositions()) {
    os << ", positions = stored";
  }
  if (getPerHead()) {
    os << ", tables = per_head";
  }
  if (getWindow()) {
    os << ", window = " << getWindow();
  }
  if (getSinks()) {
    os << ", sinks = " << getSinks();
  }
  if (getRope()) {
    os << ", rope = ";
    printer.printAttribute(getRope());
  }
  const std::pair<StringRef, bool> planes[] = {
      {"minmax", getMinmaxPlane()}, {"mean", getMeanPlane()}, {"score", getScorePlane()}, {"norm", getNormPlane()}};
  StringRef before = ", planes = [";
  for (auto [name, present] : planes) {
    if (present) {
      os << before << name;
      before = ", ";
    }
  }
  if (before == ", ") {
    os << ']';
  }
  os << '>';
}

LogicalResult CacheType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t heads, int64_t kDim,
                                int64_t vDim, int64_t page, FormatAttr k, FormatAttr v, int64_t residual, Type tail,
                                bool storedPositions, bool perHead, int64_t window, int64_t sinks, RopeAttr rope,
                                bool minmaxPlane, bool scorePlane, bool normPlane, bool meanPlane, int64_t valueFrom) {
  // cache_c1
  if (heads < 1 || heads > 1024) {
    return emitError() << "expects heads of 1 to 1024, but got " << heads;
  }
  // cache_c2
  for (auto [name, dim] : {std::pair<StringRef, int64_t>{"dim", kDim}, {"v_dim", vDim}}) {
    if (dim < 1 || dim > 1024) {
      return emitError() << "expects " << name << " of 1 to 1024, but got " << dim;
    }
  }
  // cache_c3
  if (page < 1 || page > 256) {
    return emitError() << "expects a page of 1 to 256 slots, but got " << page;
  }
  // cache_c4
  if (!k || !v) {
    return emitError() << "expects storage formats for k and v, but got none for " << (k ? "v" : "k");
  }
  for (auto [name, format, dim] : {std::tuple<StringRef, FormatAttr, int64_t>{"k", k, kDim}, {"v", v, vDim}}) {
    if (!format.isInteger()) {
      continue;
    }
    // cache_c5
    if (format.getAxis() == Axis::Token && dim % format.getGroup()) {
      return emitError() << "expects the group of " << name << " to divide its " << dim << " channels, but got "
                         << format.getGroup();
    }
    // cache_c6 (S7: scales never straddle pages)
    if (format.getAxis() == Axis::Channel && page % format.getGroup()) {
      return emitError() << "expects a page that is a multiple of the " << format.getGroup() << " tokens of a group of "
                         << name << ", but got " << page;
    }
  }
  // cache_c14
  if (valueFrom >= 0 && (valueFrom > kDim - vDim || v != k)) {
    return emitError() << "expects an alias of " << vDim << " of the " << kDim
                       << " channels of a key, but got those from " << valueFrom;
  }
  // cache_c15
  for (auto [name, format, dim] : {std::tuple<StringRef, FormatAttr, int64_t>{"k", k, kDim}, {"v", v, vDim}}) {
    if (format.getHadamard() && !llvm::isPowerOf2_64(dim) && (name == "k" || valueFrom < 0)) {
      return emitError() << "expects a power of two as the channels of " << name << " with hadamard, but got " << dim;
    }
  }
  // cache_c7
  if (residual < 0 || residual > 65536) {
    return emitError() << "expects a residual of 0 to 65536 tokens, but got " << residual;
  }
  // cache_c8
  if (!tail || !(tail.isF32() || tail.isF16() || tail.isBF16())) {
    return emitError() << "expects a tail of type f32, f16 or bf16, but got " << tail;
  }
  // cache_c9
  if (window < 0 || sinks < 0 || (sinks && !window)) {
    return emitError() << "expects window >= 0 and sinks >= 0, sinks only with a window, but got window " << window
                       << " and sinks " << sinks;
  }
  // cache_c10
  if (window && !storedPositions) {
    return emitError() << "expects positions = stored of a ring, but got implicit positions";
  }
  // cache_c11
  bool grouped = llvm::any_of(ArrayRef<FormatAttr>{k, v},
                              [](FormatAttr f) { return f.isInteger() && f.getAxis() == Axis::Channel; });
  if (window && (residual || grouped)) {
    return emitError() << "expects formats without a tail in a ring, but got a residual or per-channel groups";
  }
  // cache_c13
  if (window > std::numeric_limits<int32_t>::max() - sinks) {
    return emitError() << "expects window and sinks that fit 32 bits, but got " << window << " and " << sinks;
  }
  // cache_c12
  if (rope && rope.isSite()) {
    return emitError() << "expects a rope with base and dims in a cache type, but got a method's placeholder";
  }
  if (rope && rope.getDims() > kDim) {
    return emitError() << "expects rope of at most " << kDim << " dims, but got " << rope.getDims();
  }
  return success();
}
