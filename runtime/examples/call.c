/*===- call.c - Example: describe a module and call a function of it
 * -------------------------------------------------===
 *
 * Usage: call FILE.kvca FUNCTION [NUMBER...]
 *
 * Prints the functions of a module, then calls one that takes a tensor<?xf32> (the numbers but the last) and an f32
 * (the last number) and returns a tensor<?xf32>.
 *===----------------------------------------------------------------------------------------------------------------===*/
#include <kvc_runtime.h>

#include <stdio.h>
#include <stdlib.h>

static void check(kvc_status_t status) {
  if (status != KVC_OK) {
    fprintf(stderr, "call: %s: %s\n", kvc_status_name(status), kvc_last_error_message());
    exit(1);
  }
}

static void describe(const kvc_module_t *module) {
  static const char *const kinds[] = {"tensor", "cache", "batch", "integer", "real"};
  printf("target %s\n", kvc_module_target(module));
  for (size_t f = 0; f < kvc_module_function_count(module); ++f) {
    size_t count;
    check(kvc_module_argument_count(module, f, &count));
    printf("%s(", kvc_module_function_name(module, f));
    for (size_t i = 0; i < count; ++i) {
      kvc_port_t port;
      check(kvc_module_argument(module, f, i, &port));
      printf("%s%s: %s", i ? ", " : "", port.name, kinds[port.kind]);
    }
    printf(")\n");
  }
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: call FILE.kvca FUNCTION [NUMBER...]\n");
    return 2;
  }
  kvc_device_t *device;
  kvc_module_t *module;
  check(kvc_device_create("cpu", NULL, &device));
  check(kvc_module_load_file(device, argv[1], NULL, &module));
  describe(module);

  int64_t count = argc - 4;
  float *numbers = calloc((size_t)count + 1, sizeof(float));
  if (!numbers) {
    fprintf(stderr, "call: no memory\n");
    return 1;
  }
  for (int64_t i = 0; i <= count; ++i) {
    numbers[i] = strtof(argv[3 + i], NULL);
  }
  kvc_argument_t arguments[2] = {
      {.kind = KVC_TENSOR, .tensor = {KVC_F32, 1, &count, numbers}},
      {.kind = KVC_REAL, .real = numbers[count]},
  };
  size_t function;
  kvc_value_t *result;
  kvc_tensor_t tensor;
  check(kvc_module_find_function(module, argv[2], &function));
  check(kvc_module_call(module, function, arguments, 2, &result, 1));
  check(kvc_value_tensor(result, &tensor));
  for (int64_t i = 0; i < tensor.dims[0]; ++i) {
    printf("%s%g", i ? " " : "", (double)((const float *)tensor.data)[i]);
  }
  printf("\n");

  free(numbers);
  kvc_value_release(result);
  kvc_module_release(module);
  kvc_device_release(device);
  return 0;
}
