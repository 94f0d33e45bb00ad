// Types of the kvcache dialect.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHETYPES_TD
#define KVC_DIALECTS_KVCACHE_KVCACHETYPES_TD

include "mlir/IR/BuiltinTypeInterfaces.td"
include "KVCache/KVCacheAttrs.td"

class KVCache_Type<string name, string mnem, list<Trait> traits = []> : TypeDef<KVCache_Dialect, name, traits> {
  let mnemonic = mnem;
}

def KVCache_CacheType : KVCache_Type<"Cache", "cache"> {
  let summary = "the keys and values of one attention layer, for every sequence of a batch";
  let description = [{
    ```mlir
    !kv = !kvcache.cache<heads = 8, dim = 128, page = 32, k = int4<axis = channel>, v = int4, residual = 128>
    ```
    | field | meaning | default |
    |---|---|---|
    | `heads` | KV heads | |
    | `dim`, `v_dim` | channels of a key, of a value | `v_dim = dim` |
    | `page` | slots of a page | |
    | `k`, `v` | storage formats; `v = alias<from = N>`: a value is `v_dim` channels of the stored key, from channel N on | |
    | `residual` | newest tokens kept exact beside the packed pages | 0 |
    | `tail` | type of the exact tokens | f16 |
    | `positions` | `implicit` (a slot's index) or `stored` | implicit |
    | `tables` | `per_sequence` or `per_head` | per_sequence |
    | `window`, `sinks` | ring: slots beyond `sinks` are reused after `window` tokens (0: no ring) | 0 |
    | `rope` | keys are stored unrotated and rotated when loaded | none |
    | `planes` | metadata: `minmax` and `mean` per page, `score` and `norm` per slot | none |
  }];
  let parameters = (ins
    "int64_t":$heads, "int64_t":$kDim, "int64_t":$vDim, "int64_t":$page,
    "::kvc::kvcache::FormatAttr":$k, "::kvc::kvcache::FormatAttr":$v,
    "int64_t":$residual, "::mlir::Type":$tail,
    "bool":$storedPositions, "bool":$perHead,
    "int64_t":$window, "int64_t":$sinks,
    "::kvc::kvcache::RopeAttr":$rope,
    "bool":$minmaxPlane, "bool":$scorePlane, "bool":$normPlane, "bool":$meanPlane,
    "int64_t":$valueFrom
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Tokens that are sealed together: the group of a per-channel format, else 1.
    int64_t getSealGroup() const;
    /// Slots of the ring of exact tokens (0 without one).
    int64_t getTailSlots() const;
    bool hasTail() const { return getTailSlots() != 0; }
    bool isRing() const { return getWindow() != 0; }
    /// Values are channels of the stored keys, from channel getValueFrom() (else -1) on; getV() is then getK().
    bool aliasesValues() const { return getValueFrom() >= 0; }
    /// A field, in its assembly, that parses and verifies but that nothing carries out yet; empty when there is none.
    ::llvm::StringRef getUnsupportedField() const;
    /// Tables of one sequence.
    int64_t getTablesPerSequence() const { return getPerHead() ? getHeads() : 1; }
    FormatAttr getFormat(Plane plane) const { return plane == Plane::K ? getK() : getV(); }
    int64_t getDim(Plane plane) const { return plane == Plane::K ? getKDim() : getVDim(); }
  }];
}

def KVCache_MemoryType : KVCache_Type<"Memory", "memory"> {
  let summary = "the arrays of a cache in memory: what a cache becomes when it is bufferised";
  let description = [{
    Ops that make a cache from a cache change the memory in place and give the same memory back.
    ```mlir
    func.func @step(%m: !kvcache.memory<!kv>) -> !kvcache.memory<!kv>
    ```
  }];
  let parameters = (ins "::kvc::kvcache::CacheType":$cache);
  let assemblyFormat = "`<` qualified($cache) `>`";
}

def KVCache_BatchType : KVCache_Type<"Batch", "batch"> {
  let summary = "which rows of q, k and v belong to which sequence, and their positions";
}

def KVCache_SelectionType : KVCache_Type<"Selection", "selection"> {
  let summary = "for every entry of a batch and KV head, a list of pages or of slots";
  let parameters = (ins EnumParameter<KVCache_Unit>:$unit);
  let assemblyFormat = "`<` $unit `>`";
}

def KVCache_SiteType : KVCache_Type<"Site", "site"> {
  let summary = "in a method: the type of a value of the attention site that the method will be spliced into";
  let parameters = (ins EnumParameter<KVCache_SiteRole>:$role);
  let assemblyFormat = "`<` $role `>`";
}

class KVCache_SiteOf<string role> : Type<
  CPred<"::llvm::isa<::kvc::kvcache::SiteType>($_self) && ::llvm::cast<::kvc::kvcache::SiteType>($_self).getRole() == "
        "::kvc::kvcache::SiteRole::" # role>, "site type of role " # role>;

// A dense operand or result: a tensor, or the memory that it becomes when it is bufferised.
class KVCache_Dense<int rank, Type element, list<Type> others, string summary>
    : AnyTypeOf<[TensorRankOf<[element], [rank]>, MemRefRankOf<[element], [rank]>] # others, summary>;

def KVCache_Rows : KVCache_Dense<3, F32, [KVCache_SiteOf<"Q">, KVCache_SiteOf<"K">, KVCache_SiteOf<"V">,
                                          KVCache_SiteOf<"Out">], "3D tensor of f32 (rows x heads x channels)">;
def KVCache_Lse : KVCache_Dense<2, F32, [KVCache_SiteOf<"Lse">], "2D tensor of f32 (rows x heads)">;
def KVCache_Scores : KVCache_Dense<3, F32, [KVCache_SiteOf<"Scores">],
                                   "3D tensor of f32 (entries x KV heads x slots or pages)">;
def KVCache_Keys : KVCache_Dense<4, F32, [], "4D tensor of f32 (entries, slots, heads, channels)">;
def KVCache_Lengths : KVCache_Dense<1, I32, [], "1D tensor of i32 (entries)">;
def KVCache_TreeMask : KVCache_Dense<2, I8, [], "2D tensor of i8 (rows x rows of an entry)">;
def KVCache_RowMask : KVCache_Dense<1, I8, [], "1D tensor of i8 (rows)">;
def KVCache_SinkLogits : KVCache_Dense<1, F32, [], "1D tensor of f32 (query heads)">;
// The softmax state: values only, as no op changes it in place.
def KVCache_Acc : TensorRankOf<[F32], [3]>; // rows x heads x value channels
def KVCache_PerHead : TensorRankOf<[F32], [2]>; // rows x heads
def KVCache_Cache : AnyTypeOf<[KVCache_CacheType, KVCache_MemoryType, KVCache_SiteOf<"Cache">], "kvcache.cache">;

#endif // KVC_DIALECTS_KVCACHE_KVCACHETYPES_TD
