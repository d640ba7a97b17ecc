#include "Bench.h"

#include <algorithm>
#include <random>

namespace kolo::test {

namespace {

constexpr int callsInARow = 10;

} // namespace

Bench::Bench(size_t largestBytes, double seconds)
    : home(valueOf(runtime::DeviceCommunicator::createLocal(std::vector<int>{0}))),
      stream(valueOf(home.createStream(0))),
      deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(int64_t(seconds * 1000))) {
  const size_t aheadBytes = size_t(isStandIn() ? 4 : 256 << 10) << 10;
  ahead = valueOf(home.allocate(0, aheadBytes));
  aheadOf = valueOf(home.allocate(0, aheadBytes));
  for (int rank = 0; rank < maxRanks; ++rank) {
    inputs.push_back(valueOf(home.allocate(0, largestBytes)));
    outputs.push_back(valueOf(home.allocate(0, largestBytes)));
    randomize(inputs.back());
  }
}

/// A part from the host, and then what is there doubled.
void Bench::randomize(runtime::DeviceBuffer &buffer) {
  static const std::vector<float> content = [] {
    std::mt19937 random(1);
    std::vector<float> numbers(size_t(1) << 20);
    std::ranges::generate(numbers, [&] { return float(random()) / float(1 << 20); });
    return numbers;
  }();
  size_t done = std::min(buffer.sizeBytes(), content.size() * sizeof(float));
  expectOk(buffer.write(0, content.data(), done));
  while (done < buffer.sizeBytes()) {
    size_t next = std::min(done, buffer.sizeBytes() - done);
    copy(static_cast<std::byte *>(buffer.data()) + done, buffer.data(), next);
    done += next;
  }
  finish();
}

void Bench::copy(void *dst, const void *src, size_t numBytes) {
  expectDriver(driverFunction<decltype(cuMemcpyAsync)>("cuMemcpyAsync")(reinterpret_cast<CUdeviceptr>(dst),
                                                                        reinterpret_cast<CUdeviceptr>(src), numBytes,
                                                                        static_cast<CUstream>(stream.handle())),
               "cuMemcpyAsync");
}

void Bench::finish() {
  expectDriver(
      driverFunction<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(static_cast<CUstream>(stream.handle())),
      "cuStreamSynchronize");
}

double Bench::once(const Body &body) {
  copy(ahead->data(), aheadOf->data(), ahead->sizeBytes());
  expectOk(stream.mark(0));
  body();
  expectOk(stream.mark(1));
  return valueOf(stream.elapsedMicroseconds());
}

/// For some hundredths of a second, at least 5 times.
Spread Bench::repeat(const std::function<double()> &measure) const {
  measure();
  double estimate = std::max(measure(), 1.0);
  int repetitions = isStandIn() ? 3 : int(std::clamp(30000 / estimate, 5.0, 40.0));
  std::vector<double> times;
  for (int number = 0; number < repetitions; ++number) {
    if (std::chrono::steady_clock::now() > deadline)
      throw OutOfTime();
    times.push_back(measure());
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() / 4], times[times.size() - 1 - times.size() / 4], repetitions};
}

Spread Bench::onDevice(const Body &body) {
  return repeat([&] { return once(body); });
}

Spread Bench::queued(const Body &body) {
  return repeat([&] {
    return once([&] {
             for (int call = 0; call < callsInARow; ++call)
               body();
           }) /
           callsInARow;
  });
}

Spread Bench::inGraph(const Body &body) {
  body(); // makes what must not be made in a graph
  finish();
  Graph graph(stream.handle(), [&] {
    for (int call = 0; call < callsInARow; ++call)
      body();
  });
  Spread spread = repeat([&] { return once([&] { graph.launch(); }) / callsInARow; });
  finish();
  return spread;
}

Spread Bench::onHost(const Body &body) {
  return repeat([&] {
    finish();
    auto begin = std::chrono::steady_clock::now();
    body();
    finish();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  });
}

std::string Bench::verify(const DeviceCall &call, const Body &body) {
  // Others' sums have NaNs of their own bits.
  std::vector<Bytes> content = taggedInputs(call, 7, /*hasSpecials=*/false);
  Bytes found(call.outputBytes(), poison);
  for (size_t rank = 0; rank < content.size(); ++rank) {
    expectOk(inputs[rank].write(0, content[rank].data(), content[rank].size()));
    expectOk(outputs[rank].write(0, found.data(), found.size()));
  }
  body();
  finish();
  std::string wrong;
  for (size_t rank = 0; rank < content.size() && wrong.empty(); ++rank) {
    expectOk(outputs[rank].read(0, found.data(), found.size()));
    wrong = checkOutput(call, content, int(rank), found);
  }
  return wrong;
}

} // namespace kolo::test
