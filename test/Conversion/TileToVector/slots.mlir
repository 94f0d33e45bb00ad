// Slots become bytes of the page's layout. Every format, axis and layout lowers on every target.
// RUN: sed 's/TARGET/x86-64-v4/' %s | kvc-opt --kvc-convert-tile-to-vector --canonicalize | FileCheck %s
// RUN: sed 's/TARGET/x86-64-v3/' %s | kvc-opt --kvc-convert-tile-to-vector | FileCheck %s --check-prefix=ALL
// RUN: sed 's/TARGET/x86-64-v4-bf16/' %s | kvc-opt --kvc-convert-tile-to-vector | FileCheck %s --check-prefix=ALL
// RUN: sed 's/TARGET/aarch64/' %s | kvc-opt --kvc-convert-tile-to-vector | FileCheck %s --check-prefix=ALL
// ALL-NOT: tile.{{load|store|move}}

!packed = !kvcache.cache<heads = 2, dim = 8, page = 64, k = f16, v = int4<group = 8>>
!rows = !kvcache.cache<heads = 2, dim = 9, page = 12, k = int2<group = 4, axis = channel>, v = bf16>

module attributes {tile.target = "TARGET"} {
  // A key of a packed page: one unit in every block of lanes.
  // CHECK-LABEL: func.func @store_key
  // CHECK-COUNT-8: vector.store {{.*}} : memref<?xi8>, vector<2xi8>
  func.func @store_key(%c: !packed, %x: memref<8xf32>, %s: index) attributes {tile.kernel} {
    %zero = arith.constant 0 : index
    %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
    tile.store_slot k pages %v, %c[%zero, %zero, %s, %zero] : vector<8xf32>, !packed
    return
  }

  // A value shares its words with the neighbouring slots.
  // CHECK-LABEL: func.func @store_value
  // CHECK: vector.reduction <minimumf>
  // CHECK: math.roundeven
  // CHECK: %[[RAW:.*]] = vector.load {{.*}} : memref<?xi8>, vector<32xi8>
  // CHECK: %[[OLD:.*]] = vector.bitcast %[[RAW]] : vector<32xi8> to vector<8xi32>
  // CHECK: arith.andi %[[OLD]]
  // CHECK: vector.store {{.*}} : memref<?xi8>, vector<32xi8>
  func.func @store_value(%c: !packed, %x: memref<8xf32>, %s: index) attributes {tile.kernel} {
    %zero = arith.constant 0 : index
    %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
    tile.store_slot v pages %v, %c[%zero, %zero, %s, %zero] : vector<8xf32>, !packed
    return
  }

  // CHECK-LABEL: func.func @everything
  // CHECK-NOT: tile.{{load|store|move}}
  func.func @everything(%c: !packed, %r: !rows, %x: memref<9xf32>, %s: index) attributes {tile.kernel} {
    %zero = arith.constant 0 : index
    %a = tile.load_slot k pages %c[%zero, %zero, %s, %zero] : !packed -> vector<8xf32>
    %b = tile.load_slot v pages %c[%zero, %zero, %s, %zero] : !packed -> vector<8xf32>
    %d = tile.load_slot k pages %r[%zero, %zero, %s, %zero] : !rows -> vector<9xf32>
    %e = tile.load_slot k tail %r[%zero, %zero, %s, %zero] : !rows -> vector<9xf32>
    %f = tile.load_slot v tail %r[%zero, %zero, %s, %s] : !rows -> vector<1xf32>
    %g = tile.load_group k tail %r[%zero, %zero, %s, %s] : !rows -> vector<4xf32>
    %h = tile.load_group k pages %r[%zero, %zero, %s, %s] : !rows -> vector<4xf32>
    tile.store_group k %g, %r[%zero, %zero, %s, %s] : vector<4xf32>, !rows
    tile.store_slot v pages %d, %r[%zero, %zero, %s, %zero] : vector<9xf32>, !rows
    tile.store_slot v tail %e, %r[%zero, %zero, %s, %zero] : vector<9xf32>, !rows
    tile.move_slot %c[%zero, %zero] from %s to %zero : !packed
    vector.store %a, %x[%zero] : memref<9xf32>, vector<8xf32>
    vector.store %b, %x[%zero] : memref<9xf32>, vector<8xf32>
    vector.store %f, %x[%zero] : memref<9xf32>, vector<1xf32>
    vector.store %h, %x[%zero] : memref<9xf32>, vector<4xf32>
    return
  }
}
