// SIMD vectors of one instruction set: loads and stores with conversion, exp, sums across lanes.
//
// kernels.cpp and the headers that it includes are compiled once for each instruction set and
// storage type, each time in another namespace (EW_NS). So one library holds all variants, and code
// for AVX-512 never runs on a machine without it. For the same reason, no templates of the standard
// library are used here: the linker would keep only one copy, compiled for any instruction set.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__F16C__)  // The base variant needs no intrinsics, and this header is slow to compile.
#include <immintrin.h>
#endif

#define EW_INLINE inline __attribute__((always_inline))
#define EW_OUTLINE inline __attribute__((noinline))  // For large functions.
#define EW_COLD __attribute__((noinline, cold))      // For functions that run once per thread.
// A fully unrolled loop. Arrays of vectors stay in registers only if loops over them are unrolled.
#if defined(__clang__)
#define EW_EACH(i, count) _Pragma("unroll") for (int i = 0; i < (count); ++i)
#else
#define EW_EACH(i, count) _Pragma("GCC unroll 64") for (int i = 0; i < (count); ++i)
#endif

namespace EW_NS {

using i32 = int32_t;
using i64 = int64_t;
using u32 = uint32_t;
using u64 = uint64_t;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

template <class A, int L> struct VecOf {
  typedef A type __attribute__((vector_size(L * sizeof(A))));
};
// A vector of one lane is a scalar, because compilers handle vectors of one lane badly.
template <class A> struct VecOf<A, 1> {
  typedef A type;
};
template <class A, int L> using Vec = typename VecOf<A, L>::type;
template <class A> constexpr int kLanes = kVectorBytes / int(sizeof(A));

template <class A> struct IntOf;
template <> struct IntOf<float> {
  using type = i32;
};
template <> struct IntOf<double> {
  using type = i64;
};

template <class To, class From> EW_INLINE To bitcast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

EW_INLINE float lane(float v, int) { return v; }
EW_INLINE double lane(double v, int) { return v; }
template <class V> EW_INLINE auto lane(const V& v, int i) { return v[i]; }

template <class A, int L> EW_INLINE Vec<A, L> splat(A x) { return x - Vec<A, L>{}; }

// ---- one element ----

EW_INLINE float widen(float x) { return x; }
EW_INLINE double widen(double x) { return x; }
EW_INLINE float widen(bf16 x) { return bitcast<float>(u32(x.bits) << 16); }
EW_INLINE float widen(f16 x) {
#if defined(__F16C__)
  return _cvtsh_ss(x.bits);
#endif
  // The multiplication adjusts the exponent, and also normalises subnormal 16-bit numbers.
  const u32 magnitude = u32(x.bits & 0x7fff) << 13;
  float value = bitcast<float>(magnitude) * 0x1p112f;
  if ((x.bits & 0x7c00) == 0x7c00) value = bitcast<float>(0x7f800000u | magnitude);
  return bitcast<float>(bitcast<u32>(value) | (u32(x.bits & 0x8000) << 16));
}

template <class T> struct Narrow;
template <> struct Narrow<float> {
  static EW_INLINE float of(float x) { return x; }
};
template <> struct Narrow<double> {
  static EW_INLINE double of(double x) { return x; }
};
template <> struct Narrow<bf16> {
  static EW_INLINE bf16 of(float x) {
    const u32 bits = bitcast<u32>(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return {uint16_t((bits >> 16) | 0x40)};
    return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
};
template <> struct Narrow<f16> {
  static EW_INLINE f16 of(float x) {
#if defined(__F16C__)
    return {uint16_t(_cvtss_sh(x, 0))};
#endif
    const u32 bits = bitcast<u32>(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return {uint16_t(sign | 0x7e00)};
    if (magnitude >= 0x477ff000) return {uint16_t(sign | 0x7c00)};
    if (magnitude < 0x38800000) {  // Subnormal: the addition rounds to a multiple of 2^-24.
      const float shifted = bitcast<float>(magnitude) + 0.5f;
      return {uint16_t(sign | (bitcast<u32>(shifted) - 0x3f000000))};
    }
    return {uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13))};
  }
};

// ---- vectors ----

// Type of an unaligned vector in an array of A. Unlike with memcpy, the compiler knows that a store
// of this type does not change objects of other types. Pointers and sizes therefore stay in
// registers in loops that write rows.
template <class A, int L> struct LooseOf {
  typedef A type __attribute__((vector_size(L * sizeof(A)), aligned(alignof(A))));
};
template <class A> struct LooseOf<A, 1> {
  typedef A type;
};
template <int L, class A> EW_INLINE Vec<A, L> load_same(const A* p) {
  return *reinterpret_cast<const typename LooseOf<A, L>::type*>(p);
}
template <int L, class A> EW_INLINE void store_same(A* p, Vec<A, L> v) {
  *reinterpret_cast<typename LooseOf<A, L>::type*>(p) = v;
}
template <int L> EW_INLINE Vec<float, L> load(const float* p) { return load_same<L>(p); }
template <int L> EW_INLINE Vec<double, L> load(const double* p) { return load_same<L>(p); }
template <int L> EW_INLINE Vec<float, L> load(const bf16* p) {
#if defined(__AVX512F__)  // Without the intrinsic, the compiler converts two half vectors.
  if constexpr (L == 16)
    return bitcast<Vec<float, L>>(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
#endif
  if constexpr (L == 1) return widen(*p);
  else {
    const Vec<uint16_t, L> half = load_same<L>(&p->bits);
    return bitcast<Vec<float, L>>(__builtin_convertvector(half, Vec<u32, L>) << 16);
  }
}
template <int L> EW_INLINE Vec<float, L> load(const f16* p) {
#if defined(__AVX512F__)
  if constexpr (L == 16)
    return bitcast<Vec<float, L>>(_mm512_cvtph_ps(bitcast<__m256i>(load_same<16>(&p->bits))));
#endif
#if defined(__F16C__)
  if constexpr (L == 8)
    return bitcast<Vec<float, L>>(_mm256_cvtph_ps(bitcast<__m128i>(load_same<8>(&p->bits))));
#endif
  if constexpr (L == 1) return widen(*p);
  else {
    Vec<float, L> v;
    EW_EACH (i, L) v[i] = widen(p[i]);
    return v;
  }
}

template <int L> EW_INLINE void store(float* p, Vec<float, L> v) { store_same<L>(p, v); }
template <int L> EW_INLINE void store(double* p, Vec<double, L> v) { store_same<L>(p, v); }
template <int L> EW_INLINE Vec<u32, L> rounded_bf16(Vec<float, L> v) {
  const Vec<u32, L> bits = bitcast<Vec<u32, L>>(v);
  const Vec<u32, L> even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return v == v ? even : (bits >> 16) | 0x40;
}
template <int L> EW_INLINE void store(bf16* p, Vec<float, L> v) {
  if constexpr (L == 1) *p = Narrow<bf16>::of(v);
  else store_same<L>(&p->bits, __builtin_convertvector(rounded_bf16<L>(v), Vec<uint16_t, L>));
}
template <int L> EW_INLINE void store(f16* p, Vec<float, L> v) {
#if defined(__AVX512F__)
  if constexpr (L == 16)
    return _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(bitcast<__m512>(v), 0));
#endif
#if defined(__F16C__)
  if constexpr (L == 8)
    return _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(bitcast<__m256>(v), 0));
#endif
  EW_EACH (i, L) p[i] = Narrow<f16>::of(lane(v, i));
}

// Rounds accumulated numbers to the storage type.
template <int L> EW_INLINE auto as_stored(Vec<float, L> v, const float*) { return v; }
template <int L> EW_INLINE auto as_stored(Vec<double, L> v, const double*) { return v; }
template <int L> EW_INLINE auto as_stored(Vec<float, L> v, const bf16*) {
  return bitcast<Vec<float, L>>(rounded_bf16<L>(v) << 16);
}
template <int L> EW_INLINE auto as_stored(Vec<float, L> v, const f16*) {
  f16 stored[L];
  store<L>(stored, v);
  return load<L>(stored);
}

template <int... I> struct Lanes {};
template <int N, int... I> struct MakeLanes : MakeLanes<N - 1, N - 1, I...> {};
template <int... I> struct MakeLanes<0, I...> {
  using type = Lanes<I...>;
};

// Join two half vectors to a vector, and split a vector into halves.
template <class V, int... I> EW_INLINE auto joined(V low, V high, Lanes<I...>) {
  return __builtin_shufflevector(low, high, I...);
}
template <int L, class A> EW_INLINE Vec<A, L> joined(Vec<A, L / 2> low, Vec<A, L / 2> high) {
  if constexpr (L == 2) return Vec<A, 2>{low, high};
  else return joined(low, high, typename MakeLanes<L>::type{});
}
template <int First, class V, int... I> EW_INLINE auto from_lane(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, First + I...);
}
template <int L, int Which, class A> EW_INLINE Vec<A, L / 2> half(Vec<A, L> v) {
  if constexpr (L == 2) return v[Which];
  else return from_lane<Which * L / 2>(v, typename MakeLanes<L / 2>::type{});
}

// Loads the first n lanes, n < L. The other lanes are zero, and their memory is not accessed.
template <int L, class T> EW_INLINE auto load_some(const T* p, int n) {
  using A = decltype(widen(*p));
#if defined(__AVX512F__)
  if constexpr (L == 16 && sizeof(T) == 4)
    return bitcast<Vec<float, 16>>(_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p));
#endif
#if defined(__AVX2__)
  if constexpr (L == 8 && sizeof(T) == 4)
    return bitcast<Vec<float, 8>>(
        _mm256_maskload_ps(p, bitcast<__m256i>(Vec<i32, 8>{0, 1, 2, 3, 4, 5, 6, 7} < n)));
  if constexpr (L == 4 && sizeof(T) == 8)
    return bitcast<Vec<double, 4>>(
        _mm256_maskload_pd(p, bitcast<__m256i>(Vec<i64, 4>{0, 1, 2, 3} < i64(n))));
#endif
  if constexpr (L == 1) return A(0);
  else {  // Load by halves. The branches are predicted well, because n is constant in a loop.
    constexpr int Half = L / 2;
    if (n < Half) return joined<L, A>(load_some<Half>(p, n), Vec<A, Half>{});
    return joined<L, A>(load<Half>(p), load_some<Half>(p + Half, n - Half));
  }
}
template <int L, class A> EW_INLINE void store_some(A* p, Vec<A, L> v, int n) {
#if defined(__AVX512F__)
  if constexpr (L == 16 && sizeof(A) == 4) {
    _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), bitcast<__m512>(v));
    return;
  }
#endif
  if constexpr (L > 1) {
    constexpr int Half = L / 2;
    if (n < Half) return store_some<Half>(p, half<L, 0, A>(v), n);
    store<Half>(p, half<L, 0, A>(v));
    store_some<Half>(p + Half, half<L, 1, A>(v), n - Half);
  }
}

// Loads the first n lanes, n <= L.
template <int L, class T> EW_INLINE auto load_up_to(const T* p, int n) {
  return n >= L ? load<L>(p) : load_some<L>(p, n);
}
template <int L, class A> EW_INLINE void store_up_to(A* p, Vec<A, L> v, int n) {
  if (n >= L) store<L>(p, v);
  else store_some<L>(p, v, n);
}

// ---- sums across lanes ----

// One step of summing several vectors across their lanes. `a` and `b` hold G groups of L/G partial
// sums each. The result holds the 2G groups of both, each half as long. Repeating this step turns R
// vectors into one vector with the R sums of their lanes.
template <int L, int G, int Half> constexpr int merge_lane(int lane) {
  const int width = L / G, half = width / 2, group = lane / half,
            offset = lane % half + Half * half;
  return group < G ? group * width + offset : L + (group - G) * width + offset;
}
struct Plus {
  template <class V> static EW_INLINE V of(V a, V b) { return a + b; }
};
struct Greater {
  template <class V> static EW_INLINE V of(V a, V b) { return a > b ? a : b; }
};

template <class Op, int L, int G, class V, int... I>
EW_INLINE V merge_groups(V a, V b, Lanes<I...>) {
  return Op::of(__builtin_shufflevector(a, b, merge_lane<L, G, 0>(I)...),
                __builtin_shufflevector(a, b, merge_lane<L, G, 1>(I)...));
}
// The last step, for G groups in one vector: adds the two halves of each group.
template <class Op, int L, int G, class V, int... I> EW_INLINE auto fold_groups(V a, Lanes<I...>) {
  return Op::of(__builtin_shufflevector(a, a, merge_lane<L, G, 0>(I)...),
                __builtin_shufflevector(a, a, merge_lane<L, G, 1>(I)...));
}
template <class Op, int L, int G, class A> EW_INLINE Vec<A, G> fold_all(Vec<A, L> v) {
  if constexpr (L == G) return v;
  else if constexpr (L == 2) return Op::of(v[0], v[1]);
  else
    return fold_all<Op, L / 2, G, A>(fold_groups<Op, L, G>(v, typename MakeLanes<L / 2>::type{}));
}
template <class Op, class A, int L, int R, int G = 1> EW_INLINE auto fold_each(const Vec<A, L>* x) {
  if constexpr (R == 1) {
    return fold_all<Op, L, G, A>(x[0]);
  } else {
    Vec<A, L> y[R / 2];
    EW_EACH (i, R / 2)
      y[i] = merge_groups<Op, L, G>(x[2 * i], x[2 * i + 1], typename MakeLanes<L>::type{});
    return fold_each<Op, A, L, R / 2, G * 2>(y);
  }
}
template <class A, int L, int R> EW_INLINE auto sum_each(const Vec<A, L>* x) {
  return fold_each<Plus, A, L, R>(x);
}
template <int L, class A> EW_INLINE A sum_lanes(Vec<A, L> v) {
  if constexpr (L == 1) return v;
  else {
    Vec<A, L> x[1] = {v};
    return sum_each<A, L, 1>(x);
  }
}

// ---- exp ----

// exp(x) with an error of about 1 ulp, for x <= 0 or slightly above 0, as in a softmax. Results
// below the smallest normal number are 0, so -inf gives exactly 0. NaN gives NaN.
template <int L> EW_INLINE Vec<float, L> exp_vec(Vec<float, L> x) {
  using V = Vec<float, L>;
  using I = Vec<i32, L>;
  const V low = splat<float, L>(-87.33654f), high = splat<float, L>(88.3f);
  const I tiny = x < low;
  x = x > high ? high : x;
  x = tiny ? low : x;
  const V magic = splat<float, L>(12582912.0f);
  const V shifted = x * 1.44269504f + magic;
  const V n = shifted - magic;
  V r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V p = splat<float, L>(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const I exponent = (bitcast<I>(shifted) - 0x4B400000 + 127) << 23;
  p = p * bitcast<V>(exponent);
  return tiny ? V{} : p;
}
template <int L> EW_INLINE Vec<double, L> exp_vec(Vec<double, L> x) {
  using V = Vec<double, L>;
  using I = Vec<i64, L>;
  const V low = splat<double, L>(-708.0), high = splat<double, L>(709.0);
  const I tiny = x < low;
  x = x > high ? high : x;
  x = tiny ? low : x;
  const V magic = splat<double, L>(6755399441055744.0);
  const V shifted = x * 1.4426950408889634 + magic;
  const V n = shifted - magic;
  V r = x - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  V p = splat<double, L>(1.0 / 6227020800.0);
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  const I exponent = (bitcast<I>(shifted) - 0x4338000000000000LL + 1023) << 52;
  p = p * bitcast<V>(exponent);
  return tiny ? V{} : p;
}

EW_INLINE float log_of(float x) { return __builtin_logf(x); }
EW_INLINE double log_of(double x) { return __builtin_log(x); }
template <class A> constexpr A kInf = A(__builtin_inf());

// Prefetches into the L2 cache, which allows three times as many requests at a time as the L1 cache.
template <class T> EW_INLINE void prefetch(const T* p, int count) {
  const char* c = reinterpret_cast<const char*>(p);
  for (int offset = 0; offset < count * int(sizeof(T)); offset += 64)
    __builtin_prefetch(c + offset, 0, 2);
}

// ---- types of this compilation ----

using T = EW_STORAGE;     // Storage type of query, key, value and edge vectors.
using A = EW_ACCUMULATE;  // Accumulation type, for all computations and all other arrays.
constexpr int kWidth = kLanes<A>;
using Vector = Vec<A, kWidth>;

// ---- loops in vectors ----

template <int N> struct Const {
  static constexpr int value = N;
  constexpr operator int() const { return N; }
};

// Divides [0, n) into blocks and calls f(Const<N>, i) for the block from i to i + N - 1. The blocks
// have size N as long as possible, then N / 2 and so on.
template <int N, class F> EW_INLINE void in_blocks(int n, F f, int i = 0) {
  for (; i + N <= n; i += N) f(Const<N>{}, i);
  if constexpr (N > 1) {
    if (i < n) in_blocks<N / 2>(n, f, i);
  }
}

// Calls f(Const<N>) with the largest number of lanes that divides n.
template <class F> EW_INLINE void with_lanes(int n, F f) {
  if constexpr (kWidth >= 16)
    if (n % 16 == 0) return f(Const<16>{});
  if (n % 8 == 0) return f(Const<8>{});
  if (n % 4 == 0) return f(Const<4>{});
  f(Const<1>{});
}

}  // namespace EW_NS
