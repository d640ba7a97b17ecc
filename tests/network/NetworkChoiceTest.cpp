// Which network ranks take, by what each of them has.
#include "Support.h"

#include "network/NetworkChoice.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kolo::test {
namespace {

using Kind = NetworkOffer::Kind;

std::string chosen(const std::vector<NetworkOffer> &offers) {
  Result<std::string> result = chooseNetwork(offers);
  return result.isOk() ? *result : result.status().message();
}

TEST(NetworkChoice, AutoTakesTheFirstProviderThatAllRanksHave) {
  const NetworkOffer none{Kind::Auto, 0, ""}, cxi{Kind::Auto, 1, ""}, verbs{Kind::Auto, 2, ""}, efa{Kind::Auto, 4, ""},
      all{Kind::Auto, 7, ""}, last{Kind::Auto, 6, ""};
  EXPECT_EQ(chosen({all, all, all}), "cxi");
  EXPECT_EQ(chosen({all, last, all}), "verbs");
  EXPECT_EQ(chosen({all, last, efa}), "efa");
  EXPECT_EQ(chosen({cxi, cxi}), "cxi");
  EXPECT_EQ(chosen({all, all, none}), "");
  EXPECT_EQ(chosen({cxi, verbs}), "");
}

TEST(NetworkChoice, WhatOneRankNamesAllMustName) {
  const NetworkOffer tcp{Kind::Tcp, 0, ""}, any{Kind::Auto, 7, ""}, cxi{Kind::Provider, 0, "cxi"},
      efa{Kind::Provider, 0, "efa"};
  EXPECT_EQ(chosen({tcp, tcp}), "");
  EXPECT_EQ(chosen({efa, efa}), "efa");
  EXPECT_EQ(chosen({cxi, cxi, efa}), "ranks disagree on KOLO_NETWORK: rank 0 has cxi, rank 2 has efa");
  EXPECT_EQ(chosen({tcp, any}), "ranks disagree on KOLO_NETWORK: rank 0 has tcp, rank 1 has auto");
  EXPECT_EQ(chooseNetwork(std::vector{any, any, cxi}).status().code(), StatusCode::Mismatch);
}

TEST(NetworkChoice, AnOfferTravelsInAnEndpointAndLeavesTheRestOfItAlone) {
  for (const NetworkOffer &offer : {NetworkOffer{Kind::Tcp, 0, ""}, NetworkOffer{Kind::Auto, 5, ""},
                                    NetworkOffer{Kind::Provider, 0, "tcp;ofi_rxm"}}) {
    Endpoint endpoint = {}, before;
    endpoint[0] = endpoint[39] = std::byte(9);
    before = endpoint;
    addOffer(endpoint, offer);
    Result<NetworkOffer> found = takeOffer(endpoint);
    ASSERT_TRUE(found.isOk());
    EXPECT_EQ(*found, offer);
    EXPECT_EQ(endpoint, before);
  }
  Endpoint empty = {}, wrong = {};
  EXPECT_EQ(takeOffer(empty).status().code(), StatusCode::Mismatch);
  wrong.fill(std::byte(0xff));
  EXPECT_EQ(takeOffer(wrong).status().code(), StatusCode::Mismatch);
  Endpoint endless = {}, withBits = {};
  addOffer(endless, {Kind::Provider, 0, "a name of 19 bytes."});
  endless.back() = std::byte('.'); // no writer leaves out the zero at the end
  EXPECT_EQ(takeOffer(endless).status().code(), StatusCode::Mismatch);
  addOffer(withBits, {Kind::Tcp, 1, ""});
  EXPECT_EQ(takeOffer(withBits).status().code(), StatusCode::Mismatch);
}

TEST(NetworkChoice, TheVariableIsReadAndRefused) {
  unsetenv("KOLO_NETWORK");
  EXPECT_EQ(readNetworkOffer("127.0.0.1")->kind, Kind::Auto);
  setenv("KOLO_NETWORK", "tcp", 1);
  EXPECT_EQ(readNetworkOffer("127.0.0.1")->kind, Kind::Tcp);
  for (const char *wrong : {"a name that is far too long"}) {
    setenv("KOLO_NETWORK", wrong, 1);
    EXPECT_EQ(expectStatus(readNetworkOffer("127.0.0.1").status(), StatusCode::InvalidArgument, -1,
                           "is neither auto, nor tcp, nor a provider"),
              "");
  }
  unsetenv("KOLO_NETWORK");
  for (const char *wrong : {"ffff:ff:1f.7", "../devices", "GCD 0"}) {
    setenv("KOLO_NETWORK_NEAR", wrong, 1);
    EXPECT_EQ(expectStatus(readNetworkOffer("127.0.0.1").status(), StatusCode::InvalidArgument, -1,
                           std::string("KOLO_NETWORK_NEAR='") + wrong + "' is no device of PCI that this host has"),
              "");
  }
  unsetenv("KOLO_NETWORK_NEAR");
  setenv("KOLO_NETWORK", "cxi", 1); // beside this program there is no libkolo_fabric.so
  EXPECT_EQ(expectStatus(readNetworkOffer("127.0.0.1").status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK=cxi: this build has no transport by libfabric: "),
            "");
  unsetenv("KOLO_NETWORK");
}

TEST(NetworkChoice, DevicesReceiveInMemoryOfTheHostUnlessAnotherIsNamed) {
  EXPECT_EQ(*readNetworkMemory(), NetworkMemory::Host);
  for (NetworkMemory memory : {NetworkMemory::Host, NetworkMemory::Device, NetworkMemory::Auto}) {
    setenv("KOLO_NETWORK_MEMORY", toString(memory), 1);
    EXPECT_EQ(*readNetworkMemory(), memory);
  }
  setenv("KOLO_NETWORK_MEMORY", "Device", 1);
  EXPECT_EQ(expectStatus(readNetworkMemory().status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK_MEMORY='Device' is neither host, nor device, nor auto"),
            "");
  unsetenv("KOLO_NETWORK_MEMORY");
}

} // namespace
} // namespace kolo::test
