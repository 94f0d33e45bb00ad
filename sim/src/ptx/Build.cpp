//===- Build.cpp - Operands of an instruction that is decoded -------------===//
#include "common/Fault.h"
#include "common/Floats.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

/// Bytes of a lane of a register, or of a constant.
static unsigned storageBytes(Type type) { return std::max(2u, bytesOf(type)); }

std::string Build::where() const { return fmt::format("{}:{}: `{}`", decoder.module.name, source.line, source.text); }

void Build::refuse(std::string_view what) const { fail(FaultKind::Unsupported, "{}: expects {}", where(), what); }

bool Build::has(std::string_view modifier) const {
  return std::find(matched.begin(), matched.end(), modifier) != matched.end();
}

Type Build::type(size_t n) const {
  for (std::string_view modifier : matched) {
    if (auto type = typeByName(modifier)) {
      if (n-- == 0) {
        return *type;
      }
    }
  }
  refuse("a type");
}

size_t Build::typeCount() const {
  return std::count_if(matched.begin(), matched.end(), [](std::string_view m) { return typeByName(m).has_value(); });
}

int Build::which(std::initializer_list<std::string_view> modifiers) const {
  int i = 0;
  for (std::string_view modifier : modifiers) {
    if (has(modifier)) {
      return i;
    }
    ++i;
  }
  return -1;
}

const Operand &Build::peek() const {
  if (next >= source.operands.size()) {
    refuse(fmt::format("more than {} operands", source.operands.size()));
  }
  return source.operands[next];
}

const Operand &Build::take() {
  const Operand &operand = peek();
  ++next;
  if (!operand.second.empty() && operand.kind != Operand::Kind::Register && operand.kind != Operand::Kind::Sink) {
    refuse("registers around '|'");
  }
  return operand;
}

void Build::append(Place place) { places.push_back(place); }

void Build::finish() {
  if (next != source.operands.size()) {
    refuse(fmt::format("{} operands, but got {}", next, source.operands.size()));
  }
  inst.count = uint16_t(places.size());
  decoder.program.operandLists.push_back(std::move(places));
  inst.op = decoder.program.operandLists.back().data();
}

unsigned Build::registerBytes(const Operand &operand, Type type, bool wider) const {
  const Type declared = decoder.registerType(operand.reg);
  if ((declared == Type::Pred) != (type == Type::Pred)) {
    refuse(fmt::format("a register of type {} for {}, but it has type {}", infoOf(type).name, operand.text,
                       infoOf(declared).name));
  }
  if (type == Type::Pred) {
    return 4;
  }
  const unsigned size = storageBytes(declared);
  if (wider ? size < storageBytes(type) : size != storageBytes(type)) {
    refuse(fmt::format("a register of {} bits for {}, but it has {}", bitsOf(type), operand.text, bitsOf(declared)));
  }
  return size;
}

unsigned Build::dst(Type type, bool wider) {
  const Operand &operand = take();
  if (!operand.second.empty() || operand.negated) {
    refuse("one destination");
  }
  if (operand.kind == Operand::Kind::Sink) {
    places.push_back(decoder.takeRegisters(storageBytes(type) * laneCount, 64));
    return storageBytes(type);
  }
  if (operand.kind != Operand::Kind::Register) {
    refuse(fmt::format("a register as destination, but got {}", operand.text));
  }
  const unsigned size = registerBytes(operand, type, wider);
  places.push_back(decoder.registerPlace(operand.reg));
  return size;
}

void Build::dstPred() {
  const Operand &operand = take();
  if (!operand.second.empty()) {
    refuse("one predicate as destination");
  }
  placeOf(operand, Type::Pred);
}

void Build::dstPredPair() {
  const Operand &operand = take();
  Operand first = operand;
  first.second.clear();
  const Operand *const both[] = {&first, operand.second.empty() ? nullptr : &operand.second[0]};
  for (const Operand *one : both) {
    if (!one || one->kind == Operand::Kind::Sink) {
      places.push_back(noPlace);
    } else {
      placeOf(*one, Type::Pred);
    }
  }
}

uint64_t Build::bitsOfImmediate(const Operand &operand, Type type) const {
  const bool wide = type == Type::F64 || type == Type::B64;
  switch (operand.kind) {
  case Operand::Kind::Integer:
    if (type == Type::F32 || type == Type::F64) {
      refuse(fmt::format("a floating-point number, but got {}", operand.text));
    }
    return operand.value;
  case Operand::Kind::Float32:
    if (type == Type::F64) {
      return std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(operand.value))));
    }
    if (type == Type::F32 || bitsOf(type) == 32) {
      return operand.value;
    }
    break;
  case Operand::Kind::Float64:
    if (wide) {
      return operand.value;
    }
    if (type == Type::F32 || type == Type::B32) {
      return std::bit_cast<uint32_t>(float(std::bit_cast<double>(operand.value)));
    }
    break;
  default:
    break;
  }
  refuse(fmt::format("a value of type {}, but got {}", infoOf(type).name, operand.text));
}

void Build::placeOf(const Operand &operand, Type type, bool wider) {
  if (operand.negated) {
    refuse("no '!'");
  }
  switch (operand.kind) {
  case Operand::Kind::Register:
    if (operand.offset != 0) {
      refuse("a register without an offset");
    }
    registerBytes(operand, type, wider);
    places.push_back(decoder.registerPlace(operand.reg));
    return;
  case Operand::Kind::Integer:
  case Operand::Kind::Float32:
  case Operand::Kind::Float64:
    if (type == Type::Pred) {
      if (operand.kind != Operand::Kind::Integer) {
        refuse("a predicate");
      }
      places.push_back(decoder.constant(operand.value != 0, 0));
      return;
    }
    places.push_back(decoder.constant(bitsOfImmediate(operand, type), storageBytes(type)));
    return;
  case Operand::Kind::Special: {
    const auto *special = DecoderImpl::findSpecial(operand.text);
    if (!special) {
      refuse(fmt::format("a special register that the simulator has here, but got {}", operand.text));
    }
    if (bytesOf(type) != 4) {
      refuse(fmt::format("32 bits for {}, but got {}", operand.text, infoOf(type).name));
    }
    places.push_back(decoder.specialPlace(special->second));
    return;
  }
  case Operand::Kind::Variable:
    if (bytesOf(type) < 4) {
      refuse(fmt::format("32 or 64 bits for the address of {}", operand.text));
    }
    places.push_back(decoder.addressPlace(*operand.variable, operand.offset, bytesOf(type)));
    return;
  default:
    refuse(fmt::format("a register or a number, but got {}", operand.text));
  }
}

unsigned Build::src(Type type, bool wider) {
  const Operand &operand = take();
  if (!operand.second.empty()) {
    refuse("one operand where '|' stands");
  }
  placeOf(operand, type, wider);
  return operand.kind == Operand::Kind::Register && type != Type::Pred ? storageBytes(decoder.registerType(operand.reg))
                                                                       : storageBytes(type);
}

bool Build::srcPred() {
  Operand operand = take();
  const bool negated = operand.negated;
  operand.negated = false;
  placeOf(operand, Type::Pred);
  return negated;
}

unsigned Build::vectorSize() const {
  const Operand &operand = peek();
  return operand.kind == Operand::Kind::Vector ? unsigned(operand.elements.size()) : 1;
}

void Build::dstVector(Type type, unsigned n, bool wider) {
  if (n == 1 && peek().kind != Operand::Kind::Vector) {
    dst(type, wider);
    return;
  }
  const Operand &operand = take();
  if (operand.kind != Operand::Kind::Vector || operand.elements.size() != n) {
    refuse(fmt::format("{} registers in braces, but got {}", n, operand.elements.size()));
  }
  for (const Operand &element : operand.elements) {
    if (element.kind == Operand::Kind::Sink) {
      places.push_back(decoder.takeRegisters(storageBytes(type) * laneCount, 64));
    } else if (element.kind == Operand::Kind::Register) {
      placeOf(element, type, wider);
    } else {
      refuse(fmt::format("registers as destinations, but got {}", element.text));
    }
  }
}

void Build::srcVector(Type type, unsigned n, bool wider) {
  if (n == 1 && peek().kind != Operand::Kind::Vector) {
    src(type, wider);
    return;
  }
  const Operand &operand = take();
  if (operand.kind != Operand::Kind::Vector || operand.elements.size() != n) {
    refuse(fmt::format("{} registers in braces, but got {}", n, operand.elements.size()));
  }
  for (const Operand &element : operand.elements) {
    placeOf(element, type, wider);
  }
}

bool Build::address(Space space) {
  const Operand &operand = take();
  if (operand.kind != Operand::Kind::Address || operand.elements.size() != 1) {
    refuse(fmt::format("an address in brackets, but got {}", operand.text));
  }
  const Operand &base = operand.elements[0];
  inst.imm = operand.offset;
  switch (base.kind) {
  case Operand::Kind::Register: {
    const unsigned bits = bitsOf(decoder.registerType(base.reg));
    if (bits != 32 && bits != 64) {
      refuse(fmt::format("an address of 32 or 64 bits, but {} has {}", base.text, bits));
    }
    if (bits == 32 && (space == Space::Generic || space == Space::Global || space == Space::Const)) {
      refuse(fmt::format("a 64-bit address of the {} space, but {} has 32 bits", nameOf(space), base.text));
    }
    places.push_back(decoder.registerPlace(base.reg));
    return bits == 32;
  }
  case Operand::Kind::Variable: {
    const Space own = base.variable->space;
    const bool fits = own == space || (own == Space::Shared && space == Space::SharedCluster) ||
                      (space == Space::Generic && (own == Space::Global || own == Space::Const));
    if (!fits) {
      refuse(fmt::format("an address of the {} space, but {} is a variable of the {} space", nameOf(space), base.text,
                         nameOf(own)));
    }
    places.push_back(decoder.addressPlace(*base.variable, operand.offset, 8));
    inst.imm = 0;
    return false;
  }
  case Operand::Kind::Integer:
    places.push_back(decoder.constant(base.value + uint64_t(operand.offset), 8));
    inst.imm = 0;
    return false;
  default:
    refuse(fmt::format("a register or a variable in brackets, but got {}", base.text));
  }
}

uint64_t Build::immediate(Type type) { return bitsOfImmediate(take(), type); }

Place Build::constant(uint64_t value, unsigned bytes) { return decoder.constant(value, bytes); }

Place DecoderImpl::addressPlace(const Variable &variable, int64_t offset, unsigned bytes) {
  const uint64_t address = addressOf(variable);
  if (address != dynamicMarker) {
    return constant(address + uint64_t(offset), bytes);
  }
  for (const DynamicConstant &known : dynamicConstants) {
    if (known.bytes == bytes && known.offset == offset) {
      return known.place;
    }
  }
  const size_t at = (program.constants.size() + 63) / 64 * 64;
  program.constants.resize(at + bytes * laneCount);
  dynamicConstants.push_back({constantBit | Place(at), bytes, offset});
  return dynamicConstants.back().place;
}

Place DecoderImpl::callParameterPlace(const Variable &variable) {
  auto found = callParameters.find(&variable);
  if (found != callParameters.end()) {
    return found->second;
  }
  if (variable.bytes > (1 << 16)) {
    fail(FaultKind::Unsupported, "{}:{}: expects a parameter of at most 64 KiB, but got {} bytes", module.name,
         variable.line, variable.bytes);
  }
  const Place place = takeRegisters(uint32_t(variable.bytes) * laneCount, 64);
  callParameters.emplace(&variable, place);
  return place;
}
