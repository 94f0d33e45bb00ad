// The tile dialect, its attributes and types, and the base class of its operations.
#ifndef KVC_DIALECTS_TILE_TILEBASE_TD
#define KVC_DIALECTS_TILE_TILEBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let summary = "how a kernel over caches runs: work items, page operands, matrix products, softmax state";
  let description = [{
    Two halves. In host functions: dispatches of kernels and the steps of a plan (docs/contracts/kernel-abi.md). In
    kernels (functions with the attribute `tile.kernel`): what the `vector` dialect lacks to write attention over pages for any
    machine. Sizes of tiles are static, counts are values; no op knows lanes, registers or memory spaces.
  }];
  let cppNamespace = "::kvc::tile";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::kvc::kvcache::KVCacheDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
    /// Unit attribute that makes a function a kernel; its last argument is the work item.
    static constexpr ::llvm::StringLiteral kernelAttr = "tile.kernel";
    /// Attribute of a kernel: bytes of scratch memory a worker needs (set by the target).
    static constexpr ::llvm::StringLiteral scratchAttr = "tile.scratch";
    /// Attributes of a kernel that is run by a team of lanes: lanes of a team, bytes of staging memory that it needs.
    static constexpr ::llvm::StringLiteral teamAttr = "tile.team";
    static constexpr ::llvm::StringLiteral stagingAttr = "tile.staging";
    /// Attribute of a kernel: the arrays whose maps `tile.box_map` names (a list of #tile.boxes).
    static constexpr ::llvm::StringLiteral boxesAttr = "tile.boxes";
    /// Attribute of a load of lanes: the region of staging memory that it reads (`tile.load_transposed`).
    static constexpr ::llvm::StringLiteral regionAttr = "tile.region";
    /// Attribute of a module: the name of the target row that layouts and lowerings follow.
    static constexpr ::llvm::StringLiteral targetAttr = "tile.target";
  }];
}

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kvc::tile";
  let genSpecializedAttr = 0;
}
class Tile_KeywordAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<Tile_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

def Tile_ReserveMode : Tile_Enum<"ReserveMode", "what a step is about to write", [
  I32EnumAttrCase<"Append", 0, "append">,   // new slots behind the present ones
  I32EnumAttrCase<"Rewrite", 1, "rewrite">  // any slot
]>;
def Tile_ReserveModeAttr : Tile_KeywordAttr<Tile_ReserveMode, "reserve_mode">;

def Tile_Part : Tile_Enum<"Part", "which memory of a cache holds a slot", [
  I32EnumAttrCase<"Pages", 0, "pages">,
  I32EnumAttrCase<"Tail", 1, "tail">
]>;
def Tile_PartAttr : Tile_KeywordAttr<Tile_Part, "part">;

def Tile_Contract : Tile_Enum<"Contract", "the dimension of a page operand that a product sums over", [
  I32EnumAttrCase<"Channels", 0, "channels">, // scores: rows x channels times slots x channels
  I32EnumAttrCase<"Slots", 1, "slots">        // output: rows x slots times slots x channels
]>;
def Tile_ContractAttr : Tile_KeywordAttr<Tile_Contract, "contract">;

def Tile_Counter : Tile_Enum<"Counter", "a number that a cache keeps for each table", [
  I32EnumAttrCase<"Length", 0, "length">,
  I32EnumAttrCase<"Sealed", 1, "sealed">
]>;
def Tile_CounterAttr : Tile_KeywordAttr<Tile_Counter, "counter">;

def Tile_SlotPlane : Tile_Enum<"SlotPlane", "a number stored with a slot", [
  I32EnumAttrCase<"Position", 0, "position">, // i32
  I32EnumAttrCase<"Score", 1, "score">,       // f32
  I32EnumAttrCase<"Norm", 2, "norm">          // f32
]>;
def Tile_SlotPlaneAttr : Tile_KeywordAttr<Tile_SlotPlane, "slot_plane">;

def Tile_Bound : Tile_Enum<"Bound", "which summary of a page's keys", [
  I32EnumAttrCase<"Min", 0, "min">,
  I32EnumAttrCase<"Max", 1, "max">
]>;
def Tile_BoundAttr : Tile_KeywordAttr<Tile_Bound, "bound">;

class Tile_Attr<string name, string mnem, list<Trait> traits = []> : AttrDef<Tile_Dialect, name, traits> {
  let mnemonic = mnem;
}
def Tile_ScheduleAttr : Tile_Attr<"Schedule", "schedule"> {
  let summary = "tile sizes of an attention kernel: one value, chosen by one function per target";
  let description = [{
    `prefill_tokens`: tokens of a query tile, each with all query heads of its group (an entry with one row has a tile of its own);
    `slots`: slots of a KV tile; `split`: slots that a span of a work item in decode has at least, where the sequence has as many (the plan of a
    step divides sequences into spans). Where a work item is run by a team of warps: `warps`: how many compute, `stages`: KV tiles that staging memory
    holds, `producers`: further warps that do nothing but copy for the others where a query tile has many rows (0: those that compute copy).
  }];
  let parameters = (ins "int64_t":$prefill_tokens, "int64_t":$slots, "int64_t":$split,
                        DefaultValuedParameter<"int64_t", "1">:$warps, DefaultValuedParameter<"int64_t", "1">:$stages,
                        DefaultValuedParameter<"int64_t", "0">:$producers);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_BoxesAttr : Tile_Attr<"Boxes", "boxes"> {
  let summary = "an array of 16-bit elements in memory that a kernel copies boxes of, and how large a box is";
  let description = [{
    Five dimensions, innermost first. The array begins `offset` bytes behind the start of the kernel's argument `argument`, a memref; neighbours of
    the four outer dimensions are `strides` bytes apart, `extents` are the sizes of the four inner ones, and the outermost goes as far as the
    memory. A `box` has that many elements of each dimension. It arrives in staging memory innermost dimension first, in rows of `swizzle` bytes,
    chunks swapped as in the panels of `tile.group_mma`.
  }];
  let parameters = (ins "int64_t":$argument, "int64_t":$offset, "::mlir::DenseI64ArrayAttr":$strides, "::mlir::DenseI64ArrayAttr":$extents,
                        "::mlir::DenseI64ArrayAttr":$box, "int64_t":$swizzle);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

class Tile_Type<string name, string mnem, list<Trait> traits = []> : TypeDef<Tile_Dialect, name, traits> {
  let mnemonic = mnem;
}
def Tile_OperandType : Tile_Type<"Operand", "operand"> {
  let summary = "slots x channels of a cache as an operand of a matrix product, in place: nothing has been loaded yet";
  let parameters = (ins "int64_t":$slots, "int64_t":$channels);
  let assemblyFormat = "`<` $slots `,` $channels `>`";
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

#endif // KVC_DIALECTS_TILE_TILEBASE_TD
