// What the verifiers of the operations on weights refuse.
// RUN: kvc-opt %s -split-input-file -verify-diagnostics

func.func @unknown_encoding(%w: memref<7x34xi8>, %x: memref<32xf32>, %i: index) {
  // expected-error@+1 {{expects an encoding that can be decoded, but got 'q9_9'}}
  tile.decode_row %w[%i] to %x encoding "q9_9" : memref<7x34xi8>, memref<32xf32>
  return
}

// -----

func.func @part_of_a_block(%w: memref<7x34xi8>, %x: memref<40xf32>, %i: index) {
  // expected-error@+1 {{expects a static number of values in a row, a multiple of 32 for 'q8_0', but got 40}}
  tile.decode_row %w[%i] to %x encoding "q8_0" : memref<7x34xi8>, memref<40xf32>
  return
}

// -----

func.func @row_bytes(%w: memref<7x32xi8>, %x: memref<32xf32>, %i: index) {
  // expected-error@+1 {{expects a weight of type memref<Nx34xi8> for rows of 32 values in 'q8_0', but got 'memref<7x32xi8>'}}
  tile.decode_row %w[%i] to %x encoding "q8_0" : memref<7x32xi8>, memref<32xf32>
  return
}

// -----

func.func @number_of_encodings(%x: memref<?x32xf32>, %w: memref<7x34xi8>, %i: index) {
  // expected-error@+1 {{expects one encoding for each of one or more weights, but got 1 weights and 2 encodings}}
  tile.linear %x, %w rows %i to %i columns %i to %i encodings ["q8_0", "q8_0"] : memref<?x32xf32>, memref<7x34xi8> {
  ^bb0(%row: index, %column: index, %a: f32):
  }
  return
}

// -----

func.func @columns(%x: memref<?x32xf32>, %v: memref<7x34xi8>, %w: memref<8x34xi8>, %i: index) {
  // expected-error@+1 {{expects weights of the same number of rows, but got 'memref<7x34xi8>', 'memref<8x34xi8>'}}
  tile.linear %x, %v, %w rows %i to %i columns %i to %i encodings ["q8_0", "q8_0"] : memref<?x32xf32>, memref<7x34xi8>, memref<8x34xi8> {
  ^bb0(%row: index, %column: index, %a: f32, %b: f32):
  }
  return
}

// -----

func.func @region_arguments(%x: memref<?x32xf32>, %w: memref<7x34xi8>, %i: index) {
  // expected-error@+1 {{expects a region with arguments ('index', 'index', 'f32'), but got ('index', 'f32')}}
  tile.linear %x, %w rows %i to %i columns %i to %i encodings ["q8_0"] : memref<?x32xf32>, memref<7x34xi8> {
  ^bb0(%row: index, %a: f32):
  }
  return
}

// -----

func.func @region_operations(%x: memref<?x32xf32>, %w: memref<7x34xi8>, %y: memref<?x7xf32>, %i: index) {
  tile.linear %x, %w rows %i to %i columns %i to %i encodings ["q8_0"] : memref<?x32xf32>, memref<7x34xi8> {
  ^bb0(%row: index, %column: index, %a: f32):
    // expected-error@+1 {{expects to be element-wise, a load or a store inside tile.linear}}
    %n = memref.dim %y, %i : memref<?x7xf32>
  }
  return
}
