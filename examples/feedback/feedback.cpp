// Least squares on four ranks that exchange one bit per element, with error feedback and without:
//
//   ./feedback oneBit.so
//
// Every rank has equations of its own. All together look for the unknowns with the least sum of squares, by gradient
// descent. The exact minimum comes from the same descent with exact sums.
#include <kolo/runtime/Communicator.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numRanks = 4, steps = 3000;
constexpr int64_t blockSize = 1024, numUnknowns = numRanks * blockSize; // a block of whole codec blocks for every rank
constexpr const char *codec = "sign(1024)";
using Numbers = std::vector<float>;

/// From -1 to 1, the same in every run.
float noise(uint64_t seed) {
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  return float(seed >> 40) / float(1 << 23) - 1;
}

/// The equations of one rank: a_i x_i + b_i x_(i+1) = c_i.
struct Equations {
  Numbers a, b, c;
  explicit Equations(int rank) {
    for (int64_t i = 0; i < numUnknowns; ++i) {
      auto seed = uint64_t(3 * (rank * numUnknowns + i));
      a.push_back(1 + 0.5f * noise(seed));
      b.push_back(0.3f * noise(seed + 1));
      c.push_back(2 * noise(seed + 2)); // the ranks would choose very different unknowns
    }
  }
  /// Of half the sum of squares.
  Numbers gradientAt(const Numbers &x) const {
    Numbers gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      size_t next = (i + 1) % x.size();
      float residual = a[i] * x[i] + b[i] * x[next] - c[i];
      gradient[i] += a[i] * residual;
      gradient[next] += b[i] * residual;
    }
    return gradient;
  }
};

/// Smaller from step to step, so that what feedback still carries becomes small too.
float rateAt(int step) { return 0.15f / (1 + float(step) / 20); }

Numbers exactMinimum() {
  std::vector<Equations> all;
  for (int rank = 0; rank < numRanks; ++rank)
    all.emplace_back(rank);
  Numbers x(numUnknowns);
  for (int step = 0; step < 200; ++step) {
    Numbers total(numUnknowns);
    for (const Equations &equations : all) {
      Numbers gradient = equations.gradientAt(x);
      for (size_t i = 0; i < x.size(); ++i)
        total[i] += gradient[i];
    }
    for (size_t i = 0; i < x.size(); ++i)
      x[i] -= 0.15f * total[i];
  }
  return x;
}

/// What an encoding loses is added to what is encoded next.
class Feedback {
public:
  Feedback(const Plugin &plugin, size_t size) : plugin(plugin), rest(size), received(size) {}

  void add(Numbers &values) const {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += rest[i];
  }
  /// `values` are about to be sent.
  Status keepRest(const Numbers &values) {
    Status status = plugin.roundTrip(codec, DataType::F32, values.data(), received.data(), int64_t(values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      rest[i] = values[i] - received[i];
    return status;
  }
  /// Of elements that no encoding touches.
  void forget(size_t first, size_t size) { std::fill_n(rest.begin() + int64_t(first), size, 0.0f); }

private:
  const Plugin &plugin;
  Numbers rest, received;
};

/// What one rank does. Leaves its unknowns in `x`.
Status train(Communicator &communicator, const Plugin &plugin, bool hasFeedback, Numbers &x) {
  const int rank = communicator.rank();
  const Mesh mesh = *Mesh::create({{"rank", numRanks}});
  Equations equations(rank);
  Numbers share(blockSize), sum(numUnknowns);
  Feedback ofGradient(plugin, numUnknowns), ofShare(plugin, blockSize);
  auto call = [&](const char *program, const Numbers &in, Numbers &out) {
    CallArguments arguments{program, mesh, blockSize};
    arguments.input = in.data();
    arguments.output = out.data();
    return communicator.run(plugin, arguments);
  };
  x.assign(numUnknowns, 0);
  for (int step = 0; step < steps; ++step) {
    Numbers gradient = equations.gradientAt(x);
    Status status;
    if (hasFeedback) {
      ofGradient.add(gradient);
      status = ofGradient.keepRest(gradient);
      ofGradient.forget(size_t(rank * blockSize), blockSize); // it adds its own block as it is
    }
    if (status.isOk())
      status = call("oneBitReduceScatter", gradient, share);
    if (status.isOk() && hasFeedback) {
      ofShare.add(share);
      status = ofShare.keepRest(share);
    }
    if (status.isOk())
      status = call("oneBitAllGather", share, sum);
    if (!status.isOk())
      return status;
    for (size_t i = 0; i < x.size(); ++i)
      x[i] -= rateAt(step) * sum[i];
  }
  return Status();
}

double distance(const Numbers &a, const Numbers &b) {
  double squares = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    size += double(b[i]) * double(b[i]);
  }
  return std::sqrt(squares / size);
}

int fail(const Status &status) {
  std::fprintf(stderr, "feedback: %s\n", status.message().c_str());
  return 1;
}

/// Of the ranks' unknowns from the minimum, relative to it. Negative: it failed, and said so.
double distanceAfterTraining(const Plugin &plugin, bool hasFeedback, const Numbers &minimum) {
  auto communicators = Communicator::createThreads(numRanks);
  if (!communicators.isOk())
    return -fail(communicators.status());
  std::vector<Status> results(numRanks);
  std::vector<Numbers> unknowns(numRanks);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < numRanks; ++rank)
    ranks.emplace_back(
        [&, rank] { results[rank] = train((*communicators)[rank], plugin, hasFeedback, unknowns[rank]); });
  for (std::thread &rank : ranks)
    rank.join();
  for (size_t rank = 0; rank < numRanks; ++rank) {
    if (!results[rank].isOk())
      return -fail(results[rank]);
    if (unknowns[rank] != unknowns[0])
      return -fail(Status(StatusCode::SystemError, "ranks have different unknowns"));
  }
  return distance(unknowns[0], minimum);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return fail(Status(StatusCode::InvalidArgument, "needs the plugin's path"));
  Result<Plugin> plugin = Plugin::load(argv[1]);
  if (!plugin.isOk())
    return fail(plugin.status());
  Numbers minimum = exactMinimum();
  double with = distanceAfterTraining(*plugin, true, minimum), without = distanceAfterTraining(*plugin, false, minimum);
  if (with < 0 || without < 0)
    return 1;
  std::printf("%lld unknowns, %d ranks, %d steps, one bit per element\n", (long long)numUnknowns, numRanks, steps);
  std::printf("with error feedback: %.4f from the minimum\n", with);
  std::printf("without:             %.4f from the minimum\n", without);
  bool converges = with < 0.01, isOff = without > 0.1;
  std::printf("%s\n", converges && isOff ? "only feedback converges" : "unexpected");
  return converges && isOff ? 0 : 1;
}
