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

// What the code of one lane is made of: no lowering of tiles meets it.
def Tile_LaneLevel : NativeOpTrait<"LaneLevel"> {
  let cppNamespace = "::kvc::tile";
}
class Tile_LaneOp<string mnemonic, list<Trait> traits = []> : Tile_Op<mnemonic, traits # [Tile_LaneLevel]>;

def Tile_LaneMmaOp : Tile_LaneOp<"lane_mma", [Pure, AttrSizedOperandSegments]> {
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

def Tile_LoadMatricesOp : Tile_LaneOp<"load_matrices", [MemoryEffects<[MemRead]>]> {
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

def Tile_CopyAsyncOp : Tile_LaneOp<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
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

def Tile_CommitAsyncOp : Tile_LaneOp<"commit_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes a group of the copies that this lane started since the last one";
  let description = [{ A group may be empty. }];
  let assemblyFormat = "attr-dict";
}

def Tile_WaitAsyncOp : Tile_LaneOp<"wait_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all but the newest `pending` groups of this lane have arrived";
  let description = [{ Other lanes see them after a barrier.
    ```mlir
    tile.wait_async 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Tile_BoxMapOp : Tile_LaneOp<"box_map", [Pure]> {
  let summary = "the address of the map of an array that boxes are copied of: the kernel's attribute `tile.boxes` has it at `number`";
  let assemblyFormat = "$number attr-dict `:` type($address)";
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$number);
  let results = (outs Index:$address);
}

def Tile_CopyBoxesOp : Tile_LaneOp<"copy_boxes", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warp starts copies of `count` boxes into staging memory, one behind the other, and arrives at a phase barrier";
  let description = [{
    Lane i < `count` knows where box i begins: at element (0, 0, 0, `group`, `block`) of the array; without `group` at group 0. The boxes, `bytes`
    each, go to `to` and behind it. The phase of the barrier ends when all of them have arrived and whoever else it waits for has, too: the warp counts as one
    arrival. Products may read the bytes then. All lanes of the warp take part; `to` is the same in all.
    ```mlir
    tile.copy_boxes 8 of %map[%block] to %staging[%to] bytes 4096 arrive [%barrier + 8] : memref<?xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<32>]>:$count, Index:$map, I32:$block, Optional<I32>:$group,
                       Tile_Bytes:$memory, I32:$to, ConfinedAttr<I64Attr, [IntPositive]>:$bytes, I32:$barrier,
                       DefaultValuedAttr<I64Attr, "0">:$displacement);
  let assemblyFormat = [{
    $count `of` $map `[` $block (`group` $group^)? `]` `to` $memory `[` $to `]` `bytes` $bytes
    `arrive` `[` $barrier (`+` $displacement^)? `]` attr-dict `:` type($memory)
  }];
}

def Tile_CopyWarpOp : Tile_LaneOp<"copy_warp", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of 16 bytes for each lane of a warp into staging memory, side by side";
  let description = [{
    Lane i's bytes come from byte `from`, its own, of a view, zeros where that lies behind the view's end, and go to `to` + 16 i, where `to` is
    the same in all lanes. They arrive at any time before a `wait_warp`. All lanes of the warp take part. `region`: see `load_transposed`.
    ```mlir
    tile.copy_warp %view[%from + 512] to %staging[%to + 1024] region 0 : memref<?xi8, strided<[1], offset: ?>>, memref<65536xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Tile_Bytes:$source, I32:$from, DefaultValuedAttr<I64Attr, "0">:$from_displacement, Tile_Bytes:$target, I32:$to,
                       DefaultValuedAttr<I64Attr, "0">:$to_displacement, I64Attr:$region);
  let assemblyFormat = [{
    $source `[` $from (`+` $from_displacement^)? `]` `to` $target `[` $to (`+` $to_displacement^)? `]` `region` $region attr-dict
    `:` type($source) `,` type($target)
  }];
}

def Tile_WaitWarpOp : Tile_LaneOp<"wait_warp", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all that `copy_warp` of this warp copies has arrived";
  let description = [{ Other warps see it after a barrier. }];
  let assemblyFormat = "attr-dict";
}

def Tile_LoadTransposedOp : Tile_LaneOp<"load_transposed", [MemoryEffects<[MemRead]>]> {
  let summary = "columns of 4 x 16 matrices of 16-bit elements in staging memory, one for each lane";
  let description = [{
    Of sixteen lanes, 4 r + c gives the byte offset of elements 4 c .. 4 c + 3 of row r (8 bytes, aligned). Lane l of them gets element l of the
    four rows. What different `region`s name is never the same memory: a read need not wait for copies to another one. A `vector.load` names its
    region by the attribute `tile.region`.
    ```mlir
    %v:2 = tile.load_transposed %staging[%offset + 512] region 1 : memref<65536xi8, #gpu.address_space<workgroup>> -> vector<2xf16>, vector<2xf16>
    ```
  }];
  let arguments = (ins Tile_Bytes:$memory, I32:$offset, DefaultValuedAttr<I64Attr, "0">:$displacement, I64Attr:$region);
  let results = (outs Tile_Word:$low, Tile_Word:$high);
  let assemblyFormat = [{
    $memory `[` $offset (`+` $displacement^)? `]` `region` $region attr-dict `:` type($memory) `->` type($low) `,` type($high)
  }];
}

// Products of a group of warps -----------------------------------------------------------------------------------------
//
// An operand in staging memory lies in panels: columns of `swizzle` bytes. Of eight rows the panels lie one behind the other, each with its
// rows one below the other; behind them come the next eight rows. Bits 4 and up of a byte's address are flipped by as many of the bits from 7
// on as `swizzle` / 16 chunks of a row can be told apart by: chunk c of row r lies in place c xor (r mod 8) of a row of 128 bytes. The operand
// starts at a multiple of 1024 bytes.

def Tile_GroupMmaOp : Tile_LaneOp<"group_mma", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts acc + a b by all warps of a group: the summed dimension in `steps` steps of the atom";
  let description = [{
    `atom` names a row of the table of group atoms (include/kvc/Target/Atoms.h). A is in registers, `steps` times the registers of the
    atom, or at `a_offset` of staging memory, its rows along the summed dimension. B is at `b_offset`; `transposed`: its rows lie across the
    summed dimension (row k holds all columns). `a_panels`, `b_panels`: how many lie side by side. Without `acc` sums start at zero. The
    results, and the registers of A, may not be touched before a `group_mma_wait` that waits for the product; the bytes of A and B may not
    be overwritten before it. All lanes of the group take part.
    ```mlir
    %d:4 = tile.group_mma "m64k16.f16" () [%q] times %staging[%k] acc () {a_panels = 1, b_panels = 1, steps = 4, swizzle = 128}
        : (i32, memref<?xi8, #gpu.address_space<workgroup>>, i32) -> (f32, f32, f32, f32)
    ```
  }];
  let arguments = (ins StrAttr:$atom, Variadic<Tile_Word>:$a, Optional<I32>:$a_offset, Tile_Bytes:$memory, I32:$b_offset,
                       Variadic<F32>:$acc, I64Attr:$steps, I64Attr:$swizzle, DefaultValuedAttr<I64Attr, "0">:$a_panels,
                       I64Attr:$b_panels, UnitAttr:$transposed);
  let results = (outs Variadic<F32>:$results);
  let assemblyFormat = [{
    $atom `(` $a `)` (`[` $a_offset^ `]`)? `times` $memory `[` $b_offset `]` `acc` `(` $acc `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Tile_GroupMmaWaitOp : Tile_LaneOp<"group_mma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until all but the newest `pending` products of the group are complete";
  let description = [{
    `values`: results of the products that are complete then, which may be used as `results`; and what shall be computed before.
    ```mlir
    %s:2 = tile.group_mma_wait 0 (%d#0, %d#1) : (f32, f32) -> (f32, f32)
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, Variadic<AnyTypeOf<[F32, Tile_Word]>>:$values);
  let results = (outs Variadic<AnyTypeOf<[F32, Tile_Word]>>:$results);
  let assemblyFormat = "$pending `(` $values `)` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Tile_PublishOp : Tile_LaneOp<"publish", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "what is known to this lane to be in staging memory becomes visible to products that read it there";
  let description = [{ Stores and copies are not before. }];
  let assemblyFormat = "attr-dict";
}

// Order between parts of a team ----------------------------------------------------------------------------------------
//
// A phase barrier is eight bytes of staging memory, aligned. It counts arrivals; when the last of a phase arrives, the next phase begins.
// Phases have parities 0, 1, 0 ...

def Tile_PhaseInitOp : Tile_LaneOp<"phase_init", [MemoryEffects<[MemWrite]>]> {
  let summary = "makes a phase barrier in its phase 0";
  let description = [{ One lane does so; others use it after a barrier of all.
    ```mlir
    tile.phase_init %staging[%offset + 8] arrivals 4 : memref<?xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Tile_Bytes:$memory, I32:$offset, DefaultValuedAttr<I64Attr, "0">:$displacement,
                       ConfinedAttr<I64Attr, [IntPositive]>:$arrivals);
  let assemblyFormat = "$memory `[` $offset (`+` $displacement^)? `]` `arrivals` $arrivals attr-dict `:` type($memory)";
}

def Tile_PhaseArriveOp : Tile_LaneOp<"phase_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "this lane arrives at a phase barrier, at once or when all copies that it started have arrived";
  let description = [{
    ```mlir
    tile.phase_arrive %staging[%offset + 8] after_copies : memref<?xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Tile_Bytes:$memory, I32:$offset, DefaultValuedAttr<I64Attr, "0">:$displacement, UnitAttr:$after_copies);
  let assemblyFormat = [{
    $memory `[` $offset (`+` $displacement^)? `]` (`after_copies` $after_copies^)? attr-dict `:` type($memory)
  }];
}

def Tile_PhaseWaitOp : Tile_LaneOp<"phase_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the phase of the given parity is over";
  let description = [{
    A phase barrier is at most one phase ahead. What arrivals of the phase did before is visible then.
    ```mlir
    tile.phase_wait %staging[%offset + 8] parity %parity : memref<?xi8, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Tile_Bytes:$memory, I32:$offset, DefaultValuedAttr<I64Attr, "0">:$displacement, I32:$parity);
  let assemblyFormat = "$memory `[` $offset (`+` $displacement^)? `]` `parity` $parity attr-dict `:` type($memory)";
}

def Tile_WarpBarrierOp : Tile_LaneOp<"warp_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a barrier of the lanes of a warp";
  let assemblyFormat = "attr-dict";
}

def Tile_PartBarrierOp : Tile_LaneOp<"part_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a barrier of `lanes` lanes of the team: whole warps that all name the same `id` (1 to 15)";
  let description = [{
    ```mlir
    tile.part_barrier 1 lanes 256
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<15>]>:$id, ConfinedAttr<I64Attr, [IntPositive]>:$lanes);
  let assemblyFormat = "$id `lanes` $lanes attr-dict";
}

def Tile_SetRegistersOp : Tile_LaneOp<"set_registers", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "from here on the lanes of this group have `count` registers: fewer than before, or `more`, which others gave up";
  let description = [{
    ```mlir
    tile.set_registers 240 more
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$count, UnitAttr:$more);
  let assemblyFormat = "$count (`more` $more^)? attr-dict";
}

#endif // KVC_DIALECTS_TILE_TILELANEOPS_TD
