//===- LinearTeam.cpp - Linear layers of a team on matrix units -----------===//
//
// A pass of rows x columns:
//
//   for each step of K that is this warp's        few rows: K is divided among warps, activations come from memory
//     for each chunk of 64 values
//       barrier, split activations, barrier       many rows: once for all warps, in staging memory
//       products of codes, scaled
//   sums to staging memory, barrier
//   for each row and column                       neighbouring lanes have neighbouring columns
//     the sum over warps, the element-wise part
//
//===----------------------------------------------------------------------===//
#include "LinearTeam.h"

#include "kvc/Target/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kvc;

namespace {
/// From few rows to many; the last takes any number. With few rows a warp cuts its own activations: for two tiles of
/// columns where an item has them.
SmallVector<LinearShape> shapesFor(int64_t itemTiles, const MmaAtom &atom) {
  constexpr int64_t fewRows = 16, manyRows = 128, rowWarps = 2;
  auto few = [](int64_t rowTiles, int64_t tiles) {
    const int64_t columnTiles = std::min<int64_t>(tiles, 2), columnWarps = tiles / columnTiles;
    return LinearShape{rowTiles, 1, columnTiles, columnWarps, linearWarps / columnWarps, false};
  };
  SmallVector<LinearShape> shapes{few(1, itemTiles)};
  if (atom.n < fewRows) {
    shapes.push_back(few(fewRows / atom.n, std::max<int64_t>(itemTiles, 2)));
  }
  shapes.push_back({manyRows / rowWarps / atom.n, rowWarps, 1, 4, 1, true});
  return shapes;
}
} // namespace

LinearTeam::LinearTeam(tile::LinearOp op, LinearContext &context, int64_t terms)
    : op(op), context(context), atom(context.atom), pair(context.facts.pairsSteps ? pairedAtom(context.atom) : nullptr),
      b(op.getLoc(), op), inner(op.getInner()), terms(terms) {
  stepValues = segmentValues;
  laneRun = 8;
  hasOffset = false;
  for (unsigned i = 0; i < op.getWeights().size(); ++i) {
    weights.emplace_back(op, i, terms);
    stepValues = std::max(stepValues, weights.back().blockValues);
    laneRun = weights.back().decoder.runsOfEight ? laneRun : 4;
    hasOffset |= weights.back().decoder.hasOffset;
  }
  constexpr int64_t chunk = 2 * segmentValues;
  if (stepValues < chunk && inner % chunk == 0) {
    stepValues = chunk;
  }
  chunkValues = std::min(stepValues, chunk);
  steps = inner / stepValues;
  tail = inner % stepValues;
}

void LinearTeam::forLoop(Value begin, Value end, Value by, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, begin, end, by);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

Value LinearTeam::view(int64_t offset, ArrayRef<int64_t> shape, Type element) {
  auto space = cast<MemRefType>(context.staging.getType()).getMemorySpace();
  auto type = MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
  useStaging(offset + type.getNumElements() * 4);
  return memref::ViewOp::create(b, type, context.staging, index(offset), ValueRange{});
}

void LinearTeam::run() {
  Value rows = arith::SubIOp::create(b, op.getRowEnd(), op.getRowBegin());
  SmallVector<LinearShape> shapes = shapesFor(chooseLinearTiles(op.getColumns(), context.facts), atom);
  auto emitFrom = [&](auto &&self, size_t number) -> void {
    const LinearShape &candidate = shapes[number];
    if (number + 1 == shapes.size()) {
      return emitShape(candidate);
    }
    Value few = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, rows, index(candidate.rows(atom)));
    auto branch = scf::IfOp::create(b, few, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    emitShape(candidate);
    b.setInsertionPoint(branch.elseYield());
    self(self, number + 1);
  };
  emitFrom(emitFrom, 0);
  op.erase();
}

void LinearTeam::emitShape(const LinearShape &wanted) {
  shape = wanted;
  // The sums of several weights must fit the registers as well: fewer rows.
  constexpr int64_t mostRows = 64;
  while (shape.rowTiles > 1 && shape.rowTiles * atom.n * static_cast<int64_t>(weights.size()) > mostRows) {
    shape.rowTiles /= 2;
  }
  passRows = shape.rows(atom);
  passColumns = shape.columns(atom);
  columnWarp = rem(context.warp, shape.columnWarps);
  rowWarp = rem(div(context.warp, shape.columnWarps), shape.rowWarps);
  innerWarp = div(context.warp, shape.columnWarps * shape.rowWarps);

  // Sums lie where the activations were. Padded, so that what a warp stores together falls on different banks.
  const int64_t partialRows = shape.innerWarps * static_cast<int64_t>(weights.size()) * passRows;
  partials = view(0, {partialRows, passColumns + 4}, b.getF32Type());
  int64_t below = partialRows * (passColumns + 4) * 4;
  if (shape.staged) {
    int64_t words = terms * passRows * chunkValues / 2;
    xMemory = view(0, {words}, b.getI32Type());
    below = std::max(below, words * 4);
  }
  if (hasOffset) {
    xSumMemory = view(below, {(shape.staged ? chunkValues : inner) / segmentValues, passRows}, b.getF32Type());
  }
  forLoop(op.getRowBegin(), op.getRowEnd(), index(passRows), [&](Value rowBlock) {
    rowsLeft = min(arith::SubIOp::create(b, op.getRowEnd(), rowBlock), index(passRows));
    Value lastRow = add(op.getRowEnd(), -1);
    xRows.clear();
    for (int64_t tile = 0; tile < shape.rowTiles && !shape.staged; ++tile) {
      Value inPass = add(add(mul(rowWarp, shape.rowTiles * atom.n), context.bColumn), tile * atom.n);
      xRows.push_back(min(add(rowBlock, inPass), lastRow));
    }
    if (hasOffset && !shape.staged) {
      emitXSums(rowBlock);
    }
    forLoop(op.getColumnBegin(), op.getColumnEnd(), index(passColumns),
            [&](Value column) { emitPass(rowBlock, column); });
  });
}

void LinearTeam::emitPass(Value rowBlock, Value column) {
  const int64_t tiles = shape.columnTiles, count = static_cast<int64_t>(weights.size());
  Value warpColumn = add(mul(columnWarp, tiles * atom.m), context.group);
  Value first = add(column, warpColumn);
  weightRows.clear();
  for (int64_t i = 0; i < tiles * atom.m; i += context.groups) {
    // Columns past the end repeat the last one, and their sums are not used.
    weightRows.push_back(min(add(first, i), index(op.getColumns() - 1)));
  }
  Words sums = emitSums(rowBlock, column);
  if (shape.staged) {
    gpu::BarrierOp::create(b);
  }
  Value warpRow = add(mul(rowWarp, shape.rowTiles * atom.n), context.sumColumn);
  for (auto [number, sum] : llvm::enumerate(sums)) {
    const int64_t perTile = context.sumsOfLane();
    const int64_t reg = static_cast<int64_t>(number) % perTile, place = static_cast<int64_t>(number) / perTile;
    const int64_t rowTile = place % shape.rowTiles, tile = place / shape.rowTiles % tiles,
                  w = place / shape.rowTiles / tiles;
    Value row =
        add(add(mul(innerWarp, count * passRows), warpRow), w * passRows + rowTile * atom.n + context.columnOf(reg));
    memref::StoreOp::create(b, sum, partials, ValueRange{row, add(warpColumn, tile * atom.m + context.rowOf(reg))});
  }
  gpu::BarrierOp::create(b);
  emitEpilogue(rowBlock, column);
  gpu::BarrierOp::create(b);
}

void LinearTeam::emitEpilogue(Value rowBlock, Value column) {
  const int64_t count = static_cast<int64_t>(weights.size());
  Value columnsLeft = arith::SubIOp::create(b, op.getColumnEnd(), column);
  Value threads = index(linearWarps * context.facts.lanes);
  forLoop(context.thread, mul(rowsLeft, passColumns), threads, [&](Value element) {
    Value row = div(element, passColumns), inPass = rem(element, passColumns);
    auto branch = scf::IfOp::create(b, isLess(inPass, columnsLeft), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    Block &body = op.getBody().front();
    IRMapping map;
    map.map(body.getArgument(0), add(rowBlock, row));
    map.map(body.getArgument(1), add(column, inPass));
    for (int64_t w = 0; w < count; ++w) {
      Value sum;
      for (int64_t part = 0; part < shape.innerWarps; ++part) {
        Value at = add(row, (part * count + w) * passRows);
        Value value = memref::LoadOp::create(b, partials, ValueRange{at, inPass});
        sum = sum ? arith::AddFOp::create(b, sum, value).getResult() : value;
      }
      map.map(body.getArgument(static_cast<unsigned>(2 + w)), sum);
    }
    for (Operation &inside : body) {
      b.clone(inside, map);
    }
  });
}

void LinearTeam::emitXSums(Value rowBlock) {
  Value threads = index(linearWarps * context.facts.lanes), segments = index(inner / segmentValues);
  forLoop(index(0), index(passRows), index(1), [&](Value row) {
    forLoop(context.thread, segments, threads, [&](Value segment) {
      // Rows past the end are read by lanes whose sums nobody uses.
      auto exists = scf::IfOp::create(b, TypeRange{b.getF32Type()}, isLess(row, rowsLeft), /*withElseRegion=*/true);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(exists.thenBlock());
        Value sum;
        for (int64_t k = 0; k < segmentValues; k += 4) {
          Value four = loadFour(op.getX(), add(rowBlock, row), mul(segment, segmentValues), {index(0), k}, allValues);
          for (int64_t i = 0; i < 4; ++i) {
            Value x = vector::ExtractOp::create(b, four, i);
            sum = sum ? arith::AddFOp::create(b, sum, x).getResult() : x;
          }
        }
        scf::YieldOp::create(b, sum);
        b.setInsertionPointToStart(exists.elseBlock());
        scf::YieldOp::create(b, number(0));
      }
      memref::StoreOp::create(b, exists.getResult(0), xSumMemory, ValueRange{segment, row});
    });
  });
  gpu::BarrierOp::create(b);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LinearTeam::Words LinearTeam::emitSums(Value rowBlock, Value column) {
  Words sums(weights.size() * shape.columnTiles * shape.rowTiles * context.sumsOfLane(), number(0));
  auto step = [&](Value number, int64_t limit, Words before) -> Words {
    const int64_t segmentsPerChunk = chunkValues / segmentValues;
    for (int64_t chunk = 0; chunk * chunkValues < stepValues; ++chunk) {
      if (!shape.staged) {
        for (int64_t segment = chunk * segmentsPerChunk; segment < (chunk + 1) * segmentsPerChunk; ++segment) {
          before = emitSegment(number, segment, limit, before);
        }
        continue;
      }
      gpu::BarrierOp::create(b);
      stageX(rowBlock, number, chunk, limit);
      gpu::BarrierOp::create(b);
      // Warps whose rows do not exist only help to split.
      Value used = isLess(mul(rowWarp, shape.rowTiles * atom.n), rowsLeft);
      auto branch = scf::IfOp::create(b, ValueRange(before).getTypes(), used, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, before);
      b.setInsertionPointToStart(branch.thenBlock());
      for (int64_t segment = chunk * segmentsPerChunk; segment < (chunk + 1) * segmentsPerChunk; ++segment) {
        before = emitSegment(number, segment, limit, before);
      }
      scf::YieldOp::create(b, before);
      before = branch.getResults();
    }
    return before;
  };
  if (steps) {
    auto loop = scf::ForOp::create(b, innerWarp, index(steps), index(shape.innerWarps), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, step(loop.getInductionVar(), allValues, Words(loop.getRegionIterArgs())));
    sums = loop.getResults();
  }
  if (tail) {
    if (shape.innerWarps == 1) {
      return step(index(steps), tail, sums);
    }
    Value mine = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, innerWarp, index(steps % shape.innerWarps));
    auto branch = scf::IfOp::create(b, ValueRange(sums).getTypes(), mine, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, sums);
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, step(index(steps), tail, sums));
    sums = branch.getResults();
  }
  return sums;
}

LinearTeam::Words LinearTeam::emitSegment(Value step, int64_t segment, int64_t limit, Words sums) {
  SmallVector<SplitWords> x;
  SmallVector<Value> xSums;
  const int64_t inChunk = segment % (chunkValues / segmentValues);
  for (int64_t tile = 0; tile < shape.rowTiles; ++tile) {
    x.push_back(shape.staged ? loadStagedX(tile, inChunk) : loadX(xRows[tile], step, segment, limit));
    if (hasOffset) {
      Value at = shape.staged ? index(inChunk) : add(mul(step, stepValues / segmentValues), segment);
      Value row = add(add(mul(rowWarp, shape.rowTiles * atom.n), context.sumColumn), tile * atom.n);
      const int64_t count = context.columnsOfLane();
      Value loaded =
          vector::LoadOp::create(b, VectorType::get({count}, b.getF32Type()), xSumMemory, ValueRange{at, row},
                                 /*nontemporal=*/false, llvm::MaybeAlign(std::min<int64_t>(16, count * 4)));
      for (int64_t i = 0; i < count; ++i) {
        xSums.push_back(vector::ExtractOp::create(b, loaded, i));
      }
    }
  }
  MutableArrayRef<Value> left = sums;
  for (const LinearWeight &weight : weights) {
    for (int64_t tile = 0; tile < shape.columnTiles; ++tile) {
      ArrayRef<Value> rows = ArrayRef<Value>(weightRows).slice(context.rowsOfLane * tile, context.rowsOfLane);
      MutableArrayRef<Value> own = left.take_front(shape.rowTiles * context.sumsOfLane());
      left = left.drop_front(own.size());
      if (weight.isPlain) {
        addPlain(weight, rows, step, segment, limit, x, own);
      } else {
        addCodes(weight, rows, step, segment, x, xSums, own);
      }
    }
  }
  return sums;
}

LinearTeam::Words LinearTeam::multiply(ArrayRef<Value> a, ArrayRef<Value> second, ArrayRef<Value> acc) {
  SmallVector<Type> types(context.sumsOfLane(), b.getF32Type());
  const MmaAtom &used = second.size() > static_cast<size_t>(2 * context.foursOfLane) ? *pair : atom;
  auto mma = tile::LaneMmaOp::create(b, types, used.name, a, second, acc);
  return Words(mma.getResults());
}

void LinearTeam::addPlain(const LinearWeight &weight, ArrayRef<Value> rows, Value step, int64_t segment, int64_t limit,
                          ArrayRef<SplitWords> x, MutableArrayRef<Value> sums) {
  SmallVector<SplitWords> a = loadPlain(weight, rows, step, segment, limit);
  for (auto [tile, words] : llvm::enumerate(x)) {
    MutableArrayRef<Value> own = sums.slice(tile * context.sumsOfLane(), context.sumsOfLane());
    const int64_t stepWords = 2 * context.foursOfLane, joined = pair ? 2 : 1;
    for (int64_t half = 0; half < 2; half += joined) {
      // Small products first. Those of later terms are below the rounding of f32.
      for (int64_t together = terms - 1; together >= 0; --together) {
        for (int64_t term = 0; term <= std::min(together, weight.terms - 1); ++term) {
          Words first;
          for (int64_t at = half; at < half + joined; ++at) {
            llvm::append_range(first, a[at][term]);
          }
          ArrayRef<Value> second = ArrayRef<Value>(words[together - term]).slice(stepWords * half, stepWords * joined);
          llvm::copy(multiply(first, second, own), own.begin());
        }
      }
    }
  }
}

void LinearTeam::addCodes(const LinearWeight &weight, ArrayRef<Value> rows, Value step, int64_t segment,
                          ArrayRef<SplitWords> x, ArrayRef<Value> xSums, MutableArrayRef<Value> sums) {
  const int64_t first = segment * segmentValues;
  Value block = add(mul(step, stepValues / weight.blockValues * weight.blockUnits),
                    first / weight.blockValues * weight.blockUnits);
  SmallVector<BlockAddress, 2> blocks;
  for (Value row : rows) {
    blocks.push_back({weight.memory, row, block, weight.alignment});
  }
  // One segment of two steps of the instruction, or two of one.
  const int64_t perScale = weight.decoder.segmentValues, halves = perScale / atom.k, joined = pair ? halves : 1;
  for (int64_t part = 0; part < segmentValues / perScale; ++part) {
    const int64_t number = (first % weight.blockValues) / perScale + part;
    SmallVector<DecodedSegment, 2> factors;
    for (const BlockAddress &address : blocks) {
      factors.push_back(weight.decoder.emitScales(b, address, number));
    }
    SmallVector<Words, 2> a;
    for (int64_t half = 0; half < halves; ++half) {
      a.push_back(loadCodes(weight, blocks, number, half, /*wholeSegment=*/halves == 2));
    }
    for (auto [tile, words] : llvm::enumerate(x)) {
      const int64_t perTile = context.sumsOfLane(), stepWords = 2 * context.foursOfLane;
      Words product(perTile, this->number(0));
      for (int64_t term = terms - 1; term >= 0; --term) {
        for (int64_t half = 0; half < halves; half += joined) {
          Words first;
          for (int64_t at = half; at < half + joined; ++at) {
            llvm::append_range(first, a[at]);
          }
          ArrayRef<Value> second = ArrayRef<Value>(words[term]).slice(stepWords * (part + half), stepWords * joined);
          product = multiply(first, second, product);
        }
      }
      for (int64_t reg = 0; reg < perTile; ++reg) {
        Value &sum = sums[tile * perTile + reg];
        const DecodedSegment &factor = factors[context.rowOf(reg) / context.groups];
        sum = math::FmaOp::create(b, product[reg], factor.scale, sum);
        if (factor.offset) {
          sum =
              math::FmaOp::create(b, factor.offset, xSums[tile * context.columnsOfLane() + context.columnOf(reg)], sum);
        }
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult kvc::lowerLinearKernel(func::FuncOp kernel, const TeamFacts &facts) {
  ImplicitLocOpBuilder b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  const MmaAtom &atom = *lookupMmaAtom((facts.mmaAtom + ".bf16").str());
  LinearContext context{facts, atom, atom.d(), 0, 0, 0, 0, {}, {}, {}, {}, {}, {}, {}};
  context.thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  context.warp = arith::DivUIOp::create(b, context.thread, index(facts.lanes));
  Value lane = arith::RemUIOp::create(b, context.thread, index(facts.lanes));
  // A digit of the lane for each mode of a layout along `axis`, counted by its stride (or one by one).
  auto digits = [&](const Layout &layout, Axis axis, bool scaled) {
    Value sum;
    for (const Mode &mode : layout.getModes()) {
      if (mode.in != Axis::Lane || mode.out != axis) {
        continue;
      }
      Value digit =
          b.createOrFold<arith::RemUIOp>(b.createOrFold<arith::DivUIOp>(lane, index(mode.inStride)), index(mode.size));
      if (scaled) {
        digit = b.createOrFold<arith::MulIOp>(digit, index(mode.outStride));
      }
      sum = sum ? b.createOrFold<arith::AddIOp>(sum, digit) : digit;
    }
    return sum ? sum : index(0);
  };
  auto lanesAlong = [](const Layout &layout, Axis axis) {
    int64_t count = 1;
    for (const Mode &mode : layout.getModes()) {
      count *= mode.in == Axis::Lane && mode.out == axis ? mode.size : 1;
    }
    return count;
  };
  const Layout a = atom.a();
  context.groups = lanesAlong(a, Axis::Row);
  context.rowsOfLane = atom.m / context.groups;
  context.quads = lanesAlong(a, Axis::Column);
  context.foursOfLane = atom.k / context.quads / 4;
  context.group = digits(a, Axis::Row, /*scaled=*/true);
  context.quad = digits(a, Axis::Column, /*scaled=*/false);
  context.bColumn = digits(atom.b(), Axis::Column, /*scaled=*/true);
  context.sumColumn = digits(context.sums, Axis::Column, /*scaled=*/true);
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(), MemRefLayoutAttrInterface(), space);
  context.staging = gpu::DynamicSharedMemoryOp::create(b, type);

  constexpr int64_t exactTerms = 3, fastTerms = 1;
  auto accuracy = kernel->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(linearAccuracyAttr);
  if (accuracy && accuracy != "exact" && accuracy != "fast") {
    return kernel->getParentOfType<ModuleOp>().emitError()
           << "expects " << linearAccuracyAttr << " to be \"exact\" or \"fast\", but got " << accuracy;
  }
  const int64_t terms = accuracy && accuracy == "fast" ? fastTerms : exactTerms;
  SmallVector<tile::LinearOp> ops;
  kernel.walk([&](tile::LinearOp op) { ops.push_back(op); });
  for (tile::LinearOp op : ops) {
    LinearTeam(op, context, terms).run();
  }
  if (context.stagingBytes > facts.stagingBytes) {
    return kernel.emitOpError() << "expects linear layers of at most " << facts.stagingBytes
                                << " bytes of staging memory, but got " << context.stagingBytes;
  }
  kernel->setAttr(tile::TileDialect::teamAttr, b.getI64IntegerAttr(linearWarps * facts.lanes));
  kernel->setAttr(tile::TileDialect::stagingAttr, b.getI64IntegerAttr(context.stagingBytes));
  return success();
}
