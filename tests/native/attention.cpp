// Compares attention and its gradients with loops in float64, without Python, so that an emulator of
// another processor can run it: make arm-check. Prints the relative error for each storage type.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "abi.h"

extern "C" {
const char* ew_isa();
int32_t ew_attend(const ew_attend_args*);
int32_t ew_attend_grad(const ew_attend_args*);
int32_t ew_sort(int64_t, int64_t, int64_t, const int64_t*, const int64_t*, int32_t*, int32_t*,
                int32_t*);
void ew_divide(int64_t, const int32_t*, int32_t, ew_chunk*, ew_merge*, int64_t*);
}

namespace {

constexpr int kTargets = 40, kSources = 37, kEdges = 300, kHeads = 2, kWidth = 24, kValues = 13;
using Numbers = std::vector<double>;

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  bf16(double x) {
    const float value = float(x);
    uint32_t word;
    memcpy(&word, &value, 4);
    bits = uint16_t((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
  operator double() const {
    const uint32_t word = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
  }
};

struct Side {
  std::vector<int32_t> ptr, col = std::vector<int32_t>(kEdges), edge = col;
  std::vector<ew_chunk> chunk;
  std::vector<ew_merge> merge;
  ew_side side{};
  // Rows with more than 16 edges are cut, so that pieces are merged.
  Side(int rows, int cols, const std::vector<int64_t>& row, const std::vector<int64_t>& column)
      : ptr(rows + 1) {
    int64_t counts[4];
    if (ew_sort(rows, cols, kEdges, row.data(), column.data(), ptr.data(), col.data(), edge.data()))
      exit(2);
    ew_divide(rows, ptr.data(), 16, nullptr, nullptr, counts);
    chunk.resize(counts[0]), merge.resize(counts[1]);
    ew_divide(rows, ptr.data(), 16, chunk.data(), merge.data(), counts);
    side = {
        rows, cols,       kEdges,     counts[0],   counts[1],    counts[2],   int32_t(counts[3]),
        0,    ptr.data(), col.data(), edge.data(), chunk.data(), merge.data()};
  }
};

double random_number() { return rand() / double(RAND_MAX) * 4 - 2; }

template <class S> std::vector<S> random_array(int count) {
  std::vector<S> x(count);
  for (S& number : x) number = S(random_number());
  return x;
}

template <class S> double error(const std::vector<S>& x, const Numbers& expected) {
  double worst = 0, most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = std::fabs(double(x[i]) - expected[i]);
    if (!(difference < INFINITY)) return INFINITY;  // NaN, too
    worst = std::fmax(worst, difference);
    most = std::fmax(most, std::fabs(expected[i]));
  }
  return worst / most;
}

template <class S, class A> bool agrees(const char* name, ew_dtype dtype, double tolerance) {
  srand(1);
  std::vector<int64_t> target(kEdges), source(kEdges);
  for (int e = 0; e < kEdges; ++e)  // Target 0 has a long row, and the last target an empty one.
    target[e] = e < 60 ? 0 : rand() % (kTargets - 1), source[e] = rand() % kSources;
  Side by_target(kTargets, kSources, target, source), by_source(kSources, kTargets, source, target);
  constexpr int keys = kHeads * kWidth, values = kHeads * kValues;
  auto query = random_array<S>(kTargets * keys), key = random_array<S>(kSources * keys);
  auto value = random_array<S>(kSources * values), grad = random_array<S>(kTargets * values);
  std::vector<S> out(kTargets * values), grad_query(query), grad_key(key), grad_value(value);
  const int64_t slots = std::max(by_target.side.slots, by_source.side.slots);
  std::vector<A> stats(kTargets * 2 * kHeads), record(kTargets * 3 * kHeads);
  std::vector<A> pieces(slots * (keys + values + 2 * kHeads));

  ew_attend_args args{};
  args.size = sizeof(args), args.dtype = dtype, args.score = EW_SCORE_DOT, args.threads = 3;
  args.batch = 1, args.heads = kHeads, args.width = kWidth, args.value_width = kValues;
  args.scale = 1 / std::sqrt(double(kWidth));
  args.by_target = &by_target.side;
  args.query = {query.data(), 0, keys}, args.key = {key.data(), 0, keys};
  args.value = {value.data(), 0, values}, args.out = {out.data(), 0, values};
  args.stats = stats.data(), args.slots = pieces.data();
  if (ew_attend(&args)) return false;
  args.by_source = &by_source.side, args.record = record.data();
  args.grad_out = {grad.data(), 0, values}, args.grad_query = {grad_query.data(), 0, keys};
  args.grad_key = {grad_key.data(), 0, keys}, args.grad_value = {grad_value.data(), 0, values};
  if (ew_attend_grad(&args)) return false;

  Numbers sum(out.size()), of_query(query.size()), of_key(key.size()), of_value(value.size());
  for (int i = 0; i < kTargets; ++i)
    for (int h = 0; h < kHeads; ++h) {
      std::vector<int64_t> sources;
      for (int e = 0; e < kEdges; ++e)
        if (target[e] == i) sources.push_back(source[e]);
      Numbers weight, slope;
      double total = 0, mean = 0;
      for (int64_t j : sources) {
        double score = 0;
        for (int d = 0; d < kWidth; ++d)
          score += query[i * keys + h * kWidth + d] * double(key[j * keys + h * kWidth + d]);
        weight.push_back(std::exp(score * args.scale)), total += weight.back();
      }
      for (size_t n = 0; n < sources.size(); ++n) {
        double product = 0;
        weight[n] /= total;
        for (int d = 0; d < kValues; ++d) {
          const int at = i * values + h * kValues + d, from = sources[n] * values + h * kValues + d;
          sum[at] += weight[n] * value[from], of_value[from] += weight[n] * grad[at];
          product += grad[at] * double(value[from]);
        }
        slope.push_back(product), mean += weight[n] * product;
      }
      for (size_t n = 0; n < sources.size(); ++n)
        for (int d = 0; d < kWidth; ++d) {
          const int at = i * keys + h * kWidth + d, from = sources[n] * keys + h * kWidth + d;
          const double change = weight[n] * (slope[n] - mean) * args.scale;
          of_query[at] += change * key[from], of_key[from] += change * query[at];
        }
    }
  const double errors[] = {error(out, sum), error(grad_query, of_query), error(grad_key, of_key),
                           error(grad_value, of_value)};
  bool good = true;
  for (double each : errors) good &= each <= tolerance;
  printf("%-5s output %.1e, gradients of query %.1e, key %.1e, value %.1e: %s\n", name, errors[0],
         errors[1], errors[2], errors[3], good ? "passed" : "FAILED");
  return good;
}

}  // namespace

int main() {
  printf("kernels: %s\n", ew_isa());
  bool good = agrees<float, float>("f32", EW_F32, 1e-5);
  good &= agrees<double, double>("f64", EW_F64, 1e-13);
  good &= agrees<bf16, float>("bf16", EW_BF16, 2e-2);
#if defined(__aarch64__)
  good &= agrees<__fp16, float>("f16", EW_F16, 2e-3);
#endif
  return good ? 0 : 1;
}
