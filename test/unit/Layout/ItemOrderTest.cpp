//===- ItemOrderTest.cpp - Items on dies ----------------------------------===//
#include "kvc/Target/ItemOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace kvc;

namespace {
/// Places of all items, from the code for numbers that are known.
class Places {
public:
  Places(int64_t groups, int64_t members, int64_t dies) {
    mlir::MLIRContext context;
    context.loadDialect<mlir::arith::ArithDialect, mlir::scf::SCFDialect>();
    const mlir::Location location = mlir::UnknownLoc::get(&context);
    for (int64_t item = 0; item < groups * members; ++item) {
      mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(location);
      auto b = mlir::ImplicitLocOpBuilder::atBlockBegin(location, module->getBody());
      auto word = [&](int64_t value) -> mlir::Value {
        return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
      };
      const ItemPlace place = placeOnDies(b, word(item), word(groups), word(members), dies);
      all.push_back({valueOf(place.group), valueOf(place.member)});
    }
  }
  std::vector<std::pair<int64_t, int64_t>> all;

private:
  /// Branches have conditions that are known, too.
  static int64_t valueOf(mlir::Value value) {
    llvm::APInt number;
    auto branch = value.getDefiningOp<mlir::scf::IfOp>();
    EXPECT_TRUE(branch && mlir::matchPattern(branch.getCondition(), mlir::m_ConstantInt(&number)));
    mlir::Block *block = number.isZero() ? branch.elseBlock() : branch.thenBlock();
    value = block->getTerminator()->getOperand(mlir::cast<mlir::OpResult>(value).getResultNumber());
    EXPECT_TRUE(mlir::matchPattern(value, mlir::m_ConstantInt(&number)));
    return number.getSExtValue();
  }
};
} // namespace

// Grids of any size, whole rounds of dies or not.
TEST(ItemOrder, EveryMemberIsAnItem) {
  for (int64_t groups : {1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 23}) {
    for (int64_t members : {1, 2, 3, 5, 8, 13}) {
      const Places places(groups, members, 8);
      const std::set<std::pair<int64_t, int64_t>> seen(places.all.begin(), places.all.end());
      EXPECT_EQ(static_cast<int64_t>(seen.size()), groups * members) << groups << " x " << members;
      for (auto [group, member] : seen) {
        EXPECT_TRUE(group >= 0 && group < groups && member >= 0 && member < members)
            << groups << " x " << members << ": " << group << ", " << member;
      }
    }
  }
}

TEST(ItemOrder, GroupsStayOnTheirDies) {
  for (int64_t dies : {2, 4, 8}) {
    for (int64_t groups : {1, 3, 4, 7, 8, 11, 16, 30}) {
      for (int64_t members : {1, 6, 7}) {
        const Places places(groups, members, dies);
        std::map<int64_t, std::set<int64_t>> diesOf;
        for (auto [item, place] : llvm::enumerate(places.all)) {
          diesOf[place.first].insert(static_cast<int64_t>(item) % dies);
        }
        for (const auto &[group, own] : diesOf) {
          // Of the groups behind the last whole round: the block that the group is in.
          int64_t size = dies;
          while (group >= groups / size * size) {
            size /= 2;
          }
          EXPECT_LE(static_cast<int64_t>(own.size()), dies / size)
              << "group " << group << " of " << groups << " with " << members << " members on " << dies << " dies";
        }
      }
    }
  }
}

// A die works on one group after the other (of whole rounds), from the first member to the last.
TEST(ItemOrder, MembersFollowEachOther) {
  constexpr int64_t groups = 19, members = 6, dies = 8;
  const Places places(groups, members, dies);
  for (int64_t die = 0; die < dies; ++die) {
    std::pair<int64_t, int64_t> before{-1, members - 1};
    for (int64_t item = die; item < groups / dies * dies * members; item += dies) {
      const auto place = places.all[item];
      if (before.second == members - 1) {
        EXPECT_GT(place.first, before.first);
        EXPECT_EQ(place.second, 0);
      } else {
        EXPECT_EQ(place, std::pair(before.first, before.second + 1));
      }
      before = place;
    }
  }
}
