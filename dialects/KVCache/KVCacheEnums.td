// Enumerations of the kvcache dialect.
#ifndef KVC_DIALECTS_KVCACHE_KVCACHEENUMS_TD
#define KVC_DIALECTS_KVCACHE_KVCACHEENUMS_TD

include "mlir/IR/EnumAttr.td"
include "KVCache/KVCacheBase.td"

class KVCache_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kvc::kvcache";
  let genSpecializedAttr = 0;
}
// Written as a bare keyword in the assembly of an op.
class KVCache_KeywordAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<KVCache_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}
// Written in attribute dictionaries: #kvcache.stat<sum>.
class KVCache_DictAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<KVCache_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def KVCache_Axis : KVCache_Enum<"Axis", "the direction in which neighbours share a scale", [
  I32EnumAttrCase<"Token", 0, "token">,      // a group is some channels of one token
  I32EnumAttrCase<"Channel", 1, "channel">   // a group is one channel of consecutive tokens
]>;

def KVCache_Pairing : KVCache_Enum<"Pairing", "which channels RoPE rotates together", [
  I32EnumAttrCase<"Adjacent", 0, "adjacent">, // (2i, 2i + 1)
  I32EnumAttrCase<"Half", 1, "half">,         // (i, i + dims / 2)
  // (2i, 2i + 1), and the rotated pair goes to (i, i + dims / 2): weights whose rows were permuted for neighbours give keys in
  // the order of the original model, so that groups of channels that share a scale are those of the original.
  I32EnumAttrCase<"AdjacentToHalf", 2, "adjacent_to_half">
]>;

def KVCache_Result : KVCache_Enum<"AttentionResult", "what attention returns", [
  I32EnumAttrCase<"Out", 0, "out">,
  I32EnumAttrCase<"Lse", 1, "lse">,
  I32EnumAttrCase<"Stats", 2, "stats">
]>;
def KVCache_ResultAttr : KVCache_DictAttr<KVCache_Result, "result">;
def KVCache_ResultArrayAttr : TypedArrayAttrBase<KVCache_ResultAttr, "array of attention results">;

def KVCache_Stat : KVCache_Enum<"Stat", "how attention probabilities are reduced over rows and the heads of a group", [
  I32EnumAttrCase<"Sum", 0, "sum">,     // sum of probabilities
  I32EnumAttrCase<"Max", 1, "max">,     // largest probability
  I32EnumAttrCase<"Count", 2, "count">, // how many rows gave more than 1 / (number of visible keys)
  I32EnumAttrCase<"Mean", 3, "mean">,   // sum divided by the number of rows that see the slot
  I32EnumAttrCase<"Decay", 4, "decay">, // sum in which a row weighs stat_decay to the number of later rows
  I32EnumAttrCase<"Hits", 5, "hits">    // how many rows gave more than stat_threshold
]>;
def KVCache_StatAttr : KVCache_DictAttr<KVCache_Stat, "stat">;

def KVCache_Unit : KVCache_Enum<"Unit", "what a score or a selection speaks of", [
  I32EnumAttrCase<"Page", 0, "page">,
  I32EnumAttrCase<"Token", 1, "token">
]>;
def KVCache_UnitAttr : KVCache_KeywordAttr<KVCache_Unit, "unit">;

def KVCache_ScoreKind : KVCache_Enum<"ScoreKind", "where a score comes from", [
  I32EnumAttrCase<"Bound", 0, "bound">,       // per page: sum over channels of max(q min, q max)
  I32EnumAttrCase<"Dot", 1, "dot">,           // per token: q . k
  I32EnumAttrCase<"KeyNorm", 2, "key_norm">,  // per token: L2 norm of the stored key
  I32EnumAttrCase<"Plane", 3, "plane">,       // per token: the cache's score plane
  I32EnumAttrCase<"Mean", 4, "mean">          // per page: q . (mean of the page's keys)
]>;
def KVCache_ScoreKindAttr : KVCache_KeywordAttr<KVCache_ScoreKind, "score_kind">;

def KVCache_Update : KVCache_Enum<"Update", "how statistics enter the score plane", [
  I32EnumAttrCase<"Add", 0, "add">,
  I32EnumAttrCase<"Decay", 1, "decay">,
  I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Replace", 3, "replace">
]>;
def KVCache_UpdateAttr : KVCache_KeywordAttr<KVCache_Update, "update">;

def KVCache_Plane : KVCache_Enum<"Plane", "the stored key or value of a slot", [
  I32EnumAttrCase<"K", 0, "k">,
  I32EnumAttrCase<"V", 1, "v">
]>;
def KVCache_PlaneAttr : KVCache_KeywordAttr<KVCache_Plane, "plane">;

def KVCache_DenseLayout : KVCache_Enum<"DenseLayout", "order of the axes of exported keys and values", [
  I32EnumAttrCase<"NHD", 0, "nhd">,  // entry, slot, head, channel
  I32EnumAttrCase<"HND", 1, "hnd">   // entry, head, slot, channel
]>;
def KVCache_DenseLayoutAttr : KVCache_DictAttr<KVCache_DenseLayout, "dense_layout">;

def KVCache_SiteRole : KVCache_Enum<"SiteRole", "which value of an attention site a method speaks of", [
  I32EnumAttrCase<"Q", 0, "q">,
  I32EnumAttrCase<"K", 1, "k">,
  I32EnumAttrCase<"V", 2, "v">,
  I32EnumAttrCase<"Out", 3, "out">,
  I32EnumAttrCase<"Lse", 4, "lse">,
  I32EnumAttrCase<"Scores", 5, "scores">,
  I32EnumAttrCase<"Cache", 6, "cache">
]>;

#endif // KVC_DIALECTS_KVCACHE_KVCACHEENUMS_TD
