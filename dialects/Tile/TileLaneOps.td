// Operations of the tile dialect on what one lane of a team holds: the code between distribution and a target's own.
#ifndef KVC_DIALECTS_TILE_TILELANEOPS_TD
#define KVC_DIALECTS_TILE_TILELANEOPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "Tile/TileBase.td"

// One register of an operand: a 32-bit word of narrow elements.
def Tile_Word : AnyTypeOf<[VectorOfLengthAndType<[2], [F16]>, VectorOfLengthAndType<[2], [BF16]>, VectorOfLengthAndType<[4], [I8]>],
                          "word of narrow elements">;
// Bytes of the team's staging memory, or of memory that all teams see.
def Tile_Bytes : MemRefRankOf<[I8], [1]>;

def Tile_LaneMmaOp : Tile_Op<"lane_mma", [Pure, AttrSizedOperandSegments]> {
  let summary = "one step of the target's matrix unit: acc + a b, each lane holding its registers of the three";
  let description = [{
    `atom` names a row of the table of atoms (include/kvc/Target/Atoms.h), whose layouts say which element a register holds. All lanes of a
    warp take part.
    ```mlir
    %d:4 = tile.lane_mma "m16n8k16.f16" (%a0, %a1, %a2, %a3) (%b0, %b1) acc (%c0, %c1, %c2, %c3)
        : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> (f32, f32, f32, f32)
    ```
  }];
  let arguments = (ins StrAttr:$atom, Variadic<Tile_Word>:$a, Variadic<Tile_Word>:$b, Variadic<AnyTypeOf<[F32, I32]>>:$acc);
  let results = (outs Variadic<AnyTypeOf<[F32, I32]>>:$results);
  let assemblyFormat = [{
    $atom `(` $a `)` `(` $b `)` `acc` `(` $acc `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Tile_LoadMatricesOp : Tile_Op<"load_matrices", [MemoryEffects<[MemRead]>]> {
  let summary = "8 x 8 matrices of 16-bit elements from staging memory, spread over the lanes of a warp";
  let description = [{
    Lane 8 m + r gives the byte offset of row r (16 bytes, aligned) of matrix m. Lane l gets elements (l / 4, 2 (l % 4)) and the next one
    in the row; `transposed`: elements (2 (l % 4), l / 4) and the next one in the column.
    ```mlir
    %m:4 = tile.load_matrices %staging[%offset + 512] transposed : memref<65536xi8, #gpu.address_space<workgroup>> -> vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>
    ```
  }];
  let arguments = (ins Tile_Bytes:$memory, I32:$offset, DefaultValuedAttr<I64Attr, "0">:$displacement, UnitAttr:$transposed);
  let results = (outs Variadic<Tile_Word>:$results);
  let assemblyFormat = [{
    $memory `[` $offset (`+` $displacement^)? `]` (`transposed` $transposed^)? attr-dict `:` type($memory) `->` type($results)
  }];
  let hasVerifier = 1;
}

def Tile_CopyAsyncOp : Tile_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of 16 bytes into staging memory";
  let description = [{
    The bytes arrive at any time before a `wait_async` that waits for the group. With `valid` false nothing is read, and zeros arrive.
    ```mlir
    tile.copy_async %pages[%from + 512] to %staging[%to + 1024] if %valid : memref<?xi8>, memref<65536xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Tile_Bytes:$source, Index:$from, DefaultValuedAttr<I64Attr, "0">:$from_displacement,
                       Tile_Bytes:$target, I32:$to, DefaultValuedAttr<I64Attr, "0">:$to_displacement, Optional<I1>:$valid);
  let assemblyFormat = [{
    $source `[` $from (`+` $from_displacement^)? `]` `to` $target `[` $to (`+` $to_displacement^)? `]` (`if` $valid^)? attr-dict `:` type($source) `,` type($target)
  }];
}

def Tile_CommitAsyncOp : Tile_Op<"commit_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes a group of the copies that this lane started since the last one";
  let description = [{ A group may be empty. }];
  let assemblyFormat = "attr-dict";
}

def Tile_WaitAsyncOp : Tile_Op<"wait_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all but the newest `pending` groups of this lane have arrived";
  let description = [{ Other lanes see them after a barrier.
    ```mlir
    tile.wait_async 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

#endif // KVC_DIALECTS_TILE_TILELANEOPS_TD
