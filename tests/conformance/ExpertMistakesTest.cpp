// What an exchange of tokens refuses, on all ranks alike.
#include "ExpertPrograms.h"

using namespace kolo::conformance;
using namespace kolo::runtime;
using kolo::test::expectStatus;
using kolo::test::Launch;

namespace {

ExpertOptions smallOptions() {
  ExpertOptions options{*Mesh::parse("rank=2"), 4};
  options.rowElements = 8;
  options.capacity = 2;
  return options;
}

/// `body` on two ranks, with an exchange.
void onTwoRanks(const ExpertOptions &options,
                const std::function<std::string(Communicator &, ExpertExchange &)> &body) {
  for (Launch launch : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(kolo::test::runRanks(launch, 2, {20000, 1},
                                   [&](Communicator &communicator) {
                                     Result<ExpertExchange> exchange =
                                         ExpertExchange::create(communicator, {&directExperts()}, options);
                                     return exchange.isOk() ? body(communicator, *exchange)
                                                            : exchange.status().message();
                                   }),
              "");
}

} // namespace

TEST(Experts, RefuseWrongNumbersOnAllRanks) {
  struct Wrong {
    std::vector<int32_t> experts;
    int64_t perToken;
    const char *text;
  };
  const Wrong all[] = {{{0, 4}, 1, "token 1 asks for expert 4 of 4"},
                       {{0, -2}, 2, "token 0 asks for expert -2 of 4"},
                       {{1, 0, 3, 3}, 2, "token 1 asks for expert 3 twice"},
                       {{1, 0, 3}, 2, "3 numbers of experts are no multiple of 2 for each token"},
                       {{1}, 0, "1 numbers of experts are no multiple of 0 for each token"}};
  onTwoRanks(smallOptions(), [&](Communicator &communicator, ExpertExchange &exchange) {
    std::string said;
    for (const Wrong &wrong : all) {
      const bool isWrong = communicator.rank() == 1;
      const std::vector<int32_t> right = {0, 3};
      said += expectStatus(isWrong ? exchange.route(wrong.experts, wrong.perToken) : exchange.route(right, 1),
                           StatusCode::InvalidArgument,
                           {isWrong ? wrong.text : "the experts that tokens of another rank ask for are wrong"});
      said += expectStatus(exchange.dispatch(nullptr, nullptr), StatusCode::InvalidArgument,
                           {"no call of route has succeeded before"});
      if (Status status = exchange.route(right, 1); !status.isOk())
        said += status.message();
    }
    return said;
  });
}

TEST(Experts, AreAsManyForEachTokenOnAllRanks) {
  auto body = [](Communicator &communicator) {
    ExpertOptions options{*Mesh::parse("node=2,gpu=2"), 4};
    options.rowElements = 8;
    options.capacity = 4;
    Result<ExpertExchange> exchange = ExpertExchange::create(communicator, {&expertsByNodes()}, options);
    const bool isOther = communicator.rank() == 0;
    const std::vector<int32_t> experts = {3, 2}; // on the other node of the two
    std::string said = expectStatus(exchange->route(experts, isOther ? 1 : 2), StatusCode::Mismatch,
                                    {"ranks disagree on a block: rank 0 gives 2 elements to rank 2, which takes 4"});
    return said + exchange->route(experts, 2).message();
  };
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 4, {20000, 1}, body), "");
}

TEST(Experts, RefuseOrDropWhatIsBeyondACapacity) {
  ExpertOptions options = smallOptions();
  auto chosen = [](const Communicator &communicator) {
    return communicator.rank() == 0 ? std::vector<int32_t>{3, 3, 3, 3, 0} : std::vector<int32_t>{3, 1};
  };
  onTwoRanks(options, [&](Communicator &communicator, ExpertExchange &exchange) {
    const char *own = communicator.rank() == 0 ? ": 2 of this rank" : ": 0 of this rank";
    return expectStatus(exchange.route(chosen(communicator), 1), StatusCode::InvalidArgument,
                        {"2 tokens for experts are beyond the capacity of 2", own});
  });
  options.overflow = Overflow::Drop;
  onTwoRanks(options, [&](Communicator &communicator, ExpertExchange &exchange) {
    Status status = exchange.route(chosen(communicator), 1);
    const Routed routed = exchange.routed();
    std::string said = status.message();
    if (routed.numDropped != (communicator.rank() == 0 ? 2 : 0))
      said += "dropped " + std::to_string(routed.numDropped);
    const std::vector<int64_t> expected =
        communicator.rank() == 0 ? std::vector<int64_t>{1, 0, 0, 1} : std::vector<int64_t>{0, 0, 2, 1};
    return llvm::equal(routed.counts, expected) ? said : said + "other counts";
  });
}

TEST(Experts, TellAllRanksOfWrongBuffers) {
  onTwoRanks(smallOptions(), [](Communicator &communicator, ExpertExchange &exchange) {
    const std::vector<int32_t> experts = {0, 3};
    std::string said = exchange.route(experts, 1).message();
    std::vector<uint16_t> tokens(16), rows(size_t(exchange.routed().numRows) * 8), output(16);
    const std::vector<float> weights(2, 1.0f), tooFew(1, 1.0f);
    const bool isFirst = communicator.rank() == 0;
    said += expectStatus(exchange.dispatch(isFirst ? nullptr : tokens.data(), rows.data()), StatusCode::InvalidArgument,
                         {"input is null"});
    said += expectStatus(exchange.dispatch(tokens.data(), isFirst ? nullptr : rows.data()), StatusCode::InvalidArgument,
                         {"output is null"});
    said += expectStatus(exchange.dispatch(rows.data(), rows.data()), StatusCode::InvalidArgument,
                         {"input and output of a call with row lists overlap"});
    Status combined = exchange.combine(rows.data(), isFirst ? tooFew : weights, output.data());
    said += isFirst ? expectStatus(combined, StatusCode::InvalidArgument, {"1 weights are given for 2 tokens"})
                    : combined.message();
    said += exchange.dispatch(tokens.data(), rows.data()).message();
    return said + exchange.combine(rows.data(), weights, output.data()).message();
  });
}

TEST(Experts, RefuseWrongOptions) {
  const Mesh two = *Mesh::parse("rank=2");
  auto expectRefusal = [&](const std::function<void(ExpertOptions &)> &change, const char *text) {
    onTwoRanks(smallOptions(), [&](Communicator &communicator, ExpertExchange &) {
      ExpertOptions options = smallOptions();
      change(options);
      return expectStatus(ExpertExchange::create(communicator, {&directExperts()}, options).status(),
                          StatusCode::InvalidArgument, {text});
    });
  };
  expectRefusal([](ExpertOptions &options) { options.mesh = *Mesh::parse("rank=3"); },
                "mesh rank=3 has 3 ranks, the communicator has 2");
  expectRefusal([](ExpertOptions &options) { options.mesh = Mesh(); }, "is 0");
  expectRefusal([](ExpertOptions &options) { options.numExperts = 3; }, "3 experts are no multiple of 2 ranks");
  expectRefusal([](ExpertOptions &options) { options.capacity = 0; }, "capacity is 0");
  expectRefusal([](ExpertOptions &options) { options.rowElements = 0; }, "rowElements is 0");
  expectRefusal([](ExpertOptions &options) { options.type = DataType::I32; },
                "tokens are of f32, f16 or bf16, not of i32");
  expectRefusal([](ExpertOptions &options) { options.capacity = INT64_MAX / 2; }, "are too many");
  expectRefusal([](ExpertOptions &options) { options.allowsLoss = true; },
                "no plugin has an all-to-all with codecs on mesh rank=2 that takes row lists");
  expectRefusal([](ExpertOptions &options) { options.mesh = *Mesh::parse("node=2,gpu=1"); },
                "no plugin has an all-to-all over 'node' on mesh node=2,gpu=1 that takes row lists");
}
