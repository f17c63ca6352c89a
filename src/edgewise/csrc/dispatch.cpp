// Exported functions. Each calls the kernel for the instruction set and the storage type.
#include <stdlib.h>
#include <string.h>
#if defined(EW_X86)
#include <cpuid.h>
#endif

#include "kernels.h"
#include "parallel.h"

#define EW_TABLES(isa) extern const ew::Kernels isa##_f32, isa##_f64, isa##_bf16, isa##_f16;

EW_TABLES(base)
#if defined(EW_X86)
EW_TABLES(avx2)
EW_TABLES(avx512)
#endif

namespace {

int best_isa() {
#if defined(EW_X86)
  // Not __builtin_cpu_supports, whose library Clang does not link on Windows.
  unsigned eax, ebx = 0, ecx = 0, edx, features = 0, saved = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) features = ecx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) ebx = 0;
  if (features & bit_OSXSAVE) __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  const auto all = [](unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; };
  const bool avx2 = all(features, bit_FMA | bit_F16C) && all(ebx, bit_AVX2) && all(saved, 0x06);
  const bool avx512 = avx2 && all(ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
                      all(saved, 0xe6);
  int best = avx512 ? 2 : avx2 ? 1 : 0;
  if (const char* wish =
          getenv("EDGEWISE_ISA")) {  // This allows testing kernels for other instruction sets.
    const int most = !strcmp(wish, "base") ? 0 : !strcmp(wish, "avx2") ? 1 : 2;
    best = most < best ? most : best;
  }
  return best;
#else
  return 0;
#endif
}
const int isa = best_isa();

const ew::Kernels* kernels(int dtype) {
#if defined(EW_X86)
  static const ew::Kernels* const table[3][4] = {
      {&base_f32, &base_f64, &base_bf16, &base_f16},
      {&avx2_f32, &avx2_f64, &avx2_bf16, &avx2_f16},
      {&avx512_f32, &avx512_f64, &avx512_bf16, &avx512_f16}};
#else
  static const ew::Kernels* const table[1][4] = {{&base_f32, &base_f64, &base_bf16, &base_f16}};
#endif
  return dtype < 0 || dtype > EW_F16 ? nullptr : table[isa][dtype];
}

}  // namespace

EW_EXPORT const char* ew_isa() { return isa == 2 ? "avx512" : isa == 1 ? "avx2" : "base"; }
// Returns the text of abi.h, from which Python computes the offsets of fields.
EW_EXPORT const char* ew_abi() {
  return
#include "abi_text.h"
      ;
}

#define EW_CALL(name, args_type)                                                             \
  EW_EXPORT int32_t ew_##name(const args_type* args) {                                       \
    const ew::Kernels* k = args->size == sizeof(args_type) ? kernels(args->dtype) : nullptr; \
    return k ? k->name(args) : EW_BAD_ARGUMENT;                                              \
  }
EW_CALL(attend, ew_attend_args)
EW_CALL(edge_scores, ew_attend_args)
EW_CALL(softmax, ew_softmax_args)
EW_CALL(aggregate, ew_aggregate_args)
EW_CALL(aggregate_grad_rows, ew_aggregate_args)
EW_CALL(aggregate_grad_columns, ew_aggregate_args)

EW_EXPORT int32_t ew_tiles(const ew_tiles_args* args) {
  const ew::Kernels* k = args->size == sizeof(ew_tiles_args) ? kernels(args->dtype) : nullptr;
  return k && ew::tiles_fit(*args) ? k->tiles(args) : EW_BAD_ARGUMENT;
}
EW_EXPORT int32_t ew_tiles_grad(const ew_tiles_args* args) {
  const ew::Kernels* k = args->size == sizeof(ew_tiles_args) ? kernels(args->dtype) : nullptr;
  return k && ew::tiles_grad_fit(*args) ? k->tiles_grad(args) : EW_BAD_ARGUMENT;
}

// Runs the backward pass over targets, if their edges are given, and then over sources, likewise.
EW_EXPORT int32_t ew_attend_grad(const ew_attend_args* args) {
  const ew::Kernels* k = args->size == sizeof(ew_attend_args) ? kernels(args->dtype) : nullptr;
  if (!k) return EW_BAD_ARGUMENT;
  const int32_t status = args->by_target ? k->attend_grad_rows(args) : EW_OK;
  return status || !args->by_source ? status : k->attend_grad_columns(args);
}
