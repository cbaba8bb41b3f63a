// The key-value store that rank 0 serves on MASTER_ADDR:MASTER_PORT while the ranks find each
// other.
//
// It listens on that one address. A caller first says who it is ("digits1 RANK WORLD_SIZE
// FINGERPRINT"); one that does not belong is told why and may do nothing else. When a rank leaves
// before it said goodbye, everyone who waits is told.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "options.h"
#include "wire.h"

namespace digits {

[[nodiscard]] std::string helloText(const Place& place, std::uint64_t fingerprint);

class StoreServer {
 public:
  // Listens and serves in a thread of its own until destroyed.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> start(const Place& place,
                                                                  std::uint64_t fingerprint);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct Client {
    Fd socket;
    std::string received;
    std::string waitsFor;  // a key, or empty
    int rank = -1;         // -1: has not said hello
    bool done = false;     // said goodbye, or is to be dropped
  };

  StoreServer(Fd listener, Fd stop, std::size_t worldSize, std::uint64_t fingerprint);
  void serve();
  void accept();
  void receive(Client& client);
  void handle(Client& client, Frame frame);
  void hello(Client& client, const std::string& text);
  void put(const std::string& key, std::string value);
  void rankLeft(int rank);
  static void answer(Client& client, Tag tag, std::string text);

  Fd listener_;
  Fd stop_;  // an eventfd
  std::size_t worldSize_;
  std::uint64_t fingerprint_;
  std::map<std::string, std::string> values_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<bool> present_;  // ranks that said hello
  std::string failure_;        // why this rendezvous can no longer succeed, or empty
  std::thread thread_;         // last: uses all of the above
};

}  // namespace digits
