// Operations of the tile dialect on the weights of linear layers.
#ifndef KVC_DIALECTS_TILE_TILELINEAROPS_TD
#define KVC_DIALECTS_TILE_TILELINEAROPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "Tile/TileBase.td"

// N rows of a weight: f32 elements, or the bytes of the blocks that the encoding defines.
def Tile_WeightMemory : MemRefRankOf<[F32, I8], [2]>;
def Tile_EncodingArrayAttr : TypedArrayAttrBase<StrAttr, "array of the encodings of weights">;

def Tile_LinearOp : Tile_Op<"linear", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "rows of activations times rows of weights, and what is done with each result";
  let description = [{
    For every row r of `rows` and column c of `columns`: the products over k of x[r, k] and w[c, k], one for each weight, enter
    the region, which uses them element-wise: arithmetic, loads and stores at [r, c], [r], [c] or [], nothing else. All
    weights have the same number of rows. `encodings` name the blocks of each weight: `f32`, or a type as `#kvcache.encoded` has it.
    Weights are dequantised exactly; products are summed in f32.
    ```mlir
    tile.linear %x, %gate, %up rows %r0 to %r1 columns %c0 to %c1 encodings ["q4_1", "q4_1"]
        : memref<?x576xf32>, memref<1536x360xi8>, memref<1536x360xi8> {
    ^bb0(%row: index, %column: index, %g: f32, %u: f32):
      %y = arith.mulf %g, %u : f32
      memref.store %y, %out[%row, %column] : memref<?x1536xf32>
    }
    ```
  }];
  let arguments = (ins MemRefRankOf<[F32], [2]>:$x, Variadic<Tile_WeightMemory>:$weights, Index:$row_begin, Index:$row_end,
                       Index:$column_begin, Index:$column_end, Tile_EncodingArrayAttr:$encodings);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $x `,` $weights `rows` $row_begin `to` $row_end `columns` $column_begin `to` $column_end `encodings` $encodings attr-dict
    `:` type($x) `,` type($weights) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getInner() { return getX().getType().getDimSize(1); }
    int64_t getColumns() { return ::llvm::cast<::mlir::MemRefType>(getWeights().front().getType()).getDimSize(0); }
  }];
}

def Tile_DecodeRowOp : Tile_Op<"decode_row", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "dequantises one row of an encoded weight";
  let description = [{
    ```mlir
    tile.decode_row %w[%row] to %x encoding "q8_0" : memref<49152x612xi8>, memref<576xf32>
    ```
  }];
  let arguments = (ins Tile_WeightMemory:$weight, Index:$row, MemRefRankOf<[F32], [1]>:$target, StrAttr:$encoding);
  let assemblyFormat = [{
    $weight `[` $row `]` `to` $target `encoding` $encoding attr-dict `:` type($weight) `,` type($target)
  }];
  let hasVerifier = 1;
}

#endif // KVC_DIALECTS_TILE_TILELINEAROPS_TD
