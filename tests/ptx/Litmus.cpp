#include "Litmus.h"

#include <cstring>

namespace kolo::ptx {

namespace {

constexpr uint64_t base = uint64_t(1) << 40, placeBytes = 64, memoryBytes = 16384;
constexpr uint64_t resultsAt = 4096, resultBytes = 256; // of a thread: what it saw, and at last that it has ended
constexpr uint64_t endedAt = resultBytes - 8;

std::string kernelOf(uint32_t device) { return "d" + std::to_string(device); }
uint64_t resultAt(size_t thread, uint64_t offset) { return resultsAt + thread * resultBytes + offset; }

std::string threadText(const LitmusProgram &program, size_t number) {
  const LitmusThread &thread = program.threads[number];
  std::string end = "$E" + std::to_string(number), first = program.hasBarriers ? "@%p3 " : "";
  std::string text = "setp.ne.b32 %p1, %r1, " + std::to_string(thread.block) + ";\n@%p1 bra " + end +
                     ";\nsetp.ne.b32 %p1, %r2, " + std::to_string(thread.thread) + ";\n@%p1 bra " + end + ";\n";
  for (uint32_t seen = 0; seen < program.numSeen; ++seen)
    text += "mov.b64 %rd" + std::to_string(10 + seen) + ", 0;\n";
  text += thread.code + "\n";
  auto store = [&](uint64_t offset, const std::string &value) {
    text += first + "st.global.b64 [%rd1+" + std::to_string(resultAt(number, offset)) + "], " + value + ";\n";
  };
  for (uint32_t seen = 0; seen < program.numSeen; ++seen)
    store(uint64_t(8) * seen, "%rd" + std::to_string(10 + seen));
  store(endedAt, "1");
  return text + end + ":\n";
}

std::string makeText(const LitmusProgram &program, uint32_t numDevices) {
  std::string text;
  for (uint32_t device = 0; device < numDevices; ++device) {
    std::string name = kernelOf(device);
    text += ".visible .entry " + name + "(\n.param .u64 " + name +
            "_param_0\n)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\nld.param.b64 %rd1, [" + name +
            "_param_0];\nadd.s64 %rd2, %rd1, 64;\n" +
            "add.s64 %rd3, %rd1, 128;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\n";
    if (program.hasBarriers)
      text += "and.b32 %r3, %r2, 31;\nsetp.eq.b32 %p3, %r3, 0;\nshr.u32 %r2, %r2, 5;\n";
    for (size_t number = 0; number < program.threads.size(); ++number)
      if (program.threads[number].device == device)
        text += threadText(program, number);
    text += "ret;\n}\n";
  }
  return text;
}

/// Of the devices: as many blocks and threads as their threads need.
std::vector<Launch> makeLaunches(const LitmusProgram &program) {
  std::vector<Launch> launches;
  for (const LitmusThread &thread : program.threads) {
    if (launches.size() <= thread.device)
      launches.resize(thread.device + 1);
    Launch &launch = launches[thread.device];
    launch.argument = base, launch.gridX = std::max(launch.gridX, thread.block + 1);
    if (program.hasBarriers)
      launch.numThreads = std::max(launch.numThreads, (thread.thread + 1) * uint32_t(warpThreads));
  }
  return launches;
}

LitmusEnd readEnd(const LitmusProgram &program, Memory &memory) {
  LitmusEnd end;
  for (size_t thread = 0; thread < program.threads.size(); ++thread) {
    std::vector<int64_t> &seen = end.seen.emplace_back();
    for (uint32_t number = 0; number < program.numSeen; ++number)
      seen.push_back(int64_t(memory.lastState(base + resultAt(thread, uint64_t(8) * number))));
    end.hasEnded.push_back(memory.lastState(base + resultAt(thread, endedAt)) != 0);
  }
  for (size_t place = 0; place < std::max<size_t>(program.initial.size(), 2); ++place)
    end.last.push_back(int64_t(memory.lastState(base + placeBytes * place)));
  return end;
}

} // namespace

MemoryStyle exactMemory() {
  MemoryStyle style;
  style.isExact = style.reordersStores = style.delaysLoads = true, style.reportsRaces = false;
  return style;
}

void runLitmus(const LitmusProgram &program, const MemoryStyle &style, uint64_t numSeeds,
               const std::function<bool(const LitmusEnd &)> &look) {
  std::vector<Launch> launches = makeLaunches(program);
  Module module = readModule(makeText(program, uint32_t(launches.size())));
  std::vector<std::byte> content(memoryBytes);
  for (size_t place = 0; place < program.initial.size(); ++place)
    std::memcpy(content.data() + place * placeBytes, &program.initial[place], sizeof(int64_t));
  std::vector<std::vector<Task>> queues;
  for (uint32_t device = 0; device < launches.size(); ++device) {
    launches[device].module = &module, launches[device].kernel = &module.entry(kernelOf(device));
    queues.push_back({{&launches[device], nullptr}});
  }
  Executor executor(queues);
  executor.memory().addRegion(base, memoryBytes, content.data(), false);
  for (uint64_t seed = 1; seed <= numSeeds; ++seed) {
    try {
      executor.run({.seed = seed, .memory = style, .mostSteps = 100'000});
    } catch (const Stuck &) { // `hasEnded` says which threads have not ended
    }
    if (!look(readEnd(program, executor.memory())))
      return;
  }
}

Outcomes runLitmus(const std::vector<LitmusThread> &threads, const MemoryStyle &style, uint64_t numSeeds) {
  Outcomes outcomes;
  runLitmus({threads, {}, 2, false}, style, numSeeds, [&](const LitmusEnd &end) {
    std::string outcome;
    for (const std::vector<int64_t> &seen : end.seen)
      for (int64_t value : seen)
        outcome += std::to_string(value) + " ";
    outcome.back() = ';';
    for (size_t place : {0, 1})
      outcome += " " + std::to_string(end.last[place]);
    outcomes.insert(outcome);
    return true;
  });
  return outcomes;
}

} // namespace kolo::ptx
