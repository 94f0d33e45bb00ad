// Operations of the tile dialect.
#ifndef KVC_DIALECTS_TILE_TILEOPS_TD
#define KVC_DIALECTS_TILE_TILEOPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "KVCache/KVCacheTypes.td"
include "Tile/TileBase.td"
include "Tile/TileLinearOps.td"

//===----------------------------------------------------------------------===//
// Host functions: the plan
//===----------------------------------------------------------------------===//

def Tile_DispatchOp : Tile_Op<"dispatch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel for all its work items";
  let description = [{
    The kernel's arguments are the inputs, then the outputs, then the item. Outputs are written in place and come back as results of
    the same types: tensors, or caches whose memory the kernel changes.
    ```mlir
    %r = tile.dispatch @norm[%rows] ins(%x, %w) outs(%empty) : (tensor<?x576xf32>, tensor<576xf32>), (tensor<?x576xf32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$items, Variadic<AnyType>:$inputs, Variadic<AnyType>:$outputs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $kernel `[` $items `]` `ins` `(` $inputs `)` `outs` `(` $outputs `)` attr-dict `:` `(` type($inputs) `)` `,`
    custom<SameTypes>(type($outputs), type($results))
  }];
  let builders = [OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$kernel, "::mlir::Value":$items, "::mlir::ValueRange":$inputs,
                                 "::mlir::ValueRange":$outputs), [{
    build($_builder, $_state, outputs.getTypes(), kernel, items, inputs, outputs);
  }]>];
  let hasVerifier = 1;
}

def Tile_ReserveOp : Tile_Op<"reserve", [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "makes the memory that the next steps write to exist and be unshared";
  let description = [{
    `append`: pages and tails for the batch's new rows; `rewrite`: no page or tail of the batch's sequences is shared afterwards.
    ```mlir
    %c1 = tile.reserve append %c0 at %b : !kv
    ```
  }];
  let arguments = (ins Tile_ReserveModeAttr:$mode, KVCache_CacheType:$cache, KVCache_BatchType:$batch);
  let results = (outs KVCache_CacheType:$result);
  let assemblyFormat = "$mode $cache `at` $batch attr-dict `:` type($cache)";
}

def Tile_ReserveLengthsOp : Tile_Op<"reserve_lengths", [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "makes memory for new contents of the batch's sequences exist and be unshared";
  let description = [{
    Every table of entry i gets pages for `lengths[i]` slots, which is at most `limit`.
    ```mlir
    %c1 = tile.reserve_lengths %c0 at %b for %lengths up_to %n : !kv, tensor<?xi32>
    ```
  }];
  let arguments = (ins KVCache_CacheType:$cache, KVCache_BatchType:$batch, 1DTensorOf<[I32]>:$lengths, Index:$limit);
  let results = (outs KVCache_CacheType:$result);
  let assemblyFormat = [{
    $cache `at` $batch `for` $lengths `up_to` $limit attr-dict `:` type($cache) `,` type($lengths)
  }];
}

def Tile_CreateOp : Tile_Op<"create", [Pure]> {
  let summary = "an empty cache of another type for the same sequences";
  let description = [{
    It has pages and tails for the slots of the source's tables of the batch's sequences.
    ```mlir
    %c1 = tile.create like %c0 at %b : !kv_f16 to !kv_int8
    ```
  }];
  let arguments = (ins KVCache_CacheType:$source, KVCache_BatchType:$batch);
  let results = (outs KVCache_CacheType:$result);
  let assemblyFormat = "`like` $source `at` $batch attr-dict `:` type($source) `to` type($result)";
}

def Tile_ReleaseOp : Tile_Op<"release", [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "gives pages past the end of the batch's tables back to the pool";
  let description = [{
    ```mlir
    %c1 = tile.release %c0 at %b : !kv
    ```
  }];
  let arguments = (ins KVCache_CacheType:$cache, KVCache_BatchType:$batch);
  let results = (outs KVCache_CacheType:$result);
  let assemblyFormat = "$cache `at` $batch attr-dict `:` type($cache)";
}

def Tile_CloneOp : Tile_Op<"clone", [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "a copy of a cache that shares all pages until one side writes";
  let description = [{
    ```mlir
    %c1 = tile.clone %c0 : !kv
    ```
  }];
  let arguments = (ins KVCache_CacheType:$cache);
  let results = (outs KVCache_CacheType:$result);
  let assemblyFormat = "$cache attr-dict `:` type($cache)";
}

def Tile_RowsOp : Tile_Op<"rows", [Pure]> {
  let summary = "number of rows of a batch";
  let description = [{ Over all entries. }];
  let arguments = (ins KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_EntriesOp : Tile_Op<"entries", [Pure]> {
  let summary = "number of entries of a batch";
  let description = [{ Each entry is one sequence. }];
  let arguments = (ins KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_MaxRowsOp : Tile_Op<"max_rows", [Pure]> {
  let summary = "largest number of rows of one entry of a batch";
  let description = [{ 1 in a decode step. }];
  let arguments = (ins KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_SingleRowsOp : Tile_Op<"single_rows", [Pure]> {
  let summary = "number of entries of a batch with one row";
  let description = [{ All of them in a decode step, none in a prefill of longer prompts. }];
  let arguments = (ins KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_ProcessorsOp : Tile_Op<"processors", [Pure]> {
  let summary = "processors of the device that a plan runs on: among so many work is divided";
  let description = [{
    At least 1. Of a GPU what its driver answers: multiprocessors, compute units. Of a CPU a number above any amount of work, so that
    results do not depend on its threads.
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_MaxLengthOp : Tile_Op<"max_length", [Pure]> {
  let summary = "largest number of slots in use over the tables of the batch's sequences";
  let description = [{ As it stands when the host reaches this step. }];
  let arguments = (ins KVCache_CacheType:$cache, KVCache_BatchType:$batch);
  let results = (outs Index:$result);
  let assemblyFormat = "$cache `at` $batch attr-dict `:` type($cache)";
}

def Tile_MakeSelectionOp : Tile_Op<"make_selection", [Pure]> {
  let summary = "a selection from its two arrays";
  let description = [{
    `counts[list]` entries of `entries[list]`, in ascending order, for list = entry * KV heads + head.
    ```mlir
    %s = tile.make_selection %counts, %entries : tensor<?xi32>, tensor<?x?xi32> -> !kvcache.selection<page>
    ```
  }];
  let arguments = (ins 1DTensorOf<[I32]>:$counts, 2DTensorOf<[I32]>:$entries);
  let results = (outs KVCache_SelectionType:$result);
  let assemblyFormat = "$counts `,` $entries attr-dict `:` type($counts) `,` type($entries) `->` qualified(type($result))";
}

//===----------------------------------------------------------------------===//
// Kernels: numbers about batches and caches
//===----------------------------------------------------------------------===//

def Tile_QueryRangeOp : Tile_Op<"query_range", [Pure]> {
  let summary = "first row of an entry and the row behind its last";
  let description = [{
    ```mlir
    %begin, %end = tile.query_range %b[%entry]
    ```
  }];
  let arguments = (ins KVCache_BatchType:$batch, Index:$entry);
  let results = (outs Index:$begin, Index:$end);
  let assemblyFormat = "$batch `[` $entry `]` attr-dict";
}

def Tile_SequenceOp : Tile_Op<"sequence", [Pure]> {
  let summary = "the sequence of an entry";
  let description = [{ A row of the tables of every cache. }];
  let arguments = (ins KVCache_BatchType:$batch, Index:$entry);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch `[` $entry `]` attr-dict";
}

def Tile_PositionOp : Tile_Op<"position", [Pure]> {
  let summary = "position of a row";
  let description = [{ In its sequence; 0 is the first token ever appended. }];
  let arguments = (ins KVCache_BatchType:$batch, Index:$row);
  let results = (outs Index:$result);
  let assemblyFormat = "$batch `[` $row `]` attr-dict";
}

def Tile_CounterOp : Tile_Op<"counter", [MemoryEffects<[MemRead]>]> {
  let summary = "slots in use, or sealed, of a table";
  let description = [{
    ```mlir
    %n = tile.counter length %c[%sequence, %head] : !kv
    ```
  }];
  let arguments = (ins Tile_CounterAttr:$counter, KVCache_CacheType:$cache, Index:$sequence, Index:$head);
  let results = (outs Index:$result);
  let assemblyFormat = "$counter $cache `[` $sequence `,` $head `]` attr-dict `:` type($cache)";
}

def Tile_SetCounterOp : Tile_Op<"set_counter", [MemoryEffects<[MemWrite]>]> {
  let summary = "sets slots in use, or sealed, of a table";
  let description = [{
    ```mlir
    tile.set_counter length %c[%sequence, %head], %n : !kv
    ```
  }];
  let arguments = (ins Tile_CounterAttr:$counter, KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$value);
  let assemblyFormat = "$counter $cache `[` $sequence `,` $head `]` `,` $value attr-dict `:` type($cache)";
}

//===----------------------------------------------------------------------===//
// Kernels: single slots
//===----------------------------------------------------------------------===//

// Slots are addressed as [sequence, KV head, slot].
class Tile_SlotOp<string mnemonic, list<Trait> traits> : Tile_Op<mnemonic, traits>;

def Tile_LoadSlotOp : Tile_SlotOp<"load_slot", [MemoryEffects<[MemRead]>]> {
  let summary = "decodes channels of one slot's key or value";
  let description = [{
    Channels `channel .. channel + n - 1` of a slot in `part`: a whole row, whole groups, or one channel.
    ```mlir
    %x = tile.load_slot k pages %c[%sequence, %head, %slot, %channel] : !kv -> vector<32xf32>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, Tile_PartAttr:$part, KVCache_CacheType:$cache, Index:$sequence,
                       Index:$head, Index:$slot, Index:$channel);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = [{
    $plane $part $cache `[` $sequence `,` $head `,` $slot `,` $channel `]` attr-dict `:` type($cache) `->` type($result)
  }];
}

def Tile_StoreSlotOp : Tile_SlotOp<"store_slot", [MemoryEffects<[MemWrite]>]> {
  let summary = "encodes channels of one slot's key or value";
  let description = [{
    For the tail, floating point formats, and integer formats with `axis = token` (then n is a whole number of groups, aligned).
    Where formats share bytes between slots, the bits of other slots stay.
    ```mlir
    tile.store_slot v pages %x, %c[%sequence, %head, %slot, %channel] : vector<32xf32>, !kv
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, Tile_PartAttr:$part, VectorOfRankAndType<[1], [F32]>:$value,
                       KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$slot, Index:$channel);
  let assemblyFormat = [{
    $plane $part $value `,` $cache `[` $sequence `,` $head `,` $slot `,` $channel `]` attr-dict `:` type($value) `,` type($cache)
  }];
}

def Tile_LoadGroupOp : Tile_SlotOp<"load_group", [MemoryEffects<[MemRead]>]> {
  let summary = "decodes one channel of consecutive slots";
  let description = [{
    Slots `slot .. slot + n - 1`, slot a multiple of n; in pages the slots lie in one page.
    ```mlir
    %x = tile.load_group k tail %c[%sequence, %head, %slot, %channel] : !kv -> vector<32xf32>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, Tile_PartAttr:$part, KVCache_CacheType:$cache, Index:$sequence,
                       Index:$head, Index:$slot, Index:$channel);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = [{
    $plane $part $cache `[` $sequence `,` $head `,` $slot `,` $channel `]` attr-dict `:` type($cache) `->` type($result)
  }];
}

def Tile_StoreGroupOp : Tile_SlotOp<"store_group", [MemoryEffects<[MemWrite]>]> {
  let summary = "encodes one channel of a group of slots that share a scale";
  let description = [{
    For integer formats with `axis = channel`: slots `slot .. slot + group - 1` of one channel, in the pages.
    ```mlir
    tile.store_group k %x, %c[%sequence, %head, %slot, %channel] : vector<32xf32>, !kv
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, VectorOfRankAndType<[1], [F32]>:$value, KVCache_CacheType:$cache,
                       Index:$sequence, Index:$head, Index:$slot, Index:$channel);
  let assemblyFormat = [{
    $plane $value `,` $cache `[` $sequence `,` $head `,` $slot `,` $channel `]` attr-dict `:` type($value) `,` type($cache)
  }];
}

def Tile_MoveSlotOp : Tile_SlotOp<"move_slot", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies a slot's key and value to another slot in the pages, as they are stored";
  let description = [{
    Codes, scales and zeros are copied bit by bit. Not for formats whose scales are shared between slots.
    ```mlir
    tile.move_slot %c[%sequence, %head] from %a to %b : !kv
    ```
  }];
  let arguments = (ins KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$from, Index:$to);
  let assemblyFormat = "$cache `[` $sequence `,` $head `]` `from` $from `to` $to attr-dict `:` type($cache)";
}

def Tile_LoadNumberOp : Tile_SlotOp<"load_number", [MemoryEffects<[MemRead]>]> {
  let summary = "the stored position (i32), score or norm (f32) of a slot";
  let description = [{
    The position is the slot's index in a cache without stored positions.
    ```mlir
    %p = tile.load_number position %c[%sequence, %head, %slot] : !kv -> i32
    ```
  }];
  let arguments = (ins Tile_SlotPlaneAttr:$plane, KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$slot);
  let results = (outs AnyTypeOf<[I32, F32]>:$result);
  let assemblyFormat = "$plane $cache `[` $sequence `,` $head `,` $slot `]` attr-dict `:` type($cache) `->` type($result)";
}

def Tile_StoreNumberOp : Tile_SlotOp<"store_number", [MemoryEffects<[MemWrite]>]> {
  let summary = "sets the stored position (i32), score or norm (f32) of a slot";
  let description = [{
    ```mlir
    tile.store_number score %x, %c[%sequence, %head, %slot] : f32, !kv
    ```
  }];
  let arguments = (ins Tile_SlotPlaneAttr:$plane, AnyTypeOf<[I32, F32]>:$value, KVCache_CacheType:$cache, Index:$sequence,
                       Index:$head, Index:$slot);
  let assemblyFormat = "$plane $value `,` $cache `[` $sequence `,` $head `,` $slot `]` attr-dict `:` type($value) `,` type($cache)";
}

def Tile_LoadBoundOp : Tile_SlotOp<"load_bound", [MemoryEffects<[MemRead]>]> {
  let summary = "channels of the smallest or largest key of a page";
  let description = [{
    ```mlir
    %x = tile.load_bound min %c[%sequence, %head, %page, %channel] : !kv -> vector<16xf32>
    ```
  }];
  let arguments = (ins Tile_BoundAttr:$bound, KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$page,
                       Index:$channel);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = [{
    $bound $cache `[` $sequence `,` $head `,` $page `,` $channel `]` attr-dict `:` type($cache) `->` type($result)
  }];
}

def Tile_StoreBoundOp : Tile_SlotOp<"store_bound", [MemoryEffects<[MemWrite]>]> {
  let summary = "sets channels of the smallest or largest key of a page";
  let description = [{
    ```mlir
    tile.store_bound max %x, %c[%sequence, %head, %page, %channel] : vector<16xf32>, !kv
    ```
  }];
  let arguments = (ins Tile_BoundAttr:$bound, VectorOfRankAndType<[1], [F32]>:$value, KVCache_CacheType:$cache,
                       Index:$sequence, Index:$head, Index:$page, Index:$channel);
  let assemblyFormat = [{
    $bound $value `,` $cache `[` $sequence `,` $head `,` $page `,` $channel `]` attr-dict `:` type($value) `,` type($cache)
  }];
}

//===----------------------------------------------------------------------===//
// Kernels: tiles of attention
//===----------------------------------------------------------------------===//

def Tile_LoadRowsOp : Tile_Op<"load_rows", [MemoryEffects<[MemRead]>]> {
  let summary = "a tile of query rows: tokens times the query heads of a group, packed";
  let description = [{
    Row m is token `row + m / group`, head `head + m % group`, with `group` heads; rows of tokens past `count` are zero. A source of
    rank 2 (rows x heads) gives one number for each row.
    ```mlir
    %q = tile.load_rows %query[%row, %head] count %n group 4 : memref<?x32x128xf32> -> vector<64x128xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Index:$row, Index:$head, Index:$count, I64Attr:$group);
  let results = (outs VectorOfRankAndType<[1, 2], [F32]>:$result);
  let assemblyFormat = "$source `[` $row `,` $head `]` `count` $count `group` $group attr-dict `:` type($source) `->` type($result)";
}

def Tile_StoreRowsOp : Tile_Op<"store_rows", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a tile of rows back, or one number for each row; the inverse of load_rows";
  let description = [{
    ```mlir
    tile.store_rows %o, %out[%row, %head] count %n group 4 : vector<64x128xf32>, memref<?x32x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1, 2], [F32]>:$value, AnyMemRef:$target, Index:$row, Index:$head, Index:$count,
                       I64Attr:$group);
  let assemblyFormat = [{
    $value `,` $target `[` $row `,` $head `]` `count` $count `group` $group attr-dict `:` type($value) `,` type($target)
  }];
}

def Tile_RowPositionsOp : Tile_Op<"row_positions", [Pure]> {
  let summary = "positions of the rows of a query tile, as load_rows packs them";
  let description = [{
    ```mlir
    %p = tile.row_positions %b[%row] count %n group 4 : vector<64xi32>
    ```
  }];
  let arguments = (ins KVCache_BatchType:$batch, Index:$row, Index:$count, I64Attr:$group);
  let results = (outs VectorOfRankAndType<[1], [I32]>:$result);
  let assemblyFormat = "$batch `[` $row `]` `count` $count `group` $group attr-dict `:` type($result)";
}

def Tile_LoadHeadsOp : Tile_Op<"load_heads", [MemoryEffects<[MemRead]>]> {
  let summary = "one number for each row of a query tile, by its head, as load_rows packs them";
  let description = [{
    Row m gets source[head + m % group].
    ```mlir
    %s = tile.load_heads %sinks[%head] group 4 : memref<32xf32> -> vector<64xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Index:$head, I64Attr:$group);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$source `[` $head `]` `group` $group attr-dict `:` type($source) `->` type($result)";
}

def Tile_LoadMaskOp : Tile_Op<"load_mask", [MemoryEffects<[MemRead]>]> {
  let summary = "what a mask of rows x columns says of the rows of a query tile and consecutive columns";
  let description = [{
    Element (m, s) is mask[row + m / group, column + s] where that column is one of the first `width` and the token one of the first
    `count`, else 1. `column` may be negative: a mask over the newest slots has nothing to say of older ones.
    ```mlir
    %t = tile.load_mask %mask[%row, %column] count %n width %w group 4 : memref<?x?xi8> -> vector<64x64xi32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Index:$row, Index:$column, Index:$count, Index:$width, I64Attr:$group);
  let results = (outs VectorOfRankAndType<[2], [I32]>:$result);
  let assemblyFormat = [{
    $source `[` $row `,` $column `]` `count` $count `width` $width `group` $group attr-dict `:` type($source) `->` type($result)
  }];
}

def Tile_StoreSlotNumbersOp : Tile_Op<"store_slot_numbers", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes one number for each slot of a tile";
  let description = [{
    Elements `slot .. slot + count - 1` of a row of scores (entries x KV heads x slots).
    ```mlir
    tile.store_slot_numbers %x, %scores[%entry, %head, %slot] count %n : vector<64xf32>, memref<?x8x?xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$value, AnyMemRef:$target, Index:$entry, Index:$head, Index:$slot,
                       Index:$count);
  let assemblyFormat = [{
    $value `,` $target `[` $entry `,` $head `,` $slot `]` `count` $count attr-dict `:` type($value) `,` type($target)
  }];
}

def Tile_SelectionCountOp : Tile_Op<"selection_count", [MemoryEffects<[MemRead]>]> {
  let summary = "number of pages or slots selected for an entry and KV head";
  let description = [{
    ```mlir
    %n = tile.selection_count %s[%entry, %head] of 8 : !kvcache.selection<page>
    ```
  }];
  let arguments = (ins KVCache_SelectionType:$selection, Index:$entry, Index:$head, I64Attr:$heads);
  let results = (outs Index:$result);
  let assemblyFormat = "$selection `[` $entry `,` $head `]` `of` $heads attr-dict `:` qualified(type($selection))";
}

def Tile_SelectionEntryOp : Tile_Op<"selection_entry", [MemoryEffects<[MemRead]>]> {
  let summary = "the i-th selected page or slot of an entry and KV head";
  let description = [{
    ```mlir
    %p = tile.selection_entry %s[%entry, %head, %i] of 8 : !kvcache.selection<page>
    ```
  }];
  let arguments = (ins KVCache_SelectionType:$selection, Index:$entry, Index:$head, Index:$index, I64Attr:$heads);
  let results = (outs Index:$result);
  let assemblyFormat = "$selection `[` $entry `,` $head `,` $index `]` `of` $heads attr-dict `:` qualified(type($selection))";
}

def Tile_SlotPositionsOp : Tile_Op<"slot_positions", [MemoryEffects<[MemRead]>]> {
  let summary = "positions of consecutive slots";
  let description = [{
    Slots past the table's end have an undefined position.
    ```mlir
    %p = tile.slot_positions pages %c[%sequence, %head, %slot] : !kv -> vector<64xi32>
    ```
  }];
  let arguments = (ins Tile_PartAttr:$part, KVCache_CacheType:$cache, Index:$sequence, Index:$head, Index:$slot);
  let results = (outs VectorOfRankAndType<[1], [I32]>:$result);
  let assemblyFormat = "$part $cache `[` $sequence `,` $head `,` $slot `]` attr-dict `:` type($cache) `->` type($result)";
}

def Tile_OperandOp : Tile_Op<"operand", [MemoryEffects<[MemRead]>]> {
  let summary = "consecutive slots of a cache as an operand of mma, in place";
  let description = [{
    Only the first `count` slots exist; a product over slots sums those alone, whatever lies behind them.
    ```mlir
    %k = tile.operand k pages %c[%sequence, %head, %slot] count %n : !kv -> !tile.operand<64, 128>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, Tile_PartAttr:$part, KVCache_CacheType:$cache, Index:$sequence, Index:$head,
                       Index:$slot, Index:$count);
  let results = (outs Tile_OperandType:$result);
  let assemblyFormat = [{
    $plane $part $cache `[` $sequence `,` $head `,` $slot `]` `count` $count attr-dict `:` type($cache) `->` type($result)
  }];
}

def Tile_GatherOperandOp : Tile_Op<"gather_operand", [MemoryEffects<[MemRead]>]> {
  let summary = "selected slots of a cache's pages as an operand of mma";
  let description = [{
    Slots `selection[entry, head, first .. first + count - 1]`.
    ```mlir
    %k = tile.gather_operand k %c[%sequence, %head] by %sel[%entry, %first] count %n : !kv, !kvcache.selection<token> -> !tile.operand<64, 128>
    ```
  }];
  let arguments = (ins KVCache_PlaneAttr:$plane, KVCache_CacheType:$cache, Index:$sequence, Index:$head,
                       KVCache_SelectionType:$selection, Index:$entry, Index:$first, Index:$count);
  let results = (outs Tile_OperandType:$result);
  let assemblyFormat = [{
    $plane $cache `[` $sequence `,` $head `]` `by` $selection `[` $entry `,` $first `]` `count` $count attr-dict `:`
    type($cache) `,` qualified(type($selection)) `->` type($result)
  }];
}

def Tile_GatherPositionsOp : Tile_Op<"gather_positions", [MemoryEffects<[MemRead]>]> {
  let summary = "positions of selected slots";
  let description = [{
    As gather_operand orders them; undefined past the count.
    ```mlir
    %p = tile.gather_positions %c[%sequence, %head] by %sel[%entry, %first] count %n : !kv, !kvcache.selection<token> -> vector<64xi32>
    ```
  }];
  let arguments = (ins KVCache_CacheType:$cache, Index:$sequence, Index:$head, KVCache_SelectionType:$selection,
                       Index:$entry, Index:$first, Index:$count);
  let results = (outs VectorOfRankAndType<[1], [I32]>:$result);
  let assemblyFormat = [{
    $cache `[` $sequence `,` $head `]` `by` $selection `[` $entry `,` $first `]` `count` $count attr-dict `:`
    type($cache) `,` qualified(type($selection)) `->` type($result)
  }];
}

def Tile_MmaOp : Tile_Op<"mma", [Pure]> {
  let summary = "matrix product of a tile with a page operand, accumulated in f32";
  let description = [{
    `channels`: result[r, s] = sum over c of a[r, c] * b[s, c]; `slots`: result[r, c] = acc[r, c] + sum over s < count of a[r, s] * b[s, c].
    ```mlir
    %s = tile.mma channels %q, %k : (vector<64x128xf32>, !tile.operand<64, 128>) -> vector<64x64xf32>
    %o = tile.mma slots %p, %v acc %o0
        : (vector<64x64xf32>, !tile.operand<64, 128>, vector<64x128xf32>) -> vector<64x128xf32>
    ```
  }];
  let arguments = (ins Tile_ContractAttr:$contract, VectorOfRankAndType<[2], [F32]>:$a, Tile_OperandType:$b,
                       Optional<VectorOfRankAndType<[2], [F32]>>:$acc);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = "$contract $a `,` $b (`acc` $acc^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Tile_SoftmaxStepOp : Tile_Op<"softmax_step", [Pure, AllTypesMatch<["scores", "probs"]>,
    AllTypesMatch<["max", "sum", "new_max", "new_sum"]>, AllTypesMatch<["acc", "new_acc"]>]> {
  let summary = "enters a tile of scores into the softmax state";
  let description = [{
    Scores are in units of log 2. With m' = max(m, visible scores of the row): p = exp2(score - m') where visible, else 0;
    sum' = sum * exp2(m - m') + sum of p; acc' = acc * exp2(m - m'). A row without a visible slot keeps its state.
    ```mlir
    %p, %m1, %l1, %a1 = tile.softmax_step %s, %visible state %m, %l, %a
        : vector<64x64xf32>, vector<64x64xi1>, vector<64xf32>, vector<64x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$scores, VectorOfRankAndType<[2], [I1]>:$visible,
                       VectorOfRankAndType<[1], [F32]>:$max, VectorOfRankAndType<[1], [F32]>:$sum,
                       VectorOfRankAndType<[2], [F32]>:$acc);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$probs, VectorOfRankAndType<[1], [F32]>:$new_max,
                      VectorOfRankAndType<[1], [F32]>:$new_sum, VectorOfRankAndType<[2], [F32]>:$new_acc);
  let assemblyFormat = [{
    $scores `,` $visible `state` $max `,` $sum `,` $acc attr-dict `:` type($scores) `,` type($visible) `,` type($max) `,` type($acc)
  }];
  let hasVerifier = 1;
}

def Tile_SoftmaxFinishOp : Tile_Op<"softmax_finish", [Pure, AllTypesMatch<["max", "sum", "lse"]>,
    AllTypesMatch<["acc", "out"]>]> {
  let summary = "output and log-sum-exp of a softmax state";
  let description = [{
    out = acc / sum, lse = (max + log2(sum)) * ln 2; a row with sum = 0 gives 0 and -inf.
    ```mlir
    %o, %lse = tile.softmax_finish %m, %l, %a : vector<64xf32>, vector<64x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$max, VectorOfRankAndType<[1], [F32]>:$sum,
                       VectorOfRankAndType<[2], [F32]>:$acc);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$out, VectorOfRankAndType<[1], [F32]>:$lse);
  let assemblyFormat = "$max `,` $sum `,` $acc attr-dict `:` type($max) `,` type($acc)";
  let hasVerifier = 1;
}

def Tile_PairDotOp : Tile_Op<"pair_dot", [Pure, AllTypesMatch<["acc", "result"]>, AllTypesMatch<["a", "b"]>]> {
  let summary = "acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1], accumulated in f32";
  let description = [{
    The dot instruction of one lane's pairs, for targets whose row has `bf16Pairs = 2`.
    ```mlir
    %r = tile.pair_dot %acc, %a, %b : vector<16xf32>, vector<32xbf16>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$acc, VectorOfRankAndType<[1], [BF16]>:$a,
                       VectorOfRankAndType<[1], [BF16]>:$b);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a)";
}

#endif // KVC_DIALECTS_TILE_TILEOPS_TD
