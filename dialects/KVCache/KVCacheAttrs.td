// Attributes of the kvcache dialect: storage formats, RoPE, method parameters, weight encodings.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHEATTRS_TD
#define KVC_DIALECTS_KVCACHE_KVCACHEATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "KVCache/KVCacheEnums.td"

class KVCache_Attr<string name, string mnem, list<Trait> traits = []> : AttrDef<KVCache_Dialect, name, traits> {
  let mnemonic = mnem;
}

def KVCache_FormatAttr : KVCache_Attr<"Format", "format"> {
  let summary = "how one of K and V is stored";
  let description = [{
    `f32`, `f16`, `bf16`, or integer codes with a scale (and a zero when asymmetric) for each group:
    `int4`, `int8<group = 64>`, `int2<axis = channel, symmetric, scale = bf16>`. Rows of the table in
    `lib/Dialect/KVCache/IR/Formats.cpp` are the names; docs/spec/formats.md defines the bits.
    Defaults of the integer formats: `group = 32`, `axis = token`, asymmetric, `scale = f16`. `hadamard`: the vector is
    multiplied by the normalised Hadamard matrix of its size before it is encoded, and again after it was decoded.
  }];
  let parameters = (ins
    StringRefParameter<"keyword of the row in the table of formats">:$name,
    "int64_t":$group,
    "::kvc::kvcache::Axis":$axis,
    "bool":$symmetric,
    "::mlir::Type":$scale,
    "bool":$hadamard
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The format of `name` with its default parameters; null when the table has no such row.
    static FormatAttr getByName(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// `int4`, `int8<...>`: the form inside a cache type, without the dialect prefix.
    static ::mlir::FailureOr<FormatAttr> parseBare(::mlir::AsmParser &parser);
    void printBare(::llvm::raw_ostream &os) const;
    /// Integer codes with scales (true) or plain floating point (false).
    bool isInteger() const;
    /// Bits of one stored element or code.
    int64_t getBits() const;
    /// The floating point type of a plain format.
    ::mlir::FloatType getFloatType() const;
  }];
}

def KVCache_RopeAttr : KVCache_Attr<"Rope", "rope"> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates the pairs of the first `dims` channels of a head by `position * base^(-2i/dims)`, i the number of the
    pair (Su et al., RoFormer, arXiv:2104.09864). `#kvcache.rope<base = 10000.0, dims = 64, pairing = half>`.
    In a method, `#kvcache.rope<site>` stands for the RoPE of the attention site that the method is spliced into.
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$base, "int64_t":$dims, EnumParameter<KVCache_Pairing>:$pairing);
  let assemblyFormat = "`<` custom<RopeParameters>($base, $dims, $pairing) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The placeholder of a method.
    static RopeAttr getSite(::mlir::MLIRContext *context) { return get(context, {}, 0, Pairing::Adjacent); }
    bool isSite() const { return !getBase(); }
  }];
}

def KVCache_ParamAttr : KVCache_Attr<"Param", "param"> {
  let summary = "a parameter of a method, replaced by its value when the method is spliced into a graph";
  let description = [{
    Stands where a number would: `{k = #kvcache.param<"budget">}`.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins StringRefParameter<>:$name);
  let assemblyFormat = "`<` $name `>`";
}

def KVCache_EncodedAttr : KVCache_Attr<"Encoded", "encoded", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let summary = "encoding of a weight tensor: blocks of a GGUF type along the last dimension";
  let description = [{
    `tensor<576x576xf32, #kvcache.encoded<"q4_1">>` stands for f32 values that are stored in blocks of that type.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins StringRefParameter<"GGUF type in lower case: q4_1, q8_0, q4_k, ...">:$name);
  let assemblyFormat = "`<` $name `>`";
}

// An integer attribute, or a method's parameter in its place.
def KVCache_IntAttr : Attr<
    Or<[And<[CPred<"::llvm::isa<::mlir::IntegerAttr>($_self)">,
             CPred<"::llvm::cast<::mlir::IntegerAttr>($_self).getType().isInteger(64)">]>,
        CPred<"::llvm::isa<::kvc::kvcache::ParamAttr>($_self)">]>,
    "64-bit integer or method parameter"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}

// A number, or a method's parameter in its place.
def KVCache_FloatAttr : Attr<
    Or<[And<[CPred<"::llvm::isa<::mlir::FloatAttr>($_self)">,
             CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getType().isF32()">]>,
        CPred<"::llvm::isa<::kvc::kvcache::ParamAttr>($_self)">]>,
    "32-bit float or method parameter"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}

#endif // KVC_DIALECTS_KVCACHE_KVCACHEATTRS_TD
