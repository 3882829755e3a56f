#pragma once

// What one end of a connection without descriptors still has to send. Large buffers travel as a
// sequence of BlobChunk messages, and messages that do not need them overtake: a small task, a
// cancellation, a heartbeat never waits behind a gigabyte.
//
// Order is kept where it matters: a message follows the last part of each blob that it uses, and
// the messages of one task stay in order. The same bytes are sent only once: a message refers to a
// blob that the other end has, known by its ContentId. Blobs that no task uses any more stay there
// up to a limit; the least recently used are dropped first.
//
// The other end may get a blob from a third one (FetchBlob): then this end does not send it.
// Messages that use it wait until the other end reports that it has it, or for the missing parts.
//
// Pure: the owner numbers and writes what next_urgent() and next_bulk() give.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/wire/message.h"

namespace skyward::wire {

class Outbox {
 public:
  // The bytes of a blob, for reading. May fail with `exhausted`.
  using Read = std::function<Result<SharedBytes>(const Blob&)>;
  explicit Outbox(Read read) : read_(std::move(read)) {}

  // Takes a message; on failure (a blob cannot be read), it is unchanged. DropBlobs is handled
  // here: the blobs that it names may stay at the other end for a while.
  Status push(Message& message);

  // Makes the other end get a blob from a third one, or (without a port) from here after all. Call
  // before the first message that uses the blob. Returns the answer if the request is unnecessary,
  // because the other end has the bytes or they are being sent.
  std::optional<BlobFetched> push(FetchBlob fetch);
  // How that ended. False if nobody waits for it any more. Also that the other end had no room for
  // a blob (kNotAsked): then it is sent again when a message uses it.
  bool take(const BlobFetched& fetched);

  // The limit of unused blobs at the other end, in bytes.
  void set_budget(std::uint64_t bytes);

  // The next message that waits for no blob. All of these precede next_bulk().
  std::optional<Message> next_urgent();
  // The next part of a blob, or the message that waited for it. Call whenever the connection has
  // nothing to write.
  std::optional<Message> next_bulk();

  // Withdraws a task that still waits for its blobs. Does nothing if it was sent or never came.
  std::optional<RunTask> withdraw(TaskId task);

  // Bytes of blobs that wait to be sent.
  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  bool empty() const { return urgent_.empty() && held_.empty(); }

  // Held messages that withdraw() has looked at so far: its cost, for tests.
  std::uint64_t looked_at() const { return looked_at_; }
  // Aborts the program when the indexes contradict what they index.
  void sanity_check() const;

 private:
  // A blob as the other end knows it.
  enum class Fetch : std::uint8_t { none, running, stopped };
  struct Content {
    Blob blob;          // under its id there
    SharedBytes bytes;  // until all are sent
    std::uint64_t sent = 0;
    Fetch fetch = Fetch::none;
    std::uint32_t attempt = 0;             // of the fetch
    bool send_rest = false;                // from here, after the fetch has stopped
    std::unordered_set<BlobId> users;      // ids by which tasks of this end refer to it
    std::uint32_t waiting = 0;             // held messages that use it
    bool once = false;                     // for one message only
    bool lost = false;                     // the other end had no room; nothing new refers to it
    std::list<BlobId>::iterator unused{};  // place among the unused, if users is empty

    bool whole() const { return sent == blob.size && fetch == Fetch::none; }
    bool is_known_there() const { return sent > 0 || fetch != Fetch::none; }
    // What remains to be sent from here.
    std::uint64_t unsent() const { return fetch == Fetch::none ? blob.size - sent : 0; }
  };
  struct Held {
    Message message;
    std::vector<BlobId> uses;
    std::optional<TaskId> task;
  };
  using HeldPlace = std::list<Held>::iterator;

  Result<std::vector<BlobId>> name_blobs(std::span<Buffer* const> buffers, bool once);
  Result<BlobId> name_blob(const Blob& blob, bool once);
  Result<SharedBytes> read_whole(const Blob& blob) const;
  std::optional<BlobId> known(const Blob& blob) const;
  BlobId add(Content content, const Blob& blob);
  void use(BlobId name, BlobId user);
  std::optional<Message> next_chunk(const std::vector<BlobId>& uses);
  Message release_held(HeldPlace place);
  void attach_body(RunTask& run);
  void release(BlobId user);
  void forget(std::unordered_map<BlobId, Content>::iterator content, bool tell);
  void lose(std::unordered_map<BlobId, Content>::iterator content);
  void unlist(BlobId name, const Content& content);
  void let_go(const std::vector<BlobId>& uses);
  void note_sent(const Message& message);
  void keep_within_budget();
  // Changes what has been sent of a content, or by whom, and keeps the sum over all contents.
  template <typename Change>
  void change(Content& content, const Change& how) {
    waiting_bytes_ -= content.unsent();
    how();
    waiting_bytes_ += content.unsent();
  }

  Read read_;
  std::deque<Message> urgent_;
  std::list<Held> held_;
  std::unordered_map<TaskId, std::deque<HeldPlace>> held_tasks_;  // the messages of each, in order
  std::unordered_map<FunctionId, Buffer> bodies_;                 // not sent yet
  std::unordered_map<BlobId, Content> contents_;
  std::unordered_map<BlobId, BlobId> names_;  // ours → the other end's
  std::map<ContentId, BlobId> by_content_;
  std::list<BlobId> unused_;  // the longest unused first
  std::uint64_t unused_bytes_ = 0;
  std::uint64_t waiting_bytes_ = 0;  // sum of unsent() over contents_
  std::uint64_t looked_at_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t next_name_ = 1;
};

}  // namespace skyward::wire
