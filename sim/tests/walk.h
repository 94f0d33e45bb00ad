//===- walk.h - A function that diverges, for both vendors ------*- C++ -*-===//
//
// Bytes of a program say what happens to a value; walk.py does the same. WALKS is what a device function needs.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_SIM_TESTS_WALK_H
#define KVC_SIM_TESTS_WALK_H

/// Returns early on some paths.
WALKS int walk(const unsigned char *program, int length, int value, int &steps) {
  for (int pc = 0; pc < length; ++pc) {
    ++steps;
    switch ((program[pc] + value) % 7) {
    case 0:
      value += 3;
      break;
    case 1:
      if (value > 50) {
        return value - pc;
      }
      value *= 2;
      continue;
    case 2:
      for (int i = 0; i < value % 5; ++i) {
        if ((value + i) % 4 == 3) {
          break;
        }
        value += i * i;
      }
      break;
    case 3:
      value ^= 0x15;
      continue;
    case 4:
      pc += value & 1;
      break;
    case 5:
      while (value > 100) {
        value -= 37;
      }
      break;
    default:
      return -value;
    }
    if (value > 1000) {
      break;
    }
  }
  return value;
}

#endif // KVC_SIM_TESTS_WALK_H
