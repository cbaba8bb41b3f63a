#include "cli/http.h"

#include <curl/curl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/decode.h"

namespace bole::cli {
namespace {

constexpr long kConnectSeconds = 5;
constexpr std::size_t kMaxAnswer = 256 * 1024 * 1024;

ErrorCode codeOfStatus(long status) {
  switch (status) {
    case 400:
    case 405:
    case 413:
    case 415:
      return ErrorCode::kInvalid;
    case 401:
    case 403:
      return ErrorCode::kPermission;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kConflict;
    case 422:
      return ErrorCode::kRefused;
    case 429:
    case 502:
    case 503:
    case 504:
      return ErrorCode::kUnavailable;
    case 501:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInternal;
  }
}

ErrorCode codeOfName(const std::string& name, ErrorCode otherwise) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    if (errorCodeName(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return otherwise;
}

bool isGood(long status) {
  return status >= 200 && status < 300;
}

}  // namespace

// One request on its way: what libcurl's callbacks see.
struct Client::Transfer {
  const Request& request;
  const std::function<bool(std::string_view)>* take = nullptr;
  CURL* easy = nullptr;
  Response response{};
  std::uint64_t sent = 0;
  bool enough = false;  // `take` wanted no more
  bool tooLarge = false;

  static std::size_t onBody(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view bytes(data, size * count);
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer.take && isGood(status)) {
      transfer.enough = !(*transfer.take)(bytes);
      return transfer.enough ? 0 : bytes.size();
    }
    transfer.tooLarge = transfer.response.body.size() + bytes.size() > kMaxAnswer;
    if (transfer.tooLarge) return 0;
    transfer.response.body += bytes;
    return bytes.size();
  }

  static std::size_t onSend(char* out, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const auto room =
        std::min<std::uint64_t>(size * count, transfer.request.bodySize - transfer.sent);
    const auto got =
        ::pread(transfer.request.bodyFile, out, room, static_cast<off_t>(transfer.sent));
    if (got < 0 || (got == 0 && room > 0)) return CURL_READFUNC_ABORT;
    transfer.sent += static_cast<std::uint64_t>(got);
    return static_cast<std::size_t>(got);
  }

  // Asked for where a request must be sent again on a fresh connection.
  static int onSeek(void* self, curl_off_t offset, int origin) {
    if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
    static_cast<Transfer*>(self)->sent = static_cast<std::uint64_t>(offset);
    return CURL_SEEKFUNC_OK;
  }
};

Client::Client(Address address, Duration silence)
    : address_(std::move(address)),
      multi_(curl_multi_init()),
      easy_(curl_easy_init()),
      silence_(silence) {}

Client::~Client() {
  curl_easy_cleanup(static_cast<CURL*>(easy_));
  curl_multi_cleanup(static_cast<CURLM*>(multi_));
}

namespace {

void setBody(CURL* easy, const Request& request) {
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.bodyFile >= 0) {
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.bodySize));
  } else if (request.method == "POST" || request.method == "PUT") {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
}

void setLimits(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY,
                   "");  // http_proxy is meant for elsewhere: the server is on this machine
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
}

curl_slist* headersOf(const Request& request, const std::string& token) {
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  if (request.bodyFile >= 0)
    headers = curl_slist_append(headers, "Content-Type: application/x-tar");
  else if (!request.body.empty())
    headers = curl_slist_append(headers, "Content-Type: application/json");
  for (const auto& [name, value] : request.headers) {
    headers = curl_slist_append(headers, (name + ": " + value).c_str());
  }
  if (!token.empty())
    headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  return headers;
}

// How long nothing has moved, by libcurl's own clock. (Its limit of speed is one of whole bytes a
// second: too much for the heartbeat of a quiet stream.)
class Silence {
 public:
  Silence(CURL* easy, Duration most) : easy_(easy), most_(most) {}

  bool isTooLong() {
    const auto moved = valueOf(CURLINFO_SIZE_DOWNLOAD_T) + valueOf(CURLINFO_SIZE_UPLOAD_T);
    const auto now = valueOf(CURLINFO_TOTAL_TIME_T);
    if (moved != moved_) since_ = now;
    moved_ = moved;
    return now - since_ > most_.value;
  }

 private:
  [[nodiscard]] curl_off_t valueOf(CURLINFO which) const {
    curl_off_t value = 0;
    curl_easy_getinfo(easy_, which, &value);
    return value;
  }

  CURL* easy_;
  Duration most_;
  curl_off_t moved_ = 0;
  curl_off_t since_ = 0;
};

// Runs the one transfer to its end; false: the interrupt came first.
bool drive(CURLM* multi, int interrupt, Silence silence, CURLcode& result) {
  int running = 1;
  while (true) {
    curl_multi_perform(multi, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    if (running == 0) return true;
    if (silence.isTooLong()) {
      result = CURLE_OPERATION_TIMEDOUT;
      return true;
    }
    curl_waitfd extra{};
    extra.fd = interrupt;
    extra.events = CURL_WAIT_POLLIN;
    curl_multi_poll(multi, interrupt >= 0 ? &extra : nullptr, interrupt >= 0 ? 1 : 0, 1000,
                    nullptr);
    if (interrupt >= 0 && extra.revents != 0) return false;
  }
}

}  // namespace

Result<Response> Client::perform(Transfer& transfer) {
  if (!address_.socketPath.empty() &&
      address_.socketPath.size() >= sizeof(sockaddr_un{}.sun_path)) {
    return fail(makeError(ErrorCode::kInvalid, "the path of the server's socket is too long")
                    .at(address_.socketPath)
                    .expectedValue("at most " + std::to_string(sizeof(sockaddr_un{}.sun_path) - 1) +
                                   " bytes")
                    .withHint("use a shorter --home (or BOLE_HOME)"));
  }
  auto* easy = static_cast<CURL*>(easy_);
  auto* multi = static_cast<CURLM*>(multi_);
  transfer.easy = easy;
  curl_easy_reset(easy);
  const bool local = !address_.socketPath.empty();
  const auto url = (local ? "http://bole" : address_.url) + transfer.request.path;
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  if (local) curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, address_.socketPath.c_str());
  setLimits(easy);
  setBody(easy, transfer.request);
  curl_slist* headers = headersOf(transfer.request, local ? "" : address_.token);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::onBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::onSend);
  curl_easy_setopt(easy, CURLOPT_READDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Transfer::onSeek);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, &transfer);
  curl_multi_add_handle(multi, easy);
  CURLcode code = CURLE_OK;
  transfer.response.interrupted = !drive(multi, interrupt_, Silence(easy, silence_), code);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  curl_multi_remove_handle(multi, easy);
  curl_slist_free_all(headers);
  if (transfer.response.interrupted || transfer.enough || code == CURLE_OK)
    return std::move(transfer.response);
  // An upload may be refused before its end: the answer that came counts, not the pipe that broke.
  if (code == CURLE_SEND_ERROR && transfer.response.status >= 400)
    return std::move(transfer.response);
  return fail(failure(transfer, code));
}

Error Client::failure(Transfer& transfer, int curlCode) const {
  const bool local = !address_.socketPath.empty();
  const auto& place = local ? address_.socketPath : address_.url;
  if (curlCode == CURLE_COULDNT_CONNECT || curlCode == CURLE_COULDNT_RESOLVE_HOST) {
    long reason = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_OS_ERRNO, &reason);
    if (local && ::access(address_.socketPath.c_str(), F_OK) != 0 && errno == EACCES)
      reason = EACCES;
    if (reason == EACCES || reason == EPERM) {
      return makeError(ErrorCode::kPermission, "not allowed to use the server's socket")
          .at(place)
          .withHint(
              "ask who runs the server to let you enter its directory, or use --home of your own");
    }
    return makeError(ErrorCode::kUnavailable, "no server at " + place)
        .withHint("start one with '" + address_.startCommand + "'");
  }
  if (transfer.tooLarge)
    return makeError(ErrorCode::kInternal, "the server's answer is too large").at(place);
  if (curlCode == CURLE_OPERATION_TIMEDOUT) {
    return makeError(ErrorCode::kUnavailable, "the server does not answer")
        .at(place)
        .withHint("see its log, server.log in its home; '" + address_.startCommand +
                  "' starts one that has ended");
  }
  return makeError(ErrorCode::kUnavailable, std::string(kConnectionBroke) + ": " +
                                                curl_easy_strerror(static_cast<CURLcode>(curlCode)))
      .at(place);
}

Result<Response> Client::send(const Request& request) {
  Transfer transfer{request};
  return perform(transfer);
}

Result<Response> Client::stream(const Request& request,
                                const std::function<bool(std::string_view)>& take) {
  Transfer transfer{request};
  transfer.take = &take;
  BOLE_ASSIGN(auto response, perform(transfer));
  if (!response.interrupted && !isGood(response.status))
    return fail(errorOf(response, request.path));
  return response;
}

Result<std::string> Client::bodyOf(const Request& request) {
  BOLE_ASSIGN(auto response, send(request));
  if (!isGood(response.status)) return fail(errorOf(response, request.path));
  return std::move(response.body);
}

Result<std::string> Client::get(const std::string& path) {
  Request request;
  request.path = path;
  return bodyOf(request);
}

Result<std::string> Client::post(const std::string& path, std::string body) {
  Request request;
  request.method = "POST";
  request.path = path;
  request.body = std::move(body);
  return bodyOf(request);
}

Result<std::string> Client::put(const std::string& path, std::string body) {
  Request request;
  request.method = "PUT";
  request.path = path;
  request.body = std::move(body);
  return bodyOf(request);
}

Error errorOf(const Response& response, const std::string& path) {
  const auto byStatus = codeOfStatus(response.status);
  if (auto view = decode<model::ErrorView>(response.body); view && !view->what.empty()) {
    return makeError(codeOfName(view->code, byStatus), std::move(view->what))
        .at(std::move(view->where))
        .foundValue(std::move(view->found))
        .expectedValue(std::move(view->expected))
        .withHint(std::move(view->hint));
  }
  auto error =
      makeError(byStatus, "the server answered " + std::to_string(response.status)).at(path);
  error.found = response.body.substr(0, std::min<std::size_t>(response.body.find('\n'), 200));
  return error;
}

Result<std::string> checkedServerUrl(const std::string& text) {
  const auto wrong = [&](const char* expected) {
    return fail(
        makeError(ErrorCode::kInvalid, "wrong address of the server (--server or BOLE_SERVER)")
            .foundValue("'" + text + "'")
            .expectedValue(expected));
  };
  constexpr const char* kForm = "http://127.0.0.1:PORT";
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return wrong(kForm);
  auto rest = text.substr(kScheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  if (rest.find_first_of("/@?# ") != std::string::npos) return wrong(kForm);
  auto host = rest;
  if (rest.starts_with('['))
    host = rest.substr(0, rest.find(']') + 1);
  else if (const auto colon = rest.find(':'); colon != std::string::npos)
    host = rest.substr(0, colon);
  const bool digits = host.find_first_not_of("0123456789.") == std::string::npos;
  const bool loopback =
      host == "localhost" || host == "[::1]" || (host.starts_with("127.") && digits);
  if (!loopback)
    return wrong("a loopback address: anything else would carry the token unencrypted");
  return std::string(kScheme) + rest;
}

std::string urlEncoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  return out;
}

}  // namespace bole::cli
