#include "Support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>

namespace kolo::test {
namespace {

constexpr auto poison = std::byte(0xa5);

} // namespace

ConnectedRanks::ConnectedRanks(const Kind &kind, int numRanks, int timeoutMs) {
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < numRanks; ++rank) {
    Result<std::unique_ptr<Transport>> made = kind.make({rank, numRanks, timeoutMs});
    if (!made.isOk())
      throw std::runtime_error(made.status().message());
    ranks.push_back(std::move(made).value());
    endpoints.push_back(ranks.back()->endpoint());
  }
  std::vector<std::thread> threads;
  std::vector<Status> statuses(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] { statuses[rank] = ranks[rank]->connect(endpoints); });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    EXPECT_EQ(status.message(), "");
}

ConnectedRanks::~ConnectedRanks() {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Transport> &rank : ranks)
    threads.emplace_back([&rank] { rank.reset(); });
  for (std::thread &thread : threads)
    thread.join();
}

bool ConnectedRanks::runUntil(const std::function<bool()> &isDone) {
  Clock::time_point until = Clock::now() + std::chrono::seconds(20);
  while (!isDone() && Clock::now() < until)
    for (const std::unique_ptr<Transport> &rank : ranks)
      if (rank)
        (void)rank->progress();
  return isDone();
}

Status ConnectedRanks::failureOf(int rank) {
  Status found;
  runUntil([&] {
    found = (*this)[rank].progress();
    return !found.isOk();
  });
  return found;
}

Landing::Landing(size_t sizeBytes, int numRanks)
    : ranks(numRanks), bytes(sizeBytes + 2 * margin, poison),
      cells(static_cast<size_t>(numLanes * numSemaphores) * static_cast<size_t>(numRanks)) {}

Registration Landing::registration(uint64_t agreement) {
  Registration result;
  result.agreement = agreement;
  result.regions = {{data(), bytes.size() - 2 * margin}};
  result.senders.assign(static_cast<size_t>(ranks), true);
  result.cells = cells.data();
  result.numLanes = numLanes;
  result.numSemaphores = numSemaphores;
  return result;
}

bool Landing::isUntouchedAfter(size_t numBytes) const {
  auto isPoison = [](std::byte byte) { return byte == poison; };
  auto begin = bytes.begin(), data = begin + margin;
  return std::all_of(begin, data, isPoison) &&
         std::all_of(data + static_cast<std::ptrdiff_t>(numBytes), bytes.end(), isPoison);
}

bool Landing::isUntouched() const { return isUntouchedAfter(0); }

std::vector<std::byte> makeData(size_t sizeBytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(sizeBytes);
  for (std::byte &byte : data)
    byte = static_cast<std::byte>(random());
  return data;
}

std::string expectStatus(const Status &status, StatusCode code, int rank, const std::string &text) {
  bool isRight = status.code() == code && status.rank() == rank && status.message().find(text) != std::string::npos;
  return isRight ? "" : fmt::format("{} of rank {}: {}", toString(status.code()), status.rank(), status.message());
}

ChildRank::ChildRank(const std::function<void()> &body) : pid(fork()) {
  if (pid != 0)
    return;
  body();
  _exit(0);
}

ChildRank::~ChildRank() {
  signal(SIGKILL);
  waitpid(pid, nullptr, 0);
}

void ChildRank::signal(int number) const { kill(pid, number); }

bool ChildRank::hasStopped() const {
  int state = 0;
  return waitpid(pid, &state, WUNTRACED | WNOHANG) == pid;
}

} // namespace kolo::test
