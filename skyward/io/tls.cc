#include "skyward/io/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "skyward/io/tls_choice.h"

namespace skyward::io {
namespace {

constexpr std::size_t kMinSecretBytes = 32;
// OpenSSL's own buffer, and what on_bytes gets at once: many records, each of 16 KiB at most.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10;
constexpr std::size_t kReadBytes = std::size_t{256} << 10;
// Of one stream in one turn of the loop: others have their turn, too.
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
// TLS_AES_128_GCM_SHA256, as it is named on the wire.
constexpr std::array<unsigned char, 2> kCipher{0x13, 0x01};

struct FreeSettings {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeStream {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

// What OpenSSL has against it, and forgets it.
std::string last_problem() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

}  // namespace

struct TlsKey::Impl {
  std::string group;
  std::string secret;
  std::unique_ptr<SSL_CTX, FreeSettings> context;

  // The secret in the form that OpenSSL takes: a session that both ends remember.
  SSL_SESSION* session(SSL* ssl) const {
    SSL_SESSION* session = SSL_SESSION_new();
    if (session == nullptr) return nullptr;
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipher.data());
    const auto* bytes = reinterpret_cast<const unsigned char*>(secret.data());
    if (cipher != nullptr && SSL_SESSION_set1_master_key(session, bytes, secret.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }

  static const Impl& of(const SSL* ssl) {
    return *static_cast<const Impl*>(SSL_get_ex_data(ssl, index()));
  }
  static int index() {
    static const int number = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return number;
  }
};

namespace {

// Of the end that dials: the group's name goes in the open, the secret never does.
template <typename Key>
int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* size,
              SSL_SESSION** session) {
  const Key& key = Key::of(ssl);
  *session = key.session(ssl);
  if (*session == nullptr) return 0;
  *name = reinterpret_cast<const unsigned char*>(key.group.data());
  *size = key.group.size();
  return 1;
}

// Of the end that answers. Without a key there is nothing to agree on, and the handshake fails.
template <typename Key>
int find_key(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  const Key& key = Key::of(ssl);
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(name), size) != key.group) return 1;
  *session = key.session(ssl);
  return *session == nullptr ? 0 : 1;
}

}  // namespace

TlsKey::TlsKey(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsKey::~TlsKey() = default;

Result<std::shared_ptr<const TlsKey>> TlsKey::make(std::string group, std::string secret) {
  if (group.empty() || secret.size() < kMinSecretBytes) {
    return fail(ErrorKind::invalid, fmt::format("a key for TLS needs a name and {} bytes, not {}",
                                                kMinSecretBytes, secret.size()));
  }
  // Whatever a machine's openssl.cnf says is for its own programs; it may ask for plug-ins, too.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  auto impl = std::make_unique<Impl>();
  impl->group = std::move(group);
  impl->secret = std::move(secret);
  impl->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = impl->context.get();
  if (context == nullptr || !choose_tls(context)) {
    return fail(ErrorKind::unsupported, "OpenSSL cannot be used here: " + last_problem());
  }
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, offer_key<Impl>);
  SSL_CTX_set_psk_find_session_callback(context, find_key<Impl>);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  return std::shared_ptr<const TlsKey>(new TlsKey(std::move(impl)));
}

struct TlsStream::Impl : std::enable_shared_from_this<Impl> {
  Impl(EventLoop& its_loop, std::shared_ptr<const TlsKey> its_key, FileDescriptor its_socket,
       Events its_events)
      : loop(its_loop),
        key(std::move(its_key)),
        socket(std::move(its_socket)),
        events(std::move(its_events)) {}

  void start(Role role);
  void advance();
  void shake_hands();
  void read();
  std::size_t write(ByteView bytes);
  void fail_with(Error why);
  Error problem(int result, std::string_view doing);
  void stop();

  EventLoop& loop;
  std::shared_ptr<const TlsKey> key;
  FileDescriptor socket;
  Events events;
  std::unique_ptr<SSL, FreeStream> ssl;
  std::vector<std::byte> buffer;
  bool open = false;
  bool closed = false;
  bool full = false;  // write() has turned something away
};

void TlsStream::Impl::start(Role role) {
  ssl.reset(SSL_new(key->impl_->context.get()));
  if (!ssl || SSL_set_ex_data(ssl.get(), TlsKey::Impl::index(), key->impl_.get()) != 1 ||
      SSL_set_fd(ssl.get(), socket.get()) != 1) {
    // Later: nobody holds the stream yet.
    loop.post([self = shared_from_this()] {
      self->fail_with({ErrorKind::exhausted, "cannot create a TLS stream: " + last_problem(), {}});
    });
    return;
  }
  if (role == Role::client) {
    SSL_set_connect_state(ssl.get());
    // Who shows a certificate instead of knowing the secret is trusted by nobody. The end that
    // answers has none to show. No signature of a certificate is looked at, therefore:
    // tls_choice.cc leaves out some of what that would take.
    SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(ssl.get());
  }
  loop.watch(
      socket.get(), [self = weak_from_this()] { self.lock()->advance(); },
      [self = weak_from_this()] { self.lock()->advance(); });
  loop.want_write(socket.get(), true);
}

// Something may go on: the handshake, reading, writing.
void TlsStream::Impl::advance() {
  const auto self = shared_from_this();
  if (closed) return;
  if (!open) return shake_hands();
  if (full) {
    full = false;
    loop.want_write(socket.get(), false);
    if (events.on_room) events.on_room();
    if (closed) return;
  }
  read();
}

void TlsStream::Impl::shake_hands() {
  int refused = 0;
  socklen_t size = sizeof refused;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &refused, &size);
  if (refused != 0) return fail_with({ErrorKind::unavailable, errno_text(refused), {}});
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl.get());
  if (result == 1) {
    // A full handshake would have ended by verifying a certificate; look all the same.
    if (SSL_session_reused(ssl.get()) != 1 || SSL_version(ssl.get()) != TLS1_3_VERSION) {
      return fail_with({ErrorKind::denied, "the other end failed to authenticate", {}});
    }
    open = true;
    loop.want_write(socket.get(), false);
    events.on_open();
    if (!closed) read();
    return;
  }
  const int why = SSL_get_error(ssl.get(), result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    loop.want_write(socket.get(), why == SSL_ERROR_WANT_WRITE);
    return;
  }
  fail_with(problem(why, "the handshake failed"));
}

void TlsStream::Impl::read() {
  if (buffer.empty()) buffer.resize(kReadBytes);
  for (std::size_t taken = 0; taken < kTurnBytes;) {
    std::size_t filled = 0;
    bool more = true;
    std::optional<Error> broken;
    while (more && filled < buffer.size()) {
      ERR_clear_error();
      std::size_t count = 0;
      const int result =
          SSL_read_ex(ssl.get(), buffer.data() + filled, buffer.size() - filled, &count);
      filled += count;
      more = result == 1;
      if (more) continue;
      const int why = SSL_get_error(ssl.get(), result);
      // Reading waits for room only to go on with what write() began, and that is `full` then.
      const bool waits = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
      if (!waits) broken = problem(why, "the connection broke");
    }
    taken += filled;
    if (filled > 0) events.on_bytes(ByteView(buffer).first(filled));
    if (closed) return;
    if (broken) return fail_with(*std::move(broken));
    if (!more) return;
  }
  // What OpenSSL has read ahead shows on no socket.
  loop.post([self = weak_from_this()] {
    if (const auto stream = self.lock()) stream->advance();
  });
}

std::size_t TlsStream::Impl::write(ByteView bytes) {
  if (!open || closed) return 0;
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ByteView rest = bytes.subspan(written, std::min(bytes.size() - written, kTurnBytes));
    std::size_t count = 0;
    ERR_clear_error();
    // A broken connection is told by the reading side.
    if (SSL_write_ex(ssl.get(), rest.data(), rest.size(), &count) != 1) break;
    written += count;
  }
  if (written < bytes.size()) {
    full = true;
    loop.want_write(socket.get(), true);
  }
  return written;
}

Error TlsStream::Impl::problem(int why, std::string_view doing) {
  const int system = errno;
  if (why == SSL_ERROR_ZERO_RETURN) return {ErrorKind::lost, {}, {}};
  if (why == SSL_ERROR_SYSCALL) {
    const std::string text =
        system == 0 ? "the stream ended in the middle of a message" : errno_text(system);
    return {ErrorKind::lost, fmt::format("{}: {}", doing, text), {}};
  }
  return {
      open ? ErrorKind::lost : ErrorKind::denied, fmt::format("{}: {}", doing, last_problem()), {}};
}

void TlsStream::Impl::fail_with(Error why) {
  if (closed) return;
  const auto on_closed = std::move(events.on_closed);
  stop();
  on_closed(std::move(why));
}

void TlsStream::Impl::stop() {
  if (std::exchange(closed, true)) return;
  if (open) {
    ERR_clear_error();
    SSL_shutdown(ssl.get());  // "this is all", where there is room to say it
  }
  loop.unwatch(socket.get());
  socket.reset();
}

TlsStream::TlsStream(EventLoop& loop, std::shared_ptr<const TlsKey> key, Role role,
                     FileDescriptor socket, Events events)
    : impl_(std::make_shared<Impl>(loop, std::move(key), std::move(socket), std::move(events))) {
  impl_->start(role);
}

TlsStream::~TlsStream() { impl_->stop(); }

std::size_t TlsStream::write(ByteView bytes) { return impl_->write(bytes); }

}  // namespace skyward::io
