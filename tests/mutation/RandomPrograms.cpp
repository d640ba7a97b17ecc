// Puts random statements in a random order.
#include "RandomPrograms.h"
#include "Litmus.h"

namespace kolo::mutation {

namespace {

std::string copyMove(const std::string &from, const std::string &to) {
  return "kolo.chan.copy " + from + " -> " + to + " part %l of %L";
}
std::string getMove(const std::string &from, const std::string &to, const std::string &peer) {
  return "kolo.chan.get " + from + " -> " + to + " from " + peer + " part %l of %L";
}
std::string putMove(const std::string &from, const std::string &to, const std::string &peer) {
  return "kolo.chan.put " + from + " -> " + to + " to " + peer + " part %l of %L";
}
const std::string in = "%in[] size []", slot = "%slot[] size []";
std::string block(const std::string &buffer, const std::string &index) { return buffer + "[" + index + "] size [%c1]"; }
std::string types(int from, int to) {
  return " : !kolo.buffer<" + std::to_string(from) + "> -> !kolo.buffer<" + std::to_string(to) + ">\n";
}

/// A body that runs for every rank, the others in an order that starts at this one, or all in one order.
std::string forAll(const std::string &body) { return "scf.for %p = %c0 to %n step %c1 {\n" + body + "}\n"; }
std::string forOthers(const std::string &body) {
  return "scf.for %i = %c1 to %n step %c1 {\n%s = arith.addi %me, %i : index\n%p = arith.remsi %s, %n : index\n" +
         body + "}\n";
}
std::string forOthersBack(const std::string &body) {
  return "scf.for %i = %c1 to %n step %c1 {\n%d = arith.subi %n, %i : index\n%s = arith.addi %me, %d : index\n"
         "%p = arith.remsi %s, %n : index\n" +
         body + "}\n";
}

std::string randomMove(std::mt19937 &random) {
  const std::string moves[] = {
      copyMove(in, block("%out", "%me")) + types(0, 1),
      putMove(in, slot, "%next") + types(0, 0),
      putMove(in, block("%out", "%me"), "%next") + types(0, 1),
      putMove(in, block("%slots", "%me"), "%next") + types(0, 1),
      copyMove(slot, block("%out", "%prev")) + types(0, 1),
      copyMove(block("%slots", "%prev"), block("%out", "%prev")) + types(1, 1),
      getMove(in, block("%out", "%prev"), "%prev") + types(0, 1),
      putMove(block("%out", "%prev"), block("%out", "%prev"), "%next") + types(1, 1),
      forAll(copyMove(block("%slots", "%p"), block("%out", "%p")) + types(1, 1)),
      forAll(putMove(block("%out", "%p"), block("%out", "%p"), "%next") + types(1, 1)),
      forAll(putMove(block("%slots", "%p"), block("%slots", "%p"), "%next") + types(1, 1)),
      forAll(getMove(in, block("%out", "%p"), "%p") + types(0, 1)),
      forOthers(putMove(in, block("%out", "%me"), "%p") + types(0, 1)),
      forOthers(putMove(in, block("%slots", "%me"), "%p") + types(0, 1)),
      forOthersBack(getMove(in, block("%out", "%p"), "%p") + types(0, 1)),
      forOthersBack(copyMove(block("%slots", "%p"), block("%out", "%p")) + types(1, 1)),
      copyMove("%slots[%c0] size [%n]", "%out[%c0] size [%n]") + types(1, 1),
      "kolo.chan.flush\n",
      "scf.if %first {\n" + copyMove(in, block("%out", "%me")) + types(0, 1) + "}\n",
      "scf.if %first {\n" + putMove(in, block("%out", "%me"), "%next") + types(0, 1) + "}\n",
  };
  return moves[random() % std::size(moves)];
}

/// Both ends of one semaphore.
std::pair<std::string, std::string> randomSignal(std::mt19937 &random, int number) {
  std::string semaphore = std::to_string(number);
  auto signal = [&](const std::string &peer) { return "kolo.chan.signal " + semaphore + " to " + peer + "\n"; };
  auto wait = [&](const std::string &peer) { return "kolo.chan.wait " + semaphore + " from " + peer + "\n"; };
  switch (random() % 4) {
  case 0:
    return {signal("%next"), wait("%prev")};
  case 1:
    return {signal("%prev"), wait("%next")};
  case 2:
    return {forOthers(signal("%p")), forOthersBack(wait("%p"))};
  default:
    return {forOthersBack(signal("%p")), forOthers(wait("%p"))};
  }
}

/// Chunks that follow each other around a buffer of so many, as one side of a move.
struct Slice {
  Slice(std::mt19937 &random, size_t numChunks) : Slice(random() % numChunks, 1 + random() % numChunks) {}
  Slice(size_t offset, size_t size) : offset("%k" + std::to_string(offset)), size("%k" + std::to_string(size)) {}
  std::string of(const std::string &buffer) const { return buffer + "[" + offset + "] size [" + size + "]"; }
  std::string ofSlot(const std::string &rank) const {
    return "%slots[" + rank + ", " + offset + "] size [%c1, " + size + "]";
  }
  std::string offset, size;
};

std::string atRoot(const std::string &body) { return "scf.if %isRoot {\n" + body + "}\n"; }
std::string elsewhere(const std::string &body) { return "scf.if %isRoot {\n} else {\n" + body + "}\n"; }

std::string randomSliceMove(std::mt19937 &random, size_t numChunks) {
  Slice slice(random, numChunks);
  std::string root = slice.of("%in"), mine = slice.of("%out"), ownSlot = slice.ofSlot("%me"),
              otherSlot = slice.ofSlot("%prev");
  const std::string moves[] = {
      atRoot(copyMove(root, mine) + types(1, 1)),
      atRoot(copyMove(root, ownSlot) + types(1, 2)),
      atRoot(putMove(root, mine, "%next") + types(1, 1)),
      atRoot(putMove(root, ownSlot, "%next") + types(1, 2)),
      atRoot(forOthers(putMove(root, mine, "%p") + types(1, 1))),
      elsewhere(getMove(mine, mine, "%root") + types(1, 1)),
      elsewhere(copyMove(otherSlot, mine) + types(2, 1)),
      putMove(mine, mine, "%next") + types(1, 1),
      putMove(mine, ownSlot, "%next") + types(1, 2),
      copyMove(otherSlot, ownSlot) + types(2, 2),
      copyMove(otherSlot, mine) + types(2, 1),
      getMove(ownSlot, mine, "%prev") + types(2, 1),
  };
  return moves[random() % std::size(moves)];
}

/// Proved, if it is all that a program does after all ranks have entered.
std::vector<std::string> broadcastInTwoSlices(size_t numChunks, size_t cut) {
  Slice whole(0, numChunks);
  std::string body;
  for (const auto &[offset, size] : {std::pair(cut, numChunks - cut), std::pair(size_t(0), cut)})
    if (std::string slice = Slice(offset, size).of("%out"); size > 0)
      body += putMove(slice, slice, "%p") + types(1, 1);
  return {atRoot(copyMove(whole.of("%in"), whole.of("%out")) + types(1, 1)),
          atRoot(forOthers(body + "kolo.chan.signal 4 to %p\n")), elsewhere("kolo.chan.wait 4 from %root\n"),
          "kolo.chan.flush\n"};
}

std::string rootAndBuffers(size_t numChunks) {
  std::string text = "%root = kolo.root\n%isRoot = arith.cmpi eq, %me, %root : index\n";
  for (size_t value = 0; value <= numChunks; ++value)
    text += "%k" + std::to_string(value) + " = arith.constant " + std::to_string(value) + " : index\n";
  std::string extent = "%k" + std::to_string(numChunks);
  return text + "%in = kolo.buffer input \"in\" grid(" + extent + ") blocks 0 : !kolo.buffer<1>\n" +
         "%out = kolo.buffer output \"out\" grid(" + extent + ") blocks 0 : !kolo.buffer<1>\n" +
         "%slots = kolo.buffer scratch \"slots\" grid(%n, " + extent + ") blocks 1 : !kolo.buffer<2>\n";
}

} // namespace

RandomProgram randomBroadcast(std::mt19937 &random) {
  size_t numChunks = 1 + random() % 8;
  std::vector<std::string> statements = broadcastInTwoSlices(numChunks, random() % numChunks);
  auto insert = [&](const std::string &text) {
    auto place = ptrdiff_t(random() % (statements.size() + 1));
    statements.insert(statements.begin() + place, text);
    return place;
  };
  if (random() % 8 == 0)
    statements.erase(statements.begin() + ptrdiff_t(random() % statements.size()));
  for (auto count = random() % 4; count > 0; --count)
    insert(randomSliceMove(random, numChunks));
  if (random() % 2 == 0) {
    auto [signal, wait] = randomSignal(random, 0);
    auto place = insert(signal);
    statements.insert(statements.begin() + place + 1, wait);
  }
  std::string body = rootAndBuffers(numChunks);
  if (random() % 8 != 0)
    body += "kolo.chan.enter\n";
  for (const std::string &statement : statements)
    body += statement;
  return {program("broadcast", 5, body), {2 + int64_t(random() % 5)}};
}

RandomProgram randomProgram(std::mt19937 &random) {
  std::vector<std::string> statements;
  auto place = [&](size_t first) { return first + random() % (statements.size() + 1 - first); };
  auto insert = [&](size_t at, const std::string &text) {
    statements.insert(statements.begin() + ptrdiff_t(at), text);
  };
  statements.push_back(copyMove(in, block("%out", "%me")) + types(0, 1));
  for (auto count = 1 + random() % 4; count > 0; --count)
    insert(place(0), randomMove(random));
  auto numSignals = random() % 4;
  for (size_t number = 0; number < numSignals; ++number) {
    auto [signal, wait] = randomSignal(random, int(number));
    size_t at = place(0);
    insert(at, signal);
    if (random() % 32 != 0)
      insert(place(random() % 8 ? at + 1 : 0), wait);
  }
  if (random() % 3 == 0)
    insert(0, "kolo.chan.enter\n");
  if (random() % 2 == 0)
    statements.push_back("kolo.chan.flush\n");
  // What most all-gathers look like: then a part of them is right.
  if (random() % 4 == 0) {
    auto [signal, wait] =
        std::pair(forOthers("kolo.chan.signal 4 to %p\n"), forOthersBack("kolo.chan.wait 4 from %p\n"));
    for (const std::string &text : {forOthers(putMove(in, block("%out", "%me"), "%p") + types(0, 1)), signal, wait})
      statements.push_back(text);
    insert(0, "kolo.chan.enter\n");
    statements.erase(std::unique(statements.begin(), statements.end()), statements.end());
  }
  std::string body = wholeIn + blocksOut + oneSlot +
                     "%slots = kolo.buffer scratch \"slots\" grid(%n) blocks 1 : !kolo.buffer<1>\n"
                     "%first = arith.cmpi eq, %me, %c0 : index\n";
  for (const std::string &statement : statements)
    body += statement;
  return {program("all_gather", 5, body), {2 + int64_t(random() % 5)}};
}

} // namespace kolo::mutation
