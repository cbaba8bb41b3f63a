// A rank's side of the key-value store, in the form that Gloo asks for. (Debian's Gloo brings
// stores on files and on Redis only.)
#pragma once

#include <gloo/rendezvous/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "wire.h"

namespace digits {

// The calls that Gloo makes throw std::runtime_error, with a text for people, when the store is
// lost, refuses or does not answer in time. Not for several threads.
class TcpStore final : public gloo::rendezvous::Store {
 public:
  // Tries until `timeout` is over, for rank 0 may start last.
  [[nodiscard]] static Result<std::unique_ptr<TcpStore>> connect(const Place& place,
                                                                 std::uint64_t fingerprint,
                                                                 std::chrono::seconds timeout);

  // The address of this machine by which it reaches rank 0, and so the other ranks.
  [[nodiscard]] std::string localAddress() const;
  void bye();

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  TcpStore(Fd socket, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}
  std::string ask(const Frame& frame, std::chrono::milliseconds timeout);

  Fd socket_;
  std::chrono::milliseconds timeout_;
  std::string received_;
};

}  // namespace digits
