//===- ControlFlow.cpp - Where lanes meet again after a branch ------------===//
//
// The meeting point of a branch is its immediate post-dominator: the first instruction that every way from the branch
// to the end of the function passes.
//
//===----------------------------------------------------------------------===//
#include "ptx/DecoderImpl.h"

#include <algorithm>

using namespace kvc::sim::ptx;

namespace {

struct Block {
  int32_t begin = 0;
  int32_t end = 0;
  std::vector<int32_t> successors;
  std::vector<int32_t> predecessors;
};

class PostDominators {
public:
  PostDominators(Program &program, int32_t begin, int32_t end) : program(program), begin(begin), end(end) {}

  void run() {
    makeBlocks();
    orderBlocks();
    solve();
    for (int32_t pc = begin; pc < end; ++pc) {
      Inst &inst = program.code[pc];
      if (inst.flow == Flow::Branch || inst.flow == Flow::BranchIndexed) {
        const int32_t meet = dominator[blockOf[pc - begin]];
        inst.meet = meet < 0 || meet == exit ? -1 : blocks[meet].begin;
      }
    }
  }

private:
  static bool endsBlock(const Inst &inst) {
    switch (inst.flow) {
    case Flow::Branch:
    case Flow::BranchIndexed:
    case Flow::Return:
    case Flow::Exit:
      return true;
    default:
      return false;
    }
  }

  void targetsOf(const Inst &inst, int32_t pc, std::vector<int32_t> &targets) const {
    if (inst.flow == Flow::Branch) {
      targets.push_back(inst.target);
    } else if (inst.flow == Flow::BranchIndexed) {
      // The table of targets.
      const auto &table = program.operandLists[inst.aux];
      targets.insert(targets.end(), table.begin(), table.end());
    }
    const bool falls = !endsBlock(inst) || inst.guard != noPlace;
    if (falls && pc + 1 < end) {
      targets.push_back(pc + 1);
    }
  }

  void makeBlocks() {
    std::vector<bool> starts(end - begin, false);
    starts[0] = true;
    std::vector<int32_t> targets;
    for (int32_t pc = begin; pc < end; ++pc) {
      const Inst &inst = program.code[pc];
      if (endsBlock(inst)) {
        targets.clear();
        targetsOf(inst, pc, targets);
        for (int32_t target : targets) {
          starts[target - begin] = true;
        }
        if (pc + 1 < end) {
          starts[pc + 1 - begin] = true;
        }
      }
    }
    blockOf.resize(end - begin);
    for (int32_t pc = begin; pc < end; ++pc) {
      if (starts[pc - begin]) {
        blocks.push_back({pc, pc, {}, {}});
      }
      blocks.back().end = pc + 1;
      blockOf[pc - begin] = int32_t(blocks.size()) - 1;
    }
    exit = int32_t(blocks.size());
    blocks.push_back({end, end, {}, {}});
    for (int32_t i = 0; i < exit; ++i) {
      const int32_t last = blocks[i].end - 1;
      const Inst &inst = program.code[last];
      targets.clear();
      targetsOf(inst, last, targets);
      for (int32_t target : targets) {
        connect(i, blockOf[target - begin]);
      }
      if (inst.flow == Flow::Return || inst.flow == Flow::Exit || blocks[i].successors.empty()) {
        connect(i, exit);
      }
    }
  }

  void connect(int32_t from, int32_t to) {
    blocks[from].successors.push_back(to);
    blocks[to].predecessors.push_back(from);
  }

  /// Numbers the blocks in post-order of the reversed graph, from the exit.
  void orderBlocks() {
    number.assign(blocks.size(), -1);
    std::vector<std::pair<int32_t, size_t>> stack{{exit, 0}};
    std::vector<bool> seen(blocks.size(), false);
    seen[exit] = true;
    while (!stack.empty()) {
      auto &[block, next] = stack.back();
      if (next < blocks[block].predecessors.size()) {
        const int32_t to = blocks[block].predecessors[next++];
        if (!seen[to]) {
          seen[to] = true;
          stack.emplace_back(to, 0);
        }
      } else {
        number[block] = int32_t(order.size());
        order.push_back(block);
        stack.pop_back();
      }
    }
  }

  /// The iteration of Cooper, Harvey and Kennedy.
  void solve() {
    dominator.assign(blocks.size(), -1);
    dominator[exit] = exit;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = order.size(); i-- > 0;) {
        const int32_t block = order[i];
        if (block == exit) {
          continue;
        }
        int32_t found = -1;
        for (int32_t to : blocks[block].successors) {
          if (dominator[to] >= 0) {
            found = found < 0 ? to : intersect(found, to);
          }
        }
        if (found != dominator[block]) {
          dominator[block] = found;
          changed = true;
        }
      }
    }
  }

  int32_t intersect(int32_t a, int32_t b) const {
    while (a != b) {
      while (number[a] < number[b]) {
        a = dominator[a];
      }
      while (number[b] < number[a]) {
        b = dominator[b];
      }
    }
    return a;
  }

  Program &program;
  int32_t begin;
  int32_t end;
  int32_t exit = 0;
  std::vector<Block> blocks;
  std::vector<int32_t> blockOf;
  std::vector<int32_t> number;
  std::vector<int32_t> order;
  std::vector<int32_t> dominator;
};

} // namespace

void kvc::sim::ptx::findMeetingPoints(Program &program, int32_t begin, int32_t end) {
  PostDominators(program, begin, end).run();
}
