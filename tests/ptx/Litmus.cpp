#include "Litmus.h"

#include <cstring>

namespace kolo::ptx {

namespace {

constexpr uint64_t resultsAt = 1024, resultBytes = 16;

std::string kernelOf(uint32_t device) { return "d" + std::to_string(device); }

std::string makeText(const std::vector<LitmusThread> &threads, uint32_t numDevices) {
  std::string text;
  for (uint32_t device = 0; device < numDevices; ++device) {
    std::string name = kernelOf(device);
    text += ".visible .entry " + name + "(\n.param .u64 " + name +
            "_param_0\n)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n" + ".reg .b64 %rd<20>;\nld.param.b64 %rd1, [" +
            name + "_param_0];\nadd.s64 %rd2, %rd1, 64;\n" +
            "add.s64 %rd3, %rd1, 128;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\n";
    for (size_t number = 0; number < threads.size(); ++number) {
      const LitmusThread &thread = threads[number];
      if (thread.device != device)
        continue;
      std::string place = std::to_string(resultsAt + number * resultBytes), end = "$E" + std::to_string(number);
      text += "setp.ne.b32 %p1, %r1, " + std::to_string(thread.block) + ";\n@%p1 bra " + end +
              ";\nsetp.ne.b32 %p1, %r2, " + std::to_string(thread.thread) + ";\n@%p1 bra " + end +
              ";\nmov.b64 %rd10, 0;\nmov.b64 %rd11, 0;\n" + thread.code + "\nst.global.b64 [%rd1+" + place +
              "], %rd10;\nst.global.b64 [%rd1+" + std::to_string(resultsAt + number * resultBytes + 8) + "], %rd11;\n" +
              end + ":\n";
    }
    text += "ret;\n}\n";
  }
  return text;
}

} // namespace

Outcomes runLitmus(const std::vector<LitmusThread> &threads, const MemoryStyle &style, uint64_t numSeeds) {
  uint32_t numDevices = 0;
  std::map<uint32_t, uint32_t> numBlocks;
  for (const LitmusThread &thread : threads) {
    numDevices = std::max(numDevices, thread.device + 1);
    numBlocks[thread.device] = std::max(numBlocks[thread.device], thread.block + 1);
  }
  Module module = readModule(makeText(threads, numDevices));
  constexpr size_t memoryBytes = 4096;
  static const std::vector<std::byte> zeros(memoryBytes);
  constexpr uint64_t base = uint64_t(1) << 40;
  std::vector<Launch> launches(numDevices);
  std::vector<uint64_t> seen(threads.size() * 2);
  std::vector<std::vector<Task>> queues;
  for (uint32_t device = 0; device < numDevices; ++device) {
    launches[device] = {&module, &module.entry(kernelOf(device)), base, numBlocks[device], 1, warpThreads};
    auto look = [&, device](Memory &memory, uint32_t host) {
      for (size_t number = 0; number < threads.size(); ++number)
        for (uint64_t half : {0, 1})
          if (threads[number].device == device)
            memory.load(host, base + resultsAt + number * resultBytes + 8 * half, 8, {}, 0,
                        reinterpret_cast<std::byte *>(&seen[2 * number + half]));
    };
    queues.push_back({{&launches[device], nullptr}, {nullptr, look}});
  }
  Executor executor(queues);
  executor.memory().addRegion(base, memoryBytes, zeros.data(), false);
  Outcomes outcomes;
  for (uint64_t seed = 1; seed <= numSeeds; ++seed) {
    executor.run({.seed = seed, .memory = style});
    std::string outcome;
    for (uint64_t value : seen)
      outcome += std::to_string(value) + " ";
    outcome.back() = ';';
    for (uint64_t address : {base, base + 64})
      outcome += " " + std::to_string(executor.memory().lastState(address));
    outcomes.insert(outcome);
  }
  return outcomes;
}

} // namespace kolo::ptx
