//===- Formats.h - What storage formats keep of a value ---------*- C++ -*-===//
//
// The arithmetic of docs/spec/formats.md: what is read back after a value was stored.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_REFERENCE_FORMATS_H
#define KVC_REFERENCE_FORMATS_H

#include "kvc/Reference/Datum.h"

namespace kvc::reference {

/// `value` rounded to a floating point type, to nearest, ties to even. f32 and f64 are rounded too.
double roundTo(mlir::Type type, double value);

/// One encoded group of an integer format.
struct EncodedGroup {
  float scale = 0, zero = 0;
  std::vector<int64_t> codes;
};
/// Encodes the elements of one group, rounded to f32 first.
EncodedGroup encodeGroup(kvcache::FormatAttr format, llvm::ArrayRef<double> values);
/// The value of a code, in f32.
double decode(kvcache::FormatAttr format, const EncodedGroup &group, int64_t code);

/// Replaces slots begin .. end-1 of a table by what the cache's formats keep of them. Both ends are multiples of the
/// seal group, begin is 0 or the end of what was sealed before.
void storeSlots(kvcache::CacheType type, Table &table, int64_t begin, int64_t end);
/// The same for keys only.
void storeKeys(kvcache::CacheType type, Table &table, int64_t begin, int64_t end);

} // namespace kvc::reference

#endif // KVC_REFERENCE_FORMATS_H
